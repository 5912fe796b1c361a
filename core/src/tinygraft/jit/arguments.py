"""The arguments of a call, unpacked: what makes two calls one kind, and what may differ between them.

    unpack(args, kwargs) -> Arguments(key, buffers, values)

Calls are of one kind when their keys are equal: the structure of the arguments, the form of each tensor among them and
which of them share memory, all other arguments by value, and the settings that change code. What may differ are the
memory of the tensors and the values of bound variables, also of those in symbolic shapes.
"""

from __future__ import annotations

import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import fields, is_dataclass
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from types import EllipsisType
from typing import Any
from uuid import UUID

from tinygraft.config import code_settings
from tinygraft.dtype import DType
from tinygraft.tensor.nested import MANY, check_ends, fields_of, is_record
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state import no_grad
from tinygraft.tensor.state.storage import SharedStorage
from tinygraft.uop import index as ix
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

_PLAIN = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})  # ops that keep the order of elements


class Arguments:
    """The kind of a call, the distinct BUFFERs of its tensors, and the values of its variables by name.

    `tensors` are those among the arguments, complex ones as their real and imaginary parts, and `memory` has for each
    the indices of its BUFFERs in `buffers`. `varied` says that a variable has two values among them. `copied` are the
    storages of views that have a copy of their elements during the call, because the memory can be written from
    outside: `restore_views` makes them views again. `wholes` are the ids of the memory that cached views are of.
    """

    __slots__ = ("_owned", "_owners", "buffers", "copied", "key", "memory", "tensors", "values", "varied", "wholes")

    def __init__(self) -> None:  # not by dataclass, whose __init__ takes three times as long, in every replay
        self.key: tuple[Any, ...] = ()
        self.buffers: list[UOp] = []
        self.values: dict[str, int] = {}
        self.tensors: list[TensorBase] = []
        self.memory: list[tuple[int, ...]] = []
        self.varied: bool = False
        self.copied: list[SharedStorage] = []
        self.wholes: list[int] = []
        self._owners: dict[int, set[int]] = {}  # which storages the first `_owned` tensors have of each BUFFER
        self._owned: int = 0

    def owners_of(self, buffer: int) -> Set[int]:
        """Return the ids of the storages of the tensors so far that have some of a BUFFER; asked only where some do."""
        for number in range(self._owned, len(self.memory)):
            owner = id(self.tensors[number]._storage or self.tensors[number])
            for one in self.memory[number]:
                self._owners.setdefault(one, set()).add(owner)
        self._owned = len(self.memory)
        return self._owners.get(buffer, frozenset())

    def restore_views(self) -> None:
        """After the call, make the views in `copied` views of their memory again."""
        for storage in self.copied:
            storage.become(storage.uop)

    def tensors_over(self, buffers: Sequence[int]) -> list[int]:
        """Return the indices in `tensors` of those that are over one of `buffers`, which are indices, too."""
        return [number for number, mine in enumerate(self.memory) if not set(buffers).isdisjoint(mine)]

    def bind(self, name: str, value: int) -> None:
        """Record the value of a variable; `varied` says from then on whether a variable had two values."""
        self.varied |= self.values.setdefault(name, value) != value


class Same:
    """A key that equals only that of the same object. Refers to it weakly where its type allows that."""

    __slots__ = ("_hash", "item")

    def __init__(self, item: object) -> None:
        self._hash = id(item)
        self.item: Callable[[], object]
        try:
            self.item = weakref.ref(item)
        except TypeError:
            self.item = lambda: item

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and (mine := self.item()) is not None and other.item() is mine

    def __hash__(self) -> int:
        return self._hash

    def __reduce__(self) -> tuple[Any, ...]:
        return Same, (self.item(),)


def is_expired(key: Collection[Any]) -> bool:
    """Return whether an object that `key` names was freed, so that no call can have that key again."""
    nested = (item for item in key if isinstance(item, (tuple, frozenset)))
    return any(isinstance(item, Same) and item.item() is None for item in key) or any(map(is_expired, nested))


