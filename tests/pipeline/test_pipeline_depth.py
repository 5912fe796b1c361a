"""A chain of 100,000 additions goes through the whole pipeline within a minute and 2 GB, and is freed."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

LENGTH = 100_000
SCRIPT = f"""
import gc, json, time
from benchmarks.once import peak_megabytes
from tinygraft import Tensor
from tinygraft.engine import compile
from tinygraft.uop.uop import live_nodes

x = Tensor([1.0, 2.0], requires_grad=True)
(x + 1).numpy()
before = live_nodes()
y = x
for _ in range({LENGTH}):
    y = y + 1.0
text = str(y.uop)
y.sum().backward()
found = {{"nodes": live_nodes() - before, "lines": text.count("Ops.ADD"), "y": y.tolist(), "grad": x.grad.tolist()}}
del y, text
compile.clear()  # the graphs of the compiled kernels
x.grad = None
gc.collect()
found |= {{"left": live_nodes() - before, "seconds": time.process_time(), "megabytes": peak_megabytes()}}
print(json.dumps(found))
"""


@pytest.mark.slow
def test_a_chain_of_100000_additions_takes_the_whole_pipeline() -> None:
    """It is built, printed, computed, differentiated and freed, in a minute of processor time and 2 GB."""
    root = Path(__file__).parents[2]  # where the folder benchmarks is
    run = subprocess.run([sys.executable, "-c", SCRIPT], cwd=root, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["nodes"] >= LENGTH
    assert found["lines"] == LENGTH
    assert found["y"] == [1.0 + LENGTH, 2.0 + LENGTH]
    assert found["grad"] == [1.0, 1.0]
    assert found["left"] <= 50
    assert found["seconds"] < 60
    assert found["megabytes"] < 2000
