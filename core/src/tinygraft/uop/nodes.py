"""What is required of a node at every stage: the number of its sources, the type of its arg, its dtypes.

In: a node. Out: what is wrong with it, as text, or None. NODE has a row for each op whose sources or dtype are
restricted; number of sources, type of arg and the kinds of dtypes of elementwise ops come from FACTS.
uop/graph_spec.py has the ops that each stage allows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.uop.ops import (
    COMPARE,
    ELEMENTWISE,
    FACTS,
    MOVEMENT,
    REDUCIBLE,
    VALUE,
    AxisKind,
    Ops,
    RankShards,
    StoreHint,
)
from tinygraft.uop.sharding import own_rank
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

SpecRule = Callable[[UOp], "str | None"]
VARIES: dict[Ops, tuple[int, int]] = {  # least and most sources of ops whose number is not fixed
    Ops.CONST: (0, 1), Ops.PLACEHOLDER: (0, 1), Ops.IOTA: (1, 2), Ops.BIND: (1, 2),
    Ops.ASSIGN: (2, 3), Ops.LOAD: (2, 3), Ops.STORE: (3, 4), Ops.AFTER: (1, 9999),
    Ops.REDUCE: (1, 9999), Ops.REG: (1, 9999), Ops.ACCUM: (2, 4), Ops.CAT: (1, 9999), Ops.MATRIX: (6, 9999),
    Ops.MULTI: (1, 9999), Ops.FUNCTION: (1, 9999), Ops.ROUTINE: (1, 9),
    **dict.fromkeys((Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK), (1, 9999)),
}  # fmt: skip


def fault(u: UOp) -> str | None:
    """Return what is wrong with a node, whatever its graph is, or None.

    >>> fault(UOp(Ops.CMPLT, dtypes.bool, (UOp.const(dtypes.int, 1), UOp.const(dtypes.int, 2)))) is None
    True
    """
    facts = FACTS.get(u.op)
    if facts is None:
        return f"{u.op.name} has no row in FACTS"
    count = len(u.src)
    if facts.arity is not None:
        if count != facts.arity:
            return f"{u.op.name} takes {_sources(facts.arity)}, got {count}"
    elif u.op in VARIES:
        least, most = VARIES[u.op]
        if not least <= count <= most:
            upper = "" if most == 9999 else f" to {most}" if most != least else ""
            return f"{u.op.name} takes {least}{upper or ' or more'} sources, got {count}"
    if not _fits(u.arg, facts.arg):
        kinds = " or ".join("nothing" if kind is type(None) else kind.__name__ for kind in facts.arg)
        return f"the arg of {u.op.name} is {kinds}, got {u.arg!r}"
    for rule in NODE.get(u.op, ()):
        if (found := rule(u)) is not None:
            return found
    return None


def _sources(count: int) -> str:
    return "1 source" if count == 1 else f"{count} sources"


def _fits(arg: Any, kinds: tuple[type, ...]) -> bool:
    """Return whether `arg` is of one of `kinds`; a bool is no int."""
    return type(arg) in kinds or (not isinstance(arg, bool) and isinstance(arg, kinds))


# The rules: each returns what is wrong with a node, or None


def _dtypes(u: UOp) -> str:
    """Return the names of the dtypes of the sources of a node."""
    return ", ".join(s.dtype.name for s in u.src)


def same_dtype(u: UOp) -> str | None:
    """The sources and the result have one dtype."""
    if any(s.dtype is not u.dtype for s in u.src):
        return f"{u.op.name} of {u.dtype.name} needs sources of that dtype, got {_dtypes(u)}"
    return None


def first_dtype(u: UOp) -> str | None:
    """The result has the dtype of the first source."""
    if u.src[0].dtype is not u.dtype:
        return f"{u.op.name} has the dtype of its first source, {u.src[0].dtype.name}, got {u.dtype.name}"
    return None


def comparison(u: UOp) -> str | None:
    """Two sources of one dtype compare to a bool."""
    if u.dtype is not dtypes.bool:
        return f"{u.op.name} gives bool, got {u.dtype.name}"
    if u.src[0].dtype is not u.src[1].dtype:
        return f"{u.op.name} compares two of one dtype, got {_dtypes(u)}"
    return None


def choice(u: UOp) -> str | None:
    """WHERE: a bool and two of the result's dtype."""
    if u.src[0].dtype is not dtypes.bool:
        return f"the condition of WHERE is bool, got {u.src[0].dtype.name}"
    if u.src[1].dtype is not u.dtype or u.src[2].dtype is not u.dtype:
        return f"WHERE of {u.dtype.name} chooses between two of that dtype, got {_dtypes(u)}"
    return None


