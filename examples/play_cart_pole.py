"""Learn to balance a pole on a cart by actor-critic, on gymnasium's CartPole-v1, and evaluate the greedy policy.

    pip install gymnasium
    python examples/play_cart_pole.py     three seeds, less than a minute

An actor scores the two pushes, a critic expects the return; both are one small network. Several carts run at once, so
that one call of the policy serves all of them, and every update has the same shapes: both are captured by a TinyJit.
An update is that of PPO (Schulman et al., arXiv:1707.06347) with GAE (arXiv:1506.02438), the same batch ten times. It
prints the mean return of 100 episodes of at most 500 steps, and leaves play_cart_pole.png and .json in --out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import gymnasium
import matplotlib
import numpy as np
from gymnasium.vector import VectorEnv
from results import write_results
from tqdm import trange

from tinygraft import Tensor, TinyJit, nn
from tinygraft.nn.state import get_parameters

matplotlib.use("Agg")  # draw to files; needs no screen
from matplotlib import pyplot

CARTS, STEPS = 16, 32  # how many carts run at once, and for how many steps before they are learned from
EPOCHS, CLIP = 10, 0.2  # how often they are learned from, and how far a probability may move by it
DISCOUNT, TRACE = 0.99, 0.95  # of rewards to come, and of errors to come in an advantage
SOLVED = 195.0  # the mean return from which CartPole-v0, whose episodes have at most 200 steps, is called solved


class ActorCritic:
    """Observations (N, 4) -> scores of the two pushes (N, 2), and the return that is expected (N,)."""

    def __init__(self, width: int = 64) -> None:
        self.body = nn.Sequential(nn.Linear(4, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh())
        self.actor, self.critic = nn.Linear(width, 2), nn.Linear(width, 1)

    def __call__(self, observations: Tensor) -> tuple[Tensor, Tensor]:
        """Both for each observation."""
        x = self.body(observations)
        return self.actor(x), self.critic(x).squeeze(-1)


class Agent:
    """A network, its optimizer, and the captured functions that use them."""

    def __init__(self, updates: int) -> None:
        self.network = ActorCritic()
        self.optimizer = nn.optim.Adam(get_parameters(self.network), lr=2e-3)
        self.schedule = nn.optim.lr_scheduler.LinearLR(self.optimizer, 1.0, 0.01, total_iters=updates)

    @TinyJit
    def act(self, observations: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Draw a push for each observation: which one, the log of its probability, the return expected, (N,) each."""
        scores, values = self.network(observations)
        noise = -(-Tensor.rand(*scores.shape).log()).log()  # the Gumbel trick: the greatest sum is a fair draw
        drawn = (scores + noise).argmax(1)
        return drawn, scores.log_softmax(1).gather(1, drawn.unsqueeze(1)).squeeze(1), values

    @TinyJit
    def best(self, observations: Tensor) -> Tensor:
        """The likelier push for each observation, (N,) int32."""
        return self.network(observations)[0].argmax(1)

    @TinyJit
    @Tensor.train()
    def update(
        self, observations: Tensor, actions: Tensor, chances: Tensor, advantages: Tensor, returns: Tensor, lived: Tensor
    ) -> Tensor:
        """One step of gradient descent on what all carts saw and did; the loss. lived is 0 where a cart was reset."""
        self.optimizer.zero_grad()
        scores, values = self.network(observations)
        ratio = (scores.log_softmax(1).gather(1, actions.unsqueeze(1)).squeeze(1) - chances).exp()
        gain = (ratio * advantages).minimum(ratio.clip(1 - CLIP, 1 + CLIP) * advantages)
        losses = 0.5 * (returns - values).square() - gain
        loss = ((losses * lived).sum() / lived.sum()).backward()
        nn.optim.clip_grad_norm(self.optimizer.params, 0.5)
        return loss.realize(*self.optimizer.schedule_step())


@dataclass
class Rollout:
    """What STEPS steps of all carts gave, each (STEPS, CARTS, ...), and what the critic expected at the end."""

    observations: np.ndarray
    actions: np.ndarray
    chances: np.ndarray  # logs of the probabilities of the actions
    rewards: np.ndarray
    values: np.ndarray  # (STEPS + 1, CARTS)
    fallen: np.ndarray  # the episode ended, and nothing is to come
    ended: np.ndarray  # the episode ended, also by its time limit
    lived: np.ndarray  # no step that only resets

    def advantages(self) -> np.ndarray:
        """How much better each push was than expected, (STEPS, CARTS), in means of rewards: a return is at most 1."""
        errors = (1 - DISCOUNT) * self.rewards + DISCOUNT * self.values[1:] * ~self.fallen - self.values[:-1]
        found, later = np.zeros_like(self.rewards), np.zeros(errors.shape[1], np.float32)
        for step in reversed(range(len(errors))):
            later = errors[step] + DISCOUNT * TRACE * later * ~self.ended[step]
            found[step] = later
        return found


