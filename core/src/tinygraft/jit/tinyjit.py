"""TinyJit: a function's launches, captured and then replayed without running the function.

The first call of a kind runs the function and records what it launches. The second runs it again, and when it launched
the same kernels on the same memory, its record is replayed from then on; otherwise the next call is compared in turn.
So the function may set itself up in its first call (optimizer state, lazily made tensors), and every call is right. An
argument that was the same memory in both may be what the function reaches by itself: the first call with other memory
is run and compared once more.

Calls are of one kind when these are equal: the structure of the arguments, the shape, dtype and device of each tensor,
which of them are one tensor, all other arguments, and the settings that change code, training mode included. What
the function reads from outside is frozen at capture, but for tensors: memory is read anew, and where a tensor that was
read has its value elsewhere since, or another expression, the function is captured anew. `TinyJit(check=True)` runs the
function in every call and raises when it launched something else than what was captured; so does VALIDATE=1, which
first replays the call, compares that with the same launches one by one, and undoes it. A tensor that the function
makes from Python's data is frozen too, where both calls made it of equal data; a function that makes it of other data
in each call (np.random), writes into such a one, or returns it, is run in every call. So is one in which a variable has
two values, or another one than in the arguments, and one that reads a value (item, numpy, tolist, a boolean mask): what
it does next may depend on it. And so is one that has an effect which launches do not repeat: it changes a list, dict or
dataclass of its arguments, leaves a lazy tensor outside its result, or returns one inside an object that is no list,
tuple or dict.

A call that finds other grads than the one before, as the first of several backward passes does after zero_grad(), is
of another kind too: `GradKind`.

Where a variable had one value in both calls it is unknown whether the function uses that of its arguments or binds the
variable to that value itself: the first call with another value runs the function once more.

A pickle of a TinyJit has its captures, with the memory that they read from outside as data, and no function.
"""

from __future__ import annotations

import functools
import os
import threading
import types
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar, overload

from tinygraft import events
from tinygraft.config import DEBUG, VALIDATE
from tinygraft.engine.capture import Capture, capturing
from tinygraft.errors import DeviceError, GraphError
from tinygraft.events import UncapturedEvent
from tinygraft.jit.arguments import Arguments, is_expired, unpack
from tinygraft.jit.effects import BeforeCall
from tinygraft.jit.grad_kinds import GradKind, GradKinds, arguments_of
from tinygraft.jit.kinds import CallArguments, described, unlike
from tinygraft.jit.replayed import ReplayedTrace
from tinygraft.jit.results import values_of
from tinygraft.jit.trace import RecordedCalls, Trace, difference
from tinygraft.tensor.nested import tensors_in
from tinygraft.tensor.primitives import size_checks
from tinygraft.tensor.state.live import (
    TouchedTensors,
    alive,
    assigned_tensors,
    entry_of,
    live_holders,
    next_serial,
    noting_touched,
)  # fmt: skip

P = ParamSpec("P")
R = TypeVar("R")

MOST_SEEN = 64  # kinds of calls that are recorded and not captured; the one recorded longest ago is dropped first
# assumed: of a function that reads values in every call, a thirty-second of the calls is recorded in the end
MOST_UNRECORDED = 32  # calls in a row that are run without a record
OTHER_GRADS = "it finds other grads than in the calls before"
MOVED = "a tensor that it reads from outside was rebound to another value, or its requires_grad changed"
MOST = 1024  # kinds of calls that are captured, of some 75 kB each and more; the oldest capture is dropped first


def _realize_effects(
    result: Any, arguments: Arguments, before: BeforeCall, capture: Capture, touched: TouchedTensors
) -> None:
    """Realise what a call has left lazy: values of its result, assignments, and grads."""
    lazy = values_of(tensors_in(result), arguments.tensors, capture.existed)
    lazy += [*assigned_tensors(), *(t.grad for t in before.grads.filled() if t.grad is not None)]
    lazy += [tensor for tensor in alive(touched.written) if capture.existed(tensor)]
    if lazy:
        lazy[0].realize(*lazy[1:])  # type: ignore[attr-defined]


