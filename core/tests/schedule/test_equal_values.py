"""Reductions along axes of equal values: which axes are equal, what is reduced then, and that the numbers stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tensor_nodes import memory
from tinygraft import Tensor
from tinygraft.dtype import dtypes
from tinygraft.helpers import prod
from tinygraft.schedule.equal_values import equal_axes, reduced_once
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.uop import UOp, postorder

ROW = memory(1, 6)
ROWS = UOp(Ops.EXPAND, ROW.dtype, (ROW,), (4, 6))  # four equal rows
FULL = memory(4, 6)


def of(node: UOp) -> set[int]:
    """The axes along which a node is equal."""
    found: dict[UOp, frozenset[int]] = {}
    for each in postorder(node):
        found[each] = equal_axes(each, found)
    return set(found[node])


def view(op: Ops, node: UOp, arg: tuple[object, ...]) -> UOp:
    """A movement of a node."""
    return UOp(op, node.dtype, (node,), arg)


def total(node: UOp, axes: tuple[int, ...], op: Ops = Ops.ADD) -> UOp:
    """A reduction of a node."""
    return UOp(Ops.REDUCE_AXIS, node.dtype, (node,), ReduceArg(op, axes))


def becomes(node: UOp) -> UOp:
    """What the pass makes of a node."""
    return reduced_once(postorder(node)).get(node, node)


@pytest.mark.parametrize(
    ("node", "axes"),
    [
        (FULL, set()),
        (ROWS, {0}),
        (ROWS.alu(Ops.EXP2), {0}),
        (ROWS * 3.0, {0}),
        (ROWS * FULL, set()),
        (ROWS.cast(dtypes.half), {0}),
        (FULL.const_like(2.0), {0, 1}),
        (view(Ops.PERMUTE, ROWS, (1, 0)), {1}),
        (view(Ops.RESHAPE, ROWS, (2, 2, 3, 2)), {0, 1}),
        (view(Ops.RESHAPE, ROWS, (1, 4, 6, 1)), {1}),
        (view(Ops.RESHAPE, ROWS, (24,)), set()),
        (view(Ops.RESHAPE, ROWS, (3, 8)), set()),
        (view(Ops.RESHAPE, FULL.const_like(2.0), (24,)), {0}),
        (view(Ops.PAD, ROWS, ((0, 0), (1, 2))), {0}),
        (view(Ops.PAD, ROWS, ((1, 0), (0, 0))), set()),
        (view(Ops.SHRINK, ROWS, ((1, 3), (0, 5))), {0}),
        (view(Ops.FLIP, ROWS, (0,)), {0}),
        (total(ROWS, (1,)), {0}),
        (total(ROWS, (0,)), set()),
    ],
)
def test_equal_axes(node: UOp, axes: set[int]) -> None:
    """What each operation keeps of the equal axes of its sources."""
    assert of(node) == axes


def test_a_sum_beside_an_equal_axis_is_of_one_element_of_it() -> None:
    """Of four equal rows one is added up, and the result expanded."""
    found = becomes(total(ROWS, (1,)))
    assert (found.op, found.shape, found.src[0].op, found.src[0].src[0].shape) == (
        Ops.EXPAND, (4, 1), Ops.REDUCE_AXIS, (1, 6))  # fmt: skip


def test_a_sum_along_an_equal_axis_stays() -> None:
    """That is a product, which codegen makes of it; beside another one it is of one element of that."""
    node = total(ROWS, (0,))
    assert becomes(node) is node
    wide = UOp(Ops.EXPAND, ROW.dtype, (view(Ops.RESHAPE, ROW, (1, 1, 6)),), (4, 3, 6))
    assert becomes(total(wide, (0,))).src[0].src[0].shape == (4, 1, 6)


def test_a_product_of_matrices_stays() -> None:
    """Each factor is equal along another axis: nothing is repeated; with a batch of equal ones the product is one."""
    a = UOp(Ops.EXPAND, FULL.dtype, (view(Ops.RESHAPE, FULL, (4, 1, 6)),), (4, 5, 6))
    b = UOp(Ops.EXPAND, FULL.dtype, (view(Ops.RESHAPE, memory(5, 6), (1, 5, 6)),), (4, 5, 6))
    product = total(a * b, (2,))
    assert reduced_once(postorder(product)) == {}
    many = [UOp(Ops.EXPAND, x.dtype, (view(Ops.RESHAPE, x, (1, 4, 5, 6)),), (3, 4, 5, 6)) for x in (a, b)]
    found = becomes(total(many[0] * many[1], (3,)))
    assert (found.op, found.src[0].op, found.src[0].src[0].op) == (Ops.EXPAND, Ops.REDUCE_AXIS, Ops.MUL)


def test_products_of_products_are_not_taken_apart() -> None:
    """x * x of itself forty times is forty nodes, and not 2**40."""
    x = ROWS
    for _ in range(40):
        x = x * x
    found = becomes(total(x, (1,)))
    assert (found.op, found.src[0].src[0].shape) == (Ops.EXPAND, (1, 6)) and len(postorder(found)) < 60


def test_sums_of_whole_numbers_wrap() -> None:
    """As they do when they are added one by one."""
    x = np.array([[100, -100, 7]], np.int8)
    found = Tensor(x).expand(5, 3).sum(0, dtype="int8").numpy()
    np.testing.assert_array_equal(found, np.broadcast_to(x, (5, 3)).sum(0, dtype=np.int8))


def test_values_that_are_no_numbers() -> None:
    """Infinity and NaN stay what a sum makes of them, and 0 stays 0 in halves."""
    x = np.array([[np.inf, -np.inf, np.nan, 0.0]], np.float32)
    np.testing.assert_array_equal(Tensor(x).expand(5, 4).sum(0).numpy(), x[0])
    assert Tensor.zeros(1, 1).half().contiguous().expand(100_000, 1).sum().item() == 0.0


def test_the_gradient_of_the_sum_of_a_product_adds_up_once() -> None:
    """Of each matrix one sum of its rows, or columns, in place of one for each element of the gradient."""
    a, b = (Tensor(np.random.default_rng(k).uniform(-1, 1, (64, 64)).astype(np.float32)) for k in (1, 2))
    a.requires_grad, b.requires_grad = True, True
    (a @ b).sum().backward()
    assert a.grad is not None and b.grad is not None
    order = postorder(a.grad.uop, b.grad.uop)
    again = postorder(*[reduced_once(order)[t.uop] for t in (a.grad, b.grad)])
    added = [prod(n.src[0].shape) for n in again if n.op is Ops.REDUCE_AXIS and n.src[0] in again]
    assert max(added) <= 64 * 64
    np.testing.assert_allclose(a.grad.numpy(), np.broadcast_to(b.numpy().sum(1), (64, 64)), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(
        b.grad.numpy(), np.broadcast_to(a.numpy().sum(0)[:, None], (64, 64)), rtol=1e-5, atol=1e-5
    )


STEPS = ("expand", "permute", "reshape", "multiply", "pad", "flip", "shrink", "unary", "sum", "max")


@given(st.lists(st.sampled_from(STEPS), min_size=2, max_size=9), st.randoms(use_true_random=False))
def test_any_movements_and_reductions(steps: list[str], draw: object) -> None:
    """Random chains have NumPy's numbers."""
    pick = draw.randrange  # type: ignore[attr-defined]
    rng = np.random.default_rng(pick(1 << 30))
    theirs = rng.integers(-4, 5, (1, pick(1, 4), 1)).astype(np.float32)
    ours = Tensor(theirs.copy())
    for step in (*steps, "sum"):
        axis, n = pick(theirs.ndim), theirs.shape
        if step == "expand":
            shape = tuple(pick(1, 4) if size == 1 else size for size in n)
            theirs, ours = np.broadcast_to(theirs, shape), ours.expand(*shape)
        elif step == "permute":
            order = rng.permutation(theirs.ndim).tolist()
            theirs, ours = theirs.transpose(order), ours.permute(*order)
        elif step == "reshape":
            shape = (*n[:axis], n[axis] * (n[axis + 1] if axis + 1 < len(n) else 1), *n[axis + 2 :], 1)
            theirs, ours = theirs.reshape(shape), ours.reshape(*shape)
        elif step == "multiply":
            other = rng.integers(-2, 3, tuple(size if pick(2) else 1 for size in n)).astype(np.float32)
            theirs, ours = theirs * other, ours * Tensor(other)
        elif step == "pad":
            pads = [(pick(2), pick(2)) if a == axis else (0, 0) for a in range(len(n))]
            theirs, ours = np.pad(theirs, pads), ours.pad(tuple(pads))
        elif step == "flip":
            theirs, ours = np.flip(theirs, axis), ours.flip(axis)
        elif step == "shrink":
            bounds = [(pick(size), size) if a == axis else (0, size) for a, size in enumerate(n)]
            theirs, ours = theirs[tuple(slice(*pair) for pair in bounds)], ours.shrink(tuple(bounds))
        elif step == "unary":
            theirs, ours = np.abs(theirs) + 1, ours.abs() + 1
        else:
            theirs = getattr(theirs, step)(axis, keepdims=True)
            ours = getattr(ours, step)(axis, keepdim=True)
    np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-6)
