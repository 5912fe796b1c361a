"""The operations a graph is made of, and one table of the facts about each that need no graph.

Ops is the vocabulary of all stages: the tensor graph, the kernel graph and the linear form use subsets of it,
which uop.graph_spec states. An op's arg has one type, declared here; the small frozen classes below are those types.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum, auto
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from tinygraft.dtype import DType
from tinygraft.uop.units import MatrixArg, MatrixUnit, TileArg

if TYPE_CHECKING:
    from tinygraft.uop.uop import UOp as UOp


class Ops(IntEnum):
    """What a node does."""

    # leaves
    CONST = auto()  # a number, arg is its value
    DEVICE = auto()  # where values live, arg is the device name
    BUFFER = auto()  # memory with an identity
    VARIABLE = auto()  # an integer known only at launch
    BIND = auto()  # a variable with the value it has now
    IOTA = auto()  # 0, 1, 2, ... along one axis
    PLACEHOLDER = auto()  # a value that a transformation puts in later
    # movement: the same values at other places
    RESHAPE = auto()
    EXPAND = auto()
    PERMUTE = auto()
    PAD = auto()
    SHRINK = auto()
    FLIP = auto()
    WINDOW = auto()  # sliding windows: out * stride + k * dilation
    FOLD = auto()  # sum of windows back to where they came from
    CAT = auto()  # one after another along an axis
    # values computed from values at other places
    REDUCE_AXIS = auto()
    GATHER = auto()  # a load at a computed address
    SCATTER = auto()  # stores at computed addresses, in order
    SCAN = auto()  # a running reduction along an axis
    # memory and order
    CONTIGUOUS = auto()
    CONTIGUOUS_BACKWARD = auto()
    DETACH = auto()
    COPY = auto()  # to another device
    ASSIGN = auto()  # a new value for memory that has one
    FUNCTION = auto()  # a value with a derivative of its own
    # several devices
    SHARD = auto()  # parts along an axis, one on each device
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
    FMOD = auto()  # of floats: what division towards zero leaves, exactly, with the sign of the first, as in C
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
    LOCAL = auto()  # memory of one thread or shared by a group of threads
    RANGE = auto()  # a loop counter, a lane or a position in a grid
    REDUCE = auto()  # a value combined over ranges
    DOT = auto()  # the sum of the products of the terms in two words
    MATRIX = auto()  # a tile of a matrix product, stored
    LOAD = auto()
    STORE = auto()
    AFTER = auto()  # a value, once something else has happened
    BARRIER = auto()
    SINK = auto()
    # the linear form: one instruction after another
    REG = auto()  # a register and its first value
    ACCUM = auto()  # a register combined with a value
    GET = auto()  # what a register holds
    LANES = auto()  # the lanes of a vector combined to one number
    TILE = auto()  # a tile register of a matrix unit, all 0
    PRODUCT = auto()  # a matrix product added to a tile
    PUT = auto()  # a tile stored
    END = auto()  # of a RANGE's loop

    __str__ = Enum.__str__


class AxisKind(Enum):
    """What a RANGE counts. LOOP, ORDERED and PARALLEL become loops."""

    LOOP = "loop"
    ORDERED = "ordered"  # a loop whose turns depend on each other: never split, shared out or vectorised
    PARALLEL = "parallel"  # a loop over this thread's share
    GRID = "grid"  # a position of a group of threads
    LANE = "lane"  # a thread within its group
    VECTOR = "vector"  # a lane of every vector that depends on it
    UNROLL = "unroll"  # repeated in the text by the renderer

    def __repr__(self) -> str:
        return f"AxisKind.{self.name}"


class StoreHint(Enum):
    """How a STORE may be written; what it stores is the same."""

    STREAM = "stream"  # past the caches, where it would take the place of what is read again sooner

    def __repr__(self) -> str:
        return f"StoreHint.{self.name}"


class BufferArg(NamedTuple):
    """Identity of a buffer: uid is unique in the process, size counts elements."""

    uid: int
    size: int


class PlaceholderArg(NamedTuple):
    """A value that is not known: uid is unique in the process, what names who puts the value in.

    Where lost is not empty, nobody will: it is the sentence to raise for whoever asks for the value.
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
    """A variable and its inclusive bounds. dtype is what it has as a value, where somebody said so.

    The name becomes that of an argument in generated code, with something before it. Raises ValueError for one that
    cannot, and for bounds that are none.
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
    FOLD takes (..., *count, *size) back to (..., *length), adding what lands on one place.
    """

    length: tuple[int, ...]
    size: tuple[int, ...]
    stride: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def count(self) -> tuple[int, ...]:
        """How many windows fit along each axis."""
        return tuple(
            (n - d * (k - 1) - 1) // s + 1
            for n, k, s, d in zip(self.length, self.size, self.stride, self.dilation, strict=True)
        )


