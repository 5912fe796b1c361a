"""Hand-built kernels, run by both compilers: vectors, gates, registers, copies, gathers, scratch memory, casts."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinygraft.config import Context
from tinygraft.conformance.linears import (
    Build,
    elementwise,
    gather,
    matmul,
    number,
    row_sums,
    running_sum,
    scratch,
    streamed,
    strided,
)
from tinygraft.dtype import DType, coerce, dtypes
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.uop import UOp
from tinygraft_cpu.device import CpuBackend

Array = np.ndarray[Any, Any]
Run = Callable[..., Any]
RANDOM = np.random.default_rng(7)
NUMPY = {
    dtypes.bool: "bool", dtypes.int8: "int8", dtypes.uint8: "uint8", dtypes.int16: "int16", dtypes.uint16: "uint16",
    dtypes.int32: "int32", dtypes.uint32: "uint32", dtypes.int64: "int64", dtypes.uint64: "uint64",
    dtypes.float16: "float16", dtypes.bfloat16: "uint16", dtypes.float32: "float32", dtypes.float64: "float64",
}  # fmt: skip


def floats(*shape: int) -> Array:
    """Random float32 numbers."""
    return RANDOM.standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("width", [2, 8, 16])
@pytest.mark.parametrize("size", [1, 16, 37])
def test_a_gate_keeps_a_vector_inside_its_buffer(run: Run, size: int, width: int) -> None:
    """Every element is computed and nothing past the last one is written."""
    x = floats(size)
    kernel = elementwise(size, width)
    guarded = np.full(size + width, 9, np.float32)
    got = run(kernel, guarded, x)
    assert (got[:size] == np.maximum(x + np.float32(3), x * x)).all()
    assert (got[size:] == 9).all()


@pytest.mark.parametrize("width", [4, 8, 16, 32])
def test_a_streamed_store_writes_what_any_store_writes(run: Run, width: int) -> None:
    """Stored past the caches or not: the same values, and nothing past the last one is written."""
    x = floats(96)
    got = run(streamed(96, width), np.full(112, 9, np.float32), x)
    assert (got[:96] == x + np.float32(3)).all()
    assert (got[96:] == 9).all()


def test_a_streamed_store_becomes_the_instruction_for_it(backend: CpuBackend) -> None:
    """The machine code has a store past the caches, and a fence after the loop."""
    if not backend.target.stream_bytes:
        pytest.skip("this processor's stores are not streamed")
    with Context(DEBUG=7):
        source = backend.renderer.render(streamed(96, backend.target.vector_bytes // 4))
        assembly = backend.compiler.compile(source).detail
    assert re.search(r"v?movnt(ps|dq)", assembly)
    assert re.search(r"movnt.*sfence", assembly, re.DOTALL)


@pytest.mark.parametrize(("width", "copies"), [(8, 2), (4, 1), (16, 4)])
def test_a_sum_is_made_in_the_order_that_is_written(run: Run, width: int, copies: int) -> None:
    """A register of copies and lanes adds in ascending order and folds lanes by halves: the same bits every time."""
    x = floats(3, 128)
    parts = x.reshape(3, -1, copies, width)
    acc = np.zeros((3, copies, width), np.float32)
    for k in range(parts.shape[1]):
        acc = acc + parts[:, k]
    while acc.shape[-1] > 1:
        half = acc.shape[-1] // 2
        acc = acc[..., :half] + acc[..., half:]
    total = np.zeros(3, np.float32)
    for copy in range(copies):
        total = total + acc[:, copy, 0]
    assert (run(row_sums(3, 128, width, copies), np.zeros(3, np.float32), x) == total).all()


def test_copies_of_a_tile_share_what_does_not_depend_on_them(run: Run) -> None:
    """A matrix product in register tiles adds products one after another, without contraction."""
    a, b = floats(6, 5), floats(5, 16)
    want = np.zeros((6, 16), np.float32)
    for k in range(5):
        want = want + a[:, k : k + 1] * b[k]
    assert (run(matmul(), np.zeros((6, 16), np.float32), a, b) == want).all()


def test_a_gather_reads_zero_where_its_gate_is_closed(run: Run) -> None:
    """A load at computed addresses never leaves the table, whatever the addresses are."""
    index = RANDOM.integers(-4, 15, 28).astype(np.int32)
    index[:2] = (-(2**31), 2**31 - 1)
    table = floats(11)
    want = np.where((index >= 0) & (index < 11), table[index.clip(0, 10)], np.float32(0))
    assert (run(gather(), np.zeros(28, np.float32), index, table) == want).all()


def test_a_table_without_elements_reads_zero(run: Run) -> None:
    """A buffer of no elements is never touched."""
    got = run(gather(size=0), np.ones(28, np.float32), np.zeros(28, np.int32), np.zeros(0, np.float32))
    assert (got == 0).all()


def test_lanes_may_be_any_distance_apart(run: Run) -> None:
    """Lanes with stride 2 or -1 are loaded and stored one by one."""
    x = np.arange(24, dtype=np.int32)
    assert (run(strided(), np.zeros(12, np.int32), x) == x[::2][::-1]).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_scratch_memory_holds_a_row(run: Run, rows: int) -> None:
    """Private memory is written, then read; a variable says how many rows there are."""
    x = floats(2, 12)
    got = run(scratch(), np.full((2, 12), 9, np.float32), x, variables=[rows])
    assert (got[:rows] == x[:rows] - x[:rows].max(1, keepdims=True)).all()
    assert (got[rows:] == 9).all()


def test_a_register_can_be_read_before_it_changes(run: Run) -> None:
    """GET reads the value that the register has at that point of the list."""
    x = np.arange(1, 10, dtype=np.int32)
    assert (run(running_sum(), np.zeros(9, np.int32), x) == (np.cumsum(x) - x) * 2 + x).all()


@pytest.mark.parametrize("width", [1, 4])
def test_a_gated_scatter_stores_in_order(run: Run, width: int) -> None:
    """Stores at computed addresses happen lane by lane, so the last one stays; a closed gate stores nothing."""
    b = Build("scatter", (dtypes.int32, 5), (dtypes.int32, 8), (dtypes.int32, 8))
    r, v = b.range(8 // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v if width > 1 else r
    where = b.load(1, at)
    b.store(0, where.cast(dtypes.index), b.load(2, at), ~(where < 0))
    b.end(r)
    index = np.array([3, 1, -1, 3, 0, -7, 1, 3], np.int32)
    value = np.arange(10, 18, dtype=np.int32)
    assert run(b.done(), np.zeros(5, np.int32), index, value).tolist() == [14, 16, 0, 17, 0]


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("dtype", dtypes.ints, ids=lambda d: d.name)
def test_integers_wrap(run: Run, dtype: DType, width: int) -> None:
    """Sums, differences, products and negatives wrap around in every integer dtype."""
    edge = np.array([dtypes.min(dtype), dtypes.max(dtype), 1, 2, 3, 100, dtypes.max(dtype) // 2, 7], NUMPY[dtype])
    b = Build("wrap", (dtype, 8), (dtype, 8))
    r, v = b.range(8 // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v if width > 1 else r
    x = b.load(1, at)
    b.store(0, at, x * x + x * 3 - -x)
    b.end(r)
    want = [coerce(x * x + x * 3 + x, dtype) for x in edge.tolist()]
    assert run(b.done(), np.zeros_like(edge), edge).tolist() == want


def edges(dtype: DType) -> list[Any]:
    """Values at and around the limits of a dtype."""
    if dtype is dtypes.bool:
        return [False, True]
    if dtype.kind == "float":
        sizes = [
            0.0,
            0.4,
            1.0,
            1.5,
            127.5,
            128.0,
            255.5,
            32768.0,
            65519.0,
            65520.0,
            2.0**31,
            2.0**32 - 1,
            2.0**63,
            1e30,
            1e-41,
        ]
        return [float("nan"), float("inf"), float("-inf"), *(coerce(s * x, dtype) for x in sizes for s in (1.0, -1.0))]
    low, high = dtypes.min(dtype), dtypes.max(dtype)
    return [x for x in (low, low + 1, -129, -1, 0, 1, 127, 128, 255, 256, 2**24 + 1, 2**31, 2**53 + 1, high - 1, high)
            if low <= x <= high]  # fmt: skip


def bits(values: list[Any], dtype: DType) -> Array:
    """Return the bytes of values."""
    if dtype is dtypes.bfloat16:
        return (np.array(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return np.array(values, NUMPY[dtype])


def is_direct(old: DType, new: DType) -> bool:
    """Return whether a renderer writes the cast itself: a half type converts to and from float32 only."""
    halves = {old, new} & {dtypes.float16, dtypes.bfloat16}
    return not halves or (dtypes.float32 in (old, new))


@pytest.mark.parametrize("width", [1, 4])
@pytest.mark.parametrize("old", dtypes.all, ids=lambda d: d.name)
def test_casts_are_those_of_coerce(run: Run, old: DType, width: int) -> None:
    """A cast of every edge value to every dtype wraps, saturates or rounds as dtype.coerce says, in vectors too."""
    values = edges(old) + [edges(old)[-1]] * (-len(edges(old)) % 4)
    size, targets = len(values), [new for new in dtypes.all if new is not old and is_direct(old, new)]
    b = Build("casts", *((new, size) for new in targets), (old, size), written=tuple(range(len(targets))))
    r, v = b.range(size // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v if width > 1 else r
    x = b.load(len(targets), at)
    for slot, new in enumerate(targets):
        b.store(slot, at, x.cast(new))
    b.end(r)
    zeros = [np.zeros(size, NUMPY[new]) for new in targets]
    for new, got in zip(targets, run(b.done(), *zeros, bits(values, old), outputs=len(targets)), strict=True):
        want = bits([coerce(x, new) for x in values], new)
        if new is dtypes.bfloat16:  # which bits a NaN has is left open
            got, want = ((a.astype(np.uint32) << 16).view(np.float32) for a in (got, want))
        np.testing.assert_array_equal(got, want, err_msg=f"{old.name} to {new.name}")


@pytest.mark.parametrize("width", [1, 8])
def test_halves_convert_without_an_instruction_for_it(run: Run, backend: CpuBackend, width: int) -> None:
    """Without an instruction for it every half becomes float exactly, and floats become halves to nearest even."""
    if backend.compiler_name == "llvm":
        backend.renderer = LLVMRenderer(converts_half=False)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    b = Build("half", (dtypes.float32, 1 << 16), (dtypes.float16, 1 << 16), (dtypes.float16, 1 << 16),
              (dtypes.float32, 1 << 16), written=(0, 1))  # fmt: skip
    r, v = b.range((1 << 16) // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v if width > 1 else r
    b.store(0, at, b.load(2, at).cast(dtypes.float32))
    b.store(1, at, b.load(3, at).cast(dtypes.float16))
    b.end(r)
    wide = np.random.default_rng(3).integers(0, 2**32, 1 << 16, dtype=np.uint32).view(np.float32).copy()
    with np.errstate(invalid="ignore"):
        wide[: 1 << 15] = halves[::2].astype(np.float32) * np.float32(1 + 2**-11)  # ties and near ties
    up, down = run(b.done(), np.zeros(1 << 16, np.float32), np.zeros(1 << 16, np.float16), halves, wide, outputs=2)
    np.testing.assert_array_equal(up, halves.astype(np.float32))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(down, wide.astype(np.float16))
    assert (np.signbit(up) == np.signbit(halves))[~np.isnan(halves)].all()
    assert (np.signbit(down) == np.signbit(wide))[~np.isnan(wide)].all()


@pytest.mark.parametrize("width", [1, 8])
def test_nan_wins_and_equal_zeros_keep_the_first(run: Run, width: int) -> None:
    """MAX and MIN give NaN when either operand is, and the first of two zeros."""
    x = np.array([np.nan, 1, np.nan, 0.0, -0.0, 2, -np.inf, 5], np.float32)
    y = np.array([1, np.nan, np.nan, -0.0, 0.0, 3, np.inf, 4], np.float32)
    for op, want in (
        (Ops.MAX, [np.nan] * 3 + [0.0, -0.0, 3, np.inf, 5]),
        (Ops.MIN, [np.nan] * 3 + [0.0, -0.0, 2, -np.inf, 4]),
    ):
        b = Build("extreme", (dtypes.float32, 8), (dtypes.float32, 8), (dtypes.float32, 8))
        r, v = b.range(8 // width), b.range(width, AxisKind.VECTOR)
        at = r * width + v if width > 1 else r
        b.store(0, at, b.load(1, at).alu(op, b.load(2, at)))
        b.end(r)
        got = run(b.done(), np.zeros(8, np.float32), x, y)
        assert [repr(float(g)) for g in got] == [repr(float(w)) for w in want]


@pytest.mark.parametrize("width", [1, 4])
def test_bools_are_bytes_in_memory(run: Run, width: int) -> None:
    """A bool is one byte, 0 or 1; logic, comparison and choice work on it in vectors."""
    x, y = np.array([0, 0, 1, 1] * 2, bool), np.array([0, 1, 0, 1] * 2, bool)
    b = Build("logic", (dtypes.bool, 8), (dtypes.bool, 8), (dtypes.bool, 8))
    r, v = b.range(8 // width), b.range(width, AxisKind.VECTOR)
    at = r * width + v if width > 1 else r
    p, q = b.load(1, at), b.load(2, at)
    b.store(0, at, ((p & ~q) | (p < q)).where(p.ne(q), p.eq(q)) ^ (q.cast(dtypes.int32) < p.cast(dtypes.int32)))
    b.end(r)
    got = run(b.done(), np.zeros(8, bool), x, y)
    assert got.view(np.uint8).tolist() == [1, 1, 0, 1] * 2


def test_constants_are_exact(run: Run) -> None:
    """Every kind of number comes out of the compiler as it went in."""
    for dtype, values in (
        (dtypes.float32, [0.1, -0.0, 3.4028234663852886e38, 1e-45, float("inf"), float("-inf"), 16777217.0, 1 / 3]),
        (dtypes.float64, [0.1, -0.0, 1.7976931348623157e308, 5e-324, 1 / 3, 1e22, 2.0**60, -1.5]),
        (dtypes.int64, [-(2**63), 2**63 - 1, -1, 0, 2**31, -(2**31), 2**32, 1]),
        (dtypes.uint64, [2**64 - 1, 2**63, 0, 1, 2, 3, 4, 5]),
        (dtypes.int32, [-(2**31), 2**31 - 1, -1, 0, 1, 2, 3, 4]),
        (dtypes.int8, [-128, 127, -1, 0, 1, 2, 3, 4]),
        (dtypes.float16, [0.1, -0.0, 65504.0, 6e-8, float("inf"), 1.0, 2.0, 3.0]),
    ):
        b = Build("constants", (dtype, 8))
        for i, value in enumerate(values):
            b.store(0, number(i), UOp.const(dtype, value))
        got = run(b.done(), np.zeros(8, NUMPY[dtype]))
        assert got.tobytes() == np.array(values, NUMPY[dtype]).tobytes()
