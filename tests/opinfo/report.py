"""What tinygraft does with PyTorch's operator database: `python tests/opinfo/report.py [--samples N] [NAME ...]`.

Prints how many operators are found under Tensor, how many of them are wholly right, how many samples are right, and
each that is missing or wrong with the reason of reasons.toml. A NAME restricts it to the operators that contain it
or match it as a pattern; --jobs runs that many processes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase

from judge import KINDS, Verdict, judge, operators
from reasons import Reasons, entry_for, outdated, read, unexplained


def _judged(task: tuple[str, int | None]) -> tuple[Verdict, float]:
    start = time.perf_counter()
    return judge(operators()[task[0]], task[1]), time.perf_counter() - start


def verdicts(names: list[str], most: int | None, jobs: int = 1) -> Iterator[tuple[Verdict, float]]:
    """The verdict of each operator and the seconds it took, one after another, from that many processes."""
    tasks = [(name, most) for name in names]
    if jobs == 1:
        yield from map(_judged, tasks)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_judged, tasks, chunksize=4)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.2f} %" if whole else "-"


def summary(found: list[Verdict]) -> str:
    """The numbers, one line for each."""
    there = [v for v in found if v.found]
    right, asked = Counter[str](), Counter[str]()
    for v in there:
        right.update(v.right)
        asked.update(v.asked)
    lines = [
        f"operators     {len(found)}",
        f"found         {len(there)}",
        f"wholly right  {sum(not v.wrong for v in there)}",
        f"samples right {right.total()} of {asked.total()}, {_percent(right.total(), asked.total())}",
        *(f"  {kind:<16} {right[kind]} of {asked[kind]}, {_percent(right[kind], asked[kind])}" for kind in KINDS),
    ]
    return "\n".join(lines)


def described(v: Verdict, seconds: float, table: Reasons) -> str:
    """An operator that is missing or wrong, with what is known about it; nothing about one that is right."""
    entry = entry_for(v.op, table.wrong if v.found else (*table.other, *table.missing))
    why = f"({entry.reason})" if entry else "(NO REASON)"
    if v.found is None:
        return f"missing  {v.op}  {why}\n"
    if not v.wrong:
        return ""
    total = sum(v.asked.values())
    text = f"wrong    {v.op}  {len(v.wrong)} of {total} in {seconds:.1f} s: {', '.join(v.failing)}  {why}\n"
    shown = set()
    for kind, number, problem in v.wrong:
        if problem[:40] not in shown:
            shown.add(problem[:40])
            text += f"           {kind} {number}: {problem}\n"
    return text


def below_the_bar(judged: list[Verdict]) -> list[str]:
    """What a run of all operators has to reach: 400 operators found, and 993 of 1000 of their samples right."""
    there = [v for v in judged if v.found]
    asked, right = (sum(sum(counts.values()) for counts in counted) for counted in
                    ([v.asked for v in there], [v.right for v in there]))  # fmt: skip
    short = [f"{len(there)} operators are found, fewer than 400"] if len(there) < 400 else []
    return [*short, *([f"{right} of {asked} samples are right, less than 99.3 %"] if right < 0.993 * asked else [])]


def main() -> int:
    """Print the report; 1 where something is wrong without a reason, or the table is out of date."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="parts of operators' names, or patterns")
    parser.add_argument("--samples", type=int, default=None, help="at most this many samples of each kind")
    parser.add_argument("--jobs", type=int, default=1, help="how many processes")
    args = parser.parse_args()
    every = list(operators())
    chosen = [n for n in every if not args.names or any(part in n or fnmatchcase(n, part) for part in args.names)]
    judged, table = [], read()
    for verdict, seconds in verdicts(chosen, args.samples, args.jobs):
        judged.append(verdict)
        print(described(verdict, seconds, table), end="", flush=True)
    print(summary(judged))
    complaints = unexplained(judged, table)
    if chosen == every:
        complaints += below_the_bar(judged)
        complaints += outdated(judged, table) if args.samples is None else []
    print("\n".join(complaints))
    return bool(complaints)


if __name__ == "__main__":
    sys.exit(main())
