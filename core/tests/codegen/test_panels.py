"""Tiles of sums of products: every way to cut one reads and writes inside of memory and gives the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.codegen.action import Action, parse
from tinygraft.codegen.apply import action_of
from tinygraft.codegen.loops import size
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.panels import tile
from tinygraft.codegen.tiling import tilings
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.conformance.product_cases import matmul, product, small
from tinygraft.dtype import dtypes
from tinygraft.reference.python import TARGET, PythonBackend
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.linear import scratch_of
from tinygraft.uop.ops import Ops, ReduceArg
from tinygraft.uop.stages import Kernel
from tinygraft.uop.uop import UOp, postorder

F = dtypes.float32
BACKEND = PythonBackend("PYTHON", 0, replace(TARGET, vector_bytes=16, registers=16, local_memory=64 << 10, matrix=()))
M, K, N = 9, 13, 44  # columns in whole vectors of 4, but not in whole blocks of 2, 3 or 4 of these
PLACES: dict[str, tuple[int, Callable[[UOp, UOp], UOp]]] = {
    "for each column": (N, lambda i, j: j),
    "for each vector of columns": (N // 4, lambda i, j: ix.idiv(j, 4)),
    "for each row": (M, lambda i, j: i),
    "for each result": (M * N, lambda i, j: ix.add(ix.mul(i, N), j)),
}


@pytest.mark.parametrize("places", PLACES)
def test_what_is_added_to_a_sum_is_read_inside_of_its_memory(places: str) -> None:
    """Where a block of columns is not whole but its vectors are, too: the interpreter refuses what lies outside."""
    count, at = PLACES[places]
    bias = param(3, F, count)
    sink = matmul(M, K, N, F, F, finish=lambda total, i, j: total + load(bias, at(i, j)))
    a, b, c = small(M * K, 1, F), small(K * N, 2, F), small(count, 3, F)
    buffers = [bytes(4 * M * N), *(pack(x, F) for x in (a, b, c))]
    place = [int(at(ix.const(i), ix.const(j)).arg) for i in range(M) for j in range(N)]
    expected = [x + c[where] for x, where in zip(product(a, b, M, K, N), place, strict=True)]
    found = [t for t in tilings(with_gaps(sink), BACKEND.target) if t.vectors in (2, 3, 4) and max(t.unrolled) == 2]
    assert {t.vectors for t in found} == {2, 3, 4}
    for t in found:
        linear = to_linear(Kernel(sink), BACKEND.target, Options(actions=(action_of(t),)))
        assert unpack(run_linear(BACKEND, linear, buffers)[0], F) == expected, action_of(t)


@pytest.mark.parametrize("actions", ["stage(1, 1, 16, 4, 4)", "tile(1, 1, 16, 4, 4)", "pack(1, 1, 16, 4, 4)"])
def test_a_share_without_rows_reads_nothing_that_others_write(actions: str) -> None:
    """5 rows in 4 shares of 2: the last share repeats the row of the third one, and adds nothing to it in its place."""
    backend = PythonBackend("PYTHON", 0, replace(BACKEND.target, chunks=4))
    m, k, n = 5, 40, 32
    out = param(0, F, m * n)
    sink = matmul(m, k, n, F, F, finish=lambda total, i, j: total + load(out, ix.add(ix.mul(i, n), j)))
    a, b, old = small(m * k, 1, F), small(k * n, 2, F), small(m * n, 3, F)
    linear = to_linear(Kernel(sink), backend.target, Options(actions=(*parse(actions), Action("parallel"))))
    done = run_linear(backend, linear, [pack(x, F) for x in (old, a, b)])
    assert unpack(done[0], F) == [x + y for x, y in zip(old, product(a, b, m, k, n), strict=True)]


def convolution(rows: int, channels: int, side: int) -> UOp:
    """out[o, y, x] = sum over c, p, q < 3 of weight[o, c, p, q] * image[c, y + p, x + q], for y, x < side."""
    o, y, x = UOp.range(rows, 0), UOp.range(side, 1), UOp.range(side, 2)
    c, p, q = UOp.range(channels, 3), UOp.range(3, 4), UOp.range(3, 5)
    wide = side + 2

    def at(*steps: tuple[UOp, int]) -> UOp:
        place = ix.const(0)
        for index, step in steps:
            place = ix.add(place, ix.mul(index, step))
        return place

    image = load(param(1, F, channels * wide * wide), at((c, wide * wide), (y, wide), (p, wide), (x, 1), (q, 1)))
    weight = load(param(2, F, rows * channels * 9), at((o, channels * 9), (c, 9), (p, 3), (q, 1)))
    total = UOp(Ops.REDUCE, F, (weight * image, c, p, q), ReduceArg(Ops.ADD))
    return UOp(Ops.SINK, src=(store(param(0, F, rows * side * side), at((o, side * side), (y, side), (x, 1)), total),))


@pytest.mark.parametrize("kernel", [matmul(9, 13, 44, F, F), convolution(9, 5, 7), convolution(32, 16, 3)])
def test_scratch_memory_has_room_for_what_a_tiling_takes(kernel: UOp) -> None:
    """However rows are shared out and columns rounded up to vectors, no tiling takes more than there is.

    The room is what some tiling takes, and four bytes less, so that each of them is at its border once.
    """

    def taken(target: Target) -> dict[str, int]:
        found = tilings(with_gaps(kernel), target)
        options = [Options(actions=(action_of(t),)) for t in found]
        return {str(o.actions): scratch_of(to_linear(Kernel(kernel), target, o).uops)[1] for o in options}

    ample = replace(BACKEND.target, chunks=4)
    sizes = sorted({size for size in taken(ample).values() if size})
    assert len(sizes) > 3
    for room in sizes[:: max(1, len(sizes) // 3)]:
        for here in (room, room - 4):
            too_much = {o: size for o, size in taken(replace(ample, local_memory=here)).items() if size > here}
            assert too_much == {}, here


def test_vectors_go_on_from_one_row_of_an_image_to_the_next() -> None:
    """Of windows that slide over rows of 7, a block of several tiles gives what plain loops give, whole or not."""
    sink = convolution(5, 3, 7)
    image, weight = small(3 * 9 * 9, 1, F), small(5 * 3 * 9, 2, F)
    buffers = [bytes(4 * 5 * 49), pack(image, F), pack(weight, F)]
    plain = unpack(run_linear(BACKEND, to_linear(Kernel(sink), TARGET, Options(noopt=True)), buffers)[0], F)
    found = [t for t in tilings(with_gaps(sink), BACKEND.target) if t.across > 1]
    assert {(t.block, t.vectors, t.across) for t in found} == {(49, 2, 7), (28, 4, 2), (21, 3, 2)}
    assert {t.packs for t in found} == {False, True}
    for t in found:
        linear = to_linear(Kernel(sink), BACKEND.target, Options(actions=(action_of(t),)))
        assert unpack(run_linear(BACKEND, linear, buffers)[0], F) == plain, action_of(t)


def elements(access: UOp) -> set[int]:
    """Return the elements that a LOAD or STORE reaches, over all iterations in which its gate is open."""
    index, gate = access.src[1], access.src[3] if access.op is Ops.STORE and len(access.src) > 3 else ix.const(1)
    loops = [n for n in postorder(index, gate) if n.op is Ops.RANGE]
    found = set()
    for counters in itertools.product(*(range(size(r)) for r in loops)):
        swap = {r: ix.const(n) for r, n in zip(loops, counters, strict=True)}
        done = ix.rebuild_simplified((index, gate), swap)
        if int(done[gate].arg):
            found.add(int(done[index].arg))
    return found


def weights_gradient(side: int, channels: int) -> UOp:
    """out[o, c, p, q] = sum over y, x of image[c, y + p, x + q] * other[o, y, x]: columns are c, p and q together."""
    o, c, p, q = UOp.range(8, 0), UOp.range(channels, 1), UOp.range(3, 2), UOp.range(3, 3)
    y, x = UOp.range(side, 4), UOp.range(side, 5)
    wide = side + 2
    image = load(
        param(1, F, channels * wide * wide),
        ix.add(ix.mul(ix.add(ix.mul(c, wide), ix.add(y, p)), wide), ix.add(x, q)),
    )
    other = load(param(2, F, 8 * side * side), ix.add(ix.mul(ix.add(ix.mul(o, side), y), side), x))
    total = UOp(Ops.REDUCE, F, (image * other, y, x), ReduceArg(Ops.ADD))
    where = ix.add(ix.mul(ix.add(ix.mul(ix.add(ix.mul(o, channels), c), 3), p), 3), q)
    return UOp(Ops.SINK, src=(store(param(0, F, 8 * channels * 9), where, total),))


@pytest.mark.parametrize("kernel", [weights_gradient(6, 3), convolution(8, 2, 6)], ids=["gradient", "convolution"])
def test_every_lane_that_is_multiplied_was_stored(kernel: UOp) -> None:
    """Lanes past the last column are 0: what another kernel left there may be subnormal, which takes long."""
    plain = with_gaps(kernel)
    target = replace(BACKEND.target, vector_bytes=32)
    every = [t for t in tilings(plain, target) if len(t.contraction.columns) > 1 and not t.packs]
    found = list({(t.block, t.padded, t.window is None): t for t in every if t.padded > t.block}.values())
    assert found
    for t in found:
        nodes = postorder(tile(plain, t))
        stored = [n for n in nodes if n.op is Ops.STORE and any(s.op is Ops.LOCAL for s in postorder(n.src[0]))]
        read = [n for n in nodes if n.op is Ops.LOAD and any(s.op is Ops.LOCAL for s in postorder(n.src[0]))]
        assert read
        assert set().union(*map(elements, read)) <= set().union(*map(elements, stored)), action_of(t)