def of_kind(*kinds: str) -> SpecRule:
    """The result's dtype is of one of kinds."""

    def rule(u: UOp) -> str | None:
        if u.dtype.kind not in kinds:
            return f"{u.op.name} is not for {u.dtype.name}"
        return None

    return rule


def of_dtype(*wanted: DType) -> SpecRule:
    """The result has one of these dtypes."""

    def rule(u: UOp) -> str | None:
        if u.dtype not in wanted:
            return f"{u.op.name} is of {' or '.join(d.name for d in wanted)}, got {u.dtype.name}"
        return None

    return rule


def source_ops(number: int, *ops: Ops) -> SpecRule:
    """Source `number` has one of `ops`, if the node has such a source."""

    def rule(u: UOp) -> str | None:
        """Return what is wrong where source `number` has another op."""
        if len(u.src) > number and u.src[number].op not in ops:
            wanted = " or ".join(op.name for op in ops)
            return f"source {number} of {u.op.name} is {wanted}, got {u.src[number].op.name}"
        return None

    return rule


def source_dtype(number: int, dtype: DType) -> SpecRule:
    """Source `number` has this dtype, if the node has such a source."""

    def rule(u: UOp) -> str | None:
        if len(u.src) > number and u.src[number].dtype is not dtype:
            return f"source {number} of {u.op.name} is of {dtype.name}, got {u.src[number].dtype.name}"
        return None

    return rule


def constant(u: UOp) -> str | None:
    """A CONST's value is of its dtype's kind, and fits it."""
    kind, value = u.dtype.kind, u.arg
    wanted = {"bool": bool, "float": float}.get(kind, int)
    if kind == "void" or type(value) is not wanted:
        return f"a CONST of {u.dtype.name} has a {wanted.__name__} as arg, got {value!r}"
    if kind in ("int", "uint") and not dtypes.min(u.dtype) <= value <= dtypes.max(u.dtype):
        return f"{value} is no {u.dtype.name}"
    return None


def value_cast(u: UOp) -> str | None:
    """A cast goes between dtypes that have values."""
    if "void" in (u.dtype.kind, u.src[0].dtype.kind):
        return f"a cast goes from a value to a value, got {u.src[0].dtype.name} to {u.dtype.name}"
    return None


def same_width(u: UOp) -> str | None:
    """BITCAST keeps the width."""
    if u.dtype.itemsize != u.src[0].dtype.itemsize or u.dtype.kind == "void":
        return f"BITCAST keeps the width, got {u.src[0].dtype.name} to {u.dtype.name}"
    return None


def sizes(u: UOp) -> str | None:
    """The arg of a movement has ints and index nodes, in pairs for PAD and SHRINK."""
    items = u.arg
    if u.op in (Ops.PAD, Ops.SHRINK):
        if not all(type(pair) is tuple and len(pair) == 2 for pair in items):
            return f"the arg of {u.op.name} has pairs, got {u.arg!r}"
        items = tuple(item for pair in items for item in pair)
    for item in items:
        if not (type(item) is int or (isinstance(item, UOp) and item.dtype is dtypes.index)):
            return f"the arg of {u.op.name} has ints and index nodes, got {item!r}"
    return None


def reducible(u: UOp) -> str | None:
    """The op in the arg can combine values."""
    op = u.arg if isinstance(u.arg, Ops) else u.arg.op
    if op not in REDUCIBLE and not (op is None and u.op is Ops.SCATTER):
        return f"{u.op.name} cannot combine by {getattr(op, 'name', op)}"
    return None


