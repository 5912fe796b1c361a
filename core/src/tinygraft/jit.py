"""TinyJit: a function's launches, captured once and then replayed without running the function.

The first call of a kind runs the function and records what it launches. The second runs it again, and when it launched
the same kernels on the same memory, its record is replayed from then on; otherwise the next call is compared in turn.
So the function may set itself up in its first call (optimizer state, lazily made tensors), and every call is right.

What makes calls of one kind: the structure of the arguments, the shape, dtype and device of each tensor among them,
which of them are one tensor, all other arguments, and the settings that change code, training mode included. What
the function reads from outside is frozen at capture; memory that it reads is read anew. `TinyJit(check=True)` runs the
function in every call and raises when it launched something else than what was captured. A tensor that the function
makes from Python's data is frozen too; a function that writes into such a one, or gives it back, is run in every
call.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, ParamSpec, TypeVar

from tinygraft.config import CHANGE_CODE
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.engine.realize import before_replay, exclusive
from tinygraft.engine.run import Capture, Launch, capturing, replay
from tinygraft.errors import GraphError
from tinygraft.tensor import parts
from tinygraft.tensor.base import live_tensors
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, substitute, toposort

P = ParamSpec("P")
R = TypeVar("R")
Role = tuple[str, int]


@dataclass(slots=True)
class _Arguments:
    """The arguments of one call, taken apart: its kind, its tensors' BUFFERs, and the values of its variables."""

    key: tuple[Any, ...] = ()
    buffers: list[UOp] = field(default_factory=list)
    values: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Record:
    """What one call launched. roles has, for each launch, what each of its buffers is."""

    launches: list[Launch]
    roles: list[tuple[Role, ...]]
    kernels: list[object]
    result: Any
    made: dict[int, UOp]  # number among what the call made -> BUFFER, for what is in the result
    values: dict[str, int]
    kept: frozenset[int]  # numbers of the BUFFERs from outside
    written: list[weakref.ref[UOp]]  # those of them that the call writes
    assigned: frozenset[int]  # and the arguments that it writes
    parts: list[parts.Part]  # parts of symbolic ends that a replay has to check
    repeatable: bool  # whether memory with Python's data is neither written nor given back


