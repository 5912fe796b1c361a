"""How nodes and kernels print: the introduction's text, names, depth, and reading it back."""

from __future__ import annotations

import math
import random
import re
from typing import Any

import pytest

from tinygraft.dtype import dtypes
from tinygraft.uop import ops
from tinygraft.uop.ops import AxisKind, LocalArg, Ops, ParamArg, RangeArg, ReduceArg, RegArg
from tinygraft.uop.show import algebra, brief, show, show_kernel, show_linear
from tinygraft.uop.uop import UOp

NAMES: dict[str, Any] = {
    **{name: getattr(ops, name) for name in vars(ops) if name.endswith("Arg")},
    **{"UOp": UOp, "Ops": Ops, "dtypes": dtypes, "AxisKind": AxisKind, "inf": math.inf, "nan": math.nan},
}


def read_back(text: str) -> UOp:
    """The node that a printed text describes, read as Python."""
    names = dict(NAMES)
    found = None
    for part in re.split(r"\n(?=\S)", text):
        found = eval(f"({part})", names)
    assert isinstance(found, UOp)
    return found


def broadcast(value: float) -> UOp:
    """A constant as a (10, 10) tensor graph."""
    number = UOp.const(dtypes.float, value, "CPU")
    return UOp(Ops.EXPAND, dtypes.float, (UOp(Ops.RESHAPE, dtypes.float, (number,), (1, 1)),), (10, 10))


def test_a_node_prints_as_in_the_introduction() -> None:
    """ones(10, 10) + 2: nested calls, two spaces a level, the shared device named at first and by name after."""
    assert repr(broadcast(1.0) + broadcast(2.0)) == (
        "UOp(Ops.ADD, dtypes.float, arg=None, src=(\n"
        "  UOp(Ops.EXPAND, dtypes.float, arg=(10, 10), src=(\n"
        "    UOp(Ops.RESHAPE, dtypes.float, arg=(1, 1), src=(\n"
        "      UOp(Ops.CONST, dtypes.float, arg=1.0, src=(\n"
        "        x3:=UOp(Ops.DEVICE, dtypes.void, arg='CPU', src=()),)),)),)),\n"
        "  UOp(Ops.EXPAND, dtypes.float, arg=(10, 10), src=(\n"
        "    UOp(Ops.RESHAPE, dtypes.float, arg=(1, 1), src=(\n"
        "      UOp(Ops.CONST, dtypes.float, arg=2.0, src=(\n"
        "        x3,)),)),)),))"
    )


def test_args_and_tags_print_plainly() -> None:
    """Args show their fields, ops by name, symbolic sizes as algebra; a tag only where there is one."""
    buffer = UOp.buffer("CPU", 4, dtypes.int)
    assert f"arg=BufferArg(uid={buffer.arg.uid}, size=4)" in repr(buffer)
    n = UOp.variable("n", 1, 9)
    view = UOp(Ops.SHRINK, dtypes.int, (buffer,), ((0, n + 1),))
    assert "arg=((0, n + 1),)" in repr(view)
    total = UOp(Ops.REDUCE_AXIS, dtypes.int, (buffer,), ReduceArg(Ops.ADD, (0,)))
    assert "arg=ReduceArg(op=Ops.ADD, axes=(0,))" in repr(total)
    assert repr(UOp.range(3, 0, AxisKind.VECTOR)).startswith(
        "UOp(Ops.RANGE, dtypes.index, arg=RangeArg(axis=0, kind=AxisKind.VECTOR, dim=0), src=("
    )
    assert repr(UOp.on("CPU").replace(tag="seen")) == "UOp(Ops.DEVICE, dtypes.void, arg='CPU', src=(), tag='seen')"


def random_graph(rng: random.Random, nodes: int, recent: int) -> UOp:
    """A graph whose nodes read one of the last few; few make it deep, many make it wide."""
    made = [UOp.const(dtypes.float, v) for v in (1.0, -0.0, math.inf, math.nan)] + [
        UOp.variable("n", 1, 9).cast(dtypes.float)
    ]
    for _ in range(nodes):
        a, b = rng.choice(made[-recent:]), rng.choice(made)
        made.append(rng.choice((a + b, a * a, -a, (a < b).where(b, a), a.maximum(b).replace(tag=rng.randint(0, 3)))))
    return made[-1]


