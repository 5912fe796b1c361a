"""Routines: what a device brings itself, such as sort, beside what NumPy and its own kernels make of the same.

A test runs where the Target declares its routine, for each dtype that it names. Orders and counts are compared bit for
bit, with ties, NaN of several kinds, infinities and zeros of both signs; what rounds within a bound for its dtype, and
vectors whose sign is not determined by what they make of the matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from tinygraft.config import Context
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType, dtypes
from tinygraft.engine.arithmetic import Array, of_memory
from tinygraft.engine.compile import routine_on
from tinygraft.engine.evaluate import evaluate
from tinygraft.engine.routine_values import MEANINGS, routine_values
from tinygraft.engine.run import run_kernel
from tinygraft.target import Target
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.epilogues import EpilogueStep, StepOperand, to_options
from tinygraft.uop.held import memory_base
from tinygraft.uop.routines import ROUTINES, results_of
from tinygraft.uop.stages import Routine

BOUNDS = {dtypes.float32: 2e-4, dtypes.float64: 1e-11}  # of matrices that are far from singular, and transforms
ROWS, SIZE, COLUMNS = 3, 37, 21
KEYS = 261  # of attention: methods leave fewer to kernels
ONE_HALF = 0x3F000000  # 0.5 as bits of a float32: the number of a step
HALF, QUARTER = 0x3FE0000000000000, 0x3FD0000000000000  # 0.5 and 0.25 as bits of a float64: a scale, a probability


@dataclass(frozen=True)
class RoutineCase:
    """A routine with its options, and the methods that are compared with kernels: from operands to tensors."""

    name: str
    options: tuple[int, ...]
    methods: Callable[..., Sequence[Tensor]]

    @property
    def needs(self) -> tuple[str, ...]:
        """Return what a Target has to declare."""
        return (f"routine_{self.name}",)

    def __str__(self) -> str:
        return "-".join(map(str, (self.name, *self.options)))


def attended(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropped: float = 0.0) -> Tensor:
    """Return the method's attention of the routine's operands, causal without a mask, with the same random numbers."""
    examples, _, heads, groups, queries, size = q.shape
    if mask is not None:
        mask = mask.reshape(examples, 1, *mask.shape[-2:])
    Tensor.manual_seed(3)
    with Tensor.train():
        return q.reshape(examples, heads * groups, queries, size).scaled_dot_product_attention(
            k[:, 0], v[:, 0], mask, dropped, mask is None, enable_gqa=True, scale=0.5
        )


def slopes(q: Tensor, k: Tensor, v: Tensor, *others: Tensor) -> list[Tensor]:
    """Return the gradients of attention for the last operand."""
    start = others[-1]
    return (attended(q, k, v).reshape(start.shape) * start).sum().gradient(q, k, v)


def transformed(x: Tensor, y: Tensor, inverse: int) -> list[Tensor]:
    """Return both parts of the transform of both along axis 1: of rows, which end there, or of columns."""
    z = Tensor.complex(x, y)
    found = z.ifft(dim=1, norm="forward") if inverse else z[..., 0].fft()[..., None]
    return [found.real, found.imag]


def convolved(x: Tensor, w: Tensor) -> list[Tensor]:
    """Return the convolution of the routine's operands, padded on all sides, and its gradient for the images."""
    _, batch, groups, channels, *size = x.shape
    images, weights = x[0].reshape(batch, groups * channels, *size), w[0].reshape(-1, channels, *w.shape[4:])
    found = images.conv2d(weights, groups=groups, padding=1).realize()
    return [found, *(found * found.detach()).sum().gradient(images)]


def convolved_in_steps(x: Tensor, w: Tensor) -> list[Tensor]:
    """Return the convolution of the routine's operands in steps."""
    _, batch, groups, channels, *size = x.shape
    images, weights = x[0].reshape(batch, groups * channels, *size), w[0].reshape(-1, channels, *w.shape[4:])
    return [images.conv2d(weights, groups=groups, stride=(2, 3), padding=1)]


def slid_back(x: Tensor, w: Tensor) -> list[Tensor]:
    """Return the transposed convolution of the routine's operands, and a gradient that is one."""
    _, batch, groups, channels, *size = x.shape
    images = x[0].reshape(batch, groups * channels, *size)
    found = images.conv_transpose2d(w[0].reshape(-1, *w.shape[3:]), groups=groups, stride=(2, 3), padding=1).realize()
    slopes = images.conv2d(w[0].transpose(1, 2).reshape(-1, *w.shape[2:3], *w.shape[4:]), groups=groups, stride=2)
    return [found, *(slopes * slopes.detach()).sum().gradient(images)]


