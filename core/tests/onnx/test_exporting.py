"""export as it is called: names, sizes that vary, weights, external data, and the sentences of what it refuses."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx as onnx_package
import pytest

from onnx_exports import compared, rand, whole
from tinygraft import Tensor, TinyJit, Variable, nn, onnx
from tinygraft.errors import AxisError, GraphError, ShapeError, UnsupportedError
from tinygraft.onnx import exporting


def names(values: Any) -> list[str]:
    """The names of inputs, outputs or initializers."""
    return [each.name for each in values]


def test_the_names_are_those_of_the_program() -> None:
    """Inputs by parameter and path, outputs by key, weights by the way to them, operators by what they are."""

    def run(x: Tensor, more: Any) -> Any:
        return {"sum": x + more["bias"], "both": [x * 2, more["all"][0]]}

    model = onnx.export(run, (rand(4, 8), {"bias": rand(8), "all": [rand(2)]}))
    assert names(model.graph.input) == ["x", "more_bias", "more_all_0"]
    assert names(model.graph.output) == ["sum", "both_0", "both_1"]
    assert model.opset_import[0].version == 20 and model.ir_version == 9
    layers = {"first": nn.Linear(8, 4), "rest": [nn.Linear(4, 2, bias=False)]}
    model = onnx.export(lambda x: layers["rest"][0](layers["first"](x)), rand(3, 8), output_names=["scores"])
    assert names(model.graph.initializer) == ["layers.first.weight", "layers.first.bias", "layers.rest.0.weight"]
    assert [tuple(each.dims) for each in model.graph.initializer] == [(4, 8), (4,), (2, 4)]
    assert names(model.graph.node) == ["Gemm", "Gemm_1"] and names(model.graph.output) == ["scores"]


def test_names_may_be_given_and_have_to_differ() -> None:
    """input_names and output_names; one name for two things is refused."""
    model = onnx.export(lambda x: x + 1, rand(2), input_names=["image"], output_names=["brighter"])
    assert (names(model.graph.input), names(model.graph.output)) == (["image"], ["brighter"])
    with pytest.raises(ValueError, match=r"each input and output needs a name of its own, got \['x'\] twice"):
        onnx.export(lambda x: x + 1, rand(2), output_names=["x"])
    with pytest.raises(ValueError, match="input_names are 2, the arguments have 1 tensors"):
        onnx.export(lambda x: x + 1, rand(2), input_names=["a", "b"])
    with pytest.raises(ValueError, match="output_names are 2, and the result has 1 tensors"):
        onnx.export(lambda x: x + 1, rand(2), output_names=["a", "b"])
    x = rand(2)
    with pytest.raises(ValueError, match="the tensor 'b' is given twice"):
        onnx.export(lambda a, b: a + b, (x, x))


def test_equal_names_of_axes_are_equal_sizes() -> None:
    """Two inputs with one batch; a list of axes names them itself; outputs tell what is known of their sizes."""
    model = onnx.export(lambda x, y: (x + y, x.flatten()), (rand(4, 8), rand(4, 1)),
                        dynamic_axes={"x": {0: "batch"}, "y": {0: "batch"}})  # fmt: skip
    shapes = [[size.dim_param or size.dim_value for size in each.type.tensor_type.shape.dim]
              for each in [*model.graph.input, *model.graph.output]]  # fmt: skip
    assert shapes == [["batch", 8], ["batch", 1], ["batch", 8], [0]]
    model = onnx.export(lambda x: x + 1, rand(4, 8), dynamic_axes={"x": [0, -1]})
    assert [size.dim_param for size in model.graph.input[0].type.tensor_type.shape.dim] == ["x_axis0", "x_axis1"]
    with pytest.raises(ShapeError, match="the size 'n' is 4 in the input 'x' and 3 in 'y'; it has to be one"):
        onnx.export(lambda x, y: x.sum() + y.sum(), (rand(4), rand(3)), dynamic_axes={"x": {0: "n"}, "y": {0: "n"}})


def test_axes_that_are_none_are_refused() -> None:
    """A name that is no input, an axis that is none, a name that is none."""
    with pytest.raises(ValueError, match=r"dynamic_axes names \['y'\], the inputs are \['x'\]"):
        onnx.export(lambda x: x, rand(2), dynamic_axes={"y": {0: "batch"}})
    with pytest.raises(AxisError, match="axis 5 is not an axis"):
        onnx.export(lambda x: x, rand(2), dynamic_axes={"x": {5: "batch"}})
    with pytest.raises(ValueError, match="axis 0 of 'x' is dynamic under a name or as a Variable, got 3"):
        onnx.export(lambda x: x, rand(2), dynamic_axes={"x": {0: 3}})


def test_what_has_no_operator_is_named_with_its_line() -> None:
    """Decompositions and bit casts: the op, its shape, and the line of the call."""
    with pytest.raises(UnsupportedError, match=r"for the routine svd: ROUTINE of .*, made at .*test_exporting.py:\d+"):
        onnx.export(lambda x: x.svd()[1], rand(4, 4))
    with pytest.raises(UnsupportedError, match=r"BITCAST: BITCAST of dtypes.int \(2,\), made at .*test_exporting.py"):
        onnx.export(lambda x: x.bitcast("int32") + 1, rand(2))
    with pytest.raises(UnsupportedError, match="the input 'x' is dtypes.complex64"):
        onnx.export(lambda x: x, Tensor([1 + 2j]))


def test_random_numbers_are_refused() -> None:
    """They would be constants in the file; the generator is as it was."""
    Tensor.manual_seed(3)
    first = Tensor.rand(2).tolist()
    Tensor.manual_seed(3)
    with pytest.raises(UnsupportedError, match=r"ONNX has no random numbers .*, at .*test_exporting.py:\d+"):
        onnx.export(lambda x: x + Tensor.rand(2), rand(2))
    assert Tensor.rand(2).tolist() == first


def test_what_writes_to_its_own_tensors_is_refused_and_undone() -> None:
    """State is an argument and a result there."""
    count = Tensor.zeros(3).contiguous().realize()
    whole_value = Tensor.zeros(2, 3).contiguous().realize()

    def counting(x: Tensor) -> Tensor:
        count.assign(count + 1)
        whole_value[0] = x
        return x + count

    with pytest.raises(UnsupportedError, match=r"counting writes to a tensor that it did not make, at .*py:\d+"):
        onnx.export(counting, rand(3))
    assert count.tolist() == [0.0] * 3 and whole_value.tolist() == [[0.0] * 3] * 2


def test_values_are_not_known() -> None:
    """The function is called for its graph alone."""
    with pytest.raises(GraphError, match=re.escape("has no value inside onnx.export")):
        onnx.export(lambda x: x * x.sum().item(), rand(3))
    with pytest.raises(TypeError, match="returned int, which has no tensor in it"):
        onnx.export(lambda x: 3, rand(3))


def test_external_data_lies_beside_the_file(tmp_path: Path) -> None:
    """Aligned for mapping, read by both, and written alone when the weights are too many for a message."""
    model, x = nn.Linear(8, 2), rand(3, 8)
    path = tmp_path / "model.onnx"
    onnx.export(model, x, path, external_data=True)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["model.onnx", "model.onnx.data"]
    plain = onnx_package.load(str(path), load_external_data=False)
    assert [{e.key: e.value for e in w.external_data}["offset"] for w in plain.graph.initializer] == ["0", "4096"]
    np.testing.assert_allclose(onnx.load(path)(x=x)["output"].numpy(), model(x).numpy(), rtol=1e-6)
    runtime = pytest.importorskip("onnxruntime", reason="what an exported model is run in")
    found = runtime.InferenceSession(str(path)).run(None, {"x": x.numpy()})[0]
    np.testing.assert_allclose(found, model(x).numpy(), rtol=1e-5)
    with pytest.raises(ValueError, match="external_data=True stores weights beside a file"):
        onnx.export(model, x, external_data=True)


def test_a_message_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More weights go outside by themselves, and False is refused."""
    monkeypatch.setattr(exporting, "LIMIT", 10)
    onnx.export(nn.Linear(8, 2), rand(3, 8), tmp_path / "model.onnx")
    assert (tmp_path / "model.onnx.data").exists()
    with pytest.raises(ValueError, match="the weights have 72 bytes, and a file without external data less than 2 GiB"):
        onnx.export(nn.Linear(8, 2), rand(3, 8), tmp_path / "other.onnx", external_data=False)
    with pytest.raises(ValueError, match="the weights have 72 bytes, which needs a path"):
        onnx.export(nn.Linear(8, 2), rand(3, 8))


