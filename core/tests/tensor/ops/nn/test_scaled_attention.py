"""Attention beside NumPy in float64 and PyTorch: by the device's routine and by kernels, values, gradients, memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from tinygraft.device.pool import pool_of
from tinygraft.errors import ShapeError
from tinygraft.tensor.ops.nn import fused_attention
from tinygraft.transforms import grad, vmap
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import toposort

Values = np.ndarray[Any, Any]
needs_ext = pytest.mark.needs("ext")


@pytest.fixture(autouse=True)
def for_few_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """The routine is used where kernels would be as fast."""
    monkeypatch.setattr(fused_attention, "LEAST_KEYS", 16)


@pytest.fixture(params=[0, pytest.param(1, marks=needs_ext)], ids=["kernels", "routine"])
def routines(request: pytest.FixtureRequest) -> Iterator[int]:
    """On the CPU by kernels, and by its routine."""
    with Context(DEV="CPU", ROUTINES=request.param):
        yield request.param


@pytest.fixture
def cpu() -> Iterator[None]:
    """The device that has the routine."""
    with Context(DEV="CPU"):
        yield


def numbers(*shape: int, name: int = 0, dtype: Any = np.float64) -> Values:
    """Drawn numbers."""
    return np.random.default_rng(name + 1).standard_normal(shape).astype(dtype)


Slopes = Callable[[Values], list[Values]]


def attention(q: Values, k: Values, v: Values, mask: Values | None = None, causal: bool = False,
              scale: float | None = None) -> tuple[Values, Slopes]:  # fmt: skip
    """softmax(q k' scale + mask) v in float64, and its gradients for that of the result. Heads are equally many."""
    q, k, v = [x.astype(np.float64) for x in (q, k, v)]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    greatest = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    sums = powers.sum(-1, keepdims=True)
    weights = powers / np.where(sums == 0, 1, sums)

    def backward(start: Values) -> list[Values]:
        of_weights = start @ np.swapaxes(v, -1, -2)
        slopes = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
        return [
            slopes @ k,
            np.swapaxes(slopes, -1, -2) @ q,
            np.swapaxes(weights, -1, -2) @ start,
            slopes / scale,
        ]

    return weights @ v, backward


def runs_routine(*tensors: Tensor) -> bool:
    """Whether a routine is in a graph."""
    return any(node.op is Ops.ROUTINE for tensor in tensors for node in toposort(tensor.uop))


def compare(found: Any, wanted: Values, bound: float = 1e-11) -> None:
    """Fail where values differ."""
    np.testing.assert_allclose(found.numpy(), wanted, rtol=bound, atol=bound)


MASKS: dict[str, Callable[[int, int], Values] | None] = {
    "none": None,
    "bool": lambda L, S: np.random.default_rng(4).random((L, S)) < 0.6,
    "of each batch": lambda L, S: np.random.default_rng(4).random((2, 1, 1, S)) < 0.6,
    "of each head": lambda L, S: numbers(3, L, S, name=7),
    "of queries": lambda L, S: numbers(2, 3, L, 1, name=8),
    "blind queries": lambda L, S: np.arange(L)[:, None] % 3 != np.zeros(S),
    "all -inf": lambda L, S: np.where(np.arange(L)[:, None] < 2, -np.inf, numbers(L, S, name=9)),
}
SIZES = [(17, 33, 8, 8), (70, 200, 33, 5), (130, 97, 64, 64)]  # L, S, d and e: blocks of 32, steps of 96, and parts


@pytest.mark.parametrize("kind", [*MASKS, "causal"])
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_values_and_gradients(routines: int, sizes: tuple[int, ...], kind: str) -> None:
    """For every kind of mask, in float64; queries that see no key have zeros, and a gradient of zero."""
    queries, keys, size, parts = sizes
    arrays = [numbers(2, 3, n, w, name=i) for i, (n, w) in enumerate(((queries, size), (keys, size), (keys, parts)))]
    make = MASKS.get(kind)
    mask = None if make is None else make(queries, keys)
    q, k, v = [Tensor(x, requires_grad=True) for x in arrays]
    given = None if mask is None else Tensor(mask, requires_grad=mask.dtype != bool)
    found = q.scaled_dot_product_attention(k, v, given, is_causal=kind == "causal")
    assert runs_routine(found) == bool(routines)
    wanted, backward = attention(*arrays, mask, kind == "causal")
    compare(found, wanted)
    start = numbers(*wanted.shape, name=5)
    (found * Tensor(start)).sum().backward()
    slopes = backward(start)
    for tensor, slope in zip((q, k, v), slopes, strict=False):
        compare(tensor.grad, slope)
    if given is not None and given.requires_grad:
        slope = np.nan_to_num(slopes[3])
        for axis, length in enumerate((1,) * (4 - mask.ndim) + mask.shape if mask is not None else ()):
            slope = slope.sum(axis, keepdims=True) if length == 1 else slope
        compare(given.grad, slope.reshape(given.shape))


@pytest.mark.parametrize("hidden", [-1e4, -1e9, float(np.finfo(np.float32).min)])
def test_queries_whose_keys_are_all_hidden_by_a_great_number(routines: int, hidden: float) -> None:
    """As masks of padding do it: each key has a weight that the float32 scores give, in gradients too."""
    arrays = [numbers(2, 20, 8, name=i).astype(np.float32) for i in range(3)]
    mask = np.where(np.arange(20)[:, None] < 3, np.float32(hidden), np.zeros((20, 20), np.float32))
    q, k, v = [Tensor(x, requires_grad=True) for x in arrays]
    found = q.scaled_dot_product_attention(k, v, Tensor(mask))
    scores = (arrays[0] @ arrays[1].swapaxes(-1, -2)) * np.float32(8**-0.5) + mask
    if hidden <= -1e9:  # nothing of a score is left beside such a number: all keys have the same weight
        assert (scores[:, :3] == np.float32(hidden)).all()
    powers = np.exp(scores.astype(np.float64) - scores.max(-1, keepdims=True))
    weights = powers / powers.sum(-1, keepdims=True)
    start = numbers(2, 20, 8, name=5)
    of_weights = start @ arrays[2].swapaxes(-1, -2)
    slopes = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * 8**-0.5
    compare(found, weights @ arrays[2], 2e-3 if hidden == -1e4 else 1e-5)  # scores near -1e4 are rounded by 1e-3
    found.backward(Tensor(start.astype(np.float32)))
    of_keys = [x.swapaxes(-1, -2) for x in (slopes, weights)]
    for tensor, slope in zip((q, k, v), (slopes @ arrays[1], of_keys[0] @ arrays[0], of_keys[1] @ start), strict=True):
        compare(tensor.grad, slope, 2e-3 if hidden == -1e4 else 1e-5)


@needs_ext
@pytest.mark.parametrize("length", [1, 15, 16, 63, 64, 65, 96, 97, 193])
def test_every_length(cpu: None, length: int) -> None:
    """Around blocks of queries and steps of keys, with fewer queries than keys and more, causal."""
    for queries, keys in ((length, 80), (80, length), (length, length)):
        arrays = [numbers(1, 2, n, 4, name=n, dtype=np.float32) for n in (queries, keys, keys)]
        wanted, backward = attention(*arrays, causal=True)
        tensors = [Tensor(x, requires_grad=True) for x in arrays]
        found = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=True)
        found.sum().backward()
        compare(found, wanted, 2e-6)
        for tensor, slope in zip(tensors, backward(np.ones_like(wanted)), strict=False):
            compare(tensor.grad, slope, 2e-5)


