"""Defects at the edge of what a dtype holds, by their numbers in the list of findings of 2026-11-21: sums (1.10)."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes


def test_1_10_sums_and_means_of_more_elements_than_a_float_counts() -> None:
    """What is one number everywhere is summed by a product: added one by one it would stop growing at 2**24."""
    assert Tensor.ones(2**33).sum().item() == 2**33
    assert Tensor.ones(2**33).mean().item() == 1
    assert Tensor.full((2**34,), 0.5).var().item() == 0
    assert Tensor.ones(3, 2**33).sum(1).tolist() == [2**33] * 3
    assert (Tensor.ones(3, 2**33) @ Tensor.ones(2**33)).tolist() == [2**33] * 3
    rows = Tensor([[1.0, 2.0], [3.0, 4.0]]).reshape(2, 1, 2).expand(2, 2**33, 2)
    assert rows.sum((1, 2)).tolist() == [3 * 2**33, 7 * 2**33]
    assert rows.mean((0, 1)).tolist() == [2.0, 3.0]
    assert rows.max(1).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert rows.logsumexp().item() == pytest.approx(math.log(2**33) + math.log(sum(map(math.exp, (1, 2, 3, 4)))))
    assert Tensor.ones(2**40, dtype=dtypes.int64).sum().item() == 2**40


def test_1_10_the_gradient_of_an_expand_to_as_many() -> None:
    """It is their number, for a sum and in part for a mean."""
    x = Tensor([1.0, 3.0], requires_grad=True)
    wide = x.reshape(2, 1).expand(2, 2**33)
    wide.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [2**33, 2**33]
    assert wide.mean().gradient(x)[0].tolist() == [0.5, 0.5]


def test_1_10_a_sum_of_equal_values_is_what_adding_them_gives() -> None:
    """Zeros without a sign, infinities and NaN as they are; no elements give 0; halves are rounded once."""
    zero = Tensor([-0.0]).expand(5).sum().item()
    assert zero == 0 and math.copysign(1, zero) == 1
    values = Tensor([[math.inf], [-math.inf], [math.nan], [2.0]]).expand(4, 3)
    np.testing.assert_array_equal(values.sum(1).numpy(), [math.inf, -math.inf, math.nan, 6.0])
    assert Tensor([math.inf]).reshape(1, 1).expand(3, 0).sum().item() == 0
    assert Tensor([0.0, 1.0], dtype="half").reshape(2, 1).expand(2, 2**17).sum(1).tolist() == [0.0, math.inf]
    assert Tensor([7], dtype="int32").expand(2**31).sum().item() == (7 * 2**31 + 2**31) % 2**32 - 2**31
    assert Tensor([3.0]).expand(4).prod().item() == 81
    assert Tensor([True, False]).reshape(2, 1).expand(2, 2**33).any(1).tolist() == [True, False]


def test_1_10_a_count_that_32_bits_do_not_hold_is_of_64() -> None:
    """The sum of 2**31 bools was negative; small integers are accumulated in 64 bits where they could exceed 32."""
    trues = Tensor.ones(2**31, dtype=dtypes.bool)
    assert (trues.sum().item(), trues.sum().dtype) == (2**31, dtypes.int64)
    assert (trues[1:].sum().item(), trues[1:].sum().dtype) == (2**31 - 1, dtypes.int32)
    assert Tensor.ones(2**33).count_nonzero().item() == 2**33
    assert Tensor.ones(2**31).nanmean().item() == 1
    for dtype, least in (("int8", 2**24), ("uint8", 16843009), ("int16", 65536), ("uint16", 65537)):
        few, lowest = dtypes.uint32 if dtype[0] == "u" else dtypes.int32, getattr(dtypes, dtype).min
        most = Tensor.full((least,), getattr(dtypes, dtype).max, dtype=dtype)
        assert (most.sum().item(), most.sum().dtype) == (least * most.dtype.max, few)
        many = Tensor.full((least + 1,), lowest or most.dtype.max, dtype=dtype)
        assert many.sum().item() == (least + 1) * (lowest or most.dtype.max)
        assert many.sum().dtype is getattr(dtypes, few.name.replace("int", "long"))


SMALL = {"int8": dtypes.int32, "int16": dtypes.int32, "uint8": dtypes.uint32, "uint16": dtypes.uint32}


@pytest.mark.parametrize("name", SMALL)
def test_1_18_products_of_small_integers_have_their_dtype(name: str) -> None:
    """`int8 @ int8` was int32: it is accumulated so and wraps, as in NumPy and PyTorch, unless a dtype is given."""
    a = np.array([[100, 120], [99, -128 if name[0] == "i" else 200]]).astype(name)
    ours, matrix = Tensor(a), "ij,jk->ik"
    for found, expected in (
        (ours @ ours, a @ a),
        (ours.dot(ours[0]), a @ a[0]),
        (ours.linear(ours, ours[0]), a @ a + a[0]),
        (Tensor.einsum(matrix, ours, ours), np.einsum(matrix, a, a)),
        (ours.tensordot(ours, 1), np.tensordot(a, a, 1)),
        (ours.inner(ours), np.inner(a, a)),
        (ours.vecdot(ours), (a * a).sum(-1, dtype=name)),
        (ours[None].bmm(ours[None])[0], a @ a),
        (ours[None, None].conv2d(ours[None, None])[0, 0], (a * a).sum(keepdims=True, dtype=name)),
    ):
        assert found.dtype.name == ours.dtype.name
        np.testing.assert_array_equal(found.numpy(), expected)
    wide = ours.matmul(ours, dtype="int64")
    assert wide.dtype is dtypes.int64
    np.testing.assert_array_equal(wide.numpy(), a.astype("int64") @ a.astype("int64"))
    assert Tensor.einsum(matrix, ours, ours, dtype="int32").dtype is dtypes.int32


def test_1_18_what_reductions_accumulate_in_is_as_the_page_says() -> None:
    """docs/tensor.md has a table of it."""
    page = (Path(__file__).parents[2] / "docs" / "tensor.md").read_text(encoding="utf-8")
    assert "## What a reduction accumulates in" in page
    wider: dict[str, Any] = {"bool": dtypes.int32, **SMALL}
    for name in ("bool", *SMALL, "int32", "int64", "uint32", "uint64", "half", "bfloat16", "float32", "float64"):
        x = Tensor.ones(2, 2, dtype=name)
        inexact = x.dtype if x.is_floating_point() else dtypes.float32
        for found in (x.sum(), x.prod(), x.cumsum(0), x.cumprod(0)):
            assert found.dtype is wider.get(name, x.dtype)
        for found in (x @ x, Tensor.einsum("ij,ij->", x, x), x.vecdot(x), x.tensordot(x)):
            assert found.dtype is (dtypes.int32 if name == "bool" else x.dtype)
        for found in (x.mean(), x.var(), x.std(), x.softmax()):
            assert found.dtype is inexact
        assert x.max().dtype is x.dtype and x.sort()[0].dtype is x.dtype
    many = Tensor.ones(4096, dtype="half")
    assert (many.sum().item(), (many @ many).item(), many.cumsum(0)[-1].item()) == (4096, 4096, 4096)
