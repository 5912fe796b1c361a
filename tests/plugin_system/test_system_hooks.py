"""Hooks: each of the twelve is called with its object, a bad plugin harms nobody, and nothing is paid without one."""

import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

from tinygraft import Context, Device, Tensor, config, events, hooks
from tinygraft.cli.main import main
from tinygraft.codegen.options import Options
from tinygraft.device.select import wanted_by_plugins
from tinygraft.engine import compile, diskcache, plan
from tinygraft.errors import DeviceError, DeviceUnavailable, HookError
from tinygraft.hooks import (
    CodegenPass,
    Command,
    DoctorCheck,
    ProfileSink,
    hookimpl,
)
from tinygraft.hooks.manager import OBSERVERS, here
from tinygraft.hooks.specs import new_manager
from tinygraft.installed.records import Status
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Kernel

TWELVE = {
    "tinygraft_on_device": ["event"],
    "tinygraft_on_schedule": ["event"],
    "tinygraft_on_render": ["event"],
    "tinygraft_on_compile": ["event"],
    "tinygraft_on_launch": ["event"],
    "tinygraft_on_memory": ["event"],
    "tinygraft_codegen_passes": ["request"],
    "tinygraft_profiler": ["session"],
    "tinygraft_doctor_checks": [],
    "tinygraft_conformance_suites": ["spec"],
    "tinygraft_cli": ["commands"],
    "tinygraft_choose_default": ["request"],
}


def plain(function):
    """A function that can be marked: a built-in one, such as a list's append, cannot."""
    return function if hasattr(function, "__code__") else lambda event: function(event)


@pytest.fixture
def register(installed_hooks):
    """Register plugins that are forgotten at the end of the test."""
    undo = []

    def add(**functions):
        marked = {f"tinygraft_{name}": staticmethod(hookimpl(plain(f))) for name, f in functions.items()}
        plugin = type("Plugin", (), marked)()
        undo.append(here.register(plugin, "the plugin"))
        return undo[-1]

    yield add
    for one in undo:
        one()


def values(*numbers):
    """A computation that no other test has: its kernel is made anew."""
    return (Tensor(list(numbers), device="PYTHON") * 2 + len(numbers)).tolist()


def large(size):
    """A tensor that takes memory of a size that nothing else has."""
    return Tensor(np.zeros(size, np.float32), device="PYTHON").realize()


def test_there_are_twelve():
    """The hooks and their arguments are those of the contract; each has one object at most."""
    manager = new_manager()
    specs = {name: caller.spec for name, caller in vars(manager.hook).items() if name.startswith("tinygraft_")}
    assert {name: list(spec.argnames) for name, spec in specs.items()} == TWELVE
    assert [name for name, spec in specs.items() if spec.opts.get("firstresult")] == ["tinygraft_choose_default"]
    assert set(OBSERVERS) == {name for name in TWELVE if name.startswith("tinygraft_on_")}


# Observers


def test_each_observer_is_told(register):
    """A computation tells the observers of schedules, sources, compilations, launches and memory what they are for."""
    seen = []
    kinds = ("schedule", "render", "compile", "launch", "memory")
    register(**{f"on_{kind}": lambda event: seen.append(event) for kind in kinds})
    with Context(CACHELEVEL=0):
        assert values(1, 2, 3, 4, 5, 6, 7) == [9, 11, 13, 15, 17, 19, 21]
    by_kind = {}
    for event in seen:
        by_kind.setdefault(type(event).__name__, []).append(event)
    (schedule,) = by_kind["ScheduleEvent"]
    assert (schedule.devices, schedule.kernels, schedule.copies) == (("PYTHON",), 1, 0)
    (rendered,) = by_kind["RenderEvent"]
    assert (rendered.device, rendered.name) == ("PYTHON", "E_7")
    assert len(rendered.text) > 10
    (compiled,) = by_kind["CompileEvent"]
    assert (compiled.name, compiled.device, compiled.cached) == ("E_7", "PYTHON", False)
    assert compiled.bytes > 0
    (launch,) = by_kind["LaunchEvent"]
    assert (launch.name, launch.bytes, launch.seconds > 0) == ("E_7", 56, True)
    assert {(event.action, event.device, event.bytes) for event in by_kind["MemoryEvent"]} >= {("copy", "PYTHON", 28)}


