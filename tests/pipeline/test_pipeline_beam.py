"""BEAM on the CPU: real children, real compilers, the same numbers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit
from tinygraft.engine import database

PROGRAM = """
import numpy as np
from tinygraft import Device, Tensor
x, y = (np.random.default_rng(seed).normal(size=(37, 37)).astype(np.float32) for seed in (1, 2))
a, b = Tensor(x).realize(), Tensor(y).realize()
np.testing.assert_allclose((a @ b + b[0]).relu().numpy(), np.maximum(x @ y + y[0], 0), rtol=1e-4, atol=1e-5)
np.testing.assert_allclose((a.T * 2).contiguous().numpy(), x.T * 2)
np.testing.assert_allclose(a.assign(a * 3 + b).numpy(), x * 3 + y, rtol=1e-6)
print("ran by", Device["CPU"].compiler_name)
"""


@pytest.mark.parametrize("compiler", ["llvm", pytest.param("c", marks=[pytest.mark.needs("cc"), pytest.mark.long])])
def test_what_was_found_computes_the_same(compiler: str, tmp_path: Path) -> None:
    """A product, a transposition, an assignment: found by the first process, used by the second without a search."""
    beam = {"BEAM": "2", "BEAM_BUDGET": "300", "DEBUG": "1", "DEV": "CPU", "CPU_COMPILER": compiler, "SPEC": "0"}
    environment = os.environ | beam | {"TINYGRAFT_CACHE": str(tmp_path), "CACHELEVEL": "1"}
    texts = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, timeout=120
        )
        assert done.returncode == 0, done.stderr
        assert f"ran by {compiler}" in done.stdout
        texts.append(done.stdout)
    assert texts[0].count("searched ") == 3
    assert "searched " not in texts[1]
    found = database.read_file(tmp_path / "tuned.jsonl").values()
    assert len(found) == 3
    assert all(compiler in f.compiler and f.after <= f.before for f in found)


def test_a_captured_function_has_what_was_found(tmp_path: Path) -> None:
    """BEAM is part of a capture's key: a function captured without it is captured anew."""
    x = np.arange(35, dtype=np.float32).reshape(5, 7)
    double = TinyJit(lambda t: (t.T * 2).contiguous().realize())
    with Context(DEV="CPU", BEAM_BUDGET=300, TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1):
        for setting in (0, 0, 0, 2, 2, 2):
            with Context(BEAM=setting):
                np.testing.assert_array_equal(double(Tensor(x).realize()).numpy(), x.T * 2)
        assert [f.name for f in database.read().values()] == ["E_7_5"]
