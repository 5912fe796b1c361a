"""What observers are told: a value has crossed a stage, a kernel was compiled, work was launched, memory was taken.

In: one frozen event. Out: it goes to each observer of its type. Nobody pays for this while nobody listens: callers
write `if events.active: events.stage("linear", linear, name)` or `if events.on_launch: events.tell(LaunchEvent(...))`.

Plugins and users observe through `tinygraft.hooks`; this is what their hooks stand on. StageEvent is for looking inside
(explain, VIZ): whoever asks for it sees every stage made anew, and one kernel compiled after another. RuleEvent says by
which rules, and comes before the stage that they led to.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tinygraft.helpers import warn_user


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvent:
    """A stage has given its result.

    name says which stage ("tensor graph", "schedule pass: NAME", "schedule", "kernel", "pass: NAME", "linear",
    "source", "binary"), subject is the result (a UOp, a box of uop/stages.py, a list of calls, text), kernel the name
    of the kernel it belongs to, empty for what concerns a whole schedule.
    """

    name: str
    subject: object
    kernel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvent:
    """A rule has given a node: its name. Rules are in the tables of uop/ and rules/, made by uop/rulebook.py."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """A device was loaded (its plugin was imported), opened, closed, or has failed. detail is the reason, or a word.

    name is a device's, with the ordinal where one was opened; provided_by is a distribution and its version.
    """

    action: str
    name: str
    provided_by: str = ""
    detail: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleEvent:
    """A graph was cut into kernels. A graph of a form that was scheduled before is not scheduled again."""

    devices: tuple[str, ...]
    kernels: int
    copies: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RenderEvent:
    """The source of a kernel was written, in a language of the device."""

    name: str
    device: str
    language: str
    text: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileEvent:
    """A kernel is ready to be loaded: how long its compiler took and how many bytes it gave.

    cached says that the bytes came from the disk and no compiler ran.
    """

    name: str
    device: str
    seconds: float
    bytes: int = 0
    cached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvent:
    """A kernel ran (or bytes were copied) on a device: seconds, bytes moved and floating point operations."""

    name: str
    device: str
    seconds: float
    bytes: int = 0
    flops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """Memory of a device: bytes were taken from it ("alloc"), given back to it ("free"), or moved ("copy").

    used are the bytes of live buffers, kept those that were freed and wait to be used again: they are neither taken
    nor given back when a buffer gets them.
    """

    action: str
    device: str
    bytes: int
    used: int = 0
    kept: int = 0


Observer = Callable[[Any], object]
KINDS = {
    StageEvent: "active", RuleEvent: "on_rule", DeviceEvent: "on_device", ScheduleEvent: "on_schedule",
    RenderEvent: "on_render", CompileEvent: "on_compile", LaunchEvent: "on_launch", MemoryEvent: "on_memory",
}  # fmt: skip

# Whether anybody listens, by kind of event; read it before making an event.
active: bool = False
on_rule: bool = False
on_device: bool = False
on_schedule: bool = False
on_render: bool = False
on_compile: bool = False
on_launch: bool = False
on_memory: bool = False

_observers: dict[type, tuple[Observer, ...]] = {}
_lock = threading.Lock()


def observe(callback: Observer, *kinds: type) -> Callable[[], None]:
    """Tell callback of every event of these kinds (StageEvent alone when none is given), from any thread, until the
    callable that is returned is called.

    A callback that raises is dropped, with one warning: looking never changes what a program does.

    >>> seen = []
    >>> stop = observe(seen.append)
    >>> stage("linear", "anything", kernel="k")
    >>> stop()
    >>> stage("linear", "not seen any more")
    >>> seen
    [StageEvent(name='linear', subject='anything', kernel='k')]
    """
    wanted = kinds or (StageEvent,)
    with _lock:
        for kind in wanted:
            _observers[kind] = (*_observers.get(kind, ()), callback)
            globals()[KINDS[kind]] = True

    def stop() -> None:
        """Let the observer be notified no more; does nothing when called again."""
        nonlocal wanted
        for kind in wanted:
            _drop(callback, kind)
        wanted = ()

    return stop


def stage(name: str, subject: object, kernel: str = "") -> None:
    """Tell the observers of stages that one has given subject. Returns at once when there are none."""
    if active:
        tell(StageEvent(name=name, subject=subject, kernel=kernel))


def tell(event: object) -> None:
    """Tell all observers of an event's kind."""
    for callback in _observers.get(type(event), ()):
        try:
            callback(event)
        except (Exception, SystemExit) as error:
            if _drop(callback, type(event)):
                what = f"the stage {event.name!r}" if isinstance(event, StageEvent) else f"a {type(event).__name__}"
                warn_user(
                    f"the observer {_named(callback)} raised {type(error).__name__}: {error} when told of {what}; "
                    "it is not told of anything else of that kind",
                    RuntimeWarning,
                )


def _named(callback: Observer) -> str:
    """How a warning names an observer: as its owner says, or as Python does."""
    name: str = getattr(callback, "observer_name", "") or repr(callback)
    return name


def _drop(callback: Observer, kind: type) -> bool:
    """Forget an observer of a kind; whether it was known. The same callback added twice goes one at a time."""
    with _lock:
        known = _observers.get(kind, ())
        for place, other in enumerate(known):
            if other is callback:
                _observers[kind] = known[:place] + known[place + 1 :]
                globals()[KINDS[kind]] = bool(_observers[kind])
                return True
    return False
