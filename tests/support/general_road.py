"""Which realisations take the general road, counted for the tests of both kinds of shortcuts, on the PYTHON device."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tinygraft import Context, Tensor
from tinygraft.engine import plan, realize, tape


@contextmanager
def without_shortcuts() -> Iterator[None]:
    """What runs here finds no shortcut and no tape from before it, on the PYTHON device, and leaves no shortcut."""
    plan.clear()
    tape.clear()
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
