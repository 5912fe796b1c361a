"""A small policy network, as an actor calls it: one observation after the other, eager; and its training step."""

from __future__ import annotations

from typing import Any

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.lazy.library import Context, Tensor, load, nn


class Policy:
    """Observations (N, 4) -> scores of two actions (N, 2)."""

    def __init__(self) -> None:
        self.layers: list[Any] = [nn.Linear(4, 64), Tensor.tanh, nn.Linear(64, 64), Tensor.tanh, nn.Linear(64, 2)]
        load(self, data.policy())

    def __call__(self, x: Tensor) -> Tensor:
        """The scores."""
        return x.sequential(self.layers)


def policy() -> Case:
    """The probabilities of the actions for an observation that comes from NumPy."""
    net, observation = Policy(), data.normal("observation", 4)
    return Case(lambda: net(Tensor(observation)).softmax(-1).numpy(), lambda result: result)


def policy_train(batch: int) -> Case:
    """A step of policy gradient with Adam, on observations, actions and returns, without a capture."""
    net = Policy()
    optimizer = nn.optim.Adam(nn.state.get_parameters(net), lr=0.001)
    seen, returns = (Tensor(data.normal(name, batch, *shape)).realize() for name, shape in (("seen", (4,)), ("g", ())))
    actions = Tensor(data.integers("actions", 2, batch)).realize()

    def step() -> float:
        with Context(TRAINING=1):
            optimizer.zero_grad()
            likely = net(seen).log_softmax(-1).gather(1, actions.reshape(-1, 1)).reshape(-1)
            loss = -(likely * returns).mean()
            loss.backward()
            optimizer.step()
            return float(loss.item())

    return training(step)


ITEMS: dict[str, Builder] = {"policy": policy, "policy_train": policy_train}
