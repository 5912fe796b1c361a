"""The line that says what takes long: when it shows, what it counts, and where it does not."""

from __future__ import annotations

import contextlib
import io
import os
import pty
import re
import subprocess
import sys
import threading
import time

import pytest

from tinygraft import Context, progress
from tinygraft.helpers import fetch, tqdm, trange

WORK = """
import time
from tinygraft import progress
progress.SHOW_AFTER = progress.TICK = 0.05
with progress.making.work("compiling", 4) as step:
    step(1)
    for _ in range(100 * progress.is_wanted()):
        time.sleep(0.05)
        if progress.making._bar is not None:
            break
    step(2)
    time.sleep(0.3)
print("done", "tqdm" in __import__("sys").modules)
"""


def on_a_terminal(script: str, **environment: str) -> tuple[str, str]:
    """What a script prints, and what its terminal got on stderr."""
    mine, theirs = pty.openpty()
    known = {**os.environ, "TERM": "xterm", **environment}
    seen: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):  # the end of a terminal
            while block := os.read(mine, 65536):
                seen.append(block)

    reader = threading.Thread(target=read)
    reader.start()
    try:
        command = [sys.executable, "-c", script]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, text=True, check=True, env=known)
    finally:
        os.close(theirs)
        reader.join()
        os.close(mine)
    return done.stdout, b"".join(seen).decode()


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        """It is."""
        return True


def test_a_line_with_a_count_on_a_terminal() -> None:
    """After the time the bar shows what is done and how much there is, and is removed at the end."""
    printed, seen = on_a_terminal(WORK)
    assert printed == "done True\n"
    assert re.search(r"tinygraft: compiling: +75%.*3/4 \[", seen)
    assert "\n" not in seen.replace("\r\n", "")
    assert seen.rstrip("\r").endswith(" ") or seen.endswith("\r")


@pytest.mark.parametrize("environment", [{"PROGRESS": "0"}, {"DEBUG": "1"}, {"TERM": "dumb"}])
def test_nothing_where_it_is_not_wanted(environment: dict[str, str]) -> None:
    """By the setting, where DEBUG prints, and on a terminal that cannot; tqdm is not even imported."""
    assert on_a_terminal(WORK, **environment) == ("done False\n", "")


def test_nothing_in_a_pipe() -> None:
    """A log has no such lines."""
    done = subprocess.run([sys.executable, "-c", WORK], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("done False\n", "")


def test_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is over before the time leaves the terminal and the threads as they were."""
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setenv("TERM", "xterm")
    one = progress.TerminalLine(" things")
    with one.work("being quick", 2) as step:
        step(1)
    time.sleep(0.05)
    assert stream.getvalue() == ""
    assert not [thread for thread in threading.enumerate() if thread.name == "tinygraft shows"]


def test_work_that_follows_at_once_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many short realisations are one wait: their times and counts add up, and an error ends the line as well."""
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.3)
    monkeypatch.setattr(progress, "GAP", 5.0)
    monkeypatch.setenv("TERM", "xterm")
    one = progress.TerminalLine(" things")
    for number in range(8):
        with contextlib.suppress(ValueError), one.work("going on", 1) as step:
            time.sleep(0.1)
            step(1)
            with one.hidden():
                print("mine", file=stream)
            if number == 7:
                raise ValueError
    assert "8/8" in stream.getvalue()
    assert one._bar is None


def test_nested_work_has_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner work says what is done; the line ends with the outer one."""
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    monkeypatch.setattr(progress, "SHOW_AFTER", 0.05)
    monkeypatch.setattr(progress, "TICK", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    one = progress.TerminalLine(" things")
    with one.work("outer"):
        time.sleep(0.15)
        with one.work("inner", 3) as step:
            time.sleep(0.15)
            step(3)
        assert one._bar is not None
    assert "outer" in stream.getvalue()
    assert "tinygraft: inner" in stream.getvalue()
    assert one._bar is None


def test_without_a_stream_nothing_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program without stderr, or with a closed one."""
    monkeypatch.setattr(sys, "stderr", None)
    assert not progress.is_wanted()
    closed = Terminal()
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    with Context(PROGRESS=1):
        progress.is_wanted()
    monkeypatch.setattr(sys, "stderr", object())
    assert not progress.is_wanted()


def test_a_fork_in_the_middle_is_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child begins with no work of its own."""
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    with progress.making.work("compiling", 1):
        child = os.fork()
        if not child:
            os._exit(int(progress.making._depth != 0))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert progress.making._depth == 0


def test_compiling_and_downloads_are_counted(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    """A first realisation counts its kernels, a download its bytes."""
    script = (
        "import time\nfrom tinygraft import progress, Tensor\nfrom tinygraft.engine.compile import _Compilation\n"
        "import tqdm\nprogress.SHOW_AFTER = 0.1\nrun = _Compilation.run\n"
        "def slow(self):\n    time.sleep(0.5)\n    run(self)\n_Compilation.run = slow\n"
        "print((Tensor([1.0, 2.0]).sin() + 1).sum().realize().numel())\n"
    )
    printed, seen = on_a_terminal(script, CACHELEVEL="0", DEV="PYTHON")
    assert printed == "1\n"
    assert re.search(r"tinygraft: (compiling|scheduling).*0/\d", seen)
    source = tmp_path / "file"  # type: ignore[operator]
    source.write_bytes(bytes(3_000_000))
    steps: list[int] = []
    monkeypatch.setattr(progress, "is_wanted", lambda: True)
    monkeypatch.setattr(progress.downloading, "_step", steps.append)
    monkeypatch.setenv("TINYGRAFT_CACHE", str(tmp_path))
    with Context(TINYGRAFT_CACHE=str(tmp_path)):
        fetch(source.as_uri())
    assert (sum(steps), progress.downloading._total) == (3_000_000, 3_000_000)


def test_bars_of_scripts_are_tqdms() -> None:
    """helpers.tqdm and trange are the library's own, which work in notebooks."""
    import tqdm as library

    assert (tqdm, trange) == (library.tqdm, library.trange)
