"""Nested lists, tuples and dicts with tensors in them: which there are, and the same with others in their place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.tensor.base import TensorBase


def tensors_in(nested: Any) -> list[TensorBase]:
    """The tensors in nested lists, tuples and dicts, in order."""
    found, stack = [], [nested]
    while stack:
        item = stack.pop()
        if isinstance(item, TensorBase):
            found.append(item)
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
    return found


def mapped(nested: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and dicts with every item of a kind changed. They are nested a few levels at most."""
    if isinstance(nested, kind):
        return change(nested)
    if isinstance(nested, tuple) and hasattr(nested, "_fields"):
        return type(nested)(*(mapped(item, kind, change) for item in nested))
    if isinstance(nested, (list, tuple)):
        return type(nested)(mapped(item, kind, change) for item in nested)
    if isinstance(nested, dict):
        return {name: mapped(item, kind, change) for name, item in nested.items()}
    return nested
