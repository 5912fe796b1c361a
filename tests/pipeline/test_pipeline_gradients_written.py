"""A write between a use and its backward: gradients are those of the values that were used, read or not.

Optimizer steps, assignments and partial writes come between the losses and their backward calls. Where PyTorch raises
because it would need a value that is gone, a GraphError is right, or the old value's gradient; another number is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, nn
from tinygraft.errors import GraphError

torch = pytest.importorskip("torch")

READS: dict[str, Callable[[Tensor], Any]] = {
    "nothing": lambda t: None,
    "numpy": lambda t: t.numpy(),
    "repr": lambda t: repr(t),
    "realize": lambda t: t.realize(),
}
reads = pytest.mark.parametrize("read", READS.values(), ids=READS)
Read = Callable[[Tensor], Any]


def leaf(values: Any, flag: bool | None = True) -> Tensor:
    """A float64 tensor in memory."""
    return Tensor(np.array(values, np.float64), requires_grad=flag).realize()


def stepped(w: Tensor, optimizer: nn.optim.Optimizer) -> None:
    """A step of an optimizer."""
    with Tensor.train():
        optimizer.step()


WRITES: dict[str, Callable[[Tensor, Any], Any]] = {
    "step": stepped,
    "assign": lambda w, _: w.assign(w.detach() - 0.5),
    "assign and realize": lambda w, _: w.assign(w.detach() - 0.5).realize(),
    "number": lambda w, _: w.assign(7.0).realize(),
    "setitem": lambda w, _: w.__setitem__(0, 9.0),
    "setitem and realize": lambda w, _: (w.__setitem__(0, 9.0), w.realize()),
}
writes = pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)


# Two losses


@reads
@writes
def test_two_losses_and_a_write_between(write: Any, read: Read) -> None:
    """The second loss was computed before the write, and its gradient does not need the old value."""
    w = leaf([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=0.1)
    first, second = (w * w).sum(), (w * 3).sum()
    read(second)
    first.backward()
    assert w.grad is not None and w.grad.tolist() == [2.0, 4.0]
    write(w, optimizer)
    optimizer.zero_grad()
    second.backward()
    assert w.grad is not None, "there is no gradient"
    assert w.grad.tolist() == [3.0, 3.0]


@reads
@writes
def test_a_second_loss_that_needs_the_old_value(write: Any, read: Read) -> None:
    """PyTorch raises; the gradient of the old value is right too, that of the new one is not."""
    w = leaf([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=0.1)
    first, second = (w * 3).sum(), (w * w).sum()
    read(second)
    first.backward()
    write(w, optimizer)
    optimizer.zero_grad()
    try:
        second.backward()
    except GraphError:
        return
    assert w.grad is not None, "there is no gradient"
    assert w.grad.tolist() == [2.0, 4.0]


@reads
@writes
@pytest.mark.parametrize("ask", ["backward", "gradient"])
def test_a_second_loss_that_was_computed_as_the_first(ask: str, write: Any, read: Read) -> None:
    """Both are one node of the graph; a backward through one says nothing of the other."""
    w = leaf([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=0.1)
    first, second = (w * w).sum(), (w * w).sum()
    read(second)
    if ask == "backward":
        first.backward()
    else:
        (w.grad,) = first.gradient(w)
    write(w, optimizer)
    optimizer.zero_grad()
    second.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0, 4.0]


@reads
def test_a_loss_of_the_new_value(read: Read) -> None:
    """After the step everything is of the new value."""
    w = leaf([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=0.5)
    (w * w).sum().backward()
    stepped(w, optimizer)
    read(w)
    optimizer.zero_grad()
    loss = (w * w * w).sum()
    read(loss)
    loss.backward()
    assert w.grad is not None and w.tolist() == [0.0, 0.0] and w.grad.tolist() == [0.0, 0.0]


@reads
def test_losses_before_and_after_a_step_add_up(read: Read) -> None:
    """Without zero_grad the gradients of both add up in the same .grad."""
    w = leaf([1.0, 2.0])
    optimizer = nn.optim.SGD([w], lr=0.5)
    old = (w * 3).sum()
    (w * w).sum().backward()
    stepped(w, optimizer)
    read(old)
    new = (w + 1).square().sum()
    read(new)
    optimizer.zero_grad()
    old.backward()
    new.backward()
    assert w.grad is not None and w.grad.tolist() == [5.0, 5.0]


# What a product was computed from

CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "assign": lambda x: x.assign(Tensor(np.zeros(2))),
    "assign and realize": lambda x: x.assign(Tensor(np.zeros(2))).realize(),
    "setitem": lambda x: x.__setitem__(0, 0.0),
    "setitem and realize": lambda x: (x.__setitem__(0, 0.0), x.realize()),
    "times": lambda x: x.__imul__(0.0),
    "times and realize": lambda x: x.__imul__(0.0).realize(),
}


@reads
@pytest.mark.parametrize("flag", [None, False], ids=str)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_factor_is_the_one_that_was_used(change: Any, read: Read, flag: bool | None) -> None:
    """b = a*x, then x is written: the gradient of a is the old x, as b is a value."""
    a, x = leaf([2.0, 3.0]), leaf([5.0, 7.0], flag)
    b = a * x
    read(b)
    change(x)
    b.sum().backward()
    assert a.grad is not None and a.grad.tolist() == [5.0, 7.0]
    assert b.tolist() == [10.0, 21.0]


# Partial writes


@reads
@pytest.mark.parametrize("a_flag", [None, True], ids=str)
@pytest.mark.parametrize("b_flag", [None, True], ids=str)
def test_a_part_that_was_written(a_flag: bool | None, b_flag: bool | None, read: Read) -> None:
    """b[0:2] = a*a: reading b changes neither gradient. What is written into a leaf is detached: a has none then."""

    def gradients(see: Read) -> tuple[Any, Any]:
        a, b = leaf([2.0, 3.0], a_flag), leaf([1.0, 1.0, 5.0], b_flag)
        b[0:2] = a * a
        see(b)
        (b * b).sum().backward()
        return tuple(None if t.grad is None else t.grad.tolist() for t in (a, b))  # type: ignore[return-value]

    assert gradients(read) == gradients(READS["nothing"])
    assert gradients(read) == ((None, [8.0, 18.0, 10.0]) if b_flag else ([32.0, 108.0], None))


@reads
def test_parts_written_in_a_loop(read: Read) -> None:
    """A buffer filled row by row, read after each, as caches are."""
    x, t = leaf([0.5, 1.5]), torch.tensor([0.5, 1.5], dtype=torch.float64, requires_grad=True)
    rows = Tensor(np.zeros((4, 2)), requires_grad=False).realize()
    others = torch.zeros(4, 2, dtype=torch.float64)
    for i in range(4):
        rows[i] = x * (i + 1)
        read(rows)
        others[i] = t * (i + 1)
    (rows * rows).sum().backward()
    (others * others).sum().backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), t.grad.numpy(), rtol=1e-14)


@reads
def test_an_assigned_value_keeps_its_tape(read: Read) -> None:
    """t.assign(f(x)): the gradient of x goes through t, read or not."""
    x = leaf([2.0, 3.0])
    t = leaf([0.0, 0.0], False)
    t.assign(x * x)
    read(t)
    u = t * 3
    read(u)
    u.sum().backward()
    assert x.grad is not None and x.grad.tolist() == [12.0, 18.0]


@reads
def test_a_clone_before_a_write(read: Read) -> None:
    """A clone of a leaf keeps the old value, and its gradient reaches the leaf."""
    x = leaf([2.0, 3.0])
    y = x.clone()
    read(y)
    x.assign(x.detach() * 10).realize()
    (y * y).sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [4.0, 6.0]


# Memory that several tensors had, and values computed along


@reads
def test_a_leaf_whose_memory_another_tensor_went_on_to_write(read: Read) -> None:
    """`t.assign(x)` of an expression makes both one memory; a write to t leaves x, in memory of its own, a leaf."""
    x = leaf([3.0, 5.0])
    t = x - x
    t.assign(x)
    t[0:1] += t[0:1]
    read(t)
    (t * t).sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [24.0, 10.0]
    assert x.tolist() == [3.0, 5.0]


@reads
def test_a_leaf_moved_after_a_backward_went_through(read: Read) -> None:
    """The old value is no longer saved then, and the leaf is found all the same."""
    x = leaf([3.0, 5.0])
    t = x - x
    part = t[0:1]
    t.assign(x)
    (part * 2).sum().backward()
    read(part)
    part *= part
    read(t)
    part.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [8.0, 0.0]


@reads
def test_what_another_tensor_wrote_before_is_not_the_leaf(read: Read) -> None:
    """The memory that a leaf was in has other values since; a result of those does not depend on the leaf."""
    x = leaf([3.0, 5.0])
    t = x - x
    t.assign(x)
    t.assign(Tensor([1.0, 2.0], dtype=t.dtype, requires_grad=False).realize())
    read(t)
    y = t * x
    read(y)
    t.assign(Tensor([7.0, 8.0], dtype=t.dtype, requires_grad=False).realize())
    read(t)
    y.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [1.0, 2.0]


@reads
def test_a_value_that_a_written_leaf_was_made_of(read: Read) -> None:
    """Reading the leaf computes the other value along, whose backward needs what the leaf was."""
    x, t = leaf([3.0]), leaf([2.0], None)
    t *= x * x
    x += t
    read(x)
    t.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [12.0]
    assert x.tolist() == [21.0]


@reads
def test_a_value_on_the_way_to_a_lazy_one_that_a_written_leaf_was_made_of(read: Read) -> None:
    """The same where only a lazy tensor refers to that value."""
    x, t = leaf([3.0]), leaf([2.0], None)
    t *= x * x
    x += t
    y = t.sin()
    del t
    read(x)
    y.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == pytest.approx([12.0 * np.cos(18.0)])


@reads
@pytest.mark.parametrize("new", ["part", "whole", "twice"])
def test_a_computed_tensor_that_was_written_is_still_what_others_were_computed_from(new: str, read: Read) -> None:
    """No tensor has a flag, and what x was computed from is gone: x is found by its old value, read or not."""
    source = leaf([2.0, 4.0], None)
    x = (source * 1.5).realize()
    del source
    y = (x * x).realize()
    if new == "whole":
        x.assign(Tensor([8.0, 9.0], dtype=x.dtype).realize())
    else:
        x[0] = 7.0
    read(x)
    if new == "twice":
        x[1] = 6.0
        read(x)
    assert y.sum().gradient(x)[0].tolist() == [6.0, 12.0]
    y.sum().backward()
    assert x.grad is not None, "there is no gradient"
    assert x.grad.tolist() == [6.0, 12.0]


# Training steps by hand


HANDS: dict[str, Callable[[Tensor], Any]] = {
    "-=": lambda w: w.__isub__(0.1 * w.grad),
    "assign": lambda w: w.assign(w - w.grad * 0.1),
    "assign of detached": lambda w: w.assign(w.detach() - w.grad * 0.1),  # type: ignore[operator]
}


@reads
@pytest.mark.parametrize("hand", HANDS.values(), ids=HANDS)
def test_a_step_by_hand(hand: Any, read: Read) -> None:
    """w -= lr * w.grad leaves w a leaf: four steps are PyTorch's."""
    w, t = leaf([1.0, -0.5]), torch.tensor([1.0, -0.5], dtype=torch.float64, requires_grad=True)
    for _ in range(4):
        w.grad = None
        loss = (w * w * w).sum() + w.sin().sum()
        loss.backward()
        read(loss)
        assert w.grad is not None, "there is no gradient"
        read(w.grad)
        hand(w)
        read(w)
        assert w.requires_grad
        t.grad = None
        ((t * t * t).sum() + t.sin().sum()).backward()
        with torch.no_grad():
            t -= 0.1 * t.grad
    np.testing.assert_allclose(w.numpy(), t.detach().numpy(), rtol=1e-13)


