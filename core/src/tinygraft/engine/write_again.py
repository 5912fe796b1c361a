"""A write like an earlier one: into memory that one tensor has, by a graph whose form was launched before.

    write_again(tensor, root, walked, live) -> bool

What `shortcut.py` does for values in new memory is done here for an ASSIGN into a BUFFER, as in `buf[i] = v` and
`x += y` in eager loops. The answers of `collect.py`, `protect.py` and `record_results.py` are known where no other live
tensor reads that memory or shares a part of the graph, and no backward may come through the value or needs the old one.
All else, and what fails a test here, is realised in general.
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.device.buffer import buffer_of
from tinygraft.device.registry import Device
from tinygraft.engine import tape
from tinygraft.engine.assigns import HasNode, LiveTensors
from tinygraft.engine.gradient_reach import goes_on
from tinygraft.engine.shortcut import Walked, launch, launches_for
from tinygraft.engine.transaction import settle_alone
from tinygraft.interrupt import guarded
from tinygraft.uop.held import in_shape
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, toposort


def write_again(tensor: HasNode, root: UOp, walked: Walked, live: LiveTensors) -> bool:
    """Realise `tensor`, whose node `root` is an ASSIGN, where the graph has a shortcut; else return False.

    Nothing has changed then. Raises what launching raises; the tensor then has its old value, or one that is lost. The
    caller has the lock.
    """
    found = launches_for(walked)
    if found is None:
        return False
    launches, values = found
    flag, is_float = tensor.requires_grad, root.dtype.kind == "float"
    target = _memory(root.src[0])
    if target is None or tensor.uop is not root or root.tag is not None or flag:
        return False
    for name, backend in launches.backends:
        if Device[name] is not backend:
            return False
    beside = live.beside_write(tensor, target, walked.order)
    if beside is None:
        return False
    requiring, same = beside
    if is_float and not _is_untracked(root, requiring):
        return False
    buffers = list(map(buffer_of, walked.buffers))
    if any([not buffer.is_allocated() for buffer in buffers]):  # noqa: C419  faster
        return False
    if tape.to_save((target,), (target,) if len(root.src) == 2 else ()):
        return False
    with guarded(whole=True) as guard:  # from the launch on until the tensor has its result
        try:
            (each,) = launches.launches
            launch(each, [buffers[slot] for slot in each.slots], values, launches.numbers)
        except BaseException as error:
            guard.sealed = True
            settle_alone(tensor, live, error)
            raise
        guard.sealed = True
        tape.record_write(root, target, walked.order)
        new = in_shape(target, root.shape)
        tensor.uop = new
        for other in same:
            other.uop = new
    return True


def _memory(node: UOp) -> UOp | None:
    """Return the BUFFER that `node` is the whole of, in some shape; None for any other node."""
    while node.op is Ops.RESHAPE and node.tag is None:
        node = node.src[0]
    return node if node.op is Ops.BUFFER else None


def _is_untracked(root: UOp, tensors: Sequence[HasNode]) -> bool:
    """Return whether no gradient is required of what a gradient of `root` reaches, as far as its graph alone says so.

    `tensors` are those that require a gradient.
    """
    requiring = tape.nodes_requiring_grad(tensors)
    if not requiring:
        return True
    reached = toposort(root, enter=goes_on)
    if not requiring.isdisjoint(reached) or any([isinstance(node.tag, Own) for node in reached]):  # noqa: C419
        return False
    for node in reached:
        if node.op is Ops.BUFFER:
            entry = tape.entry_of(node)
            if (entry is not None and entry.tracked) or tape.origin_of(node) is not None:
                return False
    return True