@dataclass
class Carts:
    """The carts, where they are, and the returns of the episodes that have ended."""

    env: VectorEnv
    observations: np.ndarray
    done: np.ndarray
    running: np.ndarray
    returns: list[float] = field(default_factory=list)

    @staticmethod
    def start(count: int, seed: int) -> Carts:
        """So many carts, at the beginning of an episode each."""
        env = gymnasium.make_vec("CartPole-v1", num_envs=count, vectorization_mode="vector_entry_point")
        return Carts(env, env.reset(seed=seed)[0], np.zeros(count, bool), np.zeros(count, np.float32))

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Push each: rewards, fallen, ended, lived. A cart whose episode has ended is reset by the step after it."""
        lived = ~self.done
        self.observations, rewards, fallen, late, _ = self.env.step(actions)
        self.done = fallen | late
        self.running = np.where(lived, self.running + rewards, 0)
        self.returns += self.running[self.done].tolist()
        return rewards, fallen, self.done, lived


def collect(agent: Agent, carts: Carts) -> Rollout:
    """Let the policy drive for STEPS steps."""
    observations, actions, chances, values, found = [], [], [], [], []
    for _ in range(STEPS):
        drawn, chance, expected = agent.act(Tensor(carts.observations))
        chances.append(chance.numpy())
        observations.append(carts.observations)
        actions.append(drawn.numpy())
        values.append(expected.numpy())
        found.append(carts.step(actions[-1]))
    values.append(agent.act(Tensor(carts.observations))[2].numpy())
    rewards, fallen, ended, lived = (np.stack(each) for each in zip(*found, strict=True))
    return Rollout(
        np.stack(observations), np.stack(actions), np.stack(chances), rewards, np.stack(values), fallen, ended, lived
    )


def as_batch(seen: Rollout) -> list[Tensor]:
    """What an update takes: all steps in a row, with advantages of mean 0 and deviation 1."""
    advantages, lived = seen.advantages(), seen.lived
    scaled = (advantages - advantages[lived].mean()) / (advantages[lived].std() + 1e-6)
    columns = (seen.actions, seen.chances, scaled, advantages + seen.values[:-1], lived.astype(np.float32))
    return [Tensor(seen.observations.reshape(-1, 4)), *(Tensor(column.ravel()) for column in columns)]


def train(seed: int, updates: int) -> tuple[Agent, list[float]]:
    """An agent that has learned, and the mean return of the last 50 episodes at each update."""
    Tensor.manual_seed(seed)
    agent, carts = Agent(updates), Carts.start(CARTS, seed)
    history = []
    with trange(updates, unit="update", desc=f"seed {seed}") as progress:
        for _ in progress:
            seen = collect(agent, carts)
            batch = as_batch(seen)
            for _ in range(EPOCHS):
                agent.update(*batch)
            agent.schedule.step()
            history.append(float(np.mean(carts.returns[-50:])) if carts.returns else float(STEPS))
            progress.set_postfix({"return": f"{history[-1]:.0f}"}, refresh=False)
    return agent, history


def evaluate(agent: Agent, seed: int, episodes: int = 100) -> np.ndarray:
    """The returns of so many episodes of the greedy policy, each on a cart of its own: at most 500 each."""
    carts = Carts.start(episodes, 1000 + seed)
    returns, going = np.zeros(episodes), np.ones(episodes, bool)
    while going.any():
        rewards, _, ended, _ = carts.step(agent.best(Tensor(carts.observations)).numpy())
        returns += rewards * going
        going &= ~ended
    return returns


def draw(histories: list[list[float]], returns: list[np.ndarray], seeds: Sequence[int]) -> pyplot.Figure:
    """How each seed learned, and what its greedy policy reached in each episode."""
    figure, (learning, reached) = pyplot.subplots(1, 2, figsize=(11, 4), layout="constrained")
    for seed, history, found in zip(seeds, histories, returns, strict=True):
        learning.plot(np.arange(len(history)) * CARTS * STEPS / 1000, history, label=f"seed {seed}")
        reached.plot(np.sort(found), label=f"seed {seed}: mean {found.mean():.0f}")
    for axes in (learning, reached):
        axes.axhline(SOLVED, color="gray", linestyle=":")
        axes.legend(loc="lower right")
    learning.set(xlabel="thousand steps of a cart", ylabel="mean return of the last 50 episodes")
    reached.set(xlabel="episode of the evaluation, in order", ylabel="return", ylim=(0, 510))
    return figure


def main(argv: Sequence[str] | None = None) -> float:
    """Train and evaluate each seed. Returns the least of their mean returns."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--updates", type=int, default=200, help=f"rounds of {CARTS} carts by {STEPS} steps")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--quick", action="store_true", help="a quarter of the updates: enough to see it learn")
    args = parser.parse_args(argv)
    updates = args.updates // 4 if args.quick else args.updates

    began, histories, returns = time.perf_counter(), [], []
    for seed in args.seeds:
        agent, history = train(seed, updates)
        histories.append(history)
        returns.append(evaluate(agent, seed))
        print(f"seed {seed}: mean return {returns[-1].mean():.1f} over {len(returns[-1])} episodes", flush=True)

    means = [float(found.mean()) for found in returns]
    figure = draw(histories, returns, args.seeds)
    numbers = {"mean_return": float(np.mean(means)), "least_mean_return": min(means), "updates": updates}
    write_results(args.out, "play_cart_pole", figure, numbers, seconds=time.perf_counter() - began, seeds=args.seeds)
    pyplot.close(figure)
    return min(means)


if __name__ == "__main__":
    main()
