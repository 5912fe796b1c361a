"""Arithmetic on the sizes of axes, which are ints or, where symbolic, nodes of dtypes.index.

Sizes in, a size out: an int wherever the bounds leave one value.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tinygraft.dtype import DType, dtypes, promote
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop import index
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, high, low, sint
from tinygraft.uop.uop import UOp, toposort


def _known(size: UOp) -> sint:
    """An int where a symbolic size can have one value only; else the size."""
    return int(size.lo) if size.lo == size.hi else size


def add(a: sint, b: sint) -> sint:
    """a + b."""
    return a + b if isinstance(a, int) and isinstance(b, int) else _known(index.add(a, b))


def sub(a: sint, b: sint) -> sint:
    """a - b."""
    return a - b if isinstance(a, int) and isinstance(b, int) else _known(index.sub(a, b))


def mul(a: sint, b: sint) -> sint:
    """a * b."""
    return a * b if isinstance(a, int) and isinstance(b, int) else _known(index.mul(a, b))


def div(a: sint, b: sint) -> sint:
    """a // b."""
    return a // b if isinstance(a, int) and isinstance(b, int) else _known(index.idiv(a, b))


def mod(a: sint, b: sint) -> sint:
    """a % b."""
    return a % b if isinstance(a, int) and isinstance(b, int) else _known(index.mod(a, b))


def most(a: sint, b: sint) -> sint:
    """The greater of both sizes."""
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else _known(index.maximum(a, b))


def fits(size: sint, dtype: DType) -> bool:
    """Whether the range of an integer dtype has a size, for all values of its variables."""
    return bool(dtypes.min(dtype) <= low(size) and high(size) <= dtypes.max(dtype))


def product(sizes: Iterable[sint]) -> sint:
    """All of them multiplied; 1 for none."""
    result: sint = 1
    for size in sizes:
        result = result * size if type(result) is type(size) is int else mul(result, size)
    return result


def from_front(position: sint, size: sint) -> sint:
    """An index of an axis counted from the front; one that is negative for all values is counted from the end.

    >>> from tinygraft import Variable
    >>> from_front(-2, 5), from_front(Variable("n", -3, -1), 5).lo
    (3, 2)
    """
    return add(size, position) if high(position) < 0 else position


def slice_end(position: sint, size: sint) -> sint:
    """An end of a slice from the front and within the axis, where that is decided for all values of the variables.

    An end that is negative, or past the end of the axis, for some values only stays as it is.

    >>> from tinygraft import Variable
    >>> n = Variable("n", 1, 5)
    >>> slice_end(-6, n), slice_end(5, n) is n, slice_end(n, 8) is n, slice_end(sub(n, 1), 8).lo
    (0, True, True, 0)
    """
    # as Python cuts the ends of a slice to the axis, instead of raising
    front = from_front(position, size)
    if high(position) < 0:
        return 0 if high(front) <= 0 else front
    return size if low(position) >= 0 and low(sub(position, size)) >= 0 else front


def same(a: sint, b: sint) -> bool:
    """Whether two sizes are known to be equal."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def now(size: sint, values: Mapping[str, int] = MappingProxyType({})) -> int | None:
    """A size with these values of its variables, or else their bound ones; None where a variable has neither.

    >>> from tinygraft import Variable
    >>> now(Variable("n", 1, 9).bind(3) * 2), now(Variable("n", 1, 9)), now(7)
    (6, None, 7)
    """
    return index.value_of(size, values)


def dtype_of(value: UOp) -> DType:
    """The dtype of a node as a value. A symbolic integer has the one that its variables declare, or the default one.

    Where that dtype's range is too small for the bounds of the integer, it is int64.

    >>> from tinygraft import Variable, dtypes
    >>> dtype_of(Variable("n", 1, 9)), dtype_of(Variable("n", 1, 2**40)), dtype_of(Variable("n", 1, 9, dtypes.int8) + 1)
    (dtypes.int, dtypes.long, dtypes.char)
    """
    if value.dtype is not dtypes.index:
        return value.dtype
    given = {node.arg.dtype for node in toposort(value) if node.op is Ops.VARIABLE} - {None}
    to = promote(*given) if given else dtypes.default_int
    return to if fits(value, to) else dtypes.int64


def as_sizes(given: Sequence[Any], what: str) -> tuple[sint, ...]:
    """Sizes that a user gave, one by one or as one sequence; symbolic ones are settled, and None stays.

    Raises ShapeError for what is no integer; `what` names the argument in it. Negative numbers are not refused here.

    >>> as_sizes(((2, 3),), "shape")
    (2, 3)
    """
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    sizes = []
    for size in given:
        if size is None or (isinstance(size, UOp) and size.dtype is dtypes.index):
            sizes.append(index.settled(size))
            continue
        try:  # __index__ and not int(): a float is no size, and NumPy integers and tensors are
            sizes.append(size.__index__())
        except (AttributeError, TypeError):
            raise ShapeError(f"{what} is made of integers, got {size!r}") from None
    return tuple(sizes)


def as_integer(value: Any, what: str, name: str) -> Any:
    """An argument that is an integer: an int, one of NumPy's or a scalar tensor as an int; a symbolic one as it is.

    `what` is the method and `name` the argument. Raises DTypeError for anything else, floats that are whole included.
    """
    if isinstance(value, (int, UOp)):
        return value
    try:
        return operator.index(value)
    except TypeError:
        raise DTypeError(f"{what} needs an integer as {name}, got {value!r}") from None


def as_integers(value: Any, what: str, count: int = 1) -> tuple[Any, ...]:
    """Integers from a sequence, or one of them `count` times: ints, NumPy's and scalar tensors as ints, symbolic ones.

    Raises DTypeError for anything else, floats that are whole included; `what` names the argument.
    """
    many = isinstance(value, Iterable) and not isinstance(value, UOp) and getattr(value, "ndim", 1) > 0
    found = tuple(value) if many else (value,) * count
    try:
        return tuple(v if isinstance(v, (int, UOp)) else operator.index(v) for v in found)
    except TypeError:
        raise DTypeError(f"{what} needs integers, got {value!r}") from None


def as_int(size: sint, what: str) -> int:
    """A size that must be known, for the method `what`. Raises ShapeError for a symbolic one."""
    if isinstance(size, int):
        return size
    raise ShapeError(f"{what} needs sizes that are known, this one is symbolic")


def as_ints(shape: Shape, what: str) -> tuple[int, ...]:
    """A shape that must be known, for the method `what`. Raises ShapeError for a symbolic size."""
    return tuple(as_int(size, what) for size in shape)
