"""Which routines the CPU brings itself, for which dtypes, and from where: the fastest source that is here.

Measured beside each other on 2026-11-23 (benchmarks/NOTES.md): the extension's C for orders, counts and transforms;
LAPACK by the addresses that SciPy exports for linear algebra; NumPy where one of these is missing.
"""

from __future__ import annotations

import functools
import importlib.util
import sys

from tinygraft.plugin import DeclaredRoutine, DType, Ops, dtypes
from tinygraft_cpu import extension, machine

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
    "running": (*REAL, dtypes.int64),
    "attention": REAL,
    "attention_backward": REAL,
    "convolution": (dtypes.float32,),
    "direct_convolution": (dtypes.float32,),
    "transposed_convolution": (dtypes.float32,),
    "depthwise_convolution": (dtypes.float32,),
    "convolution_weights": (dtypes.float32,),
}
EPILOGUES = dict.fromkeys(("direct_convolution", "depthwise_convolution"), (Ops.ADD, Ops.SUB, Ops.MUL, Ops.MAX))
MOST = 2**31 - 1  # elements of a row: its indices are int32, and so are counts
MOST_OF_LAPACK = 2**29  # of a matrix: LAPACK's integers have 32 bits, and count a workspace of 2 n**2 numbers
BY_LAPACK = (
    "cholesky",
    "lu",
    "solve",
    "triangular",
    "inverse",
    "qr",
    "eigh",
    "eigvalsh",
    "svd",
    "svdvals",
    "det",
    "lstsq",
    "matrix_exp",
)
BY_NUMPY = ("cholesky", "solve", "inverse", "eigh", "eigvalsh", "svd", "svdvals", "fft", "rfft", "irfft")


@functools.cache
def sources() -> dict[str, str]:
    """Return where each routine comes from, by name: extension, lapack or numpy."""
    found = dict.fromkeys(BY_NUMPY, "numpy")
    library = extension.library()
    if library is not None and sys.byteorder == "little":
        # an extension that was built from older sources lacks some: kernels compute these, and `about` says so
        found |= {name: "extension" for name in BY_EXTENSION if library.tg_routine(name.encode())}
        if not machine.multipliers():
            found.pop("direct_convolution", None)  # it is not measured beside kernels there
        if importlib.util.find_spec("scipy") is not None:
            found |= dict.fromkeys(BY_LAPACK, "lapack")
    return found


def declared() -> tuple[DeclaredRoutine, ...]:
    """Return the routines that there are here, each with its dtypes."""
    return tuple([
        DeclaredRoutine(
            name,
            BY_EXTENSION.get(name, REAL),
            most=MOST_OF_LAPACK if source == "lapack" else MOST,
            epilogue=EPILOGUES.get(name, ()),
        )
        for name, source in sources().items()
    ])  # fmt: skip


def about() -> str:
    """Return where routines come from, as a line for doctor."""
    named = {"extension": "of the extension", "lapack": "by SciPy's LAPACK", "numpy": "by NumPy"}
    by: dict[str, list[str]] = {}
    for name, source in sources().items():
        by.setdefault(source, []).append(name)
    text = "; ".join(f"{', '.join(sorted(names))} {named[source]}" for source, names in sorted(by.items()))
    missing = [name for name in (*BY_EXTENSION, *BY_LAPACK) if name not in sources()]
    return f"routines: {text}" + (f"; {', '.join(missing)} by kernels" if missing else "")
