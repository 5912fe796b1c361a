"""Products of matrices: matmul, dot, linear and einsum.

Tensors in, broadcast over their leading axes; the product out. A product is one multiplication and one sum along
the last axis, the form that codegen recognises as a contraction. Half types are multiplied and accumulated in float32
and rounded once; small integers are accumulated in 32 bits and wrap to their dtype, bools are counted; with dtype= the
operands are cast to it first and the result has it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast

from tinygraft.dtype import DType, DTypeLike, accumulator, dtypes, promote, to_dtype
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.helpers import prod
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.argument_checks import shown
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.broadcasting import broadcast_shape, expand, symbols
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import show_arg
from tinygraft.uop.sizes import high
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def accumulator_dtypes(self: Tensor, dtype: DTypeLike | None, *others: TensorBase) -> tuple[DType, DType]:
    """The dtype in which a sum of products of self and `others` is accumulated, and that of its result.

    The latter is the common one. `dtype`, where it is given, is both. A result of bools is counted in integers.
    """
    if dtype is not None:
        return to_dtype(dtype), to_dtype(dtype)
    common = promote(self.dtype, *(other.dtype for other in others))
    inside = accumulator(common)
    return inside, inside if common is dtypes.bool else common


def matmul(self: Tensor, x: Any, reverse: bool = False, dtype: DTypeLike | None = None) -> Tensor:
    """The matrix product self @ x, or x @ self if reverse, with shapes as numpy.matmul has them.

    (..., m, k) @ (..., k, n) gives (..., m, n); an operand of one axis is a row on the left, a column on the right, and
    the axes in front broadcast. x may be a list or an array. The result has the dtype that both promote to, so that
    int8 wraps: with dtype="int32" the operands are cast first, which keeps all of a sum. Bools are counted as integers.
    Raises ShapeError when the inner sizes or the axes in front differ or an operand has no axes, DTypeError,
    DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2], [3, 4]]).matmul(Tensor([[5, 6], [7, 8]])).tolist()
    [[19, 22], [43, 50]]
    """
    other = self._operand(Ops.MUL, x)
    if not isinstance(other, TensorBase):
        raise ShapeError(
            f"matmul needs tensors of one axis or more, got shape {self.shape} and the number {x}; multiply by * "
            f"instead\n  made at {self._where()}"
        )
    left, right = cast("tuple[Tensor, Tensor]", (other, self) if reverse else (self, other))
    return left._product(right, dtype)


def dot(self: Tensor, w: Any, dtype: DTypeLike | None = None) -> Tensor:
    """matmul, by its other name: also of more than one axis, unlike in PyTorch."""
    return self.matmul(w, dtype=dtype)


def _product(self: Tensor, x: Tensor, dtype: DTypeLike | None) -> Tensor:
    """Return `matmul`, computed in the accumulator dtype and rounded once, or in `dtype`. Raises ShapeError.

    As (..., m, 1, k) * (..., 1, n, k) summed over the last axis: a MUL and a REDUCE that codegen recognises.
    """
    if not self.ndim or not x.ndim:
        raise ShapeError(
            f"cannot multiply shapes {self.shape} and {x.shape} as matrices: both need an axis; "
            f"multiply by * instead\n"
            f"  left  made at {self._where()}      right made at {x._where()}"
        )
    inner = -1 if x.ndim == 1 else -2
    if not size_math.same(self.shape[-1], x.shape[inner]):
        raise ShapeError(
            f"cannot multiply shapes {show_arg(self.shape)} and {show_arg(x.shape)} as matrices: axis -1 of the "
            f"left is {show_arg(self.shape[-1])} and axis {inner} of the right is {show_arg(x.shape[inner])}\n"
            f"  left  made at {self._where()}      right made at {x._where()}"
        )
    _check_batches(self, x)
    inside, outside = accumulator_dtypes(self, dtype, x)
    if inside.kind == "complex":
        return self._cast(inside)._product(x._cast(inside), inside)
    self._same_device(Ops.MUL, (self, x))
    left, right = self.uop.cast(inside), (x._cast(inside) if x.dtype.kind == "complex" else x).uop.cast(inside)
    if x.ndim > 1:  # nodes, without a tensor for each step, which would take half of the time
        batch = range(x.ndim - 2)
        right = UOp(Ops.PERMUTE, inside, (right,), (*batch, x.ndim - 1, x.ndim - 2))
        left = left if self.ndim == 1 else _with_axis(left, -1)
        right = right if self.ndim == 1 else _with_axis(right, -2)
    shape = broadcast_shape(left.shape, right.shape)
    assert shape is not None, "_check_batches raises"
    product = UOp(Ops.MUL, inside, (expand(left, shape), expand(right, shape)))
    result = self._wrap(product, x)._reduce(Ops.ADD, -1)
    return result if outside is inside else result._cast(outside)


def _with_axis(node: UOp, before: int) -> UOp:
    """Return `node` with a new axis of size 1 before the axis `before`, which counts from the last one, -1."""
    shape = (*node.shape[:before], 1, *node.shape[before:])
    return UOp(Ops.RESHAPE, node.dtype, (node, *symbols(Ops.RESHAPE, shape)), shape)


def linear(self: Tensor, weight: Tensor, bias: Tensor | None = None, dtype: DTypeLike | None = None) -> Tensor:
    """self @ weight + bias, with weight of shape (in, out), unlike in PyTorch.

    A weight of one axis is multiplied elementwise. (..., in) gives (..., out). bias, of shape (out,), may be None. With
    a dtype all of them are cast to it first. Raises ShapeError where shapes do not fit, DeviceError.

    >>> from tinygraft import Tensor
    >>> Tensor([[1, 2]]).linear(Tensor([[1, 2], [3, 4]]), Tensor([1, 2])).tolist()
    [[8, 12]]
    """
    weight = self._argument("linear", "weights", weight)
    if dtype is not None:
        return self._cast(dtype).linear(weight._cast(dtype), bias if bias is None else bias._cast(dtype))
    result = self._op(Ops.MUL, weight) if weight.ndim == 1 else self.matmul(weight)
    return result if bias is None else result._op(Ops.ADD, bias)


def _check_batches(self: Tensor, x: Tensor) -> None:
    """Raise ShapeError unless the axes in front of the matrices broadcast together."""
    a, b = self.shape, x.shape
    for axis in range(-3, -min(len(a), len(b)) - 1, -1):
        if broadcast_shape((a[axis],), (b[axis],)) is None:
            raise ShapeError(
                f"cannot multiply shapes {a} and {b} as matrices: axis {axis} is {a[axis]} on the left and "
                f"{b[axis]} on the right, and neither is 1\n"
                f"  left  made at {self._where()}      right made at {x._where()}"
            )


def einsum(cls: type[Tensor], formula: str, *operands: Any, dtype: DTypeLike | None = None) -> Tensor:
    """The sum of products that formula says, such as "ij,jk->ik". "..." stands for any axes, broadcast.

    Operands are tensors, one by one or as one list. A letter twice in one operand takes its diagonal; without "->" the
    result has the axes of "..." first, then the letters that occur once, in alphabetical order. Of three operands or
    more two are multiplied at a time, those first that take the fewest multiplications. dtype as in matmul.
    Raises ShapeError where formula and operands disagree, DTypeError for an operand that is no tensor.

    >>> from tinygraft import Tensor
    >>> Tensor.einsum("ij,ij->", Tensor([[1, 2], [3, 4]]), Tensor([[5, 6], [7, 8]])).item()
    70
    """
    if not isinstance(formula, str):
        raise DTypeError(
            f"einsum needs its formula first, as in Tensor.einsum('ij,jk->ik', a, b), got {type(formula).__name__}"
        )
    listed = len(operands) == 1 and isinstance(operands[0], (list, tuple))
    tensors: list[Tensor] = list(operands[0] if listed else operands)
    for operand in tensors:
        if not isinstance(operand, TensorBase):
            raise DTypeError(f"einsum multiplies tensors, got {''.join(shown(operand))}")
    inputs, output = _parse(formula, tensors)
    inside, outside = accumulator_dtypes(tensors[0], dtype, *tensors[1:])
    sizes = _sizes(formula, inputs, tensors)
    factors = []
    for tensor, letters in zip(tensors, inputs, strict=True):
        named = list(dict.fromkeys(letters))
        factors.append((_spread(tensor._cast(inside), letters, named), named))
    while len(factors) > 2:
        first, second = _cheapest_pair([letters for _, letters in factors], output, sizes)
        pair = [factors.pop(second), factors.pop(first)][::-1]
        needed = {*output, *(letter for _, letters in factors for letter in letters)}
        kept = [letter for letter in dict.fromkeys([*pair[0][1], *pair[1][1]]) if letter in needed]
        factors.append((_summed_product(pair, kept, sizes), kept))
    return _summed_product(factors, output, sizes)._cast(outside)


def _summed_product(
    factors: Sequence[tuple[Tensor, list[str]]], output: Sequence[str], sizes: dict[str, Any]
) -> Tensor:
    """The product of factors, whose axes have letters, with the axes of `output`; all others are summed up.

    One product and one sum; but an axis of one factor alone is summed before.
    """
    alone = []
    for number, (tensor, letters) in enumerate(factors):
        others = {*output, *(x for other, (_, names) in enumerate(factors) if other != number for x in names)}
        summed = tuple(axis for axis, letter in enumerate(letters) if letter not in others)
        if summed and len(factors) > 1:
            tensor = tensor._reduce(Ops.ADD, summed)
            letters = [letter for letter in letters if letter in others]
        alone.append((tensor, letters))
    order = list(output) + sorted({letter for _, letters in alone for letter in letters} - set(output))
    result, *more = [_spread(tensor, letters, order) for tensor, letters in alone]
    for factor in more:
        result = result._op(Ops.MUL, factor)
    result = result.expand(tuple(sizes[letter] for letter in order))
    summed = tuple(range(len(output), len(order)))
    return result._reduce(Ops.ADD, summed) if summed else result


def _cheapest_pair(letters: Sequence[Sequence[str]], output: Sequence[str], sizes: dict[str, Any]) -> tuple[int, int]:
    """The numbers of the two factors, by their letters, whose product takes the fewest multiplications.

    Of equal ones the pair with the smaller result, then the first: what opt_einsum calls greedy.
    """

    def count(names: Iterable[str]) -> int:
        return prod(high(sizes[letter]) for letter in names)

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        both = {*letters[pair[0]], *letters[pair[1]]}
        needed = {*output, *(x for number, names in enumerate(letters) if number not in pair for x in names)}
        return count(both), count(both & needed)

    return min(itertools.combinations(range(len(letters)), 2), key=cost)


def _spread(self: Tensor, letters: Sequence[str], order: Sequence[str]) -> Tensor:
    """Axes named by `letters` brought into `order`, with size 1 for a letter that the operand does not have."""
    x, names = self, list(letters)
    # a letter twice is a diagonal, which `diagonal` puts last
    for letter in dict.fromkeys(names):
        while names.count(letter) > 1:
            first = names.index(letter)
            second = names.index(letter, first + 1)
            x = x.diagonal(0, first, second)
            names = [n for i, n in enumerate(names) if i not in (first, second)] + [letter]
    x = x.permute(*(names.index(letter) for letter in order if letter in names)) if names else x
    kept = iter(x.shape)
    return reshaped(x, tuple(next(kept) if letter in names else 1 for letter in order))


def _parse(formula: str, tensors: Sequence[TensorBase]) -> tuple[list[list[str]], list[str]]:
    """Return the letters of each operand and of the result; axes that "..." stands for are ".-2", ".-1".

    Raises ShapeError for a formula with another number of operands or axes, or with a wrong result.
    """
    left, arrow, right = formula.replace(" ", "").partition("->")
    parts = left.split(",")
    if len(parts) != len(tensors):
        shapes = ", ".join(str(t.shape) for t in tensors)
        raise ShapeError(f"einsum {formula!r} names {len(parts)} operands, got {len(tensors)} of shapes {shapes}")
    inputs = []
    for part, tensor in zip(parts, tensors, strict=True):
        before, dots, after = part.partition("...")
        hidden = tensor.ndim - len(before) - len(after)
        if hidden < 0 or (hidden > 0 and not dots):
            raise ShapeError(
                f"einsum {formula!r} gives {part!r} to an operand of {tensor.ndim} axes, shape {tensor.shape}\n"
                f"  made at {tensor._where()}"
            )
        if not (before + after).isalpha() and before + after:
            raise ShapeError(f"einsum {formula!r} is made of letters, commas, '...' and one '->'")
        inputs.append([*before, *(f".{i}" for i in range(-hidden, 0)), *after])
    known = [letter for letters in inputs for letter in letters]
    most = max((sum(letter[0] == "." for letter in letters) for letters in inputs), default=0)
    dotted = [f".{i}" for i in range(-most, 0)]  # counted from the last one: they broadcast as shapes do
    if not arrow:
        return inputs, dotted + sorted(n for n in set(known) if n[0] != "." and known.count(n) == 1)
    before, dots, after = right.partition("...")
    output = [*before, *(dotted if dots else []), *after]
    wrong = [letter for letter in output if letter not in known or output.count(letter) > 1]
    if wrong:
        raise ShapeError(
            f"einsum {formula!r} has {wrong[0]!r} in its result, which must be in an operand and named once"
        )
    return inputs, output


def _sizes(formula: str, inputs: Sequence[Sequence[str]], tensors: Sequence[Tensor]) -> dict[str, Any]:
    """Return the size of each letter; an axis of size 1 broadcasts. Raises ShapeError where two others differ."""
    sizes: dict[str, Any] = {}
    origins: dict[str, tuple[Tensor, int]] = {}  # the tensor and axis that a size comes from
    for letters, tensor in zip(inputs, tensors, strict=True):
        for axis, (letter, size) in enumerate(zip(letters, tensor.shape, strict=True)):
            known = sizes.get(letter, 1)
            if not (size_math.same(known, size) or size_math.same(size, 1) or size_math.same(known, 1)):
                other, at = origins[letter]
                raise ShapeError(
                    f"einsum {formula!r} of shapes {other.shape} and {tensor.shape}: {letter!r} is {known}, axis {at} "
                    f"of the first, and {size}, axis {axis} of the second\n"
                    f"  first made at {other._where()}      second made at {tensor._where()}"
                )
            if size_math.same(known, 1):
                sizes[letter], origins[letter] = size, (tensor, axis)
    return sizes
