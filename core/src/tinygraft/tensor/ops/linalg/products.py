"""Products of vectors and matrices under their usual names: outer, kron, tensordot, bmm, cross and others.

Each is matmul, einsum or a broadcast product with its shapes checked.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import promote
from tinygraft.errors import AxisError, ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.matmul import accumulator_dtypes
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def _of_rank(self: Tensor, what: str, rank: int, other: Tensor | None = None) -> None:
    """Raise ShapeError unless this tensor, and other where it is given, has `rank` axes; `what` names the method."""
    for tensor in (self, other):
        if tensor is not None and tensor.ndim != rank:
            raise ShapeError(f"{what} needs {rank} axes, got shape {tensor.shape}\n  made at {tensor._where()}")


def outer(self: Tensor, vec2: Tensor) -> Tensor:
    """The products of all elements of one vector with all of another, of shape (n, m); of bools, as `*`, bools.

    Raises ShapeError for what is no vector, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2]).outer(Tensor([3, 4])).tolist()
    [[3, 4], [6, 8]]
    """
    _of_rank(self, "outer", 1, vec2)
    return self.unsqueeze(-1) * vec2


def ger(self: Tensor, vec2: Tensor) -> Tensor:
    """outer, by its other name, with its errors."""
    return self.outer(vec2)


def inner(self: Tensor, other: Any) -> Tensor:
    """The sum of products along the last axes of both; a plain product where one has none.

    (..., n) and (***, n) give (..., ***). other is a tensor, number or list. Raises ShapeError for last axes that
    differ.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).inner(Tensor([5, 6])).tolist()
    [17, 39]
    """
    right: Any = self._operand(Ops.MUL, other)
    numbers = not self.ndim or not getattr(right, "ndim", 0)
    return self * right if numbers else self.tensordot(right, dims=([-1], [-1]))


def vdot(self: Tensor, other: Tensor) -> Tensor:
    """The sum of the products of two vectors, of which the first is conjugated; of shape ().

    Raises ShapeError for others.

    >>> from tinygraft import Tensor
    >>> Tensor([1j, 2.0]).vdot(Tensor([1j, 3.0])).item()
    (7+0j)
    """
    _of_rank(self, "vdot", 1, other)
    return self._conj().matmul(other)


@either_spelling
def vecdot(self: Tensor, other: Tensor, dim: int = -1) -> Tensor:
    """The sum of products along one axis, broadcast over the others; the first factors are conjugated.

    dim is an axis of the common shape, and gone. Small dtypes are accumulated as in matmul. Raises ShapeError for
    shapes that do not broadcast, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).vecdot(Tensor([5, 6])).tolist()
    [17, 39]
    """
    inside, outside = accumulator_dtypes(self, None, other)
    return (self._conj()._cast(inside) * other._cast(inside))._reduce(Ops.ADD, dim)._cast(outside)


def mm(self: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices of two axes: (n, m) and (m, p) give (n, p).

    Raises ShapeError for others; dtype as matmul.
    """
    _of_rank(self, "mm", 2, mat2)
    return self.matmul(mat2)


def mv(self: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix (n, m) and a vector (m,): (n,). Raises ShapeError for others; dtype as matmul."""
    _of_rank(self, "mv", 2)
    _of_rank(vec, "mv", 1)
    return self.matmul(vec)


def bmm(self: Tensor, mat2: Tensor) -> Tensor:
    """The products of as many matrices: (b, n, m) and (b, m, p) give (b, n, p); nothing is broadcast.

    Raises ShapeError for other shapes; dtype as matmul.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(2, 1, 3).bmm(Tensor.ones(2, 3, 1)).tolist()
    [[[3.0]], [[3.0]]]
    """
    _of_rank(self, "bmm", 3, mat2)
    if not size_math.same(self.shape[0], mat2.shape[0]):
        raise ShapeError(
            f"bmm needs as many matrices on both sides, got shapes {self.shape} and {mat2.shape}\n"
            f"  left  made at {self._where()}      right made at {mat2._where()}"
        )
    return self.matmul(mat2)


def _plus(self: Tensor, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta times this tensor plus alpha times a product; with a beta of 0 the product alone, as BLAS has it.

    Both numbers are cast to the dtype of the tensors: integers are not scaled by fractions.
    """
    dtype = promote(self.dtype, product.dtype)
    if dtype.kind not in ("float", "complex"):
        beta, alpha = int(beta), int(alpha)
    scaled = product if alpha == 1 else product * alpha
    if beta != 0:  # 0 * NaN would be NaN, and a beta of 0 means that self is not read
        scaled = (self if beta == 1 else self * beta) + scaled
    return scaled._cast(dtype)


def addmm(self: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * (mat1 @ mat2), for mat1 (n, m) and mat2 (m, p); self broadcasts with (n, p).

    With beta 0 self is not read. Of integers beta and alpha are cut to whole numbers. Raises ShapeError for shapes that
    do not fit.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 1]).addmm(Tensor([[1, 2]]), Tensor([[1, 0], [0, 1]]), alpha=2).tolist()
    [[3, 5]]
    """
    return _plus(self, mat1.mm(mat2), beta, alpha)


def addmv(self: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * (mat @ vec), for mat (n, m) and vec (m,); self broadcasts with (n,). Else as in addmm."""
    return _plus(self, mat.mv(vec), beta, alpha)


def addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * outer(vec1, vec2), for vec1 (n,) and vec2 (m,); self broadcasts with (n, m).

    Else as in addmm.
    """
    return _plus(self, vec1.outer(vec2), beta, alpha)


def baddbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * (batch1 @ batch2), for as many matrices each, as in bmm. All else as in addmm."""
    return _plus(self, batch1.bmm(batch2), beta, alpha)


def addbmm(self: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """beta * self + alpha * the sum of the products batch1 @ batch2, which are as in bmm. All else as in addmm."""
    return _plus(self, batch1.bmm(batch2).sum(0), beta, alpha)


def tensordot(self: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over some axes of both: the last dims of this and the first of b, or two lists of axes.

    dims is a number, or a pair of an axis or a list of them for each. The other axes of this, then those of b, make the
    result. Small dtypes are accumulated as in matmul. Raises ShapeError where numbers or sizes of axes differ,
    AxisError for one that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(2, 3).tensordot(Tensor.ones(3, 4), dims=1).tolist()
    [[3.0, 3.0, 3.0, 3.0], [3.0, 3.0, 3.0, 3.0]]
    """
    if isinstance(dims, int):
        if not 0 <= dims <= min(self.ndim, b.ndim):
            raise ShapeError(f"tensordot over {dims} axes of shapes {self.shape} and {b.shape}")
        here, there = tuple(range(self.ndim - dims, self.ndim)), tuple(range(dims))
    else:
        here, there = (_in_order(self, dims[0]), _in_order(b, dims[1]))
    if len(here) != len(there):
        raise ShapeError(f"tensordot sums over as many axes on both sides, got {here} and {there}")
    for i, j in zip(here, there, strict=True):
        if not size_math.same(self.shape[i], b.shape[j]):
            raise ShapeError(
                f"tensordot of shapes {self.shape} and {b.shape}: axis {i} of the first is {self.shape[i]}, "
                f"axis {j} of the second is {b.shape[j]}\n"
                f"  first made at {self._where()}      second made at {b._where()}"
            )
    # as one multiplication and one sum over the last axes, the form that codegen recognises as a contraction
    kept = [axis for axis in range(self.ndim) if axis not in here]
    others = [axis for axis in range(b.ndim) if axis not in there]
    left = self.permute(*kept, *here) if self.ndim else self
    right = b.permute(*others, *there) if b.ndim else b
    inside, outside = accumulator_dtypes(self, None, b)
    left = reshaped(left._cast(inside), (*left.shape[: len(kept)], *(1,) * len(others), *left.shape[len(kept) :]))
    product = left * right._cast(inside)
    axes = tuple(range(len(kept) + len(others), product.ndim))
    return (product._reduce(Ops.ADD, axes) if axes else product)._cast(outside)


def _in_order(self: Tensor, axes: Any) -> tuple[int, ...]:
    """One axis or several, counted from the front, in the order given. Raises AxisError for one that does not exist."""
    return tuple(self._axis(axis) for axis in ([axes] if isinstance(axes, int) else axes))


def kron(self: Tensor, other: Tensor) -> Tensor:
    """The Kronecker product: each element of this times all of other, block by block; of bools, as `*`, bools.

    Each size of the result is the product of both, where the one with fewer axes gets axes of size 1 in front.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 10]).kron(Tensor([1, 2])).tolist()
    [1, 2, 10, 20]
    """
    other = self._argument("kron", "factors", other)
    rank = max(self.ndim, other.ndim)
    a = reshaped(self, (*(1,) * (rank - self.ndim), *self.shape))
    b = reshaped(other, (*(1,) * (rank - other.ndim), *other.shape))
    # axes (m, 1) times (1, n), each pair merged to m * n: a broadcast product
    left = reshaped(a, tuple(size for length in a.shape for size in (length, 1)))
    right = reshaped(b, tuple(size for length in b.shape for size in (1, length)))
    shape = tuple(size_math.mul(m, n) for m, n in zip(a.shape, b.shape, strict=True))
    return reshaped((left * right), shape)


@either_spelling
def cross(self: Tensor, other: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along an axis of three numbers, the last one unless dim says which; other axes are broadcast.

    Raises ShapeError where dim does not have 3 numbers in both, AxisError where it does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 0, 0]).cross(Tensor([0, 1, 0])).tolist()
    [0, 0, 1]
    """
    along = -1 if dim is None else dim
    for tensor in (self, other):
        if not tensor.ndim or not size_math.same(tensor.shape[tensor._axis(along)], 3):
            raise ShapeError(
                f"cross needs 3 numbers along axis {along}, got shapes {self.shape} and {other.shape}\n"
                f"  left  made at {self._where()}      right made at {other._where()}"
            )
    a, b = self._broadcasted(other)
    axis = a._axis(along)
    # component i is a[i+1] * b[i+2] - a[i+2] * b[i+1], with indices modulo 3
    return a.roll(-1, axis) * b.roll(-2, axis) - a.roll(-2, axis) * b.roll(-1, axis)


