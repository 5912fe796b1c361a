"""Kernels of one's own: written as a graph of loads and stores, compiled and run like all others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import buffer_of, unread
from tinygraft.engine.compile import Ready, ready
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.protect import copied
from tinygraft.engine.run import run_schedule
from tinygraft.errors import GraphError
from tinygraft.interrupt import guarded
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.uop import graph_spec
from tinygraft.uop.held import is_stored, memory_base
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.show import brief
from tinygraft.uop.stages import Kernel, KernelCall
from tinygraft.uop.uop import UOp, toposort

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def custom_kernel(
    self: Tensor, *lst: Tensor, fxn: Callable[..., UOp], grad_fxn: Callable[..., Any] | None = None
) -> list[Tensor]:
    """This tensor and others as they are after a kernel of one's own, which runs now.

    fxn gets a PARAM for each tensor, its elements in row-major order, and gives a SINK over STOREs in the kernel graph
    of docs/graph.md; each PARAM has to be used. A tensor that the kernel stores to comes back as a new one with that
    memory, what was not stored is as before; the others come back themselves. grad_fxn(gradient, *tensors) gives the
    gradient of each tensor for that of a new one, or None; without it none is recorded. Raises GraphError for what is
    no kernel, ShapeError for a symbolic size, DeviceError for tensors on several devices.

    >>> from tinygraft import Tensor
    >>> from tinygraft.uop.ops import Ops, UOp
    >>> def doubled(out, source):
    ...     place = UOp.range(3, 0)
    ...     value = UOp(Ops.LOAD, source.dtype, (source, place)) * 2
    ...     return UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(out, place, value)),))
    >>> source = Tensor([1, 2, 3])
    >>> source.empty_like().custom_kernel(source, fxn=doubled)[0].tolist()
    [2, 4, 6]
    """
    tensors = (self, *lst)
    counts = [size_math.as_int(tensor.numel(), "a kernel of one's own") for tensor in tensors]
    params = [UOp(Ops.PARAM, t.dtype, (), ParamArg(i, n)) for i, (t, n) in enumerate(zip(tensors, counts, strict=True))]
    sink = fxn(*params)
    written = _checked(sink, params)
    self._same_device(Ops.STORE, tensors)
    with exclusive:
        stored = [tensor if is_stored(tensor.uop) else tensor.clone().realize() for tensor in tensors]
        nodes = [memory_base(tensor.uop) for tensor in stored]
        buffers = [_fresh(node) if slot in written else node for slot, node in enumerate(nodes)]
        call = KernelCall(Kernel(sink), self.device, tuple(buffers), tuple(written))
        done: list[Ready] = []
        with guarded() as guard:
            run_schedule(ready([call]), {}, set(buffers), done, guard)
    results = list(tensors)
    for slot in written:
        value = self._wrap(UOp(Ops.RESHAPE, buffers[slot].dtype, (buffers[slot],), tensors[slot].shape))
        results[slot] = value if grad_fxn is None else with_derivative(
            "custom_kernel", value, tensors, lambda node, gradient, wanted: grad_fxn(gradient, *tensors)
        )  # fmt: skip
    return results


def _fresh(node: UOp) -> UOp:
    """New memory with the value of the BUFFER `node`, as far as it has one."""
    if buffer_of(node).is_allocated() or unread(node) is not None:
        return copied(node)
    return UOp.buffer(node.device or "", node.arg.size, node.dtype)


def _checked(sink: Any, params: Sequence[UOp]) -> list[int]:
    """The slots of the params that a kernel stores to. Raises GraphError for what is no kernel of all of params."""
    if not isinstance(sink, UOp) or sink.op is not Ops.SINK:
        found = brief(sink) if isinstance(sink, UOp) else type(sink).__name__
        raise GraphError(f"a kernel of one's own is a SINK over STOREs, its function gave {found}")
    if (fault := graph_spec.first_fault(graph_spec.KERNEL, sink)) is not None:
        raise GraphError(f"this is no kernel: {fault[1]}\n  node: {brief(fault[0])}")
    nodes = toposort(sink)
    unused = [param.arg.slot for param in params if param not in nodes]
    if unused:
        raise GraphError(f"a kernel of one's own uses each of its tensors, this one leaves out number {unused[0]}")
    memories = set()
    for node in nodes:
        if node.op is Ops.STORE:
            memory = node.src[0]
            while memory.op is Ops.AFTER:
                memory = memory.src[0]
            memories.add(memory)
    return [param.arg.slot for param in params if param in memories]
