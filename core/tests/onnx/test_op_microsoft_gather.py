"""GatherBlockQuantized beside ONNX Runtime: an embedding of few bits, as exported language models have it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from onnx_nodes import ours, theirs
from tinygraft.errors import UnsupportedError

helper, numpy_helper = onnx.helper, onnx.numpy_helper


def packed(values: Any, bits: int) -> Any:
    """Numbers of a few bits in bytes along the last axis, low ones first; the last byte may have room."""
    each = 8 // bits
    values = np.concatenate([values, np.zeros((*values.shape[:-1], -values.shape[-1] % each), values.dtype)], -1)
    return sum(values[..., part::each] << (bits * part) for part in range(each)).astype(np.uint8)


def constant(name: str, values: Any, kind: str, bits: int) -> Any:
    """An initializer of bytes, or of a type of four bits."""
    if kind == "UINT8":
        return numpy_helper.from_array(packed(values, bits), name)
    return helper.make_tensor(name, onnx.TensorProto.DataType.Value(kind), values.shape, values.flatten().tolist())


def saved(path: Path, table: list[Any], shape: tuple[int, ...], **options: Any) -> Path:
    """A file of the node, whose indices are its input."""
    node = helper.make_node("GatherBlockQuantized", ["data", "at", "scale", "zero"][: len(table) + 1], ["o"],
                            domain="com.microsoft", **options)  # fmt: skip
    inputs, outputs = [helper.make_tensor_value_info("at", 7, shape)], [helper.make_empty_tensor_value_info("o")]
    imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "g", inputs, outputs, table)
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=10), str(path))
    return path


@pytest.mark.parametrize("seed", range(16))
def test_rows_are_those_of_the_runtime(tmp_path: Path, seed: int) -> None:
    """Of bytes and of types of four bits, with zero points or without, of tables of two axes and three."""
    pytest.importorskip("onnxruntime")
    random = np.random.default_rng(seed)
    kind, block = str(random.choice(["UINT8", "UINT4", "INT4"])), int(random.choice([16, 32]))
    bits = int(random.choice([4, 8])) if kind == "UINT8" else 4
    width = int(random.choice([16, 32, 48, 80]))
    shape = (5, width) if kind == "UINT8" or random.integers(2) else (5, 3, width)
    blocks = (*shape[:-1], -(-width // block))
    low, high = (-8, 8) if kind == "INT4" else (0, 1 << bits)
    across = int(random.integers(2)) if len(shape) == 3 else 0
    table = [
        constant("data", random.integers(low, high, shape), kind, bits),
        numpy_helper.from_array(random.random(blocks).astype(np.float32), "scale"),
    ]
    if random.integers(2):
        table.append(constant("zero", random.integers(low, high, blocks), kind, bits))
    size = shape[across]
    at = random.integers(-size, size, [(4,), (2, 3), ()][random.integers(3)])
    path = saved(tmp_path / "m.onnx", table, np.shape(at), bits=bits, block_size=block, gather_axis=across,
                 quantize_axis=len(shape) - 1)  # fmt: skip
    feeds = {"at": np.asarray(at)}
    (mine,), (peer,) = ours(path, feeds), theirs(path, feeds)
    assert mine.shape == peer.shape and mine.dtype == peer.dtype
    np.testing.assert_allclose(mine, peer, rtol=1e-6)


def test_an_index_outside_gives_zeros(tmp_path: Path) -> None:
    """As the operator says; and bits that no byte holds are refused."""
    table = [constant("data", np.full((5, 32), 3), "UINT8", 4), numpy_helper.from_array(np.ones((5, 2), "f4"), "scale")]
    (found,) = ours(saved(tmp_path / "m.onnx", table, (3,), bits=4, block_size=16), {"at": np.array([4, 5, -6])})
    np.testing.assert_array_equal(found, [[-5] * 32, [0] * 32, [0] * 32])
    with pytest.raises(UnsupportedError, match="of 2, 4 or 8 bits in a byte, got bits=3"):
        ours(saved(tmp_path / "m.onnx", table, (3,), bits=3, block_size=16), {"at": np.array([4, 0, 1])})