def slope_of_weights(x: Tensor, g: Tensor) -> list[Tensor]:
    """Return the gradient of the weights of a convolution of the routine's operands."""
    _, batch, groups, channels, *size = x.shape
    images, filters = x[0].reshape(batch, groups * channels, *size), g.shape[3]
    weights = Tensor.zeros(groups * filters, channels, 3, 4, device=x.device, requires_grad=True).contiguous()
    found = images.conv2d(weights, groups=groups, stride=(2, 1), padding=(1, 2), dilation=(1, 2))
    return [*found.gradient(weights, gradient=g[0].reshape(found.shape))]


CASES = [
    RoutineCase("sort", (0,), lambda x: x.sort()),
    RoutineCase("sort", (1,), lambda x: x.sort(descending=True)),
    RoutineCase("topk", (5, 1), lambda x: x.topk(5)),
    RoutineCase("topk", (30, 0), lambda x: x.topk(30, largest=False)),
    RoutineCase("unique", (), lambda x: x.unique(return_inverse=True, return_counts=True)),
    RoutineCase("histogram", (9,), lambda x: [x[0].abs().bincount()]),
    RoutineCase("running", (0,), lambda x: [x.cumsum(1)]),
    RoutineCase("running", (1,), lambda x: [x.cumprod(1)]),
    RoutineCase("cholesky", (), lambda a: [a.cholesky()]),
    RoutineCase("lu", (), lambda a: [*a.lu_factor(), *a.lu()]),
    RoutineCase("solve", (), lambda a, b: [a.solve(b)]),
    RoutineCase("triangular", (0, 0), lambda a, b: [a.solve_triangular(b, upper=False)]),
    RoutineCase("triangular", (1, 1), lambda a, b: [a.solve_triangular(b, upper=True, unitriangular=True)]),
    RoutineCase("inverse", (), lambda a: [a.inv()]),
    RoutineCase("det", (), lambda a: [a.det(), *a.slogdet()]),
    RoutineCase("lstsq", (HALF,), lambda a, b: [a.lstsq(b, 0.5).solution, a.lstsq(b, 0.5).rank]),
    RoutineCase("matrix_exp", (), lambda a: [a.matrix_exp()]),
    RoutineCase("qr", (7,), lambda a: a.qr()),
    RoutineCase("eigh", (0,), lambda a: [a.eigh().eigenvalues]),
    RoutineCase("eigvalsh", (0,), lambda a: [a.eigvalsh()]),
    RoutineCase("eigvalsh", (1,), lambda a: [a.eigvalsh("U")]),
    RoutineCase("svd", (0,), lambda a: [a.svd(full_matrices=False)[1]]),
    RoutineCase("svdvals", (), lambda a: [a.svdvals()]),
    RoutineCase("fft", (0,), lambda x, y: transformed(x, y, 0)),
    RoutineCase("fft", (1,), lambda x, y: transformed(x, y, 1)),
    RoutineCase("rfft", (0,), lambda x: [x.rfft().real, x.rfft().imag]),
    RoutineCase("irfft", (1, 2 * SIZE - 2), lambda x, y: [x.irfft()]),
    RoutineCase("attention", (1, HALF, 0, 0), lambda q, k, v: [attended(q, k, v)]),
    RoutineCase("attention", (0, HALF, 1, QUARTER), lambda q, k, v, mask, seed: [attended(q, k, v, mask, 0.25)]),
    RoutineCase("attention_backward", (1, HALF, 0, 0), slopes),
    RoutineCase("convolution", (1, 1, 1, 1, 0, 0), convolved),
    RoutineCase("convolution", (2, 0, 0, 3, 1, 0), lambda x, w: convolved(x, w.transpose(2, 3).flip(-1, -2))),
    RoutineCase("direct_convolution", (1, 0, 2, 1, 0, 2, 3), convolved_in_steps),
    RoutineCase("transposed_convolution", (2, 3, 1, 2, 26, 57), slid_back),
    RoutineCase("convolution_weights", (1, 2, 2, 1, 1, 2, 3, 4), slope_of_weights),
    RoutineCase("depthwise_convolution", (1, 0, 2, 1, 0, 2, 3), convolved_in_steps),
    RoutineCase("depthwise_convolution", (2, 2, 1, 0, 1, 1, 1), convolved),
]


