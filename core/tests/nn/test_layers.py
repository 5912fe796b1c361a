"""nn layers: their values are those of the formulas, computed with numpy, and a wrong shape is named."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError

CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers of that shape, float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def value(tensor: Tensor | None) -> Any:
    """A tensor's numbers in float64."""
    assert tensor is not None
    return tensor.numpy().astype(np.float64)


def fill(layer: Any) -> Any:
    """The layer with all its float tensors set to numbers of our own."""
    for place, tensor in enumerate(nn.state.get_parameters(layer)):
        if dtypes.is_float(tensor.dtype):
            tensor.assign(Tensor(numbers(*tensor.shape, seed=place + 1)))
    return layer


def normalized(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    """x with mean 0 and variance 1 over axes."""
    x = x.astype(np.float64)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def convolved(x: Any, weight: Any, stride: int, padding: Any, dilation: int, groups: int) -> Any:
    """A convolution of any rank by its definition. padding is (before, after) for each spatial axis."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), *padding))
    spatial = x.ndim - 2
    size = tuple((k - 1) * dilation + 1 for k in weight.shape[2:])
    windows = np.lib.stride_tricks.sliding_window_view(x, size, tuple(range(2, x.ndim)))
    steps = (slice(None, None, stride),) * spatial + (slice(None, None, dilation),) * spatial
    windows = windows[(slice(None), slice(None), *steps)]
    out = []
    for part, kernel in zip(np.split(windows, groups, 1), np.split(weight, groups, 0), strict=True):
        axes = [1, *range(2 + spatial, 2 + 2 * spatial)]
        out.append(np.moveaxis(np.tensordot(part, kernel, (axes, [1, *range(2, 2 + spatial)])), -1, 1))
    return np.concatenate(out, 1)


def test_linear() -> None:
    """x @ weight.T + bias, for any leading axes."""
    layer = fill(nn.Linear(5, 3))
    x = numbers(2, 4, 5)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), x @ value(layer.weight).T + value(layer.bias), **CLOSE)
    bare = fill(nn.Linear(5, 3, bias=False))
    np.testing.assert_allclose(bare(Tensor(x)).numpy(), x @ value(bare.weight).T, **CLOSE)


def test_first_weights_are_uniform_by_fan_in() -> None:
    """Linear and Conv2d draw from +-1/sqrt(fan in): inside the bound, near it, with mean near 0, seeded."""
    for make, fan_in in ((lambda: nn.Linear(64, 50), 64), (lambda: nn.Conv2d(8, 16, 5), 200),
                         (lambda: nn.ConvTranspose2d(32, 50, 2), 200)):  # fmt: skip
        Tensor.manual_seed(3)
        layer = make()
        for tensor, room in ((layer.weight, 0.02), (layer.bias, 0.35)):
            found = value(tensor) * math.sqrt(fan_in)
            assert 1 - room < np.abs(found).max() <= 1
            assert abs(found.mean()) < room + 0.02
        Tensor.manual_seed(3)
        np.testing.assert_array_equal(make().weight.numpy(), layer.weight.numpy())


@pytest.mark.parametrize(
    ("spatial", "stride", "padding", "dilation", "groups"),
    [((7, 6), 1, 0, 1, 1), ((7, 6), 2, 1, 1, 2), ((9, 8), 1, 2, 2, 1), ((7,), 1, 1, 1, 1), ((5, 4, 3), 1, 1, 1, 1)],
)
def test_conv(spatial: tuple[int, ...], stride: int, padding: int, dilation: int, groups: int) -> None:
    """Convolutions of 1, 2 and 3 axes with stride, padding, dilation and groups equal the definition."""
    kernel = (3, 2, 2)[: len(spatial)]
    layer = fill(nn.Conv2d(4, 6, kernel, stride, padding, dilation, groups))
    x = numbers(2, 4, *spatial)
    expected = convolved(x, value(layer.weight), stride, [(padding, padding)] * len(spatial), dilation, groups)
    expected += value(layer.bias).reshape(1, -1, *(1,) * len(spatial))
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


def test_conv1d_is_conv2d_with_one_axis() -> None:
    """Conv1d takes (N, C, L)."""
    layer = fill(nn.Conv1d(2, 3, 4, stride=3, bias=False))
    x = numbers(2, 2, 13)
    expected = convolved(x, value(layer.weight), 3, [(0, 0)], 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


@pytest.mark.parametrize(("kernel", "dilation"), [((3, 3), 1), ((4, 3), 1), ((2, 5), 2)])
def test_conv_same_keeps_the_size(kernel: tuple[int, int], dilation: int) -> None:
    """padding='same' pads half of what is missing before, the rest after, axis by axis."""
    layer = fill(nn.Conv2d(2, 3, kernel, padding="same", dilation=dilation, bias=False))
    x = numbers(1, 2, 6, 7)
    totals = [(k - 1) * dilation for k in kernel]
    expected = convolved(x, value(layer.weight), 1, [(t // 2, t - t // 2) for t in totals], dilation, 1)
    assert expected.shape == (1, 3, 6, 7)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


@pytest.mark.parametrize(("stride", "padding", "extra", "groups"), [(1, 0, 0, 1), (2, 1, 1, 1), (3, 0, 2, 2)])
def test_conv_transpose(stride: int, padding: int, extra: int, groups: int) -> None:
    """Each input value adds its kernel to the output, by the definition; output_padding adds at the end."""
    layer = fill(nn.ConvTranspose2d(4, 6, (3, 2), stride, padding, extra, groups=groups))
    x, weight = numbers(2, 4, 5, 3), value(layer.weight)
    height, width = ((s - 1) * stride + k + extra for s, k in zip((5, 3), (3, 2), strict=True))
    out = np.zeros((2, 6, height, width))
    for group in range(groups):
        ins, outs = (
            slice(group * 4 // groups, (group + 1) * 4 // groups),
            slice(group * 6 // groups, (group + 1) * 6 // groups),
        )
        for i in range(5):
            for j in range(3):
                spot = (slice(None), outs, slice(i * stride, i * stride + 3), slice(j * stride, j * stride + 2))
                out[spot] += np.einsum("nc,cokl->nokl", x[:, ins, i, j], weight[ins])
    out = out[:, :, padding : height - padding, padding : width - padding] + value(layer.bias).reshape(1, -1, 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), out, **CLOSE)


def test_batchnorm_in_training() -> None:
    """Normalised by the batch; the running mean and the unbiased variance move by a tenth; the count goes up."""
    layer = nn.BatchNorm(3)
    x = numbers(4, 3, 5, 2) * 3 + 1
    with Tensor.train():
        y = layer(Tensor(x))
    np.testing.assert_allclose(y.numpy(), normalized(x, (0, 2, 3)), **CLOSE)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.1 * x.mean((0, 2, 3)), **CLOSE)
    unbiased = x.astype(np.float64).var((0, 2, 3), ddof=1)
    np.testing.assert_allclose(layer.running_var.numpy(), 0.9 + 0.1 * unbiased, **CLOSE)
    assert layer.num_batches_tracked.item() == 1
    with Tensor.train():
        layer(Tensor(x)).realize(layer.running_mean, layer.running_var, layer.num_batches_tracked)
    np.testing.assert_allclose(layer.running_mean.numpy(), 0.19 * x.mean((0, 2, 3)), **CLOSE)
    assert layer.num_batches_tracked.tolist() == 2


def test_batchnorm_outside_training() -> None:
    """The running statistics are used, and not changed."""
    layer = fill(nn.BatchNorm(3, eps=1e-3))
    layer.running_var.assign(layer.running_var.square() + 0.5)
    x = numbers(4, 3, 2)
    mean, var, weight, bias = (
        value(t).reshape(1, 3, 1) for t in (layer.running_mean, layer.running_var, layer.weight, layer.bias)
    )
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), (x - mean) / np.sqrt(var + 1e-3) * weight + bias, **CLOSE)
    assert layer.num_batches_tracked.item() == 0


def test_batchnorm_without_statistics() -> None:
    """track_running_stats=False measures the batch in both modes; affine=False has no parameters."""
    layer = nn.BatchNorm(3, affine=False, track_running_stats=False)
    x = numbers(4, 3)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), normalized(x, (0,)), **CLOSE)
    assert (layer.weight, layer.bias) == (None, None)


def test_batchnorm_of_a_number_of_axes() -> None:
    """BatchNorm takes any; the others are it, for the axes that PyTorch's take. They print as they are written."""
    for kind, fits in (
        (nn.BatchNorm, (2, 3, 4, 5)),
        (nn.BatchNorm1d, (2, 3)),
        (nn.BatchNorm2d, (4,)),
        (nn.BatchNorm3d, (5,)),
    ):
        layer = kind(3)
        assert isinstance(layer, nn.BatchNorm)
        assert repr(layer) == f"{kind.__name__}(sz=3)"
        for axes in range(1, 6):
            x = Tensor.ones(2, 3, *(2,) * (axes - 2)) if axes > 1 else Tensor.ones(3)
            if axes in fits:
                assert layer(x).shape == x.shape
            else:
                with pytest.raises(ShapeError, match="needs x"):
                    layer(x)


def test_layernorm() -> None:
    """Over the last axes, scaled and shifted by weight and bias of their shape."""
    layer = fill(nn.LayerNorm((3, 4)))
    x = numbers(5, 3, 4)
    expected = normalized(x, (1, 2)) * value(layer.weight) + value(layer.bias)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


def test_layernorm2d() -> None:
    """Over the channels of each pixel."""
    layer = fill(nn.LayerNorm2d(6))
    x = numbers(2, 6, 3, 4)
    expected = normalized(x, (1,)) * value(layer.weight).reshape(1, 6, 1, 1) + value(layer.bias).reshape(1, 6, 1, 1)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


def test_groupnorm_and_instancenorm() -> None:
    """Over the channels of each group and all pixels; InstanceNorm has one channel for each group."""
    x = numbers(2, 6, 3, 4)
    for layer, groups in ((fill(nn.GroupNorm(2, 6)), 2), (fill(nn.InstanceNorm(6)), 6)):
        expected = normalized(x.reshape(2, groups, -1), (2,)).reshape(x.shape)
        expected = expected * value(layer.weight).reshape(1, 6, 1, 1) + value(layer.bias).reshape(1, 6, 1, 1)
        np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)


