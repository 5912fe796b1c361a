"""Every tiling of a sum of products gives its values: matrix products, convolutions and their gradients at odd sizes.

The kernels are those that the scheduler makes of tensors. Tilings that the host's Target has room for are compiled and
compared with the kernel without transforms; on a small CPU-like Target the PYTHON device runs the linear form of some
of them, to which a read or write outside of memory is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, dtypes
from tinygraft.codegen.apply import PARALLEL, action_of
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.tiling import Tiling, tilings
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import run_linear
from tinygraft.device.interfaces import Backend
from tinygraft.device.registry import Device
from tinygraft.reference.python import PythonBackend
from tinygraft.target import Target
from tinygraft.uop.stages import Kernel, KernelCall

pytestmark = pytest.mark.slow

Build = Callable[[], Tensor]


def empty(*shape: int) -> Tensor:
    """A tensor in memory; its values come with the launch."""
    return Tensor.empty(*shape)


def input_gradient(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Tensor:
    """The gradient of a convolution with respect to its input."""
    image = Tensor.zeros(*x).contiguous()
    result = image.conv2d(empty(*w), **options)
    return result.gradient(image, gradient=empty(*(int(n) for n in result.shape)))[0]


def weight_gradient(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Tensor:
    """The gradient of a convolution with respect to its weights."""
    weights = Tensor.zeros(*w).contiguous()
    result = empty(*x).conv2d(weights, **options)
    return result.gradient(weights, gradient=empty(*(int(n) for n in result.shape)))[0]


CASES: dict[str, Build] = {
    "product": lambda: empty(13, 29) @ empty(29, 37),
    "product of whole blocks": lambda: empty(16, 32) @ empty(32, 64),
    "second transposed": lambda: empty(13, 32) @ empty(35, 32).transpose(),
    "first transposed": lambda: empty(29, 13).transpose() @ empty(29, 37),
    "result transposed": lambda: (empty(32, 24) @ empty(24, 48)).transpose().contiguous() + 1,
    "batched": lambda: empty(3, 11, 16) @ empty(3, 16, 19),
    "bias and activation": lambda: ((empty(17, 23) @ empty(23, 31) + empty(31)).relu() * empty(17, 31)).exp(),
    "half operands": lambda: empty(13, 24).half() @ empty(24, 33).half(),
    "gathered rows": lambda: empty(40, 16)[Tensor.arange(13) * 3] @ empty(16, 33),
    "convolution": lambda: empty(2, 5, 9, 11).conv2d(empty(7, 5, 3, 3)),
    "convolution with padding": lambda: empty(2, 5, 9, 11).conv2d(empty(7, 5, 3, 3), padding=1),
    "strided convolution": lambda: empty(1, 5, 17, 15).conv2d(empty(9, 5, 3, 3), padding=1, stride=2),
    "dilated convolution": lambda: empty(1, 5, 13, 14).conv2d(empty(6, 5, 3, 3), dilation=2),
    "grouped convolution": lambda: empty(2, 8, 9, 9).conv2d(empty(12, 4, 3, 3), groups=2),
    "pointwise convolution": lambda: empty(2, 13, 7, 7).conv2d(empty(11, 13, 1, 1)),
    "gradient of an input": lambda: input_gradient((2, 6, 9, 11), (5, 6, 3, 3)),
    "gradient of an input with padding": lambda: input_gradient((1, 6, 8, 8), (5, 6, 3, 3), padding=1),
    "gradient of an input with stride": lambda: input_gradient((1, 6, 9, 9), (5, 6, 3, 3), stride=2),
    "gradient of weights": lambda: weight_gradient((2, 6, 9, 11), (5, 6, 3, 3)),
}  # fmt: skip


def main_call(build: Build) -> KernelCall:
    """The call of a schedule that does most of the work."""
    calls = [c for c in build().schedule() if isinstance(c, KernelCall)]
    return max(calls, key=lambda c: len(tilings_of(c, Device["CPU"].target)))


def tilings_of(call: KernelCall, target: Target) -> list[Tiling]:
    """Return the tilings of the kernel of a call, after the passes before tiling."""
    return tilings(with_gaps(collapse(call.kernel.sink)), target)


def contents(call: KernelCall) -> list[bytes]:
    """Values for the buffers of a call: small fractions, whose products and sums are exact."""
    rng = np.random.default_rng(3)
    data = []
    for node in call.buffers:
        if node.dtype in (dtypes.int32, dtypes.int64):
            values: Any = rng.integers(0, 4, node.arg.size).astype(np.int64 if node.dtype is dtypes.int64 else np.int32)
        else:
            kind = {dtypes.float16: np.float16, dtypes.float32: np.float32}[node.dtype]
            values = (rng.integers(-8, 9, node.arg.size) / 8).astype(kind)
        data.append(values.tobytes())
    return data


def run(backend: Backend, kernel: Kernel, options: Options, data: list[bytes]) -> np.ndarray[Any, Any]:
    """Run a kernel on buffers of these bytes. Returns its output."""
    linear = to_linear(kernel, backend.target, options)
    return np.frombuffer(run_linear(backend, linear, data)[0], np.float32)


def sampled(every: list[Tiling], count: int) -> list[Tiling]:
    """Return `count` of `every` tiling: the cheapest, and others evenly from the rest of the list."""
    return every[: count // 2] + every[count // 2 :: max(1, len(every) // count)]


@pytest.mark.parametrize("name", CASES)
def test_each_tiling_gives_the_values(name: str) -> None:
    """On this machine; the exponential of a result is compared to the precision of exp2, all others exactly."""
    backend, call = Device["CPU"], main_call(CASES[name])
    data = contents(call)
    expected = run(backend, call.kernel, Options(noopt=True), data)
    assert np.isfinite(expected).all()
    assert np.unique(expected).size > 1
    every = tilings_of(call, backend.target)
    assert len(every) > 3
    for tiling in sampled(every, 6):
        for chunks in (1, 2) if tiling is every[0] else (1,):
            chosen = replace(tiling, split=chunks)
            actions = (action_of(chosen), *((PARALLEL,) if chunks > 1 else ()))
            found = run(backend, call.kernel, Options(actions=actions), data)
            np.testing.assert_allclose(
                found, expected, rtol=3e-6 if name == "bias and activation" else 0, err_msg=str(actions)
            )


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if row % 3 else []) for row, name in enumerate(CASES)]
)
def test_each_tiling_stays_inside_of_memory(name: str) -> None:
    """As the PYTHON device runs it for a Target with vectors of four lanes, eight registers and 16 KiB of scratch."""
    target = replace(Device["CPU"].target, vector_bytes=16, registers=16, local_memory=16 << 10, chunks=2, matrix=())
    backend = PythonBackend("PYTHON", 0, target)
    call = main_call(CASES[name])
    data = contents(call)
    expected = run(Device["CPU"], call.kernel, Options(noopt=True), data)
    every = tilings_of(call, target)
    assert every
    for tiling in sampled(every, 2):
        found = run(backend, call.kernel, Options(actions=(action_of(tiling),)), data)
        np.testing.assert_allclose(
            found, expected, rtol=3e-6 if name == "bias and activation" else 0, err_msg=str(tiling)
        )
