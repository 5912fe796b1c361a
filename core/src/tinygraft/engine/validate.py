"""VALIDATE=1: each schedule is also run by an evaluator that is not the compiler, and what was written is compared.

    check = prepare_check(order, homes, tensors)   evaluates the graph with NumPy, before any kernel has stored anything
    check.compare(work)                            raises ValidationError where memory has other values afterwards
    counts()                                       what was compared and what had to be skipped, with the reasons

Compared are the results of a schedule, everything that was assigned to, and the memory that the graph reads and does
not assign to, which has to be unchanged. Equality is required of integers and bools, of values that were only moved (to
the sign of a zero; a NaN equals a NaN), and of floats whose arithmetic is exact. Other floats have to be within BOUND
times the greatest difference between the evaluation and a noisy run (noise.py), and SLACK ulps, of the evaluation.
Integers and bools that the noise changes, such as the index of the larger of two nearly equal values, have to be
between those of the noisy runs; they are counted as undecided.

A value that fails with FEW noisy runs is compared with MANY. Compiled code is one more draw, from a distribution that
is narrower than the noise: with 16 draws the chance that all of them are so close together that BOUND times their
difference is less than the error of correct code is below 1e-9 for each element. A relative error of 1e-3, a dropped
term, or an old value is off by thousands of ulps.
"""

from __future__ import annotations

import atexit
import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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
from tinygraft.uop.sharding import own_rank, starts
from tinygraft.uop.uop import UOp

# assumed: a bound on memory
LARGEST = 1 << 24  # elements of one array that the evaluator writes at most
# measured: half a minute on two cores (2026-11-22)
MOST = 1 << 27  # elements of all arrays of a schedule
# given: MANY and BOUND by the chance that the docstring computes. FEW is assumed: a cheap first comparison
FEW, MANY = 4, 16  # noisy runs of the first comparison, and of the one that decides
BOUND = 8.0  # times the greatest difference between a noisy run and the evaluation
# assumed: never measured
SLACK = 2.0  # ulps, for values that were rounded


@dataclass
class Counts:
    """What has been validated in this process.

    `undecided` counts elements, `skipped` schedules and replays by the reason why they could not be validated.
    """

    schedules: int = 0
    outputs: int = 0
    undecided: int = 0
    skipped: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """Return all of it as one line."""
        skipped = f"{self.skipped.total()} skipped"
        if self.skipped:
            skipped += ": " + ", ".join(f"{count} {reason}" for reason, count in self.skipped.most_common())
        undecided = f", {self.undecided} elements undecided" if self.undecided else ""
        return f"VALIDATE: {self.schedules} schedules, {self.outputs} outputs compared{undecided}, {skipped}"


_counts = Counts()
_readable: dict[Backend, bool] = {}


def counts() -> Counts:
    """Return what has been compared and skipped so far; it changes with each validation."""
    return _counts


def skip(reason: str) -> None:
    """Count a schedule or a replay that cannot be validated for `reason`."""
    _counts.skipped[reason] += 1


@atexit.register
def _report() -> None:
    """Print the counts at the end of the process, if anything was to be validated."""
    if _counts.schedules or _counts.skipped:
        print(_counts.line(), file=sys.stderr)


def prepare_check(order: Sequence[UOp], homes: Mapping[UOp, UOp], tensors: Iterable[Any]) -> Checking | None:
    """Return the check of a schedule, with the values that it should write; None where they cannot be evaluated.

    None is counted as skipped, with the reason. Called before the schedule runs.

    `homes` maps each node that becomes memory to the node whose memory that is, as in a RealizeRequest; the latter are
    evaluated, here, from a copy of the memory that `order`, their graph, reads. None also where memory is short.
    `tensors` are those that will be realised: errors name their lines.
    """
    try:
        return Checking(order, homes, tensors)
    except (CannotEvaluate, NotImplementedError) as reason:
        skip(str(reason))
    except MemoryError:
        skip("without memory to evaluate in")
    return None


