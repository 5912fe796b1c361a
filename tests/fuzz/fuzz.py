"""The fuzzer: random programs on several devices, held to NumPy and PyTorch for as long as one likes.

    python tests/fuzz/fuzz.py --seconds 60 --seed 0 --devices CPU,C,PYTHON,OPENCL,NOOPT,GPUSIM

Without --seed the operating system gives one; it is printed first. A program that fails is made small and printed as a
script, and the exit status is 1. FUZZ_LEAVE_OUT=op,op leaves operations out, --known REGEX counts failures whose text
matches without printing them, so that a run can go on beyond a defect that is being mended.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

os.environ.setdefault("SPEC", "2")
if __name__ == "__main__":  # pytest has both on its path
    sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "support"))

import numpy as np

import opencl_driver
from bounded import Uncertain, Value
from compare import Difference, first_difference
from draft import ALIKE
from generate import KINDS, WEIGHTS, generate
from lanes import BY_DEFAULT, LANES, Lane, on
from program import Program, Step, to_json
from run_numpy import Reference
from run_tinygraft import Broke, run
from shrink import script, shrunk


@dataclass
class Failure:
    """A program that fails: as it was drawn, made small, and why."""

    seed: int
    lane: str
    program: Program
    difference: Difference
    text: str = ""


@dataclass
class Report:
    """What a run has tried and found."""

    counts: Counter[str] = field(default_factory=Counter)  # programs by lane
    kinds: Counter[str] = field(default_factory=Counter)
    features: Counter[str] = field(default_factory=Counter)
    known: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def programs(self) -> int:
        """How many programs were run."""
        return sum(self.counts.values())

    def __str__(self) -> str:
        """Counts in a few lines."""
        rate = self.programs / max(self.seconds, 1e-9)
        known = f", known: {dict(self.known)}" if self.known else ""
        return (
            f"{self.programs} programs in {self.seconds:.0f} s ({rate:.1f} a second), "
            f"{len(self.failures)} differ{known}\n"
            f"by lane: {dict(self.counts)}\nby kind: {dict(self.kinds)}\n{len(self.features)} operations"
        )


def expected(program: Program) -> list[Value | None]:
    """What the reads of a program should give. Raises Uncertain, or an error for a program that makes no sense."""
    with np.errstate(all="ignore"):
        if program.kind == "training":
            from run_torch import references

            return references(program)
        return list(Reference(program).run())


def failure_of(program: Program, lane: Lane) -> Difference | None:
    """What is wrong with a program in the lane that is on; None where it is right, or makes no sense."""
    try:
        wanted = expected(program)
    except (Uncertain, *ALIKE):
        return None
    try:
        found = run(program, lane.devices)
    except Broke as broke:
        text = re.sub(r"\d+", "#", str(broke).splitlines()[0])
        return Difference(f"raises {text[:70]}", str(broke), broke.line)
    return first_difference(wanted, found)


def on_one_device(program: Program) -> Program:
    """The program with all its tensors in one place."""

    def here(step: Step) -> Step:
        if step.op != "leaf":
            return step
        return replace(step, arg={key: value for key, value in step.arg.items() if key != "axis"})

    functions = tuple(replace(f, steps=tuple(map(here, f.steps))) for f in program.functions)
    return replace(program, steps=tuple(map(here, program.steps)), functions=functions)


def settings_text(lane: str) -> str:
    """The lines of a script that choose a lane."""
    devices = LANES[lane].devices
    first = {
        "C": "# run with CPU_COMPILER=c",
        "NOOPT": "# run with NOOPT=1",
        "GPUSIM": "# with tests/support/gpusim.py",
    }
    device = "CPU" if lane in ("C", "NOOPT") else lane
    devices = (device, f"{device}:1") if devices else ()
    return f"{first.get(lane, f'# run with DEV={device}')}\nDEVICES = {devices}"


def explain(failure: Failure, program: Program) -> str:
    """The story of a failure: where, why, and the script."""
    title = f"seed {failure.seed} ({program.kind}) on {failure.lane}: {failure.difference.kind}"
    text = script(program, expected(program), title, settings_text(failure.lane))
    return f"{title}\n  {failure.difference.line}\n  {failure.difference.text}\n{text}"


def seeds_with_torch() -> Sequence[str]:
    """The kinds of programs that can be judged here."""
    try:
        import torch  # noqa: F401
    except ImportError:
        return [kind for kind in KINDS if kind != "training"]
    return KINDS


def fuzz(
    seconds: float, seed: int, lanes: Sequence[str], kinds: Sequence[str] = (), *, known: str = "", stop: int = 10,
    leave_out: frozenset[str] = frozenset(), programs: int = 0, shrink_tries: int = 600,
) -> Report:  # fmt: skip
    """Run programs for some seconds, or so many of them, the lanes one after the other, and report."""
    report, start = Report(), time.monotonic()
    usable = [kind for kind in (kinds or KINDS) if kind in seeds_with_torch()]
    weights = [WEIGHTS[KINDS.index(kind)] for kind in usable]
    whole = sum(LANES[name].part for name in lanes)
    spent = 0.0
    for name in lanes:
        spent += LANES[name].part / whole
        with on(name) as lane, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            here = 0
            while (here < programs) if programs else time.monotonic() - start < seconds * spent:
                number = seed + report.programs
                kind = np.random.default_rng(number).choice(usable, p=np.array(weights) / sum(weights))
                here += 1
                _try(report, number, str(kind), name, lane, leave_out, known, shrink_tries)
                if len(report.failures) >= stop:
                    break
        gc.collect()
        if len(report.failures) >= stop:
            break
    report.seconds = time.monotonic() - start
    return report


def _try(
    report: Report, number: int, kind: str, name: str, lane: Lane, leave_out: frozenset[str], known: str, tries: int
) -> None:
    """One program: counted, and made small where it fails."""
    if kind == "shards" and not lane.devices:
        kind = "state"
    program = generate(number, kind, leave_out)
    if not lane.devices:
        program = on_one_device(program)
    report.counts[name] += 1
    report.kinds[kind] += 1
    report.features.update(program.features)
    found = failure_of(program, lane)
    if found is None:
        return
    if known and re.search(known, f"{found.kind} {found.text}"):
        report.known[re.search(known, f"{found.kind} {found.text}").group(0)] += 1  # type: ignore[union-attr]
        return
    small = shrunk(program, lambda p: failure_of(p, lane), tries)
    failure = Failure(number, name, small, failure_of(small, lane) or found)
    failure.text = explain(failure, small)
    report.failures.append(failure)
    print(failure.text, flush=True)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--programs", type=int, default=0, help="so many programs in each lane, instead of seconds")
    parser.add_argument("--devices", default=",".join(BY_DEFAULT))
    parser.add_argument("--kinds", default="", help=f"of {','.join(KINDS)}")
    parser.add_argument("--known", default="", help="a pattern: failures that match are counted only")
    parser.add_argument("--stop", type=int, default=10, help="how many failures end the run")
    parser.add_argument("--save", default="", help="a folder for the programs that fail, as JSON")
    options = parser.parse_args()
    opencl_driver.choose()
    seed = options.seed if options.seed is not None else int.from_bytes(os.urandom(4), "big") << 20
    print(f"seed {seed}", flush=True)
    leave_out = frozenset(filter(None, os.environ.get("FUZZ_LEAVE_OUT", "").split(",")))
    report = fuzz(
        options.seconds, seed, options.devices.split(","), list(filter(None, options.kinds.split(","))),
        known=options.known, stop=options.stop, leave_out=leave_out, programs=options.programs,
    )  # fmt: skip
    print(report)
    for failure in report.failures if options.save else ():
        folder = Path(options.save)
        folder.mkdir(exist_ok=True)
        (folder / f"{failure.program.kind}_{failure.lane}_{failure.seed}.json").write_text(to_json(failure.program))
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
