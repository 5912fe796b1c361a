"""The hooks: broadcasting, promotion, the graph they build and the errors they raise on the user's line."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_numpy import values
from tinygraft import Tensor, dtypes
from tinygraft.dtype import DType
from tinygraft.errors import DeviceError, DTypeError, NumberOutOfRange, ShapeError
from tinygraft.tensor.primitives.broadcasting import broadcast_shape
from tinygraft.tensor.state.live import live_tensors
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

HERE = Path(__file__).name


def test_constants_build_the_graph_of_the_introduction() -> None:
    """ones(10, 10) + 2 prints as an ADD of two CONSTs, each reshaped to (1, 1) and expanded; nothing is folded."""
    b = Tensor.ones(10, 10, device="CPU")._op(Ops.ADD, 2)
    device = UOp(Ops.DEVICE, dtypes.void, (), "CPU")

    def spread(value: float) -> UOp:
        number = UOp(Ops.CONST, dtypes.float, (device,), value)
        return UOp(Ops.EXPAND, dtypes.float, (UOp(Ops.RESHAPE, dtypes.float, (number,), (1, 1)),), (10, 10))

    assert str(b.uop) == str(UOp(Ops.ADD, dtypes.float, (spread(1.0), spread(2.0))))


def test_repr_names_the_node_and_computes_nothing() -> None:
    """A tensor prints its device, shape, dtype, op and gradient, on a device that does not exist here too."""
    b = Tensor.ones(10, 10, device="CPU")._op(Ops.ADD, 2)
    assert re.fullmatch(r"<Tensor <UOp CPU \(10, 10\) float \(<Ops.ADD: \d+>, None\)> on CPU with grad None>", repr(b))
    moved = Tensor(1, device="CUDA", dtype=dtypes.float16).to(device="CPU")
    assert re.fullmatch(r"<Tensor <UOp CPU \(\) half \(<Ops.COPY: \d+>, None\)> on CPU with grad None>", repr(moved))


def test_shapes_that_disagree_name_the_axis_and_both_lines() -> None:
    """The error of an addition says which axis disagrees, where both sides were made and how to repair it."""
    left = Tensor.ones(2, 3)
    right = Tensor.ones(2)
    with pytest.raises(ShapeError) as error:
        left._op(Ops.ADD, right)
    line = test_shapes_that_disagree_name_the_axis_and_both_lines.__code__.co_firstlineno
    first, second, third = str(error.value).splitlines()
    assert first == ("cannot add shapes (2, 3) and (2,): axis -1 is 3 on the left and 2 on the right, and neither is 1")
    assert re.fullmatch(rf"  left  made at \S*{HERE}:{line + 2}      right made at \S*{HERE}:{line + 3}", second)
    assert third == "  hint: to give one value to each row, reshape the right side to (2, 1)"


def test_devices_that_differ_are_an_error_that_says_where() -> None:
    """An expression over two devices names both, where each operand was made, and to()."""
    a, b = Tensor.ones(2, device="NULL"), Tensor.ones(2, device="PYTHON")
    with pytest.raises(DeviceError, match="cannot multiply tensors on different devices, NULL and PYTHON") as error:
        a._op(Ops.MUL, b)
    assert str(error.value).count(HERE) == 2
    assert str(error.value).endswith("hint: move one of them, as in t.to('NULL')")


def test_dtypes_that_an_op_cannot_take_are_an_error() -> None:
    """Bits of floats, and a condition that is no bool, raise DTypeError with the line of the operand."""
    with pytest.raises(DTypeError, match=r"cannot shift values of dtypes.float: it needs integers\n  made at"):
        Tensor([1.0])._op(Ops.SHL, 1)
    with pytest.raises(DTypeError, match=r"where needs a condition of bool, got dtypes.int"):
        Tensor([1])._op(Ops.WHERE, 1, 2)
    with pytest.raises(DTypeError, match=r"cannot add a tensor of shape \(.*\) and str"):
        Tensor([1])._op(Ops.ADD, "1")


@pytest.mark.parametrize(
    ("dtype", "value", "expected"),
    [
        (dtypes.half, 2.0, dtypes.half),
        (dtypes.int8, 2, dtypes.int8),
        (dtypes.int8, 2.5, dtypes.float32),
        (dtypes.bool, True, dtypes.bool),
        (dtypes.bool, 1, dtypes.int32),
        (dtypes.bfloat16, 1, dtypes.bfloat16),
    ],
)
def test_python_numbers_are_weak(dtype: object, value: float, expected: object) -> None:
    """A Python number changes a tensor's dtype only when it is of a higher kind."""
    assert Tensor([0], dtype=dtype)._op(Ops.ADD, value).dtype is expected
    assert Tensor([0], dtype=dtype)._const(value).dtype is expected


