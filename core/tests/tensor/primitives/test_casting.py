"""Casts and bitcasts between all dtypes, at the values where they could go wrong."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from graph_numpy import NAMES, values
from tinygraft import Tensor, dtypes
from tinygraft.dtype import coerce
from tinygraft.errors import DTypeError, ShapeError

EDGES: dict[str, list[Any]] = {
    "bool": [False, True],
    "uint": [0, 1, 127, 128, 200, 255],
    "int": [0, 1, -1, 127, -128, 100],
    "float": [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 127.9, -128.9, 300.0, 65504.0, -65504.0, math.inf, -math.inf, math.nan],
}


@pytest.mark.parametrize("target", dtypes.all, ids=str)
@pytest.mark.parametrize("source", dtypes.all, ids=str)
def test_casts_follow_the_rules_of_dtype(source: Any, target: Any) -> None:
    """Every pair of dtypes: integers wrap, floats truncate and saturate, NaN gives 0, rounding is to nearest even."""
    given = [coerce(v, source) for v in EDGES[source.kind]]
    found = Tensor(given, dtype=source).contiguous().cast(target)
    assert found.dtype is target
    expected = [coerce(v, target) for v in given]
    for a, b in zip(found.tolist(), expected, strict=True):
        assert a == b or (a != a and b != b)
        assert type(a) is type(b)
        assert not isinstance(a, float) or math.copysign(1, a) == math.copysign(1, b) or a != a


def test_cast_methods_are_named_after_their_dtypes() -> None:
    """float, double, half, bfloat16, int, long, short and bool cast to those."""
    t = Tensor([0, 2])
    for name in ("float", "double", "half", "bfloat16", "int", "long", "short", "bool"):
        assert getattr(t, name)().dtype is getattr(dtypes, name)
    assert t.cast("uint8").dtype is dtypes.uint8
    assert t.bool().tolist() == [False, True]
    with pytest.raises(DTypeError, match="there is no dtype 'floaty'"):
        t.cast("floaty")


@pytest.mark.parametrize(
    "source", [d for d in dtypes.all if d is not dtypes.bool and d is not dtypes.bfloat16], ids=str
)
def test_bitcast_reads_the_same_bytes(source: Any) -> None:
    """A bitcast to any width has the bytes that numpy's view has, the low ones first."""
    names = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]
    raw = np.random.default_rng(3).integers(0, 256, (2, 16), np.uint8)
    kind = NAMES[source]
    x = raw.view(kind)
    for name in names:
        found = Tensor(x).bitcast(name).numpy()
        assert found.dtype == np.dtype(name)
        assert found.shape == x.view(name).shape
        assert found.tobytes() == x.view(name).tobytes()


def test_bitcast_of_bfloat16_is_the_top_half_of_float32() -> None:
    """bfloat16 and uint16 share bits; a float32 is two of them, the low half first."""
    assert Tensor([1.0, -2.0], dtype="bfloat16").bitcast("uint16").tolist() == [0x3F80, 0xC000]
    assert Tensor([0x3F80], dtype="uint16").bitcast("bfloat16").tolist() == [1.0]
    assert Tensor([1.0]).bitcast("bfloat16").tolist() == [0.0, 1.0]


def test_bitcast_keeps_strange_bits() -> None:
    """Payloads of quiet NaNs and the sign of zero survive there and back."""
    bits = [0x7FC00001, 0xFFE01234, 0x80000000, 1]
    t = Tensor(bits, dtype="uint32")
    np.testing.assert_array_equal(values(t.bitcast("int32")).view(np.uint32), bits)
    assert t.bitcast("float32").contiguous().bitcast("uint32").tolist() == bits


def test_bitcast_errors_say_what_does_not_fit() -> None:
    """Bools, scalars of other widths and axes that are no multiple are refused."""
    with pytest.raises(DTypeError, match=r"cannot bitcast dtypes.bool to dtypes.uchar: a bool has no bits to share"):
        Tensor([True]).bitcast("uint8")
    with pytest.raises(ShapeError, match=r"cannot bitcast a tensor without axes from dtypes.float to dtypes.short"):
        Tensor(1.0).bitcast("int16")
    with pytest.raises(ShapeError, match=r"cannot bitcast \(3,\) of dtypes.uchar to dtypes.uint: the last axis is no"):
        Tensor([1, 2, 3], dtype="uint8").bitcast("float32")
    assert Tensor.ones(0, dtype="uint8").bitcast("float32").shape == (0,)


def test_dtypes_by_the_names_of_other_libraries() -> None:
    """numpy's types and dtypes, PyTorch's by what they print as, and Python's types, which are the default ones."""

    class Torch:
        def __repr__(self) -> str:
            return "torch.bfloat16"

    for like, dtype in (
        (np.float32, dtypes.float32), (np.dtype("int64"), dtypes.int64), (np.uint8, dtypes.uint8),
        (np.dtype(">f8"), dtypes.float64), (np.bool_, dtypes.bool), (Torch(), dtypes.bfloat16), (float, dtypes.float),
        (int, dtypes.int), (bool, dtypes.bool), (np.complex64, dtypes.complex64), (complex, dtypes.complex64),
    ):  # fmt: skip
        assert Tensor([1, 0], dtype=like).dtype == dtype
        assert Tensor([1, 0]).cast(like).dtype == dtype
    for wrong in (np.clongdouble, object, 7, None):
        with pytest.raises(DTypeError, match="there is no dtype"):
            Tensor([1, 0]).cast(wrong)