def test_rmsnorm() -> None:
    """x over the root of the mean square; a half input gives a half output."""
    layer = fill(nn.RMSNorm(5))
    x = numbers(3, 5)
    expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-6) * value(layer.weight)
    np.testing.assert_allclose(layer(Tensor(x)).numpy(), expected, **CLOSE)
    assert nn.RMSNorm(5, elementwise_affine=False)(Tensor(x).half()).dtype is dtypes.float16


def test_embedding() -> None:
    """The rows of the table, for an index of any shape; the gradient is the count of each row."""
    layer = nn.Embedding(10, 4)
    index = np.array([[1, 2, 9], [0, 1, 1]], np.int32)
    np.testing.assert_array_equal(layer(Tensor(index)).numpy(), layer.weight.numpy()[index])
    layer.weight.requires_grad = True
    layer(Tensor(index)).sum().backward()
    assert layer.weight.grad is not None
    np.testing.assert_array_equal(layer.weight.grad.numpy()[:, 0], np.bincount(index.ravel(), minlength=10))


def test_lstm_cell() -> None:
    """Two steps of the gates' formulas, the first without a state."""
    cell = fill(nn.LSTMCell(3, 4))
    wi, wh, bi, bh = map(value, (cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh))
    x = numbers(2, 2, 3)
    h = c = np.zeros((2, 4))
    state = None
    for step in range(2):
        state = cell(Tensor(x[step]), state)
        i, f, g, o = np.split(x[step] @ wi.T + bi + h @ wh.T + bh, 4, 1)
        c = 1 / (1 + np.exp(-f)) * c + 1 / (1 + np.exp(-i)) * np.tanh(g)
        h = 1 / (1 + np.exp(-o)) * np.tanh(c)
        np.testing.assert_allclose(state[0].numpy(), h, **CLOSE)
        np.testing.assert_allclose(state[1].numpy(), c, **CLOSE)


