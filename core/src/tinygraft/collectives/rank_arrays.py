"""The arrays that ranks pass: which dtypes they have, and their bytes, without a copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.collectives.rank_sums import RankArray
from tinygraft.dtype import DType, to_dtype
from tinygraft.errors import DTypeError, ShapeError

ComparedShape = tuple[int, ...] | None


def as_array(values: Any) -> RankArray:
    """Return numbers as an array. Raises TypeError for a tensor."""
    import numpy as np

    if type(values).__module__.partition(".")[0] == __name__.partition(".")[0]:
        raise TypeError("a communicator passes arrays; tinygraft.nn.parallel has the collectives of tensors")
    return np.asarray(values)


def dtype_of(array: RankArray, dtype: Any) -> DType:
    """Return the dtype of an array's elements; `dtype` where it is given. Raises DTypeError where they do not fit."""
    if dtype is None:
        try:
            found = to_dtype(array.dtype.name)
        except DTypeError:
            bits = f"\n  hint: array.view('u{array.dtype.itemsize}') and its dtype by name, such as dtype='fp8e4m3'"
            hint = bits if array.dtype.kind == "V" and array.dtype.itemsize == 1 else ""
            raise DTypeError(f"ranks cannot pass elements of {array.dtype}{hint}") from None
    else:
        found = to_dtype(dtype)
    if found.itemsize != array.dtype.itemsize:
        raise DTypeError(f"an array of {array.dtype} has no elements of {found.name}")
    return found


def flat(array: RankArray) -> RankArray:
    """Return the elements as a flat, contiguous array: without a copy where they are contiguous."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1)


def compared(array: RankArray, shape: ComparedShape) -> str:
    """Return the text of the shape that ranks compare: `shape`, that of the array where it is None."""
    return str(array.shape if shape is None else shape)


def bytes_of(array: RankArray) -> RankArray:
    """Return the bytes of a contiguous array, without a copy."""
    import numpy as np

    return array.reshape(-1).view(np.uint8)


def raw(data: bytes) -> RankArray:
    """Return bytes as an array of uint8 that cannot be written."""
    import numpy as np

    return np.frombuffer(data, np.uint8)


def result_for(shape: Sequence[int], dtype: Any, out: RankArray) -> RankArray:
    """Return the array for a result. Raises ShapeError for an `out` that does not fit."""
    import numpy as np

    if out is None:
        return np.empty(shape, dtype)
    if as_array(out) is not out:
        raise TypeError(f"out is an array that takes the result, got {type(out).__name__}")
    if out.shape != tuple(shape) or out.dtype != dtype or not out.flags.c_contiguous:
        steps = "" if out.flags.c_contiguous else " that is not contiguous, such as a part of a larger one"
        raise ShapeError(
            f"out has to be a contiguous array of shape {tuple(shape)} and {dtype}, got {out.shape} {out.dtype}{steps}"
        )
    return out


def overlap(one: RankArray, other: RankArray) -> bool:
    """Return whether two arrays may share memory."""
    import numpy as np

    return bool(np.may_share_memory(one, other))
