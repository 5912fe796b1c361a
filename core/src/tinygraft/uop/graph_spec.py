"""What a graph may contain at each stage, and the checks that SPEC turns on.

In: a tensor graph (TENSOR), a kernel's sink (KERNEL) or the uops of a Linear (LINEAR). Out: nothing, or a
GraphError that names the stage, the reason and the node. SPEC=1 checks after each stage and pass, SPEC=2 also
checks every node as it is made, by the rules of nodes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinygraft import config
from tinygraft.errors import GraphError
from tinygraft.uop import uop as interning
from tinygraft.uop.linear import ranges_of, starts_aligned
from tinygraft.uop.nodes import fault
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, AxisKind, Ops, StoreHint
from tinygraft.uop.show import brief
from tinygraft.uop.uop import UOp, toposort

Fault = tuple[UOp, str]


@dataclass(frozen=True, slots=True)
class Spec:
    """A stage: what its graphs are called, the ops that are allowed, and rules for the whole graph."""

    name: str
    ops: frozenset[Ops]
    rules: tuple[Callable[[Sequence[UOp]], Fault | None], ...]
    listed: bool = False  # the subject is a list of nodes whose order matters


def check(spec: Spec, subject: UOp | Sequence[UOp], stage: str) -> None:
    """Raise GraphError when `subject` is not what `spec` allows. Does nothing while SPEC is 0.

    `subject` is a sink, or a sequence: roots of a graph, or the instructions of a linear form. `stage` names the pass
    that made it.
    """
    if not config.SPEC.value:
        return
    found = first_fault(spec, subject)
    if found is not None:
        u, reason = found
        raise GraphError(f"{stage} made an invalid {spec.name}: {reason}\n  node: {brief(u)}")


def first_fault(spec: Spec, subject: UOp | Sequence[UOp]) -> Fault | None:
    """Return the first node of `subject` that `spec` does not allow, and why; None where there is none."""
    roots = (subject,) if isinstance(subject, UOp) else tuple(subject)
    nodes = roots if spec.listed else toposort(*roots)
    for u in nodes:
        if u.op not in spec.ops:
            return u, f"{u.op.name} is not allowed in a {spec.name}"
        if (reason := fault(u)) is not None:
            return u, reason
    for rule in spec.rules:
        if (found := rule(nodes)) is not None:
            return found
    return None


# The tensor graph


def one_device(nodes: Sequence[UOp]) -> Fault | None:
    """Return the first node with sources on different devices, and the sentence of the fault; None where there is none.

    COPY, SHARD, MULTI, FUNCTION and SINK may have such sources. Sources without a device are not counted.
    """
    for u in nodes:
        if u.op not in _CROSS:
            devices = dict.fromkeys(s.device for s in u.src if s.device is not None)
            if len(devices) > 1 and u.op is not Ops.SINK:
                return u, f"{u.op.name} has sources on {' and '.join(map(str, devices))}"
    return None


_CROSS = frozenset({Ops.COPY, Ops.SHARD, Ops.MULTI, Ops.FUNCTION})


def no_several(nodes: Sequence[UOp]) -> Fault | None:
    """Require that every node is on one device."""
    for u in nodes:
        if isinstance(u.device, tuple):
            return u, f"{u.op.name} is on several devices: {', '.join(u.device)}"
    return None


TENSOR = Spec(
    "tensor graph",
    frozenset({
        Ops.CONST, Ops.DEVICE, Ops.BUFFER, Ops.VARIABLE, Ops.BIND, Ops.IOTA, Ops.PLACEHOLDER, Ops.FOLD, Ops.CAT,
        Ops.REDUCE_AXIS, Ops.GATHER, Ops.SCATTER, Ops.SCAN, Ops.ROUTINE, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD,
        Ops.DETACH, Ops.COPY, Ops.ASSIGN, Ops.AFTER, Ops.SINK, Ops.FUNCTION, Ops.SHARD, Ops.MULTI, *MOVEMENT,
        *ELEMENTWISE,
    }),
    (one_device,),
)  # fmt: skip
SPLIT = Spec("graph of single devices", TENSOR.ops - {Ops.SHARD, Ops.MULTI}, (one_device, no_several))
WAITLESS = Spec("graph of values alone", SPLIT.ops - {Ops.AFTER}, SPLIT.rules)


# The kernel graph


def scalars_only(nodes: Sequence[UOp]) -> Fault | None:
    """Require that every node is one number, on no device."""
    for u in nodes:
        if u.shape != () or u.device is not None:
            return u, f"{u.op.name} has shape {u.shape} and device {u.device}; a kernel computes one number at a time"
    return None


def sink_of_stores(nodes: Sequence[UOp]) -> Fault | None:
    """Require one SINK, whose sources are STOREs, BARRIERs and AFTERs."""
    sinks = [u for u in nodes if u.op is Ops.SINK]
    if len(sinks) != 1:
        return nodes[-1], f"a kernel graph has one SINK, got {len(sinks)}"
    for source in sinks[0].src:
        if source.op not in (Ops.STORE, Ops.BARRIER, Ops.AFTER):
            return sinks[0], f"a SINK is over STOREs, got {source.op.name}"
    return None


def unique_numbers(nodes: Sequence[UOp]) -> Fault | None:
    """Require that the axis of a range, the slot of an argument, the number of a register or memory are unique."""
    seen: dict[tuple[Ops, int], UOp] = {}
    for u in nodes:
        if u.op in _NUMBER:
            number: int = getattr(u.arg, _NUMBER[u.op])
            if seen.setdefault((u.op, number), u) is not u:
                return u, f"two {u.op.name}s have the {_NUMBER[u.op]} {number}"
    return None


_NUMBER = {
    Ops.RANGE: "axis", Ops.PARAM: "slot", Ops.LOCAL: "number", Ops.REG: "number", Ops.TILE: "number",
}  # fmt: skip


def sizes_before_ranges(nodes: Sequence[UOp]) -> Fault | None:
    """Require that the size of a range depends only on ranges outside of it."""
    for u in nodes:
        if u.op is Ops.RANGE and u.src[0].ranges >> u.arg.axis:
            return u, f"the size of range {u.arg.axis} depends on a range that is not outside it"
    return None


_EFFECTS = frozenset({Ops.STORE, Ops.MATRIX, Ops.PUT, Ops.BARRIER, Ops.AFTER, Ops.ACCUM, Ops.END})


def waits_for_effects(nodes: Sequence[UOp]) -> Fault | None:
    """Require that AFTER waits for effects, as of STOREs and BARRIERs, and BARRIER for AFTERs, which fill memory."""
    for u in nodes:
        waits = [s for s in u.src[1:] if s.op is not Ops.RANGE] if u.op is Ops.AFTER else u.src
        waits = waits if u.op in (Ops.AFTER, Ops.BARRIER) else ()
        for source in waits:
            if u.op is Ops.BARRIER and source.op is not Ops.AFTER:
                return u, f"BARRIER waits for AFTERs that fill memory, got {source.op.name}"
            if source.op not in _EFFECTS:
                return u, f"{u.op.name} waits for STOREs and BARRIERs, got {source.op.name}"
    return None


_KERNEL_OPS = frozenset({
    Ops.CONST, Ops.VARIABLE, Ops.PARAM, Ops.LOCAL, Ops.RANGE, Ops.LOAD, Ops.STORE, Ops.AFTER, Ops.BARRIER, *ELEMENTWISE,
})  # fmt: skip
KERNEL = Spec(
    "kernel graph",
    _KERNEL_OPS | {Ops.REDUCE, Ops.DOT, Ops.MATRIX, Ops.SINK},
    (scalars_only, sink_of_stores, unique_numbers, sizes_before_ranges, waits_for_effects),
)


# The linear form

LOOPS = frozenset({AxisKind.LOOP, AxisKind.ORDERED, AxisKind.PARALLEL})
Loops = tuple[UOp, ...]


def nested_loops(uops: Sequence[UOp]) -> Fault | None:
    """Require the order of a linear form.

    Each node is listed once and after its sources. Loops are closed innermost first, none that is parallel is inside of
    another, and a value that is listed in a loop is used in it. A register is read after the loops that add to it, and
    one that is added to is read.
    """
    listed: dict[UOp, Loops] = {}  # the loops that are open where a node is listed
    added: dict[UOp, list[Loops]] = {}  # the same for the ACCUMs of a register
    loops: Loops = ()
    for u in uops:
        if u in listed:
            return u, "it is listed twice"
        for source in u.src:
            if source not in listed:
                return u, f"its source {source.op.name} is not listed before it"
            if source.op not in _ORDER_ONLY and u.op is not Ops.END and not _inside(loops, listed[source]):
                return u, f"its source {source.op.name} is listed in a loop that is closed here"
        if u.op is Ops.END:
            if not loops or loops[-1] is not u.src[0]:
                return u, "it does not close the innermost open loop"
            loops = loops[:-1]
        elif u.op in (Ops.ACCUM, Ops.PRODUCT):
            added.setdefault(u.src[0], []).append(loops)
        elif u.op in (Ops.GET, Ops.PUT):
            register = u.src[-1]
            for where in added.get(register, ()):
                own = where[len(listed[register]) :]
                if any(loop in loops for loop in own):
                    adds = "an ACCUM" if u.op is Ops.GET else "a PRODUCT"
                    return u, f"it is read in range {own[0].arg.axis}, in which {adds} still adds to it"
        listed[u] = loops
        if u.op is Ops.RANGE and u.arg.kind in LOOPS:
            if u.arg.kind is AxisKind.PARALLEL and any(loop.arg.kind is AxisKind.PARALLEL for loop in loops):
                return u, "it is parallel inside of a parallel loop: each thread would do a part of its part"
            loops = listed[u] = (*loops, u)
    if loops:
        return loops[-1], "its loop is never closed"
    read: set[UOp] = set()
    for u in reversed(uops):
        if u.op in (Ops.GET, Ops.PUT):
            read.add(u.src[-1])
        elif u.op in (Ops.ACCUM, Ops.PRODUCT) and u.src[0] not in read:
            return u, "its register is not read after it"
    return None


_ORDER_ONLY = frozenset({Ops.STORE, Ops.BARRIER, Ops.ACCUM, Ops.PRODUCT, Ops.PUT, Ops.END})


def _inside(loops: Loops, outer: Loops) -> bool:
    """Return whether all loops of `outer` are still open, `loops` being the open ones."""
    return loops[: len(outer)] == outer


def streamed_rows(uops: Sequence[UOp]) -> Fault | None:
    """Require that a streamed STORE is of whole, aligned vectors, into memory that the kernel does not read."""
    read = {u.src[0] for u in uops if u.op is Ops.LOAD}
    for u in uops:
        if u.op is Ops.STORE and u.arg is StoreHint.STREAM:
            vectors = [r for axis, r in ranges_of(uops, AxisKind.VECTOR).items() if u.src[1].ranges >> axis & 1]
            if u.src[0] in read:
                return u, "it is streamed into memory that the kernel reads"
            if len(vectors) != 1 or not starts_aligned(u.src[1], vectors[0]):
                return u, "it is streamed, and is no vector that starts at a multiple of its width"
    return None


LINEAR = Spec(
    "linear form",
    _KERNEL_OPS | {Ops.END, Ops.REG, Ops.ACCUM, Ops.GET, Ops.LANES, Ops.TILE, Ops.PRODUCT, Ops.PUT},
    (nested_loops, unique_numbers, streamed_rows),
    listed=True,
)


# Every node, as it is made


def _check_node(u: UOp) -> None:
    """Raise GraphError for a node that no stage allows. Called for each new node once SPEC has been 2."""
    if config.SPEC.value >= 2 and (reason := fault(u)) is not None:
        raise GraphError(f"this node cannot be made: {reason}\n  node: {brief(u)}")


def _watch(value: int) -> None:
    """Check every new node from now on, if SPEC is 2 or more."""
    if value >= 2:
        interning.check_node = _check_node


config.SPEC.watch(_watch)
