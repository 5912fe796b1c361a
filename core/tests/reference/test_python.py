"""PYTHON runs every instruction of the linear form, and says where a kernel is wrong."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tinygraft.conformance.kernels import load, pack, param, programs, run_kernel, run_linear, run_map, store, unpack
from tinygraft.dtype import dtypes
from tinygraft.errors import CompileError, DeviceMemoryError, GraphError, IndexOutOfRange
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop.ops import AxisKind, LocalArg, Ops, ReduceArg, RegArg
from tinygraft.uop.stages import Linear, Param, Signature, Source
from tinygraft.uop.uop import UOp

PYTHON = PythonBackend("PYTHON", 0)
INT = dtypes.int32


def const(value: int) -> UOp:
    """An index."""
    return UOp.const(dtypes.index, value)


def end(r: UOp) -> UOp:
    """The end of a loop."""
    return UOp(Ops.END, src=(r,))


def linear(uops: Sequence[UOp], sizes: Sequence[int], chunks: int = 1, **signature: object) -> Linear:
    """A linear form over int buffers of these sizes, the first one written."""
    params = tuple(Param(INT, size, slot == 0) for slot, size in enumerate(sizes))
    return Linear("k", tuple(uops), Signature(params, **signature), Target(chunks=chunks))  # type: ignore[arg-type]


def run(
    form: Linear, *buffers: Sequence[int], variables: Sequence[int] = (), grid: tuple[int, int, int] = (1, 1, 1)
) -> list[int]:
    """What the first buffer holds after a launch."""
    return unpack(run_linear(PYTHON, form, [pack(b, INT) for b in buffers], variables, grid)[0], INT)


def reversing(barrier: bool = True, last: int = 3) -> Linear:
    """Four threads that write their input to shared memory and read that of the thread opposite."""
    lane = UOp.range(4, 0, AxisKind.THREAD)
    out, data, shared = param(0, INT, 4), param(1, INT, 4), UOp(Ops.LOCAL, INT, (), LocalArg(0, 4, True))
    value, other = load(data, lane), const(last) - lane
    put = store(shared, lane, value)
    wait = UOp(Ops.BARRIER, src=(put,))
    got = load(UOp(Ops.AFTER, INT, (shared, wait)), other)
    uops = [
        const(4),
        const(last),
        out,
        data,
        shared,
        lane,
        value,
        put,
        wait,
        got.src[0],
        other,
        got,
        store(out, lane, got),
    ]
    return linear([u for u in uops if barrier or u is not wait], (4, 4), block_threads=4)


def test_threads_meet_at_a_barrier() -> None:
    """What one thread wrote to shared memory before a barrier every thread of the group reads after it."""
    assert run(reversing(), [0] * 4, [5, 6, 7, 8]) == [8, 7, 6, 5]


def test_a_missing_barrier_is_found() -> None:
    """Reading shared memory that nobody has written yet is an error that names kernel, memory and index."""
    with pytest.raises(GraphError, match="kernel k reads local0 at index 3 before anything was written there; a store "
                                         "or a barrier is missing"):  # fmt: skip
        run(reversing(barrier=False), [0] * 4, [5, 6, 7, 8])


def in_turns(first: bool = True, second: bool = True, turns: int = 2) -> Linear:
    """Three threads that in each turn write to shared memory and read what the next thread wrote."""
    lane, turn = UOp.range(3, 0, AxisKind.THREAD), UOp.range(turns, 1)
    out, shared = param(0, INT, 3 * turns), UOp(Ops.LOCAL, INT, (), LocalArg(0, 3, True))
    value = (turn * 3 + lane).cast(INT)
    put = store(shared, lane, value)
    wait = UOp(Ops.BARRIER, src=(put,))
    beside = (lane + 1) % 3
    got = load(UOp(Ops.AFTER, INT, (shared, wait)), beside)
    at = turn * 3 + lane
    uops = [const(3), const(turns), const(1), out, shared, lane, beside.src[0], beside, turn, at.src[0], at, value, put,
            wait, got.src[0], got, store(out, at, got), UOp(Ops.BARRIER, src=(wait,)), end(turn)]  # fmt: skip
    left_out = [u for u in uops if u.op is Ops.BARRIER and not (first, second)[u is not wait]]
    return linear([u for u in uops if u not in left_out], (3 * turns,), block_threads=3)


def test_memory_is_shared_again_after_a_second_barrier() -> None:
    """Who fills shared memory in each turn of a loop waits twice in it: once before it is read, once after."""
    assert run(in_turns(turns=3), [0] * 9) == [1, 2, 0, 4, 5, 3, 7, 8, 6]


def test_memory_that_is_read_before_all_have_written_is_found() -> None:
    """Also where this thread happens to run after the one that wrote."""
    with pytest.raises(GraphError, match="kernel k reads local0 at index 1 before anything was written there"):
        run(in_turns(first=False), [0] * 6)
    with pytest.raises(GraphError, match="kernel k: thread 1 reads local0 at index 0, which thread 0 wrote after the "
                                         "same barrier; a barrier is missing"):  # fmt: skip
        run(reading_backwards(), [0] * 2)


def reading_backwards() -> Linear:
    """Two threads that write to shared memory; each reads what the first one wrote."""
    lane, out, shared = (
        UOp.range(2, 0, AxisKind.THREAD),
        param(0, INT, 2),
        UOp(Ops.LOCAL, INT, (), LocalArg(0, 2, True)),
    )
    value = lane.cast(INT)
    put = store(shared, lane, value)
    got = load(UOp(Ops.AFTER, INT, (shared, put)), const(0))
    return linear(
        [const(2), const(0), out, shared, lane, value, put, got.src[0], got, store(out, lane, got)],
        (2,),
        block_threads=2,
    )


def test_memory_that_is_overwritten_before_all_have_read_is_found() -> None:
    """A loop that does not wait at its end: the next turn writes where another thread read in this one."""
    with pytest.raises(GraphError, match="kernel k: thread 1 writes local0 at index 1, which thread 0 read after the "
                                         "same barrier; a barrier is missing"):  # fmt: skip
        run(in_turns(second=False), [0] * 6)


def test_two_threads_that_write_one_element_are_found() -> None:
    """What stays there is the value of either."""
    lane, out, shared = (
        UOp.range(2, 0, AxisKind.THREAD),
        param(0, INT, 1),
        UOp(Ops.LOCAL, INT, (), LocalArg(0, 1, True)),
    )
    value = lane.cast(INT)
    uops = [const(2), const(0), out, shared, lane, value, store(shared, const(0), value)]
    with pytest.raises(
        GraphError, match="kernel k: thread 1 writes local0 at index 0, which thread 0 wrote after the same"
    ):
        run(linear(uops, (1,), block_threads=2), [0])


def test_shared_memory_has_bounds() -> None:
    """An index outside scratch memory is an error."""
    with pytest.raises(IndexOutOfRange, match="kernel k accesses local0 at index 4, which has 4 elements"):
        run(reversing(last=4), [0] * 4, [5, 6, 7, 8])


def test_a_barrier_that_not_all_threads_reach_is_found() -> None:
    """A barrier in a loop that runs longer for some threads stops the launch with how many threads are waiting."""
    lane = UOp.range(3, 0, AxisKind.THREAD)
    turns = UOp.range(lane, 1)
    out = param(0, INT, 3)
    put = store(out, lane, UOp.const(INT, 1))
    uops = [const(3), UOp.const(INT, 1), out, lane, put, turns, UOp(Ops.BARRIER, src=(put,)), end(turns)]
    with pytest.raises(GraphError, match="kernel k: 1 of 3 threads finished while the others wait at a barrier"):
        run(linear(uops, (3,), block_threads=3), [0] * 3)


@pytest.mark.parametrize("index", [-1, 4, 100])
def test_an_access_outside_a_buffer_is_found(index: int) -> None:
    """A load or store outside its buffer is an error that names kernel, buffer, index and size, -1 too."""
    where = f"kernel k accesses data{{}} at index {index}, which has 4 elements; the index or its gate is wrong"
    out, data, at = param(0, INT, 4), param(1, INT, 4), const(index)
    read, written = load(data, at), store(out, at, UOp.const(INT, 1))
    with pytest.raises(IndexOutOfRange, match=where.format(1)):
        run(linear([at, out, data, read, store(out, const(0), read)], (4, 4)), [0] * 4, [0] * 4)
    with pytest.raises(IndexOutOfRange, match=where.format(0)):
        run(linear([at, UOp.const(INT, 1), out, written], (4,)), [0] * 4)


def test_a_closed_gate_touches_no_memory() -> None:
    """A gated load outside its buffer gives 0 and a gated store outside it does nothing while the gate is closed."""
    r = UOp.range(6, 0)
    out, data, size = param(0, INT, 4), param(1, INT, 3), const(6)
    gate = r < 3
    read = UOp(Ops.LOAD, INT, (data, r, gate))
    inside = r < 4
    write = UOp(Ops.STORE, src=(out, r, read, inside))
    uops = [size, const(3), const(4), out, data, r, gate, read, inside, write, end(r)]
    assert run(linear(uops, (4, 3)), [9] * 4, [1, 2, 3]) == [1, 2, 3, 0]


def test_vectors_and_unrolled_copies_are_all_there() -> None:
    """A node over a VECTOR and an UNROLL range stands for each lane of each copy."""
    v, u = UOp.range(4, 0, AxisKind.VECTOR), UOp.range(2, 1, AxisKind.UNROLL)
    out, data = param(0, INT, 8), param(1, INT, 8)
    row = u * 4
    at = row + v
    value = load(data, at)
    more = value * 10
    uops = [const(4), const(2), UOp.const(INT, 10), out, data, v, u, row, at, value, more, store(out, at, more)]
    assert run(linear(uops, (8, 8)), [0] * 8, range(8)) == [10 * x for x in range(8)]


def test_registers_have_a_copy_for_each_lane_and_unrolled_value() -> None:
    """ACCUM combines each copy of the value into the register's copy of the same ranges, LANES folds what is left."""
    r, v, u = UOp.range(3, 0), UOp.range(4, 1, AxisKind.VECTOR), UOp.range(2, 2, AxisKind.UNROLL)
    out, data = param(0, INT, 2), param(1, INT, 24)
    register = UOp(Ops.REG, INT, (UOp.const(INT, 100), v, u), RegArg(0))
    at = u * 12 + r * 4 + v
    value = load(data, at)
    total = UOp(Ops.LANES, INT, (UOp(Ops.GET, INT, (register,)), v), ReduceArg(Ops.ADD))
    uops = [const(3), const(4), const(2), const(12), UOp.const(INT, 100), out, data, v, u, register, r,
            at.src[0].src[0], at.src[0].src[1], at.src[0], at, value, UOp(Ops.ACCUM, INT, (register, value), Ops.ADD),
            end(r), total.src[0], total, store(out, u, total)]  # fmt: skip
    assert run(linear(uops, (2, 24)), [0] * 2, range(24)) == [400 + sum(range(12)), 400 + sum(range(12, 24))]