@pytest.mark.parametrize("recent", [1, 2, 8, 200])
def test_what_is_printed_reads_back_as_the_same_node(recent: int) -> None:
    """Python reads a printed graph, shallow or deep, as the very node that was printed."""
    rng = random.Random(recent)
    for size in (1, 3, 10, 40, 120, 400):
        root = random_graph(rng, size, recent)
        assert read_back(repr(root)) is root


@pytest.mark.slow
def test_a_chain_of_100000_nodes_prints() -> None:
    """The text grows with the number of nodes, every node once; a name is used only after it was given."""
    sizes = []
    for length in (10_000, 100_000):
        x = one = UOp.const(dtypes.float, 1.0)
        for _ in range(length):
            x = x + one
        text = repr(x)
        assert text.count("UOp(Ops.ADD") == length
        sizes.append(len(text))
    assert sizes[1] < 11 * sizes[0]
    assert max(len(line) for line in text.split("\n")) < 200
    given = set()
    for name, defines in re.findall(r"(x\d+)(:=)?", text):
        if defines:
            assert name not in given
            given.add(name)
        else:
            assert name in given


def test_brief_is_one_line() -> None:
    """An error shows a node on one line, with op, dtype and arg of its sources."""
    x = UOp.const(dtypes.float, 1.0)
    assert brief(x + x) == "UOp(Ops.ADD, dtypes.float, arg=None, src=(CONST float 1.0, CONST float 1.0))"


def test_algebra_has_the_parentheses_it_needs() -> None:
    """An index node in infix form, evaluated as Python, has the node's value."""
    i, j = UOp.range(7, 0), UOp.range(5, 1)
    rng = random.Random(1)
    for _ in range(300):
        x = i
        for _ in range(rng.randint(1, 6)):
            other = rng.choice((i, j, UOp.const(dtypes.index, rng.randint(-3, 5))))
            left, right = (x, other) if rng.random() < 0.5 else (other, x)
            x = rng.choice((left + right, left - right, left * right, -x, x // 3, x % 4, (left < right).where(x, j)))
        values = {"r0": 5, "r1": 2}
        folded = UOp.const(dtypes.index, evaluate(x, {i: 5, j: 2})).arg
        assert eval(algebra(x), values) == folded, algebra(x)


def evaluate(root: UOp, values: dict[UOp, int]) -> Any:
    """The value of an index node."""
    if root in values:
        return values[root]
    meaning: Any = ops.FACTS[root.op].python
    return root.arg if root.op is Ops.CONST else meaning(*(evaluate(s, values) for s in root.src))


def parts() -> tuple[UOp, UOp, UOp, UOp]:
    """Two arguments and two counters."""
    p0, p1 = (UOp(Ops.PARAM, dtypes.float, (), ParamArg(slot, 64)) for slot in (0, 1))
    return p0, p1, UOp.range(8, 0), UOp.range(8, 1)


def test_a_kernel_prints_as_algebra() -> None:
    """A softmax row: arguments, ranges, a line for each reduction and store, names for what is used again."""
    p0, p1, i, j = parts()
    k = UOp.range(8, 2)

    def row(r: UOp) -> UOp:
        return UOp(Ops.LOAD, dtypes.float, (p1, i * 8 + r))

    top = UOp(Ops.REDUCE, dtypes.float, (row(j), j), ReduceArg(Ops.MAX))
    total = UOp(Ops.REDUCE, dtypes.float, ((row(k) - top).alu(Ops.EXP2), k), ReduceArg(Ops.ADD))
    r3 = UOp.range(8, 3)
    value = (row(r3) - top).alu(Ops.EXP2) / total
    sink = UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(p0, i * 8 + r3, value, i < 7)),))
    assert show_kernel(sink) == (
        "p0: float[64] written\n"
        "p1: float[64]\n"
        "r0: loop of 8\n"
        "r1: loop of 8\n"
        "r2: loop of 8\n"
        "r3: loop of 8\n"
        "x0 = max over r1 of p1[r0 * 8 + r1]\n"
        "x1 = sum over r2 of exp2(p1[r0 * 8 + r2] - x0)\n"
        "p0[r0 * 8 + r3] = exp2(p1[r0 * 8 + r3] - x0) / x1 if r0 < 7"
    )


