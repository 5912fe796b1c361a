"""Tensor: the class that users meet. Its methods live in the mixins, one file per theme.

Data in, a lazy tensor out. A method adds nodes to `uop`; nothing is computed before realize or a read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tinygraft.autograd.build import laid
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, DTypeLike, dtypes, to_dtype
from tinygraft.errors import DTypeError
from tinygraft.files import OpenFile
from tinygraft.tensor import data as from_data
from tinygraft.tensor import lengths, parts
from tinygraft.tensor.base import on_device
from tinygraft.tensor.ctc import CTC
from tinygraft.tensor.custom_kernels import CustomKernels
from tinygraft.tensor.digest import Digest
from tinygraft.tensor.distinct import Distinct
from tinygraft.tensor.dropouts import Dropouts
from tinygraft.tensor.embedding import EmbeddingMethods
from tinygraft.tensor.gates import Gates
from tinygraft.tensor.gradient import Gradient
from tinygraft.tensor.heads import Heads
from tinygraft.tensor.leaves import leaf, own_memory
from tinygraft.tensor.margins import Margins
from tinygraft.tensor.masked import Masked
from tinygraft.tensor.mode import TensorType
from tinygraft.tensor.moving import Moving
from tinygraft.tensor.normalization import Normalization
from tinygraft.tensor.ondisk import file_node
from tinygraft.tensor.patches import Patches
from tinygraft.tensor.products import Products
from tinygraft.tensor.rearrange import Rearrange
from tinygraft.tensor.reflectors import Reflectors
from tinygraft.tensor.resize import Resize
from tinygraft.tensor.samples import Samples
from tinygraft.tensor.sampling import Sampling
from tinygraft.tensor.searching import Searching
from tinygraft.tensor.shaping import Shaping
from tinygraft.tensor.sharing import Sharing
from tinygraft.tensor.spectrum import Spectrum
from tinygraft.tensor.storage import declare
from tinygraft.tensor.versions import Versions
from tinygraft.tensor.windows import Windows
from tinygraft.uop.shape import is_concrete
from tinygraft.uop.uop import Place, UOp

__all__ = ["Tensor"]


class Tensor(
    Masked, Windows, EmbeddingMethods, Margins, CTC, Heads, Sampling, Normalization, Patches, Dropouts, Gates, Distinct,
    Samples, Searching, Shaping, Spectrum, Reflectors, Products, Versions, Resize, Gradient, Rearrange, Sharing,
    Digest, CustomKernels, Moving, metaclass=TensorType,
):  # fmt: skip
    """A lazy array of one dtype on one device.

    data is a number, nested lists or tuples of numbers, a numpy array (copied), bytes (uint8 unless dtype says how to
    read them), a path (the bytes of that file, read when they are needed), a symbolic integer, a graph node, another
    tensor or None (0.0). A Python float becomes DEFAULT_FLOAT, an int DEFAULT_INT (or 64 bits wide if it does not fit).
    Complex numbers make a ComplexTensor, which is a Tensor too.

    device is the name of a device, or several names: each of those has all of the values (`shard` cuts them).
    requires_grad is True or False to have, or never to have, a gradient after backward; None lets backward choose,
    but for a file it means False.

    Raises ShapeError for ragged lists, DTypeError for elements that are no numbers.

    >>> t = Tensor([[1, 2], [3, 4]])
    >>> t.shape, t.dtype
    ((2, 2), dtypes.int)
    """

    __slots__ = ()
    __hash__ = object.__hash__

    def __init__(
        self,
        data: Any = None,
        device: Place = None,
        dtype: DTypeLike | None = None,
        requires_grad: bool | None = None,
    ) -> None:
        node = _node(data, device, None if dtype is None else to_dtype(dtype))
        if isinstance(data, Path) and requires_grad is None:
            requires_grad = False  # so that a part of it need not know of the whole
        own = requires_grad is True and isinstance(data, Tensor) and is_concrete(node.shape)  # no leaf but this one
        self._set(own_memory(node) if own and node.dtype.kind == "float" else leaf(node, requires_grad), requires_grad)


declare(Tensor.__mro__, (Tensor.sum,))  # the second is any that spellings.py has wrapped


def _node(data: Any, device: Place, dtype: Any) -> UOp:
    """The node that holds data."""
    if dtype is not None and dtype.kind == "complex":
        raise from_data.ComplexGiven
    if isinstance(data, Tensor) and data.dtype.kind == "complex":
        raise from_data.ComplexGiven
    if isinstance(data, (UOp, Tensor)):
        return _existing(data if isinstance(data, UOp) else data.uop, device, dtype)
    name = Device.canonicalize(device)
    if data is None:
        return UOp.const(dtype or dtypes.default_float, 0, name)
    if type(data) in (bool, int, float, complex):
        return from_data.number_node(data, name, dtype)
    if isinstance(name, tuple):
        return laid(_node(data, name[0], dtype), name, None)
    if isinstance(data, (list, tuple)):
        return from_data.list_node(data, name, dtype)
    if isinstance(data, Path):
        return _file(data, name, dtype or dtypes.uint8)
    if isinstance(data, (bytes, bytearray, memoryview)):
        to = dtype or dtypes.uint8
        size = memoryview(data).nbytes
        if size % to.itemsize:
            raise DTypeError(f"{size} bytes are no whole number of {to} elements of {to.itemsize} bytes")
        return from_data.bytes_node(data, (size // to.itemsize,), name, to)
    if hasattr(data, "__array__"):
        return from_data.numpy_node(data, name, dtype)
    if isinstance(data, (bool, int, float, complex)):
        return from_data.number_node(data, name, dtype)
    hint = "\n  hint: Tensor(Path(name)) is the bytes of a file, with pathlib's Path" if isinstance(data, str) else ""
    raise DTypeError(f"a tensor is made of numbers, lists, bytes or numpy arrays, got {type(data).__name__}{hint}")


def _file(path: Path, device: str, dtype: DType) -> UOp:
    """The bytes of a file, still to be read."""
    file = OpenFile(path)
    if file.size % dtype.itemsize:
        raise DTypeError(
            f"{path} has {file.size} bytes, which are no whole number of {dtype} elements of {dtype.itemsize} bytes"
        )
    return file_node(file, 0, (file.size // dtype.itemsize,), device, dtype)


def _existing(node: UOp, device: Place, dtype: Any) -> UOp:
    """A node of the graph, or a symbolic integer, or what is made of some, as a value."""
    if node.dtype is dtypes.index:
        to = dtype or lengths.dtype_of(node)
        parts.take(parts.Fits(node, to))
        return node.cast(to) + UOp.const(to, 0, Device.canonicalize(device))
    if node.device is None:
        node = on_device(node, Device.canonicalize(device))
    elif device is not None and Device.canonicalize(device) != node.device:
        node = laid(node, Device.canonicalize(device), None)
    return node if dtype is None else node.cast(dtype)