def unpack(args: tuple[Any, ...], kwargs: dict[str, Any], written: Set[int] = frozenset(),
           owner: object = None) -> Arguments:  # fmt: skip
    """Unpack the arguments of a call. Realises its tensors.

    A view counts by its elements: calls with other slices of a tensor are of one kind. `written` has the numbers of
    tensors that the function writes to: a view among them, or of the same memory, counts as that memory with the
    movements of the view. `owner` is the object whose method is called, which counts as itself also where it is that of
    a dataclass.
    """
    found, numbers = Arguments(), dict[UOp, int]()
    slots: list[int] = []  # indices in `key` of the tensors, whose forms depend on all of them where some are written
    key, many = code_settings(), MANY
    if no_grad.here.blocks and no_grad.is_quiet():
        key.append("no_grad")  # the tape has no entry for what is computed in such a block
    stack: list[Any] = [args]
    if kwargs:
        stack.insert(0, kwargs)
    while stack:
        item = stack.pop()
        if isinstance(item, TensorBase):
            if len(parts := item._parts()) > 1:
                key.append(type(item))
                stack.extend(reversed(parts))
                continue
            found.tensors.append(item)
            if written:
                slots.append(len(key))
                key.append(None)
            else:
                key.append(_form_of(item, frozenset(), found, numbers))
            continue
        if len(key) >= many:  # perhaps a list that contains itself
            check_ends((args, kwargs))
            many *= 2
        if type(item) is tuple or type(item) is list:
            key.append((type(item), len(item)))
            stack.extend(reversed(item))
        elif isinstance(item, (list, tuple, deque)):
            key.append((type(item), len(item), item.maxlen if isinstance(item, deque) else None, _attributes(item)))
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            names = tuple([name if type(name) is str else _plain(name) for name in item])
            made = Same(item.default_factory) if isinstance(item, defaultdict) else None
            key.append((type(item), names, made, _attributes(item)))
            stack.extend(reversed(item.values()))
        elif isinstance(item, UOp):
            key.append(_unbound(item, found))
        elif is_record(item) and item is not owner:
            values = fields_of(item)
            more = Same(item) if getattr(item, "__dict__", {}).keys() - values.keys() else None  # that are no fields
            key.append((type(item), tuple(values), more))
            stack.extend(reversed(values.values()))
        else:
            key.append(_plain(item))
    if slots:
        whole = {id(found.tensors[number]._storage) for number in written if number < len(slots)}
        for slot, tensor in zip(slots, found.tensors, strict=True):
            key[slot] = _form_of(tensor, whole, found, numbers)
    found.buffers, found.key = list(numbers), (*key, found.varied)
    return found


def _form_of(tensor: TensorBase, whole: Set[int], found: Arguments, numbers: dict[UOp, int]) -> tuple[Any, ...]:
    """Return the form of a tensor of a call, for the key; record its memory in `found`.

    `whole` are the ids of storages that the function writes to, which count as their whole memory. `numbers` has the
    index of each BUFFER so far, and is updated.
    """
    storage, known = tensor._storage, len(numbers)
    if storage is None:
        base = _in_memory(tensor)
    elif id(storage) in whole:
        base = _of_storage(tensor)
    else:
        base = _in_memory(tensor)
        if tensor._chain:
            found.wholes += [node.arg.uid for node in buffers_of(storage.uop.base)]
            if storage.may_change():
                found.copied.append(storage)
    mine = tuple([numbers.setdefault(node, len(numbers)) for node in buffers_of(base)])
    # a tensor that has another one's memory until one of them is written is no view of it
    borrows = len(numbers) < known + len(mine) and _borrows(tensor, mine, found)
    found.memory.append(mine)
    form = () if tensor.uop is base else _form(tensor.uop, base, found)
    return mine, borrows, base.dtype, base.device, base.shape, base.sharding, tensor.requires_grad, form


def _borrows(tensor: TensorBase, mine: tuple[int, ...], found: Arguments) -> bool:
    """Return whether another tensor among those before has some of the memory, and shares no storage with this one."""
    own = {id(tensor._storage or tensor)}
    return any(not found.owners_of(buffer) <= own for buffer in mine)


def _in_memory(tensor: TensorBase) -> UOp:
    """Return the memory of an argument, which is realised if it is lazy, a constant too.

    Of a slice of symbolic size it is that of the whole.
    """
    if tensor.uop.op in HELD:
        return tensor.uop
    for make in (tensor.realize, tensor.realize, lambda: _copy(tensor)):  # type: ignore[attr-defined]
        node = tensor.uop
        while node.op in _PLAIN or (node.op is Ops.SHRINK and len(node.src) > 1):
            node = node.src[0]
        if node.op in HELD:
            return node
        make()
    return tensor.uop.base


def _copy(tensor: TensorBase) -> None:
    """Give a tensor memory of its own with the value that it has, now."""
    tensor.uop = tensor.clone().realize().uop  # type: ignore[attr-defined]


