"""The proof that a kernel reads before it stores: linear forms by hand, legal and illegal, and what an error says."""

from __future__ import annotations

import itertools

import pytest

from tinygraft.codegen.linearise import linearise
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.uop import hazards
from tinygraft.uop import index as ix
from tinygraft.uop.hazards import first_hazard
from tinygraft.uop.ops import AxisKind, Ops, ParamArg
from tinygraft.uop.overlap import GatedIndex, coincide, limits
from tinygraft.uop.uop import UOp

F = dtypes.float
A, B, C = (UOp(Ops.PARAM, F, (), ParamArg(slot, 4096)) for slot in range(3))
N, M = 6, 8


def load(memory: UOp, at: UOp, *gate: UOp) -> UOp:
    """memory[at]."""
    return UOp(Ops.LOAD, memory.dtype, (memory, at, *gate))


def store(memory: UOp, at: UOp, value: UOp, *gate: UOp) -> UOp:
    """memory[at] = value."""
    return UOp(Ops.STORE, src=(memory, at, value, *gate))


def end(loop: UOp) -> UOp:
    """The end of a loop."""
    return UOp(Ops.END, src=(loop,))


def listed(*uops: UOp) -> list[UOp]:
    """A linear form of instructions, with what they are made of before them."""
    found: dict[UOp, None] = {}
    for u in uops:
        stack = [u]
        while stack:
            node = stack[-1]
            if missing := [s for s in node.src if s not in found]:
                stack += missing
            else:
                found[node] = None
                stack.pop()
    return list(found)


def loop(axis: int, kind: AxisKind = AxisKind.LOOP, size: int = N) -> UOp:
    """A range."""
    return UOp.range(size, axis, kind)


def why(*uops: UOp) -> str | None:
    """What is wrong with a linear form."""
    found = first_hazard(listed(*uops))
    return None if found is None else found.why


R, S, T = loop(0), loop(1), loop(2, size=M)
ONE = ix.const(1)


def test_a_load_before_the_store_of_its_iteration_is_safe() -> None:
    """a[r] = a[r] + 1."""
    old = load(A, R)
    assert why(R, old, store(A, R, old + 1.0), end(R)) is None


def test_a_load_after_the_store_of_its_iteration_is_a_hazard() -> None:
    """a[r] = 1; b[r] = a[r]."""
    new = store(A, R, UOp.const(F, 1.0))
    assert why(R, new, store(B, R, load(A, R)), end(R)) == hazards.LOAD_AFTER


def test_a_loop_after_the_one_that_stores_is_a_hazard() -> None:
    """The program of findings 1.1: a loop is closed and opened again."""
    uops = [R, store(A, R, UOp.const(F, 1.0)), end(R), S, store(B, S, load(A, S)), end(S)]
    assert why(*uops) == hazards.LOAD_AFTER


def test_other_elements_are_no_hazard() -> None:
    """The rest of a loop that was split, and a row that a later loop does not read."""
    uops = [R, store(A, R, UOp.const(F, 1.0)), end(R), S, store(B, S, load(A, ix.add(S, N))), end(S)]
    assert why(*uops) is None
    uops = [R, store(A, R, UOp.const(F, 1.0)), end(R), S, store(B, S, load(A, ix.add(S, N - 1))), end(S)]
    assert why(*uops) == hazards.LOAD_AFTER


def test_a_load_before_the_loop_that_stores_is_safe() -> None:
    """A scalar is read, then a loop, then it is stored."""
    scale = load(A, ix.const(0))
    assert why(scale, R, store(B, R, scale), end(R), store(A, ix.const(0), scale * 2.0)) is None


def test_another_iteration_that_stores_first_is_a_hazard() -> None:
    """a[r] = a[n-1-r], a[r+1] = a[r], a[0] = a[r]."""
    for there, here in ((R, ix.sub(N - 1, R)), (ix.add(R, 1), R), (ix.const(0), R)):
        assert why(R, store(A, there, load(A, here)), end(R)) == hazards.ANYWHERE


