"""Shapes, slices, padding, joining and reductions in the file, also where sizes are those of the input."""

from __future__ import annotations

from typing import Any

import pytest

from onnx_exports import compared, rand
from tinygraft import Tensor

BATCH = {"x": {0: "batch"}}


def test_shapes() -> None:
    """Reshapes, transposes, axes of size 1."""

    def shapes(x: Tensor) -> Any:
        return (
            x.reshape(-1), x.reshape(2, -1), x.T, x.unsqueeze(0), x.flatten(), x.reshape(4, 2, 4).transpose(0, 1),
            x.repeat(2, 1), x.repeat_interleave(2, 1), x.expand(3, *x.shape), x.roll(1, 1), x.unfold(1, 3, 2),
        )  # fmt: skip

    compared(shapes, rand(4, 8))


def test_shapes_of_any_batch() -> None:
    """The sizes are computed by the model."""

    def shapes(x: Tensor) -> Any:
        return (
            x.reshape(-1), x.T, x.reshape(x.shape[0], 2, 4).transpose(0, 1), x.reshape(x.shape[0] * 2, 4),
            x.zeros_like(), x.repeat(2, 1), x.tril(), x + Tensor.arange(x.shape[0]).reshape(-1, 1), x.cat(x),
        )  # fmt: skip

    compared(shapes, rand(4, 8), dynamic=BATCH, other=[rand(5, 8)])


def test_slices() -> None:
    """Steps, from behind, with None and numbers; of any batch."""
    compared(lambda x: (x[1:3, ::2], x[:, ::-1], x[-1], x[..., None, 2], x[:, 3:-1]), rand(4, 8))
    compared(lambda x: (x[:, ::2], x[:, ::-1], x[-1], x[1:], x.flip(0)), rand(4, 8), dynamic=BATCH, other=[rand(6, 8)])
    compared(lambda x: x[:, -1], rand(2, 5, 3), dynamic={"x": {0: "b", 1: "t"}}, other=[rand(3, 9, 3)])


def test_padding_and_joining() -> None:
    """Zeros, a number, the reflected and the last element; cat and stack."""
    compared(
        lambda x: (x.pad(((1, 2), (0, 1))), x.pad((2, 2), mode="reflect"), x.pad((2, 2), mode="replicate")), rand(4, 8)
    )
    assert compared(lambda x, y: Tensor.cat(x, y, x, dim=1), rand(4, 8), rand(4, 2)) == ["Concat"]
    compared(lambda x, y: Tensor.stack(x, y, dim=1), rand(4, 8), rand(4, 8))


@pytest.mark.parametrize("axis", [None, 0, 1, (0, 1)])
def test_reductions(axis: Any) -> None:
    """Along one axis, several or all, for any batch."""

    def all_of_them(x: Tensor) -> Any:
        return x.sum(axis), x.mean(axis), x.max(axis), x.min(axis), x.std(axis), x.logsumexp(axis), (x > 0).all(axis)

    compared(all_of_them, rand(4, 8), dynamic=BATCH, other=[rand(3, 8)])
    compared(lambda x: x.prod(0), rand(4, 8))


def test_a_weight_is_stored_once() -> None:
    """In its own shape, though it is read in three."""
    from tinygraft import onnx

    weight = rand(1, 6).realize()
    model = onnx.export(lambda x: x * weight + weight.reshape(6) + weight.reshape(2, 3).sum(), rand(4, 6))
    assert [tuple(each.dims) for each in model.graph.initializer if each.name == "weight"] == [(1, 6)]
    compared(lambda x: x * weight + weight.reshape(6) + weight.reshape(2, 3).sum(), rand(4, 6))
