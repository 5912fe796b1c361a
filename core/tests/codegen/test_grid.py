"""Kernels in groups of threads: each way to compute one is right at odd sizes, and waits where it must."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gpusim import PLAIN as TARGET
from group_kernels import (
    GPU,
    Array,
    F,
    at,
    candidates_of,
    convolution,
    fused,
    linear_of,
    matmul,
    normalised,
    numbers,
    reduce,
    run,
    sink,
    windows,
)
from tinygraft.codegen import grid
from tinygraft.codegen.action import parse
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.heuristics import choose
from tinygraft.codegen.transforms import with_gaps
from tinygraft.codegen.variants import firsts, neighbours
from tinygraft.conformance.kernels import load, pack, param, run_linear, store, unpack
from tinygraft.dtype import dtypes
from tinygraft.errors import ActionError, GraphError
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES, Dialect
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp


@pytest.mark.parametrize("sizes", [(19, 23, 37), (67, 5, 31), (2, 41, 53), (32, 32, 32), (3, 97, 8)])
def test_products_of_matrices_are_right_in_every_way(sizes: tuple[int, int, int]) -> None:
    """Tiles of each shape, rows shared by a team, and threads on their own: exactly numpy's values."""
    n, m, depth = sizes
    a, b = numbers(n, depth), numbers(depth, m, seed=1)
    found = candidates_of(matmul(*sizes))
    assert {"block", "team", "local"} <= {one.name for one in found}
    assert max(math.prod(one.amounts[1]) for one in found if one.name == "block") >= 4
    for one in found:
        (got,) = run(linear_of(matmul(*sizes), one), [n * m], a, b)
        np.testing.assert_array_equal(got.reshape(n, m), a @ b, str(one))


def test_what_surrounds_a_product_is_computed_with_it() -> None:
    """A function of an operand is not 0 past the end of the terms, a bias is not read past the end of the columns."""
    n, m, depth = 13, 29, 41
    x, w, bias = numbers(n, depth), numbers(m, depth, seed=1), numbers(m, seed=2)
    want = np.maximum(x + 1, 0) @ w.T + bias
    for one in candidates_of(fused(n, m, depth)):
        once, twice = run(linear_of(fused(n, m, depth), one), [n * m, n * m], x, w, bias)
        np.testing.assert_array_equal(once.reshape(n, m), want, str(one))
        np.testing.assert_array_equal(twice, once * 2, str(one))


def beside(n: int, m: int, depth: int) -> UOp:
    """x @ w and x @ v + the products of x with one vector: sums over the same terms."""
    i, j, k = (UOp.range(size, axis) for axis, size in enumerate((n, m, depth)))
    x, place = load(param(2, F, n * depth), at((i, k), (n, depth))), at((i, j), (n, m))
    w, v = (load(param(slot, F, depth * m), at((k, j), (depth, m))) for slot in (3, 4))
    more = reduce(x * v, k) + reduce(x * load(param(5, F, depth), k), k)
    return sink(store(param(0, F, n * m), place, reduce(x * w, k)), store(param(1, F, n * m), place, more))


def distances(n: int, m: int, depth: int) -> UOp:
    """The sum over k of (x[i, k] - y[j, k]) ** 2 + s[k]: no product, and not 0 where both are."""
    i, j, k = (UOp.range(size, axis) for axis, size in enumerate((n, m, depth)))
    less = load(param(1, F, n * depth), at((i, k), (n, depth))) - load(param(2, F, m * depth), at((j, k), (m, depth)))
    total = reduce(less * less + load(param(3, F, depth), k), k)
    return sink(store(param(0, F, n * m), at((i, j), (n, m)), total))


