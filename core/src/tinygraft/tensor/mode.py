"""Training mode, as a property of the Tensor class and as a block or decorator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.config import TRAINING, Context
from tinygraft.errors import DTypeError
from tinygraft.tensor import missing
from tinygraft.tensor.data import ComplexGiven
from tinygraft.tensor.quiet import NoGrad


class Mode(Context):
    """Training mode on or off for a block or a function: `with Tensor.train(): ...`, `@Tensor.train()`.

    It belongs to the thread that is in the block, or in a call of the function.
    """

    def __init__(self, training: bool) -> None:
        self.training = bool(training)
        super().__init__(**{TRAINING.name: int(self.training)})

    def _recreate_cm(self) -> Mode:
        return Mode(self.training)


class TensorType(type):
    """The type of Tensor: makes a ComplexTensor where data or dtype are complex, and gives `Tensor.training`, the
    setting TRAINING under another name."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """A new tensor."""
        try:
            return super().__call__(*args, **kwargs)
        except ComplexGiven:
            if not cls.__module__.startswith("tinygraft."):
                raise DTypeError(
                    f"{cls.__name__} cannot hold complex numbers: Tensor makes a ComplexTensor of them, which is no "
                    f"{cls.__name__}"
                ) from None
        from tinygraft.tensor import complex_data

        return complex_data.made(*args, **kwargs)

    @property
    def training(cls) -> bool:
        """Whether dropout drops and batch norm measures, in this thread."""
        return bool(TRAINING.value)

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.set(int(value))

    def train(cls, mode: bool = True) -> Mode:
        """Training mode for a block or a decorated function, in the thread that runs it.

        >>> from tinygraft import Tensor
        >>> with Tensor.train():
        ...     Tensor.training
        True
        """
        return Mode(mode)

    def test(cls, mode: bool = True) -> Mode:
        """The opposite of train."""
        return Mode(not mode)

    def no_grad(cls) -> NoGrad:
        """A block or a decorated function whose results are constants and whose writes have no gradient, as in PyTorch.

        Nothing here needs it: `backward` works on the graph of what it is called on, and a write into a tensor with
        requires_grad=True has no gradient. It is for programs that come from PyTorch. What is written into a computed
        tensor there is not recorded either: its gradient goes on to what it was computed from, as if it had not been
        written to, and is taken at the values as they are now.

        >>> from tinygraft import Tensor
        >>> w = Tensor([1.0, 2.0], requires_grad=True)
        >>> with Tensor.no_grad():
        ...     y = w * 2
        >>> y.requires_grad
        False
        >>> z = w * 1
        >>> with Tensor.no_grad():
        ...     z[0] = 7.0
        >>> (z * z).sum().gradient(w)[0].tolist()
        [14.0, 4.0]
        """
        return NoGrad()

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Say what to use for a name that the class does not have."""
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{missing.hint(name, cls)}")