def test_a_row_that_is_read_whole_before_it_is_stored() -> None:
    """for r: for t: sum a[r, t]; for t: a[r, t] = sum. A column that is read whole is a hazard."""
    other = loop(3, size=M)
    row = ix.add(ix.mul(R, M), T)
    read = [R, T, load(A, row), end(T)]
    new = UOp.const(F, 1.0)
    assert why(*read, other, store(A, ix.add(ix.mul(R, M), other), new), end(other), end(R)) is None
    other = loop(3, size=N)
    assert why(*read, other, store(A, ix.add(ix.mul(other, M), R), new), end(other), end(R)) == hazards.ANYWHERE


def test_threads_that_share_loops_run_them_in_no_order() -> None:
    """Two shared loops over the same elements; the same in one loop; and what stands before a shared loop."""
    p, q = loop(0, AxisKind.PARALLEL), loop(1, AxisKind.PARALLEL)
    before = load(A, q)
    assert why(q, store(B, q, before), end(q), p, store(A, p, UOp.const(F, 1.0)), end(p)) == hazards.ANYWHERE
    old = load(A, p)
    assert why(p, store(A, p, old), end(p)) is None
    scale = load(A, ix.const(0))
    assert why(scale, p, store(A, p, scale), end(p)) == hazards.ANYWHERE


def test_threads_of_a_group_and_groups_of_a_grid_run_in_no_order() -> None:
    """An element for each thread is safe; one that all read and one stores is not, unless it alone reads."""
    grid, lane = loop(0, AxisKind.GRID), loop(1, AxisKind.THREAD, 4)
    at = ix.add(ix.mul(grid, 4), lane)
    assert why(grid, lane, store(A, at, load(A, at))) is None
    gate = ix.lt(lane, 1)
    assert why(grid, lane, store(A, grid, load(A, grid), gate)) == hazards.ANYWHERE
    assert why(grid, lane, store(A, grid, load(A, grid, gate), gate)) is None
    assert why(grid, lane, store(A, lane, load(A, lane))) == hazards.ANYWHERE


def test_vectors_and_copies_of_an_instruction_are_done_together() -> None:
    """Lanes and copies may be turned around by a load that comes first, and by nothing that comes after."""
    v, u = loop(0, AxisKind.VECTOR, 4), loop(1, AxisKind.UNROLL, 4)
    for kind in (v, u):
        turned = load(A, ix.sub(3, kind))
        assert why(kind, store(A, kind, turned)) is None
        assert why(kind, store(A, kind, UOp.const(F, 1.0)), store(B, kind, turned)) == hazards.LOAD_AFTER


ORDERED = loop(0, AxisKind.ORDERED)


def test_a_scan_reads_what_the_iteration_before_has_stored() -> None:
    """a[i] = a[i-1] + b[i] is meant; a[i-2] is not, nor a second store that sees what was read."""

    def scan(back: int, *more: UOp) -> str | None:
        last = load(A, ix.sub(ORDERED, back), ix.ge(ORDERED, back))
        return why(ORDERED, store(A, ORDERED, last + load(B, ORDERED)), *(store(m, ORDERED, last) for m in more),
                   end(ORDERED))  # fmt: skip

    assert scan(1) is None
    assert scan(2) == hazards.ANYWHERE
    assert scan(1, C) == hazards.ANYWHERE
    plain = load(A, ix.sub(R, 1), ix.ge(R, 1))
    assert why(R, store(A, R, plain), end(R)) == hazards.ANYWHERE


