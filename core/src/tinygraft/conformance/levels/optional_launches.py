"""Launches: graphs of them, their time, symbolic sizes, and several ordinals of a device."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import xor

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.compare import same
from tinygraft.conformance.expressions import numbers
from tinygraft.conformance.gate import needs
from tinygraft.conformance.kernels import load, pack, param, programs, store, unpack
from tinygraft.conformance.linears import Build
from tinygraft.conformance.shared import chunked, counted, expected_chunked, far, in_place
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend, GraphExecutor, Handle, Step
from tinygraft.device.registry import Device
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array
from tinygraft.target import Target
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.stages import Kernel, Linear
from tinygraft.uop.uop import UOp

INT: DType
SIZE, INT = 37, dtypes.int32
SECONDS = 1e-3  # by which a clock may be off


def mapped(change: Callable[[UOp], UOp], size: int = SIZE) -> UOp:
    """Build the kernel out[i] = change(x[i])."""
    i = UOp.range(size, 0)
    return UOp(Ops.SINK, src=(store(param(0, INT, size), i, change(load(param(1, INT, size), i))),))


def counting() -> UOp:
    """Build the kernel out[i] = x[i] * n + a for i below n; a and n are variables."""
    a, n = UOp.variable("a", 0, 1000), UOp.variable("n", 0, SIZE)
    i = UOp.range(n, 0)
    value = load(param(1, INT, SIZE), i) * n.cast(INT) + a.cast(INT)
    return UOp(Ops.SINK, src=(store(param(0, INT, SIZE), i, value),))


def spinning(iterations: int) -> Linear:
    """Build a slow kernel: out[0] = 1, combined by XOR with x[0] + r for each iteration r."""
    b = Build("spinning", (INT, 1), (INT, 1))
    state = b.reg(0, UOp.const(INT, 1))
    r = b.range(iterations)
    b.accum(state, b.load(1, UOp.const(dtypes.index, 0)) + r.cast(INT), Ops.XOR)
    b.end(r)
    b.store(0, UOp.const(dtypes.index, 0), b.get(state))
    return b.done()


class BackendMemory:
    """Makes and reads buffers of whole numbers on a backend."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def make(self, values: Sequence[int]) -> Handle:
        """Return a new buffer with these values."""
        handle = self.backend.allocator.alloc(4 * len(values))
        self.backend.allocator.copy_in(handle, memoryview(bytearray(pack(values, INT))))
        return handle

    def read(self, handle: Handle, count: int = SIZE) -> list[int]:
        """Return the first `count` values of a buffer, after all that was launched before."""
        out = bytearray(4 * count)
        self.backend.allocator.copy_out(memoryview(out), handle)
        return unpack(bytes(out), INT)

    def see(self, handle: Handle) -> int:
        """Return the first element; through the host's view where there is one, without waiting."""
        view = self.backend.allocator.as_host(handle)
        return self.read(handle, 1)[0] if view is None else int.from_bytes(view[:4], "little", signed=True)


class Graph:
    """A captured list of launches, as TinyJit makes them: y = x + 1, z = y by a copy, w[i] = z[i] * n + a for i < n.

    Its places 0 to 3 are x, y, z and w.
    """

    backend: Backend
    memory: BackendMemory
    steps: int

    def __init__(self, backend: Backend, memory: BackendMemory) -> None:
        linears = [to_linear(Kernel(sink), backend.target) for sink in (mapped(lambda x: x + 1), counting())]
        add, count = programs(backend, linears)
        grids: list[tuple[sint, sint, sint]] = [linear.signature.grid for linear in linears]
        steps = [Step(add, (1, 0), grid=grids[0]), Step(None, (2, 1), nbytes=4 * SIZE, after=(0,)),
                 Step(count, (3, 2), linears[1].signature.variables, grids[1], after=(1,))]  # fmt: skip
        self.backend, self.memory, self.steps = backend, memory, len(steps)
        self.executor: GraphExecutor = backend.graph(steps)

    def give(self, buffers: Mapping[int, Handle]) -> None:
        """Set the buffers of places."""
        for place, handle in buffers.items():
            self.executor.set_buffer(place, handle)

    def run(self, n: int) -> None:
        """Run all steps with this value of n, and with a = n + 100; wait for them."""
        self.executor.set_values({"n": n, "a": n + 100})
        done = 0
        while done < self.steps:
            after = self.executor.run(done)
            assert done < after <= self.steps, f"run({done}) of {self.steps} steps returned {after} as the next one"
            done = after
        self.backend.synchronize()


def below(n: int, values: Sequence[int], before: int) -> list[int]:
    """Return what `counting` leaves of `values` in a buffer that was filled with `before`."""
    return [x * n + n + 100 if i < n else before for i, x in enumerate(values)]