def float_sum(values: Sequence[float], kind: AxisKind) -> float:
    """The sum of values in one instruction over a VECTOR or UNROLL range."""
    f, many = dtypes.float32, len(values)
    r = UOp.range(many, 0, kind)
    out, data = param(0, f, 1), param(1, f, many)
    value = load(data, r)
    register = UOp(Ops.REG, f, (UOp.const(f, 0.0),), RegArg(0))
    total = (
        UOp(Ops.LANES, f, (value, r), ReduceArg(Ops.ADD)) if kind is AxisKind.VECTOR else UOp(Ops.GET, f, (register,))
    )
    uops = [const(many), const(0), UOp.const(f, 0.0), out, data, r, value]
    if kind is AxisKind.UNROLL:
        uops += [register, UOp(Ops.ACCUM, f, (register, value), Ops.ADD)]
    form = Linear(
        "k",
        (*uops, total, store(out, const(0), total)),
        Signature((Param(f, 1, True), Param(f, many, False))),
        Target(),
    )
    return float(unpack(run_linear(PYTHON, form, [bytes(4), pack(values, f)])[0], f)[0])


def test_unrolled_values_are_accumulated_in_order() -> None:
    """A register without copies takes the copies of an unrolled value one after another, the lowest first."""
    assert float_sum([2.0**24, 1.0, 1.0, -(2.0**24)], AxisKind.UNROLL) == 0.0
    assert float_sum([1.0, 1.0, 2.0**24, -(2.0**24)], AxisKind.UNROLL) == 2.0


