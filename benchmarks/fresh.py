"""Items that are measured in fresh processes: first calls, peak memory, and the time of an import.

The processes of all libraries take turns here too, MOST of each. For a first call "cold" means an empty folder for
caches each time, "warm" one that an earlier process has filled.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from benchmarks.case import Array
from benchmarks.items import Item
from benchmarks.libraries import LIBRARIES
from benchmarks.measure import Pace, Result, Row, judged, silent_fallback
from benchmarks.peers import OURS, ROOT, PeerError, PeerLate, Process, environment

MOST = 5
TIMED = "import time; start = time.perf_counter(); {}; print(time.perf_counter() - start)"

Answer = tuple[float, Array | None]
Start = Callable[[], Answer | None]


def measure(item: Item, processes: Sequence[Process], pace: Pace) -> Row:
    """Measure one item with the peers of processes, whose own workers stay idle; ours is the first of them."""
    row = Row(item, {})
    with tempfile.TemporaryDirectory(prefix="benchmark-") as folder:
        starts = {process.peer.name: _starter(item, process, pace, folder) for process in processes}
        amounts: dict[str, list[float]] = {}
        values: Array | None = None
        for turn in range(min(pace.rounds, MOST) + (item.cache == "warm")):
            for name, start in starts.items() if turn == 0 else [(name, starts[name]) for name in amounts]:
                result = row.results.setdefault(name, Result())
                try:
                    found = start()
                except PeerError as error:
                    result.failed = result.failed or str(error)
                    result.late |= isinstance(error, PeerLate)
                    amounts.pop(name, None)
                    continue
                if found is None:
                    del row.results[name]  # the library lacks the item
                    continue
                amounts.setdefault(name, [])
                if turn == 0 and name == OURS:
                    result.wrong = silent_fallback(processes[0], item, result)
                if turn == 0 and found[1] is not None:
                    values = judged(name, item, found[1], values, result)
                if turn or item.cache != "warm":
                    amounts[name].append(found[0])
            amounts = dict(list(amounts.items())[1:] + list(amounts.items())[:1])
    for name, each in amounts.items():
        result = row.results[name]
        result.minimum, result.middle, result.calls = min(each), median(each), len(each)
    return row


def _starter(item: Item, process: Process, pace: Pace, folder: str) -> Start:
    """Return a function that starts a fresh process and returns its measure and its values; None without the item.

    That function raises PeerError where the process fails or takes longer than `pace.patience`.
    """
    peer, shared = process.peer, tempfile.mkdtemp(dir=folder)

    def output(arguments: list[str], cache: str) -> str:
        seen = environment(peer, process.threads, cache)
        command = [peer.python, *arguments]
        try:
            done = subprocess.run(command, env=seen, cwd=ROOT, capture_output=True, text=True, timeout=pace.patience)
        except subprocess.TimeoutExpired:
            raise PeerLate(f"no answer in {pace.patience:.0f} s") from None
        if done.returncode:
            raise PeerError((done.stderr.strip().splitlines() or ["nothing was printed"])[-1])
        return done.stdout

    def once() -> Answer | None:
        cache = shared if item.cache == "warm" else tempfile.mkdtemp(dir=folder)
        path, sizes = f"{cache}/values.npy", "x".join(map(str, item.sizes))
        answer = json.loads(output(["-m", "benchmarks.once", peer.library, item.of, sizes, path, item.how], cache))
        if "missing" in answer:
            return None
        return answer["amount"] * (1 if item.how == "memory" else 1e3), np.load(path)

    def imported() -> Answer:
        line = LIBRARIES[peer.library].names if item.of == "names" else f"import {peer.library}"
        return float(output(["-c", TIMED.format(line)], shared)) * 1e3, None

    return imported if item.how == "import" else once
