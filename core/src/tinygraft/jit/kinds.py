"""How one kind of calls of a TinyJit differs from another, in words: which argument, or which setting.

    described(function, args, kwargs) -> {"lr": DescribedArgument("0.1", "a number")}
    unlike(before, now) -> "argument lr is 0.2, and was 0.1 in the call before\\n  hint: ..."

Only calls that run the function are described, so that a replay pays nothing.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tinygraft.config import CHANGE_CODE, Setting, code_settings
from tinygraft.jit.arguments import Same
from tinygraft.tensor.nested import MANY, fields_of, is_record
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.show import show_arg
from tinygraft.uop.uop import UOp

LONGEST = 40  # characters of a value that is shown; assumed: enough to recognise it by

HINTS = {
    "a tensor": "keep one shape (pad what is shorter), or give the size that changes as a Variable",
    "a number": "give it as a Tensor, or an integer as a bound Variable, and it may change from call to call",
    "an array": "give Tensor(array): an array counts by its values, a tensor by its shape and dtype",
    "an object": "an object counts as itself; give its tensors, or a list, dict or dataclass of them",
}


@dataclass(frozen=True, slots=True)
class DescribedArgument:
    """An argument, or an item of one, as `text`; `what` is a name in HINTS or "". `same` tells apart equal texts."""

    text: str
    what: str = ""
    same: Same | None = None


CallArguments = dict[str, DescribedArgument]


def described(function: Callable[..., Any] | None, args: tuple[Any, ...], kwargs: Mapping[str, Any],
              is_method: bool = False) -> CallArguments:  # fmt: skip
    """Return the arguments of a call by their names, with items of nested ones, and the settings that change code.

    Of a method `args` are those after the object.
    """
    found: CallArguments = {}
    names = _names(function)[is_method:]
    stack: list[tuple[str, Any]] = [
        (names[i] if i < len(names) else f"number {i}", item) for i, item in enumerate(args)
    ]
    stack += kwargs.items()
    while stack and len(found) < MANY:
        name, item = stack.pop()
        if isinstance(item, (list, tuple)):
            found[name] = DescribedArgument(f"{_a(item)} of length {len(item)}")
            stack += [(f"{name}[{i}]", each) for i, each in enumerate(item)]
        elif isinstance(item, dict):
            found[name] = DescribedArgument(f"{_a(item)} of {', '.join(map(repr, item))}"[: 4 * LONGEST])
            stack += [(f"{name}[{key!r}]", each) for key, each in item.items()]
        elif is_record(item):
            found[name] = DescribedArgument(_a(item))
            stack += [(f"{name}.{field}", each) for field, each in fields_of(item).items()]
        else:
            found[name] = _described(item)
    settings: Iterable[tuple[Setting[Any], Any]] = zip(CHANGE_CODE, code_settings(), strict=True)
    return found | {f"setting {setting.name}": DescribedArgument(repr(value)) for setting, value in settings}


def unlike(before: CallArguments, now: CallArguments) -> tuple[str, str]:
    """Return which argument or setting of two calls of other kinds differs, by name, and a sentence that says how."""
    for name, mine in sorted(now.items()):
        was = before.get(name)
        if was is None or (was.text, was.same) == (mine.text, mine.same):
            continue
        what = name if name.startswith("setting ") else f"argument {name}"
        if was.text == mine.text:
            text = f"{what} is another object than in the call before, {mine.text}"
        else:
            text = f"{what} is {mine.text}, and was {was.text} in the call before"
        return what, text + (f"\n  hint: {HINTS[mine.what]}" if mine.what else "")
    if before.keys() != now.keys():
        return "arguments", "it has other arguments than the call before"
    return "memory", "which of its tensors share memory, or are views, is another than in the call before"


def _described(item: Any) -> DescribedArgument:
    """Return an argument that is no container."""
    if isinstance(item, TensorBase):
        flag = "" if item.requires_grad is None else f", requires_grad={item.requires_grad}"
        return DescribedArgument(
            f"a tensor of {item.dtype.name} {show_arg(item.shape)} on {item.device}{flag}", "a tensor"
        )
    if isinstance(item, (bool, int, float, complex)):
        return DescribedArgument(repr(item), "a number")
    if item is None or isinstance(item, (str, bytes)):
        return DescribedArgument(repr(item)[:LONGEST])
    if isinstance(item, UOp):
        return DescribedArgument("a symbolic integer")
    if hasattr(type(item), "__array_interface__") or hasattr(type(item), "__dlpack__"):
        return DescribedArgument(f"an array ({type(item).__name__})", "an array", Same(object()))
    return DescribedArgument(_a(item), "an object", Same(item))


def _a(item: Any) -> str:
    """Return the type of an object with its article."""
    name = type(item).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _names(function: Callable[..., Any] | None) -> list[str]:
    """Return the names of the parameters that can be given by position; those after *args count as numbers."""
    try:
        parameters = inspect.signature(function).parameters.values() if function is not None else ()
    except (TypeError, ValueError):
        return []
    return [each.name for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