def scans(u: UOp) -> str | None:
    """A SCAN has the dtype of its operand; totals and starts of blocks have that in which the blocks are computed."""
    blocks = u.arg.blocks
    if len(u.src) > (1 if blocks is None or blocks.totals else 2):
        return f"a SCAN of one operand has {len(u.src)} sources"
    wrong = [s.dtype for s in u.src[1:] if s.dtype is not blocks.dtype]
    if wrong:
        return f"SCAN in {blocks.dtype.name} starts from that dtype, got {wrong[0].name}"
    if blocks is not None and blocks.totals:
        return None if u.dtype is blocks.dtype else f"totals of SCAN are {blocks.dtype.name}, got {u.dtype.name}"
    return first_dtype(u)


def accumulates(u: UOp) -> str | None:
    """ACCUM combines one value by an op, or the product of two by FMA, perhaps gated, or packed lanes by a unit."""
    if isinstance(u.arg, MatrixUnit):
        return unit_operands(u) if len(u.src) == 3 else f"ACCUM by {u.arg.name} takes two words, got {len(u.src) - 1}"
    if u.arg is not Ops.FMA:
        return reducible(u) if len(u.src) == 2 else f"ACCUM by {u.arg.name} takes one value, got {len(u.src) - 1}"
    if len(u.src) < 3:
        return "ACCUM by FMA takes two factors, got one value"
    if any(s.dtype is not u.dtype for s in u.src[:3]) or any(s.dtype is not dtypes.bool for s in u.src[3:]):
        return f"ACCUM by FMA takes two factors of {u.dtype.name} and a bool, got {_dtypes(u)}"
    return None


def unit_operands(u: UOp) -> str | None:
    """DOT, and ACCUM by a unit: two words of the unit, each of packed lanes, give its result."""
    if u.dtype is not u.arg.result or any(s.dtype is not u.arg.word for s in u.src[-2:]):
        return (f"{u.op.name} by {u.arg.name} takes words of {u.arg.word.name} and gives {u.arg.result.name}, "
                f"got {_dtypes(u)} and {u.dtype.name}")  # fmt: skip
    return None


def tile_register(u: UOp) -> str | None:
    """A TILE has the dtype of its unit's result."""
    if u.dtype is not u.arg.unit.result:
        return f"a TILE of {u.arg.unit.name} is of {u.arg.unit.result.name}, got {u.dtype.name}"
    return None


def over_copies(u: UOp) -> str | None:
    """All sources are RANGEs of kind UNROLL."""
    for source in u.src:
        if source.op is not Ops.RANGE or source.arg.kind is not AxisKind.UNROLL:
            return f"{u.op.name} has a copy for each value of UNROLL ranges, got {source.op.name}"
    return None


def tile_operands(u: UOp) -> str | None:
    """MATRIX, PRODUCT and PUT: memory of the unit's dtypes, each with an index; MATRIX goes over RANGEs of terms."""
    unit = u.arg.unit
    wanted = {Ops.MATRIX: (unit.result, unit.first, unit.word), Ops.PRODUCT: (unit.first, unit.word),
              Ops.PUT: (unit.result,)}[u.op]  # fmt: skip
    first = 1 if u.op is Ops.PRODUCT else 0
    for number, dtype in enumerate(wanted):
        memory, index = u.src[first + 2 * number : first + 2 * number + 2]
        if memory.dtype is not dtype or index.dtype is not dtypes.index:
            return (f"{u.op.name} by {unit.name} takes memory of {dtype.name} and an index, got {memory.dtype.name} "
                    f"and {index.dtype.name}")  # fmt: skip
    for source in u.src[6:]:
        if source.op is not Ops.RANGE:
            return f"MATRIX goes over RANGEs, got {source.op.name}"
    return None


def over_ranges(u: UOp) -> str | None:
    """All sources but the first are RANGEs."""
    for source in u.src[1:]:
        if source.op is not Ops.RANGE:
            return f"{u.op.name} goes over RANGEs, got {source.op.name}"
    return None


def over_lanes(u: UOp) -> str | None:
    """All sources but the first are RANGEs of kind VECTOR or UNROLL."""
    for source in u.src[1:]:
        if source.op is not Ops.RANGE or source.arg.kind not in (AxisKind.VECTOR, AxisKind.UNROLL):
            kind = f" of kind {source.arg.kind.value}" if source.op is Ops.RANGE else ""
            return f"{u.op.name} is for ranges of kind vector or unroll, got {source.op.name}{kind}"
    return None


