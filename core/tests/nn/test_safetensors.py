"""nn.safetensors: what is written can be read by all, and a bad file is refused before anything is allocated."""

# ruff: noqa: E501 - the table of bad files has one line for each

from __future__ import annotations

import json
import os
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors

from tinygraft import Tensor
from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.nn.state import safe_load, safe_load_metadata, safe_save

NAMES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16", "BF16": "bfloat16",
         "I32": "int32", "U32": "uint32", "F32": "float32", "F64": "float64", "I64": "int64", "U64": "uint64"}  # fmt: skip


def file_of(header: Any, data: bytes = b"") -> bytes:
    """A file with that header (JSON, or the text itself) and data."""
    text = header.encode() if isinstance(header, str) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def entry(dtype: Any = "U8", shape: Any = (2,), offsets: Any = (0, 2)) -> dict[str, Any]:
    """One line of a header."""
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def bits(name: str, count: int = 6) -> bytes:
    """Some bytes of a dtype: every bit pattern for bool is 0 or 1, for the others anything."""
    size = getattr(dtypes, name).itemsize
    random = np.random.RandomState(len(name))
    return bytes(random.randint(0, 2 if name == "bool" else 256, count * size, dtype=np.uint8))


def package_file(tensors: dict[str, tuple[str, list[int], bytes]], metadata: dict[str, str] | None = None) -> bytes:
    """The file that the safetensors package makes of {name: (dtype, shape, bytes)}."""
    arrays = {name: np.frombuffer(data, np.uint8) for name, (_, _, data) in tensors.items()}
    specs = {
        name: safetensors.TensorSpec(dtype=dtype, shape=shape, data_ptr=arrays[name].ctypes.data, data_len=len(data))
        for name, (dtype, shape, data) in tensors.items()
    }
    return bytes(safetensors.serialize(specs, metadata))


def all_tensors() -> dict[str, Tensor]:
    """A tensor (2, 3) of each dtype."""
    return {f"t.{name}": Tensor(bits(name), dtype=getattr(dtypes, name)).reshape(2, 3) for name in NAMES.values()}


def test_the_package_reads_what_is_written(tmp_path: Path) -> None:
    """All 13 dtypes, scalars and empty tensors: name, dtype, shape and every bit."""
    tensors = all_tensors() | {"scalar": Tensor(7), "empty": Tensor.zeros(0, 3)}
    safe_save(tensors, tmp_path / "a.safetensors")
    found = dict(safetensors.deserialize((tmp_path / "a.safetensors").read_bytes()))
    assert found.keys() == tensors.keys()
    for name in NAMES.values():
        line = found[f"t.{name}"]
        assert (NAMES[line["dtype"]], line["shape"], bytes(line["data"])) == (name, [2, 3], bits(name))
    assert found["scalar"]["shape"] == []
    assert found["empty"]["shape"] == [0, 3]


def test_the_file_is_what_the_package_writes(tmp_path: Path) -> None:
    """Byte for byte, so that a file does not tell who wrote it."""
    safe_save(all_tensors(), tmp_path / "a.safetensors", {"format": "pt"})
    given = {f"t.{name}": (name, [2, 3], bits(name)) for name in NAMES.values()}
    assert (tmp_path / "a.safetensors").read_bytes() == package_file(given, {"format": "pt"})


def test_what_the_package_writes_is_read(tmp_path: Path) -> None:
    """All 13 dtypes, from a path and from bytes: dtype, shape and every bit."""
    given = {name: (name, [2, 3], bits(name)) for name in NAMES.values()}
    data = package_file(given, {"a": "b"})
    (tmp_path / "a.safetensors").write_bytes(data)
    for source in (tmp_path / "a.safetensors", str(tmp_path / "a.safetensors"), data, memoryview(data)):
        found = safe_load(source)
        assert found.keys() == given.keys()
        for name, tensor in found.items():
            assert (tensor.dtype, tensor.shape) == (getattr(dtypes, name), (2, 3))
        assert safe_load_metadata(source) == {"a": "b"}
    safe_save(found, tmp_path / "b.safetensors", {"a": "b"})
    assert (tmp_path / "b.safetensors").read_bytes() == data


