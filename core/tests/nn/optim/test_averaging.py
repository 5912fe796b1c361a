"""Means of weights are PyTorch's AveragedModel, eager and captured; statistics of batch norms are measured anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn
from tinygraft.errors import TrainingError

torch = pytest.importorskip("torch")

WEIGHTS = [np.random.RandomState(n).standard_normal((2, 3)).astype(np.float32) for n in range(6)]


def theirs(kind: str) -> list[Any]:
    """The means of PyTorch after each of six updates."""
    swa = torch.optim.swa_utils
    model = torch.nn.Linear(3, 2, bias=False)
    average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9) if kind == "EMA" else None)
    found = []
    for value in WEIGHTS:
        model.weight.data.copy_(torch.tensor(value))
        average.update_parameters(model)
        found.append(average.module.weight.detach().numpy().copy())
    return found


@pytest.mark.parametrize("jit", [False, True], ids=["eager", "replayed"])
@pytest.mark.parametrize("kind", ["EMA", "SWA"])
def test_means_are_pytorchs(kind: str, jit: bool) -> None:
    """The first update makes them the weights."""
    p = Tensor(np.zeros((2, 3), np.float32))
    average: Any = nn.optim.EMA([p], 0.9) if kind == "EMA" else nn.optim.SWA([p])
    update: Any = TinyJit(average.update) if jit else average.update
    for value, wanted in zip(WEIGHTS, theirs(kind), strict=True):
        p.assign(Tensor(value)).realize()
        update()
        np.testing.assert_allclose(average.averages[0].numpy(), wanted, rtol=1e-5, atol=1e-6)
    average.copy_to()
    np.testing.assert_allclose(p.numpy(), wanted, rtol=1e-5, atol=1e-6)
    assert not jit or update.captured == 1


def test_what_is_averaged() -> None:
    """Weights of floats, each once; half weights in memory of their dtype."""
    half, count = Tensor([1.0]).half(), Tensor([3])
    still = Tensor([2.0], requires_grad=False)
    ema = nn.optim.EMA([half, half, count, still], decay=0.5)
    assert [(id(t), average.dtype) for t, average in zip(ema.params, ema.averages, strict=True)] == [
        (id(half), dtypes.float16)
    ]
    with pytest.raises(TrainingError, match="SWA got 1 tensor and none of weights to average"):
        nn.optim.SWA([still])
    with pytest.raises(ValueError, match="EMA needs a decay from 0 to 1, got 1.5"):
        nn.optim.EMA([half], decay=1.5)


def test_weights_are_back_after_a_block_that_fails() -> None:
    """And the means are in between."""
    p = Tensor([1.0])
    swa = nn.optim.SWA([p])
    for value in (2.0, 6.0):
        p.assign(Tensor([value])).realize()
        swa.update()
    inside = []

    def fails() -> None:
        with swa.swapped():
            inside.append(p.item())
            raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert inside == [4.0]
    assert p.item() == 6.0


def test_batchnorms_are_measured_as_pytorch_does() -> None:
    """Over three batches; momentum and weights stay."""
    torch.manual_seed(0)  # a mean of 3e-5 of numbers about 1 is no more exact than they are
    batches = [np.random.RandomState(n).standard_normal((4, 3)).astype(np.float32) * (n + 1) for n in range(3)]
    model, other = (
        nn.Sequential(nn.Linear(3, 2), nn.BatchNorm(2)),
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)),
    )
    nn.state.load_state_dict(model, {n: Tensor(t.numpy()) for n, t in other.state_dict().items()})
    nn.optim.update_batchnorm(model, [Tensor(b) for b in batches])
    torch.optim.swa_utils.update_bn([torch.tensor(b) for b in batches], other)
    for name, t in other.state_dict().items():
        np.testing.assert_allclose(nn.state.get_state_dict(model)[name].numpy(), t.numpy(), rtol=1e-4, err_msg=name)
    assert model[1].momentum == 0.1
    with pytest.raises(TrainingError, match="update_batchnorm got no batches, and measured nothing"):
        nn.optim.update_batchnorm(model, [])
    nn.optim.update_batchnorm(nn.Linear(1, 1), [])  # there is nothing to measure


def test_an_update_runs_its_python_twice_and_a_class_of_another_package_each_time() -> None:
    """Weights that have moved elsewhere in between, and a decay that is set later, are those that count."""

    class Counting(nn.optim.EMA):
        """A mean that may do anything."""

        runs = 0

        def schedule_update(self) -> list[Tensor]:
            """Count the updates."""
            type(self).runs += 1
            return super().schedule_update()

    p, q = Tensor([1.0, 2.0]), Tensor([1.0, 2.0])
    ema, other = nn.optim.EMA([p], decay=0.5), Counting([q], decay=0.5)
    for step in range(6):
        for weight, average in ((p, ema), (q, other)):
            if step == 3:
                weight.replace(Tensor([7.0, -1.0]).realize())
            if step == 4:
                average.decay = 0.25
            weight.assign(weight + step)
            average.update()
    assert Counting.runs == 6
    np.testing.assert_array_equal(ema.averages[0].numpy(), other.averages[0].numpy())
    assert ema.count.tolist() == [6.0]
