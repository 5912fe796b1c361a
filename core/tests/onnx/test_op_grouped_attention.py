"""GroupQueryAttention beside ONNX Runtime: prompts, tokens, chunks and padded chunks, by random shapes and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx_nodes import node_of, normal, ours, saved_nodes, theirs
from tinygraft import Tensor
from tinygraft import onnx as here
from tinygraft.errors import ShapeError, UnsupportedError

ORDER = [
    "q", "k", "v", "past_key", "past_value", "seqlens_k", "total", "cos", "sin", "position_ids", "attention_bias",
    "head_sink", "k_scale", "v_scale", "q_norm", "k_norm", "query_seqlens",
]  # fmt: skip


class Step(NamedTuple):
    """A step of decoding: arrays by name, options, and what counts of the results of each sequence."""

    inputs: dict[str, Any]
    options: dict[str, Any]
    outputs: list[str]
    lengths: Any  # positions of each sequence after this step
    own: Any  # of these, tokens of this step


def drawn(kind: str, random: np.random.Generator) -> Step:
    """A random step: the first one of all ("prompt"), of one token, of several, or of several with padding."""
    batch, kv, share = (1 + int(random.integers(3)) for _ in range(3))
    size = 16
    heads, fixed, before = kv * share, bool(random.integers(2)), 1 + int(random.integers(7))
    length = 1 if kind == "token" else 2 + int(random.integers(4))
    batch = 1 if kind == "chunk" else batch
    own = np.full(batch, length)
    if kind == "prompt":
        lengths = random.integers(1, length + 1, batch)
        lengths[0], own, total, cache = length, lengths, length, length + before if fixed else 0
    elif kind == "padded":
        own = random.integers(1, length + 1, batch)
        lengths = own + random.integers(0, before + 1, batch)
        total, cache = max(int(lengths.max()), length), before + length + 4
    else:
        lengths = random.integers(2, before + 3, batch) if kind == "token" else np.array([before + length])
        total = int(lengths.max())
        cache = total + 3 * fixed - length * (not fixed)
    q, k, v = (normal(random, batch, length, count * size) for count in (heads, kv, kv))
    inputs: dict[str, Any] = {"q": np.concatenate([q, k, v], 2)} if random.integers(2) else {"q": q, "k": k, "v": v}
    if cache or kind != "prompt":
        inputs |= {name: normal(random, batch, kv, cache, size) for name in ("past_key", "past_value")}
    inputs["seqlens_k"] = (lengths - 1).astype(np.int32)
    inputs["total"] = np.array([total] if random.integers(2) else total, np.int32)
    options: dict[str, Any] = {"num_heads": heads, "kv_num_heads": kv}
    if random.integers(2):
        options |= {"do_rotary": 1, "rotary_interleaved": int(random.integers(2))}
        inputs |= {name: normal(random, 40, 8) for name in ("cos", "sin")}
        if random.integers(2):
            inputs["position_ids"] = random.integers(0, 30, (batch, length))
    if random.integers(2):
        options["local_window_size"] = 1 + int(random.integers(5))
    elif kind != "padded" and not random.integers(3):
        options["causal"] = 0
    if random.integers(2):
        options |= {"softcap": float(random.uniform(0.5, 3)), "scale": float(random.uniform(0.1, 1))}
    if not random.integers(3):
        rows = batch if random.integers(2) else 1, heads if random.integers(2) else 1
        inputs["attention_bias"] = normal(random, *rows, length, total)
    match random.integers(4):
        case 0:
            options["smooth_softmax"] = 1
        case 1:
            inputs["head_sink"] = normal(random, heads)
    if kind == "padded":
        inputs["query_seqlens"] = own.astype(np.int32)
    shown = int(random.integers(3))
    return Step(
        inputs, options | ({"qk_output": shown} if shown else {}), ["o", "keys", "values", *["qk"] * bool(shown)],
        lengths, own,
    )  # fmt: skip


def seen(step: Step, sequence: int) -> Any:
    """Which keys each token of a sequence sees."""
    length, own = step.lengths[sequence], step.own[sequence]
    keys, queries = np.arange(length), np.arange(length - own, length)[:, None]
    window = step.options.get("local_window_size", length + 1)
    return (keys >= 0) & (
        (keys <= queries) & (keys > queries - window) if step.options.get("causal", 1) else queries >= 0
    )


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["prompt", "token", "chunk", "padded"])
def test_a_step_is_that_of_the_runtime(tmp_path: Path, kind: str, seed: int) -> None:
    """What is no padding: results, the cache up to the length of each sequence, scores or weights of what is seen."""
    pytest.importorskip("onnxruntime")
    step = drawn(kind, np.random.default_rng([seed, *kind.encode()]))
    node = node_of("GroupQueryAttention", ORDER, step.inputs, step.outputs, **step.options)
    path = saved_nodes(tmp_path / "m.onnx", [node], step.inputs, step.outputs)
    mine, peers = ours(path, step.inputs), theirs(path, step.inputs)
    assert [x.shape for x in mine] == [x.shape for x in peers]
    for sequence, (length, own) in enumerate(zip(step.lengths, step.own, strict=True)):
        for number, (one, other) in enumerate(zip(mine, peers, strict=True)):
            a, b = one[sequence], other[sequence]
            if number == 0:
                a, b = a[:own], b[:own]
            elif number < 3:
                a, b = a[:, :length], b[:, :length]
            else:
                visible = seen(step, sequence)
                a, b = (np.where(visible, x[:, :own, :length], 0) for x in (a, b))
            np.testing.assert_allclose(a, b, atol=3e-5, rtol=3e-5)


def single(**changed: Any) -> dict[str, Any]:
    """The inputs of a step of one token after three others, changed."""
    random = np.random.default_rng(0)
    inputs = {"q": normal(random, 1, 1, 32), "k": normal(random, 1, 1, 16), "v": normal(random, 1, 1, 16)}
    inputs |= {name: normal(random, 1, 1, 3, 16) for name in ("past_key", "past_value")}
    inputs |= {"seqlens_k": np.array([3], np.int32), "total": np.array(4, np.int32)} | changed
    return {name: value for name, value in inputs.items() if value is not None}


def computed(path: Path, inputs: dict[str, Any], **options: Any) -> Any:
    """The results of a node here."""
    node = node_of("GroupQueryAttention", ORDER, inputs, ["o", "keys", "values"], **{"num_heads": 2, **options})
    return ours(saved_nodes(path / "m.onnx", [node], inputs, ["o", "keys", "values"]), inputs)


def test_queries_and_keys_are_normalised_head_by_head(tmp_path: Path) -> None:
    """Which the runtime has on GPUs alone: so beside a step of inputs that were normalised before."""
    weights = {name: np.linspace(0.5, 2, 16, dtype=np.float32) for name in ("q_norm", "k_norm")}
    found = computed(tmp_path, single(**weights), kv_num_heads=1, q_norm_epsilon=1e-5, qk_norm_epsilon=1e-3)

    def normalised(x: Any, epsilon: float) -> Any:
        by_head = x.reshape(1, 1, -1, 16)
        return (by_head / np.sqrt((by_head**2).mean(-1, keepdims=True) + epsilon) * weights["q_norm"]).reshape(x.shape)

    plain = single()
    plain |= {"q": normalised(plain["q"], 1e-5), "k": normalised(plain["k"], 1e-3)}
    for one, other in zip(found, computed(tmp_path, plain, kv_num_heads=1), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


REFUSED: list[tuple[dict[str, Any], dict[str, Any], type[Exception], str]] = [
    ({}, {"kv_num_heads": 0}, ShapeError, "2 heads of queries cannot share 0"),
    ({"k": None}, {}, ShapeError, "takes keys and values, or neither"),
    ({"k": None, "v": None, "q": np.ones((1, 1, 33), np.float32)}, {}, ShapeError, "do not divide q of shape"),
    ({"total": np.array(0, np.int32)}, {}, ShapeError, "1 tokens in a step, and a total_sequence_length of 0"),
    ({"total": np.array(9, np.int32)}, {}, ShapeError, "9 positions with 1 new ones"),
    ({}, {"do_rotary": 1}, ShapeError, "with do_rotary takes cos_cache and sin_cache"),
    ({}, {"sliding_window_cache": 1, "local_window_size": 2}, UnsupportedError, "of its window alone"),
    ({}, {"k_quant_type": "PER_TENSOR"}, UnsupportedError, "a cache of few bits"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "options", "error", "words"), REFUSED, ids=[case[3] for case in REFUSED])
def test_what_cannot_be_is_refused(
    tmp_path: Path, changed: dict[str, Any], options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """By the node, with what is wrong."""
    with pytest.raises(error, match=words):
        computed(tmp_path, single(**changed), **{"kv_num_heads": 1, **options})


def test_decoding_token_by_token_is_the_prompt_at_once(tmp_path: Path) -> None:
    """The cache of each step is an input of the next."""
    random = np.random.default_rng(1)
    q, k, v = normal(random, 1, 5, 32), normal(random, 1, 5, 16), normal(random, 1, 5, 16)
    whole = single(q=q, k=k, v=v, past_key=None, past_value=None, seqlens_k=np.array([4], np.int32))
    wanted = computed(tmp_path, whole | {"total": np.array(5, np.int32)}, kv_num_heads=1)
    past: dict[str, Any] = {"past_key": None, "past_value": None}
    for at in range(5):
        parts = {name: x[:, at : at + 1] for name, x in (("q", q), ("k", k), ("v", v))}
        step = single(**parts, **past, seqlens_k=np.array([at], np.int32), total=np.array(at + 1, np.int32))
        found, keys, values = computed(tmp_path, step, kv_num_heads=1)
        np.testing.assert_allclose(found[:, 0], wanted[0][:, at], atol=1e-5)
        past = {"past_key": keys, "past_value": values}
    np.testing.assert_allclose(past["past_key"], wanted[1], atol=1e-6)


def test_gradients_reach_queries_and_the_cache(tmp_path: Path) -> None:
    """As of any other function of tensors."""
    inputs = single()
    node = node_of("GroupQueryAttention", ORDER, inputs, ["o"], num_heads=2, kv_num_heads=1)
    model = here.load(str(saved_nodes(tmp_path / "m.onnx", [node], inputs, ["o"])))
    tensors = {name: Tensor(value, requires_grad=value.dtype.kind == "f") for name, value in inputs.items()}
    model(**tensors)["o"].square().sum().backward()
    for name in ("q", "k", "v", "past_key", "past_value"):
        grad = tensors[name].grad
        assert grad is not None and grad.abs().sum().item() > 0
