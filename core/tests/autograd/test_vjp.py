"""The table of derivatives: each row against finite differences in float64, and the rows without one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graph_numpy import evaluate, values
from tinygraft import Tensor, dtypes
from tinygraft.autograd.vjp import VJP, gradient_of_source
from tinygraft.autograd.walk import gradient
from tinygraft.uop.ops import Ops, ReduceArg, ScanArg, ScatterArg, WindowArg
from tinygraft.uop.uop import UOp, toposort

Function = Callable[..., UOp]
STEP, TOLERANCE = 1e-6, 1e-6
SHAPES = [(0,), (1,), (7,), (3, 5)]


def leaf(data: np.ndarray[Any, Any], strided: bool) -> tuple[Tensor, UOp]:
    """A tensor, and its values in data's order; where strided, read from a transposed and flipped place in memory."""
    if not strided:
        tensor = Tensor(np.ascontiguousarray(data))
        return tensor, tensor.uop
    order = tuple(reversed(range(data.ndim)))
    tensor = Tensor(np.ascontiguousarray(np.flip(data, 0).transpose(order)))
    node = UOp(Ops.PERMUTE, dtypes.double, (tensor.uop,), order)
    return tensor, UOp(Ops.FLIP, dtypes.double, (node,), (0,))


def seed(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """A gradient to start from."""
    signs = np.where(np.arange(int(np.prod(shape))) % 2, 1, -1).reshape(shape)
    return np.random.default_rng(3).uniform(0.5, 1.5, shape) * signs


def check(function: Function, *inputs: np.ndarray[Any, Any], strided: bool = True) -> None:
    """The gradient of each input is what finite differences say."""
    inputs = tuple(np.asarray(data, np.float64) for data in inputs)
    use = strided and all(data.ndim for data in inputs)
    leaves = [leaf(data, use) for data in inputs]
    start = seed(function(*(node for _, node in leaves)).shape)
    found = gradient(function(*(node for _, node in leaves)), [node for _, node in leaves], Tensor(start).uop)

    def total(place: int, at: tuple[int, ...], change: float) -> float:
        moved = [data.copy() for data in inputs]
        moved[place][at] += change
        return float((evaluate(function(*(leaf(data, use)[1] for data in moved))) * start).sum())

    for place, (data, node) in enumerate(zip(inputs, found, strict=True)):
        wanted = np.zeros_like(data)
        for at in np.ndindex(*data.shape):
            wanted[at] = (total(place, at, STEP) - total(place, at, -STEP)) / (2 * STEP)
        got = np.zeros_like(data) if node is None else values(Tensor(node))
        np.testing.assert_allclose(got, wanted, rtol=TOLERANCE, atol=TOLERANCE)


def numbers(*shape: int, low: float = 0.5, high: float = 2.0, name: int = 0) -> np.ndarray[Any, Any]:
    """Numbers that are all different."""
    return np.random.default_rng(name + 1).uniform(low, high, shape)


def elementwise(op: Ops) -> Function:
    """That op as a function of nodes."""
    return lambda first, *others: first.alu(op, *others)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", [Ops.NEG, Ops.RECIPROCAL, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN], ids=lambda op: op.name)
def test_row_of_one_operand(op: Ops, shape: tuple[int, ...]) -> None:
    """An op of one operand has the derivative of its function."""
    check(elementwise(op), numbers(*shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", [Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.POW, Ops.MAX, Ops.MIN], ids=lambda op: op.name)
def test_row_of_two_operands(op: Ops, shape: tuple[int, ...]) -> None:
    """An op of two operands has both partial derivatives."""
    check(elementwise(op), numbers(*shape), numbers(*shape, name=1))


@pytest.mark.parametrize("shape", SHAPES)
def test_row_of_three_operands(shape: tuple[int, ...]) -> None:
    """FMA has three partial derivatives, WHERE those of the chosen value."""
    a, b, c = (numbers(*shape, name=i) for i in range(3))
    check(elementwise(Ops.FMA), a, b, c)
    check(lambda x, y, z: (x < y).where(y, z), a, b, c)


def test_row_of_pow_at_the_edges() -> None:
    """x**0 is flat, also at 0; 0**y does not change with y; no gradient is NaN there."""
    a, b = Tensor(np.array([0.0, 0.0, 2.0])), Tensor(np.array([0.0, 2.0, 0.0]))
    node = a.uop.alu(Ops.POW, b.uop)
    to_a, to_b = gradient(node, [a.uop, b.uop], node.const_like(1.0))
    assert to_a is not None and to_b is not None
    np.testing.assert_array_equal(values(Tensor(to_a)), [0, 0, 0])
    np.testing.assert_allclose(values(Tensor(to_b)), [0, 0, np.log(2)], rtol=1e-12)


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN], ids=lambda op: op.name)
def test_equal_operands_share_the_gradient(op: Ops) -> None:
    """Where both operands are equal each gets half."""
    a, b = Tensor(np.array([1.0, 2.0])), Tensor(np.array([1.0, 1.0]))
    node = a.uop.alu(op, b.uop)
    to_a, to_b = gradient(node, [a.uop, b.uop], node.const_like(1.0))
    assert to_a is not None and to_b is not None
    won = 1.0 if op is Ops.MAX else 0.0
    np.testing.assert_array_equal(values(Tensor(to_a)), [0.5, won])
    np.testing.assert_array_equal(values(Tensor(to_b)), [0.5, 1 - won])


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN], ids=lambda op: op.name)
@pytest.mark.parametrize("place", [0, 1])
def test_a_number_takes_the_gradient_of_a_tie(op: Ops, place: int) -> None:
    """Beside a number an operand gets the gradient where the result differs from it, and no other value is read."""
    x = Tensor(np.array([0.5, 1.0, 2.0, np.nan]))
    one = x.uop.const_like(1.0)
    node = UOp(op, x.uop.dtype, (one, x.uop) if place else (x.uop, one))
    (found,) = gradient(node, [x.uop], node.const_like(3.0))
    assert found is not None
    won = [0, 0, 3, 0] if op is Ops.MAX else [3, 0, 0, 0]
    np.testing.assert_array_equal(values(Tensor(found)), won)
    assert x.uop not in toposort(found, enter=lambda n: n is not node)


