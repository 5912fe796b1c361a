"""The result of a captured call with its tensors taken out, to be put together again over other memory.

A tensor is kept as the rows of its graph: what each node is, with its sources as numbers of rows. Its leaves are
buffers, by number among those of a call, and variables, which have other values in each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

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
from tinygraft.uop.uop import UOp, postorder

Home = int | weakref.ref[TensorBase] | None


def home_of(tensor: TensorBase, arguments: Sequence[TensorBase], was_there: Callable[[object], bool]) -> Home:
    """Whose memory a tensor of a result is: the number of an argument, a tensor that was there, or None."""
    storage = tensor._storage
    for number, given in enumerate(arguments):
        if given is tensor or (storage is not None and given._storage is storage):
            return number
    members = [tensor] if storage is None else storage.members()
    return next((weakref.ref(member) for member in members if was_there(member)), None)


def lender_of(tensor: TensorBase, arguments: Sequence[TensorBase], was_there: Callable[[object], bool]) -> Home:
    """Whose memory a value of a result has for as long as nobody writes it: as home_of says it."""
    holder = tensor if tensor._storage is None else tensor._storage
    owner = holder._lender() if holder._lender is not None and borrows(holder) else None
    return None if owner is None else home_of(owner, arguments, was_there)


def values_of(
    tensors: Sequence[TensorBase], arguments: Sequence[TensorBase], was_there: Callable[[object], bool]
) -> list[TensorBase]:
    """The tensors of a result that are values, which have yet to be computed. The others are over memory then.

    Those are the views of what was there before the call, and those that may have elements in common.
    """
    stay: set[int] = set()
    for storage, members in _by_storage(tensors):
        if home_of(members[0], arguments, was_there) is not None or _are_aliases(members):
            storage.settle()
            stay.update(map(id, members))
    return [tensor for tensor in tensors if id(tensor) not in stay]


def aliases_in(tensors: Sequence[TensorBase], homes: Mapping[int, Home]) -> list[Aliases]:
    """The tensors of a result that are one memory which was made in the call."""
    place = {id(tensor): number for number, tensor in enumerate(tensors)}
    found = []
    for storage, members in _by_storage(tensors):
        over_it = [t for t in members if homes[id(t)] is None and t.uop is over(t._chain, storage.uop)]
        if _are_aliases(over_it) and storage.uop.base.op in HELD:
            found.append(Aliases(storage.requires_grad, tuple([(place[id(t)], len(t._chain)) for t in over_it])))
    return found


def _by_storage(tensors: Sequence[TensorBase]) -> list[tuple[SharedStorage, list[TensorBase]]]:
    """The storages of tensors, each with its tensors, named once."""
    found: dict[int, tuple[SharedStorage, list[TensorBase]]] = {}
    for tensor in {id(tensor): tensor for tensor in tensors}.values():
        if (storage := tensor._storage) is not None:
            found.setdefault(id(storage), (storage, []))[1].append(tensor)
    return list(found.values())


def _are_aliases(tensors: Sequence[TensorBase]) -> bool:
    """Whether a write to one tensor of a storage may show in another one, or elsewhere in the same one."""
    repeats = any(op in (Ops.EXPAND, Ops.WINDOW) for tensor in tensors for op, *_ in tensor._chain)
    return repeats or any(not (a._chain and b._chain) or have_common(a, b) for a, b in combinations(tensors, 2))


@dataclass(frozen=True, slots=True)
class Aliases:
    """Tensors of a result that are one memory, by their numbers, each with how many steps it is from the whole."""

    requires_grad: bool | None
    tensors: tuple[tuple[int, int], ...]

    def link(self, tensors: Sequence[TensorBase]) -> None:
        """Note that of the tensors of another result."""
        share([(tensors[number], steps) for number, steps in self.tensors], self.requires_grad)


@dataclass(frozen=True, slots=True)
class _ResultRow:
    """A node. Of a BUFFER arg is its number among the buffers of a call, of a BIND there is none.

    What depends on neither is the same in every call: there arg is the node itself, and op is CONST.
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


