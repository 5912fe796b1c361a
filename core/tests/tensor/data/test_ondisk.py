"""Tensors over files: what is read, when, and what happens to a file that changes."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.errors import DTypeError, FetchError, FileFormatError
from tinygraft.files import OpenFile
from tinygraft.nn.state import safe_load, safe_save

NUMBERS = np.arange(1000, dtype=np.float32)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 1000 float32."""
    found = tmp_path / "numbers"
    found.write_bytes(NUMBERS.tobytes())
    return found


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(offset, bytes) of each read from a file, as they happen."""
    found: list[tuple[int, int]] = []
    read_into = OpenFile.read_into

    def noted(self: OpenFile, offset: int, target: memoryview) -> None:
        found.append((offset, target.nbytes))
        read_into(self, offset, target)

    monkeypatch.setattr(OpenFile, "read_into", noted)
    return found


def test_a_path_is_its_bytes(path: Path) -> None:
    """The bytes of a file, or its elements as a dtype, on the device that is asked for."""
    assert Tensor(path).dtype is dtypes.uint8
    np.testing.assert_array_equal(Tensor(path).numpy(), np.frombuffer(path.read_bytes(), np.uint8))
    np.testing.assert_array_equal(Tensor(path, dtype=dtypes.float32).numpy(), NUMBERS)
    assert Tensor(path, device="PYTHON", dtype=dtypes.int32).shape == (1000,)


def test_nothing_is_read_before_it_is_needed(path: Path, reads: list[tuple[int, int]]) -> None:
    """Making a tensor, an expression of it and a schedule read nothing; a value reads once."""
    t = Tensor(path, dtype=dtypes.float32)
    total = (t + 1).sum()
    assert len(total.schedule()) == 1
    assert t.uop.base.realized is None
    assert reads == []
    assert total.item() == NUMBERS.sum() + 1000
    assert t.max().item() == 999.0
    assert reads == [(0, 4000)]


@pytest.mark.parametrize(
    ("part", "wanted"),
    [
        (lambda t: t[10:20], (40, 40)),
        (lambda t: t[-1], (3996, 4)),
        (lambda t: t.reshape(10, 100)[3], (1200, 400)),
        (lambda t: t.reshape(10, 100)[3:5].flatten()[50:150], (1400, 400)),
        (lambda t: t.reshape(10, 10, 10)[2, 3:5], (920, 80)),
        (lambda t: t.split(500)[1], (2000, 2000)),
    ],
)  # fmt: skip
def test_only_a_part_is_read(path: Path, reads: list[tuple[int, int]], part: object, wanted: tuple[int, int]) -> None:
    """Elements that lie side by side are read alone."""
    found = part(Tensor(path, dtype=dtypes.float32))  # type: ignore[operator]
    values = found.numpy()
    assert reads == [wanted]
    first = wanted[0] // 4
    np.testing.assert_array_equal(values.flatten(), NUMBERS[first : first + wanted[1] // 4])


def test_a_header_and_what_it_points_to(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    """Bytes become other dtypes without a kernel, wherever they start: a format can be read by hand."""
    file = tmp_path / "mixed"
    file.write_bytes(b"abc" + np.array([7], np.int64).tobytes() + NUMBERS[:6].tobytes())
    t = Tensor(file)
    assert t[3:11].bitcast(dtypes.int64).item() == 7
    weights = t[11:35].bitcast(dtypes.float32).reshape(2, 3)
    assert weights[1].tolist() == [3.0, 4.0, 5.0]
    assert reads == [(3, 8), (23, 12)]


def test_columns_read_the_whole(path: Path, reads: list[tuple[int, int]]) -> None:
    """Elements that lie apart are taken from all of it, and the value is right."""
    found = Tensor(path, dtype=dtypes.float32).reshape(10, 100)[:, 3:5]
    np.testing.assert_array_equal(found.numpy(), NUMBERS.reshape(10, 100)[:, 3:5])
    assert reads == [(0, 4000)]


def test_a_part_of_what_was_read_is_a_view(path: Path, reads: list[tuple[int, int]]) -> None:
    """After the whole is in memory, a part of it reads nothing again."""
    t = Tensor(path, dtype=dtypes.float32)
    t.sum().item()
    assert t[5:7].tolist() == [5.0, 6.0]
    assert reads == [(0, 4000)]


def test_a_gradient_reaches_the_whole(path: Path) -> None:
    """A file is data and has no gradient; where one is asked for, a part belongs to its whole."""
    assert Tensor(path, dtype=dtypes.float32).requires_grad is False
    t = Tensor(path, dtype=dtypes.float32, requires_grad=True)
    (t[2:4] * 3).sum().backward()
    assert t.grad is not None
    assert t.grad[:5].tolist() == [0.0, 0.0, 3.0, 3.0, 0.0]


def test_a_file_may_go_once_it_is_open(path: Path) -> None:
    """A file that is removed or replaced is still read as it was."""
    t, u = Tensor(path, dtype=dtypes.float32), Tensor(path, dtype=dtypes.float32)
    other = path.with_name("other")
    other.write_bytes(bytes(4000))
    os.replace(other, path)
    assert t[999].item() == 999.0
    path.unlink()
    np.testing.assert_array_equal(u.numpy(), NUMBERS)


@pytest.mark.parametrize("content", [bytes(4000), bytes(10)])
def test_a_file_that_was_written_to_is_an_error(path: Path, content: bytes) -> None:
    """Bytes that changed in place are not what the tensor was made of: reading them says so."""
    t = Tensor(path, dtype=dtypes.float32)
    os.utime(path, (0, 0))
    path.write_bytes(content)
    message = (
        r"was written to after tensors were made of it and before they were read: it had 4000 bytes, and has \d+\n"
    )
    with pytest.raises(FileFormatError, match=message):
        t.numpy()


def test_what_is_no_tensor_is_refused(tmp_path: Path, path: Path) -> None:
    """A missing file, and one that is no whole number of elements."""
    with pytest.raises(FileNotFoundError):
        Tensor(tmp_path / "nothing")
    path.write_bytes(b"12345")
    with pytest.raises(
        DTypeError, match=r"has 5 bytes, which are no whole number of dtypes.float elements of 4 bytes$"
    ):
        Tensor(path, dtype=dtypes.float32)


def test_a_pipe_is_refused(tmp_path: Path) -> None:
    """What is no regular file has no bytes that wait; it is refused before it is opened, which could take for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(
        FileFormatError,
        match=r"/pipe is no regular file: what comes out of it cannot be read later, in parts\n"
        r"  hint: make the tensor of its bytes, Tensor\(open\(path, 'rb'\)\.read\(\)\)$",
    ):
        Tensor(tmp_path / "pipe")


