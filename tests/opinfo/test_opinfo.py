"""Tensor's methods against PyTorch's database of operators: values, gradients, refusals.

What is missing or wrong is in reasons.toml, with a reason each; report.py holds that table to be right both ways.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="no PyTorch here to compare with")
pytest.importorskip("expecttest", reason="PyTorch's operator database needs expecttest")
if not torch.__version__.startswith("2.13."):
    pytest.skip(f"the table of reasons is for PyTorch 2.13, this is {torch.__version__}", allow_module_level=True)

import open_results  # noqa: E402
from judge import difference, judge, operators, samples  # noqa: E402
from reasons import Entry, Reasons, entry_for, outdated, unexplained  # noqa: E402
from refusals import missing  # noqa: E402
from report import below_the_bar, verdicts  # noqa: E402
from tinygraft import Tensor  # noqa: E402


@pytest.mark.slow
@pytest.mark.parametrize(("samples", "names"), [
    pytest.param(2, ["[a-d]*", "[A-Z_]*"], id="a to d"),
    pytest.param(4, [], id="all", marks=pytest.mark.long),
])  # fmt: skip
def test_some_samples_of_every_operator(samples, names):
    """What is wrong has a reason; of all, 400 operators are found, and 993 of 1000 of their samples are right.

    All samples take longer than the rest of the suite; report.py without --samples judges them, and then also names
    reasons that are not needed any more.
    """
    jobs = str(os.cpu_count() or 1)
    command = [sys.executable, Path(__file__).parent / "report.py", "--samples", str(samples), "--jobs", jobs, *names]
    result = subprocess.run(command, capture_output=True, text=True, timeout=1400)
    assert result.returncode == 0, result.stdout[-6000:] + result.stderr[-2000:]


def test_a_reason_that_is_no_longer_needed_is_named():
    """The table is strict both ways: an operator that is there, and a kind that is right, have no place in it."""
    verdict, _ = next(verdicts(["abs"], 2))
    table = Reasons((Entry("abs", "not yet"),), (Entry("ab*", "not yet", ("float32",)),))
    assert outdated([verdict], table) == [
        "[missing] 'abs': nothing is missing",
        "[wrong] 'ab*': float32 is right everywhere",
    ]


def test_the_bar_is_held():
    """Too few operators and too many wrong samples are complaints."""
    few = [judge(operators()["abs"], 2)]
    assert below_the_bar(few) == ["1 operators are found, fewer than 400"]
    for number in range(3):
        few[0].note("int64", number, "shape (1,), not (2,)")
    assert below_the_bar(few)[1].endswith("samples are right, less than 99.3 %")


def test_what_has_no_reason_is_named():
    """A missing operator, and a wrong sample, are complaints of their own."""
    missing = judge(operators()["jiterator_unary"], 1)
    assert unexplained([missing], Reasons((), ())) == [
        "jiterator_unary: not found, and there is no reason for it in [missing]"
    ]
    verdict = judge(operators()["abs"], 1)
    verdict.note("int64", 3, "shape (1,), not (2,)")
    assert unexplained([verdict], Reasons((), ())) == ["abs: int64 is wrong, sample 3: shape (1,), not (2,)"]
    assert unexplained([verdict], Reasons((), (Entry("a*", "so", ("int64",)),))) == []


def test_a_name_goes_before_a_pattern():
    """An operator's own entry is used, wherever in the table it stands."""
    general, own = Entry("a*", "general"), Entry("abs", "own")
    assert entry_for("abs", (general, own)) is own
    assert entry_for("add", (general, own)) is general


def test_complex_numbers_are_compared_as_such():
    """A difference in one part is seen, and a real result in place of a complex one; gradients are PyTorch's."""
    z = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex128)
    assert difference(Tensor([1 + 2j, 3 - 1j], dtype="complex128"), z, True) is None
    assert (
        difference(Tensor([1 + 2j, 3 + 1j], dtype="complex128"), z, True)
        == "1 of 2 values differ, at (1,) (3+1j) and not (3-1j)"
    )
    assert difference(Tensor([1.0, 3.0]), z, True) == "dtype float, not complex128"
    verdict = judge(operators()["mul"], 4)
    assert verdict.wrong == [] and verdict.asked["complex128"] == verdict.asked["complex gradient"] == 2


