"""Finding 3.2: files that are damaged, or that lie about what they have, give errors of ours and take little memory.

Files of PyTorch, safetensors, tar and zip archives.
"""

from __future__ import annotations

import gc
import gzip
import io
import pickle
import random
import struct
import sys
import tarfile
import threading
import tracemalloc
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, files
from tinygraft.errors import FileFormatError, TinygraftError, UnsupportedError
from tinygraft.nn import safetensors, torchfile
from tinygraft.nn.state import safe_load, safe_load_metadata, safe_save, tar_extract, torch_load, zip_extract
from torch_files import tensor_of, torch_file

pytestmark = pytest.mark.slow


def torch_value() -> Any:
    """Something of each kind that files of PyTorch have."""
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    return {
        "model": model.state_dict(), "optimizer": torch.optim.Adam(model.parameters()).state_dict(),
        "view": torch.arange(24.0).reshape(4, 6).T[1:3], "conj": torch.tensor([1 + 2j]).conj(),
        "bytes": torch.zeros(3, dtype=torch.uint16), "parameter": torch.nn.Parameter(torch.ones(2)),
        "repeated": torch.ones(1, 3).expand(4, 3), "bool": torch.tensor([True, False]), "dtype": torch.float32,
        "others": [1, 2.5, None, "text", (3,)],
    }  # fmt: skip


def archive(kind: str, path: Path) -> Callable[[Path], Any]:
    """A file of some kind, and what reads it."""
    noise = random.Random(1).randbytes(600)
    if kind in ("pth", "older pth"):
        pytest.importorskip("torch").save(torch_value(), path, _use_new_zipfile_serialization=kind == "pth")
        return torch_load
    if kind == "safetensors":
        tensors = {"a": Tensor.arange(6).reshape(2, 3), "b": Tensor([1.5]), "c": Tensor([True])}
        safe_save(tensors, path, {"format": "pt"})
        return safe_load
    if kind.startswith("tar"):
        with tarfile.open(path, kind.replace("tar", "w")) as tar:  # type: ignore[call-overload]
            for name, content in (("a", b"x" * 100), ("b" * 150, noise)):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
        return tar_extract
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("a", noise)
        packed.writestr(zipfile.ZipInfo("b"), b"x" * 300)
    return zip_extract


def tensors_in(value: Any) -> Iterator[Tensor]:
    """The tensors in nested dicts and lists."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (dict, list, tuple)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from tensors_in(item)


def damaged(data: bytes, rng: random.Random) -> bytes:
    """data with a few other bytes, or shorter."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        place = rng.randrange(len(found))
        found[place] = rng.randrange(256) if rng.random() < 0.5 else found[place] ^ (1 << rng.randrange(8))
    return bytes(found[: rng.randrange(len(found))] if rng.random() < 0.05 else found)


def fuzz(kind: str, path: Path, rounds: int, seed: int) -> None:
    """Damaged files, read and their tensors too, give an error of ours or a value."""
    read = archive(kind, path)
    whole, rng = path.read_bytes(), random.Random(seed)
    outcomes = {"value": 0, "error": 0}
    for number in range(rounds):
        content = damaged(whole, rng)
        path.write_bytes(content)
        try:
            for tensor in tensors_in(read(path)):
                tensor.numpy()
            outcomes["value"] += 1
        except TinygraftError:
            outcomes["error"] += 1
        except Exception as error:
            pytest.fail(f"round {number} of seed {seed}: {type(error).__name__}: {error}")
    assert outcomes["error"] > rounds // 50
    assert outcomes["value"] > rounds // 50 or kind == "tar:xz"  # which has a checksum of everything


KINDS = ["pth", "older pth", "safetensors", "tar:", "tar:gz", "tar:xz", "tar:bz2", "zip"]


