"""Access: a tensor's sizes, reading its values, when they are computed and which memory they are in.

A tensor in; Python numbers, bytes or a numpy array out. A read realises the tensor, so that a second one computes
nothing; only an expression of constants is computed anew each time, and one element of a tensor (`element.py`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, SupportsIndex

from tinygraft.autograd.build import laid
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, values_of
from tinygraft.engine.capture import note_read
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.tape import has_leaf, note_requiring_grad
from tinygraft.errors import DeviceError, DTypeError, ShapeError
from tinygraft.tensor.data.element import element
from tinygraft.tensor.data.from_python import NUMPY_NAME, bytes_node, refuse_nothing
from tinygraft.tensor.primitives import lengths
from tinygraft.tensor.primitives.base import TensorBase, broadcast_shape, expand, here
from tinygraft.tensor.state import quiet
from tinygraft.tensor.state.leaf_rule import is_detached_value, is_leaf
from tinygraft.tensor.state.leaves import by_itself, leaf, marked, own_memory
from tinygraft.tensor.state.live import LIVE, borrows, has_twin, note_assigned
from tinygraft.tensor.state.storage import (
    agree,
    check_apart,
    is_detached,
    over_moves,
    steps_to,
    to_realize,
    whole_value,
    write,
)
from tinygraft.uop import sizes as dimensions
from tinygraft.uop.held import HELD, memories, memory_base
from tinygraft.uop.ops import ELEMENTWISE, MOVEMENT, Ops, Own, ShardArg
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import Place, UOp, rebuild

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


if TYPE_CHECKING:
    from numpy import ndarray

MEMORY = HELD | {Ops.ASSIGN}  # what a tensor is in memory, or has been assigned
_CONSTANT = ELEMENTWISE | MOVEMENT | {Ops.CONST, Ops.DEVICE, Ops.DETACH, Ops.CONTIGUOUS_BACKWARD}


class Size(int):
    """How many elements there are; called, the shape, or the length of one axis.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[4, 5, 6], [7, 8, 9]])
    >>> t.size, t.size(), t.size(dim=1)
    (6, (2, 3), 3)
    """

    shape: Shape

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the length of axis dim."""
        return self.shape if dim is None else self.shape[dim]


# Properties


def lazydata(self: Tensor) -> UOp:
    """uop, by its older name."""
    return self.uop


def numel(self: Tensor) -> sint:
    """How many elements there are."""
    return lengths.product(self.shape)


def size(self: Tensor) -> Size:
    """How many elements there are (at most, where sizes are symbolic); `size()` and `size(dim)` give lengths."""
    found = Size(lengths.product(dimensions.max_shape(self.shape)))
    found.shape = self.shape
    return found


def dim(self: Tensor) -> int:
    """ndim, by PyTorch's name."""
    return self.ndim


def max_shape(self: Tensor) -> tuple[int, ...]:
    """The shape with each symbolic size at its greatest."""
    return dimensions.max_shape(self.shape)


def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


def nbytes(self: Tensor) -> sint:
    """Bytes of all elements."""
    return lengths.mul(self.numel(), self.dtype.itemsize)


def is_floating_point(self: Tensor) -> bool:
    """Whether the elements are of a float dtype."""
    return self.dtype.kind == "float"


