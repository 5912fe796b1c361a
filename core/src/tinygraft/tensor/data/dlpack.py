"""DLPack: memory that other libraries share with us, and ours for them, as PyCapsules.

    take(capsule) -> Foreign             theirs: dtype, shape, strides, address; freed by the owner when it is deleted
    make(view, dtype, layout, versioned) ours, live until the consumer calls the deleter
    make_on(device, lent, ...)           ours, in the memory of a device that the host does not see

The layout is that of dlpack.h, version 1; unversioned capsules are those of older libraries.
"""

from __future__ import annotations

import ctypes
from ctypes import POINTER, Structure, c_int32, c_int64, c_uint8, c_uint16, c_uint32, c_uint64, c_void_p, pythonapi
from typing import Any

from tinygraft.device.buffer import Lent
from tinygraft.dtype import DType, dtypes, part_of
from tinygraft.errors import DTypeError
from tinygraft.tensor.state.strides import StridedLayout, row_major

HOST = 1  # what dlpack.h calls host memory
READ_ONLY = 1  # a flag of versioned tensors
KINDS = {
    0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool",
    10: "fp8e4m3", 11: "fp8e4m3fnuz", 12: "fp8e5m2", 13: "fp8e5m2fnuz",
}  # fmt: skip
CODES = {kind: code for code, kind in KINDS.items()}
NEW, OLD = b"dltensor_versioned", b"dltensor"
USED_NEW, USED_OLD = b"used_dltensor_versioned", b"used_dltensor"
Deleter: Any = ctypes.CFUNCTYPE(None, c_void_p)


class DLTensor(Structure):
    """Where the elements are, of which dtype and in which shape; strides count elements, none mean row-major."""

    _fields_ = (
        ("data", c_void_p), ("device_type", c_int32), ("device_id", c_int32), ("ndim", c_int32), ("code", c_uint8),
        ("bits", c_uint8), ("lanes", c_uint16), ("shape", POINTER(c_int64)), ("strides", POINTER(c_int64)),
        ("byte_offset", c_uint64),
    )  # fmt: skip


class Managed(Structure):
    """A DLTensor with the deleter that frees it."""

    _fields_ = (("tensor", DLTensor), ("context", c_void_p), ("deleter", c_void_p))


class ManagedVersioned(Structure):
    """The same since version 1: flags say whether it may be written."""

    _fields_ = (("major", c_uint32), ("minor", c_uint32), ("context", c_void_p), ("deleter", c_void_p),
                ("flags", c_uint64), ("tensor", DLTensor))  # fmt: skip


# Functions of our own: pythonapi's are shared by all libraries of the process, which may set other argtypes.
# PYFUNCTYPE keeps the GIL.
_capsule, _text, _address = ctypes.py_object, ctypes.c_char_p, c_void_p
_name = ctypes.PYFUNCTYPE(_text, _capsule)(("PyCapsule_GetName", pythonapi))
_pointer = ctypes.PYFUNCTYPE(_address, _capsule, _text)(("PyCapsule_GetPointer", pythonapi))
_rename = ctypes.PYFUNCTYPE(ctypes.c_int, _capsule, _text)(("PyCapsule_SetName", pythonapi))


# Theirs


class Foreign:
    """Memory of another library, whose deleter is called when this object dies. strides count elements.

    Complex numbers are floats with a last axis of 2; is_complex says so.
    """

    dtype: DType
    shape: tuple[int, ...]
    device_type: int
    device_id: int
    strides: tuple[int, ...]
    address: int

    def __init__(self, managed: Managed | ManagedVersioned) -> None:
        self._managed = managed
        found = managed.tensor
        self.device_type, self.device_id, self.dtype = found.device_type, found.device_id, _dtype(found)
        axes = range(found.ndim)
        self.shape = tuple([found.shape[i] for i in axes])
        self.strides = tuple([found.strides[i] for i in axes]) if found.strides else row_major(self.shape)
        self.address = (found.data or 0) + found.byte_offset
        self.read_only: bool = bool(getattr(managed, "flags", 0) & READ_ONLY)
        self.is_complex: bool = self.dtype.kind == "complex"
        if self.is_complex:
            self.dtype, self.shape = part_of(self.dtype), (*self.shape, 2)
            self.strides = (*(2 * stride for stride in self.strides), 1)

    def __del__(self, call: Any = Deleter, addressof: Any = ctypes.addressof) -> None:  # also at exit
        if self._managed.deleter:
            call(self._managed.deleter)(addressof(self._managed))


