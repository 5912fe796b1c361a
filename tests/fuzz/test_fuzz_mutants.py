"""The fuzzer finds what it is there for: each protection of stored values that is taken away makes a program fail."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from fuzz import failure_of, seeds_with_torch
from generate import generate
from lanes import on
from tinygraft.engine import collect, compile, plan, tape
from tinygraft.jit import replayed
from tinygraft.schedule import fusion, homes, schedule
from tinygraft.tensor.primitives import base
from tinygraft.tensor.state import storage

Mutant = tuple[Any, str, Callable[..., Any], str]
MUTANTS: dict[str, Mutant] = {  # module or class, what it loses, what it has instead, the kind of programs that sees it
    "values that somebody holds are not kept from a store": (
        collect,
        "protect",
        lambda order, computed, others: ([], []),
        "state",
    ),
    "an assignment that others build on happens again": (collect, "assigned_for", lambda others, order: [], "state"),
    "a kernel reads elsewhere what it overwrites": (
        fusion.Group,
        "overwritten",
        lambda group: set(),
        "state",
    ),
    "memory is taken while its value is needed": (
        homes._HomeGiver,
        "_may_overwrite",
        lambda p, n, base, to: True,
        "state",
    ),
    "kernels run in any order": (schedule, "in_order", lambda tasks, *rest: list(reversed(tasks)), "state"),
    "a replay does not keep what it overwrites": (replayed, "before_replay", lambda *a: None, "jit"),
    "a view is a value": (base, "alias", lambda base, view: None, "views"),
    "a write does not show in views": (
        storage.SharedStorage,
        "become",
        lambda self, node: _of_wholes(self, node),
        "views",
    ),
    "elements in common are written": (storage, "overlaps", lambda whole, steps: False, "views"),
    "results of a replay are values": (replayed, "aliases_in", lambda tensors, homes: [], "jit"),
    "a read cuts the tape": (tape, "record", lambda *a, **k: None, "training"),
}
MOST = 400  # programs, in at most 60 s


@pytest.mark.slow
@pytest.mark.parametrize("name", MUTANTS)
def test_a_lost_protection_is_found(name, monkeypatch):
    """A program fails with the mutant, and is right without it."""
    where, what, instead, kind = MUTANTS[name]
    if kind not in seeds_with_torch():
        pytest.skip("PyTorch is not installed")
    assert hasattr(where, what), f"{where.__name__} has no {what}: the mutant needs the name that it has now"
    start, tried = time.monotonic(), 0
    with on("PYTHON") as lane:
        for seed in range(MOST):
            program = generate(seed, kind)
            tried += 1
            with monkeypatch.context() as mutant:
                mutant.setattr(where, what, instead)
                _forget()
                found = failure_of(program, lane)
            _forget()
            if found is not None and failure_of(program, lane) is None:
                print(f"{name}: program {tried}, {time.monotonic() - start:.1f} s: {found.text}")
                return
    pytest.fail(f"{tried} programs of the kind {kind} did not see it")


def _of_wholes(self: Any, node: Any) -> None:
    """A write to a storage, of which only the tensors that are the whole of it take notice."""
    self.uop = node
    for tensor in self.members():
        if not tensor._chain:
            tensor.uop = node


def _forget() -> None:
    """Schedules and programs made with another rule are not used again."""
    plan.clear()
    compile.clear()