def test_sums_of_what_is_no_product_of_two() -> None:
    """Sums beside each other share what is in shared memory; what depends on the terms alone is read where it is."""
    n, m, depth = 19, 23, 37
    x, w, v, s = numbers(n, depth), numbers(depth, m, seed=1), numbers(depth, m, seed=2), numbers(depth, seed=3)
    for one in candidates_of(beside(n, m, depth)):
        first, second = run(linear_of(beside(n, m, depth), one), [n * m, n * m], x, w, v, s)
        np.testing.assert_array_equal(first.reshape(n, m), x @ w, str(one))
        np.testing.assert_array_equal(second.reshape(n, m), x @ v + (x @ s)[:, None], str(one))
    for one in candidates_of(distances(n, m, depth)):
        (got,) = run(linear_of(distances(n, m, depth), one), [n * m], x, w.T, s)
        want = ((x[:, None] - w.T) ** 2 + s).sum(-1)
        np.testing.assert_array_equal(got.reshape(n, m), want, str(one))


def gradients(n: int, m: int, depth: int) -> UOp:
    """x.T @ g beside the sums of the columns of g, added to what was there: of a layer's weight and bias."""
    i, j, k, t = (UOp.range(size, axis) for axis, size in enumerate((n, m, depth, depth)))
    x, g, bias = param(2, F, depth * n), param(3, F, depth * m), param(1, F, m)
    weight = reduce(load(x, at((k, i), (depth, n))) * load(g, at((k, j), (depth, m))), k)
    total = load(bias, j) + reduce(load(g, at((t, j), (depth, m))), t)
    return sink(store(param(0, F, n * m), at((i, j), (n, m)), weight), store(bias, j, total))


def test_a_product_beside_smaller_results() -> None:
    """What is stored for fewer loops is stored once, also where it replaces what it reads."""
    n, m, depth = 19, 23, 29
    x, g, old = numbers(depth, n), numbers(depth, m, seed=1), numbers(m, seed=2)
    kernel = gradients(n, m, depth)
    buffers = [bytes(4 * n * m), *(pack(a.ravel().tolist(), F) for a in (old, x, g))]
    found = candidates_of(kernel)
    assert {one.name for one in found} >= {"block", "team"}
    for one in found:
        linear = linear_of(kernel, one)
        a, b, c = (int(size) for size in linear.signature.grid)
        weight, bias, *_ = run_linear(GPU, linear, buffers, (), (a, b, c))
        np.testing.assert_array_equal(np.array(unpack(weight, F)).reshape(n, m), x.T @ g, str(one))
        np.testing.assert_array_equal(unpack(bias, F), old + g.sum(0), str(one))


def test_convolutions_are_right_in_every_way() -> None:
    """Rows of several loops, terms of several loops, windows that reach over the border."""
    batch, channels, height, width, out = 2, 3, 7, 5, 11
    image, weight = numbers(batch, channels, height, width), numbers(out, channels, 3, 3, seed=1)
    want = np.einsum("bcyxpq,ocpq->boyx", windows(image), weight)
    kernel = convolution(batch, channels, height, width, out)
    found = candidates_of(kernel)
    assert found[0].name == "block"
    for one in found:
        (got,) = run(linear_of(kernel, one), [want.size], image, weight)
        np.testing.assert_array_equal(got.reshape(want.shape), want, str(one))


@pytest.mark.parametrize("lanes", [2, 32, 256])
@pytest.mark.parametrize(("rows", "columns"), [(5, 67), (1, 1009), (7, 11), (3, 32), (37, 13)])
def test_rows_are_right_in_every_way(rows: int, columns: int, lanes: int) -> None:
    """Two reductions that need each other and results per element and per row; many threads combine in two steps."""
    x = numbers(rows, columns)
    less = x - x.max(1, keepdims=True)
    target = replace(TARGET, block_threads=lanes)
    found = candidates_of(normalised(rows, columns), target)
    assert "team" in {one.name for one in found}
    for one in found:
        values, totals = run(linear_of(normalised(rows, columns), one, target), [rows * columns, rows], x)
        np.testing.assert_array_equal(totals, less.sum(1), str(one))
        np.testing.assert_array_equal(values.reshape(rows, columns), less * less.sum(1, keepdims=True), str(one))


