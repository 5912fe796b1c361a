"""tar, zip and PyTorch's files as dicts of tensors, read where they lie."""

from __future__ import annotations

import io
import os
import pickle
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.errors import DTypeError, FileFormatError, UnsupportedError
from tinygraft.files import OpenFile
from tinygraft.nn.state import TensorIO, tar_extract, torch_load, zip_extract

FILES = {"a.txt": b"first", "folder/b.bin": bytes(range(256)) * 4, "empty": b""}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each read from a file has, as they happen."""
    found: list[int] = []
    read_into = OpenFile.read_into

    def noted(self: OpenFile, offset: int, target: memoryview) -> None:
        found.append(target.nbytes)
        read_into(self, offset, target)

    monkeypatch.setattr(OpenFile, "read_into", noted)
    return found


def tar_of(files: dict[str, bytes], mode: str) -> bytes:
    """A tar archive."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as tar:  # type: ignore[call-overload]
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def zip_of(files: dict[str, bytes], compression: int) -> bytes:
    """A zip archive."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def contents(found: dict[str, Tensor]) -> dict[str, bytes]:
    """The bytes of each member."""
    return {name: bytes(t.tolist()) for name, t in found.items()}


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:xz"])
def test_tar(tmp_path: Path, mode: str) -> None:
    """Members by name, from bytes and from a path, compressed or not."""
    data = tar_of(FILES, mode)
    (tmp_path / "a.tar").write_bytes(data)
    assert contents(tar_extract(Tensor(data))) == contents(tar_extract(tmp_path / "a.tar")) == FILES


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_zip(tmp_path: Path, compression: int) -> None:
    """Members by name, from bytes and from a path, compressed or not."""
    data = zip_of(FILES, compression)
    (tmp_path / "a.zip").write_bytes(data)
    assert contents(zip_extract(Tensor(data))) == contents(zip_extract(str(tmp_path / "a.zip"))) == FILES


def test_members_that_are_stored_stay_in_the_file(tmp_path: Path, reads: list[int]) -> None:
    """Opening a large archive reads what lists its members; a member is read alone."""
    large = {"large": bytes(4_000_000), "small": b"12345678"}
    (tmp_path / "a.tar").write_bytes(tar_of(large, "w"))
    (tmp_path / "a.zip").write_bytes(zip_of(large, zipfile.ZIP_STORED))
    for found in (tar_extract(tmp_path / "a.tar"), zip_extract(tmp_path / "a.zip")):
        assert sum(reads) < 200_000
        reads.clear()
        assert bytes(found["small"].tolist()) == b"12345678"
        assert reads == [8]
        reads.clear()


@pytest.mark.parametrize(
    ("read", "kind"), [(tar_extract, "tar archive, compressed or not"), (zip_extract, "zip archive")]
)
def test_what_is_no_archive_is_refused(read: Any, kind: str) -> None:
    """Other bytes are named for what they are not."""
    with pytest.raises(FileFormatError, match=f"^this is no {kind}: "):
        read(Tensor(b"something else"))


def test_a_tensor_is_a_file() -> None:
    """seek from the start, from here and from the end, and reads past the end."""
    file = TensorIO(Tensor(b"0123456789"))
    assert (file.read(2), file.seek(2, os.SEEK_CUR), file.read(2)) == (b"01", 4, b"45")
    assert (file.seek(-1, os.SEEK_END), file.read(), file.read(), file.tell()) == (9, b"9", b"", 10)
    with pytest.raises(
        DTypeError, match=r"^a file is a tensor of bytes with one axis, got shape \(2,\) of dtypes.int$"
    ):
        TensorIO(Tensor([1, 2]))


# PyTorch


@pytest.fixture
def torch() -> Any:
    """PyTorch, which writes the files."""
    return pytest.importorskip("torch")


def saved(torch: Any, value: Any, path: Path, new: bool) -> Path:
    """A file of torch.save, of the newer or the older kind."""
    torch.save(value, path, _use_new_zipfile_serialization=new)
    return path


@pytest.mark.parametrize("new", [True, False])
def test_a_state_dict(torch: Any, tmp_path: Path, new: bool) -> None:
    """Weights, their names and order, and numbers beside them."""
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4))
    path = saved(torch, {"model": model.state_dict(), "epoch": 3, "rates": [0.1, (1, None)]}, tmp_path / "a.pth", new)
    found = torch_load(path)
    assert list(found["model"]) == list(model.state_dict())
    assert (found["epoch"], found["rates"]) == (3, [0.1, (1, None)])
    for name, tensor in model.state_dict().items():
        np.testing.assert_array_equal(found["model"][name].numpy(), tensor.numpy())


@pytest.mark.parametrize("new", [True, False])
@pytest.mark.parametrize(
    "name",
    ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"],
)
def test_every_dtype(torch: Any, tmp_path: Path, name: str, new: bool) -> None:
    """The values and dtypes of tensors."""
    value = torch.tensor([[0, 1, 2], [3, 4, 5]]).to(getattr(torch, name))
    found = torch_load(saved(torch, value, tmp_path / "a.pt", new))
    assert found.dtype is getattr(dtypes, name)
    assert found.tolist() == value.tolist()


@pytest.mark.parametrize("new", [True, False])
def test_views(torch: Any, tmp_path: Path, new: bool) -> None:
    """Views of one storage: transposed, a part, every second one, repeated, without axes and without elements."""
    base = torch.arange(24.0).reshape(4, 6)
    views = [
        base,
        base.T,
        base[1:3],
        base[:, ::2],
        base[0].expand(3, 6),
        base[2, 3],
        base[:0],
        base.reshape(2, 3, 4).permute(1, 2, 0),
    ]
    found = torch_load(saved(torch, [*views, torch.nn.Parameter(base)], tmp_path / "a.pt", new))
    for ours, theirs in zip(found, [*views, base], strict=True):
        assert ours.shape == tuple(theirs.shape)
        np.testing.assert_array_equal(ours.numpy(), theirs.numpy())


def test_one_tensor_of_a_large_file_is_read_alone(torch: Any, tmp_path: Path, reads: list[int]) -> None:
    """The pickle is read; a tensor costs its bytes."""
    path = saved(torch, {"large": torch.zeros(1_000_000), "small": torch.ones(4)}, tmp_path / "a.pt", True)
    found = torch_load(path)
    assert sum(reads) < 200_000
    reads.clear()
    assert found["small"].tolist() == [1.0] * 4
    assert reads == [16]


def test_only_data_is_read(torch: Any, tmp_path: Path) -> None:
    """A whole model, and a pickle that calls something, are refused by the name of what they would make."""
    path = tmp_path / "model.pt"
    torch.save(torch.nn.Linear(1, 1), path)
    with pytest.raises(
        UnsupportedError, match=r"has an object of torch.nn.modules.linear.Linear, .*\n  hint: save model."
    ):
        torch_load(path)


def test_a_pickle_that_calls_is_refused() -> None:
    """Nothing is called by name, in either kind of file."""

    class Call:
        def __reduce__(self) -> Any:
            return os.system, ("echo called",)

    data = pickle.dumps(Call())
    with pytest.raises(
        UnsupportedError, match=r"^this file has an object of posix.system, which torch_load does not make"
    ):
        torch_load(Tensor(data))
    with pytest.raises(UnsupportedError, match=r"^this file has an object of posix.system"):
        torch_load(Tensor(zip_of({"a/data.pkl": data}, zipfile.ZIP_STORED)))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not from torch.save"),
        (b"no pickle", "is not from torch.save"),
        (pickle.dumps(7), "does not begin with its number"),
        (zip_of({"a": b"b"}, zipfile.ZIP_STORED), r"it has no data.pkl, but \['a'\]"),
    ],
    ids=["nothing", "text", "number", "zip"],
)  # fmt: skip
def test_what_is_not_from_torch_is_refused(data: bytes, message: str) -> None:
    """Other files are named for what they are not."""
    with pytest.raises(FileFormatError, match=message):
        torch_load(Tensor(data) if data else Tensor.empty(0, dtype=dtypes.uint8))


def test_a_broken_archive_is_named() -> None:
    """A compressed stream that is damaged, and a member whose place or size is a lie, are errors of the file."""
    noise = np.random.default_rng(0).bytes(2000)
    packed = bytearray(zip_of({"a": noise.hex().encode()}, zipfile.ZIP_DEFLATED))
    packed[40:80] = bytes(40)
    with pytest.raises(FileFormatError, match="^'a' in this zip archive cannot be unpacked: "):
        zip_extract(Tensor(bytes(packed)))
    plain = zip_of({"a": noise}, zipfile.ZIP_STORED)
    entry = plain.find(b"PK\1\2")
    long = plain[: entry + 24] + (99999).to_bytes(4, "little") + plain[entry + 28 :]
    with pytest.raises(
        FileFormatError, match=rf"^'a' in this zip archive needs bytes 31 to 100030, the archive has {len(long)}$"
    ):
        zip_extract(Tensor(long))
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:gz") as tar:
        info = tarfile.TarInfo("a")
        info.size = len(noise)
        tar.addfile(info, io.BytesIO(noise))
    damaged = bytearray(whole.getvalue())
    damaged[14:60] = bytes([0xFF] * 46)
    with pytest.raises(FileFormatError, match="^this is no tar archive, compressed or not: "):
        tar_extract(Tensor(bytes(damaged)))
