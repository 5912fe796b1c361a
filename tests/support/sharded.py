"""Random chains of operations, on tensors on several devices and on the same tensors on one.

A chain is drawn from a random.Random: each step takes a shape and returns a function from tensor to tensor, which is
applied to both. Values are float64 of moderate size, so that sums in another order agree closely.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tinygraft import Tensor, TinyJit, dtypes
from tinygraft.errors import GraphError

Step = Callable[[Tensor], Tensor]
Shape = tuple[int, ...]


def draw_shape(rng: random.Random, least: int = 1, most: int = 4) -> Shape:
    """A shape of small sizes; seldom one of 0."""
    return tuple(
        rng.choice((1, 2, 3, 4, 5, 6) if rng.random() > 0.03 else (0,)) for _ in range(rng.randint(least, most))
    )


def draw_array(rng: random.Random, shape: Shape) -> np.ndarray:
    """Numbers between -2 and 2, with two digits."""
    count = math.prod(shape)
    return (np.array([rng.randint(-200, 200) for _ in range(count)], np.float64) / 100).reshape(shape)


def draw_splits(rng: random.Random, length: int, count: int) -> tuple[int, ...]:
    """A length in count parts, some of them perhaps empty."""
    cuts = sorted(rng.randint(0, length) for _ in range(count - 1))
    return tuple(b - a for a, b in zip([0, *cuts], [*cuts, length], strict=True))


def lay(rng: random.Random, tensor: Tensor, devices: Sequence[str]) -> Tensor:
    """A tensor on several devices, replicated or cut somewhere."""
    if not tensor.ndim or rng.random() < 0.2:
        return tensor.shard(devices)
    axis = rng.randrange(tensor.ndim)
    if rng.random() < 0.5:
        return tensor.shard(devices, axis)
    return tensor.shard(devices, axis, draw_splits(rng, tensor.shape[axis], len(devices)))


def like(tensor: Tensor, array: Any, rng: random.Random | None = None) -> Tensor:
    """Return an array as a tensor on the devices of `tensor`; on several with a layout by `rng`, or replicated."""
    devices = tensor.device
    if isinstance(devices, tuple) and rng is not None:
        return lay(rng, Tensor(array, device=devices[0]), devices)
    return Tensor(array, device=devices)


# The steps: each looks at a shape and gives a function, or None where it does not fit


def unary(rng: random.Random, shape: Shape) -> Step:
    """One operand."""
    return rng.choice((
        lambda t: -t, lambda t: t.relu(), lambda t: t.sin(), lambda t: t.sigmoid(), lambda t: t * 0.5 + 1,
        lambda t: (t > 0).where(t, -0.25), lambda t: t.cast(dtypes.float32).cast(dtypes.float64),
        lambda t: t.square().tanh(), lambda t: t.contiguous(), lambda t: t.abs(), lambda t: t.clip(-1, 1),
    ))  # fmt: skip


def binary(rng: random.Random, shape: Shape) -> Step:
    """Two operands that broadcast together."""
    other = list(shape)
    for axis in range(len(other)):
        if rng.random() < 0.3:
            other[axis] = 1
    array = draw_array(rng, tuple(other[rng.randint(0, len(other)) if rng.random() < 0.3 else 0 :]))
    op = rng.choice(("add", "mul", "sub", "maximum", "minimum"))
    seed = rng.random()
    return lambda t: getattr(t, op)(like(t, array, random.Random(seed)))


def itself(rng: random.Random, shape: Shape) -> Step:
    """A tensor with another arrangement of itself."""
    if not shape:
        return lambda t: t * t
    axis = rng.randrange(len(shape))
    return rng.choice((
        lambda t: t * t.flip(axis), lambda t: t + t.roll(1, axis), lambda t: t - t.mean(axis, keepdim=True),
        lambda t: t.cat(t.flip(axis), dim=axis), lambda t: t.softmax(axis),
        lambda t: t.stack(-t, dim=axis), lambda t: t.repeat(*(2 if a == axis else 1 for a in range(t.ndim))),
    ))  # fmt: skip


def reshape(rng: random.Random, shape: Shape) -> Step:
    """Axes split, merged, dropped and added."""
    sizes = list(shape)
    for _ in range(rng.randint(1, 3)):
        kind = rng.randrange(3)
        if kind == 0 and len(sizes) > 1:
            at = rng.randrange(len(sizes) - 1)
            sizes[at : at + 2] = [sizes[at] * sizes[at + 1]]
        elif kind == 1 and sizes:
            at = rng.randrange(len(sizes))
            factors = [n for n in range(1, sizes[at] + 1) if sizes[at] % n == 0] or [1]
            factor = rng.choice(factors)
            sizes[at : at + 1] = [factor, sizes[at] // factor] if rng.random() < 0.5 else [sizes[at] // factor, factor]
        elif kind == 2:
            sizes.insert(rng.randint(0, len(sizes)), 1)
    new = tuple(sizes)
    return lambda t: t.reshape(new)


def move(rng: random.Random, shape: Shape) -> Step:
    """permute, flip, pad, shrink, expand, steps."""
    n = len(shape)
    if n == 0:
        return lambda t: t.expand(2, 3)
    kind = rng.randrange(6)
    if kind == 0:
        order = rng.sample(range(n), n)
        return lambda t: t.permute(*order)
    if kind == 1:
        axes = [a for a in range(n) if rng.random() < 0.5]
        return lambda t: t.flip(*axes) if axes else t
    if kind == 2:
        pads = tuple((rng.randint(0, 2), rng.randint(0, 2)) if rng.random() < 0.5 else (0, 0) for _ in shape)
        return lambda t: t.pad(pads)
    if kind == 3:
        bounds = []
        for size in shape:
            start = rng.randint(0, max(size - 1, 0))
            bounds.append((start, rng.randint(min(start + 1, size), size)))
        return lambda t: t.shrink(tuple(bounds))
    if kind == 4:
        front = rng.randint(1, 3)
        new = (front, *(3 if size == 1 and rng.random() < 0.5 else size for size in shape))
        return lambda t: t.unsqueeze(0).expand(*new)
    axis, step = rng.randrange(n), rng.choice((2, 3, -1, -2))
    index = tuple(slice(None, None, step) if a == axis else slice(None) for a in range(n))
    return lambda t: t[index]


def reduce(rng: random.Random, shape: Shape) -> Step:
    """Sums, means, extremes and products over some axes."""
    axes = tuple(a for a in range(len(shape)) if rng.random() < 0.4)
    keep = rng.random() < 0.5
    kind = rng.choice(("sum", "mean", "max", "min", "var"))
    if kind in ("max", "min", "var", "mean") and any(shape[a] < 2 for a in axes):
        kind = "sum"
    if not axes:
        return lambda t: t.sum() if keep else t * 1
    if kind == "var":
        return lambda t: t.var(axes, keepdim=keep)
    return lambda t: getattr(t, kind)(axes, keepdim=keep)


def along(rng: random.Random, shape: Shape) -> Step:
    """What runs along an axis: cumsum, sort, rows by number, an index of numbers, one element."""
    if not shape or 0 in shape:
        return lambda t: t + 1
    axis = rng.randrange(len(shape))
    kind = rng.randrange(6)
    places = np.array([rng.randrange(shape[axis]) for _ in range(rng.randint(1, 5))], np.int32)
    if kind == 0:
        return lambda t: t.cumsum(axis)
    if kind == 1:
        return lambda t: t.sort(axis)[0]
    seed = rng.random()
    front = (slice(None),) * axis
    if kind == 2:
        return lambda t: t[(*front, like(t, places, random.Random(seed)))]
    if kind == 3:
        one = rng.randrange(shape[axis])
        return lambda t: t[(*front, one)]
    if kind == 4:
        two = np.array([[rng.randrange(shape[axis]) for _ in range(2)] for _ in range(3)], np.int32)
        return lambda t: t[(*front, like(t, two, random.Random(seed)))]
    return lambda t: t * t.argmax(axis, keepdim=True)


def product(rng: random.Random, shape: Shape) -> Step:
    """A matrix product with a weight."""
    if not shape:
        return lambda t: t * 2
    array = draw_array(rng, (shape[-1], rng.randint(1, 5)))
    seed = rng.random()
    return lambda t: t @ like(t, array, random.Random(seed))


def windows(rng: random.Random, shape: Shape) -> Step:
    """A convolution, or a pool, over the last two axes of four."""
    if len(shape) != 4 or min(shape) < 1:
        return unary(rng, shape)
    array = draw_array(rng, (rng.randint(1, 3), shape[1], 2, 2))
    seed = rng.random()
    if rng.random() < 0.5 or shape[2] < 2 or shape[3] < 2:
        return lambda t: t.conv2d(like(t, array, random.Random(seed)), padding=1)
    return rng.choice((lambda t: t.max_pool2d(2), lambda t: t.avg_pool2d(2)))


def written(rng: random.Random, shape: Shape) -> Step:
    """A part of a copy is written to, by position or by a list of places."""
    if not shape or 0 in shape:
        return lambda t: t.contiguous()
    axis, seed = rng.randrange(len(shape)), rng.random()
    kind = rng.randrange(4)
    index: Any = [slice(None)] * len(shape)
    if kind == 0:
        index[axis] = rng.randrange(shape[axis])
    elif kind == 1:
        start = rng.randrange(shape[axis])
        index[axis] = slice(start, rng.randint(start + 1, shape[axis]))
    elif kind == 2:
        index[axis] = slice(None, None, 2)
    else:
        index[axis] = rng.sample(range(shape[axis]), rng.randint(1, shape[axis]))
    index = tuple(index)
    value = draw_array(rng, np.zeros(shape)[index].shape)
    real = rng.random() < 0.5

    def step(t: Tensor) -> Tensor:
        new = t.clone()
        if real:
            new.realize()
        new[index] = like(t, value, random.Random(seed))
        return new

    return step


def picked(rng: random.Random, shape: Shape) -> Step:
    """gather, scatter and their relatives, with an index of the same number of axes."""
    if not shape or 0 in shape:
        return lambda t: t - 1
    axis, seed = rng.randrange(len(shape)), rng.random()
    sizes = [rng.randint(1, size) for size in shape]
    places = np.array([rng.randrange(shape[axis]) for _ in range(math.prod(sizes))], np.int32).reshape(sizes)
    value = draw_array(rng, tuple(sizes))
    kind = rng.randrange(5)

    def step(t: Tensor) -> Tensor:
        own = random.Random(seed)
        index = like(t, places, own)
        if kind == 0:
            return t.gather(axis, index)
        if kind == 1:
            return t.scatter(axis, index, like(t, value, own), reduce="add")
        if kind == 2:
            return t.scatter_reduce(axis, index, like(t, value, own), "amax")
        if kind == 3:
            return t.masked_fill(like(t, value > 0, own) if list(t.shape) == sizes else t > 0.5, 0.25)
        return t.topk(min(2, t.shape[axis]), axis)[0]

    return step


def composed(rng: random.Random, shape: Shape) -> Step:
    """What is made of many operations."""
    if len(shape) < 2 or 0 in shape:
        return lambda t: t.cumsum(0) if t.ndim else t.exp2()
    axis = rng.randrange(len(shape))
    return rng.choice((
        lambda t: t.layernorm(), lambda t: t.triu(), lambda t: t.log_softmax(axis), lambda t: t.cumsum(axis).tanh(),
        lambda t: t.transpose(0, -1).contiguous(), lambda t: t.unfold(axis, 1, 1), lambda t: t.logsumexp(axis),
        lambda t: t.chunk(2, axis)[0], lambda t: Tensor.einsum("...i,...j->...ij", t, t).sum(-1),
        lambda t: t.max(axis, keepdim=True) - t, lambda t: t.diagonal() if t.ndim == 2 else t, lambda t: t.std(axis),
        lambda t: t.sequential([Tensor.relu, Tensor.square]), lambda t: t.interpolate((5,), mode="linear"),
        lambda t: (t > t.mean()).where(t * 2, t), lambda t: t.detach() * t,
    )) if shape[axis] > 1 else (lambda t: t.unsqueeze(-1))  # fmt: skip


def moved(rng: random.Random, shape: Shape) -> Step:
    """Where there are several devices: cut differently, or put together and back; the values stay."""
    seed, back = rng.random(), rng.random() < 0.3

    def step(t: Tensor) -> Tensor:
        if not isinstance(t.device, tuple):
            return t
        return lay(random.Random(seed), t.to(t.device[0]) if back else t, t.device)

    return step


STEPS = (
    unary,
    unary,
    binary,
    binary,
    itself,
    reshape,
    reshape,
    move,
    move,
    reduce,
    along,
    product,
    windows,
    written,
    moved,
)


def draw_chain(rng: random.Random, shape: Shape, length: int) -> tuple[list[Step], list[str]]:
    """Steps that follow each other, from a tensor of shape, with their names; results stay small."""
    steps: list[Step] = []
    names: list[str] = []
    probe = Tensor.zeros(*shape, dtype=dtypes.float64, device="PYTHON")
    while len(steps) < length:
        kind = rng.choice(STEPS)
        step = kind(rng, probe.shape)
        after = step(probe)
        if after.ndim <= 5 and math.prod(after.shape) <= 600:
            probe = Tensor.zeros(*after.shape, dtype=dtypes.float64, device="PYTHON")
            steps.append(step)
            names.append(f"{kind.__name__} -> {after.shape}")
    return steps, names


def check(seed: int, devices: Sequence[str], length: int = 5) -> None:
    """Draw a chain and hold values and gradients on several devices to those on the first alone."""
    rng = random.Random(seed)
    shape = draw_shape(rng)
    steps, names = draw_chain(rng, shape, length)
    array, middle, lying = draw_array(rng, shape), rng.randrange(2 * length), rng.random()
    found = []
    layouts: list[Any] = []
    for several in (False, True):
        x = Tensor(array, device=devices[0])
        x = (lay(random.Random(lying), x, devices) if several else x).realize()
        x.requires_grad = True
        y = x
        for number, step in enumerate(steps):
            y = step(y)
            if number == middle:
                y.realize()
            if several:
                layouts.append(y.uop.sharding)
        if y.uop is x.uop:
            y = y * 1
        found.append((y.numpy(), _gradient((y * 0.5).sum(), x)))
    for a, b, what in zip(*found, ("value", "gradient"), strict=True):
        if a is None or b is None:
            continue
        story = "\n".join(
            [f"seed {seed} on {devices}: {what} from {shape}", *map(str, zip(names, layouts, strict=True))]
        )
        np.testing.assert_allclose(b, a, 1e-6, 1e-8, err_msg=story)


def _gradient(total: Tensor, x: Tensor) -> Any:
    """Return the gradient of x; None where a write on the way has been realised and is not taped.

    On several devices and on one that may differ: a reshape that gathers shards is stored in new memory.
    """
    try:
        total.backward()
    except GraphError as error:
        if "that was assigned to" not in str(error):
            raise
        return None
    if x.grad is None:
        return np.zeros(x.shape)
    assert (x.grad.device, x.grad.sharding) == (x.device, x.sharding)
    return x.grad.numpy()


def check_replayed(seed: int, devices: Sequence[str], length: int = 3) -> TinyJit[Any, Any]:
    """A step that reads an argument and a state and gives the state a new value, by its gradient or not, replayed on
    several devices and compared with plain calls on the first alone. Returns the TinyJit."""
    rng = random.Random(seed)
    shape = draw_shape(rng, 1, 3)
    steps, names = draw_chain(rng, shape, length)
    arrays = [draw_array(rng, shape) for _ in range(6)]
    lying, trains = rng.random(), rng.random() < 0.5

    def run(several: bool) -> tuple[list[Any], Any]:
        def placed(array: Any) -> Tensor:
            t = Tensor(array, device=devices[0])
            return (lay(random.Random(lying), t, devices) if several else t).realize()

        state = placed(arrays[0])
        state.requires_grad = trains

        def step(x: Tensor) -> tuple[Tensor, Tensor]:
            y = x + state
            for each in steps:
                y = each(y)
            if trains:
                state.grad = None
                (y * 0.5).sum().backward()
                change = state.detach() * 0.5 if state.grad is None else state.grad * 0.125
                state.assign(state.detach() - change)
            else:
                state.assign(state * 0.5 + x)
            return y.realize(state), y.sum().realize()

        call = TinyJit(step) if several else step
        found = [value.numpy() for array in arrays[1:] for value in call(placed(array))]
        return [*found, state.numpy()], call

    one, both = run(False)[0], run(True)
    for a, b in zip(one, both[0], strict=True):
        np.testing.assert_allclose(b, a, 1e-6, 1e-7, err_msg=f"seed {seed} on {devices}, {shape}: {names}")
    replayed: TinyJit[Any, Any] = both[1]
    return replayed
