"""From Python data to complex numbers: what Tensor does where the data or the requested dtype are complex."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinygraft.dtype import BY_NAME, DType, DTypeLike, complex_of, dtypes, part_of, to_dtype
from tinygraft.errors import DTypeError
from tinygraft.tensor.complex.complex_tensor import ComplexTensor, joined
from tinygraft.tensor.data.from_python import flatten
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place, UOp


def made(
    data: Any = None, device: Place = None, dtype: DTypeLike | None = None, requires_grad: bool | None = None
) -> ComplexTensor:
    """Return a complex tensor, for the arguments of Tensor. Raises DTypeError where dtype has no imaginary parts."""
    to = None if dtype is None else to_dtype(dtype)
    if to is not None and to.kind != "complex":
        raise DTypeError(
            f"cannot make a tensor of {to} from complex numbers: that would lose the imaginary parts\n"
            "  hint: give a complex dtype, or the real parts"
        )
    new = _existing(data, device, to)
    if new is None:
        new = _whole(data, device, to)
    return new.requires_grad_(requires_grad)  # type: ignore[no-any-return]


def _existing(data: Any, device: Place, to: DType | None) -> Any:
    """Return what is a tensor, a node, bytes or a file already as a complex tensor of `to`; None for other data.

    Bytes are pairs of parts; raises DTypeError where they are no whole number of elements.
    """
    if isinstance(data, ComplexTensor):
        moved = data if device is None else data.to(device)
        return moved._again() if to is None else moved._cast(to)
    if data is None or isinstance(data, (Tensor, UOp)):
        return Tensor(data, device)._cast(to or dtypes.default_complex)
    if to is None or not isinstance(data, (bytes, bytearray, memoryview, Path)):
        return None
    halves = Tensor(data, device, part_of(to))
    if halves.numel() % 2:
        raise DTypeError(f"{halves.nbytes()} bytes are no whole number of {to} elements of {to.itemsize} bytes")
    return halves.reshape(-1, 2).view_as_complex()


def _whole(data: Any, device: Place, to: DType | None) -> ComplexTensor:
    """Return numbers, nested lists and arrays as a complex tensor; their shape is that of the nest.

    `to` None gives the default complex dtype, an array's own otherwise. Raises DTypeError for what is no number.
    """
    if isinstance(data, (bool, int, float, complex)) and not hasattr(data, "__array__"):
        shape, values = (), [data]  # type: tuple[int, ...], list[Any]
    elif isinstance(data, (list, tuple)) and not any(hasattr(v, "__array__") for v in flatten(data)[1]):
        shape, values = flatten(data)
    else:
        return _of_numpy(data, device, to)
    part = part_of(to or dtypes.default_complex)
    if strange := next((v for v in values if not isinstance(v, (bool, int, float, complex))), None):
        raise DTypeError(f"a tensor is made of bool, int, float and complex, got {type(strange).__name__}")
    columns = zip(*((value.real, value.imag) for value in values), strict=True) if values else ((), ())
    real, imaginary = (Tensor(list(column), device, part).reshape(shape) for column in columns)
    return joined(real, imaginary)


def _of_numpy(data: Any, device: Place, to: DType | None) -> ComplexTensor:
    """Return a copy of a numpy array, or of what numpy makes one of. Raises DTypeError for a dtype without an equal."""
    import numpy as np

    found = np.asarray(data)
    own = BY_NAME.get(found.dtype.name)
    if own is None:
        raise DTypeError(f"a tensor cannot hold numpy's {found.dtype}; cast it to complex128 first")
    if own.kind != "complex":
        real: Any = Tensor(found, device)
        return real._cast(to or complex_of(own))  # type: ignore[no-any-return]
    return joined(Tensor(found.real, device), Tensor(found.imag, device))._cast(to or own)  # type: ignore[no-any-return]
