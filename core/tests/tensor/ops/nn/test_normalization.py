"""Normalisation, embedding, attention, gates, dropout, windows and masked reductions against PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, ShapeError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def numbers(*shape: int, name: int = 0, positive: bool = False) -> np.ndarray[Any, Any]:
    """Numbers that are all different, float32."""
    found = np.random.default_rng(name + 1).normal(0, 1, shape).astype(np.float32)
    return np.abs(found) + 0.1 if positive else found


def agree(call: str, tensors: list[Any], *others: Any, where: Any = F, ours: str | None = None, **options: Any) -> None:
    """One function of both libraries over equal tensors: the values, and the gradients of the sum of squares."""
    mine = [Tensor(x, requires_grad=x.dtype.kind == "f") for x in tensors]
    wanted_of = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in tensors]
    found = getattr(Tensor, ours or call)(*mine, *others, **options)
    wanted = getattr(where, call)(*wanted_of, *others, **options)
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)
    inputs = [(a, b) for a, b in zip(mine, wanted_of, strict=True) if b.requires_grad]
    grads = torch.autograd.grad(wanted.square().sum(), [b for _, b in inputs])
    for got, want in zip(found.square().sum().gradient(*(a for a, _ in inputs)), grads, strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-3, atol=1e-4)


NORMS: list[tuple[str, list[Any], tuple[Any, ...], dict[str, Any]]] = [
    ("layer_norm", [numbers(3, 4, 5)], ((4, 5),), {}),
    ("rms_norm", [numbers(3, 4, 5)], ((5,),), {}),
    ("group_norm", [numbers(2, 6, 5)], (3,), {}),
    ("instance_norm", [numbers(2, 3, 4, 5)], (), {}),
    ("local_response_norm", [numbers(2, 7, 3)], (4,), {"alpha": 0.5, "k": 0.7}),
    ("prelu", [numbers(2, 3, 4), numbers(3, name=1)], (), {}),
    ("glu", [numbers(2, 6, 4)], (), {"dim": 1}),
    ("hardshrink", [numbers(3, 4)], (), {}),
    ("softshrink", [numbers(3, 4)], (0.3,), {}),
    ("tanhshrink", [numbers(3, 4)], (), {}),
    ("threshold", [numbers(3, 4)], (0.2, 5.0), {}),
    ("rrelu", [numbers(3, 4)], (0.1, 0.5), {"training": False}),
    ("softplus", [numbers(3, 4)], (2.0, 0.5), {}),
    ("bilinear", [numbers(2, 3, 4), numbers(2, 3, 5, name=1), numbers(6, 4, 5, name=2), numbers(6, name=3)], (), {}),
]


@pytest.mark.parametrize(("call", "tensors", "others", "options"), NORMS, ids=[row[0] for row in NORMS])
def test_function(call: str, tensors: list[Any], others: tuple[Any, ...], options: dict[str, Any]) -> None:
    """Value and gradients are PyTorch's."""
    agree(call, tensors, *others, **options)


@pytest.mark.parametrize("kind", ["batch_norm", "instance_norm"])
def test_running_statistics(kind: str) -> None:
    """Training moves them by momentum, and the weight and bias are used."""
    x, mean, var, w, b = numbers(4, 3, 5), numbers(3, name=1), numbers(3, name=2, positive=True), *numbers(2, 3, name=3)
    mine, theirs = [Tensor(t) for t in (x, mean, var, w, b)], [torch.tensor(t) for t in (x, mean, var, w, b)]
    found, wanted = getattr(Tensor, kind)(*mine, True, 0.3), getattr(F, kind)(*theirs, True, 0.3)
    for got, want in zip((found, *mine[1:3]), (wanted, *theirs[1:3]), strict=True):
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    still = getattr(Tensor, kind)(*mine, False)
    np.testing.assert_allclose(still.numpy(), getattr(F, kind)(*theirs, False).numpy(), rtol=1e-4, atol=1e-5)


