"""The tape: what was realised can still be differentiated, and says so when it cannot."""

import copy
import re

import numpy as np
import pytest

from tinygraft import Tensor, TinyJit, dtypes, nn
from tinygraft.engine import tape
from tinygraft.errors import GraphError


def test_reading_a_loss_before_backward_keeps_its_gradient():
    """item() before backward() changes nothing."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    loss = (x * x).sum()
    assert loss.item() == 5.0
    loss.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_several_realised_values_on_the_way_keep_the_gradient():
    """Histories may lead through further realised values."""
    x = Tensor([1.0, 4.0], requires_grad=True)
    h = x * x * x
    h.numpy()
    g = h.sqrt()
    g.numpy()
    z = (g * h).sum()
    z.item()
    z.backward()
    assert x.grad.tolist() == pytest.approx([4.5, 4.5 * 4.0**3.5], rel=1e-5)


def test_a_realised_value_is_a_target_of_gradient():
    """gradient() finds a tensor that has been realised since it was used."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    h = x * x
    z = (h * 3).sum()
    h.numpy()
    assert z.gradient(h)[0].tolist() == [3.0, 3.0]
    assert z.gradient(x)[0].tolist() == [6.0, 12.0]


def test_an_old_value_that_a_tape_reads_is_saved():
    """backward after the leaf was assigned to is that of the values which were used, read before or not."""
    for read in (False, True):
        w = Tensor([3.0], requires_grad=True).realize()
        loss = (w * w).sum()
        if read:
            loss.item()
        w.assign(w * 2).realize()
        loss.backward()
        assert w.tolist() == [6.0]
        assert w.grad is not None
        assert w.grad.tolist() == [6.0]


def test_an_old_value_that_was_not_saved_is_an_error_with_its_remedy(monkeypatch):
    """What is too large is not saved; backward raises where it needs it, and only there."""
    monkeypatch.setattr(tape, "SAVED", 3)
    w = Tensor([3.0], requires_grad=True).realize()
    loss, other = (w * w).sum(), (w * 5).sum()
    Tensor.realize(loss, other)
    w.assign(w * 2).realize()
    with pytest.raises(GraphError) as caught:
        loss.backward()
    first, lines, hint = str(caught.value).split("\n")
    assert first == "backward needs a value that has been overwritten since it was used"
    made, over = re.fullmatch(r"  made at \S+test_tape.py:(\d+)      overwritten at \S+:(\d+)", lines).groups()
    assert int(over) - int(made) == 3
    assert hint == "  hint: call backward before the parameters are assigned to, as an optimizer's step does"
    other.backward()
    assert w.grad is not None
    assert w.grad.tolist() == [5.0]


def test_histories_die_with_their_memory():
    """A value that nobody holds has no tape."""
    tape.clear()
    x = Tensor([1.0], requires_grad=True)
    y = (x + 1).realize()
    assert (len(tape._deferred), len(tape._entries)) == (1, 0)
    entry = tape.entry_of(y.uop.base)
    assert entry is not None and entry.tracked
    assert (len(tape._deferred), len(tape._entries)) == (0, 1)
    del y, entry
    assert len(tape._entries) == 0
    z = (x + 2).realize()
    assert len(tape._deferred) == 1
    del z
    assert len(tape._deferred) == 0


def test_a_loop_that_realises_its_state_does_not_grow():
    """Histories end after 256 realised values, and backward then says so."""
    w = Tensor([1.0], requires_grad=True).realize()
    h = Tensor([1.0])
    for _ in range(256 + 20):
        h = (h * w).realize()
    assert len(tape._entries) <= 256
    with pytest.raises(GraphError) as caught:
        h.backward()
    assert str(caught.value) == (
        "backward reaches a value that follows 256 others, each realised from the one before; no more are taped\n"
        "  hint: call backward before, or detach() the state of the loop"
    )


@pytest.mark.parametrize("make", ["rand", "computed", "cast"])
def test_a_leaf_of_no_data_keeps_its_gradient_when_a_result_is_read(make: str) -> None:
    """A leaf whose memory is first written by the kernels of the result is known by that memory in its tape."""
    made = {
        "rand": lambda: Tensor.rand(3, requires_grad=True),
        "computed": lambda: (Tensor.ones(3) + 1).requires_grad_(True),
        "cast": lambda: Tensor.full((3,), 2.0).cast(dtypes.bfloat16).requires_grad_(True),
    }
    leaf = made[make]()
    result = leaf * 3
    result.numpy()
    assert result.sum().gradient(leaf)[0].tolist() == [3.0, 3.0, 3.0]
    result.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [3.0, 3.0, 3.0]


