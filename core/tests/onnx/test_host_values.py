"""What is known of shapes without computing: equal to what the tensors are, and nothing where it could be otherwise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinygraft import Tensor, Variable
from tinygraft import onnx as tinygraft_onnx
from tinygraft.onnx.host_values import RULES, Known, known

RNG = np.random.default_rng(2)


def test_nested_lists_and_back() -> None:
    """Of any number of axes."""
    for value in (3, [1, 2], [[1, 2, 3], [4, 5, 6]], [[[1], [2]]]):
        assert known(value).nested() == value
    assert known([]) == Known((0,), ())


def computed(nodes: list[Any], x: Any, weights: dict[str, np.ndarray]) -> Any:
    """A model that reshapes (batch, 4, 6) to what its nodes compute of its shape."""
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    nodes = [helper.make_node("Shape", ["x"], ["s"]), *nodes, helper.make_node("Reshape", ["x", "to"], ["y"])]
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]], constants)
    model = tinygraft_onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    return model(x=x)["y"]


def node(op: str, inputs: str, output: str, **attributes: Any) -> Any:
    """A node."""
    return helper.make_node(op, inputs.split(), [output], **attributes)


W = {"zero": np.array(0), "one": np.array([1]), "two": np.array([2]), "rest": np.array([-1]), "three": np.array([3]),
     "end": np.array([1 << 62]), "front": np.array([0])}  # fmt: skip
GRAPHS = {
    "first and the rest": [node("Gather", "s zero", "b"), node("Unsqueeze", "b front", "c"),
                           node("Concat", "c rest", "to", axis=0)],
    "twice and half of it": [node("Slice", "s front one", "b"), node("Mul", "b two", "t"), node("Div", "t two", "h"),
                             node("Concat", "h rest", "to", axis=0)],
    "a product": [node("Slice", "s one end", "t"), node("Slice", "s front one", "b"), node("Slice", "t front one", "m"),
                  node("Mul", "m two", "n"), node("Concat", "b n rest", "to", axis=0)],
    "a quotient": [node("Slice", "s front one", "b"), node("Slice", "s two end", "l"), node("Div", "l two", "h"),
                   node("Concat", "b rest h", "to", axis=0)],
    "where": [node("Slice", "s front one", "b"), node("Concat", "b rest", "t", axis=0), node("Equal", "t rest", "e"),
              node("Where", "e rest t", "to")],
    "a cast and a sum": [node("Slice", "s front one", "b"), node("Cast", "b", "c", to=6), node("Cast", "c", "d", to=7),
                         node("Slice", "s one two", "m"), node("Add", "m two", "p"), node("Sub", "p two", "q"),
                         node("Mod", "q three", "r"), node("Concat", "d q rest", "to", axis=0)],
}  # fmt: skip


@pytest.mark.parametrize("name", GRAPHS)
def test_a_shape_that_is_computed_is_known_and_stays_symbolic(name: str) -> None:
    """Whatever it is computed by."""
    x = RNG.standard_normal((4, 4, 6)).astype(np.float32)
    expected = computed(GRAPHS[name], x[:3], W)
    batch = Variable("batch", 1, 4)
    found = computed(GRAPHS[name], Tensor(x)[: batch.bind(3)], W)
    assert not isinstance(found.shape[0], int) and found.shape[1:] == expected.shape[1:]
    np.testing.assert_allclose(found.sum(0).numpy(), x[:3].reshape(expected.shape).sum(0), rtol=1e-5, atol=1e-5)


def test_integers_that_wrap_are_not_known() -> None:
    """A tensor of bytes has what is left of a sum; so has the shape that is made of it."""
    weights = {**W, "a": np.array([200], np.uint8), "b": np.array([60], np.uint8)}
    nodes = [node("Add", "a b", "c"), node("Cast", "c", "d", to=7), node("Concat", "d rest", "to", axis=0)]
    assert computed(nodes, np.zeros((2, 4, 6), np.float32), weights).shape == (4, 12)


def test_what_is_not_known_is_none() -> None:
    """A division by zero, a size that may be equal, an index beyond the end."""
    size = Variable("n", 1, 8).bind(3)
    assert RULES["Div"](known([4]), known([0])) is None
    assert RULES["Mod"](known([4]), known([0])) is None
    assert RULES["Equal"](Known((1,), (size,)), known([3])) is None
    assert RULES["Equal"](Known((1,), (size,)), known([-1])) == known([False])
    assert RULES["Gather"](known([1, 2]), known([2])) is None
    assert RULES["Div"](known([-7, 7, -7]), known([2, -2, -2])) == known([-3, -3, 3])


def test_what_depends_on_constants_alone_is_read_once() -> None:
    """For all calls, so that a captured one reads nothing."""
    nodes = [node("Cast", "two", "f", to=1), node("Sqrt", "f", "g"), node("Mul", "g g", "h"), node("Round", "h", "i"),
             node("Cast", "i", "j", to=7), node("Concat", "j rest", "to", axis=0)]  # fmt: skip
    constants = [numpy_helper.from_array(array, name) for name, array in W.items()]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "xy"]
    graph = helper.make_graph(
        [*nodes, helper.make_node("Reshape", ["x", "to"], ["y"])], "g", ends[:1], ends[1:], constants
    )
    model = tinygraft_onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    assert model._graph.read == {}
    assert model(x=np.zeros((4, 3), np.float32))["y"].shape == (2, 6)
    assert model._graph.read == {"to": known([2, -1])}
    assert model(x=np.zeros((4, 5), np.float32))["y"].shape == (2, 10)
