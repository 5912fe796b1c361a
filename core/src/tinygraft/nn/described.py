"""What layers have in common: they print with their arguments, and answer a call that cannot be with what was meant.

Users need no base class; this one adds no tensors, no hooks and no names but `__repr__` to the layers of this library.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from tinygraft.device.known import NAMES
from tinygraft.errors import DTypeError
from tinygraft.tensor.primitives.keyword_aliases import check_flags, flags_of, unknown_keyword
from tinygraft.tensor.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")
_INSTEAD = {
    "forward": "call the layer itself: layer(x)",
    "parameters": "nn.state.get_parameters(model) lists the tensors of any object",
    "load_state_dict": "nn.state.load_state_dict(model, state)",
    **dict.fromkeys(("state_dict", "named_parameters"), "nn.state.get_state_dict(model) has the tensors by name"),
    "zero_grad": "optimizer.zero_grad() is for all its parameters; t.grad = None is for one",
    "apply": "for t in nn.state.get_parameters(model): ... reaches each tensor",
    "requires_grad_": "for t in nn.state.get_parameters(model): t.requires_grad_(False) reaches each tensor",
    **dict.fromkeys(
        ("half", "float", "double", "bfloat16"),
        "nn.autocast computes in a half type; t.replace(t.half()) of each tensor of get_parameters keeps one",
    ),
    "flatten_parameters": "weights need not lie together here: leave it out",
    **dict.fromkeys(("modules", "children", "named_modules"), "a model is any object: its layers are its attributes"),
    "register_buffer": "an attribute with requires_grad=False is one",
    **dict.fromkeys(("train", "eval"), "with Tensor.train(): ... is training, anything else is not"),
    **dict.fromkeys(
        ("to", *map(str.lower, NAMES)), "move each tensor of nn.state.get_parameters(model), as in p.to_(device)"
    ),
}
_GIVEN = "_given"  # the attribute with the arguments that are numbers, text or tuples of them


class Described:
    """A layer that prints as the call that makes it, with the arguments that are not their defaults.

    >>> from tinygraft import nn
    >>> nn.Linear(3, 4, bias=False), nn.ReLU()
    (Linear(in_features=3, out_features=4, bias=False), ReLU())
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.__module__.startswith("tinygraft."):
            return  # a class of the user's is left as it is written
        if "__init__" in vars(cls):
            type.__setattr__(cls, "__init__", noted(vars(cls)["__init__"]))
        if "__call__" in vars(cls):
            type.__setattr__(cls, "__call__", hinting(vars(cls)["__call__"]))

    if not TYPE_CHECKING:  # checkers would take any attribute for one that is there

        def __getattr__(self, name: str) -> Any:
            """Raise AttributeError, with what to use here for a method that modules of PyTorch have."""
            raise no_attribute(self, name)

    def __repr__(self) -> str:
        return f"{self._made_as()}({', '.join(_shown(self))})"

    def _made_as(self) -> str:
        """Return the name by which it was made."""
        return type(self).__name__


def no_attribute(layer: Any, name: str) -> AttributeError:
    """Return the error for an attribute that `layer` lacks, with what to use here for a method of PyTorch's modules."""
    instead = _INSTEAD.get(name, "")
    hint = f"\n  hint: {instead}" if instead else ""
    return AttributeError(f"{type(layer).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=layer)


def _shown(layer: Any) -> list[str]:
    """Return the arguments of a layer that are not their defaults, with the values that its attributes have now."""
    found = []
    given = vars(layer).get(_GIVEN, {})
    parameters = inspect.signature(type(layer).__init__).parameters if given else {}
    for name, value in given.items():
        now = vars(layer).get(name, value)
        now = now if _is_plain(now) and type(now) is type(value) else value
        default = parameters[name].default if name in parameters else inspect.Parameter.empty
        if default is inspect.Parameter.empty or now != default or type(now) is not type(default):
            found.append(f"{name}={now!r}")
    return found


def _is_plain(value: Any) -> bool:
    """Return whether a value is None, a number or text, or a tuple or list of such."""
    if isinstance(value, (tuple, list)):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (bool, int, float, str))


def noted(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor as `answered` does that also notes its plain arguments for `__repr__`."""
    parameters, answering = inspect.signature(init), answered(init)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if _GIVEN not in vars(self):  # else a constructor of a subclass has called this one
            try:
                bound = parameters.bind(self, *args, **kwargs).arguments
            except TypeError:
                bound = {}  # the call below says so
            vars(self)[_GIVEN] = {name: value for name, value in list(bound.items())[1:] if _is_plain(value)}
        answering(self, *args, **kwargs)

    return construct


def answered(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor whose TypeError for an unknown keyword says which one was meant.

    It raises DTypeError for a flag that is neither True nor False.
    """
    flags = flags_of(init)

    @functools.wraps(init)
    def construct(self: Any, *args: Any, **kwargs: Any) -> None:
        if flags:
            check_flags(type(self).__name__, flags, (self, *args), kwargs)
        try:
            init(self, *args, **kwargs)
        except TypeError as error:
            unknown_keyword(error, init, kwargs, type(self).__name__)
            raise

    return construct


def answering_call(function: Callable[P, R]) -> Callable[P, R]:
    """Return a function whose TypeError for an unknown keyword says which one was meant."""

    @functools.wraps(function)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            unknown_keyword(error, function, kwargs)
            raise

    return answer


def hinting(call: Callable[..., Any]) -> Callable[..., Any]:
    """Return a call of a layer that raises DTypeError, with what to do, where it failed with an array for a tensor.

    Only the first argument is looked at, and only after an error; any other error is raised as it is.
    """

    @functools.wraps(call)
    def layer(self: Any, *args: Any, **kwargs: Any) -> Any:
        try:
            return call(self, *args, **kwargs)
        except Exception as error:
            if not args or isinstance(args[0], Tensor):
                raise
            kind, is_data = (
                type(args[0]),
                hasattr(args[0], "__array__") or isinstance(args[0], (list, tuple, int, float)),
            )
            if not is_data and not isinstance(args[0], (str, bytes, dict, NoneType)):
                raise
            name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
            hint = "\n  hint: Tensor(x)" if is_data else ""
            raise DTypeError(f"{type(self).__name__} takes a Tensor, got {name}{hint}") from error

    return layer
