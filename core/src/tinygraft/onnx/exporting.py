"""export: a function of tensors, or a model, as a file of ONNX.

The function is called once with stand-ins (traced.py), its graph is written node by node (graph_writer.py and the
planners), checked by the package onnx, and saved. What the file says is complete: weights are initializers under the
names that get_state_dict gives them, and go to a file beside it where they are too large for one message.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.files import replacing
from tinygraft.onnx.element_types import element_of
from tinygraft.onnx.graph_writer import GraphWriter, StoredTensor
from tinygraft.onnx.recognised import recognised
from tinygraft.onnx.traced import DynamicAxes, TracedGraph, trace
from tinygraft.onnx.write_elementwise import elementwise
from tinygraft.onnx.write_indexing import indexing
from tinygraft.onnx.write_movement import movement
from tinygraft.onnx.write_products import product
from tinygraft.onnx.write_windows import windows
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp

OPSET, IR_VERSION = (
    20,
    9,
)  # given: the first with Gelu, and the format of that release; ONNX Runtime reads it since 1.17
LIMIT = 3 << 29  # given: a protobuf message has less than 2 GiB; weights of 1.5 leave room for the graph
ALIGNED = 4096  # given: where external data starts, so that it can be mapped (onnx/docs/ExternalData.md)
PLANNERS = (recognised, windows, product, indexing, movement, elementwise)


@either_spelling
def export(
    function: Callable[..., Any], args: Any, path: str | os.PathLike[str] | None = None, *,
    kwargs: Mapping[str, Any] | None = None, dynamic_axes: DynamicAxes | None = None,
    input_names: Sequence[str] | None = None, output_names: Sequence[str] | None = None,
    external_data: bool | None = None, check: bool = True,
) -> Any:  # fmt: skip
    """Write what a function or a model does with tensors as a file of ONNX (opset 20), and return the ModelProto.

    args are what it is called with, a tensor or a tuple, and kwargs: tensors in them, also in lists and dicts, become
    inputs under the names of their parameters, or under input_names; all else is constant. Results are outputs: their
    keys in a dict, else output, or output_0 and so on, or output_names. Weights are initializers by the names of
    get_state_dict. It is called once, in evaluation mode, and nothing is computed of the inputs.

    dynamic_axes says which sizes may be others than in args: {"x": {0: "batch"}}. Equal names are equal sizes, of 1 to
    2**20; a Variable instead of a name has its own bounds, as {1: Variable("tokens", 1, 64)} where a model has 64
    positions.

    external_data=True stores weights in PATH.data beside the file, False in the file; by default that depends on
    whether they are more than 1.5 GiB. check=False leaves out onnx.checker. Without a path nothing is written, and the
    weights are in the ModelProto.

    Raises UnsupportedError that names the operation and the line where ONNX has none (random numbers, decompositions,
    writes to the model's own tensors), ValueError for names and axes that do not fit, ShapeError where one name is two
    sizes. Source of the arguments: torch.onnx.export, PyTorch's documentation.

    >>> from tinygraft import Tensor, nn, onnx
    >>> model = onnx.export(nn.Linear(3, 2), Tensor.rand(4, 3), dynamic_axes={"x": {0: "batch"}})
    >>> [node.op_type for node in model.graph.node], [weight.name for weight in model.graph.initializer]
    (['Gemm'], ['weight', 'bias'])
    >>> onnx.load(model)(x=Tensor.rand(7, 3))["output"].shape
    (7, 2)
    """
    if not callable(function):
        raise TypeError(f"onnx.export takes a function, got {type(function).__name__}")
    _need_onnx()
    if external_data and path is None:
        raise ValueError("external_data=True stores weights beside a file, and there is no path to write to")
    traced = trace(function, args, kwargs or {}, dynamic_axes or {}, input_names, output_names)
    writer = _written(traced)
    total = sum(stored.nbytes for stored in writer.stored)
    outside = total > LIMIT if external_data is None else external_data
    if total > LIMIT and not outside:
        raise ValueError(f"the weights have {total:,} bytes, and a file without external data less than 2 GiB")
    if outside and path is None:
        raise ValueError(f"the weights have {total:,} bytes, which needs a path: they are stored in a file beside it")
    model = _model(traced, writer)
    if path is None:
        _fill(model, writer.stored)
        _check(model, check)
        return model
    _save(model, writer.stored, Path(path), outside, check)
    return model


def _need_onnx() -> None:
    """Raise ImportError with the way to the package onnx."""
    try:
        import onnx  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"a model of ONNX is written with the package onnx, which cannot be imported: {error}\n"
            "  hint: pip install tinygraft[onnx]"
        ) from error


def _written(traced: TracedGraph) -> GraphWriter:
    """Return the graph, written; Identity where an output is an input or is named already.

    Raises UnsupportedError, with the line that made it, for a node without an operator of ONNX.
    """
    names = {each.node: each.name for each in traced.inputs}

    def refuse(node: UOp, why: str) -> Exception:
        line = traced.line_of(node)
        return UnsupportedError(
            f"{why}: {node.op.name} of {node.dtype} {show_arg(node.shape)}" + (f", made at {line}" if line else "")
        )

    writer = GraphWriter(names, traced.weights, PLANNERS, refuse, traced.sizes)
    writer.reserve([*names.values(), *traced.outputs])
    for name, node in traced.outputs.items():
        value = writer.value(node)
        writer.nodes.append(_identity(value, name))
    writer.nodes = _without_identities(writer.nodes, set(traced.outputs), names.values(), writer.stored)
    return writer


def _identity(value: str, name: str) -> Any:
    """Return the NodeProto of an Identity from `value` to `name`."""
    from onnx import helper

    return helper.make_node("Identity", [value], [name], name=f"{name}_is")


def _without_identities(nodes: list[Any], outputs: set[str], inputs: Any, stored: Sequence[StoredTensor]) -> list[Any]:
    """Return the nodes without the Identity after an operator whose only name is an output's: it has that name itself.

    An Identity of an input or of a stored tensor stays. The nodes that are given are renamed.
    """
    fixed = {*inputs, *(each.name for each in stored)}
    rename: dict[str, str] = {}
    for node in nodes:
        if node.op_type == "Identity" and node.output[0] in outputs and node.input[0] not in fixed:
            rename.setdefault(node.input[0], node.output[0])
    kept = []
    for node in nodes:
        if node.op_type == "Identity" and rename.get(node.input[0]) == node.output[0]:
            continue
        for field in (node.input, node.output):
            for number, name in enumerate(field):
                field[number] = rename.get(name, name)
        kept.append(node)
    return kept


def _model(traced: TracedGraph, writer: GraphWriter) -> Any:
    """The ModelProto, with initializers that have no data yet."""
    from onnx import TensorProto, helper

    inputs = [
        helper.make_tensor_value_info(
            each.name, element_of(each.node.dtype), [each.axes.get(n, s) for n, s in enumerate(each.node.shape)]
        )
        for each in traced.inputs
    ]
    outputs = [
        helper.make_tensor_value_info(name, element_of(node.dtype), [_shown(traced, size) for size in node.shape])
        for name, node in traced.outputs.items()
    ]
    weights = [TensorProto(name=each.name, data_type=each.element, dims=each.shape) for each in writer.stored]
    label = getattr(traced.function, "__name__", None) or type(traced.function).__name__
    graph = helper.make_graph(writer.nodes, label.strip("<>"), inputs, outputs, weights)
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION, producer_name="tinygraft"
    )


def _shown(traced: TracedGraph, size: sint) -> int | str | None:
    """A size of an output: a number, the name of a dynamic axis, or nothing where it is computed of these."""
    return size if isinstance(size, int) else traced.size_names.get(size)


def _fill(model: Any, stored: Sequence[StoredTensor]) -> None:
    """Put the data of initializers into the model."""
    for proto, each in zip(model.graph.initializer, stored, strict=True):
        proto.raw_data = each.read()


def _check(model: Any, check: bool) -> None:
    """Have onnx.checker look at a ModelProto or a path, if `check`. Raises what it raises."""
    if check:
        from onnx import checker

        checker.check_model(model, full_check=True)


def _save(model: Any, stored: Sequence[StoredTensor], path: Path, outside: bool, check: bool) -> None:
    """Write the file, and its data before it, each as a whole or not at all.

    `outside` puts the data into the file of that name with ".data"; `check` has the checker look at the model. Raises
    FileFormatError for a weight whose bytes do not fit its shape.
    """
    if outside:
        beside = path.with_name(path.name + ".data")
        with replacing(beside) as file:
            for proto, each in zip(model.graph.initializer, stored, strict=True):
                offset = -(-file.tell() // ALIGNED) * ALIGNED
                file.write(bytes(offset - file.tell()))
                data = each.read()
                if len(data) != each.nbytes:
                    raise FileFormatError(f"the weight {each.name!r} has {len(data)} bytes, not {each.nbytes}")
                file.write(data)
                proto.data_location = proto.EXTERNAL
                for key, value in (("location", beside.name), ("offset", offset), ("length", len(data))):
                    proto.external_data.add(key=key, value=str(value))
    else:
        _fill(model, stored)
        _check(model, check)
    with replacing(path) as file:
        file.write(model.SerializeToString())
    if outside:
        _check(str(path), check)


__all__ = ["IR_VERSION", "OPSET", "export"]
