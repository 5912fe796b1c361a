"""VALIDATE=1: what a wrong compiler writes is an error that names it, what cannot be judged is counted and printed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, GlobalCounters, Tensor, TinyJit, Variable, dtypes
from tinygraft.config import SETTINGS
from tinygraft.engine import arena, plan, validate
from tinygraft.engine.compile import Ready
from tinygraft.errors import GraphError, ValidationError
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call, CopyCall, Kernel, KernelCall
from tinygraft.uop.uop import UOp, rebuild, toposort

X = np.random.default_rng(5).uniform(1, 2, (6, 8)).astype(np.float32)
Change = Callable[[Sequence[Call]], Sequence[Call]]


@pytest.fixture(autouse=True)
def validating(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Everything is validated, on the PYTHON device, and counted anew."""
    monkeypatch.setattr(validate, "_counts", validate.Counts())
    with Context(DEV="PYTHON", VALIDATE=1, CACHELEVEL=0):
        yield


@pytest.fixture
def mutate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Change], None]]:
    """Let a change of what the scheduler gives be a bug of the compiler."""
    ready = plan.ready

    def install(change: Change) -> None:
        plan.clear()
        monkeypatch.setattr(plan, "ready", lambda calls: ready(change(calls)))

    yield install
    plan.clear()


def in_kernels(swap: Callable[[UOp], UOp | None]) -> Change:
    """A change of nodes of kernels: what swap gives for one takes its place."""

    def change(calls: Sequence[Call]) -> Sequence[Call]:
        done = []
        for call in calls:
            if isinstance(call, KernelCall):
                nodes = {n: new for n in toposort(call.kernel.sink) if (new := swap(n)) is not None}
                call = replace(call, kernel=Kernel(rebuild((call.kernel.sink,), nodes)[call.kernel.sink]))
            done.append(call)
        return done

    return change


def tensor(x: Any = X) -> Tensor:
    """Values in memory."""
    return Tensor(np.array(x)).realize()


def caught(*tensors: Tensor) -> str:
    """The error that realising raises."""
    with pytest.raises(ValidationError) as error:
        tensors[0].realize(*tensors[1:])
    return str(error.value)


def test_what_is_right_passes_and_is_counted() -> None:
    """Values, gradients, assignments, integers, symbolic sizes, several devices, halves."""
    x, w = tensor(), tensor(X.T)
    ((x @ w).softmax().log().sum() * 0.1).realize()
    y = Tensor(X.copy(), requires_grad=True)
    (y.sin() * y).sum().backward()
    assert y.grad is not None
    y.grad.realize()
    x[1:3] = 0
    x.assign(x * 3 + w.T).realize()
    x.argmax(1).realize(x.half().sum(), x.cast(dtypes.bfloat16).mean(0), x.sort()[1])
    (tensor()[: Variable("n", 1, 6).bind(4)] + 1).realize()
    (tensor().shard(("PYTHON", "PYTHON:1"), 0).sum(0) * 2).realize()
    Tensor.rand(5, 5).realize()
    counts = validate.counts()
    assert counts.schedules >= 7
    assert counts.outputs >= 10
    assert not counts.skipped


# Mutants: a compiler with one fault each


def test_a_number_that_is_off_by_a_thousandth(mutate: Any) -> None:
    """In a constant of a kernel."""
    mutate(in_kernels(lambda n: UOp.const(n.dtype, 3.003) if n.op is Ops.CONST and n.arg == 3.0 else None))
    assert "48 of 48 elements" in caught((tensor() * 3.0).exp() + 1)


def test_a_term_that_is_dropped(mutate: Any) -> None:
    """The last iteration of a sum."""

    def shorter(n: UOp) -> UOp | None:
        is_sum = n.op is Ops.RANGE and n.src[0].op is Ops.CONST and n.src[0].arg == 8
        return n.replace(src=(UOp.const(dtypes.index, 7),)) if is_sum else None

    mutate(in_kernels(shorter))
    assert "6 of 6 elements" in caught(tensor().sum(1))


def test_operands_that_are_swapped(mutate: Any) -> None:
    """Of a subtraction of floats."""
    is_sub = lambda n: n.op is Ops.SUB and n.dtype is dtypes.float32  # noqa: E731
    mutate(in_kernels(lambda n: n.replace(src=n.src[::-1]) if is_sub(n) else None))
    caught(tensor() - tensor(X[::-1]))