def run_unrecorded(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments
) -> Any:
    """Run a call without a record, and realise what it leaves lazy, as in one with a record. Returns its result."""
    start = next_serial()

    def existed(tensor: Any) -> bool:
        return entry_of(tensor).serial < start

    with noting_touched() as touched:
        result = function(*args, **kwargs)
        lazy = values_of(tensors_in(result), arguments.tensors, existed)
        lazy += [*assigned_tensors(), *(t.grad for t in alive(touched.grads) if t.grad is not None)]
        lazy += [tensor for tensor in alive(touched.written) if existed(tensor)]
        if lazy:
            lazy[0].realize(*lazy[1:])  # type: ignore[attr-defined]
    return result


def _shown_arguments(args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    """Return the types of arguments, for an error."""
    shown = [type(x).__name__ for x in args] + [f"{name}={type(x).__name__}" for name, x in kwargs.items()]
    return f"({', '.join(shown)})"


class TinyJit(Generic[P, R]):
    """A function whose launches are captured and replayed.

    Works on functions and methods, with tensors anywhere in nested lists, tuples and dicts of the arguments and of the
    result, and in dataclasses among the arguments. A result keeps its value when the function is called again. reset()
    drops the captures. `prune` is accepted for tinygrad's sake and has no effect: a launch that depends on no argument
    may write what the next call reads. With `check` the function is run in every call, and what it launches is compared
    with the capture. `print(step)` says what is captured, and why the last call was run where it was not replayed.

    >>> from tinygraft import Tensor
    >>> @TinyJit
    ... def double(x):
    ...     return (x * 2).realize()
    >>> [double(Tensor([i, i + 1])).tolist() for i in range(4)]
    [[0, 2], [2, 4], [4, 6], [6, 8]]
    >>> double.captured, double.kernels
    (1, [['E_2']])
    """

    check: bool
    fxn: Callable[P, R] | None

    @overload
    def __init__(self, fxn: Callable[P, R], prune: bool = False, *, check: bool = False) -> None: ...
    @overload
    def __init__(
        self: TinyJit[[Callable[..., Any]], TinyJit[..., Any]], fxn: None = None, prune: bool = False, *,
        check: bool = False,
    ) -> None: ...  # fmt: skip
    def __init__(self, fxn: Any = None, prune: bool = False, *, check: bool = False) -> None:
        if fxn is not None and not callable(fxn):
            raise TypeError(f"TinyJit takes a function, got {type(fxn).__name__}")
        self.fxn, self.check, self._is_loaded = fxn, check, False
        self._lock, self._process = threading.RLock(), os.getpid()
        self._owner: type | None = None  # the class that it is a method of
        self.reset()
        if fxn is not None:
            functools.update_wrapper(self, fxn)

    def reset(self) -> None:
        """Drop all captures: the next call of each kind runs the function."""
        self._seen: dict[tuple[Any, ...], RecordedCalls] = {}  # kinds of calls that are not captured yet
        self._ready: dict[tuple[Any, ...], ReplayedTrace] = {}
        self._grads = GradKinds()
        self._why = ""  # why the last call that was run was not captured
        self._told: set[str] = set()  # what was told of that
        self._kind: CallArguments = {}  # the arguments of the last call that was the first of its kind
        self._new_kinds = 0  # how many such calls there were in a row
        self._writes: frozenset[int] = frozenset()  # the numbers of the tensors of its arguments that it has written to

    @property
    def captured(self) -> int:
        """Return how many kinds of calls are replayed."""
        return len(self._ready)

    @property
    def kernels(self) -> list[list[str]]:
        """Return, for each kind of calls that is replayed, the names of the kernels of a replay, in order."""
        return [record.names for record in list(self._ready.values())]

    def __set_name__(self, owner: type, name: str) -> None:
        self._owner = owner

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., R]:
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Call the function, or replay what it launched for arguments of this kind.

        A TinyJit made without a function is a decorator with settings: its call returns a TinyJit of its argument.
        Raises TypeError where that is no function, GraphError and DeviceError as a replay, and what the function
        raises.
        """
        if self.fxn is None and not self._is_loaded:
            function: Any = args[0] if args else None
            if len(args) != 1 or kwargs or not callable(function):
                raise TypeError(
                    "a TinyJit made without a function takes one, as a decorator does, got "
                    f"{_shown_arguments(args, kwargs)}"
                )
            decorated: Any = TinyJit(function, check=self.check)
            return decorated  # type: ignore[no-any-return]
        if waiting := assigned_tensors():  # memory that is about to be read has its new value first
            waiting[0].realize(*waiting[1:])  # type: ignore[attr-defined]
        if self._process != os.getpid():  # a fork: another thread of the parent may have held the lock
            self._lock, self._process = threading.RLock(), os.getpid()
        with self._lock:
            arguments = unpack(args, kwargs, self._writes, self._owner_in(args))
            try:
                result: R = self._call(args, kwargs, arguments)
                return result
            finally:
                if arguments.copied:
                    arguments.restore_views()

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments) -> Any:
        """Call the function, or replay what it launched, with arguments that were unpacked.

        Raises DeviceError where a value of a pickled TinyJit was lost, GraphError for a call that it has no capture of.
        """
        arguments.key, is_new = self._grads.key_of(arguments.key)
        dropped = ""  # why there is no capture any more
        if is_new and self._ready.pop(arguments.key, None) is not None:
            dropped = OTHER_GRADS
        ready = self._ready.get(arguments.key)
        if ready is not None and ready.is_lost:  # the function raises, until the lost value is assigned anew
            if self.fxn is None:
                raise DeviceError(
                    f"{self._name()} was loaded from a pickle, and a value of its own was lost when a replay failed\n"
                    "  hint: load it again"
                )
            del self._ready[arguments.key]
            ready = None
        if ready is not None and ready.outside_tensors.have_moved():
            del self._ready[arguments.key]
            ready, dropped = None, MOVED
        if ready is not None and self.fxn is not None and not ready.calls.covers(arguments):
            self._seen[arguments.key] = self._ready.pop(arguments.key).calls
            ready = None
        again = ready is not None and not ready.reaches(arguments)
        replays = again and not self.check
        if ready is not None and replays and not (VALIDATE.value and self._validated(ready, arguments)):
            if not events.on_span:
                return ready.replay(arguments)
            with events.span("realize", "a replay"):
                return ready.replay(arguments)
        if self.fxn is None:
            raise GraphError(self._no_function(again or ready is None))
        if ready is None and self._needs_no_record(arguments):
            return run_unrecorded(self.fxn, args, kwargs, arguments)
        return self._run(args, kwargs, arguments, dropped) if again or ready is None else self.fxn(*args, **kwargs)

    def _kind_without_difference(self, key: tuple[Any, ...], now: RecordedCalls) -> tuple[Any, ...]:
        """Return the key of recorded calls that found other grads and launched the same as `now`; else `key`."""
        for other in self._grads.keys(key):
            seen = self._seen.get(other)
            if seen is not None and seen.again(now) is not None:
                return other
        return key

    def _needs_no_record(self, arguments: Arguments) -> bool:
        """Return whether a call need not be recorded: several before it, one after another, have read values.

        Every so often one is, as the function may have stopped to do that.
        """
        seen = self._seen.get(arguments.key)
        if seen is None or not seen.unrecorded or self.check or events.on_uncaptured:
            return False
        seen.unrecorded -= 1
        return True

    def _validated(self, record: ReplayedTrace, arguments: Arguments) -> bool:
        """With VALIDATE=1: compare a replay with its launches, and undo it. Returns whether the function is to be run.

        It cannot be run where the TinyJit is from a pickle: then the replay is the call.
        """
        from tinygraft.engine.validate import skip  # imports NumPy, which is needed only here

        record.rehearse(arguments, self._name())
        if self.fxn is None:
            skip("values of replays loaded from a pickle, which have no function")
        return self.fxn is not None

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments, dropped: str) -> Any:
        """Run the function, realise what it leaves lazy, and return its result.

        Its launches are captured where the last call of this kind launched the same and they can be replayed, else
        recorded as seen. A first write into an argument drops all captures and records nothing. A kind that is captured
        already (`check`, VALIDATE) is only compared: raises GraphError for other launches. `dropped` says why a capture
        of this kind was dropped.
        """
        assert self.fxn is not None
        own = args if self._owner_in(args) is None else args[1:]
        before = BeforeCall(own, kwargs, arguments)  # first, since it counts references, and `live` is one
        live = live_holders()
        mine = arguments_of(arguments.key)
        others = any(arguments_of(key) != mine for known in (self._ready, self._seen) for key in known)
        if (seen := self._seen.get(arguments.key)) is not None and seen.reads:
            others = True  # numbers that it reads are arguments of kernels: they are other ones in each call
        with capturing(live, others) as capture, size_checks.noting() as claims, noting_touched() as touched:
            del live
            result = self.fxn(*args, **kwargs)
            _realize_effects(result, arguments, before, capture, touched)
        if wrote := before.written_views() - self._writes:
            writes = self._writes | wrote
            self.reset()  # captures of calls in which these views were copies, and not views of memory to be written
            self._writes, self._why = writes, "it has written to a view among its arguments for the first time"
            return result
        trace = Trace(capture, arguments)
        ready = self._ready.get(arguments.key)
        if ready is not None:
            if trace.launched != ready.calls.launched or trace.data() != ready.calls.data:
                raise GraphError(difference(self._name(), ready.calls.launched, trace.launched, self.check))
            return result
        now = trace.recorded(result)
        if arguments.key not in self._seen:
            arguments.key = self._kind_without_difference(arguments.key, now)
        states = before.grads.states(touched.grads, trace.outside(result))
        self._grads.note(arguments.key, states, self._ready.keys() | self._seen.keys())
        last = self._seen.pop(arguments.key, None)
        if capture.read:
            now.reads = 1 if last is None else last.reads + 1
            now.unrecorded = min(2 ** (now.reads - 2), MOST_UNRECORDED) if now.reads > 2 else 0
        both = None if last is None else last.again(now)
        sample = [object()]
        obstacle = before.obstacle(trace, capture, touched, result, sample)
        now.left |= before.left_containers or (last is not None and last.left)
        if now.left:  # another list may be given to the next call, where an attribute has this one
            obstacle = obstacle or "it leaves a list or dict of its arguments elsewhere"
        if both is not None and not obstacle:
            record = ReplayedTrace(trace, both, arguments, result, claims, before.grads, touched, capture)
            self._capture(record, arguments)
        else:
            why = obstacle or ("" if last is None else last.unlike(now))
            other = ""
            if not why:
                is_other = type(arguments.key[-1]) is GradKind
                other = dropped or (OTHER_GRADS if is_other else self._new_kind(own, kwargs, own is not args))
            self._see(now, arguments, why, other)
        return result

    def _owner_in(self, args: tuple[Any, ...]) -> Any:
        """Return the object whose method this is called as; None for a function."""
        return args[0] if self._owner is not None and args and isinstance(args[0], self._owner) else None

    def _new_kind(self, args: tuple[Any, ...], kwargs: dict[str, Any], is_method: bool) -> str:
        """Return why a call is the first of its kind: how its arguments differ from those of the last such call.

        `args` are those without the object of a method. At DEBUG=1 that is told once for each argument, from the third
        such call in a row on.
        """
        before, self._kind = self._kind, described(self.fxn, args, kwargs, is_method)
        self._new_kinds += 1
        what, text = unlike(before, self._kind) if before else ("", "")
        if what and self._new_kinds > 2 and DEBUG.value >= 1 and what not in self._told:
            print(f"TinyJit runs {self._name()} in this call, which is the first of its kind: {text}")
            self._told.add(what)
        return text

    def _capture(self, record: ReplayedTrace, arguments: Arguments) -> None:
        """Replay calls of this kind from now on; of more than MOST kinds the oldest is dropped."""
        self._ready[arguments.key], self._why, self._new_kinds = record, "", 0
        # from the next call on, a view among these arguments counts as its memory, which is written
        self._writes |= set(arguments.tensors_over(record.assigned))
        while len(self._ready) > MOST:
            del self._ready[next(iter(self._ready))]

    def _see(self, calls: RecordedCalls, arguments: Arguments, why: str, other: str) -> None:
        """Compare the next call of this kind with `calls`. `why` it was not captured; "" for the first of its kind.

        `other` says how that kind differs from another. At DEBUG=1 each reason is told once.
        """
        self._ready = {key: record for key, record in self._ready.items() if not is_expired(key)}
        self._seen[arguments.key] = calls
        while len(self._seen) > MOST_SEEN:
            del self._seen[next(iter(self._seen))]
        if why and events.on_uncaptured:
            events.notify(UncapturedEvent(name=self._name(), why=why))
        if why and DEBUG.value >= 1 and why not in self._told:
            print(f"TinyJit runs {self._name()} in this call: {why}")
            self._told.add(why)
        if why:
            self._new_kinds = 0
        self._why = why or "this is the first call of its kind" + (f": {other}" if other else "")

    def __repr__(self) -> str:
        counts = [str(len(names)) for names in self.kernels]
        has = f"kinds of calls captured: {len(counts)}, launches: {', '.join(counts)}" if counts else "nothing captured"
        why = f"; the last call was run: {self._why}" if self._why else ""
        return f"<TinyJit of {self._name()}: {has}{why}>"

    # Copies and pickles

    def __copy__(self) -> TinyJit[P, R]:
        """Return a TinyJit of the same function, with nothing captured."""
        copied: Any = self.fxn
        return TinyJit(copied, check=self.check)

    def __deepcopy__(self, memo: object) -> TinyJit[P, R]:
        return self.__copy__()

    def __getstate__(self) -> dict[str, Any]:
        """Return the captures. Raises GraphError when there are none: the function is not pickled."""
        with self._lock:
            if not self._ready:
                raise GraphError(
                    f"{self._name()} under TinyJit has no capture to pickle, and is not pickled itself\n"
                    "  hint: call it twice with arguments of each kind first"
                )
            if any(record.is_ambiguous(self.fxn) for record in self._ready.values()):
                raise GraphError(
                    f"{self._name()} under TinyJit has been called with one tensor only, or one value of a variable, "
                    "which it also reaches by itself: a pickle would not know which of the two it reads\n"
                    "  hint: call it once with another one first"
                )
            named = {name: getattr(self, name) for name in functools.WRAPPER_ASSIGNMENTS if hasattr(self, name)}
            # the first kind of grads last, which is what a call finds there
            ready = {arguments_of(key): self._ready[key] for key in sorted(self._ready, key=len, reverse=True)}
            return {"named": named, "ready": ready, "writes": self._writes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        empty: Any = self
        TinyJit.__init__(empty)
        self._is_loaded, self._ready, self._writes = True, state["ready"], state["writes"]
        for name, value in state["named"].items():
            setattr(self, name, value)

    def _name(self) -> str:
        """Return the name of the function, for messages."""
        return getattr(self, "__name__", "the function")

    def _no_function(self, other: bool) -> str:
        """Return the text of the error of a call that a TinyJit from a pickle cannot do.

        `other` says that no capture is for such a call; else one is, and an argument is memory from outside of it.
        """
        why = (
            "none of its captures is for arguments and settings like these" if other
            else "an argument is memory that its capture reaches by itself"
        )  # fmt: skip
        return (
            f"{self._name()} was loaded from a pickle, which has no function to run, and {why}\n"
            "  hint: shapes, dtypes, devices, settings and other arguments must be those of a call that it captured"
        )
