"""What else refers to the arguments of a call and to its result, by counting references; and what a function can reach.

An attribute that the function sets, a list that it appends to and a name of an enclosing scope are all the same to a
tensor: each is one more reference.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from enum import Enum
from types import BuiltinFunctionType, CodeType, EllipsisType, FunctionType, ModuleType, NotImplementedType
from typing import Any

from tinygraft.dtype import DType
from tinygraft.tensor.nested import MANY, check_ends, fields_of, is_record
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.held import buffers_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

# types of objects that never change, so that one of them may be in the results of many calls
FIXED = (
    bool, int, float, complex, str, bytes, range, slice, type, DType, Enum, type(None), EllipsisType, ModuleType,
    FunctionType, BuiltinFunctionType, NotImplementedType, UOp,
)  # fmt: skip


class References:
    """How many references there are to each object in nested arguments, but for those that never change."""

    def __init__(self, nested: Any) -> None:
        found = (
            item for item in _objects(nested) if not isinstance(item, FIXED) and not (type(item) is tuple and not item)
        )
        self._objects = list({id(o): o for o in found}.values())
        self._counts = _counts(self._objects)

    def grown(self, result: Any, sample: list[Any]) -> list[Any]:
        """Return the objects that are referred to from elsewhere now: more often, not counting those in `result`.

        `sample` is a new list to which as many names refer as to `result`.
        """
        inside, now = Counter([id(item) for item in _objects(result)]), _counts(self._objects)
        inside[id(result)] += _counts([sample])[0] - _counts([[]])[0] - 1  # the caller's first name counts as an item
        both = zip(self._objects, self._counts, now, strict=True)
        return [item for item, before, count in both if count > before + inside[id(item)]]


def is_elsewhere(
    result: Any, sample: list[Any], existed: Callable[[object], bool], grads: Iterable[TensorBase]
) -> bool:
    """Return whether a new tensor in `result`, or a container with one, is also referred to from elsewhere.

    `sample` is a new list of one new object, to which as many names refer as to `result`: how many that is depends on
    the interpreter. `grads` are those of tensors: each is referred to once more.
    """
    _, (root, item) = _references(sample)
    known = Counter(map(id, grads))
    objects, counts = _references(result)
    for one, total in zip(objects, counts, strict=True):
        count = total - known[id(one)]
        mine = not existed(one) if isinstance(one, TensorBase) else isinstance(one, (list, tuple, dict)) and any(
            isinstance(inner, TensorBase) for inner in _objects(one)
        )  # fmt: skip
        if mine and count > (root if one is result else item):
            return True
    return False


def _references(nested: Any) -> tuple[list[Any], list[int]]:
    """Return the distinct objects in `nested`, itself first, and how many references each has but for those in it."""
    inside = Counter([id(item) for item in _objects(nested)])
    objects = list({id(item): item for item in _objects(nested)}.values())
    return objects, [count - inside[id(objects[i])] for i, count in enumerate(_counts(objects))]


def _counts(objects: Sequence[Any]) -> list[int]:
    """Return the number of references to each of `objects`, this function's own included."""
    return [sys.getrefcount(item) for item in objects]


def _objects(nested: Any) -> Iterator[Any]:
    """Yield `nested`, and what is in it at any depth. Raises ValueError for a container that contains itself."""
    stack, seen = [nested], 0
    while stack:
        item = stack.pop()
        seen += 1
        if seen == MANY:
            check_ends(nested)
        yield item
        if isinstance(item, TensorBase) and len(parts := item._parts()) > 1:
            stack.extend(parts)
        elif isinstance(item, (list, tuple)):
            stack.extend(item)
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif is_record(item):
            stack.extend(fields_of(item).values())


def are_values(result: Any) -> bool:
    """Return whether there is nothing in `result` but tensors, containers of them, and objects that never change."""
    return all(
        isinstance(item, (TensorBase, list, tuple, dict, *FIXED)) or _is_fixed(item) for item in _objects(result)
    )


def _is_fixed(item: Any) -> bool:
    """Return whether an object is a number of NumPy's, or a frozen set of what never changes."""
    if isinstance(item, frozenset):
        return all(isinstance(each, FIXED) for each in item)
    return hasattr(type(item), "__array_interface__") and not hasattr(item, "__len__")


def finds(function: Any, memory: Container[int], names: Container[str]) -> bool:
    """Return whether `function` can reach a tensor over memory with these ids, or a variable with one of these names.

    That is by what it refers to: names of enclosing scopes and of its module, defaults, attributes of what these are.
    """
    stack, seen, called = [function], set[int](), set[str]()
    while stack:
        item = stack.pop()
        if id(item) in seen or isinstance(item, (str, int)) or _is_ours(item):
            continue
        seen.add(id(item))
        if isinstance(item, TensorBase):
            if any(buffer.arg.uid in memory for half in item._parts() for buffer in buffers_of(half.uop.base)):
                return True
        elif isinstance(item, UOp):
            if any(node.op is Ops.VARIABLE and node.arg.name in names for node in postorder(item)):
                return True
        elif isinstance(item, (type, ModuleType)):  # only what a function may have named
            stack += [value for name, value in vars(item).items() if name in called]
        elif isinstance(item, FunctionType):
            called |= (mine := _names_in(item.__code__))
            named = [item.__globals__[name] for name in mine if name in item.__globals__]
            stack += [item.__closure__, item.__defaults__, item.__kwdefaults__, item.__dict__, *named]
        else:
            stack += gc.get_referents(item)
    return False


def _is_ours(item: Any) -> bool:
    """Return whether an object is a module, class or function of this library."""
    home = item.__name__ if isinstance(item, ModuleType) else getattr(item, "__module__", None)
    is_code = isinstance(item, (ModuleType, type, FunctionType))
    return is_code and isinstance(home, str) and (home == "tinygraft" or home.startswith("tinygraft."))


def _names_in(code: CodeType) -> set[str]:
    """Return the names of globals and attributes in the code of a function, and of functions that are made in it."""
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return set(code.co_names).union(*map(_names_in, inner))