def counter(u: UOp) -> str | None:
    """A RANGE's axis and dimension are possible; one of kind VECTOR or UNROLL has a constant size."""
    if u.arg.axis < 0 or not 0 <= u.arg.dim < 3:
        return f"a RANGE has axis 0 or more and dim 0, 1 or 2, got {u.arg!r}"
    if u.arg.kind in (AxisKind.VECTOR, AxisKind.UNROLL) and (u.src[0].op is not Ops.CONST or u.src[0].arg < 1):
        return f"a RANGE of kind {u.arg.kind.value} has a constant size of 1 or more, got {u.src[0].op.name}"
    return None


def names(u: UOp) -> str | None:
    """A DEVICE names one device, or at least two."""
    if isinstance(u.arg, tuple) and (len(u.arg) < 2 or not all(type(name) is str for name in u.arg)):
        return f"a DEVICE has the name of one device or those of several as arg, got {u.arg!r}"
    return None


def one_device(u: UOp) -> str | None:
    """A BUFFER is the memory of one device."""
    if isinstance(u.src[0].arg, tuple):
        return f"a BUFFER is memory of one device, got {u.src[0].arg!r}"
    return None


def cut(u: UOp) -> str | None:
    """A SHARD is for several devices and has a size for each."""
    names = u.src[1].arg
    if not isinstance(names, tuple) or len(names) != len(u.arg.sizes):
        return f"SHARD has one part for each of several devices, got {len(u.arg.sizes)} for {names!r}"
    return None


def memory_shards(u: UOp) -> str | None:
    """MULTI is over memory of single devices, perhaps reshaped; that of ranks over this rank's own shard."""
    if isinstance(u.arg, RankShards) and len(u.src) != 1:
        return f"MULTI over ranks has this rank's shard, got {len(u.src)}"
    if not isinstance(u.arg, RankShards) and len(u.src) < 2:
        return f"MULTI takes 2 or more sources, got {len(u.src)}"
    if isinstance(u.arg, RankShards) and not _is_own_shard(u.src[0], u.arg):
        return f"this rank's shard is not of shape {u.src[0].shape} on {u.src[0].device} in {u.arg}"
    for source in u.src:
        if source.base.op is not Ops.BUFFER:
            return f"MULTI is over memory, got {source.base.op.name}"
    return None


def _is_own_shard(shard: UOp, of: RankShards) -> bool:
    """Return whether `shard` is on this rank's device, in the size that `of` says."""
    rank = own_rank(of.devices)
    if rank is None or of.devices[rank] != shard.device:
        return False
    return of.layout is None or (
        len(of.layout.sizes) == len(of.devices) and shard.shape[of.layout.axis] == of.layout.sizes[rank]
    )


def known_routine(u: UOp) -> str | None:
    """A ROUTINE is one of the table of routines, on operands that are memory of known sizes, in its result's dtype."""
    from tinygraft.uop.routines import EVERY_ROUTINE, results_of

    if u.arg.routine not in EVERY_ROUTINE:
        return f"no routine is called {u.arg.routine!r}"
    wanted = results_of(u.arg.routine, [(s.dtype, s.shape) for s in u.src], u.arg.options)[u.arg.result][0]
    if u.dtype is not wanted:
        return f"result {u.arg.result} of {u.arg.routine} is of {wanted.name}, got {u.dtype.name}"
    return None


