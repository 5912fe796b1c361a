"""The items for ONNX Runtime: graphs built here, run by its CPU provider with all optimisations."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from benchmarks import data
from benchmarks.case import Array, Builder, Case

OPSET = 20
IR = 9


def facts() -> dict[str, Any]:
    """Version, provider and threads."""
    return {"version": onnxruntime.__version__, "threads": os.environ["BENCHMARK_THREADS"]}


class Graph:
    """A graph in the making. Inputs and weights are arrays by name; add gives the name of a node's output."""

    def __init__(self, **inputs: Array) -> None:
        self.inputs = inputs
        self.nodes: list[Any] = []
        self.weights: list[Any] = []

    def weight(self, name: str, array: Array) -> str:
        """A constant."""
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        """One more operation."""
        output = f"value{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def split(self, x: str, count: int) -> list[str]:
        """The equal parts of a value along its last axis."""
        parts = [f"value{len(self.nodes)}.{part}" for part in range(count)]
        self.nodes.append(helper.make_node("Split", [x], parts, axis=-1, num_outputs=count))
        return parts

    def case(self, output: str) -> Case:
        """The graph up to an output, ready to run."""
        inputs = [helper.make_tensor_value_info(name, _type(array), array.shape) for name, array in self.inputs.items()]
        outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)]
        graph = helper.make_graph(self.nodes, "item", inputs, outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ["BENCHMARK_THREADS"])
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        return Case(lambda: session.run([output], self.inputs)[0], lambda result: result)


def _type(array: Array) -> int:
    return int(TensorProto.INT32 if array.dtype == np.int32 else TensorProto.FLOAT)


def matmul(n: int) -> Case:
    """Two square matrices multiplied."""
    graph = Graph(a=data.normal("a", n, n), b=data.normal("b", n, n))
    return graph.case(graph.add("MatMul", "a", "b"))


def chain(n: int) -> Case:
    """Four elementwise operations."""
    graph = Graph(x=data.normal("x", n, scale=0.5))
    two, one = (graph.weight(f"number{k}", np.array(k, np.float32)) for k in (2, 1))
    return graph.case(graph.add("Exp", graph.add("Relu", graph.add("Add", graph.add("Mul", "x", two), one))))


def reduction(op: str, axis: int) -> Builder:
    """A sum or mean over one axis of a matrix."""

    def make(rows: int, columns: int) -> Case:
        graph = Graph(x=data.normal("x", rows, columns))
        return graph.case(graph.add(op, "x", graph.weight("axes", np.array([axis])), keepdims=0))

    return make


def softmax(rows: int, columns: int) -> Case:
    """Over the last axis."""
    graph = Graph(x=data.normal("x", rows, columns))
    return graph.case(graph.add("Softmax", "x", axis=-1))


def layernorm(rows: int, columns: int) -> Case:
    """Over the last axis, with scale and shift."""
    graph = Graph(x=data.normal("x", rows, columns))
    scale, shift = (graph.weight(name, data.normal(name, columns)) for name in ("scale", "shift"))
    return graph.case(graph.add("LayerNormalization", "x", scale, shift, axis=-1, epsilon=1e-5))


def convolved(graph: Graph, x: str, w: str, stride: int = 1, padding: int = 0) -> str:
    """A convolution."""
    return graph.add("Conv", x, w, strides=[stride] * 2, pads=[padding] * 4)


def conv(batch: int, channels: int, size: int) -> Case:
    """A 3x3 convolution that keeps the number of channels and the size."""
    graph = Graph(x=data.normal("x", batch, channels, size, size))
    w = graph.weight("w", data.normal("w", channels, channels, 3, 3, scale=(channels * 9) ** -0.5))
    return graph.case(convolved(graph, "x", w, padding=1))


