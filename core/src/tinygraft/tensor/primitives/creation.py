"""Creation: tensors of given values, without data from Python.

A shape or a range in, a lazy tensor out. A tensor of one number is an expanded CONST, so it takes no memory.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid_like
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, DTypeLike, coerce, dtypes, part_of, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives import size_checks, size_math
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import Scalar, expand
from tinygraft.tensor.primitives.iota import iota
from tinygraft.tensor.primitives.keyword_aliases import grad_flag
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.number_range import check, fitting
from tinygraft.tensor.primitives.size_math import as_sizes
from tinygraft.tensor.primitives.symbolic_range import symbolic_range
from tinygraft.tensor.state.leaf_nodes import leaf, new_memory
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, max_shape
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _from(cls: type[Tensor], node: UOp, requires_grad: bool | None = None) -> Tensor:
    """Return a new tensor of this class over a node; as a leaf of its own where it may get a gradient."""
    new, flag = object.__new__(cls), grad_flag(requires_grad)
    new._set(leaf(node, flag), flag)
    return new


def in_complex(cls: type[Tensor], tensor: Any, dtype: DType, requires_grad: bool | None) -> Tensor:
    """The new real `tensor` cast to the complex `dtype`, with the flag `requires_grad`."""
    found: Tensor = tensor._cast(dtype).requires_grad_(requires_grad)
    return found


def empty(
    cls: type[Tensor],
    *shape: Any,
    device: Place = None,
    dtype: DTypeLike | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """Memory of a shape, not initialised: sizes one by one or as one sequence.

    A symbolic size gets memory for its greatest value. Float, and on the default device, unless `dtype` and `device`
    say otherwise; requires_grad None lets backward decide. Raises ShapeError for what is no size, or a negative one.

    >>> from tinygraft import Tensor
    >>> Tensor.empty(2, 3).shape
    (2, 3)
    """
    sizes, to, name = _settings(shape, device, dtype)
    largest = max_shape(sizes)
    if to.kind == "complex":
        return in_complex(cls, cls.empty(sizes, device=device, dtype=part_of(to)), to, requires_grad)
    new = cls._from(new_memory(expand(UOp.const(to, 0, name), largest)), requires_grad)
    return new if largest == sizes else new.shrink_to(sizes)


def full(
    cls: type[Tensor], shape: Any, fill_value: Scalar | UOp, dtype: DTypeLike | None = None, device: Place = None,
    buffer: bool = True, requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """fill_value everywhere. Without a dtype it has the default one of the value's type, or a wider one that it needs.

    `shape` is a size or a sequence of sizes. It is on the default device unless `device` says otherwise; requires_grad
    None lets backward decide. It takes no memory until something is written into it, with either value of `buffer`.
    Raises ShapeError for what is no size, or a negative one, NumberOutOfRange for a number out of the range of the
    dtype, or of every integer dtype.

    >>> from tinygraft import Tensor
    >>> Tensor.full((2, 2), 7).tolist()
    [[7, 7], [7, 7]]
    """
    if isinstance(fill_value, UOp):
        like: DTypeLike = dtype or size_math.dtype_of(fill_value)
    else:
        like = dtype or fitting(dtypes.from_py(fill_value), [fill_value])
    sizes, to, name = _settings((shape,) if isinstance(shape, (tuple, list)) else shape, device, like)
    value = cls(fill_value, device=name, dtype=to, requires_grad=False)
    if to.kind == "complex":
        return in_complex(cls, value.expand(sizes), to, requires_grad)
    return cls._from(expand(value.uop, sizes), requires_grad)


def _sizes(given: tuple[Any, ...], kwargs: dict[str, Any]) -> Shape:
    """Return sizes that were given, or take them from the keyword `shape`, as NumPy's functions have it."""
    return as_sizes((kwargs.pop("shape"),) if not given and "shape" in kwargs else given, "a shape")


def zeros(cls: type[Tensor], *shape: Any, **kwargs: Any) -> Tensor:
    """0 everywhere; float unless dtype says otherwise. `shape` is sizes one by one or as one sequence.

    Takes the keywords of full. Raises ShapeError for what is no size, or a negative one.

    >>> from tinygraft import Tensor
    >>> Tensor.zeros(2).tolist()
    [0.0, 0.0]
    """
    return cls.full(_sizes(shape, kwargs), 0.0, **{"dtype": dtypes.default_float, **kwargs})


