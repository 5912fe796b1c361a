"""Delay signals while state changes: a write over values is done as a whole or not begun, and never done twice.

    with guarded() as guard:
        guard.whole = True    # from here the handlers of signals wait; a second Ctrl-C does not
        ...
        guard.sealed = True   # from here all wait, while tensors get their results
    # here the handlers of those that waited are called

Any handler of Python may raise (Ctrl-C, the alarm of a time limit, a SIGTERM that exits) or save a checkpoint, so each
of them waits, and is called when the guarded lines are over. They wait as well while an object is being freed: Python
only prints an exception that is raised there, and continues.

Only the main thread runs handlers, so other threads need no guard. A second Ctrl-C does not wait: a user who presses
twice wants to end a kernel that takes too long. Values that it leaves half written are lost, and raise when they are
used (engine/after_failure.py). An exception that another thread sends (PyThreadState_SetAsyncExc) is no signal, and
cannot be delayed.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the module signal takes 15 us to look for the names of handlers
import _thread
import os
import sys
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from signal import NSIG, SIGINT
from types import CodeType, FrameType, TracebackType
from typing import Any, Final

ENDING: Final = frozenset({"__del__", "_forget", "_forget_assigned"})  # functions that run when objects are freed
NUMBERS: Final = range(1, NSIG)
_Handler = Callable[[int, FrameType | None], Any]


class Guard:
    """A context manager for lines during which signals may wait; guards nest, and a signal waits for all of them.

    `whole` says that signals wait, except a second Ctrl-C, `sealed` that all do. `hears` says that this is the main
    thread, where signals can come.
    """

    whole: bool
    sealed: bool
    hears: bool

    __slots__ = ("_outer", "hears", "sealed", "whole")

    def __init__(self, whole: bool = False, sealed: bool = False) -> None:
        self.whole, self.sealed, self.hears = whole, sealed, False
        self._outer: Guard | None = None

    def __enter__(self) -> Guard:
        if threading.get_ident() == _signals.main:
            try:
                if _signals.inner is None:
                    _signals.take_over()
                self._outer, _signals.inner, self.hears = _signals.inner, self, True
            except BaseException:
                _signals.restore()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self.hears:
            _signals.inner, self.hears = self._outer, False
            try:
                if self._outer is None:
                    _signals.restore()
            finally:
                if _signals.waiting:
                    _signals.handle_waiting()

    def point(self) -> None:
        """Call the handlers of signals that waited, unless they still have to wait; a handler may raise."""
        if _signals.waiting and self.hears:
            _signals.handle_waiting()

    def delays(self) -> tuple[bool, bool]:
        """Return whether signals wait because of this guard or one around it, and whether a second Ctrl-C does, too."""
        guard: Guard | None = self
        whole = False
        while guard is not None:
            if guard.sealed:
                return True, True
            whole |= guard.whole
            guard = guard._outer
        return whole, False


guarded = Guard


class _Signals:
    """The handlers that are replaced while a guard is open, and the signals that wait for them."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.inner: Guard | None = None  # the innermost of the open guards of the main thread
        self.waiting: dict[int, None] = {}  # the numbers of signals, in the order in which they came
        self._handlers: dict[int, _Handler] = {}
        self._seen: list[
            Any
        ] = []  # the handlers at the last `take_over`, so that unchanged ones are not searched again

    def take_over(self) -> None:
        """Install `_delayed` for all signals that have handlers of Python."""
        now = list(map(_signal.getsignal, NUMBERS))
        if now != self._seen:
            handled = {number: handler for number, handler in zip(NUMBERS, now, strict=True) if callable(handler)}
            # a second Ctrl-C may have ended `restore` before its end
            mine = [number for number, handler in handled.items() if handler is _delayed]
            handled |= {number: self._handlers[number] for number in mine}
            self._handlers, self._seen = handled, [] if mine else now  # both or, where a signal comes, neither
        for number in self._handlers:
            _signal.signal(number, _delayed)

    def restore(self) -> None:
        """Install the own handlers of signals again."""
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) is _delayed:  # the program has not set another one meanwhile
                _signal.signal(number, handler)

    def came(self, number: int, frame: FrameType | None) -> None:
        """Handle a signal that comes while a guard is open: it waits, or its handler is called, which may raise.

        It waits while a guard is `whole` or `sealed`, while a guard is entered or left, and while an object is freed. A
        second Ctrl-C waits in a `sealed` guard alone.
        """
        waits, always = (False, False) if self.inner is None else self.inner.delays()
        again = number == SIGINT and number in self.waiting and not always
        if (waits and not again) or _is_opening(frame) or _is_ending(frame):
            self.waiting[number] = None
            return
        self.waiting.pop(number, None)
        self._handlers[number](number, frame)

    def handle_waiting(self) -> None:
        """Call the handlers of the signals that waited, unless an open guard still delays them.

        Raises the first error of a handler, after all of them were called.
        """
        raised: BaseException | None = None
        frame = sys._getframe(1)
        ends = _is_ending(frame)
        while self.waiting and not (self.inner is not None and self.inner.delays()[0]):
            number = next(iter(self.waiting))
            del self.waiting[number]
            if ends:
                come_again(number)
                continue
            handler = _signal.getsignal(number)
            try:
                (self._handlers[number] if handler is _delayed else handler)(number, frame)
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def forked(self) -> None:
        """In a forked child, make the thread that forked the main one, and drop signals that waited in the parent."""
        if self.main != (here := threading.get_ident()):
            self.main, self.inner = here, None
            self.waiting.clear()


_signals = _Signals()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_signals.forked)

# In these a signal always waits: enter and exit, and the callbacks of Python's own weak tables
_OPENING: Final[frozenset[CodeType]] = frozenset(
    each.__code__ for each in (Guard.__enter__, Guard.__exit__, _Signals.take_over, _Signals.restore)
)
_WEAK: Final[tuple[Any, ...]] = (weakref.WeakKeyDictionary(), weakref.WeakValueDictionary(), weakref.WeakSet())
_TABLES: Final[frozenset[CodeType]] = frozenset(table._remove.__code__ for table in _WEAK)


def _delayed(number: int, frame: FrameType | None) -> None:
    """The handler of all signals while a guard is open."""
    _signals.came(number, frame)


def come_again(number: int = SIGINT) -> None:
    """Send a signal again from another thread: Python would drop an exception that its handler raises here."""
    with suppress(RuntimeError):  # the interpreter is ending
        _thread.start_new_thread(_interrupt, (number,))


def _interrupt(number: int) -> None:
    _thread.interrupt_main(number)  # type: ignore[arg-type]  # it takes any int


def _is_opening(frame: FrameType | None) -> bool:
    """Return whether a guard is being entered or left, in a frame or, below a debugger's trace function, around it."""
    around = frame and frame.f_back
    return any(each is not None and each.f_code in _OPENING for each in (frame, around))


def _is_ending(frame: FrameType | None) -> bool:
    """Return whether a frame runs because an object is freed: in __del__, or in the callback of a weak reference."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in ENDING or code in _TABLES:
            return True
        frame = frame.f_back
    return False
