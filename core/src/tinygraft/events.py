"""Events: a stage has a result, a kernel was compiled, work was launched, memory was allocated; and their observers.

In: one frozen event. Out: each observer of its type is notified. Without observers this costs the test of a boolean:
callers write `if events.active: events.stage("linear", linear, name)` or
`if events.on_launch: events.notify(LaunchEvent(...))`.

Plugins and users observe through `tinygraft.hooks`, which is implemented by this. StageEvent is for explain and VIZ:
while it is observed every stage is made anew, and kernels are compiled one after another; with `once` only the stages
of forms that are new since then. A RuleEvent names an applied rule, and comes before the stage that it led to.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tinygraft.helpers import warn_user


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvent:
    """A stage has a result.

    `name` says which stage ("tensor graph", "schedule pass: NAME", "schedule", "kernel", "pass: NAME", "linear",
    "source", "binary"), `subject` is the result (a UOp, a type of uop/stages.py, a list of calls, text), `kernel` the
    name of its kernel, empty for the stages of a whole schedule.
    """

    name: str
    subject: object
    kernel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleEvent:
    """A rule was applied. Rules are in the tables of uop/ and rules/, made by uop/rulebook.py."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEvent:
    """A device was loaded (its plugin was imported), opened, closed, or has failed. `detail` is the reason.

    `name` is that of the device, with the ordinal where one was opened; `provided_by` is a distribution with version.
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
    """A kernel is compiled: the seconds of its compiler and the bytes of its binary.

    `cached` says that the binary came from the disk and no compiler ran; `start` is when one began, on the clock of
    time.perf_counter, and `thread` the thread of it.
    """

    name: str
    device: str
    seconds: float
    bytes: int = 0
    cached: bool = False
    start: float = 0.0
    thread: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvent:
    """A kernel ran (or bytes were copied) on a device: seconds, bytes moved and floating point operations.

    `start` is when it began to run, on the clock of time.perf_counter, `queue` the number of its queue on the device,
    and `waited` whether Python waited for it, as on every device without queues. `kernel` is the serial of its graph, 0
    where it is not known; `origins` are the lines of the user that it computes, while a recording is on (origins.py).
    """

    name: str
    device: str
    seconds: float
    bytes: int = 0
    flops: int = 0
    start: float = 0.0
    queue: int = 0
    waited: bool = True
    kernel: int = 0
    origins: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanEvent:
    """A piece of work of core in Python has ended: `name` says which ("realize", "schedule", "lower", "wait", ...).

    `start` is on the clock of time.perf_counter. Pieces of one thread are nested.
    """

    name: str
    start: float
    seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatEvent:
    """The same operations are compiled again and again, at the line where the program is: `why`, and what to do."""

    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UncapturedEvent:
    """A function under TinyJit was run and not captured: its name, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryEvent:
    """Memory of a device: bytes were allocated on it ("alloc"), freed ("free"), or copied ("copy").

    `used` are the bytes of live buffers, `kept` those of freed memory that the pool has cached: there is no event when
    a buffer gets such memory.
    """

    action: str
    device: str
    bytes: int
    used: int = 0
    kept: int = 0


Observer = Callable[[Any], object]
KINDS: dict[type[Any], str] = {
    StageEvent: "active", RuleEvent: "on_rule", DeviceEvent: "on_device", ScheduleEvent: "on_schedule",
    RenderEvent: "on_render", CompileEvent: "on_compile", LaunchEvent: "on_launch", MemoryEvent: "on_memory",
    SpanEvent: "on_span", RepeatEvent: "on_repeat", UncapturedEvent: "on_uncaptured",
}  # fmt: skip

# Whether there are observers, by kind of event; read it before making an event.
active: bool = False
once: bool = False  # set by a viewer: what was made since it came is not made anew for its stages
on_rule: bool = False
on_device: bool = False
on_schedule: bool = False
on_render: bool = False
on_compile: bool = False
on_launch: bool = False
on_memory: bool = False
on_span: bool = False
on_repeat: bool = False
on_uncaptured: bool = False

# Where the nodes of graphs come from (engine/origins.py), while a recording is on; else None
origins: Any = None

_observers: dict[type, tuple[Observer, ...]] = {}
_lock = threading.Lock()


def observe(callback: Observer, *kinds: type) -> Callable[[], None]:
    """Register `callback` for every event of these kinds, by default StageEvent, of any thread.

    Returns a function that ends that. A callback that raises is dropped, with one warning: an observer never changes
    what a program does.

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
        """Unregister the observer; does nothing when called again."""
        nonlocal wanted
        for kind in wanted:
            _drop(callback, kind)
        wanted = ()

    return stop


@contextmanager
def span(name: str, detail: str = "") -> Iterator[None]:
    """Notify the observers of spans of the block, also where it raises. Callers test `on_span` first."""
    start = time.perf_counter()
    try:
        yield
    finally:
        notify(SpanEvent(name=name, start=start, seconds=time.perf_counter() - start, detail=detail))


def stage(name: str, subject: object, kernel: str = "") -> None:
    """Notify the observers of stages of the result of one. Returns at once when there are none."""
    if active:
        notify(StageEvent(name=name, subject=subject, kernel=kernel))


def notify(event: object) -> None:
    """Notify all observers of an event's kind."""
    for callback in _observers.get(type(event), ()):
        try:
            callback(event)
        except (Exception, SystemExit) as error:
            if _drop(callback, type(event)):
                what = f"the stage {event.name!r}" if isinstance(event, StageEvent) else f"a {type(event).__name__}"
                warn_user(
                    f"the observer {_named(callback)} raised {type(error).__name__}: {error} when notified of {what}; "
                    "it is dropped for events of that kind",
                    RuntimeWarning,
                )


def _named(callback: Observer) -> str:
    """Return the name of an observer for a warning: its `observer_name`, or its repr."""
    name: str = getattr(callback, "observer_name", "") or repr(callback)
    return name


def _drop(callback: Observer, kind: type) -> bool:
    """Unregister an observer of a kind, once where it was registered twice. Returns whether it was registered."""
    with _lock:
        known = _observers.get(kind, ())
        for index, other in enumerate(known):
            if other is callback:
                _observers[kind] = known[:index] + known[index + 1 :]
                globals()[KINDS[kind]] = bool(_observers[kind])
                return True
    return False
