"""Needs: what a test requires of a device, as marks, and whether an opened device declares it.

A test of the kit is skipped for one reason only, which is decided here: the Target of the opened device, or the methods
that its plugin overrides, do not declare what the test needs. There is no list of tests to skip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import pytest

from tinygraft.conformance.opened import Opened
from tinygraft.device.interfaces import Allocator, Backend
from tinygraft.dtype import BY_NAME, DType, dtypes
from tinygraft.target import DeclaredRoutine, Target
from tinygraft.uop.routines import ROUTINES

PROFILE = (dtypes.float32, dtypes.int32, dtypes.bool)  # what every device has, whatever it declares
HALVES = (dtypes.float16, dtypes.bfloat16)
SIZES = frozenset(field.name for field in fields(Target) if field.type in ("int", "bool"))


def _writes(part: Callable[[Backend], object], base: type, method: str) -> Callable[[Opened], bool]:
    """Return a check of whether the plugin overrides core's default `method` of `base`; `part` returns its object."""

    def has(opened: Opened) -> bool:
        assert opened.backend is not None
        return getattr(type(part(opened.backend)), method) is not getattr(base, method)

    return has


def _declares(name: str) -> Callable[[Opened], bool]:
    """Return a check of whether a Target declares a routine."""
    return lambda opened: any(known.name == name for known in opened.target.routines)


def _allocator(backend: Backend) -> object:
    """Return what has the methods of an allocator."""
    return backend.allocator


def _backend(backend: Backend) -> object:
    """Return the backend itself."""
    return backend


# What a device may be without, and whether an opened one has it. Sizes of the Target are needed by their names.
ABILITIES: dict[str, Callable[[Opened], bool]] = {
    "views": _writes(_allocator, Allocator, "view"),
    "host_view": _writes(_allocator, Allocator, "as_host"),
    "at_address": _writes(_allocator, Allocator, "at_address"),
    "addresses": _writes(_allocator, Allocator, "address"),
    "graph": _writes(_backend, Backend, "graph"),
    "timing": _writes(_backend, Backend, "timed_launch"),
    "queues": lambda opened: opened.backend is not None and opened.backend.has_queues,
    "matrix": lambda opened: bool(opened.target.matrix),
    "survives_fork": lambda opened: opened.backend is not None and opened.backend.survives_fork,
    "ordinals": lambda opened: opened.count is None or opened.count > 1,
    "computes": lambda opened: opened.record is None or opened.record.spec is None or opened.record.spec.computes,
    "keeps_binaries": lambda opened: opened.backend is not None and opened.backend.compiler.key is not None,
    "counted": lambda opened: opened.count is not None,
    "own_distribution": lambda opened: not opened.is_core,
    **{f"routine_{name}": _declares(name) for name in ROUTINES},
}

OF_RECORD = frozenset({"computes", "counted", "ordinals", "own_distribution"})


def needs(*abilities: str | DType, **least: int) -> pytest.MarkDecorator:
    """Mark a test that only a device with these abilities can pass.

    `abilities` are dtypes, their names, or keys of ABILITIES; `least` are sizes of the Target that it has at least. A
    parameter of a test that is a DType, or has an attribute `needs` (a sequence of abilities), is a need without a
    mark. Raises ValueError for a name that is none of these.

    >>> needs("float16", "views", shared_memory=1024).args
    ('half', 'views')
    """
    names = tuple(ability.name if isinstance(ability, DType) else ability for ability in abilities)
    return pytest.mark.tinygraft_needs(*(_known(name) for name in names), **{_known(k): v for k, v in least.items()})


def since(major: int, minor: int) -> pytest.MarkDecorator:
    """Mark a test that came with plugin API `major`.`minor`: a plugin that was made for an older one may fail it.

    Such a failure is reported as advice.

    >>> since(0, 2).args
    (0, 2)
    """
    return pytest.mark.tinygraft_since(major, minor)


def _known(name: str) -> str:
    """Return a dtype's canonical name, or that of an ability or size as it is. Raises ValueError."""
    if name in BY_NAME:
        return BY_NAME[name].name
    if name not in ABILITIES and name not in SIZES:
        known = ", ".join([*ABILITIES, *sorted(SIZES)])
        raise ValueError(f"no device can have {name!r}; a test needs a dtype or one of {known}")
    return name


@dataclass(frozen=True, slots=True)
class Requirement:
    """One thing that a test needs: its `name`, and for a size of the Target the `least` value."""

    name: str
    least: int = 0

    def __str__(self) -> str:
        return f"{self.name}>={self.least}" if self.name in SIZES else self.name

    @property
    def is_of_record(self) -> bool:
        """Return whether the record of a device suffices to decide, so that the device need not be available."""
        return self.name in OF_RECORD

    def is_met(self, opened: Opened) -> bool:
        """Return whether an opened device declares it. What every device is required to have counts as declared."""
        if self.name in BY_NAME:
            return computes(opened.target, BY_NAME[self.name])
        if self.name in ABILITIES:
            return ABILITIES[self.name](opened)
        return bool(getattr(opened.target, self.name) >= self.least)

    def pretend(self, target: Target) -> Target:
        """Return a copy of `target` that declares it, to find out whether it works undeclared."""
        if self.name in BY_NAME:
            dtype = BY_NAME[self.name]
            return replace(target, dtypes=target.dtypes | {dtype}, compute_dtypes=target.compute_dtypes | {dtype})
        if self.name.startswith("routine_"):
            name = self.name.removeprefix("routine_")
            return replace(target, routines=(*target.routines, DeclaredRoutine(name, (dtypes.float32,))))
        sizes: dict[str, Any] = {self.name: self.least} if self.name in SIZES else {}
        return replace(target, **sizes)


def computes(target: Target, dtype: DType) -> bool:
    """Return whether a tensor of `dtype` can be stored and computed with, natively or widened; True for PROFILE."""
    if dtype in PROFILE:
        return True
    native = dtype in target.compute_dtypes or (dtype in HALVES and dtypes.float32 in target.compute_dtypes)
    return dtype in target.dtypes and native


def needs_of(item: pytest.Item) -> Iterator[Requirement]:
    """Yield what a test needs: by its marks, and by parameters that are dtypes or have `needs`."""
    for mark in item.iter_markers("tinygraft_needs"):
        yield from (Requirement(name) for name in mark.args)
        yield from (Requirement(name, least) for name, least in mark.kwargs.items())
    call: Any = getattr(item, "callspec", None)
    for value in call.params.values() if call is not None else ():
        needed = (value,) if isinstance(value, DType) else getattr(value, "needs", ())
        yield from (Requirement(_known(ability.name if isinstance(ability, DType) else ability)) for ability in needed)


def since_of(item: pytest.Item) -> tuple[int, int]:
    """Return the plugin API that a test came with."""
    mark = item.get_closest_marker("tinygraft_since")
    return (mark.args[0], mark.args[1]) if mark is not None else (0, 0)