def move(op: Ops, arg: Any) -> Function:
    """That movement as a function of a node."""
    return lambda x: UOp(op, x.dtype, (x,), arg)


WINDOW = WindowArg((7, 6), (3, 2), (2, 1), (1, 2))


@pytest.mark.parametrize(
    ("function", "shape"),
    [
        (move(Ops.RESHAPE, (5, 3)), (3, 5)),
        (move(Ops.RESHAPE, (0, 2)), (0,)),
        (move(Ops.EXPAND, (3, 4, 5)), (3, 1, 5)),
        (move(Ops.EXPAND, (3, 0)), (3, 1)),
        (move(Ops.PERMUTE, (2, 0, 1)), (2, 3, 5)),
        (move(Ops.FLIP, (0, 1)), (3, 5)),
        (move(Ops.PAD, ((1, 2), (0, 3))), (3, 5)),
        (move(Ops.SHRINK, ((1, 3), (2, 2))), (3, 5)),
        (move(Ops.SHRINK, ((1, 3), (2, 5))), (3, 5)),
        (move(Ops.WINDOW, WINDOW), (2, 7, 6)),
        (move(Ops.FOLD, WINDOW), (2, *WINDOW.count, *WINDOW.size)),
        (move(Ops.CONTIGUOUS, None), (3, 5)),
        (move(Ops.CONTIGUOUS_BACKWARD, None), (3, 5)),
        (lambda x: x.cast(dtypes.double), (3, 5)),
        (lambda x: UOp(Ops.COPY, x.dtype, (x, UOp.on(x.device))), (3, 5)),
        (lambda x: UOp(Ops.CAT, x.dtype, (x, x * x, x), 1), (3, 5)),
        (lambda x: UOp(Ops.CAT, x.dtype, (x, x * x), 0), (0, 5)),
    ],
)  # fmt: skip
def test_row_of_movement(function: Function, shape: tuple[int, ...]) -> None:
    """What moves values forward moves gradients back."""
    check(function, numbers(*shape))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN], ids=lambda op: op.name)
