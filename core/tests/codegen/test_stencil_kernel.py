"""Sliding sums in blocks: values of all kinds of windows at odd sizes, inside of memory; actions that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.codegen import stencil_kernel
from tinygraft.codegen.action import parse
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.stencil_kernel import stencil_kernels
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import run_linear
from tinygraft.errors import ActionError
from tinygraft.reference.python import TARGET, PythonBackend
from tinygraft.target import Target
from tinygraft.uop.stages import KernelCall

SMALL = replace(TARGET, vector_bytes=16, registers=16, local_memory=64 << 10, chunks=2, matrix=(), grid_dims=0)
BACKEND = PythonBackend("PYTHON", 0, SMALL)


def empty(*shape: int) -> Tensor:
    """A tensor in memory; its values come with the launch."""
    return Tensor.empty(*shape, device="PYTHON")


def forward(x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Tensor:
    """A convolution."""
    return empty(*x).conv2d(empty(*w), **options)


def gradient(of: int, x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Tensor:
    """Its gradient with respect to the input (0) or the weights (1)."""
    both = [Tensor.zeros(*shape, device="PYTHON").contiguous() for shape in (x, w)]
    result = both[0].conv2d(both[1], **options)
    return result.gradient(both[of], gradient=empty(*(int(n) for n in result.shape)))[0]


X, W = (2, 5, 11, 13), (5, 1, 3, 3)
CASES: dict[str, tuple[str, Callable[[], Tensor]]] = {
    "in place": ("slide", lambda: forward(X, W, groups=5)),
    "padded": ("slide_panel", lambda: forward(X, W, groups=5, padding=1)),
    "padded more than the window is wide": ("slide_panel", lambda: forward(X, W, groups=5, padding=4)),
    "unequal sides": ("slide_panel", lambda: forward(X, W, groups=5, padding=(0, 2, 1, 0))),
    "stride 2": ("slide_panel", lambda: forward((2, 5, 23, 25), (5, 1, 5, 5), groups=5, padding=2, stride=2)),
    "sorted rows": ("slide_panel", lambda: forward((2, 5, 9, 45), (5, 1, 3, 9), groups=5, padding=3, stride=2)),
    "stride 3": ("slide_panel", lambda: forward((1, 5, 39, 41), (5, 1, 5, 7), groups=5, padding=2, stride=3)),
    "strides differ": ("slide_panel", lambda: forward((2, 5, 23, 25), (5, 1, 3, 5), groups=5, stride=(1, 2))),
    "dilation": ("slide_panel", lambda: forward(X, W, groups=5, padding=2, dilation=2)),
    "dilations differ": ("slide_panel", lambda: forward(X, W, groups=5, padding=(1, 1, 3, 3), dilation=(3, 1))),
    "two results for a channel": ("slide_panel", lambda: forward(X, (10, 1, 3, 3), groups=5, padding=1)),
    "a row": ("slide_panel", lambda: forward((2, 5, 101), (5, 1, 7), groups=5, padding=3)),
    "a volume": ("slide_panel", lambda: forward((1, 2, 5, 6, 7), (2, 1, 3, 3, 3), groups=2, padding=1)),
    "a window of one column": ("slide_panel", lambda: forward(X, (5, 1, 5, 1), groups=5, padding=(0, 0, 2, 2))),
    "an activation": ("slide_panel", lambda: (forward(X, W, groups=5, padding=1) + empty(5, 1, 1)).relu()),
    "a residual": ("slide_panel", lambda: forward(X, W, groups=5, padding=1) + empty(*X)),
    "an activation before": ("slide_panel", lambda: empty(*X).relu().conv2d(empty(*W), groups=5, padding=1)),
    "half": ("slide_panel", lambda: empty(*X).half().conv2d(empty(*W).half(), groups=5, padding=1).float()),
    "input": ("slide_panel", lambda: gradient(0, X, W, groups=5, padding=1)),
    "input, dilation": ("slide_panel", lambda: gradient(0, X, W, groups=5, padding=2, dilation=2)),
    "input, no padding": ("slide_panel", lambda: gradient(0, X, W, groups=5)),
    "weights": ("slide_panel", lambda: gradient(1, X, W, groups=5, padding=1)),
    "weights, no padding": ("slide_panel", lambda: gradient(1, X, W, groups=5)),
    "weights, stride 2": (
        "slide_panel", lambda: gradient(1, (2, 5, 23, 25), (5, 1, 5, 5), groups=5, padding=2, stride=2)
    ),
    "weights, dilation": ("slide_panel", lambda: gradient(1, X, W, groups=5, padding=2, dilation=2)),
    "weights of a row": ("slide_panel", lambda: gradient(1, (2, 5, 101), (5, 1, 9), groups=5, padding=3)),
    "weights of groups": ("slide_panel", lambda: gradient(1, (2, 8, 9, 19), (10, 4, 3, 3), groups=2, padding=1)),
    "weights of groups, stride 2": (
        "slide_panel", lambda: gradient(1, (1, 4, 11, 37), (10, 2, 3, 3), groups=2, padding=1, stride=2)
    ),
    "weights of a wide window": ("slide_panel", lambda: gradient(1, X, (5, 1, 9, 7), groups=5, padding=3)),
}  # fmt: skip


def main_call(build: Callable[[], Tensor]) -> KernelCall:
    """The call of a schedule whose kernel slides."""
    calls = [c for c in build().schedule() if isinstance(c, KernelCall)]
    return next(c for c in calls if list(stencil_kernels(with_gaps(collapse(c.kernel.sink)), SMALL)))


def run(call: KernelCall, actions: str, data: list[bytes]) -> np.ndarray[Any, Any]:
    """Run the kernel of a call with actions, or without any; returns its output."""
    options = Options(actions=parse(actions)) if actions else Options(noopt=True)
    return np.frombuffer(run_linear(BACKEND, to_linear(call.kernel, SMALL, options), data)[0], np.float32)


def contents(call: KernelCall) -> list[bytes]:
    """Values for the buffers of a call: small fractions, whose products and sums are exact."""
    rng = np.random.default_rng(3)
    kinds = {4: np.float32, 2: np.float16}
    return [(rng.integers(-8, 9, b.arg.size) / 8).astype(kinds[b.dtype.itemsize]).tobytes() for b in call.buffers]


@pytest.fixture(autouse=True)
def always_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a product of matrices in tiles is estimated to be faster."""
    monkeypatch.setattr(stencil_kernel, "SEVERAL", 1e9)
    monkeypatch.setattr(stencil_kernel, "ONE", 1e9)


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    """As chosen, and in the smallest blocks and others that divide nothing; the interpreter refuses reads outside."""
    action, build = CASES[name]
    call = main_call(build)
    data = contents(call)
    expected = run(call, "", data)
    assert np.unique(expected).size > 3
    ((_, (one,)),) = stencil_kernels(with_gaps(collapse(call.kernel.sink)), SMALL)
    assert one.name == action
    loop, block = one.loops[0], one.amounts[3][0]
    tried = [str(one)]
    if "weights" in name:
        tried += [f"{action}({loop}, {rows}, 1, 4, {block})" for rows in (1, 2)]
    else:
        tried += [f"{action}({loop}, 1, 1, 2, 2)", f"{action}({loop}, 3, 2, 4, 24), parallel"]
    for actions in tried:
        np.testing.assert_array_equal(run(call, actions, data), expected, err_msg=actions)