class TinyJit(Generic[P, R]):
    """A function whose launches are captured and replayed.

    Works on functions and methods, with tensors anywhere in nested lists, tuples and dicts of the arguments and of the
    result. A result stays what it is when the function is called again. reset() forgets what was captured.

    >>> from tinygraft import Tensor
    >>> @TinyJit
    ... def double(x):
    ...     return (x * 2).realize()
    >>> [double(Tensor([i, i + 1])).tolist() for i in range(4)]
    [[0, 2], [2, 4], [4, 6], [6, 8]]
    >>> double.captured
    1
    """

    def __init__(self, fxn: Callable[P, R] | None = None, *, check: bool = False) -> None:
        self.fxn, self.check = fxn, check
        self._lock = threading.RLock()
        self.reset()
        if fxn is not None:
            functools.update_wrapper(self, fxn)

    def reset(self) -> None:
        """Forget all captures."""
        self._first: dict[tuple[Any, ...], _Record] = {}
        self._ready: dict[tuple[Any, ...], _Record] = {}
        self._alive: list[Any] = []

    @property
    def captured(self) -> int:
        """How many kinds of calls are replayed."""
        return len(self._ready)

    def __get__(self, instance: Any, owner: type | None = None) -> Callable[..., R]:
        return self if instance is None else functools.partial(self.__call__, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, or replay what it launched for arguments of this kind."""
        if self.fxn is None:
            return TinyJit(args[0], check=self.check)
        with self._lock:
            arguments = self._take_apart(args, kwargs)
            ready = self._ready.get(arguments.key)
            if ready is not None and any(node.arg.uid in ready.kept for node in arguments.buffers):
                return self.fxn(*args, **kwargs)  # an argument is memory that the function also reaches by itself
            if ready is not None and not self.check:
                return self._replay(ready, arguments)
            result, record = self._run(args, kwargs, arguments)
            before = ready or self._first.get(arguments.key)
            same = before is not None and (before.kernels, before.roles) == (record.kernels, record.roles)
            if ready is not None and not same:
                raise GraphError(_difference(self.fxn, ready, record))
            if same and record.repeatable:
                self._ready[arguments.key] = ready or record
                self._first.pop(arguments.key, None)
            else:
                self._first[arguments.key] = record
            return result

    # Arguments

    def _take_apart(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> _Arguments:
        found = _Arguments()
        numbers: dict[UOp, int] = {}
        key: list[Any] = [setting.value for setting in CHANGE_CODE]
        stack: list[Any] = [[args, dict(sorted(kwargs.items()))]]
        while stack:
            item = stack.pop()
            if isinstance(item, Tensor):
                base = _in_memory(item)
                key.append(
                    (item.shape, item.dtype, item.device, numbers.setdefault(base, len(numbers)), _form(item, base))
                )
            elif isinstance(item, (list, tuple)):
                key.append((type(item), len(item)))
                stack.extend(reversed(item))
            elif isinstance(item, dict):
                key.append((dict, tuple(item)))
                stack.extend(reversed(list(item.values())))
            elif isinstance(item, UOp) and item.op is Ops.BIND:
                key.append(item.src[0])
                found.values[item.src[0].arg.name] = item.arg
            else:
                key.append(self._plain(item))
        found.key, found.buffers = tuple(key), list(numbers)
        return found

    def _plain(self, item: Any) -> Any:
        """What tells an argument that is no tensor from others."""
        try:
            hash(item)
        except TypeError:
            if hasattr(item, "tobytes"):
                return type(item), item.tobytes(), getattr(item, "shape", None), str(getattr(item, "dtype", ""))
            if all(item is not other for other in self._alive):
                self._alive.append(item)  # its id stays its own
            return type(item), id(item)
        return type(item), repr(item) if isinstance(item, float) else item

    # Running and replaying

    def _run(self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: _Arguments) -> tuple[Any, _Record]:
        assert self.fxn is not None
        start = UOp.next_buffer()
        with capturing() as capture, parts.noting() as taken:
            result = self.fxn(*args, **kwargs)
            lazy = _tensors(result)
            if lazy:
                lazy[0].realize(*lazy[1:])
        return result, _record(capture, arguments, start, result, taken)

    def _replay(self, record: _Record, arguments: _Arguments) -> Any:
        values = record.values | arguments.values
        for part in record.parts:
            part.check(values)
        parts.note(record.parts)
        fresh = {number: UOp.buffer(old.device or "", old.arg.size, old.dtype) for number, old in record.made.items()}
        overwritten = {node for ref in record.written if (node := ref()) is not None}
        overwritten |= {arguments.buffers[number] for number in record.assigned}
        launches = []
        for launch, roles in zip(record.launches, record.roles, strict=True):
            buffers, uids = list(launch.buffers), list(launch.uids)
            for place, (role, number) in enumerate(roles):
                node = arguments.buffers[number] if role == "in" else fresh.get(number) if role == "made" else None
                if node is not None:
                    buffers[place], uids[place] = buffer_of(node), node.arg.uid
            launches.append(Launch(launch.kernel, launch.device, buffers, tuple(uids)))
        with exclusive:
            if overwritten:
                before_replay(overwritten, live_tensors())
            replay(launches, values, [*fresh.values(), *overwritten])
        swap = {record.made[number]: node for number, node in fresh.items()}
        return _restore(record.result, swap, arguments)


def _in_memory(tensor: Tensor) -> UOp:
    """The BUFFER of an argument, realised if need be, constants too."""
    tensor.realize()
    if tensor.uop.base.op is not Ops.BUFFER or any(n.op is Ops.CONST for n in toposort(tensor.uop)):
        tensor.uop = tensor.clone().realize().uop
    return tensor.uop.base


def _form(tensor: Tensor, base: UOp) -> Any:
    """How a tensor looks at its buffer: the movement ops on the way."""
    form, node = [], tensor.uop
    while node is not base:
        form.append((node.op, node.arg))
        node = node.src[0]
    return tuple(form), base.arg.size


def _tensors(nested: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dicts, in order."""
    found, stack = [], [nested]
    while stack:
        item = stack.pop()
        if isinstance(item, Tensor):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(list(item.values())))
    return found


def _record(capture: Capture, arguments: _Arguments, start: int, result: Any, taken: list[parts.Part]) -> _Record:
    inputs = {node.arg.uid: i for i, node in enumerate(arguments.buffers)}
    made: dict[int, int] = {}
    roles: list[tuple[Role, ...]] = []
    for launch in capture.launches:
        roles.append(tuple(_role(uid, inputs, made, start) for uid in launch.uids))
    kernels: list[object] = [launch.kernel for launch in capture.launches]
    held = {made[uid] for uid, node in capture.nodes.items() if uid in made and node() is not None}
    kept = frozenset(number for places in roles for role, number in places if role == "keep")
    written = {role for launch, places in zip(capture.launches, roles, strict=True)
               for place, role in enumerate(places) if _is_written(launch, place)}  # fmt: skip
    nodes = [capture.nodes[number] for role, number in sorted(written) if role == "keep" and number in capture.nodes]
    assigned = frozenset(number for role, number in written if role == "in")
    outputs = {t.uop.base for t in _tensors(result)}
    mine = {made[n.arg.uid]: n for n in outputs if n.op is Ops.BUFFER and n.arg.uid in made}
    filled, repeatable = _filled(capture.launches, roles)
    repeatable &= not any(n.op is Ops.BUFFER and n.arg.uid > start and buffer_of(n).filled for n in outputs)
    remembered = _remember(result, arguments)
    record = _Record(
        capture.launches, roles, kernels, remembered, mine, capture.values, kept, nodes, assigned, taken, repeatable
    )
    _shared_memory(record, held | filled)
    return record


