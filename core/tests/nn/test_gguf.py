"""GGUF files: every type of blocks equal to the package gguf bit for bit, metadata, and files that lie."""

from __future__ import annotations

import os
import resource
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gguf import GGMLQuantizationType, GGUFWriter, quants

from tinygraft import Tensor
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.nn.ggufblocks import BLOCKS
from tinygraft.nn.state import gguf_load

RNG = np.random.default_rng(5)


def some_blocks(kind: GGMLQuantizationType, count: int) -> np.ndarray:
    """Random bytes whose scales are finite and neither large nor tiny."""
    block = BLOCKS[kind.value]
    found = RNG.integers(0, 256, (count, block.nbytes), dtype=np.uint8)
    places = {"Q4_1": [0, 2], "Q5_1": [0, 2], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2],
              "Q6_K": [208], "TQ1_0": [52], "TQ2_0": [64], "MXFP4": [], "NVFP4": [], "IQ1_M": []}  # fmt: skip
    for place in places.get(kind.name, [0]):
        found[:, place : place + 2] = RNG.normal(size=(count, 1)).astype(np.float16).view(np.uint8)
    if kind.name == "IQ1_M":
        found[:, 55] = found[:, 55] & 0x0F | 0x30  # the upper bits of the scale
    return found


def written(path: Path, tensors: dict[str, tuple[np.ndarray, GGMLQuantizationType | None]], **metadata: Any) -> Path:
    """A GGUF file."""
    writer = GGUFWriter(path, "tested")
    for key, value in metadata.items():
        name = key.replace("__", ".")
        (writer.add_array if isinstance(value, list) else writer.add_string)(name, value)
    for name, (array, kind) in tensors.items():
        writer.add_tensor(name, array, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize("kind", [k for k in GGMLQuantizationType if k in quants._type_traits and k.name != "BF16"],
                         ids=lambda k: k.name)  # fmt: skip
def test_each_type_is_equal_bit_for_bit(kind: GGMLQuantizationType, tmp_path: Path) -> None:
    """All types that the package dequantises, on random blocks."""
    block = BLOCKS[kind.value]
    rows = some_blocks(kind, 6).reshape(2, 3 * block.nbytes)
    path = written(tmp_path / "m.gguf", {"w": (rows, kind)})
    _, tensors = gguf_load(path)
    expected = quants.dequantize(rows, kind).astype(np.float32)
    found = tensors["w"].numpy()
    assert found.dtype == np.float32 and found.shape == (2, 3 * block.length)
    assert np.isfinite(expected).all()
    assert (found.view(np.uint32) == expected.view(np.uint32)).all()


def test_plain_types_keep_their_dtype_and_are_read_when_they_are_needed(tmp_path: Path) -> None:
    """In NumPy's order of axes."""
    arrays = {name: RNG.integers(0, 100, (2, 32)).astype(name) for name in
              ("float32", "float16", "float64", "int8", "int16", "int32", "int64")}  # fmt: skip
    path = written(tmp_path / "m.gguf", {name: (array, None) for name, array in arrays.items()})
    _, tensors = gguf_load(path)
    assert list(tensors) == list(arrays)
    for name, array in arrays.items():
        assert tensors[name].uop.base.realized is None
        found = tensors[name].numpy()
        assert found.dtype == array.dtype and (found == array).all()


def test_bfloat16_is_bfloat16(tmp_path: Path) -> None:
    """With the same bits."""
    bits = RNG.integers(0, 0x7F00, (2, 32), dtype=np.uint16)
    path = written(tmp_path / "m.gguf", {"w": (bits.view(np.uint8), GGMLQuantizationType.BF16)})
    found = gguf_load(path)[1]["w"]
    assert (found.float().numpy().view(np.uint32) >> 16 == bits).all()


def test_metadata_is_python_values(tmp_path: Path) -> None:
    """Text, numbers, and lists of them."""
    path = written(tmp_path / "m.gguf", {}, own__text="ä", own__list=[1, 2, 3], own__words=["a", "b"])
    metadata, tensors = gguf_load(path)
    assert tensors == {}
    assert metadata["general.architecture"] == "tested" and metadata["own.text"] == "ä"
    assert metadata["own.list"] == [1, 2, 3] and metadata["own.words"] == ["a", "b"]


def header(tensors: int, entries: int, rest: bytes = b"") -> bytes:
    """The bytes of a file."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, entries) + rest


def text(value: bytes) -> bytes:
    """Text with its length."""
    return struct.pack("<Q", len(value)) + value


def tensor(sizes: list[int], kind: int, start: int) -> bytes:
    """A tensor of the header."""
    return text(b"t") + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, start)


NESTED = text(b"k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9 + bytes(64)
HOSTILE = {
    "not one": (b"GGML" + bytes(60), "does not begin with GGUF"),
    "of PyTorch": (
        b"PK\x03\x04" + bytes(60),
        "does not begin with GGUF\n  hint: it is a zip archive; torch_load reads",
    ),
    "empty": (b"", "the header needs 4 bytes"),
    "tensors": (header(1 << 60, 0), "claims 1152921504606846976 tensors"),
    "entries": (header(0, 1 << 60), "claims 1152921504606846976 entries"),
    "text": (header(0, 1, struct.pack("<Q", 1 << 63) + bytes(40)), "claims 9223372036854775808 bytes of text"),
    "no UTF-8": (header(0, 1, text(b"\xff\xfe") + bytes(40)), "not UTF-8"),
    "array": (header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 4, 1 << 61)), "claims 2305843009213693952 numbers"),
    "nested": (header(0, 1, NESTED), "nested too deeply"),
    "type": (header(0, 1, text(b"k") + struct.pack("<I", 77) + bytes(16)), "unknown type 77"),
    "twice": (header(0, 2, (text(b"k") + struct.pack("<IB", 7, 1)) * 2 + bytes(16)), "has 'k' twice"),
    "axes": (header(1, 0, text(b"t") + struct.pack("<I", 5) + bytes(60)), "has 5 axes"),
    "product": (header(1, 0, tensor([1 << 62, 1 << 62], 0, 0)), "too many elements"),
    "end": (header(1, 0, tensor([64], 0, 32)), "needs bytes 96 to 352"),
    "offset": (header(1, 0, tensor([1], 0, 1 << 62) + bytes(64)), "the file has"),
    "unaligned": (header(1, 0, tensor([1], 0, 3) + bytes(64)), "at a multiple of 32"),
    "blocks": (header(1, 0, tensor([33], 2, 0) + bytes(640)), "no whole blocks of 32"),
    "alignment 0": (header(0, 1, text(b"general.alignment") + struct.pack("<II", 4, 0)), "alignment 0"),
    "alignment 3": (header(0, 1, text(b"general.alignment") + struct.pack("<II", 4, 3)), "alignment 3"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_file_that_lies_is_refused(name: str, tmp_path: Path) -> None:
    """Before anything is allocated."""
    data, why = HOSTILE[name]
    (tmp_path / "m.gguf").write_bytes(data)
    with pytest.raises(FileFormatError, match=why):
        gguf_load(tmp_path / "m.gguf")


HOLES = {
    "numbers": header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 0, 1 << 36)),
    "text": header(0, 1, struct.pack("<Q", 1 << 36)),
    "texts": header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 8, 1 << 36)),
    "lists": header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 9, 1 << 32)),
    "both": header(0, 1, text(b"k") + struct.pack("<IIQIQ", 9, 9, 2, 8, 1 << 21)),
    "entries": header(0, 1 << 34),
    "tensors": header(1 << 34, 0),
}
# within what is read of a header: 64 MiB of numbers took 1.1 GB as a list, and entries of 19 bytes 40 s
HOLES |= {
    "bytes": header(0, 1, text(b"k") + struct.pack("<IIQ", 9, 0, (1 << 26) - 100)),
    "floats": header(0, 2, text(b"k") + struct.pack("<IIQ", 9, 6, 1 << 22) + bytes(1 << 24)
                     + text(b"l") + struct.pack("<IIQ", 9, 6, 1)),
    "many": header(0, 70_000),
}  # fmt: skip


@pytest.mark.parametrize("name", HOLES)
def test_a_file_of_holes_takes_no_memory(name: str, tmp_path: Path) -> None:
    """It is a terabyte long and takes 4 KiB on the disk: every count in it is within the file."""
    path = tmp_path / "m.gguf"
    path.write_bytes(HOLES[name])
    os.truncate(path, 1 << 40)
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    with pytest.raises(FileFormatError, match=r"at most (67108864|2097152|4194304|65536|262144) are read"):
        gguf_load(path)
    assert time.process_time() - start < 5
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 19  # KiB


def test_other_versions_and_types_are_named(tmp_path: Path) -> None:
    """A version when the file is opened, a type when its tensor is read."""
    path = tmp_path / "m.gguf"
    for version, why in ((1, "version 1, not read here"), (3 << 24, "of the other byte order")):
        path.write_bytes(b"GGUF" + struct.pack("<IQQ", version, 0, 0))
        with pytest.raises(UnsupportedError, match=why):
            gguf_load(path)
    path.write_bytes(header(1, 0, tensor([256], 15, 0) + bytes(640)))
    with pytest.raises(UnsupportedError, match=r"the tensor 't' has blocks of the type 15 \(Q8_K\), not read here"):
        gguf_load(path)[1]["t"]


def test_a_file_cut_short_is_an_error_at_every_length(tmp_path: Path) -> None:
    """Never something else."""
    path = written(tmp_path / "m.gguf", {"w": (np.ones((2, 4), np.float32), None)}, own__list=[1, 2])
    whole = path.read_bytes()
    for length in range(0, len(whole) - 32, 3):
        path.write_bytes(whole[:length])
        with pytest.raises(FileFormatError):
            gguf_load(path)


def test_a_tensor_over_a_file_is_the_file(tmp_path: Path) -> None:
    """tinygrad's scripts read Tensor(Path(...)); what is not such a tensor is refused."""
    path = tmp_path / "x.gguf"
    path.write_bytes(header(0, 0))
    assert gguf_load(Tensor(path)) == gguf_load(path)
    with pytest.raises(DTypeError, match=r"gguf_load reads a file in parts: give its path, or Tensor\(Path\(path\)\)"):
        gguf_load(Tensor([1, 2]))
