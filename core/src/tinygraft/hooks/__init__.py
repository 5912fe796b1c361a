"""Hooks: observe what happens, and contribute to what is done, without being a device.

    from tinygraft import hooks

    class Slow:
        @hooks.hookimpl
        def tinygraft_on_launch(self, event):
            print(event.name, event.seconds)

    undo = hooks.register(Slow())

An installed package does the same with an entry point in the group `tinygraft.hooks` that names its module. specs.py
has all hooks. Importing this does not import pluggy; the first plugin does.

Hooks (`hooks/`). A plugin that is no device is a pluggy plugin of the entry-point group `tinygraft.hooks`, or is
registered in the program. Six hooks are observers, which are notified of events; six are contributors: codegen
passes, profilers, checks of `doctor`, suites of the conformance kit, commands, the default device. `specs.py` has
all twelve, each with one frozen object as its argument. Installed plugins load at the first realize, the first
automatic choice of a device or the first command that needs them, after a plugin probe in a child process; one that
fails is a record with the reason. Without any, pluggy is not imported. Passes run in `codegen/lower.py` before the
transforms (stage "kernel") and before decompose (stage "transformed"); their ids and versions are `Options.passes`, and
so part of the key of compiled kernels, plans and packs. BEAM does not search such kernels.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.events import (
    CompileEvent,
    DeviceEvent,
    LaunchEvent,
    MemoryEvent,
    RenderEvent,
    ScheduleEvent,
)
from tinygraft.helpers import lazily
from tinygraft.hooks.manager import here

if TYPE_CHECKING:
    from tinygraft.hooks.requests import Candidate as Candidate
    from tinygraft.hooks.requests import CodegenPass as CodegenPass
    from tinygraft.hooks.requests import Command as Command
    from tinygraft.hooks.requests import CommandRegistry as CommandRegistry
    from tinygraft.hooks.requests import DefaultRequest as DefaultRequest
    from tinygraft.hooks.requests import DoctorCheck as DoctorCheck
    from tinygraft.hooks.requests import PassRequest as PassRequest
    from tinygraft.hooks.requests import ProfileSession as ProfileSession
    from tinygraft.hooks.requests import ProfileSink as ProfileSink
    from tinygraft.hooks.specs import hookimpl as hookimpl

__all__ = [
    "Candidate", "CodegenPass", "Command", "CommandRegistry", "CompileEvent", "DefaultRequest", "DeviceEvent",
    "DoctorCheck", "LaunchEvent", "MemoryEvent", "PassRequest", "ProfileSession", "ProfileSink", "RenderEvent",
    "ScheduleEvent", "here", "hookimpl", "load_none", "profile", "register",
]  # fmt: skip

register = here.register
profile = here.profile
load_none = here.load_none


_elsewhere = lazily(
    __name__,
    {"hookimpl": "tinygraft.hooks.specs"}
    | dict.fromkeys(
        ("Candidate", "CodegenPass", "Command", "CommandRegistry", "DefaultRequest", "DoctorCheck", "PassRequest",
         "ProfileSession", "ProfileSink"),
        "tinygraft.hooks.requests",
    ),
)  # fmt: skip


def __getattr__(name: str) -> Any:
    """Return what only hook plugins need: the arguments and results of contributors, and pluggy's decorator."""
    return _elsewhere(name)
