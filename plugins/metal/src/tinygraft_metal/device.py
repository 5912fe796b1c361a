"""The Metal backend: one GPU in numbers, with its first queue and Metal's compiler for it."""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence
from functools import cached_property
from typing import Any

from tinygraft.plugin import (
    Backend,
    Binary,
    GraphExecutor,
    Program,
    SettingError,
    Signature,
    Source,
    Step,
)
from tinygraft.plugin.driver import named
from tinygraft_metal.allocator import MetalAllocator
from tinygraft_metal.binding import binding, choose, every, is_virtual
from tinygraft_metal.compiler import MetalCompiler
from tinygraft_metal.dialect import COPY_BYTES, TRY_VECTORS, MetalCard, metal_renderer, target_of
from tinygraft_metal.graph import MetalGraph
from tinygraft_metal.program import MetalProgram
from tinygraft_metal.queues import MetalQueue
from tinygraft_metal.spec import METAL_ICB

_opened: weakref.WeakSet[MetalBackend] = weakref.WeakSet()
_of_parent: list[MetalBackend] = []  # in a forked child, where Metal's objects may not be released
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=lambda: _of_parent.extend(_opened))


class MetalBackend(Backend):
    """A GPU of Apple's, or of another maker in a Mac."""

    allocator: MetalAllocator
    compiler: MetalCompiler
    queue: MetalQueue

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.card = choose(ordinal)
        self.device: Any = self.card.card
        self.compiler = MetalCompiler(self.device)
        self.facts = facts_of(self.device, self.compiler)
        self.target = target_of(self.facts)
        self.renderer = metal_renderer()
        self.queue = MetalQueue(self)
        self.allocator = MetalAllocator(name, self.device, self.queue)
        self.is_indirect = replays_indirectly(self.device)
        self.retains_pipelines = bool(self.device.supportsFamily_(binding().metal.MTLGPUFamilyApple9))  # M3 and later
        _opened.add(self)

    def load(self, binary: Binary) -> Program:
        """Return the kernel of a binary. Raises DeviceError where Metal does not take it, or it is too large."""
        state = self.compiler.pipeline(binary.name, binary.data)
        return MetalProgram(self.queue, state, binary, self.facts.shared)

    @cached_property
    def byte_copier(self) -> Program:
        """The kernel that copies bytes that are no whole words."""
        source = Source("copy_bytes", COPY_BYTES, "metal", Signature(()))
        return self.load(self.compiler.compile(source))

    def make_queue(self) -> MetalQueue:
        """Return one more command queue of the GPU."""
        return MetalQueue(self)

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return an executor of a captured list of launches: by an indirect command buffer where the GPU has them."""
        return MetalGraph(self, steps) if self.is_indirect else GraphExecutor(self, steps)

    def about(self) -> str:
        """Return the GPU, what replays a TinyJit, and whether vectors are used."""
        cards = every()
        which = f"{self.card}, " + (f"of the GPUs {named(cards)}, " if len(cards) > 1 else "")
        how = "an indirect command buffer" if self.is_indirect else "encoding each launch again"
        vectors = "takes" if self.facts.vectors else "does not take"
        return (
            f"{which}macOS {self.compiler.version}, called by PyObjC; a TinyJit is replayed by {how}; Metal's compiler "
            f"{vectors} vectors; experimental: it has been run on an emulated Metal only"
        )

    def close(self) -> None:
        """Wait for what still runs."""
        self.synchronize()


def facts_of(device: Any, compiler: MetalCompiler) -> MetalCard:
    """Return what a GPU says of itself."""
    return MetalCard(
        arch=f"{device.name()} macOS {compiler.version}",
        threads=int(device.maxThreadsPerThreadgroup().width),
        shared=int(device.maxThreadgroupMemoryLength()),
        vectors=compiler.takes(TRY_VECTORS),
    )


def replays_indirectly(device: Any) -> bool:
    """Return whether a GPU has indirect command buffers for kernels, and METAL_ICB allows them. Raises SettingError."""
    wanted = METAL_ICB.value
    if wanted not in ("", "0", "1"):
        raise SettingError(f"METAL_ICB must be 0, 1 or empty, got {wanted!r}")
    metal = binding().metal
    families = (metal.MTLGPUFamilyApple3, metal.MTLGPUFamilyMac2)
    has_them = any(device.supportsFamily_(family) for family in families)
    if wanted == "1" and not has_them:
        raise SettingError(f"METAL_ICB=1 needs indirect command buffers for kernels, which {device.name()} has not")
    return has_them and (wanted == "1" or (wanted == "" and not is_virtual(device)))