def test_an_empty_file_is_an_empty_tensor(tmp_path: Path) -> None:
    """No bytes, no elements, nothing to read."""
    (tmp_path / "empty").write_bytes(b"")
    assert Tensor(tmp_path / "empty").numpy().shape == (0,)


def test_assigning_changes_the_tensor_and_not_the_file(path: Path) -> None:
    """A part that is assigned to keeps the rest of the file's values; the file stays."""
    t = Tensor(path, dtype=dtypes.float32)
    t[1:3] = Tensor([-1.0, -2.0])
    assert t[:4].tolist() == [0.0, -1.0, -2.0, 3.0]
    assert path.read_bytes() == NUMBERS.tobytes()


def test_a_file_under_a_jit(path: Path) -> None:
    """A captured function reads a file's memory like any other."""
    t = Tensor(path, dtype=dtypes.float32)

    @TinyJit
    def scaled(x: Tensor) -> Tensor:
        return (t[:3] * x).realize()

    assert [scaled(Tensor([float(i)])).tolist()[2] for i in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_one_tensor_of_a_safetensors_file_is_read_alone(tmp_path: Path, reads: list[tuple[int, int]]) -> None:
    """safe_load reads the header; a tensor costs its own bytes, when it is used."""
    file = tmp_path / "a.safetensors"
    safe_save({"a": Tensor(NUMBERS), "b": Tensor(NUMBERS[:3] * 2)}, file)
    loaded = safe_load(file)
    assert [offset for offset, _ in reads] == [0, 8]
    assert sum(size for _, size in reads) < 200
    reads.clear()
    assert loaded["b"].tolist() == [0.0, 2.0, 4.0]
    assert [size for _, size in reads] == [12]
    assert loaded["a"].uop.base.realized is None


def test_a_safetensors_file_can_be_saved_over_itself(tmp_path: Path) -> None:
    """What was loaded and not read yet is read before its file is replaced, and after it."""
    file = tmp_path / "a.safetensors"
    safe_save({"a": Tensor(NUMBERS), "b": Tensor([1.0])}, file)
    loaded, again = safe_load(file), safe_load(file)
    safe_save({"a": loaded["a"] * 2, "b": loaded["b"]}, file)
    np.testing.assert_array_equal(safe_load(file)["a"].numpy(), NUMBERS * 2)
    np.testing.assert_array_equal(again["a"].numpy(), NUMBERS)


def test_a_url_is_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """from_url gives the bytes of a url, unpacked where asked; a second call needs no download."""
    packed = tmp_path / "bytes.gz"
    packed.write_bytes(gzip.compress(NUMBERS.tobytes()))
    url = packed.as_uri()
    np.testing.assert_array_equal(Tensor.from_url(url, gunzip=True, dtype=dtypes.float32).numpy(), NUMBERS)
    packed.unlink()
    assert Tensor.from_url(url, gunzip=True).shape == (4000,)
    with pytest.raises(FetchError, match=r"^cannot download file:.*nothing"):
        Tensor.from_url((tmp_path / "nothing").as_uri())


def test_a_device_without_host_memory_is_read_through_the_host(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the host cannot see the memory, the bytes are copied in."""
    t = Tensor(path, device="PYTHON", dtype=dtypes.float32)
    allocator = type(buffer_of(t.uop).backend.allocator)
    monkeypatch.setattr(allocator, "as_host", lambda self, handle: None)
    assert t[:3].tolist() == [0.0, 1.0, 2.0]


def test_a_buffer_reads_what_fits_it(path: Path) -> None:
    """A Buffer refuses to be read from another number of bytes."""
    from tinygraft.files import FilePart

    with pytest.raises(ValueError, match="with 8 bytes cannot be read from 4 bytes of a file"):
        Buffer("PYTHON", 2, dtypes.float32).read_later(FilePart(OpenFile(path), 0, 4))