def take(capsule: object) -> Foreign:
    """The memory of a capsule, which is used up by this.

    Raises ValueError for one that was used before, or is none.
    """
    name = _name(capsule) if type(capsule).__name__ == "PyCapsule" else None
    if name not in (NEW, OLD):
        was = "was used before" if name in (USED_NEW, USED_OLD) else f"is a {type(capsule).__name__} named {name!r}"
        raise ValueError(f"this is no DLPack capsule that can be used: it {was}; ask its tensor for a new one")
    layout = ManagedVersioned if name == NEW else Managed
    managed = layout.from_address(_pointer(capsule, name))
    _rename(capsule, USED_NEW if name == NEW else USED_OLD)
    return Foreign(managed)


def _dtype(found: DLTensor) -> DType:
    """Return our dtype of their elements. Raises DTypeError where there is none."""
    kind = KINDS.get(found.code, "")
    for dtype in (*dtypes.all, *dtypes.fp8s, *dtypes.complexes):
        if (_kind(dtype), dtype.itemsize * 8, 1) == (kind, found.bits, found.lanes):
            return dtype
    raise DTypeError(f"no dtype here is DLPack's type {found.code} of {found.bits} bits in {found.lanes} lanes")


def _kind(dtype: DType) -> str:
    """Return the kind of a dtype as DLPack names it: bfloat16 and each fp8 type are kinds of their own."""
    return "bfloat" if dtype is dtypes.bfloat16 else dtype.name if dtype in dtypes.fp8s else dtype.kind


# Ours


class _Owner:
    """Memory as NumPy takes it over without reading it: by its address, and kept by this object."""

    def __init__(self, address: int, memory: object, dtype: DType, layout: StridedLayout) -> None:
        size, start = dtype.itemsize, address + layout.offset * dtype.itemsize
        self.memory = memory
        self.__array_interface__ = {
            "version": 3, "shape": layout.shape, "strides": tuple([stride * size for stride in layout.strides]),
            "typestr": f"<c{size}" if size == 16 else f"<u{size}", "data": (start if address else 0, False),
        }  # fmt: skip


def make(view: memoryview, dtype: DType, layout: StridedLayout, versioned: bool) -> object:
    """Return a capsule of elements in the bytes of `view`, which stay live until the consumer calls the deleter.

    `layout` is in elements; `versioned` makes a capsule of DLPack 1.
    """
    address = ctypes.addressof(ctypes.c_char.from_buffer(view)) if view.nbytes else 0
    return _made((HOST, 0), address, view, dtype, layout, versioned)


def make_on(device: tuple[int, int], lent: Lent, dtype: DType, layout: StridedLayout, versioned: bool) -> object:
    """Return a capsule of elements in the memory of a device, which stays the consumer's until it calls the deleter.

    `device` are DLPack's two numbers of it, `lent` has the address and what keeps it.
    """
    return _made(device, lent.address, lent, dtype, layout, versioned)


def _made(
    device: tuple[int, int], address: int, memory: object, dtype: DType, layout: StridedLayout, versioned: bool
) -> object:
    """A capsule that NumPy made, with our device and dtype written over its own.

    Its deleter and its destructor have to be compiled code, as NumPy's are: a consumer calls them at any moment, also
    while an exception is on its way, which a function of Python that ctypes calls would destroy.
    """
    import numpy as np

    is_empty = 0 in layout.shape
    array = np.asarray(_Owner(0 if is_empty else address, memory, dtype, layout))
    knows_versions = np.lib.NumpyVersion(np.__version__) >= "2.1.0"
    capsule = array.__dlpack__(max_version=(1, 0)) if versioned and knows_versions else array.__dlpack__()
    name = _name(capsule)
    tensor = (ManagedVersioned if name == NEW else Managed).from_address(_pointer(capsule, name)).tensor
    (tensor.device_type, tensor.device_id), tensor.lanes = device, 1
    tensor.code, tensor.bits = CODES[_kind(dtype)], dtype.itemsize * 8
    if is_empty:
        tensor.data = None
    return capsule