def test_a_kernel_with_shared_memory_prints_in_order() -> None:
    """Scratch memory is declared, and its store and the barrier come before what is read after them."""
    p0, p1, _, _ = parts()
    group, lane = UOp.range(4, 0, AxisKind.GRID, 1), UOp.range(8, 1, AxisKind.THREAD)
    local = UOp(Ops.LOCAL, dtypes.float, (), LocalArg(0, 8, True))
    load = UOp(Ops.LOAD, dtypes.float, (p1, group * 8 + lane, lane < 7))
    barrier = UOp(Ops.BARRIER, src=(UOp(Ops.STORE, src=(local, lane, load)),))
    after = UOp(Ops.AFTER, dtypes.float, (local, barrier))
    other = UOp(Ops.LOAD, dtypes.float, (after, (lane + 1) % 8))
    sink = UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(p0, group * 8 + lane, other)),))
    assert show_kernel(sink) == (
        "p0: float[64] written\n"
        "p1: float[64]\n"
        "l0: float[8] shared\n"
        "r0: grid of 4 along y\n"
        "r1: thread of 8 along x\n"
        "l0[r1] = p1[r0 * 8 + r1] if r1 < 7 else 0\n"
        "barrier\n"
        "p0[r0 * 8 + r1] = l0[(r1 + 1) % 8]"
    )


def test_a_long_expression_is_cut_into_named_lines() -> None:
    """A chain of 20,000 operations prints in lines of bounded length, in proportion to its length."""
    p0, p1, i, _ = parts()
    x = load = UOp(Ops.LOAD, dtypes.float, (p1, i))
    for _ in range(20_000):
        x = x * 0.5 + load
    text = show_kernel(UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(p0, i, x)),)))
    assert max(map(len, text.split("\n"))) < 250
    assert len(text) < 20_000 * 40
    assert text.count("* 0.5") == 20_000


def test_a_linear_form_prints_as_a_listing() -> None:
    """A row sum with a register, a vector and a repeated axis: one instruction a line, indented by loops."""
    p0, p1, i, j = parts()
    lane, copy = UOp.range(4, 2, AxisKind.VECTOR), UOp.range(2, 3, AxisKind.UNROLL)
    zero = UOp.const(dtypes.float, 0.0)
    register = UOp(Ops.REG, dtypes.float, (zero, lane, copy), RegArg(0))
    row, part = i * 8, copy * 4
    index = (row + part) + lane
    load = UOp(Ops.LOAD, dtypes.float, (p1, index))
    add = UOp(Ops.ACCUM, dtypes.float, (register, load), Ops.ADD)
    most = UOp(Ops.ACCUM, dtypes.float, (register, load), Ops.MAX)
    whole = UOp(Ops.LANES, dtypes.float, (UOp(Ops.GET, dtypes.float, (register,)), lane), ReduceArg(Ops.ADD))
    store = UOp(Ops.STORE, src=(p0, i, whole))
    uops = (p0, p1, i.src[0], i, lane.src[0], lane, copy.src[0], copy, zero, register, row, part, j, index.src[0],
            index, load, add, most, UOp(Ops.END, src=(j,)), whole.src[0], whole, store,
            UOp(Ops.END, src=(i,)))  # fmt: skip
    assert show_linear(uops) == (
        "p0: float[64]\n"
        "p1: float[64]\n"
        "for r0 in range(8):\n"
        "  r2 = vector of 4\n"
        "  r3 = each below 2, repeated\n"
        "  reg0: float = 0.0 for each r2, r3\n"
        "  v0: index = r0 * 8\n"
        "  v1: index = r3 * 4\n"
        "  for r1 in range(8):\n"
        "    v2: index = v0 + v1\n"
        "    v3: index = v2 + r2\n"
        "    v4: float = p1[v3]\n"
        "    reg0 += v4\n"
        "    reg0 = max(reg0, v4)\n"
        "  end r1\n"
        "  v5: float = reg0\n"
        "  v6: float = sum over r2 of v5\n"
        "  p0[r0] = v6\n"
        "end r0"
    )


def test_ranges_of_every_kind_have_their_words() -> None:
    """Each kind of range prints in a kernel and in a listing."""
    for kind in AxisKind:
        r = UOp(Ops.RANGE, dtypes.index, (UOp.const(dtypes.index, 4),), RangeArg(0, kind))
        assert f"r0: {kind.value} of 4" in show_kernel(UOp(Ops.SINK, src=(r,)))
        assert "r0" in show_linear((r.src[0], r))
    assert show(UOp(Ops.SINK)) == "UOp(Ops.SINK, dtypes.void, arg=None, src=())"
