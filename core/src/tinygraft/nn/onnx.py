"""OnnxRunner: a model of ONNX under the name, and with the calls, that it has in tinygrad."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinygraft.onnx.onnx_model import OnnxInput, OnnxModel
from tinygraft.onnx.operator_table import OnnxValue
from tinygraft.uop.uop import Place


class OnnxRunner:
    """A model of ONNX, to be called with a dict of inputs; returns a dict of outputs.

    `graph_inputs` says what it takes, by name, `graph_outputs` are the names of what it returns. It is
    `tinygraft.onnx.load` by another name, and raises what that raises.

    >>> from onnx import TensorProto, helper
    >>> from tinygraft import Tensor
    >>> x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy")
    >>> graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "small", [x], [y])
    >>> runner = OnnxRunner(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    >>> runner({"x": Tensor([1.0, 2.0])})["y"].tolist()
    [-1.0, -2.0]
    """

    def __init__(self, model_path: Any, device: Place = None) -> None:
        self._source, self._model = model_path, OnnxModel(model_path, device)

    @property
    def graph_inputs(self) -> dict[str, OnnxInput]:
        """What each input is, by name."""
        return self._model.inputs

    @property
    def graph_outputs(self) -> tuple[str, ...]:
        """The names of the outputs."""
        return tuple(self._model.outputs)

    def to(self, device: Place) -> OnnxRunner:
        """Read the model again with its weights on `device`; return this object."""
        self._model = OnnxModel(self._source, device)
        return self

    def __call__(self, inputs: Mapping[str, Any]) -> dict[str, OnnxValue]:
        """Return the outputs by name, of inputs by name: tensors or what a tensor is made of."""
        return self._model(inputs)
