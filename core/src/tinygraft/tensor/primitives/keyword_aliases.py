"""Aliases of parameters: a method that declares axis takes dim as well, and the other way round.

NumPy has axis and keepdims, PyTorch dim and keepdim, and users of both are served. Each method declares
one name and has the decorator `either_spelling`; `tensor.pyi` shows both to type checkers and editors. The decorator
also says which parameter was probably meant by a keyword that a method does not have.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from tinygraft.errors import DTypeError, did_you_mean

F = TypeVar("F", bound=Callable[..., Any])
ALSO = {"dim": "axis", "axis": "dim", "keepdims": "keepdim", "min": "min_", "max": "max_"}  # other name -> the declared

OTHERWISE = {  # (method, parameter that PyTorch's has): how that is said here
    ("to", "dtype"): "cast changes the dtype: t.to(device).cast(dtype)",
    ("to", "copy"): "clone() copies: t.clone().to(device)",
    ("backward", "create_graph"): "loss.gradient(t) gives gradients that have gradients themselves",
    ("backward", "inputs"): "loss.gradient(*tensors) gives the gradients of some tensors alone",
    ("view", "size"): "sizes have no name: t.view(4, 2)",
}


def either_spelling(function: F) -> F:
    """Let a function take its parameters by the names of `ALSO` too.

    Raises TypeError for a parameter that is given by both, and for an unknown one with the one that was meant. A
    parameter that is annotated as a bool has to be one.

    >>> @either_spelling
    ... def total(x, axis=None): return axis
    >>> total(1, dim=2)
    2
    """
    code = function.__code__
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    also = {other: own for other, own in ALSO.items() if own in declared and other not in declared}
    flags = flags_of(function)

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        """Call the method with keywords in its own spelling.

        Raises TypeError where one parameter has both, and DTypeError for a flag that is neither True nor False.
        """
        if kwargs and not also.keys().isdisjoint(kwargs):
            both = next((other for other, own in also.items() if other in kwargs and own in kwargs), None)
            if both is not None:
                raise TypeError(f"{function.__name__} got {both} and {also[both]}, which are one parameter")
            kwargs = {also.get(name, name): value for name, value in kwargs.items()}
        if flags:
            check_flags(function.__name__, flags, args, kwargs)
        try:
            return function(*args, **kwargs)
        except TypeError as error:
            unknown_keyword(error, function, kwargs)
            raise

    return either  # type: ignore[return-value]


class Flag(NamedTuple):
    """A parameter that is True or False, or None too where `or_none`; `at` is its position among the arguments."""

    name: str
    at: int
    or_none: bool = False


def flags_of(function: Callable[..., Any]) -> tuple[Flag, ...]:
    """Return the parameters of a function that are annotated as a bool, or as a bool | None.

    >>> def total(x, keepdim: bool = False): return x
    >>> flags_of(total)
    (Flag(name='keepdim', at=1, or_none=False),)
    """
    code = function.__code__
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return tuple(
        Flag(name, at if at < code.co_argcount else sys.maxsize, annotation not in ("bool", bool))
        for at, name in enumerate(declared)
        if (annotation := function.__annotations__.get(name)) in ("bool", bool, "bool | None", bool | None)
    )


def check_flags(what: str, flags: tuple[Flag, ...], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise DTypeError for a flag that is neither True nor False; 0 and 1, and NumPy's, are.

    `what` is the function, `flags` are those of `flags_of`. A text would be taken as True, "no" as well.
    """
    for name, at, or_none in flags:
        value = args[at] if at < len(args) else kwargs.get(name, False)
        if value is not True and value is not False and not (or_none and value is None) and not _is_flag(value):
            raise DTypeError(
                f"{what} needs {'True, False or None' if or_none else 'True or False'} as {name}, got {value!r}"
            )


def grad_flag(value: Any, where: Callable[[], str] | None = None) -> bool | None:
    """Return what is given as requires_grad as True, False or None.

    Raises DTypeError for what is none of them, with the line that `where` names, where the tensor was made before.
    """
    if value is None or value is True or value is False:
        return value
    if not _is_flag(value):
        made = "" if where is None else f"\n  made at {where()}"
        raise DTypeError(f"requires_grad is True, False or None, got {value!r}{made}")
    return bool(value)


def _is_flag(value: Any) -> bool:
    """Return whether a value is 0 or 1, or one of NumPy's that are."""
    if isinstance(value, int):
        return value in (0, 1)
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return kind in ("b", "i", "u") and not getattr(value, "shape", ()) and value in (0, 1)


def unknown_keyword(error: TypeError, function: Callable[..., Any], kwargs: dict[str, Any], name: str = "") -> None:
    """Raise TypeError with the parameter that was meant, where `error` is of a call with an unknown keyword.

    Returns where it is another error. One that `function` handed on has the name of `function`, too. Python says it by
    itself from 3.13 on; this is said in every version. `name` is that of the function, if it is called by another one.
    """
    code = function.__code__
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if not kwargs or (error.__traceback__ is not None and error.__traceback__.tb_next is not None):
        passed = re.match(r"\w+(\(\) got an unexpected keyword argument '(\w+)'.*)", str(error), re.DOTALL)
        if passed and code.co_flags & inspect.CO_VARKEYWORDS and passed[2] in kwargs.keys() - set(declared):
            raise TypeError(f"{name or function.__name__}{passed[1]}") from None  # it was handed on, to rand say
        return  # raised in the function, not by the call of it
    unknown = next((key for key in kwargs if key not in declared), None)
    if unknown is None or code.co_flags & inspect.CO_VARKEYWORDS:
        return
    own = [parameter for parameter in declared if parameter not in ("self", "cls")]
    also = [other for other, parameter in ALSO.items() if parameter in own]
    if {"out", "axis"} <= kwargs.keys():  # np.sum(t) calls t.sum(axis=None, dtype=None, out=None)
        own_name = name or function.__name__
        hint = (
            f"\n  hint: np.{own_name}(t) calls the method with out=: write t.{own_name}(), or np.{own_name}(t.numpy())"
        )
        raise TypeError(f"{own_name}() got an unexpected keyword argument 'out'{hint}") from None
    said = OTHERWISE.get((name or function.__name__, unknown))
    hint = f"\n  hint: {said}" if said else did_you_mean(unknown, [*own, *also])
    hint = hint or f"\n  hint: it has {', '.join(own) or 'none'}"
    raise TypeError(f"{name or function.__name__}() got an unexpected keyword argument {unknown!r}{hint}") from None
