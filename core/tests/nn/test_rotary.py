"""Rotary positions: against NumPy's complex numbers, at any start, and in an attention with a cache."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, Variable, dtypes, nn
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.rotary import rotary


def turned(x: np.ndarray, start: int, theta: float) -> np.ndarray:
    """The same by complex numbers of float64."""
    half = x.shape[-1] // 2
    angles = np.outer(np.arange(start, start + x.shape[-2]), theta ** (-np.arange(half) / half))
    pairs = (x[..., :half] + 1j * x[..., half:]) * np.exp(1j * angles)
    return np.concatenate([pairs.real, pairs.imag], -1)


@pytest.mark.parametrize(("start", "theta"), [(0, 10000.0), (7, 10000.0), (300, 500.0)])
@pytest.mark.parametrize("shape", [(5, 2), (2, 3, 4, 8), (1, 6)])
def test_equals_complex_numbers(shape: tuple[int, ...], start: int, theta: float) -> None:
    """A pair is multiplied by exp(i * angle)."""
    x = np.random.default_rng(0).normal(size=shape)
    np.testing.assert_allclose(rotary(Tensor(x), start, theta).numpy(), turned(x, start, theta), atol=1e-12)
    single = rotary(Tensor(x.astype(np.float32)), start, theta)
    assert single.dtype is dtypes.float32
    np.testing.assert_allclose(single.numpy(), turned(x, start, theta), atol=2e-4)


def test_half_types_keep_their_dtype() -> None:
    """bfloat16 goes in and out; the angles are of float32, so that far positions are told apart."""
    x = np.ones((4, 4))
    out = rotary(Tensor(x).cast("bfloat16"), 1000)
    assert out.dtype is dtypes.bfloat16
    np.testing.assert_allclose(out.float().numpy(), turned(x, 1000, 10000.0), atol=0.02)


def test_the_gradient_is_turned_back() -> None:
    """A rotation's gradient is the rotation by the negative angle: x is what is turned by it twice."""
    x = Tensor(np.random.default_rng(1).normal(size=(3, 4)), requires_grad=True)
    (rotary(x, 5).square().sum() / 2).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), x.numpy(), atol=1e-12)


@pytest.mark.parametrize("kv", [1, 2, 4])
def test_attention_with_a_cache_equals_attention_without(kv: int) -> None:
    """Position by position under one capture, with a Variable as the position; and in pieces."""
    Tensor.manual_seed(0)
    attention = nn.GroupedQueryAttention(32, 4, num_kv_heads=kv, rope_theta=100.0)
    x = Tensor.randn(2, 9, 32).realize()
    whole = attention(x).numpy()
    cache, position = nn.KVCache(2, 12, num_heads=kv, head_dim=8), Variable("position", 0, 11)
    step = TinyJit(lambda x, start: attention(x, cache=cache, start=start).realize())
    rows = [step(x[:, i : i + 1].clone(), position.bind(i)).numpy() for i in range(9)]
    np.testing.assert_allclose(np.concatenate(rows, 1), whole, atol=1e-5)
    assert step.captured == 1
    pieces = [attention(x[:, a:b], cache=cache, start=a).numpy() for a, b in ((0, 4), (4, 9))]
    np.testing.assert_allclose(np.concatenate(pieces, 1), whole, atol=1e-5)


def test_only_distances_matter() -> None:
    """The product of a query and a key is that of their distance: attention from another start is the same."""
    q, k = (Tensor(np.random.default_rng(i).normal(size=(6, 8))) for i in (2, 3))
    scores = [(rotary(q, start) @ rotary(k, start).T).numpy() for start in (0, 50)]
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-11)


def test_refusals() -> None:
    """What cannot be turned is named."""
    with pytest.raises(
        ShapeError, match=r"rotary positions need x \(..., L, width\) with an even width, got shape \(2, 3\)"
    ):
        rotary(Tensor.ones(2, 3))
    with pytest.raises(ShapeError, match=r"got shape \(4,\)"):
        rotary(Tensor.ones(4))
    with pytest.raises(DTypeError, match=r"rotary positions turn floats, got dtypes\.int"):
        rotary(Tensor([[1, 2]]))
    with pytest.raises(ValueError, match="rotary positions need a theta above 0, got 0"):
        rotary(Tensor.ones(2, 2), theta=0)
    with pytest.raises(ValueError, match=r"GroupedQueryAttention needs a rope_theta above 0, got -1\.0"):
        nn.GroupedQueryAttention(8, 2, rope_theta=-1.0)
    with pytest.raises(ShapeError, match="rotary positions turn pairs of numbers, and a head has 3"):
        nn.GroupedQueryAttention(6, 2, rope_theta=100.0)