# A generative adversarial network


def _weights(seed: int, *shapes: tuple[int, ...]) -> list[Any]:
    random = np.random.RandomState(seed)
    return [random.randn(*shape) * 0.5 for shape in shapes]


def _network(p: Any, x: Any) -> Any:
    return (x @ p[0] + p[1]).tanh() @ p[2] + p[3]


@reads
@pytest.mark.parametrize("style", ["detach", "again", "before"])
def test_a_textbook_gan(style: str, read: Read) -> None:
    """Generator and discriminator, an optimizer for each: after five steps all parameters are PyTorch's.

    detach: the discriminator learns from fakes that are detached, then judges the same fakes. again: fakes are made
    anew for the generator. before: the loss of the generator is computed and differentiated before any step.
    """
    shapes = ((2, 4), (4,), (4, 3), (3,)), ((3, 4), (4,), (4, 1), (1,))
    start = [_weights(i, *s) for i, s in enumerate(shapes)]
    ours = [[leaf(v) for v in side] for side in start]
    other = [[torch.tensor(v, requires_grad=True) for v in side] for side in start]
    make = [nn.optim.SGD(side, lr=0.1) for side in ours]
    train = [torch.optim.SGD(side, lr=0.1) for side in other]
    data = np.random.RandomState(9)

    def round_of(g: Any, d: Any, of_g: Any, of_d: Any, noise: Any, real: Any, see: Any) -> None:
        fake = _network(g, noise)
        see(fake)
        if style == "before":
            judged = (_network(d, fake) - 1).square().mean()
            see(judged)
            of_g.zero_grad()
            judged.backward()
        of_d.zero_grad()
        loss = (_network(d, real) - 1).square().mean() + _network(d, fake.detach()).square().mean()
        see(loss)
        loss.backward()
        of_d.step()
        if style != "before":
            of_g.zero_grad()
            judged = (_network(d, _network(g, noise) if style == "again" else fake) - 1).square().mean()
            see(judged)
            judged.backward()
        of_g.step()

    with Tensor.train():
        for _ in range(5):
            noise, real = data.randn(5, 2), data.randn(5, 3)
            given = [Tensor(v, requires_grad=False) for v in (noise, real)]
            round_of(*ours, *make, *given, read)
            round_of(*other, *train, torch.tensor(noise), torch.tensor(real), lambda t: None)
    for mine, its in zip((p for side in ours for p in side), (p for side in other for p in side), strict=True):
        np.testing.assert_allclose(mine.numpy(), its.detach().numpy(), rtol=1e-10, atol=1e-12)


