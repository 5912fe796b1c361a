"""What a profile prints: what is worth a look, the time by stage and by line, kernels by module and by line, and the
peak of memory by line.

In: a Profile. Out: lines of text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tinygraft.engine.explanation import duration
from tinygraft.engine.origins import MemoryChange, place
from tinygraft.engine.profiling.how_made import HowMade, growth, in_double, live_at_peak, row_loops
from tinygraft.engine.profiling.layer_times import LayerTimes
from tinygraft.engine.profiling.line_times import COMPILING, GRAPHS, IMPORTS, KERNELS, PREPARING, PROGRAM, LineRow
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.engine.profiling.time_spent import REST, by_stage
from tinygraft.engine.profiling.worth_a_look import place_of, worth_a_look
from tinygraft.events import LaunchEvent

MOST_ROWS = 12  # assumed: rows of a table that a person reads
COLUMNS = {"program": (PROGRAM, IMPORTS), "graphs": (GRAPHS,), "preparing": (PREPARING,), "compiling": (COMPILING,),
           "kernels": (KERNELS,)}  # fmt: skip
LEAST = 0.005  # assumed: of the whole time; lines of less are not listed
NAMES = 2  # of kernels in a row
UNKNOWN = "(not known: captured before, or in another form)"
OLD_VALUES = "(copies of values that others still read)"


@dataclass(slots=True)
class KernelRow:
    """Launches that have something in common: their seconds, operations, bytes, and names with the seconds of each."""

    launches: int = 0
    seconds: float = 0.0
    flops: int = 0
    bytes: int = 0
    names: dict[str, float] = field(default_factory=dict)

    def add(self, launch: LaunchEvent) -> None:
        """Add a launch."""
        self.launches += 1
        self.seconds += launch.seconds
        self.flops += launch.flops
        self.bytes += launch.bytes
        self.names[launch.name] = self.names.get(launch.name, 0.0) + launch.seconds


def report_lines(profile: Profile) -> Iterator[str]:
    """Yield the lines of a report.

    They are what is worth a look, the time by stage, the queues that were busy, the time by line, kernels by module and
    by line, and the peak of memory by line.
    """
    whole = max(profile.ended - profile.begun, 1e-9)
    yield ""
    yield f"profile of {profile.title}: {duration(whole)}, {len(profile.launches)} launches"
    if profile.omitted:
        yield f"  {profile.omitted} further events are not in it"
    rows = profile.lines.rows()
    launches = [launch for _, launch in profile.launches]
    layers = LayerTimes()
    for launch in launches:
        layers.take(launch)
    python = profile.lines.modules()
    told = worth_a_look(rows, whole, layers.modules(), _written_for(profile, layers.modules_of_kernels()),
                        profile.lines.uncaptured, _how_made(profile, python, launches), layers.work())  # fmt: skip
    if told:
        yield ""
        yield "worth a look"
        yield from (f"  {number}. {text}" for number, text in enumerate(told, 1))
    yield ""
    yield "where the time went"
    for name, seconds in by_stage(profile).items():
        yield f"  {duration(seconds):>10} {share(seconds, whole)}  {name}{_samples(rows) if name == REST else ''}"
    yield from _devices(profile, whole)
    yield from _lines(rows, whole)
    yield from _table("kernels by module", launches, module_of, python)
    yield from _table("kernels by line", launches, line_of_launch)
    yield from _memory(profile.memory)


def share(part: float, whole: float) -> str:
    """Return a part of a whole as percents, of 6 columns.

    >>> share(1, 8)
    '12.5 %'
    """
    return f"{100 * part / whole if whole else 0:4.1f} %"


def module_of(launch: LaunchEvent) -> str:
    """Return the module that a launch computes most for, or its gradient; a text where there is none."""
    if not launch.origins:
        return unknown(launch)
    first = launch.origins[0]
    name: str = (first.module or "(no module)") + " backward" * first.backward
    return name


def _written_for(profile: Profile, modules: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds in which kernels were written by the module that each is for, "" where it is for none."""
    found: dict[str, float] = {}
    for _, span in profile.spans:
        if span.name == "lower":
            module = modules.get(span.detail, "")
            found[module] = found.get(module, 0.0) + span.seconds
    return found


def line_of_launch(launch: LaunchEvent) -> str:
    """Return the line of the user that a launch computes most for, relative to the working directory."""
    return place(launch.origins[0]) if launch.origins else unknown(launch)


def unknown(launch: LaunchEvent) -> str:
    """Return what stands for the line of a launch of which none is known."""
    return OLD_VALUES if launch.name.startswith("copy ") else UNKNOWN


def grouped(launches: Iterable[LaunchEvent], key: Callable[[LaunchEvent], str]) -> dict[str, KernelRow]:
    """Return launches by what `key` returns for them, those that took longest first."""
    rows: dict[str, KernelRow] = {}
    for launch in launches:
        rows.setdefault(key(launch), KernelRow()).add(launch)
    return dict(sorted(rows.items(), key=lambda item: -item[1].seconds))