def ones(cls: type[Tensor], *shape: Any, **kwargs: Any) -> Tensor:
    """1 everywhere; float unless dtype says otherwise. `shape` is sizes one by one or as one sequence.

    Takes the keywords of full. Raises ShapeError for what is no size, or a negative one.
    """
    return cls.full(_sizes(shape, kwargs), 1.0, **{"dtype": dtypes.default_float, **kwargs})


def arange(
    cls: type[Tensor], start: float, stop: float | None = None, step: float = 1, dtype: DTypeLike | None = None,
    device: Place = None, requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """start, start + step, ... before stop; from 0 when only one number is given.

    step may be negative, and ends may be symbolic integers. The dtype is an integer one that is wide enough, unless one
    of the numbers is a float. device and requires_grad are as in full. Raises ShapeError for a step of 0 and for
    numbers that are not finite, DTypeError for complex ones, NumberOutOfRange for numbers out of the range of an
    integer dtype.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(2, 8, 3).tolist()
    [2, 5]
    """
    starts = stop is not None
    if stop is None:
        start, stop = 0, start
    if any(isinstance(number, UOp) for number in (start, stop, step)):
        return cls._from(symbolic_range(cls, start, stop, step, dtype, device).uop, requires_grad)
    if any(isinstance(number, complex) for number in (start, stop, step)):
        raise DTypeError(f"arange counts with real numbers, got arange({start}, {stop}, {step})")
    for name, number in (("start", start), ("stop", stop), ("step", step)):
        as_number(number, "arange", name)
    if step == 0:
        raise ShapeError(f"arange needs a step other than 0, got arange({start}, {stop}, {step})")
    if not all(math.isfinite(number) for number in (start, stop, step) if isinstance(number, float)):
        raise ShapeError(f"arange counts between finite numbers, got arange({start}, {stop}, {step})")
    to = to_dtype(dtype or dtypes.from_py([start, stop, step]))
    if to.kind == "complex":
        real = cls.arange(start, stop, step, part_of(to), device)
        return in_complex(cls, real, to, requires_grad)
    whole = all(isinstance(number, int) for number in (start, stop, step))
    count = max(0, -((start - stop) // step) if whole else math.ceil((stop - start) / step))
    ends = [int(start), int(start + step * (count - 1))] if count and to.kind in ("int", "uint") else []
    if dtype is None:
        to = fitting(to, ends)
    for end in ends:
        check(end, to)
    line = iota(cls, count, Device.canonicalize(device))
    # computed in a float that is exact for the counter, so that no element is rounded twice; integers may wrap
    # on the way to where they fit
    wide = dtypes.int64 if max(map(abs, ends), default=0) >= 2**31 or abs(step) >= 2**31 else dtypes.int32
    if to.kind == "float":
        wide = dtypes.float64 if to is dtypes.float64 else dtypes.float32
    line = line._cast(wide)
    if step != 1:
        line = line._op(Ops.MUL, line._const(coerce(step, wide), wide))
    if starts:  # also of 0: ranges that start elsewhere are the same kernel
        line = line._op(Ops.ADD, line._const(coerce(start, wide), wide))
    return cls._from(line._cast(to).uop, requires_grad)


def linspace(
    cls: type[Tensor], start: Scalar, stop: Scalar, steps: int, dtype: DTypeLike | None = None, device: Place = None,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """`steps` evenly spaced numbers from `start` to `stop`, both included; start alone with one step.

    Float unless dtype says otherwise; an integer dtype cuts off what is after the point. device and requires_grad are
    as in full. Raises ShapeError for a negative number of steps, DTypeError for one that is no integer,
    NumberOutOfRange for numbers out of the range of an integer dtype.

    >>> from tinygraft import Tensor
    >>> Tensor.linspace(0, 1, 5).tolist()
    [0.0, 0.25, 0.5, 0.75, 1.0]
    """
    if not hasattr(steps, "__index__"):
        raise DTypeError(f"linspace needs a whole number of steps, got {steps!r}")
    if steps < 0:
        raise ShapeError(f"linspace needs a number of steps that is not negative, got {steps}")
    to = to_dtype(dtype or dtypes.from_py([float(0), start, stop]))
    for end in (start, stop):
        check(end, to)
    wide = dtypes.float64 if part_of(to) is dtypes.float64 else dtypes.float32
    if steps == 1:
        return cls.full((1,), start, to, device, requires_grad=requires_grad)
    line = iota(cls, steps, Device.canonicalize(device))._cast(wide)
    start, stop = (coerce(end, dtypes.float64) if isinstance(end, int) else end for end in (start, stop))
    scaled = line._op(Ops.MUL, (stop - start) / max(steps - 1, 1))._op(Ops.ADD, start)
    scaled = line._op(Ops.CMPEQ, steps - 1)._op(Ops.WHERE, stop, scaled)  # exactly stop, which rounding may miss
    if to.kind == "complex":
        return in_complex(cls, scaled, to, requires_grad)
    return cls._from(scaled._cast(to).uop, requires_grad)


def eye(
    cls: type[Tensor], n: int, m: int | None = None, dtype: DTypeLike | None = None, device: Place = None,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """n rows and m columns (n when not given), 1 on the diagonal and 0 elsewhere; float unless dtype says otherwise.

    device and requires_grad are as in full. Raises ShapeError for a negative size.

    >>> from tinygraft import Tensor
    >>> Tensor.eye(2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    columns = n if m is None else m
    if not is_concrete((n, columns)):
        n, columns = _settings((n, columns), device, dtype)[0]
    elif n < 0 or columns < 0:
        raise ShapeError(f"eye needs sizes that are not negative, got {n} and {columns}")
    name, to = Device.canonicalize(device), to_dtype(dtype or dtypes.default_float)
    if to.kind == "complex":
        return in_complex(cls, cls.eye(n, m, part_of(to), device), to, requires_grad)
    rows = reshaped(iota(cls, n, name), (n, 1))
    on = rows._op(Ops.CMPEQ, reshaped(iota(cls, columns, name), (1, columns)))
    return cls._from(on._cast(to).uop, requires_grad)


def invalids(
    cls: type[Tensor],
    *shape: Any,
    device: Place = None,
    dtype: DTypeLike | None = None,
    requires_grad: bool | None = None,
) -> Tensor:
    """empty, by its newer name: memory to be written before it is read. Arguments and errors as there."""
    return cls.empty(*shape, device=device, dtype=dtype, requires_grad=requires_grad)


def const(cls: type[Tensor], b: Scalar | Sequence[Scalar], dtype: DTypeLike | None = None) -> Tensor:
    """A number without axes, or the numbers of a tuple or list, on the default device.

    The dtype is the default one of the numbers' type, unless `dtype` says otherwise. Raises NumberOutOfRange.

    >>> from tinygraft import Tensor
    >>> Tensor.const(3).shape, Tensor.const((1, 2)).tolist()
    ((), [1, 2])
    """
    return cls(b, dtype=dtype)


def logspace(
    cls: type[Tensor], start: Scalar, stop: Scalar, steps: int, base: float = 10.0, dtype: DTypeLike | None = None,
    device: Place = None, requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """`steps` numbers from base**start to base**stop, each the same multiple of the previous one.

    Float unless dtype says otherwise; device and requires_grad are as in full. Raises NumberOutOfRange for numbers out
    of the range of an integer dtype, and as linspace does for `steps`.

    >>> from tinygraft import Tensor
    >>> Tensor.logspace(0, 2, 3).round(3).tolist()
    [1.0, 10.0, 100.0]
    """
    to = to_dtype(dtype or dtypes.default_float)
    if to.kind == "complex":
        powers = cls.linspace(start, stop, steps, to, device)
        return in_complex(cls, powers._const(base, to)._op(Ops.POW, powers), to, requires_grad)
    wide = dtypes.float64 if to is dtypes.float64 or to.kind != "float" else dtypes.float32
    for end in (start, stop):
        check(_power(base, end), to)
    powers = cls.linspace(start, stop, steps, dtype=wide, device=device)
    return cls._from(powers._const(base, wide)._op(Ops.POW, powers)._cast(to).uop, requires_grad)


# The device and dtype of another tensor


def scalar_tensor(cls: type[Tensor], s: Scalar, dtype: DTypeLike | None = None, device: Place = None) -> Tensor:
    """A number as a tensor without axes, of the default float dtype unless dtype says otherwise.

    Raises NumberOutOfRange.
    """
    return cls.full((), s, device=device, dtype=dtype or dtypes.default_float)


def new_full(self: Tensor, size: Any, fill_value: Scalar, **kwargs: Any) -> Tensor:
    """fill_value in a shape, on the device and with the dtype of this tensor, unless keywords differ.

    `size` is a size or a sequence of sizes; the keywords and errors are those of full.

    >>> from tinygraft import Tensor
    >>> Tensor([1.5]).new_full((2,), 7).tolist()
    [7.0, 7.0]
    """
    return type(self).full(size, fill_value, **like_options(self, kwargs))


def new_zeros(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """0 in a shape, on the device and with the dtype of this tensor, unless keywords differ.

    Sizes are given one by one or as one sequence; the keywords and errors are those of full.
    """
    return self.new_full(as_sizes(size, "a shape"), 0, **kwargs)


def new_ones(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """1 in a shape, on the device and with the dtype of this tensor, unless keywords differ.

    Sizes are given one by one or as one sequence; the keywords and errors are those of full.
    """
    return self.new_full(as_sizes(size, "a shape"), 1, **kwargs)


def new_empty(self: Tensor, *size: Any, **kwargs: Any) -> Tensor:
    """Memory in a shape, not initialised, on the device and with the dtype of this tensor, unless keywords differ.

    Sizes are given one by one or as one sequence; the keywords and errors are those of empty.
    """
    return type(self).empty(as_sizes(size, "a shape"), **like_options(self, kwargs))


# The same shape, device and dtype as another tensor


def full_like(
    self: Tensor, fill_value: Scalar, dtype: DTypeLike | None = None, device: Place = None, buffer: bool = True,
    requires_grad: bool | None = None,
) -> Tensor:  # fmt: skip
    """fill_value in the shape, on the device and with the dtype of this tensor, unless arguments differ.

    On the same devices it is sharded as this one is. It takes no memory until something is written into it, with either
    value of `buffer`. requires_grad is not copied. Raises NumberOutOfRange for a number out of the range of the dtype.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2]]).full_like(7).tolist()
    [[7, 7]]
    """
    made = type(self).full(
        self.shape, fill_value, dtype or self.dtype, device or self.device, buffer, requires_grad=requires_grad
    )
    return laid_as(self, made)


def zeros_like(self: Tensor, **kwargs: Any) -> Tensor:
    """0 in the shape, on the device and with the dtype of this tensor, unless keywords, those of full_like, differ."""
    return self.full_like(0, **kwargs)


def ones_like(self: Tensor, **kwargs: Any) -> Tensor:
    """1 in the shape, on the device and with the dtype of this tensor, unless keywords, those of full_like, differ."""
    return self.full_like(1, **kwargs)


def empty_like(
    self: Tensor, dtype: DTypeLike | None = None, device: Place = None, requires_grad: bool | None = None
) -> Tensor:
    """Memory in the shape, not initialised, on the device and with the dtype of this tensor, unless arguments differ.

    On the same devices it is sharded as this one is. requires_grad is not copied.
    """
    made = type(self).empty(
        self.shape, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
    )
    return laid_as(self, made)


def const_like(self: Tensor, b: Scalar, dtype: DTypeLike | None = None) -> Tensor:
    """full_like, by its other name."""
    return self.full_like(b, dtype)


def like_options(self: Tensor, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the keywords of a constructor: device and dtype are those of `self` where `kwargs` has none."""
    return {"device": self.device, "dtype": self.dtype, **{k: v for k, v in kwargs.items() if v is not None}}


def laid_as(self: Tensor, new: Tensor) -> Tensor:
    """`new`, a new tensor of the shape of `self`, sharded as `self` is where both are on the same devices."""
    like = self._parts()[0].uop
    if like.sharding is not None and new.device == self.device:
        for part in new._parts():
            part.uop = laid_like(part.uop, like)
    return new


def _settings(shape: Any, device: Place, dtype: DTypeLike | None) -> tuple[Shape, DType, Place]:
    """Return a checked shape, a dtype and the name of a device, from a constructor's keywords or their defaults.

    Raises ShapeError for a size that is negative or no integer, DTypeError, DeviceError.
    """
    sizes = as_sizes(shape if isinstance(shape, tuple) else (shape,), "a shape")
    if any(isinstance(size, int) and size < 0 for size in sizes):
        raise ShapeError(f"a shape is made of sizes that are not negative, got {sizes}")
    if not is_concrete(sizes):
        size_checks.require(size_checks.CheckedSizes(sizes, "a shape"))
    return sizes, to_dtype(dtype or dtypes.default_float), Device.canonicalize(device)


def _power(base: Any, power: Any) -> float:
    """Return base**power as a float: NaN where it is complex, infinite where it overflows."""
    try:
        found = float(base) ** power
    except (OverflowError, ZeroDivisionError):
        return math.inf
    return math.nan if isinstance(found, complex) else float(found)


def numel(tensor: TensorBase) -> Any:
    """How many elements a tensor has: an int, or a symbolic size."""
    return size_math.product(tensor.shape)
