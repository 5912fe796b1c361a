"""What the routines of convolutions mean, with NumPy (see routine_values.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygraft.engine.arithmetic import Array
from tinygraft.uop.routines import RoutineOptions


def convolution(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the sums over channels and windows of x times weights, in float64, as (examples, batch, groups, ...).

    Operands and options are those of the routine (uop/routines.py); `fast` changes nothing.
    """
    return direct_convolution(operands, (*options[:5], 1, 1))


def direct_convolution(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the same for windows in steps, which are the last options.

    Turned weights have no products with the zeros around x: what they stand for slides back over it (FOLD).
    """
    x, w = [operand.astype(np.float64) for operand in operands]
    above, below, left, right, turned, step_down, step_right = options
    if turned:
        w = w.swapaxes(2, 3)[..., ::-1, ::-1]
    around = [(above, below), (left, right)]
    inside = np.pad(np.full(x.shape[4:], True), around)
    x = np.pad(x, [(0, 0)] * 4 + around)
    if turned and not np.isfinite(w).all():
        return [_inside(x, w, inside)[..., ::step_down, ::step_right]]
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[-2:], axis=(-2, -1))
    windows = windows[..., ::step_down, ::step_right, :, :]
    return [np.einsum("ebgcyxij,egfcij->ebgfyx", windows, w, optimize=True)]


def _inside(x: Array, w: Array, inside: Array) -> Array:
    """Return the sums of a convolution in steps of 1 whose products are those where `inside` is True in x alone."""
    rows, columns = (size - n + 1 for size, n in zip(x.shape[4:], w.shape[4:], strict=True))
    total = np.zeros((*x.shape[:3], w.shape[2], rows, columns))
    for i, j in np.ndindex(w.shape[-2:]):
        place = slice(i, i + rows), slice(j, j + columns)
        products = np.einsum("ebgcyx,egfc->ebgfyx", x[..., *place], w[..., i, j], optimize=True)
        total += np.where(inside[place], products, 0.0)
    return total


def transposed_convolution(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the products of x and weights, added where windows slide back, in float64, as (examples, batch, ...).

    Operands and options are those of the routine (uop/routines.py). Products at results that are cut off are left out.
    """
    x, w = [operand.astype(np.float64) for operand in operands]
    down, right, top, left, rows, columns = options
    tall, wide = (x.shape[-2] - 1) * down, (x.shape[-1] - 1) * right
    size = max(tall + w.shape[-2], top + rows), max(wide + w.shape[-1], left + columns)
    whole = np.zeros((*x.shape[:3], w.shape[3], *size))
    for i, j in np.ndindex(w.shape[-2:]):
        products = np.einsum("ebgcyx,egcf->ebgfyx", x, w[..., i, j], optimize=True)
        whole[..., i : i + tall + 1 : down, j : j + wide + 1 : right] += products
    return [whole[..., top : top + rows, left : left + columns]]


def convolution_weights(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the gradient of weights, in float64, as (examples, groups, filters, channels, tall, wide).

    Operands and options are those of the routine (uop/routines.py).
    """
    x, g = [operand.astype(np.float64) for operand in operands]
    above, left, down, right, below, beside, tall, wide = options
    rows, columns = g.shape[-2:]
    high, broad = (rows - 1) * down + (tall - 1) * below + 1, (columns - 1) * right + (wide - 1) * beside + 1
    around = [(above, max(0, high - above - x.shape[-2])), (left, max(0, broad - left - x.shape[-1]))]
    x = np.pad(x, [(0, 0)] * 4 + around)
    found = np.zeros((x.shape[0], x.shape[2], g.shape[3], x.shape[3], tall, wide))
    for i, j in np.ndindex(tall, wide):
        top, start = i * below, j * beside
        part = x[..., top : top + (rows - 1) * down + 1 : down, start : start + (columns - 1) * right + 1 : right]
        found[..., i, j] = np.einsum("ebgcyx,ebgfyx->egfc", part, g, optimize=True)
    return [found]
