"""Handles that are a buffer and an offset, as Metal has them: core passes them on, and never looks inside."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from installed import installed
from kit_run import KitRun
from offset_handles import OffsetAllocator, OffsetBackend, Part
from tinygraft import Context, Device, Tensor, TinyJit, nn


@pytest.fixture
def device(tmp_path: Path) -> Iterator[str]:
    """The device of offset_handles.py."""
    with installed(tmp_path, "offsets", OFFSETS="offset_handles:OFFSETS"), Context(DEV="OFFSETS"):
        yield "OFFSETS"
        gc.collect()
        for name in [name for name in Device.opened() if name.startswith("OFFSETS")]:
            Device._opened.pop(name)


@pytest.fixture
def kit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> KitRun:
    """Runs the kit."""
    return KitRun(tmp_path, capsys)


RUN = "class TestIt(DeviceConformance):\n    device, level = 'OFFSETS', {level!r}\n"


def trained(steps: int) -> tuple[list[float], list[list[float]]]:
    """Losses and weights of a small network, its steps replayed."""
    Tensor.manual_seed(3)
    first, second = nn.Linear(6, 8), nn.Linear(8, 1)
    optimizer = nn.optim.Adam(nn.state.get_parameters([first, second]), lr=0.02)
    x = Tensor(np.random.default_rng(0).standard_normal((16, 6)).astype(np.float32)).realize()

    @TinyJit
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (second(first(x).tanh()).flatten() - x.sum(1)).square().mean()
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Tensor.train():
        losses = [step(x).item() for _ in range(steps)]
    assert step.captured == 1
    return losses, first.weight.tolist()


@pytest.mark.usefixtures("device")
def test_training_is_that_of_the_interpreter() -> None:
    """Temporaries share one block by views, replays set buffers, and all numbers are the same."""
    found = trained(6)
    with Context(DEV="PYTHON"):
        assert trained(6) == found
    backend = Device["OFFSETS"]
    assert isinstance(backend, OffsetBackend)
    assert backend.allocator.count < 400, "freed buffers are used again"


def test_writes_through_views_and_slices(device: str) -> None:
    """A view of a tensor is the same memory at an offset."""
    t = Tensor.zeros(4, 4).contiguous().realize()
    t[1:3, 2:] = Tensor([[1.0, 2.0], [3.0, 4.0]])
    row = t[3]
    row += 5
    assert t.tolist() == [[0, 0, 0, 0], [0, 0, 1, 2], [0, 0, 3, 4], [5, 5, 5, 5]]
    assert t.to("PYTHON").sum().item() == 30.0
    assert Tensor([1.0, 2.0]).shard((f"{device}:0", f"{device}:1"), axis=0).sum().item() == 3.0


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "least"), [
    pytest.param("not test_elementwise and not test_constants and not test_cast", 400, id="no edge values"),
    pytest.param("test", 900, id="all", marks=pytest.mark.long),
])  # fmt: skip
def test_the_kit_passes(device: str, kit: KitRun, chosen: str, least: int) -> None:
    """All levels, those of abilities that it has."""
    outcome = kit(RUN.format(level="1-5"), "-k", chosen)
    assert outcome.code == 0, outcome.text
    counts = outcome.counts(device)
    assert counts["memory"]["passed"] > 20
    assert sum(level["passed"] for level in counts.values()) > least


class FromTheBegin(OffsetAllocator):
    """A view of a view begins at the begin of the whole."""

    def view(self, handle: Part, offset: int, nbytes: int) -> Part:
        """The offset of the handle itself is forgotten."""
        return Part(handle.number, offset, nbytes)


class WholeBuffers(OffsetAllocator):
    """Whoever asks for a part gets the begin of its buffer."""

    def memory(self, part: Part) -> memoryview:
        """All of it."""
        return memoryview(self.buffers[part.number])


@pytest.mark.parametrize("wrong", [FromTheBegin, WholeBuffers])
@pytest.mark.parametrize("test", ["a_view_is_its_part_of_the_buffer", "kernels_use_views_at_their_offset"])
def test_the_kit_finds_a_lost_offset(
    device: str, kit: KitRun, monkeypatch: pytest.MonkeyPatch, wrong: type[OffsetAllocator], test: str
) -> None:
    """By the name of the test that is about it."""
    monkeypatch.setattr(OffsetBackend, "allocator_class", wrong)
    outcome = kit(RUN.format(level="memory"), "-k", test)
    failed = outcome.device(device)["tests"].get("failed", [])
    assert bool(failed) == (wrong is WholeBuffers or test.startswith("a_view"))