def memory_access(u: UOp) -> str | None:
    """LOAD and STORE: PARAM or LOCAL, perhaps after something; an index; the element dtype; a bool as gate."""
    memory = u.src[0]
    while memory.op is Ops.AFTER:
        memory = memory.src[0]
    if memory.op not in (Ops.PARAM, Ops.LOCAL):
        return f"the memory of {u.op.name} is PARAM or LOCAL, perhaps in AFTER, got {memory.op.name}"
    if u.src[1].dtype is not dtypes.index:
        return f"the address of {u.op.name} is of index, got {u.src[1].dtype.name}"
    value, gates = (u, u.src[2:]) if u.op is Ops.LOAD else (u.src[2], u.src[3:])
    if value.dtype is not memory.dtype:
        return f"{u.op.name} moves {memory.dtype.name}, the dtype of its memory, got {value.dtype.name}"
    if gates and gates[0].dtype is not dtypes.bool:
        return f"the gate of {u.op.name} is bool, got {gates[0].dtype.name}"
    if u.op is Ops.STORE and u.dtype is not dtypes.void:
        return f"STORE is of void, got {u.dtype.name}"
    if u.arg is StoreHint.STREAM and (memory.op is not Ops.PARAM or gates):
        return f"a streamed STORE is into a PARAM without a gate, got {memory.op.name} and {len(gates)} gates"
    return None


_REAL = of_kind("float")
_VOID = of_dtype(dtypes.void)
_INDEX = of_dtype(dtypes.index)
_VALUE = of_kind(*VALUE)

NODE: dict[Ops, tuple[SpecRule, ...]] = {
    Ops.CONST: (constant, source_ops(0, Ops.DEVICE)),
    Ops.DEVICE: (_VOID, names),
    Ops.BUFFER: (source_ops(0, Ops.DEVICE), one_device),
    Ops.PLACEHOLDER: (source_ops(0, Ops.DEVICE),),
    Ops.VARIABLE: (_VALUE,),  # the argument of one of another dtype than index has the bits of the value
    Ops.BIND: (_VALUE, first_dtype, source_ops(0, Ops.VARIABLE)),
    Ops.IOTA: (of_kind("int", "uint"), source_ops(0, Ops.DEVICE), sizes),
    **dict.fromkeys(MOVEMENT | {Ops.FOLD}, (first_dtype,)),
    **dict.fromkeys((Ops.RESHAPE, Ops.EXPAND, Ops.PAD, Ops.SHRINK, Ops.PERMUTE, Ops.FLIP), (first_dtype, sizes)),
    Ops.CAT: (same_dtype,),
    Ops.REDUCE_AXIS: (first_dtype, reducible),
    Ops.GATHER: (first_dtype,),
    Ops.SCATTER: (first_dtype, reducible),
    Ops.SCAN: (scans, reducible),
    Ops.ROUTINE: (known_routine,),
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.ASSIGN, Ops.AFTER), (first_dtype,)),
    Ops.COPY: (first_dtype, source_ops(1, Ops.DEVICE)),
    Ops.FUNCTION: (first_dtype, _REAL),
    Ops.SHARD: (first_dtype, source_ops(1, Ops.DEVICE), cut),
    Ops.MULTI: (same_dtype, memory_shards),
    **{op: (same_dtype, of_kind(*FACTS[op].kinds)) for op in ELEMENTWISE},  # but for these:
    Ops.CAST: (value_cast,),
    Ops.BITCAST: (same_width,),
    **dict.fromkeys(COMPARE, (comparison,)),
    Ops.THREEFRY: (same_dtype, of_dtype(dtypes.uint64)),
    Ops.WHERE: (choice,),
    Ops.PARAM: (_VALUE,),
    Ops.LOCAL: (_VALUE,),
    Ops.RANGE: (_INDEX, source_dtype(0, dtypes.index), counter),
    Ops.REDUCE: (first_dtype, reducible, over_ranges),
    Ops.LOAD: (memory_access,),
    Ops.STORE: (memory_access,),
    Ops.BARRIER: (_VOID,),
    Ops.SINK: (_VOID,),
    Ops.REG: (first_dtype, over_lanes),
    Ops.ACCUM: (first_dtype, source_ops(0, Ops.REG), accumulates),
    Ops.GET: (first_dtype, source_ops(0, Ops.REG)),
    Ops.DOT: (unit_operands,),
    Ops.MATRIX: (_VOID, tile_operands),
    Ops.TILE: (tile_register, over_copies),
    Ops.PRODUCT: (_VOID, source_ops(0, Ops.TILE), tile_operands),
    Ops.PUT: (_VOID, source_ops(2, Ops.TILE), tile_operands),
    Ops.LANES: (first_dtype, reducible, over_lanes),
    Ops.END: (_VOID, source_ops(0, Ops.RANGE)),
}  # fmt: skip
