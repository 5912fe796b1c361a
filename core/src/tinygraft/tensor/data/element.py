"""One element of a tensor, read without a kernel of its own: `for i in range(n): t[i].item()` compiles nothing.

Each index would be another kernel, since indices are constants in kernels. `element(t)` follows the graph of t, which
has one element, from its index to memory, and computes on the way what the host computes exactly as devices do. A
tensor on the way that needs more, such as sin or a sum, is computed as a whole into a copy for reading, since its
other elements tend to be read next; the tensor itself stays an expression.
"""

from __future__ import annotations

import struct
import weakref
from math import prod
from typing import Any

from tinygraft.device.buffer import Buffer, realized
from tinygraft.dtype import DType, coerce, dtypes, values_of
from tinygraft.engine import tape
from tinygraft.engine.capture import open_captures
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import live_tensors
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import APPROXIMATE, ELEMENTWISE, FACTS, Ops, RankShards
from tinygraft.uop.uop import UOp, toposort

STEPS = 64  # nodes that are followed for one element, about 1 us each; a kernel is compiled in 10 ms
WHOLE = 2**14  # a tensor of at most so many elements is computed as a whole where one of them is read
COPIED = 2**16  # bytes of memory that the host does not see, copied for one element

_EXACT = frozenset({dtypes.bool, *dtypes.ints, dtypes.float32, dtypes.float64})
_SAME = frozenset({Ops.DETACH, Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD})
ElementIndex = tuple[int, ...]


class _ReadCopy:
    """The values of a node that is the value of a live tensor, computed for reading."""

    def __init__(self, holder: TensorBase, node: UOp) -> None:
        self.holder, self.shared = weakref.ref(holder), Buffer.times_shared
        self.written = {n: tape.written_at(n) for n in toposort(node) if n.op is Ops.BUFFER}
        copy: Any = holder._wrap(node).clone()  # type: ignore[attr-defined]
        self.values: list[Any] = copy._numbers()  # after `written`: a write that this carries out makes the copy stale

    def is_of(self, node: UOp) -> bool:
        """Whether these are still the values: the tensor has the node, the memory that it reads was not written, and no
        memory was shared with code that could write it.
        """
        holder = self.holder()
        if holder is None or memory_base(holder.uop) is not node or self.shared != Buffer.times_shared:
            return False
        return all(tape.written_at(buffer) == time for buffer, time in self.written.items())


_computed: weakref.WeakKeyDictionary[UOp, _ReadCopy] = weakref.WeakKeyDictionary()


class _Stuck(Exception):
    """The element needs a kernel. path has the nodes on the way to the one that would have to be computed."""

    def __init__(self, path: list[UOp]) -> None:
        self.path = path


class _ElementWalk:
    """The path from one element to memory. `picked`: it is one of several, as in t[3] + 1 but not in t + 1.

    `steps` is how many nodes may still be gone through, `path` has those on the way.
    """

    def __init__(self) -> None:
        self.steps, self.picked = STEPS, False
        self.path: list[UOp] = []

    def value(self, node: UOp, index: ElementIndex) -> Any:
        """Return the element of a node at `index`, one number for each axis. Raises _Stuck where it needs a kernel."""
        self.steps -= 1
        self.path.append(node)
        op = node.op
        if op is Ops.BUFFER:
            found = _in_memory(node, index[0])
        elif op is Ops.MULTI:
            found = self.value(*_part(node, index))
        elif op is Ops.CONST:
            found = node.arg
        elif op is Ops.IOTA and len(node.src) == 1:
            found = coerce(index[0], node.dtype)
        elif (entry := _computed.get(node)) is not None and entry.is_of(node):
            found = entry.values[_flat(node.shape, index)]
        elif self.steps < 0:
            raise _Stuck(self.path)
        elif op in _SAME:
            found = self.value(node.src[0], index)
        elif op in _MOVES and len(node.src) == 1:
            found = self.moved(node, index)
        elif op in ELEMENTWISE and op not in APPROXIMATE and FACTS[op].python is not None and node.dtype in _EXACT:
            found = self.result(node, index)
        else:
            raise _Stuck(self.path)
        self.path.pop()
        return found

    def moved(self, node: UOp, index: ElementIndex) -> Any:
        """Return the element of a movement: that of its source at another index, or 0 in its padding. Raises _Stuck."""
        source, arg = node.src[0], node.arg
        shape = source.shape
        if not all(type(length) is int for length in shape):
            raise _Stuck([])
        if node.op is Ops.RESHAPE:
            index = _unflat(shape, _flat(node.shape, index))
        elif node.op is Ops.EXPAND:
            index = tuple([0 if length == 1 else i for length, i in zip(shape, index, strict=True)])
        elif node.op is Ops.PERMUTE:
            of_axis = dict(zip(arg, index, strict=True))
            index = tuple([of_axis[axis] for axis in range(len(shape))])
        elif node.op is Ops.FLIP:
            index = tuple([shape[a] - 1 - i if a in arg else i for a, i in enumerate(index)])
        elif node.op is Ops.WINDOW:
            kept = len(shape) - len(arg.size)
            windows, within = index[kept : len(shape)], index[len(shape) :]
            steps = zip(windows, arg.stride, within, arg.dilation, strict=True)
            index = (*index[:kept], *[o * stride + k * dilation for o, stride, k, dilation in steps])
        elif node.op is Ops.SHRINK:
            self.picked |= node.shape != shape
            index = tuple([start + i for (start, _), i in zip(arg, index, strict=True)])
        else:
            index = tuple([i - before for (before, _), i in zip(arg, index, strict=True)])
            if not all(0 <= i < length for i, length in zip(index, shape, strict=True)):
                return coerce(0, node.dtype)
        return self.value(source, index)

    def result(self, node: UOp, index: ElementIndex) -> Any:
        """Return the element of an elementwise op, rounded as constant folding rounds it. Raises _Stuck."""
        if node.op is Ops.WHERE:  # only the chosen branch, which spares steps
            return self.value(node.src[1 if self.value(node.src[0], index) else 2], index)
        meaning = FACTS[node.op].python
        assert meaning is not None
        return coerce(meaning(*[self.value(source, index) for source in node.src]), node.dtype)


