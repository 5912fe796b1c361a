"""Hooks: the registered plugins, and the calls of their contributors. `here` is the process-wide instance.

pluggy stores the plugins and checks their signatures. Observers are registered with tinygraft.events, whose booleans
say whether there are any; contributors are called one by one, so that an error can name the plugin. Without a plugin
pluggy is not imported, and the attributes that core reads stay False.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.config import PROFILE, TINYGRAFT_STRICT_PLUGINS, TINYGRAFT_TRACE_PLUGINS
from tinygraft.errors import HookError
from tinygraft.events import CompileEvent, DeviceEvent, LaunchEvent, MemoryEvent, RenderEvent, ScheduleEvent
from tinygraft.helpers import warn_user
from tinygraft.installed.entries import HOOKS, apply_lists, forget, installed_entries, origin
from tinygraft.installed.records import Record, Status, describe
from tinygraft.target import Target

if TYPE_CHECKING:
    from pluggy import HookImpl, PluginManager

    from tinygraft.hooks.requests import CodegenPass, CommandRegistry, DefaultRequest, DoctorCheck, ProfileSink

OBSERVERS: dict[str, type] = {
    "tinygraft_on_device": DeviceEvent, "tinygraft_on_schedule": ScheduleEvent, "tinygraft_on_render": RenderEvent,
    "tinygraft_on_compile": CompileEvent, "tinygraft_on_launch": LaunchEvent, "tinygraft_on_memory": MemoryEvent,
}  # fmt: skip


class Hooks:
    """The hook plugins of a process. `path` is where installed ones are searched; None is sys.path.

    `loaded` says that the installed ones were loaded; `has_passes` and `has_choice` that a plugin contributes codegen
    passes, or implements the choice of the default device.
    """

    loaded: bool
    has_passes: bool
    has_choice: bool

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self.path = path
        self.loaded = self.has_passes = self.has_choice = False
        self._records: list[Record] = []
        self._manager: PluginManager | None = None
        self._undo: list[Callable[[], None]] = []  # of the installed ones
        self._passes: dict[tuple[str, Target], tuple[CodegenPass, ...]] = {}
        self._owners: dict[str, str] = {}  # of passes, by their ids
        self._lock = threading.RLock()

    # Plugins

    def register(self, plugin: object, name: str = "") -> Callable[[], None]:
        """Register the functions of a module or object that are marked with hookimpl. Returns a function to undo that.

        `name` is that of the plugin in errors; by default that of the module or class. Raises HookError when it has no
        hook, one that tinygraft does not know or cannot call, or is registered already.
        """
        from tinygraft.hooks.specs import new_manager

        with self._lock:
            manager = self._manager = self._manager or new_manager()
            name = name or _name_of(plugin)
            base, number = name, 1
            while manager.has_plugin(name):
                number += 1
                name = f"{base} ({number})"
            if manager.is_registered(plugin):
                raise HookError(f"{base} is registered already")
            try:
                manager.register(plugin, name)
                _check(manager, plugin)
            except Exception as error:
                if manager.is_registered(plugin):
                    manager.unregister(plugin)
                from tinygraft.hooks.hook_loading import why_refused

                raise HookError(f"the hooks of {name} cannot be registered: {why_refused(error)}") from error
            stops = [_observe(hook, impl) for hook, impl in _impls(manager, plugin) if hook in OBSERVERS]
            self._changed()

        def undo() -> None:
            """Unregister the plugin; does nothing when called again."""
            with self._lock:
                while stops:
                    stops.pop()()
                if manager.is_registered(plugin):
                    manager.unregister(plugin)
                self._changed()

        return undo

    def load(self) -> None:
        """Load the installed hook plugins; a second call does nothing. With PROFILE=1 the profile of their profilers
        begins here, if they contribute any; the engine's own is in engine/profiling.

        A plugin that fails is a record and a warning; HookError with TINYGRAFT_STRICT_PLUGINS=1.
        """
        with self._lock:
            if self.loaded:
                return
            self.loaded = True  # at once: what a plugin computes while it is loaded does not load it again
            for record in self.records():
                if record.status is Status.DECLARED or record.tried:
                    self._load_one(record)
            if PROFILE.value and self.has_profiler():
                whole = self.profile("PROFILE=1")
                whole.__enter__()
                atexit.register(whole.__exit__, None, None, None)

    def has_profiler(self) -> bool:
        """Return whether a plugin contributes a profiler."""
        return self._manager is not None and bool(self._manager.hook.tinygraft_profiler.get_hookimpls())

    def load_none(self) -> None:
        """Load no installed plugin in this process, as in the child process that probes one."""
        self.loaded = True

    def unload(self) -> None:
        """Unregister the installed plugins; the next `load` reads again what is installed."""
        with self._lock:
            while self._undo:
                self._undo.pop()()
            forget()
            self._records.clear()
            self.loaded = False

    def records(self) -> list[Record]:
        """Return one record for each installed hook plugin, by distribution. Reads metadata only."""
        with self._lock:
            if not self._records:
                self._records = _declared(installed_entries(HOOKS, self.path))
            return list(self._records)

    def names(self, plugin: object = None) -> list[str]:
        """Return the hooks that `plugin`, or any, implements, without the prefix tinygraft_."""
        manager = self._manager
        if manager is None:
            return []
        plugins = manager.get_plugins() if plugin is None else [plugin]
        found = {name for one in plugins for name, _ in _impls(manager, one)}
        return sorted(name.removeprefix("tinygraft_") for name in found)

    def _load_one(self, record: Record) -> None:
        """Load one installed plugin and register its hooks; warn of a bad one.

        Raises HookError in place of the warning with TINYGRAFT_STRICT_PLUGINS=1.
        """
        from tinygraft.hooks.hook_loading import examine, load, problem_of, why_refused

        if not record.tried:
            examine(record)
        if record.status is Status.LOADED:
            plugin = load(record)
            if plugin is not None:
                try:
                    self._undo.append(self.register(plugin, record.provided_by))
                except HookError as error:
                    record.move(Status.INVALID, why_refused(error), f"tell the authors of {record.provided_by}", error)
                else:
                    record.move(Status.LOADED, ", ".join(self.names(plugin)))
        if record.status.is_problem:
            text = problem_of(record)
            if TINYGRAFT_STRICT_PLUGINS.value:
                raise HookError(f"TINYGRAFT_STRICT_PLUGINS=1 does not allow this: {text}")
            warn_user(f"{text}; details: python -m tinygraft doctor", RuntimeWarning)

    def _changed(self) -> None:
        """Clear what was derived from the registered plugins, and set which contributions exist.

        The two flags spare callers a search through pluggy for each kernel.
        """
        self._passes.clear()
        implemented = self.names()
        self.has_passes = "codegen_passes" in implemented
        self.has_choice = "choose_default" in implemented

    # Contributors

    def ask(self, hook: str, *request: object) -> Iterator[tuple[str, Any]]:
        """Call a hook of each plugin with a request. Yields (name of the plugin, result), the last registered first.

        Results that are None are omitted. Raises HookError, naming the plugin, when one raises. They are called as the
        results are gone through.
        """
        manager = self._manager
        if manager is None:
            return
        for impl in reversed(getattr(manager.hook, hook).get_hookimpls()):
            _trace(hook, impl)
            try:
                given = impl.function(*request[: len(impl.argnames)])
            except (Exception, SystemExit) as error:
                raise HookError(f"{hook} of {impl.plugin_name} raised {describe(error)}") from error
            if given is not None:
                yield impl.plugin_name, given

    def passes(self, stage: str, target: Target) -> tuple[CodegenPass, ...]:
        """Return the contributed passes of a stage of codegen for a Target, in order. Raises HookError."""
        found = self._passes.get((stage, target))
        if found is None:
            from tinygraft.hooks.requests import CodegenPass, PassRequest  # here and below: only plugins need them

            owners: dict[str, str] = {}
            passes: list[CodegenPass] = []
            request = PassRequest(stage=stage, target=target)
            for owner, given in self.ask("tinygraft_codegen_passes", request):
                for one in _items(given, CodegenPass, "tinygraft_codegen_passes", owner):
                    if one.id in owners:
                        raise HookError(f"{owner} and {owners[one.id]} both contribute a codegen pass {one.id!r}")
                    owners[one.id] = owner
                    passes.append(one)
            self._owners |= owners
            found = self._passes[stage, target] = tuple(sorted(passes, key=lambda one: (one.order, one.id)))
        return found

    def owner_of(self, one: CodegenPass) -> str:
        """Return the name of the plugin that contributes a pass."""
        return self._owners[one.id]

    def pass_keys(self, targets: Iterable[Target]) -> tuple[str, ...]:
        """Return what is part of the keys of kernels for `targets`: stage, id and version of each contributed pass."""
        if not self.has_passes:
            return ()
        from tinygraft.hooks.requests import STAGES

        return tuple(
            f"{number} {stage} {one.id} {one.version}" for number, target in enumerate(targets) for stage in STAGES
            for one in self.passes(stage, target)
        )  # fmt: skip

    def choose_default(self, request: DefaultRequest) -> tuple[str, str] | None:
        """Return (device, plugin) of the first plugin that names a default; None when none does. Raises HookError."""
        for owner, name in self.ask("tinygraft_choose_default", request):
            if not isinstance(name, str):
                what = type(name).__name__
                raise HookError(f"tinygraft_choose_default of {owner} returned a {what}, not a name or None")
            return name, owner
        return None

    def doctor_checks(self) -> list[tuple[str, DoctorCheck]]:
        """Return the checks that plugins add to `doctor`, each with the plugin's name. Raises HookError."""
        from tinygraft.hooks.requests import DoctorCheck

        return [
            (owner, check) for owner, given in self.ask("tinygraft_doctor_checks")
            for check in _items(given, DoctorCheck, "tinygraft_doctor_checks", owner)
        ]  # fmt: skip

    def conformance_suites(self, spec: object) -> list[type]:
        """Return the test classes that plugins add for the device of a DeviceSpec. Raises HookError."""
        return [
            suite for owner, given in self.ask("tinygraft_conformance_suites", spec)
            for suite in _items(given, type, "tinygraft_conformance_suites", owner)
        ]  # fmt: skip

    def commands(self) -> tuple[CommandRegistry, list[str]]:
        """Return the commands that plugins add, and a sentence for each plugin that failed and adds none."""
        from tinygraft.hooks.requests import CommandRegistry

        registry, failures = CommandRegistry(), []
        for impl in self._manager.hook.tinygraft_cli.get_hookimpls() if self._manager else ():
            _trace("tinygraft_cli", impl)
            before = dict(registry.commands)
            try:
                impl.function(*[registry][: len(impl.argnames)])
            except (Exception, SystemExit) as error:
                registry.commands.clear()
                registry.commands.update(before)
                failures.append(f"tinygraft_cli of {impl.plugin_name} raised {describe(error)}")
        return registry, failures

    @contextmanager
    def profile(self, name: str = "") -> Iterator[None]:
        """Send every event of the block to the profilers that plugins contribute.

        Each launch is synchronised and timed meanwhile. `name` is that of the profile. Raises HookError when there is
        no profiler.
        """
        from tinygraft.hooks.requests import ProfileSession, ProfileSink

        self.load()
        sinks: list[tuple[str, ProfileSink]] = []
        for owner, sink in self.ask("tinygraft_profiler", ProfileSession(name=name)):
            if not isinstance(sink, ProfileSink):
                raise HookError(f"tinygraft_profiler of {owner} returned a {type(sink).__name__}, not a ProfileSink")
            sinks.append((owner, sink))
        if not sinks:
            raise HookError("no hook plugin contributes a profiler (tinygraft_profiler); install or register one")
        stops = [events.observe(_PluginObserver(sink.take, owner, True), *OBSERVERS.values()) for owner, sink in sinks]
        try:
            yield
        finally:
            for stop in stops:
                stop()
            for owner, sink in sinks:
                try:
                    sink.close()
                except (Exception, SystemExit) as error:
                    warn_user(f"the profiler of {owner} raised {describe(error)} at its end", RuntimeWarning)


