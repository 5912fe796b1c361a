"""A small policy network, as an actor calls it: one observation after the other, eager; and its training step."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks import data
from benchmarks.case import Builder, Case, training
from benchmarks.with_torch.weights import load


class Policy(nn.Module):
    """Observations (N, 4) -> scores of two actions (N, 2)."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
        )  # fmt: skip
        load(self, data.policy())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The scores."""
        return self.layers(x)  # type: ignore[no-any-return]


def policy() -> Case:
    """The probabilities of the actions for an observation that comes from NumPy."""
    net, observation = Policy(), data.normal("observation", 4)
    act = torch.inference_mode()(lambda: net(torch.from_numpy(observation)).softmax(-1).numpy())
    return Case(act, lambda result: result)


def policy_train(batch: int) -> Case:
    """A step of policy gradient with Adam, on observations, actions and returns."""
    net = Policy()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    seen, returns = (torch.from_numpy(data.normal(name, batch, *shape)) for name, shape in (("seen", (4,)), ("g", ())))
    actions = torch.from_numpy(data.integers("actions", 2, batch)).long()

    def step() -> float:
        optimizer.zero_grad()
        likely = net(seen).log_softmax(-1).gather(1, actions[:, None])[:, 0]
        loss = -(likely * returns).mean()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        return loss.item()

    return training(step)


ITEMS: dict[str, Builder] = {"policy": policy, "policy_train": policy_train}
