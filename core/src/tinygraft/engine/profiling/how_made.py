"""What is worth a look in how a program makes its tensors: rows one by one, float64, memory that grows. As sentences.

In: the Makings of a profile, its Python by module, its launches, its changes of memory. Out: sentences with seconds.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.engine.explanation import duration
from tinygraft.engine.origins import MemoryChange, place
from tinygraft.engine.profiling.makings import Makings, RowLoop, is_within
from tinygraft.events import LaunchEvent
from tinygraft.helpers import short_path

OFTEN = 8  # assumed: requests between which a line's values stay, from which on they grow
MUCH = 0.3  # assumed: of the memory at its peak, from which on what grew is worth a sentence
MOST_MADE = 0.5  # assumed: of all tensors, from which on what is scheduled and compiled is mostly for them
LEAST_BYTES = 1_000_000  # assumed: growth that a person looks for


@dataclass(frozen=True, slots=True)
class HowMade:
    """Sentences about how tensors are made; those of `rows` and `double` with seconds, `growth` is about bytes."""

    rows: Sequence[tuple[float, str]] = ()
    double: Sequence[tuple[float, str]] = ()
    growth: Sequence[str] = ()


def row_loops(makings: Makings, python: Mapping[str, float]) -> Iterator[tuple[float, str]]:
    """Yield the loops that compute row by row, with the seconds of Python that their modules take, and the remedy.

    Modules that one line calls for the same rows are one loop. Where most tensors are made in it, so is most of what
    is scheduled and compiled, which has no module: that is told.
    """
    loops: dict[tuple[Any, ...], list[RowLoop]] = {}
    for loop in makings.row_loops():
        alone = loop.name if loop.is_inside else None
        loops.setdefault((loop.file, loop.line, loop.shape, loop.times, alone), []).append(loop)
    for (file, line, shape, times, alone), found in loops.items():
        names = sorted(loop.name for loop in found)
        within = [key for key in python if any(is_within(key.removesuffix(" backward"), name) for name in names)]
        seconds, share = sum(python[key] for key in within), makings.share_within(names, file, line)
        notes = [f"{duration(seconds)} of Python"] if seconds else []
        if share >= MOST_MADE:
            notes.append(f"{100 * share:.0f} % of all tensors are made there: most of what is scheduled and compiled")
        took = f" ({'; '.join(notes)})" if notes else ""
        at, listed = f"{short_path(file)}:{line}", " and ".join(name or "a loop" for name in names)
        if alone is not None:
            told = f"{listed} computes {times} times on one row each of a tensor of shape {shape}{took}: "
            yield seconds, f"{at}: {told}compute with the whole tensor at once, without a loop in Python"
        else:
            are, it = ("is", "it") if len(names) == 1 else ("are", "them")
            told = f"{listed} {are} called {times} times, each with one row of a tensor of shape {shape}{took}: "
            yield seconds, f"{at}: {told}call {it} once with the whole batch"


def in_double(makings: Makings, launches: Iterable[LaunchEvent]) -> Iterator[tuple[float, str]]:
    """Yield the seconds of kernels that compute in float64, and which line brought that in."""
    lines = makings.doubles.keys()
    seconds = sum(
        one.seconds for one in launches if one.origins and (one.origins[0].file, one.origins[0].line) in lines
    )
    if not seconds:
        return
    if makings.brought:
        (file, line), nbytes = next(iter(makings.brought.items()))
        brought = f"{nbytes / 1e6:.3f} MB of float64 come in here, NumPy's default dtype"
    else:
        file, line = next(iter(lines))
        brought = "this is computed in float64"
    brought = f"{short_path(file)}:{line}: {brought}"
    yield seconds, (f"{brought}; kernels compute in float64 for {duration(seconds)}: float32 has half the bytes, and "
                    "most devices compute it faster: array.astype(np.float32) or tensor.float()")  # fmt: skip


def growth(changes: Sequence[MemoryChange], requests: Sequence[float]) -> Iterator[str]:
    """Yield the line of which a value of each of many steps was live at the peak of memory, if it has much of that.

    `requests` are the times at which requests for values began, in order: values of one request are no growth.
    """
    live = live_at_peak(changes)
    whole = sum(one.nbytes for one in live)
    lines: dict[str, list[MemoryChange]] = {}
    for one in live:
        if one.origin is not None:
            lines.setdefault(place(one.origin), []).append(one)
    for line, found in lines.items():
        nbytes = sum(one.nbytes for one in found)
        steps = len({bisect(requests, one.time) for one in found})
        if steps >= OFTEN and nbytes >= MUCH * whole and nbytes >= LEAST_BYTES:
            yield (f"{line}: memory grows: values of this line from {steps} steps were live at once, "
                   f"{nbytes / 1e6:.3f} MB. What is computed from them and not read yet holds them, as a sum of losses "
                   "does: add loss.item(), or compute it in a no_grad block and realize it")  # fmt: skip


def live_at_peak(changes: Sequence[MemoryChange]) -> list[MemoryChange]:
    """Return the allocations that were live when most memory was in use."""
    used = most = at = 0
    for index, change in enumerate(changes):
        used += change.nbytes
        if used > most:
            most, at = used, index + 1
    live: dict[int, MemoryChange] = {}
    for change in changes[:at]:
        if change.nbytes > 0:
            live[change.allocation] = change
        else:
            del live[change.allocation]
    return list(live.values())
