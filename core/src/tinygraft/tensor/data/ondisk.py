"""Tensors over files: memory that is read when something first needs it, and no more of the file than that.

A file, a dtype and a shape in; a BUFFER whose Buffer has the bytes still to read. A contiguous slice
of such a BUFFER is a BUFFER of its own, and so is another dtype of the same bits: then only the slice is read.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tinygraft.device import buffer
from tinygraft.device.buffer import buffer_of
from tinygraft.dtype import DType
from tinygraft.files import FilePart, OpenFile
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import Shape, is_concrete, sint
from tinygraft.uop.uop import UOp


def file_node(file: OpenFile, offset: int, shape: Sequence[int], device: str, dtype: DType) -> UOp:
    """Return a node of `shape` and `dtype` on a device, whose elements are in a file from `offset` on, row-major.

    `offset` counts bytes. They are read when the buffer is first needed.
    """
    size = math.prod(shape)
    node = UOp.buffer(device, size, dtype)
    buffer_of(node).read_later(FilePart(file, offset, size * dtype.itemsize))
    return node if tuple(shape) == (size,) else UOp(Ops.RESHAPE, dtype, (node,), tuple(shape))


def unread(node: UOp) -> FilePart | None:
    """Return the part of a file that the tensor of a node still is; None where it is read, or no file."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return buffer.unread(node)


def whole_file(node: UOp) -> OpenFile | None:
    """Return the file whose bytes, from the first to the last, the tensor of a node still is; None for any other."""
    source = unread(node)
    whole = source is not None and source.offset == 0 and source.nbytes == source.file.size
    return source.file if source is not None and whole else None


def read(node: UOp) -> None:
    """Read a tensor that is still in its file."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    if buffer.unread(node) is not None:
        buffer_of(node).allocate()


def part(node: UOp, bounds: Sequence[tuple[sint, sint]]) -> UOp | None:
    """Return the part from start to end along each axis of a tensor that has not been read from its file.

    None where that part is not contiguous in the file.
    """
    source = unread(node)
    if source is None or not is_concrete((*node.shape, *(side for pair in bounds for side in pair))):
        return None
    lengths = [int(end) - int(start) for start, end in bounds]
    whole = len(lengths)
    while whole and lengths[whole - 1] == node.shape[whole - 1]:
        whole -= 1
    inside = all(0 <= start <= end <= size for (start, end), size in zip(bounds, node.shape, strict=True))
    if not inside or 0 in lengths or any(length != 1 for length in lengths[: max(whole - 1, 0)]):
        return None
    first = 0
    for (start, _), size in zip(bounds, node.shape, strict=True):
        first = first * int(size) + int(start)
    return file_node(source.file, source.offset + first * node.dtype.itemsize, lengths, node.device or "", node.dtype)


def bits(node: UOp, dtype: DType, shape: Shape) -> UOp | None:
    """Return the bits of a tensor that is still in its file as `shape` of `dtype`, unread; None where it is not.

    The caller has checked that there are as many bytes.
    """
    source = unread(node)
    if source is None or not is_concrete(shape):
        return None
    return file_node(source.file, source.offset, [int(size) for size in shape], node.device or "", dtype)
