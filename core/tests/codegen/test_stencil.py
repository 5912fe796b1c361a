"""Which sums slide: depthwise convolutions and their gradients, by strides and dilations; and which do not."""

from __future__ import annotations

from typing import Any

import pytest

from tinygraft import Tensor
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.loops import size
from tinygraft.codegen.stencil import Stencil, find_stencil
from tinygraft.codegen.transforms import with_gaps
from tinygraft.uop.stages import KernelCall


def empty(*shape: int) -> Tensor:
    """A tensor in memory, of the interpreter."""
    return Tensor.empty(*shape, device="PYTHON")


def gradient(of: int, x: tuple[int, ...], w: tuple[int, ...], **options: Any) -> Tensor:
    """The gradient of a convolution with respect to its input (0) or its weights (1)."""
    both = [Tensor.zeros(*shape, device="PYTHON").contiguous() for shape in (x, w)]
    result = both[0].conv2d(both[1], **options)
    return result.gradient(both[of], gradient=empty(*(int(n) for n in result.shape)))[0]


def found(tensor: Tensor) -> Stencil | None:
    """The Stencil of the largest kernel of a tensor."""
    calls = [c for c in tensor.schedule() if isinstance(c, KernelCall)]
    largest = max(calls, key=lambda c: sum(b.arg.size for b in c.buffers))
    return find_stencil(with_gaps(collapse(largest.kernel.sink)))


def slides(tensor: Tensor) -> list[tuple[int, int, int, int]]:
    """(positions, taps, stride, dilation) of each slide of the kernel of a tensor."""
    stencil = found(tensor)
    assert stencil is not None
    return [(size(s.position), s.taps, s.stride, s.dilation) for s in stencil.slides]


W = (8, 1, 3, 3)


def test_a_depthwise_convolution_slides_along_both_axes() -> None:
    """With and without padding, which merges its loops; with a stride; and with a dilation."""
    assert slides(empty(2, 8, 12, 14).conv2d(empty(*W), groups=8)) == [(10, 3, 1, 1), (12, 3, 1, 1)]
    assert slides(empty(2, 8, 12, 14).conv2d(empty(*W), groups=8, padding=1)) == [(12, 3, 1, 1), (14, 3, 1, 1)]
    strided = empty(2, 8, 12, 14).conv2d(empty(8, 1, 5, 5), groups=8, padding=2, stride=2)
    assert slides(strided) == [(6, 5, 2, 1), (7, 5, 2, 1)]
    dilated = empty(2, 8, 12, 14).conv2d(empty(*W), groups=8, padding=2, dilation=2)
    assert slides(dilated) == [(12, 3, 1, 2), (14, 3, 1, 2)]
    assert slides(empty(2, 8, 400).conv2d(empty(8, 1, 5), groups=8)) == [(396, 5, 1, 1)]


def test_its_gradients_do_too() -> None:
    """That of the input reads the window backwards; in that of the weights positions are terms of the sum."""
    x = (2, 8, 12, 14)
    assert slides(gradient(0, x, W, groups=8, padding=1)) == [(12, 3, 1, -1), (14, 3, 1, -1)]
    of_weights = found(gradient(1, x, W, groups=8, padding=1))
    assert of_weights is not None
    assert of_weights.gradient
    assert [(size(s.position), s.taps) for s in of_weights.slides] == [(12, 3), (14, 3)]
    assert [size(r) for r in of_weights.summed] == [2]


def test_what_several_rows_read_is_a_product_of_matrices() -> None:
    """And windows that do not overlap read each element once."""
    assert found(empty(2, 8, 12, 14).conv2d(empty(16, 8, 3, 3))) is None
    assert found(empty(64, 48) @ empty(48, 32)) is None
    assert found(empty(2, 8, 64, 64).conv2d(empty(8, 1, 2, 2), groups=8, stride=2)) is None


def test_pixels_are_no_window() -> None:
    """A convolution to few channels is not one whose window has a tap for each pixel."""
    assert found(empty(2, 16, 200).conv2d(empty(3, 16, 5), padding=2)) is None
    assert found(empty(2, 16, 40, 40).conv2d(empty(2, 16, 5, 5), padding=2)) is None
    assert found(empty(2, 16, 40, 40).conv2d(empty(1, 16, 4, 4))) is None
    short = found(gradient(1, (8, 16, 30), (16, 1, 15), groups=16))
    assert short is not None
    assert short.gradient


@pytest.mark.parametrize("channels", [1, 2])
def test_a_small_kernel_is_left_as_it_was(channels: int) -> None:
    """Fewer than 4096 products."""
    assert found(empty(1, channels, 8, 8).conv2d(empty(channels, 1, 3, 3), groups=channels)) is None
