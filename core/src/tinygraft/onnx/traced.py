"""A function called once with stand-ins for its tensors: the graph that is exported, and the names in it.

In: a function, its arguments, which axes may have other sizes. Out: the nodes of its inputs and results, the names of
inputs, results and weights. Nothing is computed. The function is called in evaluation mode. What it writes to a tensor
that existed before cannot be exported, and is undone.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import FunctionType, MethodType
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import ShapeError, UnsupportedError
from tinygraft.tensor.nested import mapped
from tinygraft.tensor.ops.drawn_now import counted_in_graphs
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.routine_nodes import written_out
from tinygraft.tensor.state.live import alive, live_tensors, noting_touched
from tinygraft.tensor.state.made_at import file_and_line
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.sizes import Shape
from tinygraft.uop.uop import UOp, toposort

LARGEST = 1 << 20  # assumed: no axis of a model that is named and not bounded is longer
SORTS = frozenset(("sort", "topk"))  # what TopK sorts, in any number of rows
DynamicAxes = Mapping[str, Mapping[int, Any] | Sequence[int]]


@dataclass
class TracedInput:
    """An input: its name, its stand-in, and the name of each axis that has one."""

    name: str
    node: UOp
    axes: dict[int, str]


@dataclass
class TracedGraph:
    """A function as a graph."""

    function: Callable[..., Any]
    inputs: list[TracedInput] = field(default_factory=list)
    outputs: dict[str, UOp] = field(default_factory=dict)
    weights: dict[UOp, tuple[str, Shape]] = field(default_factory=dict)  # names and shapes by BUFFER
    sizes: dict[UOp, tuple[str, int]] = field(default_factory=dict)  # where a symbolic size is found
    size_names: dict[UOp, str] = field(default_factory=dict)
    call: Callable[[], Any] = lambda: None
    results: Any = None

    def line_of(self, node: UOp) -> str:
        """FILE:LINE of the call that made a node, "" where it was not made in the function.

        The function is called once more, with an eye on each tensor that it makes: the first whose graph has the node
        is of the line that is looked for. Nobody pays for this where nothing has to be reported.
        """
        found: list[str] = []
        code = TensorBase._set.__code__

        def look(frame: Any, event: str, arg: Any) -> None:
            if event == "return" and frame.f_code is code and not found:
                tensor = frame.f_locals["self"]
                if tensor._node is node or node in toposort(tensor._node):
                    found.append(file_and_line(tensor._made))

        before = sys.getprofile()
        sys.setprofile(look)
        try:
            self.call()
        finally:
            sys.setprofile(before)
        return found[0] if found else ""


def trace(
    function: Callable[..., Any], args: Any, kwargs: Mapping[str, Any], dynamic_axes: DynamicAxes,
    input_names: Sequence[str] | None, output_names: Sequence[str] | None,
) -> TracedGraph:  # fmt: skip
    """Call a function with stand-ins, and return its graph. Raises as `export` says.

    `args` are a tuple or one argument; arrays in them become tensors.
    """
    function = getattr(function, "fxn", None) or function  # what a TinyJit captures
    traced = TracedGraph(function)
    args, kwargs = _as_tensors(tuple(args) if isinstance(args, (tuple, list)) else (args,)), _as_tensors(dict(kwargs))
    given = list(_named_tensors(function, args, kwargs))
    names = [name for name, _ in given]
    if not isinstance(dynamic_axes, Mapping):
        raise TypeError(f'dynamic_axes is a dict such as {{"x": {{0: "batch"}}}}, got {type(dynamic_axes).__name__}')
    for what, given_names in (("input_names", input_names), ("output_names", output_names)):
        if isinstance(given_names, str):
            raise TypeError(f"{what} is a list of names, as [{given_names!r}], got {given_names!r}")
    if input_names is not None:
        if len(input_names) != len(names):
            raise ValueError(f"input_names are {len(input_names)}, the arguments have {len(names)} tensors: {names}")
        names = list(input_names)
    if len(set(names)) != len(names):
        raise ValueError(f"each input needs a name of its own, got {names}; give input_names")
    unknown = [name for name in dynamic_axes if name not in names]
    if unknown:
        raise ValueError(f"dynamic_axes names {unknown}, the inputs are {names}")
    put = _stand_ins(traced, names, [tensor for _, tensor in given], dynamic_axes)
    inner = [mapped(each, Tensor, lambda tensor: put[id(tensor)]) for each in (list(args), dict(kwargs))]
    traced.call = lambda: _called(function, inner[0], inner[1])
    _run(traced)
    _name_results(traced, output_names)
    _realize_state(traced)
    return traced


def _as_tensors(nested: Any) -> Any:
    """Arguments with tensors instead of arrays."""
    numpy = sys.modules.get("numpy")
    return nested if numpy is None else mapped(nested, numpy.ndarray, Tensor)


def _called(function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Return what the function returns in evaluation mode."""
    with Tensor.train(False), written_out(SORTS), counted_in_graphs():
        return function(*args, **kwargs)


