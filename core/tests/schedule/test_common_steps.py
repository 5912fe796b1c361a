"""FOLDs whose strides and gaps have a common divisor: they become those without it, with the same values."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tensor_nodes import memory
from tinygraft import Tensor
from tinygraft.schedule.common_steps import in_common_steps
from tinygraft.uop.ops import Ops, WindowArg
from tinygraft.uop.uop import UOp, postorder


def fold(length: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], gaps: tuple[int, ...]) -> UOp:
    """What slides back over memory."""
    arg = WindowArg(length, size, stride, gaps)
    windows = memory(2, *arg.count, *size)
    return UOp(Ops.FOLD, windows.dtype, (windows,), arg)


@pytest.mark.parametrize(
    ("stride", "gaps", "size", "want"),
    [
        ((2, 2), (2, 2), (3, 3), ((1, 1), (1, 1))),
        ((4, 6), (2, 4), (3, 2), ((2, 3), (1, 2))),
        ((2, 3), (2, 2), (3, 3), ((1, 3), (1, 2))),
        ((2, 2), (2, 2), (1, 3), ((2, 1), (2, 1))),
    ],
)
def test_steps_and_gaps_are_divided(
    stride: tuple[int, int], gaps: tuple[int, int], size: tuple[int, int], want: tuple[tuple[int, int], ...]
) -> None:
    """Along each axis by their greatest common divisor; not where a window has one element."""
    node = fold((23, 30), size, stride, gaps)
    new = in_common_steps(postorder(node))[node]
    (inner,) = [n for n in postorder(new) if n.op is Ops.FOLD]
    assert (inner.arg.stride, inner.arg.dilation) == want
    assert new.shape == node.shape and inner.src == node.src and inner.arg.count == node.arg.count


@pytest.mark.parametrize(("stride", "gaps"), [((2,), (1,)), ((1,), (2,)), ((3,), (2,))])
def test_others_stay(stride: tuple[int], gaps: tuple[int]) -> None:
    """Without a common divisor nothing changes."""
    assert in_common_steps(postorder(fold((20,), (3,), stride, gaps))) == {}


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_gradients_beside_torch(data: st.DataObject) -> None:
    """Of convolutions, plain and transposed, of one axis or two, with strides, gaps, padding and groups."""
    axes = data.draw(st.integers(1, 2))
    stride = [data.draw(st.sampled_from([1, 2, 2, 3, 4])) for _ in range(axes)]
    gaps = [data.draw(st.sampled_from([1, 2, 2, 3, 4])) for _ in range(axes)]
    kernel = [data.draw(st.integers(1, 3)) for _ in range(axes)]
    padding = [data.draw(st.integers(0, 2)) for _ in range(axes)]
    groups = data.draw(st.sampled_from([1, 2]))
    sizes = [data.draw(st.integers(d * (k - 1) + 1, d * (k - 1) + 9)) for d, k in zip(gaps, kernel, strict=True)]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x, w = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((2, 4, *sizes), (4, 4 // groups, *kernel)))
    ours, theirs = ([t(x), t(w)] for t in (Tensor, torch.tensor))
    for t in (*ours, *theirs):
        t.requires_grad = True
    back = data.draw(st.booleans())
    ways = {"stride": tuple(stride), "dilation": tuple(gaps), "groups": groups}
    if not back:
        ways["padding"] = tuple(padding)
    name = "conv_transpose" if back else "conv"
    want = getattr(torch.nn.functional, f"{name}{axes}d")(*theirs, **ways)
    found = getattr(ours[0], f"{name}2d")(ours[1], **ways)
    np.testing.assert_array_equal(found.numpy(), want.detach().numpy())
    slope = rng.integers(-3, 4, tuple(want.shape)).astype(np.float32)
    want.backward(torch.tensor(slope))
    found.backward(Tensor(slope))
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.grad is not None and its.grad is not None
        np.testing.assert_array_equal(mine.grad.numpy(), its.grad.numpy())
