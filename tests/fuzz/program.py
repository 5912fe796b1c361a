"""A program of the fuzzer, as data: a list of small steps that tinygraft, NumPy and PyTorch carry out alike.

A `Step` applies an operation of the tables in memory, run_tinygraft, run_numpy and run_torch to named tensors. A name
is given once in a program, so a step that writes (assign, setitem, an in-place operator, of a tensor or of a view) is
the only thing that changes what a name means. A `Function` is called by steps of the operation "call", under TinyJit in
tinygraft and plainly elsewhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Step:
    """One operation: the names it makes, the names it reads, and its constants (plain JSON)."""

    op: str
    out: tuple[str, ...] = ()
    ins: tuple[str, ...] = ()
    arg: Any = None


@dataclass(frozen=True)
class Function:
    """What TinyJit captures: steps over parameters and over tensors from outside; `number` names a bound Variable."""

    params: tuple[str, ...]
    steps: tuple[Step, ...]
    results: tuple[str, ...]
    number: str = ""


@dataclass(frozen=True)
class Program:
    """Steps in order, the functions they call, and which kind of generator made them."""

    steps: tuple[Step, ...]
    functions: tuple[Function, ...] = ()
    kind: str = "values"

    @property
    def all_steps(self) -> tuple[Step, ...]:
        """The steps of the program and those of its functions."""
        return (*self.steps, *(step for function in self.functions for step in function.steps))

    @property
    def features(self) -> set[str]:
        """The operations that occur, for counts of what a run has tried."""
        return {step.op for step in self.all_steps}


def renamed(step: Step, old: str, new: str) -> Step:
    """A step that reads `new` where it read `old`."""
    return replace(step, ins=tuple(new if name == old else name for name in step.ins))


def to_json(program: Program) -> str:
    """The text of a program, a step to a line, for a file of the corpus."""

    def lines(steps: Iterator[Step], indent: str) -> str:
        return ",\n".join(indent + json.dumps(list(asdict(step).values())) for step in steps)

    functions = ",\n".join(
        f'  {{"params": {json.dumps(f.params)}, "results": {json.dumps(f.results)}, "number": {json.dumps(f.number)},'
        f' "steps": [\n{lines(iter(f.steps), "    ")}]}}'
        for f in program.functions
    )
    return (
        f'{{"kind": {json.dumps(program.kind)},\n "functions": [\n{functions}],\n'
        f' "steps": [\n{lines(iter(program.steps), "  ")}]}}\n'
    )


def from_json(text: str) -> Program:
    """The program that `to_json` wrote."""
    data = json.loads(text)

    def steps(rows: list[list[Any]]) -> tuple[Step, ...]:
        return tuple(Step(op, tuple(out), tuple(ins), arg) for op, out, ins, arg in rows)

    functions = tuple(
        Function(tuple(f["params"]), steps(f["steps"]), tuple(f["results"]), f["number"]) for f in data["functions"]
    )
    return Program(steps(data["steps"]), functions, data["kind"])