def test_a_value_that_is_stale(mutate: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads runs before what writes. The proof of places, which refuses that earlier, is switched off."""
    monkeypatch.setattr(arena, "check_offsets", lambda *arguments: None)
    mutate(lambda calls: list(calls)[::-1])
    x = tensor()
    y = x.cumsum(0).contiguous() * 3
    assert len(y.schedule()) == 2
    caught(y)


def test_a_copy_that_is_left_out(mutate: Any) -> None:
    """Memory keeps what it had."""
    mutate(lambda calls: [c for c in calls if not isinstance(c, CopyCall)])
    caught(tensor().to("PYTHON:1"))


def test_memory_that_is_only_read_and_changes(mutate: Any) -> None:
    """A kernel that writes its operand: the result is right, what it was computed from is not."""
    x = tensor(np.arange(4, dtype=np.int32))

    def change(calls: Sequence[Call]) -> Sequence[Call]:
        (call,) = calls
        assert isinstance(call, KernelCall)
        again = UOp.buffer("PYTHON", 4, dtypes.int32)
        return [call, CopyCall(again, call.buffers[call.written[0]]), CopyCall(x.uop.base, again)]

    mutate(change)
    text = caught(x * 2)
    assert "a memory of shape (4,) and dtype int on PYTHON is only read, and has changed in 3 of 4 elements" in text
    assert "at (1,) it is 2, NumPy gives 1; written by a copy" in text


def test_the_error_says_what_where_and_who() -> None:
    """The whole sentence."""
    x = tensor(np.array([[1.0, 2.0], [4.0, 8.0]], np.float32))
    original = validate.of_memory
    y = x * 0.3
    line = y.made_at
    checking = validate.prepare_check([], {y.uop: y.uop}, [y])
    assert checking is not None
    with Context(VALIDATE=0):
        done = y.realize()
    wrong = original(bytearray(np.array([0.3, 0.6, 9.0, 2.4], np.float32).tobytes()), dtypes.float32)
    made = plan.BoundPlan([Ready(None, "PYTHON", (done.uop.base, x.uop.base), (0,))], {}, {}, [])
    node = checking.homes[0]
    made.memory[node] = done.uop.base
    from tinygraft.device.buffer import buffer_of

    buffer_of(done.uop.base).copy_in(memoryview(bytearray(wrong.tobytes())))
    with pytest.raises(ValidationError) as error:
        checking.compare(made)
    assert str(error.value) == (
        "VALIDATE=1: a result of shape (2, 2) and dtype float on PYTHON is wrong in 1 of 4 elements: at (1, 0) it is "
        f"9.0, NumPy gives 1.2000000476837158; written by a copy\n  made at {line[0]}:{line[1]}\n"
        "  hint: DEBUG=4 prints the kernels, DEBUG=5 their graphs; NOOPT=1 says whether an action is at fault"
    )


# What is skipped


def test_what_is_too_large_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the elements of one array, or of all."""
    monkeypatch.setattr(validate, "LARGEST", 47)
    (tensor() + 1).realize()
    monkeypatch.setattr(validate, "LARGEST", 48)
    monkeypatch.setattr(validate, "MOST", 100)
    (tensor() * 2 + 1 - 5).realize()
    assert validate.counts().skipped["too large"] >= 2


def test_a_device_whose_memory_cannot_be_read_is_counted() -> None:
    """It gives back something else than what was written to it."""
    (Tensor.ones(4, device="NULL").contiguous() + 1).realize()
    assert validate.counts().skipped == {"on NULL, whose memory cannot be read": 1}


def test_an_op_without_a_meaning_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so is want of memory; the program goes on."""
    for reason, error in (
        ("no meaning", NotImplementedError("no meaning")),
        ("without memory to evaluate in", MemoryError()),
    ):

        def fails(*_: Any, error: Exception = error) -> Any:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(validate.Evaluation, "_value", fails)
            assert (tensor([1.0]) + 1).tolist() == [2.0]
        assert validate.counts().skipped[reason] == 1


def test_a_file_is_read_for_itself(tmp_path: Path) -> None:
    """Bytes that a tensor has yet to read are evaluated, and it still reads them late."""
    (tmp_path / "x.bin").write_bytes(bytes(range(64)))
    x = Tensor(tmp_path / "x.bin")
    assert (x[:4].to("PYTHON") + 1).tolist() == [1, 2, 3, 4]
    assert not validate.counts().skipped


def test_the_line_at_the_end() -> None:
    """A process says on stderr what it has validated; without the setting nothing."""
    code = (
        "from tinygraft import Tensor\nx = Tensor([1.0, 2.0]).realize()\n(x + 1).realize(x * 3)\n"
        "(Tensor.ones(3, device='NULL').contiguous() + 1).realize()"
    )
    for setting, wanted in (
        ("1", "VALIDATE: 1 schedules, 2 outputs compared, 1 skipped: 1 on NULL, whose memory cannot be read\n"),
        ("0", ""),
    ):
        environment = {**os.environ, "VALIDATE": setting, "DEV": "PYTHON"}
        run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
        assert run.returncode == 0
        assert run.stderr == wanted


def test_the_line_with_undecided_elements() -> None:
    """All that is counted is in it."""
    counts = validate.Counts(3, 4, 5)
    assert counts.line() == "VALIDATE: 3 schedules, 4 outputs compared, 5 elements undecided, 0 skipped"


def test_the_setting_is_in_the_table() -> None:
    """Where `python -m tinygraft settings` finds it."""
    assert SETTINGS["VALIDATE"].most == 1


def test_it_changes_no_kernel() -> None:
    """The same plans, launches and nodes with and without."""

    def run() -> list[str]:
        x = tensor()
        return [str(c) for c in ((x @ x.T).softmax() + x.sum()).schedule()]

    with Context(VALIDATE=0):
        plain = run()
        GlobalCounters.reset()
        (tensor().softmax() * 2).realize()
        launched = GlobalCounters.kernel_count
    assert len(run()) == len(plain)
    GlobalCounters.reset()
    (tensor().softmax() * 2).realize()
    assert GlobalCounters.kernel_count == launched
    assert len(plan._plans) > 0


def test_nothing_is_kept_alive() -> None:
    """A checked schedule leaves no cycle: memory goes when its tensors do."""
    import gc

    gc.disable()
    try:
        x = tensor()
        (x + 1).realize()
        before = GlobalCounters.mem_used
        (x * 5).realize()
        assert GlobalCounters.mem_used == before
    finally:
        gc.enable()


# TinyJit


def test_a_replay_is_held_to_its_launches_and_the_function_runs() -> None:
    """State that a call changes has its value once, and each call is validated."""
    state, ran = tensor(np.zeros(8, np.float32)), []

    @TinyJit
    def step(x: Tensor) -> Tensor:
        ran.append(1)
        state.assign(state + x)
        return ((state * 2).sum() + x.max()).realize(state)

    with Context(DEV="PYTHON"):
        found = [step(Tensor.full((8,), float(i)).realize()).item() for i in range(5)]
    assert found == [16.0 * sum(range(i + 1)) + i for i in range(5)]
    assert step.captured == 1
    assert len(ran) == 5
    assert state.tolist() == [10.0] * 8


def test_a_replay_that_differs_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """An executor that leaves out its last step."""
    from tinygraft.jit.replay import Replay

    @TinyJit
    def double(x: Tensor) -> Tensor:
        return (x * 2).realize()

    for i in range(2):
        double(tensor(np.full(4, i, np.float32)))
    monkeypatch.setattr(Replay, "_run", lambda *arguments: None)
    with pytest.raises(
        ValidationError, match="a replay of double leaves other bytes than the same launches one by one"
    ):
        double(tensor(np.full(4, 3, np.float32)))


def test_a_function_that_changes_its_mind_is_an_error() -> None:
    """It launched something else than what would have been replayed."""
    factor = [2.0]

    @TinyJit
    def scale(x: Tensor) -> Tensor:
        return (x * factor[0]).realize()

    for _ in range(2):
        scale(tensor())
    factor[0] = 3.0
    with pytest.raises(GraphError, match=r"VALIDATE=1: scale launched another .* where .* was captured"):
        scale(tensor())