@needs_ext
@pytest.mark.parametrize("size", [1, 32, 40, 128, 256])
def test_every_head_size(cpu: None, size: int) -> None:
    """Gradients of sizes that are no multiple of a vector, and of one head, which is cut into chunks."""
    arrays = [numbers(1, 150, size, name=i) for i in range(3)]
    tensors = [Tensor(x, requires_grad=True) for x in arrays]
    found = tensors[0].scaled_dot_product_attention(*tensors[1:], scale=0.25)
    wanted, backward = attention(*arrays, scale=0.25)
    compare(found, wanted)
    found.sum().backward()
    for tensor, slope in zip(tensors, backward(np.ones_like(wanted)), strict=False):
        compare(tensor.grad, slope)


@pytest.mark.parametrize("heads", [(8, 8), (8, 2), (8, 1), (6, 3)])
def test_groups_of_heads(routines: int, heads: tuple[int, int]) -> None:
    """enable_gqa repeats each head of keys and values for as many heads of queries; so do heads of 1 without it."""
    most, few = heads
    q, k, v = numbers(2, most, 20, 8), numbers(2, few, 30, 8, name=1), numbers(2, few, 30, 8, name=2)
    wanted, backward = attention(q, *[np.repeat(x, most // few, 1) for x in (k, v)], causal=True)
    for grouped in (True, False)[: 2 if few == 1 else 1]:
        tensors = [Tensor(x, requires_grad=True) for x in (q, k, v)]
        found = tensors[0].scaled_dot_product_attention(*tensors[1:], is_causal=True, enable_gqa=grouped)
        compare(found, wanted)
        found.sum().backward()
        slopes = backward(np.ones_like(wanted))
        for tensor, slope in zip(tensors, slopes, strict=False):
            compare(tensor.grad, slope.reshape(2, tensor.shape[1], -1, *slope.shape[2:]).sum(2))


def test_other_heads_for_values(routines: int) -> None:
    """Each of keys and values has its own number of heads; one that does not divide is refused."""
    q, k, v = numbers(1, 8, 20, 4), numbers(1, 4, 20, 4, name=1), numbers(1, 2, 20, 4, name=2)
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), enable_gqa=True)
    compare(found, attention(q, np.repeat(k, 2, 1), np.repeat(v, 4, 1))[0])
    with pytest.raises(ShapeError, match=r"query heads that are a multiple of key heads, got \(8, 3\)"):
        Tensor(q).scaled_dot_product_attention(Tensor(numbers(1, 3, 20, 4)), Tensor(v), enable_gqa=True)


def test_axes_that_broadcast(routines: int) -> None:
    """Of batches, of masks that some of several batches share, and of what has no batch."""
    q, k = numbers(3, 2, 1, 20, 4), numbers(2, 4, 25, 4, name=1)
    mask = numbers(3, 1, 1, 20, 25, name=2) > 0
    wanted = attention(*[np.broadcast_to(x, (3, 2, 4, *x.shape[-2:])) for x in (q, k, k)], mask)[0]
    compare(Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(k), Tensor(mask)), wanted)
    compare(Tensor(q[0, 0, 0]).scaled_dot_product_attention(Tensor(k[0, 0]), Tensor(k[0, 0])),
            attention(q[0, 0, 0], k[0, 0], k[0, 0])[0])  # fmt: skip
    wide = Tensor(q[0, 0, 0]).scaled_dot_product_attention(Tensor(k[0, 0]), Tensor(k[0, 0]), Tensor(mask[:, 0, 0]))
    assert wide.shape == (3, 20, 4)  # a mask of more batches than there are, by kernels


