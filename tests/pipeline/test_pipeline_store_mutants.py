"""What keeps stores safe, removed one by one: then values become wrong, or a check refuses the kernel.

First the code by which scheduler and codegen avoid that a load comes after a store: each without its protection is
refused by a check, and wrong where that check is removed too. Then the conditions of the check itself: each without
it accepts a kernel that it refuses.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tinygraft import Context, Tensor
from tinygraft.codegen import block_reduction, linearise, lower
from tinygraft.dtype import dtypes
from tinygraft.engine import compile, plan
from tinygraft.errors import GraphError
from tinygraft.schedule import alone, draft, shard
from tinygraft.uop import hazards, overlap
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops, ParamArg, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, postorder

Patch = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture(autouse=True)
def fresh():
    """Nothing that was compiled or planned before is found, and nothing is left."""
    with Context(DEV="PYTHON", CACHELEVEL=0):
        plan.clear()
        compile.clear()
        yield
        plan.clear()
        compile.clear()


def coupled() -> list[list[float]]:
    """The program of findings 1.1: three stores of one kernel."""
    a, m, b = (Tensor(v).realize() for v in ([1.0, 2.0], [0.0, 0.0], [1.0]))
    new, power = m + a * 2, b * 0.5
    m.assign(new)
    a.assign(a - new / power)
    b.assign(power)
    a.realize(b, m)
    return [a.tolist(), m.tolist(), b.tolist()]


def turned() -> list[float]:
    """A tensor that is assigned its own elements from elsewhere."""
    t = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    t.assign(t.flip(0) * 2)
    return t.tolist()


def moved() -> list[float]:
    """Elements stored at computed indices of the memory that they are read from."""
    t = Tensor([1.0, 2.0, 3.0, 4.0]).realize()
    t[Tensor([1, 2, 3])] = t[:3]
    return t.tolist()


def sharded() -> list[float]:
    """A part of a shard that is written to is the very memory of another tensor."""
    source = Tensor([1.0, 2.0, 3.0]).realize()
    parts = source.shard(("PYTHON", "PYTHON:1"))
    parts[0] = 9
    parts.realize()
    return source.tolist()


def viewed() -> list[float]:
    """The view that is assigned to is realised for another tensor before."""
    x = Tensor([5.0, 3.0, 4.0]).realize()
    y = x.flip(0)
    x[::-1] = x
    y.tolist()
    return x.tolist()


def as_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stores are taken as they come, and every store closes the loops that it is not inside of."""

    def enter(self, store):
        self.leave(min(len(self.axes(store)) + 1, len(self.path)))
        original(self, store)

    original = linearise._Lineariser.enter
    monkeypatch.setattr(linearise._Lineariser, "enter", enter)


def replaced(module: object, name: str, value: object) -> Patch:
    """A patch of one name."""
    return lambda monkeypatch: monkeypatch.setattr(module, name, value)


PROGRAMS: dict[str, tuple[Callable[[], object], Patch, object]] = {
    "stores of one loop share it": (coupled, as_listed, [[-3.0, -6.0], [2.0, 4.0], [0.5]]),
    "a draft asks what is read late": (turned, replaced(draft, "reads_overwritten", lambda load, store: False),
                                       [8.0, 6.0, 4.0, 2.0]),
    "a scatter that reads its memory": (moved, replaced(alone, "postorder", lambda *nodes: []), [1.0, 1.0, 2.0, 3.0]),
}  # fmt: skip


@pytest.mark.usefixtures("not_validated")
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_avoidance_that_is_gone_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The program is right with it, refused without it, and wrong without the check as well."""
    program, patch, expected = PROGRAMS[name]
    assert program() == expected
    plan.clear()
    compile.clear()
    patch(monkeypatch)
    with pytest.raises(GraphError, match="not proved safe: .* it may read data"):
        program()
    plan.clear()
    compile.clear()
    monkeypatch.setattr(lower.hazards, "check", lambda *asked: None)
    assert program() != expected


@pytest.mark.usefixtures("not_validated")
def test_a_part_of_a_shard_without_its_own_memory_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source of the shard is written over."""
    assert sharded() == [1.0, 2.0, 3.0]
    plan.clear()
    monkeypatch.setattr(shard, "_copied", lambda node, number=0: node)
    assert sharded() == [9.0, 2.0, 3.0]


# Kernels

F = dtypes.float
A, B = (UOp(Ops.PARAM, F, (), ParamArg(slot, 4096)) for slot in range(2))


def load(memory: UOp, *at: UOp) -> UOp:
    """memory[at]."""
    return UOp(Ops.LOAD, memory.dtype, (memory, *at))


def store(memory: UOp, at: UOp, value: UOp, *gate: UOp) -> UOp:
    """memory[at] = value."""
    return UOp(Ops.STORE, src=(memory, at, value, *gate))


def accepts(uops: list[UOp]) -> bool:
    """Whether the check takes a list of instructions, in which sources may still be missing."""
    found: dict[UOp, None] = {}
    for u in uops:
        for node in postorder(u):
            found.setdefault(node)
    return hazards.first_hazard(list(found)) is None