COMBINE = {Ops.ADD: np.add, Ops.MAX: np.maximum, Ops.MIN: np.minimum, Ops.AND: np.bitwise_and, Ops.OR: np.bitwise_or}


@pytest.mark.parametrize("op", COMBINE)
def test_threads_past_the_end_of_a_row_change_nothing(op: Ops) -> None:
    """They combine what the op starts from: 0 would be wrong for most."""
    rows, columns, dtype = 3, 41, dtypes.int32
    i, j = UOp.range(rows, 0), UOp.range(columns, 1)
    x = np.random.default_rng(3).integers(1, 1 << 20, (rows, columns)) * (-1 if op in (Ops.MAX, Ops.OR) else 1)
    value = load(param(1, dtype, rows * columns), at((i, j), (rows, columns)))
    kernel = sink(store(param(0, dtype, rows), i, reduce(value, j, op=op)))
    for one in candidates_of(kernel):
        (got,) = run(linear_of(kernel, one), [rows], x, dtype=dtype)
        np.testing.assert_array_equal(got, COMBINE[op].reduce(x, 1), str(one))


def test_the_order_of_a_shared_sum_follows_from_sizes_alone() -> None:
    """Each thread adds every 32nd element, then the parts are added from the first thread to the last."""
    columns = 101
    j = UOp.range(columns, 0)
    kernel = sink(store(param(0, F, 1), ix.const(0), reduce(load(param(1, F, columns), j), j)))
    x = np.random.default_rng(5).standard_normal(columns).astype(np.float32)
    want = np.float32(0)
    for thread in range(32):
        part = np.float32(0)
        for value in x[thread::32]:
            part += value
        want += part
    team = next(one for one in candidates_of(kernel) if one.name == "team")
    for most in ((1, 1, 1), (1 << 20, 65535, 65535)):
        (got,) = run(linear_of(kernel, team, replace(TARGET, max_grid=most)), [1], x)
        assert got[0] == want


def scattered_copy(*shape: int) -> UOp:
    """x with its axes in the opposite order: loops that do not become one."""
    loops = [UOp.range(size, axis) for axis, size in enumerate(shape)]
    size = math.prod(shape)
    value = load(param(1, F, size), at(loops[::-1], shape[::-1]))
    return sink(store(param(0, F, size), at(loops, shape), value))


@pytest.mark.parametrize("most", [(99, 99, 99), (2, 3, 4), (1, 1, 1)])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_any_number_of_loops_lies_in_the_grid(dims: int, most: tuple[int, int, int]) -> None:
    """Five loops in up to three dimensions; a dimension that is longer than the grid is walked in steps."""
    shape = (3, 2, 5, 7, 11)
    x = numbers(*shape[::-1])
    target = replace(TARGET, grid_dims=dims, max_grid=most)
    linear = linear_of(scattered_copy(*shape), None, target)
    assert all(a <= b for a, b in zip(linear.signature.grid, most, strict=True))
    (got,) = run(linear, [x.size], x)
    np.testing.assert_array_equal(got.reshape(shape), x.transpose())


@pytest.mark.parametrize("most", [(1 << 20, 65535, 65535), (2, 1, 1)])
@pytest.mark.parametrize("name", ["block", "team"])
def test_tiles_and_rows_beyond_the_grid_are_walked_in_steps(name: str, most: tuple[int, int, int]) -> None:
    """Shared memory is filled anew in each step, and nobody overwrites what another thread still reads."""
    n, m, depth = 17, 13, 19
    a, b = numbers(n, depth), numbers(depth, m, seed=1)
    target = replace(TARGET, max_grid=most)
    for one in candidates_of(matmul(n, m, depth), target):
        if one.name == name:
            (got,) = run(linear_of(matmul(n, m, depth), one, target), [n * m], a, b)
            np.testing.assert_array_equal(got.reshape(n, m), a @ b, str(one))


