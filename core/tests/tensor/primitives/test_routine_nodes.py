"""Routines under the methods: the same values and gradients as by kernels, one run for all results, TinyJit, vmap."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from tinygraft.engine import validate
from tinygraft.tensor.primitives.routine_nodes import has_routine
from tinygraft.transforms import vmap
from tinygraft.uop.held import is_stored
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

pytestmark = pytest.mark.needs("ext")
Values = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def cpu() -> Any:
    """The device that has routines."""
    with Context(DEV="CPU"):
        yield


def by_both(compute: Callable[[], Sequence[Tensor]]) -> list[tuple[Values, Values]]:
    """The values of tensors by routines and by kernels, with equal shapes and dtypes."""
    found = compute()
    with Context(ROUTINES=0):
        wanted = compute()
        assert not any(node.op is Ops.ROUTINE for t in wanted for node in toposort(t.uop))
        assert [(t.shape, t.dtype) for t in found] == [(t.shape, t.dtype) for t in wanted]
        return [(a.numpy(), b.numpy()) for a, b in zip(found, wanted, strict=True)]


def random(*shape: int) -> Values:
    """Numbers with ties."""
    return np.round(np.random.default_rng(sum(shape)).standard_normal(shape) * 4) / 4


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_along_any_axis(axis: int, descending: bool) -> None:
    """Values and indices, also of what is computed on the way."""
    x = Tensor(random(4, 5, 6).astype(np.float32)).realize()
    assert any(node.op is Ops.ROUTINE for node in toposort((x * 2).sort(axis, descending)[0].uop))
    for got, wanted in by_both(lambda: (x * 2).sort(axis, descending)):
        np.testing.assert_array_equal(got, wanted)
    for got, wanted in by_both(lambda: x.transpose(0, 2).topk(3, axis, largest=descending)):
        np.testing.assert_array_equal(got, wanted)


def test_gradients() -> None:
    """Those of values go to where they came from; those of factors are our formulas."""
    a, w = Tensor(random(4, 4) + 4 * np.eye(4), requires_grad=True), Tensor(random(4, 4))
    losses: dict[str, Callable[[], Tensor]] = {
        "sort": lambda: (a.sort(0, True)[0] * w).sum(),
        "topk": lambda: (a.topk(2)[0].square() * w[:, :2]).sum(),
        "cholesky": lambda: ((a @ a.T).cholesky() * w).sum(),
        "solve": lambda: (a.solve(w) * w).sum(),
        "lu": lambda: (a.lu_factor().LU * w).sum(),
        "qr": lambda: (a.qr()[1] * w).sum() + (a[:, :2].qr("reduced")[0] * w[:, :2]).sum(),
        "eigh": lambda: ((a + a.T).eigh().eigenvectors.square() * w).sum(),
        "svd": lambda: (a.svd()[1] * w[0]).sum() + (a.svd()[2].square() * w).sum(),
        "fft": lambda: (a.rfft().abs() * w[:, :3]).sum() + (a.fft().imag * w).sum() + (a.rfft().irfft(4) * w).sum(),
    }
    for name, loss in losses.items():
        found = []
        for setting in (1, 0):
            with Context(ROUTINES=setting):
                a.grad = None
                loss().backward()
                assert a.grad is not None
                found.append(a.grad.numpy())
        np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9, err_msg=name)


def test_a_tensor_that_is_two_operands() -> None:
    """Real and imaginary parts that are one tensor: its gradient has each part once."""
    w = Tensor(random(8))
    found = []
    for setting in (1, 0):
        with Context(ROUTINES=setting):
            x = Tensor(random(2, 8)[0], requires_grad=True)
            (gradient,) = (x.complex(x).fft().real * w).sum().gradient(x)
            found.append(gradient.numpy())
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-9)


def test_results_of_one_run() -> None:
    """All live results come from the run of the first that is requested."""
    x = Tensor(random(3, 8)).realize()
    values, indices = x.sort()
    before = GlobalCounters.kernel_count
    values.realize()
    np.testing.assert_array_equal(indices.numpy(), np.argsort(x.numpy(), kind="stable"))
    u, s, v = x.svd(full_matrices=False)
    np.testing.assert_allclose((u * s.unsqueeze(-2) @ v).numpy(), x.numpy(), atol=1e-12)
    assert is_stored(values.uop) and GlobalCounters.kernel_count - before <= 4


def test_a_value_is_its_own_memory() -> None:
    """What is written to a result reaches neither the operand nor other results."""
    x = Tensor(random(5)).realize()
    first, second = x.sort()[0].realize(), x.sort()[0]
    first[0] = 99.0
    assert second.max().item() < 99.0 and x.max().item() < 99.0
    later = x.sort()[0]
    x.assign(Tensor.zeros(5, dtype=x.dtype))
    np.testing.assert_array_equal(later.numpy(), second.numpy())


def test_in_replays_and_pickles() -> None:
    """Of TinyJit, with other arguments."""

    @TinyJit
    def step(x: Tensor) -> tuple[Tensor, ...]:
        y = (x * 2 + 1).realize()
        values, indices = y.topk(3)
        return (values + 1).realize(), indices.realize(), y.rfft().abs().realize()

    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((4, 16))
        values, indices, spectrum = step(Tensor(x).realize())
        order = np.argsort(-(x * 2 + 1))[:, :3]
        np.testing.assert_array_equal(indices.numpy(), order)
        np.testing.assert_allclose(values.numpy(), np.take_along_axis(x * 2 + 1, order, 1) + 1)
        np.testing.assert_allclose(spectrum.numpy(), np.abs(np.fft.rfft(x * 2 + 1)), atol=1e-12)
    again = pickle.loads(pickle.dumps(step))
    np.testing.assert_array_equal(again(Tensor(x).realize())[1].numpy(), order)


def test_vmap_makes_one_run_of_all_examples() -> None:
    """Also where an operand is the same for all."""
    x = Tensor(random(3, 4, 4) + 4 * np.eye(4)).realize()
    before = GlobalCounters.kernel_count
    np.testing.assert_allclose(vmap(lambda a: a.inv())(x).numpy(), np.linalg.inv(x.numpy()))
    assert GlobalCounters.kernel_count - before == 1
    found = vmap(lambda b: x[0].solve(b))(Tensor(random(5, 4)))
    np.testing.assert_allclose(found.numpy(), np.linalg.solve(x.numpy()[0], random(5, 4).T).T)
    np.testing.assert_array_equal(vmap(lambda a: a.sort(0)[0])(x).numpy(), np.sort(x.numpy(), 1))


def test_validate_evaluates_them() -> None:
    """With NumPy, and skips only what has no meaning there."""
    counts = validate.counts()
    outputs, skipped = counts.outputs, counts.skipped.total()
    x = Tensor(random(3, 4, 4).astype(np.float32) + 4 * np.eye(4, dtype=np.float32))
    with Context(VALIDATE=1):
        x.sort()[0].realize()
        x.inv().realize()
        (x @ x.transpose(1, 2)).cholesky().realize()
        x.rfft().abs().realize()
    assert counts.outputs > outputs + 3 and counts.skipped.total() == skipped


def test_what_is_left_to_kernels() -> None:
    """Sizes that are not known, no elements, several devices, a setting, a device without routines."""
    x = Tensor(random(6))
    assert has_routine(x, "sort") and not has_routine(x, "nothing") and not has_routine(Tensor([]), "sort")
    n = Variable("n", 1, 6).bind(4)
    assert not has_routine(Tensor(random(6))[:n], "sort")
    with Context(ROUTINES=0):
        assert not has_routine(x, "sort")
    assert not has_routine(x.to("PYTHON"), "sort") and not has_routine(x.to("NULL"), "sort")
    assert not has_routine(
        Tensor(random(6), device="NOSUCHDEVICE") if False else x.shard(("PYTHON:1", "PYTHON:2"), 0), "sort"
    )
    assert x.to("NULL").sort()[0].realize().shape == (6,)


def test_constants_are_stored_first() -> None:
    """They are no memory."""
    assert Tensor.full((4,), 3.0).sort()[1].tolist() == [0, 1, 2, 3]
    assert Tensor.arange(5).topk(2)[0].tolist() == [4, 3]
    assert Tensor.eye(2).inv().tolist() == [[1.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize("dtype", [dtypes.bool, dtypes.uint8, dtypes.int64, dtypes.float16, dtypes.bfloat16])
def test_unique_and_counts(dtype: Any) -> None:
    """By both, with inverse and counts."""
    x = Tensor(random(60) * 4).cast(dtype).realize()
    for got, wanted in by_both(lambda: x.unique(return_inverse=True, return_counts=True)):
        np.testing.assert_array_equal(got, wanted)
    for got, wanted in by_both(lambda: [x.cast(dtypes.float32).histc(7, -2, 2)]):
        np.testing.assert_array_equal(got, wanted)


def test_debug_names_the_routine(capsys: pytest.CaptureFixture[str]) -> None:
    """In the line of its launch."""
    with Context(DEBUG=2):
        Tensor(random(2, 9)).sort()[0].realize()
    assert "routine_sort_2_9" in capsys.readouterr().out
    assert Device["CPU"].target.routines