def test_views_are_read_as_they_are(routines: int) -> None:
    """Heads that lie beside each other in memory, turned round, and one tensor as all three."""
    x = numbers(2, 20, 3, 8)
    heads = Tensor(x, requires_grad=True)
    q, turned = heads.transpose(1, 2), x.transpose(0, 2, 1, 3)
    found = q.scaled_dot_product_attention(q.flip(-2), q)
    wanted, backward = attention(turned, turned[:, :, ::-1], turned)
    compare(found, wanted)
    found.sum().backward()
    of_q, of_k, of_v, _ = backward(np.ones_like(wanted))
    compare(heads.grad, (of_q + of_k[:, :, ::-1] + of_v).transpose(0, 2, 1, 3))


@pytest.mark.parametrize("shapes", [((2, 0, 8), (2, 20, 8)), ((2, 20, 8), (2, 0, 8)), ((0, 20, 8), (0, 20, 8)),
                                    ((2, 20, 0), (2, 20, 0))])  # fmt: skip
def test_nothing_to_attend(routines: int, shapes: tuple[tuple[int, ...], ...]) -> None:
    """No queries, no keys, no batch, no width: zeros of the shape of the result."""
    q, k = (Tensor(numbers(*shape), requires_grad=True) for shape in shapes)
    found = q.scaled_dot_product_attention(k, k)
    assert found.shape == (*shapes[0][:-1], shapes[1][-1])
    assert not found.numpy().any()


