"""Assigning: new values for a tensor that exists, and whether gradients flow through it.

A value is written into the memory of the tensor, which its views share (`state/storage.py`), or the tensor is bound to
a new node where it has no memory yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.gradient_reach import has_leaf
from tinygraft.engine.tape import note_requiring_grad
from tinygraft.errors import DeviceError, DTypeError, ShapeError
from tinygraft.tensor.data.from_python import refuse_nothing
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import broadcast_shape, expand
from tinygraft.tensor.primitives.keyword_aliases import grad_flag
from tinygraft.tensor.state import no_grad
from tinygraft.tensor.state.gradient_cuts import cuts
from tinygraft.tensor.state.leaf_nodes import by_itself, leaf, marked, own_memory
from tinygraft.tensor.state.leaf_rule import is_detached_value, is_leaf
from tinygraft.tensor.state.live import borrows, has_twin, live_tensors, note_assigned, note_touched
from tinygraft.tensor.state.made_at import here
from tinygraft.tensor.state.storage import check_no_overlap, is_detached, whole_value, write
from tinygraft.tensor.state.view_steps import over_moves, steps_to
from tinygraft.uop.held import HELD, is_whole_buffer, lost_in, memory_base
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, rebuild

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

MEMORY = HELD | {Ops.ASSIGN}  # what a tensor is in memory, or has been assigned


def detach(self: Tensor) -> Tensor:
    """The values, detached: no gradient flows through the result.

    The result shares the memory of this tensor, as a view does.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0], requires_grad=True).detach().requires_grad
    False
    """
    node = self.uop
    new = self._viewed(UOp(Ops.DETACH, node.dtype, (node,)), node)
    new._set_flag(False)
    return new


def requires_grad_(self: Tensor, requires_grad: bool | None = True) -> Tensor:
    """Set whether backward fills grad, and return self; None lets backward choose.

    What was computed before does not see it. With True a tensor that was computed from none that requires a gradient
    becomes a leaf, which is different from a tensor with an equal graph. With False no gradient goes through a lazy
    one to what it was computed from. Views, and results of `detach`, stay views. Integers and bools have the flag too,
    and no gradient: True of them is a UserWarning.

    >>> from tinygraft import Tensor
    >>> w = Tensor([1.0, 2.0])
    >>> a, b = w.detach().requires_grad_(), w.detach().requires_grad_()
    >>> (a * a + 5 * b).sum().backward().item()
    20.0
    >>> a.grad.tolist(), b.grad.tolist()
    ([2.0, 4.0], [5.0, 5.0])
    """
    requires_grad = grad_flag(requires_grad, self._where)
    is_float = self.uop.dtype.kind == "float"
    node = _leaf_node(self) if requires_grad and is_float else leaf(self.uop, requires_grad)
    if requires_grad is False and is_float and memory_base(node).op not in (*HELD, Ops.CONST):
        node = UOp(Ops.DETACH, node.dtype, (node,))
    if self._storage is None:
        self.uop = node
    else:
        self._storage.set_flag(self, node, requires_grad)
    self._set_flag(requires_grad)
    self._lender, self._computed = None, False
    return self


def _leaf_node(self: Tensor) -> UOp:
    """Return the node of this tensor as a leaf: a new one where another tensor may have the same node."""
    node, is_view = self.uop, self._storage is not None and bool(self._chain)
    if isinstance(node.tag, Own) or (self.requires_grad and not _is_cut_off(self)):
        return leaf(node)
    if is_view or memory_base(node).op not in MEMORY:
        if has_leaf(node) and not is_detached_value(node) and no_grad.may_have_gradient(node, None):
            return leaf(node)  # a gradient goes on to its sources, so it may not become memory of its own
        stays_view = is_view
    elif borrows(self._storage or self):
        stays_view = False
    elif has_twin(self):
        stays_view = self._storage is not None
    else:
        return leaf(node)
    return marked(node) if stays_view or not is_concrete(self.shape) else own_memory(node)


def _is_cut_off(self: Tensor) -> bool:
    """Return whether this lazy value is computed from a tensor that requires a gradient, which reaches none of these.

    A mask of a weight as floats is such a value: it requires a gradient as what it is computed from, and has no use
    for it before it is a leaf.
    """
    node = self.uop
    if memory_base(node).op in MEMORY or has_leaf(node):
        return False
    others = [t for t in live_tensors() if t is not self and t.requires_grad and t.dtype.kind == "float"]
    return bool(cuts(node, {t.uop for t in others} - {node}))


def assign(self: Tensor, x: Any) -> Tensor:
    """Give this tensor a new value of the same dtype, broadcast to its shape, in the same memory where it has any.

    All views of that memory have the new value; tensors that were computed from this one keep the values they have. A
    number or a list is converted. Raises ShapeError, DTypeError, DeviceError; ShapeError also for a view whose
    elements overlap, as expand makes it.

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


def copy_(self: Tensor, src: Any, non_blocking: bool = False) -> Tensor:
    """Write the values of a tensor, an array or numbers into this tensor, in its dtype and on its device.

    Unlike `assign` it converts: a tensor of another dtype is cast, one of another device moved. `src` is broadcast to
    the shape of this tensor. All copies are asynchronous where the device is, so `non_blocking` changes nothing.
    Raises ShapeError for a shape that is not broadcast to this one, and DTypeError for None.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> t.copy_(Tensor([5, 6])).tolist()
    [[5.0, 6.0], [5.0, 6.0]]
    """
    refuse_nothing(src, self._where)
    value = src if isinstance(src, TensorBase) else type(self)(src, device=self.device)
    if value.device != self.device:
        value = value.to(self.device)  # type: ignore[attr-defined]
    return self.assign(value if value.dtype is self.dtype else value.cast(self.dtype))  # type: ignore[attr-defined]


def _value_for(self: Tensor, x: Any) -> TensorBase:
    """Return `x` as a tensor of this dtype on this device.

    Data from Python is converted; a tensor is not, unlike in PyTorch: DTypeError for another dtype, DeviceError for
    another device.
    """
    if not isinstance(x, TensorBase):
        refuse_nothing(x, self._where)
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
        check_no_overlap(self, () if view is None else steps_to(view, old), value.shape)
        return
    if no_grad.here.blocks and no_grad.is_quiet():
        value, unrecorded = no_grad.cut(value), no_grad.may_have_gradient(*whole_value(self))
        view = None if view is None else over_moves(view, old)
    if lost := lost_in(old):
        if view is not None:
            raise DeviceError(lost)
        unrecorded = False
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
        value = no_grad.unrecorded(value, old if view is None else view)
    if view is not None:
        new = UOp(Ops.ASSIGN, old.dtype, (old, value, view))
    elif stays and lost:
        new = own_memory(value)
    elif not shared and (stays or is_whole_buffer(old) or old.op is Ops.ASSIGN):
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
    """Give this tensor the node of x, which may have another dtype or device, and return it.

    Raises ShapeError for another shape.
    """
    if x.shape != self.shape:
        raise ShapeError(f"cannot replace a tensor of shape {self.shape} by one of shape {x.shape}")
    if self._storage is not None:
        self._storage.leave(self)
    self.uop = x.uop
    note_touched("written", self)
    return self