def resnet18(batch: int) -> Case:
    """The scores of a batch of photos."""
    graph = Graph(x=data.photos(batch))
    names = {graph.weight(name, array) for name, array in data.resnet18()}

    def normalised(x: str, name: str) -> str:
        parts = (f"{name}.{part}" for part in ("weight", "bias", "running_mean", "running_var"))
        return graph.add("BatchNormalization", x, *parts, epsilon=1e-5)

    def block(x: str, name: str, stride: int) -> str:
        y = graph.add("Relu", normalised(convolved(graph, x, f"{name}.conv1.weight", stride, 1), f"{name}.bn1"))
        y = normalised(convolved(graph, y, f"{name}.conv2.weight", 1, 1), f"{name}.bn2")
        if f"{name}.downsample.0.weight" in names:
            x = normalised(convolved(graph, x, f"{name}.downsample.0.weight", stride), f"{name}.downsample.1")
        return graph.add("Relu", graph.add("Add", x, y))

    x = graph.add("Relu", normalised(convolved(graph, "x", "conv1.weight", 2, 3), "bn1"))
    x = graph.add("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for number in (1, 2, 3, 4):
        x = block(x, f"layer{number}.0", 1 if number == 1 else 2)
        x = block(x, f"layer{number}.1", 1)
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    return graph.case(graph.add("Gemm", x, "fc.weight", "fc.bias", transB=1))


def gpt2(batch: int, length: int) -> Case:
    """The scores of all tokens, with the mask and the positions as constants, as an exporter leaves them."""
    graph = Graph(tokens=data.tokens(batch, length)[0])
    for name, array in data.gpt2():
        graph.weight(name, array.T.copy() if array.ndim == 2 and name.startswith("h.") else array)
    heads = graph.weight("heads", np.array([batch, length, data.HEADS, -1]))
    rows = graph.weight("rows", np.array([batch, length, data.WIDTH]))
    seen = np.where(np.tri(length, dtype=bool), np.float32(0), np.float32(-np.inf))
    mask, scale = (
        graph.weight("mask", seen),
        graph.weight("scale", np.array((data.WIDTH / data.HEADS) ** -0.5, np.float32)),
    )

    def linear(x: str, name: str) -> str:
        return graph.add("Add", graph.add("MatMul", x, f"{name}.weight"), f"{name}.bias")

    def normalised(x: str, name: str) -> str:
        return graph.add("LayerNormalization", x, f"{name}.weight", f"{name}.bias", axis=-1, epsilon=1e-5)

    def attention(x: str, name: str) -> str:
        parts = graph.split(linear(x, f"{name}.c_attn"), 3)
        q, k, v = (graph.add("Reshape", part, heads) for part in parts)
        q, v = (graph.add("Transpose", part, perm=[0, 2, 1, 3]) for part in (q, v))
        scores = graph.add("Mul", graph.add("MatMul", q, graph.add("Transpose", k, perm=[0, 2, 3, 1])), scale)
        y = graph.add("MatMul", graph.add("Softmax", graph.add("Add", scores, mask), axis=-1), v)
        y = graph.add("Reshape", graph.add("Transpose", y, perm=[0, 2, 1, 3]), rows)
        return linear(y, f"{name}.c_proj")

    positions = graph.weight("positions", np.arange(length))
    x = graph.add("Add", graph.add("Gather", "wte.weight", "tokens"), graph.add("Gather", "wpe.weight", positions))
    for layer in range(data.LAYERS):
        name = f"h.{layer}"
        x = graph.add("Add", x, attention(normalised(x, f"{name}.ln_1"), f"{name}.attn"))
        y = graph.add("Gelu", linear(normalised(x, f"{name}.ln_2"), f"{name}.mlp.c_fc"), approximate="tanh")
        x = graph.add("Add", x, linear(y, f"{name}.mlp.c_proj"))
    last = graph.add("Transpose", "wte.weight", perm=[1, 0])
    return graph.case(graph.add("MatMul", normalised(x, "ln_f"), last))


ITEMS: dict[str, Builder] = {
    "matmul": matmul,
    "chain": chain,
    "sum0": reduction("ReduceSum", 0),
    "sum1": reduction("ReduceSum", 1),
    "mean0": reduction("ReduceMean", 0),
    "mean1": reduction("ReduceMean", 1),
    "softmax": softmax,
    "layernorm": layernorm,
    "conv": conv,
    "resnet18": resnet18,
    "resnet18_fast": resnet18,
    "gpt2": gpt2,
}
