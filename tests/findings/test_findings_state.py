"""Findings 1.1 to 1.7, 1.13, 2.1 and 2.2: stores, views, shards, gradients and failures, as they were found.

Each was a wrong number, or an error where there is none. The rules behind them have their own tests in tests/pipeline.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from failures import failing
from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, nn

D = ("CPU", "CPU:1")
LANES = {
    "CPU": {"DEV": "CPU"}, "C": {"DEV": "CPU", "CPU_COMPILER": "c"}, "NOOPT": {"DEV": "CPU", "NOOPT": 1},
    "PYTHON": {"DEV": "PYTHON"}, "OPENCL": {"DEV": "OPENCL"},
}  # fmt: skip


@pytest.fixture(params=[pytest.param(lane, marks=pytest.mark.needs(need) if need else ()) for lane, need in (
    ("CPU", ""), ("C", "cc"), ("NOOPT", ""), ("PYTHON", ""), ("OPENCL", "opencl"),
)])  # fmt: skip
def lane(request: pytest.FixtureRequest):
    """Each device and way of compiling on which the finding was seen."""
    with Context(**LANES[request.param]):
        yield request.param


def test_1_1_coupled_stores(lane: str) -> None:
    """a and m read each other's old values and b."""
    a, m, b = [Tensor(v).realize() for v in ([1.0, 2.0], [0.0, 0.0], [1.0])]
    nm = m + a * 2
    bt = b * 0.5
    m.assign(nm)
    a.assign(a - nm / bt)
    b.assign(bt)
    a.realize(b, m)
    assert (m.tolist(), a.tolist(), b.tolist()) == ([2.0, 4.0], [-3.0, -6.0], [0.5])


@pytest.mark.parametrize("jitted", [False, True])
def test_1_1_adam_on_cubes(lane: str, jitted: bool) -> None:
    """Three steps from [1, 2, -.5], beside the same steps in float64."""
    p = Tensor([1.0, 2.0, -0.5]).realize()
    optimizer = nn.optim.Adam([p], lr=0.1)

    def step() -> Tensor:
        with Tensor.train():
            optimizer.zero_grad()
            loss = (p * p * p).sum().backward()
            optimizer.step()
            return loss.realize()

    run: Callable[[], Tensor] = TinyJit(step) if jitted else step
    x, m, v = np.array([1.0, 2.0, -0.5]), np.zeros(3), np.zeros(3)
    for t in range(1, 6):
        run()
        grad = 3 * x * x
        m, v = 0.9 * m + 0.1 * grad, 0.999 * v + 0.001 * grad * grad
        x = x - 0.1 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        np.testing.assert_allclose(p.numpy(), x, rtol=2e-6, atol=1e-6)


