"""Bounds of nodes that are written in other operations: quotients and remainders by sign keep those of IDIV and MOD."""

from __future__ import annotations

import numpy as np
import pytest

from tensor_nodes import memory
from tinygraft.dtype import dtypes
from tinygraft.uop.uop import UOp

SIGNED = ("int8", "int16", "int32", "int64")


def written(n: UOp, c: UOp) -> tuple[UOp, UOp]:
    """Quotient and remainder of a target whose division cuts off, as rules/decompose.py writes them."""
    sign = n >> (n.dtype.bits - 1)
    quotient = (n ^ sign) // c ^ sign
    return quotient, n - quotient * c


def loaded(dtype: str) -> UOp:
    """An element of memory, of which nothing is known."""
    return memory(dtype=getattr(dtypes, dtype))


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("c", [1, 2, 12, 100])
def test_by_sign(dtype: str, c: int) -> None:
    """Of any number the remainder is below the divisor, and the quotient within the quotients of the dtype's ends."""
    n = loaded(dtype)
    quotient, remainder = written(n, n.const_like(c))
    ends = np.iinfo(dtype)
    assert (quotient.lo, quotient.hi) == (ends.min // c, ends.max // c)
    assert (remainder.lo, remainder.hi) == (0, c - 1)


def test_of_numbers_within_bounds() -> None:
    """The quotient of -12 to 11 by 4 is -3 to 2; what is within one multiple has exact bounds."""
    n = loaded("int32").maximum(-12).minimum(11)
    quotient, _ = written(n, n.const_like(4))
    assert (quotient.lo, quotient.hi) == (-3, 2)
    near = loaded("int32").maximum(-3).minimum(-1)
    _, remainder = written(near, near.const_like(4))
    assert (remainder.lo, remainder.hi) == (1, 3)


def test_every_int8() -> None:
    """What the written forms compute is the floored quotient and its remainder."""
    n = np.arange(-128, 128, dtype=np.int8)
    for c in range(1, 128):
        sign = n >> 7
        magnitude = n ^ sign
        assert (magnitude >= 0).all()
        quotient = (magnitude // np.int8(c)) ^ sign
        assert (quotient == n // np.int8(c)).all()
        remainder = n - quotient * np.int8(c)
        assert remainder.min() >= 0 and remainder.max() <= c - 1


def test_what_only_looks_alike_has_the_bounds_of_its_dtype() -> None:
    """Another shift, another number, another divisor, one that may be negative, and numbers without a sign."""
    n = loaded("int32")
    other = n + 1
    c = n.const_like(12)
    sign = n >> 31
    quotient = (n ^ sign) // c ^ sign
    whole = (dtypes.min(dtypes.int32), dtypes.max(dtypes.int32))
    shifted = n >> 30
    for node in (
        (n ^ shifted) // c ^ shifted,
        (other ^ sign) // c ^ sign,
        (n ^ sign) // n.const_like(-12) ^ sign,
        n - quotient * n.const_like(13),
        other - quotient * c,
        n ^ c,
    ):
        assert (node.lo, node.hi) == whole
