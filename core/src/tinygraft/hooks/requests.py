"""The arguments and the results of contributors: one frozen object each, to which fields with defaults can be added.

The events that observers get are in tinygraft.events.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tinygraft.target import Target
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    import argparse

STAGES = (
    "kernel",
    "transformed",
)  # where contributed passes run: before transforms are chosen, after they were applied


@dataclass(frozen=True, slots=True, kw_only=True)
class PassRequest:
    """Which passes are requested.

    `stage` is "kernel", the graph as the scheduler made it, whose loops have no kind yet, or "transformed", the
    graph after all transforms were applied and before ops that the Target lacks are decomposed.
    """

    stage: str
    target: Target


@dataclass(frozen=True, slots=True, kw_only=True)
class CodegenPass:
    """A step of codegen: `run(sink, target)` returns the graph of a kernel that computes the same.

    `id` and `version` are part of the key of every cached kernel: change `version` whenever `run` returns something
    else. Passes of a stage run by `order`, then by `id`.
    """

    id: str
    version: int | str
    run: Callable[[UOp, Target], UOp]
    order: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileSession:
    """A profile that begins; `name` is the one that the user gave it."""

    name: str = ""


class ProfileSink(ABC):
    """Where the events of a profile go."""

    @abstractmethod
    def take(self, event: object) -> None:
        """Record one event: a DeviceEvent, ScheduleEvent, RenderEvent, CompileEvent, LaunchEvent or MemoryEvent."""

    def close(self) -> None:
        """End the profile. By default this does nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DoctorCheck:
    """A check of `doctor`: `run()` returns a few words when all is well, and raises when it is not.

    `hint` tells the user what to do then.
    """

    name: str
    run: Callable[[], str]
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A device that is installed. `status` is available, open, or the status that says why it cannot be used."""

    name: str
    status: str
    priority: int
    provided_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultRequest:
    """Which device shall be the default, when the program has named none."""

    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command of a plugin. `add_arguments` fills its parser, `run` returns the exit code (None is 0)."""

    name: str
    run: Callable[[argparse.Namespace], int | None]
    help: str = ""
    add_arguments: Callable[[argparse.ArgumentParser], object] | None = None


@dataclass(frozen=True, slots=True)
class CommandRegistry:
    """What plugins add to `python -m tinygraft`."""

    commands: dict[str, Command] = field(default_factory=dict)

    def add(self, command: Command) -> None:
        """Add a command. Raises ValueError for what is no Command, and a name that is in use or is not one word."""
        if not isinstance(command, Command):
            raise ValueError(f"a command is a Command, got a {type(command).__name__}")
        if not command.name.replace("-", "").isalnum():
            raise ValueError(f"{command.name!r} cannot be the name of a command; use letters, digits and dashes")
        if command.name in self.commands:
            raise ValueError(f"there is a command {command.name} already")
        self.commands[command.name] = command
