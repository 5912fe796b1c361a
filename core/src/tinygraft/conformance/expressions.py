"""Tensor expressions, each with its value by numpy: movement, reductions, scans, scatters, windows, products.

Numbers are small and whole, so that sums are exact in any order and values are compared bit for bit; an expression that
cannot be exact states its tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinygraft.engine.arithmetic import Array
from tinygraft.tensor.tensor import Tensor

Put = Callable[[Array], Tensor]  # an array as a tensor of the device under test


@dataclass(frozen=True, slots=True)
class Expression:
    """A tensor expression: `build` returns the tensor, with a function that puts arrays on a device; `want` its value.

    `want` computes it by numpy. `rtol` is the tolerance, as a fraction of the value; 0 means bit for bit.
    """

    build: Callable[[Put], Tensor]
    want: Callable[[], Any]
    rtol: float = 0.0


def numbers(*shape: int, seed: int = 0) -> Array:
    """Return random whole numbers from -4 to 4 as float32."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def softmax(x: Array) -> Array:
    """Return the softmax over the last axis, in float64."""
    e = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64))
    return np.asarray(e / e.sum(-1, keepdims=True))


def windows(x: Array, height: int, width: int) -> Array:
    """Return every window of that size over the last two axes, as two new axes."""
    return np.lib.stride_tricks.sliding_window_view(x, (height, width), (-2, -1))


def conv(x: Array, w: Array) -> Array:
    """Return the convolution of images `x` with kernels `w`, without padding."""
    return np.asarray(np.einsum("bcyxij,ocij->boyx", windows(x, *w.shape[2:]), w))


def scattered(base: Array, index: Array, value: Array, op: Callable[..., Any] | None) -> Array:
    """Return `base` with each element of `value` stored to, or combined by `op` with, the row that `index` has for it.

    The column stays the same; elements are stored one after another, so that the last one to a row counts.
    """
    out = base.copy()
    for row, column in np.ndindex(*index.shape):
        target = (index[row, column], column)
        out[target] = value[row, column] if op is None else op(out[target], value[row, column])
    return out


A, B, C = numbers(7, 11), numbers(11, 5, seed=1), numbers(2, 3, 9, 7, seed=2)
W = numbers(4, 3, 3, 3, seed=3)
ROWS = np.array([3, 0, 6, 6, 1], np.int32)
P, Q, R = numbers(37, 41), numbers(41, 43, seed=4), numbers(43, seed=5)
D, E = numbers(2, 5, 11, 13, seed=6), numbers(7, 5, 3, 3, seed=7)
LONG, WIDE = numbers(3, 1009, seed=8), numbers(40, 1009, seed=9)
WHOLE = A.astype(np.int32)
TARGET = np.random.default_rng(10).integers(0, 7, (9, 11)).astype(np.int32)  # rows to store to, some twice
VALUES = numbers(9, 11, seed=11)