def test_lanes_are_folded_by_halves() -> None:
    """LANES combines lane i with lane i + W/2; the middle one of an odd number waits."""
    assert float_sum([2.0**24, 1.0, -(2.0**24), 1.0], AxisKind.VECTOR) == 2.0
    assert float_sum([2.0**24, 1.0, 1.0, -(2.0**24)], AxisKind.VECTOR) == 1.0
    assert float_sum([2.0**24, 1.0, -(2.0**24)], AxisKind.VECTOR) == 1.0
    assert float_sum([7.0], AxisKind.VECTOR) == 7.0


def test_a_vector_does_not_go_into_one_register() -> None:
    """Accumulating a vector into a register without lanes is an error that names LANES."""
    v = UOp.range(4, 0, AxisKind.VECTOR)
    data, register = param(1, INT, 4), UOp(Ops.REG, INT, (UOp.const(INT, 0),), RegArg(0))
    value = load(data, v)
    uops = [const(4), UOp.const(INT, 0), data, v, register, value, UOp(Ops.ACCUM, INT, (register, value), Ops.ADD)]
    with pytest.raises(GraphError, match="kernel k: a vector over axis 0 is accumulated into register 0, which has no "
                                         "lanes; use LANES"):  # fmt: skip
        PYTHON.renderer.render(linear(uops, (1, 4)))


