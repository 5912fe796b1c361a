"""Whole programs: kernels that depend on each other, state that is changed in place, TinyJit, threads and training."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.config import Context
from tinygraft.conformance.compare import same
from tinygraft.conformance.expressions import numbers
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import SIZE, BackendMemory, mapped, spinning
from tinygraft.device.interfaces import Backend
from tinygraft.engine.arithmetic import Array
from tinygraft.jit import TinyJit
from tinygraft.nn.dense import Linear
from tinygraft.nn.optim import SGD, Adam, Optimizer
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

SPINS = 200_000  # iterations of a kernel that still runs when the next call is made
TRAINED = 1e-4  # how far a weight may be from PYTHON's after two steps, as a fraction of the greatest


class Net:
    """A network of two layers."""

    def __init__(self, device: str) -> None:
        chance = np.random.default_rng(30)
        with Context(DEV=device):  # there may be no other device
            self.layers: tuple[Linear, Linear] = Linear(6, 13), Linear(13, 4)
        for layer in self.layers:
            for weight in (layer.weight, layer.bias):
                assert weight is not None
                values = chance.uniform(-0.4, 0.4, weight.shape).astype(np.float32)
                weight.replace(Tensor(values, device=device, requires_grad=True))

    def parameters(self) -> list[Tensor]:
        """Return the weights that are trained."""
        return [weight for layer in self.layers for weight in (layer.weight, layer.bias) if weight is not None]

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the cross entropy of the outputs for `x` with the classes `y`."""
        return self.layers[1](self.layers[0](x).tanh()).sparse_categorical_crossentropy(y)


def trained(device: str, make: Callable[[list[Tensor]], Optimizer], jit: bool = False) -> list[Array]:
    """Train a Net with an optimizer that `make` makes. Returns its weights.

    It takes two steps, or four under TinyJit, so that it has captured and replayed.
    """
    net = Net(device)
    optimizer = make(net.parameters())

    def step(x: Tensor, y: Tensor) -> Tensor:
        """Take one step on a batch and return its loss, computed."""
        optimizer.zero_grad()
        loss = net.loss(x, y)
        loss.backward()
        optimizer.step()
        return loss.realize()

    with Tensor.train():
        run = TinyJit(step) if jit else step
        for i in range(4 if jit else 2):
            x = Tensor(numbers(7, 6, seed=40 + i), device=device).realize()
            run(x, Tensor(np.arange(7, dtype=np.int32) % 4, device=device).realize())
    return [weight.numpy() for weight in net.parameters()]


OPTIMIZERS: dict[str, Callable[[list[Tensor]], Optimizer]] = {
    "sgd": lambda weights: SGD(weights, lr=0.1, momentum=0.9),
    "adam": lambda weights: Adam(weights, lr=0.01),
}


