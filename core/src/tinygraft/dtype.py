"""The dtypes, how two of them promote, and how a Python number becomes a value of one.

A DType is one of a few objects, compared by identity. Promotion follows the JAX lattice: a Python scalar is
weak, it never changes a tensor's dtype within its kind.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tinygraft import config
from tinygraft.errors import DTypeError, SettingError, did_you_mean


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type.

    name is the short name that prints (float, half, uchar); kind is one of bool, uint, int, float, complex, index,
    void; itemsize counts bytes; fmt is the struct format, None where struct has none (bfloat16, the fp8 and the
    complex types). Of complex numbers only tensors know: in the graph there are their parts.
    """

    name: str
    kind: str
    itemsize: int
    fmt: str | None

    @property
    def bits(self) -> int:
        """Width in bits."""
        return self.itemsize * 8

    @property
    def bitsize(self) -> int:
        """bits, by its other name."""
        return self.bits

    @property
    def min(self) -> Any:
        """The least value: -inf for floats."""
        return _limits(self)[0]

    @property
    def max(self) -> Any:
        """The greatest value: inf for floats."""
        return _limits(self)[1]

    def const(self, value: Any) -> Any:
        """A Python number as a value of this dtype, by the rules of coerce."""
        return coerce(value, self)

    def __repr__(self) -> str:
        return f"dtypes.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _by_name, (self.name,)

    def __deepcopy__(self, memo: object) -> DType:
        return self


def _by_name(name: str) -> DType:
    return BY_NAME[name]


class _Defaults(type):
    """The default dtypes of Python numbers: the settings DEFAULT_FLOAT and DEFAULT_INT, as assignable attributes."""

    def __getattr__(cls, name: str) -> Any:
        """Say which dtype was probably meant by a name that there is not."""
        meant = f"\n  hint: did you mean {MEANT[name]!r}?" if name in MEANT else ""
        hint = meant or ("" if name.startswith("_") else did_you_mean(name, dir(cls)))
        raise AttributeError(f"type object 'dtypes' has no attribute {name!r}{hint}")

    @property
    def default_float(cls) -> DType:
        """Return the dtype of a Python float. Raises SettingError where the setting is none of dtypes.floats."""
        return _default("DEFAULT_FLOAT", config.DEFAULT_FLOAT.value, dtypes.floats)

    @default_float.setter
    def default_float(cls, dtype: DTypeLike) -> None:
        config.DEFAULT_FLOAT.set(_default("DEFAULT_FLOAT", to_dtype(dtype).name, dtypes.floats))

    @property
    def default_complex(cls) -> DType:
        """Return the dtype of a Python complex: complex128 where default_float is float64, else complex64."""
        return complex_of(cls.default_float)

    @property
    def default_int(cls) -> DType:
        """Return the dtype of a Python int. Raises SettingError where the setting is none of dtypes.ints."""
        return _default("DEFAULT_INT", config.DEFAULT_INT.value, dtypes.ints)

    @default_int.setter
    def default_int(cls, dtype: DTypeLike) -> None:
        config.DEFAULT_INT.set(_default("DEFAULT_INT", to_dtype(dtype).name, dtypes.ints))


