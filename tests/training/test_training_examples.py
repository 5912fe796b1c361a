"""The scripts of examples/ that read and draw digits keep what they promise: one seed of each, with --quick."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn

FOLDER = Path(__file__).parents[2] / "examples"
CLASSIFIERS = {"mlp": 0.965, "cnn": 0.98, "resnet": 0.97, "vit": 0.93}  # of vit in half its epochs; 0.955 in all
GENERATORS = ("generate_vae", "generate_gan", "generate_diffusion")
Example = Callable[[str], ModuleType]


@pytest.fixture(scope="module")
def example() -> Iterator[Example]:
    """A script of the folder as a module. It finds its neighbours, as it does where Python runs it."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before:
        if (FOLDER / f"{name}.py").exists():
            del sys.modules[name]


@pytest.fixture(scope="module")
def judge(example: Example) -> Any:
    """One judge for all tests, since it trains a network."""
    return example("digits_judge").Judge()


def left_behind(folder: Path, name: str, numbers: dict[str, float]) -> dict[str, Tensor]:
    """Check the picture and the numbers, and return the weights."""
    assert (folder / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads((folder / f"{name}.json").read_text())["numbers"] == numbers
    return nn.state.safe_load(folder / f"{name}_0.safetensors")


@pytest.mark.slow
@pytest.mark.parametrize("model", CLASSIFIERS)
def test_digits_are_read(model: str, example: Example, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Half the epochs reach the accuracy, and weights that are loaded again have exactly that accuracy."""
    script = example("classify_digits")
    numbers = script.main(["--model", model, "--quick", "--seeds", "0", "--out", str(tmp_path)])
    assert numbers["mean test accuracy"] == numbers["worst test accuracy"] >= CLASSIFIERS[model]
    again, data = script.RECIPES[model].network(), script.digits()
    nn.state.load_state_dict(again, left_behind(tmp_path, f"classify_digits_{model}", numbers))
    assert (script.read(again, data[2]) == data[3].numpy()).mean() == numbers["mean test accuracy"]
    assert f"{model}, seed 0: test accuracy {numbers['mean test accuracy']:.4f}\n" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name != "generate_gan" else []) for name in GENERATORS]
)
def test_digits_are_drawn(
    name: str, example: Example, judge: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A quarter of the steps: 80 % are read as the digit asked for, 5 % as each digit, and no sample is a copy."""
    monkeypatch.setattr(example("digits_judge"), "Judge", lambda: judge)
    numbers = example(name).main(["--quick", "--seeds", "0", "--out", str(tmp_path)])
    assert numbers["judge"] >= 0.98
    assert numbers["recognised"] >= 0.8
    assert numbers["rarest digit"] >= 0.05
    assert numbers["copies of training images"] == 0 < numbers["nearest"]
    assert numbers["variety"] >= 0.2
    assert all(t.isfinite().all().item() for t in left_behind(tmp_path, name, numbers).values())


@pytest.mark.slow
def test_the_judge_refuses(judge: Any) -> None:
    """Copies are counted, noise is not recognised, and one picture of each digit has no variety."""
    images, labels = judge.data[0], judge.data[1].numpy()
    asked = np.arange(1000) % 10
    assert judge.verdict(images, labels)["copies of training images"] == len(images)
    assert judge.verdict(images, labels)["variety"] == pytest.approx(1)
    Tensor.manual_seed(0)
    assert judge.verdict(Tensor.rand(1000, 1, 8, 8), asked)["recognised"] < 0.2
    first = np.stack([images.numpy()[labels == digit][0] for digit in asked])
    verdict = judge.verdict(Tensor(first), asked)
    assert verdict["variety"] == 0 and verdict["rarest digit"] == 0.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["classify_digits", *GENERATORS])
def test_help_says_what_a_script_does(
    name: str, example: Example, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """--help has the first line of the script and its arguments."""
    monkeypatch.setenv("COLUMNS", "200")  # argparse breaks lines of a narrower terminal at hyphens
    script = example(name)
    with pytest.raises(SystemExit) as ended:
        script.main(["--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert ended.value.code == 0
    assert (script.__doc__ or "").splitlines()[0] in text
    assert all(option in text for option in ("--seeds", "--quick", "--out"))