@pytest.fixture
def no_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are opened without waiting for the clock of the file system to tick."""
    monkeypatch.setattr(files, "_TICK", 0.0)


@pytest.mark.parametrize("kind", KINDS)
def test_3_2_damaged_files_give_errors_of_ours(tmp_path: Path, no_wait: None, kind: str) -> None:
    """A few dozen of each kind; the slow test has 20,000."""
    fuzz(kind, tmp_path / "file", 60, 12)


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_3_2_twenty_thousand_damaged_files(tmp_path: Path, no_wait: None, kind: str) -> None:
    """20,000 of each kind."""
    with Context(SPEC=0):  # what graphs look like is not the question here
        fuzz(kind, tmp_path / "file", 20_000, 2026)


def peak_of(call: Callable[[], Any]) -> int:
    """The most memory that Python had for a call."""
    gc.collect()
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_3_2_what_nobody_names_is_not_unpacked() -> None:
    """A small archive with a member of 64 MB of zeros: the pickle does not name it, so it costs nothing."""
    data = torch_file(tensor_of((4,), (1,)), bytes(16), compression=zipfile.ZIP_DEFLATED, bomb=bytes(64 << 20))
    assert data.shape[0] < 100_000
    found: list[Tensor] = []
    assert peak_of(lambda: found.append(torch_load(data))) < 1 << 20
    assert found[0].tolist() == [0.0] * 4


def test_3_2_a_packed_storage_is_unpacked_as_far_as_it_is_needed() -> None:
    """What the pickle names takes what the tensor takes, whatever else is in there."""
    data = torch_file(tensor_of((4,), (1,)), bytes(64 << 20), compression=zipfile.ZIP_DEFLATED)
    assert peak_of(lambda: torch_load(data).numpy()) < 4 << 20


def test_3_2_a_packed_pickle_is_no_larger_than_pickles_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pickle that is compressed may not be much larger than the archive."""
    monkeypatch.setattr(torchfile, "_LONGEST_PICKLE", 1 << 20)
    data = torch_file(b"\x80\2" + b"N0" * (1 << 20), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(
        FileFormatError, match=r"^'a/data.pkl' in this zip archive has 2097154 bytes, 1048576 are allowed"
    ):
        torch_load(data)


def tar_header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    """The header of a member of a tar archive that claims a size."""
    info = tarfile.TarInfo(name)
    info.type = kind
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    number = size.to_bytes(12, "big", signed=True)
    block[124:136] = number if size < 0 else b"\x80" + number[1:]
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


@pytest.mark.parametrize("size", [1 << 62, 1 << 40, 4 << 30, 5000, -512, -1, -(1 << 40)])
@pytest.mark.parametrize("kind", [tarfile.REGTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_3_2_a_tar_archive_with_a_lying_size(size: int, kind: bytes, pack: Callable[[bytes], bytes]) -> None:
    """A member, or a note of it, that claims more than there is takes no memory; less than nothing takes no time."""
    data = Tensor(pack(tar_header("a", size, kind) + b"b" * 512 + bytes(1024)))

    def read() -> None:
        with pytest.raises(FileFormatError):
            tar_extract(data)

    assert peak_of(read) < 4 << 20


def test_3_2_a_sparse_file_of_a_tar_archive() -> None:
    """A file with holes, whose content is not in the archive as it is, is refused; it read other bytes."""
    header = tar_header("a", 512, tarfile.GNUTYPE_SPARSE)
    with pytest.raises(
        UnsupportedError, match=r"^'a' in this tar archive is a sparse file, .*\n  hint: make the archive"
    ):
        tar_extract(Tensor(header + bytes(512) + bytes(1024)))


def header_of(count: int, order: Callable[[int], int] = lambda i: i, more: str = "") -> bytes:
    """A safetensors file of that many tensors of two floats, in some order."""
    entries = [
        f'"layer.{i}":{{"dtype":"F32","shape":[1,2],"data_offsets":[{8 * order(i)},{8 * order(i) + 8}]}}'
        for i in range(count)
    ]
    text = ("{" + more + ",".join(entries) + "}").encode()
    return struct.pack("<Q", len(text)) + text + np.arange(2 * count, dtype=np.float32).tobytes()


@pytest.mark.parametrize("more", ["", '"__metadata__": {"format": "pt"},'])
@pytest.mark.parametrize("order", [lambda i: i, lambda i: 19_999 - i], ids=["in order", "backwards"])
def test_3_2_a_header_of_many_tensors(order: Callable[[int], int], more: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No function is called for each tensor, and a tensor is made when it is asked for; each took 109 us."""
    data, calls = header_of(20_000, order, more), [0]

    def count(frame: object, event: str, argument: object) -> None:
        calls[0] += event == "call"

    sys.setprofile(count)
    try:
        found = safe_load(data)
    finally:
        sys.setprofile(None)
    assert len(found) == 20_000
    assert calls[0] < 200
    made: list[str] = []
    make = safetensors._from_bytes
    monkeypatch.setattr(safetensors, "_from_bytes", lambda *a: made.append(a[1].name) or make(*a))
    assert found["layer.7"].tolist() == [[2.0 * order(7), 2.0 * order(7) + 1]]
    assert found["layer.7"] is found["layer.7"]
    assert made == ["layer.7"]
    assert next(iter(found)) == f"layer.{order(0)}"


@pytest.mark.slow
@pytest.mark.long
def test_3_2_a_header_of_a_million_tensors(tmp_path: Path) -> None:
    """The format's largest header is read, and one of its tensors is right; memory is in proportion to the header."""
    (tmp_path / "a").write_bytes(header_of(1_000_000))
    found = safe_load(tmp_path / "a")
    assert found["layer.999999"].tolist() == [[1_999_998.0, 1_999_999.0]]


@pytest.mark.parametrize(
    "text",
    [
        '"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
        '"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}',
        '"a":{"dtype":"F32","\\u0064type":"F32","shape":[1],"data_offsets":[0,4]}',
        '"__metadata__":{"x":"1","x":"2"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
        '"__metadata__":{},"__metadata__":{"x":"1"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
        '"__metadata__":{"dtype":"1","dtype":"2"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}',
    ],
)
def test_3_2_a_key_that_is_given_twice(text: str) -> None:
    """Each of them is found, wherever it is and however it is spelt."""
    text = "{" + text + "}"
    data = struct.pack("<Q", len(text)) + text.encode() + bytes(4)
    with pytest.raises(FileFormatError, match=r"^<bytes>: the header has the key '\w+' twice$"):
        safe_load(data)


def test_3_2_words_of_the_format_as_names() -> None:
    """Tensors and metadata may be called like the format's own words."""
    tensors = {name: Tensor([float(i)]) for i, name in enumerate(("dtype", "shape", "data_offsets", 'a"\\', "é"))}
    path = io.BytesIO()
    names = {"dtype": "__metadata__", "é": "data_offsets"}
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        safe_save(tensors, f"{folder}/a", names)
        path.write(Path(folder, "a").read_bytes())
    found = safe_load(path.getvalue())
    assert {name: t.item() for name, t in found.items()} == {name: t.item() for name, t in tensors.items()}
    assert safe_load_metadata(path.getvalue()) == names


def test_3_2_what_safe_load_gives_is_a_dict(tmp_path: Path) -> None:
    """Whatever reads the dict of a file sees tensors, as in a plain one."""

    def fresh() -> dict[str, Tensor]:
        return safe_load(header_of(3))

    def numbers(found: Any) -> Any:
        return {name: t.tolist() for name, t in found.items()}

    wanted = {f"layer.{i}": [[2.0 * i, 2.0 * i + 1]] for i in range(3)}
    reads: list[Callable[[dict[str, Tensor]], Any]] = [
        dict, lambda d: {**d}, lambda d: (lambda **named: named)(**d), lambda d: d.copy(), lambda d: d | {},
        lambda d: {} | d, lambda d: dict(d.items()), lambda d: dict(zip(d, d.values(), strict=True)),
        lambda d: {name: d.get(name) for name in d}, lambda d: {name: d.pop(name) for name in list(d)},
        lambda d: dict(d.popitem() for _ in range(3)), lambda d: {name: d.setdefault(name) for name in d},
        lambda d: pickle.loads(pickle.dumps(d)), lambda d: OrderedDict(d), lambda d: d,
    ]  # fmt: skip
    for read in reads:
        assert numbers(read(fresh())) == wanted
    other: dict[str, Tensor] = {}
    other.update(fresh())
    assert numbers(other) == wanted
    found = fresh()
    assert isinstance(found, dict)
    assert (found.get("b"), found.get("b", 1), "b" in found, len(found)) == (None, 1, False, 3)
    with pytest.raises(KeyError, match="'b'"):
        found["b"]
    with pytest.raises(KeyError, match="'b'"):
        found.pop("b")
    found["b"] = Tensor([7.0])
    del found["layer.0"]
    assert list(found) == ["layer.1", "layer.2", "b"]
    assert repr(fresh()) == repr(dict(fresh()))
    threads = [threading.Thread(target=lambda: made.append(found["layer.1"])) for _ in range(4)]
    made: list[Tensor] = []
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(t) for t in made}) == 1


def test_3_2_bytes_that_change_after_they_were_loaded() -> None:
    """A tensor has the bytes that there were when safe_load was called."""
    data = bytearray(header_of(2))
    found = safe_load(data)
    data[-16:] = bytes(16)
    assert found["layer.1"].tolist() == [[2.0, 3.0]]


def test_3_2_a_flipped_byte_of_the_pickle_or_of_a_header_is_found(tmp_path: Path) -> None:
    """One in the pickle renamed a tensor; one in the length of a header shifted what it has."""
    torch = pytest.importorskip("torch")
    path = tmp_path / "some.pth"
    torch.save({"weight": torch.arange(6.0), "bias": torch.ones(3)}, path)
    data = path.read_bytes()
    places: list[int] = []
    with zipfile.ZipFile(path) as whole:
        for info in whole.infolist():
            if info.filename.endswith(("data.pkl", "/0", "/1")):
                begin = info.header_offset
                name, extra = struct.unpack("<HH", data[begin + 26 : begin + 30])
                places += [*range(begin + 26, begin + 30 + name), begin + 32 + name, begin + 33 + name]
                if info.filename.endswith("data.pkl"):
                    content = begin + 30 + name + extra
                    places += range(content, content + info.file_size)
    assert len(places) > 150
    for place in places:
        changed = bytearray(data)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(FileFormatError):
            torch_load(path)
    path.write_bytes(data)
    assert torch_load(path)["weight"].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_3_2_a_file_without_checksums_is_read(tmp_path: Path) -> None:
    """PyTorch can leave them out, and writes 0 in their place."""
    torch = pytest.importorskip("torch")
    before = torch.serialization.get_crc32_options()
    torch.serialization.set_crc32_options(False)
    try:
        torch.save({"weight": torch.arange(3.0)}, tmp_path / "some.pth")
    finally:
        torch.serialization.set_crc32_options(before)
    assert torch_load(tmp_path / "some.pth")["weight"].tolist() == [0.0, 1.0, 2.0]
