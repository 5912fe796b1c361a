"""Numbers out of range, by their numbers in the list of findings of 2026-11-21: wraps (1.11) and parameters (1.18)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, array_api, dtypes, nn
from tinygraft.errors import NumberOutOfRange

INT8 = Tensor([1, 2], dtype="int8")
MASK = Tensor([True, False])


def test_1_11_constructors_without_a_dtype_widen() -> None:
    """full, arange and lists take a dtype that holds what they are given."""
    for value, dtype in (
        (2**31, dtypes.int64),
        (-(2**31) - 1, dtypes.int64),
        (2**40, dtypes.int64),
        (2**63, dtypes.uint64),
    ):
        for made in (Tensor.full((2,), value), Tensor([value, value]), Tensor(value).expand(2)):
            assert (made.tolist(), made.dtype) == ([value, value], dtype)
    assert Tensor.full((2,), 2**31 - 1).dtype is dtypes.int32
    ranges = [(2**31, 2**31 + 3), (2**33, 2**33 + 2), (-(2**31) - 2, -(2**31)), (0, 2**40, 2**39), (2**63, 2**63 + 2)]
    ranges += [(2**64 - 2, 2**64), (-(2**63), -(2**63) + 2), (2**63 + 4, 2**63, -2), (2**31 - 2, 2**31)]
    for bounds in ranges:
        assert Tensor.arange(*bounds).tolist() == list(range(*bounds))
    assert Tensor.arange(2**31 - 2, 2**31).dtype is dtypes.int32
    assert Tensor.arange(-1, 2**64 - 1, 2**63).tolist() == [-1, 2**63 - 1]
    with Context(DEFAULT_INT="int8"):
        assert Tensor.arange(129)[-1].item() == 128
    for far in (lambda: Tensor.full((2,), 2**80), lambda: Tensor([2**80]), lambda: Tensor.arange(0, 2**65, 2**64)):
        with pytest.raises(
            NumberOutOfRange, match="^[0-9]+ is out of range for every integer dtype: dtypes.long holds -"
        ):
            far()


@pytest.mark.parametrize(
    "number",
    [
        lambda: Tensor.full((2,), 300, dtype="int8"),
        lambda: Tensor.full((2,), -1, dtype="uint8"),
        lambda: Tensor([3, 300], dtype="int8"),
        lambda: Tensor([[3, 300], [0, 1]], dtype="int8"),
        lambda: Tensor(300, dtype="int8"),
        lambda: INT8.full_like(300),
        lambda: INT8.new_full((2,), 300),
        lambda: Tensor.arange(129, dtype="int8"),
        lambda: Tensor.arange(0, -130, -1, dtype="int8"),
        lambda: Tensor.arange(-1, 3, dtype="uint8"),
        lambda: Tensor.linspace(0, 300, 3, dtype="int8"),
        lambda: Tensor.randint(3, high=300, dtype="uint8"),
        lambda: Tensor.randint(3, high=2**40),
        lambda: Tensor.randperm(257, dtype="uint8"),
        lambda: MASK.where(2**40, 1),
        lambda: MASK.where(2**40, Tensor([1, 2])),
        lambda: MASK.where(INT8, -129),
        lambda: INT8.masked_fill(MASK, 300),
        lambda: INT8.pad((1, 1), value=300),
        lambda: INT8.index_fill(0, Tensor([0]), 300),
        lambda: INT8.scatter(0, Tensor([0]), 300),
        lambda: INT8.contiguous().assign([300, 1]),
        lambda: INT8.contiguous().__setitem__(0, 300),
        lambda: INT8.contiguous().__setitem__(MASK, 300),
        lambda: INT8 + 300,
        lambda: 300 - INT8,
        lambda: INT8 * -300,
        lambda: Tensor([1]) + 2**31,
        lambda: Tensor([True]) + 2**31,
        lambda: Tensor([1], dtype="uint8") * -1,
        lambda: INT8 // 300,
        lambda: INT8 % 300,
        lambda: INT8.maximum(300),
        lambda: INT8.minimum(-300),
        lambda: INT8.clamp(300),
        lambda: INT8.pow(300),
        lambda: INT8.contiguous().__iadd__(300),
    ],
)
def test_1_11_a_dtype_asked_for_or_there_is_kept(number: Callable[[], Any]) -> None:
    """A number that it does not hold is refused, where it wrapped to another one."""
    with pytest.raises(NumberOutOfRange, match=r"^-?[0-9]+ is out of range for dtypes\.\w+, which holds -?[0-9]+ to "):
        number()


def test_1_11_the_error_says_where_and_what_to_do() -> None:
    """The line of the tensor, and a dtype that holds the number."""
    with pytest.raises(OverflowError) as caught:
        INT8 + 300
    assert re.fullmatch(
        r"300 is out of range for dtypes.char, which holds -128 to 127\n  made at \S+:\d+\n"
        r"  hint: a number takes the dtype of the tensors beside it, or the default one: cast them to 'int'",
        str(caught.value),
    )


def test_1_11_bits_wrap_and_what_a_bound_decides_is_decided() -> None:
    """Masks are bits, shifts by more than the width give 0 or the sign, comparisons and bounds need no wrapping."""
    assert (Tensor([-1]) & 0xFFFFFFFF).tolist() == [-1]
    assert (0xFF & Tensor([-1], dtype="int8")).tolist() == [-1]
    assert (Tensor([1], dtype="uint8") | -2).tolist() == [255]
    assert (Tensor([1]) ^ 2**40).tolist() == [1]
    for amount in (8, 255, 256, 300, 2**70):
        assert (Tensor([3], dtype="uint8") << amount).tolist() == [0]
        assert (Tensor([3, -3], dtype="int8") >> amount).tolist() == [0, -1]
    assert (Tensor([3, -3], dtype="int8") >> 1).tolist() == [1, -2]
    assert (INT8 < 300).tolist() == [True, True] and (INT8 == 300).tolist() == [False, False]
    assert INT8.clamp(-300, 300).tolist() == [1, 2] and INT8.maximum(-300).tolist() == [1, 2]
    assert INT8.isclose(300).tolist() == [False, False]
    assert (INT8 / 400).tolist() == pytest.approx([1 / 400, 2 / 400])
    assert Tensor([300.7, -5.0]).cast("uint8").tolist() == [255, 0]
    assert Tensor([300, 0], dtype="bool").tolist() == [True, False]
    clamped = INT8.contiguous()
    clamped.clamp(-300, 300)[0] = 7
    assert clamped.tolist() == [1, 2]


def test_1_11_drawing_from_all_of_a_dtype() -> None:
    """The distance of the bounds may be more than the dtype holds: it saturated, and what is above never came."""
    for dtype in ("int8", "uint8"):
        limits = np.iinfo(dtype)
        drawn = Tensor.randint(4000, low=int(limits.min), high=int(limits.max) + 1, dtype=dtype).numpy()
        assert (drawn.min(), drawn.max()) == (limits.min, limits.max)
    for dtype in ("int32", "int64", "uint64"):
        limits = np.iinfo(dtype)
        drawn = Tensor.randint(1000, low=int(limits.min), high=int(limits.max) + 1, dtype=dtype).numpy()
        assert drawn.min() < limits.min + limits.max / 50 < limits.max - limits.max / 50 < drawn.max()


def test_1_18_integers_have_no_negative_powers() -> None:
    """One that is known raises, as in NumPy and PyTorch, where [2, 3] ** -1 was [0, 0]."""
    ints = Tensor([2, 3])
    for power in (
        lambda: ints**-1,
        lambda: ints.pow(-2),
        lambda: ints ** Tensor(-1),
        lambda: Tensor([True]) ** -1,
        lambda: 2 ** Tensor(-1),
        lambda: ints.contiguous().__ipow__(-1),
    ):
        with pytest.raises(
            ValueError, match=r"^integers have no powers of -\d\n  made at \S+\n  hint: raise floats, as"
        ):
            power()
    assert (ints**-1.0).tolist() == pytest.approx([1 / 2, 1 / 3])
    assert (ints.float() ** -1).tolist() == pytest.approx([1 / 2, 1 / 3])
    assert (ints ** Tensor([2, 0])).tolist() == [4, 1] and (2**ints).tolist() == [4, 8]


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda p: nn.optim.SGD(p, lr=-0.1), "SGD needs lr to be at least 0, got -0.1"),
        (lambda p: nn.optim.SGD(p, lr=float("nan")), "SGD needs lr to be at least 0, got nan"),
        (lambda p: nn.optim.SGD(p, momentum=-0.1), "SGD needs momentum to be at least 0, got -0.1"),
        (lambda p: nn.optim.SGD(p, weight_decay=-0.1), "SGD needs weight_decay to be at least 0, got -0.1"),
        (lambda p: nn.optim.LARS(p, tcoef=-1), "LARS needs tcoef to be at least 0, got -1"),
        (lambda p: nn.optim.Adam(p, lr=-1), "Adam needs lr to be at least 0, got -1"),
        (lambda p: nn.optim.Adam(p, b1=1.0), "Adam needs b1 to be from 0 to below 1, got 1.0"),
        (lambda p: nn.optim.AdamW(p, b2=-0.5), "AdamW needs b2 to be from 0 to below 1, got -0.5"),
        (lambda p: nn.optim.AdamW(p, eps=-1e-8), "AdamW needs eps to be at least 0, got -1e-08"),
        (lambda p: nn.optim.LAMB(p, weight_decay=-1), "LAMB needs weight_decay to be at least 0, got -1"),
        (lambda p: nn.optim.Muon(p, momentum=-1), "Muon needs momentum to be at least 0, got -1"),
        (lambda p: Tensor.normal(2, std=-1), "normal needs a std of at least 0, got -1"),
        (
            lambda p: Tensor.uniform(2, low=5, high=3),
            "uniform needs a low that is not above high, got low=5 and high=3",
        ),
    ],
)
def test_1_18_numbers_that_an_optimizer_or_a_distribution_cannot_have(made: Callable[[Any], Any], message: str) -> None:
    """They are refused where they are given."""
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        made([Tensor([1.0], requires_grad=True)])


def test_1_18_weights_that_are_no_distribution() -> None:
    """multinomial raises where weights have values, and gives no index of those that are still to be computed."""
    rows = [[1.0, 2.0], [-1.0, 2.0], [0.0, 0.0], [float("nan"), 1.0], [float("inf"), 1.0]]
    founds = ["-1.0", "0 above 0", "nan", "inf"]
    for row, found in zip(rows[1:], founds, strict=True):
        for weights in (Tensor(row), Tensor([rows[0], row])):
            with pytest.raises(ValueError, match=rf"row {weights.ndim - 1} of shape \(.*\) has {found}\n  made at"):
                weights.multinomial(1)
    with pytest.raises(ValueError, match="and 2 of them above 0; row 0 of shape .* has 1 above 0"):
        Tensor([0.0, 1.0]).multinomial(2)
    assert Tensor([0.0, 1.0]).multinomial(2, replacement=True).tolist() == [1, 1]
    for drawn in ((Tensor(rows) * 1).multinomial(1), (Tensor(rows) * 1).multinomial(2)):
        assert drawn[0].max().item() < 2 and drawn[1:].min().item() == 2
    with Context(CHECK_INDEX=1), pytest.raises(ValueError, match="has -1.0"):
        (Tensor(rows[1]) * 1).multinomial(1)
    draw = TinyJit(lambda w: w.multinomial(1).realize())
    assert [draw(Tensor([0.0, 1.0]).realize()).item() for _ in range(4)] == [1] * 4 and draw.captured


def test_1_18_pixels_are_rounded() -> None:
    """uint8 interpolated linearly was cut; PyTorch rounds a half up."""
    image = Tensor([[[10, 13]]], dtype="uint8")
    assert image.interpolate((4,), mode="linear").tolist() == [[[10, 11, 12, 13]]]
    assert Tensor([[[0, 1]]], dtype="uint8").interpolate((3,), mode="linear", align_corners=True).tolist() == [
        [[0, 1, 1]]
    ]
    assert Tensor([[[[0, 255, 0, 255]]]], dtype="uint8").interpolate((1, 8), mode="bicubic").max().item() == 255
    assert Tensor([[[1, 2]]], dtype="uint8").interpolate((1,), mode="area").tolist() == [[[2]]]
    assert image.interpolate((4,), mode="nearest").tolist() == [[[10, 10, 13, 13]]]
    assert Tensor([[[10, 13]]]).interpolate((4,), mode="linear").tolist() == [[[10, 10, 12, 13]]]


def test_1_18_the_sign_of_a_nan_of_python() -> None:
    """It has none, alone, in a list and computed; that of -nan is kept."""
    nan = float("nan")
    for value, sign in ((nan, False), (-nan, True)):
        for made in (Tensor(value), Tensor([value])[0], Tensor([value]).contiguous()[0], Tensor.full((1,), value)[0]):
            assert made.signbit().item() is sign
            assert made.realize().signbit().item() is sign


@pytest.mark.parametrize("k", [2**31, 2**40, -(2**31), -(2**40), 2**63, 3, -2, 0])
def test_1_11_diagonals_beyond_the_matrix(k: int) -> None:
    """One far out is as good as one beside it, as in NumPy."""
    x = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    assert Tensor(x).tril(k).tolist() == np.tril(x, k).tolist()
    assert Tensor(x).triu(k).tolist() == np.triu(x, k).tolist()
    assert array_api.eye(2, 3, k=k).tolist() == np.eye(2, 3, k=k).tolist()
    assert array_api.eye(0, k=k).shape == (0, 0)
