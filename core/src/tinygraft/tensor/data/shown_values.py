"""The text of a tensor: values that are in memory already, shortened as NumPy does; the node of one that is lazy.

Nothing is computed, written or waited for but the kernels that write the memory. Values are read where the node is
memory, or movements of memory (`t[0]`, `t.T`): only those that are printed, so that a tensor of 10 GB prints at once.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import Buffer, realized
from tinygraft.dtype import DType, values_of
from tinygraft.engine.capture import open_captures
from tinygraft.uop.ops import Ops, RankShards
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    import numpy as np
    from numpy import ndarray

    from tinygraft.tensor.tensor import Tensor

    PickedIndex = Sequence[ndarray[Any, Any]]  # one array of indices for each axis; they broadcast together

# assumed: bounds on the time of a print, never timed on a slow bus
WHOLE = 1 << 20  # bytes of memory that the host does not see, copied in one go
CHUNK = 1 << 16  # bytes, of what is larger, copied around an element
MOST_CHUNKS = 512
MOST_SHOWN = 20_000  # elements; where the edges of all axes have more, one element of each edge is shown
MOST_STEPS = 64  # movements between a tensor and its memory that are followed
FEW_DIGITS = 4  # of bfloat16 and fp8, which NumPy prints as the float32 of the same value

_SAME = frozenset({Ops.DETACH, Ops.CONTIGUOUS_BACKWARD})


class NotInMemory(Exception):
    """The values cannot be shown without computing, opening or copying much; the text says why, or is empty."""


def text_of(tensor: Tensor, with_grad: bool = True) -> str:
    """Return what `repr` prints of a tensor. Never raises."""
    try:
        grad = tensor.grad if with_grad else None
        tail = f" on {tensor.device}" + (f" with grad{_grad_text(grad)}" if with_grad else "")
        try:
            body = f"{array_text(tensor, '<Tensor ')} {tensor.dtype.name} {tensor.shape}"
        except NotInMemory as reason:
            body = _node_text(tensor) + (f", {reason}," if str(reason) else "")
        return f"<Tensor {body}{tail}>"
    except Exception as error:  # it is printed by debuggers and tracebacks, which must not fail for it
        first = next(iter(str(error).splitlines()), "")
        return f"<Tensor that cannot be shown: {type(error).__name__}: {first}>"


def _grad_text(grad: Tensor | None) -> str:
    """Return a gradient after a blank, without its own one; in lines of its own where it has several."""
    if grad is None:
        return " None"
    text = text_of(grad, with_grad=False)
    return "\n" + textwrap.indent(text, "  ") if "\n" in text else f" {text}"


def _node_text(tensor: Tensor) -> str:
    """Return the node of a lazy tensor as text; of a complex one those of both parts."""
    halves = tensor._parts()
    if len(halves) > 1:
        return f"of {tensor.dtype.name} {tensor.shape} with parts {tuple(_node_text(half) for half in halves)}"
    node = tensor.uop
    return f"<UOp {node.device} {node.shape} {node.dtype.name} ({node.op!r}, {node.base.realized})>"


def array_text(tensor: Tensor, prefix: str = "") -> str:
    """Return the values as NumPy prints an array, by its print options. Raises NotInMemory."""
    import numpy as np

    chosen = np.get_printoptions()
    edge, shortened = chosen["edgeitems"], tensor.numel() > chosen["threshold"]
    picked = _picked(tensor.shape, edge if shortened else None)
    if shortened and _count(picked) > MOST_SHOWN:
        edge = 1
        picked = _picked(tensor.shape, edge)
    if _count(picked) > MOST_SHOWN and shortened:
        raise NotInMemory("of too many axes to be printed")
    found = values_at(tensor, picked)
    digits = min(chosen["precision"], FEW_DIGITS) if _is_narrow(tensor.dtype) else None
    return np.array2string(found, precision=digits, separator=", ", prefix=prefix, edgeitems=edge,
                           threshold=0 if shortened else max(found.size, 1))  # fmt: skip


def _picked(shape: Sequence[Any], edge: int | None) -> list[Any]:
    """Return the indices of each axis that are printed.

    An axis of more than 2 * edge elements has one more, which stands for those that NumPy replaces by dots.
    """
    import numpy as np

    if not is_concrete(tuple(shape)):
        raise NotInMemory("")
    return [np.arange(n) if edge is None or n <= 2 * edge else np.r_[0 : edge + 1, n - edge : n] for n in shape]


def _count(picked: Sequence[Any]) -> int:
    """Return how many elements are picked."""
    return math.prod(len(axis) for axis in picked)


def values_at(tensor: Tensor, picked: Sequence[Any]) -> ndarray[Any, Any]:
    """Return the elements at the given indices of each axis as an array.

    bfloat16 and fp8 become float32. Raises NotInMemory where they are not in memory that can be read now.
    """
    import numpy as np

    if open_captures():  # TinyJit records what a function reads; to print is not to read
        raise NotInMemory("")
    shape = tuple(len(axis) for axis in picked)
    if len(parts := tensor._parts()) > 1:
        found = np.empty(shape, tensor.dtype.name)
        found.real, found.imag = (values_at(part, picked) for part in parts)
        return found
    index = [grid.ravel() for grid in np.meshgrid(*picked, indexing="ij")] if shape else []
    return _gathered(tensor.uop, index, shape).reshape(shape)


def _is_narrow(dtype: DType) -> bool:
    """Return whether a dtype is a float that NumPy lacks: bfloat16 or fp8."""
    return dtype.fmt is None and dtype.kind == "float"


def _gathered(node: UOp, index: PickedIndex, shape: tuple[int, ...]) -> ndarray[Any, Any]:
    """Return the elements of `node` at `index`, flat, following its movements down to memory. Raises NotInMemory."""
    import numpy as np

    count = math.prod(shape)
    for _ in range(MOST_STEPS):
        if node.op in _SAME:
            node = node.src[0]
        elif node.op is Ops.BUFFER:
            return _in_memory(node, index[0] if index else np.zeros(count, np.int64))
        elif node.op is Ops.MULTI and node.sharding is None:
            node = node.src[0]
        elif node.op is Ops.MULTI and isinstance(node.arg, RankShards):
            raise NotInMemory("cut over ranks: mesh.local(t) is this rank's part")
        elif node.op is Ops.BITCAST and _same_width(node):
            return _gathered(node.src[0], index, shape).view(_numpy_name(node.dtype))
        elif node.op is Ops.MULTI:
            return _in_parts(node, index, count)
        else:
            index, node = _moved(node, index, count), node.src[0]
    raise NotInMemory("")


def _same_width(node: UOp) -> bool:
    """Return whether a BITCAST only reads the same elements as another dtype, both of which NumPy has."""
    old, new = node.src[0].dtype, node.dtype
    return old.itemsize == new.itemsize and None not in (old.fmt, new.fmt) and new.kind != "bool"


def _moved(node: UOp, index: PickedIndex, count: int) -> PickedIndex:
    """Return the index in the source of a movement. Raises NotInMemory for any other node, and in padding."""
    import numpy as np

    if len(node.src) != 1 or not is_concrete(node.src[0].shape) or not is_concrete(node.shape):
        raise NotInMemory("")
    source, arg = node.src[0].shape, node.arg
    if node.op is Ops.RESHAPE:
        flat = np.ravel_multi_index(tuple(index), node.shape) if index else np.zeros(count, np.int64)
        return np.unravel_index(flat, source) if source else []
    if node.op is Ops.EXPAND:
        return [i * 0 if length == 1 else i for length, i in zip(source, index, strict=True)]
    if node.op is Ops.PERMUTE:
        of_axis = dict(zip(arg, index, strict=True))
        return [of_axis[axis] for axis in range(len(source))]
    if node.op is Ops.FLIP:
        return [source[axis] - 1 - i if axis in arg else i for axis, i in enumerate(index)]
    if node.op is Ops.SHRINK:
        return [start + i for (start, _), i in zip(arg, index, strict=True)]
    if node.op is Ops.WINDOW:
        kept = len(source) - len(arg.size)
        steps = zip(index[kept : len(source)], arg.stride, index[len(source) :], arg.dilation, strict=True)
        return [*index[:kept], *[at * stride + k * dilation for at, stride, k, dilation in steps]]
    if node.op is Ops.PAD:  # a step of what a stride picks
        moved = [i - before for (before, _), i in zip(arg, index, strict=True)]
        if all(((i >= 0) & (i < length)).all() for i, length in zip(moved, source, strict=True)):
            return moved
    raise NotInMemory("")


def _in_parts(node: UOp, index: PickedIndex, count: int) -> ndarray[Any, Any]:
    """Return elements of a value that is cut along an axis over several devices."""
    import numpy as np

    axis, start, found = node.arg, 0, None
    for part in node.src:
        end = start + part.shape[axis]
        here = (index[axis] >= start) & (index[axis] < end)
        inside = [i[here] - start * (number == axis) for number, i in enumerate(index)]
        values = _gathered(part, inside, (int(here.sum()),)) if here.any() else None
        if values is not None:
            found = np.zeros(count, values.dtype) if found is None else found
            found[here] = values
        start = end
    if found is None:  # there are no elements
        return np.zeros(count, _numpy_name(node.dtype))
    return found


def _numpy_name(dtype: DType) -> str:
    """Return the name of the NumPy dtype in which values are shown."""
    from tinygraft.tensor.data.from_python import NUMPY_NAME

    return "float32" if _is_narrow(dtype) else NUMPY_NAME[dtype]


def _in_memory(node: UOp, index: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return elements of a BUFFER. Raises NotInMemory where it has no memory, or none that can be read."""
    import numpy as np

    dtype, buffer = node.dtype, realized(node)
    if not len(index):
        return np.zeros(0, _numpy_name(dtype))
    if buffer is None or buffer.unread is not None:
        raise NotInMemory("")
    block = buffer.block
    if block is not None and (block.pool.lost or block.pool.closed):
        raise NotInMemory("whose values are lost with their device")
    name = f"u{dtype.itemsize}" if _is_narrow(dtype) else _numpy_name(dtype)
    found = _elements(buffer, np.dtype(name), index)
    return np.array(values_of(dtype), np.float32)[found] if _is_narrow(dtype) else found


