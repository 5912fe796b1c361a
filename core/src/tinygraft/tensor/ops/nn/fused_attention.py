"""Attention as a routine of the device: forward stores two numbers for each query, backward computes weights anew.

The routine and its gradient have operands of fixed axes (uop/routines.py): (examples, batches, heads, groups, L, d) for
queries, where a group of heads has the same keys. examples are those of vmap, here 1. Half types are computed in
float32. A seed is the key that the counter of this device's random numbers gives: what rand would draw for the scores
is known from it, element by element, and never stored.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tinygraft.autograd.walk import gradient
from tinygraft.dtype import DType, dtypes, promote
from tinygraft.helpers import prod
from tinygraft.tensor.ops.nn.composed_attention import AttentionOptions, composed
from tinygraft.tensor.primitives.broadcasting import broadcast_shape
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.tensor.primitives.routine_nodes import apart, has_routine, results, with_kernels
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

# Queries that share keys, and keys, from which on the routine is as fast as kernels: measured 2026-11-24, with what is
# around it. It computes 16 queries at once and reads operands that are stored one after another; kernels read them
# where they are, and below these numbers their scores are few.
LEAST_QUERIES, LEAST_KEYS = 16, 256
MOST_DRAWN = 2**32  # weights that can be dropped: the counter of an element has 32 bits


@dataclass(frozen=True, slots=True)
class AttentionSizes:
    """The sizes of the routine's operands, the shape of its result, and the dtype that it computes in."""

    lead: tuple[int, ...]  # the axes of the result before (L, e)
    batches: int
    heads: int
    groups: int
    wide: DType

    @property
    def front(self) -> tuple[int, ...]:
        """Return the first axes of all operands."""
        return (1, self.batches, self.heads)


def sizes_of(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: AttentionOptions, grouped: bool
) -> AttentionSizes | None:
    """Return the sizes with which the device's routine computes this, or None where kernels do.

    `grouped` says that heads of queries have those of keys and values, of which there are as many, by groups. q, k, v
    and mask are as in `composed`. Kernels compute shapes that do not fit, and raise for them.
    """
    tensors = [q, k, v] if mask is None else [q, k, v, mask]
    wide = _computed_in(tensors)
    if wide is None or options.dropped == 1 or not isinstance(options.scale, (int, float)):
        return None
    # one head of keys and values is that of a group of all heads
    shared = grouped or (q.ndim > 2 and all(t.ndim == 2 or t.shape[-3] == 1 for t in (k, v)))
    lead = broadcast_shape(q.shape[:-2], *[(*t.shape[:-3], q.shape[-3]) if shared else t.shape[:-2] for t in (k, v)])
    if lead is None:
        return None
    scores = (*lead, q.shape[-2], k.shape[-2])
    last = lead[-1] if lead else 1
    heads = last if not shared else k.shape[-3] if k.ndim > 2 else 1
    if last // heads * q.shape[-2] < LEAST_QUERIES or k.shape[-2] < LEAST_KEYS:
        return None
    if mask is not None and broadcast_shape(mask.shape, scores) != scores:
        return None
    if options.dropped and (prod(scores) > MOST_DRAWN or dtypes.default_float is not dtypes.float32):
        return None
    return AttentionSizes(lead, prod(lead[:-1]), heads, last // heads, wide)


def _computed_in(tensors: Sequence[Tensor]) -> DType | None:
    """Return the dtype that the device's routine computes in, or None where it has none for q, k, v and a mask."""
    q, k, v = tensors[:3]
    if not all(t.dtype.kind == "float" for t in (q, k, v)) or any(t.device != q.device for t in tensors):
        return None
    if any(not is_concrete(t.shape) or 0 in t.shape for t in tensors) or min(t.ndim for t in (q, k, v)) < 2:
        return None
    if q.shape[-1] != k.shape[-1] or k.shape[-2] != v.shape[-2]:
        return None
    wide = promote(dtypes.float32, *[t.dtype for t in tensors if t.dtype is not dtypes.bool])
    names = ("attention", "attention_backward")
    return wide if all(has_routine(q, name, dtype=wide) for name in names) else None


def attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, options: AttentionOptions, sizes: AttentionSizes
) -> Tensor:
    """Return attention by the routine, (*sizes.lead, L, e): forward by results, with its own rule of gradients.

    Operands are as in `composed`, and `sizes` those of `sizes_of` for them. Dropping counts the draws of this device.
    """
    (queries, size), (keys, parts) = q.shape[-2:], v.shape[-2:]
    to = promote(q.dtype, v.dtype)
    q, k, v = [_laid_back(t)._cast(sizes.wide) for t in (q, k, v)]
    own = (*sizes.lead[:-1], sizes.heads) if sizes.lead else ()
    operands = [
        reshaped(q.expand((*sizes.lead, queries, size)), (*sizes.front, sizes.groups, queries, size)),
        reshaped(k.expand((*own, keys, size)), (*sizes.front, keys, size)),
        reshaped(v.expand((*own, keys, parts)), (*sizes.front, keys, parts)),
    ]
    if mask is not None:
        operands.append(_mask_of(mask, sizes))
    if options.dropped:
        operands.append(reshaped(type(q)._drawn_key(prod((*sizes.lead, queries, keys)), q.device), (1, 1)))
    found = _forward(operands, _AttentionForm(options, mask is not None))
    return reshaped(found, (*sizes.lead, queries, parts))._cast(to)


