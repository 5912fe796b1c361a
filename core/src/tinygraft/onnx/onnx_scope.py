"""The values of one run of a graph: tensors by name, and numbers of the host beside them.

`Scope` has the values, `run_step` computes those of one node. What an operator is told of its node is a `RunningNode`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.onnx.host_values import RULES, Known, known, sizes_tensor
from tinygraft.onnx.operator_table import OnnxValue, Operator
from tinygraft.onnx.weights import MOST, Weight
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

_KNOWN_ATTRIBUTES = {"axis", "axes", "to", "allowzero"}  # those that the rules of host_values.py take
_CHANGING = ("Random", "Bernoulli", "Multinomial", "Dropout")  # operators that give other values at each call


class Runnable(Protocol):
    """A prepared graph, as its run sees it."""

    weights: dict[str, Weight]
    read: dict[str, Known]  # what has been read of values that depend on constants alone
    device: Place

    def run(self, arguments: Sequence[OnnxValue], parent: Scope | None = None) -> list[OnnxValue]:
        """The outputs of the graph."""


@dataclass(frozen=True)
class OnnxStep:
    """One node, ready to run: an operator, or the graph of a function."""

    label: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    types: tuple[int, ...]
    operator: Operator | None = None
    function: Runnable | None = None


class Scope:
    """The values of one run of a graph, by name; names that it does not have are those of the graph around it."""

    def __init__(self, graph: Runnable, parent: Scope | None) -> None:
        self._graph, self._parent, self._device = graph, parent, graph.device
        self._values: dict[str, OnnxValue] = {}
        self._known: dict[str, Known] = {}
        self._constants: set[str] = set()

    def set(self, name: str, value: Any) -> None:
        """Give a name its value: a tensor, or numbers of the host, which are known and become a tensor too."""
        if isinstance(value, Known):
            self._known[name] = value
            value = sizes_tensor(value, self._device)
        self._values[name] = value

    def learn(self, name: str, found: Known) -> None:
        """Note the numbers of a name that has its tensor."""
        self._known[name] = found

    def value(self, name: str) -> OnnxValue:
        """Return the value of a name, of this graph or of those around it; None for no name or one without a value."""
        if not name:
            return None
        if name in self._values:
            return self._values[name]
        if name in self._graph.weights:
            return self._graph.weights[name].tensor()
        return self._parent.value(name) if self._parent else None

    def known(self, name: str) -> Known | None:
        """The numbers of a name that are known without computing: they are of the host, or of a small weight.

        None for those of a tensor, of text, of a weight of more than MOST elements, and of a name that nothing has; a
        name that this graph does not have is looked up in the one around it.
        """
        if name in self._known:
            return self._known[name]
        if name in self._constants and name in self._graph.read:
            return self._graph.read[name]
        if name in self._values:
            return None
        weight = self._graph.weights.get(name)
        if weight is not None:
            if weight.count > MOST or weight.text:
                return None
            self._known[name] = Known(weight.shape, known(weight.numbers()).items)
            return self._known[name]
        return self._parent.known(name) if self._parent else None

    def steering(self, name: str) -> Any:
        """Return the value of a name as numbers on the host, nested lists; None for no name.

        They are read from the tensor where they are not known; those of a constant are read once for all calls.
        """
        found = self.known(name) if name else None
        if found is not None:
            return found.nested()
        value = self.value(name)
        if not isinstance(value, Tensor):
            return value
        read = value.tolist()
        self._known[name] = Known(tuple(int(size) for size in value.shape), known(read).items)
        if name in self._constants:
            self._graph.read[name] = self._known[name]
        return read

    def is_constant(self, name: str) -> bool:
        """Whether a value of this graph depends on its constants alone."""
        return not name or name in self._constants or (name in self._graph.weights and name not in self._values)

    def note_constant(self, name: str) -> None:
        """Note that a value depends on constants alone, so that it is read once for all calls."""
        self._constants.add(name)


@dataclass(frozen=True)
class RunningNode:
    """One run of a node: what an operator is told of it. `NodeCall` says what each part is."""

    step: OnnxStep
    scope: Scope

    @property
    def count(self) -> int:
        """How many outputs the node has."""
        return len(self.step.outputs)

    @property
    def types(self) -> Sequence[int]:
        """The element type of each input, 0 where the graph does not say."""
        return self.step.types

    def wants(self, output: int) -> bool:
        """Whether the output of that number has a name."""
        return output < len(self.step.outputs) and bool(self.step.outputs[output])

    def value(self, name: str) -> OnnxValue:
        """The value of a name that the graph has computed."""
        return self.scope.value(name)

    def run(self, graph: Runnable, arguments: Sequence[OnnxValue]) -> list[OnnxValue]:
        """Run a subgraph, which sees the names around the node."""
        return graph.run(arguments, self.scope)


def run_step(step: OnnxStep, scope: Scope) -> None:
    """Compute the outputs of a node, and note them in `scope`.

    Raises UnsupportedError for an output that the operator does not compute, FileFormatError for an input that it
    lacks.
    """
    if step.function is not None:
        results = tuple(step.function.run([scope.value(name) for name in step.inputs]))
    else:
        results = _computed(step, scope)
    for number, name in enumerate(step.outputs):
        if name and number >= len(results):
            raise UnsupportedError(f"{step.label}: its output {number}, {name!r}, is not computed here")
        if name:
            scope.set(name, results[number])
    _learn(step, scope)
    name = step.operator.name if step.operator is not None else ""
    repeats = (
        name and not name.startswith(_CHANGING) and not any(hasattr(value, "run") for value in step.attributes.values())
    )
    if repeats and all(scope.is_constant(each) for each in step.inputs):
        for each in step.outputs:
            scope.note_constant(each)


def _computed(step: OnnxStep, scope: Scope) -> tuple[Any, ...]:
    """Return the outputs that the operator's function returns, as a tuple.

    Raises FileFormatError for a needed input that is left out.
    """
    assert step.operator is not None
    given = [
        scope.steering(name) if step.operator.steered(position) else scope.value(name)
        for position, name in enumerate(step.inputs)
    ]
    for position, (name, value) in enumerate(zip(step.operator.inputs, given, strict=False)):
        if value is None and name not in step.operator.optional and not step.inputs[position]:
            raise FileFormatError(f"{step.label} needs its input {name!r}, which is left out")
    keywords = dict(step.attributes)
    if step.operator.wants_node:
        keywords["node"] = RunningNode(step, scope)
    found = step.operator.function(*given, **keywords)
    return found if isinstance(found, tuple) else (found,)


def _learn(step: OnnxStep, scope: Scope) -> None:
    """Note what is known of the outputs, where it follows from what is known of the inputs."""
    rule = RULES.get(step.operator.name) if step.operator is not None else None
    if rule is None or len(step.outputs) != 1 or step.attributes.keys() - _KNOWN_ATTRIBUTES:
        return
    inputs: list[Known | None] = []
    for name in step.inputs:
        inputs.append(scope.known(name) if name else None)
        if inputs[-1] is None and name:
            return
    found, value = rule(*inputs, **step.attributes), scope.value(step.outputs[0])
    if found is not None and isinstance(value, Tensor) and found.shape == value.shape and _is_held(found, value.dtype):
        scope.learn(step.outputs[0], found)


def _is_held(found: Known, dtype: DType) -> bool:
    """Whether a dtype holds numbers of the host as they are; of others a tensor has what is left of them."""
    if dtype is dtypes.bool:
        return all(isinstance(item, bool) for item in found.items)
    numbers = [item for item in found.items if isinstance(item, int)]
    return dtype in (dtypes.int32, dtypes.int64) and all(dtype.min <= item <= dtype.max for item in numbers)
