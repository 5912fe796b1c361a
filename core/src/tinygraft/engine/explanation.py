"""A recorded run as text for people: each schedule, its kernels one after another, then the time line.

In: Schedules of record.py. Out: lines. `python -m tinygraft explain SCRIPT` prints them.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from tinygraft.engine.record import KernelRecord, LaunchRecord, ScheduleRecord, Stage

# assumed: columns of text that a terminal has
WIDTH = 100  # of a printed record
BAR = 40  # of the whole time, as a bar
# headings of stages whose names head more than they: all of a schedule, or all of a kernel
HEADINGS = {"schedule": "calls", "kernel": "kernel graph"}


def explain(schedule: ScheduleRecord, passes: bool = False, bodies: dict[int, int] | None = None) -> Iterator[str]:
    """Yield the lines for one schedule.

    `passes` also prints the result of each pass. `bodies` has, by the key of a kernel, the number of the schedule in
    which it was printed, and is updated: a kernel that was compiled before is not compiled again, and the text refers
    to that schedule.

    >>> from tinygraft.engine.record import LaunchRecord
    >>> replay = ScheduleRecord(2, "train.py:7", launches=[LaunchRecord("E_4", "DEV", 0.0, 2e-6, 32, 4)], launched=1)
    >>> print(list(explain(replay))[1].strip("= "))
    replay 2, requested at train.py:7
    """
    bodies = {} if bodies is None else bodies
    kind = "schedule" if schedule.stages else "replay"
    yield ""
    yield heading(f"{kind} {schedule.number}, requested at {schedule.where}", "=")
    yield from with_passes(schedule.stages, "schedule pass: ", passes, "of the schedule")
    for kernel in schedule.kernels:
        yield from kernel_lines(kernel, passes)
        bodies[kernel.key] = schedule.number
    yield from timeline(schedule, bodies)


def heading(text: str, rule: str) -> str:
    """Return `text` in a line of WIDTH columns that the character `rule` fills, with at least four of it on each side.

    >>> heading("source", "-")[:16]
    '---- source ----'
    """
    start = f"{rule * 4} {text} "
    return start + rule * max(4, WIDTH - len(start))


def stage_lines(stage: Stage) -> Iterator[str]:
    """Yield the lines of one stage under its heading."""
    took = f", {duration(stage.seconds)}" if stage.seconds else ""
    yield ""
    yield heading(f"{HEADINGS.get(stage.name, stage.name)}: {stage.about}{took}", "-")
    yield from rules_lines(stage, "")
    if stage.text:
        yield stage.text


def rules_lines(stage: Stage, indent: str) -> list[str]:
    """Return the rules that were applied in a stage in lines of WIDTH, each with `indent`; none where there were none.

    >>> rules_lines(Stage("pass: decompose", "9 nodes", "", rules="exp2 3, mul_one"), "  ")
    ['  rules: exp2 3, mul_one']
    """
    more = indent + " " * len("rules: ")
    return textwrap.wrap(f"rules: {stage.rules}", WIDTH, initial_indent=indent, subsequent_indent=more,
                         break_long_words=False) if stage.rules else []  # fmt: skip


def kernel_lines(kernel: KernelRecord, passes: bool) -> Iterator[str]:
    """Yield the lines of the stages of one kernel under a heading.

    Its passes are a table, or, with `passes`, printed whole; other stages, such as its source, are in either case.
    """
    yield ""
    yield heading(f"kernel {kernel.name}", "=")
    yield from with_passes(kernel.stages, "pass: ", passes, "of the kernel")


def with_passes(stages: Sequence[Stage], prefix: str, passes: bool, owner: str) -> Iterator[str]:
    """Yield the lines of `stages`, in order.

    Those whose names begin with `prefix` are passes, of what `owner` names ("of the kernel").
    They are in one table, where the first of them is, or, with `passes`, printed whole like other stages.
    """
    listed = [stage for stage in stages if stage.name.startswith(prefix)]
    for stage in stages:
        if passes or stage not in listed:
            yield from stage_lines(stage)
        elif stage is listed[0]:
            yield ""
            yield heading(f"passes {owner}: {len(listed)} (--passes prints the result of each)", "-")
            for one in listed:
                yield f"  {one.name.removeprefix(prefix):30} {one.about:>20} {duration(one.seconds):>10}"
                yield from rules_lines(one, "      ")


def timeline(schedule: ScheduleRecord, bodies: dict[int, int]) -> Iterator[str]:
    """Yield a line for each launch, in order, with a bar in proportion to its time; first a heading, if there are any.

    `bodies` has the number of the schedule in which a kernel was printed, by its key; a line refers to another one.
    """
    launches = schedule.launches
    if not launches:
        return
    begin = launches[0].start
    end = max(launch.start + launch.seconds for launch in launches)
    busy = sum(launch.seconds for launch in launches)
    span = max(end - begin, 1e-9)
    yield ""
    yield heading(f"time line: {schedule.launched} launched, {duration(busy)} of {duration(span)}", "-")
    for launch in launches:
        first = int((launch.start - begin) / span * BAR)
        bar = "#" * max(1, min(BAR - first, round(launch.seconds / span * BAR)))  # a short launch has one #
        known = bodies.get(launch.key) if launch.key else None
        note = f"  printed in schedule {known}" if known is not None and known != schedule.number else ""
        yield (
            f"  {duration(launch.start - begin):>9}  |{' ' * first}{bar}".ljust(BAR + 14)
            + f"| {launch.device} {launch.name:24} {duration(launch.seconds):>9}{rates(launch)}{note}"
        )
    if schedule.launched > len(launches):
        yield f"  ... {schedule.launched - len(launches)} more"


def rates(launch: LaunchRecord) -> str:
    """Return how fast a launch computed and moved bytes as text, empty where neither is known."""
    if not launch.seconds or not (launch.flops or launch.bytes):
        return ""
    flops, moved = launch.flops / launch.seconds, launch.bytes / launch.seconds
    return f"  {flops * 1e-9:8.2f} GFLOPS {moved * 1e-9:7.2f} GB/s"


def duration(seconds: float) -> str:
    """Return seconds as text, in the unit that leaves at most three digits before the point.

    >>> duration(3.28e-6), duration(0.0123), duration(2)
    ('3.28 us', '12.30 ms', '2.00 s')
    """
    for unit, factor in (("us", 1e6), ("ms", 1e3)):
        if seconds * factor < 1000:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds:.2f} s"
