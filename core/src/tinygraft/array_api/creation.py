"""Functions that make arrays."""

from __future__ import annotations

from typing import Any, Literal

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ShapeError
from tinygraft.tensor.tensor import Tensor

ShapeLike = int | tuple[int, ...]
Number = bool | int | float | complex


def _shape(shape: ShapeLike) -> tuple[int, ...]:
    """Return a shape, an int or sizes, as a tuple."""
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj: Any, /, *, dtype: DType | None = None, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor of obj: numbers, nested sequences of them, a tensor, or memory of another library.

    A tensor stays the same one unless copy=True, or another dtype or device is requested; copy=False raises ValueError
    where a copy has to be made.
    """
    if not isinstance(obj, Tensor):
        if copy is False:
            if hasattr(obj, "__dlpack__") and dtype is None:
                return Tensor.from_dlpack(obj, device, copy=False)
            raise ValueError(f"copy=False, but a tensor made of {type(obj).__name__} has memory of its own")
        return Tensor(obj, device=device, dtype=dtype)
    found = obj if dtype is None or dtype is obj.dtype else obj.cast(dtype)
    found = found if device is None else found.to(device)
    if copy is False and any(a.uop is not b.uop for a, b in zip(found._parts(), obj._parts(), strict=False)):
        raise ValueError("copy=False, but another dtype or device needs memory of its own")
    return found.clone() if copy and found is obj else found


def arange(
    start: Any, /, stop: Any = None, step: Any = 1, *, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Numbers from start (0, where only one is given) to below stop, in steps of step, one axis.

    The dtype is the default one of integers where all are ints, else of floats. ValueError for a step of 0.
    """
    return Tensor.arange(start, stop, step, device=device, dtype=dtype)


def empty(shape: ShapeLike, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """A tensor of `shape`, an int or sizes, in memory that is not initialised; of the default float dtype."""
    return Tensor.empty(_shape(shape), device=device, dtype=dtype)


def empty_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """empty with x's shape, dtype and device, where no others are given."""
    return empty(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def eye(
    n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: DType | None = None, device: str | None = None
) -> Tensor:
    """Ones on diagonal number `k`, zeros elsewhere: (n_rows, n_cols), n_cols None for as many; of floats by default."""
    count = n_rows if n_cols is None else n_cols
    rows = Tensor.arange(n_rows, device=device).reshape(n_rows, 1)
    columns = Tensor.arange(count, device=device)
    # clamped: a diagonal far outside could exceed the range of int32
    return (rows + max(-n_rows, min(k, count))).eq(columns).cast(dtype or dtypes.default_float)


def from_dlpack(x: Any, /, *, device: str | None = None, copy: bool | None = None) -> Tensor:
    """A tensor over the memory of another library, or a copy where `copy` is True or the device is another one."""
    return Tensor.from_dlpack(x, device, copy=copy)


def full(shape: ShapeLike, fill_value: Number, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """`fill_value` everywhere; the dtype is that of a Tensor of it unless one is given."""
    return Tensor.full(_shape(shape), fill_value, device=device, dtype=dtype)


def full_like(x: Tensor, /, fill_value: Number, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """full with x's shape, dtype and device, where no others are given."""
    return full(x.shape, fill_value, dtype=dtype or x.dtype, device=device or x.device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: DType | None = None,
    device: str | None = None,
    endpoint: bool = True,
) -> Tensor:
    """num numbers from start to stop, evenly spaced; without stop itself where endpoint is False.

    Integers between integers are exact, rounded down. Raises ShapeError for a `num` below 0.
    """
    if num < 0:
        raise ShapeError(f"linspace needs a number of elements that is not negative, got {num}")
    if dtype in dtypes.ints and isinstance(start, int) and isinstance(stop, int):
        # in Python's integers: float32 has not all integers above 2**24
        steps = max(num - endpoint, 1)
        return Tensor([start + (stop - start) * i // steps for i in range(num)], device=device, dtype=dtype)
    return Tensor.linspace(start, stop, num + (not endpoint), device=device, dtype=dtype)[:num]


def meshgrid(*arrays: Tensor, indexing: Literal["ij", "xy"] = "xy") -> list[Tensor]:
    """The coordinates of a grid, from vectors along each axis; "xy" exchanges the first two axes of the results."""
    return list(arrays[0].meshgrid(*arrays[1:], indexing=indexing)) if arrays else []


def ones(shape: ShapeLike, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Ones of `shape`, an int or sizes; of the default float dtype."""
    return Tensor.ones(_shape(shape), device=device, dtype=dtype)


def ones_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """ones with x's shape, dtype and device, where no others are given."""
    return ones(x.shape, dtype=dtype or x.dtype, device=device or x.device)


def tril(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The lower triangle of the last two axes, up to diagonal number `k`; 0 above."""
    return x.tril(k)


def triu(x: Tensor, /, *, k: int = 0) -> Tensor:
    """The upper triangle of the last two axes, from diagonal number `k` on; 0 below."""
    return x.triu(k)


def zeros(shape: ShapeLike, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """Zeros of `shape`, an int or sizes; of the default float dtype."""
    return Tensor.zeros(_shape(shape), device=device, dtype=dtype)


def zeros_like(x: Tensor, /, *, dtype: DType | None = None, device: str | None = None) -> Tensor:
    """zeros with x's shape, dtype and device, where no others are given."""
    return zeros(x.shape, dtype=dtype or x.dtype, device=device or x.device)