class _PluginObserver:
    """A function of a plugin that is called with events. `has_argument`: pluggy allows a hook without its argument."""

    __slots__ = ("_function", "_has_argument", "observer_name")

    def __init__(self, function: Callable[..., object], name: str, has_argument: bool) -> None:
        self._function, self.observer_name, self._has_argument = function, name, has_argument

    def __call__(self, event: object) -> None:
        """Call the function with an event; with TINYGRAFT_TRACE_PLUGINS=1 print that."""
        if TINYGRAFT_TRACE_PLUGINS.value:
            print(f"tinygraft: {self.observer_name} is notified of {event}", file=sys.stderr)
        self._function(*[event][: self._has_argument])


def _observe(hook: str, impl: HookImpl) -> Callable[[], None]:
    """Register an observer of a plugin for the events of a hook. Returns what unregisters it."""
    return events.observe(
        _PluginObserver(impl.function, f"{hook} of {impl.plugin_name}", bool(impl.argnames)), OBSERVERS[hook]
    )


def _trace(hook: str, impl: HookImpl) -> None:
    """Print that a hook is called, with TINYGRAFT_TRACE_PLUGINS=1."""
    if TINYGRAFT_TRACE_PLUGINS.value:
        print(f"tinygraft: {hook} of {impl.plugin_name} is called", file=sys.stderr)


