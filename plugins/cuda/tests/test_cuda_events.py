"""What the driver answers to a query of an event: only some results say that the work is over."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from tinygraft_cuda.context import CudaContext
from tinygraft_cuda.driver import facts


@pytest.mark.parametrize(
    ("result", "has_passed"),
    [
        (0, True),
        (600, False),
        (201, False),
        (400, False),
        (900, False),
        (906, False),
        (700, True),
        (999, True),
        (4, True),
    ],
)
def test_only_an_end_of_the_work_is_one(result: int, has_passed: bool) -> None:
    """Not ready is none, nor are results about the caller: a capture by another library, a missing context."""
    driver = SimpleNamespace(function=lambda name: lambda handle: result, facts=facts(13000))
    context = SimpleNamespace(is_usable=True, current=nullcontext, driver=driver)
    assert CudaContext.has_passed(context, SimpleNamespace(handle=0)) is has_passed  # type: ignore[arg-type]


def test_events_of_a_closed_context_have_passed() -> None:
    """The driver is not asked: it has no such event any more."""
    context = SimpleNamespace(is_usable=False)
    assert CudaContext.has_passed(context, SimpleNamespace(handle=0))  # type: ignore[arg-type]
