"""A graph of nodes to the nodes and initializers of an ONNX graph, each value written once and after what it reads.

In: UOps of the tensor graph, the names of inputs and weights. Out: NodeProtos in order, and StoredTensors. What a node
becomes is a WriteStep (what it needs, and what writes it once that has a name) or another node of the same value; the
functions of the files `write_*` and `recognised` say which. Nothing here recurses: a graph may be deep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.element_types import element_of
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.uop import UOp, toposort

FOLDED = 1024  # assumed: constants of more elements are computed by the model, which is smaller than they are
UNKNOWN = frozenset({Ops.BUFFER, Ops.MULTI, Ops.PLACEHOLDER, Ops.VARIABLE, Ops.BIND, Ops.ASSIGN})


class StoredTensor(NamedTuple):
    """An initializer: its name, element type, shape, and what makes its bytes when the file is written."""

    name: str
    element: int
    shape: tuple[int, ...]
    nbytes: int
    read: Callable[[], bytes]


class WriteStep(NamedTuple):
    """How a node is written: the nodes that have a name before, and what makes the name of its value of theirs."""

    needs: tuple[UOp, ...]
    write: Callable[..., str]


NodePlan = WriteStep | UOp | None  # None: this planner does not know the node
Planner = Callable[["GraphWriter", UOp], NodePlan]


class GraphWriter:
    """The ONNX graph so far. `planners` are asked in order, `refuse` raises for what none of them knows."""

    names: dict[UOp, str]
    weights: Mapping[UOp, tuple[str, Shape]]
    sizes: Mapping[UOp, tuple[str, int]]

    def __init__(
        self, names: Mapping[UOp, str], weights: Mapping[UOp, tuple[str, Shape]], planners: Sequence[Planner],
        refuse: Callable[[UOp, str], Exception], sizes: Mapping[UOp, tuple[str, int]],
    ) -> None:  # fmt: skip
        self.names, self.weights, self.sizes = dict(names), weights, sizes
        self.nodes: list[Any] = []
        self.stored: list[StoredTensor] = []
        self._planners, self.refuse = planners, refuse
        self.held: dict[UOp, str] = {}  # the initializer of each weight
        self.shapes: dict[str, tuple[int, ...]] = {}  # of each initializer
        self.shared: dict[Any, Any] = {}  # the outputs of operators that have several
        self._plans: dict[UOp, WriteStep | UOp] = {}
        self._constants: dict[Any, str] = {}
        self._is_constant: dict[UOp, bool] = {}
        self._counts: dict[str, int] = {}
        self._given = set(names.values())

    def value(self, root: UOp) -> str:
        """Return the name of the value of a node, which is written with all that it needs.

        Raises what `refuse` returns for a node that no planner knows.
        """
        stack = [root]
        while stack:
            node = stack[-1]
            if node in self.names:
                stack.pop()
                continue
            plan = self._plans.get(node)
            if plan is None:
                plan = self._plans[node] = self._plan(node)
            needs = (plan,) if isinstance(plan, UOp) else plan.needs
            missing = [need for need in needs if need not in self.names]
            if missing:
                stack.extend(reversed(missing))
                continue
            if isinstance(plan, UOp):
                self.names[node] = self.names[plan]
            else:
                self.names[node] = plan.write(*(self.names[need] for need in plan.needs))
            stack.pop()
        return self.names[root]

    def plan(self, node: UOp, step: WriteStep) -> None:
        """Say how a node is written that a planner has made for its result."""
        self._plans[node] = step

    def _plan(self, node: UOp) -> WriteStep | UOp:
        """Return how a node is written: as a constant where it is a small one, else as the first planner says.

        Raises what `refuse` returns where none does.
        """
        if node.op is not Ops.EXPAND and self.is_constant(node) and _count(node.shape) <= FOLDED:
            return WriteStep((), lambda: self.folded(node))
        for planner in self._planners:
            plan = planner(self, node)
            if plan is not None:
                return plan
        raise self.refuse(node, f"ONNX has no operator for {node.op.name}")

    def is_constant(self, node: UOp) -> bool:
        """Whether a node depends on no input, weight, size or random number."""
        known = self._is_constant
        for each in toposort(node, enter=lambda inner: inner not in known):
            if each not in known:
                known[each] = (
                    each.op not in UNKNOWN and each.op is not Ops.THREEFRY and all(known[src] for src in each.src)
                )
        return known[node]

    # Writing

    def reserve(self, names: Sequence[str]) -> None:
        """Keep `names` from being given by `fresh`."""
        self._given.update(names)

    def fresh(self, hint: str) -> str:
        """Return a name that nothing in the graph has: `hint`, or that with a number."""
        while True:
            number = self._counts.get(hint, 0)
            self._counts[hint] = number + 1
            name = f"{hint}_{number}" if number else hint
            if name not in self._given:
                self._given.add(name)
                return name

    def node(self, op: str, inputs: Sequence[str], **attributes: Any) -> str:
        """Write an operator of one output; return its name. `inputs` are names, attributes come by keyword."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(self, op: str, inputs: Sequence[str], outputs: int, **attributes: Any) -> list[str]:
        """Write an operator of `outputs` outputs; return their names."""
        from onnx import helper

        name = self.fresh(op)
        names = [name] if outputs == 1 else [f"{name}_out{number}" for number in range(outputs)]
        self.nodes.append(helper.make_node(op, list(inputs), names, name=name, **attributes))
        return names

    def cast(self, name: str, dtype: DType) -> str:
        """Write a Cast of the value `name`; return the name of the result."""
        return self.node("Cast", [name], to=element_of(onnx_dtype(dtype)))

    def constant(self, values: Any, dtype: DType, shape: Sequence[int] = ()) -> str:
        """Return the name of an initializer of Python numbers: one for each value, shape and dtype. A list is flat."""
        flat = tuple(values) if isinstance(values, (list, tuple)) else (values,)
        key = (tuple(map(repr, flat)), dtype, tuple(shape))
        if key not in self._constants:
            tensor = Tensor(list(flat), dtype=onnx_dtype(dtype), device="PYTHON")
            self._constants[key] = self.store(self.fresh(_constant_name(flat, shape)), tensor, tuple(shape))
        return self._constants[key]

    def folded(self, node: UOp) -> str:
        """Return the name of an initializer of a constant node, which is computed when the file is written."""
        dtype = onnx_dtype(node.dtype)
        key = (node, dtype)
        if key not in self._constants:
            shown = node
            while shown.op in (Ops.RESHAPE, Ops.EXPAND):
                shown = shown.src[0]
            value = Tensor(0)._wrap(node if node.dtype is dtype else node.cast(dtype))
            if shown.op is Ops.CONST and node.shape == ():
                self._constants[key] = self.constant(shown.arg, dtype)
            else:
                self._constants[key] = self.store(self.fresh("constant"), value, tuple(node.shape))
        return self._constants[key]

    def store(self, name: str, tensor: Tensor, shape: tuple[int, ...]) -> str:
        """Add an initializer of a tensor, whose bytes are read when the file is written; return its name."""
        element = element_of(tensor.dtype)
        nbytes = _count(shape) * tensor.dtype.itemsize
        self.shapes[name] = shape
        self.stored.append(StoredTensor(name, element, shape, nbytes, lambda: raw_bytes(tensor)))
        return name

    # Sizes

    def vector(self, sizes: Sequence[sint]) -> str:
        """Return the name of a vector of int64 of numbers, some of them nodes that have a name."""
        if is_concrete(sizes):
            return self.constant([int(size) for size in sizes], dtypes.int64, (len(sizes),))
        axis, parts, run = self.constant([0], dtypes.int64, (1,)), [], []
        for size in [*sizes, None]:
            if isinstance(size, int):
                run.append(size)
                continue
            if run:
                parts.append(self.constant(run, dtypes.int64, (len(run),)))
                run = []
            if size is not None:
                parts.append(self.node("Unsqueeze", [self.names[size], axis]))
        return parts[0] if len(parts) == 1 else self.node("Concat", parts, axis=0)


