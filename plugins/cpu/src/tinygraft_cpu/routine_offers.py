"""Which routines the CPU brings itself, for which dtypes: what the extension has."""

from __future__ import annotations

import importlib.util
import sys

from tinygraft.plugin import DType, RoutineOffer, dtypes
from tinygraft_cpu import extension

ORDERED = (dtypes.bool, *dtypes.ints, dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)
REAL = (dtypes.float32, dtypes.float64)
INDICES = (dtypes.int32, dtypes.int64)
BY_EXTENSION: dict[str, tuple[DType, ...]] = {
    "sort": ORDERED,
    "topk": ORDERED,
    "unique": ORDERED,
    "histogram": INDICES,
    "fft": REAL,
    "rfft": REAL,
    "irfft": REAL,
}


BY_LAPACK = ("cholesky", "lu", "solve", "inverse", "qr", "eigh", "svd")


def offers() -> tuple[RoutineOffer, ...]:
    """Return the routines that there are here: none of the extension's where that is missing."""
    if extension.library() is None or sys.byteorder != "little":
        return ()
    found = [RoutineOffer(name, kinds) for name, kinds in BY_EXTENSION.items()]
    if importlib.util.find_spec("scipy") is not None:
        found += [RoutineOffer(name, REAL) for name in BY_LAPACK]
    return tuple(found)
