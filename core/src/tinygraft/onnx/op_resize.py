"""Operators of ONNX: images of another size.

Each axis by itself: where the places of the result are in the input follows from the scale, on the host; `nearest`
takes elements, `linear` and `cubic` add up elements nearby with weights.

Sources: the documentation of Resize; Keys, "Cubic convolution interpolation for digital image processing" (1981).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, ShapeError
from tinygraft.onnx.operator_table import axes_of, operator, text, unrolled
from tinygraft.tensor.tensor import Tensor

_NEAREST: dict[str, Callable[[float], int]] = {
    "round_prefer_floor": lambda x: math.ceil(x - 0.5), "round_prefer_ceil": lambda x: math.floor(x + 0.5),
    "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip


@dataclass(frozen=True)
class ResizedAxis:
    """One axis of a resize: sizes before and after, the scale, and the part of the input that is taken."""

    before: int
    after: int
    scale: float
    start: float = 0.0
    end: float = 1.0


@dataclass(frozen=True)
class Resizing:
    """What is the same for all axes."""

    mode: str
    place: str
    nearest: str
    cubic: float
    exclude: bool
    antialias: bool
    beyond: float


def _place(x: int, axis: ResizedAxis, mode: str) -> float:
    """Return where index x of the result is in the input, as a float. Raises FileFormatError for an unknown mode."""
    if mode == "asymmetric":
        return x / axis.scale
    if mode == "align_corners":
        return x * (axis.before - 1) / (axis.after - 1) if axis.after > 1 else 0.0
    if mode == "pytorch_half_pixel" and axis.after <= 1:
        return 0.0
    if mode == "tf_crop_and_resize":
        last = axis.before - 1
        if axis.after <= 1:
            return 0.5 * (axis.start + axis.end) * last
        return axis.start * last + x * (axis.end - axis.start) * last / (axis.after - 1)
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) / axis.scale
    offset = 0.0
    if mode == "half_pixel_symmetric":
        offset = axis.before / 2 * (1 - axis.after / (axis.scale * axis.before))
    elif mode not in ("half_pixel", "pytorch_half_pixel"):
        raise FileFormatError(f"Resize has no coordinate_transformation_mode {mode!r}")
    return offset + (x + 0.5) / axis.scale - 0.5


def _kernel(mode: str, cubic: float) -> tuple[Callable[[float], float], int]:
    """The weight by distance, and how far it reaches."""
    if mode == "linear":
        return lambda d: max(1 - abs(d), 0.0), 1

    def weight(d: float) -> float:
        d = abs(d)
        if d < 1:
            return ((cubic + 2) * d - (cubic + 3)) * d * d + 1
        return ((cubic * d - 5 * cubic) * d + 8 * cubic) * d - 4 * cubic if d < 2 else 0.0

    return weight, 2


def _taps(axis: ResizedAxis, how: Resizing) -> list[tuple[list[int], list[float]]]:
    """For each place of the result the elements that it is made of, tap by tap, and the weight of each."""
    kernel, reach = _kernel(how.mode, how.cubic)
    narrow = min(axis.scale, 1.0) if how.antialias else 1.0
    places = [_place(x, axis, how.place) for x in range(axis.after)]
    first = [math.floor(place - reach / narrow) for place in places]
    count = math.ceil(2 * reach / narrow) + 2
    rows = []
    for place, start in zip(places, first, strict=True):
        row = [kernel((start + tap - place) * narrow) for tap in range(count)]
        if how.exclude:
            row = [value if 0 <= start + tap < axis.before else 0.0 for tap, value in enumerate(row)]
        total = sum(row)
        rows.append([value / total for value in row] if total and (how.exclude or how.antialias) else row)
    found = []
    for tap in range(count):
        weights = [row[tap] for row in rows]
        if any(weights):
            found.append(([min(max(start + tap, 0), axis.before - 1) for start in first], weights))
    return found


def _along(x: Tensor, number: int, axis: ResizedAxis, how: Resizing) -> Tensor:
    """x with one axis of another size."""
    unrolled(axis.after, "a place of Resize")
    if how.mode == "nearest":
        taps = [_NEAREST[how.nearest](_place(i, axis, how.place)) for i in range(axis.after)]
        index = Tensor([min(max(tap, 0), axis.before - 1) for tap in taps], dtype=dtypes.int64, device=x.device)
        return x.index_select(number, index)
    beside = [-1 if i == number else 1 for i in range(x.ndim)]
    parts = []
    for places, weights in _taps(axis, how):
        taken = x.index_select(number, Tensor(places, dtype=dtypes.int64, device=x.device))
        parts.append(taken * Tensor(weights, dtype=dtypes.float32, device=x.device).cast(x.dtype).reshape(beside))
    return reduce(Tensor.add, parts)


def _resized(x: Tensor, axes: dict[int, ResizedAxis], how: Resizing) -> Tensor:
    """Return x with some axes of other sizes, in its dtype.

    What is taken from beyond the input is one value, where it is cropped. Raises FileFormatError for an unknown mode.
    """
    if how.mode not in ("nearest", "linear", "cubic") or how.nearest not in _NEAREST:
        raise FileFormatError(f"Resize has no mode {how.mode!r} with nearest_mode {how.nearest!r}")
    wide = x if how.mode == "nearest" or dtypes.is_float(x.dtype) else x.cast(dtypes.float32)
    for number, axis in axes.items():
        if axis.before != axis.after or how.place == "tf_crop_and_resize" or axis.scale != 1:
            wide = _along(wide, number, axis, how)
    if how.place == "tf_crop_and_resize":
        for number, axis in axes.items():
            inside = [0 <= _place(i, axis, how.place) <= axis.before - 1 for i in range(axis.after)]
            shape = [-1 if i == number else 1 for i in range(x.ndim)]
            wide = Tensor(inside, dtype=dtypes.bool, device=x.device).reshape(shape).where(wide, how.beyond)
    return wide.cast(x.dtype)


@operator("Upsample", steers="scales")
def upsample(
    x: Tensor, scales: Any = None, *, mode: bytes = b"nearest", height_scale: float = 0.0, width_scale: float = 0.0
) -> Tensor:
    """Return x with more elements along its axes, by scales or by those of height and width."""
    found = list(scales) if scales is not None else [1.0, 1.0, height_scale, width_scale]
    return resize_10(x, found, mode=mode)


@operator("Resize", since=10, steers="scales")
def resize_10(x: Tensor, scales: list[float], *, mode: bytes = b"nearest") -> Tensor:
    """Return x with other sizes, each cut down from the old one times its scale; nearest or linear."""
    kept = _whole_axes(x, list(range(len(scales))), [s == 1 for s in scales])
    axes = {i: ResizedAxis(int(x.shape[i]), math.floor(int(x.shape[i]) * scales[i]), scales[i]) for i in kept}
    how = Resizing(
        "linear" if text(mode) == "bilinear" else text(mode), "asymmetric", "floor", -0.75, False, False, 0.0
    )
    return _resized(x, axes, how)


@operator("Resize", since=11, steers="roi scales sizes")
def resize(
    x: Tensor, roi: list[float] | None = None, scales: list[float] | None = None, sizes: list[int] | None = None, *,
    antialias: int = 0, axes: Sequence[int] | None = None, coordinate_transformation_mode: bytes = b"half_pixel",
    cubic_coeff_a: float = -0.75, exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: bytes = b"stretch", mode: bytes = b"nearest",
    nearest_mode: bytes = b"round_prefer_floor",
) -> Tensor:  # fmt: skip
    """Return x with other sizes, given or by scales, of `axes`, None for all.

    Raises ShapeError without both and for a symbolic size that would change, FileFormatError for an unknown mode,
    UnsupportedError for very long axes.
    """
    numbers = axes_of(axes, x.ndim) if axes is not None else list(range(x.ndim))
    place = text(coordinate_transformation_mode)
    parts = dict.fromkeys(numbers, (0.0, 1.0))
    if roi and place == "tf_crop_and_resize":
        parts = {number: (roi[i], roi[i + len(numbers)]) for i, number in enumerate(numbers)}
    same = [not isinstance(size, int) for size in sizes] if sizes else [scale == 1 for scale in scales or ()]
    kept = _whole_axes(x, numbers, same)  # the others have a symbolic size, and keep it
    numbers = [numbers[i] for i in kept]
    have = [int(x.shape[number]) for number in numbers]
    if sizes:
        after, factors = _by_sizes(have, [sizes[i] for i in kept], text(keep_aspect_ratio_policy))
    elif scales:
        factors = [scales[i] for i in kept]
        after = [
            math.floor(size * (parts[number][1] - parts[number][0]) * factor)
            for size, number, factor in zip(have, numbers, factors, strict=True)
        ]
    else:
        raise ShapeError("Resize has neither scales nor sizes")
    found = {number: ResizedAxis(have[i], after[i], factors[i], *parts[number]) for i, number in enumerate(numbers)}
    how = Resizing(text(mode), place, text(nearest_mode), cubic_coeff_a, bool(exclude_outside), bool(antialias),
               extrapolation_value)  # fmt: skip
    return _resized(x, found, how)


def _whole_axes(x: Tensor, numbers: list[int], same: list[bool]) -> list[int]:
    """Return which of the axes `numbers` have a size that is a number, as indices into it.

    Raises ShapeError where one that is symbolic does not stay the same.
    """
    symbolic = [i for i, number in enumerate(numbers) if not isinstance(x.shape[number], int)]
    changed = [numbers[i] for i in symbolic if i >= len(same) or not same[i]]
    if changed:
        raise ShapeError(f"Resize changes the axes {changed} of {x.shape}, whose size is symbolic")
    return [i for i in range(len(numbers)) if i not in symbolic]


def _by_sizes(have: list[int], want: list[int], policy: str) -> tuple[list[int], list[float]]:
    """Return sizes and scales; a policy that keeps the ratio has one scale for all axes.

    FileFormatError for another one.
    """
    factors = [b / a for a, b in zip(have, want, strict=True)]
    if policy == "stretch":
        return list(want), factors
    if policy not in ("not_larger", "not_smaller"):
        raise FileFormatError(f"Resize has no keep_aspect_ratio_policy {policy!r}")
    factor = min(factors) if policy == "not_larger" else max(factors)
    return [math.floor(factor * size + 0.5) for size in have], [factor] * len(have)
