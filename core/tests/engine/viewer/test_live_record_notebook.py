"""A real notebook: a kernel of Jupyter runs cells, as nbclient sees what they show."""

from __future__ import annotations

import importlib.util
import json
import urllib.request
from pathlib import Path
from typing import Any

import pytest

MISSING = [name for name in ("nbclient", "ipykernel") if importlib.util.find_spec(name) is None]
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(MISSING), reason=f"{' and '.join(MISSING)} not installed: there is no notebook here"),
]
CELLS = [
    "from tinygraft import Context, Tensor\nfrom tinygraft.helpers import trange\nx = Tensor.ones(4, 4)",
    "with Context(VIZ=1):\n    (x @ x).relu().realize()",
    "with Context(VIZ=1):\n    for i in range(3):\n        (x + i).sum().item()",
    "for _ in trange(3):\n    pass",
]


def shown(cell: Any, kind: str) -> str:
    """What a cell shows of a media type, or of a stream by its name."""
    return "".join(one.get("data", {}).get(kind, "") or (one.text if one.get("name") == kind else "")
                   for one in cell.outputs)  # fmt: skip


def test_viz_and_progress_in_a_notebook(tmp_path: Path) -> None:
    """Each cell with VIZ=1 has a link to one live page, which names cells as lines; bars of tqdm show."""
    import nbformat
    from jupyter_client.kernelspec import KernelSpec
    from nbclient import NotebookClient

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    client = NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}})
    client.create_kernel_manager()
    client.km._kernel_spec = KernelSpec(
        argv=[__import__("sys").executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    )
    with client.setup_kernel():
        for number, cell in enumerate(notebook.cells):
            client.execute_cell(cell, number)
        first, second = (shown(notebook.cells[number], "text/html") for number in (1, 2))
        assert "the live page of this notebook</a>" in first
        assert first == second
        address = shown(notebook.cells[1], "text/plain").removeprefix("VIZ: ")
        with urllib.request.urlopen(address) as page:
            assert "<title>notebook</title>" in page.read().decode()
        base, _, token = address.partition("?")
        with urllib.request.urlopen(f"{base}news?{token}") as answer:
            news = json.loads(answer.read())
    lines = {where: requests for where, _, _, requests, _ in news["lines"]}
    assert lines["In [2]:2"] == 1
    assert lines["In [3]:3"] == 3
    assert "3/3" in shown(notebook.cells[3], "stderr")