class dtypes(metaclass=_Defaults):
    """The namespace of dtypes, by both their names: dtypes.float is dtypes.float32.

    default_float and default_int are what numbers of Python become; to assign to them changes the settings of those
    names in this thread, `with Context(DEFAULT_FLOAT=dtypes.half)` for a block.

    >>> dtypes.default_float
    dtypes.float
    >>> dtypes.default_float is dtypes.float32
    True
    """

    void: DType = DType("void", "void", 0, None)
    index: DType = DType("index", "index", 8, "q")  # loop counters and addresses: never wraps, never stored
    bool: DType = DType("bool", "bool", 1, "?")
    int8: DType = DType("char", "int", 1, "b")
    char: DType = int8
    uint8: DType = DType("uchar", "uint", 1, "B")
    uchar: DType = uint8
    int16: DType = DType("short", "int", 2, "h")
    short: DType = int16
    uint16: DType = DType("ushort", "uint", 2, "H")
    ushort: DType = uint16
    int32: DType = DType("int", "int", 4, "i")
    int: DType = int32
    uint32: DType = DType("uint", "uint", 4, "I")
    uint: DType = uint32
    int64: DType = DType("long", "int", 8, "q")
    long: DType = int64
    uint64: DType = DType("ulong", "uint", 8, "Q")
    ulong: DType = uint64
    fp8e4m3: DType = DType("fp8e4m3", "float", 1, None)  # no inf: saturates. Of the Open Compute Project, as is
    fp8e5m2: DType = DType("fp8e5m2", "float", 1, None)  # this one: a half with 8 mantissa bits less
    fp8e4m3fnuz: DType = DType("fp8e4m3fnuz", "float", 1, None)  # no inf, no -0.0, one NaN
    fp8e5m2fnuz: DType = DType("fp8e5m2fnuz", "float", 1, None)
    float16: DType = DType("half", "float", 2, "e")
    half: DType = float16
    bfloat16: DType = DType("bfloat16", "float", 2, None)
    float32: DType = DType("float", "float", 4, "f")
    float: DType = float32
    float64: DType = DType("double", "float", 8, "d")
    double: DType = float64
    complex64: DType = DType("complex64", "complex", 8, None)  # two float32
    complex: DType = complex64
    cfloat: DType = complex64
    complex128: DType = DType("complex128", "complex", 16, None)  # two float64
    cdouble: DType = complex128

    fp8_ocp: tuple[DType, ...] = (fp8e4m3, fp8e5m2)
    fp8_fnuz: tuple[DType, ...] = (fp8e4m3fnuz, fp8e5m2fnuz)
    fp8s: tuple[DType, ...] = fp8_ocp + fp8_fnuz
    int8s: tuple[DType, ...] = (int8, uint8)
    int16s: tuple[DType, ...] = (int16, uint16)
    int32s: tuple[DType, ...] = (int32, uint32)
    int64s: tuple[DType, ...] = (int64, uint64)
    floats: tuple[DType, ...] = (float16, bfloat16, float32, float64)
    uints: tuple[DType, ...] = (uint8, uint16, uint32, uint64)
    sints: tuple[DType, ...] = (int8, int16, int32, int64)
    ints: tuple[DType, ...] = uints + sints
    all: tuple[DType, ...] = (bool, *ints, *floats)  # what a device computes with, and complex numbers are made of
    complexes: tuple[DType, ...] = (complex64, complex128)

    @staticmethod
    def is_float(dtype: DType) -> Any:
        """Whether dtype is a floating point type."""
        return dtype.kind == "float"

    @staticmethod
    def is_complex(dtype: DType) -> Any:
        """Whether dtype is one of complex numbers."""
        return dtype.kind == "complex"

    @staticmethod
    def is_int(dtype: DType) -> Any:
        """Whether dtype is an integer type (bool is not)."""
        return dtype.kind in ("int", "uint", "index")

    @staticmethod
    def is_unsigned(dtype: DType) -> Any:
        """Whether dtype is an unsigned integer type."""
        return dtype.kind == "uint"

    @staticmethod
    def is_bool(dtype: DType) -> Any:
        """Whether dtype is bool."""
        return dtype.kind == "bool"

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
        """(exponent bits, mantissa bits) of a float dtype, or of the parts of a complex one."""
        dtype = part_of(dtype)
        return FORMATS[dtype].exponent, FORMATS[dtype].mantissa

    @staticmethod
    def from_py(value: Any) -> DType:
        """The dtype of a Python scalar, or of the numbers in nested lists."""
        kinds = {type(v) for v in _leaves(value)} if isinstance(value, (list, tuple)) else {type(value)}
        if _complex in kinds:
            return dtypes.default_complex
        if _float in kinds or not kinds:
            return dtypes.default_float
        if _int in kinds:
            return dtypes.default_int
        if _bool in kinds:
            return dtypes.bool
        names = ", ".join(sorted(kind.__name__ for kind in kinds))
        raise DTypeError(f"a tensor is made of bool, int, float and complex, got {names}")


