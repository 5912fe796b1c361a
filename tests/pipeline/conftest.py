"""The GPU-like device of tests/support, installed for a test as a plugin is: by an entry point; and no VALIDATE."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import installed
from tinygraft.config import Context


@pytest.fixture
def gpusim(tmp_path: Path) -> Iterator[str]:
    """The name of the device, which is installed while the test runs."""
    with installed(tmp_path, "gpusim", GPUSIM="gpusim:SPEC"):
        yield "GPUSIM"


@pytest.fixture
def not_validated() -> Iterator[None]:
    """VALIDATE off, also where all of the tests run under it.

    It would notice a mutant before the check that is tested does. A replay under it is a run of the function, and most
    lines at which a signal comes are those of the evaluator.
    """
    with Context(VALIDATE=0):
        yield
