"""Random expressions of `benchmarks.shapes` are the same for a seed, and mean the same to both libraries."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from benchmarks import shapes
from benchmarks.operators import Functions

from tinygraft import Tensor


@pytest.mark.parametrize("kind", shapes.KINDS, ids=lambda kind: kind.__name__)
def test_draws_are_the_same_for_a_seed(kind: object) -> None:
    """Expressions and arrays."""
    assert callable(kind)
    for seed in range(3):
        (one, arrays), (other, others) = (kind(shapes.Draw(seed)) for _ in range(2))
        assert one == other
        assert arrays.keys() == others.keys()
        assert all(np.array_equal(arrays[name], others[name]) for name in arrays)


@pytest.mark.parametrize("kind", shapes.KINDS, ids=lambda kind: kind.__name__)
def test_expressions_have_the_shapes_that_torch_gives_them(kind: object) -> None:
    """Without computing them: ours are lazy, theirs on the device of PyTorch that has no memory."""
    assert callable(kind)
    places = torch.nn.functional, torch.linalg, torch
    for seed in range(8):
        expression, arrays = kind(shapes.Draw(100 + seed))
        theirs = {name: torch.from_numpy(array).to("meta") for name, array in arrays.items()}
        ours = {name: Tensor(array) for name, array in arrays.items()}
        found = eval(expression, {**ours, "f": Functions(Tensor)})
        wanted = eval(expression, {**theirs, "f": Functions(*places)})
        assert found.shape == tuple(wanted.shape), expression