_MOVES = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.SHRINK, Ops.PAD, Ops.WINDOW})


def element(tensor: TensorBase) -> Any:
    """Return the one element of a tensor where it is one of several and needs no kernel of its own, else None.

    It may compute up to three tensors on the way as a whole. Under TinyJit it is None.
    """
    if open_captures():  # TinyJit has to see the read as a kernel, so that a replay computes it again
        return None
    for _ in range(4):  # each round but the last computes one more tensor on the path as a whole
        walk = _ElementWalk()
        try:
            found = walk.value(tensor.uop, (0,) * tensor.ndim)
        except _Stuck as stuck:
            if not walk.picked or not _compute(tensor, stuck.path):
                return None
            continue
        return found if walk.picked else None  # a tensor of one element is realised, so that a second read is free
    return None


def _compute(tensor: TensorBase, path: list[UOp]) -> bool:
    """Compute the last node of a path that is the value of another tensor; return whether there is such a node."""
    several = {n for n in path if n.op not in HELD and _counted(n.shape)}  # memory may be written to
    holders = {memory_base(t.uop): t for t in live_tensors() if t is not tensor} if several else {}
    for node in reversed(path):
        holder = holders.get(node) if node in several else None
        if holder is not None:
            if any(n.op is Ops.BUFFER and (b := realized(n)) is not None and b.may_change() for n in toposort(node)):
                return False
            _computed[node] = _ReadCopy(holder, node)
            return True
    return False


def _counted(shape: Any) -> bool:
    """Return whether a shape has known sizes and from 2 to WHOLE elements."""
    return all(type(length) is int for length in shape) and 1 < prod(shape) <= WHOLE


def _in_memory(node: UOp, index: int) -> Any:
    """Return an element of a BUFFER.

    Raises _Stuck where it has not been computed, or much would be copied to the host.
    """
    buffer = realized(node)
    if buffer is None or buffer.unread is not None:
        raise _Stuck([])
    memory = buffer.as_memoryview()
    if memory is None:
        if buffer.nbytes > COPIED:
            raise _Stuck([])
        memory = buffer.copy_out(memoryview(bytearray(buffer.nbytes)))
    return _number(memory, index, node.dtype)


def _part(node: UOp, index: ElementIndex) -> tuple[UOp, ElementIndex]:
    """Return the shard, of a value on several devices, that has an element, and the element's index in it."""
    if node.sharding is None:
        return node.src[0], index
    if isinstance(node.arg, RankShards):  # all ranks read it together, also the one that has the element
        raise _Stuck([])
    axis = node.arg
    at = index[axis]
    for part in node.src:
        if at < part.shape[axis]:
            return part, (*index[:axis], at, *index[axis + 1 :])
        at -= part.shape[axis]
    raise _Stuck([])


def _number(memory: memoryview, index: int, dtype: DType) -> Any:
    """Return the element at `index` of memory in native byte order as a Python number."""
    if dtype.fmt is None:  # bfloat16 and fp8, which struct does not have
        bits = struct.unpack_from("=H" if dtype.itemsize == 2 else "=B", memory, index * dtype.itemsize)[0]
        return values_of(dtype)[bits]
    return struct.unpack_from(f"={dtype.fmt}", memory, index * dtype.itemsize)[0]


def _flat(shape: Any, index: ElementIndex) -> int:
    """Return the row-major index of the element at `index`, one number for each axis of `shape`."""
    found = 0
    for length, i in zip(shape, index, strict=True):
        found = found * length + i
    return found


def _unflat(shape: Any, flat: int) -> ElementIndex:
    """Return the indices along the axes of `shape` of the row-major index `flat`: the inverse of `_flat`."""
    index = []
    for length in reversed(shape):
        flat, i = divmod(flat, length)
        index.append(i)
    return tuple(reversed(index))