def test_tensors_promote_by_the_lattice_and_comparisons_give_bool() -> None:
    """int8 and uint8 meet at int16, an int and a half at half; a comparison is of bool."""
    small, unsigned = Tensor([-1], dtype=dtypes.int8), Tensor([255], dtype=dtypes.uint8)
    assert values(small._op(Ops.ADD, unsigned)).tolist() == [254]
    assert small._op(Ops.ADD, unsigned).dtype is dtypes.int16
    assert Tensor([1])._op(Ops.MUL, Tensor([1], dtype=dtypes.half)).dtype is dtypes.half
    assert small._op(Ops.CMPLT, unsigned).dtype is dtypes.bool
    assert Tensor([True])._op(Ops.WHERE, 1, 2.0).dtype is dtypes.float32


def test_float_only_ops_cast_integers() -> None:
    """A square root of ints, and a quotient of bools, are of the default float."""
    assert values(Tensor([4, 9])._op(Ops.SQRT)).tolist() == [2.0, 3.0]
    assert values(Tensor([True])._op(Ops.FDIV, Tensor([True]))).dtype == np.float32


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_broadcast_shape_agrees_with_numpy(data: st.DataObject) -> None:
    """The common shape of several shapes, or that there is none, is numpy's."""
    shape = st.lists(st.sampled_from([0, 1, 2, 3]), max_size=4).map(tuple)
    shapes = data.draw(st.lists(shape, min_size=1, max_size=3))
    try:
        expected = np.broadcast_shapes(*shapes)
    except ValueError:
        expected = None
    assert broadcast_shape(*shapes) == expected


def test_operands_of_all_shapes_broadcast() -> None:
    """Rank 0, ones, missing and empty axes broadcast as in numpy."""
    for a, b in (((2, 1), (3,)), ((), (2, 2)), ((0, 1), (1, 3)), ((4, 1, 2), (3, 1))):
        x, y = np.random.default_rng(0).random(a, np.float32), np.random.default_rng(1).random(b, np.float32)
        np.testing.assert_array_equal(values(Tensor(x)._op(Ops.ADD, Tensor(y))), x + y)


def test_broadcasted_gives_both_operands_in_one_shape_and_dtype() -> None:
    """_broadcasted is what an op does to its operands, without the op."""
    a, b = Tensor([[1], [2]])._broadcasted(Tensor([1.5, 2.5]))
    assert a.shape == b.shape == (2, 2)
    assert a.dtype is b.dtype is dtypes.float32
    c, d = Tensor([1, 2])._broadcasted(0.5)
    assert (c.dtype, d.shape) == (dtypes.float32, (2,))


def test_reduce_drops_or_keeps_its_axes() -> None:
    """_reduce takes axes from either end, drops them or keeps them with size 1, and refuses strange ones."""
    x = np.arange(24, dtype=np.int32).reshape(2, 3, 4)
    t = Tensor(x)
    np.testing.assert_array_equal(values(t._reduce(Ops.ADD, -1)), x.sum(-1))
    np.testing.assert_array_equal(values(t._reduce(Ops.MAX, (0, 2), True)), x.max((0, 2), keepdims=True))
    assert values(t._reduce(Ops.ADD, None)).tolist() == x.sum()
    with pytest.raises(ShapeError, match=r"axis 3 is not an axis of shape \(2, 3, 4\): choose from -3 to 2"):
        t._reduce(Ops.ADD, 3)
    with pytest.raises(ShapeError, match=r"each axis can be named once, got \(1, -2\)"):
        t._reduce(Ops.ADD, (1, -2))


