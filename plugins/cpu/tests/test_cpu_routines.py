"""The CPU's own routines: where they come from, their place in replays, any number of threads, and beside kernels."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, dtypes
from tinygraft.dtype import DType
from tinygraft.engine.routine_values import routine_values
from tinygraft.plugin import Routine
from tinygraft_cpu import extension, lapack, numpy_routines, routine_sources, routines
from tinygraft_cpu.program import NativeGraph, NativeRoutine

needs_ext = pytest.mark.needs("ext")
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def cpu() -> Iterator[None]:
    """All of this runs on the CPU."""
    with Context(DEV="CPU"):
        yield


def run(name: str, operands: Sequence[Array], options: tuple[int, ...], wanted: Sequence[tuple[Any, DType]],
        threads: int) -> list[Array]:  # fmt: skip
    """Results of a routine with some threads; `wanted` are their shapes and dtypes."""
    backend = Device["CPU"]
    kinds = {
        np.dtype("f4"): dtypes.float32, np.dtype("f8"): dtypes.float64, np.dtype("i4"): dtypes.int32,
        np.dtype("u8"): dtypes.uint64, np.dtype("u1"): dtypes.uint8, np.dtype("i8"): dtypes.int64,
    }  # fmt: skip
    given = tuple((kinds[x.dtype], x.shape) for x in operands)
    program = routines.program(Routine(name, options, given, tuple(range(len(wanted)))), threads)
    numpy_of = {dtype: kind for kind, dtype in kinds.items()}
    out = [backend.allocator.alloc(int(np.prod(shape)) * dtype.itemsize) for shape, dtype in wanted]
    memory = []
    for x in operands:
        memory.append(backend.allocator.alloc(x.nbytes))
        backend.allocator.copy_in(memory[-1], memoryview(np.ascontiguousarray(x)))
    program.launch([*out, *memory], [], (1, 1, 1))
    return [np.frombuffer(bytes(m.view), numpy_of[d]).reshape(s) for m, (s, d) in zip(out, wanted, strict=True)]


@needs_ext
@pytest.mark.parametrize("n", [1, 2, 33, 2999, 3001, 40_000])
def test_any_number_of_threads_gives_the_same_bits(n: int) -> None:
    """Of orders: rows shared by threads, and one row that all of them sort."""
    x = np.round(np.random.default_rng(n).standard_normal((2, n)) * 100).astype(np.float32)
    x[:, ::7] = np.nan
    k = max(1, n // 50)
    for name, options, size in (("sort", (0,), n), ("sort", (1,), n), ("topk", (k, 1), k), ("topk", (k, 0), k)):
        wanted = [((2, size), dtypes.float32), ((2, size), dtypes.int32)]
        first = run(name, [x], options, wanted, 1)
        for threads in (2, 3, 7):
            for one, other in zip(first, run(name, [x], options, wanted, threads), strict=True):
                assert one.tobytes() == other.tobytes(), (name, threads)


@needs_ext
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "u1", "i8", "u8"])
@pytest.mark.parametrize("descending", [0, 1])
def test_short_rows_in_order(kind: str, descending: int) -> None:
    """Every length at which a row is a few vectors, with as many equal numbers as there are: these keep their order."""
    for n in range(1, 133):
        rng = np.random.default_rng(n)
        x = rng.integers(0, max(2, n // 3), (3, n)).astype(kind)
        x[2] = rng.permutation(n)
        if kind[0] == "f":
            x[0, rng.random(n) < 0.2], x[1, rng.random(n) < 0.2] = np.nan, -np.inf
        elif kind == "i4":
            x[0] -= n // 6
        elif kind == "u8":
            x[0] += np.uint64(2**63 - n // 6)  # keys of all 64 bits
        order = np.argsort(x, 1, kind="stable")
        if descending:  # NaN is above all
            order = n - 1 - np.argsort(x[:, ::-1], 1, kind="stable")[:, ::-1]
        kinds = {"f4": dtypes.float32, "f8": dtypes.float64, "i4": dtypes.int32}
        kinds |= {"u1": dtypes.uint8, "i8": dtypes.int64, "u8": dtypes.uint64}
        values, indices = run("sort", [x], (descending,), [((3, n), kinds[kind]), ((3, n), dtypes.int32)], 1)
        np.testing.assert_array_equal(indices, order, err_msg=str(n))
        np.testing.assert_array_equal(values, np.take_along_axis(x, order, 1), err_msg=str(n))


@needs_ext
@pytest.mark.parametrize("kind", ["f4", "f8", "i4", "u1", "i8"])
@pytest.mark.parametrize("k", [1, 2, 10, 16, 17, 32, 33, 65, 300])
def test_the_first_of_each_row(k: int, kind: str) -> None:
    """topk of few and of many: rows in order either way, in none, all equal, with NaN and infinities; ties in order."""
    dtype = {"f4": dtypes.float32, "f8": dtypes.float64, "i4": dtypes.int32, "u1": dtypes.uint8, "i8": dtypes.int64}[
        kind
    ]
    chance, n = np.random.default_rng(k), 523
    rows = [
        np.arange(n) % 251,
        np.arange(n)[::-1] % 251,
        np.zeros(n),
        chance.integers(0, 9, n),
        np.arange(n) // 3 % 251,
    ]
    x = np.array([*rows, chance.permutation(n) % 251], kind)
    if kind[0] == "f":
        x = np.concatenate([x, x[3:]])
        x[-1, ::5], x[-2, ::7], x[-3] = np.nan, -np.inf, np.nan
        x[-2, 1::7], x[0, 7] = np.inf, -0.0
    for greatest in (0, 1):
        keys = np.where(np.isnan(x), np.inf, x) if kind[0] == "f" else x.astype(np.int64)
        nan = np.isnan(x) if kind[0] == "f" else np.zeros(x.shape, bool)
        places = np.broadcast_to(np.arange(n), x.shape)
        order = np.lexsort(
            (places, -keys if greatest else keys, nan != bool(greatest)) if greatest else (places, keys, nan)
        )
        wanted = [((len(x), k), dtype), ((len(x), k), dtypes.int32)]
        for threads in (1, 3):
            values, indices = run("topk", [x], (k, greatest), wanted, threads)
            np.testing.assert_array_equal(indices, order[:, :k])
            np.testing.assert_array_equal(values, np.take_along_axis(x, order[:, :k], 1))


@needs_ext
def test_one_row_by_chunks() -> None:
    """topk of a long line, whose chunks are put together; ties at the border go to the first."""
    x = np.zeros((1, 100_000), np.float32)
    x[0, 70_000:] = 1.0
    values, indices = run("topk", [x], (5, 1), [((1, 5), dtypes.float32), ((1, 5), dtypes.int32)], 3)
    assert values.tolist() == [[1.0] * 5] and indices.tolist() == [[70_000, 70_001, 70_002, 70_003, 70_004]]


@needs_ext
@pytest.mark.parametrize("n", [1, 2, 7, 16, 25, 60, 61, 64, 99, 125, 400, 512, 1000, 4097, 4500])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("rows", [5, 37])
def test_transforms(n: int, kind: str, rows: int) -> None:
    """Of all radices, by any number of threads, and there and back; long rows, and few of them, as matrices."""
    x = np.random.default_rng(n).standard_normal((rows, n)).astype(kind)
    dtype, bound = (dtypes.float32, 2e-5) if kind == "f4" else (dtypes.float64, 1e-13)
    half = [((rows, n // 2 + 1), dtype)] * 2
    parts = run("rfft", [x], (0,), half, 1)
    wanted = np.fft.rfft(x.astype(np.float64))
    np.testing.assert_allclose(parts[0] + 1j * parts[1], wanted, rtol=0, atol=bound * n)
    assert [p.tobytes() for p in run("rfft", [x], (0,), half, 3)] == [p.tobytes() for p in parts]
    (back,) = run("irfft", parts, (1, n), [((rows, n), dtype)], 2)
    np.testing.assert_allclose(back / n, x, rtol=0, atol=bound * 10)
    z = [x[..., None], x[::-1, :, None]]
    whole = [((rows, n, 1), dtype)] * 2
    both = run("fft", z, (0,), whole, 2)
    exact = np.fft.fft(x.astype(np.float64) + 1j * x[::-1])[..., None]
    np.testing.assert_allclose(both[0] + 1j * both[1], exact, rtol=0, atol=2 * bound * n)
    assert [p.tobytes() for p in run("fft", z, (0,), whole, 1)] == [p.tobytes() for p in both]
    hidden = x.copy()
    hidden[0] = np.nan  # rows do not concern each other
    found = run("rfft", [hidden], (0,), half, 2)
    assert [p[1:].tobytes() for p in found] == [p[1:].tobytes() for p in parts]


@needs_ext
@pytest.mark.parametrize("processor", [0, 1, 2])
@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("shape", [(3, 12, 5), (2, 35, 16), (1, 64, 41), (2, 1, 9), (1, 8, 33), (1, 11, 20)])
def test_transforms_of_columns(
    shape: tuple[int, ...], kind: str, processor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along an axis that is not the last, with a remainder of columns, by vectors of each size; rows too."""
    monkeypatch.setattr(routines, "PROCESSOR", processor)
    dtype, bound = (dtypes.float32, 2e-5) if kind == "f4" else (dtypes.float64, 1e-13)
    x, y = np.random.default_rng(3).standard_normal((2, *shape)).astype(kind)
    y[-1, :, -1] = np.inf  # columns do not concern each other
    with np.errstate(invalid="ignore"):
        exact = np.fft.fft(x.astype(np.float64) + 1j * y, axis=1)
    first = run("fft", [x, y], (0,), [(shape, dtype)] * 2, 1)
    for threads in (2, 5):
        assert [p.tobytes() for p in run("fft", [x, y], (0,), [(shape, dtype)] * 2, threads)] == [
            p.tobytes() for p in first
        ]
    with np.errstate(invalid="ignore"):
        found = first[0] + 1j * first[1]
    for part in (slice(0, -1), slice(-1, None)):
        wanted, got = exact[..., part], found[..., part]
        rows = slice(0, -1) if part.stop is None else slice(None)
        np.testing.assert_allclose(got[rows], wanted[rows], rtol=0, atol=bound * shape[1])
    assert not np.isfinite(found[-1, :, -1]).any()
    (back,) = run("irfft", [x[..., 0], y[..., 0]], (1, 2 * shape[1] - 1), [((shape[0], 2 * shape[1] - 1), dtype)], 2)
    parts = run("rfft", [back], (0,), [((shape[0], shape[1]), dtype)] * 2, 1)
    np.testing.assert_allclose(parts[0] / (2 * shape[1] - 1), x[..., 0], rtol=0, atol=10 * bound)


