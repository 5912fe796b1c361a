"""Single nodes beside ONNX Runtime: files of one, and their outputs here and there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, save

from tinygraft import onnx as here


def node_of(kind: str, order: Sequence[str], inputs: Mapping[str, Any], outputs: Sequence[str], **options: Any) -> Any:
    """A node of com.microsoft whose inputs are named as in `order`; those that are absent are left out."""
    last = max(order.index(name) for name in inputs)
    names = [name if name in inputs else "" for name in order[: last + 1]]
    return helper.make_node(kind, names, list(outputs), domain="com.microsoft", **options)


def saved_nodes(path: Path, nodes: Sequence[Any], inputs: Mapping[str, Any], outputs: Sequence[str]) -> Path:
    """A model file of nodes whose inputs have the dtypes and shapes of arrays; "qk" is of float32."""
    kinds = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in inputs.items()
    ]
    made = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
        if name == "qk"
        else helper.make_empty_tensor_value_info(name)
        for name in outputs
    ]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(list(nodes), "g", kinds, made)
    save(helper.make_model(graph, opset_imports=imports, ir_version=9), str(path))
    return path


def ours(path: Path, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs of a model file here."""
    return [x.numpy() for x in here.load(str(path))(**feeds).values()]


def theirs(path: Path, feeds: Mapping[str, Any]) -> list[Any]:
    """The outputs of a model file in ONNX Runtime, as it is written, by one thread."""
    import onnxruntime  # the tests that call this skip without it

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    found: list[Any] = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"]).run(
        None, dict(feeds)
    )
    return found


def normal(random: np.random.Generator, *shape: int) -> Any:
    """Normal numbers of float32."""
    return random.standard_normal(shape).astype(np.float32)
