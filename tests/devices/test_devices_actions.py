"""Every action on every device: other code, the same values at prime sizes; what does not fit is refused in words."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from backends import ALL_DEVICES, backend_of
from tinygraft.codegen import take
from tinygraft.codegen.action import parse, show
from tinygraft.codegen.actions import spaced
from tinygraft.codegen.grid import ways
from tinygraft.codegen.heuristics import choose, offered
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.tiling import tilings
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import dtypes
from tinygraft.errors import ActionError
from tinygraft.reference.python import PythonBackend
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

F = dtypes.float32
ROWS, COLUMNS, TERMS = 13, 37, 11
UNIT = MatrixUnit("tile", 8, 8, 8, F, F, F)
EVERYTHING = Target(
    vector_bytes=32, local_memory=8 << 10, chunks=2, grid_dims=2, lanes=8, shared_memory=4 << 10, matrix=(UNIT,)
)
WORDS = MatrixWords(
    zero="zero({t});", first="load({t}, {p}, {stride});", second="load({t}, {p}, {stride});",
    multiply="multiply({c}, {a}, {b});", store="store({t}, {p}, {stride});",
)  # fmt: skip
READER = Dialect(
    vectors=True, group="group{dim}", thread="thread", shared="shared ", barrier="barrier();", matrix={"tile": WORDS}
)


def numbers(count: int, step: int) -> list[float]:
    """Small whole numbers, whose sums are exact in any order."""
    return [float((i * step) % 17 - 8) for i in range(count)]


def row(i: UOp, j: UOp, columns: int) -> UOp:
    """The place of an element in memory of rows."""
    return ix.add(ix.mul(i, columns), j)


def matmul(columns: int = COLUMNS) -> UOp:
    """A product of matrices."""
    i, j, k = UOp.range(ROWS, 0), UOp.range(columns, 1), UOp.range(TERMS, 2)
    left, right = param(1, F, ROWS * TERMS), param(2, F, TERMS * columns)
    total = UOp(Ops.REDUCE, F, (load(left, row(i, k, TERMS)) * load(right, row(k, j, columns)), k), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * columns), row(i, j, columns), total),))


def transposed() -> UOp:
    """out[i, j] = x[j, i] * 2."""
    i, j = UOp.range(ROWS, 0), UOp.range(COLUMNS, 1)
    value = load(param(1, F, ROWS * COLUMNS), row(j, i, ROWS)) * 2.0
    return UOp(Ops.SINK, src=(store(param(0, F, ROWS * COLUMNS), row(i, j, COLUMNS), value),))


Inputs = list[list[float]]


def given(kernel: Callable[[], UOp], columns: int) -> Inputs:
    """The inputs of a kernel."""
    if kernel is transposed:
        return [numbers(ROWS * COLUMNS, 5)]
    return [numbers(ROWS * TERMS, 5), numbers(TERMS * columns, 7)]


def expected(kernel: Callable[[], UOp], columns: int) -> list[float]:
    """What a kernel computes."""
    first, *others = given(kernel, columns)
    if not others:
        return [2 * first[j * ROWS + i] for i in range(ROWS) for j in range(COLUMNS)]
    return [
        math.fsum(first[i * TERMS + k] * others[0][k * columns + j] for k in range(TERMS))
        for i in range(ROWS) for j in range(columns)
    ]  # fmt: skip


def computed(backend: Backend, sink: UOp, options: Options, inputs: Inputs, size: int) -> list[float]:
    """What a kernel with options gives on a backend; every share of it, where it is shared out."""
    linear = to_linear(Kernel(sink), backend.target, options)
    x, y, z = (int(n) for n in linear.signature.grid)
    data = [bytes(4 * size), *(pack(values, F) for values in inputs)]
    return unpack(run_linear(backend, linear, data, (), (x, y, z))[0], F)


CASES = {
    "split": "split(1, 8)",
    "split of terms": "split(2, 4)",
    "reorder": "reorder(1+0)",
    "split, reorder": "split(1, 8), reorder(1+0)",
    "unroll": "unroll(0, 4)",
    "vectorise": "vectorise(1, 8)",
    "both": "vectorise(1, 4), unroll(0, 2), unroll(1, 2)",
    "parallel": "parallel",
    "parallel inside": "vectorise(0, 4), parallel(1)",
    "local": "local(1, 8)",
    "local of two": "local(0+1, 8)",
    "unroll, local": "unroll(0, 4), local(1, 4)",
    "team": "team(2, 32)",
    "block": "block(0+1, 4x8, 1x1, 8)",
    "stage": "stage(1, 3, 24, 8)",
    "stage in shares": "stage(1, 3, 24, 8, 2)",
    "tile": "tile(1, 4, 16, 8)",
    "matrix": "matrix(1, 0, 1x1, 8, 16, 1)",
}
COLUMNS_OF = {"tile": 32}  # what is read in place comes in whole vectors


def actions_of(name: str, sink: UOp, target: Target) -> str:
    """The actions of a case; a tile is one that the Target has."""
    text = CASES[name]
    if name in ("team", "block") and target.grid_dims:
        return next((str(way.action) for way in ways(spaced(sink), target) if way.action.name == name), text)
    if target is EVERYTHING or ("stage" not in text and "tile" not in text):
        return text
    shares = 2 if "shares" in name else 1
    found = (take.action_of(replace(t, split=shares)) for t in tilings(spaced(sink), target))
    return next((str(a) for a in found if a.name == parse(text)[0].name), text)


def allowed(options: Options, target: Target) -> bool:
    """Whether a Target has what actions need."""
    names = {one.name for one in options.actions or ()}
    vectors = target.vector_bytes or not names & {"vectorise", "stage", "tile"}
    units = any(unit.rows > 1 and unit.second is F for unit in target.matrix) or "matrix" not in names
    return bool(vectors and units and (target.grid_dims or not names & {"local", "team", "block"}))


RUNS = [(matmul, name) for name in CASES]
RUNS += [
    (transposed, name)
    for name, text in CASES.items()
    if "(2" not in text and name not in ("block", "matrix") and "tile" not in text and "stage" not in text
]  # it has no third loop


@pytest.mark.parametrize("device", [*ALL_DEVICES, "EVERYTHING"])
@pytest.mark.parametrize(("kernel", "name"), RUNS, ids=[f"{kernel.__name__}, {name}" for kernel, name in RUNS])
def test_actions_change_no_value(kernel: Callable[[], UOp], device: str, name: str) -> None:
    """Prime sizes, sums of products and a transposition; a Target without the means says so."""
    backend = PythonBackend("PYTHON", 0, EVERYTHING) if device == "EVERYTHING" else backend_of(device)
    columns = COLUMNS_OF.get(name, COLUMNS)
    sink = matmul(columns) if kernel is matmul else transposed()
    options = Options(actions=parse(actions_of(name, sink, backend.target)))
    if allowed(options, backend.target):
        found = computed(backend, sink, options, given(kernel, columns), ROWS * columns)
        assert found == expected(kernel, columns)
    else:
        with pytest.raises(ActionError, match="the Target has no|a group has|cannot be computed so|no such"):
            to_linear(Kernel(sink), backend.target, options)


@pytest.mark.parametrize("name", CASES)
def test_each_action_is_seen_in_the_source(name: str, golden: Callable[[str, str], None]) -> None:
    """The text of a matrix product with each action, and that it is another one than without."""
    sink = matmul(COLUMNS_OF.get(name, COLUMNS))
    asked = parse(actions_of(name, sink, EVERYTHING))
    texts = []
    for options in (Options(noopt=True), Options(actions=asked)):
        linear = to_linear(Kernel(sink), EVERYTHING, options)
        texts.append(CStyleRenderer(READER).render(linear).text)
    assert texts[0].splitlines()[1:] != texts[1].splitlines()[1:]
    assert texts[1].startswith(f"/* r_13_{COLUMNS_OF.get(name, COLUMNS)}_11: {show(asked)} */")
    golden(f"action_{name.replace(', ', '_').replace(' ', '_')}.c", texts[1])


@pytest.mark.parametrize("device", [*ALL_DEVICES, "EVERYTHING"])
@pytest.mark.parametrize("kernel", [matmul, transposed])
def test_what_was_chosen_can_be_given_back(kernel: Callable[[], UOp], device: str) -> None:
    """The actions that DEBUG=3 prints, read again and taken, give the same instructions; so does every other offer."""
    target = EVERYTHING if device == "EVERYTHING" else backend_of(device).target
    chosen = to_linear(Kernel(kernel()), target)
    again = to_linear(Kernel(kernel()), target, Options(actions=parse(", ".join(chosen.actions))))
    assert (again.uops, again.actions) == (chosen.uops, chosen.actions)
    sink = spaced(kernel())
    for made, actions in offered(sink, target):
        assert take.take(sink, parse(show(actions)), target) is made


REFUSED = {
    "polish(0)": "there is no action 'polish'; actions are block, dot, local, matrix, pack, parallel, reorder, split, "
    "stage, stream, team, tile, unroll, vectorise",
    "vectorise(7, 8)": "vectorise(7, 8): the kernel has no loop 7 here; its loops are 0, 1, 2",
    "vectorise(0+1, 8)": "vectorise(0+1, 8): vectorise takes one loop, got 2",
    "vectorise(0)": "vectorise(0): vectorise takes 1 plain number behind its loop",
    "vectorise(1, 6)": "vectorise(1, 6): a vector has 2, 4, 8, ... lanes",
    "vectorise(0, 4), vectorise(1, 4)": "vectorise(1, 4): another loop is in vectors inside of or around this one",
    "split(0, 14)": "split(0, 14): blocks have from 2 to 13 turns here",
    "unroll(0, 1)": "unroll(0, 1): at least 2 turns are written side by side",
    "unroll(0, 2), unroll(0, 2)": "unroll(0, 2): turns of this loop are written side by side already",
    "reorder(2+0)": "reorder(2+0): loops over terms of a sum and loops around it keep their order",
    "reorder(0+0)": "reorder(0+0): a loop is named twice",
    "stage(1, 99, 64, 16)": "stage(1, 99, 64, 16): the kernel has no such tile on this Target",
    "parallel(2)": "parallel(2): every store has to be inside of just one loop that is shared out",
    "parallel(0+1)": "parallel(0+1): every store has to be inside of just one loop that is shared out",
    "local(1, 64)": "local(1, 64): a group has from 1 to 8 threads on this Target",
    "local(2, 8)": "local(2, 8): every store has to be inside of loops that go over threads",
    "block(0+1, 3x3, 1x1, 8)": "block(0+1, 3x3, 1x1, 8): the kernel cannot be computed so in groups of this Target",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text: str) -> None:
    """Unknown names, loops that are not there, amounts that make no sense."""
    with pytest.raises(ActionError) as error:
        to_linear(Kernel(matmul()), EVERYTHING, Options(actions=parse(text)))
    assert str(error.value) == REFUSED[text]


def test_a_target_without_vectors_says_so() -> None:
    """So does one without groups of threads."""
    for text, target, words in (
        ("vectorise(1, 8)", Target(), "vectorise(1, 8): the Target has no vectors"),
        ("local(1, 8)", Target(), "local(1, 8): a group has from 1 to 1 threads on this Target"),
    ):
        with pytest.raises(ActionError) as error:
            to_linear(Kernel(matmul()), target, Options(actions=parse(text)))
        assert str(error.value) == words


def test_heuristics_and_search_take_actions_in_the_same_way() -> None:
    """What choose gives is what take makes of its actions."""
    sink = matmul()
    made, actions = choose(sink, EVERYTHING)
    assert take.take(spaced(sink), actions, EVERYTHING) is made
