"""BEAM: a search for the transforms that make a kernel fastest on this machine.

    tuned(kernels, beam) -> {(kernel, backend): transforms}

Results in the database are used as they are. For any other kernel a child process (trial.py) measures candidates, lists
of transforms: first all of codegen/variants.py, then those that differ in one step from the `beam` best ones, until
nothing gets better or the time is over. A version that crashes or hangs ends the child, not this process: it is skipped
and a new child goes on. The result, also that nothing is better, is added to the database.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import IO, Any

from tinygraft.codegen import variants
from tinygraft.codegen.action import Action, parse, show
from tinygraft.codegen.apply import apply_actions
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.lower import kernel_name
from tinygraft.codegen.transforms import with_gaps
from tinygraft.config import BEAM_BUDGET, DEBUG, SETTINGS
from tinygraft.device.interfaces import Backend
from tinygraft.engine import database
from tinygraft.engine.database import SearchResult
from tinygraft.errors import ActionError
from tinygraft.uop.flat import flat
from tinygraft.uop.stages import Kernel

# assumed: never measured
START = 30.0  # seconds until a child has opened its device and computed the samples
HANGS = 10.0  # seconds that one version may take
RACE = 0.15  # of the time is spent on each race of the best
WORTH = 0.98  # a version is better if it needs less than this share of the time of the heuristics' choice
UNSHARED = ("DEBUG", "VIZ", "SPEC", "BEAM", "NOOPT")  # settings that a child does not get
# assumed: never measured
FINALISTS = 10  # versions that race, at most
COMMAND = (sys.executable, "-P", "-m", "tinygraft.engine.trial")

SearchedKernel = tuple[Kernel, Backend]


class Lost(Exception):
    """The child has crashed, hangs or could not be started."""


class TrialProcess:
    """A child process that tries versions. `ask` starts it when it does not run."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> TrialProcess:
        """Return itself; the process starts when it is asked."""
        return self

    def __exit__(self, *_: object) -> None:
        """Kill the process, if it runs."""
        self.end()

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """Return the answer to a request, as trial.py describes both. Starts the child where it does not run.

        Raises Lost, and ends the child, when none comes within `limit` seconds, or the child crashes or cannot start.
        """
        try:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            answer = json.loads(self._answers.get(timeout=limit))
        except (OSError, ValueError, queue.Empty):
            answer = None
        if not isinstance(answer, dict):
            self.end()
            raise Lost from None
        return answer

    def is_running(self) -> bool:
        """Return whether the process runs."""
        return self._process is not None

    def end(self) -> None:
        """Kill the process, whatever it does, and close its pipes."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # closing flushes what the process has not read
                    if pipe is not None:
                        pipe.close()

    def _start(self) -> subprocess.Popen[str]:
        """Start the child with a thread that reads its answers, under the settings of this process. Returns it.

        The settings in UNSHARED are 0 for it, and it has a session of its own, so that Ctrl-C does not reach it. Raises
        OSError where it cannot be started.
        """
        here = {s.name: str(s.value) for s in SETTINGS.values() if s.name not in UNSHARED}
        quiet = dict.fromkeys(UNSHARED, "0")
        environment = {**os.environ, **here, **quiet, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, text=True, env=environment, start_new_session=True,
        )  # fmt: skip
        self._answers = queue.SimpleQueue()
        assert self._process.stdout is not None
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()
        return self._process


def _read(pipe: IO[str], answers: queue.SimpleQueue[str]) -> None:
    """Put each line of `pipe` into `answers`; at its end an empty one, so that `ask` stops waiting."""
    try:
        for line in pipe:
            answers.put(line)
    except ValueError:  # closed
        pass
    answers.put("")


@dataclass(slots=True)
class Search:
    """The search for one kernel, of at most `seconds`.

    `tried` has the seconds of each version by the text of its transforms, None where it failed; `end` is when the time
    is over.
    """

    kernel: Kernel
    backend: Backend
    child: TrialProcess
    seconds: float
    tried: dict[str, float | None] = field(default_factory=dict)
    end: float = 0.0

    def run(self, beam: int) -> tuple[str, float, float] | None:
        """Return the best transforms, and the seconds before and after; None when the child could not try this kernel.

        The transforms are as `parse` reads them. "Before" are the seconds of the first candidate, the choice of the
        heuristics, which is also returned where nothing is better by 1 - WORTH. `beam` is how many of the best are
        varied in each step.
        """
        if not self._begin():
            return None
        self.end = time.monotonic() + self.seconds
        sink, target = collapse(self.kernel.sink), self.backend.target
        lists = variants.firsts(sink, target)
        chosen = show(next(lists))
        if self._attempt(chosen) is None:
            return None
        self._attempt_all(map(show, lists), self.seconds / 2)
        best = self._race([chosen, *self._fastest()])
        while best and (remaining := self.end - time.monotonic() - 2 * RACE * self.seconds) > 0:
            leaders = sorted(best, key=lambda text: best[text])[:beam]
            count = len(self.tried)
            beside = (show(n) for text in leaders for n in variants.neighbours(parse(text), sink, target))
            self._attempt_all(beside, remaining)
            fresh = [text for text in list(self.tried)[count:] if self.tried[text] is not None]
            again = self._race(list(dict.fromkeys([chosen, *leaders, *self._fastest(fresh)])))
            if not again or min(again, key=lambda text: again[text]) in leaders:
                best = again or best
                break
            best = again
        first = min(best, key=lambda text: best[text], default=chosen)
        last = self._race([chosen, first])  # only these two, so that each runs many times
        if chosen not in last or first not in last:
            return None
        winner = first if last[first] < WORTH * last[chosen] else chosen
        return winner, last[chosen], last[winner]

    def _begin(self) -> bool:
        """Send the child the kernel to try. Returns False where it could not, crashed, or did not answer in time."""
        request = {
            "do": "begin", "device": self.backend.name, "compiler": self.backend.compiler.key or "",
            "target": self.backend.target.text(), "kernel": flat(self.kernel.sink),
        }  # fmt: skip
        try:
            return "ready" in self.child.ask(request, START + self.seconds)
        except Lost:
            return False

    def _attempt(self, text: str) -> float | None:
        """Measure a version roughly. Returns seconds; None for one that is wrong, equals another, crashes or hangs.

        `text` has its transforms; the result is added to `tried`.
        """
        self.tried[text] = None
        try:
            if self.child.is_running() or self._begin():
                self.tried[text] = self.child.ask({"do": "try", "actions": text}, HANGS).get("seconds")
        except Lost:
            pass
        return self.tried[text]

    def _attempt_all(self, texts: Iterable[str], seconds: float) -> None:
        """Try versions that were not tried yet, for `seconds`."""
        end = time.monotonic() + seconds
        for text in texts:
            if time.monotonic() > end:
                return
            if text not in self.tried:
                self._attempt(text)

    def _fastest(self, among: Sequence[str] | None = None) -> list[str]:
        """Return the fastest versions, of all that were tried or of `among`, the fastest first.

        As many as a race can run three times each, at least one and at most FINALISTS; empty where all have failed.
        """
        times = {text: s for text in (self.tried if among is None else among) if (s := self.tried[text]) is not None}
        found: list[str] = []
        total = 0.0
        for text in sorted(times, key=lambda text: times[text])[:FINALISTS]:
            total += 3 * times[text]
            if total > self.seconds * RACE and found:
                break
            found.append(text)
        return found

    def _race(self, texts: Sequence[str]) -> dict[str, float]:
        """Return the least seconds of versions that run alternately, by text; nothing when one of them ends the child.

        Wrong versions are omitted.
        """
        unique = list(dict.fromkeys(texts))
        request = {"do": "race", "actions": unique, "seconds": self.seconds * RACE}
        try:
            if not self.child.is_running() and not self._begin():
                return {}
            answer = self.child.ask(request, HANGS + 2 * self.seconds)
        except Lost:
            return {}
        return dict(answer.get("seconds", {}))


def tuned(kernels: Sequence[SearchedKernel], beam: int) -> dict[SearchedKernel, tuple[Action, ...]]:
    """Return the best transforms for kernels, found now or earlier; kernels that could not be tried are omitted.

    `beam` is how many of the best candidates are varied in each step. New results are added to the database. With a
    BEAM_BUDGET of 0 nothing is searched, and only earlier results are returned.
    """
    known = database.read()
    keys = {one: database.key_of(*one) for one in dict.fromkeys(kernels)}
    best = {one: parse(known[key].actions) for one, key in keys.items() if key in known}
    best = {one: actions for one, actions in best.items() if _is_allowed(one, actions)}
    missing = [one for one in keys if one not in best]
    if missing and BEAM_BUDGET.value > 0:
        file = database.own_file()
        for one, found in search(missing, beam, BEAM_BUDGET.value / 1000, lambda found: database.add(found, file)):
            best[one] = parse(found.actions)
    return best


def _is_allowed(one: SearchedKernel, actions: tuple[Action, ...]) -> bool:
    """Return whether a kernel allows these transforms; another version of this package may have written them."""
    try:
        apply_actions(with_gaps(collapse(one[0].sink)), actions, one[1].target)
    except ActionError:
        return False
    return True


def search(
    kernels: Sequence[SearchedKernel], beam: int, seconds: float,
    on_result: Callable[[SearchResult], object] = lambda found: None,
) -> list[tuple[SearchedKernel, SearchResult]]:  # fmt: skip
    """Search for each kernel, about `seconds` each, and return those that have a result, each with it.

    `on_result` is called with each result at once. `beam` is how many of the best candidates are varied in each step.
    """
    from tinygraft.progress import tuning

    results = []
    with tuning.work(f"tuning, up to {seconds:g} s for each", len(kernels)) as step, TrialProcess() as child:
        for kernel, backend in kernels:
            one = Search(kernel, backend, child, seconds)
            result = one.run(beam)
            step(1)
            if result is None:
                continue
            found = SearchResult(*database.key_of(kernel, backend), kernel_name(kernel), *result)
            results.append(((kernel, backend), found))
            with tuning.hidden():
                on_result(found)
            if DEBUG.value >= 1:
                print(f"searched {found.name}: {found.before * 1e6:.1f} us -> {found.after * 1e6:.1f} us "
                      f"[{found.actions or 'no actions'}], {len(one.tried)} versions")  # fmt: skip
    return results
