"""The dtypes, how two of them promote, and how a Python number becomes a value of one.

A DType is one of a few objects, compared by identity. Promotion follows the JAX lattice: a Python scalar is
weak, it never changes a tensor's dtype within its kind.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinygraft import config
from tinygraft.errors import DTypeError, SettingError


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type.

    name is the short name that prints (float, half, uchar); kind is one of bool, uint, int, float, index, void;
    itemsize counts bytes; fmt is the struct format, None where struct has none (bfloat16).
    """

    name: str
    kind: str
    itemsize: int
    fmt: str | None

    @property
    def bits(self) -> int:
        """Width in bits."""
        return self.itemsize * 8

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __deepcopy__(self, memo: object) -> DType:
        return self


def _by_name(name: str) -> DType:
    return BY_NAME[name]


class dtypes:
    """The namespace of dtypes, by both their names: dtypes.float is dtypes.float32."""

    void = DType("void", "void", 0, None)
    index = DType("index", "index", 8, "q")  # loop counters and addresses: never wraps, never stored
    bool = DType("bool", "bool", 1, "?")
    int8 = char = DType("char", "int", 1, "b")
    uint8 = uchar = DType("uchar", "uint", 1, "B")
    int16 = short = DType("short", "int", 2, "h")
    uint16 = ushort = DType("ushort", "uint", 2, "H")
    int32 = int = DType("int", "int", 4, "i")
    uint32 = uint = DType("uint", "uint", 4, "I")
    int64 = long = DType("long", "int", 8, "q")
    uint64 = ulong = DType("ulong", "uint", 8, "Q")
    float16 = half = DType("half", "float", 2, "e")
    bfloat16 = DType("bfloat16", "float", 2, None)
    float32 = float = DType("float", "float", 4, "f")
    float64 = double = DType("double", "float", 8, "d")

    floats = (float16, bfloat16, float32, float64)
    uints = (uint8, uint16, uint32, uint64)
    sints = (int8, int16, int32, int64)
    ints = uints + sints
    all = (bool, *ints, *floats)

    @staticmethod
    def is_float(dtype: DType) -> Any:
        """Whether dtype is a floating point type."""
        return dtype.kind == "float"

    @staticmethod
    def is_int(dtype: DType) -> Any:
        """Whether dtype is an integer type (bool is not)."""
        return dtype.kind in ("int", "uint", "index")

    @staticmethod
    def is_unsigned(dtype: DType) -> Any:
        """Whether dtype is an unsigned integer type."""
        return dtype.kind == "uint"

    @staticmethod
    def min(dtype: DType) -> Any:
        """The least value of dtype: -inf for floats."""
        return _limits(dtype)[0]

    @staticmethod
    def max(dtype: DType) -> Any:
        """The greatest value of dtype: inf for floats."""
        return _limits(dtype)[1]

    @staticmethod
    def finfo(dtype: DType) -> tuple[Any, Any]:
        """(exponent bits, mantissa bits) of a float dtype."""
        return FLOAT_BITS[dtype]

    @staticmethod
    def from_py(value: Any) -> DType:
        """The dtype of a Python scalar, or of the numbers in nested lists."""
        kinds = {type(v) for v in _leaves(value)} if isinstance(value, (list, tuple)) else {type(value)}
        if _float in kinds or not kinds:
            return dtypes.default_float()
        if _int in kinds:
            return dtypes.default_int()
        if _bool in kinds:
            return dtypes.bool
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DTypeError(f"a tensor is made of bool, int and float, got {names}")

    @staticmethod
    def default_float() -> DType:
        """What a Python float becomes: the setting DEFAULT_FLOAT."""
        return _default("DEFAULT_FLOAT", config.DEFAULT_FLOAT.value, dtypes.floats)

    @staticmethod
    def default_int() -> DType:
        """What a Python int becomes: the setting DEFAULT_INT."""
        return _default("DEFAULT_INT", config.DEFAULT_INT.value, dtypes.ints)


_bool, _int, _float = bool, int, float
BY_NAME: dict[str, DType] = {k: v for k, v in vars(dtypes).items() if isinstance(v, DType)}
FLOAT_BITS = {dtypes.float16: (5, 10), dtypes.bfloat16: (8, 7), dtypes.float32: (8, 23), dtypes.float64: (11, 52)}
DTypeLike = str | DType


def _default(setting: str, name: str, allowed: Sequence[DType]) -> DType:
    """The dtype that a setting names. Raises SettingError for one that is not among allowed."""
    found = BY_NAME.get(name) or BY_NAME.get(name.lower())
    if found is None or found not in allowed:
        raise SettingError(f"{setting} must be one of {', '.join(d.name for d in allowed)}, got {name!r}")
    return found


def to_dtype(like: DTypeLike) -> DType:
    """A dtype, or the one of that name ("float32" or "float"). Raises DTypeError for an unknown name."""
    if isinstance(like, DType):
        return like
    if isinstance(like, str) and (found := BY_NAME.get(like) or BY_NAME.get(like.lower())) is not None:
        return found
    raise DTypeError(f"there is no dtype {like!r}; the dtypes are {', '.join(sorted(BY_NAME))}")


def _leaves(nested: Any) -> Any:
    """The numbers in nested lists and tuples, in order."""
    stack = [iter(nested)]
    while stack:
        for item in stack[-1]:
            if isinstance(item, (list, tuple)):
                stack.append(iter(item))
                break
            yield item
        else:
            stack.pop()


@cache
def _limits(dtype: DType) -> tuple[Any, Any]:
    if dtype.kind == "bool":
        return False, True
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    if dtype.kind in ("int", "index"):
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    return -math.inf, math.inf