@needs_ext
def test_a_replay_stays_native() -> None:
    """Kernels and routines in one call of the native loop."""

    @TinyJit
    def step(x: Tensor) -> Tensor:
        values, _ = (x * 2).realize().sort()
        return (values + 1).realize()

    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((3, 40)).astype(np.float32)
        before = GlobalCounters.kernel_count
        np.testing.assert_array_equal(step(Tensor(x)).numpy(), np.sort(x * 2) + 1)
        if seed > 1:
            assert GlobalCounters.kernel_count - before == 3
    backend = Device["CPU"]
    routine = backend.routine(Routine("sort", (0,), ((dtypes.float32, (1, 4)),), (0,)))
    assert isinstance(routine, NativeRoutine)


BY_NUMPY: dict[str, Callable[[Tensor], list[Tensor]]] = {
    "cholesky": lambda a: [a.cholesky()],
    "solve": lambda a: [a.solve(a + 1)],
    "inverse": lambda a: [a.inv()],
    "eigh": lambda a: [a.eigh().eigenvalues],
    "eigvalsh": lambda a: [a.eigvalsh(), a.eigvalsh("U")],
    "svd": lambda a: [a.svd()[1]],
    "svdvals": lambda a: [a.svdvals()],
}


@pytest.mark.parametrize("name", BY_NUMPY)
def test_numpy_without_scipy(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy computes what LAPACK's functions do."""
    x = np.random.default_rng(1).standard_normal((3, 5, 5))
    a = Tensor(x @ x.transpose(0, 2, 1) + np.eye(5)).realize()
    wanted = [t.numpy() for t in BY_NUMPY[name](a)]
    known = routine_sources.sources() | dict.fromkeys(BY_NUMPY, "numpy")
    monkeypatch.setattr(routines, "sources", lambda: known)
    from tinygraft.engine import compile as compiling
    from tinygraft.engine import plan

    plan.clear(), compiling.clear()
    try:
        for got, here in zip(BY_NUMPY[name](a), wanted, strict=True):
            np.testing.assert_allclose(got.numpy(), here, rtol=1e-10, atol=1e-10)
    finally:
        plan.clear(), compiling.clear()


def test_numpy_where_matrices_are_singular() -> None:
    """No error: infinities and NaN, for that matrix alone."""
    stack = np.array([[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 4.0]]])
    (found,) = numpy_routines.BY_NUMPY["inverse"]([stack], ())
    assert not np.isfinite(found[0]).any() and found[1].tolist() == [[0.5, 0.0], [0.0, 0.25]]
    with np.errstate(all="ignore"):
        (low,) = numpy_routines.BY_NUMPY["cholesky"](
            [np.array([[[1.0, 2.0], [2.0, 1.0]], [[4.0, 0.0], [0.0, 1.0]]])], ()
        )
    assert np.isnan(low[0, 1, 1]) and low[1].tolist() == [[2.0, 0.0], [0.0, 1.0]]
    stack[0, 0, 0] = np.nan
    values, vectors = numpy_routines.BY_NUMPY["eigh"]([stack], (0,))
    assert np.isnan(values[0]).all() and np.isnan(vectors[0]).all() and values[1].tolist() == [2.0, 4.0]


