"""Sequential, plain lists and dicts of layers: called, named as PyTorch names them, trained, and printed as a tree."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import objects_in

torch = pytest.importorskip("torch")


class Net:
    """A model with a list, a dict and a function in it."""

    def __init__(self) -> None:
        self.layers = [nn.Linear(3, 4), Tensor.relu, nn.Linear(4, 2)]
        self.heads = {"a": nn.Linear(2, 1), "b": nn.Sequential(nn.Linear(2, 2), nn.BatchNorm(2))}
        self.tied = self.layers[0]
        self.sizes = (1, 2)

    def __call__(self, x: Tensor) -> Tensor:
        """The sum of both heads."""
        x = x.sequential(self.layers)
        return self.heads["a"](x) + self.heads["b"](x)  # type: ignore[operator]


def test_names_are_pytorchs() -> None:
    """A state_dict of nn.Sequential is loaded by its names, also of one in one."""
    theirs = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(4, 2)))
    ours = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 2)))
    nn.state.load_state_dict(ours, {n: Tensor(t.numpy()) for n, t in theirs.state_dict().items()}, verbose=False)
    x = np.random.RandomState(0).standard_normal((5, 3)).astype(np.float32)
    np.testing.assert_allclose(ours(Tensor(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-6)


def test_it_is_a_list() -> None:
    """Layers are read, put in and cut out; a part is a Sequential."""
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    model.append(nn.Linear(4, 2))
    assert (len(model), type(model[1]), type(model[:2])) == (3, nn.ReLU, nn.Sequential)
    model[1] = Tensor.tanh
    assert model(Tensor.ones(1, 3)).shape == (1, 2)
    with pytest.raises(
        TypeError, match=r"Sequential takes layers that can be called, got list\n  hint: Sequential\(\*"
    ):
        nn.Sequential([nn.ReLU()])  # type: ignore[arg-type]


def test_parameters_in_lists_and_dicts_are_found_and_trained() -> None:
    """Each once, in a captured step."""
    net = Net()
    names = set(nn.state.get_state_dict(net))
    assert {"layers.0.weight", "heads.a.bias", "heads.b.1.running_mean", "tied.weight"} <= names
    sgd = nn.optim.SGD(nn.state.get_parameters(net), lr=0.05)
    assert len(sgd.params) == 10

    @TinyJit
    @Tensor.train()
    def step(x: Tensor) -> Tensor:
        sgd.zero_grad()
        loss = (net(x) - 1).square().mean().backward()
        return loss.realize(*sgd.schedule_step())

    x = np.random.RandomState(0).standard_normal((8, 3)).astype(np.float32)
    losses = [step(Tensor(x)).item() for _ in range(12)]
    assert losses[-1] < 0.9 * losses[0]
    assert step.captured == 1


def test_a_summary_counts_each_parameter_once() -> None:
    """Layers by name with the shapes of their tensors; a tied one counts where it is and once in all."""
    lines = nn.summary(Net()).split("\n")
    assert lines[0].split() == ["Net", "39"]
    assert [line.split()[:2] for line in lines[1:-1]] == [
        ["layers:", "list"], ["0:", "Linear"], ["2:", "Linear"], ["heads:", "dict"], ["a:", "Linear"],
        ["b:", "Sequential"], ["0:", "Linear"], ["1:", "BatchNorm"], ["tied:", "Linear"],
    ]  # fmt: skip
    assert "weight (4, 3), bias (4,)" in lines[2]
    assert lines[-1] == "39 parameters, 156 bytes; 3 other tensors of 5 numbers"


def test_objects_are_those_with_something_in_them() -> None:
    """An object that contains itself is entered once on each way; sizes and functions are left out."""
    net = Net()
    net.tied = net  # type: ignore[assignment]
    names = [name for name, _ in objects_in(net)]
    assert names == ["", "layers", "layers.0", "layers.2", "heads", "heads.a", "heads.b", "heads.b.0", "heads.b.1"]
