"""files.py: a file is replaced whole or not at all, and a download is kept once."""

from __future__ import annotations

import fcntl
import functools
import hashlib
import http.server
import os
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinygraft.caches import cache_folder
from tinygraft.config import Context
from tinygraft.downloads import fetch
from tinygraft.errors import FetchError
from tinygraft.files import replacing
from tinygraft.temporary import SUFFIX, temporary_name


def test_replacing_writes_the_whole_file(tmp_path: Path) -> None:
    """The new bytes are there after the block, the old ones until then, and no temporary file stays."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    with replacing(path) as file:
        file.write(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_replacing_after_an_error_leaves_the_old_file(tmp_path: Path) -> None:
    """An exception in the block, KeyboardInterrupt too, changes nothing and leaves nothing."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write_half(error: type[BaseException]) -> None:
        with replacing(path) as file:
            file.write(b"half")
            raise error

    for error in (ValueError, KeyboardInterrupt):
        with pytest.raises(error):
            write_half(error)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a.bin"]


def test_replacing_where_nothing_can_be_written(tmp_path: Path) -> None:
    """A folder that is not there is an OSError from the start."""
    with pytest.raises(FileNotFoundError), replacing(tmp_path / "nowhere" / "a.bin"):
        pytest.fail("the block must not run")


DIE = """
import os, sys
from tinygraft.files import replacing
path, call, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
def dies(*args, real=getattr(os, call)):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return real(*args)
setattr(os, call, dies)
with replacing(path) as file:
    file.write(b"new")
"""


@pytest.mark.parametrize(("call", "left"), [("chmod", 0), ("fsync", 0), ("replace", 0), ("fsync", 1)])
def test_replacing_survives_a_killed_process(tmp_path: Path, call: str, left: int) -> None:
    """A process that ends inside any call of the save leaves the whole old file, or the whole new one."""
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")
    killed = subprocess.run([sys.executable, "-c", DIE, str(path), call, str(left)], check=False)
    assert killed.returncode == 9
    assert path.read_bytes() == (b"new" if left else b"old")


def test_replacing_keeps_mode_bits_and_links(tmp_path: Path) -> None:
    """A replaced file keeps its mode; a link keeps pointing to the file, which is replaced."""
    path, link = tmp_path / "a.bin", tmp_path / "link.bin"
    path.write_bytes(b"old")
    path.chmod(0o640)
    link.symlink_to(path)
    with replacing(link) as file:
        file.write(b"new")
    assert link.is_symlink()
    assert path.read_bytes() == b"new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_replacing_removes_what_no_process_writes(tmp_path: Path) -> None:
    """A temporary file without a lock goes, whatever it was for; one that somebody writes stays, and so do other names.

    Of another machine nobody can know, so its file goes after an hour.
    """
    dead, written, just_made = (tmp_path / temporary_name(name) for name in ("a.bin", "a.bin", "b.bin"))
    other, old = (tmp_path / f".a.bin.ffffffff{n}{SUFFIX}" for n in (1, 2))
    users = tmp_path / ".a.bin.1-1.tmp"
    for leftover in (dead, written, other, old, users):
        leftover.write_bytes(b"half")
    just_made.write_bytes(b"")
    os.utime(old, (time.time() - 7200,) * 2)
    with written.open("rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with replacing(tmp_path / "a.bin") as new:
            new.write(b"new")
    assert set(os.listdir(tmp_path)) == {"a.bin", *(p.name for p in (written, just_made, other, users))}
    with replacing(tmp_path / "a.bin") as new:
        new.write(b"newer")
    assert set(os.listdir(tmp_path)) == {"a.bin", *(p.name for p in (just_made, other, users))}


def test_a_file_that_is_being_written_is_nobodys_leftover(tmp_path: Path) -> None:
    """Another save to the same folder, by this process or another, leaves an unfinished one alone."""
    with replacing(tmp_path / "a.bin") as first:
        first.write(bytes(1 << 20))
        with replacing(tmp_path / "b.bin") as second:
            second.write(b"second")
        code = "import sys; from tinygraft.temporary import remove_leftovers; remove_leftovers(sys.argv[1])"
        subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "a.bin").stat().st_size == 1 << 20
    assert sorted(os.listdir(tmp_path)) == ["a.bin", "b.bin"]


def test_cache_folder_follows_the_setting(tmp_path: Path) -> None:
    """TINYGRAFT_CACHE is the folder when it is set."""
    with Context(TINYGRAFT_CACHE=str(tmp_path)):
        assert cache_folder() == tmp_path
    with Context(CACHELEVEL=0):
        assert cache_folder() is None


class _Quiet(http.server.SimpleHTTPRequestHandler):
    served = 0

    def do_GET(self) -> None:
        type(self).served += 1
        super().do_GET()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """The address of a server of one file, hello.txt, with the cache folder in a folder of its own."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "hello.txt").write_bytes(b"hello")
    _Quiet.served = 0
    handler = functools.partial(_Quiet, directory=str(tmp_path / "site"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as site:
        thread = threading.Thread(target=site.serve_forever, daemon=True)
        thread.start()
        with Context(TINYGRAFT_CACHE=str(tmp_path / "cache")):
            yield f"http://127.0.0.1:{site.server_address[1]}/hello.txt"
        site.shutdown()
        thread.join()


def test_fetch_downloads_once(server: str) -> None:
    """The second fetch takes the kept file."""
    checksum = hashlib.md5(b"hello").hexdigest()
    first = fetch(server, "hello.txt", "greetings", checksum=checksum)
    assert first.read_bytes() == b"hello"
    assert first.parts[-3:] == ("downloads", "greetings", "hello.txt")
    assert fetch(server, "hello.txt", "greetings", checksum=checksum) == first
    assert _Quiet.served == 1


def test_fetch_downloads_a_damaged_file_again(server: str) -> None:
    """A kept file without the right checksum is replaced."""
    checksum = hashlib.sha256(b"hello").hexdigest()
    path = fetch(server, checksum=checksum)
    path.write_bytes(b"damaged")
    assert fetch(server, checksum=checksum).read_bytes() == b"hello"
    assert _Quiet.served == 2


def test_fetch_keeps_nothing_that_is_not_expected(server: str) -> None:
    """A wrong checksum is an error that names both, and leaves no file."""
    found, wrong = hashlib.sha256(b"hello").hexdigest(), "0" * 64
    with pytest.raises(FetchError) as caught:
        fetch(server, checksum=wrong)
    assert str(caught.value) == (
        f"{server} is not the file that was expected: checksum {found}, expected {wrong} (5 bytes); nothing was kept"
    )
    folder = cache_folder()
    assert folder is not None
    assert not list(folder.rglob("*.*"))


def test_fetch_says_what_it_could_not_get(server: str) -> None:
    """A failed download names the address, the reason, the folder and the hint."""
    with pytest.raises(FetchError) as caught:
        fetch(server + ".gz", "a", "b", hint="stay at home")
    assert str(caught.value) == (
        f"cannot download {server}.gz: File not found\n  it would be kept in {cache_folder()}/downloads/b, "
        "where you can put it yourself\n  hint: stay at home"
    )
