"""Which stores go past the caches: by the size of the output, whether it is read, and where its vectors start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.conformance.linears import streamed
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, StoreHint
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp

F = dtypes.float32
MACHINE = Target(vector_bytes=64, alignment=64, chunks=2, stream_bytes=4096, l3_bytes=0)


def streams(*stores: UOp, target: Target = MACHINE) -> list[bool]:
    """Of each store in the linear form whether it is streamed; that some are is the last action."""
    made = to_linear(Kernel(UOp(Ops.SINK, src=stores)), target)
    found = [u.arg is StoreHint.STREAM for u in made.uops if u.op is Ops.STORE]
    assert ("stream" in made.actions) == any(found)
    return found


def doubled(size: int, slot: int = 0, dtype: DType = F, reads: int = 9) -> UOp:
    """A store of twice each element of other memory."""
    i = UOp.range(size, slot)
    x = load(param(reads, dtype, size), i)
    return store(param(slot, dtype, size), i, x + x)


def test_an_output_larger_than_the_target_says_is_streamed() -> None:
    """1,040 floats are more than 4,096 bytes; 1,024 are not; a Target that says 0 has no way to stream."""
    assert streams(doubled(1040)) == [True]
    assert streams(doubled(1024)) == [False]
    assert streams(doubled(1 << 20), target=replace(MACHINE, stream_bytes=0)) == [False]


def test_a_kernel_that_reads_little_leaves_its_output_in_the_caches() -> None:
    """It reads more than 3/4 of the last cache, or the output is four times that: 2,400 floats are 9,600 bytes."""
    assert streams(doubled(2400), target=replace(MACHINE, l3_bytes=12_799)) == [True]
    assert streams(doubled(2400), target=replace(MACHINE, l3_bytes=12_800)) == [False]
    i, j = UOp.range(64, 0), UOp.range(80, 1)
    few = load(param(1, F, 64), i) * load(param(2, F, 80), j)  # 5,120 products of 144 floats
    outer = store(param(0, F, 64 * 80), ix.add(ix.mul(i, 80), j), few)
    assert streams(outer, target=replace(MACHINE, l3_bytes=6827)) == [False]
    assert streams(outer, target=replace(MACHINE, l3_bytes=6826)) == [True]


def test_of_a_cache_that_many_share_threads_have_a_part() -> None:
    """16 MB for each thread, so that two fill it with 24 MB: 6.3 million floats."""
    shared = replace(MACHINE, l3_bytes=105 << 20)
    assert streams(doubled(6 << 20), target=shared) == [False]
    assert streams(doubled((6 << 20) + 16), target=shared) == [True]
    assert streams(doubled((6 << 20) + 16), target=replace(shared, chunks=3)) == [False]


def test_of_large_memory_what_is_read_counts() -> None:
    """A part of it, as often as loads run; and memory that is read again and again no more than it has."""
    i, j = UOp.range(128, 0), UOp.range(32, 1)
    at = ix.add(ix.mul(i, 32), j)
    part = store(param(0, F, 4096), at, load(param(1, F, 1 << 20), at) + 1.0)
    row = store(param(0, F, 4096), at, load(param(1, F, 32), j) + 1.0)
    room = replace(MACHINE, l3_bytes=21_845)  # 3/4 of that are 1 byte less than the output
    assert streams(part, target=room) == [True]
    assert streams(part, target=replace(room, l3_bytes=21_846)) == [False]
    assert streams(row, target=room) == [False]


def test_each_output_is_looked_at_by_itself() -> None:
    """A small output of a kernel stays in the caches beside a large one."""
    i, j = UOp.range(65, 0), UOp.range(64, 1)
    x = load(param(9, F, 65 * 64), ix.add(ix.mul(i, 64), j))
    large = store(param(0, F, 65 * 64), ix.add(ix.mul(i, 64), j), x + x)
    assert sorted(streams(large, doubled(64, 2, reads=8))) == [False, True]


def test_what_the_kernel_reads_is_not_streamed() -> None:
    """Memory that is updated in place is in the caches already."""
    assert streams(doubled(1 << 12, 0, reads=0)) == [False]


@pytest.mark.parametrize(("columns", "want"), [(64, True), (80, True), (72, False), (67, False)])
def test_rows_have_to_start_at_a_vector(columns: int, want: bool) -> None:
    """With 72 columns every second row starts in the middle of a vector of 16."""
    i, j = UOp.range(64, 0), UOp.range(columns, 1)
    at = ix.add(ix.mul(i, columns), j)
    bias = load(param(3, F, columns), j)  # keeps the two loops apart
    assert any(streams(store(param(0, F, 64 * columns), at, load(param(1, F, 64), i) * bias))) is want


def test_short_rows_are_streamed_only_beside_each_other() -> None:
    """Half a cache line at a time is slow when the other half comes much later."""
    half = dtypes.float16
    assert streams(doubled(1 << 13, dtype=half)) == [True]
    i, j = UOp.range(256, 0), UOp.range(16, 1)
    apart = ix.add(ix.mul(i, 64), j)
    x = load(param(1, half, 256 * 64), apart)
    assert streams(store(param(0, half, 256 * 64), apart, x + x)) == [False]


def test_a_scalar_store_is_never_streamed() -> None:
    """Without vectors there is nothing to stream."""
    assert streams(doubled(1 << 12), target=replace(MACHINE, vector_bytes=0)) == [False]


def test_an_interpreter_stores_a_stream_as_anything_else() -> None:
    """PYTHON has no caches: the hint changes nothing."""
    values = [float(i) for i in range(24)]
    out, _ = run_linear(PythonBackend("PYTHON", 0), streamed(24, 8), [bytes(96), pack(values, F)])
    assert unpack(out, F) == [x + 3 for x in values]