def test_a_scatter_adds_where_an_earlier_iteration_did() -> None:
    """a[where[i]] += b[i], row by row of a loop outside; nobody may address by what was stored."""
    P = UOp(Ops.PARAM, dtypes.index, (), ParamArg(3, N))
    where = load(P, ORDERED)
    inside = ix.and_(ix.ge(where, 0), ix.lt(where, M))
    assert why(ORDERED, store(A, where, load(A, where, inside) + load(B, ORDERED), inside), end(ORDERED)) is None
    at = ix.add(ix.mul(S, M), where)
    both = S, ORDERED, store(A, at, load(A, at, inside) + 1.0, inside), end(ORDERED), end(S)
    assert why(*both) is None
    one = ix.and_(ix.ge(where, 0), ix.lt(where, 1))  # rows of one element
    at = ix.add(S, where)
    assert why(S, ORDERED, store(A, at, load(A, at, one) + 1.0, one), end(ORDERED), end(S)) is None
    at = ix.add(ix.mul(S, M - 1), where)  # rows that overlap
    assert why(S, ORDERED, store(A, at, load(A, at, inside) + 1.0, inside), end(ORDERED), end(S)) == hazards.ANYWHERE


def test_the_error_names_kernel_buffer_store_and_load() -> None:
    """What was made, by whom, and what to do."""
    uops = listed(R, store(A, ix.add(R, 1), load(A, R)), end(R))
    with pytest.raises(GraphError) as error:
        hazards.check(uops, "E_6", "pass 'linearise'")
    assert str(error.value) == (
        "pass 'linearise' made a kernel that is not proved safe: E_6: it may read data0 where it has already stored to "
        "it, which may be an iteration or a thread that stores first\n"
        "  store: data0[r0 + 1]\n"
        "  load: data0[r0]\n"
        "  hint: this is a bug of the scheduler, of codegen or of a codegen pass; realize the tensors one by one"
    )


def test_a_node_is_looked_at_twice_at_most() -> None:
    """Counted, of a kernel with and without an ordered loop; one that reads nothing it writes costs nothing."""
    for kind in (AxisKind.LOOP, AxisKind.ORDERED):
        r = loop(0, kind)
        uops = listed(r, *(store(m, r, load(m, r) + float(i)) for i, m in enumerate((A, B, C))), end(r))
        before = hazards.visits()
        assert first_hazard(uops) is None
        assert 0 < hazards.visits() - before <= 2 * len(uops)


def test_linearise_keeps_what_it_can_in_order() -> None:
    """Stores of one loop are listed with it whatever stands between them, and a sum before the loop that changes it."""
    r, other = loop(0), loop(1)
    old = load(A, r)
    scalar = load(C, ix.const(0))
    stores = [store(B, r, old + 1.0), store(C, ix.const(0), scalar * 2.0), store(A, r, old * scalar)]
    for order in itertools.permutations(stores):
        assert first_hazard(linearise(UOp(Ops.SINK, src=order))) is None
    loops = [n for n in linearise(UOp(Ops.SINK, src=tuple(stores))) if n.op is Ops.END]
    assert len(loops) == 1
    total = UOp(Ops.REDUCE, F, (load(A, other), other), load_sum())
    s = loop(2, size=M)
    after = linearise(UOp(Ops.SINK, src=(store(A, r, old + 1.0), store(B, s, total + load(B, s)))))
    assert first_hazard(after) is None


def load_sum() -> object:
    """The arg of a sum."""
    from tinygraft.uop.ops import ReduceArg

    return ReduceArg(Ops.ADD)


def points(ranges: list[UOp]) -> list[dict[UOp, int]]:
    """All values of some ranges."""
    sizes = [range(int(r.hi) + 1) for r in ranges]
    return [dict(zip(ranges, values, strict=True)) for values in itertools.product(*sizes)]


def number(x: UOp, at: dict[UOp, int]) -> int:
    """An index where its ranges have values."""
    swap = {r: ix.const(value) for r, value in at.items()}
    return int(ix.rebuild_simplified((x,), swap)[x].arg)


