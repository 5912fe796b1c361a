"""Kernels in chunks: on the native pool, with many launching threads, in forked children, and without the extension."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cpu_case import SIZE, Case
from tinygraft.conformance.linears import matmul
from tinygraft_cpu import extension
from tinygraft_cpu.program import CpuProgram

needs_ext = pytest.mark.needs("ext")


@needs_ext
@pytest.mark.parametrize("threads", [1, 2, 3, 5, 16])
def test_any_number_of_threads_gives_the_same_bits(threads: int) -> None:
    """A kernel has the same result in several chunks and in one."""
    case = Case(threads, SIZE + 1)
    assert isinstance(case.program, CpuProgram)
    assert case.program.parts == threads
    case.check()


@needs_ext
def test_parts_run_on_workers() -> None:
    """A launch of three chunks is run in three, and the pool has at least two workers then."""
    case = Case(3)
    case.check()
    library = extension.library()
    addresses = [case.target.address, case.source.address]
    assert library.tg_launch(case.program.code.address, addresses, [], 0, 3, 0) == 3
    assert library.tg_workers() >= 2


@needs_ext
def test_eight_threads_launch_at_once(run_threads: Callable[..., list[Any]]) -> None:
    """Launches from eight Python threads do not disturb each other: the pool serves one, the others run alone."""
    case = Case(4)

    def job(k: int) -> int:
        for _ in range(200):
            case.check()
        return k

    assert run_threads(job, 8) == list(range(8))


@needs_ext
def test_launches_of_different_sizes_follow_each_other() -> None:
    """No chunk is lost or run twice when their number changes from launch to launch."""
    cases = [Case(threads, 64) for threads in (2, 7, 3, 1, 5)]
    for round_ in range(2000):
        cases[round_ * 3 % len(cases)].program.launch([cases[0].target, cases[0].source], [], (1, 1, 1))
    for case in cases:
        case.check()


@needs_ext
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_has_a_pool_of_its_own() -> None:
    """Parent and child both launch after a fork, and private memory stays private."""
    code = """
        import os, sys
        sys.path.insert(0, {support!r})
        from cpu_case import Case
        from tinygraft_cpu import extension
        case = Case(3)
        case.check()
        child = os.fork()
        if child == 0:
            assert extension.library().tg_workers() == 0
            for _ in range(100):
                case.check()
            case.target.view[:4] = b"CHLD"
            os._exit(0 if extension.library().tg_workers() == 2 else 1)
        for _ in range(100):
            case.check()
        assert os.waitpid(child, 0)[1] == 0
        assert bytes(case.target.view[:4]) != b"CHLD"
        print("both are fine")
    """
    support = os.path.join(os.path.dirname(__file__), "..", "..", "..", "tests", "support")
    code = textwrap.dedent(code).format(support=support)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "both are fine\n", done.stderr


@needs_ext
@pytest.mark.faults
def test_a_fault_in_a_worker_shows_where_python_was() -> None:
    """A kernel that faults in a worker's chunk ends the process as one in the launching thread does: with stacks."""
    pytest.importorskip("llvmlite")
    code = """
        from tinygraft.plugin import Binary
        from tinygraft_cpu import extension
        from tinygraft_cpu.compile_llvm import machine

        text = '''
        define void @f(ptr %buffers, ptr %variables) {
        entry:
          %part = load i64, ptr %variables
          %is_second = icmp eq i64 %part, 1
          br i1 %is_second, label %fault, label %wait
        fault:
          store volatile i64 1, ptr null
          ret void
        wait:
          %i = phi i64 [ 0, %entry ], [ %next, %wait ]
          %next = add i64 %i, 1
          store volatile i64 %next, ptr %variables
          %is_over = icmp eq i64 %next, 1000000000
          br i1 %is_over, label %end, label %wait
        end:
          ret void
        }
        '''
        code, linker = machine().link(Binary("f", machine().compiled(text, False)[0], None))

        def launch():
            extension.library().tg_launch(int(code["f"]), [0], [], 0, 2, 0)

        launch()
    """
    command = [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGSEGV
    assert "Fatal Python error: Segmentation fault" in done.stderr
    assert "in launch" in done.stderr


@needs_ext
@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timer signals here")
def test_a_signal_during_launches_reaches_python() -> None:
    """A handler that raises, as Ctrl-C does, ends a loop of launches, and the pool works afterwards."""
    case = Case(3)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    def launch_for_ever() -> None:
        while True:
            case.program.launch([case.target, case.source], [], (1, 1, 1))

    old = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.1)
    try:
        with pytest.raises(KeyboardInterrupt):
            launch_for_ever()
    finally:
        signal.signal(signal.SIGALRM, old)
    case.check()


def test_without_the_extension_kernels_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A missing extension costs speed only; variables and shares are passed all the same."""
    monkeypatch.setattr(extension, "library", lambda: None)
    case = Case(4)
    assert isinstance(case.program, CpuProgram)
    assert case.program.parts == 1
    case.check()


def test_a_share_of_a_tile_loop(run: Callable[..., Any]) -> None:
    """A loop of two iterations in three chunks has one chunk without iterations."""
    a, b = (np.ones(shape, np.float32) for shape in ((6, 5), (5, 16)))
    assert (run(matmul(), np.zeros((6, 16), np.float32), a, b) == 5).all()
