"""The plugin on the emulated HIP: tests that need a card, the conformance kit, waves of 32 and 64, digits.

Of waves the emulator shows that no kernel depends on how many threads go together: they are in no order but that of
barriers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import hip_emulator

CHECKS = sorted((hip_emulator.ROOT / "tests" / "support" / "cards").glob("check_*.py"))
QUICK = {"check_graphs.py"}
WAVES = {"gfx942:sramecc+:xnack-": 64, "gfx1100": 32}
pytestmark = pytest.mark.needs("cc")


@pytest.mark.parametrize(
    "file", [pytest.param(f, id=f.name, marks=() if f.name in QUICK else pytest.mark.slow) for f in CHECKS]
)
def test_on_cards_that_are_emulated(file: Path) -> None:
    """All tests of a file pass, and none is skipped: two ordinals, graphs, queues, refusals, other libraries."""
    done = hip_emulator.run(["-m", "pytest", "-q", "-p", "no:cacheprovider", "-n0", str(file)], CARD_DEVICE="AMD")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    assert "SKIPPED" not in done.stdout


def kit(folder: Path, level: str, arch: str) -> Counter[str]:
    """How many tests of some levels of the conformance kit passed or failed."""
    file = folder / "counts.json"
    command = ["-m", "tinygraft", "conformance", "--device", "AMD", "--level", level, "--json", str(file)]
    done = hip_emulator.run(command, EMULATED_ARCH=arch)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    (found,) = json.loads(file.read_text())["devices"]
    return sum((Counter(level) for level in found["levels"].values()), Counter())


def test_quick_levels_of_the_kit(tmp_path: Path) -> None:
    """The declaration, the source, vectors among it: none failed."""
    counts = kit(tmp_path, "spec,render", "gfx90a")
    assert counts["passed"] > 30
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
def test_threads_and_graphs_of_the_kit(tmp_path: Path) -> None:
    """Thread blocks, barriers, graphs, queues and events: none failed, with waves of 32."""
    counts = kit(tmp_path, "optional", "gfx1100")
    assert counts["passed"] > 70
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_all_of_the_kit(tmp_path: Path, arch: str) -> None:
    """All levels, every operation on its edge values among them: none failed."""
    counts = kit(tmp_path, "0-5", arch)
    assert counts["passed"] > 1300
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.parametrize("arch", WAVES)
def test_threads_of_a_wave_exchange_values(arch: str) -> None:
    """The emulator's waves are those of the card: the builtins of clang, which hand-written kernels may use."""
    done = hip_emulator.python(CODE, EMULATED_ARCH=arch)
    assert done.returncode == 0, done.stderr[-3000:]
    wave = WAVES[arch]
    assert json.loads(done.stdout) == [wave, [i // wave * wave + (i + 1) % wave for i in range(128)]]


CODE = """
import json
from dataclasses import replace
from tinygraft import Device
from tinygraft.conformance.levels.optional_launches import BackendMemory, spinning
backend = Device["AMD"]
source = backend.renderer.render(spinning(10))
head = source.text[source.text.index('extern "C"'):source.text.index("{")].replace("(1, 1)", "(128, 128)")
body = '''{
    const unsigned i = __builtin_amdgcn_workitem_id_x(), wave = __builtin_amdgcn_wavefrontsize();
    const int mine = (int)i;
    data0[i] = __builtin_amdgcn_ds_bpermute((int)((i + 1) % wave) * 4, mine);
    __builtin_amdgcn_wave_barrier();
}'''
text = head + body
program = backend.load(backend.compiler.compile(replace(source, text=text)))
program.threads = 128
memory = BackendMemory(backend)
out, x = memory.make([0] * 128), memory.make([0] * 128)
program.launch([out, x], [], (1, 1, 1))
backend.synchronize()
print(json.dumps([backend.device.card.wave, memory.read(out, 128)]))
"""


@pytest.mark.slow
@pytest.mark.long
def test_digits_are_learnt(tmp_path: Path) -> None:
    """The script of the README on the emulated card: at least 0.98 of the images that were not seen."""
    done = hip_emulator.run(["examples/train_digits.py", "--out", str(tmp_path)], DEV="AMD")
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"accuracy[^0-9]*([0-9.]+)", done.stdout + done.stderr)
    assert float(found[-1].rstrip(".")) >= 0.98, done.stdout


@pytest.mark.slow
def test_the_script_for_a_card_works(tmp_path: Path) -> None:
    """It runs its parts in processes of their own, writes the report, and leaves out what is not there."""
    script = str(Path(__file__).parent / "on_a_card.py")
    done = hip_emulator.run([script, "--out", str(tmp_path), "--only", "open,speed"], SPEED_SMALL="1")
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "card.json").read_text())
    assert [part["verdict"] for part in found["parts"].values()] == ["passed"] * 2
    assert "Emulated GPU 0" in found["parts"]["open"]["said"]
    assert "GFLOP/s" in found["parts"]["speed"]["said"]
    assert done.stdout.endswith("ALL PASSED\n")


def test_a_script_runs_on_the_emulator(tmp_path: Path) -> None:
    """As the README says: with its arguments and the user's settings, on the device by default, and on the second."""
    script = tmp_path / "script.py"
    script.write_text("""
import sys
from tinygraft import Device, Tensor
x = Tensor([1.0, 2.0])
print(x.device, (x.to("AMD:1") * 3).to("CPU").tolist(), sys.argv[1:])
""")
    command = [sys.executable, str(Path(hip_emulator.__file__)), str(script), "--seed", "1"]
    for settings, device in (({}, "AMD"), ({"DEV": "CPU"}, "CPU")):
        environment = {**{k: v for k, v in os.environ.items() if k != "DEV"}, **settings}
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=hip_emulator.PATIENCE, check=False
        )
        assert done.stdout == f"{device} [3.0, 6.0] ['--seed', '1']\n", done.stderr
