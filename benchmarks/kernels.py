"""Where the time of an item goes, kernel by kernel, for tinygraft."""

from __future__ import annotations

from typing import Any

from benchmarks.case import Case

ROUNDS = 5


def rows(case: Case) -> list[dict[str, Any]]:
    """The kernels of one run, those that take longest first: name, calls, ms, flops and bytes of all its calls.

    Every launch is waited for and timed, ROUNDS times; its minimum counts.
    """
    from tinygraft import events

    launches: list[events.LaunchEvent] = []
    rounds = []
    for _ in range(ROUNDS):
        launches.clear()
        stop = events.observe(launches.append, events.LaunchEvent)
        case.run()
        stop()
        rounds.append(list(launches))
    found: dict[tuple[str, int, int], dict[str, Any]] = {}
    for same in zip(*rounds, strict=True):
        launch = same[0]
        key = launch.name, launch.flops, launch.bytes
        row = found.setdefault(key, {"name": launch.name, "calls": 0, "ms": 0.0, "flops": 0, "bytes": 0})
        row["calls"] += 1
        row["ms"] += min(one.seconds for one in same) * 1e3
        row["flops"] += launch.flops
        row["bytes"] += launch.bytes
    return sorted(found.values(), key=lambda row: -row["ms"])


def text(found: list[dict[str, Any]]) -> str:
    """The rows as a table, with each one's share of the time and the rates that its counts give."""
    total = sum(row["ms"] for row in found) or 1e-9
    lines = [f"{'ms':>9} {'share':>6} {'calls':>5} {'GFLOPS':>8} {'GB/s':>7}  kernel"]
    for row in found:
        rate, moved = row["flops"] / row["ms"] / 1e6, row["bytes"] / row["ms"] / 1e6
        share = row["ms"] / total
        lines.append(f"{row['ms']:9.3f} {share:6.1%} {row['calls']:5d} {rate:8.1f} {moved:7.1f}  {row['name']}")
    calls = sum(row["calls"] for row in found)
    lines.append(f"{total:9.3f} {1:6.0%} {calls:5d} {'':8} {'':7}  in all, each launch timed by itself")
    return "\n".join(lines)
