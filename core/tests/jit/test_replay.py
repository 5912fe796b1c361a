"""TinyJit: right from the first call, replayed from the third, results that stay, keys that tell calls apart."""

from __future__ import annotations

import pickle
import threading
import weakref

import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable
from tinygraft.engine import tape
from tinygraft.errors import GraphError, ShapeError


def counted(function):
    """A function and the list of its runs."""
    runs = []

    def wrapped(*args, **kwargs):
        runs.append(1)
        return function(*args, **kwargs)

    return wrapped, runs


def test_every_call_is_right_and_the_third_replays():
    """Two runs, then none."""
    function, runs = counted(lambda x: (x * 2 + 1).sum())
    jit = TinyJit(function)
    results = [jit(Tensor([1.0, 2.0, 3.0]) * i).item() for i in range(5)]
    assert results == [3.0, 15.0, 27.0, 39.0, 51.0]
    assert (len(runs), jit.captured) == (2, 1)


def test_results_that_are_held_never_change():
    """Each call has memory of its own for its result."""
    jit = TinyJit(lambda x: (x + 1).realize())
    held = [jit(Tensor([float(i)])) for i in range(6)]
    assert [t.item() for t in held] == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_state_is_updated_in_replays():
    """A tensor from outside that is assigned to goes on."""
    state = Tensor([0.0, 0.0]).realize()

    @TinyJit
    def step(x):
        state.assign(state + x)
        return (state * 10).realize()

    results = [step(Tensor([1.0, 2.0])).tolist() for _ in range(5)]
    assert results == [[10.0 * i, 20.0 * i] for i in range(1, 6)]
    assert state.tolist() == [5.0, 10.0]


def test_an_argument_that_is_assigned_to_is_written():
    """In-place updates of arguments happen in the argument of the call."""

    @TinyJit
    def bump(x):
        x.assign(x + 1)
        return x.realize()

    for i in range(5):
        mine = Tensor([float(i)]).realize()
        bump(mine)
        assert mine.item() == i + 1


def test_a_new_shape_dtype_or_setting_is_a_new_capture():
    """What code depends on is part of the key."""
    function, runs = counted(lambda x: (x + x).realize())
    jit = TinyJit(function)
    for size in (2, 3, 2, 3, 2, 3):
        assert jit(Tensor([1.0] * size)).tolist() == [2.0] * size
    assert len(runs) == 4
    assert jit(Tensor([1, 1])).tolist() == [2, 2]
    with Context(NOOPT=1):
        assert jit(Tensor([1.0, 1.0])).tolist() == [2.0, 2.0]
    assert len(runs) == 6


def test_other_arguments_are_part_of_the_key():
    """A Python number, a string or an array that changes runs the function again."""
    jit = TinyJit(lambda x, n, mode="a": (x * n if mode == "a" else x - n).realize())
    for n in (2, 3, 2, 3, 2, 3):
        assert jit(Tensor([5.0]), n).item() == 5.0 * n
        assert jit(Tensor([5.0]), n, mode="b").item() == 5.0 - n


def test_the_same_tensor_twice_and_views_of_one():
    """One tensor in two places, then two tensors; parts of a buffer."""
    jit = TinyJit(lambda a, b: (a * 10 + b).realize())
    for i in range(4):
        x, y = Tensor([float(i), 1.0]), Tensor([7.0, 8.0])
        assert jit(x, x).tolist() == [11.0 * i, 11.0]
        assert jit(x, y).tolist() == [10.0 * i + 7.0, 18.0]
        whole = Tensor([float(i), 2.0, 3.0, 4.0]).realize()
        assert jit(whole[:2], whole[2:]).tolist() == [10.0 * i + 3.0, 24.0]


def test_nested_containers_and_keywords():
    """Tensors anywhere in lists, tuples and dicts, in and out; the order of keywords does not matter."""
    jit = TinyJit(lambda pair, *, table: {"sum": pair[0] + pair[1][0], "all": [table["x"] * 2, (table["y"],)]})
    for i in range(4):
        pair = (Tensor([float(i)]), [Tensor([1.0])])
        out = jit(pair, table={"x": Tensor([2.0 + i]), "y": Tensor([3.0 + i])})
        assert out["sum"].item() == i + 1
        assert out["all"][0].item() == 4.0 + 2 * i
        assert out["all"][1][0].item() == 3.0 + i
    assert jit.captured == 1


def test_a_constant_argument_is_a_value_not_a_part_of_the_code():
    """Tensor(3.0) has no memory of its own, and still is an input."""
    jit = TinyJit(lambda x: (x * 2).realize())
    assert [jit(Tensor(float(i))).item() for i in range(5)] == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_random_numbers_go_on_in_replays():
    """Each call draws new numbers, the same as without capture."""
    Tensor.manual_seed(3)
    jit = TinyJit(lambda: Tensor.rand(4).realize())
    captured = [jit().tolist() for _ in range(5)]
    Tensor.manual_seed(3)
    assert captured == [Tensor.rand(4).tolist() for _ in range(5)]


