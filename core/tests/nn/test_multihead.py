"""Attention is PyTorch's, with masks, biases and other widths; caches of keys and values give what a whole pass gives."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, Variable, dtypes, nn
from tinygraft.errors import ShapeError

torch = pytest.importorskip("torch")


def numbers(*shape: int, seed: int = 0) -> Any:
    """Normal numbers of that shape, float32."""
    return np.random.RandomState(seed).standard_normal(shape).astype(np.float32)


def pair(**options: Any) -> tuple[Any, Any]:
    """PyTorch's attention of 8 numbers and 2 heads, and ours with its state_dict."""
    theirs = torch.nn.MultiheadAttention(8, 2, **options)
    torch.nn.init.normal_(theirs.out_proj.bias) if options.get("bias", True) else None
    ours = nn.MultiheadAttention(8, 2, **options)
    nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)
    return ours, theirs


def close(ours: Any, theirs: Any) -> None:
    """Output and weights are equal."""
    for mine, its in zip(ours, theirs, strict=True):
        assert (mine is None) == (its is None)
        if mine is not None:
            np.testing.assert_allclose(mine.numpy(), its.detach().numpy(), rtol=1e-4, atol=1e-5)


causal = np.triu(np.ones((5, 5), bool), 1)
padding = np.array([[False] * 5, [False, False, False, True, True], [False] * 4 + [True]])
FORMS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "batch first": ({"batch_first": True}, {}),
    "no weights, no bias": ({"bias": False}, {"need_weights": False}),
    "masks": ({"batch_first": True}, {"attn_mask": causal, "key_padding_mask": padding}),
    "added mask": ({"batch_first": True}, {"attn_mask": numbers(5, 5, seed=7), "average_attn_weights": False}),
    "more keys": ({"add_bias_kv": True, "add_zero_attn": True}, {}),
}


@pytest.mark.parametrize("form", FORMS)
def test_values_are_pytorchs(form: str) -> None:
    """Self-attention of three sequences of five."""
    made, called = FORMS[form]
    ours, theirs = pair(**made)
    x = numbers(3, 5, 8) if made.get("batch_first") else numbers(5, 3, 8)
    mine = {k: Tensor(v) if isinstance(v, np.ndarray) else v for k, v in called.items()}
    its = {k: torch.tensor(v) if isinstance(v, np.ndarray) else v for k, v in called.items()}
    close(ours(*[Tensor(x)] * 3, **mine), theirs(*[torch.tensor(x)] * 3, **its))


@pytest.mark.slow
def test_other_widths_of_keys_and_values() -> None:
    """Three weights, and their gradients."""
    ours, theirs = pair(kdim=3, vdim=4)
    given = numbers(5, 2, 8), numbers(6, 2, 3), numbers(6, 2, 4)
    mine, its = ours(*map(Tensor, given)), theirs(*map(torch.tensor, given))
    close(mine, its)
    weights = nn.state.get_state_dict(ours)
    for weight in weights.values():
        weight.requires_grad = True
    mine[0].square().sum().backward()
    its[0].square().sum().backward()
    for name, weight in theirs.named_parameters():
        np.testing.assert_allclose(weights[name].grad.numpy(), weight.grad.numpy(), rtol=1e-3, atol=1e-4)


def test_without_a_batch_and_causal() -> None:
    """(L, embed); is_causal alone makes the mask."""
    ours, theirs = pair()
    x = numbers(5, 8)
    wanted = theirs(*[torch.tensor(x)] * 3, attn_mask=torch.tensor(causal), is_causal=True)
    close(ours(*[Tensor(x)] * 3, is_causal=True), wanted)


@pytest.mark.slow
def test_first_values_are_pytorchs() -> None:
    """Names, shapes, bounds; biases are zero."""
    for options in ({}, {"kdim": 30, "add_bias_kv": True}):
        ours = nn.state.get_state_dict(nn.MultiheadAttention(64, 2, **options))  # type: ignore[arg-type]
        torch.manual_seed(0)
        theirs = torch.nn.MultiheadAttention(64, 2, **options).state_dict()
        assert {n: t.shape for n, t in ours.items()} == {n: tuple(t.shape) for n, t in theirs.items()}
        for name, t in theirs.items():
            mine, its = ours[name].numpy(), t.numpy()
            if its.std() == 0:
                assert np.abs(mine).max() == 0
            else:
                assert abs(mine.std() / its.std() - 1) < (0.35 if "bias" in name else 0.05), name
                assert "bias" in name or abs(np.abs(mine).max() / np.abs(its).max() - 1) < 0.05


