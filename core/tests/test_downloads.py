"""Downloads that end early go on where they ended: against a server that breaks off, lies, or cannot do that."""

from __future__ import annotations

import hashlib
import http.server
import random
import re
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinygraft.config import Context
from tinygraft.downloads import fetch
from tinygraft.errors import FetchError

CONTENT = random.Random(1).randbytes(5000)
CHECKSUM = hashlib.sha256(CONTENT).hexdigest()


class Breaking(http.server.BaseHTTPRequestHandler):
    """Sends `most` bytes of what is asked for. `kind` says whether it can send parts, and whether they are right."""

    most = 10**6
    kind = "parts"
    asked: list[str | None] = []

    def do_GET(self) -> None:
        """Send a part of the content."""
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        begin = int(re.findall(r"\d+", wanted)[0]) if wanted and self.kind != "whole" else 0
        if begin >= len(CONTENT):
            self.send_error(416)
            return
        content = CONTENT[begin:] if self.kind != "other" or not begin else bytes(len(CONTENT) - begin)
        self.send_response(206 if begin else 200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: self.most])

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of such a server, with a cache folder of its own."""
    monkeypatch.setattr(Breaking, "asked", [])
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Breaking) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        with Context(TINYGRAFT_CACHE=str(tmp_path)):
            yield f"http://127.0.0.1:{server.server_address[1]}/data"
        server.shutdown()
        thread.join()


def kept(folder: Path) -> dict[str, int]:
    """The files of a folder and their sizes."""
    return {path.name: path.stat().st_size for path in folder.rglob("*") if path.is_file()}


def test_a_broken_download_goes_on(site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what is kept; the next call asks for the rest, and the whole has its checksum."""
    monkeypatch.setattr(Breaking, "most", 3000)
    with pytest.raises(FetchError) as caught:
        fetch(site, "data", checksum=CHECKSUM)
    assert str(caught.value) == (
        f"cannot download {site}: the connection ended after 3000 of 5000 bytes\n  it would be kept in "
        f"{tmp_path}/downloads, where you can put it yourself\n  3000 bytes are kept, "
        "and the next call goes on from there"
    )
    assert kept(tmp_path) == {"data.partial": 3000}
    assert fetch(site, "data", checksum=CHECKSUM).read_bytes() == CONTENT
    assert Breaking.asked == [None, "bytes=3000-"] and kept(tmp_path) == {"data": 5000}


@pytest.mark.parametrize(
    ("kind", "size", "asked"),
    [
        ("whole", 2000, ["bytes=2000-"]),  # the server sends all of it again
        ("other", 2000, ["bytes=2000-", None]),  # the rest is of another file: all of it is downloaded anew
        ("parts", 5000, ["bytes=5000-", None]),  # there is no rest
        ("parts", 0, [None]),
    ],
)
def test_what_is_kept_and_does_not_fit(
    site: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int, asked: list[str | None]
) -> None:
    """A server without parts, one with another file, and a part that is whole already or empty."""
    monkeypatch.setattr(Breaking, "kind", kind)
    (tmp_path / "downloads").mkdir()
    (tmp_path / "downloads" / "data.partial").write_bytes(CONTENT[:size] if kind != "other" else bytes(size))
    assert fetch(site, "data", checksum=CHECKSUM).read_bytes() == CONTENT
    assert Breaking.asked == asked and kept(tmp_path) == {"data": 5000}


def test_another_file_is_not_kept(site: str, tmp_path: Path) -> None:
    """Neither as a whole nor as a part."""
    with pytest.raises(FetchError, match=r"is not the file that was expected: checksum .*nothing was kept"):
        fetch(site, "data", checksum="0" * 64)
    assert kept(tmp_path) == {}


def test_two_processes_do_not_write_one_partial_file(site: str, tmp_path: Path) -> None:
    """The second one downloads for itself."""
    import fcntl

    (tmp_path / "downloads").mkdir()
    with open(tmp_path / "downloads" / "data.partial", "wb") as other:
        other.write(b"half")
        other.flush()
        fcntl.flock(other, fcntl.LOCK_EX)
        assert fetch(site, "data", checksum=CHECKSUM).read_bytes() == CONTENT
    assert kept(tmp_path) == {"data": 5000, "data.partial": 4} and Breaking.asked == [None]
