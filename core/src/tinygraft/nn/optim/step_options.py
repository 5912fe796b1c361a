"""What every optimizer takes beside its numbers, and what an option that none has was meant to be."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from typing import Any, TypedDict

from tinygraft.errors import did_you_mean
from tinygraft.tensor.primitives.keyword_aliases import Flag, check_flags

OTHERWISE = {"learning_rate": "lr", "wd": "weight_decay"}  # what other libraries call an option


class StepOptions(TypedDict, total=False):
    """What every optimizer of PyTorch takes beside its numbers.

    maximize goes up the gradient. foreach, fused and capturable choose between implementations there; here is one,
    which is all of these, so any value is right. differentiable is False: a step has no derivative.
    """

    maximize: bool
    foreach: bool | None
    fused: bool | None
    capturable: bool
    differentiable: bool


def maximizes(kind: type[Any], given: Mapping[str, Any]) -> bool:
    """Return whether the StepOptions of an optimizer of this class say to go up the gradient.

    Raises TypeError for an option that is none of them, ValueError for differentiable.
    """
    name, known = kind.__name__, StepOptions.__annotations__
    for option in given:
        if option not in known:
            own = [each for each in inspect.signature(kind.__init__).parameters if each not in ("self", "how")]
            hint = did_you_mean(OTHERWISE.get(option, option), [*own, *known]) or (
                f"\n  hint: it has {', '.join([*own, *known])}"
            )
            raise TypeError(f"{name}() got an unexpected keyword argument {option!r}{hint}")
    check_flags(name, (Flag("maximize", sys.maxsize),), (), given)
    if given.get("differentiable"):
        raise ValueError(
            f"{name} has no differentiable step: it writes memory\n  hint: p - lr * g, with g of loss.gradient(p), is "
            "an expression that can be differentiated"
        )
    return bool(given.get("maximize"))
