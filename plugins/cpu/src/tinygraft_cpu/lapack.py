"""Addresses of LAPACK's and BLAS's functions: those of the library that SciPy brings, exported for other compiled code.

Its integers have 32 bits, its functions take pointers only (scipy.linalg.cython_lapack and cython_blas).
"""

from __future__ import annotations

import ctypes
import functools
import importlib

from tinygraft.plugin import UnsupportedError

# the functions that each routine of matrices.c calls, without the letter of the dtype, in its order
FUNCTIONS = {
    "cholesky": ("potrf",),
    "lu": ("getrf",),
    "solve": ("getrf", "getrs"),
    "triangular": ("trsm", "trsv"),
    "inverse": ("getrf", "getrs", "getri"),
    "qr": ("gemm",),
    "eigh": ("syevd", "stedc", "gemm", "laed1"),
    "eigvalsh": ("syevd", "sterf"),
    "svd": ("gesdd",),
    "svdvals": ("gesdd",),
    "det": ("getrf",),
    "lstsq": ("gemm", "trtri", "trsm", "gelsd"),
    "matrix_exp": ("gemm",),
}
OF_BLAS = ("trsm", "trsv", "gemm")
OF_PRODUCTS = (
    "cholesky",
    "lu",
    "solve",
    "triangular",
    "inverse",
    "det",
    "matrix_exp",
)  # most of whose work are products
SET_THREADS = "openblas_set_num_threads_local"  # of a whole process all the same; it returns how many there were


@functools.cache
def address(name: str) -> int:
    """Return the address of a function such as dgetrf. Raises UnsupportedError where SciPy does not have it."""
    try:
        module = "blas" if name[1:] in OF_BLAS else "lapack"
        capsule = importlib.import_module(f"scipy.linalg.cython_{module}").__pyx_capi__[name]
    except (ImportError, AttributeError, KeyError) as error:
        raise UnsupportedError(
            f"LAPACK's {name} was looked for in SciPy, which does not give it: {error!r}; "
            "install SciPy again, or set ROUTINES=0"
        ) from error
    api = ctypes.pythonapi
    api.PyCapsule_GetName.restype, api.PyCapsule_GetName.argtypes = ctypes.c_char_p, [ctypes.py_object]
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    return int(api.PyCapsule_GetPointer(capsule, api.PyCapsule_GetName(capsule)))


@functools.cache
def set_threads() -> int:
    """Return the address of the function that says how many threads BLAS uses; 0 where its library has none."""
    try:
        # what is looked for in a library is looked for in those that it is linked to, too
        library = ctypes.CDLL(importlib.import_module("scipy.linalg.cython_lapack").__file__)
        return ctypes.cast(getattr(library, SET_THREADS), ctypes.c_void_p).value or 0
    except (ImportError, AttributeError, OSError):
        return 0


def addresses(routine: str, itemsize: int) -> list[int]:
    """Return the addresses that a routine takes among its facts, four, for numbers of 4 or 8 bytes."""
    found = [address(("s" if itemsize == 4 else "d") + name) for name in FUNCTIONS[routine]]
    return found + [0] * (4 - len(found))
