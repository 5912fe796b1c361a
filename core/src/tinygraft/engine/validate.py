"""VALIDATE=1: each schedule is also run by an evaluator that is not the compiler, and what was written is compared.

    checking = before(order, homes, tensors)     evaluates the graph with NumPy, before any kernel has stored anything
    checking.compare(work)                       raises ValidationError where memory holds something else afterwards
    counts()                                     what was compared and what had to be skipped, with the reasons

Compared are the results of a schedule, everything that was assigned to, and the memory that the graph reads and does
not assign to, which must be as it was. What has to be equal: integers and bools, values that were only moved (to the
sign of a zero; a NaN equals a NaN), and floats whose arithmetic is exact. Other floats lie within BOUND times the
distance between the evaluation and noisy ones (noise.py), and SLACK units in the last place, of the evaluation.
Integers and bools that the noise changes, such as the index of the larger of two that are nearly equal, lie between
those of the noisy runs; they are counted as undecided.

A value that a FEW noisy runs do not pass is held to MANY. Compiled code is one more draw, from a distribution that is
narrower than the noise: with 16 draws the chance that all of them lie so close together that BOUND times their distance
is less than what correct code is off by is below 1e-9 for each element. What is wrong by 1e-3, a dropped term, or an
old value is off by thousands of units.
"""

from __future__ import annotations

import atexit
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.engine.arithmetic import Array, of_memory
from tinygraft.engine.assigns import assigned_to
from tinygraft.engine.evaluate import CannotEvaluate, Evaluation, Value, work
from tinygraft.engine.noise import least, unit
from tinygraft.engine.plan import BoundPlan
from tinygraft.engine.run import writes
from tinygraft.errors import ValidationError
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.ops import Ops, ShardArg
from tinygraft.uop.sharding import starts
from tinygraft.uop.uop import UOp

# assumed: a bound on memory
LARGEST = 1 << 24  # elements of one array that the evaluator writes at most
# measured: half a minute on two cores (2026-11-22)
MOST = 1 << 27  # elements of all arrays of a schedule
# given: MANY and BOUND by the chance that the docstring computes. FEW is assumed: a cheap first look
FEW, MANY = 4, 16  # noisy runs that may pass a value, and that it is condemned by
BOUND = 8.0  # times the greatest distance between a noisy run and the evaluation
# assumed: never measured
SLACK = 2.0  # units in the last place, of values that some rounding has made


@dataclass
class Counts:
    """What has been validated in this process. undecided counts elements, skipped what was skipped by the reason."""

    schedules: int = 0
    outputs: int = 0
    undecided: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """All of it in one line."""
        skipped = f"{self.skipped.total()} skipped"
        if self.skipped:
            skipped += ": " + ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common())
        undecided = f", {self.undecided} elements undecided" if self.undecided else ""
        return f"VALIDATE: {self.schedules} schedules, {self.outputs} outputs compared{undecided}, {skipped}"


_counts = Counts()
_readable: dict[Backend, bool] = {}


def counts() -> Counts:
    """What has been compared and skipped so far."""
    return _counts


def skip(reason: str) -> None:
    """Count something that cannot be validated."""
    _counts.skipped[reason] += 1


@atexit.register
def _report() -> None:
    """One line at the end of the process, where anything was to be validated."""
    if _counts.schedules or _counts.skipped:
        print(_counts.line(), file=sys.stderr)


def before(order: Sequence[UOp], homes: Mapping[UOp, UOp], tensors: Iterable[Any]) -> Checking | None:
    """The values that a schedule should write; None, and counted, where they cannot be had.

    order is the graph of homes' values. tensors are those that will be realised: errors name their lines.
    """
    try:
        return Checking(order, homes, tensors)
    except (CannotEvaluate, NotImplementedError) as reason:
        skip(str(reason))
    except MemoryError:
        skip("without memory to evaluate in")
    return None


