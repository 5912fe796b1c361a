"""An OnnxModel as it is called: inputs, symbolic sizes, TinyJit, derivatives, and the errors of a caller."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinygraft import Tensor, TinyJit, Variable, dtypes
from tinygraft import onnx as tinygraft_onnx
from tinygraft.errors import DTypeError, ShapeError, UnsupportedError
from tinygraft.nn.onnx import OnnxRunner

RNG = np.random.default_rng(0)
WEIGHT = RNG.standard_normal((4, 3)).astype(np.float32)


def value(name: str, shape: Any, element: int = TensorProto.FLOAT) -> Any:
    """A ValueInfoProto."""
    return helper.make_tensor_value_info(name, element, shape)


def model(
    nodes: list[Any], inputs: list[Any], outputs: list[Any], weights: dict[str, Any] | None = None, **more: Any
) -> Any:
    """A ModelProto of opset 20."""
    constants = [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "tested", inputs, outputs, constants)
    opsets = more.pop("opset_imports", [helper.make_opsetid("", 20)])
    return helper.make_model(graph, opset_imports=opsets, **more)


def flattening() -> Any:
    """x (batch, 2, 2) as (batch, 4), by its own shape, times a weight (4, 3)."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["batch"]),
        helper.make_node("Concat", ["batch", "rest"], ["flat"], axis=0),
        helper.make_node("Reshape", ["x", "flat"], ["rows"]),
        helper.make_node("MatMul", ["rows", "w"], ["y"]),
    ]
    weights = {"w": WEIGHT, "zero": np.array([0]), "rest": np.array([-1])}
    return model(nodes, [value("x", ["batch", 2, 2])], [value("y", ["batch", 3])], weights)


def expected(x: np.ndarray) -> np.ndarray:
    """What that gives."""
    return x.reshape(len(x), 4) @ WEIGHT


def test_inputs_are_tensors_arrays_or_lists_by_name() -> None:
    """In a dict, by keyword, or for run as ONNX Runtime has it."""
    loaded = tinygraft_onnx.load(flattening())
    x = RNG.standard_normal((5, 2, 2)).astype(np.float32)
    np.testing.assert_allclose(loaded(x=Tensor(x))["y"].numpy(), expected(x), rtol=1e-5)
    np.testing.assert_allclose(loaded({"x": x})["y"].numpy(), expected(x), rtol=1e-5)
    np.testing.assert_allclose(loaded.run(None, {"x": x.tolist()})[0].numpy(), expected(x), rtol=1e-5)
    np.testing.assert_allclose(OnnxRunner(flattening())({"x": x})["y"].numpy(), expected(x), rtol=1e-5)


def test_a_batch_may_be_symbolic() -> None:
    """The shape is known without being computed, and stays symbolic."""
    loaded, batch = tinygraft_onnx.load(flattening()), Variable("batch", 1, 8)
    whole = RNG.standard_normal((8, 2, 2)).astype(np.float32)
    for length in (3, 7):
        found = loaded(x=Tensor(whole)[: batch.bind(length)])["y"]
        assert not isinstance(found.shape[0], int)
        np.testing.assert_allclose(found.sum(0).numpy(), expected(whole[:length]).sum(0), rtol=1e-4, atol=1e-5)


def test_a_model_is_captured_by_tinyjit() -> None:
    """And replays on other values, without running Python again."""
    loaded = tinygraft_onnx.load(flattening())

    @TinyJit
    def step(x: Tensor) -> Tensor:
        return loaded(x=x)["y"].realize()

    for _ in range(5):
        x = RNG.standard_normal((2, 2, 2)).astype(np.float32)
        np.testing.assert_allclose(step(Tensor(x).realize()).numpy(), expected(x), rtol=1e-5)
    assert "kinds of calls captured: 1" in repr(step)


def test_nothing_is_computed_before_it_is_read_and_gradients_flow() -> None:
    """The outputs are lazy tensors, of the inputs and of the weights."""
    loaded = tinygraft_onnx.load(flattening())
    x = Tensor(RNG.standard_normal((2, 2, 2)).astype(np.float32), requires_grad=True)
    weight = loaded.weights["w"].requires_grad_(True)
    found = loaded(x=x)["y"]
    assert found.uop.base.realized is None
    found.sum().backward()
    assert x.grad is not None and weight.grad is not None
    np.testing.assert_allclose(weight.grad.numpy(), x.numpy().reshape(2, 4).sum(0)[:, None].repeat(3, 1), rtol=1e-5)


def test_a_function_of_the_model_is_run() -> None:
    """With the attributes of the call."""
    body = [helper.make_node("LeakyRelu", ["a"], ["b"])]
    body[0].attribute.append(onnx.AttributeProto(name="alpha", ref_attr_name="slope", type=onnx.AttributeProto.FLOAT))
    made = helper.make_function("own", "Leaky", ["a"], ["b"], body, [helper.make_opsetid("", 20)], ["slope"])
    proto = model(
        [helper.make_node("Leaky", ["x"], ["y"], domain="own", slope=0.5)], [value("x", [2])], [value("y", [2])],
        opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("own", 1)], functions=[made],
    )  # fmt: skip
    assert tinygraft_onnx.load(proto)(x=[-4.0, 3.0])["y"].tolist() == [-2.0, 3.0]


