"""Findings about files, by their numbers: 1.16, 1.17, 2.4, 2.6, 3.3 and 3.8.

Downloads, files that change while somebody reads them, copies, names, and what is no file.
"""

from __future__ import annotations

import gzip
import http.server
import os
import pickle
import random
import re
import socket
import stat
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, dtypes, files
from tinygraft.downloads import fetch
from tinygraft.errors import DTypeError, FetchError, FileFormatError
from tinygraft.files import OpenFile, replacing
from tinygraft.nn.state import safe_load, safe_save, tar_extract, torch_load, zip_extract

NUMBERS = np.arange(1000, dtype=np.float32)


# 1.16


class Cut(http.server.BaseHTTPRequestHandler):
    """Says that there are 1000 bytes and sends as many as it is told; by the path, in chunks, or packed."""

    send = 500
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Send the head and a part of the content."""
        content = bytes(range(250)) * 4
        if "gz" in self.path:
            content = gzip.compress(random.Random(0).randbytes(1000), mtime=0)
        self.send_response(200)
        if "chunks" in self.path:
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"1F4\r\n" + content[:500] + b"\r\n")
            if self.send >= 1000:
                self.wfile.write(b"1F4\r\n" + content[500:] + b"\r\n0\r\n\r\n")
        else:
            if "unsaid" not in self.path:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content[: self.send])
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def cut(tmp_path: Path) -> Iterator[str]:
    """The address of a server that ends its connections early, with a cache folder of the test's own."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Cut) as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        with Context(TINYGRAFT_CACHE=str(tmp_path / "cache")):
            yield f"http://127.0.0.1:{site.server_address[1]}/"
        site.shutdown()
        thread.join()


def kept_files(tmp_path: Path) -> list[Path]:
    """What a download has left."""
    return [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("plain", "the connection ended after 500 of 1000 bytes"),
        ("chunks", "IncompleteRead(500 bytes read)"),
    ],
)
def test_1_16_a_download_is_complete_or_gone(
    cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, reason: str
) -> None:
    """A connection that ends early is an error that says so and leaves nothing; the next call downloads it all."""
    monkeypatch.setattr(Cut, "send", 500)
    with pytest.raises(FetchError) as caught:
        Tensor.from_url(cut + name)
    assert str(caught.value).startswith(f"cannot download {cut}{name}: {reason}")
    assert kept_files(tmp_path) == []
    monkeypatch.setattr(Cut, "send", 1000)
    assert Tensor.from_url(cut + name).tolist() == list(range(250)) * 4
    assert len(kept_files(tmp_path)) == 1


