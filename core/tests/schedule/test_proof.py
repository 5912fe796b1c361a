"""The proof of a finished schedule: values are where calls read them, bytes are nobody else's; each fault is named."""

from __future__ import annotations

import itertools
import random

import pytest

from tinygraft import Tensor, dtypes
from tinygraft.engine import plan
from tinygraft.errors import GraphError
from tinygraft.schedule import inplace, order, proof
from tinygraft.schedule import schedule as schedule_module
from tinygraft.schedule.again import NeedsOwnMemory
from tinygraft.schedule.memory import Life, Offsets, place
from tinygraft.schedule.proof import BufferUse, ByteRange, ProofStep, check_offsets, check_values
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import CopyCall
from tinygraft.uop.uop import UOp


def buffer(size: int = 4) -> UOp:
    """A BUFFER."""
    return UOp.buffer("CPU", size, dtypes.float)


def value(of: UOp) -> UOp:
    """Some value computed from another one."""
    return UOp(Ops.NEG, of.dtype, (of,))


def copy(target: UOp, new: UOp, source: UOp, held: UOp) -> ProofStep:
    """A copy that reads held in source and writes new to target."""
    return ProofStep(CopyCall(target, source), {(source, held)}, {(target, new)})


def test_values_in_their_order_are_proved() -> None:
    """a is read, overwritten, and read again for its new value."""
    a, b, c = buffer(), buffer(), buffer()
    later = value(a)
    check_values([copy(b, b, a, a), copy(a, later, c, c), copy(c, c, a, later)], {a, c}, {later: a}, {})


def test_a_value_that_is_overwritten_before_it_is_read_is_named() -> None:
    """The call, the buffer and both values are in the error."""
    a, b, c = buffer(), buffer(), buffer()
    later = value(a)
    with pytest.raises(GraphError) as error:
        check_values([copy(a, later, c, c), copy(b, b, a, a)], {a, c}, {}, {})
    text = str(error.value)
    assert f"the copy that is call 1 reads b{a.arg.uid} for one value and finds another there" in text
    assert "meant: UOp(Ops.BUFFER" in text and "found: UOp(Ops.NEG" in text
    assert "realize the tensors one by one" in text


def test_a_value_that_is_not_there_in_the_end_is_named() -> None:
    """What is wanted is checked like what is read."""
    a, b = buffer(), buffer()
    with pytest.raises(GraphError, match=f"the end of the schedule reads b{a.arg.uid} for one value"):
        check_values([copy(a, value(a), b, b)], {a, b}, {a: a}, {})
    with pytest.raises(GraphError, match="found: nothing"):
        check_values([], {a}, {b: b}, {})


def test_a_buffer_whose_memory_another_one_took_is_no_more() -> None:
    """c lies where a was: who reads a after that reads c."""
    a, b, c = buffer(), buffer(), buffer()
    good = [copy(b, b, a, a), ProofStep(CopyCall(a, b), {(b, b)}, {(c, c)})]
    check_values(good, {a}, {}, {c: a})
    with pytest.raises(GraphError, match=f"call 2 reads b{a.arg.uid}"):
        check_values([*good, copy(b, value(b), a, a)], {a}, {}, {c: a})
    with pytest.raises(GraphError, match="writes other buffers than its values have"):
        check_values(good, {a}, {}, {})


def test_bytes_of_one_buffer_at_a_time_are_proved() -> None:
    """b lies where a was, once a has been read."""
    where = {"a": ByteRange(0, 0, 64), "b": ByteRange(0, 0, 64), "c": ByteRange(0, 64, 128)}
    check_offsets(
        [BufferUse(["a"], [0]), BufferUse(["c", "a"], [0]), BufferUse(["b", "c"], [0]), BufferUse(["x", "b"], [0])],
        where,
        ["b"],
    )


