"""The tape of values that nothing asked a gradient of: reads keep gradients, and keep no large memory alive."""

from __future__ import annotations

import gc
import weakref

import pytest

from tinygraft import GlobalCounters, Tensor
from tinygraft.device.buffer import buffer_of
from tinygraft.engine import tape
from tinygraft.errors import GraphError
from tinygraft.uop.held import memories

LARGE = (64 << 10) // 4 + 1  # elements of float32 that are too many to be held


def memory(tensor: Tensor) -> weakref.ref[object]:
    """The Buffer of a realised tensor, weakly."""
    return weakref.ref(buffer_of(memories(tensor.uop)[0]))


@pytest.mark.parametrize("size", [3, LARGE])
def test_a_read_result_has_the_gradient_of_its_input(size: int) -> None:
    """No tensor has a flag; the result was read, and a value on the way was read and is gone."""
    x = Tensor([0.5]).expand(size).contiguous().realize()
    middle = x * x
    middle.numpy()
    y = middle * x
    y.numpy()
    del middle
    gc.collect()
    assert y.sum().gradient(x)[0].tolist()[:2] == [0.75, 0.75]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist()[-1] == 0.75


def test_results_that_are_read_keep_no_large_input() -> None:
    """A list of results does not hold the batches that they were computed from."""
    weight = Tensor([2.0]).realize()
    batch = Tensor([1.0] * LARGE).realize()
    was = memory(batch)
    result = (batch * weight).sum()
    result.numpy()
    del batch
    gc.collect()
    assert was() is None
    with pytest.raises(GraphError) as caught:
        result.gradient(weight)
    assert str(caught.value) == (
        "backward needs a value that was freed after its use: nothing required a gradient when it was read\n"
        "  hint: set requires_grad=True on what the gradient is for before it is used, or call backward before the read"
    )


def test_a_gradient_that_needs_no_value_does_not_miss_it() -> None:
    """The derivative of a sum by the one input that is there needs nothing of the other, which is gone."""
    weight = Tensor([2.0]).realize()
    batch = Tensor([1.0] * LARGE).realize()
    result = (batch + weight).sum()
    result.numpy()
    del batch
    gc.collect()
    assert result.gradient(weight)[0].tolist() == [float(LARGE)]


def test_an_index_that_nobody_holds_is_held() -> None:
    """What is small stays: the gradient of a gather needs its index."""
    x = Tensor([1.0, 2.0, 3.0]).realize()
    y = x[Tensor([2, 0])] * 3
    y.numpy()
    gc.collect()
    assert y.sum().gradient(x)[0].tolist() == [3.0, 0.0, 3.0]


def test_a_long_loop_is_cut_and_says_so() -> None:
    """After 256 realised states a gradient by what is behind them raises, one by what is not does not."""
    first, other = Tensor([1.0]).realize(), Tensor([3.0]).realize()
    state = first
    for _ in range(256 + 3):
        state = (state * 0.5).realize()
    result = (state * other).sum()
    assert result.gradient(other)[0].shape == (1,)
    with pytest.raises(GraphError, match=r"^backward reaches a value that follows 256 others, each realised"):
        result.gradient(first)


