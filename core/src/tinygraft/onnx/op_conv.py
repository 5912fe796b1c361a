"""Operators of ONNX: convolutions, and how windows are placed.

`windows` reads the attributes that convolutions and pools share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, ShapeError
from tinygraft.onnx.operator_table import operator, text
from tinygraft.tensor.tensor import Tensor

Ints = Sequence[int]


def auto_pads(auto_pad: bytes, pads: Ints | None, sizes: Sequence[Any], kernel: Ints, strides: Ints, dilations: Ints,
              ) -> list[tuple[int, int]]:  # fmt: skip
    """Return how many elements are added (before, after) along each axis of windows.

    `sizes` are those of the image; `pads` has all before, then all after, and counts with auto_pad NOTSET alone. Raises
    ShapeError for another number of pads, FileFormatError for another auto_pad.
    """
    mode, count = text(auto_pad), len(kernel)
    if mode == "NOTSET":
        given = list(pads or [0] * 2 * count)
        if len(given) != 2 * count:
            raise ShapeError(f"there are {len(given)} pads for windows of {count} axes; there are two for each")
        return [(given[i], given[i + count]) for i in range(count)]
    if mode == "VALID":
        return [(0, 0)] * count
    if mode not in ("SAME_UPPER", "SAME_LOWER"):
        raise FileFormatError(f"auto_pad is NOTSET, VALID, SAME_UPPER or SAME_LOWER, got {mode!r}")
    found = []
    for size, width, stride, dilation in zip(sizes, kernel, strides, dilations, strict=True):
        all_of_it = max((-(-int(size) // stride) - 1) * stride + (width - 1) * dilation + 1 - int(size), 0)
        less, more = all_of_it // 2, all_of_it - all_of_it // 2
        found.append((less, more) if mode == "SAME_UPPER" else (more, less))
    return found


def flat_pads(pads: Sequence[tuple[int, int]]) -> tuple[int, ...]:
    """Pads as Tensor.conv2d has them: those of the last axis first."""
    return tuple(side for pair in reversed(pads) for side in pair)


@operator("Conv")
def conv(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: bytes = b"NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return the convolution of x (batch, channels, ...) with w (out channels, channels of a group, ...).

    Raises ShapeError for a kernel_shape that is not that of w, and as `auto_pads`.
    """
    kernel = [int(size) for size in w.shape[2:]]
    if kernel_shape is not None and list(kernel_shape) != kernel:
        raise ShapeError(f"Conv has the kernel_shape {list(kernel_shape)}, and weights of {w.shape}")
    strides, dilations = strides or [1] * len(kernel), dilations or [1] * len(kernel)
    around = auto_pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    return x.conv2d(w, b, groups=group, stride=tuple(strides), dilation=tuple(dilations), padding=flat_pads(around))


