"""What two results differ in, one of tinygraft and one of PyTorch: shape, dtype to its width, values.

A sentence comes out, or None where they agree.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tinygraft import Tensor
from torch_calls import Left, to_dtype

Array = np.ndarray[Any, Any]

# (relative, absolute) distance of a value from PyTorch's, by its dtype.
CLOSE = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1e-4, 1e-5),
    torch.complex64: (1e-4, 1e-5),
    torch.float16: (2e-3, 2e-3),
    torch.bfloat16: (1.6e-2, 1e-2),
}
FOR_NUMPY = {torch.bfloat16: torch.float32, torch.complex32: torch.complex64}


def difference(ours: Any, theirs: Any, values: bool, close: tuple[float, float] | None = None) -> str | None:
    """What two results differ in; None where they agree."""
    if isinstance(theirs, torch.Tensor):
        theirs = theirs.detach().resolve_conj().resolve_neg()
        near = close or CLOSE.get(theirs.dtype, (0.0, 0.0))
        want = theirs.to(FOR_NUMPY.get(theirs.dtype, theirs.dtype)).numpy(force=True)
    else:
        near, want = close or (1e-4, 1e-5), np.asarray(theirs)
    if isinstance(theirs, torch.Tensor) and not isinstance(ours, Tensor):
        return f"a {type(ours).__name__}, not a tensor"
    got = ours.numpy() if isinstance(ours, Tensor) else np.asarray(ours)
    if got.shape != want.shape:
        return f"shape {got.shape}, not {want.shape}"
    problem = _dtype_difference(ours, got, theirs, want)
    if problem is not None:
        return problem
    if not values or not want.size or want.dtype.kind not in "biufc":
        return None
    with np.errstate(all="ignore"):
        if want.dtype.kind in "biu":
            off = got != want.astype(got.dtype)
        else:
            wide = np.complex128 if want.dtype.kind == "c" else np.float64
            off = ~np.isclose(got.astype(wide), want.astype(wide), *near, equal_nan=True)
    if not off.any():
        return None
    place = tuple(int(i) for i in np.argwhere(off)[0]) if off.ndim else ()
    return f"{int(off.sum())} of {off.size} values differ, at {place} {got[place]} and not {want[place]}"


def _dtype_difference(ours: Any, got: Array, theirs: Any, want: Array) -> str | None:
    """What dtypes differ in; of Python numbers the kinds are compared."""
    if not isinstance(theirs, torch.Tensor):
        return None if got.dtype.kind == want.dtype.kind else f"dtype {got.dtype}, not {want.dtype}"
    try:
        wanted = to_dtype(theirs.dtype)
    except Left:  # one that is not here: complex numbers of two float16
        return None if got.dtype.kind == want.dtype.kind else f"dtype {ours.dtype}, not {theirs.dtype}"
    return None if ours.dtype is wanted else f"dtype {ours.dtype.name}, not {wanted.name}"
