"""Routines by NumPy, on the memory of buffers: where SciPy or the extension is missing.

A launch takes the interpreter, so a replay runs it between two calls of the native runtime. What NumPy raises for (a
singular system, a matrix that is not positive definite) gives infinities or NaN, as the kernels do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.plugin import Program, Routine
from tinygraft_cpu.allocator import HostMemory

OperandArrays = list[Any]


class NumpyRoutine(Program):
    """A routine of BY_NUMPY on operands of one shape each."""

    routine: Routine

    def __init__(self, routine: Routine) -> None:
        self.routine, self.compute = routine, BY_NUMPY[routine.name]

    def launch(
        self, buffers: Sequence[HostMemory | None], variables: Sequence[int], grid: tuple[int, int, int]
    ) -> None:
        """Compute all results by NumPy, then store the wanted ones; `buffers` are these, then the operands."""
        import numpy as np

        count = len(self.routine.results)
        given = []
        for buffer, (dtype, shape) in zip(buffers[count:], self.routine.operands, strict=True):
            assert buffer is not None, "a routine is offered for operands that have elements"
            kind = np.float32 if dtype.itemsize == 4 else np.float64
            given.append(np.frombuffer(buffer.view, kind, math.prod(shape)).reshape(shape))
        with np.errstate(all="ignore"):
            found = self.compute(given, self.routine.options)
        for buffer, number in zip(buffers, self.routine.results, strict=False):
            assert buffer is not None
            values = np.ascontiguousarray(found[number], given[0].dtype)
            np.frombuffer(buffer.view, values.dtype, values.size)[:] = values.reshape(-1)


def _each(function: Callable[..., Any], matrices: Sequence[Any], otherwise: Callable[..., Any]) -> Any:
    """Return `function` of stacks of matrices; where that raises, of one after the other, or `otherwise` of those."""
    import numpy as np

    try:
        return function(*matrices)
    except np.linalg.LinAlgError:
        if matrices[0].ndim == 2:
            return otherwise(*matrices)
    return np.stack([_each(function, one, otherwise) for one in zip(*matrices, strict=True)])


def _cholesky(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the lower factors of matrices; NaN from the column on where one is not positive definite."""
    import numpy as np

    return [_each(np.linalg.cholesky, operands, _cholesky_by_steps)]


def _cholesky_by_steps(matrix: Any) -> Any:
    """Return the columns before that for which a matrix is not positive definite, and what is not finite after."""
    import numpy as np

    a = np.tril(matrix)
    for k in range(len(a)):
        a[k, k] = np.sqrt(a[k, k])
        a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k + 1 :, k])
    return np.tril(a)


def _nowhere(matrix: Any, side: Any = None) -> Any:
    """Return NaN for the result of a matrix, of the shape of `side` where that is given."""
    import numpy as np

    return np.full((matrix if side is None else side).shape, np.nan, matrix.dtype)


def _solve(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the solutions of matrices and right sides; NaN for a singular matrix."""
    import numpy as np

    return [_each(np.linalg.solve, operands, _nowhere)]


def _inverse(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the inverses of matrices; NaN for a singular one."""
    import numpy as np

    return [_each(np.linalg.inv, operands, _nowhere)]


def _where_finite(matrices: Any, read: Any, found: Sequence[Any]) -> OperandArrays:
    """Return results with NaN for the matrices of which an element that is read is not finite."""
    import numpy as np

    wrong = ~np.isfinite(read).all(axis=(1, 2))
    for result in found:
        result[wrong] = np.nan
    return list(found)


def _eigh(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return eigenvalues and eigenvectors of symmetric matrices, of which options[0] says the upper triangle is read.

    Those of a matrix that is not finite are NaN.
    """
    import numpy as np

    (a,) = operands
    read = np.triu(a) if options[0] else np.tril(a)
    safe = np.where(np.isfinite(read), read, 0)
    found = np.linalg.eigh(safe, "U" if options[0] else "L")
    return _where_finite(a, read, [found[0], found[1]])


def _eigvalsh(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the eigenvalues that `_eigh` finds, without vectors."""
    import numpy as np

    (a,) = operands
    read = np.triu(a) if options[0] else np.tril(a)
    found = np.linalg.eigvalsh(np.where(np.isfinite(read), read, 0), "U" if options[0] else "L")
    return _where_finite(a, read, [found])


def _svdvals(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the singular values of matrices; NaN for a matrix that is not finite."""
    import numpy as np

    (a,) = operands
    return _where_finite(a, a, [np.linalg.svd(np.where(np.isfinite(a), a, 0), compute_uv=False)])


def _svd(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return U, S and Vh of matrices, full where options[0] says so; NaN for a matrix that is not finite."""
    import numpy as np

    (a,) = operands
    found = np.linalg.svd(np.where(np.isfinite(a), a, 0), full_matrices=bool(options[0]))
    return _where_finite(a, a, [found[0], found[1], found[2]])


def _transformed(x: Any, inverse: int) -> OperandArrays:
    """Return the real and the imaginary part of the Fourier transform along axis 1, neither way divided by n."""
    import numpy as np

    found = np.fft.ifft(x, axis=1, norm="forward") if inverse else np.fft.fft(x, axis=1)
    return [found.real, found.imag]


def _fft(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the transform of real and imaginary parts, the inverse one where options[0] says so."""
    return _transformed(operands[0] + 1j * operands[1], options[0])


def _rfft(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return the first n // 2 + 1 numbers of the transform of real rows, conjugated where options[0] says so."""
    import numpy as np

    found = np.fft.rfft(operands[0], axis=1)
    return [found.real, -found.imag if options[0] else found.imag]


def _irfft(operands: OperandArrays, options: Sequence[int]) -> OperandArrays:
    """Return `n` real numbers a row from half a transform; the options are (inverse, n).

    Neither way is divided by n.
    """
    import numpy as np

    inverse, n = options
    real, imaginary = operands
    return [np.fft.irfft(real + 1j * (imaginary if inverse else -imaginary), n, axis=1, norm="forward")]


BY_NUMPY: dict[str, Callable[[OperandArrays, Sequence[int]], OperandArrays]] = {
    "cholesky": _cholesky,
    "solve": _solve,
    "inverse": _inverse,
    "eigh": _eigh,
    "eigvalsh": _eigvalsh,
    "svd": _svd,
    "svdvals": _svdvals,
    "fft": _fft,
    "rfft": _rfft,
    "irfft": _irfft,
}