class Checking:
    """One schedule: what its graph is worth, from the memory as it is when this is made."""

    def __init__(self, order: Sequence[UOp], homes: Mapping[UOp, UOp], tensors: Iterable[Any]) -> None:
        self.homes = list(dict.fromkeys(homes.values()))
        self.assigned = {node: memory for node, memory in _assigned(order).items() if node not in homes}
        roots = [*self.homes, *self.assigned]
        self.lines = {memory_base(t.uop): t.made_at for t in tensors if hasattr(t, "made_at")}
        self.memory: dict[UOp, bytearray] = {}
        self.read = partial(_read, self.memory)  # bound to self it would be a cycle, which keeps memory alive
        self.evaluation = Evaluation(roots, self.read, others=FEW)
        largest, together = work(self.evaluation.order, self.evaluation.products)
        if largest > LARGEST or together > MOST:
            raise CannotEvaluate("too large")
        for name in dict.fromkeys(name for n in order if n.op is Ops.DEVICE for name in _names(n.arg)):
            if not _can_read(Device[name]):
                raise CannotEvaluate(f"on {Device[name].name}, whose memory cannot be read")
        self.memory |= {n: _bytes(buffer_of(n)) for n in self.evaluation.order if n.op is Ops.BUFFER}
        self.values = self.evaluation.run()
        self.kept = set(self.memory) - {b for n in order if n.op is Ops.ASSIGN for b in buffers_of(assigned_to(n))}

    def compare(self, made: BoundPlan) -> None:
        """Raise ValidationError where memory does not hold what it should."""
        _counts.schedules += 1
        for node in self.homes:
            self._compare(node, made.memory[node], made)
        written = {buffer for call in made.calls for buffer in writes(call)}
        for node, memory in self.assigned.items():  # nobody holds them, and what nobody reads need not be written
            self._compare(node, memory, made, written)
        for node in self.kept:
            if _bytes(buffer_of(node)) != self.memory[node]:
                old, new = self.read(node), of_memory(_bytes(buffer_of(node)), node.dtype)
                raise _different(
                    node, old, new, np.asarray(old != new), "is only read, and has changed", made, [node], ""
                )

    def _compare(self, node: UOp, memory: UOp, made: BoundPlan, only: Collection[UOp] | None = None) -> None:
        """Hold one output, on each of its devices, to its values; where only is given, those of its BUFFERs."""
        _counts.outputs += 1
        value, shape = self.values[node], self.evaluation.shape(node)
        for buffer, part in _parts(memory, shape):
            if only is not None and buffer not in only:
                continue
            wanted = Value(tuple([x.reshape(shape)[part] for x in value.samples]), value.moved)
            found = of_memory(_bytes(buffer_of(buffer)), node.dtype)[: wanted.samples[0].size]
            found = found.reshape(wanted.samples[0].shape)
            wrong, undecided = _wrong(found, wanted, node.dtype)
            if wrong.any() and len(value.samples) > 1:  # few runs have not passed it
                value = self._by_many(node)
                wanted = Value(tuple([x.reshape(shape)[part] for x in value.samples]), value.moved)
                wrong, undecided = _wrong(found, wanted, node.dtype)
            _counts.undecided += int(undecided.sum())
            if wrong.any():
                line = self.lines.get(memory_base(node))
                where = "" if line is None else f"\n  made at {line[0]}:{line[1]}"
                raise _different(node, wanted.samples[0], found, wrong, "is wrong", made, [buffer], where)

    def _by_many(self, node: UOp) -> Value:
        """The value of an output with as many noisy runs as it is condemned by."""
        self.values[node] = Evaluation((node,), self.read, others=MANY).run()[node]
        return self.values[node]


def _read(memory: Mapping[UOp, bytearray], node: UOp) -> Array:
    return of_memory(memory[node], node.dtype)


