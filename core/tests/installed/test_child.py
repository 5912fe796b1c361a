"""A function in a child process: what it tells, how it may end, and what is said while it takes long."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from tinygraft.installed import child as children
from tinygraft.installed.child import Child, ChildEnded

CODE = """
import os, signal, time

def tells(job, tell):
    print("this is for the screen")
    os.write(1, b"{}")
    tell({"number": job["number"]})
    tell({"number": job["number"] + 1})

def waits(job, tell):
    time.sleep(job["seconds"])
    tell({"done": True})

def leaves(job, tell):
    os._exit(job["code"])

def crashes(job, tell):
    os.kill(os.getpid(), job["signal"])

def raises(job, tell):
    raise ValueError("out of ink")
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a module whose functions a child can run."""
    (tmp_path / "childish.py").write_text(textwrap.dedent(CODE))
    monkeypatch.syspath_prepend(str(tmp_path))
    return "childish"


def test_messages_come_in_order(module: str) -> None:
    """Each message is what the function told; None says that it has returned; what it prints is no message."""
    with Child(f"{module}:tells", {"number": 3}) as child:
        assert child.message(20.0) == {"number": 3}
        assert child.message(20.0) == {"number": 4}
        assert child.message(20.0) is None


def test_a_hang_is_told_once_and_ended(module: str) -> None:
    """What takes longer than a second is told to on_wait, once; at the limit the child is given up and ended."""
    told: list[float] = []
    with Child(f"{module}:waits", {"seconds": 3600}, "waiting", told.append) as child:
        with pytest.raises(ChildEnded, match=r"^waiting in a child process took more than 1\.2 s$"):
            child.message(1.2)
        with pytest.raises(ChildEnded):
            child.message(0.1)
    assert told == [1.2]


@pytest.mark.skipif(os.name != "posix", reason="no signals here")
@pytest.mark.parametrize(
    ("function", "job", "ending"),
    [
        ("leaves", {"code": 3}, "ended it with exit code 3 and no answer"),
        ("leaves", {"code": 0}, "ended it with exit code 0 and no answer"),
        ("crashes", {"signal": 11}, "ended it by SIGSEGV"),
        ("crashes", {"signal": 40}, "ended it by signal 40"),
        ("raises", {}, "ended it with exit code 1 and no answer"),
    ],
)
def test_how_it_ended(module: str, function: str, job: dict[str, int], ending: str) -> None:
    """The reason names the signal or the exit code; what the child had printed is kept with it."""
    with (
        Child(f"{module}:{function}", job) as child,
        pytest.raises(ChildEnded, match=f"^it in a child process {ending}$"),
    ):
        child.message(20.0)
    with Child(f"{module}:raises", {}) as child, pytest.raises(ChildEnded) as caught:
        child.message(20.0)
    assert "ValueError: out of ink" in caught.value.printed


def test_where_no_process_can_be_started(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside a program that is not Python, or where none may be started, that is an OSError."""
    monkeypatch.setattr(children.sys, "executable", "/no/such/python")
    with pytest.raises(OSError, match="No such file"):
        Child(f"{module}:tells", {})
