"""What the tests of the array API standard share: generated arrays, and one call in both namespaces, compared."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tinygraft import Tensor
from tinygraft import array_api as xp

strict = pytest.importorskip("array_api_strict")

Array = np.ndarray[Any, Any]
FLOATS, INTEGERS = ["float32", "float64"], ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
BOOL, COMPLEX = ["bool"], ["complex64", "complex128"]
NUMERIC, ALL = [*FLOATS, *INTEGERS], [*FLOATS, *INTEGERS, *BOOL]
EVERY = [*ALL, *COMPLEX]
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, math.inf, -math.inf, math.nan, 1e-3, 100.0]


def case(count: int) -> Callable[[Any], Any]:
    """So many examples, the same in every run."""
    return settings(
        max_examples=count, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
    )


def elements(dtype: str) -> Any:
    """Values of a dtype: specials and small numbers."""
    if dtype == "bool":
        return st.booleans()
    if dtype in FLOATS:
        return st.sampled_from(SPECIAL) | st.floats(-50, 50, width=32)
    if dtype in COMPLEX:
        return st.builds(complex, *[st.floats(-4, 4, width=16)] * 2)
    low = 0 if dtype.startswith("u") else -6
    return st.integers(low, 7) | st.sampled_from([np.iinfo(dtype).max, np.iinfo(dtype).min])


@st.composite
def arrays(draw: Any, dtypes: Any, shape: Any = None, low: int = 0, dims: int = 0) -> Array:
    """An array of one of some dtypes, of up to three axes of up to four elements."""
    dtype = draw(st.sampled_from(dtypes)) if isinstance(dtypes, list) else dtypes
    if shape is None:
        shape = draw(st.lists(st.integers(low, 4), min_size=dims, max_size=3).map(tuple))
    count = math.prod(shape)
    values = draw(st.lists(elements(dtype), min_size=count, max_size=count))
    return np.array(values, dtype=dtype).reshape(shape)


def same(found: Any, wanted: Any, exact: bool = True) -> None:
    """Results of both sides agree: shape, dtype and values, or each of several results."""
    if isinstance(wanted, (tuple, list)):
        assert len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b, exact)
        return
    theirs = np.asarray(wanted)
    if not isinstance(found, Tensor):
        assert found == wanted
        return
    ours = found.numpy()
    assert ours.shape == theirs.shape
    kinds = (ours.dtype.kind, theirs.dtype.kind)
    assert kinds[0] == kinds[1] or set(kinds) <= {"i", "u"}
    if theirs.dtype.kind == "c":
        tolerance = 3e-6 if ours.dtype == np.complex64 else 1e-13
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=0 if exact else tolerance)
    elif theirs.dtype.kind == "f":
        tolerance = 0 if exact else 3e-6 if ours.dtype == np.float32 else 1e-13
        np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)
        zero = (theirs == 0) & exact
        assert (np.signbit(ours) == np.signbit(theirs))[zero].all()
    else:
        np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))


def both(name: str, *args: Any, exact: bool = True, **kwargs: Any) -> None:
    """A function of both namespaces with the same arguments."""
    home, other = xp, strict
    for part in name.split(".")[:-1]:
        home, other = getattr(home, part), getattr(other, part)
    last = name.rpartition(".")[2]

    def put(arg: Any, make: Callable[[Any], Any]) -> Any:
        if isinstance(arg, np.ndarray):
            return make(arg)
        return type(arg)(put(item, make) for item in arg) if isinstance(arg, (list, tuple)) else arg

    with np.errstate(all="ignore"):
        wanted = getattr(other, last)(
            *(put(a, strict.asarray) for a in args), **{k: put(v, strict.asarray) for k, v in kwargs.items()}
        )
    found = getattr(home, last)(*(put(a, Tensor) for a in args), **{k: put(v, Tensor) for k, v in kwargs.items()})
    same(found, wanted, exact)
