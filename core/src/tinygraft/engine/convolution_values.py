"""What the routine of convolutions means, with NumPy (see routine_values.py)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tinygraft.engine.arithmetic import Array
from tinygraft.uop.routines import RoutineOptions


def convolution(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the sums over channels and windows of x times weights, in float64, as (examples, batch, groups, ...).

    Operands and options are those of the routine (uop/routines.py); `fast` changes nothing.
    """
    x, w = [operand.astype(np.float64) for operand in operands]
    above, below, left, right, turned, _ = options
    if turned:
        w = w.swapaxes(2, 3)[..., ::-1, ::-1]
    x = np.pad(x, [(0, 0)] * 4 + [(above, below), (left, right)])
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[-2:], axis=(-2, -1))
    return [np.einsum("ebgcyxij,egfcij->ebgfyx", windows, w, optimize=True)]