OVER = "call 2 reads buffer a where buffer"
CLASHES = {
    "overwritten": ([BufferUse(["a"], [0]), BufferUse(["b"], [0]), BufferUse(["c", "a"], [0])], (), f"{OVER} b"),
    "in part": ([BufferUse(["a"], [0]), BufferUse(["d"], [0]), BufferUse(["c", "a"], [0])], (), f"{OVER} d"),
    "in one call": ([BufferUse(["a"], [0]), BufferUse(["b", "a"], [0])], (), "call 1 reads buffer a where buffer b"),
    "two at once": ([BufferUse(["a", "b"], [0, 1])], (), "call 0 reads buffer a where buffer b"),
    "never": ([BufferUse(["x", "a"], [0])], (), "call 0 reads buffer a where nothing was written last"),
    "in the end": ([BufferUse(["a"], [0]), BufferUse(["b"], [0])], ("a",), f"{OVER} b"),
    "added to": ([BufferUse(["a"], [0]), BufferUse(["b"], [0]), BufferUse(["a"], [0])], (), f"{OVER} b"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLASHES)
def test_bytes_of_two_buffers_are_named(name: str) -> None:
    """Each way in which a buffer can lose what it holds."""
    uses, kept, words = CLASHES[name]
    where = {"a": ByteRange(0, 0, 64), "b": ByteRange(0, 0, 64), "c": ByteRange(0, 64, 128), "d": ByteRange(0, 32, 96)}
    with pytest.raises(GraphError, match=words):
        check_offsets(uses, where, kept)


def test_memory_that_was_never_written_may_hold_anything() -> None:
    """Tensor.empty is read as it is; a value in between has to be written first."""
    check_offsets([BufferUse(["x", "a"], [0])], {"a": ByteRange(0, 0, 64)}, ["a"])


def lives_and_uses(seed: int) -> tuple[tuple[Life, ...], list[BufferUse]]:
    """Random lives, and calls that write each at its first call and read it until its last."""
    chance = random.Random(seed)
    lives = []
    for _ in range(chance.randint(2, 20)):
        first = chance.randrange(12)
        lives.append(Life(chance.randint(1, 400), first, min(11, first + chance.randrange(6))))
    uses = []
    for call in range(12):
        written = [i for i, life in enumerate(lives) if life.first == call]
        read = [i for i, life in enumerate(lives) if life.first < call <= life.last]
        uses.append(BufferUse([*written, *read], range(len(written))))
    return tuple(lives), uses


def placed_at(lives: tuple[Life, ...], places: Offsets) -> dict[object, ByteRange]:
    """Where lives lie."""
    return {i: ByteRange(home, at, at + life.nbytes)
            for i, (life, home, at) in enumerate(zip(lives, places.homes, places.offsets, strict=True))}  # fmt: skip


@pytest.mark.parametrize("seed", range(60))
def test_places_are_proved_and_a_shift_is_found(seed: int) -> None:
    """What place gives is right; two that live together at one place are found."""
    lives, uses = lives_and_uses(seed)
    where = placed_at(lives, place(lives))
    check_offsets(uses, where)
    together = [(i, j) for i, a in enumerate(lives) for j, b in enumerate(lives[:i])
                if a.first <= b.last and b.first <= a.last]  # fmt: skip
    for i, j in together[:5]:
        with pytest.raises(GraphError, match="was written last"):
            check_offsets(
                uses, {**where, i: ByteRange(where[j].block, where[j].start, where[j].start + lives[i].nbytes)}
            )


def program() -> list[float]:
    """A program in which the order of calls counts: an old value is read by a kernel of its own."""
    a, b = (Tensor([float(i) for i in range(6)]).realize() for _ in range(2))
    old = a.flip(0).contiguous() * 2
    a.assign(b + 1)
    b.assign(old + b.sum())
    Tensor.realize(a, b)
    return [*a.tolist(), *b.tolist()]


EXPECTED = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 25.0, 23.0, 21.0, 19.0, 17.0, 15.0]


def test_another_order_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: tasks run in the opposite order of what in_order gives."""
    assert program() == EXPECTED
    plan.clear()

    def backwards(*asked):
        found = order.in_order(*asked)
        return found if isinstance(found, NeedsOwnMemory) else found[::-1]

    monkeypatch.setattr(schedule_module, "in_order", backwards)
    with pytest.raises(GraphError, match="for one value and finds another there"):
        program()
    plan.clear()


def test_each_buffer_of_a_call_is_looked_at_twice_at_most() -> None:
    """Counted: one check of values, one of places."""
    before = proof.visits()
    a, b, c = buffer(), buffer(), buffer()
    check_values([copy(b, b, a, a), copy(c, c, b, b)], {a}, {c: c}, {})
    assert proof.visits() - before <= 2 * 4
    before = proof.visits()
    lives, uses = lives_and_uses(3)
    check_offsets(uses, placed_at(lives, place(lives)))
    steps = sum(len(use.buffers) for use in uses)
    assert 0 < proof.visits() - before <= 2 * steps


def test_a_value_that_takes_the_place_of_one_still_read_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant: reuse_buffers takes no notice of who reads later."""

    def grabbing(calls, kept):
        done, homes = inplace.reuse_buffers(calls, kept)
        for first, second in itertools.pairwise(done):
            out, spare = second.buffers[second.written[0]], first.buffers[first.written[0]]
            if out is not spare and spare in second.buffers and spare not in kept and out not in kept:
                homes[out] = spare
        moved = [inplace._moved(call, homes, ()) for call in done]
        return moved, homes

    plan.clear()
    monkeypatch.setattr(schedule_module, "reuse_buffers", grabbing)
    x = Tensor([float(i) for i in range(64)]).realize()

    def result() -> Tensor:  # what is made on the way is nobody's afterwards
        first = (x * 2).contiguous()
        second = (first.flip(0) + 1).contiguous()
        return second.flip(0) + first.reshape(8, 8).permute(1, 0).contiguous().reshape(64) * second.sum()

    with pytest.raises(GraphError, match="finds another there"):
        result().tolist()
    plan.clear()
