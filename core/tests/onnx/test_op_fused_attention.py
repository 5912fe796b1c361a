"""What ONNX Runtime's optimisers write for transformers, beside ONNX Runtime, by random shapes and options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx")
from onnx import helper

from onnx_nodes import node_of, normal, ours, saved_nodes, theirs
from tinygraft.errors import ShapeError, UnsupportedError

Case = tuple[str, list[str], dict[str, Any], dict[str, Any], list[str]]  # kind, order, inputs, options, outputs
Random = np.random.Generator


def masks(random: Random, batch: int, length: int, total: int, ends: bool) -> dict[str, Any]:
    """A mask of some form, or none: lengths, zeros and ones of keys or of the scores, ends and starts."""
    stops = random.integers(1, total + 1, batch)
    found = [
        None, stops, random.random((batch, total)) < 0.8, random.random((batch, length, total)) < 0.8,
        np.concatenate([stops, [random.integers(0, stop) for stop in stops]]),
    ][random.integers(5 if ends else 4)]  # fmt: skip
    return {} if found is None else {"mask": found.astype(np.int32)}


def choices(random: Random, **options: Any) -> dict[str, Any]:
    """About half of the options."""
    return {name: value for name, value in options.items() if random.integers(2)}


def multi_head(random: Random) -> Case:
    """Keys and values apart, with heads as an axis of their own or not, with a past or not."""
    batch, length, keys, heads = (1 + int(random.integers(n)) for n in (3, 5, 6, 3))
    keys = length if random.integers(2) else keys
    crossed, past = random.integers(3) == 0, int(random.integers(1, 5)) * int(random.integers(2))
    past = 0 if crossed else past
    size = int(random.choice([4, 8])) if past or crossed else 8
    wide = size if past or crossed else 4
    inputs: dict[str, Any] = {"q": normal(random, batch, length, heads * size)}
    for name, each in (("k", size), ("v", wide)):
        inputs[name] = normal(random, *((batch, heads, keys, each) if crossed else (batch, keys, heads * each)))
        if past:
            inputs["past_" + name] = normal(random, batch, heads, past, each)
    total = keys + past
    inputs |= {} if crossed else choices(random, bias=normal(random, heads * (2 * size + wide)))
    inputs |= masks(random, batch, length, total, ends=False)
    rows = int(random.choice([1, batch])), int(random.choice([1, heads]))
    inputs |= choices(random, attention_bias=normal(random, *rows, length, total))
    options = choices(random, scale=float(random.uniform(0.1, 1)), mask_filter_value=-500.0)
    options |= choices(random, unidirectional=1) if length == keys else {}
    order = ["q", "k", "v", "bias", "mask", "attention_bias", "past_k", "past_v"]
    outputs = ["o", "keys", "values", "qk"] if not crossed else ["o"]
    return "MultiHeadAttention", order, inputs, options | {"num_heads": heads}, outputs


def merged(random: Random) -> Case:
    """Attention with one matrix for queries, keys and values."""
    batch, length, heads = (1 + int(random.integers(n)) for n in (3, 5, 3))
    size, past = int(random.choice([4, 8])), int(random.integers(1, 5)) * int(random.integers(2))
    wide = size if past else 4
    sizes = [heads * size, heads * size, heads * wide]
    inputs = {"x": normal(random, batch, length, 12) / 2, "w": normal(random, 12, sum(sizes)) / 2}
    inputs |= {"bias": normal(random, sum(sizes))} | masks(random, batch, length, length + past, ends=True)
    inputs |= {"past": normal(random, 2, batch, heads, past, size)} if past else {}
    if not past:
        inputs |= choices(random, attention_bias=normal(random, batch, 1, length, length))
    options = choices(random, unidirectional=1, scale=0.3) | {"num_heads": heads, "qkv_hidden_sizes": sizes}
    order = ["x", "w", "bias", "mask", "past", "attention_bias"]
    return "Attention", order, inputs, options, ["o", "present"] if past else ["o"]


def rotated(random: Random) -> Case:
    """Positions of each token, or the first one of all."""
    batch, length, heads, size = (1 + int(random.integers(n)) for n in (3, 5, 3, 2))
    half = 4 * size
    x = normal(random, *((batch, heads, length, 16) if random.integers(2) else (batch, length, heads * 16)))
    places = random.integers(0, 20, (batch, length) if random.integers(2) else (1,))
    options = choices(random, interleaved=1, scale=0.7, is_packed_batching=1)
    options |= {"rotary_embedding_dim": 8, "num_heads": heads} if half == 4 else choices(random, num_heads=heads)
    inputs = {"x": x, "at": places, "cos": normal(random, 30, half), "sin": normal(random, 30, half)}
    return "RotaryEmbedding", [*inputs], inputs, options, ["o"]


def skipped(random: Random) -> Case:
    """Norms of sums, of two axes or three; what is added may be one for all of the batch."""
    batch, length, size = (1 + int(random.integers(n)) for n in (3, 5, 12))
    kind = str(random.choice(["SkipSimplifiedLayerNormalization", "SkipLayerNormalization"]))
    x = normal(random, *((batch, length, size) if random.integers(3) else (batch, size)))
    more = [x.shape, (1, *x.shape[1:]), x.shape[1:]][random.integers(3) if x.ndim == 3 else 0]
    order = ["x", "skip", "gamma", *(["beta"] if kind == "SkipLayerNormalization" else []), "bias"]
    inputs = {"x": x, "skip": normal(random, *more), "gamma": normal(random, size)}
    inputs |= choices(random, **{name: normal(random, size) for name in order[3:]})
    return kind, order, inputs, choices(random, epsilon=0.01), ["o", "", "", "sum"]


def embedded(random: Random) -> Case:
    """Tables of floats, or of bytes with a scale each; with segments or without."""
    batch, length = (1 + int(random.integers(n)) for n in (3, 5))
    bits, tables = bool(random.integers(2)), {"words": (11, 8), "places": (9, 8), "kinds": (2, 8), "gamma": (8,)}
    order = ["ids", "segments", *tables, "beta", "mask"]
    inputs: dict[str, Any] = {"ids": random.integers(0, 11, (batch, length)).astype(np.int32)}
    parts = {**tables, "beta": (8,)}
    for name, shape in parts.items():
        inputs[name] = random.integers(0, 256, shape).astype(np.uint8) if bits else normal(random, *shape)
    if random.integers(2):
        inputs["segments"] = random.integers(0, 2, (batch, length)).astype(np.int32)
    else:
        del inputs["kinds"]
    inputs |= choices(random, mask=(random.random((batch, length)) < 0.8).astype(np.int32))
    options = choices(random, epsilon=0.01)
    if not bits:
        inputs |= choices(random, at=random.integers(0, 9, (int(random.choice([1, batch])), length)).astype(np.int32))
        return "EmbedLayerNormalization", [*order, "at"], inputs, options, ["o", "count", "sum"]
    for what in ("scale", "zero"):
        order += [f"{name} {what}" for name in parts]
        for name in [name for name in parts if name in inputs]:
            inputs[f"{name} {what}"] = (
                np.array(random.uniform(0.01, 0.1), np.float32)
                if what == "scale"
                else np.array(random.integers(100, 150), np.uint8)
            )
    return "QEmbedLayerNormalization", order, inputs, options, ["o", "count"]


@pytest.mark.parametrize("seed", range(14))
@pytest.mark.parametrize("draw", [multi_head, merged, rotated, skipped, embedded])
def test_a_node_is_that_of_the_runtime(tmp_path: Path, draw: Callable[[Random], Case], seed: int) -> None:
    """Within rounding, wherever an optional input is left out."""
    pytest.importorskip("onnxruntime")
    kind, order, inputs, options, outputs = draw(np.random.default_rng(seed))
    wanted = [name for name in outputs if name]
    path = saved_nodes(tmp_path / "m.onnx", [node_of(kind, order, inputs, outputs, **options)], inputs, wanted)
    for one, other in zip(ours(path, inputs), theirs(path, inputs), strict=True):
        assert one.shape == other.shape and one.dtype == other.dtype
        np.testing.assert_allclose(one, other, atol=5e-5, rtol=5e-5)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("packed", ["keys", "all"])
def test_packed_inputs_are_those_apart(tmp_path: Path, packed: str, seed: int) -> None:
    """Keys and values in one tensor, or queries too; with a bias, which the runtime refuses on a CPU."""
    pytest.importorskip("onnxruntime")
    random = np.random.default_rng(seed)
    batch, length, keys, heads = (1 + int(random.integers(n)) for n in (3, 5, 6, 3))
    keys = length if packed == "all" else keys
    q, k, v = (normal(random, batch, n, heads * 4) for n in (length, keys, keys))
    rest = choices(random, bias=normal(random, heads * 12)) | masks(random, batch, length, keys, ends=False)
    order, outputs = ["q", "k", "v", "bias", "mask"], ["o", "keys", "values"]
    by_head = [x.reshape(*x.shape[:2], heads, 4) for x in (q, k, v)]
    together = {"q": np.stack(by_head, 3)} if packed == "all" else {"q": q, "k": np.stack(by_head[1:], 3)}
    found = []
    for inputs, run in ((together | rest, ours), ({"q": q, "k": k, "v": v} | rest, theirs)):
        node = node_of("MultiHeadAttention", order, inputs, outputs, num_heads=heads)
        found.append(run(saved_nodes(tmp_path / "m.onnx", [node], inputs, outputs), inputs))
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5, rtol=2e-5)


@pytest.mark.parametrize("past", [0, 3])
@pytest.mark.parametrize("part", [0, 32])
def test_rotary_attention_is_what_the_runtime_asks_to_write_instead(tmp_path: Path, part: int, past: int) -> None:
    """Its CPU refuses do_rotary: "fuse the model with MHA + RotaryEmbedding". So beside these."""
    pytest.importorskip("onnxruntime")
    random = np.random.default_rng(past)
    half = 16 if part else 32
    angles = np.arange(9)[:, None] * 10000.0 ** -(np.arange(half) / half)
    inputs = {"x": normal(random, 2, 5, 12) / 2, "w": normal(random, 12, 384) / 2, "bias": normal(random, 384)}
    inputs |= {"past": normal(random, 2, 2, 2, past, 64)} if past else {}
    options = {"num_heads": 2, "do_rotary": 1, "rotary_embedding_dim": part, "unidirectional": 1}
    node = node_of("Attention", ["x", "w", "bias", "mask", "past"], inputs, ["o"], **options)
    mine = ours(saved_nodes(tmp_path / "one.onnx", [node], inputs, ["o"]), inputs)

    def rotation(of: str) -> Any:
        return helper.make_node(
            "RotaryEmbedding", [of, "at", "cos", "sin"], [of + "r"], domain="com.microsoft", num_heads=2,
            rotary_embedding_dim=part,
        )  # fmt: skip

    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"]),
        helper.make_node("Add", ["product", "bias"], ["whole"]),
        helper.make_node("Split", ["whole"], ["q", "k", "v"], axis=2),
        rotation("q"),
        rotation("k"),
        helper.make_node(
            "MultiHeadAttention", ["qr", "kr", "v", "", "", "", *(["past_key", "past_value"] if past else [])],
            ["o", "keys", "values"], domain="com.microsoft", num_heads=2, unidirectional=1,
        ),
    ]  # fmt: skip
    feeds = {"x": inputs["x"], "w": inputs["w"], "bias": inputs["bias"], "at": np.array([past])}
    feeds |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    feeds |= {"past_key": inputs["past"][0], "past_value": inputs["past"][1]} if past else {}
    peer = theirs(saved_nodes(tmp_path / "many.onnx", nodes, feeds, ["o"]), feeds)
    np.testing.assert_allclose(mine[0], peer[0], atol=2e-5)


APART = {name: np.ones((1, 2, 4), np.float32) for name in "qkv"}
REFUSED: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"q": np.ones((1, 2, 4), np.float32)}, ShapeError, "takes queries, keys and values, or queries and"),
    ({"q": np.ones((1, 2, 2, 2, 2), np.float32)}, ShapeError, "heads, 3, size"),
    (APART | {"mask": np.ones(5, np.int32)}, UnsupportedError, "a mask of"),
    (APART | {"length": np.ones(1, np.int32)}, UnsupportedError, "shared"),
]  # fmt: skip


@pytest.mark.parametrize(("inputs", "error", "words"), REFUSED, ids=[case[2] for case in REFUSED])
def test_what_is_not_computed_is_refused(
    tmp_path: Path, inputs: dict[str, Any], error: type[Exception], words: str
) -> None:
    """Missing keys, other packings, masks of packed sequences, and a cache that is shared."""
    order = ["q", "k", "v", "bias", "mask", "attention_bias", "past_k", "past_v", "length"]
    node = node_of("MultiHeadAttention", order, inputs, ["o"], num_heads=2)
    with pytest.raises(error, match=words):
        ours(saved_nodes(tmp_path / "m.onnx", [node], inputs, ["o"]), inputs)