@pytest.mark.parametrize("dtype", [dtypes.float16, dtypes.bfloat16, dtypes.float32])
def test_half_types(routines: int, dtype: Any) -> None:
    """Results and gradients have the dtype of their tensors, and are off by little more than its rounding."""
    arrays = [numbers(2, 40, 16, name=i) for i in range(3)]
    tensors = [Tensor(x).cast(dtype).realize().requires_grad_() for x in arrays]
    rounded = [tensor.detach().cast(dtypes.float64).numpy() for tensor in tensors]
    wanted, backward = attention(*rounded)
    found = tensors[0].scaled_dot_product_attention(*tensors[1:])
    found.sum().backward()
    bound = {dtypes.float16: 2e-3, dtypes.bfloat16: 2e-2, dtypes.float32: 2e-6}[dtype]
    assert found.dtype is dtype
    np.testing.assert_allclose(found.cast(dtypes.float64).numpy(), wanted, rtol=bound, atol=bound)
    for tensor, slope in zip(tensors, backward(np.ones_like(wanted)), strict=False):
        assert tensor.grad is not None and tensor.grad.dtype is dtype
        np.testing.assert_allclose(tensor.grad.cast(dtypes.float64).numpy(), slope, rtol=4 * bound, atol=4 * bound)


def test_numbers_that_are_not_finite(routines: int) -> None:
    """NaN and infinity of a query stay in its row; scores beyond the range of exp are no infinities."""
    q, k = numbers(1, 20, 8, dtype=np.float32), numbers(1, 200, 8, name=1, dtype=np.float32)
    q[0, 3, 2], q[0, 7, 1] = np.nan, np.inf
    found = Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(k)).numpy()
    assert sorted(set(np.nonzero(np.isnan(found))[1].tolist())) == [3, 7]
    large = Tensor(np.nan_to_num(q, posinf=1.0) * 1000).scaled_dot_product_attention(Tensor(k * 1000), Tensor(k))
    chosen = (np.nan_to_num(q, posinf=1.0) @ k[0].T)[0].argmax(-1)
    np.testing.assert_allclose(large.numpy()[0], k[0][chosen], rtol=1e-6)


# Random numbers


def test_dropout_drops_the_same_with_and_without_a_routine(cpu: None) -> None:
    """Values, gradients, and what is drawn afterwards."""
    arrays = [numbers(2, 3, 40, 8, name=i) for i in range(3)]
    found: list[list[Values]] = []
    for setting in (1, 0):
        with Context(ROUTINES=setting), Tensor.train():
            Tensor.manual_seed(11)
            tensors = [Tensor(x, requires_grad=True) for x in arrays]
            y = tensors[0].scaled_dot_product_attention(*tensors[1:], dropout_p=0.3, is_causal=True)
            y.square().sum().backward()
            grads = [t.grad.numpy() for t in tensors if t.grad is not None]
            found.append([y.numpy(), *grads, Tensor.rand(4).numpy()])
    for got, wanted in zip(*found, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11, atol=1e-11)
    assert len(found[0]) == 5


def test_dropout_everywhere_and_nowhere(routines: int) -> None:
    """Of all weights, of none outside of training, and about as many as its probability says."""
    q = Tensor(numbers(1, 4, 64, 8))
    with Tensor.train():
        assert not q.scaled_dot_product_attention(q, q, dropout_p=1.0).numpy().any()
        flat, ones = Tensor.zeros(1, 64, 8), Tensor.ones(1, 64, 1)
        kept = flat.scaled_dot_product_attention(flat, ones, dropout_p=0.25).numpy()
    assert abs(kept.mean() - 1) < 0.03 and np.unique(kept).size > 5
    compare(q.scaled_dot_product_attention(q, q, dropout_p=1.0), attention(*[q.numpy()] * 3)[0])


def test_each_replay_draws_anew(cpu: None) -> None:
    """A replay of a capture goes on with random numbers, as one by kernels does."""
    x = Tensor(numbers(1, 2, 32, 8)).realize()
    found = []
    for setting in (1, 0):
        with Context(ROUTINES=setting), Tensor.train():
            Tensor.manual_seed(2)
            step = TinyJit(lambda x: x.scaled_dot_product_attention(x, x, dropout_p=0.5).realize())
            found.append([step(x).numpy().copy() for _ in range(4)])
    assert not np.allclose(found[0][2], found[0][3])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-11, atol=1e-11)


# What surrounds it