def is_complex(self: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return self.dtype.kind == "complex"


def __repr__(self: Tensor) -> str:
    node = self.uop
    text = f"<UOp {node.device} {node.shape} {node.dtype.name} ({node.op!r}, {node.base.realized})>"
    return f"<Tensor {text} on {self.device} with grad {self.grad!r}>"


def __len__(self: Tensor) -> int:
    if not self.ndim:
        raise TypeError("a tensor without axes has no len()")
    return lengths.as_int(self.shape[0], "len")


# Reading


def _stored(self: Tensor) -> Buffer:
    """The memory with the elements in row-major order, computed if need be."""
    if not is_concrete(self.shape):
        raise ShapeError(
            f"cannot read a tensor of symbolic shape {show_arg(self.shape)}\n  made at {self._where()}\n"
            "  hint: read the tensor that it is a part of, or reduce its symbolic axes first"
        )
    note_read()
    self.realize()
    if self._storage is not None and not _is_stored(self.uop):
        self.realize()  # the first realize carried out a pending write to the whole storage, this one the view
    # a symbolic front of a buffer or a constant is done without being a whole buffer: read a copy
    ready = self if _is_stored(self.uop) else self.clone().realize()
    if ready.uop.sharding is not None:
        return self._wrap(laid(ready.uop, ready.device[0], None)).realize()._stored()
    return buffer_of(memories(ready.uop)[0])


def bytes_of(self: Tensor) -> bytearray:
    """Return a copy of the elements' bytes, in row-major order; computes them if need be."""
    buffer = self._stored()
    out = bytearray(buffer.nbytes)
    buffer.copy_out(memoryview(out))
    return out


def _numbers(self: Tensor) -> list[Any]:
    """The elements as Python numbers, in row-major order."""
    raw, dtype = bytes_of(self), self.dtype
    if dtype.fmt is None:
        values = values_of(dtype)
        return [values[bits] for bits in (raw if dtype.itemsize == 1 else memoryview(raw).cast("H"))]
    return list(struct.unpack(f"={len(raw) // dtype.itemsize}{dtype.fmt}", raw))


def item(self: Tensor) -> Any:
    """The one element as a Python number. Raises ShapeError when there are more or none.

    >>> from tinygraft import Tensor
    >>> Tensor(42).item()
    42
    """
    if self.numel() != 1:
        raise ShapeError(
            f"item needs a tensor of one element, this one has shape {self.shape}\n  made at {self._where()}"
        )
    found = element(self)
    return self._numbers()[0] if found is None else found


def tolist(self: Tensor) -> Any:
    """The values as nested lists, or a number when there are no axes.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).tolist()
    [1, 2, 3, 4]
    """
    nested: list[Any] = self._numbers()
    for axis in range(self.ndim - 1, 0, -1):
        length, count = self.shape[axis], lengths.product(self.shape[:axis])
        nested = [nested[i * length : (i + 1) * length] for i in range(count)]
    return nested if self.ndim else nested[0]


def numpy(self: Tensor) -> ndarray[Any, Any]:
    """The values as a numpy array of its own memory; bfloat16 and fp8 become float32.

    Raises ShapeError for more axes than numpy has (64, or 32 before numpy 2).

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3, 4]).numpy()
    array([1, 2, 3, 4], dtype=int32)
    """
    import numpy as np

    if self.numel() == 1 and self.dtype.fmt is not None and (found := element(self)) is not None:
        return _shaped(self, np.array([found], NUMPY_NAME[self.dtype]))
    if self.dtype.fmt is None:
        bits = np.frombuffer(bytes_of(self), np.uint16 if self.dtype.itemsize == 2 else np.uint8)
        table: ndarray[Any, Any] = np.array(values_of(self.dtype), np.float32)
        return _shaped(self, np.asarray(table[bits]))
    return _shaped(self, np.frombuffer(bytes_of(self), NUMPY_NAME[self.dtype]))


def _shaped(self: Tensor, flat: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """The flat array in this shape. Raises ShapeError for more axes than numpy has."""
    try:
        return flat.reshape(self.shape)
    except ValueError:
        raise ShapeError(
            f"a numpy array cannot have {self.ndim} axes, as this tensor has\n  made at {self._where()}\n"
            "  hint: reshape it first"
        ) from None


def __array__(self: Tensor, dtype: Any = None, copy: bool | None = None) -> ndarray[Any, Any]:
    found = self.numpy()
    return found if dtype is None else found.astype(dtype)


def __bool__(self: Tensor) -> bool:
    if self.numel() != 1:
        raise ShapeError(
            f"the truth of a tensor of shape {self.shape} is not one value: use any(), all() or where()\n"
            f"  made at {self._where()}"
        )
    return bool(self.item())


def __format__(self: Tensor, spec: str) -> str:
    """f"{t:.3f}": the number of a tensor that has one; without a spec, what print shows."""
    if not spec:
        return str(self)
    if self.numel() != 1:
        raise ShapeError(
            f"a tensor of shape {self.shape} is not one number to be written as {spec!r}\n"
            f"  made at {self._where()}\n  hint: item() of one element, or tolist()"
        )
    return format(self.item(), spec)


def __int__(self: Tensor) -> int:
    return int(self.item())


def __float__(self: Tensor) -> float:
    return float(self.item())


def __complex__(self: Tensor) -> complex:
    return complex(self.item())


def __index__(self: Tensor) -> int:
    if self.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"an index is an integer, got a tensor of {self.dtype}\n  made at {self._where()}")
    return int(self.item())


def __iter__(self: Tensor) -> Iterator[Tensor]:
    if not self.ndim:
        raise TypeError("a tensor without axes cannot be iterated over")
    return iter(self.unbind())


# When values are computed


def realize(self: Tensor, *others: TensorBase, do_update_stats: bool = True) -> Tensor:
    """Compute this tensor and others now, and keep the results. An expression of constants stays one.

    do_update_stats is accepted for older scripts.
    """
    tensors = _by_parts((self, *others)) if others else self._parts()
    with exclusive:
        todo = [tensor for tensor in tensors if not _is_done(tensor.uop)]
        for tensor in todo:
            if memory_base(tensor.uop).op is Ops.IOTA:
                tensor.uop = UOp(Ops.CONTIGUOUS, tensor.dtype, (tensor.uop,))
        if todo:
            from tinygraft.engine.realize import realize_tensors  # the compiler is loaded when something is computed

            try:
                realize_tensors([to_realize(tensor) for tensor in todo], LIVE)
            except BaseException:  # a signal, too: base and views may not differ afterwards
                agree(todo)
                raise
            for tensor in todo:
                if tensor._storage is not None:
                    tensor._storage.is_shared(tensor)
    return self


def schedule_with_vars(self: Tensor, *others: TensorBase) -> tuple[list[Call], dict[str, int]]:
    """The calls that would compute this tensor and others, in order, and the values of bound variables.

    Nothing runs. A tensor that is in memory already, or is made of constants only, needs no call.

    >>> from tinygraft import Tensor
    >>> calls, values = (Tensor([1, 2]) + 1).schedule_with_vars()
    >>> len(calls), values
    (1, {})
    """
    nodes = [tensor.uop for tensor in _by_parts((self, *others))]
    todo = [node for node in nodes if not _is_stored(node) and not _is_constant(node)]
    if not todo:
        return [], {}
    with exclusive:
        from tinygraft.engine.bindings import with_separate_names
        from tinygraft.engine.plan import shown_schedule, without_functions
    wanted = list(dict.fromkeys(memory_base(node) for node in todo))
    plain = with_separate_names(list(without_functions(wanted).values()))
    plan = shown_schedule(list(plain.values()))
    return list(plan.calls), dict(plan.values)


def schedule(self: Tensor, *others: TensorBase) -> list[Call]:
    """The calls that would compute this tensor and others, in order. Nothing runs."""
    return self.schedule_with_vars(*others)[0]


def contiguous(self: Tensor, **kwargs: object) -> Tensor:
    """The values as a whole buffer, in row-major order; a tensor that is one already stays as it is.

    Keywords are accepted for scripts of other versions.
    """
    return self._wrap(self.uop if _is_stored(self.uop) else UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))