def test_embedding() -> None:
    """The padding row gets no gradient, rows that are often asked a smaller one, long rows are shortened."""
    table, index = numbers(5, 3), np.array([[1, 4], [1, 2]])
    for options in ({"padding_idx": 1}, {"scale_grad_by_freq": True}, {"max_norm": 0.5}, {"padding_idx": -1}):
        ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
        found = Tensor(index).embedding(ours, **options)
        wanted = F.embedding(torch.tensor(index), theirs if "max_norm" not in options else theirs.clone(), **options)
        np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
        wanted.sum().backward()
        np.testing.assert_allclose(found.sum().gradient(ours)[0].numpy(), theirs.grad.numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("dtype", "near"), [(np.float16, 1e-3), (np.float64, 1e-15)])
def test_embedding_scaled_by_counts_keeps_its_dtype(dtype: Any, near: float) -> None:
    """Rows and their gradient are of the table's dtype, and as exact."""
    table, index = numbers(5, 3).astype(dtype), np.array([0, 1, 1, 1, 2])
    ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
    found = Tensor(index).embedding(ours, scale_grad_by_freq=True)
    assert found.numpy().dtype == dtype
    F.embedding(torch.tensor(index), theirs, scale_grad_by_freq=True).square().sum().backward()
    assert theirs.grad is not None
    got = found.square().sum().gradient(ours)[0].numpy()
    assert got.dtype == dtype
    np.testing.assert_allclose(got, theirs.grad.numpy(), rtol=near, atol=near)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag(mode: str) -> None:
    """Rows of numbers and bags by offsets, an empty bag among them, padding that does not count."""
    table, flat, offsets = numbers(5, 3), np.array([1, 4, 1, 2, 0]), np.array([0, 3, 3])
    for index, starts in ((flat, offsets), (np.array([[1, 4], [2, 2]]), None)):
        ours, theirs = Tensor(table, requires_grad=True), torch.tensor(table, requires_grad=True)
        options: dict[str, Any] = {"mode": mode, "padding_idx": 4}
        found = Tensor(index).embedding_bag(ours, None if starts is None else Tensor(starts), **options)
        asked = (torch.tensor(index), theirs, None if starts is None else torch.tensor(starts))
        wanted = F.embedding_bag(*asked, **options)
        np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
        wanted.square().sum().backward()
        np.testing.assert_allclose(
            found.square().sum().gradient(ours)[0].numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("separate", [False, True])
def test_multi_head_attention(separate: bool) -> None:
    """Masks of both kinds, one more key and value, a key of zeros, and the weights of each head."""
    q, k, bias = numbers(3, 2, 4), numbers(5, 2, 4, name=1), numbers(12, name=2)
    w, out = numbers(12, 4, name=3), numbers(4, 4, name=4)
    extra = numbers(1, 1, 4, name=5)
    padding = np.array([[False, True, False, False, False], [False] * 5])
    for options in ({"attn_mask": numbers(3, 5, name=6)}, {"key_padding_mask": padding, "average_attn_weights": False}):
        results = []
        for make, call in (
            (Tensor, Tensor.multi_head_attention_forward),
            (torch.tensor, F.multi_head_attention_forward),
        ):
            kinds = dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), np.split(w, 3), strict=True))
            more: dict[str, Any] = {name: make(t) for name, t in kinds.items()} if separate else {}
            more |= {name: make(t) if isinstance(t, np.ndarray) else t for name, t in options.items()}
            results.append(call(
                make(q), make(k), make(k), 4, 2, None if separate else make(w), make(bias), make(extra), make(extra),
                True, 0.0, make(out), None, training=False, use_separate_proj_weight=separate, **more,
            ))  # fmt: skip
        for got, want in zip(*results, strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)


def test_attention_with_a_scale() -> None:
    """scale takes the place of 1 / sqrt(d)."""
    agree(
        "scaled_dot_product_attention",
        [numbers(2, 3, 4), numbers(2, 5, 4, name=1), numbers(2, 5, 4, name=2)],
        scale=0.3,
    )


def test_dropouts() -> None:
    """Whole channels go, the mean and variance of alpha_dropout stay, and without training nothing happens."""
    Tensor.manual_seed(1)
    x = Tensor.ones(50, 20, 3)
    dropped = x.dropout1d(0.25, training=True).numpy()
    assert set(np.unique(dropped)) == {0.0, np.float32(4 / 3)} and (dropped == dropped[:, :, :1]).all()
    assert 0.2 < (dropped == 0).mean() < 0.3
    kept = Tensor.randn(100, 100).alpha_dropout(0.3, training=True).numpy()
    assert abs(kept.mean()) < 0.05 and abs(kept.std() - 1) < 0.05
    assert x.feature_alpha_dropout(0.5, training=False).uop is x.uop
    with Tensor.train():
        assert (x.feature_alpha_dropout(0.5).numpy()[:, :, 0] < 0).any()
        assert x.unsqueeze(0).dropout3d(1.0).numpy().max() == 0


