"""The operations a graph is made of, and one table of the facts about each that need no graph.

Ops is the vocabulary of all stages: the tensor graph, the kernel graph and the linear form use subsets of it,
which uop.graph_spec states. An op's arg has one type, declared here; the small frozen classes below are those types.
FACTS has a row for each op. All tables by op that need no graph are derived from it: the sets below it, the dtypes of
the spec, NumPy's functions, the costs of the scheduler, and the accuracy that the conformance kit requires of a device.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from typing import Any, NamedTuple, TypeAlias

from tinygraft.dtype import DType
from tinygraft.helpers import lazily
from tinygraft.uop import meanings
from tinygraft.uop.meanings import outside
from tinygraft.uop.units import MatrixArg, MatrixUnit, TileArg

UOp: TypeAlias = Any  # uop.py, which imports this file, puts its class here: programs import both from here


class Ops(IntEnum):
    """What a node does."""

    # leaves
    CONST = auto()  # a number, arg is its value
    DEVICE = auto()  # where values are stored, arg is the device name
    BUFFER = auto()  # memory with an identity
    VARIABLE = auto()  # an integer known only at launch
    BIND = auto()  # a variable with the value it has now
    IOTA = auto()  # 0, 1, 2, ... along one axis
    PLACEHOLDER = auto()  # a value that a transformation substitutes later
    # movement: the same values at other indices
    RESHAPE = auto()
    EXPAND = auto()
    PERMUTE = auto()
    PAD = auto()
    SHRINK = auto()
    FLIP = auto()
    WINDOW = auto()  # sliding windows: out * stride + k * dilation
    FOLD = auto()  # the inverse of WINDOW: elements of several windows are added
    CAT = auto()  # one after another along an axis
    # values computed from values at other indices
    REDUCE_AXIS = auto()
    GATHER = auto()  # a load at a computed index
    SCATTER = auto()  # stores at computed indices, in order
    SCAN = auto()  # a running reduction along an axis
    ROUTINE = auto()  # a result of a named routine, such as sort, which the device brings itself
    # memory and order
    CONTIGUOUS = auto()
    CONTIGUOUS_BACKWARD = auto()
    DETACH = auto()
    COPY = auto()  # to another device
    ASSIGN = auto()  # a new value for memory that has one
    FUNCTION = auto()  # a value with a derivative of its own
    # several devices
    SHARD = auto()  # cut along an axis, one shard on each device
    MULTI = auto()  # memory on several devices as one value
    # elementwise, one operand
    CAST = auto()
    BITCAST = auto()
    NEG = auto()
    NOT = auto()
    RECIPROCAL = auto()
    SQRT = auto()
    EXP2 = auto()
    LOG2 = auto()
    SIN = auto()
    EXP = auto()
    EXPM1 = auto()  # e**x - 1
    LOG = auto()
    LOG1P = auto()  # log(1 + x)
    COS = auto()
    TAN = auto()
    ASIN = auto()
    ACOS = auto()
    ATAN = auto()
    TANH = auto()
    ERF = auto()
    ERFC = auto()  # 1 - erf
    LGAMMA = auto()  # log(|gamma|)
    TRUNC = auto()
    # elementwise, two operands
    ADD = auto()
    SUB = auto()
    MUL = auto()
    FDIV = auto()
    IDIV = auto()  # floors, as in Python; by zero gives 0
    MOD = auto()  # goes with IDIV
    FMOD = auto()  # of floats: the exact remainder of division towards zero, with the sign of the first, as in C
    MAX = auto()
    MIN = auto()
    POW = auto()
    CMPLT = auto()
    CMPEQ = auto()
    CMPNE = auto()
    AND = auto()
    OR = auto()
    XOR = auto()
    SHL = auto()
    SHR = auto()
    THREEFRY = auto()  # (counter, key), both uint64, to 64 random bits
    # elementwise, three operands
    WHERE = auto()
    FMA = auto()  # a*b+c, rounded once
    # the kernel graph: one number at a time
    PARAM = auto()  # a buffer argument of the kernel
    LOCAL = auto()  # scratch memory of one thread, or shared by a thread block
    RANGE = auto()  # a loop counter, a lane of a vector, a thread index or a grid index
    REDUCE = auto()  # a value combined over ranges
    DOT = auto()  # the sum of the products of the packed lanes of two words
    MATRIX = auto()  # a tile of a matrix product, stored
    LOAD = auto()
    STORE = auto()
    AFTER = auto()  # a value, once something else has happened
    BARRIER = auto()
    SINK = auto()
    # the linear form: one instruction after another
    REG = auto()  # a register and its first value
    ACCUM = auto()  # a register combined with a value
    GET = auto()  # the value of a register
    LANES = auto()  # the lanes of a vector combined to one number
    TILE = auto()  # a tile register of a matrix unit, all 0
    PRODUCT = auto()  # a matrix product added to a tile
    PUT = auto()  # a tile stored
    END = auto()  # of a RANGE's loop

    __str__ = Enum.__str__


class AxisKind(Enum):
    """What a RANGE counts. LOOP, ORDERED and PARALLEL become loops."""

    LOOP = "loop"
    ORDERED = "ordered"  # a loop whose iterations depend on each other: never split, parallelised or vectorised
    PARALLEL = "parallel"  # a loop over the iterations in this thread's chunk
    GRID = "grid"  # a grid index: which thread block
    THREAD = "thread"  # a thread index: which thread of its block
    VECTOR = "vector"  # a lane of every vector that depends on it
    UNROLL = "unroll"  # repeated in the text by the renderer

    def __repr__(self) -> str:
        return f"AxisKind.{self.name}"


class StoreHint(Enum):
    """How a STORE may be written; what it stores is the same."""

    STREAM = "stream"  # past the caches, in which it would replace data that is read again sooner

    def __repr__(self) -> str:
        return f"StoreHint.{self.name}"


class BufferArg(NamedTuple):
    """Identity of a buffer: `uid` is unique in the process, `size` counts elements."""

    uid: int
    size: int


class PlaceholderArg(NamedTuple):
    """A value that is not known: `uid` is unique in the process, `what` names the transformation that substitutes it.

    Where `lost` is not empty, none will: it is the sentence of the error for a use of the value.
    """

    uid: int
    shape: tuple[Any, ...]
    what: str
    lost: str = ""


@dataclass(frozen=True, slots=True)
class Own:
    """A tag that makes a node unlike its equals: two tensors of ones have two gradients. It is never printed."""

    number: int


@dataclass(frozen=True, slots=True)
class VariableArg:
    """A variable and its inclusive bounds. `dtype` is that of its value as a tensor, where the program gave one.

    The name becomes, with a prefix, that of an argument in generated code. Raises ValueError for one that cannot, and
    for bounds that are no 64-bit integers or in the wrong order.
    """

    name: str
    low: int
    high: int
    dtype: DType | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not NAME.fullmatch(self.name):
            found = repr(self.name)
            found = found if len(found) <= 80 else f"{found[:60]}... of {len(found)} characters"
            raise ValueError(
                "the name of a variable is 1 to 64 letters a to z or A to Z, digits and _, and does not begin with a "
                f"digit, for kernels have an argument of that name; got {found}"
            )
        if any(type(bound) is not int or not -_HALF <= bound < _HALF for bound in (self.low, self.high)):
            raise ValueError(
                f"variable {self.name!r} needs bounds that are integers of 64 bits, got {self.low!r} and {self.high!r}"
            )
        if self.low > self.high:
            raise ValueError(f"variable {self.name!r} needs min_val <= max_val, got {self.low} and {self.high}")

    def __repr__(self) -> str:
        shown = f"name={self.name!r}, low={self.low}, high={self.high}"
        return f"VariableArg({shown})" if self.dtype is None else f"VariableArg({shown}, dtype={self.dtype})"


NAME = re.compile("[A-Za-z_][A-Za-z0-9_]{0,63}")
_HALF = 2**63


@dataclass(frozen=True, slots=True)
class WindowArg:
    """A window over the last len(size) axes of its source.

    WINDOW takes (..., *length) to (..., *count, *size): element [o, k] is source[o * stride + k * dilation].
    FOLD takes (..., *count, *size) back to (..., *length), adding the elements that came from one.
    """

    length: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def count(self) -> tuple[int, ...]:
        """Return how many windows fit along each axis."""
        return tuple(
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(self.length, self.size, self.stride, self.dilation, strict=True)
        )


@dataclass(frozen=True, slots=True)
class ReduceArg:
    """How and over which axes values are combined. `axes` is empty in the kernel graph, where ranges are sources."""

    op: Ops
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanBlocks:
    """Blocks of `size` elements of a running reduction, computed in `dtype`; with `totals` only their last elements."""

    size: int
    dtype: DType
    totals: bool = False


@dataclass(frozen=True, slots=True)
class ScanArg:
    """A running reduction: element i along `axis` combines elements 0 to i. Only schedules make `blocks` of it.

    With blocks a second source is what all of a block but the first start from; with totals, those of all but the last.
    """

    op: Ops
    axis: int
    blocks: ScanBlocks | None = None


@dataclass(frozen=True, slots=True)
class ScatterArg:
    """What a SCATTER does at its indices: set (of several values the last counts) or combine by `op`.

    `permutes` says that each index of the axis is there once: the order is free then, and nothing of the base stays.
    """

    axis: int
    op: Ops | None
    permutes: bool = False


@dataclass(frozen=True, slots=True)
class RoutineArg:
    """Result number `result` of a `routine` by its name in uop/routines.py; `options` are its own."""

    routine: str
    result: int
    options: tuple[int, ...] = ()


class FunctionArg:
    """The derivative of a FUNCTION: equal only to itself, and printed by its name.

    rule(node, gradient, numbers) returns the gradients of the sources with these numbers, None for one without. One
    that `is_shared` refers to no tensor, and is that of all calls of an operator with the same options.
    """

    name: str
    rule: Callable[[UOp, UOp, tuple[int, ...]], Sequence[UOp | None]]
    is_shared: bool

    __slots__ = ("is_shared", "name", "rule")

    def __init__(
        self, name: str, rule: Callable[[UOp, UOp, tuple[int, ...]], Sequence[UOp | None]], is_shared: bool = False
    ) -> None:
        self.name, self.rule, self.is_shared = name, rule, is_shared

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ShardArg:
    """How a value is sharded: cut along `axis`, with `sizes` elements of it on each device; some may be 0."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RankShards:
    """Where the parts of a MULTI over ranks are, of which its source is this rank's own.

    `devices` are the names of all (rank_places.py), `layout` how the value is cut, None where each rank has all of it.
    """

    devices: tuple[str, ...]
    layout: ShardArg | None


