"""What routines mean, with NumPy: VALIDATE=1 and the conformance kit compare with it.

    routine_values(name, operands, options) -> the results, as arrays

Operands are arrays as in evaluate.py, with examples along axis 0. It shares no code with a device's routine nor with
the kernels that compute the same without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinygraft.engine.arithmetic import Array

Options = tuple[int, ...]


def routine_values(name: str, operands: Sequence[Array], options: Options) -> list[Array]:
    """Return the results of a routine on operands of one shape each. Raises NotImplementedError for an unknown one."""
    if name not in MEANINGS:
        raise NotImplementedError(f"no meaning of the routine {name} in NumPy")
    return MEANINGS[name](operands, options)


def _indices(x: Array, descending: bool) -> Array:
    """Return the stable order of rows: NaN last, or first where it descends."""
    if not descending:
        return np.asarray(np.argsort(x, axis=1, kind="stable"))
    # from the end, so that of equal elements the first comes first again when the order is turned round
    backwards = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return np.asarray(x.shape[1] - 1 - backwards)


def _sort(operands: Sequence[Array], options: Options) -> list[Array]:
    (x,) = operands
    indices = _indices(x, bool(options[0]))
    return [np.take_along_axis(x, indices, axis=1), indices.astype(np.int32)]


def _topk(operands: Sequence[Array], options: Options) -> list[Array]:
    k, largest = options
    return [np.ascontiguousarray(result[:, :k]) for result in _sort(operands, (largest,))]


def _unique(operands: Sequence[Array], options: Options) -> list[Array]:
    (x,) = operands
    values, indices = _sort(operands, (0,))
    fresh = np.ones(x.shape, bool)
    fresh[:, 1:] = values[:, 1:] != values[:, :-1]
    runs = np.cumsum(fresh, axis=1) - 1
    distinct, inverse = np.zeros_like(x), np.empty(x.shape, np.int32)
    counts, firsts = np.zeros(x.shape, np.int32), np.zeros(x.shape, np.int32)
    for row in range(len(x)):
        found = values[row][fresh[row]]
        distinct[row, : len(found)] = found
        inverse[row, indices[row]] = runs[row]
        counts[row, : len(found)] = np.bincount(runs[row])
        firsts[row, : len(found)] = indices[row][fresh[row]]
    return [distinct, fresh.sum(axis=1, keepdims=True).astype(np.int32), inverse, counts, firsts]


def _histogram(operands: Sequence[Array], options: Options) -> list[Array]:
    (x,) = operands
    bins = options[0]
    rows = [np.bincount(row[(row >= 0) & (row < bins)].astype(np.int64), minlength=bins) for row in x]
    return [np.stack(rows).astype(np.int32)]


MEANINGS: dict[str, Callable[[Sequence[Array], Options], list[Array]]] = {
    "sort": _sort,
    "topk": _topk,
    "unique": _unique,
    "histogram": _histogram,
}