def test_second_derivatives(routines: int) -> None:
    """Of a tensor that is query, key and value at once, beside finite differences."""
    x = numbers(1, 18, 4)
    step, direction = 1e-5, numbers(1, 18, 4, name=3)

    def slope(at: Values) -> Tensor:
        y = Tensor(at, requires_grad=True)
        (found,) = y.scaled_dot_product_attention(y, y, is_causal=True).square().sum().gradient(y)
        return found

    y = Tensor(x, requires_grad=True)
    (first,) = y.scaled_dot_product_attention(y, y, is_causal=True).square().sum().gradient(y)
    (second,) = (first * Tensor(direction)).sum().gradient(y)
    wanted = (slope(x + step * direction).numpy() - slope(x - step * direction).numpy()) / (2 * step)
    np.testing.assert_allclose(second.numpy(), wanted, rtol=1e-6, atol=1e-6)


def test_under_vmap(routines: int) -> None:
    """Examples with a mask of their own and keys that they share, and their gradients."""
    q, k, mask = numbers(3, 2, 20, 4), numbers(2, 20, 4, name=1), numbers(3, 20, 20, name=2) > 0

    def one(q: Tensor, k: Tensor, mask: Tensor) -> Tensor:
        return q.scaled_dot_product_attention(k, k, mask)

    wanted, backward = attention(q, *[np.broadcast_to(k, q.shape)] * 2, mask[:, None])
    compare(vmap(one, in_axes=(0, None, 0))(Tensor(q), Tensor(k), Tensor(mask)), wanted)
    slopes = vmap(grad(lambda q, k, mask: one(q, k, mask).sum()), in_axes=(0, None, 0))
    compare(slopes(Tensor(q), Tensor(k), Tensor(mask)), backward(np.ones_like(wanted))[0])


def test_weights_are_written_after_gradients_under_vmap(routines: int) -> None:
    """Gradients of each example, then a step, while they live; and drawing anew from a seed."""
    x, w = Tensor(numbers(3, 1, 20, 4)).realize(), Tensor(np.eye(4)).realize()

    def loss(w: Tensor, x: Tensor) -> Tensor:
        h = x @ w
        return h.scaled_dot_product_attention(h, h, dropout_p=0.25).square().sum()

    with Tensor.train():
        Tensor.manual_seed(4)
        slopes = vmap(grad(loss), in_axes=(None, 0))(w, x).realize()
        before = slopes.numpy().copy()
        w.assign(w - 0.1 * slopes.mean(0)).realize()
        Tensor.manual_seed(4)
    compare(w, np.eye(4) - 0.1 * before.mean(0))
    compare(slopes, before)


def test_a_cache_of_keys_that_grows(routines: int) -> None:
    """Keys up to a variable: kernels, whose sizes may vary; many queries at once and one."""
    cache = numbers(2, 1, 2, 40, 8)
    held, place = Tensor(cache).realize(), Variable("place", 1, 39)
    for queries in (1, 20):
        q = numbers(1, 2, queries, 8, name=queries)
        for now in (3, 30):
            bound = place.bind(now)
            k, v = (held[i, :, :, : bound + 1] for i in range(2))
            found = Tensor(q).scaled_dot_product_attention(k, v)
            assert not runs_routine(found)
            compare(found, attention(q, *cache[:, :, :, : now + 1])[0])


