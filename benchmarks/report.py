"""The report: rows as a table of text and as JSON.

Verdicts: "pass" and "fail" against a bar or a limit; "wrong" where values differ, or ours failed or did not run as it
should. Without a bar, and where a peer failed, there is none.
"""

from __future__ import annotations

import json
import platform
import resource
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from benchmarks import machine
from benchmarks.measure import Result, Row
from benchmarks.peers import OURS, Process

ALONE = f"{'item':<24} {'best':>10} {'median':>10} {'limit':>8}   rate"
HEAD = (
    f"{'item':<24} {'ours':>10} {'median':>10}   {'against':<15} {'theirs':>10} {'median':>10} {'ratio':>7} {'bar':>7}"
)


@dataclass(frozen=True)
class Line:
    """One comparison: an item of ours with one peer, or with its limit. Milliseconds; memory in megabytes."""

    item: str
    against: str
    ours: float | None
    ours_median: float | None
    theirs: float | None
    theirs_median: float | None
    ratio: float | None
    bar: float | None
    verdict: str
    note: str = ""
    odd: bool = False
    apart: float | None = None
    rate: str = ""
    unit: str = "ms"


def lines(runs: Sequence[Sequence[Row]]) -> list[Line]:
    """The comparisons of one or more invocations of the same items: the median of their ratios and of their times."""
    found = []
    for rows in zip(*runs, strict=True):
        item, ours = rows[0].item, _together([row.results.get(OURS, Result()) for row in rows])
        common = {
            "item": item.name,
            "ours": ours.minimum,
            "ours_median": ours.middle,
            "odd": item.odd,
            "rate": rates(rows[0]),
            "unit": "MB" if item.how == "memory" else "ms",
        }
        peers = [name for name in rows[0].results if name != OURS]
        wrong = ours.wrong or ("" if ours.late else ours.failed)
        if item.limit is not None or not peers:
            ratio = item.limit / ours.minimum if item.limit and ours.minimum else None
            wanted, note = 1.0 if item.limit else None, wrong or ours.failed
            found.append(Line(**common, against="limit" if item.limit else "", theirs=item.limit, theirs_median=None,
                              ratio=ratio, bar=wanted, verdict=_verdict(ratio, wanted, wrong), note=note))  # fmt: skip
        for peer in peers:
            theirs = _together([row.results.get(peer, Result()) for row in rows])
            ratios = [ratio for row in rows if (ratio := row.ratio(peer)) is not None]
            middle = median(ratios) if ratios else None
            bar, either = item.bars.get(peer), wrong or theirs.wrong
            note = either or ours.failed or theirs.failed
            found.append(Line(**common, against=peer, theirs=theirs.minimum, theirs_median=theirs.middle, ratio=middle,
                              bar=bar, verdict=_verdict(middle, bar, either), note=note,
                              apart=theirs.apart))  # fmt: skip
    return found


def _together(results: Sequence[Result]) -> Result:
    """The median of the times of several invocations, and whatever went wrong in any."""
    minima = [result.minimum for result in results if result.minimum is not None]
    middles = [result.middle for result in results if result.middle is not None]
    distances = [result.apart for result in results if result.apart is not None]
    return Result(
        median(minima) if minima else None,
        median(middles) if middles else None,
        sum(result.calls for result in results),
        max(distances, default=None),
        next((result.wrong for result in results if result.wrong), ""),
        next((result.failed for result in results if result.failed), ""),
        any(result.late for result in results),
    )


def _verdict(ratio: float | None, bar: float | None, wrong: str) -> str:
    if wrong or ratio is None:
        return "wrong" if wrong else ""
    return "" if bar is None else "pass" if ratio >= bar else "fail"


def text(found: Sequence[Line]) -> str:
    """The comparisons as a table; without peers ours alone, with what a limit allows."""
    if all(line.against in ("", "limit") for line in found):
        return _alone(found)
    rows = [HEAD]
    for line in found:
        times = [_number(x) for x in (line.ours, line.ours_median, line.theirs, line.theirs_median)]
        ratio, bar = (f"{x:.2f}" if x is not None else "" for x in (line.ratio, line.bar))
        row = f"{line.item:<24} {times[0]:>10} {times[1]:>10}   {line.against:<15} {times[2]:>10} {times[3]:>10} "
        rows.append((row + f"{ratio:>6} {bar:>6} {line.verdict:<5} {line.note}").rstrip())
    counted = {verdict: sum(line.verdict == verdict for line in found) for verdict in ("pass", "fail", "wrong")}
    rows.append(
        ", ".join(f"{count} {verdict}" for verdict, count in counted.items()) + "; milliseconds, memory in megabytes"
    )
    return "\n".join(rows)


def _alone(found: Sequence[Line]) -> str:
    """Ours as a table: times with their unit, the limit where there is one, and how fast that is."""
    rows = [ALONE]
    for line in found:
        times = [f"{_number(x)} {line.unit}" if x is not None else "" for x in (line.ours, line.ours_median)]
        verdict = {"fail": "over the limit", "wrong": "wrong"}.get(line.verdict, "")
        end = "; ".join(filter(None, (line.rate, verdict, line.note)))
        rows.append(f"{line.item:<24} {times[0]:>10} {times[1]:>10} {_number(line.theirs):>8}   {end}".rstrip())
    return "\n".join(rows)


def processor_seconds() -> float:
    """The processor time of the processes that have ended, in seconds."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _number(x: float | None) -> str:
    return "" if x is None else f"{x:.4g}"


def rates(row: Row) -> str:
    """The rate of ours that an item's counts give: GFLOPS or GB/s; empty where it has none."""
    ours = row.results.get(OURS, Result()).minimum
    if not ours:
        return ""
    if row.item.bytes and not row.item.flops:
        return f"{row.item.bytes / ours / 1e6:.1f} GB/s"
    return f"{row.item.flops / ours / 1e6:.1f} GFLOPS" if row.item.flops else ""


def as_json(runs: Sequence[Sequence[Row]], processes: Sequence[Process], how: dict[str, Any]) -> str:
    """Everything: the machine, what each library ran with, each comparison, and each invocation's results."""
    peers = {
        process.peer.name: {"absent": process.absent} if process.absent else process.facts for process in processes
    }
    where = {"processor": machine.processor(), "system": platform.platform(), "python": platform.python_version()}
    each = [
        [{"item": row.item.name, "results": {name: asdict(result) for name, result in row.results.items()},
          "kernels": row.kernels} for row in rows]
        for rows in runs
    ]  # fmt: skip
    found = [asdict(line) for line in lines(runs)]
    return json.dumps({"machine": where, "how": how, "libraries": peers, "lines": found, "invocations": each}, indent=1)


def from_json(stored: str) -> tuple[list[Line], str]:
    """The comparisons that `as_json` has written, and where and how they were measured, in a few words."""
    found = json.loads(stored)
    versions = [f"{name} {facts['version']}" for name, facts in found["libraries"].items() if "version" in facts]
    busy = found["how"].get("busy with others")
    words = [
        found["machine"]["processor"],
        f"{found['how']['threads']} thread{'s' * (found['how']['threads'] != 1)}",
        f"{found['how']['rounds']} rounds",
    ]
    if busy is not None:
        words.append(f"{busy:.2f} processors busy with other work")
    return [Line(**line) for line in found["lines"]], f"{', '.join(words)}\n{', '.join(versions)}"
