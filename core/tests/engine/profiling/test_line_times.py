"""The time of each line of the user: requests are measured, Python between them is divided by samples."""

from __future__ import annotations

import inspect
import time

import pytest

from tinygraft import Tensor, TinyJit, events
from tinygraft.engine.profiling.line_times import COMPILING, KERNELS, PREPARING, PROGRAM, LineRow, LineTimes
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.events import LaunchEvent, RepeatEvent, SpanEvent


def sleeps(seconds: float) -> None:
    """What a data loader written in Python is like."""
    time.sleep(seconds)


def line_in_this_file(text: str) -> int:
    """The first line of this file that has a text."""
    lines = inspect.getsource(inspect.getmodule(sleeps)).splitlines()  # type: ignore[arg-type]
    return next(number for number, line in enumerate(lines, 1) if text in line)


def span(name: str, start: float, seconds: float, detail: str = "") -> SpanEvent:
    """A span."""
    return SpanEvent(name=name, start=start, seconds=seconds, detail=detail)


def launch(start: float, seconds: float, waited: bool = True) -> LaunchEvent:
    """A launch of a kernel."""
    return LaunchEvent(name="k", device="X", seconds=seconds, start=start, waited=waited)


def only_row(times: LineTimes) -> LineRow:
    """The one row there is, without what samples add."""
    times.stop()
    (row,) = times.rows()
    return row


def test_a_request_has_what_is_inside_of_it() -> None:
    """Schedule, compilation and kernels are no preparing; they are of the line that requested."""
    times = LineTimes()
    times.take(span("schedule", 1.0, 2.0))
    times.take(span("lower", 4.0, 1.0))
    times.take(span("compile", 3.0, 3.0))
    times.take(launch(6.0, 1.5))
    times.take(launch(7.5, 9.0, waited=False))
    times.take(span("realize", 0.0, 10.0))
    row = only_row(times)
    assert row.file == __file__
    assert row.function == "test_a_request_has_what_is_inside_of_it"
    assert row.seconds == {COMPILING: 5.0, KERNELS: 1.5, PREPARING: 3.5}
    assert (row.total, row.requests, row.replays, row.compiled) == (10.0, 1, 0, 1)


def test_replays_are_told_from_other_requests() -> None:
    """A second request that was planned before has compiled nothing; a replay is counted as one."""
    times = LineTimes()
    for event in (span("schedule", 0.5, 0.1), span("realize", 0.0, 1.0), span("realize", 2.0, 1.0),
                  span("realize", 4.0, 1.0, "a replay")):  # fmt: skip
        times.take(event)
    row = only_row(times)
    assert (row.requests, row.replays, row.compiled) == (3, 1, 1)


def test_a_repetition_says_why() -> None:
    """What is reported of the same operations is kept with the line."""
    times = LineTimes()
    times.take(RepeatEvent(why="for 8 shapes"))
    assert only_row(times).why == "for 8 shapes"


def test_a_sleep_is_the_programs_own() -> None:
    """Lines between requests have the time that passes in them, and all rows together the time of a clock."""
    profile = Profile("sleeps").start()
    try:
        for _ in range(3):
            sleeps(0.1)
            (Tensor([1.0, 2.0]) * 3).realize()
    finally:
        profile.stop()
        events.origins = None
    rows = {row.line: row for row in profile.lines.rows()}
    slept = rows[line_in_this_file("time.sleep(seconds)")]
    assert slept.function == "sleeps"
    assert slept.seconds.keys() == {PROGRAM}
    passed = profile.ended - profile.begun
    assert 0.1 < slept.total <= passed
    assert rows[line_in_this_file("(Tensor([1.0, 2.0]) * 3).realize()")].requests == 3
    assert sum(row.total for row in rows.values()) == pytest.approx(passed, rel=0.05)


def test_a_step_that_is_replayed_is_one_request() -> None:
    """The line that calls a captured function has its replays."""
    step = TinyJit(lambda x: (x * 2).realize())
    x = Tensor([1.0, 2.0]).realize()
    for _ in range(3):
        step(x)
    profile = Profile("replays").start()
    try:
        for _ in range(5):
            step(x)  # replayed
    finally:
        profile.stop()
        events.origins = None
    (row,) = [row for row in profile.lines.rows() if row.requests]
    assert (row.line, row.requests, row.replays) == (line_in_this_file("step(x)  # replayed"), 5, 5)


def test_time_of_no_line_is_in_no_row() -> None:
    """What passes where no line of the user is on the stack, as between the cells of a notebook, is left out."""
    times = LineTimes()
    times.sampled[None, PROGRAM] = 3
    times.sampled[("a.py", 7, "f"), PROGRAM] = 1
    times.stop()
    (row,) = times.rows()
    assert times.ended is not None
    assert row.total == pytest.approx((times.ended - times.begun) / 4)


def test_samples_end() -> None:
    """After `stop` no sample is added."""
    times = LineTimes()
    times.start()
    deadline = time.perf_counter() + 60
    while not times.sampled and time.perf_counter() < deadline:
        time.sleep(0.01)
    times.stop()
    times.thread_of_samples.join()
    count = times.sampled.total()
    assert count >= 1
    time.sleep(0.05)
    assert times.sampled.total() == count
