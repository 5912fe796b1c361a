"""Matrix units that work on tiles in memory: any size, on a Target with vectors and on one with a grid."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest

from gpusim import GpuSimBackend
from tinygraft.codegen import matrix
from tinygraft.codegen.action import parse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, pack, param, run_kernel, run_linear, store, unpack
from tinygraft.conformance.product_cases import INT8_TILE, TILES, matmul, product, run_matmul, small
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.engine.debug_print import as_c
from tinygraft.errors import ActionError, GraphError
from tinygraft.reference.python import TARGET, PythonBackend
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import Dialect, MatrixWords
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.show import show_kernel, show_linear
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

pytestmark = pytest.mark.slow

WIDE = replace(TARGET, vector_bytes=64, registers=32, local_memory=256 << 10, fused_sums=True, chunks=2, matrix=TILES)
BACKENDS = {"vectors": PythonBackend("PYTHON", 0, WIDE), "grid": GpuSimBackend()}
CASES = [
    ("vectors", dtypes.bfloat16, dtypes.float32),
    ("vectors", dtypes.int8, dtypes.int32),
    ("grid", dtypes.float32, dtypes.float32),
    ("grid", dtypes.float16, dtypes.float32),
]
on_every_target = pytest.mark.parametrize(
    ("name", "dtype", "result"), CASES, ids=[f"{name}-{dtype.name}" for name, dtype, _ in CASES]
)


def actions_of(sink: UOp, backend: Backend) -> tuple[str, ...]:
    """What is done to a kernel."""
    return to_linear(Kernel(sink), backend.target, Options()).actions


@on_every_target
@pytest.mark.parametrize("turned", [False, True], ids=["", "turned"])
@pytest.mark.parametrize(("m", "k", "n"), [(37, 41, 29), (17, 67, 61), (16, 64, 16), (11, 101, 13)])
def test_products_in_tiles_are_exact(
    name: str, dtype: DType, result: DType, turned: bool, m: int, k: int, n: int
) -> None:
    """Every element at sizes that no tile divides, and at one that is whole tiles."""
    backend = BACKENDS[name]
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    sink = matmul(m, k, n, dtype, result, turned)
    assert actions_of(sink, backend)[0].startswith("matrix(")
    assert run_matmul(backend, sink, a, b, dtype) == product(a, b, m, k, n, turned)


@on_every_target
def test_every_way_to_cut_a_product_gives_the_same(name: str, dtype: DType, result: DType) -> None:
    """Tiles side by side, columns staged at once and shares of the rows change no value."""
    backend, (m, k, n) = BACKENDS[name], (19, 33, 35)
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    sink = matmul(m, k, n, dtype, result)
    expected = product(a, b, m, k, n)
    buffers = [bytes(4 * m * n), pack(a, dtype), pack(b, dtype)]
    found = list(matrix.matrix_unit_candidates(with_gaps(sink), backend.target))
    assert len(found) >= 4
    for way in found:
        linear = to_linear(Kernel(sink), backend.target, Options(actions=(way.action,)))
        grid = linear.signature.grid
        done = run_linear(backend, linear, buffers, (), (int(grid[0]), int(grid[1]), int(grid[2])))
        assert unpack(done[0], result) == expected, way.action


@on_every_target
def test_terms_in_blocks(name: str, dtype: DType, result: DType, monkeypatch: pytest.MonkeyPatch) -> None:
    """More terms than are staged at once: tiles go on adding, and no block reads what the next one is filling."""
    monkeypatch.setattr(matrix, "DEEPEST", 1)
    backend, (m, k, n) = BACKENDS[name], (19, 197, 23)
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    assert run_matmul(backend, matmul(m, k, n, dtype, result), a, b, dtype) == product(a, b, m, k, n)


@on_every_target
def test_what_stands_around_a_product_stays(name: str, dtype: DType, result: DType) -> None:
    """Batches, an operand that is not 0 past the end, a bias for each column, and a second result from the same sum."""
    backend, (batch, m, k, n) = BACKENDS[name], (3, 13, 35, 17)
    g, i, j, r = UOp.range(batch, 0), UOp.range(m, 1), UOp.range(n, 2), UOp.range(k, 3)
    x = load(param(2, dtype, batch * m * k), ix.add(ix.mul(ix.add(ix.mul(g, m), i), k), r))
    y = load(param(3, dtype, batch * k * n), ix.add(ix.mul(ix.add(ix.mul(g, k), r), n), j))
    one = 1.0 if dtype.kind == "float" else 1
    shifted = x + x.const_like(one)
    value = [v if dtype is result else v.cast(result) for v in (shifted, y)]
    total = UOp(Ops.REDUCE, result, (value[0] * value[1], r), ReduceArg(Ops.ADD))
    biased = total + load(param(4, result, n), j)
    place = ix.add(ix.mul(ix.add(ix.mul(g, m), i), n), j)
    size = batch * m * n
    sink = UOp(
        Ops.SINK, src=(store(param(0, result, size), place, biased), store(param(1, result, size), place, -total))
    )
    assert actions_of(sink, backend)[0].startswith("matrix(")
    a, b, bias = small(batch * m * k, 1, dtype), small(batch * k * n, 2, dtype), small(n, 3, result)
    buffers = [bytes(4 * size), bytes(4 * size), pack(a, dtype), pack(b, dtype), pack(bias, result)]
    done = run_kernel(backend, sink, buffers)
    more = [z + 1 for z in a]
    parts = [(more[h * m * k : (h + 1) * m * k], b[h * k * n : (h + 1) * k * n]) for h in range(batch)]
    raw = [v for left, right in parts for v in product(left, right, m, k, n)]
    assert unpack(done[0], result) == [v + bias[at % n] for at, v in enumerate(raw)]
    assert unpack(done[1], result) == [-v for v in raw]


@on_every_target
def test_smaller_results_beside_a_product_are_stored_once(name: str, dtype: DType, result: DType) -> None:
    """A value for each row and one for each column, each read and written in its place."""
    backend, (m, k, n) = BACKENDS[name], (37, 41, 61)
    i, j = UOp.range(m, 0), UOp.range(n, 1)
    rows, columns = param(3, result, m), param(4, result, n)
    beside = [store(at, r, load(at, r) + UOp.const(result, 2)) for at, r in ((rows, i), (columns, j))]
    sink = UOp(Ops.SINK, src=(*matmul(m, k, n, dtype, result).src, *beside))
    assert actions_of(sink, backend)[0].startswith("matrix(")
    a, b, old = small(m * k, 1, dtype), small(k * n, 2, dtype), small(n, 3, result)
    buffers = [bytes(4 * m * n), pack(a, dtype), pack(b, dtype), pack(old[:m], result), pack(old, result)]
    done = run_kernel(backend, sink, buffers)
    assert unpack(done[0], result) == product(a, b, m, k, n)
    assert [unpack(data, result) for data in done[3:]] == [[x + 2 for x in old[:m]], [x + 2 for x in old]]


@on_every_target
def test_groups_have_no_loops_for_other_results(name: str, dtype: DType, result: DType) -> None:
    """A result in a loop of its own beside a product has that loop; in groups the product is done without the unit."""
    backend = BACKENDS[name]
    other = UOp.range(5, 7)
    beside = store(param(3, result, 5), other, UOp.const(result, 1))
    sink = UOp(Ops.SINK, src=(*matmul(37, 41, 61, dtype, result).src, beside))
    assert bool(list(matrix.matrix_unit_candidates(with_gaps(sink), backend.target))) == (name == "vectors")


@pytest.mark.parametrize(("name", "dtype", "result"), [case for case in CASES if case[1].kind == "float"])
def test_infinities_stay_where_they_are(name: str, dtype: DType, result: DType) -> None:
    """exp of what is loaded is 1 past the end, and log of it is infinite: neither may reach a sum."""
    backend, (m, k, n) = BACKENDS[name], (9, 19, 17)
    i, j, r = UOp.range(m, 0), UOp.range(n, 1), UOp.range(k, 2)
    x = load(param(1, dtype, m * k), ix.add(ix.mul(i, k), r)).alu(Ops.LOG2)
    y = load(param(2, dtype, k * n), ix.add(ix.mul(r, n), j)).alu(Ops.EXP2)
    pair = [v if dtype is result else v.cast(result) for v in (x, y)]
    total = UOp(Ops.REDUCE, result, (pair[0] * pair[1], r), ReduceArg(Ops.ADD))
    sink = UOp(Ops.SINK, src=(store(param(0, result, m * n), ix.add(ix.mul(i, n), j), total),))
    assert actions_of(sink, backend)[0].startswith("matrix(")
    a, b = [float(2 ** (at % 5)) for at in range(m * k)], [float(at % 3) for at in range(k * n)]
    expected = product([math.log2(v) for v in a], [2.0**v for v in b], m, k, n)
    assert run_matmul(backend, sink, a, b, dtype) == expected
    a[0] = coerce(math.inf, dtype)
    found = run_matmul(backend, sink, a, b, dtype)
    assert found[:n] == [math.inf] * n
    assert found[n:] == expected[n:]


@on_every_target
def test_windows_are_rows_of_a_product(name: str, dtype: DType, result: DType) -> None:
    """A convolution with a border: two loops of rows, three of terms, and a gate on what lies outside."""
    backend, (high, wide, channels, filters) = BACKENDS[name], (5, 7, 5, 11)
    f, y, x = UOp.range(filters, 0), UOp.range(high, 1), UOp.range(wide, 2)
    c, v, u = UOp.range(channels, 3), UOp.range(3, 4), UOp.range(3, 5)
    row, column = ix.sub(ix.add(y, v), 1), ix.sub(ix.add(x, u), 1)
    gate = ix.and_(ix.and_(ix.ge(row, 0), ix.lt(row, high)), ix.and_(ix.ge(column, 0), ix.lt(column, wide)))
    place = ix.add(ix.mul(ix.add(ix.mul(c, high), row), wide), column)
    image = UOp(Ops.LOAD, dtype, (param(1, dtype, channels * high * wide), place, gate))
    tap = ix.add(ix.mul(ix.add(ix.mul(ix.add(ix.mul(f, channels), c), 3), v), 3), u)
    taps = load(param(2, dtype, filters * channels * 9), tap)
    pair = [z if dtype is result else z.cast(result) for z in (image, taps)]
    total = UOp(Ops.REDUCE, result, (pair[0] * pair[1], c, v, u), ReduceArg(Ops.ADD))
    at = ix.add(ix.mul(ix.add(ix.mul(f, high), y), wide), x)
    sink = UOp(Ops.SINK, src=(store(param(0, result, filters * high * wide), at, total),))
    linear = to_linear(Kernel(sink), backend.target, Options())
    assert any(u.op is Ops.PRODUCT for u in linear.uops) == linear.actions[0].startswith("matrix(")
    a, b = small(channels * high * wide, 1, dtype), small(filters * channels * 9, 2, dtype)

    def pixel(c: int, row: int, column: int) -> float:
        inside = 0 <= row < high and 0 <= column < wide
        return a[(c * high + row) * wide + column] if inside else 0

    expected = [
        sum(pixel(c, y + v - 1, x + u - 1) * b[((f * channels + c) * 3 + v) * 3 + u]
            for c in range(channels) for v in range(3) for u in range(3))
        for f in range(filters) for y in range(high) for x in range(wide)
    ]  # fmt: skip
    assert linear.actions[0].startswith("matrix(")
    assert run_matmul(backend, sink, a, b, dtype) == expected


def test_thin_products_are_left_to_vectors() -> None:
    """One row, or one column, would leave most of a tile unused."""
    for m, n in ((1, 64), (64, 1), (5, 64)):
        taken = actions_of(matmul(m, 64, n, dtypes.int8, dtypes.int32), BACKENDS["vectors"])
        assert not taken or not taken[0].startswith("matrix("), (m, n)


def test_a_missing_barrier_is_found() -> None:
    """A tile that is read before all threads have filled it is an error on the interpreter."""
    backend = BACKENDS["grid"]
    linear = to_linear(Kernel(matmul(17, 29, 37, dtypes.float, dtypes.float)), backend.target, Options())
    barriers = [u for u in linear.uops if u.op is Ops.BARRIER]
    assert len(barriers) == 2
    for gone in barriers:
        broken = replace(linear, uops=tuple(u for u in linear.uops if u is not gone))
        with pytest.raises(GraphError, match="a barrier is missing"):
            run_linear(backend, broken, [bytes(4 * 37 * 37)] * 3, (), (3, 3, 1))


WORDS = MatrixWords(
    header="; words of the unit",
    begin="call void @begin()",
    end="call void @end()",
    zero="call void @zero(i8 {t})",
    first="call void @load(i8 {t}, ptr {p}, i64 {stride})",
    second="call void @load(i8 {t}, ptr {p}, i64 {stride})",
    multiply="call void @multiply(i8 {c}, i8 {a}, i8 {b})",
    store="call void @store(i8 {t}, ptr {p}, i64 {stride})",
)
C_WORDS = MatrixWords(
    header="#include <tiles.h>",
    begin="begin_tiles();",
    end="end_tiles();",
    zero="zero({t});",
    first="load({t}, {p}, {stride});",
    second="load({t}, {p}, {stride});",
    multiply="multiply({c}, {a}, {b});",
    store="store({t}, {p}, {stride});",
)
RENDERERS = {
    "c": CStyleRenderer(Dialect(vectors=True, matrix={INT8_TILE.name: C_WORDS})),
    "ll": LLVMRenderer(matrix={INT8_TILE.name: WORDS}),
}
TAKEN = Options(actions=parse("matrix(1, 1, 2x2, 64, 128, 1)"))


@pytest.mark.parametrize("language", RENDERERS)
def test_tiles_are_written_with_the_words_of_the_language(language: str, golden: Callable[[str, str], None]) -> None:
    """Each operand is loaded once for all tiles that read it; the unit is opened and closed once in a kernel."""
    linear = to_linear(Kernel(matmul(61, 101, 67, dtypes.int8, dtypes.int32)), WIDE, TAKEN)
    golden(f"tiles.{language}", RENDERERS[language].render(linear).text)


def test_operands_of_one_tile_each_have_registers_of_their_own() -> None:
    """Both are read at index 0."""
    linear = to_linear(Kernel(matmul(16, 64, 16, dtypes.int8, dtypes.int32)), WIDE, Options())
    assert "multiply(0, 1, 2);" in RENDERERS["c"].render(linear).text


def test_the_source_that_debug_prints_calls_the_unit_by_its_name() -> None:
    """A language to be read has no words for a unit; it raised."""
    text = as_c(to_linear(Kernel(matmul(16, 64, 16, dtypes.int8, dtypes.int32)), WIDE, Options()))
    for line in (
        "tile1 = load_tile(local0, 64);",
        f"{INT8_TILE.name}(tile0, tile1, tile2);",
        "store_tile(tile0, local2, 64);",
    ):
        assert line in text


@pytest.mark.parametrize("name", BACKENDS)
def test_the_linear_form_is_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    """Operands filled as far out as they can be, tiles set to 0, added to and stored, then the results."""
    dtype, result = {"vectors": (dtypes.int8, dtypes.int32), "grid": (dtypes.float, dtypes.float)}[name]
    taken = {"vectors": TAKEN, "grid": Options(actions=parse("matrix(1, 0, 2x2, 16, 32, 1)"))}[name]
    linear = to_linear(Kernel(matmul(61, 101, 67, dtype, result)), BACKENDS[name].target, taken)
    golden(f"tiles.{name}.linear", show_linear(linear.uops) + "\n")


def test_the_kernel_graph_shows_its_tiles() -> None:
    """A MATRIX is a line of the kernel: what it stores, of what, over which terms."""
    way = next(
        w
        for w in matrix.matrix_unit_candidates(with_gaps(matmul(61, 101, 67, dtypes.int8, dtypes.int32)), WIDE)
        if w.cost
    )
    lines = [line for line in show_kernel(way.make()).splitlines() if "@" in line]
    assert len(lines) == 1
    assert lines[0].startswith("l2[")
    assert lines[0].endswith(f"by {INT8_TILE.name}")


@pytest.mark.parametrize("text", ["matrix(1, 1, 2x2, 64, 128, 7)", "matrix(0, 1, 2x2, 64, 128, 1)", "matrix(1, 4, 1)"])
def test_a_tile_that_does_not_fit_is_refused(text: str) -> None:
    """Shares that are not candidates, a loop of rows, a unit that is not there."""
    with pytest.raises(ActionError, match="the kernel has no such sum of products for a matrix unit of the Target"):
        to_linear(Kernel(matmul(61, 101, 67, dtypes.int8, dtypes.int32)), WIDE, Options(actions=parse(text)))


def test_more_tiles_than_registers_are_an_error() -> None:
    """A renderer counts the registers that results and operands take."""
    few = replace(INT8_TILE, tiles=7)
    linear = to_linear(Kernel(matmul(61, 101, 67, dtypes.int8, dtypes.int32)), WIDE, TAKEN)
    swap = {u: u.replace(arg=replace(u.arg, unit=few)) for u in linear.uops if u.op in (Ops.TILE, Ops.PRODUCT, Ops.PUT)}
    swap = {u: new.replace(src=tuple(swap.get(s, s) for s in new.src)) for u, new in swap.items()}
    uops = tuple(swap.get(u, u) for u in linear.uops)
    with pytest.raises(GraphError, match=f"8 tile registers of {few.name}, which has 7"):
        RENDERERS["c"].render(replace(linear, uops=uops))
