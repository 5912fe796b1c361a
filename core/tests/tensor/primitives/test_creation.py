"""Tensors from data and from a rule: numbers, lists, bytes, numpy arrays, ranges and constants."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graph_numpy import values
from tinygraft import Context, Tensor, dtypes
from tinygraft.errors import DTypeError, NumberOutOfRange, SettingError, ShapeError
from tinygraft.tensor.data.from_python import flatten
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

ALL = dtypes.all


def test_a_number_is_a_const_of_its_type() -> None:
    """A Python number becomes one CONST on the device, of the default dtype of its type."""
    for value, dtype in ((True, dtypes.bool), (3, dtypes.int32), (2.5, dtypes.float32), (2**40, dtypes.int64)):
        t = Tensor(value)
        assert (t.uop.op, t.dtype, t.shape, t.item()) == (Ops.CONST, dtype, (), value)
    assert Tensor().item() == 0.0
    assert Tensor(2**63).dtype is dtypes.uint64
    with pytest.raises(NumberOutOfRange, match="18446744073709551616 is out of range for every integer dtype"):
        Tensor(2**64)


@pytest.mark.parametrize("dtype", ALL)
def test_lists_become_buffers_of_every_dtype(dtype: object) -> None:
    """Nested lists are kept as they are, in the dtype asked for."""
    t = Tensor([[0, 1], [2, 3]], dtype=dtype)
    assert (t.dtype, t.shape) == (dtype, (2, 2))
    expected = [[False, True], [True, True]] if dtype is dtypes.bool else [[0, 1], [2, 3]]
    assert t.tolist() == expected
    assert t.uop.base.realized is not None


def test_lists_take_the_default_dtypes() -> None:
    """Floats make a float32 tensor, ints an int32 one, bools a bool one; the settings change that."""
    assert Tensor([1, 2.5]).dtype is dtypes.float32
    assert Tensor([True, 2]).dtype is dtypes.int32
    assert Tensor([[True]]).dtype is dtypes.bool
    assert Tensor([]).dtype is dtypes.float32
    assert Tensor([1, 2**33]).tolist() == [1, 2**33]
    with Context(DEFAULT_FLOAT="float16", DEFAULT_INT="int64"):
        assert (Tensor([1.5]).dtype, Tensor([1]).dtype) == (dtypes.half, dtypes.int64)


def test_a_default_dtype_is_of_its_kind() -> None:
    """A setting that names no float, or no integer, is named in the error with what it may be."""
    floats, ints = "half, bfloat16, float, double", "uchar, ushort, uint, ulong, char, short, int, long"
    for name in ("int32", "float7"):
        with Context(DEFAULT_FLOAT=name), pytest.raises(SettingError) as error:
            Tensor([1.5])
        assert str(error.value) == f"DEFAULT_FLOAT must be one of {floats}, got {name!r}"
    with Context(DEFAULT_INT="float32"), pytest.raises(SettingError) as error:
        Tensor([1])
    assert str(error.value) == f"DEFAULT_INT must be one of {ints}, got 'float32'"


def test_values_of_lists_are_coerced() -> None:
    """An integer out of range is refused, a float truncates and saturates, a half overflows to infinity."""
    with pytest.raises(NumberOutOfRange, match=r"^300 is out of range for dtypes.uchar, which holds 0 to 255$"):
        Tensor([3, 300], dtype="uint8")
    with pytest.raises(
        NumberOutOfRange, match=re.escape("300.7 is out of range for dtypes.uchar, which holds 0 to 255")
    ):
        Tensor([3.0, 300.7], dtype="uint8")
    assert Tensor([255.7, -0.5], dtype="uint8").tolist() == [255, 0]
    assert Tensor([1e6, 1.0], dtype="half").tolist() == [float("inf"), 1.0]
    assert Tensor([1.00390625, 1e39], dtype="bfloat16").tolist() == [1.0, float("inf")]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([[1, 2], [3]], "nested lists must have equal lengths: data[0] has 2 elements, data[1] has 1 element"),
        ([1, [2]], "nested lists must have equal lengths: data[0] is a number, data[1] has 1 element"),
        (
            [[[1], [2]], [[3], [4, 5]]],
            "nested lists must have equal lengths: data[0][0] has 1 element, data[1][1] has 2 elements",
        ),
    ],
)
def test_ragged_lists_name_the_place(data: list[object], message: str) -> None:
    """A list whose lengths differ says where they do."""
    with pytest.raises(ShapeError, match=re.escape(message)):
        Tensor(data)


def test_what_is_no_number_is_refused() -> None:
    """Strings, None in a list and objects raise DTypeError with what was found."""
    with pytest.raises(DTypeError, match="a tensor is made of bool, int, float and complex, got str"):
        Tensor(["a"])
    with pytest.raises(DTypeError, match="a tensor is made of numbers, lists, bytes or numpy arrays, got str"):
        Tensor("abc")
    with pytest.raises(DTypeError, match="there is no dtype 'floof'"):
        Tensor([1], dtype="floof")


def test_empty_lists_keep_their_shape() -> None:
    """A list without elements still has axes."""
    assert Tensor([[], []]).shape == (2, 0)
    assert Tensor([[], []]).tolist() == [[], []]
    assert flatten([[], []]) == ((2, 0), [])


@pytest.mark.parametrize(
    "name",
    ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"],
)
def test_numpy_arrays_keep_their_dtype_and_values(name: str) -> None:
    """An array of each dtype is copied bit for bit, extremes included."""
    kind = np.dtype(name)
    if kind.kind == "f":
        a = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, np.finfo(kind).max, np.finfo(kind).smallest_subnormal], kind)
    elif kind.kind == "b":
        a = np.array([True, False])
    else:
        a = np.array([np.iinfo(kind).min, np.iinfo(kind).max, 0, 1], kind)
    found = Tensor(a).numpy()
    assert found.dtype == kind
    assert found.tobytes() == a.tobytes()


def test_numpy_arrays_of_any_layout_are_copied() -> None:
    """Big-endian, reversed, transposed, strided, read-only, 0-d and empty arrays come out right, none shared."""
    base = np.arange(12, dtype=np.int32).reshape(3, 4)
    frozen = base.copy()
    frozen.flags.writeable = False
    for a in (base.astype(">i4"), base[::-1, ::-2], base.T, base[:, 1], frozen, np.int32(7), np.array(2.5), base[:0]):
        t = Tensor(a)
        np.testing.assert_array_equal(t.numpy(), a)
        assert t.shape == np.shape(a)
    t = Tensor(base)
    base[0, 0] = 99
    assert t[0, 0].item() == 0


def test_numpy_arrays_are_converted_when_a_dtype_is_given() -> None:
    """A dtype converts an array by our rules: saturating from floats, wrapping between integers."""
    assert Tensor(np.array([1.9, -1.9, 1e20, np.nan]), dtype=dtypes.int32).tolist() == [1, -1, 2**31 - 1, 0]
    assert Tensor(np.array([300, -1]), dtype=dtypes.uint8).tolist() == [44, 255]
    assert Tensor(np.array([1.00390625, 3.0]), dtype=dtypes.bfloat16).tolist() == [1.0, 3.0]
    assert Tensor([np.float32(1.5), np.float32(2.5)]).dtype is dtypes.float32
    assert Tensor([np.array([1, 2]), np.array([3, 4])]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize("kind", ["clongdouble", "datetime64[s]", "O", "U3"])
def test_numpy_arrays_of_other_dtypes_are_refused(kind: str) -> None:
    """Numbers of 80 bits, dates, objects and strings have no dtype here, and the error says so."""
    with pytest.raises(DTypeError, match="a tensor cannot hold numpy's"):
        Tensor(np.zeros(2, kind))


def test_bytes_are_read_as_a_dtype(tmp_path: Path) -> None:
    """bytes and a file are uint8, or elements of the dtype given, whose width must divide their number."""
    assert Tensor(b"\x01\x02").tolist() == [1, 2]
    assert Tensor(b"\x00\x00\x80\x3f", dtype=dtypes.float32).tolist() == [1.0]
    with pytest.raises(DTypeError, match="3 bytes are no whole number of dtypes.short elements of 2 bytes"):
        Tensor(b"abc", dtype=dtypes.int16)
    (tmp_path / "x").write_bytes(b"abc")
    assert Tensor(tmp_path / "x").tolist() == list(b"abc")


def test_nodes_tensors_and_symbolic_integers_make_tensors() -> None:
    """A graph node and a tensor are taken as they are, a bound variable as an int32 value."""
    t = Tensor([1, 2])
    assert Tensor(t.uop).uop is t.uop
    assert Tensor(t).uop is t.uop
    assert Tensor(t, dtype=dtypes.float32).dtype is dtypes.float32
    assert values(Tensor(UOp.variable("a", 1, 9).bind(4))).tolist() == 4


def test_lists_do_not_import_numpy() -> None:
    """Making and reading a tensor of Python numbers needs no numpy."""
    code = (
        "import sys\nfrom tinygraft import Tensor\nassert Tensor([1, 2], device='PYTHON').tolist() == [1, 2]\n"
        "assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_constants_fill_a_shape() -> None:
    """full, zeros and ones take a shape in any spelling, a dtype, and give an expanded CONST."""
    np.testing.assert_array_equal(values(Tensor.full((2, 3), 4)), np.full((2, 3), 4, np.int32))
    assert Tensor.zeros(2, 3).shape == Tensor.zeros((2, 3)).shape == Tensor.zeros([2, 3]).shape == (2, 3)
    assert Tensor.ones(2, dtype=dtypes.int8).tolist() == [1, 1]
    assert Tensor.full((), 2.5).item() == 2.5
    assert Tensor.full(3, True).tolist() == [True] * 3
    assert Tensor.zeros(0, 2).tolist() == []
    assert Tensor.ones(2, 2).uop.base.op is Ops.CONST
    with pytest.raises(ShapeError, match=r"a shape is made of sizes that are not negative, got \(2, -1\)"):
        Tensor.zeros(2, -1)
    with pytest.raises(ShapeError, match=r"a shape is made of integers, got 2.5"):
        Tensor.zeros(2.5)


def test_like_methods_keep_shape_dtype_and_device() -> None:
    """The _like forms take everything from the tensor that keywords do not change."""
    t = Tensor([[1, 2]], dtype=dtypes.int16, device="PYTHON")
    for made in (t.zeros_like(), t.ones_like(), t.full_like(3), t.empty_like(), t.const_like(2)):
        assert (made.shape, made.dtype, made.device) == ((1, 2), dtypes.int16, "PYTHON")
    assert t.ones_like(dtype=dtypes.float32).tolist() == [[1.0, 1.0]]
    assert t.full_like(7).tolist() == [[7, 7]]


def test_empty_has_memory_of_its_shape() -> None:
    """empty gives a buffer whose values are not defined; a symbolic size gets room for its greatest value."""
    t = Tensor.empty(2, 3, dtype=dtypes.int8)
    assert t.numpy().shape == (2, 3)
    size = UOp.variable("n", 1, 8)
    grown = Tensor.empty(size, 2)
    assert grown.shape == (size, 2)
    assert grown.uop.base.arg.size == 16


@pytest.mark.parametrize(
    "args",
    [(5,), (2, 9), (2, 9, 3), (9, 2, -2), (0, 1, 0.25), (5.5,), (3, 3), (5, 2), (-3, 2**31, 2**29), (2, -3, -1.5)],
)
def test_arange_agrees_with_numpy(args: tuple[float, ...]) -> None:
    """arange has numpy's elements, ints where all arguments are ints."""
    t = Tensor.arange(*args)
    expected = np.arange(*args)
    np.testing.assert_allclose(values(t), expected, rtol=1e-6)
    assert t.dtype is (dtypes.float32 if expected.dtype.kind == "f" else t.dtype)
    assert t.dtype.kind == ("float" if expected.dtype.kind == "f" else "int")


