"""Devices of modules in tests/support, installed for a test as a plugin is: by entry points of a distribution."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tinygraft import Device


@contextmanager
def installed(folder: Path, distribution: str, **specs: str) -> Iterator[None]:
    """Have devices, by their names "module:SPEC", from a distribution in folder, which is on the path for as long."""
    info = folder / f"tinygraft_{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tinygraft-{distribution}\nVersion: 1.0\n")
    entries = "".join(f"{name.lower()} = {spec}\n" for name, spec in specs.items())
    (info / "entry_points.txt").write_text(f"[tinygraft.devices]\n{entries}")
    sys.path.insert(0, str(folder))
    Device.refresh()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
        Device.refresh()
