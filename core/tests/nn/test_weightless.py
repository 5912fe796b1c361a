"""Layers without weights, and the small ones with some, are PyTorch's, with its options in its order."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes, nn
from tinygraft.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers of that shape, float32, away from the corners of activations."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


plain = [
    "Identity",
    "ReLU",
    "ReLU6",
    "LeakyReLU",
    "ELU",
    "CELU",
    "SELU",
    "GELU",
    "SiLU",
    "Mish",
    "Sigmoid",
    "LogSigmoid",
    "Tanh",
    "Tanhshrink",
    "Softplus",
    "Softsign",
    "Softshrink",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "GLU",
    "PReLU",
]
ACTIVATIONS: list[tuple[str, tuple[Any, ...]]] = [
    *((name, ()) for name in plain), ("LeakyReLU", (0.3,)), ("ELU", (0.5,)), ("CELU", (0.5,)), ("GELU", ("tanh",)), ("GELU", ("none",)),
    ("Softplus", (2.0, 1.0)), ("Softshrink", (0.2,)), ("Hardshrink", (0.2,)), ("Hardtanh", (-0.3, 0.4)), ("Threshold", (0.1, 5.0)), ("GLU", (1,)),
    ("Softmax", (1,)), ("LogSoftmax", (1,)), ("Softmin", (1,)), ("PReLU", (4, 0.1)), ("Dropout", ()), ("RReLU", ()), ("AlphaDropout", ()),
    ("Flatten", ()), ("Flatten", (0, 1)), ("Unflatten", (1, (2, 2))),
]  # fmt: skip
POOLS: list[tuple[str, int, tuple[Any, ...]]] = [
    *((f"{kind}Pool{n}d", n, options) for n in (1, 2, 3) for kind, options in (("Max", (2,)), ("Max", (3, 2, 1)), ("Avg", (2,)), ("Avg", (3, 2, 1, True, False)), ("AdaptiveAvg", (3,)), ("AdaptiveMax", (2,)))),
    ("MaxPool2d", 2, ((2, 3), (1, 2), 0, (2, 1), False, True)), ("AvgPool2d", 2, (2, None, 0, False, True, 3)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "options"), ACTIVATIONS, ids=[f"{n}{o}" for n, o in ACTIVATIONS])
def test_activations_are_pytorchs(name: str, options: tuple[Any, ...]) -> None:
    """Outside of training mode."""
    x = numbers(3, 4, 6)
    theirs = getattr(torch.nn, name)(*options).eval()(torch.tensor(x))
    found = getattr(nn, name)(*options)(Tensor(x))
    np.testing.assert_allclose(found.numpy(), theirs.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "axes", "options"), POOLS, ids=[f"{n}{o}" for n, _, o in POOLS])
def test_pools_are_pytorchs(name: str, axes: int, options: tuple[Any, ...]) -> None:
    """Kernels, strides, padding and the others by position."""
    x = numbers(2, 3, *(7, 6, 5)[:axes])
    theirs = getattr(torch.nn, name)(*options)(torch.tensor(x))
    np.testing.assert_allclose(getattr(nn, name)(*options)(Tensor(x)).numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["MaxPool2d", "AdaptiveMaxPool2d"])
def test_numbers_of_the_greatest(name: str) -> None:
    """return_indices."""
    x = numbers(1, 2, 4, 4)
    mine = getattr(nn, name)(2, return_indices=True)(Tensor(x))
    theirs = getattr(torch.nn, name)(2, return_indices=True)(torch.tensor(x))
    for a, b in zip(mine, theirs, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize(("name", "axes"), [("Dropout", 2), ("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3)])
def test_dropout_drops_in_training_mode(name: str, axes: int) -> None:
    """Elements, or whole channels, and scales what stays."""
    Tensor.manual_seed(0)
    x = Tensor.ones(8, 16, *(3,) * axes)
    layer = getattr(nn, name)(0.25)
    assert layer(x).min().item() == 1
    with Tensor.train():
        found = layer(x).numpy()
    np.testing.assert_allclose(found[found != 0], 4 / 3, rtol=1e-6)
    assert 0.15 < (found == 0).mean() < 0.35
    whole = (found.reshape(8, 16, -1).std(-1) < 1e-6).all()
    assert whole == (name != "Dropout")


@pytest.mark.parametrize("name", ["AlphaDropout", "FeatureAlphaDropout", "RReLU"])
def test_other_draws_keep_the_shape(name: str) -> None:
    """And are only made in training mode."""
    x = Tensor(numbers(4, 6, 5))
    still = getattr(nn, name)()(x).numpy()
    with Tensor.train():
        found = getattr(nn, name)()(x).numpy()
    assert found.shape == still.shape
    assert not np.allclose(found, still)


@pytest.mark.parametrize(("axes", "kernel"), [(1, 3), (2, 3), (3, 2)])
def test_convolutions_are_pytorchs(axes: int, kernel: int) -> None:
    """Conv1d to 3d and their transposes, with a PyTorch state_dict."""
    for name, options in (
        (f"Conv{axes}d", {"stride": 2, "padding": 1, "groups": 2}),
        (f"ConvTranspose{axes}d", {"stride": 2, "output_padding": 1}),
    ):
        theirs, ours = getattr(torch.nn, name)(4, 6, kernel, **options), getattr(nn, name)(4, 6, kernel, **options)
        nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)
        x = numbers(2, 4, *(5, 6, 7)[:axes])
        np.testing.assert_allclose(
            ours(Tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize(
    "options", [{}, {"mode": "sum", "include_last_offset": True}, {"mode": "max", "padding_idx": 3}], ids=str
)
def test_an_embedding_bag_is_pytorchs(options: dict[str, Any]) -> None:
    """With offsets; the padding row begins as zeros, the others are normal."""
    theirs, ours = torch.nn.EmbeddingBag(10, 4, **options), nn.EmbeddingBag(10, 4, **options)
    if "padding_idx" in options:
        assert ours.weight[3].abs().max().item() == 0
    nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)
    index, offsets = np.array([1, 2, 9, 3, 3, 1]), np.array([0, 2, 3])
    wanted = theirs(torch.tensor(index), torch.tensor(offsets))
    np.testing.assert_allclose(ours(Tensor(index), Tensor(offsets)).numpy(), wanted.detach().numpy(), rtol=1e-5)
    table = nn.EmbeddingBag(200, 50).weight.numpy()
    assert abs(table.mean()) < 0.05
    assert abs(table.std() - 1) < 0.05


def test_bilinear_is_pytorchs() -> None:
    """And its first values are uniform within 1/sqrt(in1)."""
    theirs, ours = torch.nn.Bilinear(16, 5, 6), nn.Bilinear(16, 5, 6)
    assert 0.22 < np.abs(ours.weight.numpy()).max() <= 0.25
    nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)
    a, b = numbers(2, 16), numbers(2, 5)
    np.testing.assert_allclose(
        ours(Tensor(a), Tensor(b)).numpy(),
        theirs(torch.tensor(a), torch.tensor(b)).detach().numpy(),
        rtol=1e-4,
        atol=1e-5,
    )


def test_prelu_learns_in_half_types() -> None:
    """Its weight is used in the dtype of the input, and gets a gradient."""
    layer = nn.PReLU(2)
    layer.weight.requires_grad = True
    out = layer(Tensor(numbers(3, 2)).half())
    out.sum().backward()
    assert out.dtype is dtypes.float16
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype is dtypes.float32


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.Dropout(1.5), ValueError, "Dropout needs a probability from 0 to 1, got 1.5"),
    (lambda: nn.EmbeddingBag(3, 2, mode="least"), ValueError, "EmbeddingBag puts rows together by sum, mean or max, got 'least'"),
    (lambda: nn.EmbeddingBag(3, 2, padding_idx=3), ValueError, "EmbeddingBag needs a padding_idx of its 3 rows, got 3"),
    (lambda: nn.EmbeddingBag(3, 2)(Tensor([1.0]), Tensor([0])), DTypeError, "embedding_bag needs integers"),
    (lambda: nn.Bilinear(3, 2, 1)(Tensor.ones(1, 2), Tensor.ones(1, 2)), ShapeError, "bilinear needs"),
    (lambda: nn.Conv3d(4, 2, 3)(Tensor.ones(1, 3, 5, 5, 5)), ShapeError, r"needs x \(N, 4, size, size, size\)"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:30] for _, _, message in BAD])
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    """What does not fit is named."""
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize("name", ["ReLU", "ReLU6", "LeakyReLU", "ELU", "CELU", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish",
                                  "Hardtanh", "RReLU", "Dropout", "AlphaDropout"])  # fmt: skip
def test_in_place(name: str) -> None:
    """The result is the argument, of which views see it; without inplace the argument stays."""
    numbers = np.array([-4.0, -0.5, 0.5, 7.0], np.float32)
    layer, plain = getattr(nn, name)(inplace=True), getattr(nn, name)()
    assert repr(layer) == f"{name}(inplace=True)"
    x = Tensor(numbers.copy())
    part = x[1:]
    wanted = plain(Tensor(numbers)).numpy()
    assert layer(x) is x
    assert x.numpy().tolist() == wanted.tolist()
    assert part.numpy().tolist() == wanted[1:].tolist()
    y = Tensor(numbers)
    plain(y).realize()
    assert y.numpy().tolist() == numbers.tolist()


def test_gradients_through_what_was_written_over() -> None:
    """As in PyTorch, what follows sees the new values, and the layer before it gets the gradient."""
    torch = pytest.importorskip("torch", reason="a second opinion; not in the test group")
    numbers = np.linspace(-1, 1, 12).astype(np.float32).reshape(3, 4)
    ours, theirs = nn.Linear(4, 4), torch.nn.Linear(4, 4)
    ours.weight.assign(Tensor(theirs.weight.detach().numpy())).realize()
    assert ours.bias is not None
    ours.bias.assign(Tensor(theirs.bias.detach().numpy())).realize()
    h, k = ours(Tensor(numbers)), theirs(torch.tensor(numbers))
    (nn.ReLU(inplace=True)(h) * 3 + h).square().sum().backward()
    (torch.nn.ReLU(inplace=True)(k) * 3 + k).square().sum().backward()
    assert ours.weight.grad is not None
    np.testing.assert_allclose(ours.weight.grad.numpy(), theirs.weight.grad.numpy(), rtol=1e-5, atol=1e-6)
