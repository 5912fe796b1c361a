"""A failure loses nothing: memory, launches, copies, compilers, files and Ctrl-C fail at every event in turn.

`failures.every` says what is checked after each.
"""

from __future__ import annotations

import gc
from contextlib import nullcontext

import numpy as np
import pytest

from failures import RAISED, Program, State, every, failing, value_of
from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, nn, temporary
from tinygraft.engine import tape
from tinygraft.errors import DeviceError, DeviceLostError

pytestmark = pytest.mark.usefixtures("ctrl_c")
BOTH = ("PYTHON:0", "PYTHON:1")


@pytest.fixture(autouse=True)
def python_device():
    """All of this runs on the PYTHON device, where it does not say otherwise."""
    with Context(DEV="PYTHON"):
        yield


def data(*shape: int, seed: int = 0) -> Tensor:
    """Numbers in memory."""
    return Tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32)).realize()


def forward() -> State:
    """A value that takes several kernels, and another live one that shares a part of it."""
    x, w = data(3, 4), data(4, 4, seed=1)
    hidden = (x @ w).relu().contiguous()
    out, beside = (hidden @ w).softmax(-1), hidden.sum(0)
    return State([], lambda: out.realize(), lambda: None, [out, beside, hidden, x, w])


def backward() -> State:
    """Gradients, realised together."""
    x = data(3, 4)
    w, v = (data(4, 4, seed=seed).requires_grad_() for seed in (1, 2))

    def act() -> None:
        ((x @ w).relu() @ v).square().sum().backward()
        Tensor.realize(w.grad, v.grad)

    return State([], act, lambda: None, [x, w, v])


def trained(kind: str) -> State:
    """A step of an optimizer; the smaller one has less data."""
    w, v = (data(3, 3, seed=seed) for seed in (1, 2))
    make = {"adam": lambda: nn.optim.Adam([w, v], lr=0.1), "sgd": lambda: nn.optim.SGD([w, v], lr=0.1, momentum=0.9)}
    optimizer = make[kind]()
    watched = w * 10

    def step(x: Tensor) -> None:
        with Tensor.train():
            optimizer.zero_grad()
            ((x @ w).relu() @ (v * v * v)).square().sum().backward()
            optimizer.step()

    x, small = data(4, 3), data(2, 3, seed=5)
    state = optimizer._made.tensors
    return State([w, v, *state], lambda: step(x), lambda: step(small), [watched])


def replayed() -> State:
    """A replay of a training step."""
    w, m = data(3, 3, seed=1), Tensor.zeros(3, 3).contiguous().realize()
    x, small = data(4, 3), data(4, 3, seed=5)

    def plain(x: Tensor) -> Tensor:
        hidden = (x @ w).contiguous()
        m.assign(m * 0.9 + x.T @ hidden)
        loss = (hidden * hidden).sum()
        w.assign(w - m * 0.1)
        Tensor.realize(loss, m, w)
        return loss

    step = TinyJit(plain)
    for seed in (7, 8, 9):
        step(data(4, 3, seed=seed))
    assert step.captured == 1
    w.assign(data(3, 3, seed=1)).realize()
    m.assign(Tensor.zeros(3, 3)).realize()
    watched = w * 10
    return State([w, m], lambda: step(x), lambda: step(small), [watched])


def replayed_twice() -> State:
    """A replay that writes a value two times: between the two it is neither old nor new.

    Under VALIDATE a replay is a run of the function, in which each write is a realisation by itself.
    """
    x = data(4)

    def plain(y: Tensor) -> Tensor:
        x.assign(x + y).realize()
        x.assign(x * 10).realize()
        return (x - 1).realize()

    step = TinyJit(plain)
    for seed in (7, 8, 9):
        step(data(4, seed=seed))
    assert step.captured == 1
    x.assign(data(4)).realize()
    y, small = data(4, seed=3), data(4, seed=5)
    return State([x], lambda: step(y), lambda: step(small), [])


def written_twice() -> State:
    """Two parts of one value are written by two kernels."""
    a, b, c = data(64), data(4, 4, seed=2), data(4, seed=3)

    def act() -> None:
        a[0:4] = (b @ b).sum(0)
        a[2:6] = (c.exp().sum() + a[0:4] * 2).contiguous()
        a.realize()

    def smaller() -> None:
        a.assign(a * 2).realize()

    return State([a], act, smaller, [a.sum(), b + 1])


