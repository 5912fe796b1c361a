"""How many kernels things take: counted on the CPU, whatever the machine's speed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, nn


@pytest.fixture(autouse=True)
def cpu():
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def kernels(compute: Callable[[], Tensor]) -> int:
    """How many kernels a computation launches."""
    tensor = compute()
    GlobalCounters.reset()
    tensor.realize()
    return GlobalCounters.kernel_count


def normal(*shape: int) -> Tensor:
    """A realised tensor of random numbers."""
    return Tensor(np.random.default_rng(0).standard_normal(shape, dtype=np.float32)).realize()


@pytest.mark.parametrize("rows", [64, 67, 1000])
def test_softmax_is_one_kernel(rows):
    """Maximum, sum and quotient of a row are loops of one kernel."""
    x = normal(rows, 129)
    assert kernels(lambda: x.softmax()) == 1
    assert kernels(lambda: x.log_softmax()) == 1


@pytest.mark.parametrize("rows", [64, 101])
def test_layernorm_is_one_kernel(rows):
    """Mean, variance and scaling of a row are loops of one kernel, with weight and bias too."""
    x, layer = normal(rows, 96), nn.LayerNorm(96)
    Tensor.realize(*[t for t in (layer.weight, layer.bias) if t is not None])
    assert kernels(lambda: x.layernorm()) == 1
    assert kernels(lambda: layer(x)) == 1


def test_a_convolution_with_bias_and_relu_is_one_kernel():
    """Padding is a gate on loads, bias and relu are the end of the reduction."""
    x, w, b = normal(2, 3, 16, 16), normal(8, 3, 3, 3), normal(8)
    assert kernels(lambda: x.conv2d(w, b).relu()) == 1
    assert kernels(lambda: x.conv2d(w, b, padding=1, stride=2).relu()) == 1


def test_a_product_with_bias_and_activation_is_one_kernel():
    """What follows a product is computed where its sum ends."""
    x, w, b = normal(33, 20), normal(20, 17), normal(17)
    assert kernels(lambda: (x @ w + b).gelu()) == 1


@pytest.mark.parametrize("optimizer", [nn.optim.Adam, nn.optim.AdamW, nn.optim.SGD])
def test_an_optimizers_update_of_one_tensor_is_one_kernel(optimizer):
    """Means, powers and the parameter itself are stores of one kernel, Adam's powers of its betas too."""
    p = normal(64, 33)
    step = optimizer([p], lr=0.01)
    grad = normal(64, 33)
    with Tensor.train():
        for _ in range(2):
            p.grad = grad
            GlobalCounters.reset()
            step.step()
        assert GlobalCounters.kernel_count == 1
        assert GlobalCounters.kernels_compiled == 0


def test_equal_work_is_compiled_once():
    """Kernels are canonical: other tensors of the same shapes use the same program."""
    a, b = normal(40, 3), normal(40, 3)
    (a * 2 + 1).realize()
    GlobalCounters.reset()
    (b * 2 + 1).realize()
    assert (GlobalCounters.kernel_count, GlobalCounters.kernels_compiled) == (1, 0)


def test_a_realised_value_is_not_computed_again():
    """Reading twice launches once, and what was made from it before reads the memory."""
    x = normal(10)
    y = x * 2
    z = y + 1
    y.numpy()
    GlobalCounters.reset()
    y.numpy()
    assert GlobalCounters.kernel_count == 0
    assert z.tolist() == pytest.approx([v * 2 + 1 for v in x.tolist()])


def test_long_reductions_are_two_kernels_and_accurate():
    """A sum over a million numbers runs in parts; 256 of them are added with an error of at most 256 * 2**-24."""
    x = Tensor(np.full(1_000_003, 0.1, np.float32)).realize()
    assert kernels(lambda: x.sum()) == 2
    assert x.sum().item() == pytest.approx(1_000_003 * float(np.float32(0.1)), rel=256 * 2.0**-24)
