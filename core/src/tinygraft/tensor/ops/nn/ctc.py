"""Connectionist temporal classification: the loss of sequences whose alignment is not known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.data.from_python import array_of
from tinygraft.tensor.ops.nn.loss import nan_where, reduced
from tinygraft.tensor.primitives import index_checks, size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.primitives.iota import iota, positions_along
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor

LEAD = 2  # columns before the states, which no path is in: what a step reads from before a sample's first state


def ctc_loss(
    self: Tensor, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """The negative log likelihood of label sequences under all alignments with log probabilities (T, N, classes).

    targets are (N, S) labels, or those of all samples one after another; lengths are tensors or lists of N integers
    (read, where they say how targets are cut). Without N in the probabilities there is one sample. blank is the class
    that stands for no label. A mean is over samples, each divided by its target length; where no alignment fits the
    loss is infinite and its gradient NaN, with zero_infinity both are 0. A label within its length that is no class,
    and a length of more than T steps or S labels, is treated as in loss.py: IndexOutOfRange where it is known or with
    CHECK_INDEX=1, else NaN. The T steps are a loop in Python, so the graph grows with T. Raises ShapeError for other
    shapes and for lengths that do not add up, DTypeError for labels and lengths that are no integers, ValueError for a
    blank that is no class, a label that is known to be the blank (or with CHECK_INDEX=1), and another reduction.

    Source: Graves et al., "Connectionist temporal classification", ICML 2006.

    >>> from tinygraft import Tensor
    >>> steps = Tensor([[[0.5, 0.5]], [[0.5, 0.5]]]).log()
    >>> round(steps.ctc_loss(Tensor([[1]]), [2], [1], reduction="sum").exp().item(), 4)  # 1 / (3 of 4 alignments)
    1.3333
    """
    if self.ndim not in (2, 3):
        raise ShapeError(
            f"ctc_loss needs log probabilities (T, batch, classes) or (T, classes), got shape {self.shape}\n"
            f"  made at {self._where()}"
        )
    x = self._in_float() if self.ndim == 3 else self._in_float().unsqueeze(1)
    classes = size_math.as_int(x.shape[2], "ctc_loss")
    if not 0 <= blank < classes:
        raise ValueError(f"ctc_loss needs a blank of its {classes} classes, got {blank}")
    ends, late, _ = _lengths(x, "input_lengths", input_lengths, size_math.as_int(x.shape[0], "ctc_loss"))
    targets = x._argument("ctc_loss", "targets", targets)
    if 0 in targets.shape:
        targets = targets._cast(dtypes.int32)  # an empty list is one of floats
    if targets.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"ctc_loss needs targets of integers, got {targets.dtype}\n  made at {targets._where()}")
    most = size_math.as_int(targets.shape[-1], "ctc_loss") if targets.ndim else 0
    sizes, long, known = _lengths(x, "target_lengths", target_lengths, most)
    labels = _labels(x, targets, target_lengths, sizes)
    counted = positions_along(labels, 1) < sizes.unsqueeze(1)
    of_known = None if known is None else partial(_within, known)
    if labels is not targets:  # one after another, all of them count
        index_checks.labels(x, targets, 2)
        index_checks.no_blank(targets, blank)
    elif of_known is not None:
        index_checks.no_blank(labels, blank, of_known)
    wrong = index_checks.labels(x, labels, 2, counted=counted, counted_of=of_known)
    if wrong is not None:  # what is beyond the lengths may be any number
        labels = (wrong | counted.logical_not()).where(blank, labels)
    losses: Tensor = -_likelihood(x, labels, ends, sizes, blank, zero_infinity)
    for sample in (None if wrong is None else wrong.any(1), late, long):
        losses = nan_where(losses, sample)
    if zero_infinity:
        losses = losses.isinf().where(0.0, losses)
    if reduction == "mean":
        return (losses / sizes.clamp(1)._cast(losses.dtype)).mean()._narrowed(self.dtype)
    losses = losses if self.ndim == 3 else reshaped(losses, ())
    return reduced(losses._narrowed(self.dtype), reduction)


def _within(lengths: Any, labels: Any) -> Any:
    """Return which labels (N, S) are within N lengths; arrays of numpy, all three."""
    import numpy as np

    return np.arange(labels.shape[1]) < lengths.reshape(-1, 1)


def _lengths(self: Tensor, name: str, given: Any, most: int) -> tuple[Tensor, Tensor | None, Any]:
    """(A length for each sample, as int32; where one is not from 0 to `most`, None for nowhere; the known lengths).

    The known ones are an array of numpy, None where they are still to be computed.

    `given` is the tensor or list of the argument `name`. Raises DTypeError for what is no integer, ShapeError for
    another number of lengths, IndexOutOfRange for one that is known to be wrong.
    """
    found, values = given, None
    if not isinstance(given, TensorBase):
        import numpy as np

        values = array_of(given)
        values = values.astype(np.int32) if not values.size else values
        if values.dtype.kind in "iu":
            found = type(self)(values, device=self.device)
    is_tensor = isinstance(found, TensorBase)
    if not is_tensor or found.dtype.kind not in ("int", "uint"):
        raise DTypeError(f"ctc_loss needs {name} of integers, got {found.dtype if is_tensor else given!r}")
    if size_math.product(found.shape) != self.shape[1]:
        raise ShapeError(f"ctc_loss needs {name} of {self.shape[1]} integers, got shape {found.shape}")
    wrong = index_checks.spans(self, found, most, name, values)
    line: Tensor = reshaped(found, (self.shape[1],))
    known = index_checks.known_array(found) if values is None else values
    if wrong is None:
        return line._cast(dtypes.int32), None, known
    wrong = reshaped(wrong, (self.shape[1],))
    return wrong.where(0, line)._cast(dtypes.int32), wrong, known


def _labels(self: Tensor, targets: Tensor, given: Any, sizes: Tensor) -> Tensor:
    """Labels (N, S), also from those of all samples one after another, which `given`, the lengths, cut.

    Raises ShapeError for other shapes, and lengths that do not add up to the number of labels.
    """
    count = self.shape[1]
    if targets.ndim == 2 and size_math.same(targets.shape[0], count):
        return targets
    if targets.ndim != 1:
        raise ShapeError(
            f"ctc_loss of {count} samples needs targets ({count}, S) or (all,), got shape {targets.shape}\n"
            f"  targets made at {targets._where()}"
        )
    known = [int(n) for n in (given if isinstance(given, Sequence) else sizes.tolist())]
    if sum(known) != targets.shape[0]:
        raise ShapeError(
            f"ctc_loss needs target_lengths that add up to {targets.shape[0]}, the number of targets; "
            f"{sum(known)} is what they give"
        )
    starts = type(self)([sum(known[:i]) for i in range(len(known))], device=self.device)
    indices = starts.unsqueeze(1) + iota(type(self), max(known, default=0), self.device)
    return targets._join(Ops.GATHER, indices, arg=0)


def _likelihood(self: Tensor, labels: Tensor, ends: Tensor, sizes: Tensor, blank: int, zero_infinity: bool) -> Tensor:
    """The log likelihood (N,) of all alignments; where there is none its gradient is NaN, 0 with zero_infinity.

    self are the log probabilities (T, N, classes), labels (N, S), ends (N,) the number of steps of each sample, sizes
    (N,) that of its labels. States of a sample are blank, label, blank, ..., 2 S + 1 of them.
    """
    steps, count, _ = size_math.as_ints(self.shape, "ctc_loss")
    wide = labels._cast(dtypes.int32)
    size = LEAD + 2 * size_math.as_int(labels.shape[1], "ctc_loss") + 1
    pairs = reshaped(wide._const(blank).stack(wide, dim=2), (count, size - LEAD - 1))
    named = pairs.pad(((0, 0), (LEAD, 1)), value=blank)
    emitted = self.gather(2, named.unsqueeze(0).expand(steps, count, size)).contiguous()
    before = named.pad(((0, 0), (2, 0)), value=blank)[:, :size]
    skips = (named.ne(blank) & named.ne(before)).contiguous()
    alphas = _alphas(emitted, skips, ends)
    known = (emitted.uop, skips.uop, ends.uop), [alpha.uop for alpha in alphas]
    derive = partial(_slope, known, 0.0 if zero_infinity else math.nan)
    return with_derivative("ctc_loss", _ending(alphas, sizes), [emitted, skips, ends, sizes], derive)


def _slope(
    known: tuple[tuple[UOp, ...], list[UOp]], without: float, node: UOp, start: Tensor, wanted: list[bool]
) -> list[Tensor | None]:
    """Return the gradient of `_likelihood`: of what is emitted, the probability that a state is passed at a step.

    `known` has the operands of `_alphas` and the nodes that it made of them, for where they are still the same;
    `without` is the gradient of a sample that no alignment fits.

    That is the likelihood of all paths that begin with what leads there (alpha) and end with what leads from there
    (beta), which is alpha of the sequence from its end. Source: Graves et al., equation 16.
    """
    emitted, skips, ends, sizes = [start._wrap(source) for source in node.src[1:]]
    steps, count, size = size_math.as_ints(emitted.shape, "ctc_loss")
    if not steps:
        return [emitted._const(0.0), None, None, None]
    same = node.src[1:4] == known[0]
    alphas = [start._wrap(alpha) for alpha in known[1]] if same else _alphas(emitted, skips, ends)
    total = _ending(alphas, sizes).reshape(1, count, 1)
    states, last = positions_along(skips, 1) - LEAD, 2 * sizes.unsqueeze(1)
    times, ends_ = reshaped(iota(type(start), steps, start.device), (steps, 1, 1)), ends.reshape(1, count, 1)
    inside = (times < ends_) & ((states >= 0) & (states <= last)).unsqueeze(0)
    turned = (ends_ - 1 - times) * size + (last - states + LEAD).unsqueeze(0)
    turned = reshaped(inside.where(turned, 0).permute(1, 0, 2), (count, steps * size)).contiguous()

    def from_end(x: Tensor) -> Tensor:
        """Return (T, N, states) with the steps and the states of each sample from its end."""
        line = reshaped(x.permute(1, 0, 2), (count, steps * size)).gather(1, turned)
        return reshaped(line, (count, steps, size)).permute(1, 0, 2).contiguous()

    follows = (states >= 2) & (states <= last)
    back_skips = (follows & skips.gather(1, follows.where(last - states + 2 + LEAD, 0))).contiguous()
    paths = alphas[0].stack(*alphas[1:]).contiguous()
    betas = _alphas(from_end(emitted), back_skips, ends)
    reached = inside & paths.ne(-math.inf) & total.ne(-math.inf)
    passed = paths + from_end(betas[0].stack(*betas[1:])) - emitted - total
    slopes = reached.where(passed, -math.inf).exp() * start.reshape(1, count, 1)
    return [(inside & total.eq(-math.inf)).where(without, slopes), None, None, None]


def _alphas(emitted: Tensor, skips: Tensor, ends: Tensor) -> list[Tensor]:
    """Return the log likelihood (N, states) of ending in each state, after each step; without steps that before any.

    emitted (T, N, states) has that of what a state emits, skips (N, states) whether a state may follow the last but
    one, ends (N,) the number of steps of each sample: after these its likelihoods stay. Each step reads a row of what
    is made for all of them, so that one kernel does for all; and it is one loop over all samples, whose states follow
    those of the sample before.
    """
    steps, count, size = size_math.as_ints(emitted.shape, "ctc_loss")
    states = positions_along(skips, 1) - LEAD
    alpha = states.eq(0).where(skips._const(0.0, emitted.dtype), -math.inf)  # of a sample without steps
    if not steps:
        return [alpha]
    times = reshaped(iota(type(emitted), steps, emitted.device), (steps, 1, 1))
    counted = ((times < ends.reshape(1, count, 1)) & (states >= 0).unsqueeze(0)).contiguous()
    first = counted[0].where((states < 2).where(emitted[0], -math.inf), alpha)
    line = (count * size,)
    found = [reshaped(first, line).contiguous()]
    skips, emitted, counted = reshaped(skips, line), *[reshaped(x, (steps, *line)) for x in (emitted, counted)]
    for t in range(1, steps):
        alpha = found[-1]
        moved = alpha.pad(((LEAD, 0),), value=-math.inf)
        near, far = moved[LEAD - 1 : -1], skips.where(moved[:-LEAD], -math.inf)
        found.append(counted[t].where(_sum_of_powers(alpha, near, far) + emitted[t], alpha).contiguous())
    return [reshaped(alpha, (count, size)) for alpha in found]


def _ending(alphas: list[Tensor], sizes: Tensor) -> Tensor:
    """Return the log likelihood (N,) of ending in the last label or the blank after it."""
    alpha = alphas[-1]
    states, last = positions_along(alpha, 1) - LEAD, 2 * sizes.unsqueeze(1)
    final = (states.eq(last) | states.eq(last - 1)).where(alpha, -math.inf)
    most = final.detach().max(1, keepdim=True)
    none = most.eq(-math.inf)
    total = (final - none.where(0.0, most)).exp().sum(1, keepdim=True)
    return (none.where(-math.inf, none.where(1.0, total).log() + none.where(0.0, most))).squeeze(1)


def _sum_of_powers(*terms: Any) -> Any:
    """Return the logarithm of the sum of e to the power of terms of one shape, with no gradient where all are -inf."""
    most = terms[0].detach()
    for term in terms[1:]:
        most = most.maximum(term.detach())
    exponent, digits = dtypes.finfo(most.dtype)
    most = most.maximum(
        -(2 - 2.0**-digits) * 2.0 ** (2 ** (exponent - 1) - 1)
    )  # of infinities a difference would be NaN
    total = (terms[0] - most).exp()
    for term in terms[1:]:
        total = total + (term - most).exp()
    none = total.eq(0)
    return none.where(-math.inf, none.where(1.0, total).log() + most)
