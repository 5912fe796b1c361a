"""Operators on random shapes beside PyTorch, to find the sizes at which a script would fall off a cliff.

    python -m benchmarks.shapes                          for five minutes; lines of what is behind as it is found
    python -m benchmarks.shapes --seed 7 --seconds 60    the same shapes each time
    python -m benchmarks.shapes --only softmax,sort      expressions with one of these words
    python -m benchmarks.shapes --backward               the gradients of each result's sum, with the forward

`benchmarks.operators` has each operator at one size, which is round; here no size is. Each expression is evaluated by
both libraries in turns, ours under TinyJit, and compared once. At the end are the quartiles of our times over those of
PyTorch.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.operators import Functions, measured
from tinygraft import Tensor

BEHIND, LATER = 1.25, 60.0  # a line is printed for a ratio above, of more microseconds than a replay takes by itself
FEWEST, MOST = 20_000, 4_000_000  # elements of an operand
PRODUCTS = 1e9  # multiplications of a product or a convolution, at most

Shape = list[int]
Case = tuple[str, dict[str, np.ndarray]]  # an expression, and the arrays of its names


class Draw:
    """Random sizes, shapes and arrays: sizes are as likely between 10 and 20 as between 1000 and 2000."""

    def __init__(self, seed: int) -> None:
        self.chance, self.numbers = random.Random(seed), np.random.default_rng(seed)

    def size(self, least: int, most: int) -> int:
        """A size."""
        return round(math.exp(self.chance.uniform(math.log(least), math.log(most))))

    def shape(self, axes: int = 0) -> Shape:
        """A shape of so many axes, or of 1 to 4."""
        shares = [self.chance.random() + 0.2 for _ in range(axes or self.chance.randint(1, 4))]
        total = self.size(FEWEST, MOST)
        return [max(1, round(total ** (share / sum(shares)))) for share in shares]

    def fitting(self, limit: float, cost: Callable[..., float], *bounds: tuple[int, int]) -> list[int]:
        """Sizes within bounds, whose cost is below a limit."""
        while True:
            sizes = [self.size(*each) for each in bounds]
            if cost(*sizes) <= limit:
                return sizes

    def of(self, *choices: Any) -> Any:
        """One of these."""
        return self.chance.choice(choices)

    def axis(self, shape: Sequence[int]) -> int:
        """An axis of a shape."""
        return self.chance.randrange(len(shape))

    def axes(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Some of the axes of a shape."""
        return tuple(sorted(self.chance.sample(range(len(shape)), self.chance.randint(1, len(shape)))))

    def floats(self, *shape: int) -> np.ndarray:
        """Normal numbers in float32."""
        return self.numbers.standard_normal(shape).astype(np.float32)

    def indices(self, most: int, *shape: int) -> np.ndarray:
        """Integers below `most`."""
        return self.numbers.integers(0, most, shape)


def reduced(d: Draw) -> Case:
    """Some axes become one."""
    shape = d.shape()
    name = d.of("sum", "mean", "amax", "amin", "std", "var", "logsumexp")
    return f"v.{name}({d.axes(shape)})", {"v": d.floats(*shape)}


def along(d: Draw) -> Case:
    """One operator along an axis."""
    shape = d.shape()
    axis, k = d.axis(shape), d.size(1, 64)
    one = d.of(
        "v.softmax({a})", "v.log_softmax({a})", "v.cumsum({a})", "v.cumprod({a})", "v.sort({a})[0]", "v.argsort({a})",
        "v.topk({k}, {a})[0]", "v.argmax({a})", "v.norm(dim={a})", "(v > 1).any({a})", "v.cummax({a})[0]",
        "v.flip({a})", "v.roll({k}, {a})", "v.diff(dim={a})", "v.double().cumsum({a})", "v.logcumsumexp({a})",
    )  # fmt: skip
    return one.format(a=axis, k=min(k, shape[axis])), {"v": d.floats(*shape)}