def test_an_infinity_reaches_its_own_window_alone() -> None:
    """Of weights too: in a gradient what is outside of the image is left out, not multiplied by 0."""
    for name in ("input", "weights", "in place"):
        call = main_call(CASES[name][1])
        data = [np.frombuffer(x, np.float32).copy() for x in contents(call)]
        data[1][3] = np.inf
        data[2][5] = np.inf
        bits = [x.tobytes() for x in data]
        ((_, (one,)),) = stencil_kernels(with_gaps(collapse(call.kernel.sink)), SMALL)
        np.testing.assert_array_equal(run(call, str(one), bits), run(call, "", bits), err_msg=name)


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ("slide_panel(7, 1, 1, 4, 2)", "the kernel has no window that slides along this loop"),
        ("slide(2, 1, 1, 4, 2)", "the operand has gates, strides or arithmetic, and needs a panel"),
        ("slide_panel(2, 1, 1, 3, 2)", "a vector has 2, 4, 8, ... lanes"),
        ("slide_panel(2, 0, 1, 4, 2)", "rows, vectors and blocks are 1 or more"),
        ("slide_panel(2, 4, 1, 4, 6)", "a block has whole tiles, of 4"),
        ("slide_panel(2, 1, 1, 4)", "takes 4 plain numbers"),
        ("slide_panel(2, 1, 1, 4, 100000)", "a panel has .* bytes, and the Target 65536"),
    ],
)
def test_an_action_that_the_kernel_forbids(actions: str, message: str) -> None:
    """It is refused with the reason."""
    call = main_call(CASES["padded"][1])
    with pytest.raises(ActionError, match=message):
        to_linear(call.kernel, SMALL, Options(actions=parse(actions)))


def test_only_for_vectors_without_a_grid() -> None:
    """A GPU computes each result in a thread; without vectors there is nothing to gain."""
    sink = with_gaps(collapse(main_call(CASES["padded"][1]).kernel.sink))
    none: list[Target] = [replace(SMALL, vector_bytes=0), replace(SMALL, grid_dims=3)]
    assert [list(stencil_kernels(sink, target)) for target in none] == [[], []]
    assert list(stencil_kernels(sink, replace(SMALL, local_memory=64))) == []