def _impls(manager: PluginManager, plugin: object) -> list[tuple[str, HookImpl]]:
    """Return the functions of a plugin that are hooks, each with the name of its hook."""
    callers = manager.get_hookcallers(plugin) or []
    return [(caller.name, impl) for caller in callers for impl in caller.get_hookimpls() if impl.plugin is plugin]


def _check(manager: PluginManager, plugin: object) -> None:
    """Raise ValueError for what pluggy accepts: no hook at all, an unknown one, a wrapper, a missing mark."""
    impls = _impls(manager, plugin)
    known = {name for name, caller in vars(manager.hook).items() if name.startswith("tinygraft_") and caller.spec}
    for hook, impl in impls:
        if hook not in known:
            raise ValueError(f"there is no hook {hook}; the hooks are {', '.join(sorted(known))}")
        if impl.hookwrapper or impl.wrapper:
            raise ValueError(f"its {hook} is a wrapper, and each hook is called by itself")
    for hook in sorted(known - {hook for hook, _ in impls}):
        if callable(getattr(plugin, hook, None)):
            raise ValueError(f"its {hook} is not marked with @tinygraft.hooks.hookimpl")
    if not impls:
        raise ValueError("it implements no hook; mark its functions with @tinygraft.hooks.hookimpl")


def _name_of(plugin: object) -> str:
    """Return the name of a module, or of the class of an object."""
    return getattr(plugin, "__name__", "") or type(plugin).__qualname__


def _items(given: object, kind: type, hook: str, owner: str) -> list[Any]:
    """Return `given`, the result of a contributor, as a list. Raises HookError where an item is no `kind`."""
    items = list(given) if isinstance(given, list | tuple) else None
    if items is None or not all(isinstance(item, kind) for item in items):
        what = "a class" if kind is type else kind.__name__
        raise HookError(f"{hook} of {owner} returned {given!r}, not a list whose items are each {what}")
    return items


def _declared(entries: Iterable[Any]) -> list[Record]:
    """Return records of hook plugins, with the lists of allowed and disabled plugins applied.

    Of several entries of one name in one distribution the first counts; the others are in its `shadowed`.
    """
    records: dict[tuple[str, str], Record] = {}
    for entry in entries:
        distribution, version = origin(entry)
        key = distribution, entry.name
        if key not in records:
            records[key] = Record(entry.name, distribution, version, entry)
            apply_lists(records[key])
        elif entry.value != records[key].entry.value:
            records[key].shadowed += (f"{distribution} {version} ({entry.value})",)
    return [records[key] for key in sorted(records)]


here: Hooks = Hooks()


def _after_fork() -> None:
    """In a forked child: a new lock, since another thread of the parent may have held the old one."""
    here._lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
