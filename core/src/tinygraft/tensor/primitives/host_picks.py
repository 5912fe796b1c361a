"""Elements at indices that Python has found: where a mask is True, or where runs begin.

How many there are follows from values. A kernel would be compiled for each number of them, so the host copies these
elements where it sees the memory; their derivative is that of a GATHER, which is made only when a gradient is built.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.device.buffer import buffer_of
from tinygraft.tensor.primitives.custom import may_require_grad
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.routine_nodes import with_kernels
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from numpy import ndarray

    from tinygraft.tensor.tensor import Tensor


def slices_at(self: Tensor, indices: ndarray[Any, Any]) -> Tensor:
    """The slices along axis 0, of a line its elements, at indices within it. Reads this tensor where the host can."""
    parts = self._parts()
    if len(parts) > 1:
        joined: Tensor = self._in_parts().joined(*[slices_at(part, indices) for part in parts])
        return joined
    view = None
    if indices.size and is_concrete(self.shape) and 0 not in self.shape and isinstance(self.device, str):
        view = self._stored().as_memoryview()
    if view is None:
        return _gathered(self, indices)
    import numpy as np

    kind = np.dtype(f"V{len(view) // self.shape[0]}")
    found = in_memory(self, np.frombuffer(view, kind)[indices].view(np.uint8).data)
    if may_require_grad(self):  # memory that has a derivative is a copy of it, which takes no kernel either
        found = found._wrap(UOp(Ops.COPY, self.dtype, (found.uop, UOp.on(self.uop.device))))
    found = reshaped(found, (indices.size, *self.shape[1:]))
    return with_kernels("elements at a mask", found, [self], lambda slices: _gathered(slices, indices))


def in_memory(self: Tensor, data: memoryview) -> Tensor:
    """A line of the dtype and on the device of this tensor, with these bytes as its memory and without a gradient."""
    node = UOp.buffer(self.uop.device, len(data) // self.dtype.itemsize, self.dtype)
    buffer_of(node).copy_in(data)
    line = self._wrap(node)
    line._set_flag(False)
    return line


def masked_slices(self: Tensor, mask: Tensor) -> Tensor:
    """What a mask of the first axes selects: the slices of the others, in order. Reads the mask."""
    import numpy as np

    merged = reshaped(self, (math.prod(mask.shape), *self.shape[mask.ndim :]))
    return slices_at(merged, np.flatnonzero(mask.numpy()))


def _gathered(self: Tensor, indices: ndarray[Any, Any]) -> Tensor:
    """The slices at `indices` as a GATHER."""
    import numpy as np

    small = self.shape[0] < 2**31 if isinstance(self.shape[0], int) else False
    index = type(self)(indices.astype(np.int32 if small else np.int64), device=self.device)
    return self._join(Ops.GATHER, index, arg=0)
