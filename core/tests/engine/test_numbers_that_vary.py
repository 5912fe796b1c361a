"""What a script may write with a number that changes: 30 of them compile twice at most, and give the bits of constants.

Each row of ROWS is an expression of `i`, from 0 to 29. The results are compared with those of kernels that have the
number as a constant, bit by bit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from general_road import plans_made, without_plans
from tinygraft import Tensor, dtypes
from tinygraft.engine import plan

R = np.random.default_rng(0)
X = R.standard_normal((4, 6)).astype(np.float32)
Y = R.standard_normal((4, 6)).astype(np.float32)
N = R.integers(-100, 100, (4, 6)).astype(np.int32)
V = R.standard_normal(64).astype(np.float32)


class Held:
    """Values in memory, made once on the device of the tests."""

    x: Tensor
    y: Tensor
    positive: Tensor
    n: Tensor
    long: Tensor
    bytes_: Tensor
    v: Tensor
    b: Tensor
    rows: Tensor
    labels: Tensor
    half: Tensor


H = Held()


@pytest.fixture(autouse=True)
def held():
    """The tests start without plans, on the PYTHON device."""
    with without_plans():
        for name, data in {
            "x": X, "y": Y, "positive": np.abs(X) + 0.5, "n": N, "long": N.astype(np.int64) * 1000,
            "bytes_": (N + 100).astype(np.uint8), "v": V, "b": X > 0, "rows": np.abs(N[:2]) % 4,
            "labels": np.array([0, 5, 2, 1], np.int32), "half": X.astype(np.float16),
        }.items():  # fmt: skip
            setattr(H, name, Tensor(data).realize())
        yield
        vars(H).clear()


def f(i: int) -> float:
    """A number that is not whole."""
    return 0.1 + i * 0.37


def gradient(function: Callable[[Tensor], Tensor], data: np.ndarray = X) -> Tensor:
    """The gradient of a sum of what `function` returns."""
    t = Tensor(data, requires_grad=True).realize()
    function(t).sum().backward()
    assert t.grad is not None
    return t.grad


def positions(rows: int, columns: int) -> tuple[Tensor, Tensor]:
    """Positions along two axes."""
    return Tensor.arange(rows).reshape(rows, 1), Tensor.arange(columns).reshape(1, columns)


ROWS: dict[str, Callable[[int], Any]] = {
    # powers
    "x ** f": lambda i: H.positive ** f(i),
    "x ** i": lambda i: H.positive ** (i + 2),
    "x ** -i": lambda i: H.positive ** (-i - 2),
    "sum of x ** i": lambda i: (H.positive ** (i + 2)).sum(),
    "f ** x": lambda i: f(i) ** H.x,
    "n ** i": lambda i: H.n ** (i + 2),
    "i ** n": lambda i: i ** (H.n % 5),
    "gradient of x ** f": lambda i: gradient(lambda t: t ** f(i), np.abs(X) + 0.5),
    "gradient of x ** i": lambda i: gradient(lambda t: t ** (i + 3)),
    "norm": lambda i: H.x.norm(2.33 + i * 0.1, 1),
    # integers
    "n % i": lambda i: H.n % (i - 12),
    "n // i": lambda i: H.n // (i - 12),
    "i % n": lambda i: i % H.n,
    "i // n": lambda i: i // H.n,
    "bytes % i": lambda i: H.bytes_ % (i + 1),
    "long // i": lambda i: H.long // (i + 1),
    "n.div(i, trunc)": lambda i: H.n.div(i + 1, rounding_mode="trunc"),
    "n.fmod": lambda i: H.n.fmod(i + 1),
    "n << i": lambda i: H.n << i,
    "n >> i": lambda i: H.n >> i,
    "i << n": lambda i: i << (H.n % 8),
    "n & i": lambda i: H.n & i,
    "hash": lambda i: ((H.long ^ i) * 31) % (i + 7),
    # division of floats
    "x % f": lambda i: H.x % f(i),
    "x // f": lambda i: H.x // f(i),
    "fmod": lambda i: H.x.fmod(f(i)),
    # masks of positions
    "tril": lambda i: H.x.tril(i % 10 - 4),
    "triu": lambda i: H.x.triu(i % 10 - 4),
    "mask of ones": lambda i: Tensor.ones(5, 7).tril(i % 12 - 5).contiguous(),
    "masked_fill of a triangle": lambda i: H.x.masked_fill(Tensor.ones(4, 6, dtype=dtypes.bool).triu(i % 9 - 3), -9.0),
    "window": lambda i: (positions(4, 6)[0] - positions(4, 6)[1] < i - 5).where(H.x, 0),
    "arange < i": lambda i: (Tensor.arange(6) < i).where(H.x, 0),
    "arange == i": lambda i: Tensor.arange(6) == i,
    # values that are made
    "full": lambda i: Tensor.full((4, 6), f(i)).contiguous(),
    "full of integers": lambda i: Tensor.full((4, 6), i).contiguous(),
    "ones * i": lambda i: (Tensor.ones(4, 6) * i).contiguous(),
    "arange from i": lambda i: Tensor.arange(i, i + 16),
    "arange by i": lambda i: Tensor.arange(0, 8 * (i + 2), i + 2),
    "arange of floats": lambda i: Tensor.arange(f(i), f(i) + 7.5),
    "arange * f": lambda i: Tensor.arange(8) * f(i),
    "sin of arange * f": lambda i: (Tensor.arange(8) * f(i)).sin(),
    "linspace": lambda i: Tensor.linspace(f(i), f(i) * 2, 9),
    "logspace": lambda i: Tensor.logspace(0, f(i) / 4, 5),
    "eye * f": lambda i: Tensor.eye(5) * f(i),
    "x + eye * f": lambda i: H.x[:4, :4] + Tensor.eye(4) * f(i),
    "rope": lambda i: H.x * ((Tensor.arange(6) + i).float() * 0.1).cos(),
    "one_hot": lambda i: Tensor([i % 5]).one_hot(5),
    # joined and scattered
    "cat": lambda i: H.x.cat(Tensor.full((1, 6), f(i))),
    "stack": lambda i: Tensor.stack(Tensor(f(i)), Tensor(1.0)),
    "pad with a value": lambda i: H.x.pad(((1, 1), (0, 0)), value=f(i)),
    "scatter": lambda i: H.x.scatter(0, H.rows, f(i)),
    "gather": lambda i: H.x.gather(1, Tensor.full((4, 1), i % 6)),
    "roll": lambda i: H.v.roll(i),
    "slice": lambda i: H.v[i : i + 8] * 2,
    "pick": lambda i: H.v[[i, i + 1, i + 2]],
    # elementwise
    "where": lambda i: H.b.where(f(i), -f(i)),
    "masked_fill": lambda i: H.x.masked_fill(H.b, f(i)),
    "clamp": lambda i: H.x.clamp(-f(i), f(i)),
    "leaky_relu": lambda i: H.x.leaky_relu(f(i) / 10),
    "elu": lambda i: H.x.elu(f(i)),
    "softplus": lambda i: H.x.softplus(f(i)),
    "copysign": lambda i: H.x.copysign(f(i) - 3),
    "lerp": lambda i: H.x.lerp(H.y, f(i) / 12),
    "isclose": lambda i: H.x.isclose(H.y, rtol=f(i), atol=f(i) / 10),
    "half": lambda i: H.half * f(i),
    "huber": lambda i: H.x.huber_loss(H.y, delta=f(i)),
    "layernorm": lambda i: H.x.layernorm(eps=f(i) * 1e-5),
    "temperature": lambda i: (H.x / f(i)).softmax(),
    "quantile": lambda i: H.x.quantile(i / 31, 1),
    # 0 and 1 beside sums
    "sum of x * i": lambda i: (H.x * i).sum(),
    "mean + i": lambda i: H.x.mean() + i,
    "argmax + i": lambda i: H.x.argmax(1) + i,
    "sum over an axis": lambda i: (H.x * (i - 1)).sum(1),
    "count": lambda i: (H.n == i).sum(),
}


@pytest.mark.parametrize("name", ROWS)
def test_30_numbers_compile_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few plans are made, and each result has the bits of one with constants."""
    made = plans_made(monkeypatch)
    compute = ROWS[name]
    gradient(lambda t: t * t, np.abs(X) + 0.5)  # what all gradients need is compiled
    Tensor([0]).realize()
    del made[:]
    found = [compute(i).numpy() for i in range(30)]
    assert len(made) <= 2
    for i in (0, 1, 2, 7, 29):
        plan.clear()
        alone = compute(i).numpy()
        assert (alone.dtype, alone.shape) == (found[i].dtype, found[i].shape)
        assert alone.tobytes() == found[i].tobytes(), i
