"""The plugin on the emulated Metal: the conformance kit, replays of a TinyJit, subnormal numbers, digits."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import metal_emulator

pytestmark = pytest.mark.needs("cc")


def kit(folder: Path, level: str, **settings: str) -> Counter[str]:
    """How many tests of some levels of the conformance kit passed or failed."""
    file = folder / "counts.json"
    command = ["-m", "tinygraft", "conformance", "--device", "METAL", "--level", level, "--json", str(file)]
    done = metal_emulator.run(command, **settings)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    (found,) = json.loads(file.read_text())["devices"]
    return sum((Counter(level) for level in found["levels"].values()), Counter())


def test_quick_levels_of_the_kit(tmp_path: Path) -> None:
    """The declaration and the source: none failed."""
    counts = kit(tmp_path, "spec,render")
    assert counts["passed"] > 30
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
@pytest.mark.parametrize("settings", [
    {"METAL_ICB": "1"}, pytest.param({"METAL_ICB": "0", "EMULATED_SEED": "2"}, marks=pytest.mark.long),
    pytest.param({"EMULATED_NO_VECTORS": "1", "EMULATED_SEED": "3", "EMULATED_MSL": "310"}, marks=pytest.mark.long),
], ids=str)  # fmt: skip
def test_threads_and_graphs_of_the_kit(tmp_path: Path, settings: dict[str, str]) -> None:
    """Thread blocks, barriers, graphs, queues and events: none failed, in whatever way.

    A TinyJit is replayed by an indirect command buffer or not, and queues are late by three seeds.
    """
    counts = kit(tmp_path, "optional", EMULATED_LATE="200", **settings)
    assert counts["passed"] > 60
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("subnormals", ["0", "1"])
def test_all_of_the_kit(tmp_path: Path, subnormals: str) -> None:
    """All levels, every operation on its edge values among them: none failed, with subnormals flushed or kept."""
    counts = kit(tmp_path, "0-5", EMULATED_SUBNORMALS=subnormals)
    assert counts["passed"] > 1200
    assert set(counts) <= {"passed", "n/a"}


REPLAY = """
import json, Metal
from tinygraft import Tensor, TinyJit

@TinyJit
def step(x, w):
    y = (x @ w).relu().realize()
    return (y.sum(axis=0) + y.max()).realize()

found, counts = [], []
for i in range(6):
    x = (Tensor.arange(64, device="METAL").reshape(8, 8) - i).float().realize()
    w = (Tensor.arange(64, device="METAL").reshape(8, 8) % (i + 2)).float().realize()
    before = Metal.counts.copy()
    y = step(x, w)
    counts.append({k: Metal.counts[k] - before[k] for k in ("indirect", "launch")})
    a, b = (x @ w).relu().numpy(), y.numpy()
    found.append(bool((a.sum(axis=0) + a.max() == b).all()))
print(json.dumps([found, [one["indirect"] for one in counts]]))
"""


@pytest.mark.parametrize(("settings", "is_indirect"), [
    ({"METAL_ICB": "1"}, True), ({"METAL_ICB": "0"}, False), ({"EMULATED_NO_ICB": "1"}, False),
    ({"EMULATED_APPLE9": "1"}, True), ({"EMULATED_VIRTUAL": "1"}, False),
])  # fmt: skip
def test_a_jit_is_replayed(settings: dict[str, str], is_indirect: bool) -> None:
    """Six calls with other values each: by one command where there are indirect command buffers that are right.

    On GPUs before the M3 the encoder has to name the pipelines, and on those of virtual machines the buffers are wrong.
    """
    done = metal_emulator.python(REPLAY, EMULATED_LATE="300", **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    right, indirect = json.loads(done.stdout)
    assert right == [True] * 6
    assert indirect[:1] == [0]
    assert [count > 0 for count in indirect[3:]] == [is_indirect] * 3


VARIABLES = """
import Metal
from tinygraft import Device
from tinygraft.device.interfaces import Step
from tinygraft.uop.stages import Signature, Source
from tinygraft_metal.dialect import DIALECT

backend = Device["METAL"]
def program(count):
    text = f'''{DIALECT.header}
{DIALECT.kernel.format(threads=1)} last{count}(device long *data0, constant long *variables, {DIALECT.positions}) {{
    data0[0] = variables[{count - 1}];
}}
'''
    source = Source(f"last{count}", text, "metal", Signature((), tuple(f"v{i:03}" for i in range(count))))
    return backend.load(backend.compiler.compile(source))

counts = [1, 40, 33, 600]
programs = [program(count) for count in counts]
memory = [backend.allocator.alloc(8) for _ in counts]
read = lambda: [int.from_bytes(one.view(), "little") for one in memory]
for one, count, place in zip(programs, counts, memory):
    one.launch([place], list(range(1000, 1000 + count)), (1, 1, 1))
backend.synchronize()
print(read())
names = [tuple(f"s{n}v{i:03}" for i in range(count)) for n, count in enumerate(counts)]
graph = backend.graph([Step(one, (n,), names[n]) for n, one in enumerate(programs)])
for n, place in enumerate(memory):
    graph.set_buffer(n, place)