def test_a_sum_of_what_a_loop_before_it_changes_is_read_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two loops after one another: without read_early the second reads what the first has stored."""
    r, s, other = UOp.range(4, 0), UOp.range(5, 1), UOp.range(4, 2)
    total = UOp(Ops.REDUCE, F, (load(A, other), other), ReduceArg(Ops.ADD))
    sink = UOp(Ops.SINK, src=(store(A, r, load(A, r) + 1.0), store(B, s, total)))
    assert hazards.first_hazard(linearise.linearise(sink)) is None
    monkeypatch.setattr(linearise._Lineariser, "read_early", lambda self, depth: None)
    found = hazards.first_hazard(linearise.linearise(sink))
    assert found is not None and found.why == hazards.LOAD_AFTER


def test_a_team_that_overwrites_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """One thread stores for its row what others of the thread block still read."""
    from gpusim import PLAIN

    r, s, t = UOp.range(64, 0), UOp.range(256, 1), UOp.range(256, 2)
    total = UOp(Ops.REDUCE, F, (load(B, ix.add(ix.mul(r, 256), t)) * load(A, r), t), ReduceArg(Ops.ADD))
    out = UOp(Ops.PARAM, F, (), ParamArg(2, 64 * 256))
    kernel = Kernel(UOp(Ops.SINK, src=(
        store(A, r, total), store(out, ix.add(ix.mul(r, 256), s), total * load(A, r)),
    )))  # fmt: skip
    lower.to_linear(kernel, PLAIN)
    monkeypatch.setattr(block_reduction, "_overwrites", lambda sink, team: False)
    monkeypatch.setattr(
        block_reduction._BlockReducer, "replaced", property(lambda self: set(), lambda self, value: None), raising=False
    )
    with pytest.raises(GraphError, match="not proved safe"):
        lower.to_linear(kernel, PLAIN)


def behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order of instructions does not count."""
    fault = hazards._HazardWalk.fault
    monkeypatch.setattr(hazards._HazardWalk, "fault",
                        lambda self, *a: None if (why := fault(self, *a)) == hazards.LOAD_AFTER else why)  # fmt: skip


def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """PARALLEL loops are loops like others."""
    start = hazards._HazardWalk.__init__

    def begin(self, *given):
        start(self, *given)
        self.parallel = False

    monkeypatch.setattr(hazards._HazardWalk, "__init__", begin)


def kernels() -> dict[str, list[UOp]]:
    """Return kernels that read what they have stored, by name."""
    r, s = UOp.range(6, 0), UOp.range(6, 1)
    p, q = (UOp.range(6, axis, AxisKind.PARALLEL) for axis in range(2))
    copy = UOp.range(6, 1, AxisKind.UNROLL)
    lane, ordered = UOp.range(4, 0, AxisKind.THREAD), UOp.range(6, 0, AxisKind.ORDERED)
    one, end = UOp.const(F, 1.0), lambda loop: UOp(Ops.END, src=(loop,))
    before = load(A, ix.sub(ordered, 1), ix.ge(ordered, 1))
    row = ix.add(ix.mul(r, 4), s)  # rows of 6 that overlap
    return {
        "later loop": [r, store(A, r, one), end(r), s, store(B, s, load(A, s)), end(s)],
        "turned": [r, store(A, r, load(A, ix.sub(5, r))), end(r)],
        "threads": [lane, store(A, ix.const(0), load(A, ix.const(0)), ix.lt(lane, 1))],
        "shares": [q, store(B, q, load(A, q)), end(q), p, store(A, p, one), end(p)],
        "two readers": [ordered, store(A, ordered, before + 1.0), store(B, ordered, before), end(ordered)],
        "far behind": [ordered, store(A, ordered, load(A, ix.sub(ordered, 2), ix.ge(ordered, 2))), end(ordered)],
        "overlapping rows": [r, s, store(A, row, load(A, row)), end(s), end(r)],
        "held back": [r, copy, store(A, ix.add(ix.mul(r, 6), copy), load(A, ix.minimum(ix.add(ix.mul(r, 6), copy), 7))),
                      end(r)],
        "a gate of one only": [lane, store(A, lane, load(A, ix.const(0), ix.lt(lane, 1)))],
    }  # fmt: skip


def declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every load in an ORDERED loop is meant to read what was stored."""
    monkeypatch.setattr(hazards._HazardWalk, "is_declared", lambda self, load, store, common: True)


MUTANTS: dict[str, tuple[Patch, tuple[str, ...]]] = {
    "the order of instructions": (behind, ("later loop",)),
    "iterations of common loops": (replaced(hazards, "_common", lambda first, second: ()), ("turned",)),
    "threads of a group": (replaced(hazards, "THREADS", frozenset()), ("threads",)),
    "shares of threads": (one_thread, ("shares",)),
    "who reads in an ordered loop": (replaced(hazards, "_leaks", lambda uops, both: set()), ("two readers",)),
    "which iteration an ordered loop may read": (declared, ("far behind",)),
    "what stays below a factor": (replaced(overlap._Proof, "span", lambda self, *terms: (0, 0)), ("overlapping rows",)),
    "where an index is held back": (
        replaced(overlap._Proof, "in_blocks",
                 lambda self, x, block, limit: ix.idiv(x.src[0] if x.op is Ops.MIN else x, block)),
        ("held back",),
    ),
    "places at all": (replaced(hazards, "coincide", lambda *places: None), ("later loop", "turned", "threads")),
}  # fmt: skip


@pytest.mark.parametrize("name", kernels())
def test_kernels_that_read_what_they_stored_are_refused(name: str) -> None:
    """All of them, by the check as it is."""
    assert not accepts(kernels()[name])


@pytest.mark.parametrize("name", MUTANTS)
def test_a_condition_of_the_check_that_is_gone_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that it is there for is accepted without it."""
    patch, accepted = MUTANTS[name]
    patch(monkeypatch)
    assert [kernel for kernel in accepted if not accepts(kernels()[kernel])] == []
