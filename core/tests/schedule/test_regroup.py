"""Reductions in two steps: what is cut, by shapes alone, and values that stay the same."""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.schedule import regroup
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import postorder


@pytest.mark.parametrize(
    "shape",
    [
        (33, 40, 32, 1), (31, 31, 41), (2, 2, 40, 37, 11), (1, 40000), (64, 513), (3, 19, 17, 41), (33, 40, 128, 1),
        (31, 71, 61), (2, 2, 80, 37, 21), (1, 140000), (64, 2049), (3, 39, 57, 81),
    ],
)  # fmt: skip
def test_a_long_reduction_over_short_axes(shape: tuple[int, ...]) -> None:
    """No axis has to be long for the whole to be: each is cut into at most as many parts as it has elements."""
    numbers = np.random.default_rng(1).integers(-4, 5, shape).astype(np.float32)
    assert Tensor(numbers).sum().item() == numbers.sum()
    assert Tensor(numbers).max().item() == numbers.max()
    last = tuple(range(1, len(shape)))
    np.testing.assert_array_equal(Tensor(numbers).sum(last).numpy(), numbers.sum(last))


@pytest.mark.parametrize(
    ("shape", "axis"),
    [((512, 1024), 0), ((64, 5000), 0), ((8, 512, 512), 1), ((1, 140000), 1), ((63, 5000), 1)],
)
def test_parts_are_whole_rows(shape: tuple[int, ...], axis: int) -> None:
    """The first axis that is long enough is cut: a part of the longest one has short pieces that are far apart."""
    sums = [node for node in postorder(Tensor.empty(*shape).sum().uop) if node.op is Ops.REDUCE_AXIS]
    found = regroup._parts(sums[0])
    assert found is not None
    assert found[0] == axis
