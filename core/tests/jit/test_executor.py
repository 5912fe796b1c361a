"""The default GraphExecutor, and replays over more than one device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tinygraft import Device, GlobalCounters, Tensor, TinyJit
from tinygraft.device.interfaces import Allocator, GraphExecutor, Handle, Program, Step
from tinygraft.uop import index as ix
from tinygraft.uop.uop import UOp

Launched = list[tuple[list[Handle], list[int], tuple[int, int, int]]]


class Noted(Program):
    """A program that notes what it was launched with."""

    def __init__(self) -> None:
        self.launched: Launched = []

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Note the arguments."""
        self.launched.append((list(buffers), list(variables), grid))


class Far(Allocator):
    """Memory that the host cannot see: bytearrays that are only copied from and to."""

    def alloc(self, nbytes: int) -> Handle:
        """nbytes zeros."""
        return bytearray(nbytes)

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Host to device."""
        target[:] = source

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Device to host."""
        target[:] = source


def test_steps_are_launched_one_by_one_with_what_was_set_last() -> None:
    """Buffers by place, variables in the program's order, symbolic sizes of the grid with their values."""
    n, m = UOp.variable("n", 1, 9), UOp.variable("m", 1, 9)
    first, second = Noted(), Noted()
    steps = [
        Step(first, (0, 1)),
        Step(second, (2, 0, 2), ("m", "n"), (ix.add(ix.mul(n, 2), 1), 4, m)),
    ]
    executor = GraphExecutor(Device["NULL"], steps)
    for place in range(3):
        executor.set_buffer(place, f"buffer {place}")
    executor.set_values({"n": 3, "m": 5})
    assert [executor.run(0), executor.run(1)] == [1, 2]
    executor.set_buffer(2, "another")
    executor.set_values({"n": 1, "m": 2})
    assert executor.run(1) == 2
    assert first.launched == [(["buffer 0", "buffer 1"], [], (1, 1, 1))]
    assert second.launched == [
        (["buffer 2", "buffer 0", "buffer 2"], [5, 3], (7, 4, 5)),
        (["another", "buffer 0", "another"], [2, 1], (3, 4, 2)),
    ]


def test_a_copy_within_memory_that_the_host_cannot_see(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default bytes go through the host."""
    backend = Device["NULL"]
    monkeypatch.setattr(backend, "allocator", Far())
    executor = backend.graph([Step(None, (1, 0), nbytes=4)])
    source, target = bytearray(b"abcd"), bytearray(4)
    executor.set_buffer(0, source)
    executor.set_buffer(1, target)
    assert executor.run(0) == 1
    assert target == b"abcd"


def test_a_replay_over_two_devices(capsys: pytest.CaptureFixture[str]) -> None:
    """Launches go to the executor of their device, bytes from one to the other in between; the counters know all."""
    weight = Tensor([1.0, 2.0], device="PYTHON").realize()

    def compute(x: Tensor) -> Tensor:
        there = (x * 2).realize().to("PYTHON")
        back = (there + weight).realize().to("CPU")
        return (back * 10).realize()

    jit, counts = TinyJit(compute), []
    for i in range(5):
        x = Tensor([float(i), 1.0], device="CPU").realize()
        GlobalCounters.reset()
        assert jit(x).tolist() == [20.0 * i + 10, 40.0]
        counts.append((GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem))
    assert jit.captured == 1
    assert set(counts) == {counts[0]}
    assert jit.kernels == [["E_2", "copy", "E_2", "copy", "E_2"]]


def test_an_error_in_a_replay_leaves_it_usable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that raises ends this replay; the next one starts from the beginning."""
    jit = TinyJit(lambda x: ((x + 1).realize() * 2).realize())
    x = Tensor([1.0, 2.0], device="PYTHON").realize()
    expected = [jit(x).tolist() for _ in range(3)]
    program = next(iter(jit._ready.values())).launches.launches[1].kernel.program
    launch: Any = type(program).launch

    def broken(self: Program, *args: Any) -> None:
        raise RuntimeError("the device is on fire")

    monkeypatch.setattr(type(program), "launch", broken)
    with pytest.raises(RuntimeError, match="on fire"):
        jit(x)
    monkeypatch.setattr(type(program), "launch", launch)
    assert [jit(x).tolist()] == expected[:1]
