"""The commands of the checkout: make, .ci/run, and what a test does where something is missing."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="no make here")


def pytest_in(folder: Path, *, need: str, **environment: str) -> str:
    """What pytest prints for a test that needs something, with our conftest and this environment."""
    name = f"test_that_needs_{need}.py"
    (folder / name).write_text(f"import pytest\n@pytest.mark.needs({need!r})\ndef test_it(): pass\n")
    return pytest_with(folder, "-ra", name, **environment)


def pytest_with(folder: Path, *arguments: str, **environment: str) -> str:
    """What pytest prints in a folder, with our conftest and nothing else of ours."""
    command = [sys.executable, "-m", "pytest", "-p", "conftest", "-p", "no:cacheprovider", "-c", os.devnull, *arguments]
    kept = {k: v for k, v in os.environ.items() if k not in ("TINYGRAFT_REQUIRE", "TINYGRAFT_CACHE")}
    kept["PYTHONPATH"] = str(ROOT)
    return subprocess.run(command, cwd=folder, env=kept | environment, capture_output=True, text=True).stdout


def test_a_missing_compiler_is_one_line(tmp_path):
    """A test that needs a C compiler is skipped where there is none, with the reason in the summary."""
    said = pytest_in(tmp_path, need="cc", CC="no-such-compiler")
    assert "no C compiler (not on PATH: no-such-compiler)" in said
    assert "1 skipped" in said


def test_required_things_may_not_be_missing(tmp_path):
    """TINYGRAFT_REQUIRE=cc,ext turns the skip into a failure that says both why and who wanted it."""
    said = pytest_in(tmp_path, need="cc", CC="no-such-compiler", TINYGRAFT_REQUIRE="cc,ext")
    assert "no C compiler (not on PATH: no-such-compiler), and TINYGRAFT_REQUIRE=cc,ext" in said
    assert "1 error in " in said


def test_a_missing_index_is_one_line(tmp_path):
    """A test that needs a package index is skipped where pip reaches none, with what pip said."""
    said = pytest_in(tmp_path, need="index", PIP_NO_INDEX="1", PIP_FIND_LINKS=str(tmp_path))
    assert "no package index (pip cannot download pluggy: ERROR: No matching distribution found for pluggy)" in said
    assert "1 skipped" in said


def test_an_unknown_need_is_a_mistake(tmp_path):
    """A test that needs what conftest.py does not know cannot pass by being skipped."""
    assert "a test needs 'warp'; conftest.py knows cc, ext, opencl, mpi and index" in pytest_in(tmp_path, need="warp")


SKIPS = {
    "call": "def test_it(): pytest.skip()",
    "empty": "def test_it(): pytest.skip('')",
    "mark": "@pytest.mark.skip\ndef test_it(): pass",
    "fixture": "@pytest.fixture\ndef given(): pytest.skip()\ndef test_it(given): pass",
    "file": "pytest.skip(allow_module_level=True)",
}


@pytest.mark.parametrize("way", SKIPS)
def test_a_skip_without_a_reason_fails(tmp_path, way):
    """Wherever it is; the message says which one."""
    (tmp_path / "test_skips.py").write_text(f"import pytest\n{SKIPS[way]}\n")
    said = pytest_with(tmp_path, "-ra", "test_skips.py")
    assert re.search(r"test_skips.py:\d+: a test is skipped without a reason; give it one", said), said
    assert re.search(r"^=+ 1 (failed|error) in ", said, re.M), said


REASONS = """
import pytest
@pytest.fixture
def given(): pytest.skip("so")
def test_call(): pytest.skip("so")
@pytest.mark.skip(reason="so")
def test_mark(): pass
def test_fixture(given): pass
"""


def test_a_skip_with_a_reason_does_not_fail(tmp_path):
    """By a call, a mark, a fixture or an import that fails."""
    (tmp_path / "test_skips.py").write_text(REASONS)
    (tmp_path / "test_import.py").write_text("import pytest\npytest.importorskip('no_such_module')")
    said = pytest_with(tmp_path, "-ra", "test_skips.py", "test_import.py")
    assert re.search(r"^=+ 4 skipped in ", said, re.M), said
    assert "could not import 'no_such_module'" in said


CACHES = """
import os, pathlib, time

def test_it(worker_id):
    folders = os.environ["TINYGRAFT_CACHE"], os.environ["POCL_CACHE_DIR"]
    there = pathlib.Path(__file__).with_name(f"{worker_id}.part")
    there.write_text("\\n".join(folders))
    there.rename(there.with_suffix(".cache"))
    until = time.monotonic() + 60
    while len(list(there.parent.glob("*.cache"))) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert os.path.isdir(folders[0])
"""


def test_workers_have_caches_of_their_own(tmp_path):
    """Two processes of pytest-xdist that run at once share no folder of a cache, and leave none."""
    (tmp_path / "test_caches.py").write_text(CACHES)
    said = pytest_with(tmp_path, "-n", "2", "--dist", "each", "test_caches.py")
    assert "2 passed" in said, said
    first, second = (set((tmp_path / f"gw{n}.cache").read_text().splitlines()) for n in range(2))
    assert len(first | second) == 4
    assert not [folder for folder in first | second if Path(folder).exists()]


@needs_make
def test_make_help_lists_the_targets():
    """`make help` has a line for each of the documented targets."""
    said = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"help", "train", "test", "check"} <= {line.split()[0] for line in said.splitlines()}
    assert all(len(line.split()) > 2 for line in said.splitlines())


@needs_make
def test_make_refuses_an_old_python(tmp_path):
    """With a Python before 3.11 make stops before it makes anything, and says which Python it found."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    old = tmp_path / "old-python"
    old.write_text(
        f'#!/bin/sh\nexec {sys.executable} -c \'import sys; sys.version_info = (3, 10); sys.version = "3.10.1 x"; '
        'exec(sys.argv[2])\' "$@"\n'
    )
    old.chmod(0o755)
    done = subprocess.run(["make", "train", f"PYTHON={old}", "METADATA="], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode != 0
    assert f"tinygraft needs Python 3.11 or newer, {old} is 3.10.1; set PYTHON=/path/to/python3.11" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_ci_runs_what_the_readme_shows():
    """.ci/run is executable bash that runs all checks and tests but the long ones, and lets nothing be missing."""
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    text = script.read_text()
    assert "TINYGRAFT_REQUIRE=cc,ext,opencl,mpi,index" in text
    assert re.findall(r"^make ([\w-]+)", text, re.MULTILINE) == ["check", "test", "test-slow"]
    assert "make test" in (ROOT / "README.md").read_text()


def test_ci_runs_every_lane():
    """.ci/lane is executable bash; the workflow has a job for each of its lanes, and each lane's tests exist."""
    script = ROOT / ".ci" / "lane"
    assert os.access(script, os.X_OK)
    subprocess.run(["bash", "-n", script], check=True)
    (workflow,) = re.findall(r"lane: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    done = subprocess.run([script, "none"], capture_output=True, text=True)
    assert done.returncode == 2
    lanes = re.split(r", | or ", done.stderr.strip().removeprefix("which lane? "))
    assert sorted(lanes) == sorted(workflow.split(", "))
    assert {f"test_lane_{lane}.py" for lane in lanes} >= {f.name for f in Path(__file__).parent.glob("test_lane_*.py")}
