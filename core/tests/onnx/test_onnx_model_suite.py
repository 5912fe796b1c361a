"""onnx.backend.test on tinygraft: all of it in chunks, and a sample that is fast."""

from __future__ import annotations

import tomllib
from pathlib import Path

import onnx
import pytest

import onnx_backend
from tinygraft import Tensor

EXCLUDED = {
    f"{name}_cpu": group["reason"]
    for group in tomllib.loads((Path(__file__).parent / "backend_exclusions.toml").read_text())["group"]
    for name in group["tests"]
}
CHUNKS = 8
EVERY = 41  # a sample of the suite, which has all its kinds of tests


def failures(names: list[str]) -> dict[str, str]:
    """What goes otherwise than it should: a test that fails, or one that is excluded and passes."""
    wrong = {}
    for name in names:
        Tensor.manual_seed(0)
        try:
            onnx_backend.run_case(name)
        except Exception as error:
            if name not in EXCLUDED:
                wrong[name] = f"{type(error).__name__}: {error}"
        else:
            if name in EXCLUDED:
                wrong[name] = f"passes, and is excluded: {EXCLUDED[name]}"
    return wrong


def test_the_suite_is_the_one_that_was_counted() -> None:
    """2,024 tests, of which 60 are excluded, each of them there."""
    assert onnx.__version__ == "1.23.2", "count again: pyproject.toml pins the version"
    names = onnx_backend.cases()
    assert len(names) == 2024
    assert [name for name in EXCLUDED if name not in names] == []
    assert len(names) - len(EXCLUDED) == 1964


def test_a_sample_passes() -> None:
    """One test of 41."""
    assert failures(list(onnx_backend.cases())[::EVERY]) == {}


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [pytest.param(n, marks=pytest.mark.long if n % 2 else []) for n in range(CHUNKS)])
def test_a_chunk_passes(chunk: int) -> None:
    """All tests but the excluded ones, which fail; half of them in make long."""
    assert failures(list(onnx_backend.cases())[chunk::CHUNKS]) == {}