def expressions() -> list[tuple[UOp, UOp | None]]:
    """Indices with gates: sums, quotients and remainders, turned around, held back at the end."""
    r, s, t = UOp.range(3, 0), UOp.range(4, 1), UOp.range(12, 2)
    row = ix.add(ix.mul(r, 4), s)
    return [
        (row, None), (ix.add(ix.mul(s, 3), r), None), (ix.sub(11, row), None), (ix.add(ix.mul(r, 3), s), None),
        (t, None), (ix.add(ix.mul(ix.idiv(t, 4), 4), ix.mod(t, 4)), None), (ix.mul(ix.mod(t, 4), 3), None),
        (ix.add(ix.mul(ix.mod(t, 4), 3), ix.idiv(t, 4)), None), (ix.add(ix.mul(r, 8), ix.mul(s, 2)), None),
        (ix.add(ix.mul(r, 4), ix.const(2)), None), (ix.minimum(row, 9), None), (row, ix.lt(row, 10)),
        (ix.minimum(row, 9), ix.lt(row, 10)), (row, ix.lt(row, 1)), (ix.add(t, 12), None), (ix.const(5), None),
        (ix.add(ix.mul(t, 2), 1), None), (s, ix.lt(s, 1)), (ix.add(r, s), None),
        (ix.add(r, s), ix.lt(s, 1)), (ix.add(r, s), ix.ge(r, 2)), (r, None),
        *((ix.add(ix.mul(ix.idiv(place, by), by), ix.sub(by - 1, ix.mod(place, by))), gate)  # turned around in blocks
          for place in (row, ix.add(ix.mul(r, 8), s)) for by in (3, 6) for gate in (None, ix.lt(place, 10))),
        (ix.const(5), ix.and_(ix.lt(ix.mod(t, 4), 1), ix.lt(t, 4))), (ix.const(5), ix.lt(ix.mod(t, 4), 1)),
        (ix.idiv(t, 4), ix.lt(ix.mod(t, 4), 1)),
    ]  # fmt: skip


def test_a_place_is_known_by_its_digits() -> None:
    """Turned around in blocks that are no parts of those that it is counted by; and by what gates leave of it."""
    r, s, t = UOp.range(2, 0), UOp.range(32, 1), UOp.range(16, 2)
    place = ix.add(ix.mul(r, 32), s)
    turned = ix.add(ix.mul(ix.idiv(place, 18), 18), ix.sub(17, ix.mod(place, 18)))
    assert coincide(GatedIndex(turned), GatedIndex(turned)) == 0b11
    first = GatedIndex(ix.const(0), ix.and_(ix.lt(ix.idiv(t, 4), 1), ix.lt(ix.mod(t, 4), 1)))
    assert coincide(first, first) == 0b100
    assert coincide(first, GatedIndex(ix.const(0), ix.lt(ix.idiv(t, 4), 1))) == 0


@pytest.mark.parametrize("first", range(len(expressions())))
def test_what_is_proved_of_two_places_is_so(first: int) -> None:
    """Against all values of the ranges, tried one by one."""
    a, gate = expressions()[first]
    ranges = [UOp.range(3, 0), UOp.range(4, 1), UOp.range(12, 2)]
    for b, other in expressions():
        proved = coincide(GatedIndex(a, gate), GatedIndex(b, other))
        reached: dict[int, list[dict[UOp, int]]] = {}
        mine, theirs = ([r for r in ranges if (x.ranges | (0 if g is None else g.ranges)) >> r.arg.axis & 1]
                        for x, g in ((a, gate), (b, other)))  # fmt: skip
        for at in points(mine):
            if gate is None or _open(gate, at):
                reached.setdefault(number(a, at), []).append(at)
        for at in points(theirs):
            for here in reached.get(number(b, at), []) if other is None or _open(other, at) else []:
                assert proved is not None, "they do meet"
                for r in ranges:
                    if proved >> r.arg.axis & 1 and r in here and r in at:
                        assert here[r] == at[r]


def _open(gate: UOp, at: dict[UOp, int]) -> bool:
    """Whether a gate is open where ranges have these values."""
    return bool(ix.rebuild_simplified((gate,), {r: ix.const(value) for r, value in at.items()})[gate].arg)