def test_memory_is_told_when_it_is_taken_and_given_back(register):
    """A size that nothing is kept of is taken from the device, and goes back there by empty_cache."""
    seen = []
    register(on_memory=seen.append)
    t = large(123_457)
    taken = [event for event in seen if event.action == "alloc" and event.bytes >= 4 * 123_457]
    assert taken
    assert taken[0].used >= taken[0].bytes
    del t
    Device.empty_cache("PYTHON")
    assert [event.bytes for event in seen if event.action == "free" and event.bytes == taken[0].bytes]


def test_an_observer_may_compute(register):
    """What an observer of memory does with tensors is told too, and does not hang."""
    seen = []

    def told(event):
        seen.append(event)
        if len(seen) == 1:
            large(98_765)

    register(on_memory=told)
    large(87_654)
    assert {event.bytes for event in seen} >= {4 * 98_765, 4 * 87_654}


def test_devices_are_told(register, fakes):
    """A device is loaded, opened and closed; one that cannot be is told with its reason."""
    seen = []
    register(on_device=lambda event: seen.append((event.action, event.name, event.detail)))
    fakes.add("TOY", count=2)
    fakes.add("WRECK", "#!\nraise OSError('wrecked')\n")
    fakes.add("STUCK", "class Backend(NullBackend):\n    def __init__(self, *_):\n        raise OSError('in use')\n")
    registry = fakes.registry()
    assert registry["TOY:1"].name == "TOY:1"
    for name in ("WRECK", "STUCK"):
        with pytest.raises(DeviceUnavailable):
            registry[name]
    registry.close()
    assert seen == [
        ("loaded", "TOY", "a device of a test"),
        ("opened", "TOY:1", "found"),
        ("failed", "WRECK", "OSError: wrecked"),
        ("loaded", "STUCK", "a device of a test"),
        ("failed", "STUCK", "OSError: in use"),
        ("closed", "TOY:1", ""),
    ]


def test_a_cached_kernel_is_told_as_such(register):
    """A kernel that the disk has is told as compiled without a compiler: cached, in no time."""
    seen = []
    register(on_compile=seen.append)
    with Context(DEV="CPU"):
        for _ in range(2):
            (Tensor([1.0, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]) * 3 + 11).tolist()
            compile.clear()
            plan.clear()
    assert [event.cached for event in seen] == [False, True]
    assert seen[1].seconds == 0.0


def test_an_observer_changes_nothing(register):
    """Whoever listens to launches does not make graphs be scheduled again: that is for who looks at stages."""
    schedules, launches = [], []
    values(1, 2, 3, 4)
    register(on_schedule=schedules.append, on_launch=launches.append)
    values(5, 6, 7, 8)
    assert (len(schedules), len(launches)) == (0, 1)