def test_sums_of_strided_parts_that_were_written_are_taken_apart_once() -> None:
    """The gradient of a mean goes back through a part, every other row of it and a write of that into itself."""
    t = Tensor([1.0], requires_grad=True).realize()
    memory = Tensor([[1.0], [1.0], [1.0]]).realize()
    part = memory.narrow(0, 1, 2)
    memory += t
    row = part[::2, :]
    row -= 0.5
    part.assign(row)
    part.mean().backward()
    leaf = torch.tensor([1.0], requires_grad=True)
    its_memory = torch.ones(3, 1)
    its_memory += leaf
    its_part = its_memory.narrow(0, 1, 2)
    its_row = its_part[::2, :]
    its_row -= 0.5
    its_part.copy_(its_row.clone())
    its_part.mean().backward()
    assert t.grad is not None and leaf.grad is not None
    assert t.grad.tolist() == leaf.grad.tolist()


@reads
@pytest.mark.parametrize("early", [False, True])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")], ids=["one device", "two devices"])
def test_a_leaf_written_before_it_was_memory(devices: tuple[str, ...] | None, early: bool, read: Read) -> None:
    """What was computed of the leaf's first value is read after the leaf itself has its second one in memory."""
    x, w = leaf([1.5, -1.0, 3.0], False), Tensor(np.array([1.0, 1.0, 1.0]), requires_grad=True)
    if devices is not None:
        x, w = x.shard(devices, None).realize(), w.shard(devices, None)
    y = x.maximum(w)
    w *= w + 1
    if early:
        w.realize()
    read(y)
    y.sum().backward()
    assert w.grad is not None, "there is no gradient"
    assert w.grad.tolist() == [0.0, 1.0, 0.0]
    assert w.tolist() == [2.0, 2.0, 2.0]