@dataclass(frozen=True, slots=True)
class ReduceArg:
    """How and over which axes values are combined. axes is empty in the kernel graph, where ranges are sources."""

    op: Ops
    axes: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ScanArg:
    """A running reduction: element i along axis combines elements 0 to i."""

    op: Ops
    axis: int


@dataclass(frozen=True, slots=True)
class ScatterArg:
    """What a SCATTER does where it lands: set (the last one stays) or combine by an op."""

    axis: int
    op: Ops | None


class FunctionArg:
    """The derivative of one FUNCTION: equal only to itself, and printed by its name.

    rule(node, gradient, places) gives the gradients of the sources at places, or None where nothing flows.
    """

    __slots__ = ("name", "rule")

    def __init__(self, name: str, rule: Callable[[UOp, UOp, tuple[int, ...]], Sequence[UOp | None]]) -> None:
        self.name, self.rule = name, rule

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class ShardArg:
    """How a value lies on several devices: cut along axis, with so many elements of it on each; some may have none."""

    axis: int
    sizes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ParamArg:
    """A kernel argument: its place in the call and its size in elements."""

    slot: int
    size: int


@dataclass(frozen=True, slots=True)
class LocalArg:
    """Scratch memory of a kernel: size counts elements; shared memory is seen by a whole group of threads."""

    number: int
    size: int
    shared: bool


@dataclass(frozen=True, slots=True)
class RangeArg:
    """axis is the range's number, unique in its kernel and the order of nesting; dim its grid dimension."""

    axis: int
    kind: AxisKind = AxisKind.LOOP
    dim: int = 0


@dataclass(frozen=True, slots=True)
class RegArg:
    """A register's number and the ranges it has a copy for, as a mask."""

    number: int


NoneType = type(None)
ScalarFunction = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class OpFacts:
    """What is known of an op without a graph.

    arity counts the sources, None when it varies. python is the meaning on Python numbers, before rounding to
    the dtype; it folds constants and judges devices. identity is where a reduction by this op starts.
    """

    arity: int | None
    arg: tuple[type, ...] = (NoneType,)
    python: ScalarFunction | None = None
    commutative: bool = False
    identity: Callable[[DType], Any] | None = None


def _floordiv(a: int, b: int) -> int:
    return a // b if b else 0


def _mod(a: int, b: int) -> int:
    return a % b if b else 0


