"""The result of a captured call with its tensors as rows, from which it is built again over other memory.

A tensor is stored as the rows of its graph: each node with its sources as numbers of rows. Its leaves are buffers, by
their index among those of a call, and variables, which may have other values in each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, cast

from tinygraft.dtype import DType
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.leaf_nodes import leaf
from tinygraft.tensor.state.live import borrows, entry_of
from tinygraft.tensor.state.made_at import Made
from tinygraft.tensor.state.storage import SharedStorage, join, share
from tinygraft.tensor.state.strides import have_common
from tinygraft.tensor.state.view_steps import over
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.held import HELD
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import NodeStep, UOp, make_again, postorder

ViewBase = int | weakref.ref[TensorBase] | None  # the number of an argument, or a tensor from outside


def base_of(tensor: TensorBase, arguments: Sequence[TensorBase], existed: Callable[[object], bool]) -> ViewBase:
    """Return which tensor a tensor of a result shares a storage with, or is.

    That is an argument, by its number, or a tensor for which `existed` says that it existed before the call; None
    where the tensor is a value of its own.
    """
    storage = tensor._storage
    for number, given in enumerate(arguments):
        if given is tensor or (storage is not None and given._storage is storage):
            return number
    members = [tensor] if storage is None else storage.members()
    return next((weakref.ref(member) for member in members if existed(member)), None)


def itself(tensor: TensorBase, arguments: Sequence[TensorBase], existed: Callable[[object], bool]) -> ViewBase:
    """Return which tensor a tensor of a result is: an argument, or one that existed before; None for a new one."""
    number = next((number for number, given in enumerate(arguments) if given is tensor), None)
    return weakref.ref(tensor) if number is None and existed(tensor) else number


def lender_of(tensor: TensorBase, arguments: Sequence[TensorBase], existed: Callable[[object], bool]) -> ViewBase:
    """Return which tensor lends a value of a result its memory until one of them is written; as `base_of` does."""
    holder = tensor if tensor._storage is None else tensor._storage
    owner = holder._lender() if holder._lender is not None and borrows(holder) else None
    return None if owner is None else base_of(owner, arguments, existed)


def values_of(
    tensors: Sequence[TensorBase], arguments: Sequence[TensorBase], existed: Callable[[object], bool]
) -> list[TensorBase]:
    """Return the tensors of a result that are values, and so have to be realised. The others are settled here.

    Those are views of tensors that existed before the call, and tensors that may have elements in common: they have to
    stay views of the memory of their storage.
    """
    stay: set[int] = set()
    for storage, members in _by_storage(tensors):
        if base_of(members[0], arguments, existed) is not None or _are_aliases(members):
            storage.settle()
            stay.update(map(id, members))
    return [tensor for tensor in tensors if id(tensor) not in stay]


def aliases_in(tensors: Sequence[TensorBase], bases: Mapping[int, ViewBase]) -> list[Aliases]:
    """Return the groups of tensors of a result that share memory made in the call; `bases` is by id of a tensor."""
    numbers = {id(tensor): number for number, tensor in enumerate(tensors)}
    found = []
    for storage, members in _by_storage(tensors):
        over_it = [t for t in members if bases[id(t)] is None and t.uop is over(t._chain, storage.uop)]
        if _are_aliases(over_it) and storage.uop.base.op in HELD:
            found.append(Aliases(storage.requires_grad, tuple([(numbers[id(t)], len(t._chain)) for t in over_it])))
    return found


def _by_storage(tensors: Sequence[TensorBase]) -> list[tuple[SharedStorage, list[TensorBase]]]:
    """Return the storages of tensors, each with its tensors; a tensor that is there twice counts as one."""
    found: dict[int, tuple[SharedStorage, list[TensorBase]]] = {}
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        if (storage := tensor._storage) is not None:
            found.setdefault(id(storage), (storage, []))[1].append(tensor)
    return list(found.values())


def _are_aliases(tensors: Sequence[TensorBase]) -> bool:
    """Return whether a write to one tensor of a storage may change another one, or other elements of its own."""
    repeats = any(op in (Ops.EXPAND, Ops.WINDOW) for tensor in tensors for op, *_ in tensor._chain)
    return repeats or any(not (a._chain and b._chain) or have_common(a, b) for a, b in combinations(tensors, 2))


@dataclass(frozen=True, slots=True)
class Aliases:
    """Tensors of a result that share memory, by their numbers, each with the number of movements from its base."""

    requires_grad: bool | None
    tensors: tuple[tuple[int, int], ...]

    def link(self, tensors: Sequence[TensorBase]) -> None:
        """Make the tensors of another result share a storage in the same way."""
        share([(tensors[number], steps) for number, steps in self.tensors], self.requires_grad)


@dataclass(frozen=True, slots=True)
class _ResultRow:
    """A node of a result. The `arg` of a BUFFER is its index among the buffers of a call, that of a BIND is None.

    A node that depends on neither is the same in every call: then `arg` is the node itself, and `op` is CONST.
    """

    op: Ops
    dtype: DType
    src: tuple[int, ...]
    arg: Any
    tag: Any


@dataclass(frozen=True, slots=True)
class _SizeRow:
    """A symbolic size in an arg: the number of its row."""

    row: int


class CapturedTensor:
    """A tensor of a result as rows, from which it is built for each call.

    `base` is the tensor that it is a view of (`base_of`), None for a value; `lender` that whose memory a value has
    until one of them is written (`lender_of`); `same` the tensor that it is (`itself`).
    """

    requires_grad: bool | None
    base: ViewBase
    lender: ViewBase
    same: ViewBase

    __slots__ = ("base", "lender", "reads", "requires_grad", "reshaped", "rows", "same")

    def __init__(self, tensor: TensorBase, indices: Mapping[UOp, int], base: ViewBase = None, lender: ViewBase = None,
                 same: ViewBase = None) -> None:  # fmt: skip
        """Store the graph of `tensor`; `indices` has the BUFFERs that it may read, with their index in a call."""
        self.requires_grad, self.base, self.lender, self.same = tensor.requires_grad, base, lender, same
        order = postorder(tensor.uop)
        changes: set[UOp] = set()
        for node in order:
            if node.op in (Ops.BUFFER, Ops.BIND) or not changes.isdisjoint(node.src):
                changes.add(node)
        needed = {tensor.uop}.union(*(node.src for node in changes if node.op is not Ops.BUFFER))
        row_of: dict[UOp, int] = {}
        self.rows: list[_ResultRow] = []
        for node in order:
            if node in needed:
                row_of[node] = len(self.rows)
                self.rows.append(_row(node, row_of, indices) if node in changes else _same(node))
        self.reads: bool = any(row.op is Ops.BUFFER for row in self.rows)  # memory, which makes each result a new node
        is_value = base is None and same is None and tensor._storage is None
        self.reshaped: tuple[int, NodeStep] | None = _reshaped(tensor.uop, indices) if is_value else None

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        base, lender, same = (of if isinstance(of, int) else None for of in (self.base, self.lender, self.same))
        others = {name: getattr(self, name) for name in ("requires_grad", "rows", "reads", "reshaped")}
        return None, {"base": base, "lender": lender, "same": same, **others}

    def alias(self, arguments: Sequence[TensorBase], buffers: Sequence[UOp], values: Mapping[str, int],
              made: Made) -> Tensor:  # fmt: skip
        """Return the tensor of another call, which joins the storage of its base, or borrows memory of its lender.

        One that the function returns as it was given, or found it, is that tensor. The parameters are those of
        `tensor`; `arguments` are the tensors of that call.
        """
        if self.same is not None and (same := _found(self.same, arguments)) is not None:
            return cast("Tensor", same)
        new = self.tensor(buffers, values, made)
        if self.base is not None and (base := _found(self.base, arguments)) is not None:
            join(base, new)
        elif self.lender is not None and (lender := _found(self.lender, arguments)) is not None:
            new._lender = entry_of(lender)
        return new

    def tensor(self, buffers: Sequence[UOp], values: Mapping[str, int], made: Made | None = None) -> Tensor:
        """Return the tensor over the `buffers` of another call, with its `values` of variables.

        `made` is the line of the user's code that called.
        """
        done: list[UOp] = []
        if self.reshaped is not None:
            number, step = self.reshaped
            done = [buffers[number]]
            make_again((step,), done)
        for row in self.rows if self.reshaped is None else ():
            if row.op is Ops.BUFFER:
                node = buffers[row.arg]
            elif row.op is Ops.CONST:
                node = row.arg
            elif row.op is Ops.BIND:
                variable = done[row.src[0]]
                node = variable.bind(values[variable.arg.name])
            else:
                src = tuple([done[number] for number in row.src])
                node = UOp(row.op, row.dtype, src, _with_nodes(row.arg, done) if len(src) > 1 else row.arg, row.tag)
            done.append(node)
        new = object.__new__(Tensor)  # Tensor(node) takes 4 us to check its argument
        new._set(done[-1] if self.reads else leaf(done[-1], self.requires_grad), self.requires_grad, made)
        return new


def _reshaped(node: UOp, indices: Mapping[UOp, int]) -> tuple[int, NodeStep] | None:
    """Return the index of the BUFFER that `node` only reshapes to concrete sizes, and one RESHAPE of it as a step."""
    source = node
    while source.op is Ops.RESHAPE and source.tag is None and is_concrete(source.shape):
        source = source.src[0]
    if source is node or source.op is not Ops.BUFFER or node.sharding is not None:
        return None
    step = NodeStep(Ops.RESHAPE, node.dtype, node.arg, (0,), node.shape, node.device, node.lo, node.hi)
    return indices[source], step


def _found(base: ViewBase, arguments: Sequence[TensorBase]) -> TensorBase | None:
    """Return the tensor that a ViewBase names in a call with these arguments; None where there is none any more."""
    return arguments[base] if isinstance(base, int) else None if base is None else base()


def _same(node: UOp) -> _ResultRow:
    """Return the row of a node that is the same in every call."""
    return _ResultRow(Ops.CONST, node.dtype, (), node, None)


def _row(node: UOp, row_of: Mapping[UOp, int], indices: Mapping[UOp, int]) -> _ResultRow:
    """Return a node of a result with rows for its sources, a BUFFER by its index, a BIND without its value.

    `row_of` has the row of each node before it.
    """
    if node.op is Ops.BUFFER:
        return _ResultRow(node.op, node.dtype, (), indices[node], None)
    src = tuple([row_of[source] for source in node.src])
    arg = None if node.op is Ops.BIND else _with_rows(node.arg, row_of)
    return _ResultRow(node.op, node.dtype, src, arg, node.tag)


def _with_rows(arg: Any, row_of: Mapping[UOp, int]) -> Any:
    """Return an arg with a _SizeRow for each node in it, at any depth of tuples."""
    if isinstance(arg, tuple):
        return tuple([_with_rows(item, row_of) for item in arg])
    return _SizeRow(row_of[arg]) if isinstance(arg, UOp) else arg


def _with_nodes(arg: Any, done: Sequence[UOp]) -> Any:
    """Return an arg with the nodes of `done` for each _SizeRow in it: the inverse of `_with_rows`."""
    if isinstance(arg, tuple):
        return tuple([_with_nodes(item, done) for item in arg])
    return done[arg.row] if isinstance(arg, _SizeRow) else arg
