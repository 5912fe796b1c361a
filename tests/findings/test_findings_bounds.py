"""Numbers out of bounds that gave a wrong value in silence, or an error of Python: findings of 2026-11-24."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, Variable, array_api, dtypes, nn
from tinygraft.errors import AxisError, DTypeError, IndexOutOfRange, NumberOutOfRange, ShapeError

STEPS = Tensor(np.linspace(-1, 1, 18, dtype=np.float32).reshape(3, 2, 3))  # 3 steps, 2 samples, 3 classes


def _ctc(ends: Any, sizes: Any, targets: Any = ((1, 2), (1, 0)), reduction: str = "none") -> Tensor:
    return STEPS.log_softmax(2).ctc_loss(Tensor(targets), ends, sizes, reduction=reduction)


@pytest.mark.parametrize("given", [list, tuple, np.array], ids=["list", "tuple", "array"])
def test_lengths_that_are_known_raise(given: Callable[[list[int]], Any]) -> None:
    """More than there are steps or labels, and less than none; 7 of 3 steps counted as 3, 3 of 2 labels as no path."""
    for ends in ([4, 3], [3, -1], [3, 2**40]):
        with pytest.raises(
            IndexOutOfRange, match=r"^ctc_loss needs input_lengths from 0 to 3, got [0-9-]+, at \(.,\)\n"
        ):
            _ctc(given(ends), [2, 1])
    for sizes in ([3, 1], [2, -1]):
        with pytest.raises(
            IndexOutOfRange,
            match=r"^ctc_loss needs target_lengths from 0 to 2, got -?\d, at \(.,\)\n  lengths made at ",
        ):
            _ctc([3, 3], given(sizes))
    with pytest.raises(IndexOutOfRange, match=r"target_lengths from 0 to 2, got -1, at \(0,\)"):
        _ctc([3, 3], given([-1, 3]), targets=(1, 2))


def test_lengths_of_tensors_make_their_sample_nan() -> None:
    """Those to be computed (`+ 0`): the other sample is as it was; in memory, and with CHECK_INDEX=1, they raise."""
    good = _ctc([3, 3], [2, 1]).tolist()
    for ends, sizes, name in (([7, 3], [2, 1], "input"), ([-1, 3], [2, 1], "input"), ([3, 3], [5, 1], "target")):
        found = _ctc(Tensor(ends) + 0, Tensor(sizes) + 0)
        assert math.isnan(found[0].item()) and found[1].item() == good[1]
        assert math.isnan(_ctc(Tensor(ends) + 0, Tensor(sizes) + 0, reduction="mean").item())
        with pytest.raises(IndexOutOfRange, match=rf"^ctc_loss needs {name}_lengths from 0 to \d, got .*, at \(0,\)"):
            _ctc(Tensor(ends), Tensor(sizes))
        with Context(CHECK_INDEX=1):
            assert _ctc(Tensor([3, 3]), Tensor([2, 1])).tolist() == good
            with pytest.raises(
                IndexOutOfRange, match=rf"^ctc_loss needs {name}_lengths from 0 to \d, got .*, at \(0,\)"
            ):
                _ctc(Tensor(ends) + 0, Tensor(sizes) + 0)
    with pytest.raises(IndexOutOfRange, match="input_lengths from 0 to 3, got 9"):
        _ctc(Tensor(9).expand(2), [2, 1])


def test_lengths_of_a_captured_function() -> None:
    """Lengths that change between the calls are checked in each: NaN, and good ones are good."""

    @TinyJit
    def loss(ends: Tensor) -> Tensor:
        return _ctc(ends, [2, 1]).realize()

    assert [math.isnan(loss(Tensor([n, 3]).realize())[0].item()) for n in (3, 2, 3, 4, 3)] == [0, 0, 0, 1, 0]
    assert loss.captured


def test_a_sequence_without_steps() -> None:
    """It holds no labels for certain, and no others: as PyTorch has it. It counted as one step."""
    assert _ctc([0, 0], [0, 1]).tolist() == [0.0, math.inf]
    assert Tensor.zeros(0, 2, 3).ctc_loss(Tensor([[1], [1]]), [0, 0], [0, 1], reduction="none").tolist() == [
        0,
        math.inf,
    ]


def test_lengths_are_integers() -> None:
    """Other numbers and other kinds of data are refused by name, and so is another number of them."""
    for wrong in ([1.5, 2.0], None, "ab", Tensor([1.0, 2.0]), [True, True]):
        with pytest.raises(DTypeError, match="^ctc_loss needs input_lengths of integers, got "):
            _ctc(wrong, [2, 1])
    with pytest.raises(ShapeError, match=r"^ctc_loss needs target_lengths of 2 integers, got shape \(3,\)$"):
        _ctc([3, 3], [1, 1, 1])


def test_one_hot_of_no_class() -> None:
    """All 0 where it is to be computed; an error where it is known, and with CHECK_INDEX=1, which let it pass."""
    assert (Tensor([0, 3, -1]) + 0).one_hot(3).tolist() == [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
    for label, place in (
        (Tensor(3), ""),
        (Tensor(-1), ""),
        (Tensor([0, 3, -1]), r", at \(1,\) of labels of .* \(3,\),"),
        (Tensor.full((2,), 7), r", at \(0,\) of labels of .* \(2,\),"),
    ):
        with pytest.raises(
            IndexOutOfRange, match=rf"^label -?\d{place} is no class: one_hot has 3\n  labels made at \S+$"
        ):
            label.one_hot(3)
    with Context(CHECK_INDEX=1):
        assert Tensor([[0, 2]]).one_hot(3).shape == (1, 2, 3)
        with pytest.raises(
            IndexOutOfRange, match=r"^label 3, at \(0, 1\) of labels of shape \(1, 2\), is no class: one_"
        ):
            (Tensor([[0, 3]]) + 0).one_hot(3)


def test_one_hot_looks_for_the_greatest() -> None:
    """It sees all numbers then, so that a negative one raises; there is no greatest of none."""
    with pytest.raises(IndexOutOfRange, match=r"^label -1, at \(1,\) of labels of shape \(2,\), is no class"):
        Tensor([2, -1]).one_hot()
    with pytest.raises(ShapeError, match=re.escape("one_hot finds no greatest class in shape (0,)")):
        Tensor([], dtype="int32").one_hot()
    with pytest.raises(ShapeError, match="one_hot needs a number of classes, or -1 to look for the greatest, got -2"):
        Tensor([1]).one_hot(-2)
    assert Tensor([], dtype="int32").one_hot(3).shape == (0, 3)


INTS = Tensor([1, 2], dtype="int32")
MASK = Tensor([True, False])
FAR, INF, NAN = 1e10, math.inf, math.nan


@pytest.mark.parametrize(
    "made",
    [
        *(
            lambda v=v: Tensor(v, dtype="int32")
            for v in (FAR, 2.0**31, -(2.0**31) - 1, INF, -INF, NAN, np.float32(1e10))
        ),
        *(lambda v=v: Tensor([0.5, v], dtype="int32") for v in (FAR, INF, NAN, np.float64(3e9))),
        *(lambda v=v: Tensor.full((2,), v, dtype="int32") for v in (FAR, NAN)),
        lambda: Tensor(-1.0, dtype="uint8"),
        lambda: Tensor(2.0**63, dtype="int64"),
        lambda: Tensor(np.int64(300), dtype="int8"),
        lambda: Tensor([np.int64(300)], dtype="int8"),
        lambda: INTS.full_like(FAR),
        lambda: INTS.new_full((2,), NAN),
        lambda: Tensor.const(FAR, dtype="int32"),
        lambda: Tensor.scalar_tensor(FAR, dtype="int32"),
        lambda: Tensor.arange(0, FAR, FAR / 2, dtype="int32"),
        lambda: Tensor.linspace(0, FAR, 3, dtype="int32"),
        lambda: Tensor.linspace(0, NAN, 3, dtype="int32"),
        lambda: Tensor.logspace(0, 20, 3, dtype="int32"),
        lambda: Tensor.logspace(0, 2000, 3, dtype="int32"),
        lambda: Tensor.uniform(3, high=FAR, dtype="int32"),
        lambda: Tensor.uniform(3, low=-0.5, high=256.5, dtype="uint8"),
        lambda: INTS.index_fill(0, Tensor([0]), FAR),
        lambda: INTS.scatter(0, Tensor([0]), FAR),
        lambda: INTS.put(Tensor([0]), FAR),
        lambda: INTS.index_put((Tensor([0]),), NAN),
        lambda: INTS.masked_select(MASK, 2, fill_value=FAR),
        lambda: INTS.contiguous().__setitem__(0, FAR),
        lambda: INTS.contiguous().__setitem__(MASK, NAN),
        lambda: INTS.contiguous().assign([FAR, 1]),
        lambda: INTS.contiguous().assign(INF),
    ],
)
def test_a_float_that_a_dtype_of_integers_does_not_hold(made: Callable[[], Any]) -> None:
    """It saturated, and NaN was 0; an integer raised already."""
    with pytest.raises(NumberOutOfRange, match=r"^\S+ is out of range for dtypes\.\w+, which holds -?[0-9]+ to [0-9]+"):
        made()


def test_the_sentence_about_a_float_that_is_out_of_range() -> None:
    """What was asked, what the dtype holds, and that a cast is there for who means to saturate."""
    with pytest.raises(NumberOutOfRange) as caught:
        Tensor([0.5, NAN], dtype="int8")
    assert str(caught.value) == (
        "nan is out of range for dtypes.char, which holds -128 to 127\n"
        "  hint: a cast takes the nearest, and 0 for NaN, as in Tensor(nan).cast('char')"
    )
    assert Tensor([FAR, -INF, NAN]).cast("int32").tolist() == [2**31 - 1, -(2**31), 0]
    assert Tensor(np.array([FAR, NAN]), dtype="int32").tolist() == [2**31 - 1, 0]
    assert Tensor([-0.9, 255.9], dtype="uint8").tolist() == [0, 255] and Tensor(-128.9, dtype="int8").item() == -128


def test_bounds_of_floats_for_integers() -> None:
    """hardtanh cuts its bounds to whole numbers; infinite ones bound nothing, and raised an OverflowError of Python."""
    assert INTS.hardtanh(-INF, INF).tolist() == [1, 2] and INTS.hardtanh(-FAR, 1.5).tolist() == [1, 1]
    with pytest.raises(ValueError, match="^hardtanh needs a min_val of at most max_val, got nan and 1$"):
        INTS.hardtanh(NAN, 1)
    assert (
        INTS.masked_fill(MASK, FAR).dtype.kind
        == MASK.where(INTS, FAR).dtype.kind
        == INTS.clamp(0.5).dtype.kind
        == "float"
    )
    big = Tensor([2**40 + 1, 3], dtype="int64")
    assert big.masked_select(MASK, 2, fill_value=0.5).tolist() == [2**40 + 1, 0]
    assert Tensor.randperm(0, dtype="uint8").shape == (0,)
    assert Tensor.uniform(2000, high=256.0, dtype="uint8").max().item() == 255


def test_an_integer_that_no_dtype_holds() -> None:
    """One error for all constructors, which had two."""
    for made in (
        lambda: Tensor(2**64),
        lambda: Tensor([1, 2**64]),
        lambda: Tensor.full((2,), 2**64),
        lambda: Tensor.arange(2**64, 2**64 + 1),
    ):
        with pytest.raises(NumberOutOfRange) as caught:
            made()
        assert str(caught.value) == (
            "18446744073709551616 is out of range for every integer dtype: dtypes.long holds -9223372036854775808 to "
            "9223372036854775807, dtypes.ulong 0 to 18446744073709551615\n"
            "  hint: ask for a float, which rounds it, as in dtype='double'"
        )
    with pytest.raises(
        NumberOutOfRange, match="^-1 beside 9223372036854775808 is out of range for every integer dtype: "
    ):
        Tensor([2**63, -1])
    assert Tensor(2**64, dtype="double").item() == 2.0**64


@pytest.mark.parametrize("ends", [(0, INF), (0, NAN), (INF,), (-INF, 0), (0, 3, NAN), (0, 3, INF)])
def test_a_range_counts_between_finite_numbers(ends: tuple[float, ...]) -> None:
    """An infinite one was an OverflowError of Python."""
    with pytest.raises(ShapeError, match=r"^arange counts between finite numbers, got arange\(\S+, \S+, \S+\)$"):
        Tensor.arange(*ends)


ROWS = Tensor([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]])


def test_losses_take_lists_and_numbers_as_labels() -> None:
    """They were an AttributeError of Python; a number is a label where one is asked for."""
    good = ROWS.cross_entropy(Tensor([0, 1])).item()
    assert ROWS.cross_entropy([0, 1]).item() == ROWS.cross_entropy(np.array([0, 1])).item() == good
    assert ROWS[0].cross_entropy(2).item() == ROWS[0].cross_entropy(Tensor(2)).item()
    assert ROWS.nll_loss((0, 1), weight=[1.0, 1.0, 1.0]).item() == ROWS.nll_loss(Tensor([0, 1])).item()
    assert ROWS.sparse_categorical_crossentropy([0, 1]).item() == pytest.approx(good)
    assert ROWS.multi_margin_loss([0, 1]).item() == ROWS.multi_margin_loss(Tensor([0, 1])).item()
    with pytest.raises(
        ShapeError, match=r"^predictions of shape \(2, 3\) with classes on axis 1 need labels of shape \(2,\), got \(\)"
    ):
        ROWS.cross_entropy(0)
    with pytest.raises(IndexOutOfRange, match="^label 7 is no class"):
        ROWS[0].cross_entropy(7)


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda y: ROWS.cross_entropy(y), "cross_entropy needs labels"),
        (lambda y: ROWS.nll_loss(y), "nll_loss needs labels"),
        (lambda y: ROWS.sparse_categorical_crossentropy(y), "sparse_categorical_crossentropy needs labels"),
        (lambda y: ROWS.binary_cross_entropy(y), "binary_cross_entropy needs targets"),
        (lambda y: ROWS.binary_cross_entropy_with_logits(y), "binary_cross_entropy_with_logits needs targets"),
        (lambda y: ROWS.multi_margin_loss(y), "multi_margin_loss needs labels"),
        (lambda y: ROWS.multilabel_margin_loss(y), "multilabel_margin_loss needs labels"),
        (lambda y: ROWS.linear_cross_entropy(y, [0, 1]), "linear_cross_entropy needs weights"),
        (lambda y: ROWS.cosine_embedding_loss(y, [1, 1]), "cosine_embedding_loss needs vectors"),
        (lambda y: ROWS.margin_ranking_loss(y, ROWS), "margin_ranking_loss needs inputs"),
        (lambda y: ROWS.triplet_margin_loss(y, ROWS), "triplet_margin_loss needs examples"),
        (lambda y: ROWS.gaussian_nll_loss(ROWS, y), "gaussian_nll_loss needs variances"),
        (lambda y: ROWS.ctc_loss(y, [2], [1]), "ctc_loss needs targets"),
        (lambda y: ROWS.cross_entropy([0, 1], weight=y or "a"), "cross_entropy needs weights"),
    ],
)
def test_losses_name_the_argument_that_is_no_tensor(loss: Callable[[Any], Any], what: str) -> None:
    """Text and None are refused by name."""
    for wrong in ("a", None):
        with pytest.raises(
            DTypeError, match=rf"^{what} that are a tensor, numbers in a list or an array, got ('a'|None)\n"
        ):
            loss(wrong)


@pytest.mark.parametrize(
    ("made", "what"),
    [
        (lambda e: nn.BatchNorm(3, eps=e), "BatchNorm"),
        (lambda e: nn.LayerNorm(3, eps=e), "LayerNorm"),
        (lambda e: nn.LayerNorm2d(3, eps=e), "LayerNorm2d"),
        (lambda e: nn.GroupNorm(1, 3, eps=e), "GroupNorm"),
        (lambda e: nn.InstanceNorm(3, eps=e), "InstanceNorm"),
        (lambda e: nn.RMSNorm(3, eps=e), "RMSNorm"),
    ],
)
def test_what_is_added_to_a_variance_is_not_negative(made: Callable[[float], Any], what: str) -> None:
    """It was taken, and gave NaN where the variance is small."""
    for eps in (-1, -1e-9, NAN):
        with pytest.raises(ValueError, match=rf"^{what} needs eps to be at least 0, got {eps}$"):
            made(eps)
    made(0)


def test_functions_take_any_eps() -> None:
    """PyTorch's take one below 0 where the variance is large, and its own samples ask for that."""
    assert ROWS.layer_norm(3, eps=-0.5).isfinite().all().item() and ROWS.rms_norm(3, eps=-0.5).isfinite().all().item()


