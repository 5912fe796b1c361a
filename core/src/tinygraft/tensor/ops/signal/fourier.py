"""How a Fourier transform is computed: lengths, factors, products with small matrices, and Bluestein's convolution."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.config import Context
from tinygraft.errors import AxisError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.movement import reshaped, sliced
from tinygraft.tensor.primitives.reduce import Axis
from tinygraft.tensor.primitives.routine_nodes import has_routine, results
from tinygraft.uop.routines import ROUTINES
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


LARGEST = 61  # the greatest prime factor that is transformed by a matrix of its size
# along another axis than the last: fewer columns and longer ones take less time with that axis moved to the end
# (measured, benchmarks/NOTES.md, 2026-11-29)
LEAST_COLUMNS, LONGEST_COLUMN = 8, 4096


def _chosen_axes(self: Tensor, what: str, dim: Axis, s: Sequence[int] | None, ndim: int) -> tuple[list[int], list[int]]:
    """The axes of a transform of `ndim` axes, counted from the front and in the order given, and its length along each.

    dim None is the last len(s) axes, or all; a length of -1, or no s, is the size of the axis. Raises AxisError for an
    axis that does not exist, ShapeError for other lengths, one below 1, an axis named twice and none; `what` names the
    method.
    """
    s = None if s is None else [size_math.as_integer(n, what, "a length") for n in s]
    if dim is None:
        chosen = list(range(ndim)) if s is None else list(range(ndim - len(s), ndim))
    else:
        chosen = [dim] if isinstance(dim, int) else list(dim)
    missing = any(not -ndim <= axis < ndim for axis in chosen)
    if missing or (s is not None and len(s) != len(chosen)):
        raise (AxisError if missing else ShapeError)(
            f"{what} over the axes {chosen} with lengths {None if s is None else list(s)} does not fit shape "
            f"{self.shape[:ndim]}\n  made at {self._where()}"
        )
    axes = [axis % ndim for axis in chosen]
    if len(set(axes)) != len(axes) or not axes:
        raise ShapeError(
            f"{what} needs at least one axis, and different ones, got {chosen} for shape {self.shape[:ndim]}\n"
            f"  made at {self._where()}"
        )
    given = [None] * len(axes) if s is None else [None if n == -1 else n for n in s]
    sizes = [size_math.as_int(self.shape[a], what) if n is None else n for a, n in zip(axes, given, strict=True)]
    if min(sizes) < 1:
        raise ShapeError(f"{what} needs a length of at least 1, got {sizes} for shape {self.shape[:ndim]}")
    return axes, sizes


def _resized(self: Tensor, axis: int, size: int) -> Tensor:
    """The first size numbers along an axis, or all of them padded with zeros."""
    now = size_math.as_int(self.shape[axis], "fft")
    if now >= size:
        return sliced(self, axis, 0, size) if now > size else self
    return self.pad([(0, size - now) if a == axis else (0, 0) for a in range(self.ndim)])


def _last(self: Tensor, axis: int) -> Tensor:
    """Return the tensor with `axis` moved to the end."""
    return self.permute(*(a for a in range(self.ndim) if a != axis), axis)


def _unlast(self: Tensor, axis: int) -> Tensor:
    """Return the tensor with its last axis moved to be `axis`."""
    last = self.ndim - 1
    return self.permute(*range(axis), last, *range(axis, last))


def _halves(self: Tensor) -> tuple[Tensor, Tensor | None]:
    """The real and the imaginary parts as floats, None for what is real; ComplexTensor overrides it."""
    return self._in_float(), None


def transformed(self: Tensor, what: str, dim: Axis, s: Sequence[int] | None, norm: str | None, inverse: bool) -> Tensor:
    """fft or its inverse along the axes dim, as complex numbers.

    Arguments and errors as in fftn; `what` names the method.
    """
    real, imaginary = self._halves()
    axes, sizes = _chosen_axes(self, what, dim, s, real.ndim)
    for axis, size in zip(axes, sizes, strict=True):
        real = _resized(real, axis, size)
        imaginary = None if imaginary is None else _resized(imaginary, axis, size)
    found = _several(real, imaginary, axes, inverse)
    return self._in_parts().joined(*_scaled(found, sizes, norm, inverse))  # type: ignore[no-any-return]


def from_real(self: Tensor, what: str, s: Sequence[int] | None, dim: Axis, norm: str | None, inverse: bool) -> Tensor:
    """The half of the transform of a real tensor that determines the other half, along the last of the axes.

    Arguments and errors as in `transformed`.
    """
    axes, sizes = _chosen_axes(self, what, dim, s, self.ndim)
    x = self._in_float()
    for axis, size in zip(axes, sizes, strict=True):
        x = _resized(x, axis, size)
    parts = _half_of_real(_last(x, axes[-1]), sizes[-1], inverse)
    real, imaginary = (_unlast(part, axes[-1]) for part in parts)
    found = _several(real, imaginary, axes[:-1], inverse)
    return self._in_parts().joined(*_scaled(found, sizes, norm, inverse))  # type: ignore[no-any-return]


def to_real(self: Tensor, what: str, s: Sequence[int] | None, dim: Axis, norm: str | None, inverse: bool) -> Tensor:
    """The transform of the half of a spectrum whose other half mirrors it, along the last of the axes; floats.

    Its length is 2 * (size - 1) unless `s` says otherwise. Arguments and errors as in `transformed`.
    """
    real, imaginary = self._halves()
    imaginary = real._const(0.0) if imaginary is None else imaginary
    axes, sizes = _chosen_axes(real, what, dim, s, real.ndim)
    if s is None or s[-1] == -1:
        sizes[-1] = 2 * (sizes[-1] - 1)
    if sizes[-1] < 1:
        raise ShapeError(f"{what} needs a length of at least 1, got {sizes} for shape {self.shape}")
    for axis, size in zip(axes[:-1], sizes[:-1], strict=True):
        real, imaginary = _resized(real, axis, size), _resized(imaginary, axis, size)
    real, imaginary = _several(real, imaginary, axes[:-1], inverse)
    half = sizes[-1] // 2 + 1
    real, imaginary = (_last(_resized(part, axes[-1], half), axes[-1]) for part in (real, imaginary))
    found = _unlast(_real_of_half(real, imaginary, sizes[-1], inverse), axes[-1])
    whole: Tensor = _scaled((found, found), sizes, norm, inverse)[0]
    return whole._narrowed(self.dtype)


def _mirrored(self: Tensor, size: int, sign: float) -> Tensor:
    """A whole spectrum of `size` numbers along the last axis from its first half: one part of it.

    `sign` is 1 for the real part, -1 for the imaginary one, of which the first and the middle number count as 0.
    """
    last, half = self.ndim - 1, size // 2 + 1
    if sign < 0:
        middle = _without_mirror(self, size).where(0.0, self)
    else:
        middle = self
    rest = sliced(middle, last, 1, size - half + 1).flip(last)
    return middle.cat(rest if sign > 0 else -rest, dim=-1)


def _scaled(parts: tuple[Any, Any], sizes: Sequence[int], norm: str | None, inverse: bool) -> tuple[Any, Any]:
    """Both parts divided as norm says, for a transform of these sizes. Raises ValueError for another norm."""
    if norm not in (None, "backward", "forward", "ortho"):
        raise ValueError(f"norm is backward, forward or ortho, got {norm!r}")
    count = math.prod(sizes)
    if norm == "ortho":
        return parts[0] / math.sqrt(count), parts[1] / math.sqrt(count)
    divide = inverse if norm in (None, "backward") else not inverse
    return (parts[0] / count, parts[1] / count) if divide else parts


def _several(real: Any, imaginary: Any, axes: Sequence[int], inverse: bool) -> tuple[Any, Any]:
    """The transform along several axes, one after the other, not divided by anything.

    `imaginary` None is of a real tensor.
    """
    for axis in reversed(axes):
        if imaginary is not None and _in_columns(real, imaginary, axis):
            back = _back_in_columns(axis, inverse)
            real, imaginary = _by_routine("fft", [real, imaginary], (int(inverse),), back, axis)
            continue
        found = _fourier(_last(real, axis), None if imaginary is None else _last(imaginary, axis), inverse)
        real, imaginary = (_unlast(part, axis) for part in found)
    return real, real._const(0.0) if imaginary is None else imaginary


def _in_columns(real: Any, imaginary: Any, axis: int) -> bool:
    """Whether a routine transforms along an axis that stays where it is."""
    shape = real.shape
    columns, size = math.prod(shape[axis + 1 :]), size_math.as_int(shape[axis], "fft")
    return (
        columns >= LEAST_COLUMNS and 1 < size <= LONGEST_COLUMN and max(_factors(size)) <= LARGEST
        and imaginary.dtype is real.dtype and has_routine(real, "fft", real.ndim - axis)
    )  # fmt: skip


def _back_in_columns(axis: int, inverse: bool) -> Callable[[int, Any], list[Any]]:
    """Return `_back` of a transform along an axis that stays where it is."""
    return lambda number, start: _as_part(number, *_several(start, start._const(0.0), [axis], not inverse))


def _fourier(real: Any, imaginary: Any, inverse: bool) -> tuple[Any, Any]:
    """The transform along the last axis, or the inverse one, not divided by anything; both parts.

    imaginary is None for a real tensor.
    """
    size = size_math.as_int(real.shape[-1], "fft")
    factors = _factors(size)
    if factors and max(factors) > LARGEST:
        return _bluestein(real, imaginary, size, inverse)
    if has_routine(real, "fft") and (imaginary is None or imaginary.dtype is real.dtype):
        if imaginary is None:
            half = _half_of_real(real, size, inverse)
            return _mirrored(half[0], size, 1.0), _mirrored(half[1], size, -1.0)
        found = _by_routine("fft", [real, imaginary], (int(inverse),), _back(inverse))
        return found[0], found[1]
    like, batch = real, real.shape[:-1]
    parts: tuple[Any, Any] = (real, imaginary)
    done, rest = 1, size
    for factor in factors:
        after = rest // factor
        shape = (*batch, done, factor, after)
        real, imaginary = (None if part is None else reshaped(part, shape) for part in parts)
        parts = _rotated((real, imaginary), _turns(like, factor, factor, factor, inverse))
        if after > 1:
            parts = _times(parts, _turns(like, factor, after, rest, inverse))
        done, rest = done * factor, after
    if not factors:
        return real, real._const(0.0) if imaginary is None else imaginary
    count = len(batch)
    order = (*range(count), *range(count + len(factors) - 1, count - 1, -1))
    found = [reshaped(reshaped(part, (*batch, *factors)).permute(*order), (*batch, size)) for part in parts]
    return found[0], found[1]


def _back(inverse: bool) -> Callable[[int, Any], list[Any]]:
    """Return what gives the gradients of both parts that a transform is of, by that of its result `number`.

    The transform is a matrix F of complex numbers, whose adjoint is the other one of both, not divided by anything.
    """
    return lambda number, start: _as_part(number, *_fourier(start, None, not inverse))


def _as_part(number: int, real: Any, imaginary: Any) -> list[Any]:
    """Both parts of a linear function of a real part, or of an imaginary one: i times that."""
    return [real, imaginary] if number == 0 else [-imaginary, real]


def _half_of_real(x: Any, n: int, inverse: bool) -> Sequence[Any]:
    """The first half, n // 2 + 1 numbers, of the transform of a real tensor along its last axis: both parts."""
    if max(_factors(n), default=0) > LARGEST or not has_routine(x, "rfft"):
        return [sliced(part, part.ndim - 1, 0, n // 2 + 1) for part in _fourier(x, None, inverse)]

    def back(number: int, start: Any) -> list[Any]:
        """Return the gradient of x: each number of the half, but for those without a mirror image, counts twice."""
        start = start * _of_mirrored(start, n, 1.0, 0.5)
        parts = (start, start.zeros_like()) if number == 0 else (start.zeros_like(), start)
        return [_real_of_half(*parts, n, not inverse)]

    return _by_routine("rfft", [x], (int(inverse),), back)


def _real_of_half(real: Any, imaginary: Any, n: int, inverse: bool) -> Any:
    """The transform along the last axis of a spectrum of n numbers whose first half this is; it is real."""

    if max(_factors(n), default=0) > LARGEST or real.dtype is not imaginary.dtype or not has_routine(real, "irfft"):
        return _fourier(_mirrored(real, n, 1.0), _mirrored(imaginary, n, -1.0), inverse)[0]

    def back(number: int, start: Any) -> list[Any]:
        """Return the gradients of both parts; an imaginary one without a mirror image counts as 0."""
        parts = _half_of_real(start, n, not inverse)
        return [part * _of_mirrored(part, n, alone, 2.0) for part, alone in zip(parts, (1.0, 0.0), strict=True)]

    return _by_routine("irfft", [real, imaginary], (int(inverse), n), back)[0]


def _of_mirrored(half: Any, n: int, alone: float, other: float) -> Any:
    """A row with `other` for each number of half a spectrum of n that has a mirror image, and `alone` for others."""
    return _without_mirror(half, n).where(half._const(alone), other)


def _without_mirror(half: Tensor, n: int) -> Tensor:
    """Which numbers of half a spectrum of n along the last axis have no mirror image: the first, and a middle one."""
    indices = positions_along(half, half.ndim - 1)
    return indices.eq(0) | indices.eq(n // 2) if n % 2 == 0 else indices.eq(0)


def _by_routine(
    name: str, parts: list[Any], options: tuple[int, ...], back: Callable[[int, Any], list[Any]],
    axis: int | None = None,
) -> list[Any]:  # fmt: skip
    """The results of a routine along an axis; `back(number, start)` has the gradients of the parts for one of them.

    `parts` are its operands, the real and, if there is one, the imaginary part; the axis is the last one, or that of an
    "fft". A transform is linear: its derivative is a transform too, by a routine again.
    """
    ndim = parts[0].ndim
    axis = ndim - 1 if axis is None else axis
    batch, columns = parts[0].shape[:axis], parts[0].shape[axis + 1 :]
    parts = [part.expand(*batch, part.shape[axis], *columns) for part in parts]
    flat = (math.prod(columns),) if name == "fft" else ()
    lines = [reshaped(part.detach(), (math.prod(batch), part.shape[axis], *flat)) for part in parts]
    count = len(ROUTINES[name].names)
    found = []
    for number, result in enumerate(results(name, lines, options, range(count))):
        value = reshaped(result, (*batch, result.shape[1], *columns))
        found.append(with_derivative(name, value, parts, _derivative_of(back, number)))
    return found


def _derivative_of(
    back: Callable[[int, Any], list[Any]], number: int
) -> Callable[[UOp, Any, list[bool]], list[Any | None]]:
    """Return the derivative of result `number` of a transform, as with_derivative takes it."""

    def derive(node: UOp, start: Any, wanted: list[bool]) -> list[Any | None]:
        """Return the gradients of the parts, of those that are wanted."""
        with Context(AUTOCAST=""):
            found = back(number, start)
        return [part if needed else None for part, needed in zip(found, wanted, strict=True)]

    return derive


def _factors(size: int) -> list[int]:
    """Small factors of a length, powers of two as eights and fours; their product is the length, and none make 1."""
    found, rest = [], size
    for factor in (8, 4, 2):
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
    factor = 3
    while factor * factor <= rest:
        while rest % factor == 0:
            found.append(factor)
            rest //= factor
        factor += 2
    return [*found, rest] if rest > 1 else found


def _turns(like: Any, rows: int, columns: int, size: int, inverse: bool) -> tuple[Any, Any]:
    """The cosines and sines of -2 pi j k / size (or +, for the inverse) for rows j and columns k.

    They are tensors (rows, columns) with the device and dtype of `like`.
    """
    import numpy as np

    turns = np.outer(np.arange(rows), np.arange(columns)) % size
    return _circle(like, turns, size, inverse)


def _circle(like: Any, turns: Any, size: int, inverse: bool) -> tuple[Any, Any]:
    """The cosines and sines of `turns` parts of `size` of a whole turn, as tensors with the device and dtype of `like`.

    Sines are negated, but for the inverse.
    """
    import numpy as np

    angle = turns * (2.0 * np.pi / size)
    sine = np.sin(angle) if inverse else -np.sin(angle)
    exact = turns * 4 % size == 0  # quarters of a turn: 0, 1 and -1 are what they are
    parts = (np.where(exact, np.round(np.cos(angle)), np.cos(angle)), np.where(exact, np.round(sine), sine))
    make = type(like)
    cosine, sine = (make(part, device=like.device, dtype=like.dtype, requires_grad=False) for part in parts)
    return cosine, sine


def _rotated(parts: tuple[Any, Any], turns: tuple[Any, Any]) -> tuple[Any, Any]:
    """A matrix of complex numbers, `turns`, times the columns of both parts, of which the imaginary one may be None."""
    (real, imaginary), (cosine, sine) = parts, turns
    if imaginary is None:
        return cosine.matmul(real), sine.matmul(real)
    return cosine.matmul(real) - sine.matmul(imaginary), cosine.matmul(imaginary) + sine.matmul(real)


def _times(parts: tuple[Any, Any], turns: tuple[Any, Any]) -> tuple[Any, Any]:
    """Complex numbers times others, element by element; the imaginary part of the first ones may be None."""
    (real, imaginary), (cosine, sine) = parts, turns
    if imaginary is None:
        return real * cosine, real * sine
    return real * cosine - imaginary * sine, imaginary * cosine + real * sine


def _bluestein(real: Any, imaginary: Any, size: int, inverse: bool) -> tuple[Any, Any]:
    """A transform of any length, `size`, as a convolution with a chirp, which transforms of a power of two compute.

    `imaginary` None is of a real tensor. Source: Bluestein, "A linear filtering approach to the computation of discrete
    Fourier transform", 1970.
    """
    import numpy as np

    whole = 1 << (2 * size - 1).bit_length()
    indices = np.arange(size)
    chirp = _circle(real, indices * indices % (2 * size), 2 * size, inverse)
    around = np.zeros(whole, np.int64)
    around[:size] = indices * indices % (2 * size)
    around[whole - size + 1 :] = around[1:size][::-1]
    filled = np.zeros(whole)
    filled[:size] = filled[whole - size + 1 :] = 1.0
    back = _circle(real, around, 2 * size, not inverse)
    mask = type(real)(filled, device=real.device, dtype=real.dtype, requires_grad=False)
    kernel = _fourier(back[0] * mask, back[1] * mask, inverse=False)
    last = real.ndim - 1
    turned = _times((real, imaginary), chirp)
    spectrum = _fourier(_resized(turned[0], last, whole), _resized(turned[1], last, whole), inverse=False)
    folded = _fourier(*_times(spectrum, kernel), inverse=True)
    return _times((sliced(folded[0], last, 0, size) / whole, sliced(folded[1], last, 0, size) / whole), chirp)
