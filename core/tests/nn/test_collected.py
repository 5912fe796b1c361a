"""What a state may be: tensors, PyTorch's among them, and arrays; what is said of one that does not fit."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

from tinygraft import Tensor, dtypes, nn
from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.nn.state import get_parameters, get_state_dict, load_state_dict, objects_in, safe_load


def model() -> dict[str, Tensor]:
    """Two tensors."""
    return {"w": Tensor.zeros(2, 3).contiguous().realize(), "b": Tensor.zeros(2).contiguous().realize()}


def test_arrays_are_a_state() -> None:
    """Of another dtype, too, and of a file of the package safetensors."""
    own, arrays = model(), {"w": np.arange(6.0).reshape(2, 3), "b": np.array([1, 2])}
    load_state_dict(own, arrays)
    assert own["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and own["b"].tolist() == [1, 2]
    arrays["w"][:] = 9
    assert own["w"].tolist() == [[0, 1, 2], [3, 4, 5]]
    load_state_dict(own, safe_load(safetensors.numpy.save({"w": np.ones((2, 3)), "b": np.ones(2)})))
    assert own["w"].tolist() == [[1, 1, 1], [1, 1, 1]]


def test_tensors_of_pytorch_are_a_state() -> None:
    """Parameters, in any layout and dtype; what is written to them later is not seen."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    own, layer = model(), torch.nn.Linear(3, 2)
    load_state_dict(own, {"w": layer.weight, "b": layer.bias})
    assert own["w"].tolist() == layer.weight.tolist() and own["b"].tolist() == layer.bias.tolist()
    kept = own["w"].tolist()
    with torch.no_grad():
        layer.weight.zero_()
    assert own["w"].tolist() == kept
    load_state_dict(own, {"w": torch.arange(6.0).reshape(3, 2).T, "b": torch.ones(2, dtype=torch.bfloat16)})
    assert own["w"].tolist() == [[0, 2, 4], [1, 3, 5]] and own["b"].tolist() == [1, 1]
    assert own["b"].dtype is dtypes.float32


@pytest.mark.parametrize(
    ("state", "why"),
    [
        ({"w": np.zeros((2, 3)), "c": np.zeros(1)}, r"the model also has 'b', the state also has 'c'; strict=False"),
        (
            {"w": np.zeros((3, 2)), "b": np.zeros(3)},
            r"'w' has shape \(2, 3\) in the model and \(3, 2\) in the state; 'b' has shape \(2,\) in the model",
        ),
        ({"w": np.zeros(6), "x": 1}, r"the model also has 'b', the state also has 'x'; .*; 'w' has shape \(2, 3\)"),
    ],
)
def test_all_that_does_not_fit_is_named(state: dict[str, Any], why: str) -> None:
    """Names that are missing, names that are unexpected, shapes; nothing is loaded."""
    own = model()
    with pytest.raises(FileFormatError, match=why):
        load_state_dict(own, state)
    assert own["w"].tolist() == [[0, 0, 0], [0, 0, 0]]


def test_what_is_no_tensor_is_refused() -> None:
    """With its name."""
    with pytest.raises(DTypeError, match="a state has tensors or arrays, 'b' is list; hint: Tensor"):
        load_state_dict(model(), {"w": np.zeros((2, 3)), "b": [1.0, 2.0]})


def test_two_tensors_of_one_name_are_refused() -> None:
    """One of them would not be saved, nor trained; one tensor on two ways to one name is fine."""
    for model in ({"a.b": Tensor([1.0]), "a": {"b": Tensor([2.0])}}, {1: Tensor([1.0]), "1": Tensor([2.0])}):
        with pytest.raises(FileFormatError, match="two tensors of a model have the name '(a.b|1)'; rename a key"):
            get_state_dict(model)
    shared = Tensor([1.0])
    assert list(get_state_dict({1: shared, "1": shared})) == ["1"]


def test_weights_in_slots_and_deques_are_found() -> None:
    """dataclass(slots=True), slots of a base class and private ones: an optimizer would train nothing of them."""

    @dataclass(slots=True)
    class Layer:
        weight: Tensor
        bias: Tensor | None = None

    class Base:
        __slots__ = ("__hidden", "scale")

        def __init__(self) -> None:
            self.__hidden, self.scale = Tensor([3.0]), Tensor([4.0])

    class Model(Base):
        def __init__(self) -> None:
            super().__init__()
            self.layers = deque([Layer(Tensor([1.0])), Layer(Tensor([2.0]), Tensor([5.0]))])

    model = Model()
    assert list(get_state_dict(model)) == [
        "_Base__hidden", "scale", "layers.0.weight", "layers.1.weight", "layers.1.bias"
    ]  # fmt: skip
    assert [name for name, _ in objects_in(model)] == ["", "layers", "layers.0", "layers.1"]
    load_state_dict(model, {name: Tensor([9.0]) for name in get_state_dict(model)}, verbose=False)
    assert all(tensor.tolist() == [9.0] for tensor in get_parameters(model))


def test_tensors_in_a_set_have_no_names() -> None:
    """A set without tensors is a value like others."""

    class Model:
        def __init__(self, things: Any) -> None:
            self.things = things

    assert get_parameters(Model({1, 2})) == []
    for things in ({Tensor([1.0])}, frozenset({nn.Linear(1, 1)})):
        with pytest.raises(TypeError, match=r"things is a (frozen)?set, whose tensors have no order to be named by"):
            get_parameters(Model(things))
