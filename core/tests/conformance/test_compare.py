"""The kit's comparison: what it says of the first difference, and that it is quick where much differs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tinygraft.conformance.compare import close, same


@pytest.mark.parametrize(("got", "want"), [([1, 2], [1, 2]), ((), ()), (b"ab", b"ab"), ([0.0], [-0.0])])
def test_equal_values_pass(got: Any, want: Any) -> None:
    """By ==."""
    same(got, want)


@pytest.mark.parametrize(("got", "want", "what", "sentence"), [
    ([1, 2, 3], [1, 5, 4], "", "2 of 3 values differ, at 1 2 and not 5"),
    ([1.5] * 9, [1.5] * 8 + [2.5], "the sums", "the sums: 1 of 9 values differ, at 8 1.5 and not 2.5"),
    ([1], [1, 2], "", "1 values and not 2"),
    (b"\x01\x02", b"\x01\x03", "", "1 of 2 values differ, at 1 2 and not 3"),
    ((1, 2), [1, 2], "", "a tuple and not a list, of equal values"),
    ([list(range(99))], [[0]], "", f"1 of 1 values differ, at 0 {str(list(range(99)))[:100]} and not [0]"),
    (list(range(10**6)), [-1] * 10**6, "", "1000000 of 1000000 values differ, at 0 0 and not -1"),
])  # fmt: skip
def test_what_differs_is_a_sentence(got: Any, want: Any, what: str, sentence: str) -> None:
    """How much, where first, what was found and what was expected."""
    with pytest.raises(AssertionError) as raised:
        same(got, want, what)
    assert str(raised.value) == sentence


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(("got", "want", "rtol"), [
    ([1.0, NAN, INF], [1.0, NAN, INF], 0.0), ([1.0, NAN, -INF], [1.0009, NAN, -INF], 1e-3), ([], [], 0.0),
    ([True, False], [True, False], 0.0), (3.0, 3.0, 1e-6),
])  # fmt: skip
def test_close_arrays_pass(got: Any, want: Any, rtol: float) -> None:
    """NaNs are alike, infinities of one sign too."""
    close(np.array(got), np.array(want), rtol)


@pytest.mark.parametrize(("got", "want", "rtol", "sentence"), [
    ([1, 2, 3], [1, 5, 9], 0.0, "2 of 3 values differ, first at (1,): got 2, expected 5"),
    ([[True], [True]], [[True], [False]], 0.0, "1 of 2 values differ, first at (1, 0): got True, expected False"),
    ([1.0, 2.1, 4.5], [1.0, 2.0, 4.0], 1e-3,
     "2 of 3 values differ by more than 0.001 of them, most at (2,): got 4.5, expected 4.0"),
    ([1.0, NAN], [1.1, 1.0], 1e-3,
     "2 of 2 values differ by more than 0.001 of them, most at (1,): got nan, expected 1.0"),
    (2.0, 1.0, 0.0, "1 of 1 values differ, first at (): got 2.0, expected 1.0"),
])  # fmt: skip
def test_arrays_that_differ_are_a_sentence(got: Any, want: Any, rtol: float, sentence: str) -> None:
    """No table: how many, and of one of them both values."""
    with pytest.raises(AssertionError) as raised:
        close(np.array(got), np.array(want), rtol)
    assert str(raised.value) == sentence
