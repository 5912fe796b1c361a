"""Ctrl-C while kernels run: what writes over a value is done or not begun, never half done and never done twice.

    with guarded() as guard:
        guard.whole = True    # from here Ctrl-C waits
        ...
        guard.whole = False   # from here it does not
        guard.point()         # where one that waited is heard

Ctrl-C also waits where an object is just going away: what is raised there Python prints, and goes on as if nothing had
been pressed. Only the main thread hears signals, so in any other thread nothing is to be guarded. A second Ctrl-C does
not wait: who presses twice wants the end of a kernel that takes too long, whatever it leaves in memory.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

ENDING = frozenset({"__del__", "_forget"})  # the names of functions that run then; the second is that of nodes


class Guard:
    """whole: whether Ctrl-C waits now. hears: whether there is anything to wait for."""

    __slots__ = ("_handler", "_pressed", "hears", "whole")

    def __init__(self, handler: Callable[[int, FrameType | None], Any] | None) -> None:
        self.whole = False
        self._pressed = False
        self._handler = handler
        self.hears = handler is not None

    def heard(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal: to be called by Python."""
        waits = not self._pressed and (self.whole or _is_ending(frame))
        self._pressed = waits
        if not waits and self._handler is not None:
            self._handler(number, frame)

    def point(self) -> None:
        """Hand a Ctrl-C that waited to the handler that was there before, which raises KeyboardInterrupt as a rule."""
        if self._pressed and self._handler is not None:
            self._pressed = False
            self._handler(signal.SIGINT, None)


def _is_ending(frame: FrameType | None) -> bool:
    """Whether a frame runs because an object goes away: in __del__, or in what a weak reference calls."""
    while frame is not None:
        if frame.f_code.co_name in ENDING:
            return True
        frame = frame.f_back
    return False


@contextmanager
def guarded() -> Iterator[Guard]:
    """A Guard whose `whole` says from line to line whether Ctrl-C waits."""
    before = signal.getsignal(signal.SIGINT) if threading.current_thread() is threading.main_thread() else None
    if not callable(before):
        yield Guard(None)
        return
    guard = Guard(before)
    try:
        signal.signal(signal.SIGINT, guard.heard)
        yield guard
    finally:
        signal.signal(signal.SIGINT, before)
        guard.point()