def meeting(kind: AxisKind, reads: bool = False) -> Linear:
    """Three threads, groups or parts that all use the first element of a buffer."""
    r = UOp.range(3, 0, kind)
    out, one = param(0, INT, 4), UOp.const(INT, 1)
    last = [end(r)] if kind is AxisKind.PARALLEL else []
    signature = {
        AxisKind.THREAD: {"block_threads": 3},
        AxisKind.GRID: {"grid": (3, 1, 1)},
        AxisKind.PARALLEL: {"chunked": True},
    }
    if not reads:
        return linear([const(3), const(0), one, out, r, store(out, const(0), one), *last], (4,), 3, **signature[kind])
    got = load(out, const(0))
    uops = [const(3), const(0), out, r, got, store(out, r, got), *last]
    return linear(uops, (4,), 3, **signature[kind])


@pytest.mark.parametrize(("kind", "first", "second"), [
    (AxisKind.THREAD, "thread 1 of group (0, 0, 0) in part 0", "thread 0 of group (0, 0, 0) in part 0"),
    (AxisKind.GRID, "thread 0 of group (1, 0, 0) in part 0", "thread 0 of group (0, 0, 0) in part 0"),
    (AxisKind.PARALLEL, "thread 0 of group (0, 0, 0) in part 1", "thread 0 of group (0, 0, 0) in part 0"),
])  # fmt: skip
def test_threads_that_meet_in_a_buffer_are_found(kind: AxisKind, first: str, second: str) -> None:
    """One writes what the other writes or reads: on a device either may come first."""
    grid = (3, 1, 1) if kind is AxisKind.GRID else (1, 1, 1)
    with pytest.raises(GraphError) as error:
        run(meeting(kind), [0] * 4, grid=grid)
    clash = "index 0, which {} wrote; nothing says which of them comes first"
    assert str(error.value) == f"kernel k: {first} writes data0 at {clash.format(second)}"
    with pytest.raises(GraphError) as error:
        run(meeting(kind, reads=True), [0] * 4, grid=grid)
    assert str(error.value) == f"kernel k: {first} reads data0 at {clash.format(second)}"