_bool, _int, _float, _complex = bool, int, float, complex
BY_NAME: dict[str, DType] = {k: v for k, v in vars(dtypes).items() if isinstance(v, DType)}
ELSEWHERE = {  # names of PyTorch and ml_dtypes -> ours
    "float8_e4m3fn": dtypes.fp8e4m3, "float8_e5m2": dtypes.fp8e5m2,
    "float8_e4m3fnuz": dtypes.fp8e4m3fnuz, "float8_e5m2fnuz": dtypes.fp8e5m2fnuz,
}  # fmt: skip
MEANT = {  # other spellings -> the name that is meant: "f4" counts bytes, as in NumPy, "f32" and "fp32" bits
    "f2": "float16", "f4": "float32", "f8": "float64", "f16": "float16", "f32": "float32", "f64": "float64",
    "fp16": "float16", "fp32": "float32", "fp64": "float64", "bf16": "bfloat16", "single": "float32",
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64", "i16": "int16", "i32": "int32", "i64": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64", "u16": "uint16", "u32": "uint32", "u64": "uint64",
    "c8": "complex64", "c16": "complex128", "c64": "complex64", "c128": "complex128",
    "b1": "bool", "?": "bool", "boolean": "bool", "byte": "uint8",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Format:
    """The bit fields of a float dtype, and its largest number.

    `beyond` is what a number past the largest becomes: inf, or NaN or the largest for a format without inf.
    `unsigned_zero` says that the bits of -0.0 are the only NaN.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: float
    beyond: float = math.inf
    unsigned_zero: bool = False


FORMATS = {
    dtypes.fp8e4m3: Format(4, 3, 7, 448.0, beyond=448.0),
    dtypes.fp8e5m2: Format(5, 2, 15, 57344.0),
    dtypes.fp8e4m3fnuz: Format(4, 3, 8, 240.0, math.nan, unsigned_zero=True),
    dtypes.fp8e5m2fnuz: Format(5, 2, 16, 57344.0, math.nan, unsigned_zero=True),
    dtypes.float16: Format(5, 10, 15, 65504.0),
    dtypes.bfloat16: Format(8, 7, 127, 2.0**128 - 2.0**120),
    dtypes.float32: Format(8, 23, 127, 2.0**128 - 2.0**104),
    dtypes.float64: Format(11, 52, 1023, sys.float_info.max),
}
SMALL_FLOATS = (*dtypes.fp8s, dtypes.float16, dtypes.bfloat16)  # sums of them are float32
DTypeLike = str | DType


def _default(setting: str, name: str, allowed: Sequence[DType]) -> DType:
    """Return the dtype that the setting `setting` names. Raises SettingError for one that is not in `allowed`."""
    found = BY_NAME.get(name) or BY_NAME.get(name.lower())
    if found is None or found not in allowed:
        raise SettingError(f"{setting} must be one of {', '.join(d.name for d in allowed)}, got {name!r}")
    return found


# to an error about a number where a device or a dtype is asked for, as Tensor(1, 2) has it
ONE_ARGUMENT = "\n  hint: Tensor([1, 2]) has these values, in one argument; Tensor.zeros(1, 2) has this shape"
_FROM_ELSEWHERE = re.compile(r"^(torch|np|numpy|jnp|dtypes)\.")  # "torch.float32", as str(dtype) and configs have it


def _name_elsewhere(like: Any) -> str:
    """Return the name of a dtype of another library (np.dtype("int64"), np.bool_, torch.float32) or a Python type."""
    name = getattr(like, "name", None) or getattr(like, "__name__", None) or str(like)
    return str(name).removeprefix("torch.").rstrip("_")


def to_dtype(like: DTypeLike) -> DType:
    """Return a dtype, the one of that name ("float32" or "float"), or that of a dtype of NumPy, PyTorch or Python.

    PyTorch's float8_e4m3fn is fp8e4m3, float8_e5m2 fp8e5m2, with the suffix fnuz as well.

    Raises DTypeError for an unknown name.
    """
    if isinstance(like, DType):
        return like
    name = _FROM_ELSEWHERE.sub("", like) if isinstance(like, str) else _name_elsewhere(like)
    if (found := BY_NAME.get(name) or BY_NAME.get(name.lower()) or ELSEWHERE.get(name)) is not None:
        return found
    listed = ", ".join(sorted(BY_NAME))
    eights = " or ".join(repr(dtype.name) for dtype in dtypes.fp8s)
    if isinstance(like, _int):
        meant = ONE_ARGUMENT
    elif name.startswith(("float8", "fp8")):
        meant = f"\n  hint: did you mean {eights}?"
    else:
        found_name = MEANT.get(name.lower().lstrip("<>=|"))  # NumPy writes the order of bytes before it
        meant = f"\n  hint: did you mean {found_name!r}?" if found_name else did_you_mean(name, BY_NAME)
    raise DTypeError(f"there is no dtype {like!r}; the dtypes are {listed}{meant}")


def _leaves(nested: Any) -> Any:
    """Yield the numbers in nested lists and tuples, in order. Raises DTypeError for a list that contains itself."""
    stack, above = [iter(nested)], {id(nested): nested}
    while stack:
        for item in stack[-1]:
            if isinstance(item, (list, tuple)):
                if id(item) in above:
                    raise DTypeError("nested lists must end, this one contains itself")
                stack.append(iter(item))
                above[id(item)] = item
                break
            yield item
        else:
            stack.pop()
            above.popitem()


_PART = {dtypes.complex64: dtypes.float32, dtypes.complex128: dtypes.float64}


def part_of(dtype: DType) -> DType:
    """Return the dtype of the real and the imaginary parts of a complex dtype; any other dtype itself.

    >>> part_of(dtypes.complex64), part_of(dtypes.int8)
    (dtypes.float, dtypes.char)
    """
    return _PART.get(dtype, dtype)


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts have all values of `dtype`: complex128 for float64, else complex64.

    >>> complex_of(dtypes.float64), complex_of(dtypes.half), complex_of(dtypes.complex128)
    (dtypes.complex128, dtypes.complex64, dtypes.complex128)
    """
    return dtypes.complex128 if part_of(dtype) is dtypes.float64 else dtypes.complex64


@cache
def _limits(dtype: DType) -> tuple[Any, Any]:
    """Return (least, greatest) value, infinities for floats. Raises DTypeError for a complex dtype: it has no order."""
    if dtype.kind == "bool":
        return False, True
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    if dtype.kind in ("int", "index"):
        return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1
    if dtype.kind == "complex":
        raise DTypeError(f"{dtype} has no least and no greatest value: complex numbers have no order")
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
    dtypes.int64: dtypes.fp8s,
    dtypes.uint64: dtypes.fp8s,
    **dict.fromkeys(dtypes.fp8s, (dtypes.float16, dtypes.bfloat16)),
    dtypes.float16: (dtypes.float32,),
    dtypes.bfloat16: (dtypes.float32,),
    dtypes.float32: (dtypes.float64, dtypes.complex64),
    dtypes.float64: (dtypes.complex128,),
    dtypes.complex64: (dtypes.complex128,),
    dtypes.complex128: (),
}
_RANK = {dtype: rank for rank, dtype in enumerate(_PARENTS)}


