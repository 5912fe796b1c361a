"""Interruptions and threads: what has run has run, what has not is as it was, and nothing runs twice."""

from __future__ import annotations

import os
import signal
import threading
import time

import numpy as np
import pytest

from tinygraft import Context, Tensor
from tinygraft.engine import run


@pytest.fixture(autouse=True)
def cpu():
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def test_an_interrupted_step_is_not_done_twice(monkeypatch):
    """Ctrl-C between two kernels: the assign that ran counts once, the one that did not runs later."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([1.0, 2.0, 3.0]).realize()
    a.assign(a + 1)
    b.assign(b + 1)
    launch, count = run.Launch.run, []

    def interrupted(self, values):
        if count:
            raise KeyboardInterrupt
        count.append(1)
        launch(self, values)

    monkeypatch.setattr(run.Launch, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Tensor.realize(a, b)
    monkeypatch.undo()
    assert a.tolist() == [2.0, 3.0]
    assert b.tolist() == [2.0, 3.0, 4.0]


def multiply_for_ever(x: Tensor) -> None:
    """Launch kernels until something stops it, or for 20 seconds."""
    start = time.monotonic()
    while time.monotonic() - start < 20:
        (x @ x).realize()


def test_ctrl_c_in_a_loop_leaves_the_process_usable():
    """A signal while kernels run raises KeyboardInterrupt soon, and the next result is right."""
    x = Tensor(np.ones((256, 256), np.float32)).realize()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        multiply_for_ever(x)
    assert time.monotonic() - start < 5
    assert (x @ x).numpy()[0, 0] == 256.0


def test_eight_threads_compute_at_once():
    """Each thread's results are its own, and a tensor that all of them read is computed rightly."""
    shared = Tensor(np.arange(1000, dtype=np.float32)) * 2
    results: dict[int, bool] = {}

    def work(number: int) -> None:
        with Context(DEV="CPU"):
            right = True
            for i in range(20):
                mine = Tensor(np.full((17, 5), number, np.float32)) * i + 1
                right &= mine.sum().item() == (number * i + 1) * 85
                right &= (shared + number).numpy()[10] == 20 + number
            results[number] = bool(right)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(8), True)
