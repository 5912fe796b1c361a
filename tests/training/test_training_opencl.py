"""Training on OpenCL: the digits and the convolutional network learn there as they do on the CPU."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from convnet import Convnet
from tinygraft import Context, Device, GlobalCounters, Tensor, nn

EXAMPLE = Path(__file__).parents[2] / "examples" / "train_digits.py"
pytestmark = [pytest.mark.needs("opencl"), pytest.mark.slow]


def losses(device: str, steps: int, batch: int = 16) -> tuple[list[float], list[int]]:
    """The losses of some steps on one batch, and how many kernels had been compiled after each."""
    random = np.random.RandomState(0)
    images = random.random_sample((batch, 1, 28, 28)).astype(np.float32)
    labels = random.randint(0, 10, batch).astype(np.int32)
    found, compiled = [], []
    with Context(DEV=device):
        Tensor.manual_seed(0)
        x, y = Tensor(images), Tensor(labels)
        model = Convnet()
        optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.01)
        assert x.device == device
        for _ in range(steps):
            with Tensor.train():
                optimizer.zero_grad()
                loss = model(x).sparse_categorical_crossentropy(y).backward()
                optimizer.step()
            found.append(float(loss.item()))
            compiled.append(GlobalCounters.kernels_compiled)
    return found, compiled


@pytest.mark.long
def test_the_steps_of_a_convnet_are_those_of_the_cpu() -> None:
    """Three steps lower the loss as on the CPU, and from the second on nothing is compiled."""
    (ours, compiled), (theirs, _) = losses("OPENCL", 3), losses("CPU", 3)
    np.testing.assert_allclose(ours, theirs, rtol=1e-3)
    assert ours[2] < ours[0]
    assert compiled[1] == compiled[2]


@pytest.mark.long
def test_digits_are_learnt_as_well_as_on_the_cpu(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The script of the README with DEV=OPENCL: the accuracy on images not seen is that of the CPU."""
    spec = importlib.util.spec_from_file_location("train_digits_on_opencl", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    accuracy = {}
    for device in ("OPENCL", "CPU"):
        with Context(DEV=device):
            accuracy[device] = example.main(["--out", str(tmp_path)])
        assert device in Device.opened()
        assert capsys.readouterr().out.splitlines()[-1] == f"test accuracy {accuracy[device]:.3f}"
    assert accuracy["OPENCL"] >= 0.97
    assert accuracy["OPENCL"] == pytest.approx(accuracy["CPU"], abs=0.005)