def coupled() -> State:
    """The second of two assigned values reads what the first one overwrites."""
    a, b = Tensor([[1.0], [2.0]]).realize(), Tensor([10.0, 20.0]).realize()

    def act() -> None:
        na = a + b.reshape(2, 1)
        nb = (a.reshape(2, 1) * Tensor.ones(1, 3)).contiguous().sum(1) + b
        a.assign(na)
        b.assign(nb)
        Tensor.realize(a, b)

    def smaller() -> None:
        Tensor.realize(a.assign(a + 1), b.assign(b * 2))

    return State([a, b], act, smaller, [a.flatten() * b, a - 1])


def written() -> State:
    """Values written whole, in part and by an in-place operator, with readers of the old ones."""
    a, b, c = (data(4, seed=seed) for seed in (1, 2, 3))
    readers = [a * 2, b.flip(0) + c, c.sum()]

    def act() -> None:
        nonlocal c
        a[:] = b + 1
        b[1:3] = a[1:3] * c[0:2]
        c += b.sum()
        Tensor.realize(a, b, c)

    def smaller() -> None:
        b[0:1] = 7
        Tensor.realize(a.assign(a * 2), b)

    return State([a, b, c], act, smaller, readers)


def sharded() -> State:
    """A step on two devices: one weight cut in two, one whole on each."""
    cut, whole = data(4, 3, seed=1).shard(BOTH, axis=0).realize(), data(3, seed=2).shard(BOTH).realize()
    x, small = (data(4, 4, seed=seed).shard(BOTH, axis=0).realize() for seed in (3, 4))

    def step(x: Tensor) -> None:
        hidden = (x.shard_like(cut) * cut.sum(1, keepdim=True)).contiguous()
        cut.assign(cut - hidden[:, 0:3] * 0.1)
        whole.assign(whole * 0.5 + hidden.sum(0)[0:3])
        Tensor.realize(cut, whole)

    return State([cut, whole], lambda: step(x), lambda: step(small), [])


PROGRAMS: dict[str, Program] = {
    "forward": forward, "backward": backward, "adam": lambda: trained("adam"), "sgd": lambda: trained("sgd"),
    "replay": replayed, "replay twice": replayed_twice,
    "written twice": written_twice, "coupled": coupled, "written": written, "sharded": sharded,
}  # fmt: skip


