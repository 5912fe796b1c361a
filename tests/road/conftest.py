"""The GPU-like device of tests/support, installed for a test as a plugin is: by an entry point."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tinygraft import Device


@pytest.fixture
def gpusim(tmp_path: Path) -> Iterator[str]:
    """The name of the device, which is installed while the test runs."""
    info = tmp_path / "tinygraft_gpusim-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: tinygraft-gpusim\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[tinygraft.devices]\ngpusim = gpusim:SPEC\n")
    sys.path.insert(0, str(tmp_path))
    Device.refresh()
    yield "GPUSIM"
    sys.path.remove(str(tmp_path))
    Device.refresh()
