"""Ctrl-C while kernels run: what writes over values is done as a whole or not begun, and never done twice.

    with guarded() as guard:
        guard.whole = True    # from here Ctrl-C waits; a second one does not
        ...
        guard.sealed = True   # from here no number of them is heard: what has run becomes what its tensors are
    # here one that waited is heard

Ctrl-C also waits where an object is just going away: what is raised there Python prints, and goes on as if nothing had
been pressed. Only the main thread hears signals, so in any other thread nothing is to be guarded. A second Ctrl-C does
not wait: who presses twice wants the end of a kernel that takes too long. What it leaves half written is lost, and
says so (lost.py).
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import threading
from collections.abc import Callable
from signal import SIGINT
from types import FrameType, TracebackType
from typing import Any

ENDING = frozenset({"__del__", "_forget"})  # the names of functions that run then; the second is that of nodes


class Guard:
    """whole: whether Ctrl-C waits now, once. sealed: whether it waits however often. hears: whether any can come."""

    __slots__ = ("_handler", "_pressed", "hears", "sealed", "whole")

    def __init__(self, handler: Callable[[int, FrameType | None], Any] | None) -> None:
        self.whole = self.sealed = False
        self._pressed = False
        self._handler = handler
        self.hears = handler is not None

    def heard(self, number: int, frame: FrameType | None) -> None:
        """The handler of the signal: to be called by Python."""
        waits = self.sealed or (not self._pressed and (self.whole or _is_ending(frame)))
        self._pressed = waits
        if not waits and self._handler is not None:
            self._handler(number, frame)

    def point(self) -> None:
        """Hand a Ctrl-C that waited to the handler that was there before, which raises KeyboardInterrupt as a rule."""
        if self._pressed and self._handler is not None:
            self._pressed = False
            self._handler(SIGINT, None)


def _is_ending(frame: FrameType | None) -> bool:
    """Whether a frame runs because an object goes away: in __del__, or in what a weak reference calls."""
    while frame is not None:
        if frame.f_code.co_name in ENDING:
            return True
        frame = frame.f_back
    return False


class guarded:
    """A Guard whose `whole` says from line to line whether Ctrl-C waits.

    It asks for handlers below the module signal, which takes 15 us to look for their names.
    """

    __slots__ = ("_before", "_guard")

    def __enter__(self) -> Guard:
        main = threading.current_thread() is threading.main_thread()
        before: Any = _signal.getsignal(SIGINT) if main else None
        self._before = before if callable(before) else None
        self._guard = Guard(self._before)
        if self._before is not None:
            try:
                _signal.signal(SIGINT, self._guard.heard)
            except BaseException:
                _signal.signal(SIGINT, self._before)
                raise
        return self._guard

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self._before is not None:
            _signal.signal(SIGINT, self._before)
            self._guard.point()
