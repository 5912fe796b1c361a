"""autocast: products in a half type, losses in float32, gradients in the dtype of their tensors; as PyTorch's
tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, dtypes, nn
from tinygraft.errors import SettingError
from tinygraft.tensor import methods
from tinygraft.tensor.autocast import NARROW, WIDE

x = np.random.RandomState(0).standard_normal((2, 4, 8, 8)).astype(np.float32)
WHOLE: dict[str, Any] = {
    "matmul": lambda t: t @ t, "linear": lambda t: nn.Linear(8, 3)(t), "conv2d": lambda t: nn.Conv2d(4, 2, 3)(t),
    "conv1d": lambda t: nn.Conv1d(8, 2, 3)(t[0]), "conv_transpose2d": lambda t: nn.ConvTranspose2d(4, 2, 3)(t),
    "einsum": lambda t: Tensor.einsum("abcd,abcd->ab", t, t),
    "attention": lambda t: t.scaled_dot_product_attention(t, t),
    "addmm": lambda t: t[0, 0].addmm(t[0, 0], t[0, 1]), "baddbmm": lambda t: t[0].baddbmm(t[0], t[1]),
    "addmv": lambda t: t[0, 0, 0].addmv(t[0, 0], t[0, 0, 0]), "addr": lambda t: t[0, 0].addr(t[0, 0, 0], t[0, 0, 1]),
    "lstm": lambda t: nn.LSTM(8, 5)(t[0])[0], "lstm state": lambda t: nn.LSTM(8, 5, bidirectional=True)(t[0])[1][1],
    "gru": lambda t: nn.GRU(8, 5)(t[0], Tensor.ones(1, 8, 5))[1], "rnn": lambda t: nn.RNN(8, 5)(t[0])[0],
    "lstm cell": lambda t: nn.LSTMCell(8, 5)(t[0, 0])[1], "gru cell": lambda t: nn.GRUCell(8, 5)(t[0, 0]),
    "rnn cell": lambda t: nn.RNNCell(8, 5)(t[0, 0]),
    "multihead": lambda t: nn.MultiheadAttention(8, 2)(*[t[0]] * 3)[0],
}  # fmt: skip
SAME = [
    "relu",
    "gelu",
    "sigmoid",
    "silu",
    "tanh",
    "mish",
    "elu",
    "selu",
    "hardswish",
    "leaky_relu",
    "logsigmoid",
    "softsign",
    "abs",
    "sqrt",
    "mean",
    "max",
]
UP = ["sum", "softmax", "log_softmax", "logsumexp", "exp", "log1p", "softplus", "layernorm", "normalize", "norm"]


@pytest.mark.parametrize("name", ["bfloat16", pytest.param("float16", marks=pytest.mark.slow)])
@pytest.mark.parametrize("product", WHOLE)
def test_products_are_of_the_half_type(product: str, name: str) -> None:
    """Of float32, and near what float32 gives; not of float64."""
    Tensor.manual_seed(0)
    wanted = WHOLE[product](Tensor(x))
    Tensor.manual_seed(0)
    with nn.autocast(name):
        found = WHOLE[product](Tensor(x))
    assert found.dtype is getattr(dtypes, name)
    size = np.abs(wanted.numpy()).max()
    np.testing.assert_allclose(
        found.float().numpy(), wanted.numpy(), atol=size * (0.02 if name == "bfloat16" else 0.003)
    )


def test_float64_stays() -> None:
    """And so does a product that is given a dtype."""
    with nn.autocast():
        assert (Tensor(x).double() @ Tensor(x).double()).dtype is dtypes.float64
        assert Tensor(x).matmul(Tensor(x), dtype="float32").dtype is dtypes.float32


def test_other_functions() -> None:
    """Activations take what they get; sums, softmax and losses are float32."""
    half = Tensor(np.abs(x)).half()
    with nn.autocast("float16"):
        assert {name: getattr(half, name)().dtype for name in SAME} == dict.fromkeys(SAME, dtypes.float16)
        assert {name: getattr(half, name)().dtype for name in UP} == dict.fromkeys(UP, dtypes.float32)
        assert half[:, :, 0, 0].cross_entropy(Tensor([0, 1])).dtype is dtypes.float32
        assert half.mse_loss(half).dtype is dtypes.float32
        assert (nn.LayerNorm(8)(half).dtype, nn.BatchNorm(4)(half).dtype) == (dtypes.float32, dtypes.float16)


def test_every_name_of_the_tables_is_a_method_that_casts() -> None:
    """A name that no theme has would be a silent hole."""
    methods.load_all(Tensor)
    for name in NARROW | WIDE:
        assert hasattr(getattr(Tensor, name), "__wrapped__"), name


def test_a_training_step() -> None:
    """Weights, gradients and state are float32; a step under TinyJit, inside of the block or around it."""
    losses = []
    for inside in (False, True):
        Tensor.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(4, 8, 3), nn.BatchNorm(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
        adam = nn.optim.Adam(nn.state.get_parameters(model), lr=0.01)
        scaler = nn.optim.LossScaler(init_scale=256.0)

        @Tensor.train()
        def step(
            t: Tensor, inside: bool = inside, model: Any = model, adam: Any = adam, scaler: Any = scaler
        ) -> Tensor:
            adam.zero_grad()
            with nn.autocast("float16"):
                loss = model(t).cross_entropy(Tensor([0, 1]))
            scaler.scale(loss).backward()
            assert {p.grad.dtype for p in adam.params} == {dtypes.float32}
            scaler.step(adam)
            scaler.update()
            return loss.realize()

        jitted = TinyJit(step)
        losses.append([jitted(Tensor(x)).item() for _ in range(8)])
        assert losses[-1][-1] < 0.5 * losses[-1][0]
        assert jitted.captured == 1
    assert losses[0] == losses[1]


def test_a_captured_function_depends_on_it() -> None:
    """A block around the call captures anew."""
    product = TinyJit(lambda t: (t @ t).realize())
    found = []
    for name in ("", "bfloat16", "", "bfloat16"):
        with Context(AUTOCAST=name):
            found.append([product(Tensor(x)).dtype for _ in range(3)][-1])
    assert found == [dtypes.float32, dtypes.bfloat16] * 2


def test_a_block_within() -> None:
    """enabled=False ends it; a decorator does as well; the setting by its name is the same."""
    with nn.autocast():
        with nn.autocast(enabled=False):
            assert (Tensor(x) @ Tensor(x)).dtype is dtypes.float32
        assert (Tensor(x) @ Tensor(x)).dtype is dtypes.bfloat16
    assert nn.autocast(dtypes.float16)(lambda: Tensor(x) @ Tensor(x))().dtype is dtypes.float16
    with Context(AUTOCAST="float16"):
        assert (Tensor(x) @ Tensor(x)).dtype is dtypes.float16


@pytest.mark.parametrize("name", ["float32", "int8", "half precision"])
def test_other_dtypes_are_refused(name: str) -> None:
    """By autocast, and by the setting where it is first used."""
    with pytest.raises(SettingError, match=f"AUTOCAST is bfloat16 or float16, got '{name}'"):
        nn.autocast(name)
    with Context(AUTOCAST=name), pytest.raises(SettingError, match="AUTOCAST is bfloat16 or float16"):
        Tensor(x).matmul(Tensor(x))


@pytest.mark.parametrize("routines", [0, 1])
def test_linear_algebra_and_transforms_are_whole(routines: int) -> None:
    """Their own products are not computed in a half type, whether a device has them or kernels do; nor gradients."""
    a = np.random.default_rng(3).standard_normal((4, 4)).astype(np.float32) + 3 * np.eye(4, dtype=np.float32)
    functions = (
        lambda x: x.inv(), lambda x: x.qr()[0], lambda x: x.det(), lambda x: x.matrix_exp(), lambda x: x.rfft().abs(),
        lambda x: x.svdvals(), lambda x: x.lstsq(x[:, :1] + 1).solution,
    )  # fmt: skip
    for function in functions:
        found = []
        for setting in ("", "bfloat16"):
            with Context(ROUTINES=routines, AUTOCAST=setting):
                x = Tensor(a, requires_grad=True)
                y = function(x)
                (gradient,) = (y * y).sum().gradient(x)
                found.append((y.numpy(), gradient.numpy()))
        for plain, half in zip(*found, strict=True):
            assert np.allclose(plain, half, rtol=1e-4, atol=1e-3)
