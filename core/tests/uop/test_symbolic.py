"""Sizes with variables: sums have one form, and what is proved of their accesses holds for all values, one by one."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping

import pytest

from tinygraft.uop import index as ix
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.overlap import GatedIndex, coincide
from tinygraft.uop.terms import difference, surely_negative
from tinygraft.uop.uop import UOp, toposort

Access = tuple[UOp, UOp | None]
Values = Mapping[UOp, int]


def value(x: UOp, values: Values) -> int:
    """What an index or a gate is, in plain Python."""
    done: dict[UOp, int] = {}
    for u in toposort(x):
        if u.op in (Ops.RANGE, Ops.VARIABLE):
            done[u] = values.get(u, 0)
        elif u.op is Ops.CONST:
            done[u] = u.arg
        else:
            meaning = FACTS[u.op].python
            assert meaning is not None
            done[u] = meaning(*[done[s] for s in u.src])
    return done[x]


def counters(*nodes: UOp | None) -> list[UOp]:
    """The ranges in nodes."""
    return [u for u in toposort(*[n for n in nodes if n is not None]) if u.op is Ops.RANGE]


def reached(element: UOp, gate: UOp | None, sizes: Values) -> list[tuple[int, dict[UOp, int]]]:
    """What an access reaches, with the values of its counters, where the gate is open."""
    ranges = counters(element, gate)
    found = []
    for values in itertools.product(*[range(max(0, value(r.src[0], sizes))) for r in ranges]):
        here = {**sizes, **dict(zip(ranges, values, strict=True))}
        if gate is None or value(gate, here):
            found.append((value(element, here), here))
    return found


def drawn(r: random.Random, first: int, k: UOp, m: UOp) -> Access:
    """An access to rows of a length that is not known, as kernels have them: in blocks, behind these, a row before."""
    c = r.choice([2, 3, 4])
    sizes = [k, m, ix.idiv(k, c), ix.mod(k, c), ix.const(c), ix.sub(k, 1), ix.mul(k, m), ix.mul(ix.mod(k, 3), 2)]
    a, b, d = (UOp.range(r.choice(sizes), first + n) for n in range(3))
    inner = r.choice([a, ix.add(ix.mul(a, c), d), ix.add(ix.mul(ix.idiv(k, c), c), a), ix.add(a, r.randint(-1, 1))])
    row = r.choice([b, ix.sub(b, 1), ix.add(b, 1)])
    stride = r.choice([k, m, ix.mul(k, m), ix.const(c), ix.mul(ix.mod(k, 3), 2), ix.mul(ix.add(k, m), m)])
    gate = r.choice([None, ix.ge(b, 1), ix.ge(a, 1), ix.lt(inner, k), ix.and_(ix.ge(a, 1), ix.ge(b, 1))])
    return ix.add(inner, ix.mul(row, stride)), None if gate is None or gate.op is Ops.CONST else gate


def test_what_is_proved_of_accesses_holds_for_all_sizes() -> None:
    """Ranges that are said to be the same are, places that never meet do not, what is negative is below 0."""
    told = 0
    for seed in range(400):
        r = random.Random(seed)
        k, m = UOp.variable("k", r.randint(0, 3), r.randint(3, 6)), UOp.variable("m", r.randint(0, 2), r.randint(2, 4))
        first, second = drawn(r, 0, k, m), drawn(r, r.choice([0, 3]), k, m)
        if r.random() < 0.5:
            second = ix.add(first[0], r.choice([ix.mul(k, -1), ix.const(-1), ix.const(1), k])), first[1]
        same = coincide(GatedIndex(*first), GatedIndex(*second))
        negative = surely_negative(*difference(first[0], ix.mul(k, m)), reached=True)
        told += same != 0 or negative
        for sizes in itertools.product(range(k.lo, k.hi + 1), range(m.lo, m.hi + 1)):
            known = dict(zip((k, m), sizes, strict=True))
            if negative:
                assert all(x < sizes[0] * sizes[1] for x, _ in reached(first[0], None, known)), f"{seed}: {sizes}"
            if same == 0:
                continue
            there: dict[int, list[dict[UOp, int]]] = {}
            for place, values in reached(*second, known):
                there.setdefault(place, []).append(values)
            for place, values in reached(*first, known):
                for others in there.get(place, ()):
                    assert same is not None, f"{seed}: both reach {place} where {sizes}"
                    for axis in (x for x in values if x.op is Ops.RANGE and same >> x.arg.axis & 1 and x in others):
                        assert values[axis] == others[axis], f"{seed}: {axis.arg} differs where {sizes}"
    assert told > 60


def test_a_scan_along_rows_of_a_length_that_is_not_known() -> None:
    """The element before, in rows, in whole blocks of columns and in what is left of them."""
    k = UOp.variable("k", 1, 5)
    row, column = UOp.range(k, 0), UOp.range(k, 1)
    here = ix.add(ix.mul(row, k), column)
    assert coincide(GatedIndex(here), GatedIndex(here)) == 0b11
    before = GatedIndex(ix.sub(here, 1), ix.ge(column, 1))
    assert coincide(before, GatedIndex(here)) == 0b01  # of that row, another column
    block, lane, left = UOp.range(ix.idiv(k, 4), 2), UOp.range(4, 3), UOp.range(ix.mod(k, 4), 4)
    inner, behind = ix.add(ix.mul(block, 4), lane), ix.add(ix.mul(ix.idiv(k, 4), 4), left)
    blocks, rest = (ix.add(ix.mul(row, k), x) for x in (inner, behind))
    assert coincide(GatedIndex(blocks), GatedIndex(rest)) is None
    before = ix.add(ix.mul(ix.sub(row, 1), k), behind)
    assert coincide(GatedIndex(before, ix.ge(row, 1)), GatedIndex(rest)) == 0b10000


@pytest.mark.parametrize("values", [None, (3, 4), (4, 3)])
def test_one_size_has_one_form(values: tuple[int, int] | None) -> None:
    """Whatever was made first, and in whichever order it is written, with or without values."""
    i, j = UOp.variable("i", 1, 9), UOp.variable("j", 1, 9)
    if values is not None:
        i, j = i.bind(values[0]), j.bind(values[1])
    for one, other in [
        (i + j, j + i), (i * j, j * i), (2 * i, i + i), (i - j, -j + i), (i // 2 + j // 2, j // 2 + i // 2),
        (i * 3 + (5 - i * 2), i + 5), ((i + j) * 2, j * 2 + i + i), (i % 3 + j * i, i * j + i % 3),
    ]:  # fmt: skip
        assert ix.settled(one) is ix.settled(other)
        assert one is not other
    assert ix.settled((i + (5 - i), (i - i, 7))) == (5, (0, 7))
    assert ix.settled(UOp.variable("n", 4, 4) * 2) == 8
