"""Further activations: shrinking ones, those with learned or random slopes, gates, and random choices.

A tensor of floats in, one of the same shape out unless a docstring says otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.ops.nn.dropout import is_training
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.iota import positions_along
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.primitives.movement import reshaped

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


def hardshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """0 from -lambd to lambd, the value elsewhere, in this dtype.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.0, 0.25]).hardshrink().tolist()
    [-1.0, 0.0]
    """
    return ((self >= -lambd) & (self <= lambd)).where(0, self)


def softshrink(self: Tensor, lambd: float = 0.5) -> Tensor:
    """The value moved towards 0 by lambd, as far as 0; a float. Raises ValueError for a lambd below 0.

    >>> from tinygraft import Tensor
    >>> Tensor([-1.0, 0.25]).softshrink().tolist()
    [-0.5, 0.0]
    """
    if lambd < 0:
        raise ValueError(f"softshrink needs a lambd of at least 0, got {lambd}")
    x = self._in_float()
    near = (x <= lambd).where(x * 0.0, x - lambd)  # x * 0.0 and not 0.0: NaN stays NaN
    return (x < -lambd).where(x + lambd, near)._narrowed(self.dtype)


def tanhshrink(self: Tensor) -> Tensor:
    """x - tanh(x), a float.

    >>> from tinygraft import Tensor
    >>> Tensor([0.0]).tanhshrink().tolist()
    [0.0]
    """
    x = self._in_field()
    return (x - x.tanh())._narrowed(self.dtype)


def threshold(self: Tensor, threshold: float, value: float) -> Tensor:
    """The value where it is above a threshold, another one elsewhere; NaN stays NaN.

    For integers both are cut to whole numbers.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 3]).threshold(2, 0).tolist()
    [0, 3]
    """
    if not self._is_float():
        threshold, value = int(threshold), int(value)
    return (self <= threshold).where(value, self)


def prelu(self: Tensor, weight: Tensor) -> Tensor:
    """The value where it is positive, weight times it elsewhere; one weight, or one for each channel (axis 1).

    weight has one axis or none. Raises ShapeError for another number of weights, DTypeError for another dtype than this
    one.

    >>> from tinygraft import Tensor
    >>> Tensor([-4.0, 2.0]).prelu(Tensor([0.25])).tolist()
    [-1.0, 2.0]
    """
    count = size_math.product(weight.shape)
    if weight.ndim > 1 or (not self.ndim and not size_math.same(count, 1)):
        raise ShapeError(
            f"prelu of shape {self.shape} needs one weight or one for each channel, got shape {weight.shape}\n"
            f"  weight made at {weight._where()}"
        )
    if size_math.same(count, 1):
        slope = reshaped(weight, ())
    elif self.ndim < 2 or not size_math.same(self.shape[1], count):
        raise ShapeError(
            f"prelu of shape {self.shape} needs a weight for each channel, which axis 1 is, got {count} weights\n"
            f"  weight made at {weight._where()}"
        )
    else:
        slope = reshaped(weight, (count, *(1,) * (self.ndim - 2)))
    if weight.dtype is not self.dtype:
        raise DTypeError(
            f"prelu needs a weight of the dtype of its input, {self.dtype}, got {weight.dtype}\n"
            f"  weight made at {weight._where()}"
        )
    return (self > 0).where(self, self * slope)


def rrelu(self: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool | None = None) -> Tensor:
    """The value where it is positive, elsewhere times a slope.

    In training that is drawn from [lower, upper) for each element, else the middle of both. training None is whether
    Tensor.train says so. Raises ValueError for a lower above upper. Source: Xu et al., "Empirical evaluation of
    rectified activations in convolutional network", arXiv:1505.00853.

    >>> from tinygraft import Tensor
    >>> Tensor([-4.0, 2.0]).rrelu(0.25, 0.75).tolist()
    [-2.0, 2.0]
    """
    if not lower <= upper:
        raise ValueError(f"rrelu needs a lower slope and an upper one, got {lower} and {upper}")
    slope: Any = (lower + upper) / 2
    if is_training(self, training):
        slope = type(self).uniform(self.shape, low=lower, high=upper, device=self.device, dtype=self.dtype)
    return (self > 0).where(self, self * slope)


@either_spelling
def glu(self: Tensor, dim: int = -1) -> Tensor:
    """The first half along dim times the sigmoid of the second half: half as long there.

    Raises ShapeError for an odd size, or without an axis, AxisError for a dim that does not exist.

    >>> from tinygraft import Tensor
    >>> Tensor([4.0, 0.0]).glu().tolist()
    [2.0]
    """
    axis = self._axis(dim)
    if not self.ndim or size_math.as_int(self.shape[axis], "glu") % 2:
        raise ShapeError(f"glu needs an even size along axis {dim} of shape {self.shape}\n  made at {self._where()}")
    value, gate = self.chunk(2, axis) if self.shape[axis] else (self, self)
    return value * gate.sigmoid()


@either_spelling
def gumbel_softmax(self: Tensor, tau: float = 1.0, hard: bool = False, dim: int = -1) -> Tensor:
    """A relaxed random choice of a class: softmax((self + gumbel noise) / tau) along dim, for logits.

    A float in this shape. hard gives 1 for the class of the largest value and 0 for the others, with the gradient of
    the soft choice. Raises ValueError for a tau of 0 or less, AxisError for a dim that does not exist. Source: Jang et
    al., "Categorical reparameterization with Gumbel-softmax", arXiv:1611.01144.

    >>> from tinygraft import Tensor
    >>> Tensor([[0.0, 100.0]]).gumbel_softmax(hard=True).tolist()
    [[0.0, 1.0]]
    """
    if tau <= 0:
        raise ValueError(f"gumbel_softmax needs a tau of more than 0, got {tau}")
    x = self._in_float()
    drawn = type(self).rand(self.shape, device=self.device, dtype=x.dtype)
    # -log of an exponential variable is Gumbel noise; 1 - drawn is never 0, and the clamp keeps log from 0
    exponential = (-(1 - drawn).log()).clamp(2.0**-100)
    soft = ((x - exponential.log()) * (1 / tau)).softmax(dim)
    if hard:
        still = soft.detach()
        best = still.argmax(dim, keepdim=True).eq(positions_along(still, self._axis(dim)))
        soft = best._cast(x.dtype) + (soft - still)  # the straight-through estimator: adds 0 with the gradient of soft
    return soft._cast(self.dtype if self._is_float() else dtypes.default_float)
