"""The GPU-like device of tests/support, installed for a test as a plugin is: by an entry point."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from installed import installed


@pytest.fixture
def gpusim(tmp_path: Path) -> Iterator[str]:
    """The name of the device, which is installed while the test runs."""
    with installed(tmp_path, "gpusim", GPUSIM="gpusim:SPEC"):
        yield "GPUSIM"