@pytest.mark.parametrize("chunks", [1, 2, 3, 7])
def test_parts_share_a_parallel_range(chunks: int) -> None:
    """However many parts there are, each turn of a PARALLEL loop runs once."""
    r = UOp.range(5, 0, AxisKind.PARALLEL)
    out = param(0, INT, 5)
    more = load(out, r) + 1
    uops = [const(5), UOp.const(INT, 1), out, r, more.src[0], more, store(out, r, more), end(r)]
    assert run(linear(uops, (5,), chunks, chunked=True), [10, 20, 30, 40, 50]) == [11, 21, 31, 41, 51]


def test_groups_know_their_place_in_the_grid() -> None:
    """A GRID range is the group's position along its dimension."""
    x, y, z = (UOp.range(n, i, AxisKind.GRID, i) for i, n in enumerate((2, 3, 4)))
    out = param(0, INT, 24)
    at = (z * 3 + y) * 2 + x
    value = (z * 100 + y * 10 + x).cast(INT)
    parts = [at.src[0].src[0].src[0], at.src[0].src[0], at.src[0], at, *value.src[0].src[0].src, value.src[0].src[0],
             value.src[0], value]  # fmt: skip
    uops = [const(2), const(3), const(4), const(100), const(10), out, x, y, z, *parts, store(out, at, value)]
    want = [i * 100 + j * 10 + k for i in range(4) for j in range(3) for k in range(2)]
    assert run(linear(uops, (24,), grid=(2, 3, 4)), [0] * 24, grid=(2, 3, 4)) == want


def test_variables_come_by_their_place_in_the_signature() -> None:
    """A launch gives variables in the order of the signature, and a loop may run to one."""
    n, m = UOp.variable("n", 1, 8), UOp.variable("m", 0, 9)
    r = UOp.range(n, 0)
    out = param(0, INT, 8)
    value = (m * 10 + r).cast(INT)
    uops = [const(10), n, m, out, r, value.src[0].src[0], value.src[0], value, store(out, r, value), end(r)]
    assert run(linear(uops, (8,), variables=("m", "n")), [0] * 8, variables=(4, 3)) == [40, 41, 42, 0, 0, 0, 0, 0]


def test_private_memory_belongs_to_one_thread() -> None:
    """Each thread has its own copy of scratch memory that is not shared."""
    lane = UOp.range(3, 0, AxisKind.THREAD)
    out, local = param(0, INT, 3), UOp(Ops.LOCAL, INT, (), LocalArg(0, 1, False))
    put = store(local, const(0), lane.cast(INT))
    wait = UOp(Ops.BARRIER, src=(put,))
    got = load(UOp(Ops.AFTER, INT, (local, wait)), const(0))
    uops = [const(3), const(0), out, local, lane, lane.cast(INT), put, wait, got.src[0], got, store(out, lane, got)]
    assert run(linear(uops, (3,), block_threads=3), [9] * 3) == [0, 1, 2]


def test_a_lane_range_must_cover_the_group() -> None:
    """Threads past the end of a THREAD range would compute nonsense, so such a kernel is refused."""
    lane = UOp.range(3, 0, AxisKind.THREAD)
    with pytest.raises(GraphError, match="kernel k: a THREAD range counts to 3 in groups of 4 threads"):
        PYTHON.renderer.render(linear([const(3), lane], (), block_threads=4))


