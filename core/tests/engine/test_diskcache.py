"""The disk cache of compiled kernels: it saves work where it can and never stops a program."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tinygraft.config import Context
from tinygraft.engine import diskcache

SCRIPT = """
from tinygraft import GlobalCounters, Tensor
assert (Tensor([1.0, 2.0, 3.0]) * 3 + 1).tolist() == [4.0, 7.0, 10.0]
print(GlobalCounters.kernels_compiled)
"""


def run(folder: object, **settings: str) -> int:
    """How many kernels a new process compiles that computes something on the CPU with its caches in folder."""
    environment = os.environ | {"TINYGRAFT_CACHE": str(folder), "DEV": "CPU", "CACHELEVEL": "1"} | settings
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.splitlines()[-1])


@pytest.fixture
def folder(tmp_path: Path):
    """An empty cache folder for this process."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1):
        yield tmp_path


def test_an_entry_comes_back(folder):
    """What was put is got, and names differ with any part."""
    name = diskcache.digest("compiler", "text")
    assert diskcache.get(name) is None
    diskcache.put(name, b"code")
    assert diskcache.get(name) == b"code"
    assert len({name, diskcache.digest("compilert", "ext"), diskcache.digest("compiler", "Text")}) == 3
    diskcache.clear()
    assert diskcache.get(name) is None


@pytest.mark.parametrize("damage", [b"", b"garbage", b"tgkern2\n" + bytes(32) + b"code"])
def test_a_damaged_entry_counts_as_absent(folder, damage):
    """Garbage, a cut file or a wrong digest: compiled anew, and the entry is mended."""
    name = diskcache.digest("x")
    diskcache.put(name, b"code")
    path = folder / "kernels" / name[:2] / name[2:]
    path.write_bytes(damage)
    assert diskcache.get(name) is None
    diskcache.put(name, b"code")
    assert diskcache.get(name) == b"code"


def test_the_oldest_entries_go_when_there_are_too_many(folder, monkeypatch):
    """The folder stays below its limit."""
    for i in range(4):
        name = diskcache.digest(str(i))
        diskcache.put(name, bytes(1000))
        os.utime(folder / "kernels" / name[:2] / name[2:], (i, i))
    monkeypatch.setattr(diskcache, "LIMIT", 2500)
    diskcache._prune(folder / "kernels")
    assert [diskcache.get(diskcache.digest(str(i))) is None for i in range(4)] == [True, True, False, False]


def test_the_first_write_looks_at_its_part_of_the_entries(folder, monkeypatch):
    """A process of one kernel does not read a folder of 60,000; where its part says that there is much, all are."""
    looked = []
    real = diskcache._entries
    monkeypatch.setattr(diskcache, "_entries", lambda *where: looked.append(where[1:]) or real(*where))
    for size, wanted in ((100, 1), (1_100_000, 2)):  # of one of 256 parts of 512 MiB
        monkeypatch.setattr(diskcache, "_written", {})
        looked.clear()
        name = diskcache.digest(str(size))
        diskcache.put(name, bytes(size))
        assert looked == [(name[:2],), ()][:wanted]
        assert diskcache.get(name) == bytes(size)


def test_a_second_process_compiles_nothing(tmp_path):
    """Kernels of one process serve the next; CACHELEVEL=0 keeps and reads nothing."""
    assert run(tmp_path) == 1
    assert run(tmp_path) == 0
    assert run(tmp_path, CACHELEVEL="0") == 1


def test_damaged_files_do_not_stop_a_program(tmp_path):
    """Every entry overwritten with garbage: the program runs and compiles."""
    run(tmp_path)
    for path in (tmp_path / "kernels").glob("*/*"):
        path.write_bytes(b"\0" * 100)
    assert run(tmp_path) == 1
    assert run(tmp_path) == 0


def test_a_folder_that_cannot_be_written_does_not_stop_a_program(tmp_path):
    """A file where the folder should be, a folder below a file, no home."""
    (tmp_path / "file").write_text("not a folder")
    assert run(tmp_path / "file") == 1
    assert run(tmp_path / "file" / "below") == 1
    kernels = tmp_path / "caches"
    kernels.mkdir()
    (kernels / "kernels").write_text("not a folder either")
    assert run(kernels) == 1


@pytest.mark.slow
def test_eight_processes_share_a_folder(tmp_path):
    """All start on an empty cache at once and all succeed; afterwards it serves."""
    environment = os.environ | {"TINYGRAFT_CACHE": str(tmp_path), "DEV": "CPU", "CACHELEVEL": "1"}
    started = [subprocess.Popen([sys.executable, "-c", SCRIPT], env=environment) for _ in range(8)]
    assert [process.wait(timeout=120) for process in started] == [0] * 8
    assert run(tmp_path) == 0
