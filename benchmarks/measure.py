"""The protocol: set up everywhere, warm up, compare results, then take turns.

Each process sets an item up and runs it three times. What it computed is compared with ours before anything is timed.
Then come the rounds: in each, every process in turn runs the item for a moment, in an order that shifts by one from
round to round. The ratio is the peer's minimum over ours.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np

from benchmarks.case import Array
from benchmarks.items import Item
from benchmarks.peers import OURS, PeerError, PeerLate, Process

PAUSE = 0.01  # seconds between turns, for the threads of the last process to fall asleep
CALLS = 1000  # runs in one turn, at most
FAR = 10.0  # a process whose runs take so many times as long as ours, and a turn or more, has FEW turns
FEW = 3


@dataclass(frozen=True)
class Pace:
    """rounds of turns, each of so many seconds; patience is how long a set-up may take in seconds."""

    rounds: int = 10
    seconds: float = 0.1
    patience: float = 180.0


@dataclass
class Result:
    """What one process did with an item: the minimum and the median of its calls, in milliseconds or megabytes, and how
    far its values are from ours. wrong says what it should not have done, failed why it has no times, or few; late says
    that it failed since it took too long."""

    minimum: float | None = None
    middle: float | None = None
    calls: int = 0
    apart: float | None = None
    wrong: str = ""
    failed: str = ""
    late: bool = False
    counts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Row:
    """An item, and the result of each process by its name."""

    item: Item
    results: dict[str, Result]
    kernels: list[dict[str, Any]] = field(default_factory=list)

    def ratio(self, peer: str) -> float | None:
        """The peer's minimum over ours; None where one of the two failed."""
        ours, theirs = self.results.get(OURS), self.results.get(peer)
        if ours is None or theirs is None or not ours.minimum or theirs.minimum is None:
            return None
        return theirs.minimum / ours.minimum


def in_turns(item: Item, processes: Sequence[Process], pace: Pace, kernels: bool = False) -> Row:
    """Measure one item in all processes that have it; ours is the first of them."""
    row = Row(item, {})
    times: dict[Process, list[float]] = {}
    values: Array | None = None
    for process in processes:
        result = Result()
        try:
            found = _set_up(process, item, pace, result)
        except PeerError as error:
            result.failed, result.late = str(error), isinstance(error, PeerLate)
        else:
            if found is None:
                continue
            values = judged(process.peer.name, item, found, values, result)
            if process.peer.name == OURS:
                result.wrong = silent_fallback(process, item, result)
            times[process] = []
        row.results[process.peer.name] = result
    _take_turns(times, pace, row)
    for process, seconds in times.items():
        result = row.results[process.peer.name]
        if seconds:
            result.minimum, result.middle, result.calls = min(seconds) * 1e3, median(seconds) * 1e3, len(seconds)
        if kernels and process.peer.name == OURS and seconds:
            row.kernels = _asked(process, {"do": "kernels"}, pace, result).get("kernels", [])
        _asked(process, {"do": "drop"}, pace, result)
    return row


def _set_up(process: Process, item: Item, pace: Pace, result: Result) -> Array | None:
    """The values that a process computed; None when its library lacks the item."""
    with tempfile.NamedTemporaryFile(suffix=".npy") as file:
        command = {"do": "set up", "kind": item.kind, "sizes": item.sizes, "values": file.name}
        answer = process.ask(command, pace.patience)
        if "missing" in answer:
            return None
        result.counts = {name: count for name, count in answer.items() if name != "warm"}
        return np.asarray(np.load(file.name))


def _take_turns(times: dict[Process, list[float]], pace: Pace, row: Row) -> None:
    command = {"do": "time", "calls": CALLS, "seconds": pace.seconds}
    order = list(times)
    for number in range(pace.rounds):
        quickest = min(
            (second for process in order if process.peer.name == OURS for second in times[process]), default=0
        )
        for process in order:
            result = row.results[process.peer.name]
            far = min(times[process], default=0.0) > max(FAR * quickest, pace.seconds)
            if process.child is not None and not (far and quickest and number >= FEW):
                time.sleep(PAUSE)
                times[process] += _asked(process, command, pace, result).get("seconds", [])
        order = order[1:] + order[:1]


def _asked(process: Process, command: dict[str, Any], pace: Pace, result: Result) -> dict[str, Any]:
    """The answer to a command; empty when it failed, which the result then says."""
    try:
        return process.ask(command, pace.patience)
    except PeerError as error:
        result.failed, result.late = result.failed or str(error), isinstance(error, PeerLate)
        return {}


def judged(name: str, item: Item, found: Array, values: Array | None, result: Result) -> Array | None:
    """Compare the values of a process with ours, and record the distance in `result`.

    Returns our values: `found` itself when the process is ours.
    """
    if name == OURS:
        return found
    if values is not None:
        result.apart = relative_distance(values, found)
        if not result.apart <= item.tolerance:
            result.wrong = f"its values are {result.apart:.2g} from ours, more than {item.tolerance:.2g}"
    return values


def relative_distance(ours: Array, theirs: Array) -> float:
    """Return the largest |ours - theirs| as a fraction of |theirs| + the root mean square of theirs.

    It is infinite for other shapes. Where both are NaN, or the same infinity, they agree.
    """
    if ours.shape != theirs.shape:
        return float("inf")
    ours, theirs = ours.astype(np.float64).ravel(), theirs.astype(np.float64).ravel()
    same = (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
    if same.all():
        return 0.0
    finite = np.where(np.isfinite(theirs), theirs, 0.0)
    scale = np.abs(theirs) + float(np.sqrt(np.mean(finite * finite)))
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(same, 0.0, np.abs(ours - theirs) / scale)
    return float(np.where(np.isnan(share), np.inf, share).max())


def silent_fallback(process: Process, item: Item, result: Result) -> str:
    """What of ours is not as it should be: compiler, extension, threads, kernels; empty when all is well."""
    facts, counts = process.facts, result.counts
    wrong = []
    if facts.get("compiler") != "llvm":
        wrong.append(f"the compiler is {facts.get('compiler')}, not llvm")
    if facts.get("extension") != "present":
        wrong.append(str(facts.get("extension")))
    if facts.get("threads") != process.threads:
        wrong.append(f"{facts.get('threads')} threads, not {process.threads}")
    kernels, most = counts.get("kernels", 0), item.kernels
    if most is not None and (kernels > most or (item.exact and kernels != most)):
        wrong.append(f"{kernels} kernels, not {'' if item.exact else 'at most '}{most}")
    if counts.get("compiled"):
        wrong.append(f"a run after the warm-up compiled {counts['compiled']} kernels")
    return "; ".join(wrong)
