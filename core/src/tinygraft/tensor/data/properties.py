"""Properties: a tensor's sizes, kinds and length, and how it prints. Nothing here is computed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.engine.exclusive import import_late
from tinygraft.errors import AxisError
from tinygraft.tensor.primitives import size_math
from tinygraft.uop import sizes as dimensions
from tinygraft.uop.sizes import Shape, sint
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


class Size(int):
    """How many elements there are; called, the shape, or the length of one axis.

    >>> from tinygraft import Tensor
    >>> t = Tensor([[4, 5, 6], [7, 8, 9]])
    >>> t.size, t.size(), t.size(dim=1)
    (6, (2, 3), 3)
    """

    shape: Shape

    def __call__(self, dim: int | None = None) -> Any:
        """The shape, or the length of axis `dim`. Raises AxisError for an axis that is not there."""
        if dim is None:
            return self.shape
        dim = size_math.as_integer(dim, "size", "dim")
        if not -len(self.shape) <= dim < len(self.shape):
            raise AxisError(f"size({dim}): shape {self.shape} has {len(self.shape)} axes, the first of which is 0")
        return self.shape[dim]


def lazydata(self: Tensor) -> UOp:
    """The node of this tensor: uop, by its older name."""
    return self.uop


def numel(self: Tensor) -> sint:
    """How many elements there are, an int, or a node where a size is symbolic; 1 without axes."""
    return size_math.product(self.shape)


def size(self: Tensor) -> Size:
    """How many elements there are (at most, where sizes are symbolic); `size()` and `size(dim)` give lengths."""
    found = Size(size_math.product(dimensions.max_shape(self.shape)))
    found.shape = self.shape
    return found


def dim(self: Tensor) -> int:
    """How many axes there are: ndim, by PyTorch's name."""
    return self.ndim


def max_shape(self: Tensor) -> tuple[int, ...]:
    """The shape with each symbolic size at its greatest, ints."""
    return dimensions.max_shape(self.shape)


def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


def nbytes(self: Tensor) -> sint:
    """Bytes of all elements, an int, or a node where a size is symbolic."""
    return size_math.mul(self.numel(), self.dtype.itemsize)


def is_floating_point(self: Tensor) -> bool:
    """Whether the elements are of a float dtype."""
    return self.dtype.kind == "float"


def is_complex(self: Tensor) -> bool:
    """Whether the elements are complex numbers."""
    return self.dtype.kind == "complex"


def __repr__(self: Tensor) -> str:
    """The values where they are in memory, shortened as NumPy does, else the node; dtype, shape, device and gradient.

    Nothing is computed, and nothing raises. `numpy.set_printoptions` says how many digits and elements are shown.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]], device="PYTHON")
    <Tensor [[1, 2],
             [3, 4]] int (2, 2) on PYTHON with grad None>
    """
    return import_late("tinygraft.tensor.data.shown_values").text_of(self)  # type: ignore[no-any-return]


def _repr_html_(self: Tensor) -> str:
    """What a notebook shows: values, a picture of one, and tabs for the graph and the kernels. Nothing is computed."""
    return import_late("tinygraft.tensor.data.notebook").page_of(self)  # type: ignore[no-any-return]


def __len__(self: Tensor) -> int:
    if not self.ndim:
        raise TypeError("a tensor without axes has no len()")
    return size_math.as_int(self.shape[0], "len")
