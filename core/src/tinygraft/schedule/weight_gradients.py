"""Gradients of a convolution's weights that a routine of the device computes where it is faster.

Each is a sum of products of a WINDOW of images, or of a row of elements, and of the gradients of results, over
images and places. Codegen packs a panel of the windows, whose elements it gathers; the routine reads them where they
are, as numbers that it multiplies with vectors of filters, of which it wastes those that a tile has too many. Those of
depthwise convolutions have lanes that are columns, or channels where rows are short; kernels of 3 x 3 in steps of 1 are
as fast.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.dtype import dtypes
from tinygraft.helpers import prod, round_up
from tinygraft.schedule.depthwise import LARGE, NARROW
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

NAME = "convolution_weights"
# measured: beside kernels (2026-11-29, two threads of a Sapphire Rapids, benchmarks/NOTES.md)
LEAST = 1 << 21  # products, below which a call takes most of the time
WASTE = 1.35  # products over those that are needed, at most
FEWEST = 32  # elements of all windows of a filter, below which packing gradients is most of the work
REUSED = 512  # results of all images, below which transposing weights is most of the work
MOST = 1 << 30  # given: of images that are copied at once; the routine has 32 bits for places in them


@dataclass(frozen=True, slots=True)
class Weights:
    """What a gradient of weights reads: x (batch, groups, channels, height, width), gradients of results.

    Gradients are (batch, groups, filters, rows, columns); `shape` is that of the node that it is.
    """

    x: UOp
    w: UOp
    sizes: tuple[int, int, int, int, int]
    filters: int
    results: tuple[int, int]
    window: tuple[int, int]
    step: tuple[int, int]
    gap: tuple[int, int]
    before: tuple[int, int]
    shape: tuple[int, ...]


def weights_of(node: UOp) -> Weights | None:
    """Return the gradient of weights that a sum over images and places is, or None."""
    product = node.src[0]
    shape = product.shape
    if product.op is not Ops.MUL or product.dtype is not dtypes.float32 or not is_concrete(shape) or 0 in shape:
        return None
    if len(shape) not in (6, 8) or node.arg.op is not Ops.ADD:
        return None
    axes = (len(shape) - 4) // 2  # of places, and of the window
    batch, groups, filters = shape[:3]
    window = shape[-axes:]
    summed = node.arg.axes if shape[0] > 1 else (0, *[n for n in node.arg.axes if n])  # one image is no sum
    if summed == (0, *range(3, 3 + axes)):
        last, results, channels = True, shape[3 : 3 + axes], shape[3 + axes]
        spread = (*results, 1)
    elif summed == (0, *range(4, 4 + axes)):  # of a transposed one, where channels are before places
        last, channels, results = False, shape[3], shape[4 : 4 + axes]
        spread = (1, *results)
    else:
        return None
    for first, second in (product.src, product.src[::-1]):
        slid = _windows(first, (batch, groups, 1, channels, *results, *window), axes, last)
        given = second.src[0] if second.op is Ops.EXPAND else second
        if slid is None or given.shape != (batch, groups, filters, *spread, *[1] * axes):
            continue
        image, before = slid.src[0], (0,) * axes
        while image.op is Ops.RESHAPE and image.shape[-axes:] == image.src[0].shape[-axes:]:
            image = image.src[0]
        others = len(image.shape) - axes
        if image.op is Ops.PAD and image.arg[:others] == ((0, 0),) * others:
            before = tuple([pair[0] for pair in image.arg[others:]])
            if not is_concrete(before):
                return None
            image = image.src[0]
        sizes = (batch, groups, channels, *_pair(image.shape[-axes:], 1))
        places, element, step, gap = [_pair(n, 1) for n in (results, window, slid.arg.stride, slid.arg.dilation)]
        return Weights(image, given, sizes, filters, places, element, step, gap, _pair(before, 0), node.shape)
    return None


def _windows(node: UOp, shape: tuple[int, ...], axes: int, last: bool) -> UOp | None:
    """Return the WINDOW that a factor of so many `axes` of places is, in `shape` or with channels `last`; or None."""
    node = node.src[0] if node.op is Ops.EXPAND else node
    if last:
        before = (0, 1, 2, *range(4, 4 + axes), 3, *range(4 + axes, 4 + 2 * axes))
        if node.op is not Ops.PERMUTE or node.arg != before:
            return None
        node = node.src[0]
    slid = node.src[0] if node.op is Ops.RESHAPE else node
    return slid if slid.op is Ops.WINDOW and len(slid.arg.size) == axes and node.shape == shape else None


def _pair(values: tuple[int, ...], first: int) -> tuple[int, int]:
    """Return numbers of two axes, or of one behind another that has `first`."""
    return (values[0], values[1]) if len(values) == 2 else (first, values[0])


def weights_are_faster(c: Weights, target: Target) -> bool:
    """Return whether the device of a gradient of weights has the routine, and it is expected to take less time."""
    batch, groups, channels, *_ = c.sizes
    lanes = target.vector_bytes // 4
    copied = groups * prod(c.sizes[2:]) * batch
    if not target.has_routine(NAME, dtypes.float32, prod(c.sizes)) or copied > MOST:
        return False
    if groups > 1 and channels == c.filters == 1:
        short = c.results[1] <= NARROW and 2 * c.results[1] <= lanes and groups >= lanes
        return c.gap == (1, 1) and (short or max(c.step) > 1 or prod(c.window) >= LARGE)
    elements, results = channels * prod(c.window), batch * prod(c.results)
    # tiles are whole vectors, and with one the sums of six weights wait for each other
    if c.filters <= lanes or round_up(c.filters, lanes) > WASTE * c.filters:
        return False
    return results >= REUSED and elements >= FEWEST and groups * results * c.filters * elements >= LEAST


def gradient_of(c: Weights, x: UOp, w: UOp) -> UOp:
    """Return the routine of a gradient of weights on operands in their axes, in the shape of its node."""
    options = (*c.before, *c.step, *c.gap, *c.window)
    found = UOp(Ops.ROUTINE, dtypes.float32, (x, w), RoutineArg(NAME, 0, options))
    return UOp(Ops.RESHAPE, found.dtype, (found,), c.shape)
