"""The twelve hooks, as pluggy specifications of the project tinygraft. Imports pluggy: only when there is a plugin.

Observers get one event and return nothing; one that raises is dropped with a warning. Contributors get one request; one
that raises is an error that names it. A function may omit its argument.
"""

from __future__ import annotations

from typing import Any

import pluggy

from tinygraft.events import CompileEvent, DeviceEvent, LaunchEvent, MemoryEvent, RenderEvent, ScheduleEvent
from tinygraft.hooks.requests import (
    CodegenPass,
    CommandRegistry,
    DefaultRequest,
    DoctorCheck,
    PassRequest,
    ProfileSession,
    ProfileSink,
)

PROJECT = "tinygraft"
hookspec: pluggy.HookspecMarker = pluggy.HookspecMarker(PROJECT)
hookimpl: pluggy.HookimplMarker = pluggy.HookimplMarker(PROJECT)


@hookspec
def tinygraft_on_device(event: DeviceEvent) -> None:
    """A device was loaded, opened or closed, or has failed."""


@hookspec
def tinygraft_on_schedule(event: ScheduleEvent) -> None:
    """A graph was cut into kernels."""


@hookspec
def tinygraft_on_render(event: RenderEvent) -> None:
    """The source of a kernel was written."""


@hookspec
def tinygraft_on_compile(event: CompileEvent) -> None:
    """A kernel was compiled, or found on disk."""


@hookspec
def tinygraft_on_launch(event: LaunchEvent) -> None:
    """A kernel ran, or bytes were copied. While this is observed each launch is synchronised and timed."""


@hookspec
def tinygraft_on_memory(event: MemoryEvent) -> None:
    """Memory was allocated on a device, freed, or copied."""


@hookspec
def tinygraft_codegen_passes(request: PassRequest) -> list[CodegenPass] | None:
    """Return passes to run on every kernel for a Target."""


@hookspec
def tinygraft_profiler(session: ProfileSession) -> ProfileSink | None:
    """Return where the events of a profile go."""


@hookspec
def tinygraft_doctor_checks() -> list[DoctorCheck] | None:
    """Return what `doctor` checks beside the devices."""


@hookspec
def tinygraft_conformance_suites(spec: Any) -> list[type] | None:
    """Return further test classes for the device of a DeviceSpec, run by the conformance kit."""


@hookspec
def tinygraft_cli(commands: CommandRegistry) -> None:
    """Add commands to `python -m tinygraft`."""


@hookspec(firstresult=True)
def tinygraft_choose_default(request: DefaultRequest) -> str | None:
    """Return the name of the device to use when the program has named none; None leaves the choice to others."""


def new_manager() -> pluggy.PluginManager:
    """Return a plugin manager that knows the hooks and has no plugin."""
    manager = pluggy.PluginManager(PROJECT)
    manager.add_hookspecs(__import__(__name__, fromlist=["*"]))
    return manager