def test_row_of_reductions(op: Ops, axes: tuple[int, ...]) -> None:
    """A reduction has the derivative with respect to each element, over one axis or more, and over none."""
    check(move(Ops.REDUCE_AXIS, ReduceArg(op, axes)), numbers(3, 5))
    check(move(Ops.REDUCE_AXIS, ReduceArg(op, axes)), numbers(0, 5))
    check(move(Ops.REDUCE_AXIS, ReduceArg(op, axes)), numbers(1, 1))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN], ids=lambda op: op.name)
def test_row_of_scans(op: Ops, axis: int) -> None:
    """A running reduction has the derivative with respect to each element."""
    check(move(Ops.SCAN, ScanArg(op, axis)), numbers(3, 5))
    check(move(Ops.SCAN, ScanArg(op, axis)), numbers(3, 0))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("zeros", [1, 2, 4])
def test_products_that_contain_zeros(zeros: int, axis: int) -> None:
    """The derivative of a product, and of a running product, is right also where elements are zero."""
    data = numbers(3, 5)
    data.reshape(-1)[np.random.default_rng(zeros).permutation(15)[:zeros]] = 0
    check(move(Ops.REDUCE_AXIS, ReduceArg(Ops.MUL, (axis,))), data)
    check(move(Ops.REDUCE_AXIS, ReduceArg(Ops.MUL, (0, 1))), data)
    check(move(Ops.SCAN, ScanArg(Ops.MUL, axis)), data)


@pytest.mark.parametrize("op", [Ops.MAX, Ops.MIN], ids=lambda op: op.name)
def test_equal_extremes_share_the_gradient(op: Ops) -> None:
    """Elements that are all the extreme get equal shares; of a running extreme the latest gets all."""
    x = Tensor(np.array([2.0, 2.0, 2.0]))
    reduced = UOp(Ops.REDUCE_AXIS, dtypes.double, (x.uop,), ReduceArg(op, (0,)))
    (shared,) = gradient(reduced, [x.uop], reduced.const_like(3.0))
    running = UOp(Ops.SCAN, dtypes.double, (x.uop,), ScanArg(op, 0))
    (latest,) = gradient(running, [x.uop], Tensor(np.array([1.0, 10.0, 100.0])).uop)
    assert shared is not None and latest is not None
    np.testing.assert_array_equal(values(Tensor(shared)), [1, 1, 1])
    np.testing.assert_array_equal(values(Tensor(latest)), [1, 10, 100])


INDEX = [[0, 2, 1], [2, 4, 0]]
OUTSIDE = [[5, -1, 0], [0, 3, 9]]


@pytest.mark.parametrize("index", [INDEX, OUTSIDE], ids=["inside", "outside"])
def test_row_of_gather(index: list[list[int]]) -> None:
    """What was read adds up at the place it was read from; nothing comes from outside."""
    places = Tensor(index).uop
    check(lambda x: UOp(Ops.GATHER, x.dtype, (x, places), 1), numbers(2, 5, 2))


@pytest.mark.parametrize("index", [INDEX, OUTSIDE], ids=["inside", "outside"])
@pytest.mark.parametrize("op", [None, Ops.ADD, Ops.MUL, Ops.MAX, Ops.MIN], ids=lambda op: op.name if op else "store")
def test_row_of_scatter(op: Ops | None, index: list[list[int]]) -> None:
    """Base and values get the gradient as far as they count in the result; stores follow each other in order."""
    places = Tensor(index).uop

    def scatter(base: UOp, value: UOp) -> UOp:
        return UOp(Ops.SCATTER, base.dtype, (base, places, value), ScatterArg(1, op))

    check(scatter, numbers(2, 5, 2), numbers(2, 2, 3, 2, name=1))
    if op is Ops.MUL:
        value = numbers(2, 2, 3, 2, name=1)
        value[0, 0, 0] = value[:, 1, 0, 0] = 0
        check(scatter, numbers(2, 5, 2), value)


