"""Forking and threads on a device that works here: nothing hangs, every thread gets its own right answer."""

import subprocess
import sys

import pytest

FORKS = """
import os, sys, threading
from tinygraft import Tensor

def work(n):
    return (Tensor.arange(n).contiguous() * 2).sum().item()

stop, failures = threading.Event(), []

def busy(seed):
    n = seed
    while not stop.is_set():
        n = n % 97 + 4
        if work(n) != n * (n - 1):
            failures.append(n)

threads = [threading.Thread(target=busy, args=(seed,), daemon=True) for seed in range(4)]
for thread in threads:
    thread.start()
work(10)
for i in range(8):
    pid = os.fork()
    if pid == 0:
        os._exit(0 if work(100 + i) == (100 + i) * (99 + i) else 1)
    _, status = os.waitpid(pid, 0)
    assert status == 0, status
stop.set()
for thread in threads:
    thread.join()
assert not failures, failures
print("well")
"""

THREADS = """
import threading
from tinygraft import Tensor

barrier, answers = threading.Barrier(8), {}

def work(i):
    barrier.wait()
    answers[i] = [((Tensor.arange(50 + k) + i).contiguous() * 3).sum().item() for k in range(10)]

threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
for i in range(8):
    assert answers[i] == [3 * ((50 + k) * (49 + k) // 2 + i * (50 + k)) for k in range(10)], i
print("well")
"""


def run(code: str) -> str:
    """What a fresh process prints; one that hangs is a failure."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="no fork here")
def test_fork_under_four_busy_threads():
    """A child that is forked while other threads build, compile and launch computes, and so does its parent."""
    assert run(FORKS) == "well\n"


def test_eight_threads_compute():
    """Eight threads that start at once on a device that is not open all get their own answers."""
    assert run(THREADS) == "well\n"
