"""CONTRIBUTING.md adds an op, step by step; here the steps are taken, on a copy of core's source."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from walk import Change, apply, changes

ROOT = Path(__file__).parents[2]
STEPS = changes((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
CHECK = """
import numpy as np
from tinygraft import Tensor
from tinygraft.conformance.accuracy import allowed, distances, samples, truth
from tinygraft.dtype import dtypes
from tinygraft.uop.ops import Ops

import forgotten

assert forgotten.forgotten(Ops.COSM1) == []
x = np.array([0.0, 1e-3, -0.5, 1.0, 3.0, -40.0])
for device in ("CPU", "PYTHON"):
    t = Tensor(x, device=device, requires_grad=True)
    y = t.cosm1()
    assert y.uop.op is Ops.COSM1
    assert np.allclose(y.numpy(), np.cos(x) - 1, rtol=0, atol=4e-16)
    y.sum().backward()
    step = 1e-4
    differences = (np.cos(x + step) - np.cos(x - step)) / (2 * step)
    assert np.allclose(t.grad.numpy(), differences, rtol=0, atol=1e-8)
    for dtype in (dtypes.float32, dtypes.float64):
        tried = samples(Ops.COSM1, dtype, 1000)
        found = Tensor(tried[0], device=device).cosm1().numpy()
        assert distances(found, truth(Ops.COSM1, dtype, *tried), dtype).max() <= allowed(Ops.COSM1, dtype)
    assert abs(Tensor([1e-4], device=device).cosm1().item() / -5e-9 - 1) < 1e-6  # cos(x) - 1 is 0 in float32
print("added")
"""


def copied(folder: Path) -> Path:
    """A copy of core's source, in a tree like this one."""
    shutil.copytree(ROOT / "core" / "src", folder / "core" / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


def run(code: str, tree: Path) -> str:
    """What code prints that imports core from a tree; every schedule is compared with NumPy."""
    paths = [tree / "core" / "src", ROOT / "plugins" / "cpu" / "src", ROOT / "tests" / "support"]
    settings = {"PYTHONPATH": os.pathsep.join(map(str, paths)), "TINYGRAFT_CACHE": str(tree / "cache"), "VALIDATE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | settings, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_walk_adds_an_op(tmp_path: Path) -> None:
    """With the changes of the document, which are in at most five files of core, an op gives NumPy's values on CPU and
    PYTHON, has the gradient that finite differences have, is as exact as its row says, and lacks nothing."""
    touched = apply(STEPS, copied(tmp_path))
    assert 1 <= len(touched) <= 5
    assert run(CHECK, tmp_path).split() == ["added"]


def test_half_of_the_walk_is_told_the_other_half(tmp_path: Path) -> None:
    """Where only the vocabulary has the op, what is missing is named: derivative, decomposition and method."""
    apply([step for step in STEPS if step.path.endswith("uop/ops.py")], copied(tmp_path))
    said = run(
        "import forgotten\nfrom tinygraft.uop.ops import Ops\nprint(*forgotten.forgotten(Ops.COSM1), sep='\\n')",
        tmp_path,
    )
    assert said.splitlines() == [
        "COSM1 has no row in VJP (autograd/vjp.py): its derivative, or None and why it has none",
        "COSM1 is none of BASIC_OPS and has no row in RULES (rules/): a Target without a word for it cannot compute it",
        "COSM1 is in no method of Tensor (tensor/)",
    ]


def test_a_walk_that_no_longer_fits_is_refused(tmp_path: Path) -> None:
    """Lines that the document shows and the file does not have once are an error that shows them."""
    (tmp_path / "file.py").write_text("a = 1\nb = 2\nb = 2\n")
    for old, times in (("c = 3\n", 0), ("b = 2\n", 2)):
        with pytest.raises(AssertionError, match=rf"^file.py has these lines {times} times:\n{old}"):
            apply([Change("file.py", old, "")], tmp_path)
