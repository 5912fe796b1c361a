"""nn.state: tensors are found by name, and loaded all or not at all."""

# ruff: noqa: E501 - a table of cases has one line for each

from __future__ import annotations

from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest

from tinygraft import Tensor, TinyJit, nn
from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict, safe_load, safe_save

Pair = namedtuple("Pair", "left right")


class Inner:
    """An object with a tensor."""

    def __init__(self, value: float) -> None:
        self.weight = Tensor([float(value)])
        self.name = "not a tensor"


class Outer:
    """An object with every kind of container, and itself."""

    def __init__(self) -> None:
        self.first = Inner(1)
        self.layers = [Inner(2), (Inner(3), {"deep": Inner(4)})]
        self.ordered = OrderedDict(a=Inner(5))
        self.pair = Pair(Tensor([6.0]), Inner(7))
        self.tied = self.first.weight
        self.parent = self
        self.act = Tensor.relu
        self.missing = None


def test_names_are_the_way_to_a_tensor() -> None:
    """Attributes, lists, tuples, dicts, OrderedDicts and namedtuples, in order; a cycle ends."""
    found = get_state_dict(Outer())
    assert {name: tensor.item() for name, tensor in found.items()} == {
        "first.weight": 1, "layers.0.weight": 2, "layers.1.0.weight": 3, "layers.1.1.deep.weight": 4,
        "ordered.a.weight": 5, "pair.left": 6, "pair.right.weight": 7, "tied": 1,
    }  # fmt: skip
    assert list(get_state_dict(Inner(1), "model")) == ["model.weight"]
    assert list(get_state_dict(Inner(1), "model.")) == ["model.weight"]


def test_names_are_pytorchs() -> None:
    """The tensors of a layer have the names that files from PyTorch use."""
    norm = {"weight", "bias", "running_mean", "running_var", "num_batches_tracked"}
    assert get_state_dict(nn.BatchNorm(2)).keys() == norm
    assert get_state_dict(nn.Conv2d(1, 1, 1)).keys() == get_state_dict(nn.Linear(1, 1)).keys() == {"weight", "bias"}
    assert get_state_dict(nn.LSTMCell(1, 1)).keys() == {"weight_ih", "weight_hh", "bias_ih", "bias_hh"}


def test_parameters_are_each_once() -> None:
    """A tied tensor is one parameter."""
    model = Outer()
    assert len(get_parameters(model)) == 7
    assert sum(tensor is model.tied for tensor in get_parameters(model)) == 1


def test_save_and_load(tmp_path: Path) -> None:
    """A second model has the first one's values after a trip through a file, in its own memory and dtype."""
    a, b = nn.Linear(3, 2), nn.Linear(3, 2)
    safe_save(get_state_dict(a), tmp_path / "a.safetensors")
    weight = b.weight
    load_state_dict(b, safe_load(tmp_path / "a.safetensors"))
    assert b.weight is weight
    assert b.weight.tolist() == a.weight.tolist()
    assert b.bias is not None
    assert a.bias is not None
    assert b.bias.tolist() == a.bias.tolist()


def test_what_is_loaded_is_a_copy() -> None:
    """Two models loaded from one state share nothing, with each other or with it."""
    state = {"weight": Tensor([2.0])}
    first, second = Inner(1), Inner(1)
    for model in (first, second):
        load_state_dict(model, state)
    first.weight.assign(Tensor([3.0])).realize()
    assert (first.weight.item(), second.weight.item(), state["weight"].item()) == (3, 2, 2)
    lazy = nn.Linear(1, 1, bias=False)  # its weight is not computed yet
    load_state_dict(lazy, {"weight": state["weight"].reshape(1, 1)})
    lazy.weight.assign(Tensor([[4.0]])).realize()
    assert (lazy.weight.item(), state["weight"].item()) == (4, 2)


def test_load_converts_the_dtype() -> None:
    """The model's dtype stays."""
    model = Inner(1)
    loaded = load_state_dict(model, {"weight": Tensor([2.5]).half()})
    assert loaded == [model.weight]
    assert (model.weight.dtype, model.weight.tolist()) == (dtypes.float32, [2.5])


def test_a_captured_jit_sees_what_was_loaded() -> None:
    """Loading writes into the memory that a replay reads."""
    model = Inner(1)
    double = TinyJit(lambda x: (x * model.weight).realize())
    assert [double(Tensor([3.0])).item() for _ in range(4)] == [3.0] * 4
    load_state_dict(model, {"weight": Tensor([2.0])})
    assert double(Tensor([3.0])).item() == 6.0


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "missing": ({"a.weight": [1.0]}, "the names differ: the model also has 'b.weight'; strict=False loads what both have"),
    "unused": ({"a.weight": [1.0], "b.weight": [1.0], "c": [1.0]}, "the names differ: the state also has 'c'; strict=False loads what both have"),
    "shape": ({"a.weight": [9.0], "b.weight": [[1.0]]}, "'b.weight' has shape (1,) in the model and (1, 1) in the state"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_loads_nothing(case: str) -> None:
    """Names and shapes are checked before anything is assigned."""
    model = {"a": Inner(1), "b": Inner(2)}
    state, message = BAD[case]
    with pytest.raises(FileFormatError) as caught:
        load_state_dict(model, {name: Tensor(value) for name, value in state.items()})
    assert str(caught.value) == message
    assert [tensor.item() for tensor in get_parameters(model)] == [1, 2]


def test_not_strict_loads_what_both_have(capsys: pytest.CaptureFixture[str]) -> None:
    """The rest is left alone and named; verbose=False is silent."""
    model = {"a": Inner(1), "b": Inner(2)}
    loaded = load_state_dict(model, {"a.weight": Tensor([9.0]), "c": Tensor([8.0])}, strict=False)
    assert len(loaded) == 1
    assert [tensor.item() for tensor in get_parameters(model)] == [9, 2]
    assert capsys.readouterr().err == "load_state_dict: not in the state: 'b.weight'; not in the model: 'c'\n"
    load_state_dict(model, {}, strict=False, verbose=False)
    assert capsys.readouterr().err == ""


def test_long_lists_of_names_are_cut() -> None:
    """An error names five keys and counts the rest."""
    with pytest.raises(FileFormatError, match=r"the state also has 'k0', 'k1', 'k2', 'k3', 'k4' and 2 more"):
        load_state_dict({}, {f"k{i}": Tensor([1.0]) for i in range(7)})