def operands_of(case: RoutineCase, dtype: DType, device: str) -> list[Tensor]:
    """Return the operands of a case on a device, realised."""
    if case.name.startswith("attention"):
        return operands_of_attention(case, dtype, device)
    if "convolution" in case.name:
        return operands_of_convolution(case, dtype, device)
    chance = np.random.default_rng(5)
    axes = ROUTINES[case.name].axes
    shapes = [(ROWS, 7, 7 if number == 0 else 2) if count == 3 else (ROWS, SIZE) for number, count in enumerate(axes)]
    if case.name == "fft":  # of rows, or of columns
        shapes = [(ROWS, SIZE, COLUMNS if case.options[0] else 1)] * 2
    values: list[Array]
    if case.name == "histogram":
        values = [chance.integers(-2, 11, shapes[0])]
    elif axes[0] == 3 and case.name != "fft":
        values = [chance.standard_normal(shape) for shape in shapes]
        values[0] = values[0] @ values[0].transpose(0, 2, 1) + 3 * np.eye(7)
    elif not ROUTINES[case.name].exact:
        values = [chance.standard_normal(shape) for shape in shapes]
    elif dtype.kind == "float":
        values = [np.round(chance.standard_normal(shapes[0]) * 4) / 2]
        for number, special in enumerate((np.nan, -np.nan, np.inf, -np.inf, -0.0, 0.0)):
            values[0][:, 5 * number + 1 : 5 * number + 3] = special
    else:
        low, high = (0, 1) if dtype is dtypes.bool else (int(dtypes.min(dtype)), int(dtypes.max(dtype)))
        least = np.uint64 if dtype.kind == "uint" else np.int64
        values = [chance.integers(low, high, shapes[0], endpoint=True, dtype=least)]
        values[0][:, ::3] = values[0][:, 1:2]
    return [Tensor(value, device=device).cast(dtype).realize() for value in values]


def operands_of_attention(case: RoutineCase, dtype: DType, device: str) -> list[Tensor]:
    """Return queries in groups, keys and values; a mask under which one query sees nothing, and a seed; and results."""
    chance = np.random.default_rng(6)
    queries, keys = (ROWS, 1, 2, 2, SIZE, 9), (ROWS, 1, 2, KEYS)
    values = [chance.standard_normal(shape) for shape in (queries, (*keys, 9), (*keys, 5))]
    found = [Tensor(value, device=device).cast(dtype).realize() for value in values]
    if case.options[2]:
        seen = chance.random((ROWS, 1, 1, 1, SIZE, KEYS)) < 0.8
        seen[:, ..., 2, :] = False
        found.append(Tensor(seen, device=device).realize())
    if case.options[3]:
        found.append(Tensor(np.arange(7, 7 + ROWS).reshape(ROWS, 1), device=device).cast(dtypes.uint64).realize())
    if case.name == "attention_backward":
        results = routine_values("attention", [evaluate(x.uop) for x in found], case.options)
        results.append(np.asarray(chance.standard_normal(results[0].shape)))
        found += [Tensor(result, device=device).cast(dtype).realize() for result in results]
    return found


def operands_of_convolution(case: RoutineCase, dtype: DType, device: str) -> list[Tensor]:
    """Return images of odd sizes and weights in two groups: 3 x 3, or where these are turned 5 x 5."""
    chance = np.random.default_rng(7)
    sizes: tuple[tuple[int, ...], ...]
    if case.name == "transposed_convolution":
        sizes = (ROWS, 3, 2, 16, 13, 19), (ROWS, 2, 16, 24, 4, 5)
    elif case.name == "direct_convolution":
        sizes = (ROWS, 3, 2, 16, 13, 19), (ROWS, 2, 24, 16, 4, 5)
    elif case.name == "convolution_weights":
        sizes = (ROWS, 3, 2, 16, 43, 19), (ROWS, 3, 2, 40, 22, 17)
    elif case.name == "depthwise_convolution":
        sizes = (ROWS, 3, 40, 1, 13, 25 if case.options[4] else 7), (ROWS, 40, 1, 1, 4, 5)
    else:
        window = 5 if case.options[4] else 3
        sizes = (ROWS, 3, 2, 16, 13, 19), (ROWS, 2, *((16, 24) if case.options[4] else (24, 16)), window, window)
    return [Tensor(chance.standard_normal(size), device=device).cast(dtype).realize() for size in sizes]


def steps_after(case: RoutineCase, target: Target) -> tuple[EpilogueStep, ...]:
    """Return a step by each op that the device has after a routine, with each kind of operand; none without one."""
    if not ROUTINES[case.name].channels:
        return ()
    ops = target.epilogue_of(case.name)
    return tuple([EpilogueStep(op, kind, 0 if kind else ONE_HALF) for op in ops for kind in StepOperand])


def operands_of_steps(case: RoutineCase, steps: Sequence[EpilogueStep], given: Sequence[Tensor]) -> list[Tensor]:
    """Return the operands of steps after a routine on operands that are `given`."""
    facts, chance = ROUTINES[case.name], np.random.default_rng(8)
    kinds = [(operand.dtype, tuple(map(int, operand.shape))) for operand in given]
    shape = results_of(case.name, kinds, case.options)[0][1]
    sizes = [facts.of_step(kind, shape) for kind in facts.step_kinds((*case.options, *to_options(steps)))]
    device, dtype = given[0].device, given[0].dtype
    return [Tensor(chance.standard_normal(size), device=device).cast(dtype).realize() for size in sizes]