class Runs:
    """Work on a device has the effect of running in order, whether launches wait or not."""

    @pytest.fixture(scope="class")
    @classmethod
    def memory(cls, backend: Backend) -> BackendMemory:
        """Return what makes buffers on the device under test."""
        return BackendMemory(backend)

    def test_dependent_kernels(self, backend: Backend, memory: BackendMemory) -> None:
        """A hundred launches without a wait, each on the result of the one before, have the right result."""
        (add,) = programs(backend, [linear := to_linear(Kernel(mapped(lambda x: x * 3 + 1)), backend.target)])
        x, y, z = (int(n) for n in linear.signature.grid)
        pair, want = [memory.make(range(SIZE)), memory.make([0] * SIZE)], list(range(SIZE))
        for iteration in range(100):
            add.launch([pair[(iteration + 1) % 2], pair[iteration % 2]], [], (x, y, z))
            want = [(v * 3 + 1 + 2**31) % 2**32 - 2**31 for v in want]
        same(memory.read(pair[0]), want)

    def test_reading_waits(self, backend: Backend, memory: BackendMemory) -> None:
        """copy_out returns what a slow kernel writes that was launched just before."""
        (slow,) = programs(backend, [spinning(SPINS)])
        x, out = memory.make([7]), memory.make([0])
        for first in (7, 8):
            backend.allocator.copy_in(x, memoryview(bytearray(first.to_bytes(4, "little"))))
            slow.launch([out, x], [], (1, 1, 1))
            assert memory.read(out, 1) == [spun(first)]

    def test_synchronize_waits(self, backend: Backend, memory: BackendMemory) -> None:
        """After synchronize() the result is in memory, also where the host reads it without a copy."""
        (slow,) = programs(backend, [spinning(SPINS)])
        x, out = memory.make([9]), memory.make([0])
        slow.launch([out, x], [], (1, 1, 1))
        backend.synchronize()
        assert memory.see(out) == spun(9)

    def test_writing_waits(self, backend: Backend, memory: BackendMemory) -> None:
        """copy_in does not change a buffer before a kernel that was launched earlier has read it."""
        (slow,) = programs(backend, [spinning(SPINS)])
        x, out, other = memory.make([3]), memory.make([0]), memory.make([0])
        slow.launch([out, x], [], (1, 1, 1))
        backend.allocator.copy_in(x, memoryview(bytearray((4).to_bytes(4, "little"))))
        slow.launch([other, x], [], (1, 1, 1))
        assert (memory.read(out, 1), memory.read(other, 1)) == ([spun(3)], [spun(4)])

    def test_memory_of_a_running_kernel(self, device: str) -> None:
        """Memory that is freed while a kernel may still read it is not overwritten before: each tensor is right."""
        x = Tensor(numbers(997, seed=31), device=device).realize()
        results = []
        for iteration in range(20):
            results.append(((x + iteration).realize() * 2).realize())
        data = numbers(997, seed=31)
        for iteration, got in enumerate(results):
            np.testing.assert_array_equal(got.numpy(), (data + iteration) * 2)

    def test_updates_in_place(self, device: str) -> None:
        """State that is assigned from its own value, in whole and in part, stays in the same memory."""
        state, want = Tensor(numbers(5, 7, seed=32), device=device).realize(), numbers(5, 7, seed=32)
        memory = state.uop.base.realized
        for iteration in range(6):
            state.assign(state * 2 - iteration).realize()
            want = want * 2 - iteration
            state[iteration % 5, 1:4] = state[(iteration + 1) % 5, 2:5] + 1
            state.realize()
            want[iteration % 5, 1:4] = want[(iteration + 1) % 5, 2:5] + 1
            np.testing.assert_array_equal(state.numpy(), want)
        assert state.uop.base.realized is memory

    def test_the_same_bits_again(self, device: str) -> None:
        """Sums and products of floats have the same bits however often they are computed."""
        chance = np.random.default_rng(33)
        x = Tensor(chance.standard_normal((13, 1009)).astype(np.float32), device=device).realize()
        found = {(x.sum(1).numpy().tobytes(), x.softmax().numpy().tobytes(), (x @ x.transpose(0, 1)).numpy().tobytes())
                 for _ in range(4)}  # fmt: skip
        assert len(found) == 1

    def test_jit_replays(self, device: str) -> None:
        """A function has the same values under TinyJit and without, for new inputs, changed state and a variable."""
        found = []
        for wrap in (TinyJit, lambda function: function):
            state = Tensor(np.zeros(9, np.float32), device=device).realize()

            def step(x: Tensor, part: Tensor, state: Tensor = state) -> tuple[Tensor, Tensor]:
                state.assign(state + x.sum(0))
                return ((x * state).cumsum(1) + 1).realize(), (part * 3).sum(1).realize()

            run, n, values = wrap(step), UOp.variable("n", 1, 9), []
            for i, length in enumerate((9, 4, 1, 7, 4, 9)):
                x = Tensor(numbers(4, 9, seed=50 + i), device=device).realize()
                a, b = run(x, x.shrink(((0, 4), (0, n.bind(length)))))
                values.append((a.numpy().tobytes(), b.numpy().tobytes(), state.numpy().tobytes()))
            found.append(values)
        same(found[0], found[1])

    def test_threads(self, device: str) -> None:
        """Threads that build, compile and launch at the same time each get their own results."""
        barrier, answers = threading.Barrier(4), {}

        def work(i: int) -> None:
            barrier.wait()
            answers[i] = [((Tensor.arange(50 + k, device=device) + i).contiguous() * 3).sum().item() for k in range(6)]

        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        want = {i: [3 * ((50 + k) * (49 + k) // 2 + i * (50 + k)) for k in range(6)] for i in range(4)}
        assert answers == want

    @pytest.mark.parametrize("jit", [False, True], ids=("plain", "jit"))
    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    def test_training(self, device: str, optimizer: str, jit: bool) -> None:
        """Steps of an optimizer on a small network leave PYTHON's weights, within TRAINED of the greatest."""
        want = trained("PYTHON", OPTIMIZERS[optimizer], jit)
        for mine, theirs in zip(trained(device, OPTIMIZERS[optimizer], jit), want, strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=TRAINED * np.abs(theirs).max())


def spun(first: int) -> int:
    """Return what `spinning` of SPINS iterations computes of `first`."""
    value = 1
    for i in range(SPINS):
        value ^= first + i
    return value