def test_a_probability_is_no_shape() -> None:
    """A ValueError as other numbers out of bounds, no ShapeError."""
    for drop in (Tensor.dropout, Tensor.alpha_dropout):
        with pytest.raises(ValueError, match=r"^dropout needs a probability from 0 to 1, got 1\.5$") as caught:
            drop(ROWS, 1.5)
        assert not isinstance(caught.value, ShapeError)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_floats_divided_towards_zero_are_as_numpy_has_them(dtype: str) -> None:
    """trunc(a / b), rounded before it is cut: 1.0 by 0.1 is 10, where the floor of the exact quotient is 9."""
    a, b = (np.array(x, dtype=dtype) for x in ([1, 1, 2, -1, 0, 5, 0.6, -7], [0.1, -0.1, 0.1, 0.1, 0, 0, 0.2, 2]))
    with np.errstate(all="ignore"):
        wanted = np.trunc(a / b)
    np.testing.assert_array_equal(Tensor(a).div(Tensor(b), rounding_mode="trunc").numpy(), wanted)
    ours = [Tensor(1.0, dtype=dtype).div(0.1, rounding_mode=mode).item() for mode in ("trunc", "floor")]
    assert ours == [10, np.floor_divide(a.dtype.type(1), a.dtype.type(0.1))]


