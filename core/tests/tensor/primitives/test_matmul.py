"""Matrix products, einsum and attention against numpy and PyTorch: shapes, dtypes, gradients, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import GlobalCounters, Tensor, dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort


def numbers(*shape: int, name: int = 0) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    return np.random.default_rng(name + 1).normal(0, 1, shape).astype(np.float32)


PAIRS = [
    ((3,), (3,)), ((2, 3), (3,)), ((3,), (3, 5)), ((2, 3), (3, 5)), ((1, 1), (1, 1)), ((7, 2, 3), (3, 5)),
    ((2, 3), (7, 3, 5)), ((7, 1, 2, 3), (4, 3, 5)), ((3,), (7, 3, 5)), ((7, 2, 3), (3,)), ((2, 0), (0, 5)),
    ((0, 3), (3, 5)), ((2, 3), (3, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_products_of_all_shapes(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """matmul, dot, @ and reverse have the shapes and values of numpy.matmul."""
    a, b = numbers(*left), numbers(*right, name=1)
    wanted = np.matmul(a, b)
    found = Tensor(a).matmul(Tensor(b))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(values(found), wanted, rtol=1e-5, atol=1e-6)
    assert (Tensor(a) @ Tensor(b)).uop is found.uop is Tensor(a).dot(Tensor(b)).uop or found.shape == wanted.shape
    np.testing.assert_allclose(values(Tensor(b).matmul(Tensor(a), reverse=True)), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_gradients_of_products(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Both gradients are PyTorch's, summed over broadcast axes."""
    torch = pytest.importorskip("torch")
    a, b = numbers(*left), numbers(*right, name=1)
    ours = Tensor(a, requires_grad=True), Tensor(b, requires_grad=True)
    theirs = torch.tensor(a, requires_grad=True), torch.tensor(b, requires_grad=True)
    (ours[0] @ ours[1]).square().sum().backward()
    (theirs[0] @ theirs[1]).square().sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        assert our.grad is not None
        np.testing.assert_allclose(values(our.grad), their.grad.numpy(), rtol=1e-4, atol=1e-5)


def test_product_is_one_multiplication_and_one_sum() -> None:
    """The graph of a matrix product holds one MUL and one REDUCE_AXIS over the last axis, and no cast."""
    found = [node.op for node in toposort((Tensor.empty(4, 3) @ Tensor.empty(3, 5)).uop)]
    assert found.count(Ops.MUL) == found.count(Ops.REDUCE_AXIS) == 1
    assert Ops.CAST not in found
    assert Ops.CONTIGUOUS not in found


def test_half_products_are_summed_in_float32() -> None:
    """Half operands are multiplied and summed in float32 and rounded once; dtype= keeps the wide result."""
    a, b = Tensor.ones(1, 4096).half(), Tensor.full((4096, 1), 1.0009765625).half()
    product = a @ b
    assert product.dtype is dtypes.half
    assert values(product).item() == 4100
    wide = a.matmul(b, dtype=dtypes.float)
    assert wide.dtype is dtypes.float
    assert values(wide).item() == 4100
    assert (Tensor([[1.0]]).bfloat16() @ Tensor([[1.0]]).bfloat16()).dtype is dtypes.bfloat16


def test_integer_products() -> None:
    """The documented example; small integers are accumulated in 32 bits and wrap to theirs, unless a dtype is given."""
    assert values(Tensor([[1, 2], [3, 4]]).matmul(Tensor([[5, 6], [7, 8]]))).tolist() == [[19, 22], [43, 50]]
    big = Tensor([[100, 100]], dtype=dtypes.int8)
    found = big @ big.transpose()
    assert found.dtype is dtypes.int8
    assert values(found).tolist() == [[20000 - 78 * 256]]
    wide = big.matmul(big.transpose(), dtype=dtypes.int32)
    assert (wide.dtype, wide.tolist()) == (dtypes.int32, [[20000]])


