"""Loaded kernels, and how a launch is written into a command buffer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

from tinygraft.plugin import Binary, DeviceError, Program
from tinygraft_metal.allocator import MetalMemory
from tinygraft_metal.dialect import SLOTS

VALUE = 8  # bytes of a variable
MOST_BYTES = 4096  # given: of what a launch may have beside its buffers


class MetalProgram(Program):
    """A kernel of a GPU. `shared` is the threadgroup memory that a thread block may have there."""

    def __init__(self, queue: Any, state: Any, binary: Binary, shared: int) -> None:
        self.name, self.queue, self.state = binary.name, queue, state
        self.threads = binary.signature.block_threads
        most, takes = int(state.maxTotalThreadsPerThreadgroup()), int(state.staticThreadgroupMemoryLength())
        if self.threads > most:
            raise DeviceError(
                f"kernel {self.name} has thread blocks of {self.threads} threads, and with its registers this GPU runs "
                f"{most}; NOOPT=1 writes it without"
            )
        if takes > shared:
            raise DeviceError(
                f"kernel {self.name} has {takes} bytes of threadgroup memory, and this GPU has {shared} for a thread "
                "block; NOOPT=1 writes it without"
            )

    def launch(self, buffers: Sequence[MetalMemory | None], variables: Sequence[int],
               grid: tuple[int, int, int]) -> None:  # fmt: skip
        """Run the kernel on the first queue; returns before it has begun."""
        self.queue.launch(self, buffers, variables, grid)

    def encode(self, encoder: Any, buffers: Sequence[MetalMemory | None], variables: Sequence[int],
               grid: tuple[int, int, int]) -> None:  # fmt: skip
        """Write a launch for an encoder. Raises DeviceError for more buffers than Metal has slots."""
        self.check_slots(len(buffers) + bool(variables))
        encoder.setComputePipelineState_(self.state)
        for slot, one in enumerate(buffers):
            encoder.setBuffer_offset_atIndex_(*((None, 0) if one is None else (one.buffer, one.offset)), slot)
        if variables:
            data = packed_values(variables)
            if len(data) <= MOST_BYTES:
                encoder.setBytes_length_atIndex_(data, len(data), len(buffers))
            else:  # the command buffer retains it
                memory = self.queue.backend.allocator.new(len(data))
                memory.view()[:] = data
                encoder.setBuffer_offset_atIndex_(memory.buffer, memory.offset, len(buffers))
        encoder.dispatchThreadgroups_threadsPerThreadgroup_(grid, (self.threads, 1, 1))

    def check_slots(self, count: int) -> None:
        """Raise DeviceError where there are more buffers than slots."""
        if count > SLOTS:
            raise DeviceError(f"kernel {self.name} has {count} buffers, and Metal has {SLOTS} slots for them")


def packed_values(variables: Sequence[int]) -> bytes:
    """Return the values of variables as a kernel reads them: 64 bits each."""
    return struct.pack(f"<{len(variables)}q", *variables)