def _filled(launches: list[Launch], roles: list[tuple[Role, ...]]) -> tuple[set[int], bool]:
    """What the call made from Python's data, which is there only once, and whether no launch writes into it."""
    filled, written = set(), set()
    for launch, places in zip(launches, roles, strict=True):
        for place, (buffer, (role, number)) in enumerate(zip(launch.buffers, places, strict=True)):
            if role == "made" and buffer.filled:
                filled.add(number)
                if _is_written(launch, place):
                    written.add(number)
    return filled, not written


def _is_written(launch: Launch, place: int) -> bool:
    """Whether a launch writes its buffer at a place."""
    return place == 0 if launch.kernel is None else launch.kernel.signature.params[place].written


def _role(uid: int, inputs: dict[int, int], made: dict[int, int], start: int) -> Role:
    if uid in inputs:
        return "in", inputs[uid]
    if uid > start:
        return "made", made.setdefault(uid, len(made))
    return "keep", uid


def _shared_memory(record: _Record, held: set[int]) -> None:
    """Let values that nobody holds share memory once the last launch that reads one has run."""
    last: dict[int, int] = {}
    for i, roles in enumerate(record.roles):
        for role, number in roles:
            if role == "made" and number not in held:
                last[number] = i
    free: dict[tuple[str, int], list[Buffer]] = {}
    home: dict[int, Buffer] = {}
    for i, (launch, roles) in enumerate(zip(record.launches, record.roles, strict=True)):
        buffers = list(launch.buffers)
        ending = []
        for place, (role, number) in enumerate(roles):
            if role != "made" or number not in last:
                continue
            buffer = buffers[place]
            if number not in home:
                spare = free.get((buffer.device, buffer.nbytes))
                home[number] = spare.pop() if spare else buffer
            buffers[place] = home[number]
            if last[number] == i and number not in ending:
                ending.append(number)
        for number in ending:
            free.setdefault((home[number].device, home[number].nbytes), []).append(home[number])
        record.launches[i] = Launch(launch.kernel, launch.device, buffers, launch.uids)


@dataclass(frozen=True, slots=True)
class _Held:
    """The place of a tensor in a result: its node, and which argument's memory it looks at, if any."""

    uop: UOp
    argument: int | None
    requires_grad: bool | None


def _remember(result: Any, arguments: _Arguments) -> Any:
    """A result with its tensors taken out."""
    inputs = {node: i for i, node in enumerate(arguments.buffers)}
    return _mapped(result, Tensor, lambda t: _Held(t.uop, inputs.get(t.uop.base), t.requires_grad))


def _restore(remembered: Any, swap: dict[UOp, UOp], arguments: _Arguments) -> Any:
    def tensor(held: _Held) -> Tensor:
        known = dict(swap)
        if held.argument is not None:
            known[held.uop.base] = arguments.buffers[held.argument]
        return Tensor(substitute(held.uop, known), requires_grad=held.requires_grad)

    return _mapped(remembered, _Held, tensor)


def _mapped(nested: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and dicts with every item of a kind changed. A result is nested a few levels at most."""
    if isinstance(nested, kind):
        return change(nested)
    if isinstance(nested, tuple) and hasattr(nested, "_fields"):
        return type(nested)(*(_mapped(item, kind, change) for item in nested))
    if isinstance(nested, (list, tuple)):
        return type(nested)(_mapped(item, kind, change) for item in nested)
    if isinstance(nested, dict):
        return {name: _mapped(item, kind, change) for name, item in nested.items()}
    return nested


def _difference(fxn: Callable[..., Any], captured: _Record, now: _Record) -> str:
    """What TinyJit(check=True) says when a call launched something else than what was captured."""
    name = getattr(fxn, "__name__", "the function")
    for i, (a, b) in enumerate(zip(captured.kernels, now.kernels, strict=False)):
        if a is not b:
            was, is_ = (getattr(k, "name", "a copy") for k in (a, b))
            other = "another " if was == is_ else ""
            return (
                f"TinyJit(check=True): {name} launched {other}{is_} where {was} was captured, as launch {i + 1}\n"
                "  hint: something that it reads from outside has changed; pass it as an argument"
            )
    if len(captured.kernels) != len(now.kernels):
        were, are = len(captured.kernels), len(now.kernels)
        return (
            f"TinyJit(check=True): {name} launched {are} kernels where {were} were captured\n"
            "  hint: something that it reads from outside has changed; pass it as an argument"
        )
    return (
        f"TinyJit(check=True): {name} used other memory than what was captured\n"
        "  hint: a tensor that it reads from outside is a new one in each call; assign to it, or pass it as an argument"
    )
