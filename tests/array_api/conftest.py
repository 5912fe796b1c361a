"""All tests here run on the PYTHON device: most inputs have a form of their own, and it compiles nothing."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tinygraft import Context


@pytest.fixture(autouse=True, scope="module")
def interpreter() -> Iterator[None]:
    """The default device."""
    with Context(DEV="PYTHON"):
        yield
