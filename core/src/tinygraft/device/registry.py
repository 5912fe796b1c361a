"""The registry of devices: from a name to an opened Backend. `Device` is the process-wide one.

A name is canonical (NAME, or NAME:ordinal past the first) before anything is looked up. Reading the declared devices
imports nothing of them; a plugin is imported when it is requested, or when the automatic choice comes to it. A device
is opened once, and open ones are closed in the reverse order of opening, also at exit.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from collections.abc import Sequence
from typing import Any, NoReturn

from tinygraft import events
from tinygraft.config import DEBUG, TINYGRAFT_STRICT_PLUGINS, finders
from tinygraft.config import Context as Context  # `tinygraft.Context` is found here, so that it knows plugins' settings
from tinygraft.device import messages
from tinygraft.device.default_choice import (
    RequestedDevice,
    automatic,
    probe_all,
    requested_by_context,
    requested_by_environment,
    requested_by_plugins,
)
from tinygraft.device.device_spec import UNCOUNTED
from tinygraft.device.discover import discover, is_name
from tinygraft.device.interfaces import Backend
from tinygraft.device.known import NAMES
from tinygraft.device.load import STARTED, backend_class, fault_of_backend, load, owns_setting, probe, why_not_opened
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.device.pool import MemoryStats, pool_of
from tinygraft.errors import DeviceError, DeviceFallbackWarning, DeviceUnavailable, SettingError, TinygraftError
from tinygraft.events import DeviceEvent
from tinygraft.helpers import warn_user
from tinygraft.hooks.manager import here as hooks
from tinygraft.installed.entries import CORE, DEVICES, forget, installed_entries
from tinygraft.installed.records import Status, describe
from tinygraft.uop.sharding import OF_RANK


class Registry:
    """Devices by name.

    `registry[name]` opens a device once and returns its Backend; `registry.DEFAULT` is the name of the one to use when
    none is given. `path` is where distributions are looked for; None is sys.path.
    """

    def __init__(self, path: Sequence[str] | None = None) -> None:
        self.path = path
        self._lock = threading.RLock()
        self._records: dict[str, list[PluginRecord]] | None = None
        self._names: dict[str, str] = {}  # a name as a caller wrote it -> the canonical name, checked
        self._opened: dict[str, Backend] = {}  # in the order of opening
        self._opening: set[str] = set()
        self._lost: list[Backend] = []  # of the parent process; retained, so that their finalisers do not run here
        self._default: str | None = None
        self._chosen: RequestedDevice | None = None  # by a hook plugin
        self._checked = False  # whether the environment was looked through
        _registries.add(self)

    # Lists

    def records(self) -> list[PluginRecord]:
        """Return one record for each device and distribution, by name. Reads metadata only."""
        table = self._table()
        return [record for name in sorted(table) for record in table[name]]

    def names(self) -> list[str]:
        """Return the names of all declared devices."""
        return sorted(self._table())

    def opened(self) -> list[str]:
        """Return the names of the open devices, in the order of opening."""
        return list(self._opened)

    @property
    def default(self) -> Backend:
        """The opened default device."""
        return self[self.DEFAULT]

    def get_available_devices(self) -> list[str]:
        """Probe all devices without opening one. Returns the names of those that are available.

        Specs of third parties are loaded in child processes, as for the automatic choice.
        """
        with self._lock:
            records = self.records()
            probe_all(records)
            return [record.name for record in records if record.status in (Status.AVAILABLE, Status.OPEN)]

    def refresh(self) -> None:
        """Drop what was read of installed plugins and of the settings, to be read anew. Open devices stay open."""
        with self._lock:
            forget()
            self._records = self._chosen = None
            self._default = None
            self._names.clear()

    def probe(self, name: str) -> PluginRecord:
        """Probe a device without opening it. Returns its record, which says whether it is available.

        Raises DeviceUnavailable for an unknown name, DeviceError for what is no name. A device that failed is probed
        again.
        """
        with self._lock:
            record = self._record(self.canonicalize(name).partition(":")[0])
            self._reset(record)
            probe(record)
            return record

    # Names

    def canonicalize(self, name: Any = None) -> Any:
        """Return NAME in capitals, with its ordinal unless that is 0; the default device for None.

        For several names, as a tuple or list, return a tuple of such names; for a tuple of one, that name alone.

        A device that is known but not installed has a name too, so that graphs on it can be made and printed.
        Raises DeviceUnavailable for an unknown name, DeviceError for what is not a name.

        >>> Device.canonicalize("python:0"), Device.canonicalize(("null", "null:1"))
        ('PYTHON', ('NULL', 'NULL:1'))
        """
        if name is None:
            return self.DEFAULT
        known = self._names.get(name) if isinstance(name, str) else None
        return self._check_name(name) if known is None else known

    def _check_name(self, name: object) -> Any:
        """Return the canonical name of a device, several as a tuple, and cache it. Raises DeviceError."""
        if isinstance(name, (tuple, list)):
            if not name:
                raise DeviceError("a tensor is on at least one device, got no name")
            others = [isinstance(each, str) and OF_RANK in each for each in name]
            if any(others) and others.count(False) != 1:
                raise DeviceError(
                    f"devices of ranks have one of this rank: make them by nn.parallel.Mesh, got {name!r}"
                )
            names = tuple([each if far else self._check_name(each) for each, far in zip(name, others, strict=True)])
            return names if len(names) > 1 else names[0]
        if not isinstance(name, str):
            hint = messages.not_a_name(name)
            raise DeviceError(f"a device is named by a string NAME or NAME:ordinal, got {name!r}{hint}")
        base, colon, ordinal = name.strip().upper().partition(":")
        if not is_name(base) or (colon and not (ordinal.isascii() and ordinal.isdigit())):
            hint = messages.is_a_file(name)
            raise DeviceError(f"{name!r} is not the name of a device; write NAME or NAME:ordinal, such as NULL:1{hint}")
        if base not in self._table() and base not in NAMES:
            raise DeviceUnavailable(
                messages.is_a_dtype(name) or messages.not_installed(base, self.names()),
            )
        canonical = f"{base}:{int(ordinal)}" if colon and int(ordinal) else base
        self._names[name] = canonical
        return canonical

    # The choice

    @property
    def DEFAULT(self) -> str:
        """The device that is used when none is named: what the settings request, else the best that is available.

        Setting it chooses for the whole process, where no Context does. Raises DeviceUnavailable when nothing that was
        requested opens, or when there is nothing to choose from.
        """
        if request := requested_by_context():
            return self._first_usable(request)
        if self._default is None:
            hooks.load()  # before the lock is taken: a plugin may ask for devices while it is loaded
            with self._lock:
                if self._default is None:
                    request = requested_by_environment(self._table())
                    if request is None:
                        request = self._chosen = requested_by_plugins(self.records())
                    self._default = self._first_usable(request) if request else self._choose()
        return self._default

    @DEFAULT.setter
    def DEFAULT(self, name: str) -> None:
        self._default = self.canonicalize(name)

    def _first_usable(self, request: RequestedDevice) -> str:
        """Return the canonical name of a requested device; of a chain A,B open the first that can be, and return that.

        Raises DeviceUnavailable where none of a chain opens, DeviceError where the request names no device.
        """
        try:
            names: list[str] = [self.canonicalize(part) for part in request.devices.split(",") if part.strip()]
        except DeviceError as error:
            raise type(error)(f"{request.written}: {error}") from None
        if not names:
            raise DeviceError(f"{request.written} names no device; write NAME, NAME:ordinal or a chain A,B")
        if len(names) == 1:
            return names[0]
        reasons = []
        for name in names:
            try:
                return self[name].name
            except DeviceError as error:
                reasons.append(str(error))
        raise DeviceUnavailable("\n".join([f"{request.written}: none of them can be used:", *reasons]))

    def _choose(self) -> str:
        """Open and return the device of the highest priority that opens; warn of plugins that are broken.

        Raises DeviceUnavailable where none opens, DeviceError with TINYGRAFT_STRICT_PLUGINS=1 instead of a warning.
        """
        records = self.records()
        for record in automatic(records):
            try:
                chosen = self[record.name].name
            except DeviceError:
                continue
            if problems := [r for r in records if r.is_passed_over]:
                self._report(messages.passed_over(chosen, problems))
            return chosen
        reasons = [r for r in records if r.status in messages.SENTENCES]
        unasked = [r.name for r in records if r.distribution != CORE and r.status in (Status.AVAILABLE, Status.OPEN)]
        raise DeviceUnavailable(messages.nothing_to_run_on(reasons, unasked))

    def _report(self, text: str) -> None:
        """Warn of a fallback at the user's line. Raises DeviceError with TINYGRAFT_STRICT_PLUGINS=1."""
        if TINYGRAFT_STRICT_PLUGINS.value:
            raise DeviceError(f"TINYGRAFT_STRICT_PLUGINS=1 does not allow this: {text}")
        warn_user(text, DeviceFallbackWarning)

    # Opening and closing

    def __repr__(self) -> str:
        return f"<devices {', '.join(self.names())}; open: {', '.join(self.opened()) or 'none'}>"

    def __getitem__(self, name: str | None) -> Backend:
        """Return the Backend of a name, opened once; None is the default device.

        Raises DeviceUnavailable and DeviceError.
        """
        backend = self._opened.get(name)  # type: ignore[arg-type]
        return backend if backend is not None else self._open(self.canonicalize(name))

    def _open(self, name: str) -> Backend:
        """Return the backend of a canonical name, opened once, under a lock. Raises DeviceUnavailable, DeviceError.

        A device that is requested by name while its plugin opens it is an error, not a recursion. Where a setting
        requested the device that is unavailable, the error names that setting.
        """
        hooks.load()  # they may observe it
        if isinstance(name, tuple):
            raise DeviceError(f"only one device at a time can be opened, got {', '.join(name)}")
        with self._lock:
            if (backend := self._opened.get(name)) is not None:
                return backend
            if self is Device and not self._checked:
                self._check_environment()
            if name in self._opening:
                raise DeviceError(f"{name} was requested while it is being opened: its plugin requests itself")
            self._opening.add(name)
            try:
                backend = self._open_new(name)
            except DeviceUnavailable as error:
                request = requested_by_context() or requested_by_environment(self._table()) or self._chosen
                if request is None or request.devices.strip().upper().removesuffix(":0") != name:
                    raise
                raise DeviceUnavailable(f"{request.written}: {error}") from error.__cause__
            finally:
                self._opening.discard(name)
            if self is Device and not self._opened:
                atexit.register(self.close)
            self._opened[name] = backend
            return backend

    def _check_environment(self) -> None:
        """Warn, once, of variables that are probably misspelt settings. Raises SettingError with TINYGRAFT_STRICT=1."""
        from tinygraft.device.environment import check_environment  # here: it is needed once

        check_environment(self._table())
        self._checked = True

    def _open_new(self, name: str) -> Backend:
        """Probe and open a device. Returns its backend; the record's status becomes OPEN, or says what went wrong.

        Raises DeviceUnavailable. A SettingError passes unchanged: the user has to correct the setting, and nothing is
        wrong with the device.
        """
        base, _, ordinal = name.partition(":")
        record = self._record(base)
        self._reset(record)
        if not probe(record):
            raise DeviceUnavailable(messages.unusable(name, record, self.names()))
        count = record.probe.count if record.probe is not None else None
        if count is not None and UNCOUNTED != count <= int(ordinal or 0):
            raise DeviceUnavailable(messages.no_such_ordinal(name, base, count))
        start, before = time.perf_counter(), (record.status, record.detail)
        kind = backend_class(record)
        if kind is None:
            raise DeviceUnavailable(messages.unusable(name, record, self.names()))
        try:
            backend = kind(name, int(ordinal or 0))
        except (Exception, SystemExit) as error:
            record.move(Status.FAILED, *why_not_opened(record, error), error)
            if events.on_device:
                self._report_device("failed", name, record, record.detail)
            sentence = messages.unusable(name, record, self.names())
            if ordinal:  # of TOY:7, which says nothing of the others
                record.move(*before)
            if isinstance(error, SettingError):  # the user's mistake, not the device's
                raise
            raise DeviceUnavailable(sentence) from error
        if fault := fault_of_backend(backend):
            record.move(Status.INVALID, fault, f"tell the authors of {record.provided_by}")
            raise DeviceUnavailable(messages.unusable(name, record, self.names()))
        _ = backend.timeline  # made once, before a second thread may ask
        record.milliseconds["open"] = (time.perf_counter() - start) * 1e3
        record.move(Status.OPEN, record.detail)
        if events.on_device:
            self._report_device("opened", name, record, record.detail, record.milliseconds["open"] / 1e3)
        if DEBUG.value >= 1:
            print(f"opened device {name} from pid:{os.getpid()}")
        return backend

    def empty_cache(self, name: str | None = None) -> int:
        """Free the memory that one device caches for reuse, or that all open ones do. Returns how many bytes it was.

        Nothing that is in use changes. There is seldom a reason to: a pool that would grow frees by itself.

        >>> Device.empty_cache("PYTHON") >= 0
        True
        """
        with self._lock:
            wanted = None if name is None else self.canonicalize(name)
            return sum(pool_of(b).empty() for known, b in list(self._opened.items()) if wanted in (None, known))

    def memory(self, name: str | None = None) -> MemoryStats:
        """Return how much memory of a device is in use, how much is cached for reuse, and the most in use at once.

        >>> Device.memory("PYTHON").reserved >= Device.memory("PYTHON").allocated
        True
        """
        return pool_of(self[name]).stats()

    def close(self) -> None:
        """Close every open device, the last opened first. A device that fails to close does not keep others open."""
        with self._lock:
            while self._opened:
                name, backend = self._opened.popitem()
                try:
                    pool_of(backend).close()
                    backend.close()
                except (Exception, SystemExit) as error:
                    warn_user(f"{name} could not be closed: {describe(error)}", RuntimeWarning)
                for record in (self._records or {}).get(name.partition(":")[0], ()):
                    if record.status is Status.OPEN:
                        record.move(Status.AVAILABLE, record.detail)
                        if events.on_device:
                            self._report_device("closed", name, record)

    def _report_device(self, action: str, name: str, record: PluginRecord, detail: str = "",
                       seconds: float = 0.0) -> None:  # fmt: skip
        """Notify observers that a device was opened, closed or failed; `seconds` is how long that took."""
        by = record.provided_by
        events.notify(DeviceEvent(action=action, name=name, provided_by=by, detail=detail, seconds=seconds))

    # Settings

    def find_setting(self, name: str) -> None:
        """Import the spec of the plugin that a setting such as TOY_SIZE belongs to by its name, if there is one.

        That is the device whose name and an underscore it begins with, also after TINYGRAFT_. No other is imported.
        """
        with self._lock:
            for base in self._table():
                record = self._record(base)
                if owns_setting(base, name) and record.status in (Status.DECLARED, *STARTED):
                    self._reset(record)
                    load(record)

    # Records

    def _table(self) -> dict[str, list[PluginRecord]]:
        """Return the records of declared devices by name, several for a name that several plugins have; read once."""
        if self._records is None:
            with self._lock:
                if self._records is None:
                    self._records = discover(installed_entries(DEVICES, self.path))
        return self._records

    def _record(self, base: str) -> PluginRecord:
        """Return the record of a name; where several provide it, the one that is not disabled.

        Raises DeviceUnavailable where no distribution provides it.
        """
        records = self._table().get(base)
        if not records:
            raise DeviceUnavailable(messages.not_installed(base, self.names()))
        return next((r for r in records if r.status is not Status.DISABLED), records[0])

    def _reset(self, record: PluginRecord) -> None:
        """Set back a record that was loaded in a child process only, to be loaded here, or that failed to open."""
        if record.tried:
            record.tried = False
            record.move(Status.DECLARED)
        elif record.status is Status.FAILED:
            record.move(Status.COMPATIBLE)

    def _after_fork(self) -> None:
        """In a forked child, make a new lock, and set aside the backends that do not survive a fork."""
        self._lock = threading.RLock()
        self._opening.clear()
        for name, backend in list(self._opened.items()):
            if not backend.survives_fork:
                self._lost.append(self._opened.pop(name))


_registries: weakref.WeakSet[Registry] = weakref.WeakSet()


def _renew_registries() -> None:
    """In a forked child, call `_after_fork` of all registries."""
    for registry in list(_registries):
        registry._after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_registries)

Device: Registry = Registry()


def raise_noted(error: BaseException, doing: str, name: str) -> NoReturn:
    """Raise an error of a plugin's code with a note that says what was being done (`doing`), where and by which plugin.

    Errors of tinygraft are raised as they are, since they say that themselves, and so is one that has a note. A
    SystemExit becomes a DeviceError.
    """
    if isinstance(error, TinygraftError) or getattr(error, "__notes__", None):
        raise error
    records = (Device._records or {}).get(name.partition(":")[0], ())
    by = next((f" ({r.provided_by})" for r in records if r.status is Status.OPEN), "")
    if isinstance(error, SystemExit):
        raise DeviceError(
            f"the plugin of {name}{by} asked the program to end (SystemExit: {error.code}) while {doing}\n"
            "  hint: a plugin must not; tell its authors"
        ) from error
    error.add_note(f"while {doing} on {name}{by}")
    raise error


finders.append(Device.find_setting)