def test_an_exception_leaves_it_usable():
    """A function that raises in its first call works in the next."""
    fail = [True]

    @TinyJit
    def sometimes(x):
        if fail[0]:
            raise RuntimeError("not now")
        return (x + 1).realize()

    with pytest.raises(RuntimeError, match="not now"):
        sometimes(Tensor([1.0]))
    fail[0] = False
    assert [sometimes(Tensor([float(i)])).item() for i in range(4)] == [1.0, 2.0, 3.0, 4.0]


def test_a_method_keeps_its_instances_apart():
    """TinyJit on a method: each instance has captures of its own."""

    class Scale:
        def __init__(self, by):
            self.by = Tensor([by]).realize()

        @TinyJit
        def __call__(self, x):
            return (x * self.by).realize()

    two, three = Scale(2.0), Scale(3.0)
    for i in range(4):
        assert two(Tensor([float(i)])).item() == 2.0 * i
        assert three(Tensor([float(i)])).item() == 3.0 * i
    assert two.__call__.captured == Scale.__call__.captured == 2


def test_an_instance_that_is_gone_takes_its_captures_with_it():
    """TinyJit on a method keeps no instance alive, and forgets what it captured for one at the next new capture."""

    class Shift:
        def __init__(self, by):
            self.by = Tensor([by] * 1000).realize()

        @TinyJit
        def run(self, x):
            return (x + self.by).realize()

    x = Tensor([1.0] * 1000).realize()
    for turn in range(5):
        shift = Shift(float(turn))
        for _ in range(3):
            assert shift.run(x).sum().item() == 1000.0 * (1 + turn)
        here = weakref.ref(shift)
        assert shift.run.captured == 1
        del shift
        assert here() is None


def test_check_finds_what_a_closure_changed():
    """TinyJit(check=True) runs every call and names the launch that differs."""
    factor = [1]

    @TinyJit(check=True)
    def scaled(x):
        return (x * 3).realize() if factor[0] == 1 else (x * 3).sum().realize()

    for _ in range(3):
        scaled(Tensor([1.0, 2.0]))
    factor[0] = 2
    with pytest.raises(GraphError) as caught:
        scaled(Tensor([1.0, 2.0]))
    assert str(caught.value) == (
        "TinyJit(check=True): scaled launched r_2 where E_2 was captured, as launch 1\n"
        "  hint: something that it reads from outside has changed; pass it as an argument"
    )


def test_check_tells_kernels_of_one_name_apart():
    """A number that a closure changed is in the kernel: one of the same name is another kernel."""
    factor = [2]
    scaled = TinyJit(lambda x: (x * factor[0]).realize(), check=True)
    for _ in range(3):
        scaled(Tensor([1.0, 2.0]))
    factor[0] = 3
    with pytest.raises(GraphError, match=r"launched another E_2 where E_2 was captured, as launch 1"):
        scaled(Tensor([1.0, 2.0]))


def test_a_replay_compiles_nothing_and_launches_what_was_captured():
    """Counters show the launches of replays too."""
    jit = TinyJit(lambda x: ((x + 1).contiguous() * 2).realize())
    for _ in range(2):
        jit(Tensor([1.0, 2.0]))
    x = Tensor([1.0, 2.0]).realize()
    GlobalCounters.reset()
    jit(x)
    assert (GlobalCounters.kernel_count, GlobalCounters.kernels_compiled) == (1, 0)


def test_memory_stays_flat_over_replays():
    """Replays whose results are dropped use no more memory each time."""
    jit = TinyJit(lambda x: ((x + 1).contiguous() * (x - 1).contiguous()).realize())
    x = Tensor([1.0] * 1000).realize()
    for _ in range(3):
        jit(x)
    before = GlobalCounters.mem_used
    for _ in range(20):
        jit(x)
    assert GlobalCounters.mem_used == before


def test_a_bound_variable_is_an_argument():
    """One capture serves every value of a variable."""
    function, runs = counted(lambda x, n: (x.shrink(((0, n),)).sum() * 1).realize())
    jit = TinyJit(function)
    x = Tensor([1.0, 2.0, 3.0, 4.0, 5.0]).realize()
    n = Variable("n", 1, 5)
    assert [jit(x, n.bind(i)).item() for i in (1, 2, 3, 4, 5)] == [1.0, 3.0, 6.0, 10.0, 15.0]
    assert len(runs) == 2


def test_a_replay_checks_parts_with_symbolic_ends():
    """A value that takes a part past its axis raises before anything is launched; the next call is right."""
    memory = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    n = Variable("n", 1, 9)
    inner = TinyJit(lambda end: memory[:end].sum().realize())
    outer = TinyJit(lambda end: (inner(end) * 2).realize())
    for jit, factor in ((inner, 1), (outer, 2)):
        for end in (1, 2, 3, 4):
            assert jit(n.bind(end)).item() == factor * end * (end + 1) / 2
        with pytest.raises(ShapeError, match=r"cannot shrink axis 0 of \(4,\) to \(0, 9\), with n = 9\n  made at"):
            jit(n.bind(9))
        assert jit(n.bind(3)).item() == factor * 6