def test_saving_over_the_file_that_was_loaded(tmp_path: Path) -> None:
    """Tensors loaded from a file and changed can be saved to it, also when its layout changes."""
    path = tmp_path / "a.safetensors"
    safe_save({"a": Tensor([1, 2]), "b": Tensor([3.0, 4.0])}, path)
    loaded = safe_load(path)
    safe_save({"z": loaded["b"], "a": loaded["a"] + 1, "new": Tensor([True])}, path)
    again = safe_load(path)
    assert {name: tensor.tolist() for name, tensor in again.items()} == {"z": [3, 4], "a": [2, 3], "new": [True]}


def test_views_and_expressions_are_saved_as_their_values(tmp_path: Path) -> None:
    """What is written is row-major, whatever the tensor was made of."""
    base = Tensor([[1, 2, 3], [4, 5, 6]])
    safe_save({"t": base.transpose(), "flip": base.flip(1), "one": base[1:, ::2]}, tmp_path / "a.safetensors")
    found = safe_load(tmp_path / "a.safetensors")
    assert found["t"].tolist() == [[1, 4], [2, 5], [3, 6]]
    assert found["flip"].tolist() == [[3, 2, 1], [6, 5, 4]]
    assert found["one"].tolist() == [[4, 6]]


def test_no_tensors_and_no_metadata(tmp_path: Path) -> None:
    """An empty dict is a file of its own, and a file without metadata has none."""
    safe_save({}, tmp_path / "a.safetensors")
    assert safe_load(tmp_path / "a.safetensors") == {}
    assert safe_load_metadata(tmp_path / "a.safetensors") == {}


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk is full in the middle, the old file is whole and no other is left."""
    path = tmp_path / "a.safetensors"
    safe_save({"a": Tensor([1, 2])}, path)
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        safe_save({"a": Tensor([3, 4, 5])}, path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["a.safetensors"]


DEEP = '{"a":' * 100_000

BAD = {
    "short": (b"\0" * 7, "<bytes>: a safetensors file starts with 8 bytes for the header's length, this has 7"),
    "length 0": (file_of(""), "<bytes>: the header must be a JSON object, it starts with b''"),
    "length 2**62": (struct.pack("<Q", 2**62) + b"{}", f"<bytes>: the header claims {2**62} bytes, the format allows 100000000"),
    "over 100 MB": (struct.pack("<Q", 100_000_001), "<bytes>: the header claims 100000001 bytes, the format allows 100000000"),
    "longer than the file": (struct.pack("<Q", 9) + b"{}", "<bytes>: the header claims 9 bytes, the file has 2 after its length"),
    "no JSON": (file_of("{nonsense"), "<bytes>: the header is not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
    "no text": (file_of("{}")[:-2] + b"{\xff", "<bytes>: the header is not JSON: 'utf-8' codec can't decode byte 0xff in position 1: invalid start byte"),
    "NaN": (file_of('{"a": NaN}'), "<bytes>: the header is not JSON: NaN is no JSON"),
    "a list": (file_of("[]"), "<bytes>: the header must be a JSON object, it starts with b'[]'"),
    "deep": (file_of(DEEP), "<bytes>: the header is nested too deeply to be a list of tensors"),
    "twice": (file_of('{"a": 1, "a": 2}'), "<bytes>: the header has the key 'a' twice"),
    "metadata number": (file_of({"__metadata__": {"epoch": 3}}), "<bytes>: __metadata__ must map text to text, 'epoch' is 3"),
    "metadata list": (file_of({"__metadata__": []}), "<bytes>: __metadata__ must map text to text, it is []"),
    "no shape": (file_of({"a": {"dtype": "U8"}}), "<bytes>: tensor 'a' must have dtype, shape and data_offsets, it has ['dtype']"),
    "not an entry": (file_of({"a": 3}), "<bytes>: tensor 'a' must have dtype, shape and data_offsets, it has 3"),
    "dtype": (file_of({"a": entry("U9")}), "<bytes>: tensor 'a' has the unknown dtype 'U9'"),
    "dtype list": (file_of({"a": entry(["U8"])}), "<bytes>: tensor 'a' has the unknown dtype ['U8']"),
    "negative": (file_of({"a": entry(shape=[-1, -2])}), "<bytes>: tensor 'a' has the shape [-1, -2]; sizes are integers from 0"),
    "true": (file_of({"a": entry(shape=[True])}), "<bytes>: tensor 'a' has the shape [True]; sizes are integers from 0"),
    "overflow": (file_of({"a": entry(shape=[2**64])}), f"<bytes>: tensor 'a' has the shape [{2**64}]; sizes are integers from 0"),
    "float": (file_of({"a": entry(shape=[2.0])}), "<bytes>: tensor 'a' has the shape [2.0]; sizes are integers from 0"),
    "offsets": (file_of({"a": entry(offsets=[2, 0])}), "<bytes>: tensor 'a' has the data_offsets [2, 0], not [start, end]"),
    "one offset": (file_of({"a": entry(offsets=[2])}), "<bytes>: tensor 'a' has the data_offsets [2], not [start, end]"),
    "size": (file_of({"a": entry("F32", [2, 3], [0, 20])}, b"x" * 20), "<bytes>: tensor 'a' of F32 and shape (2, 3) needs 24 bytes, its offsets [0, 20] hold 20"),
    "huge": (file_of({"a": entry("F32", [2**40, 2**40], [0, 4])}, b"abcd"), f"<bytes>: tensor 'a' of F32 and shape ({2**40}, {2**40}) needs {2**82} bytes, its offsets [0, 4] hold 4"),
    "truncated": (file_of({"a": entry()}, b"x"), "<bytes>: tensor 'a' needs bytes 0 to 2, the file has 1 of data; it was cut short or the header is wrong"),
    "trailing": (file_of({"a": entry()}, b"xyz"), "<bytes>: the tensors take 2 bytes, the file has 3: 1 too many"),
    "overlap": (file_of({"a": entry(), "b": entry(offsets=[1, 3])}, b"xyz"), "<bytes>: tensor 'b' overlaps 'a': it starts at byte 1, expected 2"),
    "hole": (file_of({"a": entry(), "b": entry(offsets=[3, 5])}, b"vwxyz"), "<bytes>: tensor 'b' leaves a hole after 'a': it starts at byte 3, expected 2"),
    "hole at the start": (file_of({"a": entry(offsets=[1, 3])}, b"xyz"), "<bytes>: tensor 'a' leaves a hole after the header: it starts at byte 1, expected 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_a_bad_file_is_refused_by_its_header(case: str) -> None:
    """Each lie, by its own sentence; no tensor is made."""
    data, message = BAD[case]
    with pytest.raises(FileFormatError) as caught:
        safe_load(data)
    assert str(caught.value) == message
    if case not in ("truncated", "trailing"):  # which metadata alone could not tell
        with pytest.raises(FileFormatError):
            safe_load_metadata(data)


def test_the_error_names_the_file(tmp_path: Path) -> None:
    """A file cut short is named, with the tensor and both sizes."""
    path = tmp_path / "cut.safetensors"
    safe_save({"weight": Tensor([1.0, 2.0])}, path)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(FileFormatError, match=r"cut\.safetensors: tensor 'weight' needs bytes 0 to 8, the file has 5"):
        safe_load(path)


def test_every_cut_and_every_flipped_byte_is_refused_or_harmless() -> None:
    """A file cut anywhere is refused; one changed byte gives an error of ours or the same names' worth of data."""
    data = package_file({"a": ("uint8", [4], b"abcd")})
    for length in range(len(data)):
        with pytest.raises(FileFormatError):
            safe_load(data[:length])
    header = len(data) - 4
    for place in range(header):
        changed = bytearray(data)
        changed[place] ^= 0x15
        try:
            found = safe_load(changed)
        except (FileFormatError, UnsupportedError):
            continue
        assert [tensor.shape for tensor in found.values()] == [(4,)]


