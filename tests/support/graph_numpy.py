"""The evaluator of core (engine/evaluate.py) as tests use it, and tensors compared with it.

It evaluates a graph with NumPy, node by node, and shares no code with the compiler.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tinygraft.dtype import dtypes
from tinygraft.engine.arithmetic import ACCUMULATE, NAMES, elementwise, numpy_array, numpy_name
from tinygraft.engine.evaluate import Evaluation, evaluate

__all__ = ["ACCUMULATE", "NAMES", "Evaluation", "elementwise", "evaluate", "numpy_array", "numpy_name", "values"]


def values(tensor: Any) -> np.ndarray[Any, Any]:
    """Return the values of a tensor by numpy, after comparing those of its device, shape and dtype with them.

    A sum may be grouped differently, so where terms cancel the tolerance is that of the largest element.
    """
    wanted = evaluate(tensor.uop)
    shape, dtype = tensor.shape, tensor.dtype
    found = tensor.numpy()
    assert found.shape == wanted.shape == shape
    assert found.dtype == wanted.dtype == np.dtype("float32" if dtype is dtypes.bfloat16 else NAMES[dtype])
    if dtype.kind == "float":
        largest = float(np.abs(wanted[np.isfinite(wanted)]).max(initial=0))
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=1e-7 + 5e-7 * largest)
    else:
        np.testing.assert_array_equal(found, wanted)
    return found
