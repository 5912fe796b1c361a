"""What a mistake says, whole: what was asked, the shapes, the axis, the lines that made the tensors, and what to do.

<> stands for a line of this file.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.errors import DTypeError, IndexOutOfRange, ShapeError

ones = Tensor.ones
A = ones(2, 3)
MASK = A > 0
IMAGE, KERNEL = ones(1, 3, 8, 8), ones(4, 3, 3, 3)
INDEX = Tensor([[0]])
Case = tuple[type[Exception], Callable[[], Any], str]

JOINED: dict[str, Case] = {
    "cat of other sizes": (ShapeError, lambda: A.cat(ones(2, 4)),
        "cannot cat shapes (2, 3) and (2, 4) along axis 0: axis 1 is 3 in the first and 4 in the other\n"
        "  first made at <>      other made at <>"),
    "cat of other ranks": (ShapeError, lambda: Tensor.cat(A, ones(3), dim=1),
        "cannot cat shapes (2, 3) and (3,): they have 2 and 1 axes\n  first made at <>      other made at <>"),
    "cat of numbers": (ShapeError, lambda: Tensor(1.0).cat(Tensor(2.0)),
        "cat needs an axis, got a tensor of shape ()\n  made at <>"),
    "cat of nothing": (ShapeError, lambda: Tensor.cat([]), "cat needs at least one tensor, got none"),
    "cat along a number": (DTypeError, lambda: A.cat(A, 1),  # where others have the axis
        "cat takes tensors, got 1; an axis is given by its name, as in dim=1"),
    "stack": (ShapeError, lambda: A.stack(ones(3, 2)),
        "cannot stack shapes (2, 3) and (3, 2): axis 0 is 2 in the first and 3 in the other\n"
        "  first made at <>      other made at <>"),
    "pad": (ShapeError, lambda: A.pad((1, 1, 1)),
        "pad needs pairs of numbers, at most one pair for each axis of (2, 3), got (1, 1, 1)\n  made at <>"),
    "pad by more than there is": (ShapeError, lambda: A.pad((4, 0), mode="reflect"),
        "pad with mode reflect has room for 2 on axis 1 of (2, 3), got 4 before and 0 after\n  made at <>"),
    "repeat": (ShapeError, lambda: A.repeat(2, -1),
        "repeat needs a number for each axis of (2, 3), got (2, -1); none is negative\n  made at <>"),
}  # fmt: skip
MOVED: dict[str, Case] = {
    "reshape": (ShapeError, lambda: A.reshape(4),
        "cannot reshape (2, 3), which has 6 elements, to (4,), which has 4\n  made at <>"),
    "reshape with a rest": (ShapeError, lambda: A.reshape(4, -1),
        "cannot reshape (2, 3) to (4, -1): 6 elements are no multiple of 4\n  made at <>"),
    "reshape with two rests": (ShapeError, lambda: A.reshape(-1, -1),
        "one size can be -1, got (-1, -1) for shape (2, 3)\n  made at <>"),
    "reshape below -1": (ShapeError, lambda: A.reshape(-2, -3),
        "cannot reshape (2, 3) to (-2, -3): a size is 0 or more, and -1 stands for the remaining size\n  made at <>"),
    "unflatten": (ShapeError, lambda: A.unflatten(1, (2, -1)),
        "cannot reshape axis 1 of (2, 3) to (2, -1): 3 elements are no multiple of 2\n  made at <>"),
    "expand": (ShapeError, lambda: ones(3).expand(2, 4),
        "cannot expand (3,) to (2, 4): axis -1 is 3 and would be 4, and only axes of size 1 grow\n  made at <>"),
    "expand to fewer axes": (ShapeError, lambda: A.expand(3),
        "cannot expand (2, 3) to (3,), which has fewer axes\n  made at <>"),
    "permute": (ShapeError, lambda: A.permute(0, 0),
        "permute needs each axis of (2, 3) once, got (0, 0)\n  made at <>"),
    "transpose": (ShapeError, lambda: A.transpose(0, 2),
        "axis 2 is not an axis of shape (2, 3): choose from -2 to 1\n  made at <>"),
    "squeeze of a number": (ShapeError, lambda: Tensor(1.0).squeeze(1),
        "axis 1 is not an axis of shape (): it has none\n  made at <>"),
    "shrink": (ShapeError, lambda: A.shrink(((0, 5), None)), "cannot shrink axis 0 of (2, 3) to (0, 5)\n  made at <>"),
    "split": (ShapeError, lambda: A.split([1, 1], dim=1),
        "split needs sizes that add up to 3, axis 1 of (2, 3), and none below 0; [1, 1] do not\n  made at <>"),
    "split of a number": (ShapeError, lambda: Tensor(1.0).split(1),
        "split needs an axis, got a tensor of shape ()\n  made at <>"),
    "flip": (ShapeError, lambda: A.flip(0, 0),
        "each axis can be named once, got (0, 0) for shape (2, 3)\n  made at <>"),
    "roll": (ShapeError, lambda: A.roll((1, 2), 0),
        "roll needs one shift for each axis, got (1, 2) and 0 for shape (2, 3)\n  made at <>"),
    "topk": (ShapeError, lambda: A.topk(5), "topk cannot take 5 of 3 elements, axis 1 of (2, 3)\n  made at <>"),
}  # fmt: skip
MULTIPLIED: dict[str, Case] = {
    "broadcasting": (ShapeError, lambda: A + ones(4),
        "cannot add shapes (2, 3) and (4,): axis -1 is 3 on the left and 4 on the right, and neither is 1\n"
        "  left  made at <>      right made at <>"),
    "broadcasting a number for each row": (ShapeError, lambda: A * ones(2),
        "cannot multiply shapes (2, 3) and (2,): axis -1 is 3 on the left and 2 on the right, and neither is 1\n"
        "  left  made at <>      right made at <>\n"
        "  hint: to give one value to each row, reshape the right side to (2, 1)"),
    "a string": (DTypeError, lambda: A + "1", "cannot add a tensor of shape (2, 3) and str\n  made at <>"),
    "where": (ShapeError, lambda: MASK.where(ones(4), 0.0),
        "cannot choose between shapes (2, 3) and (4,): axis -1 is 3 on the left and 4 on the right, and neither is 1\n"
        "  left  made at <>      right made at <>"),
    "where without bools": (DTypeError, lambda: A.where(1, 0),
        "where needs a condition of bool, got dtypes.float\n  made at <>\n"
        "  hint: compare first, as in (t != 0).where(a, b)"),
    "assign": (ShapeError, lambda: ones(2, 3).assign(ones(4)),
        "cannot assign shape (4,) to a tensor of shape (2, 3)\n  made at <>      assigned to the tensor made at <>"),
    "matmul": (ShapeError, lambda: A @ A,
        "cannot multiply shapes (2, 3) and (2, 3) as matrices: axis -1 of the left is 3 and axis -2 of the right is 2\n"
        "  left  made at <>      right made at <>"),
    "matmul of many": (ShapeError, lambda: ones(2, 3, 4) @ ones(3, 4, 5),
        "cannot multiply shapes (2, 3, 4) and (3, 4, 5) as matrices: axis -3 is 2 on the left and 3 on the right, and "
        "neither is 1\n  left  made at <>      right made at <>"),
    "matmul by a number": (ShapeError, lambda: A @ 2,
        "matmul needs tensors of one axis or more, got shape (2, 3) and the number 2; multiply by * instead\n"
        "  made at <>"),
    "conv2d of other channels": (ShapeError, lambda: IMAGE.conv2d(ones(4, 2, 3, 3)),
        "conv2d of (1, 3, 8, 8) by a weight of (4, 2, 3, 3) in 1 groups: axis 1 of the input is 3, the weight takes "
        "2 x 1 channels and gives 4\n  input made at <>      weight made at <>"),
    "conv2d by too large a kernel": (ShapeError, lambda: ones(1, 3, 2, 5).conv2d(KERNEL),
        "a window of size 3, stride 1 and dilation 1 does not fit axis -2 of (1, 3, 2, 5), which has 2\n  made at <>"),
    "conv2d with a bias": (ShapeError, lambda: IMAGE.conv2d(KERNEL, ones(5)),
        "a bias has one number for each of 4 channels, got shape (5,) for a result of (1, 4, 6, 6)\n"
        "  result made at <>      bias made at <>"),
    "einsum": (ShapeError, lambda: Tensor.einsum("ij,jk->ik", A, A),
        "einsum 'ij,jk->ik' of shapes (2, 3) and (2, 3): 'j' is 3, axis 1 of the first, and 2, axis 0 of the second\n"
        "  first made at <>      second made at <>"),
    "einsum with too many letters": (ShapeError, lambda: Tensor.einsum("ijk->i", A),
        "einsum 'ijk->i' gives 'ijk' to an operand of 2 axes, shape (2, 3)\n  made at <>"),
    "einsum with too few operands": (ShapeError, lambda: Tensor.einsum("ij,jk", A),
        "einsum 'ij,jk' names 2 operands, got 1 of shapes (2, 3)"),
    "einsum with a new letter": (ShapeError, lambda: Tensor.einsum("ij->ik", A),
        "einsum 'ij->ik' has 'k' in its result, which must be in an operand and named once"),
}  # fmt: skip
INDEXED: dict[str, Case] = {
    "t[2]": (IndexOutOfRange, lambda: A[2],
        "index 2 is out of range for axis 0 of shape (2, 3): it has 2 elements\n  made at <>"),
    "t[:, [0, -4]]": (IndexOutOfRange, lambda: A[:, [0, -4]],
        "index -4, at (1,) of an index of shape (2,), is out of range for axis 1 of shape (2, 3): it has 3 elements\n"
        "  made at <>"),
    "t[0, 0, 0]": (IndexOutOfRange, lambda: A[0, 0, 0], "3 indices for a tensor of 2 axes, shape (2, 3)\n  made at <>"),
    "t[..., ...]": (IndexOutOfRange, lambda: A[..., ...],
        "an index can have one ellipsis (...), got 2 for a tensor of shape (2, 3)\n  made at <>"),
    "t[1.0]": (DTypeError, lambda: A[1.0],
        "an index is made of integers, slices, None, ... and tensors, got float for a tensor of shape (2, 3)\n"
        "  made at <>"),
    "t[0.5:]": (DTypeError, lambda: A[:, 0.5:],  # type: ignore[misc]
        "a slice is made of integers, got 0.5 for axis 1 of shape (2, 3)\n  made at <>"),
    "t[::0]": (ShapeError, lambda: A[::0],
        "a slice needs a step other than 0, on axis 0 of shape (2, 3)\n  made at <>"),
    "t[[0.5]]": (DTypeError, lambda: A[[0.5]],
        "an index is made of integers or bools, got a list or array of float64 for a tensor of shape (2, 3)\n"
        "  made at <>"),
    "t[floats]": (DTypeError, lambda: A[A],
        "an index is made of integers or bools, got a tensor of dtypes.float\n  made at <>\n  hint: index.cast('int')"),
    "t[i, j]": (IndexOutOfRange, lambda: A[Tensor([0, 1]), Tensor([0, 1, 2])],
        "index tensors of shapes (2,), (3,) do not broadcast together\n  (2,) made at <>      (3,) made at <>"),
    "t[mask]": (IndexOutOfRange, lambda: A[np.array([True, False, True])],
        "a mask of shape (3,) does not fit axis 0 of shape (2, 3)\n  mask made at <>      tensor made at <>"),
    "t[0] = v": (ShapeError, lambda: ones(2, 3).__setitem__(0, ones(2)),
        "cannot write a value of shape (2,) to elements of shape (3,)\n  value made at <>      tensor made at <>"),
    "gather": (ShapeError, lambda: A.gather(0, Tensor([0, 1])),
        "an index of shape (2,) does not fit a tensor of shape (2, 3) along axis 0: it needs as many axes, and each "
        "other one must be no longer than the tensor's\n  index made at <>      tensor made at <>"),
    "gather by floats": (DTypeError, lambda: A.gather(0, A),
        "gather needs an index of integers, got dtypes.float\n  made at <>"),
    "gather by a list": (IndexOutOfRange, lambda: A.gather(1, [[0, 3]]),  # type: ignore[arg-type]
        "index 3, at (0, 1) of an index of shape (1, 2), is out of range for axis 1 of shape (2, 3): it has 3 "
        "elements\n  made at <>"),
    "scatter": (ShapeError, lambda: A.scatter(0, INDEX, ones(1)),
        "an index of shape (1, 1) does not fit a source of shape (1,)\n  index made at <>      source made at <>"),
    "index_select of no elements": (IndexOutOfRange, lambda: ones(2, 0).index_select(1, Tensor([0])),
        "an index of shape (1,) cannot index axis 1 of shape (2, 0), which has no elements\n"
        "  index made at <>      tensor made at <>"),
    "take": (IndexOutOfRange, lambda: A.take([6]),
        "index 6, at (0,) of an index of shape (1,), is out of range for axis 0 of shape (6,): it has 6 elements\n"
        "  made at <>"),
    "masked_select": (ShapeError, lambda: A.masked_select(Tensor([True, False])),
        "a mask of shape (2,) does not fit a tensor of shape (2, 3)\n  mask made at <>      tensor made at <>"),
    "from_blob": (DTypeError, lambda: Tensor.from_blob("x", (2,)),  # type: ignore[arg-type]
        "from_blob needs an address, which is an integer, got 'x' for shape (2,)"),
    "from_dlpack": (DTypeError, lambda: Tensor.from_dlpack([1, 2]),
        "from_dlpack takes an array of another library, which has a method __dlpack__, or its capsule, got list\n"
        "  hint: Tensor(data) takes numbers and lists"),
}  # fmt: skip
CASES = {f"{number}. {name}": case for number, group in enumerate((JOINED, MOVED, MULTIPLIED, INDEXED), 1)
         for name, case in group.items()}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_whole_sentence(name: str) -> None:
    """The message is exactly this, and is raised where the mistake is, before anything is computed."""
    error, mistake, text = CASES[name]
    with pytest.raises(error) as caught:
        mistake()
    assert re.fullmatch(re.escape(text).replace("<>", r"\S*test_errors\.py:\d+"), str(caught.value)), caught.value


def test_the_lines_are_right() -> None:
    """Each operand has the line that made it, also after it was realised."""
    left = ones(2, 3).realize()
    right = ones(4)
    with pytest.raises(ShapeError) as caught:
        left @ right
    here = left.made_at[1]
    assert re.findall(r"made at \S+:(\d+)", str(caught.value)) == [str(here), str(here + 1)]


@pytest.mark.parametrize(
    ("index", "shape"),
    [
        (5, (2, 3)), ((0, 3), (2, 3)), ((0, 0, 0), (2, 3)), ([2], (2, 3)), ((Ellipsis, Ellipsis), (2, 3)), (1.0, (2,)),
        ("a", (2,)), (np.array([0.5]), (2,)), (np.array([True, False, True]), (2, 3)), (([0, 1], [0, 1, 2]), (2, 3)),
        (0, ()), (0, (0, 3)), (np.array([0]), (0, 3)), (slice(None, None, 0), (2,)), ((slice(None), -4), (2, 3)),
        (np.array([[2]]), (2,)),
    ],
)  # fmt: skip
def test_what_numpy_rejects_is_rejected(index: Any, shape: tuple[int, ...]) -> None:
    """With an error of the same kind or nearer, for reading and for writing, and with the shape in its words."""
    with pytest.raises((IndexError, TypeError, ValueError)):
        np.ones(shape)[index]
    t = ones(*shape).contiguous() if shape else Tensor(1.0)
    for mistake in (lambda: t[index], lambda: t.__setitem__(index, 0.0)):
        with pytest.raises((IndexError, TypeError, ValueError), match=re.escape(str(shape)) + "|do not broadcast"):
            mistake()