@dataclass(frozen=True, slots=True)
class ParamArg:
    """A kernel argument: its slot and its size in elements."""

    slot: int
    size: int


@dataclass(frozen=True, slots=True)
class LocalArg:
    """Scratch memory of a kernel: `size` counts elements; `shared` says that it is that of a whole thread block."""

    number: int
    size: int
    shared: bool


@dataclass(frozen=True, slots=True)
class RangeArg:
    """`axis` is the range's number, unique in its kernel and in the order of nesting; `dim` its grid dimension."""

    axis: int
    kind: AxisKind = AxisKind.LOOP
    dim: int = 0


@dataclass(frozen=True, slots=True)
class RegArg:
    """A register's number and the ranges it has a copy for, as a mask."""

    number: int


NoneType: type[None] = type(None)
ScalarFunction = Callable[..., Any]

FLOAT = ("float",)  # kinds of dtypes, for `OpFacts.kinds`
WHOLE = ("bool", "int", "uint", "index")
VALUE = (*WHOLE, "float")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """How exact an op is whose results devices do not round from the true value.

    `ulps` is how far a result may be from the true value, `steps` by how many numbers of the dtype it may differ from
    that of the PYTHON device, which rounds float64. `python` is how many ulps its own float64 may be off, for an op
    that NumPy lacks: there is no better reference then. The kit tries all bit patterns, and numbers in `between` (from
    0.4 to 2.1 by default).
    """

    ulps: float
    steps: int = 2
    python: float = 0.0
    between: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What is known of an op without a graph.

    `arity` counts the sources, None when it varies. `python` computes it on Python numbers, before rounding to the
    dtype; it folds constants and is the reference for devices. `identity` is the initial value of a reduction.

    Elementwise ops have more. `kinds` are those of their dtypes; an op without is not elementwise. `numpy` names
    NumPy's function of the same values, `accuracy` is None where a result is exact or rounded from the true one. A
    `composite` op is decomposed by rules/ where a Target has no instruction or function for it.

    Two costs steer the scheduler. `length` is how many instructions the op becomes where the Target lacks it (measured:
    counted in linear kernels of one of them, in float64, which needs more, 2026-11-22), `weight` how many simple
    operations take its time (assumed: never measured).
    """

    arity: int | None
    arg: tuple[type, ...] = (NoneType,)
    python: ScalarFunction | None = None
    commutative: bool = False
    identity: Callable[[DType], Any] | None = None
    kinds: tuple[str, ...] = ()
    numpy: str = ""
    accuracy: Accuracy | None = None
    composite: bool = False
    length: int = 1
    weight: int = 1


def _composite(python: ScalarFunction, numpy: str, accuracy: Accuracy | None, *, length: int, weight: int = 20,
               arity: int = 1, kinds: tuple[str, ...] = FLOAT) -> OpFacts:  # fmt: skip
    """Return the row of a composite op, most of which are functions of one float; `numpy` is "" if NumPy lacks it."""
    return OpFacts(arity, python=python, kinds=kinds, numpy=numpy, accuracy=accuracy, composite=True, length=length,
                   weight=weight)  # fmt: skip


INTS = (tuple,)

FACTS: dict[Ops, OpFacts] = {
    Ops.CONST: OpFacts(None, (bool, int, float)),  # its device, where it has one
    Ops.DEVICE: OpFacts(0, (str, tuple)),  # the name of a device, or those of several
    Ops.BUFFER: OpFacts(1, (BufferArg,)),
    Ops.VARIABLE: OpFacts(0, (VariableArg,)),
    Ops.BIND: OpFacts(None, (int,)),  # sources: a VARIABLE, and the device of a number that stands for a CONST
    Ops.IOTA: OpFacts(None, (tuple,)),  # arg (length,), sources: its device, and the length where it is symbolic
    Ops.PLACEHOLDER: OpFacts(None, (PlaceholderArg,)),  # its device, where it has one
    Ops.RESHAPE: OpFacts(None, INTS),
    Ops.EXPAND: OpFacts(None, INTS),
    Ops.PERMUTE: OpFacts(1, INTS),
    Ops.PAD: OpFacts(None, INTS),  # arg ((before, after), ...)
    Ops.SHRINK: OpFacts(None, INTS),  # arg ((start, end), ...)
    Ops.FLIP: OpFacts(1, INTS),  # arg: the axes
    Ops.WINDOW: OpFacts(1, (WindowArg,)),
    Ops.FOLD: OpFacts(1, (WindowArg,)),
    Ops.CAT: OpFacts(None, (int,)),
    Ops.REDUCE_AXIS: OpFacts(1, (ReduceArg,)),
    Ops.GATHER: OpFacts(2, (int,)),
    Ops.SCATTER: OpFacts(3, (ScatterArg,)),
    Ops.SCAN: OpFacts(None, (ScanArg,)),  # its operand, and in blocks what they start from
    Ops.ROUTINE: OpFacts(None, (RoutineArg,)),  # sources: its operands, in memory, examples along axis 0
    Ops.CONTIGUOUS: OpFacts(1),
    Ops.CONTIGUOUS_BACKWARD: OpFacts(1),
    Ops.DETACH: OpFacts(1),
    Ops.COPY: OpFacts(2),
    Ops.ASSIGN: OpFacts(None),
    Ops.FUNCTION: OpFacts(None, (FunctionArg,)),  # sources: value, what it was computed from
    Ops.SHARD: OpFacts(2, (ShardArg,)),
    # sources: the shards; arg: their axis, None where each is the whole; of ranks the own shard, and where others are
    Ops.MULTI: OpFacts(None, (int, NoneType, RankShards)),
    Ops.CAST: OpFacts(1, python=meanings.same, kinds=VALUE, weight=0),
    Ops.BITCAST: OpFacts(1, kinds=VALUE, weight=0),
    Ops.NEG: OpFacts(1, python=operator.neg, kinds=VALUE, numpy="negative"),
    Ops.NOT: OpFacts(1, python=lambda a: (not a) if isinstance(a, bool) else ~a, kinds=WHOLE, numpy="invert"),
    Ops.RECIPROCAL: OpFacts(1, python=lambda a: meanings.divide(1.0, a), kinds=FLOAT, numpy="reciprocal", weight=4),
    Ops.SQRT: OpFacts(1, python=meanings.sqrt, kinds=FLOAT, numpy="sqrt", accuracy=Accuracy(0.5001, steps=0), weight=4),
    Ops.EXP2: _composite(meanings.exp2, "exp2", Accuracy(1.3), length=40, weight=12),
    Ops.LOG2: _composite(meanings.log2, "log2", Accuracy(0.55, steps=1), length=95, weight=12),
    Ops.SIN: _composite(outside(math.sin, meanings.nan), "sin", Accuracy(0.85, steps=1), length=128),
    Ops.EXP: _composite(outside(math.exp, meanings.inf), "exp", Accuracy(0.9), length=34, weight=12),
    Ops.EXPM1: _composite(outside(math.expm1, meanings.inf), "expm1", Accuracy(1.1, between=(-3, 3)), length=41),
    Ops.LOG: _composite(outside(math.log, meanings.pole(0.0)), "log", Accuracy(0.85), length=39, weight=12),
    Ops.LOG1P: _composite(outside(math.log1p, meanings.pole(-1.0)), "log1p", Accuracy(0.9, between=(-1, 3)), length=44),
    Ops.COS: _composite(outside(math.cos, meanings.nan), "cos", Accuracy(0.95), length=128),
    Ops.TAN: _composite(outside(math.tan, meanings.nan), "tan", Accuracy(1.0), length=150),
    Ops.ASIN: _composite(outside(math.asin, meanings.nan), "arcsin", Accuracy(0.75, between=(-1, 1)), length=42),
    Ops.ACOS: _composite(outside(math.acos, meanings.nan), "arccos", Accuracy(0.75, between=(-1, 1)), length=48),
    Ops.ATAN: _composite(math.atan, "arctan", Accuracy(1.1, between=(-3, 3)), length=45),
    Ops.TANH: _composite(meanings.tanh, "tanh", Accuracy(0.8, between=(-3, 3)), length=64),
    Ops.ERF: _composite(math.erf, "", Accuracy(1.0, python=1.0, between=(-3, 3)), length=78),
    Ops.ERFC: _composite(math.erfc, "", Accuracy(1.0, python=5.0, between=(-6, 27)), length=110, weight=40),
    Ops.LGAMMA: _composite(meanings.lgamma, "", Accuracy(1.0, python=5.0, between=(0, 9)), length=167, weight=100),
    Ops.TRUNC: OpFacts(1, python=meanings.trunc, kinds=FLOAT, numpy="trunc"),
    Ops.ADD: OpFacts(2, python=operator.add, commutative=True, identity=meanings.zero, kinds=VALUE, numpy="add"),
    Ops.SUB: OpFacts(2, python=operator.sub, kinds=VALUE, numpy="subtract"),
    Ops.MUL: OpFacts(2, python=operator.mul, commutative=True, identity=meanings.one, kinds=VALUE, numpy="multiply"),
    Ops.FDIV: OpFacts(2, python=meanings.divide, kinds=FLOAT, numpy="divide", weight=4),
    Ops.IDIV: OpFacts(2, python=meanings.floor_divide, kinds=WHOLE, length=24, weight=8),
    Ops.MOD: OpFacts(2, python=meanings.modulo, kinds=WHOLE, length=28, weight=8),
    Ops.FMOD: _composite(meanings.fmod, "fmod", None, length=245, weight=60, arity=2),
    Ops.MAX: OpFacts(
        2, python=meanings.maximum, commutative=True, identity=meanings.lowest, kinds=VALUE, numpy="maximum"
    ),
    Ops.MIN: OpFacts(
        2, python=meanings.minimum, commutative=True, identity=meanings.highest, kinds=VALUE, numpy="minimum"
    ),
    Ops.POW: _composite(meanings.power, "power", Accuracy(1.4), length=180, weight=30, arity=2, kinds=VALUE),
    Ops.CMPLT: OpFacts(2, python=operator.lt, kinds=VALUE, numpy="less"),
    Ops.CMPEQ: OpFacts(2, python=operator.eq, commutative=True, kinds=VALUE, numpy="equal"),
    Ops.CMPNE: OpFacts(2, python=operator.ne, commutative=True, kinds=VALUE, numpy="not_equal"),
    Ops.AND: OpFacts(
        2, python=operator.and_, commutative=True, identity=meanings.ones, kinds=WHOLE, numpy="bitwise_and"
    ),
    Ops.OR: OpFacts(2, python=operator.or_, commutative=True, identity=meanings.zero, kinds=WHOLE, numpy="bitwise_or"),
    Ops.XOR: OpFacts(
        2, python=operator.xor, commutative=True, identity=meanings.zero, kinds=WHOLE, numpy="bitwise_xor"
    ),
    Ops.SHL: OpFacts(2, python=meanings.shift_left, kinds=WHOLE),
    Ops.SHR: OpFacts(2, python=meanings.shift_right, kinds=WHOLE),
    Ops.THREEFRY: _composite(meanings.threefry2x32, "", None, length=100, weight=100, arity=2, kinds=("uint",)),
    Ops.WHERE: OpFacts(3, python=lambda c, a, b: a if c else b, kinds=VALUE, numpy="where"),
    Ops.FMA: OpFacts(3, kinds=FLOAT),
    Ops.PARAM: OpFacts(0, (ParamArg,)),
    Ops.LOCAL: OpFacts(0, (LocalArg,)),
    Ops.RANGE: OpFacts(1, (RangeArg,)),
    Ops.REDUCE: OpFacts(None, (ReduceArg,)),  # sources: value, ranges
    Ops.DOT: OpFacts(2, (MatrixUnit,)),
    # sources: memory and index of the results, of the first and of the second operand, ranges of terms
    Ops.MATRIX: OpFacts(None, (MatrixArg,)),
    Ops.LOAD: OpFacts(None),  # sources: memory, index[, gate]; a closed gate gives 0
    Ops.STORE: OpFacts(None, (NoneType, StoreHint)),  # sources: memory, index, value[, gate]
    Ops.AFTER: OpFacts(None),  # sources: value, what happens before, ranges of it that are closed then
    Ops.BARRIER: OpFacts(None),
    Ops.SINK: OpFacts(None),
    Ops.REG: OpFacts(None, (RegArg,)),  # sources: first value, vector and unroll ranges it has a copy for
    Ops.ACCUM: OpFacts(None, (Ops, MatrixUnit)),  # sources: REG, value; FMA: REG, two factors[, condition]; two words
    Ops.GET: OpFacts(1),  # source: REG
    Ops.LANES: OpFacts(2, (ReduceArg,)),  # sources: vector, VECTOR range
    Ops.TILE: OpFacts(None, (TileArg,)),  # sources: unroll ranges it has a copy for
    Ops.PRODUCT: OpFacts(5, (MatrixArg,)),  # sources: TILE, memory and index of the first and the second operand
    Ops.PUT: OpFacts(3, (MatrixArg,)),  # sources: memory, index, TILE
    Ops.END: OpFacts(1),  # source: RANGE
}

ELEMENTWISE = frozenset(op for op, facts in FACTS.items() if facts.kinds)
UNARY, BINARY, TERNARY = (frozenset(op for op in ELEMENTWISE if FACTS[op].arity == count) for count in (1, 2, 3))
COMPARE = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE})
COMPOSITE = frozenset(op for op, facts in FACTS.items() if facts.composite)
# Functions of one float: a device computes their values to about an ulp.
FUNCTIONS = UNARY & COMPOSITE
APPROXIMATE = frozenset(op for op, facts in FACTS.items() if facts.accuracy is not None and facts.accuracy.steps)
MOVEMENT = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP, Ops.WINDOW})
COMMUTATIVE = frozenset(op for op, facts in FACTS.items() if facts.commutative)
REDUCIBLE = frozenset(op for op, facts in FACTS.items() if facts.identity is not None)
IDEMPOTENT = frozenset({Ops.MAX, Ops.MIN, Ops.AND, Ops.OR})  # of a value and itself they give the value

# Where tinygrad has them
__getattr__ = lazily(
    __name__,
    dict.fromkeys(("PatternMatcher", "UPat", "graph_rewrite"), "tinygraft.uop.upat")
    | {"sint": "tinygraft.uop.sizes", "Variable": "tinygraft"},
    dict.fromkeys(
        ("AxisType", "KernelInfo"),
        "kernels of one's own are graphs of another form here: Tensor.custom_kernel and docs/graph.md say which",
    ),
)