@reads
@pytest.mark.parametrize("view", ["turned", "reshaped"])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")], ids=["one device", "two devices"])
def test_a_view_of_a_leaf_that_was_written_before_it_was_memory(
    view: str, devices: tuple[str, ...] | None, read: Read
) -> None:
    """The gradient is the leaf's, in its shape and order; the view is none, whatever shape it has."""
    w = Tensor(np.array([[1.0, 2.0], [3.0, 4.0]]), requires_grad=True)
    factor = leaf([[1.0, 2.0], [3.0, 4.0]], False)
    if devices is not None:
        w, factor = w.shard(devices, 0), factor.shard(devices, 0).realize()
    part = w.T if view == "turned" else w.reshape(1, 2, 2)
    y = (part * (factor.T if view == "turned" else factor)).sum()
    part *= 0.5
    read(part)
    y.backward()
    assert w.grad is not None, "there is no gradient"
    assert (w.grad.tolist(), part.grad) == ([[1.0, 2.0], [3.0, 4.0]], None)
    assert w.tolist() == [[0.5, 1.0], [1.5, 2.0]]


@pytest.mark.parametrize("steps", ["", "own", "own read", "own add", "own read add"])
def test_a_leaf_that_was_given_a_value_is_not_computed_from_it(steps: str) -> None:
    """Whatever becomes of that value: one written through detach() has a node that the leaf's write has too."""
    w = Tensor(np.array([1.0, 2.0]), requires_grad=True).realize()
    value = w - w
    w.assign(value)
    cut = value.detach()
    if "own" in steps:
        cut.assign(cut)
    if "read" in steps:
        value.numpy()
    if "add" in steps:
        value += 0.5
    w.sum().backward()
    assert w.grad is not None, "there is no gradient"
    assert (w.grad.tolist(), w.tolist()) == ([1.0, 1.0], [0.0, 0.0])