def test_a_dtype_that_is_not_ours_is_no_corruption() -> None:
    """Scales without a mantissa are a sound file that we cannot hold, and says so."""
    with pytest.raises(UnsupportedError, match="tensor 'a' is F8_E8M0, which tinygraft has no dtype for"):
        safe_load(file_of({"a": entry("F8_E8M0")}, b"ab"))


def test_many_tensors_are_checked_quickly() -> None:
    """A header of 100,000 tensors is read in one pass."""
    header = {f"t{i}": entry(shape=[1], offsets=[i, i + 1]) for i in range(100_000)}
    assert safe_load_metadata(file_of(header, bytes(100_000))) == {}


@pytest.mark.parametrize(
    ("tensors", "metadata", "error", "message"),
    [
        ({"__metadata__": Tensor([1])}, None, FileFormatError, "cannot be named '__metadata__'"),
        ({3: Tensor([1])}, None, FileFormatError, "cannot be named 3; names are text"),
        ({"a": [1.0]}, None, DTypeError, r"safe_save writes tensors, 'a' is list; hint: Tensor\(value\)"),
        ({}, {"epoch": 3}, DTypeError, r"safetensors metadata is text by text, 'epoch' is 3; hint: str\(3\)"),
    ],
)
def test_a_bad_request_writes_nothing(
    tmp_path: Path, tensors: Any, metadata: Any, error: type[Exception], message: str
) -> None:
    """What cannot be saved is said before a file is made."""
    with pytest.raises(error, match=message):
        safe_save(tensors, tmp_path / "a.safetensors", metadata)
    assert os.listdir(tmp_path) == []


