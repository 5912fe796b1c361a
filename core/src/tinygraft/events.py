"""What observers are told: a value has crossed a stage, a kernel was compiled, work was launched.

In: a subject and its name, at each stage boundary. Out: one frozen event for each observer. Nobody pays for
this while nobody listens: callers write `if events.active: events.stage("linear", linear, name)`.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StageEvent:
    """A stage has given its result.

    name says which stage ("tensor graph", "schedule", "kernel", "pass: NAME", "linear", "source", "binary", "compile",
    "launch"), subject is the result (a UOp, a box of uop/stages.py, a list of calls, a CompileEvent or LaunchEvent),
    kernel the name of the kernel it belongs to, empty for what concerns a whole schedule.
    """

    name: str
    subject: object
    kernel: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompileEvent:
    """A kernel was compiled for a device: how long that took and how large the binary is."""

    name: str
    device: str
    seconds: float
    bytes: int = 0
    flops: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchEvent:
    """A kernel ran (or bytes were copied) on a device: seconds, bytes moved and floating point operations."""

    name: str
    device: str
    seconds: float
    bytes: int = 0
    flops: int = 0


Observer = Callable[[StageEvent], object]

active: bool = False  # whether anybody listens; read it before making a subject only for stage()
_observers: tuple[Observer, ...] = ()
_lock = threading.Lock()


def observe(callback: Observer) -> Callable[[], None]:
    """Tell callback of every stage, from any thread, until the callable that is returned is called.

    A callback that raises is dropped, with one warning: looking never changes what a program does.

    >>> seen = []
    >>> stop = observe(seen.append)
    >>> stage("linear", "anything", kernel="k")
    >>> stop()
    >>> stage("linear", "not seen any more")
    >>> seen
    [StageEvent(name='linear', subject='anything', kernel='k')]
    """
    global active, _observers
    with _lock:
        _observers += (callback,)
        active = True

    def stop() -> None:
        _drop(callback)

    return stop


def stage(name: str, subject: object, kernel: str = "") -> None:
    """Tell all observers that a stage has given subject. Returns at once when there are none."""
    if not active:
        return
    event = StageEvent(name=name, subject=subject, kernel=kernel)
    for callback in _observers:
        try:
            callback(event)
        except Exception as error:
            if _drop(callback):
                warnings.warn(
                    f"the observer {callback!r} raised {type(error).__name__}: {error} when told of the "
                    f"stage {name!r}; it is not told of anything else",
                    RuntimeWarning,
                    stacklevel=2,
                )


def _drop(callback: Observer) -> bool:
    """Forget an observer; whether it was known. The same callback added twice goes one at a time."""
    global active, _observers
    with _lock:
        for place, known in enumerate(_observers):
            if known is callback:
                _observers = _observers[:place] + _observers[place + 1 :]
                active = bool(_observers)
                return True
    return False