def _table(
    title: str,
    launches: Sequence[LaunchEvent],
    key: Callable[[LaunchEvent], str],
    python: Mapping[str, float] | None = None,
) -> Iterator[str]:
    """Yield a table of launches by `key`; nothing where there are none.

    It has a row for each text that `key` returns, at most MOST_ROWS, the longest time first; `title` is its heading.
    `python` are the seconds of Python by the same texts: a column that the order and the choice of rows count, too.
    """
    rows = grouped(launches, key)
    if not rows:
        return
    spent = python or {}
    for name in spent:
        rows.setdefault(name, KernelRow())
    if spent:
        rows = dict(sorted(rows.items(), key=lambda item: -(item[1].seconds + spent.get(item[0], 0.0))))
    whole = sum(row.seconds for row in rows.values())
    width = max(len(name) for name in list(rows)[:MOST_ROWS])
    yield ""
    head = f"{'Python':>10}  " if spent else ""
    yield f"{title:{width + 2}}  {head}      time           launches    GFLOPS      GB/s  kernels"
    for name, row in list(rows.items())[:MOST_ROWS]:
        names = sorted(row.names, key=lambda name: -row.names[name])
        shown = ", ".join(names[:NAMES]) + (f" and {len(names) - NAMES} more" if len(names) > NAMES else "")
        cell = f"{duration(spent[name]) if name in spent else '':>10}  " if spent else ""
        if row.launches:
            rates = f"{row.flops / row.seconds * 1e-9:9.2f} {row.bytes / row.seconds * 1e-9:9.2f}"
            took = f"{duration(row.seconds):>10} {share(row.seconds, whole)}  {row.launches:8} {rates}  {shown}"
        else:
            took = ""
        yield f"  {name:{width}}  {cell}{took}".rstrip()
    if len(rows) > MOST_ROWS:
        rest = sum(row.seconds for row in list(rows.values())[MOST_ROWS:])
        yield f"  {len(rows) - MOST_ROWS} more, {duration(rest)}"


def _how_made(profile: Profile, python: Mapping[str, float], launches: Sequence[LaunchEvent]) -> HowMade:
    """Return what is worth a look in how tensors were made."""
    makings = profile.lines.makings
    requests = sorted(
        span.start for thread, span in profile.spans if span.name == "realize" and thread == profile.thread
    )
    return HowMade(
        rows=list(row_loops(makings, python)) if makings is not None else [],
        double=list(in_double(makings, launches)) if makings is not None else [],
        growth=list(growth(profile.memory, requests)),
    )


def _samples(rows: Sequence[LineRow]) -> str:
    """Return which part of the program's own time made graphs and which imported modules, by samples; empty if none."""
    parts = [(sum(row.seconds.get(kind, 0.0) for row in rows), text) for kind, text in
             ((GRAPHS, "making graphs"), (IMPORTS, "importing"))]  # fmt: skip
    told = ", ".join(f"{duration(seconds)} {text}" for seconds, text in parts if seconds)
    return f" (of that {told})" if told else ""


def _lines(rows: Sequence[LineRow], whole: float) -> Iterator[str]:
    """Yield the table of the user's lines, at most MOST_ROWS, the longest time first; nothing without lines."""
    shown = [row for row in rows if row.total >= LEAST * whole][:MOST_ROWS]
    if not shown:
        return
    width = max(len(place_of(row)) for row in shown)
    heads = " ".join(f"{name:>10}" for name in (*COLUMNS, "requests", "compiled"))
    yield ""
    yield f"{'your lines':{width + 2}}        time        {heads}"
    for row in shown:
        spent = [sum(row.seconds.get(kind, 0.0) for kind in kinds) for kinds in COLUMNS.values()]
        cells = " ".join(f"{duration(seconds) if seconds else '':>10}" for seconds in spent)
        counts = " ".join(f"{count or '':>10}" for count in (row.requests, row.compiled))
        took = f"{duration(row.total):>10} {share(row.total, whole)}"
        yield f"  {place_of(row):{width}}  {took}  {cells} {counts}".rstrip()


def _devices(profile: Profile, whole: float) -> Iterator[str]:
    """Yield a line for each queue of a device whose work ran beside Python.

    `whole` is the time of the profile in seconds.
    """
    busy: dict[tuple[str, int], float] = {}
    for _, launch in profile.launches:
        if not launch.waited:
            key = launch.device, launch.queue
            busy[key] = busy.get(key, 0.0) + launch.seconds
    for (device, queue), seconds in busy.items():
        yield f"  {device} queue {queue} was busy for {duration(seconds)}, {share(seconds, whole).strip()} of that time"


def memory_at_peak(changes: Sequence[MemoryChange]) -> tuple[int, float, dict[str, int]]:
    """Return the most bytes that were in use at once, when that was, and by line what was in use then.

    Memory that was in use before the recording is not among the changes; memory of one line has its bytes together. The
    time is on the clock of time.perf_counter, 0.0 where no memory was allocated.
    """
    live = live_at_peak(changes)
    lines: dict[str, int] = {}
    for change in live:
        assert change.origin is not None
        name = f"{place(change.origin)}  {change.origin.module}".rstrip()
        lines[name] = lines.get(name, 0) + change.nbytes
    lines = dict(sorted(lines.items(), key=lambda item: -item[1]))
    return sum(one.nbytes for one in live), live[-1].time if live else 0.0, lines


def _memory(changes: Sequence[MemoryChange]) -> Iterator[str]:
    """Yield the peak of memory by line; nothing where nothing was allocated."""
    most, _, lines = memory_at_peak(changes)
    if not most:
        return
    yield ""
    yield f"memory at its peak: {most / 1e6:.3f} MB beside what was there before, by the line that it is the value of"
    for name, nbytes in list(lines.items())[:MOST_ROWS]:
        yield f"  {nbytes / 1e6:10.3f} MB {share(nbytes, most)}  {name}"
    if len(lines) > MOST_ROWS:
        yield f"  {len(lines) - MOST_ROWS} more lines"