def contiguous_backward(self: Tensor) -> Tensor:
    """This tensor, whose gradient is made contiguous."""
    return self._wrap(UOp(Ops.CONTIGUOUS_BACKWARD, self.dtype, (self.uop,)))


def clone(self: Tensor, device: Place = None) -> Tensor:
    """A copy in memory of its own, on this tensor's device unless another is given."""
    if device is not None and Device.canonicalize(device) != self.device:
        return self._wrap(laid(self.uop, Device.canonicalize(device), None))
    return self._wrap(UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))


def __copy__(self: Tensor) -> Tensor:
    new = self._again()
    new.requires_grad, new.grad = self.requires_grad, self.grad
    return new


def __deepcopy__(self: Tensor, memo: object) -> Tensor:
    new = self.__copy__()
    if self.dtype.kind == "float" and self.requires_grad is not False and is_concrete(self.shape):
        new.uop = own_memory(self.uop)  # a leaf of its own
    new.grad = None if self.grad is None else self.grad.__copy__()
    return new


def __reduce__(self: Tensor) -> tuple[Any, ...]:
    return _pickled(self, _view_of_bytes(self).tobytes())


def __reduce_ex__(self: Tensor, protocol: SupportsIndex) -> tuple[Any, ...]:
    if int(protocol) < 5 or type(self).__reduce__ is not __reduce__:
        return self.__reduce__()
    from pickle import PickleBuffer

    return _pickled(self, PickleBuffer(_view_of_bytes(self)))


def _pickled(self: Tensor, data: Any) -> tuple[Any, ...]:
    parts = (data, self.shape, self.dtype, self.device, self.requires_grad, self.grad)
    return _unpickled, (type(self), *parts, self.uop.sharding)


def _view_of_bytes(self: Tensor) -> memoryview:
    """The elements in row-major order without a copy, where the host can see the memory."""
    buffer = self._stored()
    view = buffer.share()
    return (buffer.copy_out(memoryview(bytearray(buffer.nbytes))) if view is None else view).toreadonly()


