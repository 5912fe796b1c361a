"""Graphs that grow: chains, many sources, endless lists, by their number in the list of findings (2.6)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, TinyJit, dtypes, vmap
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.rules.decompose import decompose
from tinygraft.target import Target
from tinygraft.uop.ops import ELEMENTWISE
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import postorder


def sizes(*tensors: Tensor) -> list[int]:
    """The elementwise instructions of each kernel of a schedule, counted once they are written out."""
    first, *others = tensors
    kernels = [call.kernel for call in first.schedule(*others) if isinstance(call, KernelCall)]
    written = [postorder(decompose(kernel.sink, Target())) for kernel in kernels]
    return [sum(node.op in ELEMENTWISE for node in nodes) for nodes in written]


def chain(step: Callable[[Tensor], Tensor], n: int) -> tuple[Tensor, Tensor]:
    """What n steps make of a tensor, summed, and its gradient."""
    x = Tensor([0.5, 0.25, 0.75], requires_grad=True)
    y = x
    for _ in range(n):
        y = step(y)
    return y, y.sum().gradient(x)[0]


STEPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sin": lambda y: y.sin(),
    "exp": lambda y: (-y).exp(),
    "pow": lambda y: (y + 1.5) ** 0.3,
    "tanh": lambda y: y.tanh() * 1.5,
    "erf": lambda y: y.erf() * 1.5,
    "lgamma": lambda y: (y * 0.1 + 3).lgamma(),
    "log1p": lambda y: y.log1p() + 0.1,
    "tan": lambda y: (y * 0.5).tan(),
    "sigmoid": lambda y: y.sigmoid() * 2,
    "products": lambda y: y * y * 0.5 + y,
    "branches": lambda y: y * 0.5 + (y + 1) * 0.25,
}


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.slow if n == "lgamma" else ()) for n in STEPS])
def test_2_6_backward_through_a_chain_is_linear(name: str) -> None:
    """All kernels together are at most four times what there is to compute, and none outgrows its compiler.

    Each piece of the way back computed the whole way forward again, and a sine counted as one instruction: 400 of them
    took 15 s, 2,000 did not end. Then tanh counted as one: 2,000 took 146 s."""
    n = 1000 if name in ("products", "branches") else 150
    value, gradient = chain(STEPS[name], n)
    found = sizes(value, gradient)
    assert max(found) <= 1.5 * Target().max_ops
    assert sum(found) <= 4 * n * sum(sizes(*chain(STEPS[name], 1)))


def test_2_6_the_values_of_a_long_chain() -> None:
    """They are those of NumPy."""
    x = np.array([0.5, 0.25, 0.75])
    y, slope = x, np.ones(3)
    for _ in range(100):
        y, slope = np.sin(y), slope * np.cos(y)
    found, gradient = chain(STEPS["sin"], 100)
    np.testing.assert_allclose(found.numpy(), y, rtol=1e-5)
    np.testing.assert_allclose(gradient.numpy(), slope, rtol=1e-4)


@pytest.mark.parametrize("kind", ["numbers", "memory", "rows"])
def test_2_6_a_cat_of_many_is_made_in_groups(kind: str) -> None:
    """Each kernel reads a few sources, as many as a device takes; the cat of 5,000 scalars took 51 s."""
    n = 100
    if kind == "numbers":
        parts = [Tensor(float(i)).reshape(1) for i in range(n)]
    elif kind == "memory":
        parts = [Tensor([float(i)]) for i in range(n)]
    else:
        parts = [Tensor([[float(i)] * 3] * 2) for i in range(n)]
    whole = Tensor.cat(*parts, dim=-1)
    calls = [call for call in whole.schedule() if isinstance(call, KernelCall)]
    assert max(len(call.buffers) for call in calls) <= Target().max_params
    assert len(calls) <= n / 8 + n / 64 + 4
    expected = np.concatenate([part.numpy() for part in parts], -1)
    np.testing.assert_array_equal(whole.numpy(), expected)
    np.testing.assert_array_equal((whole * 2 + 1).numpy(), expected * 2 + 1)


def test_2_6_gradients_of_a_cat_of_many() -> None:
    """Each source gets its part, of a sum of squares."""
    parts = [Tensor([float(i), 1.0], requires_grad=True) for i in range(30)]
    whole = Tensor.cat(*parts)
    (whole * whole).sum().backward()
    grads = [part.grad for part in parts if part.grad is not None]
    assert [grad.tolist() for grad in grads] == [[2.0 * i, 2.0] for i in range(30)]


def test_2_6_a_wide_cat_of_one_long_source_and_some_short_ones() -> None:
    """Groups are of any sizes, also of one and of none; half types and integers stay what they are."""
    lengths = [1000, 0, *[1] * 16, 3]
    for dtype in ("half", "int64"):
        parts = [Tensor.arange(n, dtype=dtype) for n in lengths]
        whole = Tensor.cat(*parts)
        assert whole.dtype is parts[0].dtype
        np.testing.assert_array_equal(whole.numpy(), np.concatenate([part.numpy() for part in parts]))


def endless() -> dict[str, Any]:
    """Lists, tuples and dicts that contain themselves."""
    alone: list[Any] = []
    alone.append(alone)
    wide: list[Any] = []
    wide += [[wide, wide], [wide, wide]]
    inside: tuple[Any, ...] = ([],)
    inside[0].append(inside)
    return {"alone": alone, "wide": wide, "inside": inside}


@pytest.mark.parametrize("name", endless())
def test_2_6_data_that_contains_itself(name: str) -> None:
    """`l = []; l.append(l); Tensor(l)` did not return, nor did its kin."""
    data, x = endless()[name], Tensor([1.0, 2.0])
    uses: list[Callable[[], Any]] = [
        lambda: Tensor(data),
        lambda: x + data,
        lambda: x[data],
        lambda: x.contiguous().assign(data),
        lambda: x.contiguous().__setitem__(0, data),
        lambda: x.gather(0, data),
        lambda: (x > 1).where(data, 1),
    ]
    for use in uses:
        with pytest.raises(ShapeError, match=r"^nested lists must end: data(\[0\])+ is a list that contains itself"):
            use()
    for use in (lambda: dtypes.from_py(data), lambda: Tensor.full((2,), data)):
        with pytest.raises(DTypeError, match="^nested lists must end, this one contains itself"):
            use()


def test_2_6_arguments_and_results_that_contain_themselves() -> None:
    """TinyJit and vmap look for the tensors in them."""
    x, itself = Tensor([1.0, 2.0]).realize(), dict[str, Any]()
    itself["again"] = itself
    for data in (*endless().values(), itself):
        uses: list[Callable[[], Any]] = [
            lambda data=data: TinyJit(lambda a: (x * 2).realize())(data),
            lambda data=data: TinyJit(lambda a: data)(x),
            lambda data=data: vmap(lambda a: a)(data),
        ]
        for use in uses:
            with pytest.raises(ValueError, match="^arguments and results must end, a (list|tuple|dict) among them"):
                use()
    shared = [x] * 20_000  # many, and no end missing
    assert TinyJit(lambda a: (a[0] * 2).realize())(shared).tolist() == [2.0, 4.0]


def test_2_6_deep_lists() -> None:
    """One within another is no reason to refuse."""
    data: Any = 7
    for _ in range(500):
        data = [data]
    assert (Tensor(data).shape, Tensor(data).item()) == ((1,) * 500, 7)
    assert math.prod(Tensor([data, data]).shape) == 2
    with Context(DEFAULT_INT="int64"):
        assert dtypes.from_py(data) is dtypes.int64
