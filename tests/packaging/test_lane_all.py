"""Lane all: every package of ours in one environment, where a plugin with a fault is an error."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from packages import PLUGINS, ROOT, device_of, driver_of, run

pytestmark = [pytest.mark.slow, pytest.mark.needs("index", "cc")]
STRICT = {"TINYGRAFT_STRICT_PLUGINS": "1"}


def test_they_get_on_with_each_other(together: Path, tmp_path: Path) -> None:
    """Under strict plugins each device is there, doctor finds nothing wrong, and all give the same sums."""
    settings, folders = dict(STRICT), []
    for plugin in PLUGINS:
        settings |= (found := driver_of(plugin))
        folders += [found["LD_LIBRARY_PATH"]] if "LD_LIBRARY_PATH" in found else []
    settings["LD_LIBRARY_PATH"] = ":".join(folders)
    found = json.loads(run(together, "-m", "tinygraft", "devices", "--json", cwd=tmp_path, **settings))
    ours = {"PYTHON", *map(device_of, PLUGINS)}
    assert {record["name"] for record in found if record["status"] in ("available", "open")} == {"NULL", *ours}
    assert "Usable default: " in run(together, "-m", "tinygraft", "doctor", cwd=tmp_path, **settings)
    code = "from tinygraft import Tensor; print((Tensor.arange(6).reshape(2, 3) + 1).sum(axis=1).tolist())"
    for device in ours:
        assert run(together, "-c", code, cwd=tmp_path, DEV=device, **settings) == "[6, 15]\n"


def test_all_of_it_comes_from_the_wheels(together: Path, tmp_path: Path) -> None:
    """Run from another folder, no module of ours is loaded from the checkout."""
    code = (
        "import sys\nfrom tinygraft import Device, Tensor\n"
        "Tensor([1.0]).exp().tolist()\n"
        "files = {getattr(m, '__file__', None) for n, m in sys.modules.items() if n.startswith('tinygraft')}\n"
        "print(*sorted(files - {None}))"
    )
    files = [Path(file) for file in run(together, "-c", code, cwd=tmp_path).split()]
    assert len(files) > 50
    assert [file for file in files if ROOT in file.parents or "site-packages" not in file.parts] == []