BAD = [
    (lambda: nn.Linear(3, 2), (4, 5), "Linear with weight (2, 3) needs 3 features on the last axis, got shape (4, 5)"),
    (lambda: nn.Linear(3, 2), (), "Linear with weight (2, 3) needs 3 features on the last axis, got shape ()"),
    (lambda: nn.Conv2d(3, 2, 5), (1, 4, 9, 9), "Conv2d with weight (2, 3, 5, 5) needs x (N, 3, size, size), got shape (1, 4, 9, 9)"),
    (lambda: nn.Conv2d(4, 2, 1, groups=2), (1, 2, 9, 9), "Conv2d with weight (2, 2, 1, 1) needs x (N, 4, size, size), got shape (1, 2, 9, 9)"),
    (lambda: nn.Conv1d(3, 2, 5), (3, 9), "Conv1d with weight (2, 3, 5) needs x (N, 3, size), got shape (3, 9)"),
    (lambda: nn.ConvTranspose2d(3, 2, 2), (1, 2, 4, 4), "ConvTranspose2d with weight (3, 2, 2, 2) needs x (N, 3, size, size), got shape (1, 2, 4, 4)"),
    (lambda: nn.BatchNorm(3), (2, 4, 5), "BatchNorm of 3 channels needs x (N, 3, ...), got shape (2, 4, 5)"),
    (lambda: nn.LayerNorm((3, 4)), (4, 3), "LayerNorm of (3, 4) needs x (..., 3, 4), got shape (4, 3)"),
    (lambda: nn.LayerNorm2d(3), (1, 4, 2, 2), "LayerNorm2d of 3 channels needs x (N, 3, H, W), got shape (1, 4, 2, 2)"),
    (lambda: nn.GroupNorm(2, 4), (1, 3, 2), "GroupNorm of 4 channels needs x (N, 4, ...), got shape (1, 3, 2)"),
    (lambda: nn.InstanceNorm(4), (1, 3, 2), "InstanceNorm of 4 channels needs x (N, 4, ...), got shape (1, 3, 2)"),
    (lambda: nn.RMSNorm(4), (2, 3), "RMSNorm of 4 needs that on the last axis, got (2, 3)"),
    (lambda: nn.LSTMCell(3, 4), (2, 5), "LSTMCell with weight_ih (16, 3) needs x (N, 3), got shape (2, 5)"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("make", "shape", "message"), BAD, ids=[message.split()[0] + str(shape) for _, shape, message in BAD]
)
def test_a_wrong_shape_is_named(make: Any, shape: tuple[int, ...], message: str) -> None:
    """The sentence names both shapes, and the user's line that made the input."""
    with pytest.raises(ShapeError) as caught:
        make()(Tensor.ones(*shape))
    first, second, *hint = str(caught.value).split("\n")
    assert first == message
    assert "test_layers.py:" in second
    assert hint == (["  hint: x.unsqueeze(0) makes a batch of one"] if shape == (3, 9) else [])


def test_a_wrong_state_is_named() -> None:
    """LSTMCell says which part of the state does not fit."""
    with pytest.raises(ShapeError, match=r"LSTMCell needs c \(2, 4\) beside x \(2, 3\), got shape \(1, 4\)"):
        nn.LSTMCell(3, 4)(Tensor.ones(2, 3), (Tensor.ones(2, 4), Tensor.ones(1, 4)))


def test_batchnorm_of_one_value_is_refused() -> None:
    """In training one value for each channel has no variance."""
    with Tensor.train(), pytest.raises(ShapeError, match=r"more than one value for each channel, got shape \(1, 3\)"):
        nn.BatchNorm(3)(Tensor.ones(1, 3))


def test_embedding_wants_integers() -> None:
    """An index of floats is a mistake."""
    with pytest.raises(DTypeError, match=r"Embedding looks up integers, got dtypes\.float of shape \(2,\)"):
        nn.Embedding(10, 4)(Tensor([1.0, 2.0]))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: nn.ConvTranspose2d(3, 3, 3, 2, 1, 1, 3, False),
            "ConvTranspose2d takes a number of groups, got False\n  hint: give bias=False by its name",
        ),
        (lambda: nn.Conv2d(3, 4, 1, groups=2), "Conv2d in 2 groups needs channels that 2 divides, got 3 in and 4 out"),
        (lambda: nn.Conv2d(3, 4, 3, stride=2, padding="same"), "padding='same' needs stride 1, got stride 2"),
        (lambda: nn.Conv2d(3, 4, 3, padding="valid"), "padding is an int, a tuple of ints or 'same', got 'valid'"),
        (lambda: nn.GroupNorm(3, 4), "3 groups do not divide 4 channels"),
    ],
)
def test_a_layer_that_cannot_be_is_refused(make: Any, message: str) -> None:
    """A layer whose numbers do not fit together is refused when it is made."""
    with pytest.raises(ShapeError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_batch_norm_without_momentum_has_the_mean_of_all_batches() -> None:
    """As PyTorch's momentum=None; from the first call on, and under TinyJit."""
    data = np.random.RandomState(0).standard_normal((4, 5, 3)).astype(np.float32) * [[[1]], [[2]], [[3]], [[4]]]
    layer = nn.BatchNorm(3, momentum=None)

    @TinyJit
    @Tensor.train()
    def step(x: Tensor) -> Tensor:
        return layer(x).realize(layer.running_mean, layer.running_var, layer.num_batches_tracked)

    for batch in data:
        step(Tensor(batch.astype(np.float32)).realize())
    np.testing.assert_allclose(layer.running_mean.numpy(), data.mean(1).mean(0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(layer.running_var.numpy(), data.var(1, ddof=1).mean(0), rtol=1e-5)
    assert layer.num_batches_tracked.item() == 4


def test_batch_norm_that_tracks_nothing_has_no_state_for_it() -> None:
    """The names of its state are PyTorch's."""
    assert list(nn.state.get_state_dict(nn.BatchNorm(3, track_running_stats=False))) == ["weight", "bias"]


def test_embedding_has_padding() -> None:
    """Row padding_idx is zeros and gets no gradient, as in PyTorch; a row that is not there is refused."""
    layer = nn.Embedding(5, 3, padding_idx=-2)
    assert (layer.padding_idx, repr(layer)) == (3, "Embedding(vocab_size=5, embed_size=3, padding_idx=3)")
    assert layer.weight.numpy()[3].tolist() == [0.0] * 3
    assert (layer.weight.numpy()[[0, 1, 2, 4]] != 0).all()
    layer.weight.requires_grad_(True)
    (layer(Tensor([[3, 1], [4, 3]])) * 2).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.numpy().tolist() == [[0.0] * 3, [2.0] * 3, [0.0] * 3, [0.0] * 3, [2.0] * 3]
    with pytest.raises(ValueError, match="Embedding needs a padding_idx of its 5 rows, got 5"):
        nn.Embedding(5, 3, 5)
    with pytest.raises(TypeError, match="Embedding needs an integer as padding_idx, got 0.5"):
        nn.Embedding(5, 3, 0.5)  # type: ignore[arg-type]


@pytest.mark.parametrize("layer", [nn.Conv1d, nn.Conv3d, nn.ConvTranspose1d, nn.ConvTranspose3d])
def test_a_typo_in_a_layer_that_is_a_function(layer: Any) -> None:
    """It is answered as those of classes are."""
    with pytest.raises(TypeError, match="got an unexpected keyword argument 'paddin'\n  hint: did you mean 'padding'"):
        layer(1, 2, 3, paddin=1)


@pytest.mark.parametrize(("name", "kernel", "axes"), [
    ("Conv1d", (3, 3), "1 spatial axis"), ("ConvTranspose1d", (3, 3), "1 spatial axis"),
    ("Conv3d", (3, 3), "3 spatial axes"), ("ConvTranspose3d", (3,), "3 spatial axes"),
])  # fmt: skip
def test_a_kernel_has_the_axes_of_its_layer(name: str, kernel: tuple[int, ...], axes: str) -> None:
    """A Conv3d of a kernel of two sizes was one of two axes."""
    with pytest.raises(ShapeError) as caught:
        getattr(nn, name)(4, 6, kernel)
    assert str(caught.value) == (
        f"{name} has {axes}, got kernel_size {kernel}\n  hint: Conv2d takes a kernel of any number of axes"
    )


def test_convolutions_print_with_their_axes() -> None:
    """Conv1d is a Conv2d of one axis, and prints as it was made."""
    assert repr(nn.Conv1d(4, 6, 3)) == "Conv1d(in_channels=4, out_channels=6, kernel_size=(3,))"
    assert repr(nn.ConvTranspose3d(4, 6, 3)).startswith("ConvTranspose3d(")
    assert repr(nn.Conv1d(4, 6, (3,))) == repr(nn.Conv1d(4, 6, 3))
    assert repr(nn.Conv2d(4, 6, 3)).startswith("Conv2d(")


@pytest.mark.parametrize("name", ["zero_grad", "half", "apply", "children", "requires_grad_"])
def test_methods_of_pytorchs_modules_have_a_hint(name: str) -> None:
    """They say what to use here."""
    with pytest.raises(AttributeError, match=rf"^'Linear' object has no attribute '{name}'\n  hint: "):
        getattr(nn.Linear(2, 2), name)
