"""A model of ONNX as a callable: tensors by the names of its inputs in, tensors by the names of its outputs out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from tinygraft.config import Context
from tinygraft.dtype import DType
from tinygraft.errors import DTypeError, FileFormatError, ShapeError, UnsupportedError
from tinygraft.onnx.element_types import held_in
from tinygraft.onnx.modelfile import read_model
from tinygraft.onnx.onnx_graph import Builder, OnnxGraph
from tinygraft.onnx.operator_table import OnnxValue
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place


@dataclass(frozen=True)
class OnnxInput:
    """What a model says of one input: its kind, dtype and shape. A size is a number, a name, or None: any."""

    name: str
    kind: str  # tensor, sequence or optional
    dtype: DType | None
    shape: tuple[int | str | None, ...] | None
    is_optional: bool


class OnnxModel:
    """A model of ONNX, to be called.

    `inputs` says what it takes, by name, `outputs` are the names of what it returns, `weights` its initializers as
    tensors by name, each made when it is first used. Values are lazy until they are read; nothing of a call is kept.

    >>> from onnx import TensorProto, helper
    >>> x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 2])
    >>> y = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2])
    >>> graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "small", [x], [y])
    >>> model = load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    >>> model(x=Tensor([[1.0, -2.0]]))["y"].tolist()
    [[1.0, 0.0]]
    """

    def __init__(self, source: Any, device: Place = None) -> None:
        proto, folder, label = read_model(source)
        versions = {("" if each.domain == "ai.onnx" else each.domain): each.version for each in proto.opset_import}
        functions = {(each.domain, each.name): each for each in proto.functions}
        builder = Builder(label, folder, device, versions, functions)
        self._graph, self._label, self._device = OnnxGraph(proto.graph, builder), label, device
        if builder.unknown:
            raise UnsupportedError(
                f"{label} has operators that are not known here: {', '.join(sorted(set(builder.unknown)))}"
            )
        self.outputs: list[str] = list(self._graph.outputs)
        self.inputs: dict[str, OnnxInput] = {
            each.name: _described(each, each.name in self._graph.weights, label) for each in proto.graph.input
        }
        self.metadata: dict[str, str] = {each.key: each.value for each in proto.metadata_props}
        self.versions: dict[str, int] = versions

    @property
    def weights(self) -> dict[str, Tensor]:
        """The initializers by name; all of them are made."""
        return {name: weight.tensor() for name, weight in self._graph.weights.items()}

    def __call__(self, inputs: Mapping[str, Any] | None = None, /, **named: Any) -> dict[str, OnnxValue]:
        """The outputs by name, of inputs by name: in a dict, by keyword, or both.

        What is no tensor (an array, a list, a number) becomes one of the dtype that the model asks for, on the device
        that the model was loaded to. Raises
        TypeError for names that the model does not have, or that are missing, DTypeError and ShapeError for a tensor
        that is not what the model asks for.
        """
        if inputs is not None and not isinstance(inputs, Mapping):
            raise TypeError(
                f"{self._label} takes its inputs by name, got {type(inputs).__name__}\n"
                f"  hint: model({next(iter(self.inputs), 'x')}=...), or a dict"
            )
        given = {**(inputs or {}), **named}
        self._check_names(given)
        sizes: dict[str, tuple[int, str]] = {}
        with Context(DEV=self._device) if isinstance(self._device, str) else nullcontext():
            values = [_taken(each, given[name], sizes) if name in given else None for name, each in self.inputs.items()]
            return dict(zip(self.outputs, self._graph.run(values), strict=True))

    def run(self, outputs: Sequence[str] | None, inputs: Mapping[str, Any]) -> list[OnnxValue]:
        """Return the outputs of those names as a list, all of them for None: as ONNX Runtime's `session.run`.

        Raises TypeError for a name that the model does not have, and as a call of the model.
        """
        if isinstance(outputs, str):
            raise TypeError(
                f"run takes the names of outputs as a list, as [{outputs!r}], or None for all, got {outputs!r}"
            )
        found = self(inputs)
        wrong = [name for name in outputs or () if name not in found]
        if wrong:
            raise TypeError(f"{self._label} has the outputs {self.outputs}, not {wrong}")
        return [found[name] for name in (self.outputs if outputs is None else outputs)]

    def _check_names(self, given: Mapping[str, Any]) -> None:
        """Raise TypeError unless all inputs without a default are given, and nothing else."""
        wrong = [name for name in given if name not in self.inputs]
        missing = [name for name, each in self.inputs.items() if name not in given and not each.is_optional]
        if wrong or missing:
            raise TypeError(
                f"{self._label} takes the inputs {list(self.inputs)}"
                + (f"; {missing} {'is' if len(missing) == 1 else 'are'} missing" if missing else "")
                + (f"; it has no {wrong}" if wrong else "")
            )

    def __repr__(self) -> str:
        return f"<OnnxModel {self._label} of {list(self.inputs)} to {self.outputs}>"


def load(path: Any, device: Place = None) -> OnnxModel:
    """The model in a file of ONNX, or of its bytes or its ModelProto.

    Weights are made when they are first used; external data is read from the folder of the file alone. Raises
    FileFormatError for a file that is damaged or contradicts itself, and UnsupportedError that names all operators
    of the model that tinygraft does not have.
    """
    return OnnxModel(path, device)


def _described(proto: Any, has_default: bool, label: str) -> OnnxInput:
    """Return what a ValueInfoProto says of an input.

    Raises UnsupportedError for what is no tensor or sequence of tensors.
    """
    kind = str(proto.type.WhichOneof("value") or "").removesuffix("_type").removesuffix("_sparse")
    inner, optional = proto.type, has_default
    if kind == "optional":
        inner, optional = proto.type.optional_type.elem_type, True
        kind = str(inner.WhichOneof("value") or "").removesuffix("_type")
    if kind == "sequence":
        return OnnxInput(proto.name, kind, None, None, optional)
    if kind != "tensor":
        raise UnsupportedError(f"{label}: the input {proto.name!r} is a {kind or 'value of no type'}, not a tensor")
    tensor = inner.tensor_type
    dtype = held_in(tensor.elem_type, f"{label}: the input {proto.name!r}")
    shape = None
    if tensor.HasField("shape"):
        shape = tuple(_size(size, proto.name, label) for size in tensor.shape.dim)
    return OnnxInput(proto.name, kind, dtype, shape, optional)


def _size(size: Any, name: str, label: str) -> int | str | None:
    """Return one size of a shape: a number, a name, or None. Raises FileFormatError for one below 0."""
    if size.HasField("dim_value"):
        if size.dim_value < 0:
            raise FileFormatError(f"{label}: the input {name!r} has a size of {size.dim_value}; sizes are from 0")
        return int(size.dim_value)
    return str(size.dim_param) or None


def _taken(want: OnnxInput, value: Any, sizes: dict[str, tuple[int, str]]) -> OnnxValue:
    """Return the value for an input, checked: a tensor, a list of them, or None.

    `sizes` has the named sizes so far, and which input had them; new ones are added. Raises TypeError, DTypeError and
    ShapeError for what does not fit.
    """
    if value is None:
        if not want.is_optional:
            raise TypeError(f"the input {want.name!r} is not optional, got None")
        return None
    if want.kind == "sequence":
        if not isinstance(value, (list, tuple)):
            raise TypeError(
                f"the input {want.name!r} is a sequence: give a list of tensors, not {type(value).__name__}"
            )
        return [item if isinstance(item, Tensor) else Tensor(item) for item in value]
    found = value if isinstance(value, Tensor) else _converted(want, value)
    if want.dtype is not None and found.dtype != want.dtype:
        raise DTypeError(f"the input {want.name!r} is {want.dtype}, got {found.dtype}; cast it first")
    _check_shape(want, found, sizes)
    return found


def _converted(want: OnnxInput, value: Any) -> Tensor:
    """A tensor of what is none: an array keeps its dtype, Python numbers take the one that is asked for."""
    return Tensor(value) if hasattr(value, "dtype") else Tensor(value, dtype=want.dtype)


def _check_shape(want: OnnxInput, found: Tensor, sizes: dict[str, tuple[int, str]]) -> None:
    """Raise ShapeError unless a tensor has the shape that an input asks for; a name is one size throughout."""
    if want.shape is None:
        return
    fits = len(want.shape) == found.ndim
    for size, actual in zip(want.shape, found.shape, strict=False):
        if isinstance(size, int):
            fits = fits and (not isinstance(actual, int) or size == actual)
        elif size and isinstance(actual, int):
            first, owner = sizes.setdefault(size, (actual, want.name))
            if first != actual:
                raise ShapeError(
                    f"the size {size!r} is {first} in the input {owner!r} and {actual} in {want.name!r}; it has to be "
                    "one"
                )
    if not fits:
        raise ShapeError(f"the input {want.name!r} has the shape {want.shape}, got {found.shape}")


__all__ = ["OnnxInput", "OnnxModel", "load"]