def onnx_dtype(dtype: DType) -> DType:
    """The dtype of a value in the file: sizes and indices are int64 there."""
    return dtypes.int64 if dtype is dtypes.index else dtype


def symbolic(sizes: Sequence[sint]) -> tuple[UOp, ...]:
    """The sizes that are nodes, each once: what a vector of them needs."""
    return tuple(dict.fromkeys(size for size in sizes if not isinstance(size, int)))


def raw_bytes(tensor: Tensor) -> bytes:
    """Return the elements of a tensor, which is realised, in row-major order, little-endian."""
    if not tensor.numel():
        return b""
    as_bits = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[tensor.dtype.itemsize]
    if tensor.dtype is dtypes.bool:
        tensor = tensor.cast(dtypes.uint8)
    elif tensor.dtype.fmt is None or tensor.dtype.kind == "float":
        tensor = tensor.bitcast(as_bits)
    return tensor.contiguous().numpy().tobytes()


def _count(shape: Shape) -> int:
    """Return how many elements a shape has; more than FOLDED where a size is symbolic."""
    count = 1
    for size in shape:
        count *= size if isinstance(size, int) else FOLDED + 1
    return count


def _constant_name(values: tuple[Any, ...], shape: Sequence[int]) -> str:
    """A name that shows a constant of one number, or a short vector."""
    if len(values) > 4:
        return "constant"
    shown = "_".join(str(value) for value in values) or "empty"
    return f"const_{shown}" if not shape else f"vector_{shown}"


def unsupported(sentence: str) -> UnsupportedError:
    """The error for a graph that ONNX cannot express."""
    return UnsupportedError(sentence)