@reads
@pytest.mark.parametrize("first", ["the use", "the leaf"])
@pytest.mark.parametrize("computed", [False, True])
def test_a_detached_leaf_is_written_and_what_it_was_cut_from_has_no_gradient(
    computed: bool, first: str, read: Read
) -> None:
    """x.detach().requires_grad_() is a leaf of its own, also after a write to all of it."""
    x = leaf([1.0, 2.0], True)
    x = x * 1 if computed else x
    leaf_of_its_own = x.detach().requires_grad_()
    before = leaf_of_its_own * 3
    leaf_of_its_own *= 2
    read(before if first == "the use" else leaf_of_its_own)
    (before.sum() + leaf_of_its_own.sum()).backward()
    assert leaf_of_its_own.grad is not None, "there is no gradient"
    assert (leaf_of_its_own.grad.tolist(), x.grad) == ([4.0, 4.0], None)


@pytest.mark.parametrize("way", ["itself", "a view", "detach"])
@pytest.mark.parametrize("reads", ["", "use", "leaf", "use leaf"])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")], ids=["one device", "two devices"])
def test_a_leaf_of_data_that_is_used_and_then_written(devices: tuple[str, ...] | None, reads: str, way: str) -> None:
    """The use may be read before the leaf's memory is written for the first time, by a node of its own."""
    w, factor = Tensor(np.array([2.0, 3.0]), requires_grad=True), Tensor(np.array(-1.5), requires_grad=True)
    if devices is not None:
        w, factor = w.shard(devices, 0), factor.shard(devices, None)
    use = w.sum()
    use *= factor
    if "use" in reads:
        use.numpy()
    loss = use.sum()
    target = {"itself": factor, "a view": factor.reshape(1), "detach": factor.detach()}[way]
    target.assign(use.detach().reshape(target.shape))
    if "leaf" in reads:
        factor.item()
    loss.backward()
    assert factor.grad is not None, "there is no gradient"
    assert w.grad is not None, "there is no gradient"
    assert (factor.grad.item(), w.grad.tolist(), factor.item()) == (5.0, [-1.5, -1.5], -7.5)


@reads
@pytest.mark.parametrize("part", [False, True])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")], ids=["one device", "two devices"])
@pytest.mark.parametrize("name", ["contiguous", "cast", "repeat", "pad"])
def test_a_value_with_a_leafs_memory_is_written_after_the_leaf(
    name: str, devices: tuple[str, ...] | None, part: bool, read: Read
) -> None:
    """What had nothing to do is the leaf's node; the leaf's write moves it to a copy, which makes no leaf of it."""
    w = Tensor(np.array([1.0, 2.0]), requires_grad=True)
    w = w.realize() if devices is None else w.shard(devices, None).realize()
    same = {
        "contiguous": lambda: w.contiguous(),
        "cast": lambda: w.cast(w.dtype),
        "repeat": lambda: w.repeat(1),
        "pad": lambda: w.pad(((0, 0),)),
    }[name]()
    w *= 0.5
    Tensor.realize(w, same)
    read(same)
    if part:
        same[0:1] = 1.5
    else:
        same *= 3
    same.sum().backward()
    assert w.grad is not None, "there is no gradient"
    assert w.grad.tolist() == ([0.0, 1.0] if part else [3.0, 3.0])
    assert (same.tolist(), w.tolist()) == ([1.5, 2.0] if part else [3.0, 6.0], [0.5, 1.0])


