"""Training mode, as a property of the Tensor class and as a block or decorator."""

from __future__ import annotations

from contextlib import ContextDecorator, suppress
from contextvars import Token
from typing import TYPE_CHECKING, Any

from tinygraft.config import TRAINING
from tinygraft.errors import DTypeError
from tinygraft.interrupt import guarded
from tinygraft.tensor import missing
from tinygraft.tensor.data import ComplexGiven
from tinygraft.tensor.quiet import NoGrad


class Mode(ContextDecorator):
    """Training mode on or off for a block or a function: `with Tensor.train(): ...`, `@Tensor.train()`."""

    def __init__(self, training: bool) -> None:
        self.training = training
        self.tokens: list[Token[int]] = []

    def __enter__(self) -> None:
        before = len(self.tokens)
        try:
            with guarded(sealed=True):
                self.tokens.append(TRAINING.set(int(self.training)))
        except BaseException:  # a signal that waited: the block does not begin, and nobody calls __exit__
            if len(self.tokens) > before:
                self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            TRAINING.reset(self.tokens[-1])
        except BaseException:  # a signal, perhaps before it was done
            with suppress(RuntimeError):
                TRAINING.reset(self.tokens[-1])
            raise
        finally:
            self.tokens.pop()


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
        """Whether dropout drops and batch norm measures."""
        return bool(TRAINING.value)

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.set(int(value))

    def train(cls, mode: bool = True) -> Mode:
        """Training mode for a block or a decorated function.

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
        """A block or a decorated function whose results are constants to every gradient, as PyTorch has it.

        Nothing here needs it: `backward` works on the graph of what it is called on, and a write into a tensor with
        requires_grad=True has no gradient. It is for programs that come from PyTorch.

        >>> from tinygraft import Tensor
        >>> w = Tensor([1.0, 2.0], requires_grad=True)
        >>> with Tensor.no_grad():
        ...     y = w * 2
        >>> y.requires_grad
        False
        """
        return NoGrad()

    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            """Say what to use for a name that the class does not have."""
            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{missing.hint(name, cls)}")
