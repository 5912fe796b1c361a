"""The kit's comparison: what it says of the first difference, and that it is quick where much differs."""

from __future__ import annotations

from typing import Any

import pytest

from tinygraft.conformance.compare import same


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
