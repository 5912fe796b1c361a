"""What routines mean, with NumPy: VALIDATE=1 and the conformance kit compare with it.

    routine_values(name, operands, options) -> the results, as arrays

Operands are arrays as in evaluate.py, with examples along axis 0. It shares no code with a device's routine nor with
the kernels that compute the same without one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tinygraft.engine.arithmetic import Array
from tinygraft.engine.attention_values import attention, attention_backward
from tinygraft.engine.convolution_values import (
    convolution,
    convolution_weights,
    direct_convolution,
    transposed_convolution,
)
from tinygraft.uop.epilogues import StepOperand
from tinygraft.uop.ops import Ops
from tinygraft.uop.routines import ROUTINES, RoutineOptions

STEPS: dict[Ops, Callable[[Array, Array], Array]] = {
    Ops.ADD: np.add,
    Ops.SUB: np.subtract,
    Ops.MUL: np.multiply,
    Ops.MAX: np.maximum,
}


def routine_values(name: str, operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the results of a routine on operands of one shape each, in the order in which it has them.

    `options` are its integers (uop/routines.py). Raises NotImplementedError for a routine without a meaning here, and
    for a singular system.
    """
    if name not in MEANINGS:
        raise NotImplementedError(f"no meaning of the routine {name} in NumPy")
    facts = ROUTINES[name]
    own = facts.without_steps(operands, options)
    with np.errstate(all="ignore"):
        results = MEANINGS[name](*own)
        rest = iter(operands[len(own[0]) :])
        for step in facts.steps(options):
            if step.kind == StepOperand.NUMBER:
                other: Array = np.array(step.bits, np.uint32).view(np.float32)
            else:
                other = next(rest)
            if step.kind == StepOperand.CHANNEL:
                axes = {0, *facts.channels}
                other = other.reshape([n if axis in axes else 1 for axis, n in enumerate(results[0].shape)])
            results = [STEPS[step.op](x, other) for x in results]
        return results


def _indices(x: Array, descending: bool) -> Array:
    """Return the stable order of each row of `x`, as indices: NaN last, or first where it descends."""
    if not descending:
        return np.asarray(np.argsort(x, axis=1, kind="stable"))
    # from the end, so that of equal elements the first comes first again when the order is turned round
    backwards = np.argsort(x[:, ::-1], axis=1, kind="stable")[:, ::-1]
    return np.asarray(x.shape[1] - 1 - backwards)


