"""A device whose handles are a buffer and an offset, as Metal's are: no handle is an address, or memory itself.

    handle = allocator.alloc(64)          # Part(buffer 0 of 64 bytes, offset 0)
    allocator.view(handle, 16, 8)         # Part(buffer 0 of 64 bytes, offset 16)

Only the allocator and the programs know what lies behind: they look the buffer up by its number when they copy, or run.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from tinygraft.device.device_spec import ApiRange, DeviceSpec, Probe
from tinygraft.device.interfaces import Allocator, Program
from tinygraft.errors import DeviceMemoryError
from tinygraft.reference.python import PythonBackend
from tinygraft.uop.stages import Binary


@dataclass(frozen=True, slots=True)
class Part:
    """`nbytes` of buffer `number` from `offset` on."""

    number: int
    offset: int
    nbytes: int


_numbers = itertools.count()  # of all backends: a test opens the device again, and values of the last one live on


class OffsetAllocator(Allocator):
    """Buffers by number, which only this class has."""

    buffers: ClassVar[dict[int, bytearray]] = {}

    def __init__(self) -> None:
        self.count = 0

    def memory(self, part: Part) -> memoryview:
        """The bytes of a handle."""
        return memoryview(self.buffers[part.number])[part.offset : part.offset + part.nbytes]

    def alloc(self, nbytes: int) -> Part:
        """A new buffer, at its begin."""
        if nbytes > 1 << 40:
            raise DeviceMemoryError(f"there is no room for {nbytes} bytes")
        self.count += 1
        number = next(_numbers)
        try:
            self.buffers[number] = bytearray(nbytes)
        except (MemoryError, OverflowError):
            raise DeviceMemoryError(f"there is no room for {nbytes} bytes") from None
        return Part(number, 0, nbytes)

    def free(self, handle: Part, nbytes: int) -> None:
        """Forget a buffer."""
        assert handle.offset == 0, "a view is dropped, and never freed"
        del self.buffers[handle.number]

    def copy_in(self, target: Part, source: memoryview) -> None:
        """Copy bytes from the host."""
        if source.nbytes:
            self.memory(target)[: source.nbytes] = source.cast("B")

    def copy_out(self, target: memoryview, source: Part) -> None:
        """Copy bytes to the host."""
        if target.nbytes:
            target.cast("B")[:] = self.memory(source)[: target.nbytes]

    def copy(self, target: Part, source: Part, nbytes: int) -> None:
        """Copy from one buffer to another."""
        self.memory(target)[:nbytes] = bytes(self.memory(source)[:nbytes])

    def view(self, handle: Part, offset: int, nbytes: int) -> Part:
        """The same buffer, further on."""
        return Part(handle.number, handle.offset + offset, nbytes)


class OffsetProgram(Program):
    """A kernel that is given buffers with offsets."""

    def __init__(self, allocator: OffsetAllocator, program: Program) -> None:
        self.allocator, self.program = allocator, program

    def launch(self, buffers: Sequence[Part | None], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Look the buffers up, and run."""
        found: list[Any] = [None if part is None else self.allocator.memory(part) for part in buffers]
        self.program.launch(found, variables, grid)


class OffsetBackend(PythonBackend):
    """The interpreter, over memory that has no addresses."""

    allocator_class: type[OffsetAllocator] = OffsetAllocator

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.allocator = self.allocator_class()

    def load(self, binary: Binary) -> Program:
        """A kernel over such memory."""
        return OffsetProgram(self.allocator, super().load(binary))


def probe() -> Probe:
    """There in every test."""
    return Probe(ok=True, detail="made for a test", count=2)


OFFSETS = DeviceSpec(
    name="OFFSETS", summary="handles of a buffer and an offset", api=ApiRange((0, 1), (0, 9)), kind="accelerator",
    priority=0, probe="offset_handles:probe", backend="offset_handles:OffsetBackend",
)  # fmt: skip
