"""The watcher of a run of the kit: what it says where the process of the tests ends without a report."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pipes are passed to a child by their numbers")
HEAD = """
import ctypes, os
from tinygraft.conformance.watcher import Watcher
class Binary: name = "r_64_64"
class Program:
    def launch(self, crash): crash()
class Backend:
    def load(self, binary): return Program()
backend, watcher = Backend(), Watcher()
watcher.test("test_a[1]"); watcher.passed()
watcher.test("test_b[int-3]"); watcher.watch(backend)
program = backend.load(Binary())
"""


def ended(code: str) -> tuple[int, str]:
    """The exit code of a process with a watcher, and what both print to stderr."""
    done = subprocess.run([sys.executable, "-c", HEAD + code], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def test_a_crash_of_a_launch() -> None:
    """The signal, the test with its parameters, the kernel, and how many tests had passed; the stack is above it."""
    code, said = ended("program.launch(lambda: ctypes.string_at(0))")
    assert code == -11
    assert "Fatal Python error: Segmentation fault" in said
    assert said.endswith(
        "\nconformance: ended by SIGSEGV in test_b[int-3], kernel r_64_64; 1 passed before\n"
        "  hint: -k test_b runs that test again; DEBUG=4 prints the sources of its kernels\n"
    )


@pytest.mark.parametrize(("code", "how"), [
    ("os._exit(3)", "ended without a report in test_b[int-3], kernel r_64_64, which was loaded; 1 passed before"),
    ("os.abort()", "ended by SIGABRT in test_b[int-3], kernel r_64_64, which was loaded; 1 passed before"),
    ("watcher.test('test_c'); os.kill(os.getpid(), 9)", "ended without a report in test_c; 1 passed before"),
    ("other = Watcher(); os._exit(3)", "ended without a report before its first test; 0 passed before\n"),
    ("os.fork() or os.execlp('sleep', 'sleep', '0'); os._exit(1)", "ended without a report in test_b[int-3]"),
])  # fmt: skip
def test_other_ends(code: str, how: str) -> None:
    """An exit, an abort, and a signal that no process can report itself."""
    assert f"conformance: {how}" in ended(code)[1]


def test_an_end_with_a_report() -> None:
    """A run that is over is silent, and what noted the kernels is undone."""
    code, said = ended(
        "watcher.close(); assert 'load' not in vars(backend); assert Program.launch.__code__.co_argcount == 2"
    )
    assert (code, said) == (0, "")
