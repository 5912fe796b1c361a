"""The next process: what one process has scheduled and compiled is neither scheduled, lowered nor compiled again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COUNTS = """
import json
from tinygraft import GlobalCounters, Tensor, nn
from tinygraft.engine import compile, plan

made = {"schedules": 0, "lowered": 0}

def counted(name, real):
    def call(*args):
        made[name] += 1
        return real(*args)
    return call

plan.schedule = counted("schedules", plan.schedule)
compile.to_linear = counted("lowered", compile.to_linear)
Tensor.manual_seed(1)
"""
TELL = """
print(json.dumps(made | {"compiled": GlobalCounters.kernels_compiled, "launched": GlobalCounters.kernel_count,
                         "result": result}))
"""
CONVNET = """
layers = [
    nn.Conv2d(1, 8, 5), Tensor.relu, nn.BatchNorm(8), Tensor.max_pool2d,
    nn.Conv2d(8, 16, 3), Tensor.relu, nn.BatchNorm(16), Tensor.max_pool2d, lambda x: x.flatten(1), nn.Linear(400, 10),
]
optimizer = nn.optim.Adam(nn.state.get_parameters(layers))
images, labels = Tensor.rand(16, 1, 28, 28).realize(), Tensor([i % 10 for i in range(16)]).realize()
result = []
with Tensor.train():
    for step in range(3):
        optimizer.zero_grad()
        loss = images.sequential(layers).sparse_categorical_crossentropy(labels).backward()
        loss.realize(*optimizer.schedule_step())
        result.append(loss.item())
"""
TRANSFORMER = """
class Block:
    def __init__(self):
        self.norms = [nn.LayerNorm(32), nn.LayerNorm(32)]
        self.qkv, self.project = nn.Linear(32, 96), nn.Linear(32, 32)
        self.grow, self.shrink = nn.Linear(32, 128), nn.Linear(128, 32)

    def __call__(self, x):
        q, k, v = (part.reshape(1, 8, 4, 8).transpose(1, 2) for part in self.qkv(self.norms[0](x)).chunk(3, -1))
        heard = q.scaled_dot_product_attention(k, v, is_causal=True).transpose(1, 2).reshape(1, 8, 32)
        x = x + self.project(heard)
        return x + self.shrink(self.grow(self.norms[1](x)).gelu())

words, blocks = nn.Embedding(50, 32), [Block(), Block()]
x = words(Tensor([[3, 1, 4, 1, 5, 9, 2, 6]]))
for block in blocks:
    x = block(x)
result = x.sum().item()
"""


def run(folder: Path, what: str) -> dict[str, Any]:
    """What a new process counts while it computes, with its caches in folder."""
    done = subprocess.run([sys.executable, "-c", COUNTS + what + TELL], env=environment(folder), capture_output=True,
                          text=True, timeout=300)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def environment(folder: Path) -> dict[str, str]:
    """Return settings of a process that has its caches in `folder`."""
    return os.environ | {"TINYGRAFT_CACHE": str(folder), "DEV": "CPU", "CACHELEVEL": "1", "SPEC": "0", "DEBUG": "0"}


def entries(folder: Path, packs: bool) -> list[Path]:
    """The files of packs, or of binaries."""
    return [path for path in sorted((folder / "kernels").glob("*/*")) if (b'{"kernels":' in path.read_bytes()) == packs]


@pytest.mark.parametrize("what", [CONVNET, TRANSFORMER], ids=["convnet", "transformer"])
def test_a_second_process_only_launches(tmp_path: Path, what: str) -> None:
    """Three training steps of a convolutional network, a forward pass of a transformer: the same numbers, no work."""
    first = run(tmp_path, what)
    assert first["compiled"] == first["lowered"] > 5
    assert run(tmp_path, what) == first | {"compiled": 0, "lowered": 0, "schedules": 0}


@pytest.mark.slow
def test_eight_processes_start_at_once(tmp_path: Path) -> None:
    """All begin with an empty cache and compute the same; afterwards there is nothing left to do."""
    command = [sys.executable, "-c", COUNTS + TRANSFORMER + TELL]
    started = [subprocess.Popen(command, env=environment(tmp_path), stdout=subprocess.PIPE) for _ in range(8)]
    answers = [json.loads(process.communicate(timeout=300)[0]) for process in started]
    assert len({answer["result"] for answer in answers}) == 1
    after = run(tmp_path, TRANSFORMER)
    assert (after["schedules"], after["lowered"], after["compiled"]) == (0, 0, 0)
    assert after["result"] == answers[0]["result"]


def test_damaged_packs_are_made_anew(tmp_path: Path) -> None:
    """Garbage and cut files: everything is scheduled again, the binaries still serve, and the packs are mended."""
    first = run(tmp_path, TRANSFORMER)
    for i, path in enumerate(entries(tmp_path, packs=True)):
        path.write_bytes(path.read_bytes()[: 50 * i] if i % 2 else b"\0" * 1000)
    second = run(tmp_path, TRANSFORMER)
    assert second == first | {"compiled": 0}
    assert run(tmp_path, TRANSFORMER) == first | {"compiled": 0, "lowered": 0, "schedules": 0}


@pytest.mark.slow
def test_a_binary_that_is_gone_is_compiled_again(tmp_path: Path) -> None:
    """A pack that names it is as good as none."""
    first = run(tmp_path, TRANSFORMER)
    for path in entries(tmp_path, packs=False)[::2]:
        path.unlink()
    second = run(tmp_path, TRANSFORMER)
    assert second["result"] == first["result"]
    assert 0 < second["compiled"] < first["compiled"]
    assert run(tmp_path, TRANSFORMER) == first | {"compiled": 0, "lowered": 0, "schedules": 0}


def test_a_folder_that_cannot_be_written_costs_time_only(tmp_path: Path) -> None:
    """A file where the caches should be: every process makes everything."""
    (tmp_path / "file").write_text("not a folder")
    first = run(tmp_path / "file", TRANSFORMER)
    assert first["compiled"] == first["lowered"] > 5
    assert run(tmp_path / "file", TRANSFORMER) == first