def _fdiv(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a != a or a == 0 or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


# Of two zeros MAX and MIN give the first here; a device may give either, so the sign of max(-0.0, 0.0) is open.
def _maximum(a: Any, b: Any) -> Any:
    return a if a != a or a >= b else b


def _minimum(a: Any, b: Any) -> Any:
    return a if a != a or a <= b else b


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0 else math.nan


def _exp2(a: float) -> float:
    try:
        return math.pow(2.0, a)
    except OverflowError:
        return math.inf


def _log2(a: float) -> float:
    if a > 0:
        return math.log2(a)
    return -math.inf if a == 0 else math.nan


def _outside(function: Callable[[float], float], at: Callable[[float], float]) -> Callable[[float], float]:
    """A function of math that gives what at says where that raises: at poles, outside of its domain, past the end."""

    def found(a: float) -> float:
        try:
            return function(a)
        except (ValueError, OverflowError):
            return at(a)

    return found


def _nan(a: float) -> float:
    return math.nan


def _inf(a: float) -> float:
    return math.inf


def _pole(pole: float) -> Callable[[float], float]:
    """-inf at the pole, NaN elsewhere."""
    return lambda a: -math.inf if a == pole else math.nan


@cache
def _gamma_series() -> list[float]:
    """(-1)**k (zeta(k) - 1) / k from k = 2 on: some terms of the sum of n**-k, and the rest by Euler and Maclaurin."""
    n, found = 100.0, []
    for k in range(2, 60):
        rest = n ** (1 - k) / (k - 1) + n**-k / 2 + k / 12 * n ** (-k - 1) - k * (k + 1) * (k + 2) / 720 * n ** (-k - 3)
        found.append((-1) ** k / k * math.fsum([*(i**-k for i in range(2, 100)), rest]))
    return found


def _lgamma(a: float) -> float:
    """log(|gamma(a)|), by a power series about 2 where math.lgamma has lost some digits."""
    if not 0.0 < a < 16.0:
        return _outside(math.lgamma, _inf)(a)
    factor = 1.0
    while a > 2.5:
        a -= 1
        factor *= a
    e = a - 2 if a >= 1.25 else a - 1
    total = 0.0
    for c in reversed(_gamma_series()):
        total = (total + c) * e
    total = e * (0.4227843350984671 + total)  # 1 less Euler's constant
    return total + math.log(factor) if a >= 1.25 else total - (math.log(a) if a < 0.5 else math.log1p(e))


def _tanh(a: float) -> float:
    """tanh(a) by 40 digits: that of the C library is up to 2 units in the last place away."""
    if not 2.0**-27 < abs(a) < 20.0:
        return math.copysign(1.0, a) if abs(a) >= 20.0 else a
    import decimal  # 5 ms, which nothing else needs

    with decimal.localcontext(decimal.Context(prec=40)):
        power = (2 * decimal.Decimal(a)).exp()
        return float((power - 1) / (power + 1))


def _fmod(a: float, b: float) -> float:
    return math.fmod(a, b) if math.isfinite(a) and b != 0 else math.nan


def _trunc(a: float) -> float:
    return math.copysign(float(math.trunc(a)), a) if math.isfinite(a) else a


def _pow(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            return a if a == 1 or (a == -1 and b % 2) else int(a == -1)
        return a**b if b <= 64 else pow(a, b, 1 << 64)  # 64 bits of it are enough for every dtype
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0 and abs(math.fmod(b, 2)) == 1 else math.inf
    except ValueError:
        if a == 0:
            return math.copysign(math.inf, a) if abs(math.fmod(b, 2)) == 1 else math.inf
        return math.nan


def _shl(a: int, b: int) -> int:
    return a << b if 0 <= b < 64 else 0


def _shr(a: int, b: int) -> int:
    return a >> b if 0 <= b < 64 else -(a < 0)


def _rotl(a: int, n: int) -> int:
    return ((a << n) | (a >> (32 - n))) & 0xFFFFFFFF


THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
THREEFRY_PARITY = 0x1BD11BDA


def threefry2x32(counter: int, key: int) -> int:
    """64 random bits from a 64-bit counter and key, low word first: Threefry 2x32 with 20 rounds.

    Source: Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
    """
    x0, x1 = counter & 0xFFFFFFFF, counter >> 32
    k0, k1 = key & 0xFFFFFFFF, key >> 32
    keys = (k1, k0 ^ k1 ^ THREEFRY_PARITY, k0)
    x0, x1 = (x0 + keys[2]) & 0xFFFFFFFF, (x1 + keys[0]) & 0xFFFFFFFF
    for i in range(5):
        for rotation in THREEFRY_ROTATIONS[i % 2]:
            x0 = (x0 + x1) & 0xFFFFFFFF
            x1 = x0 ^ _rotl(x1, rotation)
        x0 = (x0 + keys[i % 3]) & 0xFFFFFFFF
        x1 = (x1 + keys[(i + 1) % 3] + i + 1) & 0xFFFFFFFF
    return (x1 << 32) | x0


def _lowest(dtype: DType) -> Any:
    if dtype.kind == "float":
        return -math.inf
    return False if dtype.kind == "bool" else 0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))


def _highest(dtype: DType) -> Any:
    if dtype.kind == "float":
        return math.inf
    return True if dtype.kind == "bool" else 2 ** (dtype.bits - (dtype.kind == "int")) - 1


def _one(dtype: DType) -> Any:
    return True if dtype.kind == "bool" else 1.0 if dtype.kind == "float" else 1


def _zero(dtype: DType) -> Any:
    return False if dtype.kind == "bool" else 0.0 if dtype.kind == "float" else 0


def _ones(dtype: DType) -> Any:
    return True if dtype.kind == "bool" else -1 if dtype.kind == "int" else 2**dtype.bits - 1


def _identity_first(a: Any) -> Any:
    return a


INTS = (tuple,)

