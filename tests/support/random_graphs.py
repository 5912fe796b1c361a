"""Random tensor graphs: sequences of movement, arithmetic, reductions, windows, gathers and scatters on small tensors.

`graph(random)` gives a few tensors that share parts, made only of operations that are exact on small integers held in
float32, so that every device and every order of evaluation has to give the same values.
"""

from __future__ import annotations

import random as stdlib_random
from collections.abc import Callable

from tinygraft import Tensor
from tinygraft.uop.ops import Ops, ReduceArg, ScanArg, ScatterArg, WindowArg
from tinygraft.uop.uop import UOp

Random = stdlib_random.Random
SIZES = (1, 2, 3, 4, 5, 7, 8, 17)
MOST = 6000  # elements that a step may make


def _wrap(tensor: Tensor, node: UOp) -> Tensor:
    return tensor._wrap(node)


def leaf(r: Random, shape: tuple[int, ...]) -> Tensor:
    """A realised tensor of small integers."""
    count = 1
    for size in shape:
        count *= size
    return Tensor([float(r.randint(-2, 2)) for _ in range(count)]).reshape(shape)


def _reduce(r: Random, t: Tensor) -> Tensor:
    axes = tuple(a for a in range(t.ndim) if r.random() < 0.5)
    op = r.choice((Ops.ADD, Ops.MAX, Ops.MIN))
    reduced = _wrap(t, UOp(Ops.REDUCE_AXIS, t.dtype, (t.uop,), ReduceArg(op, axes)))
    return reduced if r.random() < 0.4 else reduced.expand(t.shape)


def _permute(r: Random, t: Tensor) -> Tensor:
    order = list(range(t.ndim))
    r.shuffle(order)
    return t.permute(order) if t.ndim else t


def _shrink(r: Random, t: Tensor) -> Tensor:
    bounds = []
    for size in t.shape:
        start = r.randint(0, size - 1)
        bounds.append((start, r.randint(start + 1, size)))
    return t.shrink(tuple(bounds))


def _pad(r: Random, t: Tensor) -> Tensor:
    return t.pad(tuple((r.randint(0, 2), r.randint(0, 2)) for _ in t.shape)) if t.ndim else t


def _flip(r: Random, t: Tensor) -> Tensor:
    return t.flip(tuple(a for a in range(t.ndim) if r.random() < 0.5))


def _reshape(r: Random, t: Tensor) -> Tensor:
    factors: list[int] = []
    rest = t.numel()
    while rest > 1:
        factor = r.choice([f for f in range(2, rest + 1) if rest % f == 0])
        factors.append(factor)
        rest //= factor
    return t.reshape(tuple([*factors[:4], _product(factors[4:])] if len(factors) > 4 else factors))


def _product(values: list[int]) -> int:
    result = 1
    for value in values:
        result *= value
    return result


def _window(r: Random, t: Tensor) -> Tensor:
    if not t.ndim:
        return t
    n = r.randint(1, min(2, t.ndim))
    length = t.shape[t.ndim - n :]
    size = tuple(r.randint(1, min(3, x)) for x in length)
    dilation = tuple(
        r.randint(1, max(1, (x - 1) // max(k - 1, 1))) if k > 1 else 1 for x, k in zip(length, size, strict=True)
    )
    arg = WindowArg(length, size, tuple(r.randint(1, 3) for _ in length), dilation)
    windows = _wrap(t, UOp(Ops.WINDOW, t.dtype, (t.uop,), arg))
    if r.random() < 0.5:
        return _wrap(t, UOp(Ops.FOLD, t.dtype, (windows.uop,), arg))
    axes = tuple(range(windows.ndim - n, windows.ndim))
    return _wrap(t, UOp(Ops.REDUCE_AXIS, t.dtype, (windows.uop,), ReduceArg(Ops.ADD, axes)))


def _cat(r: Random, t: Tensor) -> Tensor:
    return t.cat(t + 1, t.flip(0), dim=r.randrange(t.ndim)) if t.ndim else t


def _indices(r: Random, count: int, size: int) -> Tensor:
    return Tensor([r.randint(-1, size) for _ in range(count)])


def _gather(r: Random, t: Tensor) -> Tensor:
    if not t.ndim:
        return t
    axis = r.randrange(t.ndim)
    where = _indices(r, r.choice((1, 3, 5)), t.shape[axis])
    return _wrap(t, UOp(Ops.GATHER, t.dtype, (t.uop, where.uop), axis))


def _scatter(r: Random, t: Tensor) -> Tensor:
    if not t.ndim:
        return t
    axis, length = r.randrange(t.ndim), r.choice((2, 4, 6))
    where = _indices(r, t.shape[axis], length)
    base = Tensor.zeros(*t.shape[:axis], length, *t.shape[axis + 1 :])
    arg = ScatterArg(axis, r.choice((None, Ops.ADD, Ops.MAX)))
    return _wrap(t, UOp(Ops.SCATTER, t.dtype, (base.uop, where.uop, t.uop), arg))


def _scan(r: Random, t: Tensor) -> Tensor:
    if not t.ndim:
        return t
    return _wrap(t, UOp(Ops.SCAN, t.dtype, (t.uop,), ScanArg(r.choice((Ops.ADD, Ops.MAX)), r.randrange(t.ndim))))


def _contiguous(r: Random, t: Tensor) -> Tensor:
    return t.contiguous()


def _unary(r: Random, t: Tensor) -> Tensor:
    return r.choice((lambda x: -x, lambda x: x + 1, lambda x: (x > 0).where(x, x * 2), lambda x: x * 0.5))(t)


STEPS: tuple[Callable[[Random, Tensor], Tensor], ...] = (
    _reduce, _reduce, _permute, _shrink, _pad, _flip, _reshape, _window, _cat, _gather, _scatter, _scan, _contiguous,
    _unary,
    _unary,
)  # fmt: skip


def _binary(r: Random, a: Tensor, b: Tensor) -> Tensor:
    op = r.choice((lambda x, y: x + y, lambda x, y: x - y, lambda x, y: x.maximum(y)))
    if a.shape == b.shape:
        return op(a, b)
    fitted = b.reshape(-1)[: a.shape[-1]] if a.ndim and b.numel() >= a.shape[-1] else b.sum()
    return op(a, fitted)


def graph(r: Random, steps: int = 12) -> list[Tensor]:
    """A few tensors over one graph."""
    pool = [leaf(r, tuple(r.choice(SIZES) for _ in range(r.randint(0, 3)))) for _ in range(2)]
    for _ in range(steps):
        a = r.choice(pool)
        made = _binary(r, a, r.choice(pool)) if r.random() < 0.3 else r.choice(STEPS)(r, a)
        if 0 < made.numel() <= MOST:
            pool.append(made)
    return [pool[-1], *r.sample(pool, min(3, len(pool)))]
