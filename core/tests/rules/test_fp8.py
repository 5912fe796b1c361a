"""fp8: four formats of eight bits on devices that know none of them, against PyTorch where it is installed."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, Tensor, dtypes
from tinygraft.dtype import FORMATS, DType, bits_of, coerce, of_bits, promote, values_of
from tinygraft.nn.state import safe_load, safe_save

FP8 = pytest.mark.parametrize("dtype", dtypes.fp8s, ids=lambda d: d.name)
TORCH = {
    dtypes.fp8e4m3: "float8_e4m3fn", dtypes.fp8e5m2: "float8_e5m2", dtypes.fp8e4m3fnuz: "float8_e4m3fnuz",
    dtypes.fp8e5m2fnuz: "float8_e5m2fnuz",
}  # fmt: skip
BYTES = np.arange(256, dtype=np.uint8)


@pytest.fixture(autouse=True, params=["default", "PYTHON"])
def device(request: pytest.FixtureRequest) -> Iterator[None]:
    """On the device that is chosen, and on the interpreter."""
    with Context(DEV=Device.DEFAULT if request.param == "default" else request.param):
        yield


def numbers(dtype: DType) -> np.ndarray[Any, Any]:
    """float32s around every value of a format, halfway between neighbours, tiny, huge and special ones."""
    values = sorted({abs(v) for v in values_of(dtype) if math.isfinite(v)})
    halfway = [(a + b) / 2 for a, b in itertools.pairwise(values)]
    r = random.Random(3)
    near = [x * (1 + s * 2**-20) for x in (*values, *halfway) for s in (-1, 0, 1)]
    far = [FORMATS[dtype].largest * s for s in (1.03, 1.0625, 1.07, 1.125, 2.0, 1e6)] + [
        r.uniform(0, 600) for _ in range(99)
    ]
    found = [*near, *far, values[1] / 4, 2**-140, 1e38, math.inf]
    return np.array([*found, *(-x for x in found), math.nan], np.float32)


@FP8
def test_casts_round_once_to_nearest_even(dtype: DType) -> None:
    """From float32 as coerce says, the bits of zeros included; back exactly; and as PyTorch does."""
    x = numbers(dtype)
    found = Tensor(x).cast(dtype).bitcast(dtypes.uint8).numpy()
    wanted = np.array([bits_of(coerce(float(v), dtype), dtype) for v in x], np.uint8)
    np.testing.assert_array_equal(found, wanted)
    torch = pytest.importorskip("torch")
    theirs = torch.tensor(x).to(getattr(torch, TORCH[dtype]))
    known = ~np.isnan(x)
    np.testing.assert_array_equal(found[known], theirs.view(torch.uint8).numpy()[known])
    np.testing.assert_array_equal(Tensor(x).cast(dtype).float().numpy(), theirs.float().numpy())


@FP8
def test_every_byte_is_a_value(dtype: DType) -> None:
    """Bits come in and out as they are; read as numbers they are float32s; tolist, item and a half agree."""
    t = Tensor(BYTES).bitcast(dtype)
    values = np.array(values_of(dtype), np.float32)
    assert (t.dtype, t.element_size()) == (dtype, 1)
    np.testing.assert_array_equal(t.bitcast(dtypes.int8).numpy(), BYTES.view(np.int8))
    np.testing.assert_array_equal(t.numpy(), values)
    np.testing.assert_array_equal(t.double().numpy(), values.astype(np.float64))
    np.testing.assert_array_equal(t.half().float().numpy(), values.astype(np.float16).astype(np.float32))
    assert Tensor([0.1, -2.5], dtype=dtype).tolist() == [coerce(0.1, dtype), -2.5]
    assert Tensor(3.3, dtype=dtype).item() == (3.25 if FORMATS[dtype].mantissa == 3 else 3.5)
    assert all(bits_of(of_bits(bits, dtype), dtype) == bits for bits in range(256) if values[bits] == values[bits])


@FP8
def test_other_dtypes_to_and_from(dtype: DType) -> None:
    """Through float32 without rounding twice; integers and bools; to integers as every float does."""
    tie = of_bits(bits_of(1.0, dtype) + 1, dtype)
    barely = (1 + tie) / 2 + 2.0**-40  # a float32 would be the tie itself, which rounds to 1
    assert Tensor([barely], dtype=dtypes.double).cast(dtype).tolist() == [tie]
    assert Tensor([0, 3, -5, 10**6]).cast(dtype).tolist()[:3] == [0.0, 3.0, -5.0]
    assert Tensor([True, False]).cast(dtype).tolist() == [1.0, 0.0]
    assert Tensor([2.5, -2.5, math.nan], dtype=dtype).int().tolist() == [2, -2, 0]
    assert Tensor([0.0, 2.0], dtype=dtype).bool().tolist() == [False, True]


@FP8
def test_arithmetic_is_rounded_after_each_operation(dtype: DType) -> None:
    """As if the device had the format: the float32 result of two of them, rounded."""
    a, b = Tensor(np.repeat(BYTES, 4)).bitcast(dtype), Tensor(np.tile(BYTES[::7], 28)[:1024]).bitcast(dtype)
    x, y = a.numpy(), b.numpy()
    with np.errstate(all="ignore"):
        for function in (lambda a, b: a + b, lambda a, b: a * b, lambda a, b: a / b):
            found = function(a, b)
            assert found.dtype is dtype
            exact = function(x, y).astype(np.float32)
            np.testing.assert_array_equal(found.numpy(), [np.float32(coerce(float(v), dtype)) for v in exact])
    finite = np.isfinite(x) & np.isfinite(y)
    np.testing.assert_array_equal((a < b).numpy()[finite], (x < y)[finite])
    np.testing.assert_array_equal((-a).numpy()[finite], -x[finite])


@FP8
def test_sums_are_kept_in_float32(dtype: DType) -> None:
    """A sum or product of matrices is rounded at its end; the greatest is exact; gradients have the dtype."""
    ones = Tensor.ones(40, 40, dtype=dtype)
    assert ones.sum(0).tolist() == [40.0] * 40
    assert (ones @ ones).dtype is dtype
    assert (ones @ ones).tolist() == [[40.0] * 40] * 40
    x = Tensor([1.0, -3.0, 2.0], dtype=dtype)
    assert (x.max().item(), x.argmin().item(), x.sort()[0].tolist()) == (2.0, 1, [-3.0, 1.0, 2.0])
    assert x.cumsum(0).tolist() == [1.0, -2.0, 0.0]
    y = Tensor([1.0, 2.0], dtype=dtype, requires_grad=True)
    (y.float() * y.float()).sum().backward()
    assert y.grad is not None
    assert (y.grad.dtype, y.grad.tolist()) == (dtype, [2.0, 4.0])


@FP8
def test_the_rest_of_the_surface(dtype: DType) -> None:
    """Creation, random numbers, movement, assignment, indexing and files."""
    assert Tensor.full((2,), 2.0, dtype=dtype).tolist() == [2.0, 2.0]
    assert Tensor.arange(4, dtype=dtype).tolist() == [0.0, 1.0, 2.0, 3.0]
    drawn = Tensor.rand(200, dtype=dtype).numpy()
    assert 0 <= drawn.min() < 0.2 < 0.7 < drawn.max() < 1
    t = Tensor([[1.0, 2.0], [3.0, 4.0]], dtype=dtype)
    assert t.T.contiguous().pad(((0, 1), (0, 0))).tolist() == [[1.0, 3.0], [2.0, 4.0], [0.0, 0.0]]
    assert t[Tensor([1, 0])].cat(t).tolist() == [[3.0, 4.0], [1.0, 2.0], [1.0, 2.0], [3.0, 4.0]]
    t[0] = 7.0
    assert t.tolist() == [[7.0, 7.0], [3.0, 4.0]]
    assert (t > 3).where(t, 0).dtype is dtype


@FP8
def test_safetensors_keep_the_bits(dtype: DType, tmp_path: Any) -> None:
    """Every byte comes back."""
    safe_save({"t": Tensor(BYTES).bitcast(dtype)}, str(tmp_path / "t.safetensors"))
    back = safe_load(str(tmp_path / "t.safetensors"))["t"]
    assert back.dtype is dtype
    np.testing.assert_array_equal(back.bitcast(dtypes.uint8).numpy(), BYTES)


def test_promotion() -> None:
    """Below the half types and above all integers; two formats meet in half."""
    a, b = dtypes.fp8e4m3, dtypes.fp8e5m2
    assert (promote(a, a), promote(a, b), promote(a, dtypes.int64)) == (a, dtypes.half, a)
    assert (promote(a, dtypes.bfloat16), promote(a, dtypes.float32)) == (dtypes.bfloat16, dtypes.float32)
    assert ((Tensor([1.0], dtype=a) * 2.5).dtype, (Tensor([1.0], dtype=a) + 1).dtype) == (a, a)