def test_an_observer_that_raises_is_dropped(register):
    """An observer that raises is dropped with one warning that names it; the others and the program go on."""
    seen = []

    def broken(event):
        raise ValueError("out of ink")

    register(on_launch=broken)
    register(on_launch=seen.append)
    sentence = (
        "the observer tinygraft_on_launch of the plugin raised ValueError: out of ink when told of a LaunchEvent; "
        "it is not told of anything else of that kind"
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        assert values(1, 2) == [4, 6]
        assert values(3, 4) == [8, 10]
    assert [str(warning.message) for warning in said] == [sentence]
    assert len(seen) == 2


def test_an_observer_may_leave_its_argument_out(register):
    """pluggy's rule holds: a function takes as many arguments as it wants."""
    seen = []
    register(on_launch=lambda: seen.append(1))
    values(1, 2)
    assert seen == [1]


def test_trace_prints_hook_calls(register, setting, capsys):
    """TINYGRAFT_TRACE_PLUGINS=1 prints each hook that is called, and whose it is."""
    register(on_launch=lambda event: None, codegen_passes=lambda request: None)
    setting(config.TINYGRAFT_TRACE_PLUGINS, 1)
    values(1, 2, 3, 4, 5, 6, 7, 8, 9)
    said = capsys.readouterr().err
    assert "tinygraft: tinygraft_on_launch of the plugin is told of LaunchEvent(name=" in said
    assert "tinygraft: tinygraft_codegen_passes of the plugin is asked" in said


# Registration


def test_undo_forgets_a_plugin(register):
    """What register returned undoes it, once; the flags that core reads are as before."""
    seen = []
    undo = register(on_launch=seen.append, codegen_passes=lambda request: None, choose_default=lambda request: None)
    assert (events.on_launch, here.has_passes, here.has_choice) == (True, True, True)
    undo()
    undo()
    assert (events.on_launch, here.has_passes, here.has_choice) == (False, False, False)
    values(1, 2)
    assert seen == []


class Unmarked:
    """A plugin whose author forgot the decorator."""

    def tinygraft_on_launch(self, event):
        """Never called."""


class Wrapper:
    """A plugin that wants to wrap a call."""

    @hookimpl(wrapper=True)
    def tinygraft_on_launch(self, event):
        """Never called."""
        return (yield)


@pytest.mark.parametrize(
    ("plugin", "sentence"),
    [
        (Unmarked(), "the hooks of Unmarked cannot be registered: its tinygraft_on_launch is not marked with "
         "@tinygraft.hooks.hookimpl"),
        (Wrapper(), "the hooks of Wrapper cannot be registered: its tinygraft_on_launch is a wrapper, and each hook "
         "is called by itself"),
        (object(), "the hooks of object cannot be registered: it implements no hook; mark its functions with"),
        (type("Typo", (), {"tinygraft_on_lunch": hookimpl(lambda event: None)}),
         "the hooks of Typo cannot be registered: there is no hook tinygraft_on_lunch; the hooks are tinygraft_c"),
        (type("More", (), {"tinygraft_on_launch": staticmethod(hookimpl(lambda event, more: None))})(),
         "the hooks of More cannot be registered: Plugin 'More' for hook 'tinygraft_on_launch'"),
    ],
    ids=["unmarked", "wrapper", "empty", "typo", "argument"],
)  # fmt: skip
def test_what_cannot_be_registered(installed_hooks, plugin, sentence):
    """A plugin with a mistake is refused as a whole, with the mistake."""
    for _ in range(2):  # nothing of it stays
        with pytest.raises(HookError) as caught:
            hooks.register(plugin)
        assert str(caught.value).startswith(sentence)


def test_twice_is_refused(register):
    """The same object cannot be registered twice; another of its class can."""
    plugin = type("Plugin", (), {"tinygraft_on_launch": staticmethod(hookimpl(lambda event: None))})
    first, second = plugin(), plugin()
    undo = [hooks.register(first), hooks.register(second)]
    try:
        with pytest.raises(HookError, match="Plugin is registered already"):
            hooks.register(first)
    finally:
        for one in undo:
            one()


# Installed plugins

LISTENS = "told = []\n@hookimpl\ndef tinygraft_on_launch(event):\n    told.append(event.name)\n"


def test_an_installed_plugin_is_loaded_by_the_first_realize(fakes, installed_hooks):
    """A distribution with an entry point of the group is found, tried in a child process, imported and called."""
    module = fakes.add_hooks(LISTENS)
    assert [(r.name, r.status) for r in here.records()] == [("extra", Status.DECLARED)]
    assert module not in sys.modules
    values(1, 2)
    (record,) = here.records()
    assert (record.status, record.detail, record.provided_by) == (Status.LOADED, "on_launch", "tinygraft-extra 1.0")
    assert sys.modules[module].told == ["E_2"]


@pytest.mark.parametrize(
    ("code", "status", "sentence"),
    [
        ("raise OSError('wrecked')", Status.BROKEN, "OSError: wrecked"),
        ("raise SystemExit(3)", Status.BROKEN, "SystemExit: 3"),
        ("raise KeyboardInterrupt", Status.BROKEN, "KeyboardInterrupt"),
        ("import os; os.abort()", Status.BROKEN, "loading it in a child process ended it by SIGABRT"),
        ("from tinygraft.plugin import Teleporter", Status.INCOMPATIBLE, "it wants something that this tinygraft"),
        ("x = 1", Status.INVALID, "it implements no hook"),
        ("@hookimpl\ndef tinygraft_on_lunch(event): pass", Status.INVALID, "there is no hook tinygraft_on_lunch"),
        ("@hookimpl\ndef tinygraft_on_launch(event, name): pass", Status.INVALID, "for hook 'tinygraft_on_launch'"),
    ],
)
@pytest.mark.skipif(os.name != "posix", reason="no signals here")
def test_a_bad_plugin_is_a_record(fakes, installed_hooks, code, status, sentence):
    """A plugin that cannot be loaded is a record with its reason and one warning; the program computes."""
    module = fakes.add_hooks(code)
    with pytest.warns(RuntimeWarning, match="the hooks of tinygraft-extra 1.0 cannot be used: .*doctor"):
        assert values(1, 2) == [4, 6]
    (record,) = here.records()
    assert (record.status, sentence in record.detail) == (status, True)
    assert module not in sys.modules
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert values(3, 4) == [8, 10]


def test_strict_makes_a_bad_plugin_an_error(fakes, installed_hooks, setting):
    """TINYGRAFT_STRICT_PLUGINS=1 does not let a broken hook plugin pass."""
    setting(config.TINYGRAFT_STRICT_PLUGINS, 1)
    fakes.add_hooks("raise OSError('wrecked')")
    with pytest.raises(HookError, match="TINYGRAFT_STRICT_PLUGINS=1 does not allow this: the hooks of tinygraft-extra"):
        values(1, 2)


@pytest.mark.parametrize("listed", ["extra", "tinygraft-extra", "tinygraft_extra"])
def test_the_lists_hold_for_hooks(fakes, installed_hooks, setting, listed):
    """The lists of denied and allowed plugins act before import, by name of the entry or of the distribution."""
    module = fakes.add_hooks("import os; os.abort()")
    setting(config.TINYGRAFT_DISABLE_PLUGINS, listed)
    values(1, 2)
    assert [(r.status, r.detail) for r in here.records()] == [
        (Status.DISABLED, f"TINYGRAFT_DISABLE_PLUGINS={listed} switches it off")
    ]
    setting(config.TINYGRAFT_DISABLE_PLUGINS, "")
    setting(config.TINYGRAFT_PLUGINS, "")
    here.unload()
    values(1, 2)
    assert [r.status for r in here.records()] == [Status.DISABLED]
    assert module not in sys.modules


def test_devices_lists_hook_plugins(fakes, installed_hooks, monkeypatch, capsys):
    """`devices` has a line for each hook plugin with its hooks, or with what is wrong; --no-probe imports none."""
    from tinygraft.cli import devices

    monkeypatch.setattr(devices, "Device", fakes.registry())
    modules = [fakes.add_hooks(LISTENS), fakes.add_hooks("raise OSError('wrecked')", name="wreck")]
    assert main(["devices", "--no-probe"]) == 0
    assert "hooks: tinygraft-extra 1.0 extra declared\n" in capsys.readouterr().out
    assert main(["devices"]) == 1
    said = capsys.readouterr().out
    assert "hooks: tinygraft-extra 1.0 extra (on_launch)\n" in said
    assert "hooks: tinygraft-wreck 1.0 wreck broken: OSError: wrecked\n" in said
    assert main(["devices", "--json"]) == 1
    listed = json.loads(capsys.readouterr().out)
    assert [(r["kind"], r["name"], r["status"]) for r in listed] == [
        ("hooks", "extra", "loaded"), ("hooks", "wreck", "broken")
    ]  # fmt: skip
    assert not set(modules) & set(sys.modules)


# Contributors


def test_a_pass_runs_and_is_part_of_the_keys(register):
    """A contributed pass changes the kernels it is asked for, and neither memory nor plans mix them with others."""
    stages = []

    def passes(request):
        stages.append(request.stage)
        if request.stage == "kernel":
            return [CodegenPass(id="count", version=1, run=lambda sink, target: stages.append(sink.op) or sink)]
        return None

    plain = Options.here([Device["PYTHON"].target])
    values(1, 2, 3, 4, 5)
    undo = register(codegen_passes=passes)
    assert Options.here([Device["PYTHON"].target]).passes == ("0 kernel count 1",)
    assert values(6, 7, 8, 9, 10) == [17, 19, 21, 23, 25]
    assert Ops.SINK in stages  # the kernel was there already, and was made anew
    undo()
    assert Options.here([Device["PYTHON"].target]) == plain
    count = len(stages)
    values(1, 2, 3, 4, 5)
    assert len(stages) == count


def test_versions_tell_kernels_apart(register, monkeypatch):
    """Another version of a pass is another key: on disk too, where the name of a pack has it."""
    named = []
    put = diskcache.put
    monkeypatch.setattr(diskcache, "put", lambda name, content: named.append(name) or put(name, content))
    with Context(DEV="CPU", SPEC=0):
        for version in (1, 2):
            undo = register(
                codegen_passes=lambda request, version=version: [
                    CodegenPass(id=f"same {request.stage}", version=version, run=lambda sink, target: sink)
                ]
            )
            plan.clear()
            compile.clear()
            (Tensor([1.0, 2, 3]) * 5 + 17).tolist()
            undo()
    kernels = len(set(named)) - 2
    assert len(named) == len(set(named)) == kernels + 2  # one binary for both, since the source is the same, two packs
    assert kernels == 1


def test_passes_run_in_order(register):
    """Passes of a stage run by order, then by id, whoever contributes them."""
    ran = []

    def make(id, order):
        return CodegenPass(id=id, version=1, order=order, run=lambda sink, target: ran.append(id) or sink)

    for ids in (["b", "late"], ["a"]):
        register(
            codegen_passes=lambda request, ids=ids: (
                [make(id, 5 if id == "late" else 0) for id in ids] if request.stage == "taken" else None
            )
        )
    values(*range(12))
    assert ran == ["a", "b", "late"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (lambda request: 1 / 0, "tinygraft_codegen_passes of the plugin raised ZeroDivisionError: division by zero"),
        (lambda request: "pass",
         "tinygraft_codegen_passes of the plugin gave 'pass', not a list whose items are each CodegenPass"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: sink)] * 2,
         "the plugin and the plugin both contribute a codegen pass 'x'"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: None)],
         "the codegen pass 'x' gave NoneType, not the SINK of a kernel"),
        (lambda request: [CodegenPass(id="x", version=1, run=lambda sink, target: [][1])],
         "the codegen pass 'x' raised IndexError: list index out of range"),
    ],
)  # fmt: skip
def test_a_contributor_that_fails_is_named(register, given, sentence):
    """A contributor that raises, or gives what it should not, is an error that says whose it is."""
    register(codegen_passes=given)
    with pytest.raises(HookError) as caught:
        values(*range(13))
    assert str(caught.value) == sentence


