"""Activations as layers, by PyTorch's names: each calls the method of Tensor that its docstring names.

They are for lists of layers and for models that come from PyTorch; a function such as Tensor.relu does as well there.
With inplace=True the result is written over the argument.
"""

from __future__ import annotations

from tinygraft.nn.described import Described
from tinygraft.nn.in_place import InPlace
from tinygraft.nn.parameter import filled
from tinygraft.tensor.tensor import Tensor


class Identity(Described):
    """x itself."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x, unchanged."""
        return x


class ReLU(InPlace):
    """Tensor.relu."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.relu(), of the shape of x."""
        return self._over(x, x.relu())


class ReLU6(InPlace):
    """Tensor.relu6."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.relu6(), of the shape of x."""
        return self._over(x, x.relu6())


class LeakyReLU(InPlace):
    """Tensor.leaky_relu."""

    def __init__(self, negative_slope: float = 0.01, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.negative_slope = negative_slope

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.leaky_relu(negative_slope), of the shape of x."""
        return self._over(x, x.leaky_relu(self.negative_slope))


class ELU(InPlace):
    """Tensor.elu."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.elu(alpha), of the shape of x."""
        return self._over(x, x.elu(self.alpha))


class CELU(InPlace):
    """Tensor.celu."""

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.alpha = alpha

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.celu(alpha), of the shape of x."""
        return self._over(x, x.celu(self.alpha))


class SELU(InPlace):
    """Tensor.selu."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.selu(), of the shape of x."""
        return self._over(x, x.selu())


class GELU(Described):
    """Tensor.gelu, exact unless approximate is "tanh": that is the default of the method."""

    def __init__(self, approximate: str = "none") -> None:
        self.approximate = approximate

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.gelu(approximate), of the shape of x."""
        return x.gelu(self.approximate)


class SiLU(InPlace):
    """Tensor.silu."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.silu(), of the shape of x."""
        return self._over(x, x.silu())


class Mish(InPlace):
    """Tensor.mish."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.mish(), of the shape of x."""
        return self._over(x, x.mish())


class Sigmoid(Described):
    """Tensor.sigmoid."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.sigmoid(), of the shape of x."""
        return x.sigmoid()


class LogSigmoid(Described):
    """Tensor.logsigmoid."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.logsigmoid(), of the shape of x."""
        return x.logsigmoid()


class Tanh(Described):
    """Tensor.tanh."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.tanh(), of the shape of x."""
        return x.tanh()


class Tanhshrink(Described):
    """Tensor.tanhshrink."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.tanhshrink(), of the shape of x."""
        return x.tanhshrink()


class Softplus(Described):
    """Tensor.softplus."""

    beta: float
    threshold: float

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        self.beta, self.threshold = beta, threshold

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.softplus(beta, threshold), of the shape of x."""
        return x.softplus(self.beta, self.threshold)


class Softsign(Described):
    """Tensor.softsign."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.softsign(), of the shape of x."""
        return x.softsign()


class Softshrink(Described):
    """Tensor.softshrink."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.softshrink(lambd), of the shape of x."""
        return x.softshrink(self.lambd)


class Hardshrink(Described):
    """Tensor.hardshrink."""

    def __init__(self, lambd: float = 0.5) -> None:
        self.lambd = lambd

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.hardshrink(lambd), of the shape of x."""
        return x.hardshrink(self.lambd)


class Hardsigmoid(InPlace):
    """Tensor.hardsigmoid."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.hardsigmoid(), of the shape of x."""
        return self._over(x, x.hardsigmoid())


class Hardswish(InPlace):
    """Tensor.hardswish."""

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.hardswish(), of the shape of x."""
        return self._over(x, x.hardswish())


class Hardtanh(InPlace):
    """Tensor.hardtanh."""

    min_val: float
    max_val: float

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.min_val, self.max_val = min_val, max_val

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.hardtanh(min_val, max_val), of the shape of x."""
        return self._over(x, x.hardtanh(self.min_val, self.max_val))


class Threshold(InPlace):
    """Tensor.threshold."""

    threshold: float
    value: float

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.threshold, self.value = threshold, value

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.threshold(threshold, value), of the shape of x."""
        return self._over(x, x.threshold(self.threshold, self.value))


class RReLU(InPlace):
    """Tensor.rrelu: slopes are drawn in training mode."""

    lower: float
    upper: float

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__(inplace)
        self.lower, self.upper = lower, upper

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.rrelu(lower, upper), of the shape of x."""
        return self._over(x, x.rrelu(self.lower, self.upper))


class GLU(Described):
    """Tensor.glu."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.glu(dim), half as long along `dim`."""
        return x.glu(self.dim)


class Softmax(Described):
    """Tensor.softmax over axis dim."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.softmax(dim), of the shape of x."""
        return x.softmax(self.dim)


class LogSoftmax(Described):
    """Tensor.log_softmax over axis dim."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.log_softmax(dim), of the shape of x."""
        return x.log_softmax(self.dim)


class Softmin(Described):
    """Tensor.softmin over axis dim."""

    def __init__(self, dim: int = -1) -> None:
        self.dim = dim

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.softmin(dim), of the shape of x."""
        return x.softmin(self.dim)


class PReLU(Described):
    """Tensor.prelu: x where it is positive, weight * x elsewhere, with one weight or one for each channel (axis 1).

    weight (num_parameters,) starts at init, and is used in the dtype of x.

    >>> from tinygraft import Tensor, nn
    >>> nn.PReLU()(Tensor([-4.0, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25) -> None:
        self.weight: Tensor = filled((num_parameters,), init)

    def __call__(self, x: Tensor) -> Tensor:
        """Return x.prelu(weight), of its shape and dtype."""
        return x.prelu(self.weight.cast(x.dtype))
