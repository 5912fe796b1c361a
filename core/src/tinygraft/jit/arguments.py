"""The arguments of a call, taken apart: what makes two calls one kind, and what may differ between them.

    take_apart(args, kwargs) -> Arguments(key, buffers, values)

Calls are of one kind when their keys are equal: the structure of the arguments, the form of each tensor among them and
which of them are one memory, all other arguments by value, and the settings that change code. What differs are the
memory of the tensors and the values of bound variables, also of those in symbolic shapes.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Sequence, Set
from typing import Any

from tinygraft.config import code_settings
from tinygraft.tensor.nested import MANY, check_ends
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.storage import SharedStorage
from tinygraft.uop import index as ix
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

_PLAIN = frozenset({Ops.RESHAPE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})  # what leaves the order of elements as it is


class Arguments:
    """The kind of a call, the distinct BUFFERs of its tensors, and the values of its variables by name.

    tensors are those that were given, complex ones as their parts, and memory the numbers of their BUFFERs. varied
    says that a variable has two values among them. copied are the storages of views that have a copy of their elements
    during the call, for somebody outside can write the memory: `give_back` makes them views again.
    """

    __slots__ = ("buffers", "copied", "key", "memory", "tensors", "values", "varied")

    def __init__(self) -> None:  # by hand: one made by dataclass takes three times as long, in every replay
        self.key: tuple[Any, ...] = ()
        self.buffers: list[UOp] = []
        self.values: dict[str, int] = {}
        self.tensors: list[TensorBase] = []
        self.memory: list[tuple[int, ...]] = []
        self.varied = False
        self.copied: list[SharedStorage] = []

    def give_back(self) -> None:
        """After the call: let views of memory that somebody outside can write be views of it again."""
        for storage in self.copied:
            storage.become(storage.uop)

    def tensors_over(self, buffers: Sequence[int]) -> list[int]:
        """The numbers of the tensors that are over some of the BUFFERs, which are given by number."""
        return [number for number, mine in enumerate(self.memory) if not set(buffers).isdisjoint(mine)]

    def bind(self, name: str, value: int) -> None:
        """Note the value of a variable."""
        self.varied |= self.values.setdefault(name, value) != value


class Same:
    """An object by its identity. Does not keep it alive, where it can be referred to weakly."""

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


def is_expired(key: tuple[Any, ...]) -> bool:
    """Whether an object that a key names is gone, so that no call can have that key again."""
    return any(isinstance(item, Same) and item.item() is None for item in key)


def take_apart(args: tuple[Any, ...], kwargs: dict[str, Any], written: Set[int] = frozenset()) -> Arguments:
    """The arguments of a call. Realises its tensors.

    A view is its elements: calls with other parts of a tensor are of one kind. written has the numbers of tensors that
    the function writes to: a view among them, or of the same memory, is that memory, and where in it.
    """
    found, numbers = Arguments(), dict[UOp, int]()
    places: list[int] = []  # in key, of the tensors, where all have to be known first
    key, many = code_settings(), MANY
    stack: list[Any] = [args]
    if kwargs:
        stack.insert(0, dict(sorted(kwargs.items())))
    while stack:
        item = stack.pop()
        if isinstance(item, TensorBase):
            if len(parts := item._parts()) > 1:
                key.append(type(item))
                stack.extend(reversed(parts))
                continue
            found.tensors.append(item)
            if written:
                places.append(len(key))
                key.append(None)
            else:
                key.append(_form_of(item, frozenset(), found, numbers))
            continue
        if len(key) >= many:
            check_ends((args, kwargs))
            many *= 2
        if isinstance(item, (list, tuple, deque)):
            key.append((type(item), len(item)))
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            key.append((dict, tuple(item)))
            stack.extend(reversed(item.values()))
        elif isinstance(item, UOp):
            key.append(_unbound(item, found))
        else:
            key.append(_plain(item))
    if places:
        whole = {id(found.tensors[number]._storage) for number in written if number < len(places)}
        for place, tensor in zip(places, found.tensors, strict=True):
            key[place] = _form_of(tensor, whole, found, numbers)
    found.buffers, found.key = list(numbers), (*key, found.varied)
    return found


def _form_of(tensor: TensorBase, whole: Set[int], found: Arguments, numbers: dict[UOp, int]) -> tuple[Any, ...]:
    """The form of a tensor of a call, whose memory is noted. whole are the storages that are taken as what they are."""
    storage = tensor._storage
    if storage is None:
        base = _in_memory(tensor)
    elif id(storage) in whole:
        base = _of_storage(tensor)
    else:
        base = _in_memory(tensor)
        if tensor._chain and storage.may_change():
            found.copied.append(storage)
    mine = tuple([numbers.setdefault(node, len(numbers)) for node in buffers_of(base)])
    found.memory.append(mine)
    form = () if tensor.uop is base else _form(tensor.uop, base, found)
    return mine, base.dtype, base.device, base.shape, base.sharding, tensor.requires_grad, form


def _in_memory(tensor: TensorBase) -> UOp:
    """The memory of an argument, realised if need be, constants too. A part of symbolic size is taken as it is."""
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
    """Give a tensor memory of its own for the value that it has."""
    tensor.uop = tensor.clone().realize().uop  # type: ignore[attr-defined]


def _of_storage(tensor: TensorBase) -> UOp:
    """The memory of the whole that an argument is a view of."""
    assert tensor._storage is not None
    tensor._storage.settle()
    node = tensor.uop
    while node.op not in HELD:
        node = node.src[0]
    return node


def _form(node: UOp, base: UOp, found: Arguments) -> Any:
    """How a tensor looks at its buffer: the ops on the way, with variables in place of their values."""
    form = []
    while node is not base:
        form.append((node.op, node.dtype, node.arg if len(node.src) == 1 else _unbound_in(node.arg, found)))
        node = node.src[0]
    return tuple(form)


def _unbound_in(arg: Any, found: Arguments) -> Any:
    if isinstance(arg, tuple):
        return tuple([_unbound_in(item, found) for item in arg])
    return _unbound(arg, found) if isinstance(arg, UOp) else arg


def _unbound(size: UOp, found: Arguments) -> UOp:
    """A symbolic integer in terms of its variables; the values that they are bound to are noted."""
    bound = [node for node in postorder(size) if node.op is Ops.BIND]
    for node in bound:
        found.bind(node.src[0].arg.name, node.arg)
    return ix.rebuild_simplified((size,), {node: node.src[0] for node in bound})[size]


def _plain(item: Any) -> Any:
    """What tells an argument that is no tensor from others."""
    if item is None:
        return item
    if isinstance(item, (set, frozenset)):
        return type(item), frozenset(map(_plain, item))
    if hasattr(type(item), "tobytes"):
        form = getattr(item, "dtype", None) or getattr(item, "typecode", None) or getattr(item, "format", None)
        return type(item), item.tobytes(), getattr(item, "shape", None), str(form)
    if isinstance(item, bytearray):
        return bytearray, bytes(item)
    if hasattr(type(item), "__dlpack__"):
        return object()  # the array of another library, which may change at any time: no call is like this one
    hashed: Any = type(item).__hash__
    if hashed is object.__hash__:
        return Same(item)
    try:
        hash(item)
    except TypeError:
        return Same(item)
    return type(item), repr(item) if isinstance(item, float) else item
