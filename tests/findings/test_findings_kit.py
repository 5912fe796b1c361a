"""Finding 3.9: the conformance kit finds parts that a launcher ignores, names an op before what uses it, and asks a
compiler for its words.

The kit is tried by devices with one fault each (tests/support/mutants.py has them), as a plugin's author would try it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from installed import installed
from tinygraft.conformance import DeviceConformance
from tinygraft.conformance.shared import expected_chunked

PARTS, WORDS = "test_parts or test_each_part_once", "test_what_is_no_program_is_refused"
ASKED = {  # of each device, the tests, as pytest's -k names them
    "IGNORESPARTS": PARTS, "WHOLEPARTS": PARTS, "SWALLOWS": WORDS, "MUTE": WORDS,
    "APPROXIMATES": "(EXP2 and float32) or (test_sum and softmax)",
}  # fmt: skip
CODE = "from tinygraft.conformance import DeviceConformance\n" + "".join(
    f"class Test{name}(DeviceConformance):\n    device = {name!r}\n" for name in ASKED
)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the kit prints of all of them."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "test_all.py").write_text(CODE)
    only = " or ".join(f"(Test{name} and ({tests}))" for name, tests in ASKED.items())
    with installed(folder, "faulty", **{name: f"mutants:{name}" for name in ASKED}):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "tinygraft.conformance.plugin", "-p", "no:cacheprovider", "-v",
             "-c", os.devnull, "--rootdir=.", "--noconftest", "--tb=short", "-k", only, "test_all.py"],
            cwd=folder, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
            capture_output=True, text=True, timeout=300, check=False,
        )  # fmt: skip
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


def results(said: str, device: str) -> dict[str, str]:
    """How the tests of a device ended, in the order in which they ran."""
    return dict(re.findall(rf"^test_all\.py::Test{device}::(\S+) (PASSED|FAILED)", said, re.MULTILINE))


@pytest.mark.slow
def test_3_9_parts_that_a_launcher_ignores_are_found(said: str) -> None:
    """A Target with chunks whose launches run as one part passed; its values are right, only no threads share them."""
    found = results(said, "IGNORESPARTS")
    assert [name for name in found if found[name] == "FAILED"] == ["test_parts[2]", "test_parts[67]"]
    assert found["test_parts[1]"] == found["test_each_part_once"] == "PASSED"
    assert (
        "the Target says chunks=4, and the whole loop was run as one chunk: launch a kernel whose signature is chunked "
        "once for each chunk, with (part, parts) after the variables, or leave chunks at 1"
    ) in said


def test_3_9_a_part_that_runs_the_whole_is_found(said: str) -> None:
    """What it writes elsewhere is right, and what it changes in place each part has changed."""
    assert results(said, "WHOLEPARTS")["test_each_part_once"] == "FAILED"
    assert re.search(r"\d+ of 37 values differ, at \d+ ", said)


def test_3_9_what_parts_count() -> None:
    """Each of a number of parts by itself, where there are more of them than elements, too."""
    assert expected_chunked(1, 5) == [1, 2, 3, 4, 5]
    assert expected_chunked(2, 5) == [1, 2, 1, 2, 3]
    assert expected_chunked(7, 3) == [1, 1, 1]


def test_3_9_a_wrong_op_is_named_before_the_softmax_that_uses_it(said: str) -> None:
    """So it is what a run that stops at the first failure shows, and the first that is read in another."""
    ran = list(found := results(said, "APPROXIMATES"))
    assert next(name for name in ran if found[name] == "FAILED") == "test_elementwise[EXP2-float32]"
    assert ran.index("test_elementwise[EXP2-float32]") < ran.index("test_accuracy[EXP2-float32]")
    assert ran.index("test_accuracy[EXP2-float32]") < ran.index("test_sum[softmax]")
    order = [base.__name__ for base in reversed(DeviceConformance.__mro__)]
    assert order.index("Suite") < order.index("Values") < order.index("Kernels") < order.index("Tensors")


def test_3_9_a_compilers_words_come_through(said: str) -> None:
    """A compiler that swallows what it was told is found, and not the loader of an empty file."""
    assert results(said, "SWALLOWS") == results(said, "MUTE") == {"test_what_is_no_program_is_refused": "FAILED"}
    assert (
        "of text that is no program compile() returned a binary of 0 bytes, and load() raised OSError: kernel.so: file "
        "too short"
    ) in said
    assert "A compiler that refuses its source raises CompileError with what it says" in said
    assert "two texts that are no programs, for other reasons, have one message:" in said
