"""A dict of tensors that are made when they are first read.

What it is made of is cheap, a tensor is not: a file may have a million of which a program uses ten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView
from typing import Any

from tinygraft.tensor.tensor import Tensor


class LazyTensors(dict[str, Tensor]):
    """A dict whose tensors make(name, description) makes, each once; whatever reads it sees tensors.

    It is a dict to `isinstance` and to all that a dict can do; a copy of it, or a pickle, is a plain one.
    """

    __slots__ = ("_lock", "_make")

    def __init__(self, descriptions: Mapping[str, Any], make: Callable[[str, Any], Tensor]) -> None:
        super().__init__(descriptions)
        self._make, self._lock = make, threading.RLock()

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor of a name, made now where it was not.

        KeyError for an unknown name, and what `make` raises.
        """
        found = super().__getitem__(name)
        if isinstance(found, Tensor):
            return found
        with self._lock:
            found = super().__getitem__(name)  # another thread may have made it
            if not isinstance(found, Tensor):
                found = self._make(name, found)
                super().__setitem__(name, found)
            return found

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()  # defined, so that dict(self) and ** do not take what is below

    def get(self, name: str, default: Any = None) -> Any:
        """Return the tensor of that name, or `default`."""
        if name in self:
            return self[name]
        return default

    def values(self) -> ValuesView[Tensor]:  # type: ignore[override]
        """Return the tensors, each made when it is reached."""
        return ValuesView(self)

    def items(self) -> ItemsView[str, Tensor]:  # type: ignore[override]
        """Return names and tensors, each made when it is reached."""
        return ItemsView(self)

    def pop(self, name: str, *default: Any) -> Any:
        """Remove a name and return its tensor, or the default; KeyError where there is neither."""
        if name in self:
            found = self[name]
            del self[name]
            return found
        return super().pop(name, *default)

    def popitem(self) -> tuple[str, Tensor]:
        """Remove the last name and return it with its tensor. Raises KeyError where the dict is empty."""
        name = next(reversed(self), None)
        return super().popitem() if name is None else (name, self.pop(name))

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Return the tensor of that name, which is `default` where there was none."""
        if name not in self:
            self[name] = default
        return self[name]

    def copy(self) -> dict[str, Tensor]:
        """Return a plain dict of the tensors, all of which are made."""
        return dict(self)

    def __or__(self, other: Any) -> Any:
        return dict(self) | dict(other) if isinstance(other, dict) else NotImplemented

    def __ror__(self, other: Any) -> Any:
        return dict(other) | dict(self) if isinstance(other, dict) else NotImplemented

    def __eq__(self, other: object) -> bool:
        return dict(self) == other

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None

    def __repr__(self) -> str:
        return repr(dict(self))

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)