LINE = Tensor([1, 2])


@pytest.mark.parametrize(
    "call",
    [
        lambda: array_api.expand_dims(LINE, axis=1.0),
        lambda: array_api.expand_dims(LINE, axis=(0, 1.0)),
        lambda: array_api.squeeze(LINE, axis=1.0),
        lambda: array_api.moveaxis(LINE, 0.0, 0),
        lambda: array_api.flip(LINE, axis=0.0),
        lambda: array_api.permute_dims(LINE, (0.0,)),
        lambda: array_api.roll(LINE, 1, axis=0.0),
        lambda: array_api.concat([LINE, LINE], axis=0.0),
        lambda: array_api.take(LINE, Tensor([0]), axis=0.0),
        lambda: array_api.cumulative_sum(LINE, axis=0.0),
        lambda: LINE.movedim(0.0, 0),
    ],
)
def test_an_axis_is_an_integer(call: Callable[[], Any]) -> None:
    """A TypeError that says so: some took 0.0 as an axis, others said that a float has no len()."""
    with pytest.raises(TypeError, match=r"^an axis is an integer,.* got \(?(0, )?[01]\.0") as caught:
        call()
    assert isinstance(caught.value, DTypeError)


def test_a_number_of_repetitions_is_whole() -> None:
    """A float was an AttributeError, or a shape of floats."""
    for call in (lambda: array_api.repeat(LINE, 2.0), lambda: LINE.repeat_interleave(2.5)):
        with pytest.raises(DTypeError, match=r"^repeat_interleave needs a whole number of times, got 2\.\d for shape"):
            call()


