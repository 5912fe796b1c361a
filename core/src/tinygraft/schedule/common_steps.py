"""FOLDs whose stride and dilation have a common divisor, without it: gradients of dilated windows with a stride.

    in_common_steps(order) -> {node: what replaces it}

Element k of window i adds to element i * stride + k * dilation. Where g divides both, every such element is a multiple
of g: the result is the FOLD with stride / g and dilation / g, with g - 1 zeros after each element. That one often is a
plain convolution, which a routine or a kernel of tiles computes. The original FOLD would gather all window elements for
each element of two axes, of which only one in g * g has any.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygraft.uop.ops import Ops, WindowArg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, rebuild


def in_common_steps(order: Sequence[UOp]) -> dict[UOp, UOp]:
    """Return what replaces each node of the graph `order` (sources before users); empty where nothing is divided."""
    found = {n: g for n in order if n.op is Ops.FOLD and max(g := _divisors(n)) > 1}
    if not found:
        return {}
    return rebuild(order, {}, lambda node, new: _spread(new, found[node]) if node in found else new)


def _divisors(node: UOp) -> tuple[int, ...]:
    """Return the common divisor of stride and dilation on each axis of a FOLD; 1 where windows have one element."""
    arg: WindowArg = node.arg
    if not is_concrete(node.shape):
        return (1,) * len(arg.size)
    each = zip(arg.size, arg.stride, arg.dilation, strict=True)
    return tuple([math.gcd(s, d) if k > 1 else 1 for k, s, d in each])


def _spread(node: UOp, divisors: tuple[int, ...]) -> UOp:
    """Return the FOLD `node` with stride and dilation divided, and zeros between its elements."""
    arg: WindowArg = node.arg
    length = tuple([(n - 1) // g + 1 for n, g in zip(arg.length, divisors, strict=True)])
    stride, dilation = (
        tuple([n // g for n, g in zip(numbers, divisors, strict=True)]) for numbers in (arg.stride, arg.dilation)
    )
    x = UOp(Ops.FOLD, node.dtype, (node.src[0],), WindowArg(length, arg.size, stride, dilation))
    outer = node.shape[: len(node.shape) - len(length)]
    every = ((0, 0),) * len(outer)
    x = UOp(Ops.RESHAPE, x.dtype, (x,), (*outer, *[size for n in length for size in (n, 1)]))
    x = UOp(Ops.PAD, x.dtype, (x,), (*every, *[pair for g in divisors for pair in ((0, 0), (0, g - 1))]))
    x = UOp(Ops.RESHAPE, x.dtype, (x,), (*outer, *[n * g for n, g in zip(length, divisors, strict=True)]))
    return UOp(Ops.SHRINK, x.dtype, (x,), tuple([(0, size) for size in node.shape]))