def detach(self: Tensor) -> Tensor:
    """The values, detached: no gradient flows through the result.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0], requires_grad=True).detach().requires_grad
    False
    """
    node = self.uop
    new = self._viewed(UOp(Ops.DETACH, node.dtype, (node,)), node)
    new.requires_grad = False
    return new


def requires_grad_(self: Tensor, requires_grad: bool | None = True) -> Tensor:
    """Set whether backward fills grad; None lets backward choose. What was computed before does not see True.

    A tensor that was computed from none that requires a gradient becomes a leaf, which is different from a tensor with
    an equal graph. Views, and results of `detach`, stay views.

    >>> from tinygraft import Tensor
    >>> w = Tensor([1.0, 2.0])
    >>> a, b = w.detach().requires_grad_(), w.detach().requires_grad_()
    >>> (a * a + 5 * b).sum().backward().item()
    20.0
    >>> a.grad.tolist(), b.grad.tolist()
    ([2.0, 4.0], [5.0, 5.0])
    """
    is_float = self.uop.dtype.kind == "float"
    node = _leaf_node(self) if requires_grad and is_float else leaf(self.uop, requires_grad)
    if requires_grad is False and is_float and memory_base(node).op not in (*HELD, Ops.CONST):
        node = UOp(Ops.DETACH, node.dtype, (node,))
    if self._storage is None:
        self.uop = node
    else:
        self._storage.set_flag(self, node, requires_grad)
    self.requires_grad, self._lender, self._computed = requires_grad, None, False
    return self


def _leaf_node(self: Tensor) -> UOp:
    """The node of this tensor as a leaf: a new one where another tensor may have the same node."""
    node, is_view = self.uop, self._storage is not None and bool(self._chain)
    if self.requires_grad or isinstance(node.tag, Own):
        return leaf(node)
    if is_view or memory_base(node).op not in MEMORY:
        if has_leaf(node) and not is_detached_value(node) and quiet.may_have_gradient(node, None):
            return leaf(node)  # a gradient goes on to its sources, so it may not become memory of its own
        stays_view = is_view
    elif borrows(self._storage or self):
        stays_view = False
    elif has_twin(self):
        stays_view = self._storage is not None
    else:
        return leaf(node)
    return marked(node) if stays_view or not is_concrete(self.shape) else own_memory(node)


# A new value for a tensor that exists


def assign(self: Tensor, x: Any) -> Tensor:
    """Give this tensor a new value of the same dtype, broadcast to its shape, in the same memory where it has any.

    All views of that memory have the new value; tensors that were computed from this one keep the values they have. A
    number or a list is converted. Raises ShapeError, DTypeError, DeviceError; ShapeError also for a view whose elements
    overlap, as expand makes it.

    >>> from tinygraft import Tensor
    >>> t = Tensor([1, 2])
    >>> before = t + 0
    >>> t.assign(Tensor([3, 4])).tolist(), before.tolist()
    ([3, 4], [1, 2])
    """
    value = self._value_for(x)
    with exclusive:  # another thread may realise either
        node = value.uop
        if node.shape != self.shape:
            if broadcast_shape(node.shape, self.shape) != self.shape:
                raise ShapeError(
                    f"cannot assign shape {value.shape} to a tensor of shape {self.shape}\n"
                    f"  made at {value._where()}      assigned to the tensor made at {self._where()}"
                )
            node = expand(node, self.shape)
        rebind(self, node)
    return self


def _value_for(self: Tensor, x: Any) -> TensorBase:
    """x as a tensor of this dtype on this device. Data from Python is converted; a tensor is not, unlike in PyTorch."""
    refuse_nothing(x, self._where())
    if not isinstance(x, TensorBase):
        return type(self)(x, device=self.device, dtype=self.dtype)
    if x.dtype is not self.dtype:
        raise DTypeError(
            f"cannot assign {x.dtype} to a tensor of {self.dtype}\n"
            f"  made at {x._where()}      assigned to the tensor made at {self._where()}\n"
            f"  hint: cast it first, as in t.assign(x.cast({self.dtype}))"
        )
    if x.device != self.device:
        raise DeviceError(
            f"cannot assign a tensor on {x.device} to one on {self.device}\n"
            f"  made at {x._where()}      assigned to the tensor made at {self._where()}\n"
            f"  hint: move it first, as in t.assign(x.to({self.device!r}))"
        )
    return x


