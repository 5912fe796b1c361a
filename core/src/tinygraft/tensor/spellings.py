"""Parameters by their other names: a method that says axis takes dim as well, and the other way round.

NumPy has axis and keepdims, PyTorch dim and keepdim, and people bring both. Each method declares one name; a class of
methods is looked through once, when it is made.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

ALSO = {"dim": "axis", "axis": "dim", "keepdims": "keepdim", "min": "min_", "max": "max_"}  # other name -> the declared


def with_spellings(cls: type) -> None:
    """Let the methods of a class take their parameters by the names of ALSO too."""
    for name, member in list(vars(cls).items()):
        kind = type(member) if isinstance(member, (classmethod, staticmethod)) else None
        function = member.__func__ if kind else member
        if isinstance(function, FunctionType) and (other := spelled(function)) is not function:
            setattr(cls, name, kind(other) if kind else other)


def spelled(function: FunctionType) -> Any:
    """A function that takes its parameters by other names too; the same one where it has none of those.

    >>> def total(x, axis=None): return axis
    >>> spelled(total)(1, dim=2)
    2
    """
    code = function.__code__
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    also = {other: own for other, own in ALSO.items() if own in declared and other not in declared}
    if not also:
        return function

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        if kwargs and not also.keys().isdisjoint(kwargs):
            both = next((other for other, own in also.items() if other in kwargs and own in kwargs), None)
            if both is not None:
                raise TypeError(f"{function.__name__} got {both} and {also[both]}, which are one parameter")
            kwargs = {also.get(name, name): value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return either