def batched(batch: int, n: int, m: int, depth: int) -> UOp:
    """Products of matrices beside each other, of half-precision numbers."""
    z, i, j, k = (UOp.range(size, axis) for axis, size in enumerate((batch, n, m, depth)))
    half = dtypes.float16
    a = load(param(1, half, batch * n * depth), at((z, i, k), (batch, n, depth))).cast(F)
    b = load(param(2, half, batch * depth * m), at((z, k, j), (batch, depth, m))).cast(F)
    return sink(store(param(0, half, batch * n * m), at((z, i, j), (batch, n, m)), reduce(a * b, k).cast(half)))


def test_batches_of_halves() -> None:
    """What lies in shared memory is as narrow as in memory, and each batch is a place in the grid."""
    batch, n, m, depth = 3, 11, 13, 29
    a, b = numbers(batch, n, depth), numbers(batch, depth, m, seed=1)
    kernel = batched(batch, n, m, depth)
    one = next(one for one in candidates_of(kernel) if one.name == "block")
    linear = linear_of(kernel, one)
    assert {u.dtype for u in linear.uops if u.op is Ops.LOCAL} == {dtypes.float16}
    (got,) = run(linear, [batch * n * m], a, b, dtype=dtypes.float16)
    np.testing.assert_array_equal(got.reshape(batch, n, m), a @ b)


@pytest.mark.parametrize("lanes", [32, 256])
@pytest.mark.parametrize("room", [0, 64, 1024, 48 << 10])
def test_shared_memory_is_no_more_than_there_is(room: int, lanes: int) -> None:
    """With little of it tiles are small; with none there are no tiles and no teams that share a sum."""
    target = replace(TARGET, shared_memory=room, block_threads=lanes)
    for kernel in (matmul(64, 64, 64), normalised(8, 64)):
        for one in candidates_of(kernel, target):
            uops = linear_of(kernel, one, target).uops
            used = sum(u.arg.size * u.dtype.itemsize for u in uops if u.op is Ops.LOCAL)
            assert used <= room, one


@pytest.mark.parametrize("most", [(99, 99, 99), (2, 2, 2)])
@pytest.mark.parametrize("dims", [1, 2, 3])
def test_loops_of_symbolic_sizes_lie_in_the_grid(dims: int, most: tuple[int, int, int]) -> None:
    """Five loops, three of them of n turns, in up to three dimensions."""
    n, shape = UOp.variable("n", 1, 7), (7, 3, 7, 2, 7)
    place = at([UOp.range(size, axis) for axis, size in enumerate((n, 3, n, 2, n))], shape)
    size = math.prod(shape)
    kernel = sink(store(param(0, F, size), place, load(param(1, F, size), place) * 2.0))
    x = numbers(*shape)
    linear = linear_of(kernel, None, replace(TARGET, grid_dims=dims, max_grid=most))
    for turns in (1, 3, 7):
        (got,) = run(linear, [size], x, n=turns)
        want = np.zeros_like(x)
        inside = np.s_[:turns, :, :turns, :, :turns]
        want[inside] = x[inside] * 2
        np.testing.assert_array_equal(got.reshape(shape), want)


@pytest.mark.parametrize("n", [1, 2, 31, 32, 33, 100])
def test_symbolic_sizes_in_groups(n: int) -> None:
    """A row of n elements, in results and in sums, for every n."""
    size, columns = UOp.variable("n", 1, 100), 100
    i = UOp.range(3, 0)
    j, k = UOp.range(size, 1), UOp.range(size, 2)
    x = param(2, F, 3 * columns)
    total = reduce(load(x, at((i, k), (3, columns))), k)
    value = load(x, at((i, j), (3, columns))) + total
    kernel = sink(store(param(0, F, 3 * columns), at((i, j), (3, columns)), value), store(param(1, F, 3), i, total))
    data = numbers(3, columns)
    want = np.zeros_like(data)
    want[:, :n] = data[:, :n] + data[:, :n].sum(1, keepdims=True)
    found = candidates_of(kernel)
    assert [one.name for one in found] == ["team", "local"]
    for one in found:
        values, totals = run(linear_of(kernel, one), [3 * columns, 3], data, n=n)
        np.testing.assert_array_equal(values.reshape(3, columns), want)
        np.testing.assert_array_equal(totals, data[:, :n].sum(1))
    (copied,) = run(linear_of(sink(store(param(0, F, columns), j, load(param(1, F, columns), j) * 2.0))), [columns],
                    data[0], n=n)  # fmt: skip
    np.testing.assert_array_equal(copied[:n], data[0, :n] * 2)
    assert not copied[n:].any()


