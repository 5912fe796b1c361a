"""Shapes by the names of NumPy and PyTorch, against numpy over generated shapes; gradients; errors as sentences."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from tinygraft import Tensor
from tinygraft.errors import ShapeError

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)


def numbers(shape: tuple[int, ...], kind: Any = np.float32) -> Any:
    """Different numbers in a shape."""
    return np.arange(int(np.prod(shape)), dtype=kind).reshape(shape)


def alike(found: Any, wanted: Any) -> None:
    """The same arrays in the same order."""
    both = [(found, wanted)] if isinstance(found, Tensor) else list(zip(found, wanted, strict=True))
    for got, want in both:
        np.testing.assert_array_equal(got.numpy(), want)
        assert got.shape == np.asarray(want).shape


@settings(max_examples=12, deadline=None)
@given(SHAPES, st.data())
def test_one_tensor(shape: tuple[int, ...], data: st.DataObject) -> None:
    """Axes added, mirrored, turned and laid on diagonals, also of no elements and of no axes."""
    x = numbers(shape)
    t = Tensor(x)
    alike(t.ravel(), x.ravel())
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        alike(getattr(t, name)(), getattr(np, name)(x))
    if x.ndim >= 1:
        alike(t.flipud(), np.flipud(x))
        offset = data.draw(st.integers(-2, 2))
        size = shape[-1] + abs(offset)
        want = np.zeros((*shape[:-1], size, size), np.float32)
        rows = np.arange(shape[-1])
        want[..., rows + max(-offset, 0), rows + max(offset, 0)] = x
        alike(t.diag_embed(offset), want)
        parts = data.draw(st.one_of(st.integers(1, 5), st.lists(st.integers(-5, 5), max_size=3)))
        alike(t.tensor_split(parts), np.array_split(x, parts) if isinstance(parts, int) else _cut(x, parts))
    if x.ndim >= 2:
        alike(t.fliplr(), np.fliplr(x))
        turns, axes = (
            data.draw(st.integers(-5, 5)),
            data.draw(st.sampled_from(list(itertools.permutations(range(x.ndim), 2)))),
        )
        alike(t.rot90(turns, axes), np.rot90(x, turns, axes))


def _cut(x: Any, places: list[int]) -> list[Any]:
    """Parts between places, where one that runs backwards is empty."""
    return [x[slice(a, b)] for a, b in itertools.pairwise([None, *places, None])]


@settings(max_examples=10, deadline=None)
@given(hnp.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3), st.integers(1, 3))
def test_several_tensors(shapes: Any, count: int) -> None:
    """Tensors side by side, on one diagonal and broadcast together."""
    a, b = (numbers(shape) for shape in shapes.input_shapes)
    alike(Tensor(a).broadcast_tensors(Tensor(b)), np.broadcast_arrays(a, b))
    assert Tensor.broadcast_shapes(a.shape, b.shape) == shapes.result_shape
    for name in ("hstack", "vstack", "dstack", "column_stack"):
        alike(getattr(Tensor(a), name)(*[Tensor(a)] * count), getattr(np, name)([a] * (count + 1)))
    blocks = [numbers((2, count)), numbers((0, 2)), numbers((3,)), numbers(())]
    want = np.zeros((2 + 0 + 1 + 1, count + 2 + 3 + 1), np.float32)
    want[:2, :count], want[2, count + 2 : count + 5] = blocks[0], blocks[2]
    alike(Tensor.block_diag(*[Tensor(block) for block in blocks]), want)


@pytest.mark.parametrize(
    ("rows", "columns", "offset"), [(3, 4, 0), (4, 3, 1), (3, 3, -2), (0, 2, 0), (2, 5, 9), (3, 2, -9)]
)
def test_triangles(rows: int, columns: int, offset: int) -> None:
    """The places of both triangles."""
    alike(Tensor.tril_indices(rows, columns, offset), np.stack(np.tril_indices(rows, offset, columns)))
    alike(Tensor.triu_indices(rows, columns, offset), np.stack(np.triu_indices(rows, offset, columns)))


def test_choices_and_coordinates() -> None:
    """Cartesian products, combinations and coordinates of flat places."""
    line = numbers((4,), np.int32)
    for r in range(4):
        want = np.array(list(itertools.combinations(line, r)), np.int32).reshape(-1, r) if r else np.zeros(0, np.int32)
        alike(Tensor(line).combinations(r), want)
    alike(
        Tensor(line).combinations(2, with_replacement=True),
        np.array(list(itertools.combinations_with_replacement(line, 2)), np.int32),
    )
    alike(Tensor(line).cartesian_prod(Tensor(line[:2])), np.array(list(itertools.product(line, line[:2])), np.int32))
    alike(Tensor(np.array([0, 5, 23], np.int32)).unravel_index((2, 3, 4)), np.unravel_index([0, 5, 23], (2, 3, 4)))


def test_gradients_come_back_to_their_places() -> None:
    """The gradient of a rearrangement is the weights rearranged back."""
    x = Tensor(numbers((2, 3)))
    w = np.arange(6, dtype=np.float32).reshape(3, 2)
    np.testing.assert_array_equal((x.rot90() * Tensor(w)).sum().gradient(x)[0].numpy(), np.rot90(w, -1))
    line = Tensor(numbers((3,)))
    weights = np.arange(16, dtype=np.float32).reshape(4, 4)
    found = (line.diag_embed(-1) * Tensor(weights)).sum().gradient(line)[0]
    np.testing.assert_array_equal(found.numpy(), np.diagonal(weights, -1))
    summed = Tensor(numbers((3, 1, 2)))
    np.testing.assert_array_equal(summed.sum_to_size(1, 2).sum().gradient(summed)[0].numpy(), np.ones((3, 1, 2)))
    np.testing.assert_array_equal(summed.sum_to_size(1, 2).numpy(), numbers((3, 1, 2)).sum(0))


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda t: t.rot90(1, (0, 0)), "rot90 needs two different axes, got (0, 0) for shape (2, 3)"),
        (lambda t: t[0].fliplr(), "fliplr needs 2 axes or more, got shape (3,)\n  made at "),
        (lambda t: t.hsplit(2), "hsplit cannot cut axis 1 of (2, 3) into 2 equal parts"),
        (lambda t: t.tensor_split(0), "tensor_split needs at least 1 section, got 0"),
        (lambda t: t.sum_to_size(2, 2), "(2, 2) does not broadcast to (2, 3), so nothing can be summed to it"),
        (lambda t: Tensor.broadcast_shapes((2,), (3,)), "the shapes (2,), (3,) do not broadcast together"),
        (lambda t: t.cartesian_prod(t), "cartesian_prod needs one axis each, got shape (2, 3)\n  made at "),
        (
            lambda t: t.vstack(t[:, :2]),
            "cannot cat shapes (2, 3) and (2, 2) along axis 0: axis 1 is 3 in the first and 2 in ",
        ),
        (lambda t: t.unsqueeze(0).t(), "t needs at most two axes, got shape (1, 2, 3)\n  made at "),
    ],
)
def test_errors(call: Any, sentence: str) -> None:
    """An impossible shape says what was asked and what was found."""
    with pytest.raises(ShapeError, match=f"^{re.escape(sentence)}"):
        call(Tensor(numbers((2, 3))))


@pytest.mark.parametrize("offset", [-2, 0, 3])
def test_a_matrix_of_a_diagonal(offset: int) -> None:
    """diag_embed lays out what is not finite too, and its derivatives are diagonals: PyTorch's, also the second."""
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((2, 5))
    x[0, 1], x[1, 0] = np.nan, np.inf
    np.testing.assert_array_equal(Tensor(x).diag_embed(offset).numpy(), torch.tensor(x).diag_embed(offset).numpy())
    x = np.nan_to_num(x, posinf=2.0)
    ours, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    weight = np.random.default_rng(1).standard_normal((2, 5 + abs(offset), 5 + abs(offset)))
    (first,) = (ours.diag_embed(offset).square() * Tensor(weight)).sum().gradient(ours)
    loss = (theirs.diag_embed(offset).square() * torch.tensor(weight)).sum()
    (wanted,) = torch.autograd.grad(loss, theirs, create_graph=True)
    np.testing.assert_allclose(first.numpy(), wanted.detach().numpy(), rtol=1e-12)
    (second,) = first.square().sum().gradient(ours)
    np.testing.assert_allclose(second.numpy(), torch.autograd.grad(wanted.square().sum(), theirs)[0].numpy())