def test_shapes_that_do_not_fit_are_refused() -> None:
    """The error names both shapes and the axes that differ; numbers are refused too."""
    with pytest.raises(
        ShapeError,
        match=r"cannot multiply shapes \(2, 3\) and \(4, 5\) as matrices: "
        "axis -1 of the left is 3 and axis -2 of the right is 4",
    ):
        Tensor.ones(2, 3) @ Tensor.ones(4, 5)
    with pytest.raises(ShapeError, match=r"axis -1 of the left is 3 and axis -1 of the right is 4"):
        Tensor.ones(2, 3) @ Tensor.ones(4)
    with pytest.raises(ShapeError, match=r"both need an axis; multiply by \* instead"):
        Tensor(1.0) @ Tensor.ones(2)
    with pytest.raises(ShapeError, match=r"got shape \(2,\) and the number 2; multiply by"):
        Tensor.ones(2) @ 2
    with pytest.raises(ShapeError, match=r"cannot multiply shapes \(2, 3, 4\) and \(3, 4, 5\) as matrices: axis -3"):
        Tensor.ones(2, 3, 4) @ Tensor.ones(3, 4, 5)


def test_linear_of_the_documentation() -> None:
    """linear multiplies by weight and adds bias; a weight of one axis scales; dtype= casts all."""
    t, weight = Tensor([[1, 2], [3, 4]]), Tensor([[1, 2], [3, 4]])
    assert values(t.linear(weight, Tensor([1, 2]))).tolist() == [[8, 12], [16, 24]]
    assert values(t.linear(Tensor([10, 100]))).tolist() == [[10, 200], [30, 400]]
    assert t.linear(weight, Tensor([1, 2]), dtype=dtypes.float).dtype is dtypes.float


FORMULAS = [
    ("ij,jk->ik", [(2, 3), (3, 5)]), ("ij,ij->", [(2, 3), (2, 3)]), ("ij->ji", [(2, 3)]), ("ij", [(2, 3)]),
    ("ba", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]), ("i,j->ij", [(2,), (3,)]), ("ij,j", [(2, 3), (3,)]),
    ("...ij,...jk->...ik", [(4, 2, 3), (3, 5)]), ("b...,b->...", [(4, 2, 3), (4,)]), ("...->...", [(2, 3)]),
    ("ijk,jl,kl->il", [(2, 3, 4), (3, 5), (4, 5)]), ("iij->j", [(3, 3, 2)]), ("i->", [(0,)]), ("...", [(2,)]),
    ("...a,a...->...", [(2, 3), (3, 2)]),
]  # fmt: skip


