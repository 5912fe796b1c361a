"""Routines: what is no loop nest and has a name, such as sort; each with one meaning on every device that offers it.

    results_of(name, operands, options) -> dtype and shape of each result

Operands and results are contiguous, with examples that do not concern each other along axis 0, so that many examples
at once are a longer axis 0. ROUTINES has a row for each; its `meaning` is what a Backend that offers it has to
compute, which is what the kernels of tensor/ops compute without it. Orders are those of sort: NaN after all numbers,
whatever its sign and bits, -0.0 equal to 0.0, equal elements in the order of their indices. A result is bit for bit
that of the kernels where `exact` says so; else it is as near to the true one as theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import ShapeError

Operand = tuple[DType, tuple[int, ...]]
Options = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoutineFacts:
    """What is known of a routine without a device.

    `axes` are the numbers of axes of its operands, `results` gives dtype and shape of each result from the operands
    and the options, `names` are those of the results and `options` those of the options. `flops` counts the operations
    of one run, about.
    """

    meaning: str
    axes: tuple[int, ...]
    names: tuple[str, ...]
    results: Callable[[Sequence[Operand], Options], tuple[Operand, ...]]
    options: tuple[str, ...] = ()
    exact: bool = True
    flops: Callable[[Sequence[Operand], Options], int] = lambda operands, options: 0


def results_of(name: str, operands: Sequence[Operand], options: Options) -> tuple[Operand, ...]:
    """Return the dtype and shape of each result. Raises ShapeError for operands that are none of the routine."""
    facts = ROUTINES[name]
    shapes = [shape for _, shape in operands]
    if tuple(map(len, shapes)) != facts.axes or len({shape[0] for shape in shapes}) != 1:
        axes = " and ".join(map(str, facts.axes))
        raise ShapeError(f"the routine {name} takes operands of {axes} axes with the same axis 0, got {shapes}")
    return facts.results(operands, options)


def _sorted(operands: Sequence[Operand], options: Options) -> tuple[Operand, ...]:
    (dtype, shape), = operands  # fmt: skip
    return (dtype, shape), (dtypes.int32, shape)


def _greatest(operands: Sequence[Operand], options: Options) -> tuple[Operand, ...]:
    (dtype, (rows, _)), = operands  # fmt: skip
    return (dtype, (rows, options[0])), (dtypes.int32, (rows, options[0]))


def _distinct(operands: Sequence[Operand], options: Options) -> tuple[Operand, ...]:
    (dtype, (rows, n)), = operands  # fmt: skip
    line = dtypes.int32, (rows, n)
    return (dtype, (rows, n)), (dtypes.int32, (rows, 1)), line, line, line


def _counted(operands: Sequence[Operand], options: Options) -> tuple[Operand, ...]:
    return ((dtypes.int32, (operands[0][1][0], options[0])),)


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
}  # fmt: skip