def test_arange_takes_any_dtype_and_refuses_a_step_of_zero() -> None:
    """dtype= converts each element once; a step of 0 never ends."""
    for dtype in dtypes.ints + dtypes.floats:
        assert values(Tensor.arange(1, 4, dtype=dtype)).tolist() == [1, 2, 3]
    with pytest.raises(ShapeError, match=r"arange needs a step other than 0, got arange\(0, 3, 0\)"):
        Tensor.arange(0, 3, 0)


def test_linspace_and_eye_agree_with_numpy() -> None:
    """Evenly spaced numbers with both ends, and identity matrices of any shape."""
    for args in ((0, 1, 5), (-1, 1, 4), (3, 2, 1), (0, 1, 0)):
        np.testing.assert_allclose(values(Tensor.linspace(*args)), np.linspace(*args), rtol=1e-6, atol=1e-7)
    assert values(Tensor.linspace(0, 9, 4, dtype=dtypes.int32)).tolist() == [0, 3, 6, 9]
    for shape in ((3,), (2, 4), (4, 2), (0,)):
        np.testing.assert_array_equal(values(Tensor.eye(*shape)), np.eye(*shape, dtype=np.float32))
    with pytest.raises(ShapeError, match="linspace needs a number of steps that is not negative, got -1"):
        Tensor.linspace(0, 1, -1)
    with pytest.raises(DTypeError, match=re.escape("linspace needs a whole number of steps, got 3.0")):
        Tensor.linspace(0, 1, 3.0)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="eye needs sizes that are not negative, got -1 and -1"):
        Tensor.eye(-1)