@pytest.mark.parametrize("kind", ["memory", "launch", "copy", "compile", "press"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_value_is_old_or_new_after_a_failure(name, kind):
    """At the first event, the second, and so on until the program ends; then a smaller step is right."""
    # "compile" forgets all kernels: VALIDATE takes those made anew for others
    anew = name == "replay" and kind == "compile"
    with Context(VALIDATE=0) if anew or name == "replay twice" else nullcontext():
        events = every(kind, PROGRAMS[name])
    if kind in ("memory", "launch", "press"):
        assert events >= 1


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launch_that_fails_for_good_leaves_old_and_new_values(name):
    """The same where no later launch succeeds; only what is torn on two devices, or written twice, may be lost."""
    with Context(VALIDATE=0) if name == "replay twice" else nullcontext():
        every("launch", PROGRAMS[name], lasts=1000, torn=name in ("sharded", "replay twice", "written twice"))


@pytest.mark.parametrize("lasts", [1, 1000])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_launch_that_has_stored_before_it_fails_is_not_done_twice(name, lasts):
    """What it has written over may be lost; where a value is there, it is the old or the new one."""
    with Context(VALIDATE=0) if name == "replay twice" else nullcontext():
        assert every("stored", PROGRAMS[name], lasts=lasts, torn=True) >= 1


@pytest.mark.usefixtures("not_validated")
@pytest.mark.parametrize("lasts", [1, 1000])
@pytest.mark.parametrize("kind", ["launch", "stored"])
@pytest.mark.parametrize("number", range(4))
def test_a_value_left_outside_that_two_launches_write(number: int, kind: str, lasts: int) -> None:
    """The second one writes it in place. After a replay that failed it is old, new or lost, and then right again."""
    left = []

    def double(y: Tensor) -> Tensor:
        hidden = (y * 2).realize()
        left.append(hidden)
        hidden.assign(hidden + y).realize()
        return (hidden - 1).realize()

    step = TinyJit(double)
    for seed in (7, 8, 9):
        step(data(4, seed=seed))
    assert step.captured == 1
    old, y = left[-1].numpy(), data(4, seed=3)
    with failing(kind, number, "PYTHON", lasts) as failure:
        try:
            step(y)
        except RuntimeError:
            assert failure.has_happened
    found, new = value_of(left[-1]), (y * 3).numpy()
    assert found is None or found.tolist() in (old.tolist(), new.tolist())
    assert failure.has_happened or found is not None
    np.testing.assert_array_equal(step(y).numpy(), new - 1)
    np.testing.assert_array_equal(left[-1].numpy(), new)


LOST = [5.0, 6.0, 7.0, 8.0]
MENDED = {
    "assign": lambda t, view: t.assign(Tensor(LOST)),
    "slice": lambda t, view: t.__setitem__(slice(None), Tensor(LOST)),
    "in no_grad": lambda t, view: Tensor.no_grad()(t.assign)(Tensor(LOST)),
    "twice": lambda t, view: t.assign(Tensor(LOST) * 2).assign(Tensor(LOST)),
    "a view": lambda t, view: Tensor.no_grad()(view.assign)(Tensor(LOST).reshape(2, 2)),
}


@pytest.mark.usefixtures("not_validated")
@pytest.mark.parametrize("requires_grad", [None, False, True])
@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("mended", MENDED)
def test_a_lost_value_may_be_assigned_anew(mended: str, captured: bool, requires_grad: bool | None) -> None:
    """As a whole: a part of it is refused on the line that writes it. A leaf is a leaf afterwards."""
    t = Tensor([1.0, 2.0, 3.0, 4.0], requires_grad=requires_grad).realize()
    view = t.reshape(2, 2) if mended == "a view" else None

    def add() -> None:
        with Tensor.no_grad():
            t.assign(t + 1)
        t.realize()

    step = TinyJit(add) if captured else add
    for _ in range(3):
        step()
    with failing("stored", 0, "PYTHON", 1000), pytest.raises(RuntimeError, match="^the launch failed"):
        step()
    for use in (t.tolist, lambda: t.__setitem__(0, 1.0), lambda: t[1:3].assign(Tensor([1.0, 2.0]))):
        with pytest.raises(DeviceError, match="is lost: "):
            use()
    MENDED[mended](t, view)
    assert t.tolist() == LOST
    assert t.requires_grad is requires_grad
    if requires_grad:
        (t * t).sum().backward()
        assert t.grad.tolist() == [2 * x for x in LOST]
    step()
    assert t.tolist() == [x + 1 for x in LOST]
    assert view is None or view.flatten().tolist() == t.tolist()


@pytest.mark.parametrize("kind", ["memory", "launch", "press"])
@pytest.mark.parametrize("name", ["sgd", "coupled", "written"])
def test_every_value_is_old_or_new_on_the_cpu(name, kind):
    """The same with the CPU's memory and programs."""
    with Context(DEV="CPU"):
        assert every(kind, PROGRAMS[name], "CPU") >= 1


@pytest.mark.parametrize("name", ["coupled", "written"])
def test_the_disk_cache_never_matters(name, tmp_path):
    """Whatever file of it cannot be read or written, the program runs."""
    with Context(DEV="CPU", TINYGRAFT_CACHE=str(tmp_path), CACHELEVEL=1, SPEC=0):
        assert every("cache", PROGRAMS[name], "CPU") > 1


def test_the_numbers_of_a_failure_between_coupled_writes():
    """Out of memory at each block in turn; b never follows from the new a."""
    for number in range(9):
        a, b = Tensor([1.0, 2.0, 3.0, 4.0]).realize(), Tensor([10.0, 20.0, 30.0, 40.0]).realize()
        na, nb = a + b, (a.reshape(4, 1) * Tensor.ones(1, 3)).contiguous().sum(1) + b
        a.assign(na)
        b.assign(nb)
        with failing("memory", number) as failure:
            try:
                Tensor.realize(a, b)
            except MemoryError:
                pass
        assert a.tolist() in ([1.0, 2.0, 3.0, 4.0], [11.0, 22.0, 33.0, 44.0])
        assert b.tolist() in ([10.0, 20.0, 30.0, 40.0], [13.0, 26.0, 39.0, 52.0])
        assert (na.tolist(), nb.tolist()) == ([11.0, 22.0, 33.0, 44.0], [13.0, 26.0, 39.0, 52.0])
        if not failure.has_happened:
            return
    raise AssertionError("it never came to an end")


def test_parameters_are_free_of_a_step_that_had_no_room():
    """After the error their graphs are memory, what the step allocated is freed, and a smaller batch trains."""
    w = data(64, 64, seed=1)
    optimizer = nn.optim.SGD([w], lr=0.1)
    before = w.numpy()

    def step(rows: int) -> None:
        optimizer.zero_grad()
        (data(rows, 64, seed=3) @ w).square().sum().backward()
        optimizer.step()

    with Tensor.train():
        step(2)
        w.assign(Tensor(before)).realize()
        optimizer.zero_grad()
        gc.collect()  # what earlier tests left in cycles is not this step's
        used = GlobalCounters.mem_used
        x = data(4096, 64, seed=3)
        (x @ w).square().sum().backward()
        with failing("memory", 0), pytest.raises(MemoryError):
            optimizer.step()
        assert w.uop.base.realized is not None
        np.testing.assert_array_equal(w.numpy(), before)
        optimizer.zero_grad()
        del x
        gc.collect()
        assert GlobalCounters.mem_used == used
        step(2)
    np.testing.assert_array_equal(w.numpy(), trained_once(before))


def trained_once(weight: np.ndarray) -> np.ndarray:
    """What a step with two rows makes of a weight."""
    w = Tensor(weight).realize()
    optimizer = nn.optim.SGD([w], lr=0.1)
    with Tensor.train():
        (data(2, 64, seed=3) @ w).square().sum().backward()
        optimizer.step()
    return w.numpy()


def test_a_pending_write_of_another_tensor_stays():
    """What was not requested is not dropped; nor is what was written to new memory for the first time."""
    a, b = Tensor([1.0, 2.0]).realize(), Tensor([5.0, 6.0, 7.0]).realize()
    fresh = Tensor.ones(3, requires_grad=True)
    b.assign(b * 2)
    a.assign(a + 1)
    for _ in range(2):
        with failing("launch", 0), pytest.raises(RuntimeError, match="^the launch failed"):
            Tensor.realize(a, fresh)
        assert a.tolist() == [1.0, 2.0]
        a.assign(a + 1)
    a.assign(Tensor([1.0, 2.0]))
    assert b.tolist() == [10.0, 12.0, 14.0]
    assert fresh.tolist() == [1.0, 1.0, 1.0]


def test_who_computes_with_a_dropped_write_gets_what_it_would_have_written():
    """And the memory keeps the old value, which is that of the tensor again."""
    a = Tensor([1.0, 2.0, 3.0]).realize()
    memory = a.uop.base
    a[0:2] = a[1:3] * 10
    follows = a + 0.5
    with failing("launch", 0), pytest.raises(RuntimeError, match="^the launch failed"):
        a.realize()
    assert follows.tolist() == [20.5, 30.5, 3.5]
    assert a.tolist() == [1.0, 2.0, 3.0]
    assert a.uop.base is memory


def test_what_can_no_longer_be_computed_says_so(monkeypatch):
    """A product of old and new values is lost when its launch fails after the old ones were overwritten."""
    monkeypatch.setattr(tape, "MOST_SAVED", 0)  # no copies of them for a gradient
    old = np.arange(8, dtype=np.float32)
    right = (old + 1).reshape(2, 4) @ (old * 2).reshape(4, 2)
    seen = 0
    for number in range(9):
        a = Tensor(old).realize()
        twice = (a * 2).contiguous()
        a.assign(a + 1)
        product = a.reshape(2, 4).contiguous() @ twice.reshape(4, 2)
        more = product + 1
        del twice
        with failing("launch", number, lasts=1000) as failure:
            try:
                Tensor.realize(a, product)
            except RuntimeError:
                pass
        if not failure.has_happened:
            break
        assert a.tolist() in (old.tolist(), (old + 1).tolist())
        try:
            np.testing.assert_array_equal(product.numpy(), right)
        except DeviceError:
            seen += 1
            with pytest.raises(
                DeviceError, match=r"is lost: launch \d of 3 \(\w+ on PYTHON\) was ended by RuntimeError: the"
            ):
                more.realize()
    else:
        raise AssertionError("it never came to an end")
    assert seen == 2


def test_a_full_disk_leaves_the_old_file(tmp_path, monkeypatch):
    """safe_save at every write that fails: the file is the old one, and nothing is left beside it."""
    path = str(tmp_path / "weights.safetensors")
    nn.state.safe_save({"w": Tensor([1.0, 2.0])}, path)

    class Full:
        """A file on a disk that is full at the write of a number."""

        left = 0

        def __init__(self, file):
            self.file = file

        def __getattr__(self, name):
            return getattr(self.file, name)

        def __enter__(self):
            return self

        def __exit__(self, *args):
            return self.file.__exit__(*args)

        def write(self, what):
            Full.left -= 1
            if Full.left < 0:
                raise OSError(28, "No space left on device")
            return self.file.write(what)

    for number in range(20):
        Full.left = number
        with monkeypatch.context() as patched:
            patched.setattr(temporary, "open", lambda *args, **how: Full(open(*args, **how)), raising=False)  # noqa: SIM115
            try:
                nn.state.safe_save({"w": Tensor([3.0, 4.0]), "v": Tensor([[5]])}, path)
            except OSError:
                pass
            else:
                break
        assert nn.state.safe_load(path)["w"].tolist() == [1.0, 2.0]
        assert [p.name for p in tmp_path.iterdir()] == ["weights.safetensors"]
    assert number > 0
    assert nn.state.safe_load(path)["w"].tolist() == [3.0, 4.0]


def test_blocks_that_each_realise_something_compute_nothing_twice():
    """12 blocks with a cache that each of them writes and realises: at most 1.4 times the kernels of realising once."""

    def run(each: bool) -> tuple[int, np.ndarray]:
        size = 8
        weights = [[data(size, size, seed=4 * i + j) for j in range(4)] for i in range(12)]
        caches = [Tensor.zeros(6, size).contiguous().realize() for _ in range(12)]
        hidden = data(3, size)
        GlobalCounters.reset()
        for (q, k, v, o), cache in zip(weights, caches, strict=True):
            normal = hidden / (hidden.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            cache[0:3] = normal @ k
            if each:
                cache.realize()
            weighed = ((normal @ q) @ cache.T).softmax(-1) @ (cache @ v)
            hidden = (hidden + (weighed @ o).relu()).contiguous()
        Tensor.realize(hidden, *caches)
        return GlobalCounters.kernel_count, hidden.numpy()

    (apart, first), (together, second) = run(True), run(False)
    assert apart <= 1.4 * together, (apart, together)
    np.testing.assert_array_equal(first, second)


def test_only_what_is_held_and_asked_for_is_kept():
    """An intermediate value without a live tensor, or that was not requested to be stored, has no memory."""
    x = data(64)
    held, plain = (x * 2).flip(0).contiguous(), (x * 3).flip(0)
    out = (held + plain + (x * 4).flip(0).contiguous()).sum()
    used = GlobalCounters.mem_used
    out.realize()
    assert held.uop.base.realized is not None
    assert plain.uop.base.realized is None
    assert GlobalCounters.mem_used - used == held.nbytes() + 4
    np.testing.assert_array_equal(held.numpy(), x.numpy()[::-1] * 2)


def test_an_error_that_comes_late_loses_what_is_on_the_device(monkeypatch):
    """When a read finds out that the device stopped answering, nothing of it is read any more."""
    x = Tensor([1.0, 2.0], device="PYTHON:9").realize()
    y = (x + 1).realize()

    def lost(self, target, source):
        raise DeviceLostError("PYTHON:9 failed while it computed")

    with monkeypatch.context() as patched:
        patched.setattr(type(Device["PYTHON:9"].allocator), "copy_out", lost)
        with pytest.raises(DeviceLostError, match="^PYTHON:9 failed while it computed$"):
            y.tolist()
    for tensor in (x, y, x * y):
        with pytest.raises(
            DeviceLostError,
            match="^PYTHON:9 stopped answering, and the values in its memory are lost: PYTHON:9 failed while it "
            "computed\n"
            "  hint: start the program again; state that is saved now and then can be loaded$",
        ):
            tensor.tolist()
    assert Tensor([1.0]).tolist() == [1.0]


@pytest.mark.parametrize("at", range(12))
@pytest.mark.parametrize("lasts", [1, 1000])
def test_gradients_that_a_replay_leaves_behind_are_right_or_say_that_they_are_lost(at, lasts):
    """A replay of backward and step, whose launches fail: the weight is old or new, its gradient right or lost."""
    w = data(3, 3, seed=1)
    start = w.numpy()
    optimizer = nn.optim.SGD([w], lr=0.1)

    @TinyJit
    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = ((x @ w).relu() @ w).square().sum()
        loss.backward()
        optimizer.step()
        return loss.realize()

    def again() -> None:
        w.assign(Tensor(start)).realize()

    with Tensor.train():
        for seed in (3, 3, 3):
            again()
            step(data(4, 3, seed=seed))
        assert step.captured == 1
        new, gradient = w.numpy(), w.grad.numpy()
        again()
        with failing("launch", at, lasts=lasts) as failure:
            try:
                step(data(4, 3, seed=3))
            except RuntimeError:
                assert failure.has_happened
        assert w.numpy().tolist() in (start.tolist(), new.tolist())
        found = value_of(w.grad)
        assert found is None or np.array_equal(found, gradient)
        again()
        step(data(4, 3, seed=3))
    np.testing.assert_array_equal(w.numpy(), new)
    np.testing.assert_array_equal(w.grad.numpy(), gradient)


def test_all_memory_is_taken_before_the_first_store():
    """A result that is computed after memory was written over has its memory before: without room nothing changes."""
    old = np.arange(8, dtype=np.float32)
    right = (old + 1).reshape(2, 4) @ (old * 2).reshape(4, 2)
    for number in range(9):
        a = Tensor(old).realize()
        view = a.reshape(2, 4)
        twice = (a * 2).contiguous()
        a.assign(a + 1)
        product = a.reshape(2, 4).contiguous() @ twice.reshape(4, 2)
        with failing("memory", number) as failure:
            try:
                Tensor.realize(a, product)
            except MemoryError:
                assert view.uop.base is a.uop.base, "nobody reads a copy of what was not written over"
                assert a.tolist() == old.tolist()
        np.testing.assert_array_equal(product.numpy(), right)
        if not failure.has_happened:
            break
    assert number >= 2


def test_a_new_leaf_is_computed_however_often_it_failed():
    """Memory that never had a value has none after a launch that failed."""
    fresh = Tensor.full((3,), 7.0, requires_grad=True)
    for _ in range(2):
        with failing("launch", 0), pytest.raises(RuntimeError, match="^the launch failed"):
            fresh.realize()
    assert fresh.tolist() == [7.0, 7.0, 7.0]


@pytest.mark.usefixtures("not_validated")
def test_what_reads_a_lost_value_under_tinyjit_says_so_and_is_captured_anew() -> None:
    """Another function that has captured the memory does not read it, nor write it, once its tensor is elsewhere."""
    x, y = data(4), data(4, seed=3)

    def twice(y: Tensor) -> None:
        x.assign(x + y).realize()
        x.assign(x * 10).realize()

    step, look = TinyJit(twice), TinyJit(lambda: (x * 2).realize())
    for _ in range(3):
        step(y)
        look()
    with failing("launch", 1, "PYTHON", lasts=1000), pytest.raises(RAISED):
        step(y)
    for use in (look, lambda: step(y)):
        with pytest.raises(DeviceError, match="is lost: a replay was ended by"):
            use()
    x.assign(Tensor([1.0, 2.0, 3.0, 4.0])).realize()
    for _ in range(3):
        before = x.numpy()
        np.testing.assert_array_equal(look().numpy(), before * 2)
        step(y)
        np.testing.assert_array_equal(x.numpy(), (before + y.numpy()) * 10)
