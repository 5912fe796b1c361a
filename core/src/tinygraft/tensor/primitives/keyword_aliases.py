"""Aliases of parameters: a method that declares axis takes dim as well, and the other way round.

NumPy has axis and keepdims, PyTorch dim and keepdim, and users of both are served. Each method declares
one name and has the decorator `either_spelling`; `tensor.pyi` shows both to type checkers and editors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])
ALSO = {"dim": "axis", "axis": "dim", "keepdims": "keepdim", "min": "min_", "max": "max_"}  # other name -> the declared


def either_spelling(function: F) -> F:
    """Let a function take its parameters by the names of `ALSO` too.

    Raises TypeError for a parameter that is given by both.

    >>> @either_spelling
    ... def total(x, axis=None): return axis
    >>> total(1, dim=2)
    2
    """
    code = function.__code__
    declared = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    also = {other: own for other, own in ALSO.items() if own in declared and other not in declared}

    @functools.wraps(function)
    def either(*args: Any, **kwargs: Any) -> Any:
        """Call the method with keywords in its own spelling. Raises TypeError where one parameter has both."""
        if kwargs and not also.keys().isdisjoint(kwargs):
            both = next((other for other, own in also.items() if other in kwargs and own in kwargs), None)
            if both is not None:
                raise TypeError(f"{function.__name__} got {both} and {also[both]}, which are one parameter")
            kwargs = {also.get(name, name): value for name, value in kwargs.items()}
        return function(*args, **kwargs)

    return either  # type: ignore[return-value]
