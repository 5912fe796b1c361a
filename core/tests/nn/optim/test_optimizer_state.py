"""The state of optimizers: saved, loaded into captured steps, and exchanged with PyTorch."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.errors import FileFormatError

torch = pytest.importorskip("torch")

START = np.random.RandomState(0).standard_normal((3, 2)).astype(np.float32)
OPTIONS: dict[str, dict[str, Any]] = {
    "SGD": {"momentum": 0.9}, "Adam": {}, "AdamW": {}, "RMSprop": {"momentum": 0.5, "centered": True},
    "Adagrad": {}, "Adadelta": {}, "Lion": {}, "LAMB": {}, "LARS": {}, "Muon": {},
}  # fmt: skip
BOTH = [name for name in OPTIONS if hasattr(torch.optim, name) and name != "Muon"]


class Trained:
    """One parameter and its optimizer, whose step is replayed."""

    def __init__(self, name: str, lr: float = 0.1) -> None:
        self.p = Tensor(START)
        self.optimizer: nn.optim.Optimizer = getattr(nn.optim, name)([self.p], lr=lr, **OPTIONS[name])
        self.step = TinyJit(self._step)

    @Tensor.train()
    def _step(self) -> None:
        self.optimizer.zero_grad()
        (self.p * self.p * self.p).sum().backward()
        self.optimizer.step()

    def steps(self, count: int) -> Any:
        """The parameter after some more steps."""
        for _ in range(count):
            self.step()
        return self.p.numpy()


@pytest.mark.parametrize("name", OPTIONS)
def test_a_state_goes_on(name: str) -> None:
    """Loaded into another optimizer, whose step was captured, it goes on bit by bit."""
    first, second = Trained(name), Trained(name, lr=0.5)
    first.steps(4)
    second.steps(4)
    saved = first.optimizer.state_dict()
    second.optimizer.load_state_dict(saved)
    second.p.assign(Tensor(first.p.numpy())).realize()
    np.testing.assert_array_equal(first.steps(3), second.steps(3))
    assert second.step.captured == 1


def pytorch(name: str) -> tuple[Any, Any]:
    """PyTorch's optimizer after four steps, and its parameter."""
    p = torch.tensor(START, requires_grad=True)
    optimizer = getattr(torch.optim, name)([p], lr=0.1, **OPTIONS[name])
    for _ in range(4):
        its_step(p, optimizer)
    return p, optimizer


def its_step(p: Any, optimizer: Any) -> None:
    """One step of PyTorch."""
    optimizer.zero_grad()
    (p * p * p).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("name", BOTH)