def _of_storage(tensor: TensorBase) -> UOp:
    """Return the memory of the storage that an argument is a view of."""
    assert tensor._storage is not None
    tensor._storage.settle()
    node = tensor.uop
    while node.op not in HELD:
        node = node.src[0]
    return node


def _form(node: UOp, base: UOp, found: Arguments) -> Any:
    """Return the ops from a tensor's `node` to its memory `base`, with variables in place of their values.

    The values are recorded in `found`.
    """
    form = []
    while node is not base:
        form.append((node.op, node.dtype, node.arg if len(node.src) == 1 else _unbound_in(node.arg, found)))
        node = node.src[0]
    return tuple(form)


def _unbound_in(arg: Any, found: Arguments) -> Any:
    """Return an arg with the variables of symbolic sizes in it unbound; their values are recorded in `found`."""
    if isinstance(arg, tuple):
        return tuple([_unbound_in(item, found) for item in arg])
    return _unbound(arg, found) if isinstance(arg, UOp) else arg


def _unbound(size: UOp, found: Arguments) -> UOp:
    """Return a symbolic integer with its variables unbound; their values are recorded in `found`."""
    bound = [node for node in postorder(size) if node.op is Ops.BIND]
    for node in bound:
        found.bind(node.src[0].arg.name, node.arg)
    return ix.rebuild_simplified((size,), {node: node.src[0] for node in bound})[size]


def _attributes(container: Any) -> Same | None:
    """Return what identifies a list, tuple or dict with attributes of its own, which only the object itself has."""
    attributes = getattr(container, "__dict__", None)
    return Same(container) if attributes and attributes is not container else None


def _plain(item: Any) -> Any:
    """Return what identifies an argument that is no tensor in a key: its value, or else the object itself.

    The value counts for types of Python and NumPy that never change, and for what is made of them: tuples, frozen sets
    and frozen dataclasses. Objects that say that they are equal may differ in what they do not compare.
    """
    kind = type(item)
    if item is None:
        return item
    if kind in _BY_VALUE:
        return kind, item
    if isinstance(item, _BY_TEXT):
        return kind, repr(item), _attributes(item)
    if isinstance(item, (tuple, list)):
        return kind, tuple(map(_plain, item)), _attributes(item)
    if isinstance(item, (set, frozenset)):
        return kind, frozenset(map(_plain, item)), _attributes(item)
    if isinstance(item, dict):
        return kind, tuple([(_plain(name), _plain(value)) for name, value in item.items()]), _attributes(item)
    if kind is slice:
        return kind, _plain(item.start), _plain(item.stop), _plain(item.step)
    if isinstance(item, TensorBase):
        return Same(item)
    if isinstance(item, (bytes, bytearray, memoryview)) or hasattr(kind, "tobytes"):
        return _bytes_of(item)
    if hasattr(kind, "__dlpack__") or hasattr(kind, "__array_interface__"):
        return object()  # the array of another library, which may change at any time: this key equals no other
    if is_dataclass(item) and not isinstance(item, type) and kind.__dataclass_params__.frozen:
        names = [each.name for each in fields(item)]
        more = Same(item) if set(getattr(item, "__dict__", ())) - {*names} else None  # attributes that are no fields
        return kind, tuple([_plain(getattr(item, name)) for name in names]), more
    return Same(item)


def _bytes_of(item: Any) -> Any:
    """Return what identifies an array, or another object made of bytes, by its value: type, bytes, shape and dtype.

    For one whose bytes are not all of it, with a mask or Python objects, a new object, which equals nothing.
    """
    dtype = getattr(item, "dtype", None)
    if hasattr(item, "mask") or getattr(dtype, "hasobject", False):
        return object()  # more than its bytes
    form = dtype or getattr(item, "typecode", None) or getattr(item, "format", None)
    data = bytes(item) if isinstance(item, (bytes, bytearray)) else item.tobytes()
    return type(item), data, getattr(item, "shape", None), str(form)


_BY_VALUE = frozenset({bool, int, str, bytes, DType})
# of these, values that are equal may differ: 0.0 and -0.0, NaN and itself, Decimal("1.0") and Decimal("1.00")
_BY_TEXT = (
    int, str, float, complex, range, Decimal, Fraction, date, datetime, time, timedelta, timezone, PurePath, UUID,
    EllipsisType,
)  # fmt: skip