def test_1_1_momentum_and_decay_on_two_layers(lane: str) -> None:
    """Ten steps of SGD(momentum .9, weight_decay 1e-2), beside the same steps in float64."""
    generator = np.random.default_rng(3)
    x = generator.standard_normal((5, 4)).astype(np.float32)
    given = [generator.standard_normal(shape).astype(np.float32) * 0.5 for shape in ((4, 6), (6, 1))]
    w = [Tensor(value).realize() for value in given]
    optimizer = nn.optim.SGD(w, lr=0.05, momentum=0.9, weight_decay=1e-2)
    first, second = (value.astype(np.float64) for value in given)
    moving = [np.zeros_like(first), np.zeros_like(second)]
    for _ in range(10):
        with Tensor.train():
            optimizer.zero_grad()
            ((Tensor(x) @ w[0]).tanh() @ w[1]).square().mean().backward()
            optimizer.step()
        hidden = np.tanh(x @ first)
        slope = 2 / 5 * (hidden @ second)
        grads = [x.T @ (slope @ second.T * (1 - hidden**2)), hidden.T @ slope]
        for i, (value, grad) in enumerate(zip((first, second), grads, strict=True)):
            moving[i] = 0.9 * moving[i] + grad + 1e-2 * value
            value -= 0.05 * moving[i]
    np.testing.assert_allclose(w[0].numpy(), first, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(w[1].numpy(), second, rtol=1e-4, atol=1e-5)


def _in_place(t: Tensor) -> None:
    v = t[:2]
    v += 1


def _element(t: Tensor) -> None:
    t[0][1] = 5


def _turned(t: Tensor) -> None:
    t.T[1, 0] = 5


def _detached(t: Tensor) -> None:
    t.detach()[0, 1] = 5


WRITES: dict[str, tuple[Callable[[Tensor], object], Callable[[np.ndarray], object]]] = {
    "slice": (lambda t: t[0:1].assign(Tensor([[7.0, 8.0, 9.0]])), lambda a: a.__setitem__(0, [7, 8, 9])),
    "element": (_element, lambda a: a.__setitem__((0, 1), 5)),
    "transpose": (_turned, lambda a: a.T.__setitem__((1, 0), 5)),
    "shrink": (
        lambda t: t.shrink(((1, 3), (0, 2))).assign(Tensor([[1.0, 2.0], [3.0, 4.0]])),
        lambda a: a.__setitem__((slice(1, 3), slice(0, 2)), [[1, 2], [3, 4]]),
    ),
    "detach": (_detached, lambda a: a.__setitem__((0, 1), 5)),
    "bitcast": (
        lambda t: t.bitcast("int32").assign(Tensor.ones(3, 3, dtype="int32")),
        lambda a: a.view(np.int32).__setitem__(slice(None), 1),
    ),
    "in place": (_in_place, lambda a: a.__setitem__(slice(0, 2), a[:2] + 1)),
    "diagonal": (
        lambda t: t.diagonal().assign(Tensor([1.0, 2.0, 3.0])), lambda a: np.fill_diagonal(a, [1.0, 2.0, 3.0])
    ),
}  # fmt: skip


@pytest.mark.parametrize("realized", [True, False])
@pytest.mark.parametrize("name", WRITES)
def test_1_2_a_write_through_a_view_reaches_its_base(name: str, realized: bool) -> None:
    """As in NumPy, whether the base lies in memory or is yet to be computed."""
    ours, theirs = WRITES[name]
    expected = np.arange(9, dtype=np.float32).reshape(3, 3)
    t = Tensor(expected.copy()) if realized else Tensor.arange(9).cast("float32").reshape(3, 3)
    if realized:
        t.realize()
    ours(t)
    theirs(expected)
    np.testing.assert_array_equal(t.numpy(), expected)


def test_1_3_shards_that_are_not_computed_yet() -> None:
    """One part is the whole source; a sum from before the write; an addition that is done once."""
    src = Tensor([1, 2, 3, 4]).realize()
    u = src.shard(D)
    u[0] = 9
    u.realize()
    assert (src.tolist(), u.tolist()) == ([1, 2, 3, 4], [9, 2, 3, 4])

    t = Tensor([1, 2, 3, 4]).shard(D)
    s = t.sum()
    t[0] = 100
    assert (t.tolist(), s.item()) == ([100, 2, 3, 4], 10)

    t = Tensor([1, 2, 3, 4]).shard(D)
    t[0:2] += 1
    assert t.tolist() == t.tolist() == [2, 3, 3, 4]


FUNCTIONS: dict[str, tuple[Callable[[Tensor], Tensor], list[int] | list[bool] | list[float], str]] = {
    **{f"{name} of {dtype}": (lambda t, name=name: getattr(t, name)(), [1, 0, 1], dtype)
       for name in ("floor", "ceil", "trunc", "round") for dtype in ("int32", "bool")},
    "abs of bool": (lambda t: t.abs(), [1, 0, 1], "bool"),
    "abs of uint": (lambda t: t.abs(), [1, 2, 3], "uint32"),
    "roll by 0": (lambda t: t.roll(0), [1.0, 2.0, 3.0], "float32"),
    "dropout in evaluation": (lambda t: t.dropout(0.5), [1.0, 2.0, 3.0], "float32"),
    "at least one axis": (lambda t: t.atleast_1d(), [1.0, 2.0, 3.0], "float32"),
    "plus": (lambda t: +t, [1.0, 2.0, 3.0], "float32"),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_1_4_values_are_never_the_input(name: str) -> None:
    """A write to the result leaves what it was computed from."""
    function, data, dtype = FUNCTIONS[name]
    x = Tensor(data, dtype=dtype).realize()
    before = x.tolist()
    y = function(x)
    y[0] = 0
    assert (x.tolist(), y.tolist()) == (before, [0, *before[1:]])


WRITTEN: dict[str, Callable[[Tensor], object]] = {
    "assign": lambda x: x.assign(Tensor([0.0, 0.0])).realize(),
    "setitem": lambda x: x.__setitem__(slice(None), 0),
    "in place": lambda x: x.__imul__(0),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_1_5_the_gradient_after_a_later_write(name: str) -> None:
    """It is that of the values which were multiplied."""
    a = Tensor([2.0, 3.0], requires_grad=True)
    x = Tensor([5.0, 7.0]).realize()
    b = a * x
    WRITTEN[name](x)
    b.sum().backward()
    assert (a.grad.tolist(), x.tolist()) == ([5.0, 7.0], [0.0, 0.0])


@pytest.mark.parametrize("kind", ["memory", "press"])
def test_1_6_a_failure_between_coupled_assigns(kind: str, ctrl_c: None) -> None:
    """b is never computed from the new a."""
    for number in range(20):
        a, b = Tensor([[1.0], [2.0]]).realize(), Tensor([10.0, 20.0]).realize()
        na = a + b.reshape(2, 1)
        nb = (a.reshape(2, 1) * Tensor.ones(1, 3)).contiguous().sum(1) + b
        a.assign(na)
        b.assign(nb)
        with Context(DEV="CPU"), failing(kind, number, "CPU") as failure:
            try:
                Tensor.realize(a, b)
            except (MemoryError, KeyboardInterrupt):
                assert failure.has_happened
        assert (a.flatten().tolist(), b.tolist()) in (([11.0, 22.0], [13.0, 26.0]), ([1.0, 2.0], [10.0, 20.0]))
        if not failure.has_happened:
            return
    raise AssertionError("it never came to an end")


def test_1_7_index_put_into_nothing() -> None:
    """The slice is empty on an axis of length 1: nothing is written."""
    t = Tensor([[0, 1, 2, 3, 4, 5]])
    found = t.index_put((slice(1, None), Tensor([3, 4])), Tensor(99))
    assert (found if found is not None else t).tolist() == t.tolist() == [[0, 1, 2, 3, 4, 5]]


def test_1_13_gradients_at_ties() -> None:
    """std of equal values has none, each of two equal values has half, and integers have no gradient at all."""
    x = Tensor([3.0, 3.0, 3.0], requires_grad=True)
    x.std().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]

    x, y = (Tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    x.maximum(y).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [0.5, 0.5]

    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(Exception, match="int") as caught:
        (x * 2).sum().gradient(Tensor([1, 2]))
    assert not isinstance(caught.value, AttributeError)


def test_2_1_a_value_is_turned_in_its_own_memory() -> None:
    """x[::-1] = x, where a view of x lives."""
    x = Tensor([5, 3, 4]).realize()
    y = x.flip(0)
    x[::-1] = x
    assert (x.tolist(), y.tolist()) == ([4, 3, 5], [5, 3, 4])


def test_2_2_after_a_step_without_room() -> None:
    """What the failed batch took is given back, the weights are read, and a smaller batch trains."""
    w = Tensor(np.eye(8, dtype=np.float32)).realize()
    optimizer = nn.optim.SGD([w], lr=0.125)

    def step(rows: int) -> None:
        with Tensor.train():
            optimizer.zero_grad()
            (Tensor.ones(rows, 8).contiguous() @ w).contiguous().sum().backward()
            optimizer.step()

    with Context(DEV="CPU"):
        step(2)
        before, held = w.tolist(), GlobalCounters.mem_used
        with failing("memory", 0, "CPU", lasts=1000), pytest.raises(MemoryError):
            step(1 << 20)  # more than temporaries of other tests have left
        optimizer.zero_grad()
        Device.empty_cache()
        assert w.tolist() == before
        assert GlobalCounters.mem_used <= held
        step(1)
        assert math.isclose(w[0, 0].item(), before[0][0] - 0.125)
