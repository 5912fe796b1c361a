"""From whatever Tensor is made of to a node: numbers, lists, arrays, bytes, files, tensors, nodes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from tinygraft.autograd.build import laid
from tinygraft.device.registry import Device
from tinygraft.dtype import ONE_ARGUMENT, DType, dtypes
from tinygraft.engine.exclusive import import_late
from tinygraft.errors import DeviceError, DTypeError
from tinygraft.files import OpenFile
from tinygraft.tensor.data.from_python import bytes_node, list_node, number_node, numpy_node
from tinygraft.tensor.data.ondisk import file_node
from tinygraft.tensor.primitives import size_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import on_device
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.uop import Place, UOp

if TYPE_CHECKING:
    from pathlib import Path


def node_of(data: Any, device: Place, dtype: DType | None) -> UOp | None:
    """Return the node of the values of `data`, whatever Tensor takes; None where `data` or `dtype` are complex.

    Raises DTypeError for what is no number, ShapeError for lists that are ragged, DeviceError for a number as device.
    """
    if dtype is not None and dtype.kind == "complex":
        return None
    if isinstance(data, TensorBase) and data.dtype.kind == "complex":
        return None
    if isinstance(data, (UOp, TensorBase)):
        return _existing(data if isinstance(data, UOp) else data.uop, device, dtype)
    if isinstance(device, int):
        raise DeviceError(f"a device is named by a string NAME or NAME:ordinal, got {device}{ONE_ARGUMENT}")
    name = Device.canonicalize(device)
    if data is None:
        return UOp.const(dtype or dtypes.default_float, 0, name)
    # before the slower checks: numbers are the most frequent data
    if type(data) in (bool, int, float, complex):
        return number_node(data, name, dtype)
    if isinstance(name, tuple):
        return _laid_out(node_of(data, local_devices(name)[0], dtype), name)
    if isinstance(data, (list, tuple)):
        return list_node(data, name, dtype)
    if isinstance(data, range):
        return list_node(list(data), name, dtype)
    if is_path(data):
        return _file(data, name, dtype or dtypes.uint8)
    if isinstance(data, (bytes, bytearray, memoryview)):
        to = dtype or dtypes.uint8
        size = memoryview(data).nbytes
        if size % to.itemsize:
            raise DTypeError(f"{size} bytes are no whole number of {to} elements of {to.itemsize} bytes")
        return bytes_node(data, (size // to.itemsize,), name, to)
    if hasattr(data, "__array__") or hasattr(type(data), "__array_interface__"):  # images of Pillow have the latter
        return _array(data, name, dtype)
    # subclasses of numbers, such as enums; after arrays, since NumPy's float64 is a float too
    if isinstance(data, (bool, int, float, complex)):
        return number_node(data, name, dtype)
    hint = "\n  hint: Tensor(Path(name)) is the bytes of a file, with pathlib's Path" if isinstance(data, str) else ""
    if any(name.endswith("_array_interface__") or name == "__dlpack__" for name in dir(data)):
        hint = "\n  hint: Tensor.from_dlpack(x) takes an array of another library, where it is"
    raise DTypeError(f"a tensor is made of numbers, lists, bytes or numpy arrays, got {type(data).__name__}{hint}")


def _array(data: Any, device: str, dtype: DType | None) -> UOp | None:
    """Return a copy of an array; by DLPack of one in a dtype that NumPy does not have, as PyTorch's bfloat16."""
    try:
        return numpy_node(data, device, dtype)
    except TypeError as error:
        if isinstance(error, DTypeError) or not hasattr(data, "__dlpack__") or not hasattr(data, "detach"):
            raise
        tensors = import_late("tinygraft.tensor.tensor")
        node: UOp = tensors.Tensor.from_dlpack(data.detach(), device, copy=True).uop
        return node if dtype is None else node.cast(dtype)


def _laid_out(node: UOp | None, names: tuple[str, ...]) -> UOp | None:
    """Return `node` on the devices `names`, replicated; None for None."""
    return None if node is None else laid(node, names, None)


def is_path(data: object) -> bool:
    """Return whether `data` is a Path of pathlib, which is not imported for that: before it is there is none."""
    paths = sys.modules.get("pathlib")
    return paths is not None and isinstance(data, paths.Path)


def _file(path: Path, device: str, dtype: DType) -> UOp:
    """Return a node of the bytes of a file as elements of `dtype`, one axis, which have not been read.

    Raises DTypeError where the bytes are no whole number of elements, and as files do.
    """
    file = OpenFile(path)
    if file.size % dtype.itemsize:
        raise DTypeError(
            f"{path} has {file.size} bytes, which are no whole number of {dtype} elements of {dtype.itemsize} bytes"
        )
    return file_node(file, 0, (file.size // dtype.itemsize,), device, dtype)


def _existing(node: UOp, device: Place, dtype: Any) -> UOp:
    """Return a node of the graph, a symbolic integer, or what is made of some, as the node of a value.

    It is moved to `device` and cast to `dtype` where these are not None.
    """
    if node.dtype is dtypes.index:
        to = dtype or size_math.dtype_of(node)
        size_checks.require(size_checks.Fits(node, to))
        return node.cast(to) + UOp.const(to, 0, Device.canonicalize(device))
    if node.device is None:
        node = on_device(node, Device.canonicalize(device))
    elif device is not None and Device.canonicalize(device) != node.device:
        node = laid(node, Device.canonicalize(device), None)
    return node if dtype is None else node.cast(dtype)