def test_a_cast_that_drops_imaginary_parts_must_be_refused():
    """What PyTorch warns of counts as an error that is wanted."""
    verdict = judge(operators()["double"], 4, ("complex128", "error"))
    assert "complex128" not in verdict.asked and verdict.right["error"] == verdict.asked["error"] == 2


def test_differences_are_seen():
    """The judge sees a wrong value, shape and dtype, to its width, a number for a tensor, and a NaN on one side."""
    two = torch.tensor([1.0, 2.0])
    assert difference(Tensor([1.0, 2.0]), two, True) is None
    assert difference(Tensor([1.0, 2.1]), two, True) == "1 of 2 values differ, at (1,) 2.0999999046325684 and not 2.0"
    assert difference(Tensor([1.0, float("nan")]), two, True).startswith("1 of 2 values differ, at (1,) nan")
    assert difference(Tensor([[1.0, 2.0]]), two, True) == "shape (1, 2), not (2,)"
    assert difference(Tensor([1, 2]), two, True) == "dtype int, not float"
    assert difference(Tensor([1.0, 2.0], dtype="float64"), two, True) == "dtype double, not float"
    assert difference(Tensor([1, 2]), torch.tensor([1, 2]), True) == "dtype int, not long"
    assert difference(1.0, torch.tensor(1.0), True) == "a float, not a tensor"
    assert difference(Tensor([5.0, 6.0]), two, False) is None


def test_a_refusal_is_raised_on_purpose_and_its_type_fits():
    """Not an error of another kind, nor one that an accident inside raises, nor of arguments where none is wanted."""

    def raised(call):
        with pytest.raises(Exception) as caught:
            call()
        return caught.value

    axis, accident = raised(lambda: Tensor.ones(2).sum(3)), raised(lambda: Tensor.ones(2)._same_device(None, (1, 2)))
    dtype, arguments = raised(lambda: Tensor.ones(2) << 1), raised(lambda: Tensor.ones(2).sum(nonsense=1))
    for fitting in (RuntimeError, IndexError, ValueError):
        assert missing(axis, fitting) is None
    assert missing(axis, TypeError).startswith("raised AxisError, not TypeError: axis 3 is not an axis of")
    assert missing(dtype, (ValueError, TypeError)) is missing(dtype, NotImplementedError) is None
    assert missing(dtype, ValueError).startswith("raised DTypeError, not ValueError: ")
    assert missing(accident, RuntimeError).startswith("raised AttributeError, not RuntimeError: ")
    assert missing(accident, AttributeError).startswith("raised by accident, AttributeError: ")
    assert missing(arguments, TypeError) is None
    assert missing(arguments, RuntimeError).startswith("raised by accident, TypeError: ")


def test_places_of_equal_elements_are_right_where_the_values_stand():
    """Any of them; another place is not."""
    op = operators()["topk"]
    sample = next(s for _, s in samples(op, "int64", 4) if s.input.ndim)
    values, places = torch.topk(torch.tensor([3, 1, 3, 2]), 3)
    sample.input, sample.args, sample.kwargs = torch.tensor([3, 1, 3, 2]), (3,), {}
    for swapped in (places.numpy(), places.numpy()[[1, 0, 2]]):
        assert open_results.stand_there(op, sample, values.numpy(), swapped)
    assert not open_results.stand_there(op, sample, values.numpy(), places.numpy()[[2, 1, 0]])
    assert not open_results.stand_there(operators()["sort"], sample, values.numpy(), places.numpy())


def test_gradients_are_compared_as_far_as_free_changes_see_them():
    """Of a Hermitian matrix its antihermitian part is not seen, the rest is; of other operators everything is."""
    op = operators()["linalg.cholesky"]
    sample = next(s for _, s in samples(op, "complex128", None) if s.input.ndim == 2 and len(s.input) > 1)
    see = open_results.seen(op, sample, [sample.input])
    gradient = torch.randn(sample.input.shape, dtype=torch.complex128)
    apart = gradient - gradient.mH
    for kept, same in ((gradient + apart, True), (gradient + gradient.mH, False)):
        assert torch.allclose(see([gradient])[0], see([kept.numpy()])[0]) is same
    plain = operators()["tan"]
    sample = next(s for _, s in samples(plain, "float64", 1))
    assert open_results.seen(plain, sample, [sample.input])([gradient])[0] is gradient