def _elements(buffer: Buffer, kind: np.dtype[Any], index: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return elements of memory at flat indices, copied in chunks where the host does not see the memory."""
    import numpy as np

    if (memory := buffer.as_memoryview()) is None:
        from tinygraft.engine.validate import can_read

        if not can_read(buffer.backend):
            raise NotInMemory("whose memory cannot be read")
        if buffer.nbytes > WHOLE:
            return _from_chunks(buffer, kind, index)
        memory = buffer.copy_out(memoryview(bytearray(buffer.nbytes)))
    found: ndarray[Any, Any] = np.frombuffer(memory, kind)[index]  # a copy, as it is indexed by an array
    return found


def _from_chunks(buffer: Buffer, kind: np.dtype[Any], index: ndarray[Any, Any]) -> ndarray[Any, Any]:
    """Return elements of large memory: of each chunk that has one, a copy. Raises NotInMemory for very many chunks."""
    import numpy as np

    from tinygraft.errors import UnsupportedError

    found = np.empty(len(index), kind)
    at, within = np.divmod(index, CHUNK // kind.itemsize)
    chunks = np.unique(at)
    if len(chunks) > MOST_CHUNKS:
        raise NotInMemory("whose values are too far apart to be copied for a print")
    for chunk in chunks:
        start = int(chunk) * CHUNK
        part = Buffer(buffer.device, min(CHUNK, buffer.nbytes - start) // kind.itemsize, buffer.dtype)
        try:
            part.suballocate(buffer, start)
        except UnsupportedError:
            raise NotInMemory("of a device that copies whole buffers only") from None
        data = np.frombuffer(part.copy_out(memoryview(bytearray(part.nbytes))), kind)
        here = at == chunk
        found[here] = data[within[here]]
    return found
