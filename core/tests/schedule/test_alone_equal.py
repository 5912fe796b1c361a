"""Indices and values that are one number, as of Tensor.zeros and expand: each element counts, and in gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn

ZEROS = Tensor.zeros(4, dtype=dtypes.int32)


def leaf(values: object) -> Tensor:
    """A tensor that requires a gradient."""
    return Tensor(values, requires_grad=True)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("values", [[4.0, 4.0, 4.0, 4.0], None], ids=["in memory", "one number"])
def test_scatter_reduce(reduce: str, values: list[float] | None) -> None:
    """The mean was 16: the count of its values was 1."""
    source = Tensor.full((4,), 4.0) if values is None else Tensor(values)
    found = Tensor([0.0, 0.0]).scatter_reduce(0, ZEROS, source, reduce, include_self=False)
    assert found.tolist() == [{"sum": 16.0, "prod": 256.0}.get(reduce, 4.0), 0.0]


def test_scatter_and_index() -> None:
    """Each of five is added, and each of three multiplied."""
    index, ones = Tensor.zeros(5, dtype=dtypes.int32), Tensor.ones(5)
    assert Tensor.zeros(3).scatter_add(0, index, ones).tolist() == [5, 0, 0]
    assert Tensor.zeros(3).index_add(0, index, ones).tolist() == [5, 0, 0]
    rows = Tensor([0, 2]).reshape(2, 1).expand(2, 5)
    assert Tensor.zeros(2, 3).scatter_add(1, rows, Tensor.ones(2, 5)).tolist() == [[5, 0, 0], [0, 0, 5]]
    twos = Tensor.full((3,), 2.0)
    assert Tensor.ones(3).scatter(0, index[:3], twos, reduce="multiply").tolist() == [8, 1, 1]
    replayed = TinyJit(lambda x: Tensor.zeros(3).scatter_add(0, index, x.reshape(1).expand(5)).realize())
    assert [replayed(Tensor([n]).realize()).tolist()[0] for n in (1.0, 2.0, 3.0)] == [5.0, 10.0, 15.0]


NUMBERS = Tensor.arange(29)
BYTES, CHOSEN = Tensor(np.arange(29, dtype=np.uint8)), Tensor(np.arange(29) % 3 > 0)
LATE: dict[str, Callable[[], Tensor]] = {
    "not below 0": lambda: NUMBERS >= 0,
    "of bytes": lambda: BYTES >= 0,
    "of bools": lambda: CHOSEN.cast(dtypes.int32) >= 0,
    "one or the other": lambda: (NUMBERS >= 0) | (NUMBERS > 5),
    "true or not": lambda: CHOSEN | ~CHOSEN,
    "clamped": lambda: BYTES.cast(dtypes.int32).clamp(300, 300) - 299,
    "sign": lambda: (NUMBERS + 1).sign(),
    "where": lambda: (NUMBERS < 29).where(1, 2),
    "argmax of one": lambda: BYTES.reshape(29, 1).argmax(1) + 1,
}  # fmt: skip


@pytest.mark.parametrize("device", ["PYTHON", "CPU"])
@pytest.mark.parametrize("name", LATE)
def test_indices_that_codegen_finds_to_be_equal(name: str, device: str) -> None:
    """They depend on the loop until they are simplified: each was added once of 29 times, and Embedding learnt so."""
    index, ones = LATE[name]().cast(dtypes.int64).to(device), Tensor.ones(29, device=device)
    zeros = Tensor.zeros(3, device=device)
    assert zeros.scatter_add(0, index, ones).tolist() == [0, 29, 0]
    assert zeros.scatter_add(0, index, index.cast(dtypes.float32)).tolist() == [0, 29, 0]
    assert zeros.scatter_reduce(0, index, ones * 3, "mean", include_self=False).tolist() == [0, 3, 0]
    assert (zeros + 1).scatter_reduce(0, index, ones * 2, "prod").tolist() == [1, 2**29, 1]
    weight = Tensor([[1.0], [2.0]], device=device, requires_grad=True)
    (slope,) = weight[index].sum().gradient(weight)
    assert slope.tolist() == [[0], [29]]


def test_one_of_two_axes_of_indices_is_found_to_be_equal() -> None:
    """The other one is data."""
    rows, weight = Tensor(np.array([[0], [1], [2]])), Tensor.ones(3, 1).requires_grad_()
    (slope,) = weight[rows + (Tensor.arange(8) >= 0) - 1].sum().gradient(weight)
    assert slope.tolist() == [[8], [8], [8]]


GRADIENTS: dict[str, Callable[[Tensor], Tensor]] = {
    "index": lambda x: x[ZEROS],
    "take": lambda x: x.take(ZEROS),
    "index_select": lambda x: x.index_select(0, ZEROS),
    "gather": lambda x: x.gather(0, ZEROS),
    "expanded": lambda x: x.gather(0, Tensor([0]).expand(4)),
}


@pytest.mark.parametrize("method", GRADIENTS)
def test_gradients(method: str) -> None:
    """An element that is read four times has four times the gradient."""
    x = leaf([1.0, 2.0, 3.0])
    GRADIENTS[method](x).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [4.0, 0.0, 0.0]


def test_embedding_of_one_token() -> None:
    """A batch of padding tokens alone."""
    layer = nn.Embedding(4, 2)
    layer.weight.requires_grad_(True)
    layer(Tensor.zeros(2, 3, dtype=dtypes.int32)).sum().backward()
    assert layer.weight.grad is not None and layer.weight.grad.tolist() == [[6.0, 6.0], [0, 0], [0, 0], [0, 0]]


def test_grid_sample_at_one_point() -> None:
    """The middle of four pixels, nine times."""
    image = leaf(np.ones((1, 1, 2, 2), np.float32))
    image.grid_sample(Tensor.zeros(1, 3, 3, 2), align_corners=True).sum().backward()
    assert image.grad is not None and image.grad.tolist() == [[[[2.25, 2.25], [2.25, 2.25]]]]
