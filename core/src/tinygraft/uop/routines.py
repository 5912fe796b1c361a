"""Routines: what is no loop nest and has a name, such as sort; each with one meaning on every device that declares it.

    results_of(name, operands, options) -> dtype and shape of each result

Operands and results are contiguous, with examples that do not concern each other along axis 0, so that many examples
at once are a longer axis 0. ROUTINES has a row for each; its `meaning` is what a Backend that declares it has to
compute, which is what the kernels of tensor/ops compute without it. Orders are those of sort: NaN after all numbers,
whatever its sign and bits, -0.0 equal to 0.0, equal elements in the order of their indices. A result is bit for bit
that of the kernels where `exact` says so; else it is as near to the true one as theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError
from tinygraft.helpers import prod
from tinygraft.uop.epilogues import EpilogueStep, StepOperand, steps_of
from tinygraft.uop.stages import RoutineOperand

RoutineOptions = tuple[int, ...]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RoutineFacts:
    """What is known of a routine without a device.

    `axes` are the numbers of axes of its operands, `left_out` which of them some options leave out, `results` gives
    dtype and shape of each result from the operands and the options, `names` are those of the results and `options`
    those of the options. `flops` counts the operations of one run, about. `channels` are the axes of a result that tell
    its channel; a routine with these may have an epilogue (epilogues.py) behind its own options and operands.
    """

    meaning: str
    axes: tuple[int, ...]
    names: tuple[str, ...]
    results: Callable[[Sequence[RoutineOperand], RoutineOptions], tuple[RoutineOperand, ...]]
    options: tuple[str, ...] = ()
    exact: bool = True
    flops: Callable[[Sequence[RoutineOperand], RoutineOptions], int] = lambda operands, options: 0
    left_out: Callable[[RoutineOptions], tuple[int, ...]] = lambda options: ()
    channels: tuple[int, ...] = ()

    def axes_with(self, options: RoutineOptions) -> tuple[int, ...]:
        """Return the numbers of axes of the operands that there are with these options."""
        missing = self.left_out(options)
        own = [count for number, count in enumerate(self.axes) if number not in missing]
        channel = 1 + len(self.channels)
        return (*own, *[channel if kind == StepOperand.CHANNEL else self.axes[0] for kind in self.step_kinds(options)])

    def steps(self, options: RoutineOptions) -> list[EpilogueStep]:
        """Return the steps of the epilogue; none for a routine without."""
        return steps_of(options[len(self.options) :]) if self.channels else []

    def step_kinds(self, options: RoutineOptions) -> list[StepOperand]:
        """Return of which kind each operand behind the routine's own is."""
        return [step.kind for step in self.steps(options) if step.kind != StepOperand.NUMBER]

    def without_steps(self, operands: Sequence[T], options: RoutineOptions) -> tuple[Sequence[T], RoutineOptions]:
        """Return the routine's own operands and options: all of them, but for those of an epilogue."""
        if not self.channels:
            return operands, options
        return operands[: len(self.axes)], options[: len(self.options)]

    def of_step(self, kind: int, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the operand of a step of this kind, for results of `shape`."""
        return (shape[0], *[shape[axis] for axis in self.channels]) if kind == StepOperand.CHANNEL else shape


def results_of(name: str, operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return the dtype and shape of each result. Raises ShapeError for operands that are none of the routine.

    Operands and results are (dtype, shape). Raises KeyError for a name that is no routine.
    """
    facts = EVERY_ROUTINE[name]
    shapes = [shape for _, shape in operands]
    expected = facts.axes_with(options)
    if tuple(map(len, shapes)) != expected or len({shape[0] for shape in shapes}) != 1:
        axes = " and ".join(map(str, expected))
        raise ShapeError(f"the routine {name} takes operands of {axes} axes with the same axis 0, got {shapes}")
    results = facts.results(*facts.without_steps(operands, options))
    for kind, shape in zip(facts.step_kinds(options), shapes[len(facts.axes) :], strict=True):
        if shape != (wanted := facts.of_step(kind, results[0][1])):
            raise ShapeError(f"a step after the routine {name} takes an operand of the shape {wanted}, got {shape}")
    return results


def flops_of(name: str, operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
    """Return the operations of one run, about. Raises KeyError for a name that is no routine."""
    facts = EVERY_ROUTINE[name]
    own, steps = facts.without_steps(operands, options), facts.steps(options)
    return facts.flops(*own) + (len(steps) * prod(facts.results(*own)[0][1]) if steps else 0)


def _sorted(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what sort yields: the rows, and the indices they came from."""
    (dtype, shape), = operands  # fmt: skip
    return (dtype, shape), (dtypes.int32, shape)


def _greatest(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what topk yields: option 0 is how many elements of each row, with their indices."""
    (dtype, (rows, _)), = operands  # fmt: skip
    return (dtype, (rows, options[0])), (dtypes.int32, (rows, options[0]))


def _distinct(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what unique yields: the elements, how many, the inverse, counts, first indices."""
    (dtype, (rows, n)), = operands  # fmt: skip
    line = dtypes.int32, (rows, n)
    return (dtype, (rows, n)), (dtypes.int32, (rows, 1)), line, line, line


def _counted(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what histogram yields: a count for each bin of each row; option 0 is how many bins."""
    return ((dtypes.int32, (operands[0][1][0], options[0])),)


def _like(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of a result that is as the first operand."""
    return (operands[0],)


def _lu(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what lu yields: both factors, the row swapped in each step, the rows' order."""
    dtype, (count, m, n) = operands[0]
    return (dtype, (count, m, n)), (dtypes.int32, (count, min(m, n))), (dtypes.int32, (count, m))


def _solved(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what a solution yields: those of the last operand."""
    return (operands[-1],)


def _determinant(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what det yields: three numbers of each matrix."""
    dtype, (count, _, _) = operands[0]
    return ((dtype, (count, 1)),) * 3


def _fitted(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what lstsq yields: the solution and the rank of each matrix."""
    (dtype, (count, _, n)), (_, (_, _, k)) = operands
    return (dtype, (count, n, k)), (dtypes.int32, (count, 1))


def _qr(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what qr yields: Q and R; option 0 is how many columns Q has."""
    dtype, (count, m, n) = operands[0]
    return (dtype, (count, m, options[0])), (dtype, (count, options[0], n))


def _eigh(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what eigh yields: the eigenvalues and the eigenvectors of each matrix."""
    dtype, (count, n, _) = operands[0]
    return (dtype, (count, n)), (dtype, (count, n, n))


def _eigenvalues(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what eigvalsh yields: the eigenvalues of each matrix."""
    return (_eigh(operands, options)[0],)


def _singular_values(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what svdvals yields: the singular values of each matrix."""
    dtype, (count, m, n) = operands[0]
    return ((dtype, (count, min(m, n))),)


def _svd(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what svd yields: U, S and V'; with option 0 U and V' are square, else reduced."""
    dtype, (count, m, n) = operands[0]
    least = min(m, n)
    left, right = (m, n) if options[0] else (least, least)
    return (dtype, (count, m, left)), (dtype, (count, least)), (dtype, (count, right, n))


def _fft(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what fft yields: a real and an imaginary part, as its operands are."""
    return (operands[0], operands[0])


def _rfft(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what rfft yields: the real and the imaginary part of n // 2 + 1 frequencies."""
    dtype, (rows, n) = operands[0]
    return (dtype, (rows, n // 2 + 1)), (dtype, (rows, n // 2 + 1))


def _irfft(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what irfft yields: real rows, whose length is option 1."""
    dtype, (rows, _) = operands[0]
    return ((dtype, (rows, options[1])),)


def _attended(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what attention yields: the output, and the greatest score and the sum of each query."""
    (dtype, queries), _, (_, values) = operands[:3]
    return (dtype, (*queries[:-1], values[-1])), (dtype, queries[:-1]), (dtype, queries[:-1])


def _attended_backward(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of the gradients of attention's q, k and v: theirs."""
    return tuple(operands[:3])


def _attention_left_out(options: RoutineOptions) -> tuple[int, ...]:
    """Return the numbers of the mask and of the seed, where there is none; no bits are the number 0.0."""
    return tuple([number for number, there in ((3, options[2]), (4, options[3])) if not there])


def seen_pairs(queries: int, keys: int, causal: bool) -> int:
    """Return how many pairs of a query and a key attention has: with `causal` those of a key that is not later."""
    if not causal:
        return queries * keys
    square = min(queries, keys)
    return square * (square + 1) // 2 + (queries - square) * keys


def _attention_flops(products: tuple[int, int]) -> Callable[[Sequence[RoutineOperand], RoutineOptions], int]:
    """Return a count of the operations of so many products with keys and with values."""

    def count(operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
        (_, queries), (_, keys), (_, values) = operands[:3]
        pairs = prod(queries[:-2]) * seen_pairs(queries[-2], keys[-2], bool(options[0]))
        return 2 * pairs * (products[0] * queries[-1] + products[1] * values[-1])

    return count


def _convolved_in_steps(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what a direct convolution yields.

    Options are its padding, which axis filters are, and its steps down and right.
    """
    (dtype, (*front, _, height, width)), (_, weights) = operands
    above, below, left, right, turned, *steps = options
    sizes = height + above + below, width + left + right
    results = [(size - window) // step + 1 for size, window, step in zip(sizes, weights[-2:], steps, strict=True)]
    return ((dtype, (*front, weights[3 if turned else 2], *results)),)


def _direct_flops(operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
    """Return the operations of a direct convolution."""
    ((_, found),) = _convolved_in_steps(operands, options)
    return 2 * prod(found) * operands[0][1][3] * prod(operands[1][1][-2:])


def _convolved(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what a convolution in steps of 1 yields; its last option changes neither."""
    return _convolved_in_steps(operands, (*options[:5], 1, 1))


def _convolution_flops(operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
    """Return the operations of the direct sum, of which fast algorithms have fewer."""
    return _direct_flops(operands, (*options[:5], 1, 1))


def _slid_back(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of what a transposed convolution yields; the last options are its rows and columns."""
    (dtype, (*front, _, _, _)), (_, weights) = operands
    return ((dtype, (*front, weights[3], *options[4:])),)


def _transposed_flops(operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
    """Return the operations of a transposed convolution of which nothing is cut off."""
    (_, (*front, height, width)), (_, weights) = operands
    return 2 * prod(front) * height * width * prod(weights[3:])


def _weighted(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of the gradient of a convolution's weights; the last options are those of the window."""
    (dtype, x), (_, results) = operands
    return ((dtype, (x[0], x[2], results[3], x[3], *options[-2:])),)


def _weights_flops(operands: Sequence[RoutineOperand], options: RoutineOptions) -> int:
    """Return the operations of that gradient."""
    (_, x), (_, results) = operands
    return 2 * prod(results) * x[3] * prod(options[-2:])


ROUTINES: dict[str, RoutineFacts] = {
    "sort": RoutineFacts(
        "the elements of each row in ascending order (from the greatest if `descending`: NaN first), and the index in "
        "the row that each came from; equal elements keep their order in both directions",
        (2,), ("values", "indices"), _sorted, ("descending",),
    ),
    "topk": RoutineFacts(
        "the first k of sort, ascending, or descending if `largest`",
        (2,), ("values", "indices"), _greatest, ("k", "largest"),
    ),
    "unique": RoutineFacts(
        "of each row its distinct elements in order, of equal ones the first, and each NaN by itself; how many there "
        "are; for each element its number among them; how often each occurs; the index of the first of each. What "
        "follows the distinct ones, to the end of the row, is 0",
        (2,), ("values", "count", "inverse", "counts", "firsts"), _distinct,
    ),
    "histogram": RoutineFacts(
        "how often each number from 0 to before `bins` is in the row; others count nowhere",
        (2,), ("counts",), _counted, ("bins",),
    ),
    "running": RoutineFacts(
        "the running sums of each row, or if `multiplied` its running products, in the order of the row: those of "
        "float32 in float64, each rounded once",
        (2,), ("values",), _like, ("multiplied",), exact=False,
    ),
    "cholesky": RoutineFacts(
        "the lower triangular L, with L @ L' equal to the symmetric matrix whose lower triangle is read; from the "
        "first column on for which that matrix is not positive definite, NaN, or infinities where a pivot is 0",
        (3,), ("factor",), _like, exact=False,
    ),
    "lu": RoutineFacts(
        "L and U of the rows in another order, in one matrix (L has ones on its diagonal); for each column the row, "
        "from 0, that was swapped up, which has the greatest magnitude; the order of all rows. Below a pivot of 0 are "
        "zeros",
        (3,), ("factors", "pivots", "order"), _lu, exact=False,
    ),
    "solve": RoutineFacts(
        "the X with A @ X equal to B, by LU; infinities and NaN for a singular A",
        (3, 3), ("solution",), _solved, exact=False,
    ),
    "triangular": RoutineFacts(
        "the X with T @ X equal to B, where T is the lower triangle of A, or the upper one if `upper`, with ones on "
        "its diagonal if `unit`; nothing else of A is read. Infinities or NaN for a 0 on the diagonal",
        (3, 3), ("solution",), _solved, ("upper", "unit"), exact=False,
    ),
    "inverse": RoutineFacts(
        "the inverse, by LU; infinities and NaN for a singular matrix", (3,), ("inverse",), _solved, exact=False
    ),
    "det": RoutineFacts(
        "the determinant, its sign (0 for a singular matrix) and the logarithm of its magnitude (-inf there)",
        (3,), ("det", "sign", "logabsdet"), _determinant, exact=False,
    ),
    "lstsq": RoutineFacts(
        "the X for which the sum of the squares of A @ X - B is least, and of those the smallest, and the rank of A: "
        "how many of its singular values count, which are more than `rcond` (the bits of a float64) times the "
        "greatest. NaN and 0 where an element of A is not finite",
        (3, 3), ("solution", "rank"), _fitted, ("rcond",), exact=False,
    ),
    "matrix_exp": RoutineFacts(
        "e to the power of a square matrix; NaN where an element is not finite", (3,), ("exponential",), _like,
        exact=False,
    ),
    "qr": RoutineFacts(
        "the first `columns` columns of an orthogonal Q, and as many rows of the upper triangular R, with Q @ R equal "
        "to the matrix; R's diagonal has the sign opposite to what the reflection of its column began with",
        (3,), ("q", "r"), _qr, ("columns",), exact=False,
    ),
    "eigh": RoutineFacts(
        "eigenvalues of a symmetric matrix whose lower triangle, or upper if `upper`, is read, ascending, and "
        "eigenvectors as columns, up to sign; NaN where an element of the triangle is not finite",
        (3,), ("values", "vectors"), _eigh, ("upper",), exact=False,
    ),
    "eigvalsh": RoutineFacts(
        "the values of eigh alone; they need not have its last bits",
        (3,), ("values",), _eigenvalues, ("upper",), exact=False,
    ),
    "svd": RoutineFacts(
        "U, S and V' with U @ diag(S) @ V' equal to the matrix, S descending, U and V' square if `full` and else of "
        "min(m, n) columns and rows; vectors up to sign; NaN where an element is not finite",
        (3,), ("u", "s", "v"), _svd, ("full",), exact=False,
    ),
    "svdvals": RoutineFacts(
        "the S of svd alone; it need not have the last bits of that one",
        (3,), ("s",), _singular_values, exact=False,
    ),
    "fft": RoutineFacts(
        "the discrete Fourier transform along axis 1 of complex numbers, which are real and imaginary parts; its "
        "inverse if `inverse`, without a division",
        (3, 3), ("real", "imaginary"), _fft, ("inverse",), exact=False,
    ),
    "rfft": RoutineFacts(
        "the first n // 2 + 1 numbers of fft of rows of n real numbers",
        (2,), ("real", "imaginary"), _rfft, ("inverse",), exact=False,
    ),
    "irfft": RoutineFacts(
        "fft of rows of n numbers, of which n // 2 + 1 are given and the others mirror them; the imaginary part of the "
        "first, and of the middle one of an even n, counts as 0. It is real",
        (2, 2), ("real",), _irfft, ("inverse", "n"), exact=False,
    ),
    "attention": RoutineFacts(
        "softmax(q @ k' * scale + mask) @ v for q (examples, batches, heads, groups, L, size), k (examples, batches, "
        "heads, S, size) and v (..., S, parts): all groups of a head have its keys and values. A mask has the sizes "
        "of (examples, batches, heads, groups, L, S) or 1, but for the first; one of bool hides keys that are False. "
        "With `causal` query i sees the keys 0 to i. `scale` and `dropped` are the bits of a float64: with that "
        "probability a weight is 0, the others are divided by what is left, as rand draws it for a shape (batches, "
        "heads, groups, L, S) from the key of its counter (seed, of uint64). A query that sees no key has zeros. "
        "And of each query the greatest score, and the sum of exp(score - greatest): -infinity and 0 if it sees no key",
        (6, 5, 5, 6, 2), ("values", "greatest", "sums"), _attended, ("causal", "scale", "masked", "dropped"),
        exact=False, flops=_attention_flops((1, 1)), left_out=_attention_left_out,
    ),
    "attention_backward": RoutineFacts(
        "the gradients of q, k and v, from the operands of attention, its three results, and the gradient of the first",
        (6, 5, 5, 6, 2, 6, 5, 5, 6), ("q", "k", "v"), _attended_backward, ("causal", "scale", "masked", "dropped"),
        exact=False, flops=_attention_flops((3, 2)), left_out=_attention_left_out,
    ),
    "convolution": RoutineFacts(
        "the sum over channels and a window of x (examples, batch, groups, channels, height, width), with zeros around "
        "it, times weights (examples, groups, filters, channels, window, window), which if `turned` are (examples, "
        "groups, channels, filters, ...) and from the last element of the window to the first, and have no products "
        "with those zeros: (examples, batch, groups, filters, rows, columns). Windows are 3 x 3 or 5 x 5, in steps of "
        "1. No sum is less exact than one of all products one after another in its dtype, but with `fast`, when also "
        "infinities may become NaN",
        (6, 6), ("values",), _convolved, ("above", "below", "left", "right", "turned", "fast"),
        exact=False, flops=_convolution_flops,
    ),
    "direct_convolution": RoutineFacts(
        "the same sum for windows of any size, in steps of `step_down` and `step_right`: all products one after "
        "another, or sums that are no less exact",
        (6, 6), ("values",), _convolved_in_steps,
        ("above", "below", "left", "right", "turned", "step_down", "step_right"), exact=False, flops=_direct_flops,
        channels=(2, 3),
    ),
    "transposed_convolution": RoutineFacts(
        "the sum over channels and windows of x (examples, batch, groups, channels, height, width) times weights "
        "(examples, groups, channels, filters, window down, window right), each product at its element's row * `down` "
        "+ that in the window, and the same to the right; of these sums (examples, batch, groups, filters, ...) "
        "`rows` from `top` on and `columns` from `left` on. No sum is less exact than one of all products one after "
        "another in its dtype",
        (6, 6), ("values",), _slid_back, ("down", "right", "top", "left", "rows", "columns"),
        exact=False, flops=_transposed_flops,
    ),
    "convolution_weights": RoutineFacts(
        "the gradient of the weights of a convolution of x (examples, batch, groups, channels, height, width), from "
        "that of its results (examples, batch, groups, filters, rows, columns): each is the sum over results of theirs "
        "times the element of x that the weight is multiplied with, or 0 around x. `above` and `left` are rows and "
        "columns of zeros before x, gaps the distance of elements of a window: (examples, groups, filters, channels, "
        "tall, wide). No sum is less exact than one of all products one after another in its dtype",
        (6, 6), ("values",), _weighted,
        ("above", "left", "step_down", "step_right", "gap_down", "gap_right", "tall", "wide"),
        exact=False, flops=_weights_flops,
    ),
    "depthwise_convolution": RoutineFacts(
        "a direct convolution of groups that have one channel and one filter",
        (6, 6), ("values",), _convolved_in_steps,
        ("above", "below", "left", "right", "turned", "step_down", "step_right"), exact=False, flops=_direct_flops,
        channels=(2, 3),
    ),
}  # fmt: skip


def _of_all_ranks(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of rows that hold those of all ranks, of which option 0 is the number."""
    dtype, (rows, n) = operands[0]
    return ((dtype, (rows, n * options[0])),)


def _of_one_rank(operands: Sequence[RoutineOperand], options: RoutineOptions) -> tuple[RoutineOperand, ...]:
    """Return dtype and shape of one rank's part of each row; option 0 is the number of ranks."""
    dtype, (rows, n) = operands[0]
    return ((dtype, (rows, n // options[0])),)


# What the ranks of a program compute together (collectives/): no device declares it, the engine runs it on the host.
# The first option is the number of ranks, the second the op or the rank that a broadcast is from; then comes the shape
# of a tensor, which the ranks compare.
COLLECTIVES: dict[str, RoutineFacts] = {
    "all_reduce": RoutineFacts(
        "each row combined over all ranks", (2,), ("values",), _like, ("ranks", "op"), exact=False
    ),
    "all_gather": RoutineFacts(
        "of each row those of all ranks, one after another", (2,), ("values",), _of_all_ranks, ("ranks", "none")
    ),
    "reduce_scatter": RoutineFacts(
        "this rank's part of each row combined over all ranks", (2,), ("values",), _of_one_rank, ("ranks", "op"),
        exact=False,
    ),
    "broadcast": RoutineFacts("each row as one rank has it", (2,), ("values",), _like, ("ranks", "root")),
    "all_to_all": RoutineFacts(
        "of each row this rank's part on all ranks, one after another", (2,), ("values",), _like, ("ranks", "none")
    ),
}  # fmt: skip
EVERY_ROUTINE = ROUTINES | COLLECTIVES
