"""Signals wait while state changes: what writes over values is done as a whole or not begun, and never done twice.

    with guarded() as guard:
        guard.whole = True    # from here the handlers of signals wait; a second Ctrl-C does not
        ...
        guard.sealed = True   # from here no number of them is heard: what has run becomes what its tensors are
    # here those that waited are heard

Any handler of Python may raise (Ctrl-C, the alarm of a time limit, a SIGTERM that exits) or save a checkpoint, so each
of them waits, and is called once when the guarded lines are over. They wait as well where an object is just going away:
what is raised there Python prints, and goes on as if nothing had been pressed.

Only the main thread runs handlers, so in any other thread nothing is to be guarded. A second Ctrl-C does not wait: who
presses twice wants the end of a kernel that takes too long. What it leaves half written is lost, and says so (left.py).
What another thread throws in (PyThreadState_SetAsyncExc) is no signal, and cannot be kept waiting.
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

ENDING: Final = frozenset({"__del__", "_forget", "_forget_assigned"})  # names of functions that run when objects go
NUMBERS: Final = range(1, NSIG)
_Handler = Callable[[int, FrameType | None], Any]


class Guard:
    """Lines during which signals may wait; guards may lie in each other, and what one of them keeps waiting waits.

    whole: whether signals wait, a second Ctrl-C excepted. sealed: whether all do. hears: whether any can come.
    """

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
                _signals.give_back()
                raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:  # fmt: skip
        if self.hears:
            _signals.inner, self.hears = self._outer, False
            try:
                if self._outer is None:
                    _signals.give_back()
            finally:
                if _signals.waiting:
                    _signals.hear()

    def point(self) -> None:
        """Hand signals that waited to their handlers, unless they still have to wait; a handler may raise."""
        if _signals.waiting and self.hears:
            _signals.hear()

    def keeps(self) -> tuple[bool, bool]:
        """Whether signals wait because of this guard or one around it, and whether a second Ctrl-C does as well."""
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
    """The handlers that stand back while a guard is open, and the signals that wait for them."""

    def __init__(self) -> None:
        self.main = threading.main_thread().ident
        self.inner: Guard | None = None  # the innermost of the open guards of the main thread
        self.waiting: dict[int, None] = {}  # the numbers of signals, in the order in which they came
        self._handlers: dict[int, _Handler] = {}
        self._seen: list[Any] = []  # what handlers there were when they were last looked through

    def take_over(self) -> None:
        """Let all signals that have handlers of Python come to `_heard`."""
        now = list(map(_signal.getsignal, NUMBERS))
        if now != self._seen:
            handled = {number: handler for number, handler in zip(NUMBERS, now, strict=True) if callable(handler)}
            mine = [number for number, handler in handled.items() if handler is _heard]  # a second one ended give_back
            self._handlers = handled | {number: self._handlers[number] for number in mine}
            self._seen = [] if mine else now
        for number in self._handlers:
            _signal.signal(number, _heard)

    def give_back(self) -> None:
        """Let signals come to their own handlers again."""
        for number, handler in self._handlers.items():
            if _signal.getsignal(number) is _heard:  # nobody has set another one meanwhile
                _signal.signal(number, handler)

    def came(self, number: int, frame: FrameType | None) -> None:
        """A signal has come while a guard is open: it waits, or its handler is called."""
        waits, always = (False, False) if self.inner is None else self.inner.keeps()
        again = number == SIGINT and number in self.waiting and not always
        if (waits and not again) or (frame is not None and frame.f_code in _OPENING) or _is_ending(frame):
            self.waiting[number] = None
            return
        self.waiting.pop(number, None)
        self._handlers[number](number, frame)

    def hear(self) -> None:
        """Call the handlers of the signals that waited, unless an open guard still keeps them. Raises what the first
        of them raises that does."""
        raised: BaseException | None = None
        frame = sys._getframe(1)
        ends = _is_ending(frame)
        while self.waiting and not (self.inner is not None and self.inner.keeps()[0]):
            number = next(iter(self.waiting))
            del self.waiting[number]
            if ends:
                come_again(number)
                continue
            handler = _signal.getsignal(number)
            try:
                (self._handlers[number] if handler is _heard else handler)(number, frame)
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised

    def forked(self) -> None:
        """In a forked child the thread that forked is the main one."""
        if self.main != (here := threading.get_ident()):
            self.main, self.inner = here, None
            self.waiting.clear()


_signals = _Signals()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_signals.forked)

# Enter and exit are seen through to the end, and so are the callbacks of Python's own weak tables
_OPENING: Final[frozenset[CodeType]] = frozenset(
    each.__code__ for each in (Guard.__enter__, Guard.__exit__, _Signals.take_over, _Signals.give_back)
)
_WEAK: Final[tuple[Any, ...]] = (weakref.WeakKeyDictionary(), weakref.WeakValueDictionary(), weakref.WeakSet())
_TABLES: Final[frozenset[CodeType]] = frozenset(table._remove.__code__ for table in _WEAK)


def _heard(number: int, frame: FrameType | None) -> None:
    """The handler of all signals while a guard is open."""
    _signals.came(number, frame)


def come_again(number: int = SIGINT) -> None:
    """Let a signal come once more in a moment: what its handler raises here Python would drop."""
    with suppress(RuntimeError):  # the interpreter is ending
        _thread.start_new_thread(_interrupt, (number,))


def _interrupt(number: int) -> None:
    _thread.interrupt_main(number)  # type: ignore[arg-type]  # it takes any int


def _is_ending(frame: FrameType | None) -> bool:
    """Whether a frame runs because an object goes away: in __del__, or in what a weak reference calls."""
    while frame is not None:
        code = frame.f_code
        if code.co_name in ENDING or code in _TABLES:
            return True
        frame = frame.f_back
    return False