@needs_ext
def test_steps_of_the_interpreter_between_native_ones() -> None:
    """A list with a routine of NumPy runs in parts, and says that it is not native."""
    backend = Device["CPU"]
    routine = Routine("inverse", (), ((dtypes.float64, (1, 2, 2)),), (0,))
    from tinygraft.device.interfaces import Step

    program = numpy_routines.NumpyRoutine(routine)
    graph = backend.graph([Step(None, (1, 0), nbytes=32), Step(program, (2, 1)), Step(None, (3, 2), nbytes=32)])
    assert isinstance(graph, NativeGraph) and not graph.is_native
    handles = [backend.allocator.alloc(32) for _ in range(4)]
    backend.allocator.copy_in(handles[0], memoryview(np.array([2.0, 0.0, 0.0, 4.0])))
    for place, handle in enumerate(handles):
        graph.set_buffer(place, handle)
    graph.set_values({})
    done = 0
    while done < 3:
        done = graph.run(done)
    assert np.frombuffer(bytes(handles[3].view)).tolist() == [0.5, 0.0, 0.0, 0.25]


@needs_ext
@pytest.mark.parametrize("kind", ["f4", "f8"])
def test_attention_on_every_processor(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With each width of vectors, and the same bits for any number of threads; heads that are cut, and padded ones."""
    chance, number = np.random.default_rng(3), dtypes.float32 if kind == "f4" else dtypes.float64
    bits = [struct.unpack("<q", struct.pack("<d", x))[0] for x in (0.3, 0.25)]
    for causal, dropped, (rows, keys, size, parts) in ((1, 0, (150, 210, 40, 33)), (0, bits[1], (70, 97, 16, 64))):
        lead, options = (1, 2, 1), (causal, bits[0], 0, dropped)
        shapes = [(*lead, 2, rows, size), (*lead, keys, size), (*lead, keys, parts)]
        operands = [chance.standard_normal(shape).astype(kind) for shape in shapes]
        operands += [np.array([[77]], np.uint64)] if dropped else []
        given = [((*shapes[0][:-1], parts), number), *[(shapes[0][:-1], number)] * 2]
        start = chance.standard_normal(given[0][0]).astype(kind)
        exact = routine_values("attention", operands, options)
        slopes = routine_values("attention_backward", [*operands, *exact, start], options)
        for processor in (2, 1, 0):
            monkeypatch.setattr(routines, "PROCESSOR", processor)
            first: list[Array] = []
            for threads in (1, 2, 5):
                found = run("attention", operands, options, given, threads)
                back = [*operands, *exact, start]
                found += run("attention_backward", back, options, [(s, number) for s in shapes], threads)
                first = first or found
                assert [x.tobytes() for x in found] == [x.tobytes() for x in first]
            for got, wanted in zip(found, [*exact, *slopes], strict=True):
                bound = 2e-5 if kind == "f4" else 1e-12
                np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound)


MATRICES: dict[str, Callable[[Tensor], Sequence[Tensor]]] = {
    "cholesky": lambda a: [(a @ a.transpose(-1, -2)).cholesky()],
    "lu": lambda a: [a.lu_factor().LU],
    "solve": lambda a: [a.solve(a + 1), a.solve_triangular(a, upper=True)],
    "inverse": lambda a: [a.inv()],
    "qr": lambda a: a.qr("reduced"),
    "eigh": lambda a: [*a.eigh(), a.eigvalsh()],
    "svd": lambda a: [*a.svd(), a.svdvals()],
    "lstsq": lambda a: [a.lstsq(a + 1).solution, a[:, :40].lstsq(a[:, :40]).solution],
    "det": lambda a: [a.det(), *a.slogdet()],
    "matrix_exp": lambda a: [(a * 0.1).matrix_exp()],
}


@needs_ext
@pytest.mark.parametrize("name", MATRICES)
def test_matrices_by_any_number_of_threads(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the same bits, alone and among others; and BLAS has as many threads as before."""
    pytest.importorskip("scipy")
    from scipy.linalg import cython_lapack

    from tinygraft.engine import compile as compiling
    from tinygraft.engine import plan

    x = Tensor(np.random.default_rng(1).standard_normal((5, 130, 130)).astype(np.float32)).realize()
    library = ctypes.CDLL(cython_lapack.__file__)
    count = getattr(library, "scipy_openblas_get_num_threads", None)
    before, found = count and count(), []
    for threads in (1, 3):
        monkeypatch.setattr(Device["CPU"], "threads", threads)
        plan.clear(), compiling.clear()
        found.append([t.numpy().tobytes() for t in MATRICES[name](x)])
        if lapack.set_threads() and name not in lapack.OF_PRODUCTS:
            alone = [t.numpy()[0].tobytes() for t in MATRICES[name](x[2:3])]
            assert alone == [t.numpy()[2].tobytes() for t in MATRICES[name](x)]
    plan.clear(), compiling.clear()
    assert (count and count()) == before
    if lapack.set_threads():
        assert found[0] == found[1]


def test_where_routines_come_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """Doctor's line names each source; without the extension NumPy has the most, and kernels the others."""
    assert Device["CPU"].about().startswith("routines: ")
    monkeypatch.setattr(extension, "library", lambda: None)
    routine_sources.sources.cache_clear()
    try:
        assert routine_sources.about() == (
            "routines: cholesky, eigh, eigvalsh, fft, inverse, irfft, rfft, solve, svd, svdvals by NumPy; "
            "sort, topk, unique, histogram, running, attention, attention_backward, convolution, direct_convolution, "
            "transposed_convolution, depthwise_convolution, convolution_weights, lu, triangular, qr, det, "
            "lstsq, matrix_exp by kernels"
        )
    finally:
        routine_sources.sources.cache_clear()


def test_an_unknown_routine() -> None:
    """Is refused by its name."""
    from tinygraft.errors import UnsupportedError

    with pytest.raises(UnsupportedError, match="the CPU has no routine nothing"):
        Device["CPU"].routine(Routine("nothing", (), ((dtypes.float32, (1, 1)),), (0,)))
