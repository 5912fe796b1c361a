"""examples/train_digits.py learns: the accuracy on images not seen, and what it leaves behind."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tinygraft import nn

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("train_digits", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_three_seeds_learn(example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The mean accuracy of seeds 0, 1 and 2 is at least 0.98, none is below 0.97; the last line says it."""
    accuracies = []
    for seed in range(3):
        accuracies.append(example.main(["--seed", str(seed), "--out", str(tmp_path)]))
        assert capsys.readouterr().out.splitlines()[-1] == f"test accuracy {accuracies[-1]:.3f}"
    assert min(accuracies) >= 0.97, accuracies
    assert sum(accuracies) / 3 >= 0.98, accuracies


@pytest.mark.slow
def test_what_it_leaves_behind(example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One epoch: the weights load into a new model that answers the same, and the picture is a PNG."""
    accuracy = example.main(["--epochs", "1", "--out", str(tmp_path)])
    printed = capsys.readouterr().out
    model, data = example.Model(), example.digits()
    nn.state.load_state_dict(model, nn.state.safe_load(tmp_path / "digits.safetensors"))
    assert (example.predict(model, data[2]) == data[3].numpy()).mean() == accuracy
    assert (tmp_path / "train_digits.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((tmp_path / "train_digits.json").read_text())["numbers"]["test accuracy"] == accuracy
    assert f"{tmp_path / 'train_digits'}.png" in printed
