"""Operators of ONNX: windows of signals, and the mel scale."""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.element_types import FLOAT, held_in
from tinygraft.onnx.operator_table import number, operator, unrolled
from tinygraft.tensor.tensor import Tensor


def _cosines(size: Any, periodic: int, element: int, factors: tuple[float, ...]) -> Tensor:
    """The sum of factors[k] * cos(k * angle), where the angle goes once around."""
    count: int = number(size)
    angle = Tensor.arange(count, dtype=dtypes.float32) * (2 * math.pi / max(count if periodic else count - 1, 1))
    found: Tensor = angle * 0 + factors[0]
    for k, factor in enumerate(factors[1:], 1):
        found = found + (angle * k).cos() * factor
    return found.cast(held_in(element, "a window"))


@operator("HannWindow", steers="size")
def hann(size: Any, *, output_datatype: int = FLOAT, periodic: int = 1) -> Tensor:
    """0.5 - 0.5 cos."""
    return _cosines(size, periodic, output_datatype, (0.5, -0.5))


@operator("HammingWindow", steers="size")
def hamming(size: Any, *, output_datatype: int = FLOAT, periodic: int = 1) -> Tensor:
    """25/46 - 21/46 cos."""
    return _cosines(size, periodic, output_datatype, (25 / 46, -21 / 46))


@operator("BlackmanWindow", steers="size")
def blackman(size: Any, *, output_datatype: int = FLOAT, periodic: int = 1) -> Tensor:
    """0.42 - 0.5 cos + 0.08 cos of twice the angle."""
    return _cosines(size, periodic, output_datatype, (0.42, -0.5, 0.08))


@operator("MelWeightMatrix", steers="num_mel_bins dft_length sample_rate lower_edge_hertz upper_edge_hertz")
def mel_weight_matrix(
    num_mel_bins: Any, dft_length: Any, sample_rate: Any, lower_edge_hertz: Any, upper_edge_hertz: Any, *,
    output_datatype: int = FLOAT,
) -> Tensor:  # fmt: skip
    """Triangles that are equally wide on the mel scale, a column each, over the frequencies of a transform."""
    count, length, rate, low, high = (
        number(value) for value in (num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
    )
    unrolled(count, "a column of MelWeightMatrix")
    first, last = (2595 * math.log10(1 + hertz / 700) for hertz in (low, high))
    step = (last - first) / (count + 2)
    hertz = [700 * (10 ** ((first + i * step) / 2595) - 1) for i in range(count + 2)]
    edges = [(length + 1) * each // rate for each in hertz]
    left, middle, right = (Tensor(edges[i : i + count], dtype=dtypes.float32) for i in range(3))
    bins = Tensor.arange(length // 2 + 1, dtype=dtypes.float32).unsqueeze(1)
    up = ((bins >= left) & (bins <= middle)).where((bins - left) / (middle - left).maximum(1), 0)
    up = ((middle == left) & (bins == middle)).where(1.0, up)
    falling = (bins >= middle) & (bins < right)
    down = falling.where((right - bins) / (right - middle).maximum(1), 0)
    return falling.where(down, up).cast(held_in(output_datatype, "MelWeightMatrix"))
