"""ONNX: a model file as a function of tensors, and a function of tensors as a model file.

`load(path)` gives an `OnnxModel`, which is called with tensors by the names of its inputs and returns tensors by the
names of its outputs. Every operator is written with operations of Tensor, so a model is lazy, runs on any device, is
captured by TinyJit, and has derivatives. It needs the package `onnx`, for the format alone: `pip install
tinygraft[onnx]`.

    modelfile       a file to an onnx.ModelProto, and what it may not do
    weights         an onnx.TensorProto to a Tensor, made when it is first used
    element_types   the element types of ONNX, and the dtypes that hold them
    operator_table  the operators by domain, name and version
    op_*            the operators, a function each, by theme
    onnx_graph      a graph that is prepared once: its steps, with their functions and attributes
    host_values     what is known of shapes, axes and counts without computing
    onnx_model      the callable

`export(function, args, path)` writes one: the function is called once with stand-ins, and its graph becomes a graph of
ONNX.

    exporting       the call, the ModelProto, and its file with weights in it or beside it
    traced          the function as a graph, with the names of inputs, outputs, sizes and weights
    graph_writer    a graph node by node: names, constants, weights
    recognised      what several nodes are and one operator is: convolutions, softmax, norms, activations
    write_*         all other nodes, by theme
"""

from __future__ import annotations

from tinygraft.onnx.exporting import export
from tinygraft.onnx.onnx_model import OnnxModel, load

__all__ = ["OnnxModel", "export", "load"]
