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


@pytest.mark.parametrize(("rows", "inner", "columns"), [(33, 7001, 37), (16, 12_289, 9)])
def test_a_long_product_is_two_kernels_with_the_values_of_one(rows, inner, columns):
    """Parts, and their sum with what follows it; no thread count, but the length alone, says where to cut."""
    r = np.random.default_rng(1)
    a, b = (r.standard_normal(s, dtype=np.float32) for s in ((rows, inner), (inner, columns)))
    x, y = Tensor(a).realize(), Tensor(b).realize()
    assert kernels(lambda: (x @ y).relu() + 1) == 2
    wanted = np.maximum(a.astype(np.float64) @ b, 0) + 1
    np.testing.assert_allclose(((x @ y).relu() + 1).numpy(), wanted, rtol=1e-4, atol=1e-3)


def test_the_gradient_of_a_convolutions_input():
    """One reduction over the channels and the windows that cover an element. With a stride most windows do not cover
    it: then what each window adds is stored, and summed in a second kernel."""
    g, w = normal(2, 8, 9, 9), normal(8, 5, 3, 3)
    for stride, padding, count in ((1, 1, 1), (2, 1, 2), (1, 0, 1)):
        side = (9 - 1) * stride + 3 - 2 * padding
        x = normal(2, 5, side, side)
        x.requires_grad = True
        y = x.conv2d(w, stride=stride, padding=padding)
        assert kernels(lambda x=x, y=y: y.gradient(x, gradient=g)[0]) == count
        (ours,) = y.gradient(x, gradient=g)
        wanted = np.zeros((2, 5, side + 2 * padding, side + 2 * padding))
        for ky in range(3):
            for kx in range(3):
                part = np.einsum("nohw,oc->nchw", g.numpy(), w.numpy()[:, :, ky, kx])
                wanted[:, :, ky : ky + 9 * stride : stride, kx : kx + 9 * stride : stride] += part
        inside = slice(padding, side + padding)
        np.testing.assert_allclose(ours.numpy(), wanted[:, :, inside, inside], rtol=1e-4, atol=1e-4)


def test_attention_is_three_kernels():
    """Scores with scale and mask, their softmax, and the sum over values."""
    q, k, v = normal(2, 4, 32, 16), normal(2, 4, 32, 16), normal(2, 4, 32, 16)
    with Context(ROUTINES=0):
        assert kernels(lambda: q.scaled_dot_product_attention(k, v, is_causal=True)) == 3


def test_gelu_after_a_product_keeps_what_its_gradient_needs_and_no_more():
    """The product and its GELU are stored by one kernel; the gradient of the product is one more."""
    x, w, after = normal(64, 48), normal(48, 80), normal(80, 48)
    hidden = x @ w
    out = hidden.gelu() @ after
    (slope,) = out.sum().gradient(hidden)
    GlobalCounters.reset()
    Tensor.realize(out, slope)
    assert GlobalCounters.kernel_count == 3
    assert GlobalCounters.global_mem <= 4 * (64 * 48 * 2 + 48 * 80 * 3 + 64 * 80 * 6 + 4096)


def test_batch_norm_of_a_trained_model_is_the_end_of_its_convolution():
    """Scale and shift, then relu and a residual, are computed where the sum ends."""
    x, w, norm = normal(2, 6, 9, 9), normal(6, 6, 3, 3), nn.BatchNorm(6)
    Tensor.realize(*nn.state.get_parameters(norm))
    assert kernels(lambda: (norm(x.conv2d(w, padding=1)) + x).relu()) == 1


def test_cross_entropy_writes_nothing_as_large_as_its_scores():
    """Over many classes: the maximum, the sum of exponentials and the loss come from reading the scores."""
    scores, labels = normal(64, 5003), Tensor(np.arange(64, dtype=np.int32)).realize()
    GlobalCounters.reset()
    scores.sparse_categorical_crossentropy(labels).realize()
    assert GlobalCounters.kernel_count <= 3
    assert GlobalCounters.global_mem <= 2.1 * 64 * 5003 * 4


def test_threads_divide_one_loop_of_each_store_in_a_kernel_of_several():
    """A shortcut's gradients, of 1x1 weights with a stride, as in ResNets: two values and a sum are one kernel's.

    The loop over rows of the sum's tile is not the outermost of the values: were both divided, each thread would
    compute a part of its part, and a quarter to a half of the values would be those of old memory.
    """
    found = []
    for noopt in (0, 1):
        x, after, shortcut = normal(32, 8, 4, 4), normal(32, 32, 2, 2), normal(32, 8, 1, 1)
        w = normal(8, 8, 3, 3)
        loss = (x.conv2d(w, padding=1).relu().conv2d(shortcut, stride=2) * after).sum()
        with Context(NOOPT=noopt, CACHELEVEL=0):
            slopes = loss.gradient(w, shortcut)
            Tensor.realize(*slopes)
            found.append([slope.numpy() for slope in slopes])
    for got, want in zip(*found, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