def test_threads_call_one_jit():
    """Calls from several threads are right."""
    jit = TinyJit(lambda x: (x * 2).realize())
    results: dict[int, list[float]] = {}

    def work(number):
        results[number] = [jit(Tensor([float(number), float(i)])).tolist()[0] for i in range(5)]

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: [2.0 * n] * 5 for n in range(4)}


def test_an_argument_that_is_the_state_itself():
    """A tensor that the function also reaches from outside is not replayed as if it were another."""
    state = Tensor([1.0, 2.0, 3.0]).realize()

    @TinyJit
    def step(x):
        state.assign(x.flip(0) + state)
        return (state * 1).realize()

    for i in range(4):
        step(Tensor([float(i)] * 3))
    assert step.captured == 1
    state.assign(Tensor([1.0, 2.0, 3.0])).realize()
    assert step(state).tolist() == [4.0, 4.0, 4.0]


def test_a_captured_function_inside_another():
    """What an inner replay reads and makes is known to the outer capture, before and after the inner one is ready."""
    inner = TinyJit(lambda x: ((x + 1).contiguous() * 2).realize())

    def compute(x):
        a = (x * 10).contiguous().realize()
        b = inner(a)
        c = (x - 5).contiguous().realize()
        return (b * 100 + inner(c)).realize(), b

    for calls_before in (0, 3):
        inner.reset()
        for i in range(calls_before):
            inner(Tensor([float(i), 1.0]))
        outer = TinyJit(compute)
        for i in range(7):
            values = [float(i), 2.0]
            out, b = outer(Tensor(values))
            assert out.tolist() == [(v * 10 + 1) * 200 + (v - 4) * 2 for v in values]
            assert b.tolist() == [(v * 10 + 1) * 2 for v in values]
        assert outer.captured == 1


def test_expressions_written_before_a_replay_keep_their_values():
    """A replay that assigns to state or to an argument copies the old value for whoever still has to read it."""
    state = Tensor([1.0, 2.0]).realize()

    @TinyJit
    def step(x):
        state.assign(state + x)
        return (state * 1).realize()

    @TinyJit
    def bump(x):
        x.assign(x + 1)
        return x.realize()

    for i in range(5):
        lazy, before = state * 10, state.tolist()
        step(Tensor([1.0, 1.0]))
        assert lazy.tolist() == [v * 10 for v in before]
        assert state.tolist() == [v + 1 for v in before]
        mine = Tensor([float(i)]).realize()
        times = mine * 10
        bump(mine)
        assert (times.item(), mine.item()) == (i * 10.0, i + 1.0)
    assert (step.captured, bump.captured) == (1, 1)


def test_backward_has_the_old_value_of_what_a_replay_has_overwritten(monkeypatch):
    """A gradient that needs the old value of a parameter has it after a replay, unless it was too large to save."""
    w = Tensor([3.0], requires_grad=True).realize()

    @TinyJit
    def scale(x):
        w.assign(w * x)
        return w.realize()

    def after_a_call(before: float) -> None:
        loss = (w * w).sum()
        loss.item()
        scale(Tensor([2.0]))
        w.grad = None
        loss.backward()
        assert (w.item(), w.grad.item()) == (2 * before, 2 * before)

    for i in range(4):
        after_a_call(3.0 * 2**i)
    monkeypatch.setattr(tape, "SAVED", 3)
    with pytest.raises(GraphError, match="backward needs a value that has been overwritten since it was used"):
        after_a_call(48.0)
    assert scale.captured == 1


@pytest.mark.parametrize("devices", ["PYTHON", ("PYTHON", "PYTHON:1")])
def test_a_result_without_elements_is_captured(devices):
    """Memory without elements is in no launch and new in each call; where one part of a shard is, the other counts."""

    @TinyJit
    def step(x):
        return (x * 2)[2:4, :2].realize(), (x + 1)[3:3].realize(), x.sum().realize()

    for i in range(5):
        x = Tensor([[float(i), 1.0, 2.0]] * 4, device="PYTHON")
        some, none, total = step((x if devices == "PYTHON" else x.shard(devices, 0)).realize())
        assert (some.tolist(), none.tolist(), total.item()) == ([[2.0 * i, 2.0]] * 2, [], 4.0 * i + 12)
        assert none.shape == (0, 3)
        none.assign(Tensor.zeros(0, 3, device=none.device)).realize()
    assert step.captured == 1
    again = pickle.loads(pickle.dumps(step))
    some, none, total = again((x if devices == "PYTHON" else x.shard(devices, 0)).realize())
    assert (some.tolist(), none.shape, total.item()) == ([[8.0, 2.0]] * 2, (0, 3), 28.0)


def test_results_of_which_more_are_empty_are_another_outcome():
    """How many tensors without elements there are counts, though none of them is in a launch."""
    runs = []

    @TinyJit
    def step(x):
        runs.append(1)
        return [(x[:0] * i).realize() for i in range(len(runs))], (x + 1).realize()

    for i in range(4):
        empty, one = step(Tensor([float(i)]))
        assert (len(empty), one.item()) == (i + 1, i + 1.0)
    assert step.captured == 0