def test_values_realised_together_know_each_other() -> None:
    """A value on the way that is realised in the same run is found in the history of the result."""
    x = Tensor([1.0, 2.0], requires_grad=True)
    middle = x * 2
    result = middle * middle
    Tensor.realize(middle, result)
    assert result.sum().gradient(middle)[0].tolist() == [4.0, 8.0]
    assert result.sum().gradient(x)[0].tolist() == [8.0, 16.0]


def test_a_reshaped_value_knows_the_value_it_was_made_of() -> None:
    """Two realised shapes of one memory are two nodes, so the gradient of one with respect to the other is found."""
    x = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    square = (x * 2).reshape(2, 2)
    line = square.reshape(4)
    Tensor.realize(square, line)
    assert line.sum().gradient(square)[0].tolist() == [[1.0, 1.0], [1.0, 1.0]]
    number = Tensor(2.0).cast(dtypes.float64).requires_grad_(True)
    row = number.reshape(1)
    row.numpy()
    assert row.sum().gradient(number)[0].item() == 1.0


def test_a_value_whose_tensor_is_gone_passes_the_gradient_on() -> None:
    """x is realised, used and rebound: the leaf is still found behind the second realised value."""
    leaf = Tensor([1.0, 2.0], requires_grad=True)
    x = leaf * 2
    x.realize()
    x = x * x
    x.numpy()
    x.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [8.0, 16.0]


@pytest.mark.parametrize(
    ("index", "lazily"),
    [(slice(None), [0.0, 0.0, 0.0]), (slice(None, None, 2), [0.0, 4.0, 0.0]), ([0, 1], [0.0, 0.0, 6.0])],
)
def test_a_computed_value_that_was_assigned_to_keeps_its_tape(index, lazily):
    """Whether a write into it is realised or not, a computed value has the gradient of what is left of it."""
    x = Tensor([1.0, 2.0, 3.0], requires_grad=True).realize()
    y = (x * 1).realize()
    y[index] = 5.0
    assert (y * y).sum().gradient(x)[0].tolist() == lazily
    y.realize()
    assert (y * y).sum().gradient(x)[0].tolist() == lazily


def test_a_result_that_is_computed_while_a_leaf_is_written_has_both_versions():
    """The old value and the new one are in one result, which is realised together with the write."""
    w = Tensor([3.0], requires_grad=True).realize()
    old = w * w
    w.assign(w.detach() * 2)
    result = (old * w).realize()
    result.sum().backward()
    assert result.tolist() == [54.0]
    assert w.grad is not None
    assert w.grad.tolist() == [2 * 3.0 * 6.0 + 9.0]


def test_a_shard_of_a_leaf_that_is_gone_is_a_leaf():
    """What was computed from it before it was written and became memory still knows it."""
    w = Tensor([1.0], requires_grad=True).shard(("CPU", "CPU:1"))
    before = w * 2
    w.assign(w.detach() * 5)
    w.realize()
    before.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [2.0]


def test_a_read_beside_a_write_changes_no_gradient():
    """What a run assigns and what it computes from that are both on the tape."""

    def normalised(w: Tensor) -> Tensor:
        x = Tensor([1.0, 2.0])
        x -= x.mean()
        return ((w * x) ** 2).sum()

    def in_part(w: Tensor) -> Tensor:
        b = Tensor([1.0, 2.0])
        b[0] = w[1]
        return (b * b).sum()

    def averaged(w: Tensor) -> Tensor:
        average = Tensor([1.0, 2.0])
        average.assign(average * 0.5 + w * 0.5)
        return ((w - average) ** 2).sum()

    for make in (normalised, in_part, averaged):
        found = []
        for read in (False, True):
            w = Tensor([0.5, -0.25], requires_grad=True)
            loss = make(w)
            if read:
                loss.item()
            loss.backward()
            assert w.grad is not None
            found.append(w.grad.tolist())
        assert found[0] == found[1], make.__name__


@pytest.mark.parametrize("read", [False, True])
def test_a_written_tensor_that_is_read_has_the_gradient_of_its_old_value(read):
    """x *= w: the derivative by w is the old x, which the write replaces."""
    w, x = Tensor([0.5, -0.25], requires_grad=True), Tensor([1.0, 2.0])
    x *= w
    if read:
        x.numpy()
    x.sum().backward()
    assert w.grad is not None
    assert w.grad.tolist() == [1.0, 2.0]


