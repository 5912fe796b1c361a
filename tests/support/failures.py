"""Failures of a device, a compiler and a disk, injected through the interfaces at the Nth event of a program.

    with failing("launch", 3) as failure:     # the fourth launch raises
        ...
    failure.has_happened                      # whether there was a fourth one

`every(kind, program)` runs a program with a failure at the first event of a kind, then at the second, until it ends
without one, and checks after each what the design requires: every tensor that was assigned to has its old or its new
value, every other one its value, or an error that says that it is lost; and a step from the old state has the result
that it has without a failure.
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np

from tinygraft import Context, Device, Tensor
from tinygraft.caches import cache_folder
from tinygraft.device.interfaces import Backend
from tinygraft.engine import compile as compiling
from tinygraft.engine import plan
from tinygraft.errors import CompileError, DeviceError
from tinygraft.reference.python import PythonProgram

BEFORE = (
    "memory",
    "compile",
    "press",
    "alarm",
)  # kinds that come before anything is written, or wait until all of it is
RAISED = (RuntimeError, MemoryError, OSError, KeyboardInterrupt)


@dataclass
class Failure:
    """A failure of event `number` of a kind, and of those after it, `lasts` in all; `events` counts those so far."""

    number: int
    lasts: int = 1
    events: int = 0

    @property
    def has_happened(self) -> bool:
        """Whether the program has come to the event that fails."""
        return self.events > self.number

    def comes(self) -> bool:
        """Count an event. Returns whether it is one that fails."""
        self.events += 1
        return self.number < self.events <= self.number + self.lasts


def _wrapped(failure: Failure, original: Callable[..., Any], error: Callable[[], BaseException]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if failure.comes():
            raise error()
        return original(*args, **kwargs)

    return call


def _storing(failure: Failure, original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        original(*args, **kwargs)
        if failure.comes():
            error = RuntimeError("the launch failed")
            error.stored = True
            raise error

    return call


def _pressing(failure: Failure, original: Callable[..., Any], number: int) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if failure.comes():
            signal.raise_signal(number)
        return original(*args, **kwargs)

    return call


def _closed(failure: Failure, original: Callable[..., int]) -> Callable[..., int]:
    def call(path: Any, *args: Any, **kwargs: Any) -> int:
        if str(cache_folder()) in os.fspath(path) and failure.comes():
            raise OSError(errno.EIO, "no such luck", path)
        return original(path, *args, **kwargs)

    return call


@contextmanager
def failing(kind: str, number: int, device: str = "PYTHON", lasts: int = 1) -> Iterator[Failure]:
    """Let the events of a kind from `number` on fail, `lasts` of them, on all ordinals of a device.

    memory: the allocator has no room (it is called twice for each block: the pool frees what it caches in between);
    launch, copy, compile: what they are named after raises; stored: the launch raises after it has stored all, and says
    so; cache: a file of the disk cache cannot be read or written;
    press: Ctrl-C is pressed as a launch begins; alarm: SIGALRM comes there.
    """
    backend = Device[device]
    failure = Failure(number, 2 * lasts if kind == "memory" else lasts)
    with ExitStack() as stack:

        def put(owner: Any, name: str, error: Callable[[], BaseException]) -> None:
            stack.enter_context(patch.object(owner, name, _wrapped(failure, getattr(owner, name), error)))

        if kind == "memory":
            Device.empty_cache()
            stack.enter_context(Context(KEEP_MB=0))
            put(type(backend.allocator), "alloc", lambda: MemoryError("no room"))
        elif kind in ("launch", "stored", "press", "alarm"):
            program = _program_of(device)
            if kind == "launch":
                put(program, "launch", lambda: RuntimeError("the launch failed"))
            elif kind == "stored":
                stack.enter_context(patch.object(program, "launch", _storing(failure, program.launch)))
            else:
                signal_number = signal.SIGINT if kind == "press" else signal.SIGALRM
                stack.enter_context(patch.object(program, "launch", _pressing(failure, program.launch, signal_number)))
        elif kind == "copy":
            put(type(backend.allocator), "copy", lambda: RuntimeError("the copy failed"))
            put(Backend, "copy_from", lambda: RuntimeError("the copy failed"))
        elif kind == "compile":
            stack.enter_context(Context(CACHELEVEL=0))
            compiling.clear()
            plan.clear()
            put(type(backend.compiler), "compile", lambda: CompileError("the compiler failed"))
        else:
            compiling.clear()
            plan.clear()
            stack.enter_context(patch.object(os, "open", _closed(failure, os.open)))
        yield failure


def _program_of(device: str) -> Any:
    """The class of the programs of a device."""
    if device == "PYTHON":
        return PythonProgram
    from tinygraft_cpu.program import CpuProgram

    return CpuProgram


@dataclass
class State:
    """What a program works on: tensors that it assigns to, others that it computes, and what it does."""

    assigned: list[Tensor]
    act: Callable[[], Any]
    smaller: Callable[[], Any]
    others: list[Tensor] = field(default_factory=list)

    def values(self) -> list[np.ndarray]:
        """What the assigned tensors are."""
        return [np.array(t.numpy()) for t in self.assigned]


Program = Callable[[], State]


def after_step(program: Program) -> list[np.ndarray]:
    """The state after the smaller step, from the start."""
    state = program()
    state.smaller()
    return state.values()


def every(kind: str, program: Program, device: str = "PYTHON", lasts: int = 1, most: int = 200,
          torn: bool = False) -> int:  # fmt: skip
    """Let a program meet each event of a kind in turn; how many there were.

    torn says that an assigned value may be lost.
    """
    state = program()
    old = state.values()
    state.act()
    new, others = state.values(), [np.array(t.numpy()) for t in state.others]
    follows = after_step(program)
    for number in range(most):
        state = program()
        with failing(kind, number, device, lasts) as failure:
            try:
                state.act()
            except RAISED:
                assert failure.has_happened
                ended = True
            else:
                ended = False
        has_happened = failure.has_happened
        label = f"{kind} {number}"
        look(label, state, old, new, others if ended else None, torn)
        if kind in BEFORE:
            now = state.values()
            assert any(all(map(np.array_equal, now, whole)) for whole in (old, new)), f"{label}: old and new are mixed"
        if not ended and kind != "cache":
            assert_equal(label, state.values(), new)
        if not has_happened:
            return number
        for tensor, value in zip(state.assigned, old, strict=True):
            tensor.assign(Tensor(value, device="PYTHON").to(tensor.device) if isinstance(tensor.device, str) else
                          Tensor(value, device=tensor.device[0]).shard_like(tensor)).realize()  # fmt: skip
        state.smaller()
        assert_equal(label, state.values(), follows)
    raise AssertionError(f"{kind} never came to an end")


def look(label: str, state: State, old: Sequence[np.ndarray], new: Sequence[np.ndarray],
         others: Sequence[np.ndarray] | None, torn: bool) -> None:  # fmt: skip
    """Check that each assigned tensor is old or new, or lost if torn allows it, and each other one right or lost."""
    for number, (tensor, before, after) in enumerate(zip(state.assigned, old, new, strict=True)):
        now = value_of(tensor) if torn else tensor.numpy()
        if now is None:
            continue
        assert np.array_equal(now, before) or np.array_equal(now, after), (label, number, now, before, after)
    for tensor, value in zip(state.others, others or (), strict=others is not None):
        now = value_of(tensor)
        if now is not None:
            np.testing.assert_array_equal(now, value, label)


def value_of(tensor: Tensor) -> np.ndarray | None:
    """The value of a tensor; None where it says that it is lost."""
    try:
        return np.array(tensor.numpy())
    except DeviceError as error:
        if "is lost: " not in str(error):
            raise
        return None


def assert_equal(label: str, found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> None:
    """Check that states are equal."""
    for now, then in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(now, then, label)