@pytest.mark.parametrize(("formula", "shapes"), FORMULAS)
def test_einsum(formula: str, shapes: list[tuple[int, ...]]) -> None:
    """Every formula has numpy's value and shape, with operands one by one or in a list."""
    arrays = [numbers(*shape, name=i) for i, shape in enumerate(shapes)]
    wanted = np.einsum(formula, *arrays)
    found = Tensor.einsum(formula, *(Tensor(a) for a in arrays))
    assert found.shape == wanted.shape
    np.testing.assert_allclose(values(found), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        values(Tensor.einsum(formula, [Tensor(a) for a in arrays])), wanted, rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize(
    ("formula", "shapes", "sentence"),
    [
        ("ij,jk->ik", [(2, 3)], "names 2 operands, got 1"),
        ("ij->i", [(2, 3, 4)], "gives 'ij' to an operand of 3 axes"),
        (
            "ij,jk->ik",
            [(2, 3), (4, 5)],
            r"of shapes \(2, 3\) and \(4, 5\): 'j' is 3, axis 1 of the first, and 4, axis 0 of the sec",
        ),
        (
            "ij,kj,jk->ik",
            [(2, 1), (4, 5), (3, 2)],
            r"of shapes \(4, 5\) and \(3, 2\): 'j' is 5, axis 1 of the fir.*\n  first made at .*test_mat",
        ),
        ("ij->ik", [(2, 3)], "has 'k' in its result, which must be in an operand and named once"),
        ("i+->i", [(2, 3)], "is made of letters, commas"),
    ],
)
def test_einsum_that_does_not_fit(formula: str, shapes: list[tuple[int, ...]], sentence: str) -> None:
    """The error quotes the formula and says what disagrees."""
    with pytest.raises(ShapeError, match=sentence):
        Tensor.einsum(formula, *(Tensor.ones(*shape) for shape in shapes))


def test_a_product_with_complex_numbers_in_a_real_dtype_is_refused() -> None:
    """Either operand may be the complex one; bools are whether a number is not 0, and so they are multiplied."""
    real, other = Tensor([[1.0, 0.0], [2.0, 0.0]]), Tensor([[1j, 0], [0, 0]])
    for left, right in ((real, other), (other, real), (other, other)):
        for dtype in ("float32", "int32"):
            with pytest.raises(DTypeError, match=r"cannot cast dtypes.complex64 to .*: that would lose the imaginary"):
                left.matmul(right, dtype=dtype)
        found = left.matmul(right, dtype="bool")
        want = (left.numpy() != 0).astype(int) @ (right.numpy() != 0).astype(int) != 0
        assert found.tolist() == want.tolist()


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_the_nodes_of_a_product_are_those_of_the_hooks(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """A product is made of nodes at once: those that transpose, reshape, * and the sum make one after another."""
    a, b = Tensor.empty(*left, dtype=dtypes.float16), Tensor.empty(*right, dtype=dtypes.int8)
    wide, other = a.cast(dtypes.float32), b.cast(dtypes.float32)
    if b.ndim > 1:
        other = other.transpose(-1, -2)
        wide = wide if a.ndim == 1 else wide.unsqueeze(-2)
        other = other if a.ndim == 1 else other.unsqueeze(-3)
    assert (a @ b).uop is (wide * other).sum(-1).cast(dtypes.float16).uop


def test_the_flag_of_a_product_is_that_of_its_operands() -> None:
    """True where one of them requires a gradient, False where neither may have one, else None; False in no_grad."""
    of = {flag: Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=flag) for flag in (True, False, None)}
    found = {(a, b): (of[a] @ of[b]).requires_grad for a in of for b in of}
    wanted = {(a, b): True if True in (a, b) else False if (a, b) == (False, False) else None for a in of for b in of}
    assert found == wanted
    with Tensor.no_grad():
        assert (of[True] @ of[True]).requires_grad is False


@pytest.mark.parametrize(
    ("formula", "shapes"),
    [
        ("ij,jk,kl->il", ((3, 4), (4, 5), (5, 6))),
        ("ij,kl->il", ((3, 4), (5, 6))),
        ("bn,bm,nm->b", ((2, 3), (2, 4), (3, 4))),
        ("ii,ij,j->", ((3, 3), (3, 4), (4,))),
        ("i,j,k->ijk", ((2,), (3,), (4,))),
        ("...ij,...jk,kl->...il", ((2, 1, 3, 4), (5, 4, 5), (5, 6))),
        ("ab,bc,cd,de->ae", ((3, 4), (4, 5), (5, 6), (6, 2))),
        ("ij,ij,ij->i", ((3, 4), (3, 4), (1, 4))),
    ],
)
def test_einsum_of_several(formula: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    """Values of NumPy, with letters of one operand alone, broadcast axes and diagonals; also of one tensor repeated."""
    arrays = [np.random.default_rng(number).standard_normal(shape) for number, shape in enumerate(shapes)]
    found = Tensor.einsum(formula, *map(Tensor, arrays))
    np.testing.assert_allclose(found.numpy(), np.einsum(formula, *arrays), rtol=1e-9, atol=1e-9)
    same = Tensor(arrays[0]).realize()
    every = ",".join([formula.split(",")[0]] * 3) + ("->..." if "..." in formula else "->")
    wanted = np.einsum(every, *[arrays[0]] * 3)
    np.testing.assert_allclose(Tensor.einsum(every, same, same, same).numpy(), wanted, rtol=1e-9, atol=1e-9)


def test_einsum_multiplies_two_at_a_time() -> None:
    """A chain of products takes as many multiplications as its products do, in the cheapest order."""
    a, b, c = (Tensor.zeros(*shape).contiguous().realize() for shape in ((40, 40), (40, 40), (40, 1)))
    before = GlobalCounters.global_ops
    Tensor.einsum("ij,jk,kl->il", a, b, c).realize()
    assert GlobalCounters.global_ops - before <= 4 * 40 * 40 + 200
