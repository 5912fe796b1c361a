"""Files of ONNX that are damaged or made to do harm: a clear error, before anything is allocated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tinygraft import onnx as tinygraft_onnx
from tinygraft.errors import FileFormatError, UnsupportedError

ARRAY = np.arange(6, dtype=np.float32)


def proto_of(nodes: list[Any] | None = None, weights: list[Any] | None = None) -> Any:
    """x + w, or other nodes."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [6]) for name in "xy"]
    nodes = nodes if nodes is not None else [helper.make_node("Add", ["x", "w"], ["y"])]
    weights = weights if weights is not None else [numpy_helper.from_array(ARRAY, "w")]
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])


def with_external(location: str, **more: int) -> Any:
    """x + w, where w is in another file."""
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6], data_location=TensorProto.EXTERNAL)
    for key, value in {"location": location, **more}.items():
        tensor.external_data.add(key=key, value=str(value))
    return proto_of(weights=[tensor])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder for a model, beside a file that is none of its business."""
    (tmp_path / "secret.bin").write_bytes(ARRAY.tobytes())
    (tmp_path / "model").mkdir()
    (tmp_path / "model/w.bin").write_bytes(b"pad." + ARRAY.tobytes())
    return tmp_path / "model"


def saved(folder: Path, proto: Any) -> Path:
    """The path of a saved model."""
    (folder / "m.onnx").write_bytes(proto.SerializeToString())
    return folder / "m.onnx"


def test_external_data_is_read_when_it_is_needed(folder: Path) -> None:
    """From its offset."""
    loaded = tinygraft_onnx.load(saved(folder, with_external("w.bin", offset=4, length=24)))
    assert loaded.weights["w"].uop.base.realized is None
    assert loaded(x=[1.0] * 6)["y"].tolist() == (ARRAY + 1).tolist()
    assert loaded._graph.weights["w"].numbers() == ARRAY.tolist()


@pytest.mark.parametrize(
    "location", ["../secret.bin", "a/../../secret.bin", "/etc/passwd", "..\\secret.bin", "", "C:\\x"]
)
def test_a_path_out_of_the_folder_is_refused(folder: Path, location: str) -> None:
    """Whatever way it takes."""
    with pytest.raises(FileFormatError, match="is refused: it is not a path within"):
        tinygraft_onnx.load(saved(folder, with_external(location)))


def test_links_out_of_the_folder_are_refused(folder: Path) -> None:
    """Symbolic ones, of files and of folders, and hard ones."""
    (folder / "soft.bin").symlink_to("../secret.bin")
    (folder / "up").symlink_to("..")
    os.link(folder.parent / "secret.bin", folder / "hard.bin")
    for location, why in (("soft.bin", "a link leads it out"), ("up/secret.bin", "a link leads it out"),
                          ("hard.bin", "second name")):  # fmt: skip
        with pytest.raises(FileFormatError, match=why):
            tinygraft_onnx.load(saved(folder, with_external(location)))


def test_external_data_has_to_be_there(folder: Path) -> None:
    """In full, at a place that is a number; and for bytes there is no folder."""
    for more, why in (({"offset": 8}, "needs bytes 8 to 32"), ({"offset": -4}, "needs bytes -4"),
                      ({"length": 8}, "needs 24 bytes, the file has 8"), ({"offset": 1 << 62}, "has 28")):  # fmt: skip
        with pytest.raises(FileFormatError, match=why):
            tinygraft_onnx.load(saved(folder, with_external("w.bin", **more)))
    with pytest.raises(FileFormatError, match="there is no file of external data"):
        tinygraft_onnx.load(saved(folder, with_external("gone.bin")))
    with pytest.raises(FileFormatError, match="load the model from its path"):
        tinygraft_onnx.load(with_external("w.bin"))


def test_a_file_that_is_cut_short_is_an_error_at_every_length(folder: Path) -> None:
    """Never something else."""
    whole = proto_of().SerializeToString()
    for length in range(len(whole)):
        with pytest.raises((FileFormatError, UnsupportedError)):
            tinygraft_onnx.load(whole[:length])
    with pytest.raises(FileFormatError, match="is no model of ONNX"):
        tinygraft_onnx.load(b"\xff" * 100)


def test_damaged_bytes_raise_what_a_file_raises() -> None:
    """Each byte of a model as another one: it loads, or raises one of two errors."""
    whole = bytearray(proto_of().SerializeToString())
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        try:
            tinygraft_onnx.load(bytes(damaged))
        except (FileFormatError, UnsupportedError):
            pass


def test_sizes_are_compared_with_the_data() -> None:
    """Before anything is allocated."""
    for dims, why in (
        ([1 << 62, 1 << 62], "needs"),
        ([-1], "sizes are integers from 0"),
        ([7], "needs 28 bytes, the file has 24"),
    ):
        tensor = numpy_helper.from_array(ARRAY, "w")
        del tensor.dims[:]
        tensor.dims.extend(dims)
        with pytest.raises(FileFormatError, match=why):
            tinygraft_onnx.load(proto_of(weights=[tensor]))
    listed = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[6], float_data=[1.0] * 5)
    with pytest.raises(FileFormatError, match="needs 24 bytes, the file has 20"):
        tinygraft_onnx.load(proto_of(weights=[listed]))


def test_a_graph_that_contradicts_itself_is_refused() -> None:
    """A cycle, a name that nothing makes, one that is made twice, an output without a node."""

    def refused(nodes: list[Any], why: str) -> None:
        with pytest.raises(FileFormatError, match=why):
            tinygraft_onnx.load(proto_of(nodes))

    node = helper.make_node
    refused(
        [node("Add", ["x", "b"], ["a"]), node("Neg", ["a"], ["b"]), node("Neg", ["b"], ["y"])],
        "has a cycle, or is out of",
    )
    refused([node("Add", ["x", "y"], ["y"])], "has a cycle")
    refused([node("Add", ["x", "gone"], ["y"])], "uses 'gone', which nothing makes")
    refused([node("Neg", ["x"], ["y"]), node("Neg", ["x"], ["y"])], r"makes \['y'\], which the graph has already")
    refused([], r"has the outputs \['y'\], which no node makes")
    refused([node("Add", ["x"], ["y"])], r"lacks \['b'\], which the operator needs")
    refused([node("Neg", ["x", "x"], ["y"])], "has 2 inputs, the operator takes 1")
    refused([node("Pad", ["x", "x"], ["y"], pads=[1, 1])], r"has \['pads'\] both as inputs and as attributes")


def test_an_attribute_that_is_not_known_is_an_error() -> None:
    """It would change what the operator does."""
    with pytest.raises(UnsupportedError, match=r"has the attributes \['hurry'\]"):
        tinygraft_onnx.load(proto_of([helper.make_node("Neg", ["x"], ["y"], hurry=1)]))


def test_a_function_that_calls_itself_is_refused() -> None:
    """It would never end."""
    body = [helper.make_node("Own", ["a"], ["b"], domain="own")]
    made = helper.make_function("own", "Own", ["a"], ["b"], body, [helper.make_opsetid("own", 1)])
    proto = proto_of([helper.make_node("Own", ["x"], ["y"], domain="own")])
    proto.opset_import.add(domain="own", version=1)
    proto.functions.append(made)
    with pytest.raises(FileFormatError, match="calls a function that is within itself"):
        tinygraft_onnx.load(proto)


def test_an_absurd_shape_takes_no_memory() -> None:
    """A tensor that is never read is never made."""
    shape = numpy_helper.from_array(np.array([1 << 40]), "shape")
    ends = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph([helper.make_node("ConstantOfShape", ["shape"], ["y"])], "g", [], ends, [shape])
    proto = onnx.helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
    assert tinygraft_onnx.load(proto)()["y"].shape == (1 << 40,)


def test_functions_that_double_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty functions, each of which calls the next one twice, would be a million million nodes."""
    monkeypatch.setattr("tinygraft.onnx.onnx_graph._MOST_NODES", 1000)
    proto = proto_of([helper.make_node("F0", ["x"], ["y"], domain="own")])
    proto.opset_import.add(domain="own", version=1)
    opsets = [helper.make_opsetid("own", 1), helper.make_opsetid("", 20)]
    for i in range(40):
        body = [
            helper.make_node(f"F{i + 1}", ["a"], ["m"], domain="own"),
            helper.make_node(f"F{i + 1}", ["m"], ["b"], domain="own"),
        ]
        proto.functions.append(helper.make_function("own", f"F{i}", ["a"], ["b"], body, opsets))
    last = [helper.make_node("Neg", ["a"], ["b"])]
    proto.functions.append(helper.make_function("own", "F40", ["a"], ["b"], last, opsets))
    with pytest.raises(FileFormatError, match="the model has more than"):
        tinygraft_onnx.load(proto)


def test_a_model_is_let_go_of_when_its_weights_are_made() -> None:
    """The bytes of a file are not kept beside the tensors."""
    array = np.arange(10_000, dtype=np.float32)
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [10_000]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", ends[:1], ends[1:],
                              [numpy_helper.from_array(array, "w")])  # fmt: skip
    model = tinygraft_onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)]))
    weight = model._graph.weights["w"]
    assert weight._proto is not None
    assert (model(x=array)["y"].numpy() == array * 2).all()
    assert weight._proto is None and not hasattr(model._graph, "_builder")
