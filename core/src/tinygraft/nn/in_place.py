"""InPlace: layers that may write their result over their argument, as PyTorch's activations and dropouts do."""

from __future__ import annotations

from tinygraft.nn.described import Described
from tinygraft.tensor.tensor import Tensor


class InPlace(Described):
    """A layer that with inplace=True writes its result over its argument, and returns that: views of it see it too.

    >>> from tinygraft import Tensor, nn
    >>> x = Tensor([-1.0, 2.0])
    >>> nn.ReLU(inplace=True)(x) is x, x.tolist()
    (True, [0.0, 2.0])
    """

    inplace: bool

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace

    def _over(self, x: Tensor, result: Tensor) -> Tensor:
        """Return `result`, written over `x` with inplace. Raises DTypeError where that has another dtype."""
        return x.assign(result) if self.inplace else result