def launched(backend: Backend, case: RoutineCase, operands: Sequence[Tensor], wanted: tuple[int, ...]) -> list[Array]:
    """Return the `wanted` results of a routine of the device on memory of its own."""
    kinds = [(operand.dtype, tuple(map(int, operand.shape))) for operand in operands]
    results = [results_of(case.name, kinds, case.options)[number] for number in wanted]
    made = [Buffer(backend.name, int(np.prod(shape)), dtype).allocate() for dtype, shape in results]
    given = [buffer_of(memory_base(operand.uop)) for operand in operands]
    program = routine_on(backend, Routine(case.name, case.options, tuple(kinds), wanted))
    run_kernel(program, backend.name, [*made, *given], {})
    found = []
    for buffer, (dtype, shape) in zip(made, results, strict=True):
        raw = bytearray(buffer.nbytes)
        buffer.copy_out(memoryview(raw))
        found.append(of_memory(raw, dtype).reshape(shape))
    return found


def same_bits(got: Array, wanted: Array) -> bool:
    """Return whether arrays are equal, to the sign of a zero; a NaN equals a NaN."""
    if got.dtype.kind != "f":
        return bool(np.array_equal(got, wanted))
    signs = np.signbit(got) == np.signbit(wanted)
    return bool(np.array_equal(got, wanted, equal_nan=True) and (signs | np.isnan(got)).all())


def rebuilt(name: str, found: Sequence[Array]) -> Array:
    """Return the matrix that the factors of one are multiplied to."""
    if name == "eigh":
        values, vectors = found
        return np.asarray((vectors * values[:, None, :]) @ vectors.transpose(0, 2, 1))
    if name == "svd":
        return np.asarray((found[0] * found[1][:, None, :]) @ found[2])
    return np.asarray(found[0] @ found[1])


class Routines:
    """What the device's own routines compute."""

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_routine(self, backend: Backend, case: RoutineCase) -> None:
        """A routine computes its meaning, whichever of its results are wanted, and with each step after it."""
        plain, dtypes_of = case, next(known.dtypes for known in backend.target.routines if known.name == case.name)
        for dtype, steps in product(dtypes_of, dict.fromkeys([(), steps_after(plain, backend.target)])):
            case = replace(plain, options=(*plain.options, *to_options(steps)))
            operands = [*operands_of(plain, dtype, backend.name)]
            operands += operands_of_steps(plain, steps, operands)
            arrays = [evaluate(operand.uop) for operand in operands]
            every = tuple(range(len(ROUTINES[case.name].names)))
            found = launched(backend, case, operands, every)
            if case.name not in MEANINGS:
                close(rebuilt(case.name, found), arrays[0], dtype)
                continue
            wanted = routine_values(case.name, arrays, case.options)
            for number in every:
                (alone,) = launched(backend, case, operands, (number,))
                for got in (found[number], alone):
                    if ROUTINES[case.name].exact:
                        shown = f"{case} of {dtype.name}: {ROUTINES[case.name].names[number]}"
                        assert same_bits(got, wanted[number]), f"{shown} {got} differ from {wanted[number]}"
                    else:
                        close(got, wanted[number], dtype)

    @pytest.mark.parametrize("case", CASES, ids=str)
    def test_routine_or_kernels(self, backend: Backend, case: RoutineCase) -> None:
        """Methods give with a routine what they give without one."""
        offered = next(known.dtypes for known in backend.target.routines if known.name == case.name)
        dtype = dtypes.float32 if dtypes.float32 in offered else offered[0]
        operands = operands_of(case, dtype, backend.name)
        found = case.methods(*operands)
        with Context(ROUTINES=0):
            wanted = case.methods(*operands)
            for got, by_kernels in zip(found, wanted, strict=True):
                assert (got.shape, got.dtype) == (by_kernels.shape, by_kernels.dtype)
                if ROUTINES[case.name].exact:
                    assert same_bits(got.numpy(), by_kernels.numpy()), f"{case}: {got.numpy()}"
                else:
                    close(got.numpy(), by_kernels.numpy(), dtype)


def close(got: Array, wanted: Array, dtype: DType) -> None:
    """Fail where arrays differ by more than the bound of a dtype, for elements of about 10."""
    bound = 10 * BOUNDS.get(dtype, 0.0)
    np.testing.assert_allclose(got, wanted, rtol=bound, atol=bound)