def test_dropout_is_in_training_mode() -> None:
    """Of the weights, all of them dropped: the output is its bias."""
    ours, _ = pair(dropout=1.0)
    x = Tensor(numbers(5, 3, 8))
    with Tensor.train():
        out, _ = ours(x, x, x)
    np.testing.assert_allclose(out.numpy(), np.broadcast_to(ours.out_proj.bias.numpy(), (5, 3, 8)), atol=1e-6)
    assert not np.allclose(ours(x, x, x)[0].numpy(), out.numpy())


def reference(attention: Any, x: Any) -> Any:
    """Causal grouped-query attention by its definition, in NumPy."""
    q, k, v = (x @ p.weight.numpy().T for p in (attention.q_proj, attention.k_proj, attention.v_proj))
    width, each = attention.head_dim, attention.num_heads // attention.num_kv_heads
    out = np.zeros_like(q)
    for head in range(attention.num_heads):
        mine, its = slice(head * width, (head + 1) * width), slice(head // each * width, (head // each + 1) * width)
        scores = q[..., mine] @ k[..., its].swapaxes(-1, -2) / np.sqrt(width)
        scores[..., np.triu(np.ones(scores.shape[-2:], bool), 1)] = -np.inf
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        out[..., mine] = weights / weights.sum(-1, keepdims=True) @ v[..., its]
    return out @ attention.o_proj.weight.numpy().T


@pytest.mark.parametrize("kv_heads", [1, 2, 4])
def test_grouped_queries(kv_heads: int) -> None:
    """Each group of heads of queries reads one head of keys."""
    attention, x = nn.GroupedQueryAttention(16, 4, kv_heads), numbers(2, 5, 16)
    np.testing.assert_allclose(attention(Tensor(x)).numpy(), reference(attention, x), rtol=1e-4, atol=1e-5)
    free = attention(Tensor(x), is_causal=False).numpy()
    np.testing.assert_allclose(free[:, -1], reference(attention, x)[:, -1], rtol=1e-4, atol=1e-5)
    assert not np.allclose(free[:, 0], reference(attention, x)[:, 0])


def test_a_mask_beside_is_causal() -> None:
    """Both leave out: a mask of the first key, as bools and as numbers, and the keys after a query."""
    attention, x = nn.GroupedQueryAttention(16, 4, 2), numbers(1, 4, 16)
    seen = np.ones((4, 4), bool)
    seen[1:, 0] = False
    both = attention(Tensor(x), Tensor(seen & np.tril(np.ones((4, 4), bool))), is_causal=False).numpy()
    np.testing.assert_allclose(attention(Tensor(x), Tensor(seen)).numpy(), both, rtol=1e-5, atol=1e-6)
    added = np.where(seen, 0, -np.inf).astype(np.float32)
    np.testing.assert_allclose(attention(Tensor(x), Tensor(added)).numpy(), both, rtol=1e-5, atol=1e-6)
    assert not np.allclose(attention(Tensor(x)).numpy(), both)


def test_a_cache_gives_what_a_whole_pass_gives() -> None:
    """A prompt of three, then one by one, in one capture with a Variable as position; a start of 0 begins anew."""
    attention, x = nn.GroupedQueryAttention(16, 4, 2), numbers(1, 8, 16)
    cache, n = nn.KVCache(1, 8, num_heads=2, head_dim=4), Variable("n", 1, 7)
    step = TinyJit(lambda x, start: attention(x, cache=cache, start=start).realize())
    for _ in range(2):
        found = [attention(Tensor(x[:, :3]), cache=cache, start=0).numpy()]
        found += [step(Tensor(x[:, i : i + 1]), n.bind(i)).numpy() for i in range(3, 8)]
        np.testing.assert_allclose(np.concatenate(found, 1), reference(attention, x), rtol=1e-4, atol=1e-5)
    assert step.captured == 1


def test_a_cache_takes_several_positions_at_once() -> None:
    """Two from the third on: the first of them does not see the second."""
    attention, x = nn.GroupedQueryAttention(16, 4, 2), numbers(1, 4, 16)
    cache = nn.KVCache(1, 6, num_heads=2, head_dim=4)
    found = [attention(Tensor(x[:, i : i + 2]), cache=cache, start=i).numpy() for i in (0, 2)]
    np.testing.assert_allclose(np.concatenate(found, 1), reference(attention, x), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("batch_first", [False, True])
def test_a_cache_of_multihead_attention(batch_first: bool) -> None:
    """Queries one by one give the rows of a causal pass."""
    ours, theirs = pair(batch_first=batch_first)
    x = numbers(3, 5, 8) if batch_first else numbers(5, 3, 8)
    wanted, _ = theirs(*[torch.tensor(x)] * 3, attn_mask=torch.tensor(causal))
    cache = nn.KVCache(3, 5, num_heads=2, head_dim=4)
    axis = 1 if batch_first else 0
    parts = [Tensor(np.take(x, [i], axis)) for i in range(5)]
    found = [ours(p, p, p, is_causal=True, cache=cache, start=i)[0].numpy() for i, p in enumerate(parts)]
    np.testing.assert_allclose(np.concatenate(found, axis), wanted.detach().numpy(), rtol=1e-4, atol=1e-5)


def test_half_types() -> None:
    """A cache of bfloat16 under float32 queries, and everything in float16."""
    attention, x = nn.GroupedQueryAttention(16, 4, 2), numbers(1, 3, 16)
    cache = nn.KVCache(1, 3, 2, 4, dtype=dtypes.bfloat16)
    found = attention(Tensor(x), cache=cache, start=0)
    assert (found.dtype, cache.k.dtype) == (dtypes.float32, dtypes.bfloat16)
    np.testing.assert_allclose(found.numpy(), reference(attention, x), atol=3e-2)
    ours, theirs = pair()
    for name, t in nn.state.get_state_dict(ours).items():
        owner = ours.out_proj if "." in name else ours
        setattr(owner, name.split(".")[-1], t.half().realize())
    out, weights = ours(*[Tensor(numbers(5, 3, 8)).half()] * 3)
    assert (out.dtype, weights.dtype) == (dtypes.float16, dtypes.float16)
    np.testing.assert_allclose(
        out.numpy(), theirs(*[torch.tensor(numbers(5, 3, 8))] * 3)[0].detach().numpy(), atol=1e-2
    )


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: nn.MultiheadAttention(8, 3), ShapeError, "MultiheadAttention needs embed_dim to be a multiple of num_heads, got 8 and 3"),
    (lambda: nn.GroupedQueryAttention(8, 4, 3), ShapeError, "needs heads that divide 8 numbers, and 3 heads of keys to divide its 4"),
    (lambda: nn.GroupedQueryAttention(8, 2)(Tensor.ones(3, 8)), ShapeError, r"GroupedQueryAttention needs x \(N, L, 8\), got shape"),
    (lambda: nn.MultiheadAttention(8, 2)(*[Tensor.ones(3, 1, 6)] * 3), ShapeError, "attention of 2 heads over queries of shape"),
    (lambda: nn.KVCache(1, 4, 2, 3).append(*[Tensor.ones(1, 2, 3, 3)] * 2, 2), ShapeError, "a cache of 4 positions has no room for 3 more from position 2 on"),
    (lambda: nn.KVCache(1, 4, 2, 3).append(*[Tensor.ones(1, 2, 1, 4)] * 2, 0), ShapeError, r"takes k \(1, 2, 'L', 3\), got shape \(1, 2, 1, 4\)"),
    (lambda: nn.MultiheadAttention(8, 2)(*[Tensor.ones(3, 8)] * 3, cache=nn.KVCache(1, 4, 2, 4)), ShapeError, "a cache has a batch"),
    (lambda: nn.MultiheadAttention(8, 2, add_zero_attn=True)(*[Tensor.ones(3, 1, 8)] * 3, cache=nn.KVCache(1, 4, 2, 4)), ValueError, "a cache goes with no"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "error", "message"), BAD, ids=[message[:30] for _, _, message in BAD])
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    """What does not fit is named."""
    with pytest.raises(error, match=message):
        call()


def test_the_batch_may_be_symbolic() -> None:
    """The same numbers as for a batch of that size, with extra keys too."""
    attention, x, batch = (
        nn.MultiheadAttention(8, 2, batch_first=True, add_bias_kv=True),
        Tensor.rand(6, 5, 8),
        Variable("batch", 1, 6),
    )
    part = x[: batch.bind(2)]
    found, wanted = attention(part, part, part)[0], attention(x[:2], x[:2], x[:2])[0]
    np.testing.assert_allclose(found[:2].numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)
