"""What ONNX Runtime's quantiser and optimiser write, beside what ONNX Runtime makes of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import onnx as here

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
quantization = pytest.importorskip("onnxruntime.quantization")
helper, numpy_helper = onnx.helper, onnx.numpy_helper
RNG = np.random.default_rng(0)


def small(*shape: int, scale: float = 0.3) -> Any:
    """Normal numbers of float32."""
    return (RNG.standard_normal(shape) * scale).astype(np.float32)


def saved(path: Path, nodes: list[Any], inputs: dict[str, Any], outputs: list[str], weights: dict[str, Any]) -> Path:
    """A model file of nodes whose inputs have the dtypes and shapes of arrays."""
    kinds = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    made = [helper.make_empty_tensor_value_info(name) for name in outputs]
    constants = [numpy_helper.from_array(value, name) for name, value in weights.items()]
    graph = helper.make_graph(nodes, "g", kinds, made, constants)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=9), str(path))
    return path


def both(path: Path, feeds: dict[str, Any], level: Any = None) -> tuple[list[Any], list[Any]]:
    """The outputs of a model file here and in ONNX Runtime."""
    options = runtime.SessionOptions()
    options.graph_optimization_level = level or runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [x.numpy() for x in here.load(str(path))(**feeds).values()], session.run(None, feeds)


def net(path: Path) -> tuple[Path, Any]:
    """A small CNN: convolutions, an addition, products, poolings, a concatenation, a matrix product."""
    x = small(2, 3, 12, 12, scale=1.0)
    weights = {"w1": small(8, 3, 3, 3), "b1": small(8), "w2": small(8, 8, 3, 3), "w3": small(16, 10), "b3": small(10)}
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["c2"], ["l2"], alpha=0.1),
        helper.make_node("Add", ["l2", "r1"], ["a"]),
        helper.make_node("Sigmoid", ["a"], ["s"]),
        helper.make_node("Mul", ["a", "s"], ["m"]),
        helper.make_node("MaxPool", ["m"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("AveragePool", ["m"], ["q"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Concat", ["p", "q"], ["k"], axis=1),
        helper.make_node("GlobalAveragePool", ["k"], ["g"]),
        helper.make_node("Flatten", ["g"], ["f"]),
        helper.make_node("Gemm", ["f", "w3", "b3"], ["e"]),
        helper.make_node("Softmax", ["e"], ["y"]),
    ]
    return saved(path, nodes, {"x": x}, ["y"], weights), x


class Reader(quantization.CalibrationDataReader):  # type: ignore[misc]
    """Five batches to calibrate by."""

    def __init__(self, batches: list[dict[str, Any]]) -> None:
        self.left = list(batches)

    def get_next(self) -> dict[str, Any] | None:
        """A batch, and at last None."""
        return self.left.pop() if self.left else None


@pytest.mark.parametrize("form", ["QDQ", "QOperator"])
@pytest.mark.parametrize("per_channel", [False, True])
def test_a_statically_quantised_net_is_that_of_the_runtime(tmp_path: Path, form: str, per_channel: bool) -> None:
    """Within one step of the last quantisation, 1/256 of a softmax."""
    path, x = net(tmp_path / "net.onnx")
    to, batches = tmp_path / "q.onnx", [{"x": small(2, 3, 12, 12, scale=1.0)} for _ in range(5)]
    quantization.quantize_static(
        str(path), str(to), Reader(batches), quant_format=quantization.QuantFormat[form], per_channel=per_channel
    )
    kinds = {node.op_type for node in onnx.load(str(to)).graph.node}
    assert form == "QDQ" or {"QLinearConv", "QLinearAdd", "QLinearConcat", "QGemm"} <= kinds
    mine, theirs = both(to, {"x": x})
    np.testing.assert_allclose(mine[0], theirs[0], atol=1.01 / 256)


def test_a_dynamically_quantised_net_is_that_of_the_runtime(tmp_path: Path) -> None:
    """Products with bytes whose scale is that of the input."""
    path, x = net(tmp_path / "net.onnx")
    quantization.quantize_dynamic(str(path), str(tmp_path / "d.onnx"))
    mine, theirs = both(tmp_path / "d.onnx", {"x": x})
    np.testing.assert_allclose(mine[0], theirs[0], atol=2e-3)


U8, I8 = np.uint8, np.int8
bits = RNG.integers(0, 256, (2, 4, 6, 6)).astype(U8)
more = RNG.integers(0, 256, (2, 4, 6, 6)).astype(U8)
step = [np.float32(0.05), U8(120)]
other = [np.float32(0.03), U8(100)]
matrix, rows = RNG.integers(-127, 128, (8, 5)).astype(I8), RNG.integers(0, 256, (3, 8)).astype(U8)
ids = RNG.integers(0, 11, (2, 5)).astype(np.int32)
x = small(2, 5, 8, scale=1.0)
lengths, ragged = np.array([3, 5], np.int32), np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
scales, packed = np.abs(small(5 * 2)) + 0.01, RNG.integers(0, 256, (5, 2, 8)).astype(U8)
CASES: list[tuple[str, list[Any], dict[str, Any], int]] = [
    ("QLinearAdd", [bits, *step, more, *other, *step], {}, 1),
    ("QLinearMul", [bits, *step, more, *other, *step], {}, 1),
    ("QLinearSigmoid", [bits, *step, np.float32(1 / 256), U8(0)], {}, 1),
    ("QLinearLeakyRelu", [bits, *step, *other], {"alpha": 0.2}, 1),
    ("QLinearSoftmax", [bits, *step, np.float32(1 / 256), U8(0)], {"axis": -1, "opset": 13}, 1),
    ("QLinearConcat", [*step, bits, *step, more, *other], {"axis": 1}, 1),
    ("QLinearAveragePool", [bits, *step, *other], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}, 1),
    ("QLinearAveragePool", [bits, *step, *other], {"kernel_shape": [2, 2], "channels_last": 1}, 1),
    ("QLinearGlobalAveragePool", [bits, *step, *other], {"channels_last": 0}, 1),
    ("QLinearWhere", [bits > 99, bits, *step, more, *other, *step], {}, 1),
    ("QGemm", [rows, *step, matrix, np.float32(0.02), I8(3), np.arange(5, dtype=np.int32), *other], {}, 1),
    ("QGemm", [rows, *step, matrix.T.copy(), np.float32(0.02), I8(3)], {"transB": 1, "alpha": 2.0}, 1),
    ("MatMulIntegerToFloat", [rows, matrix, step[0], np.abs(small(5)), step[1], np.zeros(5, I8), small(5)], {}, 1),
    ("DynamicQuantizeMatMul", [x, matrix, np.float32(0.02), I8(3), small(5)], {}, 1),
    ("MatMulNBits", [small(2, 3, 32), packed, scales], {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1),
    ("MatMulNBits", [small(3, 32), packed, scales, RNG.integers(0, 256, 5).astype(U8)],
     {"K": 32, "N": 5, "bits": 4, "block_size": 16}, 1),
    ("FusedMatMul", [x, small(2, 8, 5)], {"transA": 1, "transB": 1, "alpha": 0.5}, 1),
    ("FusedMatMul", [small(5, 2, 3, 8), small(8, 2, 3, 4)], {"transBatchA": 1, "transBatchB": 1}, 1),
    ("FusedMatMul", [small(5, 2, 3, 8), small(4, 2, 3, 8)], {"transBatchA": 1, "transBatchB": 1, "transB": 1}, 1),
    ("Gelu", [x], {}, 1),
    ("BiasGelu", [x, small(8)], {}, 1),
    ("FastGelu", [x, small(8)], {}, 1),
    ("QuickGelu", [x], {"alpha": 1.5}, 1),
    ("FusedConv", [small(1, 3, 8, 8), small(4, 3, 3, 3), small(4)], {"activation": "Relu", "pads": [1, 1, 1, 1]}, 1),
    ("FusedGemm", [small(3, 8), small(8, 5), small(5)], {"activation": "LeakyRelu", "activation_alpha": 0.2}, 1),
    ("SkipLayerNormalization", [x, small(2, 5, 8), small(8), small(8), small(8)], {"epsilon": 1e-5}, 4),
    ("SkipSimplifiedLayerNormalization", [x, small(2, 5, 8), small(8)], {"epsilon": 1e-5}, 4),
    ("EmbedLayerNormalization", [ids, ids % 2, small(11, 8), small(9, 8), small(2, 8), small(8), small(8), ragged],
     {"epsilon": 1e-5}, 2),
    ("Attention", [x, small(8, 24), small(24)], {"num_heads": 2}, 1),
    ("Attention", [x, small(8, 24), small(24), lengths], {"num_heads": 2}, 1),
    ("Attention", [x, small(8, 24), small(24), ragged], {"num_heads": 2, "unidirectional": 1}, 1),
    ("Attention", [x, small(8, 24), small(24), None, small(2, 2, 2, 3, 4)], {"num_heads": 2, "unidirectional": 1}, 2),
    ("MultiHeadAttention", [x, small(2, 7, 8), small(2, 7, 8), small(24)], {"num_heads": 2}, 1),
    ("MultiHeadAttention", [x, x, x, None, ragged], {"num_heads": 2, "scale": 0.7}, 3),
    ("RotaryEmbedding", [x, np.array([[0, 1, 2, 3, 4], [5, 3, 2, 1, 0]]), small(6, 2), small(6, 2)],
     {"num_heads": 2}, 1),
    ("RotaryEmbedding", [x, np.array([2]), small(9, 4), small(9, 4)], {"interleaved": 1}, 1),
    # of 7 bits: without VNNI the runtime adds two products of bytes in 16 bits, which saturate beyond
    ("QAttention", [rows.reshape(1, 3, 8), RNG.integers(-64, 64, (8, 24)).astype(I8), small(24), step[0],
                    np.float32(0.002), None, step[1], I8(0)], {"num_heads": 2}, 1),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "count"), CASES, ids=[f"{c[0]}{i}" for i, c in enumerate(CASES)]
)
def test_an_operator_is_that_of_the_runtime(
    tmp_path: Path, kind: str, inputs: list[Any], attributes: dict[str, Any], count: int
) -> None:
    """Bits within one step, floats within rounding; the empty outputs between are not asked for."""
    arrays = {f"i{n}": np.asarray(value) for n, value in enumerate(inputs) if value is not None}
    names = [f"i{n}" if value is not None else "" for n, value in enumerate(inputs)]
    made = [f"o{n}" for n in range(count)]
    wanted = (
        made if kind in ("MultiHeadAttention", "Attention", "EmbedLayerNormalization") else [made[0], made[-1]][:count]
    )
    node = helper.make_node(kind, names, [n if n in wanted else "" for n in made], domain="com.microsoft", **attributes)
    feeds = {name: arrays[name] for name in ("i0",)}
    path = saved(tmp_path / "m.onnx", [node], feeds, wanted, {n: a for n, a in arrays.items() if n not in feeds})
    mine, theirs = both(path, feeds)
    assert len(mine) == len(theirs)
    for one, two in zip(mine, theirs, strict=True):
        assert one.shape == two.shape and one.dtype == two.dtype
        if one.dtype.kind in "ui":
            assert int(np.abs(one.astype(int) - two.astype(int)).max()) <= 1
        else:
            np.testing.assert_allclose(one, two, atol=2e-5, rtol=2e-5)


def test_places_of_elements_are_found_on_the_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """NonZero and Compress run as kernels: NumPy is asked for nothing."""
    mask = RNG.integers(0, 2, (3, 5)).astype(bool)
    nodes = [helper.make_node("NonZero", ["m"], ["y"]), helper.make_node("Compress", ["x", "m1"], ["z"], axis=1)]
    feeds = {"m": mask, "x": small(3, 5), "m1": mask[0]}
    path = saved(tmp_path / "n.onnx", nodes, feeds, ["y", "z"], {})
    monkeypatch.setattr(np, "flatnonzero", lambda *_: pytest.fail("found on the host"))
    got = here.load(str(path))(**feeds)
    assert got["y"].tolist() == [list(map(int, row)) for row in np.nonzero(mask)]
    assert np.array_equal(got["z"].numpy(), feeds["x"][:, mask[0]])
    none = here.load(str(path))(m=np.zeros((3, 5), bool), x=feeds["x"], m1=np.zeros(5, bool))
    assert none["y"].shape == (2, 0) and none["z"].shape == (3, 0)