def test_a_deep_copy_of_a_leaf_is_a_leaf_of_its_own():
    """Neither fills the gradient of the other, realised or not; nor does Tensor(t, requires_grad=True)."""
    for realised in (False, True):
        w = Tensor([1.0, 2.0], requires_grad=True)
        copies = [copy.deepcopy(w), copy.deepcopy(w), Tensor(w, requires_grad=True)]
        if realised:
            Tensor.realize(w, *copies)
        for i, mine in enumerate(copies):
            (mine * (i + 3)).sum().backward()
        assert w.grad is None
        assert [mine.grad.tolist() for mine in copies] == [[3.0, 3.0], [4.0, 4.0], [5.0, 5.0]]


@pytest.mark.parametrize("splits", [None, (1, 2), (0, 3)])
@pytest.mark.parametrize("flag", [True, None])
def test_a_shard_that_was_written_and_read_keeps_its_tape(splits, flag):
    """The copies of its old parts, which the gradient is for, have the tape of the value that they are parts of."""
    for number, axis in enumerate((0, None)):
        devices = ("PYTHON", "PYTHON:1")
        x = Tensor([1.0, 2.0, 3.0], device="PYTHON").shard(devices, axis, splits if axis == 0 else None).realize()
        x.requires_grad = flag
        y = (x * x).realize()
        old = y * 2
        y[::2] = 5.0 + number
        y.realize()
        (y * y).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [0.0, 32.0, 0.0]
        x.grad = None
        (old * x).sum().backward()
        assert x.grad.tolist() == [6.0, 24.0, 54.0]


@pytest.mark.parametrize("viewed", [False, True])
@pytest.mark.parametrize("read", [None, "computed", "cut off", "assigned"])
@pytest.mark.parametrize("devices", [None, ("PYTHON", "PYTHON:1")])
def test_a_computed_value_that_nothing_is_behind_is_no_leaf(devices, read, viewed):
    """Numbers in all of it, and then a value with a gradient: what is assigned is not detached as in a leaf."""
    x = Tensor([1.0, 2.0, 3.0], device="PYTHON", requires_grad=True)
    y = (x if devices is None else x.shard(devices, 0)) * 2
    view = y.reshape(3, 1) if viewed else None
    if read == "computed":
        y.realize()
    y[:] = 7.0
    if read == "cut off":
        y.realize()
    y.assign((x if devices is None else x.shard(devices, 0)) * 0.5 + 1)
    if read == "assigned":
        y.realize()
    y[1] = 5.0
    total = (y * y).sum() if view is None else (view * view).sum()
    total.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.5, 0.0, 2.5]
    w = Tensor([1.0, 2.0], requires_grad=True).realize()
    w.assign(Tensor([3.0, 4.0]))
    assert w.requires_grad is True


def test_a_replay_looks_at_no_entry_whose_values_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view of a parameter in a captured step left entries that each replay walked, with nothing to save."""
    layers = [nn.Linear(8, 8) for _ in range(4)]
    optimizer = nn.optim.Adam([p for layer in layers for p in (layer.weight, layer.bias) if p is not None], lr=1e-3)
    first = layers[0].weight.numpy()

    @TinyJit
    @Tensor.train()
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for layer in layers:
            x = layer(x).relu()
        loss = (x @ layers[0].weight.T).square().mean().backward()
        return loss.realize(*optimizer.schedule_step())

    x = Tensor.rand(3, 8).realize()
    for _ in range(4):
        step(x).item()
    walked: list[int] = []
    original = tape.current
    monkeypatch.setattr(tape, "current", lambda entry: (walked.append(1), original(entry))[1])
    losses = [step(x).item() for _ in range(3)]
    assert walked == []
    assert len(set(losses)) == 3
    assert not np.array_equal(layers[0].weight.numpy(), first)


def test_values_of_a_chain_that_are_kept_are_each_walked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The graph of each was walked down to its leaves: in the square of their number."""

    def nodes_walked(count: int) -> int:
        lengths: list[int] = []
        with monkeypatch.context() as patch:
            original = tape.toposort
            patch.setattr(tape, "toposort", lambda *a, **k: (found := original(*a, **k), lengths.append(len(found)))[0])
            x = Tensor([0.5, 1.0], requires_grad=True).realize()
            kept = [y := x.sin().contiguous()]
            kept += [y := (y * 2 + 1).sin().contiguous() for _ in range(count)]
            Tensor.realize(*kept)
        kept[-1].sum().backward()
        assert x.grad is not None and x.grad.numpy().any()
        return sum(lengths)

    assert nodes_walked(40) < 2.2 * nodes_walked(20)
