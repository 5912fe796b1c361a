"""Losses of numbers and distances: how far predictions are from targets that are numbers, and vectors from each other.

Predictions and targets in, broadcast together and compared as floats (half types in float32); out the mean over all
elements, their sum, or one loss for each, as reduction says. Targets have gradients too.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DType, dtypes, promote
from tinygraft.errors import ShapeError
from tinygraft.helpers import warn_user
from tinygraft.tensor.ops.nn.loss import reduced
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.elementwise import size_root
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.state.recording import impure

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def both_floats(self: Tensor, other: Any) -> tuple[Tensor, Tensor, DType]:
    """Both operands as floats of one shape, wide enough to compute in, and the dtype of the result.

    Warns of shapes whose losses are of each with each, (3, 1) and (3,), which is seldom meant. Raises as `_op` does.
    """
    a, b = self._broadcasted(other)
    if hasattr(other, "shape") and a.shape not in (self.shape, tuple(other.shape)):
        impure()
        warn_user(
            f"a loss of shapes {self.shape} and {tuple(other.shape)} is of each with each, which is shape {a.shape}\n"
            f"  hint: give both one shape, as in target.reshape({', '.join(map(str, self.shape))})",
            UserWarning,
        )
    dtype = a.dtype if a._is_float() else dtypes.default_float
    return a._in_float(), b._in_float(), dtype


def weighted(self: Tensor, weight: Any, reduction: str, dtype: DType) -> Tensor:
    """Losses times weights, which broadcast, put together in `dtype`; a mean is over the weights.

    A weight None is none. Raises ValueError for an unknown reduction.
    """
    if weight is None:
        return reduced(self._cast(dtype), reduction)
    scaled, weights = self._broadcasted(weight)
    scaled = (scaled * weights)._cast(dtype)
    if reduction != "mean":
        return reduced(scaled, reduction)
    return scaled.sum() / weights._cast(dtype).sum()


def l1_loss(self: Tensor, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """|self - target|, floats. weight scales each loss, and the mean is over the weights.

    target and weight are tensors or numbers that broadcast. reduction is "mean", "sum" or "none", one loss each. Raises
    ShapeError for shapes that do not broadcast, ValueError for another reduction.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 4.0]).l1_loss(Tensor([2.0, 2.0])).item()
    1.5
    """
    if isinstance(target, TensorBase) and target.dtype.kind == "complex" and not self.is_complex():
        return self._cast(target.dtype).l1_loss(target, reduction, weight)
    a, b, dtype = both_floats(self, target)
    return weighted((a - b).abs(), weight, reduction, dtype)


def mse_loss(self: Tensor, target: Any, reduction: str = "mean", weight: Any = None) -> Tensor:
    """(self - target)**2, floats. weight scales each loss, and the mean is over the weights.

    Arguments and errors as l1_loss.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 4.0]).mse_loss(Tensor([2.0, 2.0])).item()
    2.5
    """
    a, b, dtype = both_floats(self, target)
    return weighted((a - b).square(), weight, reduction, dtype)


def smooth_l1_loss(self: Tensor, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """A parabola of the distance d up to beta, d**2 / (2 * beta), and d - beta / 2 beyond; with beta 0 it is l1_loss.

    Arguments and errors as in l1_loss, and ValueError for a beta below 0.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 4.0]).smooth_l1_loss(Tensor([1.5, 1.0]), reduction="none").tolist()
    [0.125, 2.5]
    """
    if beta < 0:
        raise ValueError(f"smooth_l1_loss needs a beta of at least 0, got {beta}")
    a, b, dtype = both_floats(self, target)
    size = (a - b).abs()
    if beta:
        size = (size < beta).where(size.square() * (0.5 / beta), size - 0.5 * beta)
    return reduced(size._cast(dtype), reduction)


def huber_loss(self: Tensor, target: Any, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Tensor:
    """A parabola of the distance d up to delta, d**2 / 2, and delta * (d - delta / 2) beyond.

    Arguments and errors as in l1_loss, and ValueError for a delta of 0 or less.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0, 4.0]).huber_loss(Tensor([1.5, 1.0]), reduction="none", delta=2.0).tolist()
    [0.125, 4.0]
    """
    if delta <= 0:
        raise ValueError(f"huber_loss needs a delta of more than 0, got {delta}")
    a, b, dtype = both_floats(self, target)
    size = (a - b).abs()
    losses = (size > delta).where((size - 0.5 * delta) * delta, size.square() * 0.5)
    return weighted(losses, weight, reduction, dtype)


def kl_div(self: Tensor, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """target * (log(target) - self), where self has logarithms of probabilities, and target too if log_target.

    reduction "batchmean" is the sum over the size of the first axis, which is what the mathematics calls the
    divergence; "mean" is over all elements; "sum" and "none" are the others. Raises ValueError for another one,
    ShapeError for shapes that do not broadcast.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).kl_div(Tensor([1.0])).item()
    0.0
    """
    a, b, dtype = both_floats(self, target)
    if log_target:
        losses = b.exp() * (b - a)
    else:
        # 0 log 0 is 0; the log of a 1 instead has a finite gradient
        none = b.eq(0.0)
        losses = none.where(0.0, b * none.where(1.0, b).log()) - b * a
    if reduction == "batchmean":
        count = self.shape[0] if self.ndim else 1
        return (losses.sum() / count)._cast(dtype)
    return reduced(losses._cast(dtype), reduction)


def poisson_nll_loss(
    self: Tensor, target: Any, log_input: bool = True, full: bool = False, eps: float = 1e-8, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of counts under Poisson distributions with these rates.

    With log_input self has their logarithms. full adds Stirling's approximation of log(target!) for targets above 1;
    eps keeps log(0) away. target and reduction, and errors, as in l1_loss.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).poisson_nll_loss(Tensor([1.0])).item()
    1.0
    """
    a, b, dtype = both_floats(self, target)
    losses = a.exp() - b * a if log_input else a - b * (a + eps).log()
    if full:
        # PyTorch's bound, below which the approximation is not used
        many = b > 1.0
        count = many.where(b, 1.0)
        stirling = count * count.log() - count + (count * (2 * math.pi)).log() * 0.5
        losses = losses + many.where(stirling, 0.0)
    return reduced(losses._cast(dtype), reduction)


