"""Every transform: other code, the same values at prime sizes; one that does not apply is an error that says why."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from backends import ALL_DEVICES, backend_of
from tinygraft.codegen import apply
from tinygraft.codegen.action import parse, show
from tinygraft.codegen.heuristics import choose, kernel_candidates
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.action_cases import (
    CASES,
    COLUMNS,
    COLUMNS_OF,
    ROWS,
    RUNS,
    computed,
    expected,
    inputs_of,
    matmul,
    transposed,
)
from tinygraft.conformance.action_cases import actions_of as in_target
from tinygraft.dtype import dtypes
from tinygraft.errors import ActionError
from tinygraft.reference.python import PythonBackend
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.target import Target
from tinygraft.uop.stages import Kernel
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

F = dtypes.float32
UNIT = MatrixUnit("tile", 8, 8, 8, F, F, F)
EVERYTHING = Target(
    vector_bytes=32, local_memory=8 << 10, chunks=2, grid_dims=2, block_threads=8, shared_memory=4 << 10, matrix=(UNIT,)
)
WORDS = MatrixWords(
    zero="zero({t});", first="load({t}, {p}, {stride});", second="load({t}, {p}, {stride});",
    multiply="multiply({c}, {a}, {b});", store="store({t}, {p}, {stride});",
)  # fmt: skip
READER = Dialect(
    vectors=True, group="group{dim}", thread="thread", shared="shared ", barrier="barrier();", matrix={"tile": WORDS}
)


@pytest.mark.parametrize(("kernel", "name"), RUNS, ids=[f"{kernel.__name__}, {name}" for kernel, name in RUNS])
def test_actions_change_no_value(kernel: Callable[[], UOp], name: str) -> None:
    """Prime sizes, on a Target that every transform applies to; the kit requires the same of every device."""
    columns = COLUMNS_OF.get(name, COLUMNS)
    sink = matmul(columns) if kernel is matmul else kernel()
    options = Options(actions=parse(actions_of(name, sink)))
    found = computed(PythonBackend("PYTHON", 0, EVERYTHING), sink, options, inputs_of(kernel, columns), ROWS * columns)
    assert found == expected(kernel, columns)


def actions_of(name: str, sink: UOp) -> str:
    """Return the transforms of a case on EVERYTHING, which has every tile, as text."""
    return in_target(name, sink, EVERYTHING) if name in ("team", "block") else CASES[name]


@pytest.mark.parametrize("name", CASES)
def test_each_action_is_seen_in_the_source(name: str, golden: Callable[[str, str], None]) -> None:
    """The source of a matrix product with each transform is the golden one, and differs from that without."""
    sink = matmul(COLUMNS_OF.get(name, COLUMNS))
    actions = parse(actions_of(name, sink))
    texts = []
    for options in (Options(noopt=True), Options(actions=actions)):
        linear = to_linear(Kernel(sink), EVERYTHING, options)
        texts.append(CStyleRenderer(READER).render(linear).text)
    assert texts[0].splitlines()[1:] != texts[1].splitlines()[1:]
    assert texts[1].startswith(f"/* r_13_{COLUMNS_OF.get(name, COLUMNS)}_11: {show(actions)} */")
    golden(f"action_{name.replace(', ', '_').replace(' ', '_')}.c", texts[1])


@pytest.mark.parametrize("device", [*ALL_DEVICES, "EVERYTHING"])
@pytest.mark.parametrize("kernel", [matmul, transposed])
def test_what_was_chosen_can_be_given_back(kernel: Callable[[], UOp], device: str) -> None:
    """The transforms that DEBUG=3 prints, parsed and applied, make the same instructions; so do those of candidates."""
    target = EVERYTHING if device == "EVERYTHING" else backend_of(device).target
    chosen = to_linear(Kernel(kernel()), target)
    again = to_linear(Kernel(kernel()), target, Options(actions=parse(", ".join(chosen.actions))))
    assert (again.uops, again.actions) == (chosen.uops, chosen.actions)
    sink = with_gaps(kernel())
    for made, actions in kernel_candidates(sink, target):
        assert apply.apply_actions(sink, parse(show(actions)), target) is made


REFUSED = {
    "polish(0)": "there is no action 'polish'; actions are block, dot, interleave, local, matrix, pack, parallel, "
    "reorder, slide, slide_panel, split, stage, stream, team, tile, unroll, vectorise",
    "vectorise(7, 8)": "vectorise(7, 8): the kernel has no loop 7 here; its loops are 0, 1, 2",
    "vectorise(0+1, 8)": "vectorise(0+1, 8): vectorise takes one loop, got 2",
    "vectorise(0)": "vectorise(0): vectorise takes 1 plain number after its loop",
    "vectorise(1, 6)": "vectorise(1, 6): a vector has 2, 4, 8, ... lanes",
    "vectorise(0, 4), vectorise(1, 4)": "vectorise(1, 4): another loop is in vectors inside of or around this one",
    "split(0, 14)": "split(0, 14): blocks have from 2 to 13 iterations here",
    "unroll(0, 1)": "unroll(0, 1): at least 2 iterations are unrolled",
    "unroll(0, 2), unroll(0, 2)": "unroll(0, 2): this loop is unrolled already",
    "reorder(2+0)": "reorder(2+0): loops over terms of a sum and loops around it keep their order",
    "reorder(0+0)": "reorder(0+0): a loop is named twice",
    "stage(1, 99, 64, 16)": "stage(1, 99, 64, 16): the kernel has no such tile on this Target",
    "stage(1, 1x6, 64, 16, 2, 3)": "stage(1, 1x6, 64, 16, 2, 3): stage takes rows, columns and a width after its "
    "loops, and then at most one plain number, of chunks",
    "tile(1, 1x6, 64, 16, 2x3)": "tile(1, 1x6, 64, 16, 2x3): tile takes rows, columns and a width after its loops, "
    "and then at most one plain number, of chunks",
    "stream(0)": "stream(0): stream takes no loops and no numbers",
    "dot(2, 0)": "dot(2, 0): dot takes 2 plain numbers after its loop",
    "dot(2, 0, 0, 1)": "dot(2, 0, 0, 1): dot takes 2 plain numbers after its loop",
    "dot(2, 0x0)": "dot(2, 0x0): dot takes 2 plain numbers after its loop",
    "parallel(0, 4)": "parallel(0, 4): parallel takes 0 plain numbers after its loop",
    "parallel(0+7)": "parallel(0+7): the kernel has no loop 7 here; its loops are 0, 1, 2",
    "parallel(0+0)": "parallel(0+0): a loop is named twice",
    "local(1)": "local(1): local takes 1 plain number after its loop",
    "local(1, 8, 2)": "local(1, 8, 2): local takes 1 plain number after its loop",
    "local(1, 8x2)": "local(1, 8x2): local takes 1 plain number after its loop",
    "local(1+1, 8)": "local(1+1, 8): a loop is named twice",
    "parallel(2)": "parallel(2): every store has to be inside of exactly one parallel loop",
    "parallel(0+1)": "parallel(0+1): every store has to be inside of exactly one parallel loop",
    "local(1, 64)": "local(1, 64): a thread block has from 1 to 8 threads on this Target",
    "local(2, 8)": "local(2, 8): every store has to be inside of loops that are mapped to threads",
    "block(0+1, 3x3, 1x1, 8)": "block(0+1, 3x3, 1x1, 8): the kernel cannot be computed so in thread blocks of this "
    "Target",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_fit_is_refused(text: str) -> None:
    """Unknown names, loops that the kernel does not have, amounts that are out of range."""
    with pytest.raises(ActionError) as error:
        to_linear(Kernel(matmul()), EVERYTHING, Options(actions=parse(text)))
    assert str(error.value) == REFUSED[text]


def test_a_target_without_vectors_says_so() -> None:
    """So does one without thread blocks."""
    for text, target, words in (
        ("vectorise(1, 8)", Target(), "vectorise(1, 8): the Target has no vectors"),
        ("local(1, 8)", Target(), "local(1, 8): a thread block has from 1 to 1 threads on this Target"),
    ):
        with pytest.raises(ActionError) as error:
            to_linear(Kernel(matmul()), target, Options(actions=parse(text)))
        assert str(error.value) == words


def test_heuristics_and_search_take_actions_in_the_same_way() -> None:
    """`apply_actions` makes the kernel that `choose` returns, of the transforms that it returns."""
    sink = matmul()
    made, actions = choose(sink, EVERYTHING)
    assert apply.apply_actions(with_gaps(sink), actions, EVERYTHING) is made