def test_1_16_a_packed_download_is_complete_or_gone(cut: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a server that does not say how much there is, gzip tells that it ends early."""
    monkeypatch.setattr(Cut, "send", 500)
    with pytest.raises(
        FetchError, match=r"unsaid-gz cannot be unpacked: Compressed file ended before .*nothing was kept"
    ):
        Tensor.from_url(f"{cut}unsaid-gz", gunzip=True)
    with pytest.raises(FetchError, match=r"the connection ended after 500 of 10\d\d bytes"):
        Tensor.from_url(f"{cut}gz", gunzip=True)
    assert kept_files(tmp_path) == []
    monkeypatch.setattr(Cut, "send", 2000)
    assert bytes(Tensor.from_url(f"{cut}gz", gunzip=True).tolist()) == random.Random(0).randbytes(1000)


# 1.17


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file of 1000 float32."""
    found = tmp_path / "numbers"
    found.write_bytes(NUMBERS.tobytes())
    return found


def overwrite(path: Path, content: bytes) -> None:
    """Write other bytes into a file, with the time of modification that it had."""
    before = os.stat(path)
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_1_17_a_time_of_modification_that_was_set_back(path: Path) -> None:
    """What writes into a file and restores its time, as rsync does, is found by the time of change."""
    t = Tensor(path, dtype=dtypes.float32)
    overwrite(path, bytes(4000))
    with pytest.raises(FileFormatError, match=r"was written to after tensors were made of it .* it had 4000 bytes"):
        t.numpy()


def test_1_17_a_write_at_once(path: Path) -> None:
    """A write in the same tick of the file system's clock as the one before is seen, too."""
    for _ in range(3):
        path.write_bytes(NUMBERS.tobytes())
        t = Tensor(path, dtype=dtypes.float32)
        with path.open("r+b") as file:
            file.write(b"\1" * 4000)
        with pytest.raises(FileFormatError, match="was written to"):
            t.numpy()


def test_1_17_the_clock_has_moved_on_when_a_file_is_open(path: Path) -> None:
    """What is written after a file was opened has a later time, also where the clock of the file system is slow."""
    for _ in range(3):
        path.write_bytes(NUMBERS.tobytes())
        OpenFile(path)
        found = path.stat()
        assert time.time() - max(found.st_mtime, found.st_ctime) > 0.01
    path.write_bytes(NUMBERS.tobytes())
    os.utime(path, (time.time() + 1000,) * 2)
    assert OpenFile(path).size == 4000  # a time that is to come is not waited for


class Interrupted:
    """A file into which somebody writes between two reads."""

    def __init__(self, opened: OpenFile, write: Callable[[], None]) -> None:
        self._file, self._write, self.seek = opened._file, write, opened._file.seek

    def readinto(self, target: memoryview) -> int | None:
        """Read, then have it written to."""
        count = self._file.readinto(target)
        self._write()
        return count


def test_1_17_a_file_that_is_written_to_while_it_is_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes of two versions are never mixed: the second half comes from another version, and that raises."""
    monkeypatch.setattr(files, "_BLOCKS", 2000)
    opened = OpenFile(path)
    opened._file = Interrupted(opened, lambda: overwrite(path, bytes(4000)))  # type: ignore[assignment]
    with pytest.raises(FileFormatError, match="was written to"):
        opened.read(0, 4000)
    again = OpenFile(path)
    assert again.read(0, 4000) == bytes(4000)


def test_1_17_what_leaves_the_bytes_alone(path: Path) -> None:
    """A file that is renamed, given other rights or another name, or removed, is read as it was, also afterwards."""
    changes: list[Callable[[Path], object]] = [
        lambda p: p.chmod(0o600),
        lambda p: os.link(p, f"{p}-link"),
        lambda p: p.rename(f"{p}-renamed"),
        lambda p: Path(f"{p}-renamed").unlink(),
    ]
    opened = OpenFile(path)
    for change in changes:
        change(path)
        assert opened.read(0, 4000) == NUMBERS.tobytes()
        assert opened.read(0, 4) == bytes(4)


# 2.4


def test_2_4_a_pickle_of_protocol_5_copies_nothing() -> None:
    """In band the pickle itself is all that takes memory, out of band it is a view of the tensor's memory."""
    t = Tensor(np.arange(1 << 20, dtype=np.float32)).realize()
    size = t.nbytes()
    buffers: list[pickle.PickleBuffer] = []
    tracemalloc.start()
    try:
        data = pickle.dumps(t, 5)
        assert size <= tracemalloc.get_traced_memory()[1] < 1.6 * size  # Python makes room for half as much again
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        small = pickle.dumps(t, 5, buffer_callback=buffers.append)
        assert tracemalloc.get_traced_memory()[1] - before < 50_000
    finally:
        tracemalloc.stop()
    assert len(small) < 1000
    for again in (pickle.loads(data), pickle.loads(small, buffers=buffers), pickle.loads(pickle.dumps(t, 4))):
        assert (again == t).all().item()
        again.assign(again * 0).realize()
        assert t[3].item() == 3.0


@pytest.mark.parametrize("protocol", range(2, 6))
def test_2_4_every_tensor_survives_every_protocol(protocol: int) -> None:
    """Views, complex, half, empty and several devices' tensors, their gradients, and classes of users."""
    w = Tensor([1.0, 2.0], requires_grad=True)
    (w * w).sum().backward()
    two = Tensor([1, 2, 3, 4], device="PYTHON").shard(("PYTHON", "PYTHON:1"), 0)
    cases = [Tensor([[1, 2], [3, 4]]).T[1:], Tensor([1 + 2j]), Tensor([1.5]).half(), Tensor.empty(0, 3), two, w]
    for t in cases:
        again = pickle.loads(pickle.dumps(t, protocol))
        assert (again.dtype, again.shape, again.tolist()) == (t.dtype, t.shape, t.tolist())
    assert again.grad.tolist() == [2.0, 4.0]
    assert pickle.loads(pickle.dumps(two, protocol)).device == two.device


def test_2_4_fetch_of_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A path, as text or not, is the file that is there, with its checksum if one is given; packed it is unpacked."""
    (tmp_path / "a.bin").write_bytes(b"hello")
    monkeypatch.chdir(tmp_path)
    for given in (str(tmp_path / "a.bin"), tmp_path / "a.bin", "./a.bin", "a.bin"):
        assert fetch(given).read_bytes() == b"hello"
    assert fetch("a.bin", checksum="5d41402abc4b2a76b9719d911017c592").name == "a.bin"
    assert Tensor.from_url("a.bin").tolist() == list(b"hello")
    with pytest.raises(FetchError, match=r"^cannot use b\.bin: there is no such file\n  hint: look elsewhere$"):
        fetch("b.bin", hint="look elsewhere")
    with pytest.raises(
        FetchError, match=r"^a\.bin is not the file that was expected: checksum 5d41402a\w+, expected 0+$"
    ):
        fetch("a.bin", checksum="0" * 32)
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"hello"))
    with Context(TINYGRAFT_CACHE=str(tmp_path / "cache")):
        assert fetch("a.gz", gunzip=True).read_bytes() == b"hello"
        (tmp_path / "a.gz").write_bytes(gzip.compress(b"again"))
        assert fetch(tmp_path / "a.gz", gunzip=True).read_bytes() == b"again"


# 2.6


@pytest.mark.parametrize("name", ["n" * 250, "n" * 255, "é" * 127, "n" * 237 + ".safetensors"])
def test_2_6_names_as_long_as_the_file_system_takes(tmp_path: Path, name: str) -> None:
    """A file whose name leaves no room for a longer one is saved, and replaced."""
    for value in (1.0, 2.0):
        safe_save({"a": Tensor([value])}, tmp_path / name)
        assert safe_load(tmp_path / name)["a"].tolist() == [value]
    assert os.listdir(tmp_path) == [name]
    with pytest.raises(OSError, match="File name too long"):
        safe_save({"a": Tensor([1.0])}, tmp_path / ("n" * 256))
    assert os.listdir(tmp_path) == [name]


# 3.3


def test_3_3_a_pipe_a_socket_and_a_device_are_not_replaced(tmp_path: Path) -> None:
    """safe_save refuses what is no file, also through a link, and leaves it as it is."""
    os.mkfifo(tmp_path / "pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    (tmp_path / "link").symlink_to(tmp_path / "pipe")
    kinds = {"pipe": "a pipe", "socket": "a socket", "link": "a pipe"}
    if os.geteuid() == 0:
        os.mknod(tmp_path / "device", 0o600 | stat.S_IFCHR, os.makedev(1, 3))
        kinds["device"] = "a device"
    before = {name: os.stat(tmp_path / name).st_mode for name in kinds}
    for name, kind in kinds.items():
        with pytest.raises(
            FileFormatError, match=rf"/\w+ is {kind}: a file would take its place\n  hint: write to a file"
        ):
            safe_save({"a": Tensor([1.0])}, tmp_path / name)
    assert {name: os.stat(tmp_path / name).st_mode for name in kinds} == before
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError), replacing(tmp_path / "folder"):
        pytest.fail("the block must not run")
    assert sorted(os.listdir(tmp_path)) == sorted([*kinds, "folder"])


def test_3_3_a_pipe_is_not_read_as_a_file(tmp_path: Path) -> None:
    """safe_load and torch_load of a pipe that nobody writes to raise and do not wait."""
    os.mkfifo(tmp_path / "pipe")
    for read in (safe_load, torch_load, tar_extract, zip_extract):
        with pytest.raises(FileFormatError, match="/pipe is no regular file"):
            read(tmp_path / "pipe")


# 3.8


def test_3_8_a_file_is_closed_without_a_warning(tmp_path: Path) -> None:
    """Under -X dev nothing is said of files that tensors were made of, and no number of a file stays open."""
    safe_save({"a": Tensor([1.0, 2.0])}, tmp_path / "a.safetensors")
    code = """
import gc, os, sys
from pathlib import Path
from tinygraft import Tensor
from tinygraft.nn.state import safe_load, safe_load_metadata
def use():
    assert safe_load(sys.argv[1])["a"].tolist() == [1.0, 2.0]
    safe_load(sys.argv[1])
    safe_load_metadata(sys.argv[1])
    Tensor(Path(sys.argv[1]))[:8].tolist()
use()
gc.collect()
before = len(os.listdir("/proc/self/fd"))
for _ in range(5):
    use()
gc.collect()
assert len(os.listdir("/proc/self/fd")) == before
"""
    command = [sys.executable, "-X", "dev", "-W", "error::ResourceWarning", "-c", code, str(tmp_path / "a.safetensors")]
    environment = os.environ | {"DEV": "PYTHON"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, "")


# Findings of 2026-11-24


@pytest.mark.parametrize(
    ("name", "kind", "said"),
    [
        ("none/new", FileNotFoundError, "there is no folder for the file, os.makedirs makes one: 'none/new'"),
        ("none/new/", IsADirectoryError, "a path that ends so is one of a folder: 'none/new/'"),
        ("new/", IsADirectoryError, "a path that ends so is one of a folder: 'new/'"),
        (".", IsADirectoryError, "Is a directory: '.'"),
        ("", FileNotFoundError, "an empty path is not the name of a file: ''"),
        ("a" * 300, OSError, f"File name too long: '{'a' * 300}'"),
        ("/proc/none", FileNotFoundError, "No such file or directory: '/proc/none'"),
    ],
)
def test_a_path_that_cannot_be_written(
    name: str, kind: type[OSError], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error is about the path that was given; some named the temporary file, and "new/" was written as "new"."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind, match=rf"^\[Errno \d+\] {re.escape(said)}$") as caught:
        safe_save({"a": Tensor([1])}, name)
    assert "tinygraft-tmp" not in str(caught.value) and not list(tmp_path.iterdir())


def test_standard_output_that_is_a_pipe() -> None:
    """Its real path is in /proc and is no file: the error named a temporary file there."""
    code = "from tinygraft import Tensor, nn; nn.state.safe_save({'a': Tensor([1])}, '/dev/stdout')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stderr.splitlines()[-2].endswith("FileFormatError: /dev/stdout is a pipe: a file would take its place")
    assert not done.stdout


@pytest.mark.parametrize(
    ("tensors", "metadata", "kind", "said"),
    [
        (
            [Tensor([1])],
            None,
            DTypeError,
            "safe_save writes a dict of tensors by their names, got list\n"
            "  hint: nn.state.get_state_dict(model) has those of a model",
        ),
        (
            None,
            None,
            DTypeError,
            "safe_save writes a dict of tensors by their names, got NoneType\n"
            "  hint: nn.state.get_state_dict(model) has those of a model",
        ),
        ({}, ["a"], DTypeError, "safe_save writes a dict of metadata, text by text, got list"),
        (
            {"a\ud800": Tensor([1])},
            None,
            FileFormatError,
            r"a safetensors file has its text in UTF-8, which has no '\ud800': that is at 1 of 'a\ud800'",
        ),
        (
            {},
            {"a": "\udfff"},
            FileFormatError,
            r"a safetensors file has its text in UTF-8, which has no '\udfff': that is at 0 of '\udfff'",
        ),
    ],
)
def test_what_cannot_be_saved(tensors: Any, metadata: Any, kind: type[Exception], said: str, tmp_path: Path) -> None:
    """Said in our words: it was an AttributeError or a UnicodeEncodeError of Python."""
    with pytest.raises(kind, match=f"^{re.escape(said)}$"):
        safe_save(tensors, tmp_path / "it.safetensors", metadata)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="no /proc here")
def test_a_file_that_is_made_up_as_it_is_read() -> None:
    """It says that it has 0 bytes; a tensor of it was empty."""
    with pytest.raises(FileFormatError) as caught:
        Tensor(Path("/proc/self/status"))
    assert str(caught.value) == (
        "/proc/self/status says that it has 0 bytes and has some: the system makes them up when they are read\n"
        "  hint: make the tensor of its bytes, Tensor(open(path, 'rb').read())"
    )


def test_an_empty_file_is_an_empty_tensor(tmp_path: Path) -> None:
    """As it was."""
    (tmp_path / "empty").touch()
    assert Tensor(tmp_path / "empty").shape == (0,)


def test_the_name_of_a_file_is_no_data() -> None:
    """Text is refused as before, with how a file is read."""
    with pytest.raises(DTypeError) as caught:
        Tensor("weights.bin")
    assert str(caught.value) == (
        "a tensor is made of numbers, lists, bytes or numpy arrays, got str\n"
        "  hint: Tensor(Path(name)) is the bytes of a file, with pathlib's Path"
    )