def test_a_large_graph_is_not_kept_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more than MOST_ROWS operations nothing is kept; who asks for a gradient behind them is told."""
    monkeypatch.setattr(tape, "MOST_ROWS", 20)
    x, y = Tensor([1.0] * LARGE).realize(), Tensor([1.0]).realize()
    z = x
    for _ in range(30):
        z = z.sin()
    z.numpy()
    assert (z * y).sum().gradient(y)[0].shape == (1,)
    with pytest.raises(GraphError) as caught:
        z.sum().gradient(x)
    assert str(caught.value) == (
        "backward reaches a value that was realised from more than 20 operations, none of which required a gradient; "
        "they were not taped\n  hint: set requires_grad=True on what the gradient is for before it is used, or call "
        "backward before the read"
    ).replace("20", "4096")


def test_a_leaf_of_constants_is_found_after_it_became_memory() -> None:
    """x was used, the result was read, then x itself: gradient and backward still know it."""
    x = Tensor.ones(3)
    y = x * 2
    y.numpy()
    x.realize()
    assert y.sum().gradient(x)[0].tolist() == [2.0, 2.0, 2.0]
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_grads_are_detached() -> None:
    """A loss made of .grad does not flow through the backward that made it; that of gradient() does."""
    x = Tensor([3.0], requires_grad=True)
    (x * x * x).sum().backward()
    assert x.grad is not None
    mixed = (x.grad * x).sum()
    assert mixed.gradient(x)[0].tolist() == [27.0]
    first = (x * x * x).sum().gradient(x)[0]
    assert first.sum().gradient(x)[0].tolist() == [18.0]


def test_what_is_written_into_a_leaf_is_detached() -> None:
    """A leaf stays one, written whole or in part, realised or not; old and new uses add up."""
    for realised in (False, True):
        a, w = Tensor([2.0], requires_grad=True), Tensor([1.0, 1.0], requires_grad=True).realize()
        before = (w * 3).sum()
        w[0:1] = a * a
        if realised:
            w.realize()
        (before + (w * w).sum()).backward()
        assert a.grad is None
        assert w.grad is not None
        assert w.grad.tolist() == [11.0, 5.0]


def test_saved_values_are_given_back() -> None:
    """A copy that was made for a backward goes with the value that may ask for it."""
    w = Tensor([2.0], requires_grad=True).realize()
    loss = (w * w).sum()
    loss.numpy()
    w.assign(w.detach() * 2).realize()
    assert len(tape._origins) >= 1
    loss.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [4.0]
    w.grad, saved = None, len(tape._origins)
    del loss
    gc.collect()
    assert len(tape._origins) < saved


def test_backward_that_reaches_nothing_raises() -> None:
    """A result of detached values has nobody to give a gradient to."""
    x = Tensor([1.0], requires_grad=True)
    with pytest.raises(
        GraphError, match=r"^backward found no tensor .* of shape \(\) passes detach\(\) or no_grad\(\)\n"
    ):
        x.detach().sum().detach().backward()


@pytest.mark.parametrize("flag", [None, True])
@pytest.mark.parametrize("read", ["nothing", "what was written", "the result", "the result before", "both at once"])
def test_a_read_beside_a_write_keeps_the_gradient(read: str, flag: bool | None) -> None:
    """What a derivative needs is written over, and something is read before or after: the gradient is the same."""
    x = Tensor([1.0, 2.0], requires_grad=flag).realize()
    w = Tensor([3.0, 4.0]).realize()
    y = x * w
    if read == "the result before":
        y.numpy()
    w.assign(w * 0)
    if read == "what was written":
        assert w.tolist() == [0.0, 0.0]
    elif read == "both at once":
        Tensor.realize(y, w)
    elif read != "nothing":
        w.realize()
        assert y.tolist() == [3.0, 8.0]
    assert y.sum().gradient(x, w)[0].tolist() == [3.0, 4.0]


@pytest.mark.parametrize("read", [True, False])
def test_an_index_that_is_written_over_stays_for_the_gradient(read: bool) -> None:
    """By the index a scatter put another value there, which hides an element of the target."""
    x, index = Tensor([-1.0, -2.0, 3.0, 4.0]).realize(), Tensor([1]).realize()
    hidden = x.scatter(0, index, Tensor([-0.5]))
    whole = Tensor.ones(2, 4, requires_grad=True).realize() * hidden
    index -= index
    if read:
        assert index.tolist() == [0]
    assert whole.sum().gradient(x)[0].tolist() == [2.0, 0.0, 2.0, 2.0]


@pytest.mark.parametrize("flagged", [True, False])
def test_old_values_that_nothing_asked_for_are_kept_up_to_a_bound(flagged: bool) -> None:
    """Results of a loop that writes over its state keep 64 old states; a gradient behind a later one raises.

    A tensor that asks for a gradient and has nothing to do with it changes nothing.
    """
    tape.clear()
    other = Tensor([5.0], requires_grad=flagged).realize()
    x, state = Tensor([2.0]).realize(), Tensor([1.0]).realize()
    results = []
    for _ in range(74):
        results.append((x * state).realize())
        state.assign(state + 1).realize()
    assert results[0].gradient(x)[0].tolist() == [1.0]
    assert results[63].gradient(x)[0].tolist() == [64.0]
    with pytest.raises(GraphError, match="backward needs a value that has been overwritten since it was used"):
        results[-1].gradient(x)
    assert other.tolist() == [5.0]


def test_large_memory_is_not_copied_for_what_nothing_asked_for() -> None:
    """A gradient that needs its old value raises."""
    x, state = Tensor([2.0]).realize(), Tensor([1.0] * LARGE).realize()
    result = (x * state).sum()
    result.numpy()
    state.assign(state * 2).realize()
    with pytest.raises(GraphError, match="backward needs a value that has been overwritten since it was used"):
        result.gradient(x)


def test_a_cache_that_is_filled_part_by_part_is_not_copied() -> None:
    """An attention cache has a reader of each of its states; a gradient behind one that was written since raises."""
    x, cache = Tensor([2.0]).realize(), Tensor([1.0, 1.0, 1.0]).realize()
    result = (x * cache).sum().realize()
    GlobalCounters.reset()
    cache[1:2] = 5.0
    cache.realize()
    assert GlobalCounters.kernel_count == 1
    with pytest.raises(GraphError, match="backward needs a value that has been overwritten since it was used"):
        result.gradient(x)


def test_a_running_average_keeps_no_old_values() -> None:
    """What is assigned to itself in a loop is copied nowhere."""
    tape.clear()
    average, seen = Tensor([0.0]).realize(), Tensor([1.0]).realize()
    GlobalCounters.reset()
    for _ in range(20):
        average.assign(average * 0.9 + seen * 0.1).realize()
    assert GlobalCounters.kernel_count == 20