def _sort(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the sorted rows, and the index that each element came from; option 0 is whether they descend."""
    (x,) = operands
    indices = _indices(x, bool(options[0]))
    return [np.take_along_axis(x, indices, axis=1), indices.astype(np.int32)]


def _topk(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the first k columns of the results of `_sort`; options are k, and whether the greatest come first."""
    k, largest = options
    return [np.ascontiguousarray(result[:, :k]) for result in _sort(operands, (largest,))]


def _unique(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the distinct elements of each row of (rows, n), in ascending order, and what belongs to them.

    The results are the elements, their number (rows, 1), of each element of the row the index of its equal among the
    distinct ones, how often each of these occurs, and where it occurs first. Rows are filled up with 0. NaNs are all
    distinct.
    """
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


def _histogram(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return how often each number below option 0 occurs in each row; other numbers are not counted."""
    (x,) = operands
    bins = options[0]
    rows = [np.bincount(row[(row >= 0) & (row < bins)].astype(np.int64), minlength=bins) for row in x]
    return [np.stack(rows).astype(np.int32)]


def _running(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the running sums of each row, or with option 0 the products."""
    (x,) = operands
    ufunc = np.multiply if options[0] else np.add
    return [ufunc.accumulate(x, 1, np.float64 if x.dtype.kind == "f" else x.dtype).astype(x.dtype)]


def _in_float64(operands: Sequence[Array]) -> list[Array]:
    """Return the operands in float64."""
    return [operand.astype(np.float64) for operand in operands]


def _cholesky(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the lower factor of each matrix, by the steps of the kernels: NumPy raises where one has none.

    The operand is (examples, n, n), of which the lower triangle is read. Without a factor elements are NaN.
    """
    (a,) = _in_float64(operands)
    a = np.tril(a)
    for k in range(a.shape[1]):
        a[:, k, k] = np.sqrt(a[:, k, k])
        a[:, k + 1 :, k] /= a[:, k, k][:, None]
        column = a[:, k + 1 :, k]
        a[:, k + 1 :, k + 1 :] -= column[:, :, None] * column[:, None, :]
    return [np.tril(a).astype(operands[0].dtype)]


def _solve(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return x of a @ x = b for each example, in the dtype of the last operand; the inverse of a where there is no b.

    Raises NotImplementedError where a matrix is singular.
    """
    a, *others = _in_float64(operands)
    b = others[0] if others else np.broadcast_to(np.eye(a.shape[1]), a.shape)
    found = np.full(b.shape, np.nan)
    for number in range(len(a)):
        try:
            found[number] = np.linalg.solve(a[number], b[number])
        except np.linalg.LinAlgError:
            raise NotImplementedError("the solution of a singular system is no number") from None
    return [found.astype(operands[-1].dtype)]


def _triangular(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return x of t @ x = b for a triangle t of each matrix; options are whether it is upper, and has ones as diagonal.

    Row by row, so that a 0 on the diagonal gives infinities and NaN.
    """
    a, b = _in_float64(operands)
    upper, unit = options
    n = a.shape[1]
    x = b.copy()
    for row in reversed(range(n)) if upper else range(n):
        solved = slice(row + 1, n) if upper else slice(row)
        x[:, row] -= (a[:, row, solved, None] * x[:, solved]).sum(axis=1)
        if not unit:
            x[:, row] /= a[:, row, row, None]
    return [x.astype(operands[1].dtype)]


def _eigvalsh(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the ascending eigenvalues of symmetric matrices, of which option 0 says the upper triangle is read."""
    (a,) = _in_float64(operands)
    read = np.triu(a) if options[0] else np.tril(a)
    wrong = np.asarray(~np.isfinite(read).all(axis=(1, 2)))
    found = np.linalg.eigvalsh(np.where(wrong[:, None, None], 0, read), "U" if options[0] else "L")
    found[wrong] = np.nan
    return [found.astype(operands[0].dtype)]


def _svdvals(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the singular values of matrices, descending; NaN for a matrix that is not finite."""
    (a,) = _in_float64(operands)
    wrong = np.asarray(~np.isfinite(a).all(axis=(1, 2)))
    found = np.linalg.svd(np.where(wrong[:, None, None], 0, a), compute_uv=False)
    found[wrong] = np.nan
    return [found.astype(operands[0].dtype)]


def _lu(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the factors by elimination, a column in each step, with the greatest pivot of each column.

    Of matrices (examples, m, n) the results are L below the diagonal and U in one matrix, the row that each step
    exchanged with its own, and the order of the rows.
    """
    (a,) = _in_float64(operands)
    a = a.copy()
    count, m, n = a.shape
    order = np.tile(np.arange(m, dtype=np.int32), (count, 1))
    pivots = np.zeros((count, min(m, n)), np.int32)
    for number, matrix in enumerate(a):
        for k in range(min(m, n)):
            best = pivots[number, k] = k + int(np.abs(matrix[k:, k]).argmax())
            matrix[[k, best]] = matrix[[best, k]]
            order[number, [k, best]] = order[number, [best, k]]
            if matrix[k, k]:
                matrix[k + 1 :, k] /= matrix[k, k]
            matrix[k + 1 :, k + 1 :] -= np.outer(matrix[k + 1 :, k], matrix[k, k + 1 :])
    return [a.astype(operands[0].dtype), pivots, order]


def _det(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the determinant of each matrix, its sign, and the logarithm of its magnitude."""
    (a,) = _in_float64(operands)
    return [x.reshape(-1, 1).astype(operands[0].dtype) for x in (np.linalg.det(a), *np.linalg.slogdet(a))]


def _lstsq(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the smallest of the least squares solutions of each matrix and its sides, and its rank.

    Option 0 has the bits of the part of the greatest singular value up to which others do not count.
    """
    a, b = _in_float64(operands)
    rcond = float(np.array(options[0], np.int64).view(np.float64))
    found, ranks = np.full((len(a), a.shape[2], b.shape[2]), np.nan), np.zeros((len(a), 1), np.int32)
    for number, matrix in enumerate(a):
        if np.isfinite(matrix).all():
            ranks[number] = np.linalg.matrix_rank(matrix, rtol=rcond)
            found[number] = np.linalg.pinv(matrix, rcond) @ b[number]
    return [found.astype(operands[1].dtype), ranks]


def _matrix_exp(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return e to the power of each matrix: the Taylor series of a fraction of it, squared."""
    (a,) = _in_float64(operands)
    found = np.full(a.shape, np.nan)
    for number, matrix in enumerate(a):
        norm = np.abs(matrix).sum(axis=1).max()
        if not np.isfinite(norm):
            continue
        halvings = max(0, int(np.ceil(np.log2(norm * 4)))) if norm else 0
        term = total = np.eye(a.shape[1])
        for k in range(1, 14):
            term = term @ matrix / (k * 2.0**halvings)
            total = total + term
        for _ in range(halvings):
            total = total @ total
        found[number] = total
    return [found.astype(operands[0].dtype)]


def _transform(x: Array, inverse: int) -> Array:
    """Return the Fourier transform along axis 1, or the inverse one without its division by the length."""
    return np.asarray(np.fft.ifft(x, axis=1) * x.shape[1] if inverse else np.fft.fft(x, axis=1))


def _fft(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the real and the imaginary part of `_transform` of rows; operands are such parts, option 0 is inverse."""
    real, imaginary = _in_float64(operands)
    found = _transform(real + 1j * imaginary, options[0])
    return [found.real, found.imag]


def _rfft(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the first n // 2 + 1 columns of `_transform` of real rows of n, as real and imaginary part."""
    (x,) = _in_float64(operands)
    found = _transform(x, options[0])[:, : x.shape[1] // 2 + 1]
    return [found.real, found.imag]


def _irfft(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the real rows whose transform begins with the columns given, without a division by their length.

    Options are the sign of the exponent, 1 for that of the inverse transform, and the length of a row.
    """
    real, imaginary = _in_float64(operands)
    inverse, n = options
    found = np.fft.irfft(real + 1j * (imaginary if inverse else -imaginary), n, axis=1) * n
    return [np.asarray(found)]


MEANINGS: dict[str, Callable[[Sequence[Array], RoutineOptions], list[Array]]] = {
    "sort": _sort,
    "topk": _topk,
    "unique": _unique,
    "histogram": _histogram,
    "running": _running,
    "cholesky": _cholesky,
    "lu": _lu,
    "det": _det,
    "lstsq": _lstsq,
    "matrix_exp": _matrix_exp,
    "solve": _solve,
    "triangular": _triangular,
    "inverse": _solve,
    "eigvalsh": _eigvalsh,
    "svdvals": _svdvals,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
    "attention": attention,
    "attention_backward": attention_backward,
    "convolution": convolution,
    "direct_convolution": direct_convolution,
    "transposed_convolution": transposed_convolution,
    "depthwise_convolution": direct_convolution,
    "convolution_weights": convolution_weights,
}
