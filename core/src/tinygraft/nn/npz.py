"""NumPy's files: one array as .npy, several by name as .npz. Nothing in them is executed.

A path in, tensors out, and back. An array of objects is a pickle, and refused. Members that are not packed are not read
before they are needed.

Source: https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
"""

from __future__ import annotations

import ast
import struct
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

from tinygraft.dtype import DType, dtypes, part_of
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.files import replacing, text_of_path
from tinygraft.helpers import prod
from tinygraft.nn.archives import ZipFiles, as_bytes
from tinygraft.nn.lazily import LazyTensors
from tinygraft.nn.safetensors import FilePath
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

_MAGIC = b"\x93NUMPY"
_LONGEST = 1 << 16  # assumed: bytes of a header; one of a plain dtype has 128
_CODES: dict[str, DType] = {
    "b1": dtypes.bool, "i1": dtypes.int8, "i2": dtypes.int16, "i4": dtypes.int32, "i8": dtypes.int64,
    "u1": dtypes.uint8, "u2": dtypes.uint16, "u4": dtypes.uint32, "u8": dtypes.uint64, "f2": dtypes.float16,
    "f4": dtypes.float32, "f8": dtypes.float64, "c8": dtypes.complex64, "c16": dtypes.complex128,
}  # fmt: skip
_OF = {dtype: code for code, dtype in _CODES.items()}


def npz_save(tensors: Mapping[str, Any], path: FilePath, compressed: bool = False) -> None:
    """Write tensors to an .npz file, whole or not at all, that numpy.load reads. Works for NumPy's dtypes.

    `compressed` packs each. Raises DTypeError for a name that is no text, what is no tensor, or a dtype that NumPy does
    not have: cast bfloat16 and fp8 first.

    >>> import tempfile, os
    >>> from tinygraft import Tensor
    >>> path = os.path.join(tempfile.mkdtemp(), "small.npz")
    >>> npz_save({"a": Tensor([[1, 2]])}, path)
    >>> npz_load(path)["a"].tolist()
    [[1, 2]]
    """
    for name, tensor in tensors.items():
        if not isinstance(name, str):
            raise DTypeError(f"an .npz file has tensors by their names, which are text, got {name!r}")
        if not isinstance(tensor, Tensor) or tensor.dtype not in _OF:
            what = f"of {tensor.dtype}" if isinstance(tensor, Tensor) else type(tensor).__name__
            raise DTypeError(f"an .npz file has tensors of NumPy's dtypes, {name!r} is {what}; cast it first")
    how = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with replacing(path) as file, zipfile.ZipFile(file, "w", how, allowZip64=True) as archive:
        for name, tensor in tensors.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                array = tensor.numpy()
                member.write(_header(array.dtype.str, array.shape))
                member.write(array.tobytes())


def npz_load(path: FilePath, device: Place = None) -> dict[str, Tensor]:
    """Return the arrays of an .npz file as tensors by name, each made when it is first read; of an .npy file, "arr_0".

    Arrays keep their dtype, in either byte order and either order of axes; they are on `device`, None for the default.
    Raises FileFormatError for a file that is damaged or claims what it does not have, DTypeError for arrays of objects,
    which are pickles, of text or of records.
    """
    label = text_of_path(path)
    with open(path, "rb") as file:
        start = file.read(len(_MAGIC))
    if start == _MAGIC:
        whole = as_bytes(label)
        return LazyTensors(
            {"arr_0": whole.shape[0]}, lambda _, size: _array(lambda most: whole, size, label).to(device)
        )
    files = ZipFiles(as_bytes(label))

    def make(name: str, member: str) -> Tensor:
        size = files.names[member].file_size
        return _array(lambda most: files.tensor(member, most), size, f"{label}: {name!r}").to(device)

    return LazyTensors({member.removesuffix(".npy"): member for member in files.names}, make)


def _header(code: str, shape: tuple[int, ...]) -> bytes:
    """Return what is before the elements of an array, version 1.0, with padding so that they begin at a multiple of 64.

    `code` is NumPy's name of the dtype, such as "<f4".
    """
    text = f"{{'descr': '{code}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    text += b" " * (-(len(_MAGIC) + 5 + len(text)) % 64) + b"\n"
    return _MAGIC + b"\x01\x00" + struct.pack("<H", len(text)) + text


def _array(read: Callable[[int | None], Tensor], size: int, label: str) -> Tensor:
    """Return the array of a file of `size` bytes; the header says what it is before the rest is unpacked.

    `read(n)` gives the first n bytes as a uint8 tensor, `read(None)` all. Raises FileFormatError and DTypeError as
    npz_load.
    """
    front = bytes(read(min(size, 12))[: min(size, 12)].data())
    if front[:6] != _MAGIC or len(front) < 10 or front[6] not in (1, 2, 3):
        raise FileFormatError(f"{label} is no array of NumPy: it does not begin as one")
    wide = front[6] > 1
    if wide and len(front) < 12:
        raise FileFormatError(f"{label} is cut short in its header")
    length = struct.unpack("<I" if wide else "<H", front[8 : 12 if wide else 10])[0]
    begin = (12 if wide else 10) + length
    if length > _LONGEST or begin > size:
        raise FileFormatError(f"{label} claims a header of {length} bytes, and has {size}")
    code, fortran, shape = _described(bytes(read(begin)[begin - length : begin].data()), label)
    dtype = _CODES[code[1:]]
    expected = prod(shape) * dtype.itemsize
    if size - begin != expected:
        raise FileFormatError(f"{label} of {dtype} and shape {shape} needs {expected} bytes, it has {size - begin}")
    found = _typed(read(None)[begin:], dtype, code[0] == ">")
    return found.reshape(shape[::-1]).permute(tuple(range(len(shape)))[::-1]) if fortran else found.reshape(shape)


def _described(text: bytes, label: str) -> tuple[str, bool, tuple[int, ...]]:
    """Return the dtype's code, whether axes are in Fortran's order, and the shape that a header says.

    Nothing in it is evaluated but literals. Raises FileFormatError for what is none, DTypeError for another dtype.
    """
    try:
        found = ast.literal_eval(text.decode("utf-8").strip())
        code, fortran, shape = found["descr"], found["fortran_order"], found["shape"]
    except (ValueError, SyntaxError, TypeError, KeyError, RecursionError, MemoryError) as error:
        raise FileFormatError(f"{label} has a header that cannot be read: {type(error).__name__}") from None
    if not isinstance(code, str) or code[1:] not in _CODES or code[0] not in "<>|=":
        raise DTypeError(f"{label} has elements {code!r}; objects would be executed, text and records are no tensors")
    if type(fortran) is not bool or not isinstance(shape, tuple) or not all(type(n) is int and n >= 0 for n in shape):
        raise FileFormatError(f"{label} has the shape {shape!r}; sizes are integers from 0")
    return code, fortran, shape


def _typed(data: Tensor, dtype: DType, swapped: bool) -> Tensor:
    """Return uint8 bytes as the elements of a dtype, one axis; `swapped` says that they are big endian."""
    part = part_of(dtype)
    if dtype is dtypes.bool:
        return data != 0
    if swapped and part.itemsize > 1:
        data = data.reshape(-1, part.itemsize).flip(1).reshape(-1)
    found = data.bitcast(part)
    return found.reshape(-1, 2).view_as_complex() if dtype.kind == "complex" else found
