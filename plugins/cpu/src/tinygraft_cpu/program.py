"""Loaded kernels and their launch: one by one, or a captured list of them in one call of the native runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from tinygraft.plugin import Backend, GraphExecutor, Program, Signature, Step
from tinygraft_cpu import extension
from tinygraft_cpu.allocator import ALIGNMENT, HostMemory


class Code(Protocol):
    """Loaded machine code: it is at `address` while this object exists."""

    address: int


class CpuProgram(Program):
    """A kernel `void f(void **buffers, const long long *variables)` on up to `threads` threads.

    After its variables it takes three more numbers: which chunk it computes (part), of how many (parts), and the
    address of its scratch memory. Chunks never overlap, and results do not depend on their number; a kernel that is
    not chunked has one.
    """

    parts: int
    code: Code
    signature: Signature

    def __init__(self, code: Code, signature: Signature, threads: int) -> None:
        self.code, self.signature = code, signature
        self.parts = threads if signature.chunked else 1
        self.library: Any = extension.library()
        if self.library is None:
            self.parts = 1
            self.function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.address)

    def launch(
        self, buffers: Sequence[HostMemory | None], variables: Sequence[int], grid: tuple[int, int, int]
    ) -> None:
        """Run the kernel and wait for it. A buffer of no elements is None."""
        addresses = [0 if b is None else b.address for b in buffers]
        if self.library is not None:
            launch, scratch = self.library.tg_launch, self.signature.scratch
            launch(self.code.address, addresses, variables, len(variables), self.parts, scratch)
            return
        room = ctypes.create_string_buffer(self.signature.scratch + ALIGNMENT)
        values = [*variables, 0, 1, ctypes.addressof(room) + -ctypes.addressof(room) % ALIGNMENT]
        self.function((ctypes.c_void_p * len(addresses))(*addresses), (ctypes.c_longlong * len(values))(*values))


class NativeRoutine(Program):
    """A routine of the extension, with the numbers that it is called with: rows, sizes, threads (ordering.c).

    `table` is memory whose address is among them.
    """

    def __init__(self, name: str, facts: Sequence[int], table: object = None) -> None:
        self.table = table
        self.library: Any = extension.library()
        ffi = extension.module().ffi
        self.address: int = int(self.library.tg_routine(name.encode()))
        self.facts = ffi.new("long long[]", [(number + 2**63) % 2**64 - 2**63 for number in facts])

    def launch(
        self, buffers: Sequence[HostMemory | None], variables: Sequence[int], grid: tuple[int, int, int]
    ) -> None:
        """Run the routine and wait for it; it has no variables and no grid."""
        addresses = [0 if b is None else b.address for b in buffers]
        self.library.tg_launch(self.address, addresses, self.facts, len(self.facts), 1, 0)


class NativeGraph(GraphExecutor):
    """A captured list of launches that the native runtime runs in one call.

    Its copies are of up to `threads` threads.
    After NANOSECONDS it returns to Python, which handles Ctrl-C then, and is called again for the steps that remain.
    """

    NANOSECONDS = 100_000_000

    def __init__(self, backend: Backend, steps: Sequence[Step], threads: int = 1) -> None:
        super().__init__(backend, steps)
        ffi, lib = extension.module().ffi, extension.library()
        # programs that take the interpreter: the native loop ends before each, and goes on after it
        self.between: list[int] = [
            n for n, s in enumerate(steps) if not isinstance(s.program, (CpuProgram, NativeRoutine, type(None)))
        ]
        self.is_native = not self.between
        self.names: list[str] = list(dict.fromkeys(name for step in steps for name in step.variables))
        places = [place for step in steps for place in step.buffers]
        names = [self.names.index(name) for step in steps for name in step.variables]
        self.memory = ffi.new("uintptr_t[]", max(places, default=0) + 1)
        self.numbers = ffi.new("long long[]", len(self.names))
        self.arrays: dict[
            str, Any
        ] = {  # ffi frees an array when nothing refers to it; the structure below has only addresses
            "steps": ffi.new("tg_step[]", [_native(step, threads) for step in steps]),
            "memory": self.memory,
            "places": ffi.new("int[]", places),
            "buffers": ffi.new("uintptr_t[]", len(places)),
            "values": self.numbers,
            "names": ffi.new("int[]", names),
            "variables": ffi.new("long long[]", len(names)),
        }
        lengths = {"count": len(steps), "all_places": len(places), "all_names": len(names)}
        self.graph = ffi.new("tg_graph *", self.arrays | lengths)
        self.replay = lib.tg_replay

    def set_buffer(self, place: int, handle: HostMemory | None) -> None:
        """Let `handle` be the buffer of `place`. Core keeps it alive while the list runs."""
        self.memory[place] = 0 if handle is None else handle.address
        if self.between:
            self.handles[place] = handle

    def set_values(self, values: Mapping[str, int]) -> None:
        """Set the values of variables, by name."""
        for number, name in enumerate(self.names):
            self.numbers[number] = values[name]

    def run(self, first: int) -> int:
        """Run steps from number `first` on. Returns the number of the step that comes next."""
        if self.between:
            until = next((number for number in self.between if number >= first), len(self.steps))
            if until == first:
                return super().run(first)
            self.graph.count = until
        return int(self.replay(self.graph, first, self.NANOSECONDS))


def _native(step: Step, threads: int) -> dict[str, Any]:
    """Return the fields of a step's `tg_step` (pool.h); a copy is one of up to `threads` threads."""
    if step.program is None:
        return {"bytes": step.nbytes, "buffers": 2, "parts": threads}
    if isinstance(step.program, NativeRoutine):
        facts = step.program.facts  # the program retains them, and the executor's steps retain it
        return {"code": step.program.address, "buffers": len(step.buffers), "facts": facts, "count": len(facts)}
    if not isinstance(step.program, CpuProgram):
        return {"buffers": len(step.buffers)}  # NativeGraph.run launches it
    sizes = {"buffers": len(step.buffers), "variables": len(step.variables), "parts": step.program.parts}
    return {"code": step.program.code.address, "scratch": step.program.signature.scratch, **sizes}