def test_a_result_that_the_group_still_reads_is_not_shared_out() -> None:
    """A row's number is replaced in the kernel that reads it for each element: one thread does all of the row."""
    rows, columns = 4, 9
    i, j = UOp.range(rows, 0), UOp.range(columns, 1)
    scale = param(0, F, rows)
    old = load(scale, i)
    each = load(param(2, F, rows * columns), at((i, j), (rows, columns))) * old
    kernel = sink(store(param(1, F, rows * columns), at((i, j), (rows, columns)), each), store(scale, i, old + 1.0))
    assert [one.name for one in candidates_of(kernel)] == ["local"]
    x, old = numbers(rows, columns), numbers(rows, seed=1)
    buffers = [pack(old.tolist(), F), bytes(4 * x.size), pack(x.ravel().tolist(), F)]
    scales, values, _ = (np.array(unpack(data, F)) for data in run_linear(GPU, linear_of(kernel), buffers))
    np.testing.assert_array_equal(scales, old + 1)
    np.testing.assert_array_equal(values.reshape(x.shape), x * old[:, None])


CHOICES = {
    "product": (matmul(512, 512, 512), "block"),
    "convolution": (convolution(8, 64, 28, 28, 64), "block"),
    "rows": (normalised(4096, 4096), "team"),
    "short rows": (normalised(65536, 4), "local"),
    "copy": (scattered_copy(64, 3, 64), "local"),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_way_that_suits_a_kernel_is_chosen(name: str) -> None:
    """By the costs of the Target's groups alone."""
    kernel, wanted = CHOICES[name]
    assert [one.name for one in choose(collapse(kernel), TARGET)[1]] == [wanted]


@pytest.mark.parametrize(("along", "wanted"), [(1, "team"), (0, "local")])
def test_sums_of_rows_are_shared_and_sums_of_columns_are_not(along: int, wanted: str) -> None:
    """Either way neighbouring threads read neighbouring elements."""
    n = 4096
    i, j = UOp.range(n, 0), UOp.range(n, 1)
    place = at((i, j) if along else (j, i), (n, n))
    kernel = sink(store(param(0, F, n), i, reduce(load(param(1, F, n * n), place), j)))
    assert [one.name for one in choose(collapse(kernel), TARGET)[1]] == [wanted]


def test_a_search_finds_other_ways() -> None:
    """First the ways that cost least, then tiles that differ from a good one in one group of numbers."""
    kernel = collapse(matmul(64, 64, 64))
    first = list(firsts(kernel, TARGET))
    assert first[0] == choose(kernel, TARGET)[1]
    assert first[:12] == [actions for _, actions in grid.thread_block_kernels(with_gaps(kernel), TARGET)]
    for (other,) in neighbours(first[0], kernel, TARGET):
        assert sum(a != b for a, b in zip(other.amounts, first[0][0].amounts, strict=True)) == 1
    one, other = parse("block(0+1, 4x8, 1x1, 32), block(0+1, 4x8, 2x1, 32)")
    assert (other,) in list(neighbours((one,), kernel, TARGET))


def test_an_action_that_a_kernel_does_not_allow_is_refused() -> None:
    """The error says which."""
    with pytest.raises(
        ActionError, match=r"team\(0, 32\): the kernel cannot be computed so in thread blocks of this Target"
    ):
        linear_of(scattered_copy(5, 7), parse("team(0, 32)")[0])


# A barrier that is left out


def without(linear: Linear, number: int) -> Linear:
    """A kernel without one of its barriers, and what refers to it."""
    gone = [u for u in linear.uops if u.op is Ops.BARRIER][number]
    return replace(linear, uops=tuple(u for u in linear.uops if u is not gone))


Made = tuple[Linear, list[int], list[Array]]  # a kernel, the sizes of its outputs, its inputs


def tiled() -> Made:
    """A product of matrices with several blocks of terms."""
    kernel = matmul(19, 23, 37)
    one = next(a for a in candidates_of(kernel) if a.name == "block" and a.amounts[2] == (16,))
    return linear_of(kernel, one), [19 * 23], [numbers(19, 37), numbers(37, 23, seed=1)]


def in_steps() -> Made:
    """Rows that one group computes one after another."""
    kernel, target = normalised(5, 67), replace(TARGET, max_grid=(1, 1, 1))
    one = next(a for a in candidates_of(kernel, target) if a.name == "team")
    return linear_of(kernel, one, target), [5 * 67, 5], [numbers(5, 67)]


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("make", [tiled, in_steps])
def test_a_barrier_that_is_left_out_is_found(make: Callable[[], Made], number: int) -> None:
    """Neither the wait before shared memory is read nor the one before it is filled again can be spared."""
    linear, outputs, inputs = make()
    run(linear, outputs, *inputs)
    with pytest.raises(GraphError, match="a store or a barrier is missing|a barrier is missing"):
        run(without(linear, number), outputs, *inputs)


def test_tiles_wait_twice_for_each_block_of_terms() -> None:
    """Once both operands are there, and once everybody has read them; a single block is not overwritten."""
    several, _, _ = tiled()
    kinds = [u.op for u in several.uops if u.op is Ops.BARRIER or (u.op is Ops.RANGE and u.arg.kind is AxisKind.LOOP)]
    assert kinds.count(Ops.BARRIER) == 2
    kernel = matmul(32, 32, 8)
    single = linear_of(kernel, next(a for a in candidates_of(kernel) if a.name == "block"))
    assert sum(u.op is Ops.BARRIER for u in single.uops) == 1


# Source


CUDA = Dialect(
    kernel='extern "C" __global__ void', function="__device__ inline", packed=False, restrict="__restrict__",
    group="blockIdx.{axis}", thread="threadIdx.x", shared="__shared__ ", barrier="__syncthreads();",
    types={**C_TYPES, dtypes.bool: "bool"},
)  # fmt: skip
OPENCL = Dialect(
    kernel="__kernel void", packed=False, pointer="__global ", group="get_group_id({dim})", thread="get_local_id(0)",
    shared="__local ", barrier="barrier(CLK_LOCAL_MEM_FENCE);", infinity="INFINITY", nan="NAN",
    types={**C_TYPES, dtypes.index: "long", dtypes.bool: "bool"},
)  # fmt: skip


@pytest.mark.parametrize("language", ["cu", "cl"])
@pytest.mark.parametrize("name", ["matmul", "softmax", "elementwise"])
def test_source_is_as_the_golden_file_says(name: str, language: str, golden: Callable[[str, str], None]) -> None:
    """A tile, a team and threads on their own in the words of two languages."""
    linear = {
        "matmul": lambda: linear_of(matmul(301, 203, 101)),
        "softmax": lambda: linear_of(normalised(301, 203)),
        "elementwise": lambda: linear_of(scattered_copy(13, 5, 37)),
    }[name]()
    golden(f"{name}.{language}", CStyleRenderer({"cu": CUDA, "cl": OPENCL}[language]).render(linear).text)


def test_helpers_have_no_words_of_other_languages() -> None:
    """C for thread blocks is often read as C++, in which some names are taken."""
    linear = linear_of(
        batched(3, 33, 35, 29), next(a for a in candidates_of(batched(3, 33, 35, 29)) if a.name == "block")
    )
    words = set(re.findall(r"[a-z_]+", CStyleRenderer(CUDA).render(linear).text))
    assert not words & {"new", "delete", "class", "this", "template", "operator", "private", "public", "typename"}
