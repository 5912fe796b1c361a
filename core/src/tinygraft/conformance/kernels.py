"""Small kernels: building them, compiling and launching them on a backend, and checking memory past their buffers."""

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
GUARD = bytes(range(0xA1, 0xE1))  # after every buffer; a kernel that changes it wrote past the end
NUMPY: dict[DType, str] = {
    dtypes.bool: "?", dtypes.int8: "<i1", dtypes.uint8: "<u1", dtypes.int16: "<i2", dtypes.uint16: "<u2",
    dtypes.int32: "<i4", dtypes.uint32: "<u4", dtypes.int64: "<i8", dtypes.uint64: "<u8",
    dtypes.float16: "<f2", dtypes.float32: "<f4", dtypes.float64: "<f8",
}  # fmt: skip


def pack(values: Iterable[Any], dtype: DType) -> bytes:
    """Return the bytes of `values` as `dtype`.

    >>> pack([1.0, -2.0], dtypes.bfloat16).hex()
    '803f00c0'
    """
    if dtype is dtypes.bfloat16:
        wide = np.array(list(values), "<f4").view("<u4")
        return (wide >> 16).astype("<u2").tobytes()
    return np.array(list(values), NUMPY[dtype]).tobytes()


def unpack(data: bytes, dtype: DType) -> list[Any]:
    """Return the values of `dtype` whose bytes these are. Raises AssertionError for a bool that is neither 0 nor 1."""
    if dtype is dtypes.bfloat16:
        return (np.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").tolist()  # type: ignore[no-any-return]
    if dtype.kind == "bool":
        assert max(data, default=0) <= 1, f"a bool has the byte {max(data)}: it was not written, or not as 0 or 1"
    return np.frombuffer(data, NUMPY[dtype]).tolist()  # type: ignore[no-any-return]


def param(slot: int, dtype: DType, size: int) -> UOp:
    """Return the PARAM of a buffer argument of `size` elements."""
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size))


def store(memory: UOp, index: UOp, value: UOp, *gate: UOp) -> UOp:
    """Return a STORE of `value` at an index of `memory`, in elements."""
    return UOp(Ops.STORE, dtypes.void, (memory, index, value, *gate))


def load(memory: UOp, index: UOp, *gate: UOp) -> UOp:
    """Return a LOAD from an index of `memory`, in elements."""
    return UOp(Ops.LOAD, memory.dtype, (memory, index, *gate))


@dataclass(frozen=True, slots=True)
class Run:
    """A kernel in the linear form, and a launch of it: the bytes of its buffers before it, its variables and its grid.

    `buffers` are by slot; `grid` None is that of the kernel's signature.
    """

    linear: Linear
    buffers: Sequence[bytes]
    variables: Sequence[int] = ()
    grid: Grid | None = None


def programs(backend: Backend, linears: Sequence[Linear]) -> list[Program]:
    """Render, compile and load kernels, with as many threads as the compiler declares. Returns them in their order."""
    sources = [backend.renderer.render(linear) for linear in linears]
    binaries: list[Binary] = [None] * len(sources)  # type: ignore[list-item]

    def compile(number: int, source: Source) -> None:
        binaries[number] = backend.compiler.compile(source)

    with Crew() as crew:
        for number, source in enumerate(sources):
            crew.do(partial(compile, number, source), len(source.text), backend.compiler.threads)
        crew.wait()
    return [backend.load(binary) for binary in binaries]


def run_all(backend: Backend, runs: Sequence[Run]) -> list[list[bytes]]:
    """Compile and launch kernels. Returns for each the bytes of its buffers after the launch, by slot.

    Raises AssertionError where one wrote past a buffer's end.
    """
    loaded = programs(backend, [run.linear for run in runs])
    return [launched(backend, program, run) for program, run in zip(loaded, runs, strict=True)]


def launched(backend: Backend, program: Program, run: Run) -> list[bytes]:
    """Launch a loaded kernel on new buffers, each with GUARD after its end. Returns their bytes afterwards, by slot.

    Raises AssertionError where it wrote past a buffer's end.
    """
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
        past = [i for i, (a, b) in enumerate(zip(out[len(data) :], GUARD, strict=True)) if a != b]
        assert not past, f"kernel {run.linear.name} wrote past the end of data{slot}: byte {past[0]} after it"
        results.append(bytes(out[: len(data)]))
    return results


def run_linear(backend: Backend, linear: Linear, buffers: Sequence[bytes], variables: Sequence[int] = (),
               grid: Grid | None = None) -> list[bytes]:  # fmt: skip
    """Compile and launch one kernel on `buffers`, their bytes before. Returns their bytes afterwards, by slot."""
    return run_all(backend, [Run(linear, buffers, variables, grid)])[0]


def run_kernel(backend: Backend, sink: UOp, buffers: Sequence[bytes], noopt: bool = False) -> list[bytes]:
    """Lower a kernel without variables for a backend, and run it as `run_linear` does.

    `noopt` leaves its loops as they are.
    """
    return run_linear(backend, to_linear(Kernel(sink), backend.target, Options(noopt=noopt)), buffers)


def map_kernel(builds: Sequence[Callable[..., UOp]], inputs: Inputs) -> tuple[UOp, list[bytes], list[DType]]:
    """Build a kernel that applies each of `builds` to the inputs element by element.

    Returns its graph, the bytes of its buffers, and the dtypes of its results. The buffers of results have every bit
    set, so that an element that is not written shows.
    """
    size, first = len(inputs[0][1]), len(builds)
    r = UOp.range(size, 0)
    loads = [load(param(first + i, d, size), r) for i, (d, _) in enumerate(inputs)]
    values = [build(*loads) for build in builds]
    nodes = set(postorder(UOp(Ops.SINK, src=tuple(values))))
    used = [i for i, one in enumerate(loads) if one in nodes]  # an input that no result needs is no argument
    if len(used) < len(inputs):
        loads = [
            load(param(first + (used.index(i) if i in used else 0), d, size), r) for i, (d, _) in enumerate(inputs)
        ]
        values = [build(*loads) for build in builds]
    sink = UOp(Ops.SINK, dtypes.void, tuple(store(param(i, v.dtype, size), r, v) for i, v in enumerate(values)))
    buffers = [b"\xff" * (size * v.dtype.itemsize) for v in values] + [pack(inputs[i][1], inputs[i][0]) for i in used]
    return sink, buffers, [v.dtype for v in values]


def run_map(backend: Backend, builds: Sequence[Callable[..., UOp]], inputs: Inputs) -> list[list[Any]]:
    """Apply each of `builds` to the inputs element by element, in one kernel on a backend. Returns their values."""
    sink, buffers, kinds = map_kernel(builds, inputs)
    return [unpack(data, dtype) for data, dtype in zip(run_kernel(backend, sink, buffers), kinds, strict=False)]
