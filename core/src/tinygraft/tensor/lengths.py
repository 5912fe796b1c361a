"""Arithmetic on the sizes of axes, which are ints or, where symbolic, nodes of dtypes.index.

Sizes in, a size out: an int whenever that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tinygraft.errors import ShapeError
from tinygraft.uop import index
from tinygraft.uop.ops import Ops
from tinygraft.uop.shape import Shape, sint
from tinygraft.uop.uop import UOp, postorder


def _known(size: UOp) -> sint:
    return int(size.arg) if size.op is Ops.CONST else size


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


def product(sizes: Iterable[sint]) -> sint:
    """All of them multiplied; 1 for none."""
    result: sint = 1
    for size in sizes:
        result = mul(result, size)
    return result


def same(a: sint, b: sint) -> bool:
    """Whether two sizes are known to be equal."""
    return a is b or (isinstance(a, int) and isinstance(b, int) and a == b)


def now(size: sint, values: Mapping[str, int] = MappingProxyType({})) -> int | None:
    """A size with these values of its variables, or else those that they are bound to; None where one has neither.

    >>> from tinygraft import Variable
    >>> now(Variable("n", 1, 9).bind(3) * 2), now(Variable("n", 1, 9)), now(7)
    (6, None, 7)
    """
    if isinstance(size, int):
        return size
    binds = [node for node in postorder(size) if node.op is Ops.BIND]
    bound = {node: index.const(int(values.get(node.src[0].arg.name, node.arg))) for node in binds}
    found = _known(index.rebuild_simplified((size,), bound)[size])
    return found if isinstance(found, int) else None


def as_sizes(given: Sequence[Any], what: str) -> tuple[sint, ...]:
    """Sizes that a user gave, one by one or as one sequence. Raises ShapeError for what is no integer.

    >>> as_sizes(((2, 3),), "shape")
    (2, 3)
    """
    if len(given) == 1 and isinstance(given[0], (tuple, list)):
        given = given[0]
    sizes = []
    for size in given:
        if isinstance(size, UOp) or size is None:
            sizes.append(size)
            continue
        try:
            sizes.append(size.__index__())
        except (AttributeError, TypeError):
            raise ShapeError(f"{what} is made of integers, got {size!r}") from None
    return tuple(sizes)


def as_int(size: sint, what: str) -> int:
    """A size that must be known. Raises ShapeError for a symbolic one."""
    if isinstance(size, int):
        return size
    raise ShapeError(f"{what} needs sizes that are known, this one is symbolic")


def as_ints(shape: Shape, what: str) -> tuple[int, ...]:
    """A shape that must be known."""
    return tuple(as_int(size, what) for size in shape)