@operator("ConvTranspose")
def conv_transpose(
    x: Tensor, w: Tensor, b: Tensor | None = None, *, auto_pad: bytes = b"NOTSET", dilations: Ints | None = None,
    group: int = 1, kernel_shape: Ints | None = None, output_padding: Ints | None = None,
    output_shape: Ints | None = None, pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return the transposed convolution, of which `pads` are cut off, or as many as give an output_shape.

    x is (batch, channels, ...), w (channels, channels of a group of the result, ...); sizes have to be known.
    """
    kernel = [int(size) for size in w.shape[2:]]
    count = len(kernel)
    strides, dilations = list(strides or [1] * count), list(dilations or [1] * count)
    extra = list(output_padding or [0] * count)
    full = [
        strides[i] * (int(x.shape[2 + i]) - 1) + extra[i] + (kernel[i] - 1) * dilations[i] + 1 for i in range(count)
    ]
    mode = text(auto_pad)
    if output_shape is None and mode in ("SAME_UPPER", "SAME_LOWER"):
        output_shape = [int(x.shape[2 + i]) * strides[i] for i in range(count)]
    if output_shape is not None:
        want = list(output_shape)[-count:]
        full = [max(full[i], want[i]) for i in range(count)]
        cut = [full[i] - want[i] for i in range(count)]
        around = [(a // 2, a - a // 2) if mode != "SAME_LOWER" else (a - a // 2, a // 2) for a in cut]
    else:
        around = auto_pads(auto_pad, pads, x.shape[2:], kernel, strides, dilations)
    found = x.conv_transpose2d(w, None, groups=group, stride=tuple(strides), dilation=tuple(dilations), padding=0)
    grown = [(0, max(full[i] - int(found.shape[2 + i]), 0)) for i in range(count)]
    found = found.pad(((0, 0), (0, 0), *grown))
    found = found.shrink([None, None, *((a, full[i] - z) for i, (a, z) in enumerate(around))])
    return found if b is None else found + b.reshape(1, -1, *(1,) * count)


@operator("ConvInteger")
def conv_integer(
    x: Tensor, w: Tensor, x_zero_point: Tensor | None = None, w_zero_point: Tensor | None = None, *,
    auto_pad: bytes = b"NOTSET", dilations: Ints | None = None, group: int = 1, kernel_shape: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return the convolution of integers, from which zero points are subtracted, as int32.

    The attributes are those of `conv`.
    """
    left, right = x.cast(dtypes.int32), w.cast(dtypes.int32)
    left = left if x_zero_point is None else left - x_zero_point.cast(dtypes.int32)
    if w_zero_point is not None:
        zero = w_zero_point.cast(dtypes.int32)
        right = right - (zero.reshape(-1, *(1,) * (w.ndim - 1)) if zero.ndim else zero)
    found = conv(left, right, auto_pad=auto_pad, dilations=dilations, group=group, kernel_shape=kernel_shape, pads=pads,
                 strides=strides)  # fmt: skip
    return found.cast(dtypes.int32)


@operator("CausalConvWithState")
def causal_conv(
    x: Tensor, w: Tensor, bias: Tensor | None = None, past_state: Tensor | None = None, *,
    activation: bytes = b"none",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return a convolution of each channel over what came before, and the last elements as the state of the next call.

    x is (batch, channels, length), w (channels, 1, width), the state (batch, channels, width - 1), zeros where it is
    None. Raises FileFormatError for an activation other than none, silu and swish.
    """
    before = int(w.shape[-1]) - 1
    whole = x.pad(((0, 0), (0, 0), (before, 0))) if past_state is None else past_state.cat(x, dim=-1)
    found = whole.conv2d(w, bias, groups=int(x.shape[1]))
    if text(activation) in ("silu", "swish"):
        found = found.silu()
    elif text(activation) != "none":
        raise FileFormatError(f"CausalConvWithState has no activation {text(activation)!r}")
    length = int(whole.shape[-1])
    return found, whole.shrink([None, None, (length - before, length)])


@operator("Col2Im", steers="image_shape block_shape")
def col2im(
    x: Tensor, image_shape: list[int], block_shape: list[int], *, dilations: Ints | None = None,
    pads: Ints | None = None, strides: Ints | None = None,
) -> Tensor:  # fmt: skip
    """Return columns (batch, channels * block, steps) added up to images (batch, channels, *image_shape)."""
    count = len(image_shape)
    strides, dilations = strides or [1] * count, dilations or [1] * count
    around = auto_pads(b"NOTSET", pads, image_shape, block_shape, strides, dilations)
    sizes = [image_shape[i] + sum(around[i]) for i in range(count)]
    steps = [(sizes[i] - (block_shape[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(count)]
    places = Tensor.zeros(*(1,) * 2 * count, dtype=dtypes.int64, device=x.device)
    for i in range(count):
        within = Tensor.arange(block_shape[i], dtype=dtypes.int64, device=x.device) * dilations[i]
        first = Tensor.arange(steps[i], dtype=dtypes.int64, device=x.device) * strides[i]
        own = within.reshape([-1 if axis == i else 1 for axis in range(2 * count)])
        places = places * sizes[i] + own + first.reshape([-1 if axis == count + i else 1 for axis in range(2 * count)])
    batch, block, total = int(x.shape[0]), 1, 1
    for width, size in zip(block_shape, sizes, strict=True):
        block, total = block * width, total * size
    channels = int(x.shape[1]) // block
    values = x.reshape(batch, channels, -1)
    target = Tensor.zeros(batch, channels, total, dtype=x.dtype, device=x.device)
    found = target.scatter_reduce(2, places.reshape(1, 1, -1).expand(values.shape), values, "sum")
    found = found.reshape(batch, channels, *sizes)
    return found.shrink([None, None, *((a, sizes[i] - z) for i, (a, z) in enumerate(around))])
