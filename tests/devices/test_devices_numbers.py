"""Random expressions with Python numbers: kernels that take these as arguments give the bits that constants give.

The same expression is computed with four sets of numbers, so that the later ones are arguments, and then with each set
alone, so that it is constant. Each lane is a device or a setting: LLVM, C, the interpreter, no optimisation.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from tinygraft import Context, Device, Tensor, dtypes
from tinygraft.dtype import DType
from tinygraft.engine import plan

DTYPES = (
    dtypes.float32, dtypes.float64, dtypes.float16, dtypes.bfloat16, dtypes.int32, dtypes.int8, dtypes.uint8,
    dtypes.uint64,
)  # fmt: skip
POOL = (0.0, 1.0, -1.0, 2.0, 0.5, -0.0, float("inf"), 1e-40, 3.7, -2.25, 100.0)
Step = Callable[[Tensor, float, int], Tensor]  # of a value, a number that it can hold, and a place on its first axis
STEPS: dict[str, Step] = {
    "add": lambda x, value, at: x + value,
    "mul": lambda x, value, at: x * value,
    "rsub": lambda x, value, at: value - x,
    "div": lambda x, value, at: x / value,
    "max": lambda x, value, at: x.maximum(value),
    "less": lambda x, value, at: (x < value).where(x, x + x),
    "where": lambda x, value, at: (x < x.flip(0)).where(x, value),
    "slice": lambda x, value, at: x[at % (x.shape[0] // 2 + 1) :][: x.shape[0] // 2],
    "row": lambda x, value, at: x[at],
    "pad": lambda x, value, at: x.pad(((1, 2),) * x.ndim),
    "exp": lambda x, value, at: (x * 0.01).exp(),
    "sum": lambda x, value, at: x.sum(-1),
    "mean": lambda x, value, at: x.mean(0),
    "cumsum": lambda x, value, at: x.cumsum(0),
    "T": lambda x, value, at: x.T,
    "matmul": lambda x, value, at: x @ x.T if x.ndim == 2 else x,
    "softmax": lambda x, value, at: x.softmax(-1),
    "cat": lambda x, value, at: x.cat(x * value),
    "write": lambda x, value, at: written(x, value, at),
    "power": lambda x, value, at: x**value if x.dtype.kind == "float" else x ** abs(value),
    "whole power": lambda x, value, at: x ** (at + 2),
    "remainder": lambda x, value, at: x % value,
    "quotient": lambda x, value, at: x // value,
    "shift": lambda x, value, at: x if x.dtype.kind == "float" else (x << at) ^ (x >> at),
    "triangle": lambda x, value, at: x.tril(at - 2) if x.ndim == 2 else x,
    "positions": lambda x, value, at: (
        x + Tensor.arange(at, at + x.shape[0], dtype=x.dtype).reshape(-1, *[1] * (x.ndim - 1))
    ),
    "full": lambda x, value, at: x.cat(x.full_like(value).contiguous().realize()),
}
REAL = {"div", "exp", "mean", "matmul", "softmax"}
# of several operations, in which a compiler may choose which of two NaN, or of which sign, becomes the result
SEVERAL = {"power", "remainder", "quotient"}
LANES = {
    "llvm": {"DEV": "CPU"},
    "c": {"DEV": "CPU:7"},
    "interpreter": {"DEV": "PYTHON"},
    "noopt": {"DEV": "CPU", "NOOPT": 1},
}


def bits(x: Tensor) -> bytes:
    """The bytes of a value."""
    return x.bitcast({1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}[x.dtype.itemsize]).numpy(
    ).tobytes()  # fmt: skip


def written(x: Tensor, value: float, at: int) -> Tensor:
    """A copy in memory with another value at a place."""
    x = x.contiguous().realize()
    x[at] = value
    return x


def step(x: Tensor, name: str, number: float) -> Tensor:
    """One step of an expression; one that does not fit the tensor gives it back."""
    real, finite = x.dtype.kind == "float", np.isfinite(number)
    value = number if real else int(abs(number)) % 100 if finite else 3
    if not x.ndim or x.shape[0] < 2 or (name in REAL and not real) or (name == "cumsum" and x.dtype.itemsize == 1):
        return x + value
    return STEPS[name](x, value, int(abs(number) * 7) % x.shape[0] if finite else 0)


def compute(seed: int, numbers: list[float]) -> bytes:
    """The value of the expression of a seed, with these numbers."""
    rng = random.Random(seed)
    dtype, shape = rng.choice(DTYPES), (rng.choice((1, 5, 16, 33)), rng.choice((1, 3, 8, 17)))
    values = np.random.default_rng(seed).standard_normal(shape) * 3
    x = Tensor((np.abs(values * 10) if dtype.kind == "uint" else values).astype(np.float32)).cast(dtype).realize()
    names = rng.choices(list(STEPS), k=rng.randint(1, 5))
    for name, number in zip(names, numbers, strict=False):
        x = step(x, name, number)
    if x.dtype.kind == "float" and not SEVERAL.isdisjoint(names):
        x = x.isnan().where(float("nan"), x)
    return bits(x)


@pytest.mark.parametrize(
    ("lane", "seeds"),
    [("llvm", 20), pytest.param("c", 4, marks=pytest.mark.needs("cc")), ("interpreter", 20), ("noopt", 12)],
)
def test_arguments_give_the_bits_of_constants(lane, seeds, monkeypatch):
    """For every set of numbers, and with fewer schedules than there are sets."""
    if lane == "c":
        with Context(CPU_COMPILER="c"):
            assert Device[LANES[lane]["DEV"]].compiler_name == "c"
    made = []
    real = plan.shown_schedule
    monkeypatch.setattr(plan, "shown_schedule", lambda outputs: made.append(1) or real(outputs))
    fewer = 0
    with Context(CACHELEVEL=0, **LANES[lane]):
        for seed in range(1000 * list(LANES).index(lane), 1000 * list(LANES).index(lane) + seeds):
            rng = random.Random(-seed - 1)
            sets = [
                [rng.choice(POOL) if rng.random() < 0.5 else rng.uniform(-5, 5) for _ in range(5)] for _ in range(4)
            ]
            plan.clear()
            made.clear()
            found = [compute(seed, numbers) for numbers in sets]
            together = len(made)
            made.clear()
            for numbers, each in zip(sets, found, strict=True):
                plan.clear()
                assert compute(seed, numbers) == each, (seed, numbers)
            fewer += together < len(made)
    plan.clear()
    assert fewer > seeds / 2


@pytest.mark.parametrize("dtype", [d for d in dtypes.all if d.kind in ("int", "uint")], ids=str)
@pytest.mark.parametrize("device", ["CPU", "PYTHON"])
def test_integers_are_divided_exactly(device: str, dtype: DType) -> None:
    """By a number that is an argument, a constant one, and memory: multiples and their neighbours, limits."""
    least, most = dtype.min, dtype.max
    edges = [v for v in (least, most, 0, 1, 2, 3, 7, 100, most // 3, most - 1, -1, -2, -3, -7, -100) if v >= least]
    rng = random.Random(3)
    divisors = [*edges, *[rng.randint(least, most) for _ in range(6)]]

    def wrapped(value: int) -> int:
        return (value - least) % (most - least + 1) + least

    def values(divisor: int) -> list[int]:
        most_often = max(1, most // max(1, abs(divisor)))
        multiples = [divisor * rng.randint(0, most_often) for _ in range(40)]
        return [*edges, *[wrapped(m + k) for m in multiples for k in (-1, 0, 1)], *range(30)]

    def quotients(over: list[int], under: list[int]) -> tuple[list[int], list[int]]:
        whole = [a // b if b else 0 for a, b in zip(over, under, strict=True)]
        return [wrapped(v) for v in whole], [a % b if b else 0 for a, b in zip(over, under, strict=True)]

    with Context(DEV=device):
        plan.clear()
        for divisor in divisors:
            x = values(divisor)
            t = Tensor(x, dtype=dtype).realize()
            wanted = quotients(x, [divisor] * len(x))
            assert ((t // divisor).tolist(), (t % divisor).tolist()) == wanted
        x, y = values(3), [rng.choice(divisors) for _ in values(3)]
        a, b = Tensor(x, dtype=dtype).realize(), Tensor(y, dtype=dtype).realize()
        assert ((a // b).tolist(), (a % b).tolist()) == quotients(x, y)
