"""python -m benchmarks: measure items in all libraries that are there, and report."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from benchmarks import fresh, kernels, picture, report
from benchmarks.items import ITEMS, Item, few, find, short
from benchmarks.machine import Others
from benchmarks.measure import Pace, Row, in_turns
from benchmarks.peers import Peer, Process, named, names, ours

DISTURBED = 0.1  # processors
QUICK = Pace(rounds=3, seconds=0.05, patience=20)
SHORT = Pace(rounds=5, seconds=0.05, patience=60)
QUICK_TIME, SHORT_TIME = 45.0, 240.0  # seconds, given: a minute and five; what is begun then is finished


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """Parse the command line. Ends the process for a wrong option, and for --picture without matplotlib."""
    peers = ",".join(names())
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="tinygraft beside other libraries")
    parser.add_argument("--list", action="store_true", help="the items and their bars")
    parser.add_argument("--only", default="", metavar="ITEM,...", help="kinds, or kind:sizes; all items without it")
    parser.add_argument("--even", action="store_true", help="leave the neighbouring odd sizes out")
    parser.add_argument("--peers", default="torch", metavar="NAME[=PYTHON],...", help=f"of {peers}; or none")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=Pace.rounds)
    parser.add_argument("--invocations", type=int, default=1, help="how often all is done; medians are reported")
    parser.add_argument("--quick", action="store_true", help="one item of each sort, 3 short rounds: in a minute")
    parser.add_argument("--short", action="store_true", help="no odd sizes, 5 short rounds: in 5 minutes")
    parser.add_argument(
        "--time", type=float, metavar="SECONDS", help="begin no item after this; those left out are named"
    )
    parser.add_argument("--patience", type=float, default=Pace.patience, help="seconds for one set-up")
    parser.add_argument("--profile", action="store_true", help="also the time of ours by kernel")
    parser.add_argument("--json", type=Path, metavar="OUT", help="write everything as JSON")
    parser.add_argument("--stored", type=Path, metavar="JSON", help="measure nothing: report what --json has written")
    parser.add_argument("--picture", type=Path, metavar="OUT", help="write the ratios as a picture (needs matplotlib)")
    args = parser.parse_args(argv)
    if args.picture and find_spec("matplotlib") is None:
        parser.error("--picture needs matplotlib: pip install matplotlib")
    return args


def listed(items: Sequence[Item]) -> str:
    """Return a line for each item: its name, its bars against peers, and its limit."""
    rows = []
    for item in items:
        bars = [f"{bar:g} x {peer}" for peer, bar in item.bars.items()]
        if item.limit is not None:
            bars.append(f"at most {item.limit:g} ms")
        rows.append(f"{item.name:<26} {', '.join(bars)}".rstrip())
    return "\n".join(rows)


def main(argv: Sequence[str] | None = None) -> int:
    """Measure or take what is stored, and report; 1 when a value was wrong or something failed, 2 for a wrong name."""
    args = arguments(argv)
    if args.stored:
        return _stored(args)
    try:
        every = few() if args.quick else short() if args.short else ITEMS
        items = [item for item in (find(args.only) if args.only else every) if not (args.even and item.odd)]
        peers = [ours(), *named(args.peers)]
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if args.list:
        print(listed(items))
        return 0
    pace = QUICK if args.quick else SHORT if args.short else Pace(rounds=args.rounds, patience=args.patience)
    if args.time is None and (args.quick or args.short) and not args.only:
        args.time = QUICK_TIME if args.quick else SHORT_TIME
    others, begun = Others(), time.monotonic()
    runs, processes = _run(items, peers, pace, args)
    how = {"threads": args.threads, "rounds": pace.rounds, "invocations": args.invocations}
    found = report.lines(runs)
    print(report.text(found))
    left_out = [item.name for item in items[len(runs[0]) :]]
    if left_out:
        print(f"not measured, as {args.time:g} s were over: {', '.join(left_out)}")
    print(f"{len(runs[0])} items in {time.monotonic() - begun:.0f} s, of which the processors of this machine worked "
          f"{report.processor_seconds():.0f} s for these processes")  # fmt: skip
    if (count := others.processors()) is not None:
        print(f"others kept {count:.2f} processors busy{', which disturbs the times' * (count > DISTURBED)}")
    for path in filter(None, (args.json, args.picture)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if args.json:
        args.json.write_text(report.as_json(runs, processes, how | {"busy with others": count}))
    if args.picture:
        picture.draw(found, args.picture)
        print(f"picture: {args.picture}")
    return int(any(line.verdict == "wrong" for line in found))


def _stored(args: argparse.Namespace) -> int:
    """Report what a file of --json has; 1 when a value was wrong there, 2 where there is no such file."""
    try:
        found, where = report.from_json(args.stored.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"--stored {args.stored}: no results that --json has written ({error!r})", file=sys.stderr)
        return 2
    print(f"{where}\n{report.text(found)}")
    if args.picture:
        args.picture.parent.mkdir(parents=True, exist_ok=True)
        picture.draw(found, args.picture, where)
        print(f"picture: {args.picture}")
    return int(any(line.verdict == "wrong" for line in found))


def _run(
    items: Sequence[Item], peers: Sequence[Peer], pace: Pace, args: argparse.Namespace
) -> tuple[list[list[Row]], list[Process]]:
    """The rows of each invocation, and the processes of the last one, which have ended."""
    runs: list[list[Row]] = []
    processes: list[Process] = []
    end = None if args.time is None else time.monotonic() + args.time
    for number in range(args.invocations):
        processes = [Process(peer, args.threads) for peer in peers]
        if number == 0:
            _introduce(processes)
        present = [process for process in processes if not process.absent]
        try:
            rows: list[Row] = []
            for item in items if number == 0 else items[: len(runs[0])]:
                if number == 0 and rows and end is not None and time.monotonic() > end:
                    break
                rows.append(_measured(item, present, pace, args.profile))
            runs.append(rows)
        finally:
            for process in processes:
                process.close()
    return runs, processes


def _introduce(processes: Sequence[Process]) -> None:
    for process in processes:
        facts = ", ".join(f"{name} {value}" for name, value in process.facts.items())
        print(f"{process.peer.name}: {f'absent, {process.absent}' if process.absent else facts}", flush=True)


def _measured(item: Item, present: Sequence[Process], pace: Pace, profile: bool) -> Row:
    if item.alone:
        present = present[:1]
    row = in_turns(item, present, pace, profile) if item.how == "turns" else fresh.measure(item, present, pace)
    minima = ", ".join(f"{name} {result.minimum:.4g}" for name, result in row.results.items() if result.minimum)
    print(f"  {item.name}: {minima} {report.rates(row)}".rstrip(), file=sys.stderr, flush=True)
    if row.kernels:
        print(f"{item.name}, by kernel\n{kernels.text(row.kernels)}", flush=True)
    return row


if __name__ == "__main__":
    sys.exit(main())
