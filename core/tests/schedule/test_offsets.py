"""Kernels that differ in where they read become one with arguments: values stay, and what may not be shared is not."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable, nn
from tinygraft.device.registry import Device
from tinygraft.engine import compile as compiling
from tinygraft.engine import plan
from tinygraft.engine.diskcache import clear as clear_disk
from tinygraft.schedule.schedule import schedule
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import postorder


@pytest.fixture(autouse=True)
def empty():
    """Each test starts without plans and kernels, on the PYTHON device."""
    plan.clear()
    compiling.clear()
    clear_disk()
    with Context(DEV="PYTHON"):
        yield
    plan.clear()
    compiling.clear()


LEAST = 4  # different kernels of one form that become one
X = np.arange(48, dtype=np.float32).reshape(8, 6) * 0.25 - 3


def held(values: np.ndarray) -> Tensor:
    """Values in memory."""
    return Tensor(values).realize()


def calls_of(*tensors: Tensor) -> list[KernelCall]:
    """The kernels of the schedule of some tensors."""
    made = schedule([tensor.uop for tensor in tensors], lambda name: Device[name].target)
    return [call for call in made.calls if isinstance(call, KernelCall)]


def sums(x: Tensor, rows: range) -> list[Tensor]:
    """A sum from each of some rows on, each in a kernel of its own."""
    return [(x[i : i + 1].sum(axis=1) * 2).contiguous() for i in rows]


def test_rows_of_a_loop_are_one_kernel() -> None:
    """Alone sums of different rows are kernels with a constant each; the steps of a loop share one."""
    x = held(X)
    calls = [calls_of(each)[0] for each in sums(x, range(1, 7))]
    assert len({call.kernel for call in calls}) == 6
    together = calls_of(loop(x, 8))
    assert len({call.kernel for call in together}) < LEAST < len(together)


def loop(x: Tensor, steps: int, stride: int = 1) -> Tensor:
    """A loop whose step i reads row i * stride of x."""
    y = x[0] * 0
    for i in range(steps):
        y = ((y + x[i * stride]).cumsum(axis=0) * 0.5).contiguous()
    return y


def numpy_loop(x: np.ndarray, steps: int, stride: int = 1) -> np.ndarray:
    """The same in NumPy."""
    y = x[0] * 0
    for i in range(steps):
        y = (np.cumsum(y + x[i * stride], dtype=np.float32) * np.float32(0.5)).astype(np.float32)
    return y


def test_more_steps_compile_no_more_kernels() -> None:
    """A loop of 8 steps compiles as many kernels as one of 6."""
    counts = []
    for steps in (6, 8):
        compiling.clear()
        plan.clear()
        clear_disk()
        before = GlobalCounters.kernels_compiled
        np.testing.assert_allclose(loop(held(X), steps).numpy(), numpy_loop(X, steps), rtol=1e-6)
        counts.append(GlobalCounters.kernels_compiled - before)
    assert counts[0] == counts[1] <= 4


def test_few_stay_constants() -> None:
    """Fewer than LEAST kernels of a form have their constants."""
    calls = calls_of(loop(held(X), LEAST - 1))
    assert not any(call.numbers for call in calls)


def test_numbers_count_in_the_greatest_step() -> None:
    """Rows two apart are 0, 1, 2 of an argument: what is known of alignment stays known."""
    calls = [call for call in calls_of(loop(held(np.vstack([X, X])), 8, 2)) if call.numbers]
    assert len({call.kernel for call in calls}) == 1
    assert sorted(value for call in calls for _, value in call.numbers) == list(range(len(calls)))
    (argument,) = [n for n in postorder(calls[0].kernel.sink) if n.op is Ops.VARIABLE]
    assert (argument.lo, argument.hi) == (0, len(calls) - 1)


def test_offsets_that_keep_their_distance_are_one_argument() -> None:
    """A step that reads rows i and i + 1 has one argument; one that reads i and 7 - i has two."""
    x = held(X)
    near, apart = x[0] * 0, x[0] * 0
    for i in range(7):
        near = (near + x[i] * x[i + 1]).cumsum(axis=0).contiguous()
        apart = (apart + x[i] * x[7 - i]).cumsum(axis=0).contiguous()
    for value, count in ((near, 1), (apart, 2)):
        counts = {len(call.numbers) for call in calls_of(value)}
        assert max(counts) == count
    want = X[0] * 0
    for i in range(7):
        want = np.cumsum(want + X[i] * X[7 - i], dtype=np.float32)
    np.testing.assert_allclose(apart.numpy(), want, rtol=1e-5)


def test_memory_that_is_written_keeps_constants() -> None:
    """A kernel that reads what it writes at another place is proved with constants, and has no argument."""
    x = held(X)
    for i in range(6):
        x[i + 1] = x[i] * 2
    assert not any(call.numbers for call in calls_of(x))
    want = X.copy()
    for i in range(6):
        want[i + 1] = want[i] * 2
    np.testing.assert_array_equal(x.numpy(), want)


def test_a_variable_of_the_program_may_have_the_name() -> None:
    """An argument has a name that no variable of the kernel has."""
    x, n = held(X), Variable("offset0", 1, 6)
    y = x[0] * 0
    for i in range(6):
        y = ((y + x[i]).cumsum(axis=0) * n.bind(3)).contiguous()
    want = X[0] * 0
    for i in range(6):
        want = np.cumsum(want + X[i], dtype=np.float32) * 3
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-5)


def test_loaded_indices_stay() -> None:
    """A load whose place is itself loaded is no offset; the load of that place may be one."""
    x, places = held(X.reshape(-1)), held(np.array([3, 1, 4, 1, 5, 9, 2, 6], np.int32))
    y = x[0] * 0
    for i in range(8):
        y = (y * 2 + x[places[i]]).contiguous()
    want = np.float32(0)
    for i in [3, 1, 4, 1, 5, 9, 2, 6]:
        want = want * 2 + X.reshape(-1)[i]
    np.testing.assert_allclose(y.numpy(), want, rtol=1e-6)


def test_a_replay_has_the_numbers_of_each_call() -> None:
    """Under TinyJit each step of an unrolled loop reads its own row, on new memory too, and after a pickle."""
    step = TinyJit(lambda x: loop(x, 8).realize())
    for scale in (1, 2, 3, 4):
        np.testing.assert_allclose(step(held(X * scale)).numpy(), numpy_loop(X * scale, 8), rtol=1e-6)
    assert step.captured == 1
    again = pickle.loads(pickle.dumps(step))
    np.testing.assert_allclose(again(held(X * 5)).numpy(), numpy_loop(X * 5, 8), rtol=1e-6)


def test_a_capture_sees_other_numbers() -> None:
    """Calls that launch one kernel with other numbers are not taken for the same: the rows come from outside."""
    first = [0]

    def run(x: Tensor) -> Tensor:
        return loop(x[first[0] :], 5).realize()

    step = TinyJit(run)
    found = []
    for start in (0, 1, 2, 3):
        first[0] = start
        found.append(step(held(X)).numpy())
    for start, value in enumerate(found):
        np.testing.assert_allclose(value, numpy_loop(X[start:], 5), rtol=1e-6)
    assert not step.captured


@pytest.mark.parametrize("layer", [nn.RNN, pytest.param(nn.GRU, marks=pytest.mark.slow)])
def test_equal_cells_are_one_form(layer) -> None:
    """A training step of a recurrent layer, in one schedule, compiles as many kernels for 12 steps as for 9."""
    with Context(DEV="NULL"), Tensor.train():
        counts = []
        for steps in (9, 12):
            plan.clear()
            compiling.clear()
            clear_disk()
            model = layer(4, 8)
            optimizer = nn.optim.Adam(nn.state.get_parameters(model))
            x = Tensor.empty(steps, 2, 4).realize()
            Tensor.realize(*nn.state.get_parameters(model))
            before = GlobalCounters.kernels_compiled
            output, _ = model(x)
            (output * output).mean().backward()
            first, *others = optimizer.schedule_step()
            first.realize(*others)
            counts.append(GlobalCounters.kernels_compiled - before)
    assert counts[1] <= counts[0] + 2, counts
