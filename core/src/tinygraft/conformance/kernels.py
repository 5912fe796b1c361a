"""Small kernels: how the kit builds them, has a backend compile and launch them, and looks at memory around them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.device.interfaces import Backend, Program
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.crew import Crew
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.stages import Binary, Kernel, Linear, Source
from tinygraft.uop.uop import UOp, postorder

Inputs = Sequence[tuple[DType, Sequence[Any]]]
Grid = tuple[int, int, int]
GUARD = bytes(range(0xA1, 0xE1))  # behind every buffer; whoever changes it wrote past the end
NUMPY: dict[DType, str] = {
    dtypes.bool: "?", dtypes.int8: "<i1", dtypes.uint8: "<u1", dtypes.int16: "<i2", dtypes.uint16: "<u2",
    dtypes.int32: "<i4", dtypes.uint32: "<u4", dtypes.int64: "<i8", dtypes.uint64: "<u8",
    dtypes.float16: "<f2", dtypes.float32: "<f4", dtypes.float64: "<f8",
}  # fmt: skip


def pack(values: Iterable[Any], dtype: DType) -> bytes:
    """Values of dtype as memory.

    >>> pack([1.0, -2.0], dtypes.bfloat16).hex()
    '803f00c0'
    """
    if dtype is dtypes.bfloat16:
        wide = np.array(list(values), "<f4").view("<u4")
        return (wide >> 16).astype("<u2").tobytes()
    return np.array(list(values), NUMPY[dtype]).tobytes()


def unpack(data: bytes, dtype: DType) -> list[Any]:
    """Memory as values of dtype. Raises AssertionError for a bool that is neither 0 nor 1."""
    if dtype is dtypes.bfloat16:
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").tolist()  # type: ignore[no-any-return]
    if dtype.kind == "bool":
        assert max(data, default=0) <= 1, f"a bool has the byte {max(data)}: it was not written, or not as 0 or 1"
    return np.frombuffer(data, NUMPY[dtype]).tolist()  # type: ignore[no-any-return]


def param(slot: int, dtype: DType, size: int) -> UOp:
    """A buffer argument."""
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size))


def store(memory: UOp, index: UOp, value: UOp, *gate: UOp) -> UOp:
    """A STORE."""
    return UOp(Ops.STORE, dtypes.void, (memory, index, value, *gate))


def load(memory: UOp, index: UOp, *gate: UOp) -> UOp:
    """A LOAD."""
    return UOp(Ops.LOAD, memory.dtype, (memory, index, *gate))


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel in the linear form and what it is launched on: the bytes of its buffers before, its variables."""

    linear: Linear
    buffers: Sequence[bytes]
    variables: Sequence[int] = ()
    grid: Grid | None = None


def programs(backend: Backend, linears: Sequence[Linear]) -> list[Program]:
    """Kernels rendered, compiled by as many threads as the compiler wants, and loaded."""
    sources = [backend.renderer.render(linear) for linear in linears]
    binaries: list[Binary] = [None] * len(sources)  # type: ignore[list-item]

    def compile(place: int, source: Source) -> None:
        binaries[place] = backend.compiler.compile(source)

    with Crew() as crew:
        for place, source in enumerate(sources):
            crew.do(partial(compile, place, source), len(source.text), backend.compiler.threads)
        crew.wait()
    return [backend.load(binary) for binary in binaries]


def run_all(backend: Backend, runs: Sequence[Run]) -> list[list[bytes]]:
    """The bytes of each buffer after each run, by slot. Raises AssertionError where one wrote past a buffer's end."""
    loaded = programs(backend, [run.linear for run in runs])
    return [launched(backend, program, run) for program, run in zip(loaded, runs, strict=True)]


def launched(backend: Backend, program: Program, run: Run) -> list[bytes]:
    """The bytes of each buffer after a launch of a loaded kernel."""
    signature = run.linear.signature
    values = dict(zip(signature.variables, run.variables, strict=True))
    x, y, z = run.grid or [size_of(size, values) for size in signature.grid]
    handles = []
    for data in run.buffers:
        handles.append(backend.allocator.alloc(len(data) + len(GUARD)))
        backend.allocator.copy_in(handles[-1], memoryview(bytearray(data + GUARD)))
    program.launch(handles, list(run.variables), (x, y, z))
    backend.synchronize()
    results = []
    for slot, (data, handle) in enumerate(zip(run.buffers, handles, strict=True)):
        out = bytearray(len(data) + len(GUARD))
        backend.allocator.copy_out(memoryview(out), handle)
        backend.allocator.free(handle, len(out))
        behind = [i for i, (a, b) in enumerate(zip(out[len(data) :], GUARD, strict=True)) if a != b]
        assert not behind, f"kernel {run.linear.name} wrote past the end of data{slot}: byte {behind[0]} behind it"
        results.append(bytes(out[: len(data)]))
    return results


def run_linear(backend: Backend, linear: Linear, buffers: Sequence[bytes], variables: Sequence[int] = (),
               grid: Grid | None = None) -> list[bytes]:  # fmt: skip
    """The bytes of each buffer after a launch, by slot; buffers are what they hold before."""
    return run_all(backend, [Run(linear, buffers, variables, grid)])[0]


def run_kernel(backend: Backend, sink: UOp, buffers: Sequence[bytes], noopt: bool = False) -> list[bytes]:
    """A kernel without variables compiled for a backend and run, as run_linear does."""
    return run_linear(backend, to_linear(Kernel(sink), backend.target, Options(noopt=noopt)), buffers)


def map_kernel(builds: Sequence[Callable[..., UOp]], inputs: Inputs) -> tuple[UOp, list[bytes], list[DType]]:
    """A kernel that applies each of builds to the inputs element by element, its buffers, the dtypes of its results.

    What a result held before has every bit set, so that an element that nobody writes is seen.
    """
    size, first = len(inputs[0][1]), len(builds)
    r = UOp.range(size, 0)
    loads = [load(param(first + i, d, size), r) for i, (d, _) in enumerate(inputs)]
    values = [build(*loads) for build in builds]
    nodes = set(postorder(UOp(Ops.SINK, src=tuple(values))))
    used = [i for i, one in enumerate(loads) if one in nodes]  # where all is constant, an input is no argument
    if len(used) < len(inputs):
        loads = [
            load(param(first + (used.index(i) if i in used else 0), d, size), r) for i, (d, _) in enumerate(inputs)
        ]
        values = [build(*loads) for build in builds]
    sink = UOp(Ops.SINK, dtypes.void, tuple(store(param(i, v.dtype, size), r, v) for i, v in enumerate(values)))
    buffers = [b"\xff" * (size * v.dtype.itemsize) for v in values] + [pack(inputs[i][1], inputs[i][0]) for i in used]
    return sink, buffers, [v.dtype for v in values]


def run_map(backend: Backend, builds: Sequence[Callable[..., UOp]], inputs: Inputs) -> list[list[Any]]:
    """Each of builds applied to the inputs element by element, in one kernel on a backend: one list of values each."""
    sink, buffers, kinds = map_kernel(builds, inputs)
    return [unpack(data, dtype) for data, dtype in zip(run_kernel(backend, sink, buffers), kinds, strict=False)]