TWO = ("CPU", "CPU:1")
LEAVES: dict[str, Callable[[], Tensor]] = {
    "on two devices": lambda: Tensor([1.0, 2.0], requires_grad=True).shard(TWO, None),
    "cut over two": lambda: Tensor([1.0, 2.0], requires_grad=True).shard(TWO, 0),
    "an expression": lambda: (Tensor([1.0, 2.0]) * Tensor([2.0, 2.0])).requires_grad_(),
    "a constant": lambda: Tensor.ones(2, requires_grad=True),
    "a cast": lambda: Tensor([1, 2]).float().requires_grad_(),
    "memory": lambda: Tensor([1.0, 2.0], requires_grad=True).realize(),
}
CHANGES: dict[str, Callable[[Tensor], Any]] = {
    "none": lambda t: None,
    "other values": lambda t: t.assign(t.detach() * 0 + 3.0),
    "a part": lambda t: t.__setitem__(slice(0, 1), 5.0),
    "in place": lambda t: t.__isub__(t * 0.5),
    "its half": lambda t: t.assign(t * 0.5),
}


@pytest.mark.parametrize("start", LEAVES)
@pytest.mark.parametrize("before", CHANGES)
@pytest.mark.parametrize("after", [name for name in CHANGES if name != "none"])
def test_a_leaf_written_before_and_after_a_use(start: str, before: str, after: str) -> None:
    """The gradient is that of the value used, whichever of the two tensors is read first.

    Of a leaf that was no memory, written, used, written and read, the value used had no gradient: by the time that it
    was read the leaf was known by its memory and by the node it began as, and not by what was written first.
    """
    for order in ("", "u", "l", "ul", "lu"):
        leaf, same = LEAVES[start](), LEAVES[start]().realize()
        CHANGES[before](leaf)
        CHANGES[before](same)
        used = leaf * leaf * leaf
        CHANGES[after](leaf)
        for letter in order:
            (used if letter == "u" else leaf).numpy()
        used.backward(used.ones_like())
        assert leaf.grad is not None, order
        np.testing.assert_allclose(leaf.grad.numpy(), 3 * same.numpy() ** 2, rtol=1e-5)


MOVED = {
    "flipped twice": lambda t: t.flip(0).flip(0),
    "flipped": lambda t: t.flip(0),
    "transposed": lambda t: t.reshape(2, 2).T,
    "permuted": lambda t: t.reshape(2, 1, 2).permute(2, 0, 1),
    "reshaped": lambda t: t.reshape(2, 2),
}


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("name", MOVED)
def test_a_view_of_all_elements_replaces_the_value(name: str, reads: bool) -> None:
    """So backward does not need the old one, which an optimizer's step has overwritten (seed 3128105107457234)."""
    made = [Tensor([1.5, -2.0, 0.5, 3.0], requires_grad=True).realize() for _ in range(2)]
    w, other = made
    t = w * other
    new = w * 2
    if reads:
        t.numpy()
    MOVED[name](t).assign(new.reshape(MOVED[name](t).shape))
    w.assign(w.detach() + 1).realize()
    (MOVED[name](t) * Tensor([1.0, 2.0, 3.0, 4.0]).reshape(MOVED[name](t).shape)).sum().backward()
    assert w.grad.tolist() == [2.0, 4.0, 6.0, 8.0]
    assert other.grad is None or other.grad.tolist() == [0.0] * 4
    np.testing.assert_array_equal(MOVED[name](t).numpy().flatten(), [3.0, -4.0, 1.0, 6.0])


@pytest.mark.parametrize("reads", [False, True])
@pytest.mark.parametrize("again", ["t += 0.5", "t[0:1] += 0.5", "t.assign(t * 1 + 0.5)", "t = t + 0.5", ""])
@pytest.mark.parametrize("second", ["w.assign(x)", "w[0:2] = x", "w += x", ""])
def test_a_value_of_a_leaf_that_was_written_before_and_after_is_computed_from_it(
    second: str, again: str, reads: bool
) -> None:
    """The write before is in its graph; when another tensor's write moves the graph to copies, that is still the leaf.

    So a write to the value is a write to a computed value, and no new leaf (seed 1253930328657727).
    """
    x, w = (Tensor([value, 2.0], requires_grad=True).realize() for value in (1.0, 3.0))
    w.assign(x)
    t = w.sum(0, keepdim=True)
    names = {"x": x, "w": w, "t": t}
    exec(second, names)
    x += 0.5
    if reads:
        x.numpy()
    exec(again, names)
    assert names["t"].sum().backward().tolist() == 3.0 + 0.5 * bool(again)
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 1.0]
    assert x.grad is None
