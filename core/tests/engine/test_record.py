"""A recorded run: events sorted into schedules, their text, their drawings and the page."""

from __future__ import annotations

import gc
import re
import threading

import pytest

from tinygraft import events
from tinygraft.dtype import dtypes
from tinygraft.engine import record
from tinygraft.engine.drawing import Box, Drawing, draw_calls, draw_graph
from tinygraft.engine.explanation import explain
from tinygraft.engine.layout import lay_out
from tinygraft.engine.record import Recorder, ScheduleRecord, describe
from tinygraft.events import CompileEvent, LaunchEvent
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, ParamArg, ReduceArg
from tinygraft.uop.stages import Binary, CopyCall, Kernel, KernelCall, Linear, Param, Signature, Source
from tinygraft.uop.uop import UOp, live_nodes, toposort

TEXT = "void E_4(float* out, const float* in) {\n    // </script>\n}\n"


def kernel_sink() -> UOp:
    """Out[i] = in[i] + 2 for four elements."""
    out, source = (UOp(Ops.PARAM, dtypes.float, (), ParamArg(slot, 4)) for slot in (0, 1))
    i = UOp.range(4, 0)
    store = UOp(Ops.STORE, dtypes.void, (out, i, UOp(Ops.LOAD, dtypes.float, (source, i)) + 2.0))
    return UOp(Ops.SINK, dtypes.void, (store,))


def launch(name: str) -> None:
    """Tell of one launch of 2 us."""
    events.notify(LaunchEvent(name=name, device="DEV", seconds=2e-6, bytes=32, flops=4))


def compute(name: str = "E_4", compiled: bool = True) -> None:
    """Tell of a schedule with one kernel and one copy, as the engine does."""
    source, result, other = (UOp.buffer(device, 4, dtypes.float) for device in ("DEV", "DEV", "OTHER"))
    events.stage("tensor graph", UOp(Ops.SINK, dtypes.void, (source + 2.0,)))
    kernel = Kernel(kernel_sink())
    events.stage("schedule", [KernelCall(kernel, "DEV", (result, source), (0,)), CopyCall(other, result)])
    if compiled:
        signature = Signature((Param(dtypes.float, 4, True), Param(dtypes.float, 4, False)))
        uops = tuple(toposort(kernel.sink))
        events.stage("pass: simplify", kernel.sink, name)
        events.stage("linear", Linear(name, uops, signature, Target(), ("vector 4",)), name)
        events.stage("kernel", kernel, name)
        events.stage("source", Source(name, TEXT, "c", signature), name)
        events.stage("binary", Binary(name, b"1234567", signature), name)
        events.notify(CompileEvent(name=name, device="DEV", seconds=0.25, bytes=7))
    launch(name)
    launch("copy 16, OTHER <- DEV")


def recorded(recorder: Recorder, *steps: object) -> list[ScheduleRecord]:
    """The schedules that steps (callables) gave."""
    stop = events.observe(recorder, *record.OBSERVED)
    try:
        for step in steps:
            step()  # type: ignore[operator]
    finally:
        stop()
        recorder.finish()
    return recorder.schedules


def test_a_schedule_holds_its_stages_kernels_and_launches() -> None:
    """One request holds its graph, schedule, kernel stages and launches in order, and names this file."""
    (schedule,) = recorded(Recorder(), compute)
    assert [stage.name for stage in schedule.stages] == ["tensor graph", "schedule"]
    (kernel,) = schedule.kernels
    names = [stage.name for stage in kernel.stages]
    assert names == ["kernel", "pass: simplify", "linear", "source", "binary"]
    assert [one.name for one in schedule.launches] == ["E_4", "copy 16, OTHER <- DEV"]
    assert schedule.where.startswith(__file__)
    assert schedule.stages[1].about == "1 kernel, 1 copy"


def test_two_kernels_of_one_name_are_two_records() -> None:
    """A kernel told under a name that is done begins a record of its own, with all its stages."""

    def twice() -> None:
        events.stage("tensor graph", UOp.buffer("DEV", 4, dtypes.float))
        for _ in range(2):
            for stage in ("pass: simplify", "kernel", "binary"):
                events.stage(stage, kernel_sink(), "E_4")

    (schedule,) = recorded(Recorder(), twice)
    names = [[stage.name for stage in kernel.stages] for kernel in schedule.kernels]
    assert names == [["kernel", "pass: simplify", "binary"]] * 2