def _run(traced: TracedGraph) -> None:
    """Call the function, and note its results. What it writes to tensors that were there before is undone.

    Raises UnsupportedError for such a write, and for random numbers.
    """
    before = {id(tensor): (tensor, tensor._node, _whole(tensor)) for tensor in live_tensors()}
    with noting_touched() as touched:
        traced.results = traced.call()
        written = [tensor for tensor in alive(touched.written) if id(tensor) in before]
    changed = [tensor for tensor, node, _ in before.values() if tensor._node is not node]
    if written or changed:
        line = next((file_and_line(each._wrote) for each in [*written, *changed] if each._wrote is not None), "")
        for tensor, node, whole in before.values():
            if tensor._node is not node:
                tensor.uop = node
            if tensor._storage is not None and whole is not None and tensor._storage.uop is not whole:
                tensor._storage.uop = whole
        if any(node.op is Ops.THREEFRY for _, each in _paths("", traced.results) for node in toposort(each.uop)):
            raise UnsupportedError(
                f"ONNX has no random numbers that are those of a seed here, and {_label(traced.function)} draws some"
                + (f", at {line}" if line else "")
                + "\n  hint: give them to it as an argument"
            )
        raise UnsupportedError(
            f"a model of ONNX has no state, and {_label(traced.function)} writes to a tensor that it did not make"
            + (f", at {line}" if line else "")
            + "\n  hint: give the state to it as an argument, and return the new one"
        )


def _whole(tensor: TensorBase) -> UOp | None:
    """The node of the whole value that a tensor is a view of."""
    return None if tensor._storage is None else tensor._storage.uop


def _label(function: Any) -> str:
    """Return the name of a function, or the class of an object, for an error."""
    return getattr(function, "__name__", None) or type(function).__name__


# Inputs