def test_a_symbolic_integer_is_an_operand() -> None:
    """A bound variable takes part as an int32 number, and is weak."""
    bound = UOp.variable("a", 1, 10).bind(3)
    assert Tensor([1, 2])._op(Ops.ADD, bound).dtype is dtypes.int32
    assert Tensor([1.0])._op(Ops.MUL, bound).dtype is dtypes.float32
    assert values(Tensor([1, 2])._op(Ops.MUL, bound)).tolist() == [3, 6]


def test_flags_of_operands_reach_the_result() -> None:
    """A result needs a gradient if an operand does; None is unknown; only False with False is False."""
    yes, no, maybe = (Tensor([1.0], requires_grad=flag) for flag in (True, False, None))
    assert yes._op(Ops.ADD, no).requires_grad is True
    assert no._op(Ops.ADD, maybe).requires_grad is None
    assert no._op(Ops.ADD, 1).requires_grad is False
    assert maybe._op(Ops.ADD, yes).requires_grad is True


def test_live_tensors_are_those_still_referred_to() -> None:
    """The registry knows every tensor that exists and forgets it when it is gone."""
    gc.collect()
    t = Tensor([1.0])
    assert any(found is t for found in live_tensors())
    before = len(live_tensors())
    del t
    assert len(live_tensors()) == before - 1


def test_made_at_is_the_line_of_the_user() -> None:
    """However deep the method that makes a tensor, its place is the caller's line."""
    t = Tensor.arange(6).reshape(2, 3).pad((1, 1), value=2)
    file, line = t.made_at
    assert Path(file).name == HERE
    assert line == test_made_at_is_the_line_of_the_user.__code__.co_firstlineno + 2


SHAPES = [((2, 3), (3,)), ((3,), (2, 3)), ((2, 1), (1, 3)), ((), (2,)), ((2, 3), ()), ((0, 3), (1, 3)), ((1,), (4, 1)),
          ((2, 3), (2, 3))]  # fmt: skip


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.int8, dtypes.int64, dtypes.float16, dtypes.float64])
def test_the_short_way_of_two_operands_is_the_general_one(dtype: DType) -> None:
    """Operands of one dtype and any shapes make the node, or raise the sentence, that `_general` makes or raises."""
    for a, b in SHAPES:
        left, right = Tensor.empty(*a, dtype=dtype), Tensor.empty(*b, dtype=dtype)
        for op in (Ops.ADD, Ops.MAX, Ops.CMPLT, Ops.FDIV, Ops.POW, Ops.IDIV, Ops.MOD, Ops.SHL, Ops.XOR):
            assert outcome(left._op, op, right) == outcome(left._general, op, (right,)), (op, a, b)


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.int8, dtypes.int64, dtypes.float16, dtypes.float64])
@pytest.mark.parametrize("number", [2, -1, 0, 0.5, -0.0, float("nan"), 1e300, 300, 2**70, True])
def test_the_short_way_of_a_number_is_the_general_one(dtype: DType, number: float) -> None:
    """A number beside a tensor, in the operations that take the short way and in those that do not."""
    left = Tensor.empty(2, 3, dtype=dtype)
    for op in (Ops.ADD, Ops.MIN, Ops.FDIV, Ops.POW, Ops.CMPLT, Ops.MOD):
        assert outcome(left._op, op, number) == outcome(left._general, op, (number,)), op


def outcome(make: Callable[..., Tensor], *args: object) -> UOp | tuple[type[Exception], str]:
    """The node of a result, or the error."""
    try:
        return make(*args).uop
    except (DTypeError, ShapeError, NumberOutOfRange) as error:
        return type(error), str(error)


def test_code_without_a_file_of_its_own_is_the_users() -> None:
    """Code that was compiled from text is told from this library's by its module, also after the latter ran."""
    space = {"__name__": "somewhere", "Tensor": Tensor}
    exec(compile("\n\nt = Tensor.arange(6).reshape(2, 3).pad((1, 1))", "<string>", "exec"), space)
    assert space["t"].made_at == ("<string>", 3)  # type: ignore[attr-defined]
