"""Whole tensor expressions on PYTHON, the simulated GPU and CPU: the same program, the same values."""

from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.config import Context
from tinygraft.device.registry import Device

Make = Callable[..., Tensor]


@pytest.fixture(autouse=True)
def gpusim(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The simulated GPUs as devices like any other."""
    entries = Device._entries
    specs = {"gpusim": "gpusim:SPEC", "gpuplain": "gpusim:PLAIN_SPEC"}
    added = [EntryPoint(name, spec, "tinygraft.devices") for name, spec in specs.items()]
    monkeypatch.setattr(Device, "_entries", lambda: [*entries(), *added])
    Device.refresh()
    yield
    monkeypatch.undo()
    Device.refresh()


def numbers(*shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    """Small whole numbers as float32, whose sums are exact in any order."""
    return np.random.default_rng(seed).integers(-4, 5, shape).astype(np.float32)


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Along the last axis."""
    e = np.exp((x - x.max(-1, keepdims=True)).astype(np.float64))
    return np.asarray(e / e.sum(-1, keepdims=True))


A, B, C = numbers(7, 11), numbers(11, 5, seed=1), numbers(2, 3, 9, 7, seed=2)
W = numbers(4, 3, 3, 3, seed=3)
ROWS = np.array([3, 0, 6, 6, 1])
P, Q, R = numbers(37, 41), numbers(41, 43, seed=4), numbers(43, seed=5)  # for tiles
D, E = numbers(2, 5, 11, 13, seed=6), numbers(7, 5, 3, 3, seed=7)


def conv(x: np.ndarray[Any, Any], w: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A plain convolution."""
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[2:], (2, 3))
    return np.einsum("bcyxij,ocij->boyx", windows, w)


# What is computed, from a function that puts an array on the device, and what numpy says of it.
EXPRESSIONS: dict[str, tuple[Callable[[Make], Tensor], Any]] = {
    "sum": (lambda t: t(A).sum(), A.sum()),
    "sum of columns": (lambda t: t(A).sum(0), A.sum(0)),
    "greatest of rows": (lambda t: t(A).max(1), A.max(1)),
    "place of the least": (lambda t: t(A).argmin(1), A.argmin(1)),
    "matmul": (lambda t: t(A) @ t(B), A @ B),
    "matmul of halves": (lambda t: (t(A).half() @ t(B).half()).float(), A @ B),
    "matmul of bfloat16": (lambda t: (t(A).bfloat16() @ t(B).bfloat16()).float(), A @ B),
    "convolution": (lambda t: t(C).conv2d(t(W)), conv(C, W)),
    "pooling": (lambda t: t(C).max_pool2d((3, 3), stride=1),
                np.lib.stride_tricks.sliding_window_view(C, (3, 3), (2, 3)).max((4, 5))),
    "softmax": (lambda t: t(A).softmax(), softmax(A)),
    "running sum": (lambda t: t(A).cumsum(1), A.cumsum(1)),
    "movement": (lambda t: t(C).permute(3, 0, 2, 1).flip(1).pad(((1, 0), None, (0, 2), None)).reshape(8, -1),
                 np.pad(np.flip(C.transpose(3, 0, 2, 1), 1), ((1, 0), (0, 0), (0, 2), (0, 0))).reshape(8, -1)),
    "rows by index": (lambda t: t(A)[t(ROWS)], A[ROWS]),
    "floor division": (lambda t: t(A.astype(np.int32)) // t(np.full_like(A, -3, np.int32)), A.astype(np.int32) // -3),
    "mean and variance": (lambda t: t(A).var(1, correction=0), A.var(1)),
    "choice": (lambda t: (t(A) > 0).where(t(A), t(A) * 0.5), np.where(A > 0, A, A * 0.5)),
    "wide matmul": (lambda t: t(P) @ t(Q), P @ Q),
    "transposed matmul": (lambda t: t(Q).T @ t(P).T, Q.T @ P.T),
    "layer": (lambda t: (t(P).relu() @ t(Q) + t(R)).relu(), np.maximum(np.maximum(P, 0) @ Q + R, 0)),
    "products in a batch": (lambda t: t(D) @ t(D).transpose(2, 3), D @ D.swapaxes(2, 3)),
    "convolution with a border": (lambda t: t(D).conv2d(t(E), padding=1),
                                  conv(np.pad(D, ((0, 0), (0, 0), (1, 1), (1, 1))), E)),
    "long softmax": (lambda t: t(numbers(3, 1009)).softmax(), softmax(numbers(3, 1009))),
    "softmax of a matmul": (lambda t: (t(P) @ t(Q) / 32).softmax(), softmax(P @ Q / 32)),
    "one sum": (lambda t: t(numbers(40, 1009)).sum(), numbers(40, 1009).sum()),
    "wide": (lambda t: (t(numbers(3, 1000)) * 2 + 1).sum(1), (numbers(3, 1000) * 2 + 1).sum(1)),
}  # fmt: skip


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("device", ["PYTHON", "GPUSIM", "GPUPLAIN", "CPU"])
def test_expression_agrees_with_numpy(device: str, name: str) -> None:
    """A tensor expression has numpy's values on each device, exactly where every step of it is exact."""
    build, want = EXPRESSIONS[name]
    got = build(lambda array: Tensor(array, device=device)).numpy()
    assert got.shape == np.shape(want)
    if "softmax" in name or name == "mean and variance":
        np.testing.assert_allclose(got, want, rtol=2e-6)
    else:
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_plain_loops_give_the_same_on_the_gpu(name: str) -> None:
    """With NOOPT=1 a kernel of the simulated GPU is plain loops and computes the same."""
    build, want = EXPRESSIONS[name]
    with Context(NOOPT=1):
        got = build(lambda array: Tensor(array, device="GPUSIM")).numpy()
    np.testing.assert_allclose(got, want, rtol=2e-6)


def test_random_numbers_are_equal_on_every_device() -> None:
    """rand and randint give the same bits on each device for the same seed."""
    drawn = []
    for device in ("PYTHON", "GPUSIM", "CPU"):
        Tensor.manual_seed(42)
        uniform = Tensor.rand(37, device=device).numpy()
        whole = Tensor.randint(37, low=-5, high=1000, device=device).numpy()
        drawn.append((uniform.tobytes(), whole.tobytes()))
    assert drawn[0] == drawn[1] == drawn[2]


def test_gradients_agree_on_every_device() -> None:
    """The gradient of a small network with a convolution is the same on each device up to rounding."""
    found = []
    for device in ("PYTHON", "GPUSIM", "GPUPLAIN", "CPU"):
        x, w = Tensor(C, device=device, requires_grad=True), Tensor(W / 64, device=device, requires_grad=True)
        loss = x.conv2d(w).relu().flatten(1).log_softmax().square().mean()
        loss.backward()
        assert x.grad is not None
        assert w.grad is not None
        found.append((x.grad.numpy(), w.grad.numpy()))
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_allclose(theirs, mine, rtol=1e-4, atol=1e-6)


def test_a_dtype_that_only_one_device_lacks() -> None:
    """Half and bfloat16 arithmetic is rounded after every op alike, native or widened."""
    x = np.arange(1, 40, dtype=np.float32) / 7
    found = []
    for device in ("PYTHON", "GPUSIM", "CPU"):
        half = Tensor(x, device=device).cast(dtypes.float16)
        brain = Tensor(x, device=device).cast(dtypes.bfloat16)
        found.append(((half * half + half).numpy().tobytes(), (brain / 3 - brain * brain).float().numpy().tobytes()))
    assert found[0] == found[1] == found[2]