class Launches:
    """Graphs, timing and symbolic sizes work on every device, by core's defaults or the plugin's own methods."""

    @pytest.fixture(scope="class")
    @classmethod
    def memory(cls, backend: Backend) -> BackendMemory:
        """Return what makes buffers on the device under test."""
        return BackendMemory(backend)

    def test_graph_runs_in_order(self, backend: Backend, memory: BackendMemory) -> None:
        """Each step sees what the steps before it wrote, a copy among them."""
        graph = Graph(backend, memory)
        buffers = {0: memory.make(range(SIZE))} | {place: memory.make([-1] * SIZE) for place in (1, 2, 3)}
        graph.give(buffers)
        graph.run(SIZE)
        plus = list(range(1, SIZE + 1))
        same([memory.read(buffers[p]) for p in (1, 2, 3)], [plus, plus, below(SIZE, plus, -1)])

    def test_graph_takes_other_values(self, backend: Backend, memory: BackendMemory) -> None:
        """A replay uses the values that were set last, also for the size of its grid."""
        graph = Graph(backend, memory)
        buffers = {0: memory.make(range(SIZE))} | {place: memory.make([-1] * SIZE) for place in (1, 2)}
        graph.give(buffers)
        for n in (SIZE, 5, 0, 1, 31):
            graph.give({3: (out := memory.make([-1] * SIZE))})
            graph.run(n)
            same(memory.read(out), below(n, range(1, SIZE + 1), -1), f"n = {n}")

    def test_graph_takes_other_buffers(self, backend: Backend, memory: BackendMemory) -> None:
        """A replay uses the buffers that were set last; earlier ones are not written."""
        graph = Graph(backend, memory)
        first = {place: memory.make([place] * SIZE) for place in range(4)}
        graph.give(first)
        graph.run(3)
        other, out = memory.make(range(100, 100 + SIZE)), memory.make([-1] * SIZE)
        graph.give({0: other, 3: out})
        graph.run(4)
        same(memory.read(first[0]), [0] * SIZE)
        same(memory.read(first[3]), below(3, [1] * SIZE, 3))
        same(memory.read(out), below(4, range(101, 101 + SIZE), -1))

    def test_graph_of_many_steps(self, backend: Backend, memory: BackendMemory) -> None:
        """Two hundred launches, each of which reads the result of the one before, run three times."""
        (add,) = programs(backend, [linear := to_linear(Kernel(mapped(lambda x: x + 1)), backend.target)])
        grid, after = linear.signature.grid, [(i - 1,) if i else () for i in range(200)]
        executor = backend.graph([Step(add, ((i + 1) % 2, i % 2), grid=grid, after=after[i]) for i in range(200)])
        a, b = memory.make(range(SIZE)), memory.make([0] * SIZE)
        executor.set_buffer(0, a)
        executor.set_buffer(1, b)
        for iteration in (1, 2, 3):
            executor.set_values({})
            done = 0
            while done < 200:
                done = executor.run(done)
            same(memory.read(a), [x + 200 * iteration for x in range(SIZE)])

    def test_time(self, backend: Backend, memory: BackendMemory) -> None:
        """A timed launch has run when it returns, took at most the time of the host's clock, and more for more work."""
        x, out = memory.make([7]), memory.make([0])
        short, long = 100, 200_000
        program = {count: one for count in (short, long) for one in programs(backend, [spinning(count)])}
        wanted = {count: reduce(xor, range(7, 7 + count), 1) for count in (short, long)}
        least = {short: math.inf, long: math.inf}
        for _ in range(500):  # on a busy machine any launch may take long, so each time counts that was ever reached
            for count in (short, long):
                start = time.perf_counter()
                found = backend.timed_launch(program[count], [out, x], [], (1, 1, 1))
                assert 0 <= found <= time.perf_counter() - start + SECONDS
                least[count] = min(least[count], found)
                assert memory.see(out) == wanted[count]
            if least[short] < least[long]:
                return
        pytest.fail(f"{short} iterations took {least[short]} s, and {long} {least[long]} s, the least of 500 launches")

    @needs(chunks=2)
    @pytest.mark.parametrize("size", [1, 2, 67])
    def test_parts(self, backend: Backend, memory: BackendMemory, target: Target, size: int) -> None:
        """A parallel loop is split into chunks, each of which is run, and each element is stored by one of them."""
        (program,) = programs(backend, [replace(chunked(size, 1000), target=target)])
        out = memory.make([-1] * size)
        program.launch([out], [7], (1, 1, 1))
        found = [value - 7000 for value in memory.read(out, size)]
        possible = [chunks for chunks in range(1, max(size, 2) + 1) if found == expected_chunked(chunks, size)]
        assert possible, (
            f"a parallel loop over {size} elements left {found}, which no number of chunks does: each chunk "
            "takes two numbers after the variables, its own (part) and how many there are (parts)"
        )
        assert size == 1 or possible[-1] > 1, (
            f"the Target says chunks={target.chunks}, and the whole loop was run as one chunk: launch a kernel whose "
            "signature is chunked once for each chunk, with (part, parts) after the variables, or leave chunks at 1"
        )

    @needs(chunks=2)
    def test_each_part_once(self, backend: Backend, memory: BackendMemory, target: Target) -> None:
        """No element of memory that is changed in place is changed by two chunks, alone or in a graph of launches."""
        (program,) = programs(backend, [replace(in_place(SIZE), target=target)])
        x, want = memory.make(range(SIZE)), [2 * i + 1 for i in range(SIZE)]
        program.launch([x], [], (1, 1, 1))
        same(memory.read(x), want)
        executor = backend.graph([Step(program, (0,)), Step(program, (0,), after=(0,))])
        executor.set_buffer(0, x)
        executor.set_values({})
        done = 0
        while done < 2:
            done = executor.run(done)
        same(memory.read(x), [4 * v + 3 for v in want])

    @pytest.mark.parametrize("most", [1, 37])
    def test_variable(self, backend: Backend, memory: BackendMemory, most: int) -> None:
        """A kernel of two variables, one of them the trip count of its loop, from 0 to the most."""
        (program,) = programs(backend, [counted(most)])
        for n in sorted({0, 1, most // 2, most}):
            x, out = memory.make(range(1, most + 1)), memory.make([-1] * most)
            program.launch([out, x], [5, n], (1, 1, 1))
            same(memory.read(out, most), [5 * (i + 1) if i < n else -1 for i in range(most)])

    def test_indices_have_64_bits(self, backend: Backend, memory: BackendMemory) -> None:
        """Variables, and what is computed from loop counters, are not truncated to 32 bits."""
        (program,) = programs(backend, [far(SIZE)])
        out = memory.make([-1] * SIZE)
        for v in (1 << 40, (1 << 31) + 5):
            program.launch([out], [v], (1, 1, 1))
            same(memory.read(out), [(v + i * 2**33) // 1000 % 1009 for i in range(SIZE)])

    @pytest.mark.parametrize("name", ["sum", "softmax", "product"])
    def test_symbolic(self, device: str, name: str) -> None:
        """A tensor of symbolic length has numpy's values, and one compiled kernel serves every length."""
        compute, want = SYMBOLIC[name]
        data = numbers(3, 130, seed=20)
        x, n = Tensor(data, device=device).realize(), UOp.variable("n", 1, 130)
        for number, length in enumerate((1, 2, 17, 129, 64)):
            GlobalCounters.reset()
            part = x.shrink(((0, 3), (0, n.bind(length))))
            np.testing.assert_allclose(compute(part).numpy(), want(data[:, :length]), rtol=2e-6)
            assert GlobalCounters.kernels_compiled == 0 or number == 0

    @needs("ordinals")
    @pytest.mark.parametrize("dtype", [dtypes.float32, dtypes.uint8], ids=("float32", "uint8"))
    def test_ordinals(self, device: str, dtype: DType) -> None:
        """A second ordinal is another backend; values are moved there, computed with, and moved back."""
        other = f"{device.partition(':')[0]}:{0 if device.endswith(':1') else 1}"
        assert Device[other] is Device[other]
        assert Device[other] is not Device[device]
        values = [v % 7 for v in range(SIZE)]
        x = Tensor(values, dtype=dtype, device=device)
        there = ((x + 1).to(other) * 2).realize()
        assert there.device == Device.canonicalize(other)
        same(there.tolist(), [2 * (v + 1) for v in values])
        same((there.to(device) + x).tolist(), [2 * (v + 1) + v for v in values])

    @needs("ordinals")
    def test_peers(self, backend: Backend, device: str, memory: BackendMemory) -> None:
        """A peer's bytes are copied when its kernels have written them, in both directions, repeatedly."""
        other = Device[f"{device.partition(':')[0]}:{0 if device.endswith(':1') else 1}"]
        there, launches = BackendMemory(other), []
        for one in (backend, other):
            (program,) = programs(one, [linear := to_linear(Kernel(mapped(lambda x: x + 1)), one.target)])
            x, y, z = (int(n) for n in linear.signature.grid)
            launches.append((program, (x, y, z)))
        here = [memory.make(range(SIZE)), memory.make([0] * SIZE)]
        away = [there.make([0] * SIZE), there.make([0] * SIZE)]
        for iteration in range(3):
            launches[0][0].launch([here[1], here[0]], [], launches[0][1])
            other.copy_from(away[0], backend, here[1], 4 * SIZE)
            launches[1][0].launch([away[1], away[0]], [], launches[1][1])
            backend.copy_from(here[0], other, away[1], 4 * SIZE)
            same(memory.read(here[0]), [v + 2 * (iteration + 1) for v in range(SIZE)])


def _softmax(x: Array) -> Array:
    """Return the softmax of rows, computed in float64."""
    e = np.exp((x - x.max(1, keepdims=True)).astype(np.float64))
    return np.asarray(e / e.sum(1, keepdims=True))


SYMBOLIC: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Array], Array]]] = {
    "sum": (lambda x: (x * 2 + 1).sum(1), lambda x: (x * 2 + 1).sum(1)),
    "softmax": (lambda x: (x.softmax() * x).sum(1), lambda x: (_softmax(x) * x).sum(1)),
    "product": (lambda x: x @ x.transpose(0, 1), lambda x: x @ x.T),
}