def test_gumbel_softmax() -> None:
    """Classes are drawn as softmax has them; a hard choice has the gradient of the soft one."""
    Tensor.manual_seed(1)
    drawn = Tensor([0.7, 0.2, 0.1]).log().expand(4000, 3).gumbel_softmax(hard=True)
    np.testing.assert_allclose(drawn.mean(0).numpy(), [0.7, 0.2, 0.1], atol=0.03)
    x = Tensor([[1.0, 2.0]], requires_grad=True)
    assert np.abs(x.gumbel_softmax(hard=True)[0, 0].gradient(x)[0].numpy()).max() > 0


WINDOWS = ["hamming", "hann", "bartlett", "blackman", "cosine", "nuttall", "gaussian", "exponential", "kaiser"]


@pytest.mark.parametrize("name", WINDOWS)
def test_window(name: str) -> None:
    """Short and long, symmetric and not."""
    for length in (0, 1, 2, 7, 8):
        for sym in (True, False):
            found = getattr(Tensor, f"window_{name}")(length, sym=sym, dtype=dtypes.float64)
            wanted = getattr(torch.signal.windows, name)(length, sym=sym, dtype=torch.float64)
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-7, atol=1e-12)


MASKED = ["sum", "prod", "amax", "amin", "mean", "var", "std", "logsumexp", "softmax", "log_softmax", "softmin"]


@pytest.mark.parametrize("name", MASKED)
def test_masked(name: str) -> None:
    """Values and gradients with some elements left out."""
    x, mask = numbers(3, 5), np.array([True, True, False, True, False])
    mine, theirs = Tensor(x, requires_grad=True), torch.tensor(x, requires_grad=True)
    found = getattr(Tensor, f"masked_{name}")(mine, 1, mask=Tensor(mask))
    wanted = getattr(torch.masked, name)(theirs, 1, mask=torch.tensor(mask))
    np.testing.assert_allclose(found.numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-6)
    finite = found.isfinite().where(found, 0.0)
    torch.where(wanted.isfinite(), wanted, 0.0).square().sum().backward()
    np.testing.assert_allclose(
        finite.square().sum().gradient(mine)[0].numpy(), theirs.grad.numpy(), rtol=1e-4, atol=1e-5
    )


def test_what_is_refused() -> None:
    """Each error says what was asked and what was found."""
    x = Tensor.ones(2, 3, 4)
    with pytest.raises(
        ShapeError, match=r"layer_norm over a shape of \(3,\) needs an input that ends in it, got shape"
    ):
        x.layer_norm(3)
    with pytest.raises(ShapeError, match="group_norm needs a number of groups that divides 3 channels, got 2"):
        x.group_norm(2)
    with pytest.raises(
        ValueError, match="batch_norm needs running_mean and running_var, or training=True to take its own"
    ):
        x.batch_norm(None, None)
    with pytest.raises(ShapeError, match=r"batch_norm needs a weight of shape \(3,\), got \(4,\)"):
        x.batch_norm(None, None, Tensor.ones(4), training=True)
    with pytest.raises(ShapeError, match="glu needs an even size along axis 1"):
        x.glu(1)
    with pytest.raises(DTypeError, match="embedding needs integers as numbers of rows, got dtypes.float"):
        Tensor([1.0]).embedding(Tensor.ones(2, 3))
    with pytest.raises(DTypeError, match="a window is of float32 or float64, got dtypes.half; cast it"):
        Tensor.window_hann(3, dtype=dtypes.float16)
    with pytest.raises(ShapeError, match=r"a mask of shape \(2,\) does not broadcast to shape \(2, 3, 4\)"):
        x.masked_sum(mask=Tensor([True, False]))
    with pytest.raises(ValueError, match="hardtanh needs a min_val of at most max_val, got 1 and -1"):
        x.hardtanh(1, -1)