def test_a_default_may_be_left_out() -> None:
    """An input that is also an initializer has one."""
    proto = model([helper.make_node("Add", ["x", "b"], ["y"])], [value("x", [2]), value("b", [2])], [value("y", [2])],
                  {"b": np.array([1, 2], np.float32)})  # fmt: skip
    loaded = tinygraft_onnx.load(proto)
    assert loaded(x=[1.0, 1.0])["y"].tolist() == [2.0, 3.0]
    assert loaded(x=[1.0, 1.0], b=[5.0, 5.0])["y"].tolist() == [6.0, 6.0]


def test_wrong_inputs_are_refused() -> None:
    """By name, dtype and shape, with what the model asks for."""
    loaded = tinygraft_onnx.load(flattening())
    x = Tensor.ones(2, 2, 2)
    with pytest.raises(TypeError, match=r"takes the inputs \['x'\]; \['x'\] is missing; it has no \['z'\]"):
        loaded(z=x)
    with pytest.raises(DTypeError, match="the input 'x' is dtypes.float, got dtypes.int; cast it first"):
        loaded(x=x.cast(dtypes.int32))
    with pytest.raises(ShapeError, match=r"the input 'x' has the shape \('batch', 2, 2\), got \(2, 4\)"):
        loaded(x=x.reshape(2, 4))
    with pytest.raises(TypeError, match="the input 'x' is not optional, got None"):
        loaded(x=None)
    with pytest.raises(TypeError, match=r"has the outputs \['y'\], not \['w'\]"):
        loaded.run(["w"], {"x": x})


def test_a_named_size_is_one_size() -> None:
    """In all inputs that have it."""
    proto = model(
        [helper.make_node("Add", ["a", "b"], ["y"])], [value("a", ["n"]), value("b", ["n"])], [value("y", ["n"])]
    )
    with pytest.raises(ShapeError, match="the size 'n' is 2 in the input 'a' and 1 in 'b'; it has to be one"):
        tinygraft_onnx.load(proto)(a=[1.0, 2.0], b=[1.0])


def test_all_unknown_operators_are_named_at_once() -> None:
    """With their domain and version, before anything runs."""
    nodes = [helper.make_node("Fancy", ["x"], ["a"], domain="other"), helper.make_node("ImageDecoder", ["a"], ["y"])]
    proto = model(nodes, [value("x", [2])], [value("y", [2])],
                  opset_imports=[helper.make_opsetid("", 20), helper.make_opsetid("other", 3)])  # fmt: skip
    with pytest.raises(UnsupportedError, match=r"not known here: Fancy \(other 3\), ImageDecoder \(ai.onnx 20\)"):
        tinygraft_onnx.load(proto)


def test_an_error_names_its_node() -> None:
    """As a note, with the graph that it is in."""
    proto = model(
        [helper.make_node("MatMul", ["x", "x"], ["y"], name="square")], [value("x", [2, 3])], [value("y", None)]
    )
    with pytest.raises(ShapeError) as caught:
        tinygraft_onnx.load(proto)(x=Tensor.ones(2, 3))
    assert "in node 'square' (MatMul) of <model>: graph 'tested'" in caught.value.__notes__


def test_random_numbers_follow_their_seed() -> None:
    """The same with a seed, others without."""

    def drawn(**seed: float) -> list[float]:
        node = helper.make_node("RandomUniform", [], ["y"], shape=[64], **seed)
        return tinygraft_onnx.load(model([node], [], [value("y", [64])]))()["y"].tolist()  # type: ignore[no-any-return]

    assert drawn(seed=3.0) == drawn(seed=3.0) != drawn(seed=4.0)
    assert drawn() != drawn()
    assert 0.3 < float(np.mean(drawn(seed=3.0))) < 0.7


def test_a_device_is_that_of_all_that_a_call_makes() -> None:
    """What is given as an array, and what operators make of nothing, is on the model's device; Like on that of x."""
    square = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in ("x", "y")]
    weight = helper.make_tensor("w", TensorProto.FLOAT, [2, 2], [1, 2, 3, 4])
    nodes = [helper.make_node("RandomNormal", [], ["r"], shape=[2, 2]), helper.make_node("Add", ["w", "r"], ["s"]),
             helper.make_node("MatMul", ["x", "s"], ["y"])]  # fmt: skip
    opsets = [helper.make_opsetid("", 20)]
    made = helper.make_model(helper.make_graph(nodes, "g", square[:1], square[1:], [weight]), opset_imports=opsets)
    assert tinygraft_onnx.load(made, device="PYTHON:1")(x=np.eye(2, dtype=np.float32))["y"].device == "PYTHON:1"
    nodes = [helper.make_node("RandomNormalLike", ["x"], ["r"]), helper.make_node("Add", ["x", "r"], ["y"])]
    made = helper.make_model(helper.make_graph(nodes, "g", square[:1], square[1:]), opset_imports=opsets)
    x = Tensor.eye(2, device="PYTHON:1")
    assert tinygraft_onnx.load(made)(x=x)["y"].shape == (2, 2)
