"""A compiled kernel, also with numbers of its own: values of its variables that belong to one call and not to a run.

    given(kernel, (("offset0", 7),)) -> Compiled    the same program, whose variable is named "offset0=7"
    numbers_in(kernels) -> {"offset0=7": 7}          what is added to the values of variables

No variable of a program has such a name. So launches, captures, replays, CUDA graphs and packs, all of which look
their arguments up by name, need nothing else, and calls with other numbers are other kernels where these are compared.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, replace
from weakref import WeakValueDictionary

from tinygraft.device.interfaces import Program
from tinygraft.device.timeline import Timeline
from tinygraft.engine.exclusive import lock_over_forks
from tinygraft.interrupt import come_again
from tinygraft.uop.routines import COLLECTIVES
from tinygraft.uop.stages import Cost, Routine, Signature

MARK = "="  # given: between name and number; a variable of a program has only letters, digits and _


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compiled:
    """A program with what is needed to launch it and to report how fast it was; equal only to itself.

    `digest` is the name of its binary on disk, empty where none is stored. `data` is the binary. `timeline` is that of
    the backend, None where launches are synchronous. `routine` is what a routine of the device computes, which has
    neither source nor binary. `serial` is that of the kernel's graph, 0 where it was not made here.
    """

    name: str
    program: Program
    signature: Signature
    cost: Cost
    digest: str
    data: bytes
    timeline: Timeline | None
    routine: Routine | None = None
    serial: int = 0

    @property
    def on_host(self) -> bool:
        """Return whether the host runs it, which waits for the device: a collective is in no queue."""
        return self.routine is not None and self.routine.name in COLLECTIVES

    def __del__(self) -> None:
        """Retain the program until the launches of it have passed: a plugin may unload it when it is freed."""
        try:
            self._release()
        except KeyboardInterrupt:  # Python drops exceptions of finalisers: raise it later
            self._release()
            come_again()

    def _release(self) -> None:
        if (timeline := getattr(self, "timeline", None)) is not None:
            timeline.release_later(self.program, None)


_given: WeakValueDictionary[tuple[Compiled, tuple[str, ...]], Compiled] = WeakValueDictionary()
_lock = threading.RLock()
lock_over_forks(_lock)


def given(kernel: Compiled, numbers: Iterable[tuple[str, int]]) -> Compiled:
    """Return a kernel whose variables in `numbers` have these values; the kernel itself where there are none."""
    known = {name: f"{name}{MARK}{value}" for name, value in numbers}
    return named(kernel, tuple([known.get(name, name) for name in kernel.signature.variables])) if known else kernel


def named(kernel: Compiled, variables: tuple[str, ...]) -> Compiled:
    """Return a kernel with other names of its variables, in their order: the same object for the same names."""
    if variables == kernel.signature.variables:
        return kernel
    with _lock:
        found = _given.get((kernel, variables))
        if found is None:
            found = replace(kernel, signature=replace(kernel.signature, variables=variables))
            _given[kernel, variables] = found
        return found


def plain(signature: Signature) -> Signature:
    """Return the signature without numbers: that of the kernel which `given` was called with."""
    if not any(MARK in name for name in signature.variables):
        return signature
    return replace(signature, variables=tuple([name.partition(MARK)[0] for name in signature.variables]))


def numbers_in(kernels: Iterable[Compiled | None]) -> dict[str, int]:
    """Return the values of variables that are those of calls alone, by name."""
    found: dict[str, int] = {}
    for kernel in kernels:
        for name in () if kernel is None else kernel.signature.variables:
            base, mark, value = name.partition(MARK)
            if base and mark:
                found[name] = int(value)
    return found