def test_what_is_exported() -> None:
    """A TinyJit by its function, keyword arguments, arrays, weights not yet computed, one that two names have."""
    assert compared(TinyJit(lambda x: (x + 1).relu()), rand(4)) == ["Add", "Relu"]
    weight = Tensor.randn(8, 3)  # not computed
    assert compared(lambda x: x @ weight, rand(4, 8)) == ["MatMul"]
    model = onnx.export(lambda x, k: x + k, rand(4), kwargs={"k": np.ones(4, np.float32)})
    assert names(model.graph.input) == ["x", "k"]

    class Tied:
        def __init__(self) -> None:
            self.embed = nn.Embedding(10, 4)
            self.head = self.embed.weight

        def __call__(self, tokens: Tensor) -> Tensor:
            """The result."""
            return self.embed(tokens) @ self.head.T

    assert names(onnx.export(Tied(), whole(0, 10, 3)).graph.initializer) == ["embed.weight"]


def test_outputs_that_are_inputs_weights_or_equal() -> None:
    """Each output has a name of its own."""
    weight = rand(3).realize()

    def many(x: Tensor) -> Any:
        y = x + 1
        return x, y, y, weight, Tensor([1.0, 2.0]), x.detach()

    assert compared(many, rand(2)) == ["Identity", "Add", "Identity", "Identity", "Identity", "Identity"]
    compared(lambda x, unused: x + 1, rand(3), rand(2))
    compared(lambda x: x + 1, Tensor(3.0))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "fp8e4m3", "bool", "uint8", "int64", "float64"])
def test_weights_of_each_dtype_come_back(dtype: str) -> None:
    """Bit for bit, through the file."""
    weight = Tensor([[1, 0, 3]]).cast(dtype).realize()
    loaded = onnx.load(onnx.export(lambda x: x + weight.float(), Tensor.zeros(1, 3)))
    assert loaded(x=Tensor.zeros(1, 3))["output"].tolist() == [[1, 0, 1 if dtype == "bool" else 3]]
    assert loaded.weights["weight"].dtype == weight.dtype


def test_a_variable_bounds_a_size() -> None:
    """Positions up to 32: the same model for 7 tokens and 11, in batches of 2 and 3."""
    positions = rand(32, 4).realize()
    compared(
        lambda x: (x + positions[: x.shape[1]]).softmax(-1) @ positions[: x.shape[1]].T.softmax(0),
        rand(2, 7, 4), dynamic={"x": {0: "batch", 1: Variable("tokens", 1, 32)}}, other=[rand(3, 11, 4)],
    )  # fmt: skip