def _assigned(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """The values that memory has in the end because they were assigned to it, with that memory."""
    nodes = [node for node in order if node.op is Ops.ASSIGN and assigned_to(node).op in HELD]
    overtaken = {memory_base(node.src[0]) for node in nodes}
    last: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node not in overtaken:
            last.setdefault(assigned_to(node), []).append(node)
    return {found[0]: root for root, found in last.items() if len(found) == 1}


def _bytes(buffer: Buffer) -> bytearray:
    """What a buffer holds; of a file that is not read yet the bytes, and it stays unread."""
    raw = bytearray(buffer.nbytes)
    if (source := buffer.unread) is not None:
        source.read_into(memoryview(raw))
        return raw
    buffer.copy_out(memoryview(raw))
    return raw


def _names(device: str | tuple[str, ...]) -> tuple[str, ...]:
    return device if isinstance(device, tuple) else (device,)


def _can_read(backend: Backend) -> bool:
    """Whether a device gives back what was written to its memory; one that only pretends to compute does not."""
    if backend not in _readable:
        pattern, found = bytearray(range(1, 65)), bytearray(64)
        handle = backend.allocator.alloc(64)
        backend.allocator.copy_in(handle, memoryview(pattern))
        backend.allocator.copy_out(memoryview(found), handle)
        backend.allocator.free(handle, 64)
        _readable[backend] = pattern == found
    return _readable[backend]


def _parts(memory: UOp, shape: tuple[int, ...]) -> list[tuple[UOp, tuple[slice, ...]]]:
    """The BUFFERs that hold a value, each with the part of it that it holds."""
    everything = tuple([slice(None)] * len(shape))
    if memory.op is not Ops.MULTI:
        return [(memory, everything)]
    axis, buffers = memory.arg, buffers_of(memory)
    if axis is None:
        return [(buffer, everything) for buffer in buffers]
    layout = ShardArg(axis, tuple([part.shape[axis] for part in memory.src]))
    cuts = [slice(start, start + size) for start, size in zip(starts(layout), layout.sizes, strict=True)]
    return [(b, (*everything[:axis], cut, *everything[axis + 1 :])) for b, cut in zip(buffers, cuts, strict=True)]


# Whether what was found may be


def _wrong(found: Array, wanted: Value, dtype: DType) -> tuple[Array, Array]:
    """Where found cannot be what a graph is worth, and where that has more than one value."""
    best, others = wanted.samples[0], wanted.samples[1:]
    if dtype.kind != "float":
        low, high = np.minimum.reduce(wanted.samples), np.maximum.reduce(wanted.samples)
        return np.asarray((found < low) | (found > high)), np.asarray(low != high)
    same = (found == best) | (np.isnan(found) & np.isnan(best))
    if wanted.moved:
        same &= np.isnan(best) | (np.signbit(found) == np.signbit(best))
    none = np.zeros(np.shape(best), bool)
    if not others:
        return np.asarray(~same), none
    with np.errstate(all="ignore"):
        center, value = best.astype(np.float64), found.astype(np.float64)
        distance = np.max([np.abs(x.astype(np.float64) - center) for x in others], axis=0)
        for x in others:  # where some are NaN or infinite and others are not, it may be any of them
            same |= (found == x) | (np.isnan(found) & np.isnan(x))
        finite = np.isfinite(center) & np.isfinite(value)
        bound = BOUND * distance + SLACK * (unit(dtype) * np.abs(center) + least(dtype))
        same |= finite & (np.abs(value - center) <= bound)
        same |= ~np.isfinite(distance) & np.isfinite(center) & np.isinf(value)
    return np.asarray(~same), none


def _different(node: UOp, wanted: Array, found: Array, wrong: Array, what: str, made: BoundPlan, buffers: Sequence[UOp],
               where: str) -> ValidationError:  # fmt: skip
    """Return the error for an output, or for memory that was only read and has changed.

    It shows the first element of the mask `wrong`, and the kernels of `made` that write to `buffers`. `what` is the
    verb of the sentence ("is wrong"), `where` names the user's line, or is empty.
    """
    first = tuple(int(places[0]) for places in np.nonzero(np.atleast_1d(wrong)))[: wrong.ndim]
    names = [
        "a copy" if call.kernel is None else call.kernel.name
        for call in made.calls if not set(buffers).isdisjoint(writes(call))
    ]  # fmt: skip
    by = f"written by {', '.join(dict.fromkeys(names))}" if names else "which no kernel writes"
    got, expected = (np.asarray(x)[first].item() for x in (found, wanted))
    return ValidationError(
        f"VALIDATE=1: a {'memory' if node.op is Ops.BUFFER else 'result'} of shape {node.shape} and dtype "
        f"{node.dtype.name} on {buffers[0].device} {what} in {int(wrong.sum())} of {wrong.size} elements: "
        f"at {first} it is {got!r}, NumPy gives {expected!r}; {by}{where}\n"
        "  hint: DEBUG=4 prints the kernels, DEBUG=5 their graphs; NOOPT=1 says whether an action is at fault"
    )