def test_the_sign_of_complex_infinities() -> None:
    """x / |x| by the standard's rules of division, part by part: a part that is infinite is NaN, as inf / inf is."""
    found = array_api.sign(Tensor([complex(1, INF), complex(-INF, 2), complex(NAN, 1), 0j, complex(0, -3)])).numpy()
    assert (found[0].real, found[1].imag) == (0, 0) and math.isnan(found[0].imag) and math.isnan(found[1].real)
    assert math.isnan(found[2].real) and math.isnan(found[2].imag)
    assert found[3:].tolist() == [0j, -1j]


def test_norms_of_integers_are_floats() -> None:
    """As docs/tensor.md has it of them beside mean and softmax, and as normalize gave them; they were refused."""
    ints = Tensor([3, -4])
    for found, wanted in (
        (ints.norm(), 5),
        (ints.norm(1), 7),
        (ints.vector_norm(INF), 4),
        (ints.linalg_norm(), 5),
        (ints.reshape(1, 2).matrix_norm(), 5),
        (ints.reshape(1, 2).matrix_norm(2), 5),
        (Tensor([True, True, False]).norm(1), 2),
        (Tensor([[3, 4], [0, 1]], dtype="int8").norm(dim=1)[0], 5),
        (ints.dist(Tensor([0, 0])), 5),
        (array_api.linalg.vector_norm(ints), 5),
    ):
        assert found.dtype is dtypes.float32 and found.item() == pytest.approx(wanted)


