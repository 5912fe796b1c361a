"""The metaclass of Tensor: it makes complex tensors, has the training mode, and dispatches calls through the class.

Training mode is a property of the class, and a block or decorator.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

from tinygraft.config import TRAINING, Context
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.exclusive import import_late
from tinygraft.errors import DTypeError, SettingWarning
from tinygraft.helpers import warn_user
from tinygraft.tensor.primitives.keyword_aliases import unknown_keyword
from tinygraft.tensor.state.no_grad import NoGrad

F = TypeVar("F", bound=Callable[..., Any])

# The methods that ComplexTensor overrides. A call through the class, as in Tensor.exp(z), takes the override of its
# first argument. (Not detach: a wrapper around it would hide from storage.py that the user called it.)
_NAMES = (
    "abs acos acosh angle argsort asin asinh assign atan atanh backward clone contiguous contiguous_backward cos cosh "
    "data exp expm1 gradient isclose isfinite isinf isnan item l1_loss ldexp log log10 log1p logaddexp logdet "
    "logsumexp masked_mean masked_var mean newton_schulz normalize numpy pairwise_distance realize replace "
    "requires_grad_ round schedule_with_vars shard sign sinc sinh std tan tanh to var"
)
WITH_FORMS = frozenset(_NAMES.split())


@functools.cache
def _of_any(function: Callable[..., Any]) -> Callable[..., Any]:
    """A method of Tensor that calls ComplexTensor's override where its first argument is complex."""

    @functools.wraps(function)
    def either(self: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(self, "_halved"):
            return getattr(self, function.__name__)(*args, **kwargs)
        return function(self, *args, **kwargs)

    either.__qualname__, either.__module__ = f"Tensor.{function.__name__}", "tinygraft"  # where pickle finds it
    return either


TensorT = TypeVar("TensorT")  # what a class of tensors makes


class Mode(Context):
    """Training mode on or off for a block or a function: `with Tensor.train(): ...`, `@Tensor.train()`.

    It belongs to the thread that is in the block, or in a call of the function.
    """

    def __init__(self, training: bool) -> None:
        self.training: bool = bool(training)
        super().__init__(**{TRAINING.name: int(self.training)})

    _is_used = False  # whether it was entered, or decorates a function

    def _recreate_cm(self) -> Mode:
        return Mode(self.training)

    def __enter__(self) -> None:
        self._is_used = True
        super().__enter__()

    def __call__(self, func: F) -> F:
        """Return the function with such a block around each call."""
        self._is_used = True
        decorated: F = super().__call__(func)
        return decorated

    def __del__(self) -> None:
        super().__del__()
        if not self._is_used and not sys.is_finalizing():
            name = "train" if self.training else "test"
            warn_user(
                f"Tensor.{name}() by itself changes nothing: it is a block\n"
                f"  hint: with Tensor.{name}(): ... around it, or Tensor.training = {self.training} from here on",
                SettingWarning,
            )


class TensorType(type):
    """The type of Tensor: makes a ComplexTensor where data or dtype are complex, and gives `Tensor.training`, the
    setting TRAINING under another name."""

    def __call__(cls: type[TensorT], *args: Any, **kwargs: Any) -> TensorT:
        """A new tensor."""
        try:
            new: TensorT = super().__call__(*args, **kwargs)  # type: ignore[misc]
        except TypeError as error:
            unknown_keyword(error, cls.__init__, kwargs, cls.__name__)
            raise
        if hasattr(new, "_node") or cls.__init__.__module__ != "tinygraft.tensor.tensor":
            return new  # else Tensor.__init__ found complex numbers, and left it empty
        made: TensorT = import_late("tinygraft.tensor.complex.complex_data").made(*args, **kwargs)
        return made

    @property
    def __signature__(cls) -> Any:
        """The parameters of `__init__`, for inspect and help, which would show those of `__call__`."""
        import inspect

        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]  # type: ignore[misc]
        return inspect.Signature(parameters)

    @property
    def training(cls) -> bool:
        """Whether this thread trains: dropout drops elements, and batch norm takes the statistics of the batch."""
        return bool(TRAINING.value)

    @training.setter
    def training(cls, value: bool) -> None:
        TRAINING.set(int(value))

    @property
    def default_type(cls) -> DType:
        """The dtype that Python's floats become: `dtypes.default_float`, by the name of older scripts."""
        return dtypes.default_float

    @default_type.setter
    def default_type(cls, value: DType) -> None:
        dtypes.default_float = value

    def train(cls, mode: bool = True) -> Mode:
        """Training mode for a block or a decorated function, in the thread that runs it.

        Raises DTypeError for what is no truth value, such as a model: a mode is that of the program.

        >>> from tinygraft import Tensor
        >>> with Tensor.train():
        ...     Tensor.training
        True
        """
        if mode not in (False, True):
            decorated = isinstance(mode, FunctionType)
            what = "@Tensor.train() above the function" if decorated else "with Tensor.train(): ... around what trains"
            raise DTypeError(f"Tensor.train takes True or False, got {type(mode).__name__}\n  hint: {what}")
        return Mode(mode)

    def test(cls, mode: bool = True) -> Mode:
        """The opposite of train."""
        return Mode(not mode)

    def no_grad(cls, function: Callable[..., Any] | None = None) -> Any:
        """A block or a decorated function whose results are constants and whose writes have no gradient, as in PyTorch.

        Nothing here needs it: `backward` works on the graph of what it is called on, and a write into a tensor with
        requires_grad=True has no gradient. It is for programs that come from PyTorch. What is written into a computed
        tensor there is not recorded either: its gradient goes on to what it was computed from, as if it had not been
        written to, and is computed at the values as they are now.

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
        if function is None:
            return NoGrad()
        if not isinstance(function, FunctionType):
            raise DTypeError(
                f"Tensor.no_grad takes nothing, or a function to decorate, got {type(function).__name__}\n"
                "  hint: with Tensor.no_grad(): ..."
            )
        return NoGrad()(function)  # @Tensor.no_grad without parentheses, as PyTorch takes it

    def __setattr__(cls, name: str, value: Any) -> None:
        """`Tensor.no_grad = True` of older scripts changes nothing, which is said; all else is set."""
        if name == "no_grad" and isinstance(value, bool):
            text = f"Tensor.no_grad = {value} changes nothing here, no result needs it; the block is Tensor.no_grad()"
            warn_user(text, SettingWarning)
        else:
            super().__setattr__(name, value)

    if not TYPE_CHECKING:

        def __getattribute__(cls, name: str) -> Any:
            found = type.__getattribute__(cls, name)
            return _of_any(found) if name in WITH_FORMS and isinstance(found, FunctionType) else found

        def __getattr__(cls, name: str) -> Any:
            """Say what to use for a name that the class does not have."""
            from tinygraft.tensor.compat import missing

            raise AttributeError(f"type object {cls.__name__!r} has no attribute {name!r}{missing.hint(name, cls)}")
