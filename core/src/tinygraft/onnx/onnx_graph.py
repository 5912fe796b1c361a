"""A graph of ONNX that is prepared once: its steps in order, with the function and the attributes of each.

A GraphProto in; an `OnnxGraph` out, whose `run` computes the outputs of values for the inputs. What a graph names is
checked while it is prepared: each value is made once, before it is used, so that a cycle is found; operators without a
function are listed. Functions of the model become graphs of their own, at each node that calls them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any

from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.onnx.element_types import FLOAT, INT64
from tinygraft.onnx.host_values import Known
from tinygraft.onnx.onnx_scope import OnnxStep, Scope, run_step
from tinygraft.onnx.operator_table import OnnxValue, Operator, find_operator
from tinygraft.onnx.weights import Given, Weight
from tinygraft.uop.uop import Place

_GRAPH, _TENSOR = 5, 4
_MOST_NODES = 1 << 18  # assumed: the largest models have some ten thousand; functions that call functions may double
_READ = {1: "f", 2: "i", 3: "s", 6: "floats", 7: "ints", 8: "strings", 13: "tp"}  # AttributeProto.type -> its field
_NUMBERS = {"value_float": FLOAT, "value_floats": FLOAT, "value_int": INT64, "value_ints": INT64}


@dataclass(frozen=True)
class Builder:
    """What is the same for all graphs of a model: where it is from, its versions and functions."""

    label: str
    folder: Path | None
    device: Place
    versions: Mapping[str, int]
    functions: Mapping[tuple[str, str], Any]
    unknown: list[str] = field(default_factory=list)
    nodes: Iterator[int] = field(
        default_factory=count
    )  # how many nodes have been prepared, those of functions each time
    calling: tuple[tuple[str, str], ...] = ()  # the functions that the present graph is within
    bound: Mapping[str, Any] = field(default_factory=dict)  # attributes of the call, which nodes of a function name


class OnnxGraph:
    """The steps of a graph, its constants, and the names of its inputs and outputs.

    `outer` are the names that the graph around it has. Raises FileFormatError where the graph contradicts itself,
    UnsupportedError for what is not read here.
    """

    device: Place
    label: str

    def __init__(self, proto: Any, builder: Builder, outer: Iterable[str] = ()) -> None:
        self.device, self.label = builder.device, f"{builder.label}: graph {proto.name!r}"
        is_function = not hasattr(proto, "initializer")
        self.inputs: list[Any] = [each if is_function else each.name for each in proto.input]
        self.outputs: list[Any] = [each if is_function else each.name for each in proto.output]
        self.weights: dict[str, Any] = {}
        self.read: dict[str, Known] = {}
        self.types: dict[str, int] = {} if is_function else _types(proto)
        self._builder, self._own, self._outer = builder, set(self.inputs), set(outer)
        for tensor in () if is_function else proto.initializer:
            self._add_weight(tensor.name, tensor)
        if not is_function and proto.sparse_initializer:
            raise UnsupportedError(f"{self.label} has sparse initializers, which are not read; make them dense")
        self._later = {name for node in proto.node for name in node.output}
        self.steps: list[OnnxStep] = [step for node in proto.node if (step := self._prepared(node)) is not None]
        missing = [name for name in self.outputs if name not in self._own | self._outer]
        del self._builder  # it has protos, which keep the whole model in memory
        if missing:
            raise FileFormatError(f"{self.label} has the outputs {missing}, which no node makes")

    def run(self, arguments: Sequence[OnnxValue | Known], parent: Scope | None = None) -> list[OnnxValue]:
        """Return the outputs, of values for the inputs in their order; absent ones (None) are their initializers.

        `parent` has the values of the graph around this one. Raises FileFormatError for too many values, and what an
        operator raises, with a note that names the node.
        """
        if len(arguments) > len(self.inputs):
            raise FileFormatError(f"{self.label} has {len(self.inputs)} inputs, got {len(arguments)}")
        scope = Scope(self, parent)
        for name, value in zip(self.inputs, arguments, strict=False):
            if value is not None or name not in self.weights:
                scope.set(name, value)
        for step in self.steps:
            try:
                run_step(step, scope)
            except Exception as error:
                error.add_note(f"in {step.label} of {self.label}")
                raise
        return [scope.value(name) for name in self.outputs]

    def _add_weight(self, name: str, tensor: Any) -> None:
        """Note the TensorProto `tensor` as the constant `name`, which is read when it is first used."""
        self.weights[name] = Weight(tensor, self._builder.folder, self.label, self.device)
        self.types[name] = tensor.data_type
        self._own.add(name)

    def _prepared(self, node: Any) -> OnnxStep | None:
        """Return the step of a node; None for a constant, which is kept, and for an operator that is not known.

        Raises FileFormatError for a value that is used before it is made or made twice, and for too many nodes.
        """
        label = f"node {node.name!r} ({node.domain + '.' if node.domain else ''}{node.op_type})"
        if next(self._builder.nodes) >= _MOST_NODES:
            raise FileFormatError(f"{self.label}: the model has more than {_MOST_NODES} nodes, with those of functions")
        for name in node.input:
            if name and name not in self._own and name not in self._outer:
                why = "is made by it or by a later node: the graph has a cycle, or is out of order"
                raise FileFormatError(
                    f"{self.label}: {label} uses {name!r}, which {why if name in self._later else 'nothing makes'}"
                )
        twice = [name for name in node.output if name and name in self._own]
        if twice:
            raise FileFormatError(f"{self.label}: {label} makes {twice}, which the graph has already")
        attributes = self._attributes(node, label)
        step = None
        if node.op_type != "Constant" or not self._keep_constant(node, attributes, label):
            step = self._step(node, attributes, label)
        self._own.update(name for name in node.output if name)
        return step

    def _attributes(self, node: Any, label: str) -> dict[str, Any]:
        """The attributes of a node by name: numbers, text as bytes, prepared graphs, constants as Weights.

        In the body of a function an attribute may refer to one of the call: it has that value, and is left out where
        the call does not give it. Raises UnsupportedError for a kind that no operator takes.
        """
        found = {}
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                if attribute.ref_attr_name in self._builder.bound:
                    found[attribute.name] = self._builder.bound[attribute.ref_attr_name]
                continue
            found[attribute.name] = self._attribute(attribute, label)
        return found

    def _attribute(self, attribute: Any, label: str) -> Any:
        """One attribute. Raises UnsupportedError for a kind that no operator here takes."""
        if attribute.type == _GRAPH:
            builder = replace(self._builder, label=f"{self.label}, {label}")
            return OnnxGraph(attribute.g, builder, self._own | self._outer)
        if attribute.type == _TENSOR:
            return Weight(attribute.t, self._builder.folder, f"{self.label}: {label}", self.device)
        if attribute.type not in _READ:
            raise UnsupportedError(
                f"{self.label}: {label} has the attribute {attribute.name!r} of a kind not read here"
            )
        value = getattr(attribute, _READ[attribute.type])
        return list(value) if attribute.type in (6, 7, 8) else value

    def _keep_constant(self, node: Any, attributes: dict[str, Any], label: str) -> bool:
        """Keep the value of a Constant node as the graph's initializers are, and return True.

        Raises UnsupportedError where it is text or sparse.
        """
        ((name, value),) = attributes.items() if len(attributes) == 1 else (("", None),)
        if name == "value" and value is not None:
            self.weights[node.output[0]] = value
            self.types[node.output[0]] = value.element
        elif name in _NUMBERS:
            self.weights[node.output[0]] = Given(value, _NUMBERS[name], self.device)
            self.types[node.output[0]] = _NUMBERS[name]
        else:
            raise UnsupportedError(f"{self.label}: {label} has the value {sorted(attributes)}, which no tensor holds")
        return True

    def _step(self, node: Any, attributes: dict[str, Any], label: str) -> OnnxStep | None:
        """Return the step of a node that computes: a call of a function of the model, or of an operator.

        An operator that is not known is listed in `unknown` of the builder, and None is returned. Raises as
        `_check_call`.
        """
        inputs = list(node.input)
        while inputs and not inputs[-1]:
            inputs.pop()
        types = tuple(self.types.get(name, 0) for name in inputs)
        version = self._builder.versions.get("" if node.domain == "ai.onnx" else node.domain, 0)
        common = (label, tuple(inputs), tuple(node.output), attributes, types)
        key = (node.domain, node.op_type)
        if key in self._builder.functions:
            return OnnxStep(*common, function=self._function(key, attributes, label))
        operator = find_operator(*key, version)
        if operator is None:
            self._builder.unknown.append(f"{node.op_type} ({node.domain or 'ai.onnx'} {version})")
            return None
        _check_call(operator, inputs, attributes, f"{self.label}: {label}")
        return OnnxStep(*common, operator=operator)

    def _function(self, key: tuple[str, str], attributes: dict[str, Any], label: str) -> OnnxGraph:
        """Return the graph of a function of the model, for one node that calls it with `attributes`.

        Raises FileFormatError for a function that calls itself.
        """
        builder, proto = self._builder, self._builder.functions[key]
        if key in builder.calling:
            raise FileFormatError(f"{self.label}: {label} calls a function that is within itself")
        bound = dict(attributes)
        for default in proto.attribute_proto:
            bound.setdefault(default.name, self._attribute(default, label))
        within = replace(
            builder,
            label=f"{self.label}, {label}",
            bound=bound,
            calling=(*builder.calling, key),
            versions={"" if each.domain == "ai.onnx" else each.domain: each.version for each in proto.opset_import},
        )
        return OnnxGraph(proto, within)


def _check_call(operator: Operator, inputs: Sequence[str], attributes: Mapping[str, Any], label: str) -> None:
    """Raise where a node has more inputs or other attributes than its operator, or lacks one that it needs.

    That is UnsupportedError for an attribute, and FileFormatError for the others.
    """
    extra = sorted(attributes.keys() - operator.attributes)
    if extra:
        raise UnsupportedError(f"{label} has the attributes {extra}, which the operator does not take here")
    if len(inputs) > len(operator.inputs) and not operator.variadic:
        raise FileFormatError(f"{label} has {len(inputs)} inputs, the operator takes {len(operator.inputs)}")
    twice = sorted(attributes.keys() & set(operator.inputs[: len(inputs)]))
    if twice:
        raise FileFormatError(f"{label} has {twice} both as inputs and as attributes, of which versions have one")
    missing = sorted(operator.required - attributes.keys())
    missing += [name for name in operator.needed[len(inputs) :] if name not in attributes]
    if missing:
        raise FileFormatError(f"{label} lacks {missing}, which the operator needs")


def _types(proto: Any) -> dict[str, int]:
    """The element types that a graph declares, by name."""
    declared = [*proto.input, *proto.value_info, *proto.output]
    return {each.name: each.type.tensor_type.elem_type for each in declared if each.type.HasField("tensor_type")}