def _laid_back(t: Tensor) -> Tensor:
    """Return the same values, whose gradient is stored in the order that they had before axes were permuted.

    Heads are split off and moved to the front: their gradients are put together along what was one axis, which reads
    them 17 times as fast in this order (2026-11-24: 0.13 ms, 2.1 without, for 16x64x1152).
    """
    if t.uop.op is not Ops.PERMUTE:
        return t
    order = t.uop.arg
    back = t.permute(*(order.index(axis) for axis in range(t.ndim)))
    return back.contiguous_backward().permute(*order)


def _mask_of(mask: Tensor, sizes: AttentionSizes) -> Tensor:
    """Return a mask with the axes of the routine, where those along which it is the same have size 1."""
    mask = mask if mask.dtype is dtypes.bool else mask._cast(sizes.wide)
    shape = (1,) * (len(sizes.lead) + 2 - mask.ndim) + tuple(mask.shape)
    batch, last = shape[:-2][:-1], shape[:-2][-1:] or (1,)
    if prod(batch) not in (1, sizes.batches):
        batch = sizes.lead[:-1]  # of several batch axes it has some
        mask = reshaped(mask, shape).expand((*batch, *last, *shape[-2:]))
    heads = (1, 1) if last == (1,) else (sizes.heads, sizes.groups)
    return reshaped(mask, (1, prod(batch), *heads, *shape[-2:]))


@dataclass(frozen=True, slots=True)
class _AttentionForm:
    """Which operands follow q, k and v, and what the routine is told."""

    options: AttentionOptions
    masked: bool

    @property
    def numbers(self) -> tuple[int, ...]:
        """Return the options of the routine."""
        bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in (self.options.scale, self.options.dropped)]
        return (int(self.options.causal), bits[0], int(self.masked), bits[1])

    def by_kernels(self, *operands: Tensor) -> Tensor:
        """Return what the routine computes of its operands, as a graph of kernels."""
        q, k, v = operands[0], operands[1].unsqueeze(3), operands[2].unsqueeze(3)
        mask = operands[3] if self.masked else None

        def keep(weights: Tensor) -> Tensor:
            units = operands[-1].reshape(-1)[:1]._as_units(prod(weights.shape))
            return reshaped(units, weights.shape)._op(Ops.CMPLT, self.options.dropped)._op(Ops.NOT)

        return composed(q, k, v, mask, self.options, keep)

    def gradient_by_kernels(self, number: int) -> Callable[..., Tensor]:
        """Return a function of the operands and the gradient of the result: the gradient of an operand, by kernels."""

        def compute(*sources: Tensor) -> Tensor:
            operands, start = apart(sources[:-1]), sources[-1]
            (found,) = gradient(self.by_kernels(*operands).uop, [operands[number].uop], start.uop)
            return start._const(0) if found is None else start._wrap(found)

        return compute


def _forward(operands: Sequence[Tensor], form: _AttentionForm) -> Tensor:
    """Return attention of operands in the routine's axes, with its derivative; `form` says what follows q, k and v."""
    value, *of_queries = results("attention", operands, form.numbers, (0, 1, 2))
    for saved in of_queries:
        saved._set_flag(False)
    sources = [*operands, *[saved.detach() for saved in of_queries]]
    return with_derivative("attention", value, sources, _AttentionGradient(form, tuple(of_queries)))


@dataclass(frozen=True, slots=True)
class _AttentionGradient:
    """The rule of attention, which retains the greatest scores and the sums.

    So the run that computes the result stores them too.
    """

    form: _AttentionForm
    of_queries: tuple[Tensor, ...]

    def __call__(self, node: UOp, start: Tensor, wanted: list[bool]) -> list[Tensor | None]:
        """Return the gradients of the operands: of q, k and v by the routine, of a mask by kernels."""
        given = [start._wrap(source) for source in node.src[1:-2]]
        saved = [start._wrap(x) for x in (node, *node.src[-2:])]  # the node itself: once realised it is not repeated
        numbers = [number for number in range(3) if wanted[number]]
        found: list[Tensor | None] = [None] * len(wanted)
        if numbers:
            operands = [*given[:3], *given[3:], *saved, start]
            of_operands = results("attention_backward", operands, self.form.numbers, numbers)
            for number, value in zip(numbers, of_operands, strict=True):
                slope = self.form.gradient_by_kernels(number)
                found[number] = with_kernels("attention_backward", value, [*given, start], slope)
        if self.form.masked and wanted[3]:
            found[3] = self.form.gradient_by_kernels(3)(*given, start)
        return found
