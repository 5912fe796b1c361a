"""What type checkers see of the core: how many of the public types are known, and what a program's lines have."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.slow
PROGRAM = Path(__file__).with_name("types_seen.py")
KNOWN = 0.98  # given: the part of the public types that are known
SYMBOLS = 9_900  # measured 2026-11-24: public names of core; hiding some would raise the part that is known


def pyright(*arguments: object) -> dict[str, Any]:
    """What pyright reports, with this Python's packages. Its wheel brings Node with it."""
    pytest.importorskip("basedpyright", reason="basedpyright is not installed: it is in the group test")
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", *arguments]
    found = os.environ | {
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path))
    }  # an editable install is not in its folder
    report: dict[str, Any] = json.loads(
        subprocess.run(list(map(str, command)), capture_output=True, text=True, env=found).stdout
    )
    return report


def test_nearly_all_public_types_are_known() -> None:
    """98 of 100 public names have a type that any checker finds, not one that it has to guess."""
    found = pyright("--verifytypes", "tinygraft", "--ignoreexternal")["typeCompleteness"]
    counts = found["exportedSymbolCounts"]
    assert sum(counts.values()) >= SYMBOLS
    unknown = [s["name"] for s in found["symbols"] if s["isExported"] and not s["isTypeKnown"]]
    assert found["completenessScore"] >= KNOWN, unknown


def test_a_program_has_the_types_it_says(tmp_path: Path) -> None:
    """pyright agrees with every assert_type of the program, and not with one that is wrong."""
    assert [each["message"] for each in pyright("--level", "error", PROGRAM)["generalDiagnostics"]] == []
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "from typing import assert_type\nfrom tinygraft import Tensor\nassert_type(Tensor([1]).sum(), int)\n"
    )
    (said,) = pyright("--level", "error", wrong)["generalDiagnostics"]
    assert 'expected "int" but received "Tensor"' in said["message"]


def test_a_checker_tells_a_wrong_name(tmp_path: Path) -> None:
    """A name that tinygraft does not have is a mistake, though the module makes its names when they are asked for."""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from tinygraft import Tensoor\n")
    (said,) = pyright("--level", "error", wrong)["generalDiagnostics"]
    assert '"Tensoor" is unknown import symbol' in said["message"]