def test_a_training_step_is_captured(routines: int) -> None:
    """Forward and backward in replays, with other numbers each time."""

    @TinyJit
    def step(q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        q.grad = None
        y = q.scaled_dot_product_attention(k, k, is_causal=True)
        y.sum().backward()
        assert q.grad is not None
        return y.realize(), q.grad.realize()

    for seed in range(4):
        a, b = numbers(2, 40, 8, name=seed), numbers(2, 40, 8, name=9 + seed)
        y, slope = step(Tensor(a, requires_grad=True).realize(), Tensor(b).realize())
        wanted, backward = attention(a, b, b, causal=True)
        compare(y, wanted)
        compare(slope, backward(np.ones_like(wanted))[0])


@needs_ext
def test_a_realised_result_is_not_computed_again(cpu: None) -> None:
    """Backward after the loss was read: two runs of routines, since forward has stored what backward needs."""
    q = Tensor(numbers(1, 2, 64, 8), requires_grad=True).realize()
    y = q.scaled_dot_product_attention(q, q, is_causal=True).realize()
    before = GlobalCounters.global_ops
    y.sum().backward()
    assert q.grad is not None
    q.grad.realize()
    pairs = 2 * 64 * 65 // 2
    assert 5 * 16 * pairs <= GlobalCounters.global_ops - before < 6 * 16 * pairs


@needs_ext
def test_keys_that_are_not_seen_cost_nothing(cpu: None) -> None:
    """Causal attention counts half of the operations, and has one launch."""
    q = Tensor(numbers(1, 2, 256, 16)).realize()
    counted = []
    for causal in (False, True):
        before, launches = GlobalCounters.global_ops, GlobalCounters.kernel_count
        q.scaled_dot_product_attention(q, q, is_causal=causal).realize()
        counted.append(GlobalCounters.global_ops - before)
        assert GlobalCounters.kernel_count - launches == 1
    assert counted == [2 * 2 * 32 * 256 * 256, 2 * 2 * 32 * 256 * 257 // 2]


def peak_of(length: int, train: bool) -> int:
    """The bytes that attention of a length has needed at most, beyond its operands."""
    q, k, v = [Tensor(numbers(2, length, 8, name=i, dtype=np.float32), requires_grad=train).realize() for i in range(3)]
    pool = pool_of(Device["CPU"])
    pool.empty()
    start, pool.peak = pool.used, pool.used
    y = q.scaled_dot_product_attention(k, v, is_causal=True)
    if train:
        y.sum().backward()
        Tensor.realize(*[t.grad for t in (q, k, v) if t.grad is not None])
    else:
        y.realize()
    return pool.peak - start


@needs_ext
@pytest.mark.parametrize("train", [False, True])
def test_memory_grows_with_the_length(cpu: None, train: bool) -> None:
    """Not with its square: four times the length has four times the bytes, forward and backward."""
    short, long = peak_of(256, train), peak_of(1024, train)
    assert short > 0 and long <= 4.1 * short
    assert long < 1024 * 1024 * 4
    with Context(ROUTINES=0):
        assert peak_of(1024, train) >= 2 * 1024 * 1024 * 4


@needs_ext
def test_where_the_routine_is_used(cpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For enough queries and keys, of which those of all heads in a group count."""
    monkeypatch.setattr(fused_attention, "LEAST_KEYS", 256)
    keys, few = Tensor.empty(1, 2, 256, 8), Tensor.empty(1, 2, 255, 8)
    for q, k, used in (((1, 2, 16, 8), keys, 1), ((1, 2, 15, 8), keys, 0), ((1, 2, 16, 8), few, 0),
                       ((1, 16, 2, 8), keys, 1), ((1, 16, 1, 8), keys, 0)):  # fmt: skip
        assert runs_routine(Tensor.empty(*q).scaled_dot_product_attention(k, k, enable_gqa=q[1] > 2)) == bool(used)


def test_refused() -> None:
    """A mask and is_causal together are ambiguous."""
    t = Tensor.ones(2, 3, 4)
    with pytest.raises(ValueError, match="attention takes attn_mask or is_causal, not both"):
        t.scaled_dot_product_attention(t, t, attn_mask=Tensor.ones(3, 3), is_causal=True)
    with pytest.raises(
        ShapeError, match=r"enable_gqa needs heads as axis -3 of queries, keys and values, got .*\(4, 8\)"
    ):
        Tensor.ones(4, 8).scaled_dot_product_attention(t, t, enable_gqa=True)


@pytest.mark.parametrize("mask", ["none", "causal", "bool", "float"])
def test_beside_pytorch(routines: int, mask: str) -> None:
    """Value and gradients, with rows that see nothing and lengths that differ."""
    torch = pytest.importorskip("torch")
    arrays = [numbers(2, 3, n, 8, name=i, dtype=np.float32) for i, n in enumerate((37, 50, 50))]
    seen = np.random.default_rng(0).uniform(size=(37, 50)) < 0.7
    seen[5] = False
    given = {"bool": seen, "float": np.where(seen, 0.5, -np.inf).astype(np.float32)}.get(mask)
    ours, theirs = (
        [Tensor(a, requires_grad=True) for a in arrays],
        [torch.tensor(a, requires_grad=True) for a in arrays],
    )
    found = ours[0].scaled_dot_product_attention(
        *ours[1:], None if given is None else Tensor(given, requires_grad=False), is_causal=mask == "causal"
    )
    wanted = torch.nn.functional.scaled_dot_product_attention(
        *theirs, attn_mask=None if given is None else torch.tensor(given), is_causal=mask == "causal"
    )
    compare(found, wanted.detach().numpy(), 1e-5)
    found.square().sum().backward()
    wanted.square().sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        compare(our.grad, their.grad.numpy(), 1e-4)
