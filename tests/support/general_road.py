"""Which realisations take the general road, and which plans are made, counted on the PYTHON device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tinygraft import Context, Tensor
from tinygraft.engine import plan, realize, tape
from tinygraft.engine.diskcache import clear as clear_disk
from tinygraft.uop.uop import UOp


@contextmanager
def without_shortcuts() -> Iterator[None]:
    """What runs here finds no shortcut and no tape from before it, on the PYTHON device, and leaves no shortcut."""
    plan.clear()
    tape.clear()
    with Context(DEV="PYTHON"):
        yield
    plan.clear()


@contextmanager
def without_plans() -> Iterator[None]:
    """What runs here finds no plan from before it, in memory or on disk, on the PYTHON device, and leaves none."""
    plan.clear()
    clear_disk()
    with Context(DEV="PYTHON"):
        yield
    plan.clear()


def calls_of(monkeypatch: pytest.MonkeyPatch, where: Any, name: str) -> list[int]:
    """Return a list that has an element for each call of a function or method from now on."""
    seen: list[int] = []
    plain = getattr(where, name)

    def noted(*args: Any) -> Any:
        seen.append(len(seen))
        return plain(*args)

    monkeypatch.setattr(where, name, noted)
    return seen


def collections(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that has an element for each realisation that takes the general road from now on."""
    return calls_of(monkeypatch, realize, "collect")


def numbers(*values: float) -> Tensor:
    """A tensor of floats in memory."""
    return Tensor([float(value) for value in values]).realize()


def plans_made(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[UOp]]:
    """Return a list that has the outputs of each graph that a plan is made of from now on: each compiles kernels."""
    found: list[Sequence[UOp]] = []
    plain = plan.shown_schedule

    def noted(outputs: Sequence[UOp]) -> Any:
        found.append(outputs)
        return plain(outputs)

    monkeypatch.setattr(plan, "shown_schedule", noted)
    return found
