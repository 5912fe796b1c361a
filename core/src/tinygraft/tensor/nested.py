"""Nested lists, tuples and dicts: the tensors in them, and the same containers with other tensors.

A container may contain itself, and a walk over it would not end. So every walk calls check_ends once it has seen MANY
items; below that the check costs nothing.
"""

from __future__ import annotations

import copy
import gc
from collections import deque
from collections.abc import Callable
from dataclasses import fields
from types import FunctionType, ModuleType
from typing import Any

from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.uop import UOp

MANY = 10_000  # items after which a walk checks for cycles
CONTAINERS = (list, tuple, dict, set, frozenset, deque)


def is_record(item: Any) -> bool:
    """Whether an object is that of a dataclass: its fields are arguments of a TinyJit, as the items of a dict are."""
    return hasattr(type(item), "__dataclass_fields__")


def fields_of(record: Any) -> dict[str, Any]:
    """The fields of a record that are set, by name."""
    names = [each.name for each in fields(record)]
    return {name: getattr(record, name) for name in names if hasattr(record, name)}


def check_ends(nested: Any) -> None:
    """Raise ValueError where a list, tuple or dict contains itself, at any depth."""
    above: set[int] = set()  # containers that the one at hand is in
    done: set[int] = set()
    stack: list[tuple[Any, bool]] = [(nested, False)]
    while stack:
        item, is_left = stack.pop()
        if is_left:
            above.discard(id(item))
            done.add(id(item))
        elif (isinstance(item, CONTAINERS) or is_record(item)) and id(item) not in done:
            if id(item) in above:
                raise ValueError(f"arguments and results must end, a {type(item).__name__} among them contains itself")
            above.add(id(item))
            stack.append((item, True))
            inner = item.values() if isinstance(item, dict) else fields_of(item).values() if is_record(item) else item
            stack.extend((each, False) for each in inner)


def tensors_in(nested: Any) -> list[TensorBase]:
    """The tensors in nested lists, tuples and dicts, in order; of a complex one its two parts. Raises ValueError for a
    container that contains itself."""
    found: list[TensorBase] = []
    stack, seen = [nested], 0
    while stack:
        item = stack.pop()
        seen += 1
        if seen == MANY:
            check_ends(nested)
        if isinstance(item, TensorBase):
            found.extend(item._parts())
        elif isinstance(item, (list, tuple)):
            stack.extend(reversed(item))
        elif isinstance(item, dict):
            stack.extend(reversed(item.values()))
    return found


def has_complex(nested: Any) -> bool:
    """Whether a tensor in nested lists, tuples and dicts is complex."""
    return any(isinstance(item, TensorBase) and len(item._parts()) > 1 for item in items_in(nested))


class Halves:
    """The values for both parts of a complex tensor while they are no tensors."""

    def __init__(self, *halves: Any) -> None:
        self.halves = halves


def _joined(*halves: Any) -> Any:
    """A complex tensor of its parts, or Halves of values that are no tensors."""
    return TensorBase._in_parts().joined(*halves) if isinstance(halves[0], TensorBase) else Halves(*halves)


def mapped(nested: Any, kind: type | tuple[type, ...], change: Callable[[Any], Any]) -> Any:
    """Nested lists, tuples and dicts with every item of a kind changed, and both parts of complex tensors.

    They are nested a few levels at most.
    """
    if isinstance(nested, Halves) or (isinstance(nested, TensorBase) and len(nested._parts()) > 1):
        halves = nested.halves if isinstance(nested, Halves) else nested._parts()
        return _joined(*(mapped(half, kind, change) for half in halves))
    if isinstance(nested, kind):
        return change(nested)
    if isinstance(nested, tuple) and hasattr(nested, "_fields"):
        return type(nested)(*(mapped(item, kind, change) for item in nested))
    if isinstance(nested, (list, tuple)):
        return type(nested)(mapped(item, kind, change) for item in nested)
    if isinstance(nested, dict):
        changed: Any = {} if type(nested) is dict else copy.copy(nested)
        changed.update((name, mapped(item, kind, change)) for name, item in nested.items())
        return changed
    return nested


def items_in(nested: Any) -> list[Any]:
    """Everything in nested containers, keys of dicts too, and how many items each container has."""
    found: list[Any] = []
    stack = [nested]
    while stack:
        item = stack.pop()
        if len(found) == MANY:
            check_ends(nested)
        if isinstance(item, (list, tuple, dict, set, deque)):
            found.append(len(item))
            stack.extend(item)
            if isinstance(item, dict):
                stack.extend(item.values())
        elif is_record(item):
            found.append(len(values := fields_of(item)))
            stack.extend(values.values())
        else:
            found.append(item)
    return found


def same_items(before: list[Any], now: list[Any]) -> bool:
    """Whether containers that were items_in before have the same objects now."""
    return len(before) == len(now) and all(a is b for a, b in zip(before, now, strict=True))


def hides_tensors(nested: Any) -> bool:
    """Whether tensors are, or may be, where tensors_in does not look: in an object, a set, an iterator, a closure.

    A symbolic integer counts as one: it has another value in another call.
    """
    seen: set[int] = set()
    stack, count = [(nested, False)], 0
    while stack:
        item, inside = stack.pop()
        count += 1
        if count == MANY:
            check_ends(nested)
        if isinstance(item, UOp) or (inside and isinstance(item, TensorBase)):
            return True
        if isinstance(item, (list, tuple)):
            stack.extend((each, inside) for each in item)
        elif isinstance(item, dict):
            stack.extend((each, inside) for each in item.values())
        elif not isinstance(item, (TensorBase, type, ModuleType)) and id(item) not in seen:
            seen.add(id(item))
            # not all that a function refers to: its globals are the whole module
            whole = (item.__closure__, item.__defaults__) if isinstance(item, FunctionType) else gc.get_referents(item)
            stack.extend((each, True) for each in whole)
    return False