@cache
def _above(dtype: DType) -> frozenset[DType]:
    return frozenset({dtype}).union(*(_above(parent) for parent in _PARENTS[dtype]))


@cache
def promote(*dtypes_: DType) -> DType:
    """Return the least dtype that all of `dtypes_` promote to, by the JAX lattice.

    >>> promote(dtypes.int8, dtypes.uint8), promote(dtypes.int64, dtypes.float16)
    (dtypes.short, dtypes.half)
    >>> promote(dtypes.float64, dtypes.complex64)
    dtypes.complex128
    """
    common = frozenset.intersection(*(_above(d) for d in dtypes_))
    inexact = ("float", "complex")
    if not any(d.kind in inexact for d in dtypes_) and all(d.kind in inexact for d in common):
        return dtypes.float32  # uint64 with a signed integer: a weak float, as in JAX
    return min(common, key=lambda d: (len(_above(d)) * -1, _RANK[d]))


def promote_scalar(dtype: DType, value: bool | int | float | complex) -> DType:
    """Return the dtype of an operation between a tensor of `dtype` and a Python scalar, which is weak.

    >>> promote_scalar(dtypes.half, 2.0), promote_scalar(dtypes.int8, 2.0), promote_scalar(dtypes.bool, 2)
    (dtypes.half, dtypes.float, dtypes.int)
    >>> promote_scalar(dtypes.double, 2j), promote_scalar(dtypes.int8, 2j)
    (dtypes.complex128, dtypes.complex64)
    """
    if isinstance(value, _complex):
        return complex_of(dtype if dtype.kind in ("float", "complex") else dtypes.default_float)
    if isinstance(value, _float) and dtype.kind not in ("float", "complex"):
        return dtypes.default_float
    if isinstance(value, _int) and not isinstance(value, _bool) and dtype.kind == "bool":
        return dtypes.default_int
    return dtype


