"""The dtypes of the namespace, what they promote to, and what the namespace says of itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tinygraft.device.registry import Device
from tinygraft.dtype import FORMATS, DType, dtypes, part_of, promote, promote_scalar
from tinygraft.errors import DTypeError
from tinygraft.tensor.tensor import Tensor

bool: DType = dtypes.bool
int8: DType
int16: DType
int32: DType
int64: DType
int8, int16, int32, int64 = dtypes.sints
uint8: DType
uint16: DType
uint32: DType
uint64: DType
uint8, uint16, uint32, uint64 = dtypes.uints
float32: DType
float64: DType
float32, float64 = dtypes.float32, dtypes.float64
complex64: DType
complex128: DType
complex64, complex128 = dtypes.complexes

NAMES = {
    "bool": bool, "int8": int8, "int16": int16, "int32": int32, "int64": int64, "uint8": uint8, "uint16": uint16,
    "uint32": uint32, "uint64": uint64, "float32": float32, "float64": float64, "complex64": complex64,
    "complex128": complex128,
}  # fmt: skip
KINDS: dict[str, tuple[str, ...]] = {
    "bool": ("bool",), "signed integer": ("int",), "unsigned integer": ("uint",), "integral": ("int", "uint"),
    "real floating": ("float",), "complex floating": ("complex",), "numeric": ("int", "uint", "float", "complex"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FloatInfo:
    """Limits of a float dtype, as Python floats."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: DType


@dataclass(frozen=True, slots=True)
class IntegerInfo:
    """Limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: DType


def _dtype_of(type: Any) -> DType:
    """Return the dtype of a tensor, or a dtype itself."""
    return type.dtype if isinstance(type, Tensor) else type


def astype(x: Tensor, dtype: DType, /, *, copy: Any = True, device: str | None = None) -> Tensor:
    """x as another dtype; x itself where that changes nothing and copy is False."""
    found = x if dtype is x.dtype else x.cast(dtype)
    found = found if device is None else found.to(device)
    return found.clone() if copy and found is x else found


def can_cast(from_: Any, to: DType, /) -> Any:
    """Whether a dtype, or that of a tensor, promotes to another one."""
    return promote(_dtype_of(from_), to) is to


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a float dtype, or of a tensor's; of a complex one those of its parts. DTypeError for another."""
    dtype = part_of(_dtype_of(type))
    if dtype not in FORMATS:
        raise DTypeError(f"finfo is of a float or complex dtype, got {dtype!r}")
    form = FORMATS[dtype]
    least = math.ldexp(1.0, 1 - form.bias)
    return FloatInfo(dtype.bits, 2.0**-form.mantissa, form.largest, -form.largest, least, dtype)


def iinfo(type: Any, /) -> IntegerInfo:
    """The limits of an integer dtype, or of a tensor's. Raises DTypeError for another."""
    dtype = _dtype_of(type)
    if dtype not in dtypes.ints:
        raise DTypeError(f"iinfo is of an integer dtype, got {dtype!r}")
    return IntegerInfo(dtype.bits, dtypes.max(dtype), dtypes.min(dtype), dtype)


def isdtype(dtype: DType, kind: Any) -> Any:
    """Whether a dtype is another one, of a kind that the standard names, or one of several of those.

    Raises ValueError for a name that is no kind.

    >>> isdtype(float32, "real floating"), isdtype(int8, ("bool", "unsigned integer"))
    (True, False)
    """
    for one in kind if isinstance(kind, tuple) else (kind,):
        if isinstance(one, str):
            if one not in KINDS:
                raise ValueError(f"a kind of dtypes is one of {', '.join(KINDS)}, got {one!r}")
            if dtype.kind in KINDS[one]:
                return True
        elif one is dtype:
            return True
    return False


def result_type(*arrays_and_dtypes: Any) -> DType:
    """The dtype of an operation on tensors, dtypes and Python numbers, of which at least one is no number."""
    given = [_dtype_of(one) for one in arrays_and_dtypes if isinstance(one, (Tensor, DType))]
    if not given:
        raise DTypeError("result_type needs a tensor or a dtype among its arguments")
    found = promote(*given)
    for number in arrays_and_dtypes:
        if not isinstance(number, (Tensor, DType)):
            found = promote_scalar(found, number)
    return found


class Namespace:
    """What __array_namespace_info__ gives: the dtypes, devices and capabilities of this namespace."""

    def capabilities(self) -> dict[str, Any]:
        """Boolean indexing and data-dependent shapes are supported; more axes than NumPy has can only be computed."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> str:
        """The device that is used when none is named."""
        return Device.DEFAULT

    def default_dtypes(self, *, device: str | None = None) -> dict[str, DType]:
        """The dtypes of Python's numbers, and that of indices, by what they are for; the same on each `device`."""
        inexact = {"real floating": dtypes.default_float, "complex floating": dtypes.default_complex}
        return inexact | {"integral": dtypes.default_int, "indexing": int32}

    def devices(self) -> list[str]:
        """The device that is used when none is named; Device.names() has all that are installed."""
        return [Device.DEFAULT]

    def dtypes(self, *, device: str | None = None, kind: Any = None) -> dict[str, DType]:
        """The dtypes by name, all or those of a `kind` as `isdtype` has it; `device` changes nothing.

        ValueError for no kind.
        """
        return {name: dtype for name, dtype in NAMES.items() if kind is None or isdtype(dtype, kind)}
