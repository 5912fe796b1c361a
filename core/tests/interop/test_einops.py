"""einops: its own test-suite passes with the backend, and its layers are layers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn

ROOT = Path(__file__).parents[3]
einops = pytest.importorskip("einops", reason="the backend is one of einops")


@pytest.mark.slow
def test_its_own_test_suite_passes(tmp_path: Path) -> None:
    """All of what it has for imperative frameworks and their layers; it skips what is of other libraries alone."""
    environment = {
        **os.environ, "EINOPS_TEST_BACKENDS": "numpy",
        "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support"), *sys.path]),
    }  # fmt: skip
    command = [sys.executable, "-m", "pytest", "-q", "-rs", "-p", "einops_plugin", "-p", "no:cacheprovider", "-c"]
    tests = Path(einops.__file__).parent / "tests"
    run = subprocess.run(
        [*command, os.devnull, "--rootdir", str(tmp_path), f"--confcutdir={tests}", str(tests)],
        env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]
    counts = {word: int(number) for number, word in re.findall(r"(\d+) (passed|skipped|failed)", run.stdout)}
    assert counts["passed"] >= 55 and counts["skipped"] <= 11, run.stdout[-3000:]
    assert not re.search(r"SKIPPED.*tinygraft", run.stdout)
    (used,) = re.findall(r"the backend of tinygraft: (\d+) calls", run.stdout)
    assert int(used) > 500


def test_functions_and_gradients() -> None:
    """rearrange, reduce, repeat, pack and einsum, lazily, with a gradient through them."""
    import tinygraft.interop.einops

    assert tinygraft.interop.einops
    data = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x = Tensor(data, requires_grad=True)
    y = einops.rearrange(x, "a b (c d) -> (a c) b d", c=2)
    assert isinstance(y, Tensor) and (y.numpy() == einops.rearrange(data, "a b (c d) -> (a c) b d", c=2)).all()
    assert (einops.repeat(x, "a b c -> a (b 2) c").numpy() == data.repeat(2, 1)).all()
    assert (einops.einsum(x, x, "a b c, a b d -> a c d").numpy() == np.einsum("abc,abd->acd", data, data)).all()
    packed, shapes = einops.pack([x, x[:, 0]], "a * c")
    assert packed.shape == (2, 4, 4) and [one.shape for one in einops.unpack(packed, shapes, "a * c")][1] == (2, 4)
    einops.reduce(y, "a b c -> a b", "mean").sum().backward()
    assert x.grad is not None and (x.grad == 0.5).all().item()


def test_layers_train() -> None:
    """Rearrange, Reduce and EinMix in a Sequential, found by nn.state, under TinyJit."""
    from tinygraft.interop.einops import EinMix, Rearrange, Reduce

    Tensor.manual_seed(0)
    model = nn.Sequential(
        Rearrange("n (h w) -> n h w", h=8),
        EinMix("n h w -> n w o", "h o", "o", h=8, o=5),
        Reduce("n w o -> n o", "max"),
    )
    assert set(nn.state.get_state_dict(model)) == {"1.weight", "1.bias"}
    assert repr(model[0]).startswith("Rearrange('n (h w) -> n h w'")
    optimizer = nn.optim.SGD(nn.state.get_parameters(model), lr=0.1)
    x = Tensor.rand(4, 64).realize()

    @TinyJit
    @Tensor.train()
    def step() -> Tensor:
        optimizer.zero_grad()
        loss = (model(x) - 1).square().mean().backward()
        optimizer.step()
        return loss.realize()

    losses = [step().item() for _ in range(5)]
    assert losses == sorted(losses, reverse=True)