def gaussian_nll_loss(
    self: Tensor, target: Any, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log likelihood of targets under normal distributions with these means and variances.

    var is a number, or has the shape of self, or that shape without its last axis or with size 1 there. It counts as at
    least eps. full adds the constant term. Raises ShapeError for a var of another shape, ValueError for a number below
    0; target, reduction and further errors as in l1_loss.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0]).gaussian_nll_loss(Tensor([3.0]), Tensor([1.0])).item()
    2.0
    """
    a, b, dtype = both_floats(self, target)
    spread = _variance(self, var)._in_float()
    # clamped in value only: the gradient goes on to variances below eps, as in PyTorch
    spread = spread + (spread.clamp(eps) - spread).detach()
    losses = (spread.log() + (a - b).square() / spread) * 0.5
    if full:
        losses = losses + 0.5 * math.log(2 * math.pi)
    return reduced(losses._cast(dtype), reduction)


def _variance(self: Tensor, var: Any) -> Tensor:
    """var as a tensor in a shape that goes with this one.

    Raises ShapeError if it has another, ValueError for a negative number; the numbers in a tensor are not checked.
    """
    if isinstance(var, (int, float)):
        if var < 0:
            raise ValueError(f"gaussian_nll_loss needs variances of at least 0, got {var}")
        return self._const(var, dtypes.default_float)
    given: Tensor = self._argument("gaussian_nll_loss", "variances", var)
    if given.shape == self.shape or given.shape == (*self.shape[:-1], 1):
        return given
    if given.shape == self.shape[:-1]:
        return given.unsqueeze(-1)
    raise ShapeError(
        f"gaussian_nll_loss of shape {self.shape} needs variances of that shape, of {(*self.shape[:-1], 1)} or of "
        f"{self.shape[:-1]}, got {given.shape}\n  variances made at {given._where()}"
    )


# Vectors


@either_spelling
def cosine_similarity(self: Tensor, x2: Any, dim: int = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along dim, which is gone; a norm less than eps counts as eps. A float.

    Both broadcast, and dim is an axis of their common shape. Raises ShapeError if they do not, AxisError for a dim that
    does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 0.0]]).cosine_similarity(Tensor([[1.0, 1.0]])).tolist()
    [0.7071067690849304]
    """
    a, b, dtype = both_floats(self, x2)
    small = eps * eps
    norms = [t.square().sum(dim, True).clamp(small).sqrt() for t in (a, b)]
    return ((a / norms[0]) * (b / norms[1])).sum(dim)._cast(dtype)