FACTS: dict[Ops, OpFacts] = {
    Ops.CONST: OpFacts(None, (bool, int, float)),  # its device, where it has one
    Ops.DEVICE: OpFacts(0, (str, tuple)),  # the name of a device, or those of several
    Ops.BUFFER: OpFacts(1, (BufferArg,)),
    Ops.VARIABLE: OpFacts(0, (VariableArg,)),
    Ops.BIND: OpFacts(1, (int,)),
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
    Ops.SCAN: OpFacts(1, (ScanArg,)),
    Ops.CONTIGUOUS: OpFacts(1),
    Ops.CONTIGUOUS_BACKWARD: OpFacts(1),
    Ops.DETACH: OpFacts(1),
    Ops.COPY: OpFacts(2),
    Ops.ASSIGN: OpFacts(None),
    Ops.FUNCTION: OpFacts(None, (FunctionArg,)),  # sources: value, what it was computed from
    Ops.SHARD: OpFacts(2, (ShardArg,)),
    Ops.MULTI: OpFacts(None, (int, NoneType)),  # sources: the parts; arg: their axis, None where each is the whole
    Ops.CAST: OpFacts(1, python=_identity_first),
    Ops.BITCAST: OpFacts(1),
    Ops.NEG: OpFacts(1, python=operator.neg),
    Ops.NOT: OpFacts(1, python=lambda a: (not a) if isinstance(a, bool) else ~a),
    Ops.RECIPROCAL: OpFacts(1, python=lambda a: _fdiv(1.0, a)),
    Ops.SQRT: OpFacts(1, python=_sqrt),
    Ops.EXP2: OpFacts(1, python=_exp2),
    Ops.LOG2: OpFacts(1, python=_log2),
    Ops.SIN: OpFacts(1, python=_outside(math.sin, _nan)),
    Ops.EXP: OpFacts(1, python=_outside(math.exp, _inf)),
    Ops.EXPM1: OpFacts(1, python=_outside(math.expm1, _inf)),
    Ops.LOG: OpFacts(1, python=_outside(math.log, _pole(0.0))),
    Ops.LOG1P: OpFacts(1, python=_outside(math.log1p, _pole(-1.0))),
    Ops.COS: OpFacts(1, python=_outside(math.cos, _nan)),
    Ops.TAN: OpFacts(1, python=_outside(math.tan, _nan)),
    Ops.ASIN: OpFacts(1, python=_outside(math.asin, _nan)),
    Ops.ACOS: OpFacts(1, python=_outside(math.acos, _nan)),
    Ops.ATAN: OpFacts(1, python=math.atan),
    Ops.TANH: OpFacts(1, python=_tanh),
    Ops.ERF: OpFacts(1, python=math.erf),
    Ops.ERFC: OpFacts(1, python=math.erfc),
    Ops.LGAMMA: OpFacts(1, python=_lgamma),
    Ops.TRUNC: OpFacts(1, python=_trunc),
    Ops.ADD: OpFacts(2, python=operator.add, commutative=True, identity=_zero),
    Ops.SUB: OpFacts(2, python=operator.sub),
    Ops.MUL: OpFacts(2, python=operator.mul, commutative=True, identity=_one),
    Ops.FDIV: OpFacts(2, python=_fdiv),
    Ops.IDIV: OpFacts(2, python=_floordiv),
    Ops.MOD: OpFacts(2, python=_mod),
    Ops.FMOD: OpFacts(2, python=_fmod),
    Ops.MAX: OpFacts(2, python=_maximum, commutative=True, identity=_lowest),
    Ops.MIN: OpFacts(2, python=_minimum, commutative=True, identity=_highest),
    Ops.POW: OpFacts(2, python=_pow),
    Ops.CMPLT: OpFacts(2, python=operator.lt),
    Ops.CMPEQ: OpFacts(2, python=operator.eq, commutative=True),
    Ops.CMPNE: OpFacts(2, python=operator.ne, commutative=True),
    Ops.AND: OpFacts(2, python=operator.and_, commutative=True, identity=_ones),
    Ops.OR: OpFacts(2, python=operator.or_, commutative=True, identity=_zero),
    Ops.XOR: OpFacts(2, python=operator.xor, commutative=True, identity=_zero),
    Ops.SHL: OpFacts(2, python=_shl),
    Ops.SHR: OpFacts(2, python=_shr),
    Ops.THREEFRY: OpFacts(2, python=threefry2x32),
    Ops.WHERE: OpFacts(3, python=lambda c, a, b: a if c else b),
    Ops.FMA: OpFacts(3),
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

# Functions of one float: a device gives their values to about a unit in the last place.
FUNCTIONS = frozenset({Ops.EXP2, Ops.LOG2, Ops.SIN, Ops.EXP, Ops.EXPM1, Ops.LOG, Ops.LOG1P, Ops.COS, Ops.TAN, Ops.ASIN,
                       Ops.ACOS, Ops.ATAN, Ops.TANH, Ops.ERF, Ops.ERFC, Ops.LGAMMA})  # fmt: skip
UNARY = FUNCTIONS | {Ops.CAST, Ops.BITCAST, Ops.NEG, Ops.NOT, Ops.RECIPROCAL, Ops.SQRT, Ops.TRUNC}
COMPARE = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE})
BINARY = COMPARE | {Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.IDIV, Ops.MOD, Ops.FMOD, Ops.MAX, Ops.MIN, Ops.POW,
                    Ops.AND, Ops.OR, Ops.XOR, Ops.SHL, Ops.SHR, Ops.THREEFRY}  # fmt: skip
TERNARY = frozenset({Ops.WHERE, Ops.FMA})
ELEMENTWISE = UNARY | BINARY | TERNARY
MOVEMENT = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.PAD, Ops.SHRINK, Ops.FLIP, Ops.WINDOW})
COMMUTATIVE = frozenset(op for op, facts in FACTS.items() if facts.commutative)
REDUCIBLE = frozenset(op for op, facts in FACTS.items() if facts.identity is not None)


def __getattr__(name: str) -> Any:
    """UOp is in uop.py, which builds on this file; people import both from here."""
    if name != "UOp":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tinygraft.uop.uop import UOp as node

    return node