def test_an_op_of_another_stage_is_refused() -> None:
    """A node that is no instruction of the linear form is named."""
    r = UOp.range(3, 0)
    reduce = UOp(Ops.REDUCE, INT, (UOp.const(INT, 1), r), ReduceArg(Ops.ADD))
    with pytest.raises(GraphError, match="kernel k: REDUCE is not an instruction of the linear form"):
        PYTHON.renderer.render(linear([r, reduce], ()))


def test_buffers_must_fit_the_signature() -> None:
    """A launch with too few buffers, or one that is too small, says what the kernel takes."""
    form = linear(
        [const(0), param(0, INT, 4), UOp.const(INT, 1), store(param(0, INT, 4), const(0), UOp.const(INT, 1))], (4,)
    )
    (program,) = programs(PYTHON, [form])
    with pytest.raises(GraphError, match="kernel k takes 16 bytes as data0, the buffer has 12"):
        program.launch([PYTHON.allocator.alloc(12)], [], (1, 1, 1))
    with pytest.raises(GraphError, match="kernel k takes 1 buffers, got 0"):
        program.launch([], [], (1, 1, 1))


def test_an_empty_buffer_and_an_empty_loop_run() -> None:
    """A kernel over no elements runs and touches nothing."""
    r = UOp.range(0, 0)
    sink = UOp(Ops.SINK, src=(store(param(0, INT, 0), r, UOp.const(INT, 1)),))
    assert run_kernel(PYTHON, sink, [b""]) == [b""]


def test_text_that_is_no_python_is_refused_with_pythons_words() -> None:
    """The compiler raises CompileError with the kernel's name and what Python said."""
    with pytest.raises(CompileError, match=r"Python refused kernel k: .*line 1"):
        PYTHON.compiler.compile(Source("k", "def (:", "python", Signature(())))


def test_memory_that_the_process_has_not_is_an_error_of_the_device() -> None:
    """An allocation that cannot be had raises DeviceMemoryError with its size."""
    with pytest.raises(DeviceMemoryError, match=f"the process has no room for a buffer of {1 << 60} bytes"):
        PYTHON.allocator.alloc(1 << 60)


def test_the_text_is_readable() -> None:
    """A kernel's text has its name and actions first, named buffers, and one statement a line."""
    r = UOp.range(4, 0)
    out, data = param(0, dtypes.float32, 4), param(1, dtypes.float32, 4)
    double = load(data, r) * 2.0
    uops = (
        const(4),
        UOp.const(dtypes.float32, 2.0),
        out,
        data,
        r,
        double.src[0],
        double,
        store(out, r, double),
        end(r),
    )
    form = Linear("E_4", uops, Signature((Param(dtypes.float32, 4, True), Param(dtypes.float32, 4, False))), Target())
    assert (
        PYTHON.renderer.render(replace(form, actions=("unroll 4",))).text
        == """\
# E_4: unroll 4
parts = 1
watched = []

def thread(data0, data1, part, parts, g0, g1, g2, lane):
    for r0 in range(4):
        x5 = data1[r0] if 0 <= r0 < 4 else outside('data1', r0, 4)
        x6 = f32(x5 * 2.0).value
        if not 0 <= r0 < 4: outside('data0', r0, 4)
        data0[r0] = x6
    return

def group(data0, data1, part, parts, g0, g1, g2):
    for _ in (thread(data0, data1, part, parts, g0, g1, g2, lane) for lane in range(1)):
        pass
"""
    )


def test_a_sum_of_halves_rounds_after_each_addition() -> None:
    """Half arithmetic is native on PYTHON: 2048 + 1 is 2048 again."""
    got = run_map(PYTHON, [lambda x, y: x + y + y], [(dtypes.float16, [2048.0]), (dtypes.float16, [1.0])])
    assert got == [[2048.0]]