class Checking:
    """The check of one schedule: the values of its graph, evaluated from memory as it is when this is made.

    Raises CannotEvaluate where the graph is too large, or on a device whose memory cannot be read.
    """

    def __init__(self, order: Sequence[UOp], homes: Mapping[UOp, UOp], tensors: Iterable[Any]) -> None:
        self.homes: list[UOp] = list(dict.fromkeys(homes.values()))
        self.assigned: dict[UOp, UOp] = {node: memory for node, memory in _assigned(order).items() if node not in homes}
        roots = [*self.homes, *self.assigned]
        self.lines: dict[UOp, Any] = {memory_base(t.uop): t.made_at for t in tensors if hasattr(t, "made_at")}
        self.memory: dict[UOp, bytearray] = {}
        self.read: Callable[[UOp], Array] = partial(
            _read, self.memory
        )  # bound to self it would be a cycle, which keeps memory alive
        self.evaluation: Evaluation = Evaluation(roots, self.read, others=FEW)
        largest, together = work(self.evaluation.order, self.evaluation.products)
        if largest > LARGEST or together > MOST:
            raise CannotEvaluate("too large")
        names = dict.fromkeys(name for n in order if n.op is Ops.DEVICE for name in _names(n.arg))
        if own_rank(tuple(names)) is not None or any(own_rank(n.device) is not None for n in order):
            raise CannotEvaluate("what other ranks compute")
        for name in names:
            if not can_read(Device[name]):
                raise CannotEvaluate(f"on {Device[name].name}, whose memory cannot be read")
        self.memory |= {n: _bytes(buffer_of(n)) for n in self.evaluation.order if n.op is Ops.BUFFER}
        self.values: dict[UOp, Value] = self.evaluation.run()
        self.unchanged: set[UOp] = set(self.memory) - {
            b for n in order if n.op is Ops.ASSIGN for b in buffers_of(assigned_to(n))
        }

    def compare(self, made: BoundPlan) -> None:
        """Compare memory with the expected values. Raises ValidationError where it differs.

        `made` is the plan that has run. Compared are results, assigned values whose BUFFERs a call wrote, and memory
        that is only read, which has to be unchanged.
        """
        _counts.schedules += 1
        for node in self.homes:
            self._compare(node, made.memory[node], made)
        written = {buffer for call in made.calls for buffer in writes(call)}
        for node, memory in self.assigned.items():  # no tensor has them, and unused ones need not be written
            self._compare(node, memory, made, written)
        for node in self.unchanged:
            if _bytes(buffer_of(node)) != self.memory[node]:
                old, new = self.read(node), of_memory(_bytes(buffer_of(node)), node.dtype)
                raise _different(
                    node, old, new, np.asarray(old != new), "is only read, and has changed", made, [node], ""
                )

    def _compare(self, node: UOp, memory: UOp, made: BoundPlan, only: Collection[UOp] | None = None) -> None:
        """Compare one output, on each of its devices, with its expected values.

        `memory` has it, `only` restricts the comparison to some BUFFERs, `made` names kernels in errors. Raises
        ValidationError. What is wrong with FEW noisy runs is compared again with MANY.
        """
        _counts.outputs += 1
        value, shape = self.values[node], self.evaluation.shape(node)
        for buffer, part in _shards(memory, shape):
            if only is not None and buffer not in only:
                continue
            wanted = Value(tuple([x.reshape(shape)[part] for x in value.samples]), value.moved)
            found = of_memory(_bytes(buffer_of(buffer)), node.dtype)[: wanted.samples[0].size]
            found = found.reshape(wanted.samples[0].shape)
            wrong, undecided = _wrong(found, wanted, node.dtype)
            if wrong.any() and len(value.samples) > 1:  # it failed with few runs: compare with many
                value = self._by_many(node)
                wanted = Value(tuple([x.reshape(shape)[part] for x in value.samples]), value.moved)
                wrong, undecided = _wrong(found, wanted, node.dtype)
            _counts.undecided += int(undecided.sum())
            if wrong.any():
                line = self.lines.get(memory_base(node))
                where = "" if line is None else f"\n  made at {line[0]}:{line[1]}"
                raise _different(node, wanted.samples[0], found, wrong, "is wrong", made, [buffer], where)

    def _by_many(self, node: UOp) -> Value:
        """Return the values of an output with MANY noisy runs, from memory as it was before; `values` has them then."""
        self.values[node] = Evaluation((node,), self.read, others=MANY).run()[node]
        return self.values[node]


