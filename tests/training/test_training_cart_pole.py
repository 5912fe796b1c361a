"""examples/play_cart_pole.py learns in a short run of one seed, and leaves its picture and numbers."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="the carts are gymnasium's")

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def example() -> Any:
    """The example as a module, with its folder on the path while it is imported, as when it is run."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(EXAMPLES))
        spec = importlib.util.spec_from_file_location("play_cart_pole", EXAMPLES / "play_cart_pole.py")
        assert spec is not None
        assert spec.loader is not None
        module: ModuleType = importlib.util.module_from_spec(spec)
        patch.setitem(sys.modules, "play_cart_pole", module)  # where dataclass looks for the class's module
        spec.loader.exec_module(module)
        yield module


def test_advantages_are_sums_of_errors(example: Any) -> None:
    """Two steps of two carts by hand: one falls at the first step, one goes on."""
    d, t = example.DISCOUNT, example.TRACE
    values = np.array([[0.5, 0.5], [0.25, 0.5], [1.0, 1.0]], np.float32)
    ended = np.array([[True, False], [False, False]])
    nothing = np.zeros((2, 2), np.float32)
    seen = example.Rollout(nothing, nothing, nothing, np.ones((2, 2), np.float32), values, ended, ended, ~ended)
    second = np.array([1 - d + d * 1.0 - 0.25, 1 - d + d * 1.0 - 0.5])
    first = np.array([1 - d - 0.5, 1 - d + d * 0.5 - 0.5 + d * t * second[1]])
    np.testing.assert_allclose(seen.advantages(), [first, second], rtol=1e-5)


@pytest.mark.slow
def test_a_quarter_of_the_updates_learns(example: Any, tmp_path: Path) -> None:
    """Fifty of the 200 updates: a return that no random policy has (22 is its mean); each function captured once."""
    least = example.main(["--quick", "--seeds", "0", "--out", str(tmp_path)])
    assert least >= 120, least
    numbers = json.loads((tmp_path / "play_cart_pole.json").read_text())
    assert numbers["numbers"]["least_mean_return"] == least
    assert numbers["numbers"]["updates"] == 50
    assert numbers["seeds"] == [0]
    assert (tmp_path / "play_cart_pole.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_policy_and_update_are_captured(example: Any) -> None:
    """One capture of each serves every call of an agent, and a seed gives the same pushes again."""
    example.Agent.act.reset()
    example.Agent.update.reset()
    agents, drawn = [], []
    for _ in range(2):
        example.Tensor.manual_seed(3)
        agents.append(example.Agent(5))
        seen = example.collect(agents[-1], example.Carts.start(example.CARTS, 3))
        drawn.append(seen.actions)
        for _ in range(4):
            agents[-1].update(*example.as_batch(seen))
    assert (example.Agent.act.captured, example.Agent.update.captured) == (2, 2)
    np.testing.assert_array_equal(drawn[0], drawn[1])
    assert set(np.unique(drawn[0])) == {0, 1}