def rebind(self: Tensor, value: UOp, view: UOp | None = None) -> None:
    """Make `value` the new value of this tensor and its storage, or only of the elements of `view`, a view of its node.

    A value that is written into a leaf with requires_grad=True is detached: the tensor stays a leaf, so that
    `w -= lr * w.grad` is a training step (PyTorch refuses it outside of no_grad). In a block of no_grad the written
    value has no gradient, and the old value keeps the one it has.
    """
    old, unrecorded = self.uop, False
    if value is (old if view is None else view) and not is_detached(self):
        # `t.assign(t)` of an expanded view raises as any write to it does, though no value changes
        check_apart(self, () if view is None else steps_to(view, old), value.shape)
        return
    if quiet.here.blocks and quiet.is_quiet():
        value, unrecorded = quiet.cut(value), quiet.may_have_gradient(*whole_value(self))
        view = None if view is None else over_moves(view, old)
    if self._storage is not None:
        write(self, value, () if view is None else steps_to(view, old), unrecorded, is_leaf, here())
        return
    asked = self.requires_grad and self.dtype.kind == "float"
    stays = asked and is_leaf(self)
    shared = borrows(self)
    if stays:
        value = UOp(Ops.DETACH, value.dtype, (value,))
        if view is not None:
            cut = UOp(Ops.DETACH, old.dtype, (old,))
            view, old = rebuild((view,), {old: cut})[view], cut
    elif view is not None and (shared or memory_base(old).op is Ops.FUNCTION):
        own = by_itself(old)
        view, old = rebuild((view,), {old: own})[view], own
    if unrecorded and not stays:
        value = quiet.unrecorded(value, old if view is None else view)
    if view is not None:
        new = UOp(Ops.ASSIGN, old.dtype, (old, value, view))
    elif not shared and (stays or _is_buffer(old) or old.op is Ops.ASSIGN):
        new = UOp(Ops.ASSIGN, old.dtype, (old, value))
    else:
        new = by_itself(value)
    self._wrote = here()
    if asked and not stays:
        self._computed = True
        note_requiring_grad([self])
    note_assigned(self)  # a signal may end this between any two lines: first list the tensor as waiting,
    self.uop = new
    self._lender = None  # and forget the lender last, since the memory is the lender's until the node is another


def replace(self: Tensor, x: TensorBase) -> Tensor:
    """Give this tensor the node of x, which may have another dtype or device; only the shapes have to agree."""
    if x.shape != self.shape:
        raise ShapeError(f"cannot replace a tensor of shape {self.shape} by one of shape {x.shape}")
    if self._storage is not None:
        self._storage.leave(self)
    self.uop = x.uop
    return self


def _by_parts(tensors: Iterable[TensorBase]) -> list[TensorBase]:
    """Tensors of one node each: a complex one counts as its two parts."""
    return [part for tensor in tensors for part in tensor._parts()]


def _unpickled(kind: type[Tensor], data: Any, shape: Shape, dtype: DType, device: Place, requires_grad: bool | None,
               grad: Any, layout: ShardArg | None = None) -> Tensor:  # fmt: skip
    """Rebuild a pickled tensor. data are its bytes, in whatever bytes-like object the pickle protocol gives."""
    new, name = object.__new__(kind), Device.canonicalize(device)
    node = bytes_node(data, shape, name[0] if isinstance(name, tuple) else name, dtype)
    new._set(laid(node, name, layout), requires_grad)
    new.grad = grad
    return new


def _is_stored(node: UOp) -> bool:
    """Whether the values of a node are the whole of a buffer, in order, or of the buffers of several devices."""
    return memory_base(node).op in HELD


def _is_done(node: UOp) -> bool:
    """Whether nothing has to be computed: for memory, a front part of it of symbolic length, or a constant."""
    base = memory_base(node)
    if base.op in HELD:
        return True
    if base.op is Ops.SHRINK and len(base.src) > 1 and base.src[0].op is Ops.BUFFER:
        return type(base.arg[0][0]) is int and base.arg[0][0] == 0
    return _is_constant(node)


def _is_buffer(node: UOp) -> bool:
    """Whether a node is a whole buffer in some shape, so that a new value goes into the same memory."""
    while node.op is Ops.RESHAPE and (node.sharding is not None or node.src[0].sharding is None):
        node = node.src[0]
    return node.op in HELD


def _is_constant(node: UOp) -> bool:
    """Whether a node is computed from constants only, all elements equal, so that it is not worth memory."""
    if node.op not in _CONSTANT:
        return False
    seen, stack = {node}, [node]
    while stack:
        for source in stack.pop().src:
            if source.op not in _CONSTANT:
                return False
            if source not in seen:
                seen.add(source)
                stack.append(source)
    return True
