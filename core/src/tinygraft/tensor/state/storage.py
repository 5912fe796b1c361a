"""Storage: what a tensor and its views share, so that a write through any of them shows in all.

The graph is immutable: a write makes one new node for the whole value, and every tensor over it becomes its own chain
of movements over that node. A SharedStorage has the node of the whole and weak references to the tensors; each tensor
has its steps from the whole, and the tensor that the first view was made of has none. The storage is made with the
first view: a tensor without views needs none.

Which methods give views is a closed table, VIEWS. `is_declared` says whether a tensor was made by one of them because
the user called it: what a method of this library moves on the way to its result is never an alias.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence, Set
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import realized
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.tape import note_requiring_grad
from tinygraft.errors import DeviceError, ShapeError
from tinygraft.interrupt import come_again, guarded
from tinygraft.tensor.state import no_grad
from tinygraft.tensor.state.leaf_nodes import by_itself, leaf, own_memory
from tinygraft.tensor.state.live import LIVE, borrows, note_assigned, wake
from tinygraft.tensor.state.made_at import Made
from tinygraft.tensor.state.view_steps import MOVES, Steps, detaches, moved_back, over, overlaps, steps_to
from tinygraft.uop.held import HELD, LEAVES, buffers_of, lost_in, memory_base
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sizes import Shape, symbolic_sizes
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.primitives.base import TensorBase

_SHAPES = "reshape view view_as reshape_as flatten unflatten ravel squeeze unsqueeze expand expand_as broadcast_to"
_ORDER = "permute transpose t T mT swapaxes movedim flip fliplr flipud"
_PARTS = "__getitem__ __iter__ shrink shrink_to narrow select unbind diagonal unfold"
_CUTS = "split split_with_sizes tensor_split chunk hsplit vsplit dsplit"
VIEWS = frozenset(f"{_SHAPES} {_ORDER} {_PARTS} {_CUTS} detach bitcast real imag".split())
_WHOLE = frozenset({Ops.RESHAPE, Ops.DETACH})  # steps that keep every element at its index


_declared: set[int] = set()  # ids of the code of the methods of VIEWS, which live as long as their classes
_around: set[int] = set()  # ids of the code of wrappers around methods


def declare(name: str, member: Any) -> None:
    """Register a member of Tensor as one whose results are views, if its name is in VIEWS; else do nothing."""
    if name not in VIEWS:
        return
    function: Any = member.fget if isinstance(member, property) else member
    while hasattr(function, "__wrapped__"):
        _around.add(id(function.__code__))
        function = function.__wrapped__
    _declared.add(id(function.__code__))


def declare_caller(function: Any) -> None:
    """Register a function that calls members of VIEWS for the user."""
    _around.add(id(function.__code__))


def is_declared(tensor: TensorBase) -> bool:
    """Return whether a tensor was just made by a method of VIEWS that was called from outside this library."""
    outer = id(tensor._made[2])
    return outer in _declared or (outer in _around and id(tensor._made[3]) in _declared)


class _Member(weakref.ref["TensorBase"]):
    """A weak reference to a tensor of a storage, listed there under `key`."""

    __slots__ = ("key", "storage")
    storage: weakref.ref[SharedStorage]  # weak: a strong one would be a cycle, and memory would wait for gc
    key: int


def _forget(member: _Member) -> None:
    """Remove a dead tensor from its storage.

    The last one left is awake, so that realising may free the other elements. Called by Python when the tensor dies,
    in any thread and between any two instructions.
    """
    try:
        storage = member.storage()
        if storage is not None and storage._members.get(member.key, member) is member:
            storage._members.pop(member.key, None)
            storage.wake_last()
    except KeyboardInterrupt:  # Python drops what a weakref callback raises: do all of it, and raise the signal later
        _forget(member)
        come_again()


class SharedStorage:
    """The whole value that some tensors are views of.

    `uop` is its node, `requires_grad` the flag of the tensor that the first view was made of. `version` counts the
    writes, and `written` says that there was a write since the value was last in memory. Realising treats a storage
    as a tensor, so that its node becomes the realised one.
    """

    written: bool
    version: int

    __slots__ = ("__weakref__", "_computed", "_lender", "_members", "_node", "_wrote", "requires_grad", "version",
                 "written")  # fmt: skip

    def __init__(self, uop: UOp, requires_grad: bool | None, first: TensorBase) -> None:
        self._node, self.requires_grad = uop, requires_grad
        self.version, self.written = 0, False
        self._lender, self._computed, self._wrote = first._lender, first._computed, first._wrote
        self._members: dict[int, _Member] = {}
        self.add(first)

    @property
    def _requires_grad(self) -> bool | None:
        """Return the flag, by the name that it has in a tensor."""
        return self.requires_grad

    @property
    def uop(self) -> UOp:
        """Return the node of the whole value. Setting it makes all tensors over it awake."""
        return self._node

    @uop.setter
    def uop(self, node: UOp) -> None:
        self._node = node
        for tensor in self.members():
            wake(tensor)

    @property
    def made_at(self) -> tuple[str, int]:
        """Return the (file, line) where the first of its live tensors was made; ("", 0) without any."""
        found = self.members()
        return found[0].made_at if found else ("", 0)

    def add(self, tensor: TensorBase) -> None:
        """Register `tensor` as one that is over this value."""
        member = _Member(tensor, _forget)
        member.key, member.storage = id(tensor), weakref.ref(self)
        self._members[member.key] = member

    def leave(self, tensor: TensorBase) -> None:
        """Unregister `tensor`, which is about to get another value or is the last one.

        A tensor left alone becomes awake.
        """
        tensor._storage = None
        self._members.pop(id(tensor), None)
        self.wake_last()

    def wake_last(self) -> None:
        """List the tensor that is left as awake, if it is the only one, so that realising looks at it."""
        if len(self._members) == 1:
            for tensor in self.members():
                wake(tensor)

    def members(self) -> list[TensorBase]:
        """Return the live tensors over this value, in the order in which they were registered."""
        return [t for m in list(self._members.values()) if (t := m()) is not None and t._storage is self]

    def has_several(self) -> bool:
        """Return whether at least two live tensors are over this value."""
        found = 0  # not len(members()): this runs for every realisation, and stops at the second one
        for member in list(self._members.values()):
            tensor = member()
            found += tensor is not None and tensor._storage is self
            if found > 1:
                return True
        return False

    def is_shared(self, tensor: TensorBase) -> bool:
        """Return whether `tensor`, which is over this value, still needs it; one that does not is unregistered.

        That is a realised tensor that is the last one. A view made by expand or unfold never leaves: its elements
        overlap, and `check_no_overlap` has to refuse writes.
        """
        if memory_base(tensor.uop).op not in HELD or not self.is_left_by(tensor):
            return True
        tensor._lender, tensor._computed, tensor._wrote = self._lender, self._computed, self._wrote
        self.leave(tensor)
        return False

    def is_left_by(self, tensor: TensorBase) -> bool:
        """Return whether `tensor`, which is over this value, leaves it when it is realised: as the last one."""
        return not self.has_several() and not any(op in (Ops.EXPAND, Ops.WINDOW) for op, *_ in tensor._chain)

    def is_pending(self) -> bool:
        """Return whether there is a pending assignment. Updates `written`."""
        if not self.written:
            return False
        node = memory_base(self.uop)
        self.written = node.op is Ops.ASSIGN
        while node.op is Ops.ASSIGN:
            node = memory_base(node.src[0])
        return self.written and node.op in HELD

    def may_change(self) -> bool:
        """Return whether code outside this library can write the memory: then no view may cache elements of it."""
        node = memory_base(self.uop)
        while node.op is Ops.ASSIGN:
            node = memory_base(node.src[0])
        return any((buffer := realized(part)) is not None and buffer.may_change() for part in buffers_of(node))

    def settle(self) -> None:
        """Realise the whole value, and make every tensor its chain of steps over that memory.

        Raises what the computation raises.
        """
        with exclusive:
            from tinygraft.engine.realize import realize_tensors  # the compiler is loaded when something is computed

            _adopt(self)
            try:
                if (base := memory_base(self.uop)).op not in HELD | LEAVES:
                    realize_tensors([self], LIVE)
                    base = memory_base(self.uop)
                if base.op not in HELD:  # realising leaves a constant as it is, and CONTIGUOUS puts it into memory
                    self.uop = UOp(Ops.CONTIGUOUS, self.uop.dtype, (self.uop,))
                    realize_tensors([self], LIVE)
            finally:
                self.become(self.uop)  # after a failure, too: base and views may not differ

    def become(self, node: UOp) -> None:
        """Make `node` the whole value, and every tensor its chain of steps over it."""
        with guarded(whole=True):  # signals wait: base and views never show different memory
            self.uop = node
            for tensor in self.members():
                tensor.uop = over(tensor._chain, node)

    def set_flag(self, tensor: TensorBase, node: UOp, requires_grad: bool | None) -> None:
        """Give a tensor over this value another flag, and `node`, which was made for that flag, as its node."""
        if requires_grad and isinstance(node.tag, Own):  # a leaf of its own over this value
            tensor._chain += steps_to(node, tensor.uop)
            self.become(leaf(self.uop, requires_grad))
        elif node.op is Ops.DETACH and requires_grad is False:
            tensor._chain += steps_to(node, tensor.uop)
            tensor.uop = node
        elif node is not tensor.uop and not tensor._chain:
            self.become(node)
        elif node is not tensor.uop:
            self.become(leaf(self.uop, requires_grad))
        if not tensor._chain:
            self.requires_grad, self._lender, self._computed = requires_grad, None, False


def whole_value(tensor: TensorBase) -> tuple[UOp, bool | None]:
    """Return the node and the flag of the whole value that `tensor` is, or is a view of."""
    holder = tensor if tensor._storage is None else tensor._storage
    return holder.uop, holder.requires_grad


def alias(base: TensorBase, view: TensorBase, made: UOp, old: UOp) -> None:
    """Make the new tensor `view` a view of `base`. `made` is its node, made by movements of `old`, the node of `base`.

    Another thread may have written to base or realised it since: then the view is of the node that base has now.
    """
    if no_grad.here.blocks and no_grad.is_quiet():
        made = no_grad.cut(made)
    steps = steps_to(made, old)
    with exclusive:
        storage = base._storage
        if storage is None:
            storage = base._storage = SharedStorage(base.uop, base.requires_grad, base)
            base._chain = ()
        view.uop = made if base.uop is old else over(steps, base.uop)
        view._storage, view._chain = storage, base._chain + steps
        storage.add(view)


def join(base: TensorBase, new: TensorBase) -> None:
    """Make `new`, a tensor over base's memory whose node was not made of base's node, a view of it.

    Where base is a view whose elements are cached in memory of their own, `new` may be over that memory.
    """
    if base._storage is None:
        base._storage, base._chain = SharedStorage(base.uop, base.requires_grad, base), ()
    storage, bottom = base._storage, new.uop
    before: Steps = ()
    while bottom is not storage.uop and bottom.op not in HELD:
        bottom = bottom.src[0]
    chain = steps_to(new.uop, bottom)
    if bottom is not storage.uop:
        if memory_base(storage.uop) is not bottom:
            if memory_base(base.uop) is not bottom:
                return
            before = base._chain
        chain = (*before, (Ops.RESHAPE, bottom.dtype, (), bottom.shape, None), *chain)
    new._storage, new._chain = storage, chain
    storage.add(new)


def is_detached(tensor: TensorBase) -> bool:
    """Return whether a value that is written to `tensor` gets no gradient, because that is a view made by detach."""
    return tensor._storage is not None and detaches(tensor._chain)


def undetached(tensor: TensorBase) -> TensorBase:
    """Return a view of the same elements through which gradients pass; `tensor` itself unless `is_detached` holds."""
    storage = tensor._storage
    if storage is None or not is_detached(tensor):
        return tensor
    new: TensorBase = tensor._wrap(tensor.uop)
    with exclusive:
        new._storage, new._chain = storage, tuple([step for step in tensor._chain if step[0] is not Ops.DETACH])
        new.uop = over(new._chain, storage.uop)
        storage.add(new)
    return new


def share(tensors: Sequence[tuple[TensorBase, int]], requires_grad: bool | None) -> None:
    """Make new tensors views of one memory.

    Each has the number of its steps from there; the flag is that of the whole.
    """
    first, count = tensors[0]
    node = first.uop
    for _ in range(count):
        node = node.src[0]
    storage = SharedStorage(node, requires_grad, first)
    for tensor, _ in tensors:
        tensor._storage, tensor._chain = storage, steps_to(tensor.uop, node)
        if tensor is not first:
            storage.add(tensor)


def agree(tensors: Iterable[TensorBase]) -> None:
    """Give every tensor that shares a storage with one of `tensors` its value. Called after a failed realisation."""
    for tensor in tensors:
        if (storage := tensor._storage) is not None:
            storage.become(storage.uop if tensor._chain else tensor.uop)


def not_following(holders: Iterable[Any], overwritten: Set[UOp], known: Callable[[Any], bool]) -> list[Any]:
    """Return which of `holders` keep their values when a replay overwrites BUFFERs: all but those that it assigns to.

    `known` returns whether a tensor or storage over such memory is one that the replayed function assigns to. These,
    and those that share a storage with one, get the new values: their views are made to read the memory again.
    """
    stay: list[Any] = []
    written: dict[int, SharedStorage] = {}
    for holder in holders:
        storage = None if isinstance(holder, SharedStorage) else holder._storage
        base = memory_base(holder.uop if storage is None else storage.uop)
        if base.op not in HELD or overwritten.isdisjoint(buffers_of(base)) or not known(holder):
            stay.append(holder)
        elif storage is not None:
            written[id(storage)] = storage
    for storage in written.values():
        storage.version += 1
        storage.become(storage.uop)
    if not written:
        return stay
    return [h for h in stay if id(h if isinstance(h, SharedStorage) else h._storage) not in written]


def to_realize(tensor: TensorBase) -> TensorBase | SharedStorage:
    """Return what to compute when `tensor` is realised: its storage where other tensors see a pending write too.

    The elements of a view are then cached when they are first read; never where code outside can write the memory.
    """
    storage = tensor._storage
    if storage is None or not tensor._chain:
        return tensor
    waits = storage.may_change() or (storage.is_pending() and storage.has_several())
    return storage if waits else tensor


def write(tensor: TensorBase, value: UOp, part: Steps, unrecorded: bool, is_leaf: Callable[[SharedStorage], bool],
          where: Made) -> None:  # fmt: skip
    """Write `value` to `tensor`, which has a storage, or to the part of it at the end of the steps `part`.

    It makes a new node for the storage. With `unrecorded` gradients go on to the old value, unless that is a leaf
    (no_grad.py). `where` is the line of the user's code. `is_leaf` returns whether a storage is a leaf to gradients: a
    value that is written into one is detached, and so is one that is written through a tensor that detach() returned.
    Raises ShapeError where two elements of the view are one element of the storage, and DeviceError where other
    elements than those of the part were lost in a failure.
    """
    storage = tensor._storage
    assert storage is not None
    with exclusive:
        _adopt(storage)
        check_no_overlap(tensor, part, value.shape)
        steps, old = tensor._chain + part, storage.uop
        if 0 in value.shape:
            return
        moves = tuple([(op, old.dtype, sizes, arg, None) for op, _, sizes, arg, _ in steps if op in MOVES])
        if value.dtype is not old.dtype:
            value = UOp(Ops.BITCAST, old.dtype, (value,))
        # before the DETACH, by which the tape recognises a write into a leaf
        back = _moved_back(value, moves, old)
        value, whole = (value, False) if back is None else (back, True)
        if lost := lost_in(old):
            if not whole:
                raise DeviceError(lost)
            unrecorded = False
        requires = old.dtype.kind == "float" and storage.requires_grad is True
        stays = requires and is_leaf(storage)  # it is a leaf, and is one after the write
        storage._computed |= requires and not stays
        if requires and not stays:
            # what was computed from the old value is no leaf, though its node is gone after the write
            note_requiring_grad(member for member in storage.members() if member.requires_grad)
        if stays or (old.dtype.kind == "float" and detaches(steps)):
            value = UOp(Ops.DETACH, value.dtype, (value,))
        if stays and not whole:
            old = UOp(Ops.DETACH, old.dtype, (old,))
        shared = borrows(storage)
        if not whole and (shared or memory_base(old).op is Ops.FUNCTION):
            old = by_itself(old)
        if unrecorded and not stays:
            value = no_grad.unrecorded(value, old if whole else over(moves, old))
        if not whole:
            new = UOp(Ops.ASSIGN, old.dtype, (old, value, over(moves, old)))
        else:
            # into the same memory where the storage has some of its own; an expression is simply replaced
            in_place = stays or old.op is Ops.ASSIGN or (memory_base(old).op in HELD and not shared)
            if stays and lost:
                new = own_memory(value)
            else:
                new = UOp(Ops.ASSIGN, old.dtype, (old, value)) if in_place else by_itself(value)
        with guarded(whole=True):  # all views, or none
            storage._lender, storage.written, storage._wrote = None, True, where
            storage.version += 1
            storage.become(new)
            for member in storage.members():
                note_assigned(member)


def _moved_back(value: UOp, moves: Steps, old: UOp) -> UOp | None:
    """Return the value of the whole `old` that has `value` at the end of `moves`; None where that is a part only."""
    if all(op is Ops.RESHAPE for op, *_ in moves):
        same = value.shape == old.shape
        return value if same else UOp(Ops.RESHAPE, value.dtype, (value, *symbolic_sizes(old.shape)), old.shape)
    return moved_back(value, moves, old)


def check_no_overlap(tensor: TensorBase, part: Steps, shape: Shape) -> None:
    """Raise ShapeError where two elements of the part of `tensor` at the end of `part` are one element of its storage.

    `shape` is that of the part, for the message.
    """
    storage = tensor._storage
    if storage is not None and overlaps(storage.uop, tensor._chain + part):
        raise ShapeError(
            f"cannot write to a view of shape {shape} that has elements in common: it was made by expand or "
            f"unfold from a tensor of shape {storage.uop.shape}\n"
            f"  made at {tensor._where()}\n  hint: write to a copy, as in t = t.clone(), or to the tensor itself"
        )


def _adopt(storage: SharedStorage) -> None:
    """Give `storage`, if it has an expression only, the node of a member that has the whole value in memory."""
    if memory_base(storage.uop).op not in HELD:
        for tensor in storage.members():
            if not tensor._chain and tensor.uop is not storage.uop and tensor.uop.shape == storage.uop.shape:
                storage.uop = tensor.uop
                return