def test_odd_names_survive(tmp_path: Path) -> None:
    """Names with quotes, newlines, non-Latin letters and none at all come back as they were."""
    names = ['a"b', "a\nb", "Größe", "重み", "", "a" * 10_000]
    safe_save({name: Tensor([1]) for name in names}, tmp_path / "a.safetensors")
    assert sorted(safe_load(tmp_path / "a.safetensors")) == sorted(names)
    assert sorted(name for name, _ in safetensors.deserialize((tmp_path / "a.safetensors").read_bytes())) == sorted(
        names
    )


@pytest.mark.parametrize(
    ("start", "hint"),
    [
        (b"PK\x03\x04", "it is a zip archive; torch_load reads files of PyTorch, npz_load those of NumPy"),
        (b"\x80\x02\x8a\x0a", "it is a pickle; torch_load reads files of PyTorch"),
        (b"GGUF", "gguf_load reads it"),
    ],
)
def test_files_of_other_formats_are_known(start: bytes, hint: str) -> None:
    """By their first bytes; the error says what reads them."""
    with pytest.raises(FileFormatError) as caught:
        safe_load(start + b"\x77" * 60)
    assert str(caught.value).endswith(f"bytes, the format allows 100000000\n  hint: {hint}")


def test_a_tensor_of_bytes_is_a_file(tmp_path: Path) -> None:
    """Tensor(Path(...)) as in tinygrad, which stays lazy, and bytes that are in memory."""
    path = tmp_path / "x.safetensors"
    safe_save({"a": Tensor([1.0, 2.0])}, path, {"who": "me"})
    for source in (Tensor(path), Tensor(path).realize(), Tensor(path.read_bytes())):
        assert safe_load(source)["a"].tolist() == [1.0, 2.0]
        assert safe_load_metadata(source) == {"who": "me"}
    with pytest.raises(DTypeError, match=r"a file is a line of bytes, got a tensor of dtypes.float and shape \(2,\)"):
        safe_load(Tensor([1.0, 2.0]))
