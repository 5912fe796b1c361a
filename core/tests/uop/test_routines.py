"""The table of routines: shapes of results, and what is refused."""

from __future__ import annotations

import pytest

from tinygraft import Context
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError, ShapeError
from tinygraft.uop.epilogues import EpilogueStep, StepOperand, to_options
from tinygraft.uop.nodes import fault
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.routines import ROUTINES, flops_of, results_of, seen_pairs
from tinygraft.uop.uop import UOp


def source(*shape: int) -> UOp:
    """Memory of a shape."""
    count = 1
    for size in shape:
        count *= size
    return UOp(Ops.RESHAPE, dtypes.float32, (UOp.buffer("PYTHON", count, dtypes.float32),), shape)


def test_shapes_of_results() -> None:
    """svd of a wide matrix, whole and not."""
    operand = [(dtypes.float32, (2, 3, 5))]
    assert [shape for _, shape in results_of("svd", operand, (1,))] == [(2, 3, 3), (2, 3), (2, 5, 5)]
    assert [shape for _, shape in results_of("svd", operand, (0,))] == [(2, 3, 3), (2, 3), (2, 3, 5)]


def test_operands_of_other_shapes_are_refused() -> None:
    """Their number of axes and the first one have to fit."""
    with pytest.raises(ShapeError, match="the routine sort takes operands of 2 axes with the same axis 0, got"):
        UOp(Ops.ROUTINE, dtypes.float32, (source(3),), RoutineArg("sort", 0, (0,)))
    with pytest.raises(ShapeError, match="the routine solve takes operands of 3 and 3 axes with the same axis 0"):
        UOp(Ops.ROUTINE, dtypes.float32, (source(2, 3, 3), source(1, 3, 1)), RoutineArg("solve", 0))


def test_a_node_has_its_results_dtype() -> None:
    """The indices of sort are int32."""
    with Context(SPEC=0):
        node = UOp(Ops.ROUTINE, dtypes.float32, (source(2, 3),), RoutineArg("sort", 1, (0,)))
    assert fault(node) == "result 1 of sort is of int, got float"
    with pytest.raises((GraphError, KeyError)):
        UOp(Ops.ROUTINE, dtypes.float32, (source(2, 3),), RoutineArg("nothing", 0))


def test_each_routine_says_what_it_means() -> None:
    """With a name for each result."""
    for name, facts in ROUTINES.items():
        assert len(facts.meaning) > 30 and facts.names, name


def test_operands_that_options_leave_out() -> None:
    """A mask and a seed of attention; its work is that of the pairs that are seen."""
    facts = ROUTINES["attention"]
    assert [facts.axes_with((0, 0, masked, dropped)) for masked, dropped in ((0, 0), (1, 0), (0, 9), (1, 9))] == [
        (6, 5, 5), (6, 5, 5, 6), (6, 5, 5, 2), (6, 5, 5, 6, 2),
    ]  # fmt: skip
    operands = [(dtypes.float32, shape) for shape in ((1, 1, 2, 1, 6, 8), (1, 1, 2, 4, 8), (1, 1, 2, 4, 3))]
    assert [seen_pairs(6, 4, causal) for causal in (False, True)] == [24, 1 + 2 + 3 + 4 + 4 + 4]
    assert facts.flops(operands, (1, 0, 0, 0)) == 2 * 2 * 18 * (8 + 3)
    with pytest.raises(ShapeError, match="the routine attention takes operands of 6 and 5 and 5 and 6 axes with"):
        results_of("attention", operands, (0, 0, 1, 0))


def test_operands_of_an_epilogue() -> None:
    """They come behind those of the routine, which counts an operation for each step; a wrong shape is an error."""
    x, w = (dtypes.float32, (1, 2, 3, 4, 5, 6)), (dtypes.float32, (1, 3, 7, 4, 1, 1))
    own, steps = (
        (0, 0, 0, 0, 0, 1, 1),
        [
            EpilogueStep(Ops.MUL, StepOperand.CHANNEL),
            EpilogueStep(Ops.ADD, StepOperand.ELEMENT),
            EpilogueStep(Ops.MAX, StepOperand.NUMBER),
        ],
    )
    after = [(dtypes.float32, (1, 3, 7)), (dtypes.float32, (1, 2, 3, 7, 5, 6))]
    options = (*own, *to_options(steps))
    assert results_of("direct_convolution", [x, w, *after], options) == ((dtypes.float32, (1, 2, 3, 7, 5, 6)),)
    results = 2 * 3 * 7 * 5 * 6
    assert flops_of("direct_convolution", [x, w], own) == results * 8
    assert flops_of("direct_convolution", [x, w, *after], options) == results * (8 + 3)
    with pytest.raises(ShapeError, match=r"takes an operand of the shape \(1, 3, 7\), got \(1, 7, 3\)"):
        results_of("direct_convolution", [x, w, (dtypes.float32, (1, 7, 3)), after[1]], options)
    with pytest.raises(ShapeError, match="takes operands of 6 and 6 and 3 and 6 axes"):
        results_of("direct_convolution", [x, w], options)