# The JAX lattice: each dtype with the next larger ones. uint64 with a signed integer goes to float.
_PARENTS: dict[DType, tuple[DType, ...]] = {
    dtypes.bool: (dtypes.int8, dtypes.uint8),
    dtypes.int8: (dtypes.int16,),
    dtypes.uint8: (dtypes.int16, dtypes.uint16),
    dtypes.int16: (dtypes.int32,),
    dtypes.uint16: (dtypes.int32, dtypes.uint32),
    dtypes.int32: (dtypes.int64,),
    dtypes.uint32: (dtypes.int64, dtypes.uint64),
    dtypes.int64: (dtypes.float16, dtypes.bfloat16),
    dtypes.uint64: (dtypes.float16, dtypes.bfloat16),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64,),
    dtypes.float64: (),
}
_RANK = {dtype: rank for rank, dtype in enumerate(_PARENTS)}


@cache
def _above(dtype: DType) -> frozenset[DType]:
    return frozenset({dtype}).union(*(_above(parent) for parent in _PARENTS[dtype]))


@cache
def promote(*dtypes_: DType) -> DType:
    """The least dtype that all of dtypes_ promote to, by the JAX lattice.

    >>> promote(dtypes.int8, dtypes.uint8), promote(dtypes.int64, dtypes.float16)
    (dtypes.short, dtypes.half)
    """
    common = frozenset.intersection(*(_above(d) for d in dtypes_))
    if not any(d.kind == "float" for d in dtypes_) and all(d.kind == "float" for d in common):
        return dtypes.float32  # uint64 with a signed integer: a weak float, as in JAX
    return min(common, key=lambda d: (len(_above(d)) * -1, _RANK[d]))


def promote_scalar(dtype: DType, value: bool | int | float) -> DType:
    """The dtype of an operation between a tensor of dtype and a Python scalar, which is weak.

    >>> promote_scalar(dtypes.half, 2.0), promote_scalar(dtypes.int8, 2.0), promote_scalar(dtypes.bool, 2)
    (dtypes.half, dtypes.float, dtypes.int)
    """
    if isinstance(value, _float) and dtype.kind != "float":
        return dtypes.default_float()
    if isinstance(value, _int) and not isinstance(value, _bool) and dtype.kind == "bool":
        return dtypes.default_int()
    return dtype


def accumulator(dtype: DType) -> DType:
    """The dtype in which a sum over dtype is kept: small integers in 32 bits, half types in float32."""
    if dtype.kind == "bool":
        return dtypes.default_int()
    if dtype in (dtypes.float16, dtypes.bfloat16):
        return dtypes.float32
    if dtype.kind == "uint" and dtype.itemsize < 4:
        return dtypes.uint32
    if dtype.kind == "int" and dtype.itemsize < 4:
        return dtypes.int32
    return dtype


def round_bfloat16(value: float) -> float:
    """value rounded to the nearest bfloat16, ties to even."""
    if math.isnan(value) or math.isinf(value):
        return value
    return _round_mantissa(value, 8, -126, 3.3895313892515355e38)


def _round_mantissa(value: float, precision: int, min_exponent: int, largest: float) -> float:
    """value rounded once to `precision` significant bits with subnormals below 2**min_exponent; inf past largest."""
    if value == 0:
        return value
    exponent = max(math.frexp(value)[1] - 1, min_exponent)
    unit = math.ldexp(1.0, exponent - precision + 1)
    rounded = round(value / unit) * unit
    if abs(rounded) > largest:
        return math.copysign(math.inf, value)
    return math.copysign(rounded, value)


def coerce(value: Any, dtype: DType) -> Any:
    """A Python number as a value of dtype, by the rules that all devices keep.

    Integers wrap; a float becomes an integer by truncation, saturates at its limits, and NaN gives 0; a float is
    rounded once, to nearest even.

    >>> coerce(300, dtypes.uint8), coerce(300.7, dtypes.uint8), coerce(float("nan"), dtypes.int32)
    (44, 255, 0)
    """
    kind = dtype.kind
    if kind == "float":
        if isinstance(value, _int) and not isinstance(value, _bool):
            return _int_to_float(value, dtype)
        value = _float(value)
        if dtype.itemsize == 8:
            return value
        if dtype is dtypes.bfloat16:
            return round_bfloat16(value)
        try:
            return struct.unpack(dtype.fmt or "f", struct.pack(dtype.fmt or "f", value))[0]
        except OverflowError:
            return math.copysign(math.inf, value)
    if kind == "bool":
        return value != 0
    if isinstance(value, _float):
        low, high = _limits(dtype)
        return 0 if value != value else low if value <= low else high if value >= high else _int(value)
    value = _int(value)
    if kind == "index":
        return value
    value &= (1 << dtype.bits) - 1
    return value - (1 << dtype.bits) if kind == "int" and value >> (dtype.bits - 1) else value


def _int_to_float(value: int, dtype: DType) -> float:
    """An integer rounded once to dtype: through float64 a 64-bit integer would be rounded twice."""
    exponent_bits, mantissa = FLOAT_BITS[dtype]
    extra = value.bit_length() - (mantissa + 1)
    if extra > 0:
        half, low = 1 << (extra - 1), abs(value) & ((1 << extra) - 1)
        magnitude = abs(value) >> extra
        magnitude += low > half or (low == half and magnitude & 1)
        magnitude <<= extra
        value = magnitude if value > 0 else -magnitude
    try:
        result = _float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    largest = (2 - 2.0**-mantissa) * 2.0 ** (2 ** (exponent_bits - 1) - 1)
    return math.copysign(math.inf, result) if abs(result) > largest else result
