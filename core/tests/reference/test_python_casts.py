"""CAST between all pairs of dtypes and BITCAST between all of one width on PYTHON, at the edges of each."""

import math
from typing import Any

import numpy as np
import pytest

from tinygraft.conformance.corpus import convertible, edges
from tinygraft.conformance.kernels import run_map
from tinygraft.dtype import DType, bits_of, dtypes
from tinygraft.reference.python import PythonBackend


def casts(dtype: DType) -> dict[DType, list[Any]]:
    """Hard values of dtype as every dtype, in one kernel."""
    builds = [lambda x, to=to: x.cast(to) for to in dtypes.all]
    return dict(
        zip(dtypes.all, run_map(PythonBackend("PYTHON", 0), builds, [(dtype, convertible(dtype))]), strict=True)
    )


def nearest(value: Any, dtype: DType) -> float:
    """The number of a float dtype nearest to value, found by numpy in two exact steps."""
    if dtype is dtypes.bfloat16:
        whole = np.longdouble(value)
        with np.errstate(all="ignore"):
            single = np.float32(whole)
        if np.isfinite(single) and np.longdouble(single) != whole:  # to odd, so that rounding again is right
            bits = int(single.view(np.uint32)) - int(abs(np.longdouble(single)) > abs(whole))
            single = np.uint32(bits | 1).view(np.float32)
        bits = int(single.view(np.uint32))
        return float(np.uint32((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).view(np.float32))
    with np.errstate(all="ignore"):
        if dtype is dtypes.float16:
            return float(np.float16(np.float64(value)))  # integers past 2**53 are infinite either way
        return float({"float": np.float32, "double": np.float64}[dtype.name](np.longdouble(value)))


def as_text(values: list[Any]) -> list[str]:
    """Values such that zeros differ by sign and NaNs do not."""
    return ["nan" if v != v else repr(v) for v in values]


@pytest.mark.parametrize("dtype", dtypes.all, ids=lambda d: d.name)
def test_python_casts_as_the_contract_says(dtype: DType) -> None:
    """Integers wrap, floats saturate to integers with NaN as 0, and every number is rounded once to a float."""
    for to, got in casts(dtype).items():
        for value, result in zip(convertible(dtype), got, strict=True):
            where = f"{value!r} of {dtype.name} as {to.name}"
            if to.kind == "bool":
                assert result is (value != 0), where
            elif to.kind == "float":
                want = value if value != value or abs(value) == math.inf else nearest(value, to)
                assert as_text([result]) == as_text([float(want)]), where
            elif dtype.kind == "float":
                low, high = dtypes.min(to), dtypes.max(to)
                want = 0 if value != value else low if value <= low else high if value >= high else math.trunc(value)
                assert result == want, where
            else:
                assert low_bits(result, to) == low_bits(value, to), where
                assert dtypes.min(to) <= result <= dtypes.max(to), where


def low_bits(value: int, dtype: DType) -> int:
    """The bits that wrapping keeps."""
    return int(value) % 2**dtype.bits


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d.kind != "bool"], ids=lambda d: d.name)
def test_bitcast_keeps_the_bits(dtype: DType) -> None:
    """A bitcast to each dtype of the same width has the bits of its operand; NaN may become another NaN."""
    others = [d for d in dtypes.all if d.itemsize == dtype.itemsize and d.kind != "bool"]
    values = edges(dtype)
    builds = [lambda x, to=to: x.bitcast(to) for to in others]
    for to, got in zip(others, run_map(PythonBackend("PYTHON", 0), builds, [(dtype, values)]), strict=True):
        for value, result in zip(values, got, strict=True):
            if value == value and result == result:
                assert bits_of(result, to) == bits_of(value, dtype), (dtype, to, value)