def _read(memory: Mapping[UOp, bytearray], node: UOp) -> Array:
    """Return the values of the BUFFER `node` from its bytes in `memory`."""
    return of_memory(memory[node], node.dtype)


def _assigned(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return the values that memory has in the end because they were assigned to it: value -> memory.

    Memory that several ASSIGNs write to independently is omitted: which of them is the last is not known here.
    """
    nodes = [node for node in order if node.op is Ops.ASSIGN and assigned_to(node).op in HELD]
    overtaken = {memory_base(node.src[0]) for node in nodes}
    last: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node not in overtaken:
            last.setdefault(assigned_to(node), []).append(node)
    return {found[0]: root for root, found in last.items() if len(found) == 1}


def _bytes(buffer: Buffer) -> bytearray:
    """Return the bytes of a buffer; those of a file that is not read yet are read without filling the buffer."""
    raw = bytearray(buffer.nbytes)
    if (source := buffer.unread) is not None:
        source.read_into(memoryview(raw))
        return raw
    buffer.copy_out(memoryview(raw))
    return raw


def _names(device: str | tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the devices that the arg of a DEVICE has."""
    return device if isinstance(device, tuple) else (device,)


def can_read(backend: Backend) -> bool:
    """Return whether reading memory of a device returns what was written; the NULL device has none.

    That is tried once for each backend, with 64 bytes.
    """
    if backend not in _readable:
        pattern, found = bytearray(range(1, 65)), bytearray(64)
        handle = backend.allocator.alloc(64)
        backend.allocator.copy_in(handle, memoryview(pattern))
        backend.allocator.copy_out(memoryview(found), handle)
        backend.allocator.free(handle, 64)
        _readable[backend] = pattern == found
    return _readable[backend]


def _shards(memory: UOp, shape: tuple[int, ...]) -> list[tuple[UOp, tuple[slice, ...]]]:
    """Return the BUFFERs of a value of `shape`, each with the slices of the value that it has."""
    everything = tuple([slice(None)] * len(shape))
    if memory.op is not Ops.MULTI:
        return [(memory, everything)]
    axis, buffers = memory.arg, buffers_of(memory)
    if axis is None:
        return [(buffer, everything) for buffer in buffers]
    layout = ShardArg(axis, tuple([shard.shape[axis] for shard in memory.src]))
    cuts = [slice(start, start + size) for start, size in zip(starts(layout), layout.sizes, strict=True)]
    return [(b, (*everything[:axis], cut, *everything[axis + 1 :])) for b, cut in zip(buffers, cuts, strict=True)]


# The comparison


def _wrong(found: Array, wanted: Value, dtype: DType) -> tuple[Array, Array]:
    """Return two masks: where `found` is no possible result of rounding `wanted`, and where it is undecided.

    Undecided are only integers and bools, where the noisy runs differ. Floats may be off by BOUND times what noisy runs
    are and SLACK ulps; those that are exact, or were only moved, have to be equal.
    """
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
        for x in others:  # where some runs are NaN or infinite and others are not, any of them is accepted
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
    verb of the sentence ("is wrong"), `where` names the user's line, or is empty. `wanted` and `found` are the expected
    and the actual values.
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
