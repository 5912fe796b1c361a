"""What the viewer records: kernels with all their stages, launches in columns with lines and modules, memory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinygraft import Tensor, events
from tinygraft.engine.viewer import live_record
from tinygraft.engine.viewer.live_record import LiveRecord
from tinygraft.engine.viewer.packing import stages_text
from tinygraft.engine.viewer.page_news import news
from tinygraft.engine.viewer.served import Viewing, begin
from tinygraft.events import CompileEvent, LaunchEvent, StageEvent


@pytest.fixture
def viewing() -> Iterator[Viewing]:
    """A viewer of this process, ended afterwards."""
    found = begin("here")
    yield found
    found.undo()
    events.origins = None


def launch(name: str = "k", **fields: object) -> LaunchEvent:
    """A launch of a second at time 1 on device X."""
    return LaunchEvent(**{"name": name, "device": "X", "seconds": 1.0, "start": 1.0, **fields})  # type: ignore[arg-type]


def test_a_kernel_has_its_stages_once_and_a_line_for_each_launch(viewing: Viewing) -> None:
    """The stages of a kernel from its graph to its binary; a second realisation adds launches only."""
    for _ in range(3):
        (Tensor([1.0, 2.0, 4.0], device="PYTHON") * 7.25).realize()
    found = news(viewing.record, {})
    ((name, device, origin, count),) = found["kernels"]
    stages = json.loads(stages_text(viewing.record.kernels[0].stages))
    names = [stage["name"] for stage in stages]
    assert (device, count) == ("PYTHON", len(stages))
    assert names[0] == "kernel"
    assert names[-3:] == ["linear", "source", "binary"]
    assert name
    assert stages[-2]["text"]
    assert stages[0]["graph"]["boxes"]
    assert found["launches"]["kernel"] == [0, 0, 0]
    assert found["launches"]["start"] == sorted(found["launches"]["start"])
    file, line, module, backward = found["origins"][origin][0]
    assert (file, module, backward) == (__file__, "", False)
    assert "7.25" in Path(__file__).read_text(encoding="utf-8").splitlines()[line - 1]
    assert sum(change[2] for change in found["memory"] if change[2] > 0) >= 12
    assert [schedule[2] for schedule in found["schedules"]] == [1]
    assert {live_record.SPANS[kind] for _, _, kind in found["spans"]} >= {"realize", "schedule", "lower"}


def test_news_are_what_a_page_does_not_have() -> None:
    """A page that says how much it has gets the rest of each list, and nothing twice."""
    record = LiveRecord()
    record(launch(flops=3))
    first = news(record, {})
    record(launch("other", queue=1))
    have = {name: len(first[name]) for name in ("kernels", "tracks", "origins")} | {"launches": 1}
    second = news(record, have)
    assert (first["launches"]["flops"], second["launches"]["kernel"]) == ([3], [1])
    assert [kernel[0] for kernel in second["kernels"]] == ["other"]
    assert (first["tracks"], second["tracks"]) == (["X"], ["X queue 1"])
    assert second["origins"] == []


def test_a_kernel_that_failed_does_not_hide_those_after_it() -> None:
    """What a compiler refused is shown when the next schedule begins, and at the end in any case."""
    record = LiveRecord()
    record(StageEvent(name="source", subject="text", kernel="bad"))
    record(launch())
    assert news(record, {})["kernels"] == []
    assert news(record, {})["launches"]["start"] == []
    assert [kernel[0] for kernel in news(record, {}, to_end=True)["kernels"]] == ["bad", "k"]
    record(StageEvent(name="tensor graph", subject=()))
    assert [kernel[0] for kernel in news(record, {})["kernels"]] == ["bad", "k"]
    assert len(news(record, {})["launches"]["start"]) == 1


def test_a_kernel_is_found_by_its_name_where_its_graph_is_not_known() -> None:
    """A launch without a serial belongs to the kernel of that name and device that was made last."""
    record = LiveRecord()
    record(StageEvent(name="source", subject="text", kernel="k"))
    record(CompileEvent(name="k", device="X", seconds=0.1))
    record(launch())
    record(launch(device="Y"))
    assert news(record, {})["launches"]["kernel"] == [0, 1]
    assert [kernel[3] for kernel in news(record, {})["kernels"]] == [1, 0]


def test_past_the_limits_it_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Launches past the limit are counted; past the bytes of stages only source and binary are stored."""
    monkeypatch.setattr(live_record, "MOST_LAUNCHES", 2)
    monkeypatch.setattr(live_record, "MOST_STAGE_BYTES", 0)
    record = LiveRecord()
    for name in ("kernel", "linear", "source", "binary"):
        record(StageEvent(name=name, subject=name, kernel="k"))
    for _ in range(5):
        record(launch())
    stages = json.loads(stages_text(record.kernels[0].stages))
    assert [stage["name"] for stage in stages] == ["kernel", "source", "binary"]
    found = news(record, {}, to_end=True)
    assert (len(found["launches"]["start"]), found["omitted"], found["cut"]) == (2, 3, True)