def test_sums_of_products_of_bools_are_integers() -> None:
    """As in docs/tensor.md; addmm and its like gave bools again. What adds nothing up is bool, as `*` gives it."""
    square, line, many = Tensor([[True, True], [False, True]]), Tensor([True, True]), Tensor([[[True, True]] * 2])
    for found in (
        square @ square,
        square.addmm(square, square),
        line.addmv(square, line),
        square.addbmm(many, many),
        square.baddbmm(many, many),
        square.matrix_power(0),
        square.matrix_power(1),
        square.matrix_power(2),
        line.vecdot(line),
    ):
        assert found.dtype is dtypes.int32
    assert square.addmm(square, square).tolist() == [[2, 3], [0, 2]] and line.addmv(square, line).tolist() == [3, 2]
    for found in (line.outer(line), line.kron(line), square.addr(line, line), line * line):
        assert found.dtype is dtypes.bool
    assert square.addmm(square.float(), square.float()).dtype is dtypes.float32


N, J, Z = Variable("i", 1, 5), Variable("j", 1, 7), Variable("z", 0, 5)


def test_a_symbolic_index_outside() -> None:
    """An IndexError as for a number, which was a ShapeError: with its value, or where no value lies in the axis."""
    x = Tensor.arange(20).contiguous()
    for index, said in (
        (N + 20, "index i + 20 is out of range for axis 0 of shape (20,), where i is from 1 to 5"),
        (-N - 20, "index i * -1 + -20 is out of range for axis 0 of shape (20,), where i is from 1 to 5"),
        (N.bind(3) + 20, "index 23 is out of range for axis 0 of shape (20,): it has 20 elements, with i = 3"),
        (N.bind(3) + 18, "index 21 is out of range for axis 0 of shape (20,): it has 20 elements, with i = 3"),
    ):
        with pytest.raises(IndexOutOfRange, match=rf"^{re.escape(said)}\n  made at \S+:\d+$"):
            x[index]
    with pytest.raises(
        IndexOutOfRange, match=r"^index 5 is out of range for axis 0 of shape \(3,\): it has 3 elements, with"
    ):
        x[: N.bind(3)][5]
    assert (x[N.bind(3) + 16].item(), x[-N.bind(3)].item(), x[N.bind(1) + 20 : N.bind(1) + 22].tolist()) == (19, 17, [])


