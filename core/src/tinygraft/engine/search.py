"""BEAM: a search for the actions that make a kernel fastest, here and now.

    tuned(kernels, beam) -> {(kernel, backend): actions}

What the database knows is taken as it is. For any other kernel a child process (trial.py) tries lists of actions: all
that is offered (codegen/variants.py), then what differs in one step from the best ones, as many of those as beam says,
until nothing gets better or the time is over. A version that crashes or hangs ends the child, not this process: it is
passed over and the next child goes on. What was found, also that nothing is better, goes into the database.
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
START = 30.0  # seconds until a child has opened its device and computed what is compared
HANGS = 10.0  # seconds that one version may take
RACE = 0.15  # of the time goes into each race of the best
WORTH = 0.98  # a version that takes more of the time before is not called better
SHOWN = ("DEBUG", "VIZ", "SPEC", "BEAM", "NOOPT")  # settings that a child does not share
# assumed: never measured
FINALISTS = 10  # versions that race, at most
COMMAND = (sys.executable, "-P", "-m", "tinygraft.engine.trial")

SearchedKernel = tuple[Kernel, Backend]


class Lost(Exception):
    """The child has crashed, hangs or is not there."""


class TrialProcess:
    """A process that tries versions. `ask` starts it when it is not there."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()

    def __enter__(self) -> TrialProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        """The answer to a request. Raises Lost when there is none within limit seconds."""
        try:
            process = self._process or self._start()
            assert process.stdin is not None
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            said = json.loads(self._answers.get(timeout=limit))
        except (OSError, ValueError, queue.Empty):
            self.end()
            raise Lost from None
        assert isinstance(said, dict)
        return said

    def is_there(self) -> bool:
        """Whether the process runs."""
        return self._process is not None

    def end(self) -> None:
        """End the process, whatever it does."""
        if self._process is not None:
            process, self._process = self._process, None
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):  # closing passes on what the process was not there to read
                    if pipe is not None:
                        pipe.close()

    def _start(self) -> subprocess.Popen[str]:
        """Start the child with a thread that reads its answers, under the settings of this process.

        The settings in SHOWN are 0 for it, and it has a session of its own, so that Ctrl-C does not reach it.
        """
        here = {s.name: str(s.value) for s in SETTINGS.values() if s.name not in SHOWN}
        quiet = dict.fromkeys(SHOWN, "0")
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
    """Pass on each line; an empty one, which is no answer, when there are no more."""
    try:
        for line in pipe:
            answers.put(line)
    except ValueError:  # closed
        pass
    answers.put("")


@dataclass(slots=True)
class Search:
    """The search for one kernel: what was tried, with seconds, and what is left of the time."""

    kernel: Kernel
    backend: Backend
    child: TrialProcess
    seconds: float
    tried: dict[str, float | None] = field(default_factory=dict)
    end: float = 0.0

    def run(self, beam: int) -> tuple[str, float, float] | None:
        """The best actions, seconds before and after; None when the child could not try this kernel."""
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
        while best and (left := self.end - time.monotonic() - 2 * RACE * self.seconds) > 0:
            leaders = sorted(best, key=lambda text: best[text])[:beam]
            known = len(self.tried)
            beside = (show(n) for text in leaders for n in variants.neighbours(parse(text), sink, target))
            self._attempt_all(beside, left)
            fresh = [text for text in list(self.tried)[known:] if self.tried[text] is not None]
            again = self._race(list(dict.fromkeys([chosen, *leaders, *self._fastest(fresh)])))
            if not again or min(again, key=lambda text: again[text]) in leaders:
                best = again or best
                break
            best = again
        first = min(best, key=lambda text: best[text], default=chosen)
        last = self._race([chosen, first])  # the two alone, so that each runs many times
        if chosen not in last or first not in last:
            return None
        winner = first if last[first] < WORTH * last[chosen] else chosen
        return winner, last[chosen], last[winner]

    def _begin(self) -> bool:
        """Tell the child which kernel to try. False where it could not, crashed, or did not answer in time."""
        request = {
            "do": "begin", "device": self.backend.name, "compiler": self.backend.compiler.key or "",
            "target": self.backend.target.text(), "kernel": flat(self.kernel.sink),
        }  # fmt: skip
        try:
            return "ready" in self.child.ask(request, START + self.seconds)
        except Lost:
            return False

    def _attempt(self, text: str) -> float | None:
        """Seconds of a version, roughly; None for one that is wrong, is another one's equal, crashes or hangs."""
        self.tried[text] = None
        try:
            if self.child.is_there() or self._begin():
                self.tried[text] = self.child.ask({"do": "try", "actions": text}, HANGS).get("seconds")
        except Lost:
            pass
        return self.tried[text]

    def _attempt_all(self, texts: Iterable[str], seconds: float) -> None:
        """Try versions that are new until the time is over."""
        end = time.monotonic() + seconds
        for text in texts:
            if time.monotonic() > end:
                return
            if text not in self.tried:
                self._attempt(text)

    def _fastest(self, among: Sequence[str] | None = None) -> list[str]:
        """Versions worth a race: as many as it has time for."""
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
        """Seconds of versions that ran in turns; nothing when one of them took the child with it."""
        unique = list(dict.fromkeys(texts))
        request = {"do": "race", "actions": unique, "seconds": self.seconds * RACE}
        try:
            if not self.child.is_there() and not self._begin():
                return {}
            answer = self.child.ask(request, HANGS + 2 * self.seconds)
        except Lost:
            return {}
        return dict(answer.get("seconds", {}))


def tuned(asked: Sequence[SearchedKernel], beam: int) -> dict[SearchedKernel, tuple[Action, ...]]:
    """The best actions for kernels, found now or earlier; those that could not be tried are left out."""
    known = database.read()
    keys = {one: database.key_of(*one) for one in dict.fromkeys(asked)}
    best = {one: parse(known[key].actions) for one, key in keys.items() if key in known}
    best = {one: actions for one, actions in best.items() if _is_allowed(one, actions)}
    missing = [one for one in keys if one not in best]
    if missing and BEAM_BUDGET.value > 0:
        file = database.own_file()
        for one, found in search(missing, beam, BEAM_BUDGET.value / 1000, lambda found: database.add(found, file)):
            best[one] = parse(found.actions)
    return best


def _is_allowed(one: SearchedKernel, actions: tuple[Action, ...]) -> bool:
    """Whether a kernel has these actions; another version of this package may have written them."""
    try:
        apply_actions(with_gaps(collapse(one[0].sink)), actions, one[1].target)
    except ActionError:
        return False
    return True


def search(
    asked: Sequence[SearchedKernel], beam: int, seconds: float,
    told: Callable[[SearchResult], object] = lambda found: None,
) -> list[tuple[SearchedKernel, SearchResult]]:  # fmt: skip
    """Search for each kernel, for as many seconds each; told hears of each result at once."""
    results = []
    with TrialProcess() as child:
        for kernel, backend in asked:
            one = Search(kernel, backend, child, seconds)
            result = one.run(beam)
            if result is None:
                continue
            found = SearchResult(*database.key_of(kernel, backend), kernel_name(kernel), *result)
            results.append(((kernel, backend), found))
            told(found)
            if DEBUG.value >= 1:
                print(f"searched {found.name}: {found.before * 1e6:.1f} us -> {found.after * 1e6:.1f} us "
                      f"[{found.actions or 'no actions'}], {len(one.tried)} versions")  # fmt: skip
    return results
