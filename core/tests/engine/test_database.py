"""The database of actions that were found: shared by processes, sound whatever lies on the disk."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tinygraft.config import Context
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.engine import database
from tinygraft.engine.database import SearchResult
from tinygraft.errors import SettingWarning
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

FOUND = SearchResult("kernel", "target", "compiler", "E_5", "vectorise(0, 8), parallel", 2e-3, 1e-3)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """An empty cache folder for this process."""
    with Context(TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1):
        yield tmp_path


def test_what_is_added_is_read(folder: Path) -> None:
    """The last line of a key holds."""
    assert database.read() == {}
    for found in (FOUND, replace(FOUND, kernel="other"), replace(FOUND, actions="")):
        database.add(found, database.own_file())
    assert database.read() == {
        FOUND.key: replace(FOUND, actions=""),
        ("other", "target", "compiler"): replace(FOUND, kernel="other"),
    }


@pytest.mark.parametrize("lies", ["nothing", "garbage", "a folder"])
def test_a_further_file_without_results_is_warned_of(folder: Path, tmp_path: Path, lies: str) -> None:
    """A typo in its name, a file of something else: it did nothing without a word."""
    file = tmp_path / f"{lies}.jsonl"
    if lies == "garbage":
        file.write_text("{}\nno JSON\n")
    if lies == "a folder":
        file.mkdir()
    said = f"BEAM_DATABASE={file} has no result that can be read; it does nothing"
    with Context(BEAM_DATABASE=str(file)), pytest.warns(SettingWarning, match=f"^{re.escape(said)}$"):
        assert database.read() == {}


def test_a_further_file_is_read_and_ones_own_comes_first(folder: Path, tmp_path: Path) -> None:
    """BEAM_DATABASE names a file that came with a program."""
    shipped = tmp_path / "shipped.jsonl"
    database.add(replace(FOUND, actions="parallel"), shipped)
    database.add(replace(FOUND, kernel="theirs"), shipped)
    with Context(BEAM_DATABASE=str(shipped)):
        state = database.state()
        assert database.read()[FOUND.key].actions == "parallel"
        database.add(FOUND, database.own_file())
        assert database.state() != state
        assert database.read()[FOUND.key].actions == FOUND.actions
        assert len(database.read()) == 2
    assert len(database.read()) == 1
    assert len(shipped.read_text().split()) == 2 * len(shipped.read_text().split("\n\n")), "nothing was added to it"


@pytest.mark.parametrize(
    "damage",
    [
        b"no json at all", b"[1, 2]", b'{"kernel": "k"}', b"\xff\xfe\0", b'{"kernel":', b"null",
        b'{"kernel":1,"target":"t","compiler":"c","name":"n","actions":"","before":1,"after":1}',
        b'{"kernel":"k","target":"t","compiler":"c","name":"n","actions":"(","before":1,"after":1}',
        b'{"kernel":"k","target":"t","compiler":"c","name":"n","actions":"","before":"x","after":1}',
        b'{"kernel":"k","target":"t","compiler":"c","name":"n","actions":"","before":0,"after":0}',
    ],
)  # fmt: skip
def test_lines_that_are_no_entries_are_passed_over(folder: Path, damage: bytes) -> None:
    """Also one that a killed process has left without its end."""
    file = database.own_file()
    assert file is not None
    database.add(FOUND, file)
    with open(file, "ab") as out:
        out.write(damage)
    database.add(replace(FOUND, kernel="other"), file)
    assert len(database.read()) == 2


def test_a_disk_that_fails_is_as_good_as_none(tmp_path: Path) -> None:
    """A folder where the file should be, no folder, nothing kept at all."""
    database.add(FOUND, tmp_path)
    assert database.read_file(tmp_path) == {}
    database.add(FOUND, Path("/proc/nowhere/tuned.jsonl"))
    with Context(CACHELEVEL=0):
        assert database.own_file() is None
        database.add(FOUND, database.own_file())
        assert database.read() == {}


ADD = """
import sys
from pathlib import Path
from tinygraft.engine.database import SearchResult, add
for i in range(100):
    add(SearchResult(f"{sys.argv[2]} {i}", "t" * 500, "c", "n", "parallel", 2.0, 1.0), Path(sys.argv[1]))
"""


def test_processes_share_a_file(tmp_path: Path) -> None:
    """No line of four processes is lost."""
    file = tmp_path / "tuned.jsonl"
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(file), str(n)]) for n in range(4)]
    assert [p.wait(timeout=60) for p in running] == [0] * 4
    assert len(database.read_file(file)) == 400


def test_a_key_has_all_that_the_best_actions_depend_on() -> None:
    """Kernel, Target, compiler; equal ones give equal keys."""

    def key(step: float = 1.0, size: int = 16, compiler: str | None = None) -> database.DatabaseKey:
        i = UOp.range(5, 0)
        value = load(param(1, dtypes.float32, 5), i) + step
        backend = PythonBackend("PYTHON", 0, Target(vector_bytes=size))
        backend.compiler.key = compiler
        return database.key_of(Kernel(UOp(Ops.SINK, src=(store(param(0, dtypes.float32, 5), i, value),))), backend)

    assert key() == key()
    assert len({key(), key(step=2.0), key(size=32), key(compiler="c")}) == 4