def moved(d: Draw) -> Case:
    """Elements at other places."""
    shape = d.shape()
    order = d.chance.sample(range(len(shape)), len(shape))
    parts = ", ".join(f"{d.chance.randint(0, n // 2)}::{d.of(1, 1, 2, 3)}" for n in shape)
    repeats = tuple(d.of(1, 2, 3) for _ in shape)
    small = [max(1, n // 2) for n in shape]
    one = d.of(f"v.permute({order}).contiguous()", f"v[{parts}] + 0", f"v.repeat({repeats})", "f.cat([v, w], dim=0)")
    return one, {"v": d.floats(*(small if "repeat" in one else shape)), "w": d.floats(*shape)}


def broadcast(d: Draw) -> Case:
    """Two operands, of which the second has axes of one, in another order of axes."""
    shape = d.shape(d.chance.randint(2, 4))
    order = d.chance.sample(range(len(shape)), len(shape))
    other = [n if d.chance.random() < 0.5 else 1 for n in shape]
    return f"(v * w + 1.5).permute({order}).contiguous()", {"v": d.floats(*shape), "w": d.floats(*other)}


def picked(d: Draw) -> Case:
    """Elements and rows by their number."""
    shape = d.shape(d.chance.randint(1, 3))
    axis = d.axis(shape)
    line = d.size(1, 2 * shape[axis])
    wide = [line if a == axis else n for a, n in enumerate(shape)]
    one = d.of(f"v.gather({axis}, i)", f"v.scatter_add({axis}, i, w)", f"v.index_select({axis}, i)")
    i = d.indices(shape[axis], *([line] if "select" in one else wide))
    return one, {"v": d.floats(*shape), "i": i, "w": d.floats(*wide)}


def product(d: Draw) -> Case:
    """Matrices, or as many as there are pairs."""
    b, m, n, k = d.fitting(PRODUCTS, lambda b, m, n, k: b * m * n * k, (1, 512), (1, 2000), (1, 2000), (1, 2000))
    turned = d.chance.random() < 0.5
    v, w = d.floats(b, m, k), d.floats(b, n, k) if turned else d.floats(b, k, n)
    if b < 3:
        v, w = v[0], w[0]
    return "v @ w.transpose(-1, -2)" if turned else "v @ w", {"v": v, "w": w}


def convolution(d: Draw) -> Case:
    """Of one to three axes, transposed or in groups."""
    axes = d.of(1, 2, 2, 2, 3)
    k, stride = d.of(1, 2, 3, 3, 4, 5, 7) if axes < 3 else d.of(1, 2, 3), d.of(1, 1, 2, 3)
    most = {1: 3000, 2: 120, 3: 32}[axes]

    def cost(b: int, c: int, o: int, n: int) -> float:
        """Multiplications, or many where an operand is too large."""
        return b * c * o * (n * k / stride) ** axes if b * max(c, o) * n**axes < MOST else math.inf

    b, c, o, n = d.fitting(PRODUCTS, cost, (1, 16), (1, 128), (1, 128), (k, most))
    padding = d.chance.randint(0, k // 2)
    if axes == 2 and n < 60 and d.chance.random() < 0.2:
        options = f"stride={stride}, padding={padding}"
        return f"f.conv_transpose2d(v, w, {options})", {"v": d.floats(b, c, n, n), "w": d.floats(c, o, k, k)}
    groups = d.of(1, 1, 1, c)
    o = c if groups > 1 else o
    options = f"stride={stride}, padding={padding}, groups={groups}"
    weights = d.floats(o, c // groups, *[k] * axes)
    return f"f.conv{axes}d(v, w, {options})", {"v": d.floats(b, c, *[n] * axes), "w": weights}


def of_images(d: Draw) -> Case:
    """Pools, and images of another size."""
    b, c, n = d.fitting(MOST / 4, lambda b, c, n: b * c * n * n, (1, 16), (1, 128), (8, 128))
    k, to = d.of(2, 3, 3, 5), d.size(4, 2 * n)
    one = d.of(
        f"f.max_pool2d(v, {k}, stride={d.of(1, 2, k)})", f"f.avg_pool2d(v, {k}, stride={d.of(1, 2, k)})",
        f"f.interpolate(v, size=({to}, {to}), mode='{d.of('nearest', 'bilinear', 'bicubic')}')",
    )  # fmt: skip
    return one, {"v": d.floats(b, c, n, n)}


def layer(d: Draw) -> Case:
    """Norms, losses and attention."""
    shape = d.shape(3)
    rows, classes = d.fitting(MOST, lambda n, c: n * c, (8, 4000), (2, 5000))
    b, h, s, e = d.fitting(PRODUCTS, lambda b, h, s, e: b * h * s * s * e, (1, 4), (1, 12), (2, 700), (16, 128))
    attended = {name: d.floats(b, h, s, e) for name in "vwx"}
    norm = {"v": d.floats(*shape)}
    found: Case = d.of(
        (f"f.{d.of('layer_norm', 'rms_norm')}(v, ({shape[-1]},))", norm), ("f.group_norm(v, 1)", norm),
        ("f.cross_entropy(v, i)", {"v": d.floats(rows, classes), "i": d.indices(classes, rows)}),
        ("f.mse_loss(v, w)", norm | {"w": d.floats(*shape)}),
        (f"f.scaled_dot_product_attention(v, w, x, is_causal={d.of(True, False)})", attended),
    )  # fmt: skip
    return found


KINDS = (reduced, along, along, moved, broadcast, picked, product, convolution, of_images, layer)


def main() -> None:
    """Draw and measure until the time is over."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.shapes", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of all that is drawn")
    parser.add_argument("--seconds", type=float, default=300, help="for how long")
    parser.add_argument("--only", default="", help="words, of which an expression has one")
    parser.add_argument("--backward", action="store_true", help="the gradients of what is computed")
    args = parser.parse_args()
    args.replay = True
    words = [word for word in args.only.split(",") if word]
    places = torch.nn.functional, torch.linalg, torch, torch.fft
    d, ratios, end = Draw(args.seed), list[float](), time.monotonic() + args.seconds
    print(f"seed {args.seed}\n  ratio       ours    PyTorch  microseconds")
    with torch.inference_mode(not args.backward):
        while time.monotonic() < end:
            expression, arrays = d.of(*KINDS)(d)
            if words and not any(word in expression for word in words):
                continue
            ours = {name: Tensor(array).realize() for name, array in arrays.items()} | {"f": Functions(Tensor)}
            theirs = {name: torch.from_numpy(array) for name, array in arrays.items()} | {"f": Functions(*places)}
            shown = ", ".join(f"{name} {array.shape}" for name, array in arrays.items() if name in expression)
            try:
                row = measured(expression, ours, theirs, args)
            except Exception as error:  # what one library does not have is said and passed over
                print(f"{'-':>7}  {expression}  {shown}   ({type(error).__name__}: {str(error).splitlines()[:1]})")
                continue
            ratios.append(row.ratio)
            if row.note or (row.ratio > BEHIND and row.ours - row.theirs > LATER):
                print(f"{row}  {shown}", flush=True)
    quarters = ", ".join(f"{np.quantile(ratios, q):.2f}" for q in (0.25, 0.5, 0.75)) if ratios else "none"
    print(f"{len(ratios)} expressions; quartiles of the ratios {quarters}")


if __name__ == "__main__":
    main()