def test_a_schedule_is_done_with_its_last_launch() -> None:
    """on_done is called once per schedule, as soon as all its calls were launched."""
    seen: list[tuple[int, int]] = []
    recorder = Recorder(on_done=lambda s: seen.append((s.number, s.launched)))
    stop = events.observe(recorder, *record.OBSERVED)
    try:
        compute()
        assert seen == [(1, 2)]
        compute()
        assert seen == [(1, 2), (2, 2)]
    finally:
        stop()
    recorder.finish()
    assert seen == [(1, 2), (2, 2)]


def test_launches_without_a_schedule_are_a_replay() -> None:
    """What a replay launches makes a record of its own, without stages."""
    first, replay = recorded(Recorder(), compute, lambda: launch("E_4"), lambda: launch("E_4"))
    assert (first.launched, replay.launched, replay.stages) == (2, 2, [])
    assert "==== replay 2, requested at" in "\n".join(explain(replay))


def test_threads_do_not_mix_their_schedules() -> None:
    """Eight threads that compute at once give eight schedules with two launches each."""

    def together() -> None:
        threads = [threading.Thread(target=compute) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    schedules = recorded(Recorder(), together)
    assert [schedule.launched for schedule in schedules] == [2] * 8
    assert [len(schedule.kernels) for schedule in schedules] == [1] * 8


def test_a_record_keeps_no_node_alive() -> None:
    """After the run a recorder holds text and boxes only: the count of live nodes is as before."""
    gc.collect()
    before = live_nodes()
    recorder = Recorder(draw=True)
    assert len(recorded(recorder, compute)) == 1
    gc.collect()
    assert live_nodes() == before


def test_past_the_limit_schedules_are_counted_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long loop keeps the first schedules and says how many it left out."""
    monkeypatch.setattr(record, "MOST_SCHEDULES", 2)
    recorder = Recorder(draw=True)
    assert len(recorded(recorder, compute, compute, compute, compute)) == 2
    assert recorder.omitted == 2


def test_explain_prints_every_box_in_order() -> None:
    """The text has each box under its heading: graph, calls, kernel graph, linear form, source, time line."""
    (schedule,) = recorded(Recorder(), compute)
    text = "\n".join(explain(schedule))
    marks = ["==== schedule 1, requested at", "---- tensor graph:", "---- calls: 1 kernel, 1 copy",
             "==== kernel E_4 ", "---- kernel graph:", "---- passes of the kernel: 1", "---- linear:",
             "actions: vector 4", "---- source: c", "void E_4(", "---- binary: 7 bytes, 250.00 ms",
             "---- time line: 2"]  # fmt: skip
    places = [text.find(mark) for mark in marks]
    assert -1 not in places, text
    assert places == sorted(places)
    assert "copy    OTHER buffer" in text
    assert re.search(r"kernel +on DEV writes buffer \d+ \(4 float\); reads buffer \d+ \(4 float\)", text)


def test_a_call_names_its_first_buffers() -> None:
    """A kernel of many buffers names the first six that it reads, and counts the others."""
    buffers = tuple(UOp.buffer("DEV", 4, dtypes.float) for _ in range(10))
    text = record.call_text(KernelCall(Kernel(kernel_sink()), "DEV", buffers, (0,)))
    assert text.count("(4 float)") == 7
    assert text.endswith(" and 3 more")


def test_explain_prints_passes_when_asked() -> None:
    """With passes, the graph after each pass has a heading of its own."""
    (schedule,) = recorded(Recorder(), compute)
    assert "---- pass: simplify:" not in "\n".join(explain(schedule))
    assert "---- pass: simplify: 9 nodes" in "\n".join(explain(schedule, passes=True))


def test_explain_prints_the_passes_of_a_schedule() -> None:
    """As those of a kernel: a table, or with what each has made; one that changed nothing is there too."""

    def graph() -> None:
        sink = UOp(Ops.SINK, dtypes.void, (UOp.buffer("DEV", 4, dtypes.float) + 2.0,))
        events.stage("tensor graph", sink)
        events.stage("schedule pass: cut", sink)
        events.stage("schedule pass: wait", "")
        events.stage("schedule pass: fuse", "kernel: a\nkernel: b")
        events.stage("schedule", [])

    (schedule,) = recorded(Recorder(), graph)
    text = "\n".join(explain(schedule))
    assert "-- passes of the schedule: 3 (" in text
    assert re.search(r"3 \(.*\n  cut +\d nodes .*\n  wait +as before .*\n  fuse +2 lines .*\n\n---- calls: *", text)
    assert "kernel: a" not in text
    listed = "\n".join(explain(schedule, passes=True))
    assert re.search(r"---- schedule pass: cut: \d nodes.*\nUOp\(Ops.SINK", listed)
    assert re.search(r"---- schedule pass: fuse: 2 lines.*\nkernel: a\nkernel: b\n", listed)


def test_explain_says_where_a_kernel_was_printed() -> None:
    """A kernel that was compiled for an earlier schedule is named with that schedule in the time line."""
    kept = kernel_sink()  # as the cache of compiled kernels keeps it
    schedules = recorded(Recorder(), compute, lambda: compute(compiled=False))
    assert kept is kernel_sink()
    bodies: dict[int, int] = {}
    first, second = ("\n".join(explain(schedule, bodies=bodies)) for schedule in schedules)
    assert "printed in schedule" not in first
    assert re.search(r"DEV E_4 .* printed in schedule 1$", second, re.M)


def test_a_long_text_is_cut_with_a_note() -> None:
    """A text past 2,000 lines keeps the first ones and says how many are missing."""
    text = "\n".join(str(n) for n in range(2005))
    assert record.cut(text).endswith("\n1999\n... 5 more lines")
    assert record.cut("short") == "short"


def test_a_drawing_folds_numbers_and_devices_into_their_users() -> None:
    """A broadcast constant and a DEVICE are lines of the node that reads them, not boxes."""
    buffer = UOp.buffer("DEV", 4, dtypes.float)
    drawing = draw_graph(buffer + 2.0)
    assert [box.title for box in drawing.boxes] == ["BUFFER", "ADD"]
    assert "on DEV" in drawing.boxes[0].lines
    assert "operand 2: 2" in drawing.boxes[1].lines
    assert drawing.boxes[1].sources == [0]


def test_a_number_alone_is_drawn() -> None:
    """The only operand of a reduction is drawn, also where it is a constant; so is a graph of one CONST."""
    ones = UOp.const(dtypes.float, 1.0, "DEV").const_like(1.0)
    wide = UOp(Ops.EXPAND, dtypes.float, (UOp(Ops.RESHAPE, dtypes.float, (ones,), (1,)),), (10,))
    total = UOp(Ops.REDUCE_AXIS, dtypes.float, (wide,), ReduceArg(Ops.ADD, (0,)))
    assert [box.title for box in draw_graph(total).boxes] == ["CONST", "REDUCE_AXIS"]
    assert [box.title for box in draw_graph(ones).boxes] == ["CONST"]


def test_a_huge_graph_is_cut_to_what_is_nearest_the_result() -> None:
    """A chain of 5,000 nodes draws 600, with the result last, and counts the others."""
    node = first = UOp.buffer("DEV", 1, dtypes.float)
    for _ in range(5000):
        node = node + first
    drawing = draw_graph(node)
    assert len(drawing.boxes) <= 600
    assert drawing.omitted == 5002 - 600
    assert drawing.boxes[-1].title == "ADD"
    assert len(lay_out(drawing).boxes) == len(drawing.boxes)


def test_calls_are_drawn_with_the_buffers_between_them() -> None:
    """A copy of what a kernel wrote reads that kernel's box."""
    source, result, other = (UOp.buffer("DEV", 4, dtypes.float) for _ in range(3))
    call = KernelCall(Kernel(kernel_sink()), "DEV", (result, source), (0,))
    drawing = draw_calls([call, CopyCall(other, result)])
    assert [box.sources for box in drawing.boxes] == [[], [0]]


@pytest.mark.parametrize("width", [1, 2, 7])
def test_boxes_do_not_overlap_and_sources_stand_above(width: int) -> None:
    """In a grid of boxes where all read all of the layer above, no two touch, and every line goes down."""
    boxes = [Box("A" * (1 + n % 5), ["line"] * (n % 3), "math", []) for n in range(width * 6)]
    for n, box in enumerate(boxes):
        layer = n // width
        box.sources = [] if layer == 0 else [(layer - 1) * width + k for k in range(width)]
        if layer > 2:
            box.sources.append(0)
    placed = lay_out(Drawing(boxes))
    for a, (x, y, w, h) in enumerate(placed.boxes):
        assert x >= 0
        assert x + w <= placed.width + 0.2
        assert y + h <= placed.height + 0.2
        for left, top, other_w, other_h in placed.boxes[:a]:
            assert x + w <= left or left + other_w <= x or y + h <= top or top + other_h <= y
    for source, user, points in placed.lines:
        assert placed.boxes[source][1] + placed.boxes[source][3] <= placed.boxes[user][1]
        heights = [y for _, y in points]
        assert heights == sorted(heights)


def test_any_subject_has_a_text() -> None:
    """A stage that this version does not know prints as its str: an engine may tell more than we draw."""
    stage = describe("something new", 12.5, draw=True)
    assert (stage.about, stage.text, stage.drawing) == ("float", "12.5", None)