def test_a_state_of_pytorch(name: str) -> None:
    """A file that PyTorch saved: state and options go on here."""
    p, optimizer = pytorch(name)
    file = io.BytesIO()
    torch.save({"p": p.detach(), "optimizer": optimizer.state_dict()}, file)
    saved = nn.state.torch_load(Tensor(list(file.getvalue()), dtype="uint8"))
    mine = Trained(name, lr=0.7)
    mine.optimizer.load_state_dict(saved["optimizer"])
    mine.p.assign(saved["p"].to(mine.p.device)).realize()
    for _ in range(3):
        its_step(p, optimizer)
    np.testing.assert_allclose(mine.steps(3), p.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_pytorch_goes_on_from_a_state(name: str) -> None:
    """Its optimizer takes the state as arrays made tensors, steps with it, and reaches what is reached here."""
    mine = Trained(name)
    mine.steps(4)
    saved = mine.optimizer.state_dict()
    p, optimizer = pytorch(name)
    own = optimizer.state_dict()["param_groups"]
    state = {
        key: {what: torch.tensor(value.numpy()) for what, value in of.items()} for key, of in saved["state"].items()
    }
    for of in state.values():
        of.update({"step": of["step"].reshape(())} if "step" in of else {})
    optimizer.load_state_dict({"state": state, "param_groups": own})
    p.data = torch.tensor(mine.p.numpy())
    for _ in range(3):
        its_step(p, optimizer)
    np.testing.assert_allclose(mine.steps(3), p.detach().numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", BOTH)
def test_names_are_pytorchs(name: str) -> None:
    """PyTorch has the same names of state; the options are among its own."""
    _, optimizer = pytorch(name)
    mine = Trained(name)
    mine.steps(1)
    ours, theirs = mine.optimizer.state_dict(), optimizer.state_dict()
    assert set(ours["state"][0]) == set(theirs["state"][0])
    assert set(ours["param_groups"][0]) - {"b1", "b2", "classic", "initial_accumulator_value"} <= set(
        theirs["param_groups"][0]
    )


def test_lr_is_as_it_was_given() -> None:
    """0.1 is 0.1, though the tensor is float32; one that was assigned is what the tensor has."""
    sgd = nn.optim.SGD([Tensor([1.0])], lr=0.1)
    (group,) = sgd.state_dict()["param_groups"]
    assert sgd.state_dict()["state"] == {}
    assert group == {
        "momentum": 0.0, "weight_decay": 0.0, "dampening": 0.0, "nesterov": False, "classic": False, "maximize": False,
        "lr": 0.1, "params": [0],
    }  # fmt: skip
    sgd.lr.assign(Tensor([0.5]))
    assert sgd.state_dict()["param_groups"][0]["lr"] == 0.5


def test_a_group_of_optimizers_has_the_states_of_all() -> None:
    """In their order; another number of them is refused."""
    groups = [nn.optim.OptimizerGroup(Trained("Adam").optimizer, Trained("SGD", lr).optimizer) for lr in (0.25, 0.5)]
    groups[1].load_state_dict(groups[0].state_dict())
    assert groups[1].optimizers[1].lr.item() == 0.25
    with pytest.raises(FileFormatError, match="the group has 2 optimizers, the state has 0"):
        groups[0].load_state_dict({})


def test_refusals() -> None:
    """What does not fit is named, and nothing is loaded."""
    adam, saved = Trained("Adam").optimizer, Trained("Adam").optimizer.state_dict()
    group, state = saved["param_groups"][0], saved["state"][0]
    wrong = [
        ({"param_groups": []}, r"the optimizer has groups of \[1\] parameters, the state has \[\]"),
        ({"param_groups": [{**group, "amsgrad": True}]}, "the state has amsgrad=True, and this optimizer"),
        ({"state": {0: {"step": state["step"]}}}, r"parameter 0 has the state \['exp_avg', 'exp_avg_sq', 'step'\]"),
        ({"state": {0: {**state, "exp_avg": Tensor([1.0])}}}, r"exp_avg of parameter 0 has shape \(3, 2\) here and"),
    ]  # fmt: skip
    for change, message in wrong:
        with pytest.raises(FileFormatError, match=message):
            adam.load_state_dict({**saved, **change, "lr": 3.0})
    assert adam.lr.item() == np.float32(0.1)
    nesterov = nn.optim.SGD([Tensor([1.0])], momentum=0.5, nesterov=True)
    plain = nn.optim.SGD([Tensor([1.0])], momentum=0.5)
    with pytest.raises(FileFormatError, match="the state has nesterov=False, and this optimizer nesterov=True"):
        nesterov.load_state_dict(plain.state_dict())


def test_decay_of_another_kind_is_refused() -> None:
    """Adam adds it to the gradient and AdamW shrinks the weights; without one both have the same step."""
    kinds = {"Adam": "is added to the gradient", "AdamW": "shrinks the weights"}
    for name, other in (("Adam", "AdamW"), ("AdamW", "Adam")):
        kind = getattr(nn.optim, name)
        state = kind([Tensor([1.0])], weight_decay=0.5).state_dict()
        found = getattr(nn.optim, other)([Tensor([1.0])], weight_decay=0.25)
        with pytest.raises(FileFormatError) as caught:
            found.load_state_dict(state)
        assert str(caught.value) == (
            f"the state has a weight_decay=0.5 that {kinds[name]}, and that of {other} {kinds[other]}\n"
            f"  hint: {name} goes on with it as it was"
        )
        assert found.weight_decay == 0.25
        found.load_state_dict(kind([Tensor([1.0])], weight_decay=0.0, lr=0.5).state_dict())
        assert found.lr.item() == 0.5
        kind([Tensor([1.0])]).load_state_dict(state)


def test_one_count_of_steps() -> None:
    """Parameters that PyTorch has stepped differently often have no count here."""
    params = [torch.ones(1, requires_grad=True) for _ in range(2)]
    adam = torch.optim.Adam(params)
    for used in ([0, 1], [0]):
        adam.zero_grad()
        sum(params[n].sum() for n in used).backward()
        adam.step()
    mine = nn.optim.Adam([Tensor([1.0]), Tensor([1.0])])
    saved = adam.state_dict()
    for state in saved["state"].values():
        state.update({name: value.item() if name == "step" else value.numpy() for name, value in state.items()})
    with pytest.raises(FileFormatError, match=r"one step count holds for all parameters here, the .* \[1.0, 2.0\]"):
        mine.load_state_dict(saved)


def test_what_schedulers_of_pytorch_keep_in_groups_is_left_there() -> None:
    """The state of an AdamW beside a OneCycleLR has options of that scheduler; the optimizer needs none of them."""
    torch = pytest.importorskip("torch", reason="a second opinion; not in the test group")
    layer = torch.nn.Linear(2, 1)
    theirs = torch.optim.AdamW(layer.parameters(), lr=0.1)
    torch.optim.lr_scheduler.OneCycleLR(theirs, max_lr=0.2, total_steps=5)
    layer(torch.ones(3, 2)).sum().backward()
    theirs.step()
    ours = nn.optim.AdamW([Tensor(layer.weight.detach().numpy()), Tensor(layer.bias.detach().numpy())], lr=0.5)
    ours.load_state_dict(theirs.state_dict())
    assert ours.lr.item() == pytest.approx(theirs.param_groups[0]["lr"])
