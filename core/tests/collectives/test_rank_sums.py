"""Sums over ranks: bits, half types, wrapping."""

import numpy as np
import pytest

from tinygraft.collectives.rank_sums import combine
from tinygraft.dtype import bits_of, coerce, dtypes, of_bits


def combined(rows, op, dtype):
    """What combine writes."""
    parts = np.stack(rows)
    out = np.empty(parts.shape[1:], parts.dtype)
    combine(parts, op, dtype, out)
    return out


def test_integers_wrap():
    """Sums and products of integers wrap, as on every device."""
    rows = [np.array([200, 255], np.uint8)] * 2
    assert combined(rows, "sum", dtypes.uint8).tolist() == [144, 254]
    assert combined(rows, "prod", dtypes.uint8).tolist() == [64, 1]


def test_halves_are_summed_in_float32():
    """float16 is rounded once, at the end: 2048 + 1 + 1 + 1 + 1 is 2052 and not 2048."""
    rows = [np.array([2048], np.float16)] + [np.array([1], np.float16)] * 4
    assert combined(rows, "sum", dtypes.float16).tolist() == [2052.0]


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FC00001, 0x7F7FFFFF, 0x00000001, 0x80000000, 0x3F808000])
def test_bfloat16_rounds_as_ml_dtypes_does(bits):
    """Infinities, NaN, the greatest float, subnormal numbers, -0.0 and ties round to the nearest, ties to even."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the second opinion on bfloat16")
    from tinygraft.collectives.rank_sums import _narrowed

    value = np.array([bits], np.uint32).view(np.float32)
    found, wanted = _narrowed(value, dtypes.bfloat16).view(ml_dtypes.bfloat16), value.astype(ml_dtypes.bfloat16)
    assert np.isnan(found[0]) == np.isnan(wanted[0])
    assert np.isnan(wanted[0]) or found.tobytes() == wanted.tobytes()


ML_NAMES = {
    "fp8e4m3": "float8_e4m3fn", "fp8e5m2": "float8_e5m2",
    "fp8e4m3fnuz": "float8_e4m3fnuz", "fp8e5m2fnuz": "float8_e5m2fnuz",
}  # fmt: skip


@pytest.mark.parametrize("name", ML_NAMES)
def test_eight_bits_round_as_ml_dtypes_does(name):
    """Each number, the middle between two, and what is next to it rounds to the nearest, ties to even."""
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the second opinion on floats of 8 bits")
    from tinygraft.collectives.rank_sums import _narrowed, _widened

    dtype, like = getattr(dtypes, name), getattr(ml_dtypes, ML_NAMES[name])
    known = np.arange(256, dtype=np.uint8).view(like).astype(np.float32)
    numbers = np.sort(known[np.isfinite(known)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    near = [np.nextafter(middles, np.float32(end)) for end in (-np.inf, np.inf)]
    values = np.concatenate([numbers, middles, *near, [np.nan, 0.0, -0.0]]).astype(np.float32)
    found, wanted = _narrowed(values, dtype), values.astype(like)
    is_nan = np.isnan(wanted.astype(np.float32))
    assert (np.isnan(_widened(found, dtype)) == is_nan).all()
    assert (found == wanted.view(np.uint8))[~is_nan].all()


def test_eight_bits_past_the_largest():
    """What is past the largest number is what a cast makes of it: the largest, an infinity or NaN."""
    largest = {"fp8e4m3": 448.0, "fp8e5m2": float("inf"), "fp8e4m3fnuz": None, "fp8e5m2fnuz": None}
    for name, wanted in largest.items():
        dtype = getattr(dtypes, name)
        rows = [
            np.array([bits_of(coerce(value, dtype), dtype)], np.uint8) for value in (200.0, 240.0, 50_000.0, 50_000.0)
        ]
        value = of_bits(int(combined(rows, "sum", dtype)[0]), dtype)
        assert value == wanted if wanted else value != value


def test_eight_bits_are_summed_in_float32():
    """A sum is rounded once, at the end: 16 + 1 + 1 is 18 and not 16, and the mean of four is a quarter of it."""
    rows = [np.array([bits_of(value, dtypes.fp8e4m3)], np.uint8) for value in (16.0, 1.0, 1.0, 0.0)]
    assert of_bits(int(combined(rows, "sum", dtypes.fp8e4m3)[0]), dtypes.fp8e4m3) == 18.0
    assert of_bits(int(combined(rows, "mean", dtypes.fp8e4m3)[0]), dtypes.fp8e4m3) == 4.5


def test_complex_numbers_are_added_as_their_parts():
    """An infinite real part leaves the imaginary one as it is, in the mean too."""
    rows = [np.array([complex(np.inf, 1.0), 1 + 2j], np.complex64)] * 2
    assert combined(rows, "mean", dtypes.complex64).tolist() == [complex(np.inf, 1.0), 1 + 2j]


def test_more_than_one_block():
    """Arrays longer than a block are combined whole."""
    rows = [np.arange(100_001, dtype=np.int64) * k for k in (1, 10, 100)]
    assert (combined(rows, "sum", dtypes.int64) == np.arange(100_001) * 111).all()
    assert (combined(rows, "max", dtypes.int64) == np.arange(100_001) * 100).all()


def test_one_rank():
    """Of one rank the combination is its array, and the mean too."""
    assert combined([np.array([1.5, 2.5])], "mean", dtypes.float64).tolist() == [1.5, 2.5]


def test_out_may_be_the_first_row():
    """The result may be written over the first row."""
    parts = np.array([[1.0, 2.0], [3.0, 4.0]])
    combine(parts, "mean", dtypes.float64, parts[0])
    assert parts.tolist() == [[2.0, 3.0], [3.0, 4.0]]