def test_a_proof_with_a_size_that_is_not_known() -> None:
    """Rows of a symbolic length, one after another."""
    n = UOp.variable("n", 1, 9)
    r, s = UOp.range(4, 0), UOp.range(n, 1)
    at = ix.add(ix.mul(r, n), s)
    assert coincide(GatedIndex(at), GatedIndex(at)) == 0b11
    assert coincide(GatedIndex(at), GatedIndex(ix.add(at, 1))) != 0b11
    blocks, inner, rest = UOp.range(ix.idiv(n, 4), 2), UOp.range(4, 3), UOp.range(ix.mod(n, 4), 4)
    main, tail = (
        ix.add(ix.mul(blocks, 4), inner),
        ix.add(ix.mul(ix.idiv(n, 4), 4), rest),
    )  # a loop in blocks, and the rest
    assert coincide(GatedIndex(main), GatedIndex(tail)) is None
    assert coincide(GatedIndex(main), GatedIndex(ix.sub(tail, 1))) is not None


def test_what_gates_say() -> None:
    """Upper and lower bounds of terms, also from below a NOT and for terms with a negative factor."""
    r, s = UOp.range(9, 0), UOp.range(9, 1)
    assert limits(ix.and_(ix.lt(r, 4), ix.ge(r, 2)))[r] == (2, 3)
    assert limits(ix.lt(ix.sub(3, r), 0))[r] == (4, 8)
    assert limits(ix.lt(ix.add(r, s), 1))[s] == (0, 0)
    assert coincide(GatedIndex(r, ix.and_(ix.lt(r, 2), ix.ge(s, 4))), GatedIndex(ix.add(r, 2))) is None
    assert coincide(GatedIndex(ix.add(r, s), ix.lt(s, 1)), GatedIndex(ix.add(r, s), ix.lt(s, 1))) == 0b11
    assert coincide(GatedIndex(s, ix.lt(s, 1)), GatedIndex(s)) == 0b10


@pytest.mark.parametrize("coarse_first", [True, False])
def test_a_gate_with_two_sums_says_what_the_tighter_one_says(coarse_first: bool) -> None:
    """A row of 51 in blocks of 6, of which the gates hold back blocks of 2 and single elements, in either order."""
    row, r, s, t = (UOp.range(size, axis) for axis, size in enumerate((4, 9, 3, 2)))
    inner = ix.add(ix.add(ix.mul(r, 6), ix.mul(s, 2)), t)
    coarse, fine = ix.lt(ix.add(ix.mul(r, 3), s), 26), ix.lt(inner, 51)
    gate = ix.and_(coarse, fine) if coarse_first else ix.and_(fine, coarse)
    at = GatedIndex(ix.add(ix.mul(row, 51), inner), gate)
    assert coincide(at, at) == 0b1111
    assert coincide(GatedIndex(ix.add(ix.mul(row, 50), inner), gate), at) != 0b1111
    assert coincide(GatedIndex(inner, gate), GatedIndex(ix.add(inner, 51), gate)) is None


@pytest.mark.parametrize("op", [Ops.ADD, Ops.MUL, Ops.MAX])
def test_a_loop_that_combines_is_not_lost(op: Ops) -> None:
    """An index that no longer depends on the counter: what is added would be added once. A maximum is the same."""
    r = UOp.range(N, 0, AxisKind.ORDERED)

    def kernel(at: UOp) -> UOp:
        return UOp(Ops.SINK, src=(store(A, at, UOp(op, F, (load(A, at), UOp.const(F, 2.0)))),))

    written, simplified = kernel(ix.mod(r, 3)), kernel(ix.const(0))
    hazards.check_order(written, linearise(written), "E_6")
    if op is Ops.MAX:
        hazards.check_order(written, linearise(simplified), "E_6")
        return
    with pytest.raises(
        GraphError, match=r"^codegen lost a loop of the kernel E_6, which combines elements .*\n  hint: "
    ):
        hazards.check_order(written, linearise(simplified), "E_6")