@either_spelling
def pairwise_distance(self: Tensor, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of self - x2 + eps along the last axis, which stays with size 1 with keepdim. A float; both broadcast.

    p may be inf, -inf, or 0, which counts what is not 0. Raises ShapeError for shapes that do not broadcast.

    >>> from tinygraft import Tensor
    >>> round(Tensor([[3.0, 0.0]]).pairwise_distance(Tensor([[0.0, 4.0]])).item(), 4)
    5.0
    """
    if isinstance(x2, TensorBase) and x2.dtype.kind == "complex" and not self.is_complex():
        return self._cast(x2.dtype).pairwise_distance(x2, p, eps, keepdim)
    a, b, dtype = both_floats(self, x2)
    apart = a - b + eps
    if p == 2:
        return size_root(apart.square().sum(-1, keepdim))._cast(dtype)
    size = apart.abs()
    if math.isinf(p):
        found = size.max(-1, keepdim) if p > 0 else size.min(-1, keepdim)
    elif p == 0:
        found = size.ne(0.0)._cast(size.dtype).sum(-1, keepdim)
    elif p == 1:
        found = size.sum(-1, keepdim)
    else:
        found = size.pow(p).sum(-1, keepdim).pow(1 / p)
    return found._cast(dtype)


def cosine_embedding_loss(self: Tensor, x2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """1 - cos of the angle between vectors where target is 1; how far cos is above margin where it is -1; else 0.

    Vectors (batch, n) need targets (batch,), one vector (n,) a target (). Raises ShapeError for others, ValueError for
    a reduction other than "mean", "sum" and "none".

    >>> from tinygraft import Tensor
    >>> Tensor([[1.0, 0.0]]).cosine_embedding_loss(Tensor([[0.0, 1.0]]), Tensor([1])).item()
    1.0
    """
    x2, target = (self._argument("cosine_embedding_loss", *pair) for pair in (("vectors", x2), ("targets", target)))
    if self.ndim not in (1, 2) or x2.ndim != self.ndim or target.ndim != self.ndim - 1:
        raise ShapeError(
            f"cosine_embedding_loss needs vectors (batch, n) and targets (batch,), or (n,) and (), got "
            f"{self.shape}, {x2.shape} and {target.shape}\n  targets made at {target._where()}"
        )
    a, b, dtype = both_floats(self, x2)
    small = 1e-12
    cos = (a * b).sum(-1) / ((a.square().sum(-1) + small) * (b.square().sum(-1) + small)).sqrt()
    losses: Tensor = target.eq(1).where(1 - cos, 0.0) + target.eq(-1).where((cos - margin).relu(), 0.0)
    return reduced(losses._cast(dtype), reduction)


def hinge_embedding_loss(self: Tensor, target: Any, margin: float = 1.0, reduction: str = "mean") -> Tensor:
    """self where target is 1; how far self is below margin where it is -1; for another target both, added.

    self and target are broadcast; a loss for each element, put together by reduction, "mean", "sum" or "none". Raises
    ValueError for another one, ShapeError.

    >>> from tinygraft import Tensor
    >>> Tensor([0.5, 0.25]).hinge_embedding_loss(Tensor([1, -1]), reduction="none").tolist()
    [0.5, 0.75]
    """
    a, b = self._broadcasted(target)
    near, far = b.ne(-1).where(a, 0), b.ne(1).where((margin - a).clamp(0), 0)
    return reduced((near + far), reduction)


def margin_ranking_loss(self: Tensor, x2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """How far self is from being margin greater than x2 where target is 1, or less where it is -1.

    That is max(-target * (self - x2) + margin, 0) of three of as many axes, which broadcast, else ShapeError is raised;
    ValueError is for a reduction other than "mean", "sum" and "none".

    >>> from tinygraft import Tensor
    >>> Tensor([1.0]).margin_ranking_loss(Tensor([3.0]), Tensor([1])).item()
    2.0
    """
    x2, target = (self._argument("margin_ranking_loss", *pair) for pair in (("inputs", x2), ("targets", target)))
    if len({self.ndim, x2.ndim, target.ndim}) > 1:
        raise ShapeError(
            f"margin_ranking_loss needs two inputs and targets of as many axes, got shapes {self.shape}, "
            f"{x2.shape} and {target.shape}\n  first made at {self._where()}      targets made at {target._where()}"
        )
    dtype = promote(self.dtype, x2.dtype)
    losses: Tensor = ((x2 - self) * target + margin).clamp(0)
    return reduced((losses._cast(dtype) if dtype.kind == "float" else losses), reduction)


def triplet_margin_loss(
    self: Tensor, positive: Any, negative: Any, margin: float = 1.0, p: float = 2.0, eps: float = 1e-6,
    swap: bool = False, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """How far self is from being nearer to positive than to negative, by margin, in pairwise_distance.

    The three are (batch, n), or (n,), and the losses (batch,), or (). p and eps are those of pairwise_distance; swap
    takes the distance of positive and negative where it is less than that of self and negative. Raises ShapeError where
    they have not as many axes, ValueError for a margin of 0 or less. Source: Balntas et al., "Learning local feature
    descriptors with triplets and shallow convolutional neural networks", BMVC 2016.

    >>> from tinygraft import Tensor
    >>> a, b = Tensor([[0.0, 0.0]]), Tensor([[3.0, 4.0]])
    >>> round(a.triplet_margin_loss(b, b).item(), 4)
    1.0
    """

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return x._in_field().pairwise_distance(y._in_field(), p, eps)

    positive, negative = (self._argument("triplet_margin_loss", "examples", x) for x in (positive, negative))
    dtype = promote(self.dtype, positive.dtype, negative.dtype)
    losses = self.triplet_margin_with_distance_loss(positive, negative, distance, margin, swap, "none")
    return reduced(losses._narrowed(dtype), reduction)


def triplet_margin_with_distance_loss(
    self: Tensor, positive: Any, negative: Any, distance_function: Any = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(d(self, positive) - d(self, negative) + margin, 0) for a distance d of yours.

    distance_function gets two tensors and returns their distances, (batch,) for (batch, n); None is pairwise_distance.
    swap takes d(positive, negative) where it is less than d(self, negative). reduction is mean, sum or none. Raises
    ShapeError where the three have not as many axes, ValueError for a margin of 0 or less.

    >>> from tinygraft import Tensor
    >>> near, far = Tensor([[0.0, 1.0]]), Tensor([[0.0, 1.5]])
    >>> Tensor([[0.0, 0.0]]).triplet_margin_with_distance_loss(near, far, lambda a, b: (a - b).abs().sum(-1)).item()
    0.5
    """
    positive, negative = (self._argument("a triplet loss", "examples", x) for x in (positive, negative))
    if len({self.ndim, positive.ndim, negative.ndim}) > 1:
        raise ShapeError(
            f"a triplet loss needs three tensors of as many axes, got shapes {self.shape}, {positive.shape} and "
            f"{negative.shape}\n  first made at {self._where()}"
        )
    if margin <= 0:
        raise ValueError(f"a triplet loss needs a margin of more than 0, got {margin}")
    distance = distance_function or type(self).pairwise_distance
    near, far = distance(self, positive), distance(self, negative)
    if swap:
        far = far.minimum(distance(positive, negative))
    losses: Tensor = (near - far + margin).clamp(0)
    return reduced(losses, reduction)
