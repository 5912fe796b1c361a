"""Pooling and windows in the file."""

from __future__ import annotations

from onnx_exports import compared, rand
from tinygraft import Tensor

BATCH = {"x": {0: "batch"}}
IMAGES, OTHER = rand(2, 3, 12, 12), [rand(1, 3, 12, 12)]


def test_the_greatest_of_windows() -> None:
    """MaxPool with strides, padding, dilation and a last window that is cut off."""
    assert compared(lambda x: x.max_pool2d(), IMAGES, dynamic=BATCH, other=OTHER) == ["MaxPool"]
    assert compared(lambda x: x.max_pool2d(3, stride=2, padding=1), IMAGES, dynamic=BATCH, other=OTHER) == ["MaxPool"]
    assert compared(lambda x: x.max_pool2d(3, dilation=2), IMAGES) == ["MaxPool"]
    compared(lambda x: x.max_pool2d(5, stride=3, ceil_mode=True), IMAGES)


def test_the_mean_of_windows() -> None:
    """AveragePool; padding counts, or not."""
    assert compared(lambda x: x.avg_pool2d(2), IMAGES, dynamic=BATCH, other=OTHER) == ["AveragePool"]
    compared(lambda x: x.avg_pool2d(3, stride=2, padding=1), IMAGES, dynamic=BATCH, other=OTHER)
    compared(lambda x: x.avg_pool2d(3, padding=1, count_include_pad=False), IMAGES)
    compared(lambda x: x.adaptive_avg_pool2d((3, 5)), IMAGES)


def test_windows_of_any_dtype_and_their_inverse() -> None:
    """Integers have no pooling in ONNX Runtime: a Gather for each axis; fold adds."""
    compared(lambda x: (x * 10).int().max_pool2d(3), IMAGES)
    compared(lambda x: x.unfold(2, 3, 2).sum(-1), IMAGES)


def test_the_gradient_of_a_mean_is_scattered() -> None:
    """FOLD, with windows that overlap."""

    def slope(x: Tensor) -> Tensor:
        return x.avg_pool2d(3, stride=2).square().sum().gradient(x)[0]

    assert "ScatterElements" in compared(slope, IMAGES)
