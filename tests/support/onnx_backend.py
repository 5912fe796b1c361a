"""The tests of onnx.backend.test on tinygraft: NumPy arrays in and out of an OnnxModel, as the suite has them.

`cases()` are the tests for a CPU by name, `run_case` runs one and raises what it raises. Nothing is downloaded: the
nine "real" models, which would be, are left out.
"""

from __future__ import annotations

import unittest
import warnings
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.base import Backend
from onnx.backend.test.runner import Runner

from tinygraft import Tensor, dtypes
from tinygraft import onnx as tinygraft_onnx
from tinygraft.onnx.element_types import HELD_IN

DOWNLOADED = "RealModel"
_HELD = {element: onnx.helper.tensor_dtype_to_np_dtype(element) for element in HELD_IN}
_BITS = {1: np.uint8, 2: np.uint16}


def to_tensor(value: Any) -> Any:
    """An input of the suite: an array, a list of them, or None."""
    if value is None or isinstance(value, Tensor):
        return value
    if isinstance(value, list):
        return [to_tensor(item) for item in value]
    array = np.asarray(value)
    element = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
    if element not in HELD_IN:
        raise NotImplementedError(f"no tensor holds {array.dtype}")
    dtype = HELD_IN[element]
    if array.dtype.type.__module__ != "ml_dtypes" and array.dtype != ml_dtypes.bfloat16:
        return Tensor(np.ascontiguousarray(array)).reshape(array.shape)
    if dtype in (*dtypes.fp8s, dtypes.bfloat16):
        return Tensor(array.view(_BITS[dtype.itemsize]).copy()).reshape(array.shape).bitcast(dtype)
    wide = {"int": np.int8, "uint": np.uint8, "float": np.float32}[dtype.kind]
    return Tensor(array.astype(wide)).reshape(array.shape)


def to_array(value: Any, proto: Any) -> Any:
    """An output as the suite compares it, in the element type that the model declares."""
    if value is None:
        return None
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        return to_array(value, proto.optional_type.elem_type)
    if isinstance(value, list):
        return [to_array(item, proto.sequence_type.elem_type) for item in value]
    want = _HELD[proto.tensor_type.elem_type]
    if value.dtype in (*dtypes.fp8s, dtypes.bfloat16):
        bits = value.contiguous().bitcast(dtypes.uint8 if value.dtype.itemsize == 1 else dtypes.uint16).numpy()
        own = onnx.helper.tensor_dtype_to_np_dtype(next(e for e, d in HELD_IN.items() if d is value.dtype))
        return bits.view(own)
    found = value.numpy()
    narrow = want.type.__module__ == "ml_dtypes"
    return found.astype(want) if narrow else found


class _Prepared:
    """A model of the suite, to be run on arrays."""

    def __init__(self, proto: Any) -> None:
        self._proto, self._model = proto, tinygraft_onnx.load(proto)

    def run(self, inputs: Any, **_: Any) -> tuple[Any, ...]:
        """The outputs for inputs in the order of the graph."""
        named = dict(zip(self._model.inputs, (to_tensor(value) for value in inputs), strict=False))
        found = self._model(named)
        return tuple(to_array(found[each.name], each.type) for each in self._proto.graph.output)


class TinygraftBackend(Backend):
    """tinygraft as the suite sees a backend."""

    @classmethod
    def prepare(cls, model: Any, device: str = "CPU", **_: Any) -> Any:
        """A model, to be run."""
        return _Prepared(model)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Tests are for CPU or CUDA; the device is tinygraft's own choice."""
        return device == "CPU"


@cache
def cases() -> dict[str, Any]:
    """The tests by name, in the order of the suite."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner = Runner(TinygraftBackend, __name__)
    return {
        name: item.func
        for category, items in runner._test_items.items()
        if category != DOWNLOADED
        for name, item in items.items()
        if name.endswith("_cpu")
    }


def run_case(name: str) -> None:
    """Run one test; raises AssertionError for a wrong value, and what else it raises."""
    cases()[name](unittest.TestCase())
