"""A GPT block forward and backward (gpt_block.py) is on every GPU plugin's device what it is on the CPU.

CUDA, AMD and METAL are emulated, in child processes. A plugin's lane is here as soon as package and emulator are.
"""

from __future__ import annotations

import importlib
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpt_block

EMULATORS = {"CUDA": "cuda_emulator", "AMD": "hip_emulator", "METAL": "metal_emulator"}
# measured, 2026-11-24: devices are within 8e-7 of the greatest element of a gradient, the CPU within 5e-6 of float64
NEAR = 2e-5
Arrays = dict[str, np.ndarray[Any, Any]]
pytestmark = pytest.mark.slow


def lanes() -> list[Any]:
    """The emulated devices whose plugin and emulator are here, and OPENCL."""
    here = [name for name, module in EMULATORS.items() if find_spec(module) and find_spec(f"tinygraft_{name.lower()}")]
    emulated = [pytest.param(device, marks=pytest.mark.needs("cc")) for device in here]
    # PoCL takes a minute for its kernels
    return [*emulated, pytest.param("OPENCL", marks=[pytest.mark.needs("opencl"), pytest.mark.long])]


@cache
def of_the_cpu() -> Arrays:
    """The loss and the gradients that all others are compared with."""
    return gpt_block.on_device("CPU")


def of(device: str, folder: Path) -> Arrays:
    """The same on a device: an emulated one in a process of its own."""
    if device not in EMULATORS:
        return gpt_block.on_device(device)
    file = folder / f"{device}.npz"
    code = f"import numpy, gpt_block; numpy.savez({str(file)!r}, **gpt_block.on_device({device!r}))"
    done = importlib.import_module(EMULATORS[device]).python(code, DEV=device)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(file) as found:
        return dict(found)


@pytest.mark.parametrize("device", lanes())
def test_a_gpt_block_is_that_of_the_cpu(device: str, tmp_path: Path) -> None:
    """The loss, and the gradient of every weight: embeddings, attention, norms, the MLP and the tied last layer."""
    want, got = of_the_cpu(), of(device, tmp_path)
    assert set(got) == set(want) == {"loss", *gpt_block.SHAPES}
    far = {name: float(np.abs(got[name] - value).max() / np.abs(value).max()) for name, value in want.items()}
    assert max(far.values()) < NEAR, far


def test_the_cpu_is_right() -> None:
    """Its loss is that of NumPy in float64, and its gradients are the differences of that along a random direction."""
    found, random, step = of_the_cpu(), np.random.default_rng(1), 1e-5
    whole = {name: value.astype(np.float64) for name, value in gpt_block.weights().items()}
    assert abs(found["loss"] - gpt_block.loss_of(whole)) < 1e-5
    for name, value in whole.items():
        along = random.standard_normal(value.shape)
        ends = [gpt_block.loss_of(whole | {name: value + sign * step * along}) for sign in (1, -1)]
        change = (ends[0] - ends[1]) / (2 * step)
        assert abs(change - (found[name] * along).sum()) < NEAR * np.abs(found[name]).max(), name


def test_a_lane_joins_with_its_emulator() -> None:
    """CUDA and AMD are here, OPENCL always; no device has a lane twice."""
    names = [lane.values[0] for lane in lanes()]
    assert {"CUDA", "AMD", "OPENCL"} <= set(names) <= {*EMULATORS, "OPENCL"}
    assert len(names) == len(set(names))
