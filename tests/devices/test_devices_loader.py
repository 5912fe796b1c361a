"""DataLoader on a device with queues: batches go through its pinned memory, and nothing waits for the copies."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from installed import installed
from late_queues import LateBackend
from tinygraft import Device
from tinygraft.device.timeline import Timeline
from tinygraft.nn.data import DataLoader


@pytest.fixture
def late(tmp_path: Path) -> Iterator[LateBackend]:
    """A device that does everything as late as it may."""
    with installed(tmp_path, "late", LATE="late_queues:LATE"):
        backend = Device["LATE"]
        assert isinstance(backend, LateBackend)
        yield backend
        gc.collect()
        Device._opened.pop("LATE")


@pytest.mark.parametrize("pin_memory", [False, True])
def test_batches_are_staged(late: LateBackend, pin_memory: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether that is asked for or not; the copies still wait when the last batch has come; values are right."""
    staged: list[int] = []
    staging = Timeline.staging

    def noted(self: Timeline, nbytes: int) -> memoryview:
        staged.append(nbytes)
        return staging(self, nbytes)

    monkeypatch.setattr(Timeline, "staging", noted)
    data = np.random.RandomState(0).standard_normal((64, 512)).astype(np.float32)
    batches = list(DataLoader(data, 32, device="LATE", pin_memory=pin_memory))
    assert staged == [32 * 512 * 4] * 2 and len(late.queue.tasks) >= 2
    assert [batch.tolist() for batch in batches] == [data[:32].tolist(), data[32:].tolist()]
