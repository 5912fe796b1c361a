"""Specs: what no node may be, what each stage may contain, and how SPEC turns the checks on and off."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from tinygraft import config
from tinygraft.config import Context
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.uop.graph_spec import KERNEL, LINEAR, TENSOR, Spec, check
from tinygraft.uop.nodes import fault
from tinygraft.uop.ops import (
    AxisKind,
    LocalArg,
    Ops,
    ParamArg,
    RangeArg,
    ReduceArg,
    RegArg,
    ScanArg,
    ScatterArg,
    StoreHint,
    VariableArg,
)
from tinygraft.uop.units import MatrixArg, MatrixUnit, TileArg
from tinygraft.uop.uop import UOp, postorder, rebuild
from tinygraft.uop.upat import PatternMatcher, UPat, graph_rewrite


def real(value: float = 1.0) -> UOp:
    """A float constant."""
    return UOp.const(dtypes.float, value)


def whole(value: int = 1) -> UOp:
    """An int constant."""
    return UOp.const(dtypes.int, value)


ROW, COL = UOp.range(8, 0), UOp.range(8, 1)
LANE = UOp.range(4, 2, AxisKind.VECTOR)
P = UOp(Ops.PARAM, dtypes.float, (), ParamArg(0, 64))
Q = UOp(Ops.PARAM, dtypes.float, (), ParamArg(1, 64))
LOCAL = UOp(Ops.LOCAL, dtypes.float, (), LocalArg(0, 8, False))
REGISTER = UOp(Ops.REG, dtypes.float, (real(0.0),), RegArg(0))
TRUE = UOp.const(dtypes.bool, True)
DEVICE = UOp.on("ANY")
BUFFER = UOp.buffer("ANY", 4, dtypes.float)
UNIT = MatrixUnit("dot", 1, 4, 2, dtypes.bfloat16, dtypes.bfloat16, dtypes.float, 2)
WORD = UOp.const(dtypes.uint32, 1)
TILES = MatrixUnit("mma", 8, 8, 8, dtypes.float, dtypes.float, dtypes.float)
STEPS = MatrixArg(TILES, 8, 8, 8)
TILE = UOp(Ops.TILE, dtypes.float, (), TileArg(0, TILES))
f, i, b, void, index = dtypes.float, dtypes.int, dtypes.bool, dtypes.void, dtypes.index

WRONG: list[tuple[tuple[Any, ...], str]] = [
    ((Ops.ADD, f, (real(),)), "ADD takes 2 sources, got 1"),
    ((Ops.NEG, f, ()), "NEG takes 1 source, got 0"),
    ((Ops.LOAD, f, (P,)), "LOAD takes 2 to 3 sources, got 1"),
    ((Ops.STORE, void, (P, ROW)), "STORE takes 3 to 4 sources, got 2"),
    ((Ops.CAT, f, (), 0), "CAT takes 1 or more sources, got 0"),
    ((Ops.ADD, f, (real(), real()), 3), "the arg of ADD is nothing, got 3"),
    ((Ops.PARAM, f, (), 3), "the arg of PARAM is ParamArg, got 3"),
    ((Ops.BIND, index, (UOp.variable("n", 0, 4),), True), "the arg of BIND is int, got True"),
    ((Ops.RESHAPE, f, (BUFFER,), (2.0, 2)), "the arg of RESHAPE has ints and index nodes, got 2.0"),
    ((Ops.FLIP, f, (BUFFER,), (False,)), "the arg of FLIP has ints and index nodes, got False"),
    ((Ops.ADD, f, (real(), whole())), "ADD of float needs sources of that dtype, got float, int"),
    ((Ops.MUL, i, (real(), real())), "MUL of int needs sources of that dtype, got float, float"),
    ((Ops.CMPLT, f, (real(), real())), "CMPLT gives bool, got float"),
    ((Ops.CMPEQ, b, (real(), whole())), "CMPEQ compares two of one dtype, got float, int"),
    ((Ops.WHERE, f, (whole(), real(), real())), "the condition of WHERE is bool, got int"),
    ((Ops.WHERE, f, (TRUE, real(), whole())), "WHERE of float chooses between two of that dtype, got bool, float, int"),
    ((Ops.SQRT, i, (whole(),)), "SQRT is not for int"),
    ((Ops.FDIV, i, (whole(), whole())), "FDIV is not for int"),
    ((Ops.IDIV, f, (real(), real())), "IDIV is not for float"),
    ((Ops.AND, f, (real(), real())), "AND is not for float"),
    ((Ops.THREEFRY, i, (whole(), whole())), "THREEFRY is of ulong, got int"),
    ((Ops.CONST, f, (), 1), "a CONST of float has a float as arg, got 1"),
    ((Ops.CONST, i, (), True), "a CONST of int has a int as arg, got True"),
    ((Ops.CONST, b, (), 1), "a CONST of bool has a bool as arg, got 1"),
    ((Ops.CONST, dtypes.uint8, (), 256), "256 is no uchar"),
    ((Ops.CONST, f, (real(),), 1.0), "source 0 of CONST is DEVICE, got CONST"),
    ((Ops.BUFFER, f, (real(),), BUFFER.arg), "source 0 of BUFFER is DEVICE, got CONST"),
    ((Ops.COPY, f, (BUFFER, real())), "source 1 of COPY is DEVICE, got CONST"),
    ((Ops.CAST, void, (real(),)), "a cast goes from a value to a value, got float to void"),
    ((Ops.BITCAST, dtypes.half, (real(),)), "BITCAST keeps the width, got float to half"),
    ((Ops.PERMUTE, i, (BUFFER,), (0,)), "PERMUTE has the dtype of its first source, float, got int"),
    ((Ops.REDUCE_AXIS, f, (BUFFER,), ReduceArg(Ops.SUB, (0,))), "REDUCE_AXIS cannot combine by SUB"),
    ((Ops.SCAN, f, (BUFFER,), ScanArg(Ops.POW, 0)), "SCAN cannot combine by POW"),
    ((Ops.VARIABLE, dtypes.void, (), VariableArg("n", 0, 4)), "VARIABLE is not for void"),
    ((Ops.BIND, i, (UOp.variable("n", 0, 4),), 3), "BIND has the dtype of its first source, index, got int"),
    ((Ops.RANGE, index, (whole(8),), RangeArg(0)), "source 0 of RANGE is of index, got int"),
    ((Ops.RANGE, index, (UOp.const(index, 8),), RangeArg(0, AxisKind.GRID, 3)), "a RANGE has axis 0 or more"),
    ((Ops.RANGE, index, (UOp.variable("n", 1, 4),), RangeArg(0, AxisKind.VECTOR)), "a RANGE of kind vector has a"),
    ((Ops.REDUCE, f, (real(), ROW), ReduceArg(Ops.IDIV)), "REDUCE cannot combine by IDIV"),
    ((Ops.LOAD, f, (real(), ROW)), "the memory of LOAD is PARAM or LOCAL, perhaps in AFTER, got CONST"),
    ((Ops.LOAD, f, (P, whole())), "the address of LOAD is of index, got int"),
    ((Ops.LOAD, i, (P, ROW)), "LOAD moves float, the dtype of its memory, got int"),
    ((Ops.LOAD, f, (P, ROW, whole())), "the gate of LOAD is bool, got int"),
    ((Ops.STORE, void, (P, ROW, whole())), "STORE moves float, the dtype of its memory, got int"),
    ((Ops.STORE, void, (P, ROW, real(), real())), "the gate of STORE is bool, got float"),
    ((Ops.STORE, f, (P, ROW, real())), "STORE is of void, got float"),
    ((Ops.STORE, void, (P, ROW, real()), "fast"), "the arg of STORE is nothing or StoreHint, got 'fast'"),
    ((Ops.STORE, void, (LOCAL, ROW, real()), StoreHint.STREAM), "a streamed STORE is into a PARAM without a gate, got"),
    ((Ops.STORE, void, (P, ROW, real(), TRUE), StoreHint.STREAM), "a streamed STORE is into a PARAM without a gate"),
    ((Ops.AFTER, i, (P,)), "AFTER has the dtype of its first source, float, got int"),
    ((Ops.REG, f, (real(), ROW), RegArg(0)), "REG is for ranges of kind vector or unroll, got RANGE of kind loop"),
    ((Ops.LANES, f, (real(), ROW), ReduceArg(Ops.ADD)), "LANES is for ranges of kind vector or unroll, got RANGE of"),
    ((Ops.ACCUM, f, (real(), real()), Ops.ADD), "source 0 of ACCUM is REG, got CONST"),
    ((Ops.ACCUM, f, (REGISTER, real()), Ops.FDIV), "ACCUM cannot combine by FDIV"),
    ((Ops.ACCUM, f, (REGISTER, WORD), UNIT), "ACCUM by dot takes two words, got 1"),
    ((Ops.ACCUM, f, (REGISTER, real(), WORD), UNIT), "ACCUM by dot takes words of uint and gives float, got float, f"),
    ((Ops.DOT, i, (WORD, WORD), UNIT), "DOT by dot takes words of uint and gives float, got uint, uint and int"),
    ((Ops.DOT, f, (WORD, WORD), Ops.ADD), "the arg of DOT is MatrixUnit, got"),
    ((Ops.MATRIX, void, (LOCAL, ROW, P, ROW, Q), STEPS), "MATRIX takes 6 or more sources, got 5"),
    ((Ops.MATRIX, f, (LOCAL, ROW, P, ROW, Q, ROW), STEPS), "MATRIX is of void, got float"),
    ((Ops.MATRIX, void, (LOCAL, ROW, P, ROW, Q, ROW, whole()), STEPS), "MATRIX goes over RANGEs, got CONST"),
    ((Ops.MATRIX, void, (LOCAL, ROW, WORD, ROW, Q, ROW), STEPS), "MATRIX by mma takes memory of float and an index, "),
    ((Ops.TILE, i, (), TileArg(0, TILES)), "a TILE of mma is of float, got int"),
    ((Ops.TILE, f, (ROW,), TileArg(0, TILES)), "TILE has a copy for each value of UNROLL ranges, got RANGE"),
    ((Ops.PRODUCT, void, (REGISTER, P, ROW, Q, ROW), STEPS), "source 0 of PRODUCT is TILE, got REG"),
    ((Ops.PRODUCT, void, (TILE, P, whole(), Q, ROW), STEPS), "PRODUCT by mma takes memory of float and an index, got"),
    ((Ops.PUT, void, (P, ROW, REGISTER), STEPS), "source 2 of PUT is TILE, got REG"),
    ((Ops.PUT, void, (WORD, ROW, TILE), STEPS), "PUT by mma takes memory of float and an index, got uint and index"),
    ((Ops.GET, f, (real(),)), "source 0 of GET is REG, got CONST"),
    ((Ops.END, void, (real(),)), "source 0 of END is RANGE, got CONST"),
    ((Ops.SINK, f, ()), "SINK is of void, got float"),
]  # fmt: skip


@pytest.mark.parametrize(("parts", "message"), WRONG, ids=[message for _, message in WRONG])
def test_a_wrong_node_is_named_when_it_is_made(parts: tuple[Any, ...], message: str) -> None:
    """With SPEC=2 a node that no stage allows cannot be made: the error says what is wrong and shows the node."""
    with Context(SPEC=2), pytest.raises(GraphError) as error:
        UOp(*parts)
    assert str(error.value).startswith(f"this node cannot be made: {message}")
    assert f"\n  node: UOp(Ops.{parts[0].name}, " in str(error.value)


def test_right_nodes_are_made() -> None:
    """One good node of each op that other tests seldom make passes all rules."""
    table = UOp(Ops.RESHAPE, f, (BUFFER,), (2, 2))
    where = UOp(Ops.IOTA, i, (DEVICE,), (2,))
    for u in (
        UOp(Ops.GATHER, f, (table, where), 0),
        UOp(Ops.SCATTER, f, (table, where, table), ScatterArg(0, None)),
        UOp(Ops.SCATTER, f, (table, where, table), ScatterArg(0, Ops.MAX)),
        UOp(Ops.SCAN, f, (table,), ScanArg(Ops.MUL, 1)),
        UOp(Ops.BITCAST, i, (table,)),
        UOp(Ops.PAD, f, (table,), ((0, 1), (2, 0))),
        UOp(Ops.ASSIGN, f, (table, table)),
        UOp(Ops.FMA, f, (real(), real(), real())),
        UOp(Ops.BARRIER, void, ()),
        UOp(Ops.LANES, f, (LANE.cast(f), LANE), ReduceArg(Ops.ADD)),
    ):
        assert fault(u) is None, u


# Stages


def refused(spec: Spec, subject: Any) -> str:
    """Why check refuses subject."""
    with pytest.raises(GraphError) as error:
        check(spec, subject, "pass 'x'")
    text = str(error.value)
    assert text.startswith(f"pass 'x' made an invalid {spec.name}: ")
    assert "\n  node: UOp(Ops." in text
    return text.removeprefix(f"pass 'x' made an invalid {spec.name}: ").split("\n")[0]


def kernel(value: UOp, *ranges: UOp) -> UOp:
    """A kernel that stores value at the first range."""
    return UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(P, ranges[0] if ranges else UOp.const(index, 0), value)),))


def load(at: UOp) -> UOp:
    """An element of the second argument."""
    return UOp(Ops.LOAD, f, (Q, at))


def test_good_graphs_pass() -> None:
    """A tensor graph, a kernel and its linear form are what their specs say."""
    check(TENSOR, UOp(Ops.RESHAPE, f, (BUFFER,), (2, 2)), "test")
    check(KERNEL, kernel(UOp(Ops.REDUCE, f, (load(ROW * 8 + COL), COL), ReduceArg(Ops.ADD)), ROW), "test")
    check(LINEAR, row_sum(), "test")


def test_a_stage_has_its_own_ops() -> None:
    """What belongs to another stage is refused by name."""
    view = UOp(Ops.RESHAPE, f, (BUFFER,), (2, 2))
    assert refused(KERNEL, view) == "DEVICE is not allowed in a kernel graph"
    with Context(SPEC=0):
        moved = UOp(Ops.RESHAPE, f, (load(ROW),), ())
    assert refused(KERNEL, kernel(moved, ROW)) == "RESHAPE is not allowed in a kernel graph"
    assert refused(TENSOR, kernel(load(ROW), ROW)).endswith("is not allowed in a tensor graph")
    assert refused(LINEAR, (P, kernel(real()))) == "SINK is not allowed in a linear form"


def test_a_tensor_graph_stays_on_its_device() -> None:
    """Sources on two devices are refused; COPY is the way across."""
    other = UOp.buffer("OTHER", 4, f)
    assert refused(TENSOR, UOp(Ops.CAT, f, (BUFFER, other), 0)) == "CAT has sources on ANY and OTHER"
    check(TENSOR, UOp(Ops.CAT, f, (BUFFER, UOp(Ops.COPY, f, (other, DEVICE))), 0), "test")


def test_a_kernel_graph_is_whole() -> None:
    """One SINK over stores, numbers that are unique, sizes that depend on outer ranges, order from stores only."""
    assert refused(KERNEL, load(ROW)) == "a kernel graph has one SINK, got 0"
    assert refused(KERNEL, UOp(Ops.SINK, src=(load(ROW),))) == "a SINK is over STOREs, got LOAD"
    twice = UOp.range(4, 0)
    assert refused(KERNEL, kernel(load(ROW + twice), ROW)) == "two RANGEs have the axis 0"
    inner = UOp(Ops.RANGE, index, (UOp.range(4, 3),), RangeArg(2))
    assert refused(KERNEL, kernel(load(inner), ROW)) == "the size of range 2 depends on a range that is not outside it"
    late = UOp(Ops.AFTER, f, (load(ROW), load(COL)))
    assert refused(KERNEL, kernel(late, ROW)) == "AFTER waits for STOREs and BARRIERs, got LOAD"


def streamed(at: UOp, value: UOp) -> list[UOp]:
    """A loop that streams value."""
    stored = UOp(Ops.STORE, void, (P, at, value), StoreHint.STREAM)
    return [*postorder(stored), UOp(Ops.END, void, (ROW,))]


def test_only_whole_vectors_are_streamed_into_memory_that_is_not_read() -> None:
    """Each starts at a multiple of its width: the machine would refuse it, or write it slowly, anywhere else."""
    check(LINEAR, streamed(ROW * 8 + LANE, load(ROW * 8 + LANE)), "test")
    misplaced = "it is streamed, and is no vector that starts at a multiple of its width"
    assert refused(LINEAR, streamed(ROW * 6 + LANE, load(LANE))) == misplaced
    assert refused(LINEAR, streamed(ROW * 8 + LANE * 2, load(LANE))) == misplaced
    assert refused(LINEAR, streamed(ROW, real())) == misplaced
    old = UOp(Ops.LOAD, f, (P, ROW * 8 + LANE))
    assert refused(LINEAR, streamed(ROW * 8 + LANE, old)) == "it is streamed into memory that the kernel reads"


def row_sum() -> list[UOp]:
    """for i: register; for j: add; end; store; end."""
    total = UOp(Ops.GET, f, (REGISTER,))
    row = ROW * 8
    at = row + COL
    return [
        P, Q, ROW.src[0], ROW, row, real(0.0), REGISTER, COL, at, load(at),
        UOp(Ops.ACCUM, f, (REGISTER, load(at)), Ops.ADD),
        UOp(Ops.END, src=(COL,)), total, UOp(Ops.STORE, src=(P, ROW, total)), UOp(Ops.END, src=(ROW,)),
    ]  # fmt: skip


def moved(op: Ops, to: Ops, after: bool = False) -> list[UOp]:
    """row_sum with the first node of one op put before (or after) the last node of another."""
    uops = row_sum()
    u = next(u for u in uops if u.op is op)
    uops.remove(u)
    place = max(n for n, v in enumerate(uops) if v.op is to)
    uops.insert(place + after, u)
    return uops


def test_a_linear_form_is_in_order() -> None:
    """Sources first, each node once, loops nested and closed, values used where they are, sums read when complete."""
    assert refused(LINEAR, [ROW.src[0], ROW, UOp(Ops.END, src=(ROW,)), ROW.src[0]]) == "it is listed twice"
    assert refused(LINEAR, moved(Ops.MUL, Ops.LOAD, after=True)) == "its source MUL is not listed before it"
    uops = row_sum()
    assert refused(LINEAR, uops[:-1]) == "its loop is never closed"
    end_j, end_i = (n for n, u in enumerate(uops) if u.op is Ops.END)
    swapped = list(uops)
    swapped[end_j], swapped[end_i] = swapped[end_i], swapped[end_j]
    assert refused(LINEAR, swapped) == "it does not close the innermost open loop"
    size = ROW.src[0]
    outer, inner = (UOp(Ops.RANGE, ROW.dtype, (size,), RangeArg(n, AxisKind.PARALLEL)) for n in (0, 1))
    nested = [size, outer, inner, UOp(Ops.END, src=(inner,)), UOp(Ops.END, src=(outer,))]
    parted = "it is parallel inside of a parallel loop: each thread would do a part of its part"
    assert refused(LINEAR, nested) == parted
    assert refused(LINEAR, moved(Ops.GET, Ops.RANGE)) == "its register is not read after it"
    early = "it is read in range 1, in which an ACCUM still adds to it"
    assert refused(LINEAR, moved(Ops.GET, Ops.ACCUM, after=True)) == early
    escaped = moved(Ops.ACCUM, Ops.GET)
    assert refused(LINEAR, escaped) == "its source LOAD is listed in a loop that is closed here"


def test_a_tile_is_stored_when_all_products_are_added() -> None:
    """A PUT inside the loop of terms, or a tile that is never stored."""
    add = UOp(Ops.PRODUCT, src=(TILE, P, COL, Q, COL), arg=STEPS)
    put, zero = UOp(Ops.PUT, src=(LOCAL, COL.src[0], TILE), arg=STEPS), UOp(Ops.END, src=(COL,))
    head = [P, Q, LOCAL, TILE, COL.src[0], COL, add]
    check(LINEAR, [*head, zero, put], "test")
    early = "it is read in range 1, in which a PRODUCT still adds to it"
    assert refused(LINEAR, [*head, put, zero]) == early
    assert refused(LINEAR, [*head, zero]) == "its register is not read after it"


def test_checks_follow_the_setting() -> None:
    """SPEC=0 checks nothing, SPEC=1 stages, SPEC=2 also each node; leaving the Context restores what was."""
    with Context(SPEC=0):
        bad = UOp(Ops.SQRT, i, (whole(9),))
        check(KERNEL, bad, "test")
    with Context(SPEC=1):
        UOp(Ops.SQRT, i, (whole(10),))
        assert refused(KERNEL, bad) == "SQRT is not for int"
    with Context(SPEC=2), pytest.raises(GraphError, match="SQRT is not for int"):
        UOp(Ops.SQRT, i, (whole(11),))
    with Context(SPEC=0):
        UOp(Ops.SQRT, i, (whole(12),))


def test_nobody_pays_before_spec_was_on() -> None:
    """Without SPEC no function looks at nodes; Context(SPEC=2) installs it, and SPEC=2 in the environment too."""
    code = (
        "from tinygraft.uop import uop; from tinygraft.config import Context; print(uop.check_node is None)\n"
        "with Context(SPEC=1): print(uop.check_node is None)\n"
        "with Context(SPEC=2): print(uop.check_node is None)\n"
    )
    for value, expected in ((None, "True\nTrue\nFalse\n"), ("2", "False\nFalse\nFalse\n")):
        environment = {k: v for k, v in os.environ.items() if k != "SPEC"} | ({"SPEC": value} if value else {})
        run = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        assert run.stdout == expected


def test_a_setting_can_be_watched() -> None:
    """A watcher hears the value at once and then each new one."""
    heard: list[int] = []
    setting: config.Setting[int] = config.Setting("SPEC_TEST_ONLY", 3, "for this test")
    try:
        setting.watch(heard.append)
        setting.reset(setting.set(5))
        assert heard == [3, 5]
    finally:
        del config.SETTINGS["SPEC_TEST_ONLY"]


# A broken pass


def test_a_broken_pass_is_caught() -> None:
    """A rewrite that makes float comparisons give floats is caught by SPEC=2 at the node and by SPEC=1 after it."""
    wrong = PatternMatcher(
        [(UPat(Ops.CMPLT, src=(UPat.var("a"), UPat.var("b"))), lambda a, b: UOp(Ops.CMPLT, f, (a, b)))]
    )
    sink = kernel((load(ROW) < real()).cast(f), ROW)
    with pytest.raises(GraphError, match="CMPLT gives bool, got float"):
        graph_rewrite(sink, wrong, name="compare")
    with Context(SPEC=1):
        broken = rebuild((sink,), {load(ROW) < real(): UOp(Ops.CMPLT, f, (load(ROW), real()))})[sink]
        with pytest.raises(
            GraphError, match="pass 'compare' made an invalid kernel graph: CMPLT gives bool, got float"
        ):
            check(KERNEL, broken, "pass 'compare'")


def test_a_broken_pass_of_the_compiler_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass of codegen that forgets to close a loop, or leaves a movement in the kernel, raises with its name."""
    from tinygraft.codegen import lower
    from tinygraft.target import Target
    from tinygraft.uop.stages import Kernel

    whole_kernel = Kernel(kernel(load(ROW), ROW))
    lower.to_linear(whole_kernel, Target())

    def forget(state: Any, target: Any, options: Any) -> Any:
        with Context(SPEC=1):
            return lower.PassState(UOp(Ops.SINK, src=(UOp(Ops.RESHAPE, f, (load(ROW),), ()),)), state.actions)

    with monkeypatch.context() as patch:
        patch.setattr(lower, "PIPELINE", (*lower.PIPELINE, lower.Pass("forget", forget)))
        with pytest.raises(GraphError, match="pass 'forget' made an invalid kernel graph: RESHAPE is not allowed"):
            lower.to_linear(whole_kernel, Target())
    right: Any = lower.linearise  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(lower, "linearise", lambda *given: [u for u in right(*given) if u.op is not Ops.END])
        with pytest.raises(GraphError, match="pass 'linearise' made an invalid linear form: its loop is never closed"):
            lower.to_linear(whole_kernel, Target())


def test_local_memory_is_memory() -> None:
    """A store to scratch memory and a load after a barrier are a good kernel."""
    local = UOp(Ops.LOCAL, f, (), LocalArg(0, 8, True))
    stored = UOp(Ops.STORE, src=(local, ROW, load(ROW)))
    barrier = UOp(Ops.BARRIER, src=(UOp(Ops.AFTER, f, (local, stored)),))
    again = UOp(Ops.LOAD, f, (UOp(Ops.AFTER, f, (local, barrier)), ROW))
    check(KERNEL, kernel(again, ROW), "test")
    unfilled = UOp(Ops.AFTER, f, (local, UOp(Ops.BARRIER, src=(stored,))))
    wanted = "BARRIER waits for AFTERs that fill memory, got STORE"
    assert refused(KERNEL, kernel(UOp(Ops.LOAD, f, (unfilled, ROW)), ROW)) == wanted