for begin in (2000, 5000):
    graph.set_values({name: begin + 1000 * n + i for n, row in enumerate(names) for i, name in enumerate(row)})
    assert graph.run(0) == len(counts)
    backend.synchronize()
    print(read())
long = backend.graph([Step(programs[0], (0,), ("v",))] * 300)
long.set_buffer(0, memory[0])
long.set_values({"v": 7})
before = Metal.counts["commit"]
long.run(0)
print(Metal.counts["commit"] - before)
backend.synchronize()
print(read()[0])
graph.set_buffer(0, backend.allocator.view(memory[0], 0, 8))
graph.handles[0].offset = 1 << 32
print(graph._is_too_far())
"""


def test_kernels_of_many_variables() -> None:
    """More than 256 bytes of them in a replay, and more than a launch may have beside its buffers.

    The launches of a replay count, too, for when a command buffer is committed.
    """
    done = metal_emulator.python(VARIABLES, METAL_ICB="1")
    assert done.stdout.splitlines() == [
        "[1000, 1039, 1032, 1599]", "[2000, 3039, 4032, 5599]", "[5000, 6039, 7032, 8599]", "1", "7", "True",
    ], done.stderr[-3000:]  # fmt: skip


def test_memory_that_is_freed_is_metals_again() -> None:
    """PyObjC is told that new buffers are the caller's; without that it would retain each until the process ends."""
    done = metal_emulator.python("""
import gc
from emulated_calls import leaked
from tinygraft import Device, Tensor
backend = Device["METAL"]
(Tensor.ones(4, device="METAL") + 1).tolist()
before = backend.device.currentAllocatedSize()
handles = [backend.allocator.alloc(1 << 20) for _ in range(8)]
most = backend.device.currentAllocatedSize() - before
for handle in handles:
    backend.allocator.free(handle, 1 << 20)
del handle, handles
gc.collect()
print(most, backend.device.currentAllocatedSize() - before, leaked)
""")
    assert done.stdout.split("\n")[0] == f"{8 << 20} 0 []", done.stdout + done.stderr[-2000:]


def test_doubles_are_stored() -> None:
    """float64 is copied, joined, chosen and read as it was, and computing with it says what is missing."""
    done = metal_emulator.python("""
from tinygraft import Tensor, dtypes
x = Tensor([1.0, 1e-300, 0.1], dtype=dtypes.float64, device="METAL")
print(x.flip(0).contiguous().tolist())
print(x.float().tolist(), x.float().double().tolist() == x.to("CPU").float().double().tolist(), (x.half() * 2).tolist())
print(x.cat(x.roll(1), (x.bitcast("int64") > 0).where(x, x.flip(0))).tolist())
try:
    (x + 1).tolist()
except Exception as error:
    print(type(error).__name__, error)
""")
    first, casts, second, rest = done.stdout.split("\n", 3)
    assert first == "[0.1, 1e-300, 1.0]", done.stderr[-2000:]
    assert casts == "[1.0, 0.0, 0.10000000149011612] True [2.0, 0.0, 0.199951171875]"
    assert second == "[1.0, 1e-300, 0.1, 0.1, 1.0, 1e-300, 1.0, 1e-300, 0.1]"
    assert rest.startswith("UnsupportedError"), rest


@pytest.mark.slow
@pytest.mark.long
def test_digits_are_learnt(tmp_path: Path) -> None:
    """The script of the README on the emulated GPU: at least 0.98 of the images that were not seen."""
    done = metal_emulator.run(["examples/train_digits.py", "--out", str(tmp_path)], DEV="METAL")
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"accuracy[^0-9]*([0-9.]+)", done.stdout + done.stderr)
    assert float(found[-1].rstrip(".")) >= 0.98, done.stdout


@pytest.mark.slow
def test_the_script_for_a_mac_works(tmp_path: Path) -> None:
    """It runs its parts in processes of their own, writes the report, and leaves out what is not there."""
    script = str(Path(__file__).parent / "on_a_card.py")
    modules = str(metal_emulator.MODULES)
    command = [script, "--out", str(tmp_path), "--only", "open,speed"]
    done = metal_emulator.run(command, SPEED_SMALL="1", CARD_MODULES=modules)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "card.json").read_text())
    assert [part["verdict"] for part in found["parts"].values()] == ["passed"] * 2
    assert "Emulated" in found["parts"]["open"]["said"]
    assert "GFLOP/s" in found["parts"]["speed"]["said"]


def test_a_script_runs_on_the_emulator(tmp_path: Path) -> None:
    """As the README says: with its arguments and the user's settings, on the device by default, and on the second."""
    script = tmp_path / "script.py"
    script.write_text("""
import sys
from tinygraft import Device, Tensor
x = Tensor([1.0, 2.0])
print(x.device, (x.to("METAL:1") * 3).to("CPU").tolist(), sys.argv[1:])
""")
    command = [sys.executable, str(Path(metal_emulator.__file__)), str(script), "--seed", "1"]
    for settings, device in (({}, "METAL"), ({"DEV": "CPU"}, "CPU")):
        environment = {**{k: v for k, v in os.environ.items() if k != "DEV"}, **settings}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=metal_emulator.PATIENCE, check=False
        )
        assert done.stdout == f"{device} [3.0, 6.0] ['--seed', '1']\n", done.stderr
