"""ONNX: a model file as a function of tensors.

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
"""

from __future__ import annotations

from tinygraft.onnx.exporting import export
from tinygraft.onnx.onnx_model import OnnxModel, load

__all__ = ["OnnxModel", "export", "load"]