def test_beam_leaves_contributed_passes_alone(register, monkeypatch):
    """A kernel that plugins change is not searched: the child process that times versions has no such plugin."""
    from tinygraft.engine import search

    monkeypatch.setattr(search, "tuned", lambda *_: pytest.fail("searched"))
    register(codegen_passes=lambda request: [CodegenPass(id=request.stage, version=1, run=lambda sink, target: sink)])
    with Context(BEAM=1, CACHELEVEL=0):
        assert values(*range(14))[0] == 14


class Sink(ProfileSink):
    """Keeps what it is told."""

    def __init__(self, session):
        self.session, self.events, self.closed = session, [], False

    def take(self, event):
        """Keep it."""
        self.events.append(event)

    def close(self):
        """Note it."""
        self.closed = True


def test_a_profile_is_given_to_sinks(register):
    """Within hooks.profile every event goes to the sinks of plugins, which are closed at its end."""
    sinks = []
    register(profiler=lambda session: sinks.append(Sink(session)) or sinks[-1])
    with hooks.profile("two numbers"):
        values(1, 2)
        assert events.on_launch
    assert not events.on_launch
    values(3, 4)
    (sink,) = sinks
    assert (sink.session.name, sink.closed) == ("two numbers", True)
    assert [e.name for e in sink.events if isinstance(e, hooks.LaunchEvent)] == ["E_2"]


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (None, "no hook plugin contributes a profiler (tinygraft_profiler); install or register one"),
        (lambda session: None, "no hook plugin contributes a profiler (tinygraft_profiler); install or register one"),
        (lambda session: 3, "tinygraft_profiler of the plugin gave a int, not a ProfileSink"),
        (lambda session: 1 / 0, "tinygraft_profiler of the plugin raised ZeroDivisionError: division by zero"),
    ],
)
def test_a_profile_without_a_sink(register, given, sentence):
    """A profile that nobody keeps is refused."""
    if given is not None:
        register(profiler=given)
    with pytest.raises(HookError) as caught, hooks.profile():
        pass
    assert str(caught.value) == sentence


