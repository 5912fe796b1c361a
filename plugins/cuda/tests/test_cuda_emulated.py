"""The plugin on the emulated driver: the files of cards/, and the conformance kit, each in a process of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import cuda_emulator
from tinygraft_cuda import build_pycuda

CARDS = (cuda_emulator.ROOT / "tests" / "support" / "cards", Path(__file__).parent / "cards")
FILES = sorted(str(file.relative_to(cuda_emulator.ROOT)) for folder in CARDS for file in folder.glob("check_*.py"))
pytestmark = pytest.mark.needs("cc")


def run(command: list[str], **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a module of Python on the emulated driver."""
    return subprocess.run(
        [sys.executable, "-m", *command], env=cuda_emulator.environment(**settings), capture_output=True, text=True,
        timeout=cuda_emulator.PATIENCE, check=False, cwd=cuda_emulator.ROOT,
    )  # fmt: skip


@pytest.mark.parametrize("file", FILES)
def test_on_cards_that_are_emulated(file: str) -> None:
    """All tests of a file pass, and none is skipped but those of pycuda."""
    done = run(["pytest", "-q", "-p", "no:cacheprovider", "-n0", file], CUDA_BINDING="cffi")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    skips = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert all("pycuda is not installed" in line for line in skips), skips


def kit(folder: Path, level: str, **settings: str) -> Counter[str]:
    """How many tests of some levels of the conformance kit passed or failed."""
    file = folder / "counts.json"
    done = run(["tinygraft", "conformance", "--device", "CUDA", "--level", level, "--json", str(file)], **settings)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    (found,) = json.loads(file.read_text())["devices"]
    return sum((Counter(level) for level in found["levels"].values()), Counter())


def test_quick_levels_of_the_kit(tmp_path: Path) -> None:
    """The declaration, the source, memory, groups of threads, graphs, queues and events: none failed."""
    counts = kit(tmp_path, "spec,render,memory,optional", CUDA_BINDING="cffi")
    assert counts["passed"] > 160
    assert set(counts) <= {"passed", "n/a"}


@pytest.mark.slow
@pytest.mark.long
def test_digits_are_learnt(tmp_path: Path) -> None:
    """The script of the README on the emulated card: at least 0.98 of the images that were not seen."""
    script, settings = cuda_emulator.ROOT / "examples" / "train_digits.py", {"DEV": "CUDA", "CUDA_BINDING": "cffi"}
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(tmp_path)], env=cuda_emulator.environment(**settings),
        capture_output=True, text=True, timeout=cuda_emulator.PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    found = re.findall(r"accuracy[^0-9]*([0-9.]+)", done.stdout + done.stderr)
    assert float(found[-1].rstrip(".")) >= 0.98, done.stdout


@pytest.mark.slow
def test_training_on_two_cards_is_that_on_one() -> None:
    """The weights of steps whose batches are cut over two ordinals."""
    done = run(
        ["pytest", "-q", "-n0", "-p", "no:cacheprovider", "-k", "CUDA", "tests/training/test_training_shard.py"],
        CUDA_BINDING="cffi",
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert re.search(r"\d+ passed", done.stdout), done.stdout


@pytest.mark.long
def test_all_of_it_by_pycuda(tmp_path: Path) -> None:
    """pycuda is built as its users build it, and the kit and the files of cards/ pass by it, none skipped."""
    assert build_pycuda.main(["--wheel", str(tmp_path)]) == 0
    wheel, folder = next(tmp_path.glob("pycuda-*.whl")), tmp_path / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--target", str(folder), "--no-deps", str(wheel)]
    subprocess.run([*install, "mako", "markupsafe", "platformdirs", "pytools", "siphash24"], check=True)
    stubs = cuda_emulator.stubs_for(next(folder.glob("pycuda/_driver*.so")))
    environment = cuda_emulator.environment(stubs, CUDA_BINDING="pycuda")
    environment["PYTHONPATH"] += os.pathsep + str(folder)
    files = [str(cuda_emulator.ROOT / file) for file in FILES]
    for command in (["pytest", "-q", "-n0", *files], ["tinygraft", "conformance", "--device", "CUDA"]):
        done = subprocess.run(
            [sys.executable, "-m", *command], env=environment, capture_output=True, text=True, timeout=900, check=False,
            cwd=cuda_emulator.ROOT if command[0] == "pytest" else tmp_path,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-3000:]
        assert "SKIPPED" not in done.stdout or command[0] != "pytest", done.stdout[-2000:]


@pytest.mark.long
@pytest.mark.slow
def test_the_script_for_a_card_works(tmp_path: Path) -> None:
    """It runs its parts in processes of their own, and leaves out what is not there with the reason."""
    script = Path(__file__).parent / "on_a_card.py"
    environment = cuda_emulator.environment(SPEED_SMALL="1")
    done = subprocess.run(
        [sys.executable, str(script), "--out", str(tmp_path), "--only", "open,checks,compute-sanitizer,speed"],
        env=environment, capture_output=True, text=True, timeout=cuda_emulator.PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    found = json.loads((tmp_path / "card.json").read_text())
    assert [part["verdict"].partition(" (")[0] for part in found["parts"].values()] == ["passed"] * 2 + [
        "left out",
        "passed",
    ]
    assert "Emulated GPU 0" in found["parts"]["open"]["said"]
    assert "GFLOP/s" in found["parts"]["speed"]["said"]
    last = done.stdout.splitlines()[-1]
    assert last == "PASSED: open, checks, speed; left out: compute-sanitizer (compute-sanitizer is not installed)"