def test_requires_grad_is_kept() -> None:
    """The flag given to a constructor is the tensor's; without one it is None."""
    assert Tensor([1.0]).requires_grad is None
    assert Tensor([1.0], requires_grad=True).requires_grad is True
    for make in (Tensor.zeros, Tensor.ones, Tensor.rand, Tensor.randn, Tensor.empty, Tensor.uniform, Tensor.normal):
        assert make(2, requires_grad=True).requires_grad is True
        assert make(2).requires_grad is None
    assert Tensor.glorot_uniform(2, 2, requires_grad=True).requires_grad is True
    assert Tensor.arange(2.0, requires_grad=True).requires_grad is True


def test_geometric_numbers_and_new_tensors() -> None:
    """logspace multiplies by the same number each time; new_* take device and dtype from a tensor."""
    np.testing.assert_allclose(Tensor.logspace(-1, 2, 4).numpy(), np.logspace(-1, 2, 4), rtol=1e-6)
    np.testing.assert_array_equal(Tensor.logspace(0, 5, 6, base=2, dtype=dtypes.int64).numpy(), [1, 2, 4, 8, 16, 32])
    assert Tensor.logspace(0, 1, 0).shape == (0,)
    like = Tensor([1, 2], dtype=dtypes.int16)
    for made, value in ((like.new_zeros(2, 1), 0), (like.new_ones((2, 1)), 1), (like.new_full((2, 1), 7), 7)):
        assert (made.dtype, made.device, made.tolist()) == (dtypes.int16, like.device, [[value], [value]])
    assert like.new_empty(3, dtype=dtypes.float32).dtype is dtypes.float32


def test_a_masked_array_is_refused() -> None:
    """What its mask hides would be seen; one that hides nothing is an array like any other."""
    with pytest.raises(DTypeError, match="a tensor has no mask, this array has"):
        Tensor(np.ma.array([1.0, 2.0], mask=[False, True]))
    assert Tensor(np.ma.array([1.0, 2.0])).tolist() == [1.0, 2.0]
    assert Tensor(np.ma.array([1, 2], mask=[True, False]).filled(7)).tolist() == [7, 2]


def test_a_range_is_data() -> None:
    """As a list of its numbers."""
    assert Tensor(range(3)).tolist() == [0, 1, 2]
    assert Tensor([range(3), [7, 8, 9]]).tolist() == [[0, 1, 2], [7, 8, 9]]
    assert Tensor(range(0), dtype="float32").shape == (0,)
    assert Tensor(range(5, 0, -2)).dtype is Tensor([5]).dtype