MOVEMENT = {
    "permute": Expression(lambda t: t(C).permute(3, 0, 2, 1), lambda: C.transpose(3, 0, 2, 1)),
    "flip": Expression(lambda t: t(C).flip(1, 3), lambda: np.flip(C, (1, 3))),
    "pad": Expression(lambda t: t(A).pad(((2, 0), (1, 3))), lambda: np.pad(A, ((2, 0), (1, 3)))),
    "shrink": Expression(lambda t: t(A).shrink(((2, 7), (3, 4))), lambda: A[2:7, 3:4]),
    "expand": Expression(lambda t: t(R).reshape(1, 43, 1).expand(3, 43, 2),
                         lambda: np.broadcast_to(R.reshape(1, 43, 1), (3, 43, 2))),
    "steps": Expression(lambda t: t(A)[::3, ::-2], lambda: A[::3, ::-2]),
    "cat": Expression(lambda t: t(A).cat(t(A[:2]), dim=0), lambda: np.concatenate([A, A[:2]])),
    "all-of-it": Expression(
        lambda t: t(C).permute(3, 0, 2, 1).flip(1).pad(((1, 0), None, (0, 2), None)).reshape(8, -1),
        lambda: np.pad(np.flip(C.transpose(3, 0, 2, 1), 1), ((1, 0), (0, 0), (0, 2), (0, 0))).reshape(8, -1)),
    "windows": Expression(lambda t: t(LONG).unfold(1, 5, 3), lambda: windows(LONG, 1, 5)[:, ::3, 0]),
}  # fmt: skip
ADDRESSES = {
    "rows": Expression(lambda t: t(A)[t(ROWS)], lambda: A[ROWS]),
    "gather": Expression(lambda t: t(A).gather(0, t(TARGET)), lambda: np.take_along_axis(A, TARGET, 0)),
    "scatter": Expression(lambda t: t(A).scatter(0, t(TARGET), t(VALUES)), lambda: scattered(A, TARGET, VALUES, None)),
    "scatter-sum": Expression(lambda t: t(A).scatter_reduce(0, t(TARGET), t(VALUES), "sum"),
                              lambda: scattered(A, TARGET, VALUES, np.add)),
    "scatter-prod": Expression(lambda t: t(A).scatter_reduce(0, t(TARGET), t(VALUES), "prod"),
                               lambda: scattered(A, TARGET, VALUES, np.multiply)),
    "scatter-max": Expression(lambda t: t(A).scatter_reduce(0, t(TARGET), t(VALUES), "amax"),
                              lambda: scattered(A, TARGET, VALUES, np.maximum)),
    "scatter-sum-by-remainder": Expression(
        lambda t: t(VALUES).scatter_reduce(1, (t(TARGET) * 5 - 20) % 11, t(VALUES), "sum"),
        lambda: scattered(VALUES.T, (TARGET.T * 5 - 20) % 11, VALUES.T, np.add).T),
    "scatter-sum-by-quotient": Expression(
        lambda t: t(VALUES).scatter_reduce(1, (t(TARGET).cast("int64") * 9 - 40) % 55 // 5, t(VALUES), "sum"),
        lambda: scattered(VALUES.T, (TARGET.T * 9 - 40) % 55 // 5, VALUES.T, np.add).T),
    "scatter-sum-by-negative": Expression(
        lambda t: t(VALUES).scatter_reduce(1, (t(TARGET) * 5 - 20) % -11 + 10, t(VALUES), "sum"),
        lambda: scattered(VALUES.T, (TARGET.T * 5 - 20) % -11 + 10, VALUES.T, np.add).T),
    "scatter-sum-of-equal": Expression(  # of rows and values that no loop changes
        lambda t: t(A).scatter_reduce(
            0, t(ROWS[:1]).reshape(1, 1).expand(9, 11), t(VALUES[:1, :1]).expand(9, 11), "sum"),
        lambda: scattered(A, np.full((9, 11), ROWS[0]), np.full((9, 11), VALUES[0, 0]), np.add)),
    "scatter-prod-of-equal": Expression(
        lambda t: t(A).scatter_reduce(
            0, t(ROWS[:1]).reshape(1, 1).expand(3, 11), t(A[:1, :1]).expand(3, 11), "prod"),
        lambda: scattered(A, np.full((3, 11), ROWS[0]), np.full((3, 11), A[0, 0]), np.multiply)),
    "running-sum": Expression(lambda t: t(A).cumsum(1), lambda: A.cumsum(1)),
    "running-product": Expression(lambda t: t(WHOLE).cumprod(0), lambda: WHOLE.cumprod(0, dtype=np.int32)),
    "running-most": Expression(lambda t: t(LONG).cummax(1)[0], lambda: np.maximum.accumulate(LONG, 1)),
    "long-running-sum": Expression(lambda t: t(LONG).cumsum(1), lambda: LONG.cumsum(1)),
    "sorted": Expression(lambda t: t(A).sort(1)[0], lambda: np.sort(A, 1)),
}  # fmt: skip
SUMS = {
    "sum": Expression(lambda t: t(A).sum(), lambda: A.sum()),
    "sum-of-columns": Expression(lambda t: t(A).sum(0), lambda: A.sum(0)),
    "sum-of-all": Expression(lambda t: t(WIDE).sum(), lambda: WIDE.sum()),
    "sum-of-scaled": Expression(lambda t: (t(WIDE) * 2 + 1).sum(1), lambda: (WIDE * 2 + 1).sum(1)),
    "most": Expression(lambda t: t(A).max(1), lambda: A.max(1)),
    "place-of-least": Expression(lambda t: t(A).argmin(1), lambda: A.argmin(1)),
    "variance": Expression(lambda t: t(A).var(1, correction=0), lambda: A.astype(np.float64).var(1), 2e-6),
    "softmax": Expression(lambda t: t(A).softmax(), lambda: softmax(A), 2e-6),
    "long-softmax": Expression(lambda t: t(LONG).softmax(), lambda: softmax(LONG), 2e-6),
    "pooling": Expression(lambda t: t(C).max_pool2d((3, 3), stride=1), lambda: windows(C, 3, 3).max((4, 5))),
    "choice": Expression(lambda t: (t(A) > 0).where(t(A), t(A) * 0.5), lambda: np.where(A > 0, A, A * 0.5)),
    "floor-division": Expression(lambda t: t(WHOLE) // t(np.full_like(WHOLE, -3)), lambda: WHOLE // -3),
}  # fmt: skip
PRODUCTS = {
    "matmul": Expression(lambda t: t(A) @ t(B), lambda: A @ B),
    "wide": Expression(lambda t: t(P) @ t(Q), lambda: P @ Q),
    "transposed": Expression(lambda t: t(Q).T @ t(P).T, lambda: Q.T @ P.T),
    "row": Expression(lambda t: t(P[:1]) @ t(Q), lambda: P[:1] @ Q),
    "layer": Expression(lambda t: (t(P).relu() @ t(Q) + t(R)).relu(),
                        lambda: np.maximum(np.maximum(P, 0) @ Q + R, 0)),
    "batch": Expression(lambda t: t(D) @ t(D).transpose(2, 3), lambda: D @ D.swapaxes(2, 3)),
    "softmax-of-product": Expression(lambda t: (t(P) @ t(Q) / 32).softmax(), lambda: softmax(P @ Q / 32), 2e-6),
    "convolution": Expression(lambda t: t(C).conv2d(t(W)), lambda: conv(C, W)),
    "bordered": Expression(lambda t: t(D).conv2d(t(E), padding=1),
                           lambda: conv(np.pad(D, ((0, 0), (0, 0), (1, 1), (1, 1))), E)),
}  # fmt: skip
SHAPES = ((0,), (1,), (3, 0, 2), (1, 1), (13,), (17, 1), (1, 19), (8, 16))


def of_shape(*shape: int) -> dict[str, Expression]:
    """Return a few expressions on tensors of a shape, by name."""
    x, y = numbers(*shape, seed=12), numbers(*shape, seed=13)
    return {
        "add": Expression(lambda t: t(x) + t(y), lambda: x + y),
        "sum": Expression(lambda t: t(x).sum(-1), lambda: x.sum(-1)),
        "turned": Expression(lambda t: t(x).T.contiguous() if x.ndim == 2 else t(x).flip(0),
                             lambda: x.T if x.ndim == 2 else np.flip(x, 0)),
        "running": Expression(lambda t: t(x).cumsum(0), lambda: x.cumsum(0)),
        "outer": Expression(lambda t: t(x).reshape(-1, 1) @ t(y).reshape(1, -1),
                            lambda: x.reshape(-1, 1) @ y.reshape(1, -1)),
    }  # fmt: skip
