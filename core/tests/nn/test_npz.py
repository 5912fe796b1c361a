"""NumPy's files, read and written, and files that lie."""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.nn.state import npz_load, npz_save

RNG = np.random.default_rng(1)
NAMES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
         "float64", "complex64", "complex128"]  # fmt: skip


def array(name: str, shape: tuple[int, ...]) -> np.ndarray:
    """Some numbers of a dtype."""
    found = RNG.integers(0, 100, shape).astype(name)
    return found + 1j * (found + 1) if name.startswith("complex") else found


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed], ids=["plain", "packed"])
def test_every_dtype_order_and_shape_is_read(tmp_path: Path, save: Any) -> None:
    """As numpy.load reads it."""
    arrays = {f"{name}.{shape}": array(name, shape) for name in NAMES for shape in ((), (3,), (2, 3), (0, 2))}
    arrays["fortran"] = np.asfortranarray(array("float32", (2, 3, 4)))
    arrays["big"] = array("float32", (2, 3)).astype(">f4")
    arrays["big16"] = array("complex64", (2, 3)).astype(">c8")
    save(tmp_path / "m.npz", **arrays)
    found = npz_load(tmp_path / "m.npz")
    assert list(found) == list(arrays)
    for name, expected in arrays.items():
        got = found[name].numpy()
        assert got.dtype == expected.dtype.newbyteorder("=") and got.shape == expected.shape, name
        assert (got == expected).all(), name


def test_one_array_is_read(tmp_path: Path) -> None:
    """Under the name that numpy gives an array without one."""
    np.save(tmp_path / "m.npy", np.arange(6).reshape(2, 3))
    assert npz_load(str(tmp_path / "m.npy"))["arr_0"].tolist() == [[0, 1, 2], [3, 4, 5]]


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_written_is_read_by_numpy(tmp_path: Path, compressed: bool) -> None:
    """Without pickles."""
    arrays = {name: array(name, (2, 3)) for name in NAMES} | {"none": array("int32", (0, 2)), "one": array("int8", ())}
    npz_save({name: Tensor(each) for name, each in arrays.items()}, tmp_path / "m.npz", compressed)
    with np.load(tmp_path / "m.npz", allow_pickle=False) as found:
        for name, expected in arrays.items():
            assert found[name].dtype == expected.dtype and (found[name] == expected).all()


def test_what_numpy_does_not_have_is_refused(tmp_path: Path) -> None:
    """Before anything is written."""
    with pytest.raises(DTypeError, match="'b' is of dtypes.bfloat16; cast it first"):
        npz_save({"a": Tensor([1]), "b": Tensor([1.0], dtype=dtypes.bfloat16)}, tmp_path / "m.npz")
    with pytest.raises(DTypeError, match="'c' is list"):
        npz_save({"c": [1]}, tmp_path / "m.npz")
    with pytest.raises(DTypeError, match="by their names, which are text, got 3"):
        npz_save({3: Tensor([1])}, tmp_path / "m.npz")  # type: ignore[dict-item]
    assert not (tmp_path / "m.npz").exists()


class Bomb:
    """What would be executed."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (pytest.fail, ("executed",))


def test_arrays_of_objects_text_and_records_are_refused(tmp_path: Path) -> None:
    """Objects are pickles, which are not read."""
    objects = np.empty(1, object)
    objects[0] = Bomb()
    np.savez(tmp_path / "m.npz", objects=objects, text=np.array(["a"]), time=np.array(["2026-01-01"], "datetime64[D]"),
             record=np.zeros(2, [("a", "i4")]), fine=np.ones(2))  # fmt: skip
    found = npz_load(tmp_path / "m.npz")
    for name in ("objects", "text", "time", "record"):
        with pytest.raises(DTypeError, match="has elements"):
            found[name]
    assert found["fine"].tolist() == [1.0, 1.0]
    assert pickle.dumps(1)


def npy(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An array with any header."""
    text = header.encode()
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(text)) + text + data


HOSTILE = {
    "no array": (b"hello, this is text", "is no array of NumPy"),
    "short": (b"\x93NUM", "is no array of NumPy"),
    "header": (b"\x93NUMPY\x01\x00\xff\xff{", "claims a header of 65535 bytes"),
    "wide header": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{", "claims a header of 4294967295 bytes"),
    "call": (npy("__import__('os').system('true')"), "header that cannot be read"),
    "deep": (npy("(" * 20000), "header that cannot be read"),
    "no keys": (npy("{}"), "header that cannot be read"),
    "sizes": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "sizes are integers from 0"),
    "huge": (
        npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1<<62,)}".replace("1<<62", str(1 << 62))),
        "needs",
    ),
    "long": (npy("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}", bytes(400)), "needs 4 bytes, it has 400"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_member_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    """Before anything is allocated."""
    data, why = HOSTILE[name]
    with zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.npy", data)
    with pytest.raises(FileFormatError, match=why):
        npz_load(tmp_path / "m.npz")["a"]


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    """What a member claims is compared with its header first."""
    with (
        zipfile.ZipFile(tmp_path / "m.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("a.npy", "w") as member,
    ):
        member.write(npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4,)}"))
        for _ in range(64):
            member.write(bytes(1 << 20))
    with pytest.raises(FileFormatError, match="needs 4 bytes, it has 67108864"):
        npz_load(tmp_path / "m.npz")["a"]


def test_a_file_that_is_no_archive_is_refused(tmp_path: Path) -> None:
    """At any length of one that was cut."""
    stream = io.BytesIO()
    np.savez(stream, a=np.arange(10))
    for length in range(0, len(stream.getvalue()) - 1, 7):
        (tmp_path / "m.npz").write_bytes(stream.getvalue()[:length])
        with pytest.raises(FileFormatError):
            npz_load(tmp_path / "m.npz")["a"]