def test_a_symbolic_index_that_leaves_its_axis_in_a_replay() -> None:
    """The claim is checked for each value, as the parts that are taken are."""
    x = Tensor.arange(20).contiguous().realize()
    pick = TinyJit(lambda n: (x[n + 15] * 1).realize())
    assert [pick(N.bind(n)).item() for n in (1, 2, 3, 4)] == [16, 17, 18, 19] and pick.captured
    with pytest.raises(IndexOutOfRange, match="^index 20 is out of range for axis 0 of shape"):
        pick(N.bind(5))


def test_sizes_of_two_variables() -> None:
    """The sentence has both names and their bounds, of one name with other bounds too."""
    for other, said in (
        (J, "i is from 1 to 5, j is from 1 to 7"),
        (Variable("i", 1, 6), "i is from 1 to 5, i is from 1 to 6"),
    ):
        with pytest.raises(ShapeError) as caught:
            Tensor.zeros(N) + Tensor.zeros(other)
        assert str(caught.value).endswith(
            f"\n  where {said}\n  hint: sizes are equal where they are made of the same variables"
        )
    with pytest.raises(
        ShapeError, match=r"^cannot multiply shapes \(3, i\) and \(j, 3\) as matrices: axis -1 of the left is i a"
    ):
        Tensor.zeros(3, N) @ Tensor.zeros(J, 3)


