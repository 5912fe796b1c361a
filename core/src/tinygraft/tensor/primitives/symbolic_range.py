"""Tensor.arange between symbolic integers: one graph for all values of their variables.

Numbers, of which some are nodes of dtypes.index, in; a lazy tensor of symbolic length out.
"""

from __future__ import annotations

from typing import Any

from tinygraft.device.registry import Device
from tinygraft.dtype import DTypeLike, dtypes, promote, to_dtype
from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_checks, size_math
from tinygraft.tensor.primitives.iota import iota
from tinygraft.uop.index import settled
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import show_arg
from tinygraft.uop.uop import Place, UOp


def symbolic_range(of: Any, start: Any, stop: Any, step: Any, dtype: DTypeLike | None, device: Place) -> Any:
    """start, start + step, ... before stop, as a tensor of the class `of` on `device`.

    There are none where stop comes first. The dtype is that of its symbolic ends as values, if no other is given.
    Raises ShapeError for a step that is not known and for numbers that are no integers, NumberOutOfRange for a dtype of
    integers that does not hold them.

    >>> from tinygraft import Tensor, Variable
    >>> n = Variable("n", 0, 9).bind(4)
    >>> Tensor.arange(1, n, 2).sum().item(), Tensor.arange(n).pad((0, 9 - n)).tolist()
    (4, [0, 1, 2, 3, 0, 0, 0, 0, 0])
    """
    ends = [settled(end) for end in (start, stop)]
    whole = all(isinstance(end, int) or (isinstance(end, UOp) and end.dtype is dtypes.index) for end in ends)
    if not whole or not isinstance(step, int) or step == 0:
        raise ShapeError(
            "arange with a symbolic end counts in integers, by a known step other than 0, got "
            f"arange({', '.join(map(show_arg, (start, stop, step)))})\n"
            "  hint: multiply what it gives, as in Tensor.arange(n) * 0.5"
        )
    first, end = ends
    over = size_math.add(size_math.sub(end, first), step - 1 if step > 0 else step + 1)
    count = size_math.most(size_math.div(over, step) if step > 0 else size_math.div(size_math.mul(over, -1), -step), 0)
    last = size_math.add(first, size_math.mul(size_math.sub(count, 1), step))
    own = promote(*[size_math.dtype_of(end) for end in (start, stop) if isinstance(end, UOp)])
    to = to_dtype(dtype or own)
    wide = dtypes.int32 if all(size_math.fits(n, dtypes.int32) for n in (first, last)) else dtypes.int64
    if dtype is None and not all(size_math.fits(n, to) for n in (first, last)):
        to = wide
    for end in (first, last):
        size_checks.require(size_checks.Fits(end, to, count=count))
    line = iota(of, count, Device.canonicalize(device))._cast(wide)
    line = line if step == 1 else line._op(Ops.MUL, line._const(step, wide))
    line = line if isinstance(first, int) and first == 0 else line._op(Ops.ADD, line._const(first, wide))
    return line._cast(to)