def accumulator(dtype: DType) -> DType:
    """Return the dtype of a sum over `dtype`: 32 bits for small integers, float32 for half types."""
    if dtype.kind == "bool":
        return dtypes.default_int
    if dtype in SMALL_FLOATS:
        return dtypes.float32
    if dtype.kind == "uint" and dtype.itemsize < 4:
        return dtypes.uint32
    if dtype.kind == "int" and dtype.itemsize < 4:
        return dtypes.int32
    return dtype


def least_upper_float(dtype: DType) -> DType:
    """Return `dtype` if it is float or complex, else the default float: the result's of functions only of those."""
    return dtype if dtype.kind in ("float", "complex") else dtypes.default_float


def can_lossless_cast(source: DType, target: DType) -> bool:
    """Return whether `target` has every value of `source`.

    >>> can_lossless_cast(dtypes.int16, dtypes.float32), can_lossless_cast(dtypes.int32, dtypes.float32)
    (True, False)
    """
    if source is target or source.kind == "bool":
        return True
    if target.kind == "complex":
        return can_lossless_cast(part_of(source), part_of(target))
    if source.kind == "complex":
        return False
    if source.kind == target.kind == "float":
        a, b = FORMATS[source], FORMATS[target]
        return a.mantissa <= b.mantissa and a.largest <= b.largest and a.bias + a.mantissa <= b.bias + b.mantissa
    if source.kind == "float" or target.kind == "bool":
        return False
    if target.kind == "float":
        form = FORMATS[target]
        return source.bits - (source.kind == "int") <= form.mantissa + 1 and bool(source.max <= form.largest)
    return bool(target.min <= source.min and source.max <= target.max)


# Their names in other versions.
least_upper_dtype: Callable[..., DType] = promote
sum_acc_dtype: Callable[[DType], DType] = accumulator


def round_small(value: float, dtype: DType) -> float:
    """Return `value` rounded once to any float dtype, ties to even. Raises KeyError for another dtype.

    What is past the largest number, infinities included, becomes `beyond` of its format with the sign of `value`:
    infinite, NaN, or the largest number. NaN stays; -0.0 is 0.0 where the format has no such zero.
    """
    form = FORMATS[dtype]
    if value == 0 or math.isnan(value):
        return 0.0 if form.unsigned_zero and value == 0 else value
    if not math.isinf(value):
        exponent = max(math.frexp(value)[1] - 1, 1 - form.bias)
        unit = math.ldexp(1.0, exponent - form.mantissa)
        value = math.copysign(round(value / unit) * unit, value)
    if abs(value) > form.largest:
        return math.copysign(form.beyond, value)
    return 0.0 if form.unsigned_zero and value == 0 else value


def coerce(value: Any, dtype: DType) -> Any:
    """Return a Python number as a value of `dtype`, by the rules that all devices follow.

    Integers wrap; a float becomes an integer by truncation, saturates at its limits, and NaN gives 0; a float is
    rounded once, to nearest even.

    >>> coerce(300, dtypes.uint8), coerce(300.7, dtypes.uint8), coerce(float("nan"), dtypes.int32)
    (44, 255, 0)
    """
    kind = dtype.kind
    if kind == "complex":
        return _complex(coerce(value.real, part_of(dtype)), coerce(value.imag, part_of(dtype)))
    if kind == "float":
        if isinstance(value, _int) and not isinstance(value, _bool):
            return _int_to_float(value, dtype)
        value = _float(value)
        if dtype.itemsize == 8:
            return value
        if dtype.fmt is None:
            return round_small(value, dtype)
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
    """Return an integer rounded once to `dtype`: through float64 a 64-bit integer would be rounded twice."""
    form = FORMATS[dtype]
    extra = value.bit_length() - (form.mantissa + 1)
    if extra > 0:
        half, low = 1 << (extra - 1), abs(value) & ((1 << extra) - 1)
        magnitude = abs(value) >> extra
        magnitude += low > half or (low == half and magnitude & 1)
        magnitude <<= extra
        value = magnitude if value > 0 else -magnitude
    try:
        result = _float(value)
    except OverflowError:
        result = math.inf if value > 0 else -math.inf
    if abs(result) <= form.largest:
        return result
    return math.copysign(form.beyond, result)