class Held:
    """The place of a tensor in a result. numbers has the BUFFERs that it may be made of.

    home is whose memory it is: the number of an argument, or a tensor from outside; None for a value. lender is the
    same for a value that has another tensor's memory, and is written elsewhere.
    """

    __slots__ = ("home", "lender", "reads", "requires_grad", "rows")

    def __init__(self, tensor: TensorBase, numbers: Mapping[UOp, int], home: Home = None, lender: Home = None) -> None:
        self.requires_grad, self.home, self.lender = tensor.requires_grad, home, lender
        order = postorder(tensor.uop)
        changes: set[UOp] = set()
        for node in order:
            if node.op in (Ops.BUFFER, Ops.BIND) or not changes.isdisjoint(node.src):
                changes.add(node)
        needed = {tensor.uop}.union(*(node.src for node in changes if node.op is not Ops.BUFFER))
        place: dict[UOp, int] = {}
        self.rows: list[_ResultRow] = []
        for node in order:
            if node in needed:
                place[node] = len(self.rows)
                self.rows.append(_row(node, place, numbers) if node in changes else _same(node))
        self.reads = any(row.op is Ops.BUFFER for row in self.rows)  # memory, so that it is told apart by that

    def __getstate__(self) -> tuple[None, dict[str, Any]]:
        home, lender = (of if isinstance(of, int) else None for of in (self.home, self.lender))
        kept = {name: getattr(self, name) for name in ("requires_grad", "rows", "reads")}
        return None, {"home": home, "lender": lender, **kept}

    def alias(self, arguments: Sequence[TensorBase], buffers: Sequence[UOp], values: Mapping[str, int],
              made: Made) -> Tensor:  # fmt: skip
        """The tensor, as memory of an argument or of a tensor from outside where it was that."""
        new = self.tensor(buffers, values, made)
        if self.home is not None and (home := _found(self.home, arguments)) is not None:
            join(home, new)
        elif self.lender is not None and (lender := _found(self.lender, arguments)) is not None:
            new._lender = entry_of(lender)
        return new

    def tensor(self, buffers: Sequence[UOp], values: Mapping[str, int], made: Made | None = None) -> Tensor:
        """The tensor over the buffers of another call and with its values of variables; made is where that was."""
        done: list[UOp] = []
        for row in self.rows:
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
        new = object.__new__(Tensor)  # Tensor(node) looks at what it is given for 4 us
        new._set(done[-1] if self.reads else leaf(done[-1], self.requires_grad), self.requires_grad, made)
        return new


def _found(home: Home, arguments: Sequence[TensorBase]) -> TensorBase | None:
    """The tensor that a Home names in a call with these arguments; None where there is none, or no more."""
    return arguments[home] if isinstance(home, int) else None if home is None else home()


def _same(node: UOp) -> _ResultRow:
    return _ResultRow(Ops.CONST, node.dtype, (), node, None)


def _row(node: UOp, place: Mapping[UOp, int], numbers: Mapping[UOp, int]) -> _ResultRow:
    """Return a node of a result with rows for its sources, a BUFFER by its number, a BIND without its value.

    `place` has the row of each node before it.
    """
    if node.op is Ops.BUFFER:
        return _ResultRow(node.op, node.dtype, (), numbers[node], None)
    src = tuple([place[source] for source in node.src])
    return _ResultRow(node.op, node.dtype, src, None if node.op is Ops.BIND else _with_rows(node.arg, place), node.tag)


def _with_rows(arg: Any, place: Mapping[UOp, int]) -> Any:
    if isinstance(arg, tuple):
        return tuple([_with_rows(item, place) for item in arg])
    return _SizeRow(place[arg]) if isinstance(arg, UOp) else arg


def _with_nodes(arg: Any, done: Sequence[UOp]) -> Any:
    if isinstance(arg, tuple):
        return tuple([_with_nodes(item, done) for item in arg])
    return done[arg.row] if isinstance(arg, _SizeRow) else arg
