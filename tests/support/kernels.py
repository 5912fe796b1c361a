"""Small kernels built by hand, for tests of devices: one loop, loads, an expression, a store."""

from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.numbers import from_bits, raw_bits
from tinygraft.rules.decompose import decompose
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.stages import Linear, Param, Signature
from tinygraft.uop.uop import UOp, toposort


def map_sink(build: Callable[..., UOp], dtypes_in: Sequence[DType], size: int) -> UOp:
    """The sink of a kernel that stores build(loads of its inputs) for each of size elements; slot 0 is the output."""
    r = UOp.range(size, 0)
    loads = [UOp(Ops.LOAD, d, (UOp(Ops.PARAM, d, (), ParamArg(i + 1, size)), r)) for i, d in enumerate(dtypes_in)]
    value = build(*loads)
    out = UOp(Ops.PARAM, value.dtype, (), ParamArg(0, size))
    return UOp(Ops.SINK, dtypes.void, (UOp(Ops.STORE, dtypes.void, (out, r, value)),))


def one_loop(name: str, sink: UOp, target: Target) -> Linear:
    """The linear form of a kernel with one loop or none, in the order of its nodes."""
    nodes = [u for u in toposort(sink) if u.op is not Ops.SINK]
    before = [u for u in nodes if not u.ranges and u.op is not Ops.RANGE]
    loop = [u for u in nodes if u.op is Ops.RANGE]
    inside = [u for u in nodes if u.ranges and u.op is not Ops.RANGE]
    ends = [UOp(Ops.END, dtypes.void, (r,)) for r in loop]
    written = {_memory(u.src[0]).arg.slot for u in nodes if u.op is Ops.STORE}
    slots = sorted((u for u in nodes if u.op is Ops.PARAM), key=lambda u: u.arg.slot)
    params = tuple(Param(u.dtype, u.arg.size, u.arg.slot in written) for u in slots)
    return Linear(name, (*before, *loop, *inside, *ends), Signature(params), target)


def _memory(node: UOp) -> UOp:
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node


def run_linear(backend: Backend, linear: Linear, buffers: Sequence[bytes],
               variables: Sequence[int] = (), grid: tuple[int, int, int] = (1, 1, 1)) -> list[bytes]:  # fmt: skip
    """The bytes of each buffer after a launch, by slot; buffers are what they hold before."""
    program = backend.load(backend.compiler.compile(backend.renderer.render(linear)))
    handles = []
    for data in buffers:
        handle = backend.allocator.alloc(max(len(data), 1))
        backend.allocator.copy_in(handle, memoryview(bytearray(data)))
        handles.append(handle)
    program.launch(handles, list(variables), grid)
    backend.synchronize()
    results = []
    for data, handle in zip(buffers, handles, strict=True):
        out = bytearray(len(data))
        backend.allocator.copy_out(memoryview(out), handle)
        results.append(bytes(out))
        backend.allocator.free(handle, len(data))
    return results


def pack(values: Sequence[Any], dtype: DType) -> bytes:
    """Values of dtype as memory."""
    return b"".join(raw_bits(v, dtype).to_bytes(dtype.itemsize, "little") for v in values)


def unpack(data: bytes, dtype: DType) -> list[Any]:
    """Memory as values of dtype."""
    n = dtype.itemsize
    return [from_bits(int.from_bytes(data[i : i + n], "little"), dtype) for i in range(0, len(data), n)]


def run_map(backend: Backend, build: Callable[..., UOp], inputs: Sequence[tuple[DType, Sequence[Any]]]) -> list[Any]:
    """build applied to inputs element by element on a backend, made ready for its Target by decompose."""
    size = len(inputs[0][1])
    sink = map_sink(build, [d for d, _ in inputs], size)
    out = sink.src[0].src[2].dtype
    linear = one_loop("map", decompose(sink, backend.target), backend.target)
    data = [bytes(size * out.itemsize), *(pack(v, d) for d, v in inputs)]
    return unpack(run_linear(backend, linear, data)[0], out)