_INT_OF_WIDTH = {1: "B", 2: "H", 4: "I", 8: "Q"}


def bits_of(value: Any, dtype: DType) -> int:
    """Return the bits of a value of `dtype`, as an unsigned integer.

    >>> hex(bits_of(1.0, dtypes.bfloat16)), hex(bits_of(-1, dtypes.int8)), hex(bits_of(1.0, dtypes.fp8e4m3))
    ('0x3f80', '0xff', '0x38')
    """
    if dtype is dtypes.bfloat16:
        return struct.unpack("<I", struct.pack("<f", value))[0] >> 16  # type: ignore[no-any-return]
    if dtype in dtypes.fp8s:
        if value != value:
            size = 0x7E if dtype is dtypes.fp8e5m2 else 0x7F
            return 0x80 if FORMATS[dtype].unsigned_zero else size | (0x80 if math.copysign(1.0, value) < 0 else 0)
        return _fp8_bits(dtype)[abs(value)] | (0x80 if math.copysign(1.0, value) < 0 else 0)
    if dtype.kind in ("float", "bool"):
        fmt = _INT_OF_WIDTH[dtype.itemsize]
        return struct.unpack("<" + fmt, struct.pack(f"<{dtype.fmt}", value))[0]  # type: ignore[no-any-return]
    return _int(value) & ((1 << dtype.bits) - 1)


def of_bits(bits: int, dtype: DType) -> Any:
    """Return the value of `dtype` that has these bits.

    >>> of_bits(0x3F80, dtypes.bfloat16), of_bits(0xFF, dtypes.int8), of_bits(0x7E, dtypes.fp8e4m3)
    (1.0, -1, 448.0)
    """
    if dtype.fmt is None:
        return values_of(dtype)[bits]
    if dtype.kind == "float":
        return struct.unpack(f"<{dtype.fmt}", struct.pack("<" + _INT_OF_WIDTH[dtype.itemsize], bits))[0]
    return coerce(bits, dtype)


@cache
def values_of(dtype: DType) -> tuple[float, ...]:
    """Return every value of a float dtype of at most 16 bits, by its bits."""
    if dtype is dtypes.float16:
        return struct.unpack("<65536e", struct.pack("<65536H", *range(65536)))
    if dtype is dtypes.bfloat16:
        return struct.unpack("<65536f", struct.pack("<65536I", *(bits << 16 for bits in range(65536))))
    return tuple(_fp8_value(bits, FORMATS[dtype]) for bits in range(256))


def _fp8_value(bits: int, form: Format) -> float:
    """What eight bits mean."""
    size, sign = bits & 0x7F, -1.0 if bits & 0x80 else 1.0
    exponent, mantissa = size >> form.mantissa, size & ((1 << form.mantissa) - 1)
    if form.unsigned_zero:
        if bits == 0x80:
            return math.nan
    elif form.beyond != math.inf:
        if size == 0x7F:
            return math.copysign(math.nan, sign)
    elif exponent == (1 << form.exponent) - 1:
        return math.copysign(math.nan if mantissa else math.inf, sign)
    if not exponent:
        return sign * math.ldexp(mantissa, 1 - form.bias - form.mantissa)
    return sign * math.ldexp((1 << form.mantissa) + mantissa, exponent - form.bias - form.mantissa)


@cache
def _fp8_bits(dtype: DType) -> dict[float, int]:
    """The bits by their values, without the sign."""
    return {value: bits for bits, value in enumerate(values_of(dtype)[:128]) if value == value}