def test_rolling_by_a_variable() -> None:
    """One kernel for all shifts, which was a TypeError of Python; what is no whole number is refused by name."""
    x = Tensor.arange(6).contiguous().realize()
    for n in (1, 5):
        for shift, known in ((N.bind(n), n), (-N.bind(n), -n), (N.bind(n) + 4, n + 4), (N.bind(n) * 9, n * 9)):
            assert x.roll(shift).tolist() == np.roll(np.arange(6), known).tolist()
            rows = x.reshape(2, 3).roll((shift, 1), (1, 0)).tolist()
            assert rows == np.roll(np.arange(6).reshape(2, 3), (known, 1), (1, 0)).tolist()
    roll = TinyJit(lambda n: x.roll(n).realize())
    assert [roll(N.bind(n)).tolist() for n in (1, 2, 3, 4)] == [np.roll(np.arange(6), n).tolist() for n in (1, 2, 3, 4)]
    for wrong in (1.5, "a", None):
        with pytest.raises(DTypeError, match=r"^roll moves by whole numbers, got .* for shape \(6,\)\n  made at "):
            x.roll(wrong)
    assert x.roll(np.int64(2)).tolist() == [4, 5, 0, 1, 2, 3]


def test_an_extreme_of_a_part_that_is_empty_now() -> None:
    """As of one that is known to be empty: it was -inf, or the least integer, in replays too. A sum of nothing is 0."""
    x = Tensor([-3.0, -1.0, -2.0, 5.0, 6.0]).contiguous().realize()
    part = x[: Z.bind(0)]
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(
            AxisError, match=rf"^{name}( over axis 0)? of shape \(0,\) has no elements to choose from, with z = 0\n"
        ):
            getattr(part, name)()
    assert (part.sum().item(), part.prod().item(), x[: Z.bind(2)].max().item()) == (0, 1, -1)
    most = TinyJit(lambda t: t.max().realize())
    assert [most(x[: Z.bind(n)]).item() for n in (3, 2, 4, 5)] == [-1, -1, 5, 6] and most.captured
    with pytest.raises(AxisError, match="no elements to choose from, with z = 0"):
        most(x[: Z.bind(0)])


def test_a_truth_is_no_value_of_a_variable() -> None:
    """True was 1."""
    for value in (True, False):
        with pytest.raises(ValueError, match=rf"^z must be in \[0, 5\], got {value}$"):
            Z.bind(value)
    with pytest.raises(
        ValueError, match="^variable 'q' needs bounds that are integers of 64 bits, got False and True$"
    ):
        Variable("q", False, True)


LINES = Tensor([1, 2])
TAKES: dict[str, Callable[[Any], Any]] = {
    "Tensor(l)": Tensor,
    "t[l]": lambda items: LINES[items],
    "t[l] = 0": lambda items: LINES.clone().__setitem__(items, 0),
    "take": lambda items: LINES.take(items),
    "gather": lambda items: LINES.gather(0, items),
    "index_select": lambda items: LINES.index_select(0, items),
    "t + l": lambda items: LINES + items,
    "assign": lambda items: LINES.clone().assign(items),
}


@pytest.mark.parametrize("name", TAKES)
def test_nested_lists_that_are_no_array(name: str) -> None:
    """One that contains itself, at any place, and one of several lengths: index lists had an error of NumPy's."""
    first: list[Any] = []
    first.append(first)
    last: list[Any] = [0]
    last.append(last)
    for wrong, said in (
        (first, "nested lists must end: data[0] is a list that contains itself"),
        (last, "nested lists must have equal lengths: data[0] is a number, data[1] has 2 elements"),
        ([[0, 1], [0]], "nested lists must have equal lengths: data[0] has 2 elements, data[1] has 1 element"),
    ):
        with pytest.raises(ShapeError, match=f"^{re.escape(said)}$"):
            TAKES[name](wrong)


@pytest.mark.parametrize("name", TAKES)
def test_lists_in_lists_in_lists(name: str) -> None:
    """Forty lists that each contain the one before twice hold 2**40 elements: said at once, where it took for ever."""
    many = [0]
    for _ in range(40):
        many = [many, many]
    with pytest.raises(
        ShapeError, match=rf"^nested lists hold at most {2**28} elements, these are 41 lists deep and hold {2**40}"
    ):
        TAKES[name](many)


def test_lists_with_more_axes_than_numpy_has() -> None:
    """A tensor has them, an index by a list does not."""
    deep = [0]
    for _ in range(70):
        deep = [deep]
    assert Tensor(deep).ndim == 71
    with pytest.raises(ShapeError, match="^nested lists and arrays must have equal lengths and few axes, numpy says: "):
        LINES[deep]
    assert Tensor([[0.0] * 3] * 4).shape == (4, 3) and LINES[[[0] * 3] * 4].shape == (4, 3)
