"""Realising: when the values of tensors are computed, and the calls that would compute them."""

from __future__ import annotations

from collections.abc import Iterable
from types import ModuleType
from typing import TYPE_CHECKING

from tinygraft.engine.exclusive import exclusive, import_late
from tinygraft.tensor.primitives.argument_checks import as_tensor
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import LIVE
from tinygraft.tensor.state.storage import agree, to_realize
from tinygraft.uop.held import PLAIN, is_computed, is_constant, is_stored, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

# engine.realize, loaded when something is computed. An import statement in `realize` would take 6 us each time, since
# that asks the module for a `__path__`, which its `__getattr__` refuses
_engine: ModuleType | None = None


def realize(self: Tensor, *others: TensorBase, do_update_stats: bool = True) -> Tensor:
    """Compute this tensor and others now, and keep the results. An expression of constants stays one.

    do_update_stats is accepted for older scripts.
    """
    global _engine
    tensors = by_parts((self, *others)) if others else self._parts()
    with exclusive:
        todo: list[TensorBase] = []
        for tensor in tensors:
            node = tensor.uop
            if not is_computed(node):
                todo.append(tensor)
                if node.op is Ops.IOTA or (node.op in PLAIN and memory_base(node).op is Ops.IOTA):
                    tensor.uop = UOp(Ops.CONTIGUOUS, node.dtype, (node,))
        if todo:
            if (engine := _engine) is None:
                engine = _engine = import_late("tinygraft.engine.realize")
            try:
                engine.realize_tensors([t if t._storage is None else to_realize(t) for t in todo], LIVE)
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
    nodes = [tensor.uop for tensor in by_parts((self, *others))]
    todo = [node for node in nodes if not is_stored(node) and not is_constant(node)]
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
    """The calls that would compute this tensor and others, in order. Nothing runs. Variables have to be bound alike."""
    return self.schedule_with_vars(*others)[0]


def contiguous(self: Tensor, **kwargs: object) -> Tensor:
    """The values as a whole buffer, in row-major order; a tensor that is one already stays as it is.

    Keywords are accepted for scripts of other versions.
    """
    return self._wrap(self.uop if is_stored(self.uop) else UOp(Ops.CONTIGUOUS, self.dtype, (self.uop,)))


def contiguous_backward(self: Tensor) -> Tensor:
    """This tensor, of the same value; its gradient is stored as a whole, row-major, before it is used further."""
    return self._wrap(UOp(Ops.CONTIGUOUS_BACKWARD, self.dtype, (self.uop,)))


def by_parts(tensors: Iterable[TensorBase]) -> list[TensorBase]:
    """Tensors of one node each: a complex one counts as its two parts."""
    return [part for tensor in tensors for part in as_tensor(tensor, "realize", "each argument")._parts()]