def trace(self: Tensor, offset: int = 0) -> Tensor:
    """The sum of the diagonal of the last two axes, which are gone; its dtype as that of sum.

    A positive offset is a diagonal above the main one. Raises ShapeError for fewer than two axes.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).trace().item()
    5
    """
    if self.ndim < 2:
        raise ShapeError(f"trace needs two axes or more, got shape {self.shape}\n  made at {self._where()}")
    return self.diagonal(offset, -2, -1).sum(-1)


def vander(self: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of each element along a new last axis, from N - 1 down to 0, or up where increasing.

    N None is the size of the last axis. The dtype stays. Raises AxisError without an axis, ShapeError for a symbolic N.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).vander().tolist()
    [[1, 1, 1], [4, 2, 1], [9, 3, 1]]
    """
    if not self.ndim:
        raise AxisError(f"vander needs an axis, got shape {self.shape}\n  made at {self._where()}")
    count = size_math.as_int(self.shape[-1] if N is None else size_math.as_integer(N, "vander", "N"), "vander")
    columns = [self._const(1, self.dtype)]
    for _ in range(1, count):
        columns.append(columns[-1] * self)
    chosen = columns[:count] if increasing else columns[:count][::-1]
    return chosen[0].stack(*chosen[1:], dim=-1) if chosen else self.unsqueeze(-1)[..., :0]


def linalg_vander(self: Tensor, N: int | None = None) -> Tensor:
    """vander with the powers from 0 up; a number counts as one of one axis."""
    return (self if self.ndim else reshaped(self, (1,))).vander(N, increasing=True)


def multi_dot(cls: type[Tensor], tensors: Sequence[Tensor]) -> Tensor:
    """The product of several matrices, in the order of multiplications that takes the fewest; vectors at the ends.

    tensors is a sequence of at least two; the first and the last may have one axis, which the result does not have
    then. Raises ValueError for fewer, ShapeError for other numbers of axes, and as matmul does.

    >>> from tinygraft import Tensor
    >>> Tensor.multi_dot([Tensor.ones(2, 3), Tensor.ones(3, 4), Tensor.ones(4, 1)]).tolist()
    [[12.0], [12.0]]
    """
    if len(tensors) < 2:
        raise ValueError(f"multi_dot multiplies two matrices or more, got {len(tensors)}")
    first, last = tensors[0], tensors[-1]
    row, column = first.ndim == 1, last.ndim == 1
    matrices = [first.unsqueeze(0) if row else first, *tensors[1:-1], last.unsqueeze(-1) if column else last]
    for matrix in matrices:
        _of_rank(matrix, "multi_dot", 2)
    sizes = [
        *size_math.as_ints((matrices[0].shape[0],), "multi_dot"),
        *(size_math.as_int(m.shape[1], "multi_dot") for m in matrices),
    ]
    order = _cheapest_order(tuple(sizes))
    done: dict[tuple[int, int], Tensor] = {(i, i): matrix for i, matrix in enumerate(matrices)}
    for start, middle, end in order:
        done[start, end] = done[start, middle] @ done[middle + 1, end]
    found = done[0, len(matrices) - 1]
    found = found.squeeze(0) if row else found
    return found.squeeze(-1) if column else found


chain_matmul = multi_dot


@functools.cache
def _cheapest_order(sizes: tuple[int, ...]) -> tuple[tuple[int, int, int], ...]:
    """(start, middle, end) of the products that multiply all matrices, each after its two factors.

    Matrix i is sizes[i] by sizes[i + 1]; a product is that of matrices start to middle with those to end, all included.
    """
    # the matrix chain order, by dynamic programming (Cormen et al., "Introduction to Algorithms", 15.2)
    count = len(sizes) - 1
    cost = {(i, i): 0 for i in range(count)}
    split: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for start in range(count - length):
            end = start + length
            candidates = [
                (cost[start, m] + cost[m + 1, end] + sizes[start] * sizes[m + 1] * sizes[end + 1], m)
                for m in range(start, end)
            ]
            cost[start, end], split[start, end] = min(candidates)
    wanted, found = [(0, count - 1)], []
    while wanted:
        start, end = wanted.pop()
        if start < end:
            middle = split[start, end]
            found.append((start, middle, end))
            wanted += [(start, middle), (middle + 1, end)]
    return tuple(reversed(found))
