"""Small kernels for tests of devices: elementwise expressions over inputs, compiled for a backend and run on bytes."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.numbers import from_bits, raw_bits
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.stages import Kernel, Linear
from tinygraft.uop.uop import UOp

Inputs = Sequence[tuple[DType, Sequence[Any]]]


def pack(values: Iterable[Any], dtype: DType) -> bytes:
    """Values of dtype as memory."""
    return b"".join(raw_bits(v, dtype).to_bytes(dtype.itemsize, "little") for v in values)


def unpack(data: bytes, dtype: DType) -> list[Any]:
    """Memory as values of dtype."""
    n = dtype.itemsize
    return [from_bits(int.from_bytes(data[i : i + n], "little"), dtype) for i in range(0, len(data), n)]


def param(slot: int, dtype: DType, size: int) -> UOp:
    """A buffer argument."""
    return UOp(Ops.PARAM, dtype, (), ParamArg(slot, size))


def store(memory: UOp, index: UOp, value: UOp) -> UOp:
    """A STORE."""
    return UOp(Ops.STORE, dtypes.void, (memory, index, value))


def load(memory: UOp, index: UOp) -> UOp:
    """A LOAD."""
    return UOp(Ops.LOAD, memory.dtype, (memory, index))


def run_linear(backend: Backend, linear: Linear, buffers: Sequence[bytes],
               variables: Sequence[int] = (), grid: tuple[int, int, int] = (1, 1, 1)) -> list[bytes]:  # fmt: skip
    """The bytes of each buffer after a launch, by slot; buffers are what they hold before."""
    program = backend.load(backend.compiler.compile(backend.renderer.render(linear)))
    handles = []
    for data in buffers:
        handles.append(backend.allocator.alloc(max(len(data), 1)))
        backend.allocator.copy_in(handles[-1], memoryview(bytearray(data)))
    program.launch(handles, list(variables), grid)
    backend.synchronize()
    results = []
    for data, handle in zip(buffers, handles, strict=True):
        out = bytearray(len(data))
        backend.allocator.copy_out(memoryview(out), handle)
        results.append(bytes(out))
        backend.allocator.free(handle, max(len(data), 1))
    return results


def run_kernel(backend: Backend, sink: UOp, buffers: Sequence[bytes], noopt: bool = False) -> list[bytes]:
    """A kernel without variables compiled for a backend and run, as run_linear does."""
    linear = to_linear(Kernel(sink), backend.target, Options(noopt=noopt))
    size = linear.signature.grid
    return run_linear(backend, linear, buffers, (), (int(size[0]), int(size[1]), int(size[2])))


def run_map(backend: Backend, builds: Sequence[Callable[..., UOp]], inputs: Inputs) -> list[list[Any]]:
    """Each of builds applied to the inputs element by element, in one kernel on a backend: one list of values each."""
    size, first = len(inputs[0][1]), len(builds)
    r = UOp.range(size, 0)
    loads = [load(param(first + i, d, size), r) for i, (d, _) in enumerate(inputs)]
    values = [build(*loads) for build in builds]
    sink = UOp(Ops.SINK, dtypes.void, tuple(store(param(i, v.dtype, size), r, v) for i, v in enumerate(values)))
    buffers = [bytes(size * v.dtype.itemsize) for v in values] + [pack(v, d) for d, v in inputs]
    results = run_kernel(backend, sink, buffers)
    return [unpack(data, v.dtype) for data, v in zip(results, values, strict=False)]
