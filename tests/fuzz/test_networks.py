"""Random networks with fixed seeds equal PyTorch's, and the comparison finds a layer that is wrong."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import networks
from networks import LAYERS, draw
from run_networks import difference, fuzz_networks, mode_of
from tinygraft import dtypes

COUNT = 24  # networks of the slow test; make fuzz runs more


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, COUNT, 8))
def test_random_networks_give_what_pytorch_gives(first: int) -> None:
    """Loss and all gradients, in float32 and float64, on one thread and two, replayed and not."""
    number, failures = fuzz_networks(first, count=8)
    assert (number, failures) == (8, [])


def test_a_network_gives_what_pytorch_gives() -> None:
    """One of tokens, and one of floats."""
    seeds = {draw(seed).x.dtype: seed for seed in range(40)}
    assert len(seeds) == 2
    for seed in seeds.values():
        assert difference(draw(seed), mode_of(seed)) == ""


def test_every_layer_is_drawn() -> None:
    """Among some hundred networks each layer of the table occurs; shared weights do, and all ways to run them."""

    def kinds(layers: tuple[networks.Layer, ...]) -> set[str]:
        return {layer.kind for layer in layers}.union(*(kinds(inner) for layer in layers for inner in layer.inner))

    drawn = [draw(seed) for seed in range(300)]
    assert set().union(*(kinds(network.layers) for network in drawn)) == set(LAYERS)
    named = [[n for layer in network.layers for n in layer.weights] for network in drawn]
    assert any(len(numbers) > len(set(numbers)) for numbers in named)
    assert len({mode_of(seed) for seed in range(8)}) == 8
    assert {mode_of(seed).dtype for seed in range(2)} == {dtypes.float32, dtypes.float64}


def test_a_seed_is_one_network() -> None:
    """Drawn twice it is the same, to the weights."""
    one, two = draw(5), draw(5)
    assert str(one) == str(two)
    assert all((a == b).all() for a, b in zip(one.weights, two.weights, strict=True))


@pytest.mark.parametrize("kind", ["linear", "batch_norm"])
def test_a_wrong_layer_is_found(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that is off by a thousandth of its values, in float64 and in float32, and one that raises."""
    seed = next(s for s in range(99) if any(layer.kind == kind for layer in draw(s).layers) and not mode_of(s).jit)
    right = LAYERS[kind]
    monkeypatch.setitem(LAYERS, kind, (right[0], lambda *args: right[1](*args) * 1.01))
    assert "is off by" in difference(draw(seed), mode_of(seed))
    monkeypatch.setitem(LAYERS, kind, (right[0], lambda *args: right[1](*args).reshape(-7)))
    assert "Error: " in difference(draw(seed), mode_of(seed))