def test_row_of_assign() -> None:
    """An assigned value gets the gradient, the old one only where a view was not written."""

    def assign(old: UOp, value: UOp) -> UOp:
        return UOp(Ops.ASSIGN, old.dtype, (old, value))

    def assign_view(old: UOp, value: UOp) -> UOp:
        view = UOp(Ops.SHRINK, old.dtype, (UOp(Ops.FLIP, old.dtype, (old,), (1,)),), ((1, 2), (0, 3)))
        return UOp(Ops.ASSIGN, old.dtype, (old, value, UOp(Ops.PERMUTE, old.dtype, (view,), (1, 0))))

    check(assign, numbers(3, 5), numbers(3, 5, name=1), strided=False)
    check(assign_view, numbers(3, 5), numbers(3, 1, name=1), strided=False)


def second(function: Function) -> Function:
    """The sum of squares of the first derivatives, whose own derivative is the second."""

    def squares(*inputs: UOp) -> UOp:
        result = function(*inputs)
        parts = [g for g in gradient(result, inputs, result.const_like(0.7)) if g is not None]
        return sum((part * part for part in parts[1:]), parts[0] * parts[0])

    return squares


@pytest.mark.parametrize("op", [Ops.MUL, Ops.FDIV, Ops.POW], ids=lambda op: op.name)
def test_second_derivatives_of_two_operands(op: Ops) -> None:
    """A gradient is a graph that can be differentiated again."""
    check(second(elementwise(op)), numbers(3, 5), numbers(3, 5, name=1))


@pytest.mark.parametrize(
    "function",
    [
        *(elementwise(op) for op in (Ops.RECIPROCAL, Ops.SQRT, Ops.EXP2, Ops.LOG2, Ops.SIN)),
        *(move(Ops.REDUCE_AXIS, ReduceArg(op, (1,))) for op in (Ops.ADD, Ops.MUL, Ops.MAX)),
        *(move(Ops.SCAN, ScanArg(op, 1)) for op in (Ops.ADD, Ops.MUL)),
        lambda x: move(Ops.SCAN, ScanArg(Ops.MAX, 1))(x * x),
        lambda x: move(Ops.WINDOW, WindowArg((5,), (2,), (1,), (2,)))(x * x),
    ],
)
def test_second_derivatives_of_one_operand(function: Function) -> None:
    """A gradient is a graph that can be differentiated again, also for reductions, scans and windows."""
    check(second(function), numbers(2, 5))


def test_every_op_of_the_tensor_graph_has_a_row() -> None:
    """No op is forgotten: an op without a derivative says so in the table."""
    later = {
        Ops.PARAM, Ops.LOCAL, Ops.RANGE, Ops.REDUCE, Ops.LOAD, Ops.STORE, Ops.AFTER, Ops.BARRIER, Ops.SINK, Ops.REG,
        Ops.ACCUM, Ops.GET, Ops.LANES, Ops.END, Ops.DOT, Ops.MATRIX, Ops.TILE, Ops.PRODUCT, Ops.PUT,
    }  # fmt: skip
    assert [op.name for op in Ops if op not in VJP and op not in later] == []


def test_asking_for_a_missing_derivative_is_an_error() -> None:
    """The rule of a source that has none is never silently zero."""
    x = Tensor([1.5, -2.5]).uop
    with pytest.raises(ValueError, match="TRUNC has no derivative with respect to source 0"):
        gradient_of_source(x.alu(Ops.TRUNC), x, 0)