def _named_tensors(function: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """The tensors in the arguments by name: that of the parameter, and for nested ones their key or number.

    Raises ValueError for a tensor that is given twice.
    """
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except ValueError:  # a function without a signature
        items: dict[str, Any] = {f"input_{number}": arg for number, arg in enumerate(args)} | dict(kwargs)
    else:
        items = {}
        for name, value in bound.arguments.items():
            kind = bound.signature.parameters[name].kind
            if kind is inspect.Parameter.VAR_POSITIONAL:
                items |= {f"{name}_{number}": each for number, each in enumerate(value)}
            elif kind is inspect.Parameter.VAR_KEYWORD:
                items |= value
            else:
                items[name] = value
    seen: set[int] = set()
    for name, value in items.items():
        for path, tensor in _paths(name, value):
            if id(tensor) in seen:
                raise ValueError(f"the tensor {path!r} is given twice; an input is a tensor of its own: clone() it")
            seen.add(id(tensor))
            yield path, tensor


def _paths(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The tensors in nested containers; they are nested a few levels at most."""
    if isinstance(value, Tensor):
        yield name, value
    elif isinstance(value, (list, tuple)):
        for number, each in enumerate(value):
            yield from _paths(f"{name}_{number}", each)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _paths(f"{name}_{key}", each)


def _stand_ins(
    traced: TracedGraph, names: Sequence[str], tensors: Sequence[Tensor], dynamic_axes: DynamicAxes
) -> dict[int, Tensor]:
    """Return a tensor over a PLACEHOLDER for each input, by the id of the given one, and note the inputs in `traced`.

    Raises UnsupportedError for complex numbers, ShapeError for one name of two sizes, ValueError for a wrong axis name.
    """
    variables: dict[str, tuple[UOp, int, str]] = {}
    put: dict[int, Tensor] = {}
    for name, tensor in zip(names, tensors, strict=True):
        if tensor.dtype.kind == "complex":
            raise UnsupportedError(f"the input {name!r} is {tensor.dtype}; few operators of ONNX have complex numbers")
        axes = _axes(name, tensor, dynamic_axes.get(name, {}))
        shape = list(tensor.shape)
        for axis, wanted in axes.items():
            label, variable = _variable(name, axis, wanted)
            size = int(tensor.shape[axis])
            known = variables.setdefault(label, (variable, size, name))
            if known[1] != size:
                raise ShapeError(
                    f"the size {label!r} is {known[1]} in the input {known[2]!r} and {size} in {name!r}; it has to be "
                    "one"
                )
            shape[axis] = known[0].bind(size)
            axes[axis] = label
            traced.size_names[shape[axis]] = label
            traced.sizes.setdefault(shape[axis], (name, axis))
        device = tensor.device if isinstance(tensor.device, str) else local_devices(tensor.device)[0]
        node = UOp.placeholder(tuple(shape), tensor.dtype, device, "onnx.export")
        put[id(tensor)] = Tensor(0, device=device)._wrap(node)
        traced.inputs.append(TracedInput(name, node, axes))
    return put


def _axes(name: str, tensor: Tensor, wanted: Any) -> dict[int, Any]:
    """The dynamic axes of an input, counted from the front, each with what it is called."""
    if isinstance(wanted, Mapping):
        return {tensor._axis(axis): label for axis, label in wanted.items()}
    return {axis: f"{name}_axis{axis}" for axis in map(tensor._axis, wanted)}


def _variable(name: str, axis: int, wanted: Any) -> tuple[str, UOp]:
    """Return the name of a size and its variable: that which is given, or one of 1 to LARGEST.

    Raises ValueError for what is neither a name nor a Variable.
    """
    if isinstance(wanted, UOp):
        variable = wanted.unbind()[0] if wanted.op is Ops.BIND else wanted
        if variable.op is Ops.VARIABLE:
            return variable.arg.name, variable
    if not isinstance(wanted, str) or not wanted:
        raise ValueError(f"axis {axis} of {name!r} is dynamic under a name or as a Variable, got {wanted!r}")
    return wanted, UOp.variable("size_" + re.sub(r"\W", "_", wanted, flags=re.ASCII)[:50], 1, LARGEST)


# Weights


def _tensors_of(function: Any) -> dict[str, Tensor]:
    """The tensors that a model or a function has, by name: attributes, items, and what a function closes over."""
    found: dict[str, Tensor] = {}
    inside: set[int] = set()

    def walk(name: str, value: Any) -> None:
        if isinstance(value, Tensor):
            found.setdefault(name or "weight", value)
            return
        if id(value) in inside:
            return
        inside.add(id(value))
        for key, each in _items(value).items():
            walk(f"{name}.{key}" if name else str(key), each)

    walk("", function)
    return found


def _items(value: Any) -> Mapping[Any, Any]:
    """What an object consists of, by name."""
    if isinstance(value, MethodType):
        return {"": value.__self__} if not isinstance(value.__self__, type) else {}
    if isinstance(value, FunctionType):
        found, parameters = inspect.getclosurevars(value), inspect.signature(value).parameters.values()
        outer = {name: each for name, each in found.globals.items() if _may_have_tensors(each)}
        return {**outer, **found.nonlocals, **{each.name: each.default for each in parameters}}
    if isinstance(value, dict):
        return value
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    own: Mapping[Any, Any] = getattr(value, "__dict__", {})
    return {} if isinstance(value, type) or inspect.ismodule(value) else own


def _may_have_tensors(value: Any) -> bool:
    """Whether a global of a function is a tensor, a container or an object, and no part of a program."""
    plain = isinstance(value, (type, FunctionType)) or inspect.ismodule(value)
    return isinstance(value, (Tensor, list, tuple, dict)) or (hasattr(value, "__dict__") and not plain)


def _realize_state(traced: TracedGraph) -> None:
    """Compute what the graph reads and is not computed yet: new weights, running averages. Name it."""
    inputs = {each.node for each in traced.inputs}
    graph = set(toposort(*traced.outputs.values()))
    pending: list[Any] = []
    for tensor in live_tensors():
        node = tensor.uop
        if node in graph and memory_base(node).op not in (Ops.BUFFER, Ops.MULTI, Ops.CONST, Ops.PLACEHOLDER):
            below = toposort(node)
            state = any(each.op in (Ops.ASSIGN, Ops.THREEFRY) for each in below)
            if state and inputs.isdisjoint(below) and not _is_of(traced, tensor):
                pending.append(tensor)
    if pending:
        pending[0].realize(*pending[1:])
        _refresh(traced)
    for name, tensor in _tensors_of(traced.function).items():
        base = memory_base(tensor.uop)
        if base.op in (Ops.BUFFER, Ops.MULTI):
            traced.weights.setdefault(base, (name, tensor.shape))


def _is_of(traced: TracedGraph, tensor: Any) -> bool:
    """Whether a tensor is a result of the function: it is not to be computed."""
    return any(each is tensor for _, each in _paths("", traced.results))


def _refresh(traced: TracedGraph) -> None:
    """Read the nodes of the results again: weights in them are memory now."""
    traced.outputs = dict(zip(traced.outputs, (tensor.uop for _, tensor in _paths("", traced.results)), strict=True))


# Results


def _name_results(traced: TracedGraph, output_names: Sequence[str] | None) -> None:
    """Name the tensors of the result: by their keys, as output_0 ..., or as output if there is one.

    Raises TypeError for a result without tensors, ValueError for names that do not fit, UnsupportedError for a dtype
    that is not returned.
    """
    found = list(_paths("output", traced.results))
    if not found:
        raise TypeError(
            f"{_label(traced.function)} returned {type(traced.results).__name__}, which has no tensor in it"
        )
    if isinstance(traced.results, dict):
        found = [(path.removeprefix("output_"), tensor) for path, tensor in found]
    names = list(output_names) if output_names is not None else [path for path, _ in found]
    if len(names) != len(found):
        raise ValueError(f"output_names are {len(names)}, and the result has {len(found)} tensors")
    inputs = {each.name for each in traced.inputs}
    clash = [name for name in names if name in inputs or names.count(name) > 1]
    if clash:
        raise ValueError(f"each input and output needs a name of its own, got {clash} twice; give output_names")
    for name, (_, tensor) in zip(names, found, strict=True):
        if tensor.dtype.kind == "complex" or tensor.dtype is dtypes.index:
            raise UnsupportedError(f"the output {name!r} is {tensor.dtype}, which a model of ONNX does not return here")
        traced.outputs[name] = tensor.uop


__all__ = ["DynamicAxes", "TracedGraph", "TracedInput", "trace"]
