"""The server of the page and its files: who has the token sees it, a name in it is text, a program ends as ever."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinygraft.engine.viewer.live_record import LiveRecord
from tinygraft.engine.viewer.page_file import saved_page, write_page
from tinygraft.engine.viewer.page_server import PageServer
from tinygraft.events import CompileEvent, LaunchEvent, StageEvent

EVIL = "</script><img src=x onerror=alert(1)>"


@pytest.fixture
def server() -> Iterator[PageServer]:
    """A server of a record with one kernel, whose name is HTML."""
    record = LiveRecord()
    record(StageEvent(name="source", subject=f"int {EVIL}", kernel=EVIL))
    record(CompileEvent(name=EVIL, device="X", seconds=0.1))
    record(LaunchEvent(name=EVIL, device="X", seconds=1.0, start=record.begun + 1))
    found = PageServer(record, f"program {EVIL}")
    yield found
    found.stop()


def get(server: PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    """The status, headers and text of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    return answer.status, dict(answer.headers), answer.read().decode()


def test_with_the_token_there_is_the_page_and_its_news(server: PageServer) -> None:
    """The page by its address; news and stages by a header; a saved page to store."""
    status, headers, text = get(server, server.address.partition(str(server.port))[2])
    assert (status, headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    assert headers["Referrer-Policy"] == "no-referrer"
    assert text.startswith("<!doctype html>")
    status, _, text = get(server, "/news", X_Token=server.token)
    assert (status, json.loads(text)["kernels"]) == (200, [[EVIL, "X", 0, 1]])
    status, _, text = get(server, "/news?kernels=1&launches=1", X_Token=server.token)
    assert (json.loads(text)["kernels"], json.loads(text)["launches"]["start"]) == ([], [])
    status, _, text = get(server, "/kernel/0", X_Token=server.token)
    assert [stage["text"] for stage in json.loads(text)] == [f"int {EVIL}"]
    status, headers, text = get(server, "/save", X_Token=server.token)
    assert "tinygraft.html" in headers["Content-Disposition"]
    for path in ("/kernel/1", "/kernel/-1", "/kernel/x", "/schedule/0", "/etc/passwd", "/../x"):
        assert get(server, path, X_Token=server.token)[0] == 404


def test_without_it_there_is_nothing(server: PageServer) -> None:
    """No token, another one, another name of this address in Host, another method: nothing of the record is told."""
    for path in ("/", "/news", "/kernel/0", "/save", f"/?token={server.token[:-1]}", "/?token=", "/?token=%FF"):
        status, _, text = get(server, path)
        assert (status, text) == (403, "open the whole address that the program printed\n")
    assert get(server, "/news", X_Token=server.token, Host=f"evil.example:{server.port}")[0] == 403
    assert get(server, "/news", X_Token=server.token, Host=f"127.0.0.1:{server.port + 1}")[0] == 403
    assert get(server, "/news", X_Token=server.token, Host=f"localhost:{server.port}")[0] == 200
    assert get(server, "/news", method="POST", X_Token=server.token)[0] == 501
    assert len(server.token) >= 32


def test_a_name_is_never_html(server: PageServer, tmp_path: Path) -> None:
    """The title is escaped, data cannot end its element, and only scripts of the page may run, by their digests."""
    text = saved_page(server.record, server.title)
    assert EVIL not in text
    assert "<title>program &lt;/script&gt;" in text
    (data,) = re.findall(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert json.loads(data)["kernels"] == [[EVIL, "X", 0, 1]]
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert write_page(server.record, tmp_path / "page.html", server.title).read_text(encoding="utf-8") == text


def test_a_page_that_cannot_be_written_is_an_error(server: PageServer, tmp_path: Path) -> None:
    """A folder that does not exist is no silent loss."""
    with pytest.raises(OSError, match="could not be written"):
        write_page(server.record, tmp_path / "none" / "page.html", "x")


def test_the_command_serves_and_writes_the_page(tmp_path: Path) -> None:
    """`tinygraft viz`: output and exit code of the script, the address on the standard error, the file."""
    (tmp_path / "ends.py").write_text("import sys; from tinygraft import Tensor\n"
                                      "print(Tensor([2.0]).exp2().item(), *sys.argv[1:]); sys.exit(3)\n")  # fmt: skip
    environment = {**os.environ, "DEV": "PYTHON", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-m", "tinygraft", "viz", "ends.py", "--fast"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 3
    first, last = done.stdout.splitlines()
    assert first == "4.0 --fast"
    assert re.fullmatch(r"VIZ: http://127\.0\.0\.1:\d+/\?token=[\w-]{32}\n", done.stderr)
    (page,) = tmp_path.glob("tinygraft-*.html")
    assert last == f"VIZ: {page}"
    assert "<title>ends.py --fast</title>" in page.read_text(encoding="utf-8")


def test_a_number_of_any_length_is_answered(server: PageServer) -> None:
    """int() refuses very long numbers: they count as absent, and no traceback is printed."""
    assert get(server, "/news?launches=" + "9" * 5000, X_Token=server.token)[0] == 200
    assert get(server, "/kernel/" + "9" * 5000, X_Token=server.token)[0] == 404
