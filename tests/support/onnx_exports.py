"""A function exported to ONNX, run in ONNX Runtime and by tinygraft again, and compared with the function itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, onnx

RNG = np.random.default_rng(17)


def rand(*shape: int) -> Tensor:
    """Normal numbers."""
    return Tensor(RNG.standard_normal(shape).astype(np.float32))


def whole(low: int, high: int, *shape: int, dtype: str = "int32") -> Tensor:
    """Integers from low to below high."""
    return Tensor(RNG.integers(low, high, shape).astype(dtype))


def tensors(nested: Any) -> list[Tensor]:
    """The tensors in nested results, in order."""
    if isinstance(nested, Tensor):
        return [nested]
    return [each for item in (nested.values() if isinstance(nested, dict) else nested) for each in tensors(item)]


def compared(
    function: Callable[..., Any], *args: Any, dynamic: Any = None, other: Sequence[Any] | None = None,
    tolerance: float = 1e-5, **options: Any,
) -> list[str]:  # fmt: skip
    """The operators of the exported model, whose outputs are those of the function: dtypes, shapes and values.

    other are arguments of other sizes, which the same model has to take.
    """
    runtime = pytest.importorskip("onnxruntime", reason="what an exported model is run in")
    model = onnx.export(function, args, dynamic_axes=dynamic, **options)
    quiet = runtime.SessionOptions()
    quiet.log_severity_level = 3
    session = runtime.InferenceSession(model.SerializeToString(), quiet, providers=["CPUExecutionProvider"])
    again = onnx.load(model)
    for given in [args, *([other] if other is not None else [])]:
        with Tensor.train(False):
            wanted = [each.numpy() for each in tensors(getattr(function, "fxn", function)(*given))]
        feeds = {each.name: t.numpy() for each, t in zip(model.graph.input, tensors(given), strict=True)}
        ours = [each.numpy() for each in again({name: Tensor(array) for name, array in feeds.items()}).values()]
        for found in (session.run(None, feeds), ours):
            for a, b in zip(found, wanted, strict=True):
                assert a.dtype == b.dtype
                np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)
    return [node.op_type for node in model.graph.node]