def test_a_sink_that_fails_at_its_end(register):
    """What a sink raises in close is a warning; the profile has ended all the same."""

    class Bad(Sink):
        def close(self):
            raise OSError("disk full")

    register(profiler=lambda session: Bad(session))
    sentence = "the profiler of the plugin raised OSError: disk full at its end"
    with pytest.warns(RuntimeWarning, match=sentence), hooks.profile():
        pass


def test_profile_1_is_the_whole_program(fakes):
    """PROFILE=1 gives every event until the end of the program to the profilers that are installed."""
    fakes.add_hooks(
        """
        class Count(ProfileSink):
            launches = 0
            def take(self, event):
                self.launches += isinstance(event, LaunchEvent)
            def close(self):
                print("launches:", self.launches)

        @hookimpl
        def tinygraft_profiler(session):
            return Count()
        """
    )
    code = "from tinygraft import Tensor\nfor n in (1, 2): (Tensor([n, 2, 3]) * 2).realize()"
    path = os.pathsep.join([str(fakes.folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PROFILE": "1", "DEV": "PYTHON", "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr) == ("launches: 2\n", "")


def test_a_plugin_chooses_the_default(register, fakes):
    """tinygraft_choose_default sees what is installed and names a device; None leaves it to the priorities."""
    asked = []
    register(choose_default=lambda request: asked.append(request) or "slow")
    fakes.add("FAST", priority=100)
    fakes.add("SLOW", priority=10)
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    assert fakes.registry().DEFAULT == "SLOW"
    (request,) = asked
    assert [(c.name, c.status, c.priority) for c in request.candidates] == [
        ("FAST", "available", 100), ("GONE", "unavailable", 50), ("SLOW", "available", 10)
    ]  # fmt: skip
    register(choose_default=lambda request: None)
    assert fakes.registry().DEFAULT == "SLOW"


def test_settings_win_over_a_plugins_choice(register, fakes, setting):
    """Whoever asks for a device is not overruled."""
    register(choose_default=lambda request: pytest.fail("asked"))
    fakes.add("FAST", priority=100)
    fakes.add("SLOW", priority=10)
    setting(config.DEV, "SLOW")
    assert fakes.registry().DEFAULT == "SLOW"


def test_a_plugins_choice_never_falls_back(register, fakes):
    """A device that a plugin chose and that cannot be used is an error that names the plugin."""
    fakes.add("TOY")
    fakes.add("GONE", "def probe():\n    return Probe(ok=False, detail='no card')\n")
    undo = register(choose_default=lambda request: "GONE")
    registry = fakes.registry()
    with pytest.raises(
        DeviceUnavailable, match="^the plugin chooses GONE: GONE is installed .* but there is none here"
    ):
        registry[registry.DEFAULT]
    undo()
    undo = register(choose_default=lambda request: "TOYY")
    with pytest.raises(DeviceUnavailable, match="^the plugin chooses TOYY: no plugin provides a device TOYY"):
        fakes.registry().DEFAULT  # noqa: B018
    undo()
    register(choose_default=lambda request: 3)
    with pytest.raises(HookError, match="tinygraft_choose_default of the plugin gave a int, not a name or None"):
        fakes.registry().DEFAULT  # noqa: B018


def test_nobody_is_looked_at_without_a_chooser(fakes, installed_hooks):
    """Without such a plugin the choice costs nothing: no record moves."""
    fakes.add("TOY")
    records = fakes.registry().records()
    assert wanted_by_plugins(records) is None
    assert [r.status for r in records] == [Status.DECLARED]


def test_suites_and_checks_are_asked_for(register):
    """The kit asks for further test classes, the doctor for checks; what is none of that names the plugin."""

    class Suite:
        pass

    check = DoctorCheck(name="paper", run=lambda: "fine")
    undo = register(conformance_suites=lambda spec: [Suite] if spec == "TOY" else None, doctor_checks=lambda: [check])
    assert (here.conformance_suites("TOY"), here.conformance_suites("DOLL")) == ([Suite], [])
    assert here.doctor_checks() == [("the plugin", check)]
    undo()
    register(conformance_suites=lambda spec: [3], doctor_checks=lambda: check)
    with pytest.raises(
        HookError, match=r"tinygraft_conformance_suites of the plugin gave \[3\], not a list .* a class"
    ):
        here.conformance_suites("TOY")
    with pytest.raises(HookError, match="tinygraft_doctor_checks of the plugin gave DoctorCheck"):
        here.doctor_checks()


def test_commands_of_plugins(register, capsys):
    """A plugin's command has its arguments, its help and its exit code; ours stay ours."""

    def add(commands):
        def arguments(parser):
            parser.add_argument("name")

        def run(arguments):
            print(f"hello {arguments.name}")
            return 7

        commands.add(Command(name="greet", help="say hello", add_arguments=arguments, run=run))
        commands.add(Command(name="settings", run=lambda arguments: 9))

    register(cli=add)
    assert main(["greet", "you"]) == 7
    assert capsys.readouterr().out == "hello you\n"
    assert main(["settings"]) == 0
    with pytest.raises(SystemExit):
        main(["--help"])
    assert "greet" not in capsys.readouterr().out


def test_a_command_plugin_that_fails_is_left_out(register, capsys):
    """A plugin whose commands cannot be added is said on stderr, and the others have theirs."""

    def broken(commands):
        commands.add(Command(name="half", run=lambda arguments: 0))
        commands.add(Command(name="two words", run=lambda arguments: 0))

    register(cli=broken)
    register(cli=lambda commands: commands.add(Command(name="fine", run=lambda arguments: None)))
    assert main(["fine"]) == 0
    assert capsys.readouterr().err == (
        "tinygraft_cli of the plugin raised ValueError: 'two words' cannot be the name of a command; use letters, "
        "digits and dashes; its commands are left out\n"
    )
    with pytest.raises(SystemExit) as end:
        main(["half"])
    assert end.value.code == 2


@pytest.mark.parametrize(
    ("command", "sentence"),
    [(3, "a command is a Command, got a int"), (Command(name="x", run=print), "there is a command x already")],
)
def test_commands_that_cannot_be(command, sentence):
    """The registry of commands refuses what is none, and a name that is taken."""
    registry = hooks.CommandRegistry()
    registry.add(Command(name="x", run=print))
    with pytest.raises(ValueError, match=sentence):
        registry.add(command)


# The price


def test_nothing_is_paid_when_nobody_listens(installed_hooks, monkeypatch):
    """Without a plugin no event is made, nobody is told and nobody is asked: not one line of hook code runs."""
    for kind in events.KINDS:
        monkeypatch.setattr(kind, "__init__", lambda *_, **__: pytest.fail("an event was made"))
    monkeypatch.setattr(events, "tell", lambda event: pytest.fail("somebody was told"))
    for name in ("ask", "passes", "register", "choose_default"):
        monkeypatch.setattr(type(here), name, lambda *_: pytest.fail("somebody was asked"))
    with Context(CACHELEVEL=0):
        assert values(*range(15))[0] == 15  # through every stage
        assert values(*range(15))[0] == 15  # from its plan
    Device.empty_cache()
    assert [flag for flag in events.KINDS.values() if getattr(events, flag)] == []
    assert (here.has_passes, here.has_choice) == (False, False)


def test_pluggy_is_imported_for_a_plugin_only():
    """A program without hook plugins never imports pluggy; asking for hookimpl does."""
    code = (
        "import sys\nfrom tinygraft import Tensor, hooks\nimport tinygraft.plugin\n"
        "(Tensor([1, 2], device='PYTHON') * 2).tolist()\nprint('pluggy' in sys.modules)\n"
        "hooks.hookimpl\nprint('pluggy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split() == ["False", "True"]


def test_the_plugin_module_has_what_authors_need():
    """tinygraft.plugin re-exports every event, request and the decorator; what is not there is an AttributeError."""
    import tinygraft.plugin

    for name in set(hooks.__all__) - {"here", "load_none", "profile", "register"}:
        assert getattr(tinygraft.plugin, name) is getattr(hooks, name)
        assert name in tinygraft.plugin.__all__
    with pytest.raises(AttributeError, match="module 'tinygraft.hooks' has no attribute 'hookimp'"):
        hooks.hookimp  # noqa: B018


def test_events_and_requests_are_frozen():
    """What a hook is given cannot be changed by it."""
    event = hooks.LaunchEvent(name="x", device="TOY", seconds=1.0)
    with pytest.raises(AttributeError):
        event.name = "y"
    request = hooks.PassRequest(stage="kernel", target=Device["PYTHON"].target)
    with pytest.raises(AttributeError):
        request.stage = "taken"


def test_a_device_error_is_still_one(register, fakes):
    """A hook that asks for a device which is not there raises what anybody would get."""
    fakes.add("TOY")
    register(choose_default=lambda request: "a b")
    with pytest.raises(DeviceError, match="the plugin chooses a b: 'a b' is not the name of a device"):
        fakes.registry().DEFAULT  # noqa: B018


def test_a_kernel_is_what_a_pass_gets(register):
    """At stage "kernel" the graph is that of the scheduler: a Kernel's sink, whose loops have no kind yet."""
    got = []
    register(
        codegen_passes=lambda request: [
            CodegenPass(id=request.stage, version=1, run=lambda sink, target: got.append(Kernel(sink)) or sink)
        ]
    )
    values(*range(16))
    assert [kernel.sink.op for kernel in got] == [Ops.SINK, Ops.SINK]
