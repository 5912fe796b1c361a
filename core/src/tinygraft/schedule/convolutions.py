"""Convolutions that a routine of the device computes with fewer multiplications: which ones, and where that is faster.

    becomes = by_routine(order, outputs, target_of, fast)

A tensor graph goes in, one of the same values comes out, in which a ROUTINE replaces each convolution that it suits:
two spatial axes (or one, with vectors of 32 bytes), windows without gaps, float32. That is a sum of products of a
WINDOW and weights, and what slides back over such a product in steps of 1, a FOLD: the gradient of the input, whose
weights are turned. What slides back in longer steps is a routine of its own (transposed.py), and so is the gradient of
the weights, of one spatial axis and with gaps too (weight_gradients.py). All others, and those for which no routine is
expected to take less time, stay a product, which codegen computes in tiles.

Groups of one channel and one filter are depthwise convolutions, which have a routine of their own (depthwise.py). For
others there are two. `convolution` is Winograd's algorithm for windows of 3 x 3 or 5 x 5 in steps of 1, in which
n = window + 3 elements along an axis give 4 results by n multiplications in place of 4 * window. It computes in
float64, and what would be less exact than a sum in float32 directly; in float32 where PRECISION=fast allows that
(uop/routines.py). `direct_convolution` makes all products, of any windows and steps, in tiles of filters that waste no
register on short rows. Which one is faster follows from sizes, from how wide vectors of the Target are, and from the
counts of steps below.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinygraft.dtype import dtypes
from tinygraft.helpers import prod, round_up
from tinygraft.schedule.after_routines import Epilogue, Start, epilogues
from tinygraft.schedule.depthwise import NAME as DEPTHWISE
from tinygraft.schedule.depthwise import alone, is_depthwise_faster
from tinygraft.schedule.transposed import NAME as TRANSPOSED
from tinygraft.schedule.transposed import Transposed, in_memory, is_faster, routine_of
from tinygraft.schedule.weight_gradients import NAME as WEIGHTS
from tinygraft.schedule.weight_gradients import Weights, gradient_of, weights_are_faster, weights_of
from tinygraft.target import Target
from tinygraft.uop.epilogues import StepOperand, to_options
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops, ReduceArg, RoutineArg, WindowArg
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, rebuild

NAME, DIRECTLY = "convolution", "direct_convolution"
ROW_AXES = 6  # given: of the product of a convolution of one spatial axis
WINDOWS = (3, 5)  # given: those of the routine (uop/routines.py)
TILE = 4  # given: results of a tile along an axis
# measured: cycles of one thread, with vectors of 64 bytes (2026-11-24, an EPYC with AVX-512, convolutions of ResNet-18,
# benchmarks/NOTES.md)
DIRECT = 1.2  # for a vector of products of the direct way
PRODUCT = 1.1  # for a vector of products of transformed tiles
READ, WRITTEN, WEIGHED = 2.2, 2.5, 0.6  # for each element that is transformed, of tiles, results and weights
STORED = 2.0  # for each result, which the kernel that goes on with it has to read
BLOCK = 48  # tiles for which weights are transformed once
# measured: beside both others (2026-11-28, two threads of a Sapphire Rapids, benchmarks/NOTES.md)
TILED = 0.75  # for a vector of products in tiles of filters
# measured: where a core multiplies one vector in a cycle (2026-11-29, two threads of an EPYC with AVX-512)
TILED_BY_ONE, STORED_BY_ONE = 1.03, 0.5  # of the routine
STRIDED = 1.4  # of the direct way, in steps: lanes of a window are apart
COPIED, PACKED = 1.5, 2.0  # for each element of x with zeros around, and each weight in each block of elements
# measured: rows of one spatial axis, with vectors of 32 bytes only (2026-11-30, an EPYC with AVX2); others keep kernels
MEASURED_OF_ROWS = 32
LEAST = 1 << 21  # products, below which a call takes most of the time
MOST_ELEMENTS = 1 << 30  # given: of the images that are copied at once; the routine has 32 bits for places in them
GAIN = 0.9  # part of the direct way's time that the routine may be expected to take


@dataclass(frozen=True, slots=True)
class Convolution:
    """What a convolution reads, (batch, groups, channels, height, width), and its weights; `results` is its shape.

    Weights are (groups, filters, channels, *window), or `turned` (groups, channels, filters, ...) from the last
    element to the first. `padding` is above, below, left and right; `shape` that of the node that it is.
    """

    x: UOp
    w: UOp
    sizes: tuple[int, int, int, int, int]
    filters: int
    window: tuple[int, int]
    step: tuple[int, int]
    padding: tuple[int, int, int, int]
    turned: bool
    shape: tuple[int, ...]

    @property
    def results(self) -> tuple[int, int]:
        """Return how many rows and columns of results there are."""
        above, below, left, right = self.padding
        height, width = self.sizes[3] + above + below, self.sizes[4] + left + right
        return (height - self.window[0]) // self.step[0] + 1, (width - self.window[1]) // self.step[1] + 1


Found = Convolution | Transposed | Weights


def by_routine(
    order: Sequence[UOp],
    outputs: Sequence[UOp],
    target_of: Callable[[str], Target],
    fast: bool,
    waiting: Iterable[UOp] = (),
) -> dict[UOp, UOp]:
    """Return what becomes of each node of the graph `order` (sources before users); empty where nothing changes.

    `outputs` are the nodes that are requested, `waiting` those that wait for others or are waited for. `fast` allows
    sums that are less exact than direct ones.
    """
    found, kept = convolutions(order, outputs), {*outputs, *waiting}
    if not found:
        return {}
    each = {node: DEPTHWISE for node, c in found.items() if _is_depthwise(c)}
    ends = {node: chain.last for node, chain in _epilogues(order, kept, found, each, target_of).items()}
    stored = alone(found, order, outputs, ends)
    chosen = {
        node: (c, name) for node, c in found.items() if (name := _suited(node, c, target_of, fast, node in stored))
    }
    if not chosen:
        return {}
    done: dict[UOp, UOp] = {}
    after = _epilogues(order, kept, found, {node: name for node, (_, name) in chosen.items()}, target_of)
    last = {chain.last: (node, chain) for node, chain in after.items()}

    def replace(node: UOp, new: UOp) -> UOp:
        """Return the ROUTINE of a chosen node, on what its operands became; of other nodes what they are.

        One with an epilogue is where that ends; no node uses those before it.
        """
        first, chain = last.get(node, (node, None))
        if first in chosen and (chain is not None or node not in after):
            c, name = chosen[first]
            if isinstance(c, Weights):
                results = (1, *c.sizes[:2], c.filters, *c.results)
                new = gradient_of(c, in_memory(done[c.x], (1, *c.sizes)), in_memory(done[c.w], results))
            else:
                new = routine_of(c, done) if isinstance(c, Transposed) else _routine(c, name, done, fast, chain)
        done[node] = new
        return new

    return rebuild(order, {}, replace)


def _epilogues(
    order: Sequence[UOp],
    kept: set[UOp],
    found: Mapping[UOp, Found],
    names: Mapping[UOp, str],
    target_of: Callable[[str], Target],
) -> dict[UOp, Epilogue]:
    """Return what the routines `names` of nodes do with their results, of those that do something."""
    starts = {
        node: Start((c.sizes[0], c.sizes[1], c.filters, *c.results), ops, (c.x,))
        for node, name in names.items()
        if isinstance(c := found[node], Convolution) and (ops := target_of(node.device or "").epilogue_of(name))
    }
    return epilogues(order, kept, starts) if starts else {}


def _is_depthwise(c: Found) -> bool:
    """Return whether each channel has a window of its own, and one filter."""
    return not isinstance(c, Weights) and c.sizes[1] > 1 and c.sizes[2] == c.filters == 1


def convolutions(order: Sequence[UOp], outputs: Sequence[UOp]) -> dict[UOp, Found]:
    """Return the convolutions of a graph by their nodes. A FOLD of which only a part is used is none by itself."""
    found: dict[UOp, Found] = {}
    cut: set[UOp] = set()
    whole = {fold for node in outputs if (fold := _fold_of(node)) is not None}
    for node in order:
        convolution: Found | None = None
        if node.op is Ops.REDUCE_AXIS:
            convolution = _forward(node) or weights_of(node)
        elif node.op is Ops.SHRINK and (fold := _fold_of(node.src[0])) is not None:
            convolution = _cut(node, fold)
            (cut if convolution else whole).add(fold)
        elif node.op is Ops.FOLD:
            convolution = _backward(node, (0, 0, *node.arg.length))
        if node.op is not Ops.SHRINK and _fold_of(node) is None:
            whole.update(fold for s in node.src if (fold := _fold_of(s)) is not None)
        if convolution is not None:
            found[node] = convolution
    for fold in cut - whole:
        found.pop(fold, None)
    return found


def _forward(node: UOp) -> Convolution | None:
    """Return the convolution that a sum over channels and a window is, or None."""
    product = node.src[0]
    if product.op is not Ops.MUL:
        return None
    if _is_of_rows(node):
        return _forward_of_rows(node)
    if not _is_plain(product):
        return None
    if node.arg == ReduceArg(Ops.ADD, (5, 6, 7)):
        batch, groups, filters, *_, channels, tall, wide = product.shape
        weights, last = (1, groups, filters, 1, 1, channels, tall, wide), True
    elif node.arg == ReduceArg(
        Ops.ADD, (3, 6, 7)
    ):  # the gradient of a transposed one, where channels are before places
        batch, groups, filters, channels, *_, tall, wide = product.shape
        weights, last = (1, groups, filters, channels, 1, 1, tall, wide), False
    else:
        return None
    for first, second in (product.src, product.src[::-1]):
        slid, w = _windows(first, (batch, groups, channels), (tall, wide), last), _weights(second, weights)
        if slid is None or w is None:
            continue
        image, padding = slid.src[0], (0, 0, 0, 0)
        while image.op is Ops.RESHAPE and image.shape[-2:] == image.src[0].shape[-2:]:
            image = image.src[0]
        if image.op is Ops.PAD and image.arg[:2] == ((0, 0), (0, 0)) and len(image.shape) == 4:
            (above, below), (left, right) = image.arg[2:]
            if not is_concrete((above, below, left, right)):
                return None
            image, padding = image.src[0], (above, below, left, right)
        sizes = (batch, groups, channels, *image.shape[-2:])
        return Convolution(
            image, w, sizes, filters, (tall, wide), slid.arg.stride, padding, turned=False, shape=node.shape
        )
    return None


def _is_of_rows(node: UOp) -> bool:
    """Return whether a node is a sum of a product with the axes of a convolution of one spatial axis."""
    return node.op is Ops.REDUCE_AXIS and len(node.src[0].shape) == ROW_AXES


def _forward_of_rows(node: UOp) -> Convolution | None:
    """Return the convolution of one spatial axis that a sum is, as one of images of one row, or None."""
    product = node.src[0]
    if not _is_plain(product, ROW_AXES) or node.arg != ReduceArg(Ops.ADD, (4, 5)):
        return None
    batch, groups, filters, _, channels, wide = product.shape
    for first, second in (product.src, product.src[::-1]):
        w, slid = _weights(second, (1, groups, filters, 1, channels, wide)), _same(first, Ops.EXPAND)
        if w is None or slid.op is not Ops.PERMUTE or slid.arg != (0, 1, 2, 4, 3, 5):
            continue
        slid = _same(shaped := slid.src[0], Ops.RESHAPE)
        if slid.op is not Ops.WINDOW or slid.arg.size != (wide,) or slid.arg.dilation != (1,):
            continue
        if shaped.shape != (batch, groups, 1, channels, *slid.shape[-2:]):
            continue
        image, padding = slid.src[0], (0, 0)
        while image.op is Ops.RESHAPE and image.shape[-1:] == image.src[0].shape[-1:]:
            image = image.src[0]
        if image.op is Ops.PAD and image.arg[:-1] == ((0, 0),) * (len(image.shape) - 1):
            image, padding = image.src[0], image.arg[-1]
        if is_concrete(padding):
            sizes, step = (batch, groups, channels, 1, image.shape[-1]), (1, *slid.arg.stride)
            return Convolution(image, w, sizes, filters, (1, wide), step, (0, 0, *padding), False, node.shape)
    return None


def _windows(node: UOp, front: tuple[int, int, int], window: tuple[int, int], last: bool) -> UOp | None:
    """Return the WINDOW of images that a factor with eight axes is, or None. `front` are batch, groups and channels.

    Axes are batch, groups, 1, places, channels and the window if channels come `last`, else channels before places.
    """
    node = _same(node, Ops.EXPAND)
    if last:
        if node.op is not Ops.PERMUTE or node.arg != (0, 1, 2, 4, 5, 3, 6, 7):
            return None
        node = node.src[0]
    slid = _same(node, Ops.RESHAPE)
    if slid.op is not Ops.WINDOW or len(slid.arg.size) != 2 or not _is_plain_window(slid.arg, *window):
        return None
    batch, groups, channels = front
    return slid if node.shape == (batch, groups, 1, channels, *slid.shape[-4:]) else None


def _fold_of(node: UOp) -> UOp | None:
    """Return the FOLD that a node is, perhaps with other axes before the last two; else None."""
    fold = _same(node, Ops.RESHAPE)
    return fold if fold.op is Ops.FOLD and fold.shape[-2:] == node.shape[-2:] else None


def _cut(node: UOp, fold: UOp) -> Convolution | Transposed | None:
    """Return the convolution that a part of `fold` is, or None; only its last two axes are cut."""
    bounds = node.arg
    if len(bounds) < 2 or any(pair != (0, n) for pair, n in zip(bounds[:-2], node.src[0].shape[:-2], strict=True)):
        return None
    (top, bottom), (left, right) = bounds[-2:]
    return _backward(fold, (top, left, bottom, right), node.shape)


def _backward(
    fold: UOp, part: tuple[int, int, int, int], shape: tuple[int, ...] = ()
) -> Convolution | Transposed | None:
    """Return the convolution that rows and columns of a FOLD over sums of products are, or None.

    `part` is the first row, the first column, and those after the last.
    """
    factors = _slid_back(fold)
    if factors is None:
        return None
    x, w, sizes = factors
    filters = prod(fold.shape[1:-2]) // sizes[1]
    top, left, bottom, right = part
    if max(fold.arg.stride) > 1:
        step, window = fold.arg.stride, fold.arg.size
        return Transposed(
            x, w, sizes, filters, window, step, (top, left), (bottom - top, right - left), shape or fold.shape
        )
    (tall, wide), length = fold.arg.size, fold.arg.length
    padding = (tall - 1 - top, tall - 1 - (length[0] - bottom), wide - 1 - left, wide - 1 - (length[1] - right))
    if min(padding) < 0:
        return None
    return Convolution(x, w, sizes, filters, fold.arg.size, (1, 1), padding, turned=True, shape=shape or fold.shape)


def _slid_back(fold: UOp) -> tuple[UOp, UOp, tuple[int, int, int, int, int]] | None:
    """Return x, weights and sizes of the products whose sums slide back, or None where no routine computes them.

    Sizes are batch, groups, channels, height and width of x.
    """
    if len(fold.arg.length) != 2 or not is_concrete(fold.src[0].shape):
        return None
    total = fold.src[0]
    while total.op is Ops.RESHAPE and total.src[0].op in (Ops.RESHAPE, Ops.PERMUTE, Ops.REDUCE_AXIS, Ops.MUL):
        total = total.src[0]
    gradient = total.op is Ops.PERMUTE and total.arg == (0, 1, 2, 5, 3, 4, 6, 7)  # has filters behind the image
    total = total.src[0] if gradient else total
    summed = total.op is Ops.REDUCE_AXIS and total.arg == ReduceArg(Ops.ADD, (2,))
    product, window = total.src[0] if summed else total, fold.arg.size
    if product.op is not Ops.MUL or not _is_plain(product) or fold.arg.dilation != (1, 1):
        return None
    batch, groups, channels = product.shape[:3]
    if not summed and channels > 1:
        return None
    filters, image = (product.shape[5], product.shape[3:5]) if gradient else (product.shape[3], product.shape[4:6])
    shape = (batch, groups * filters) if gradient else (batch, groups, filters)
    if fold.shape != (*shape, *fold.arg.length) or product.shape[6:] != window:
        return None
    every, weights = ((*image, 1), (1, 1, filters)) if gradient else ((1, *image), (filters, 1, 1))
    for first, second in (product.src, product.src[::-1]):
        x = _same(first, Ops.EXPAND)
        w = _weights(second, (1, groups, channels, *weights, *window))
        if w is not None and x.shape == (batch, groups, channels, *every, 1, 1):
            return x, w, (batch, groups, channels, *image)
    return None


def _is_plain(product: UOp, axes: int = 8) -> bool:
    """Return whether a product is of float32, of known sizes above 0, with the eight axes that conv2d makes."""
    shape = product.shape
    return product.dtype is dtypes.float32 and len(shape) == axes and is_concrete(shape) and 0 not in shape


def _is_plain_window(arg: WindowArg, tall: int, wide: int) -> bool:
    """Return whether windows are of this size and without gaps."""
    return arg.size == (tall, wide) and arg.dilation == (1, 1)


def _same(node: UOp, op: Ops) -> UOp:
    """Return the source of a node of `op`, any other node itself."""
    return node.src[0] if node.op is op else node


def _weights(node: UOp, shape: tuple[int, ...]) -> UOp | None:
    """Return what an operand of this shape, or one that is broadcast from it, is a reshape of; None for others."""
    node = _same(node, Ops.EXPAND)
    return node if node.shape == shape else None


def _suited(node: UOp, c: Found, target_of: Callable[[str], Target], fast: bool, stored: bool) -> str:
    """Return the routine of the convolution's device that is expected to take least time; empty where kernels are.

    `stored` says whether its results are memory with either. What is computed in a half type is left to kernels, which
    multiply several at once.
    """
    target = target_of(node.device or "")
    if isinstance(c, Convolution) and _is_of_rows(node) and target.vector_bytes != MEASURED_OF_ROWS:
        return ""
    if any(_comes_from_half(operand) for operand in (c.x, c.w)) or not target.vector_bytes:
        return ""
    if isinstance(c, Weights):
        return WEIGHTS if weights_are_faster(c, target) else ""
    if _is_depthwise(c):
        name = TRANSPOSED if isinstance(c, Transposed) else DEPTHWISE
        if not target.has_routine(name, node.dtype, prod(c.sizes)):
            return ""
        step, turned = ((0, 0), True) if isinstance(c, Transposed) else (c.step, c.turned)
        return name if is_depthwise_faster(c.sizes, c.window, step, c.results, turned, stored, target) else ""
    if isinstance(c, Transposed):
        return TRANSPOSED if is_faster(c, target) else ""
    times = {"": GAIN * direct_time(c, target)}
    if target.has_routine(DIRECTLY, node.dtype, prod(c.sizes)) and _fits_tiles(c):
        times[DIRECTLY] = tiled_time(c, target)
    unit = c.window[0] == c.window[1] and c.window[0] in WINDOWS and c.step == (1, 1)
    # of 3 x 3 elements a quarter of the products, in float64, was nowhere faster than all in float32 by two multipliers
    beaten = DIRECTLY in times and c.window[0] == WINDOWS[0] and not fast and target.multipliers != 1
    if unit and not beaten and target.has_routine(NAME, node.dtype, prod(c.sizes)):
        times[NAME] = time_of(c, target, fast)
    return min(times, key=lambda name: times[name])


def _fits_tiles(c: Convolution) -> bool:
    """Return whether the direct routine has numbers for all places, and enough to do."""
    above, below, left, right = c.padding
    padded = c.sizes[2] * (c.sizes[3] + above + below) * (c.sizes[4] + left + right)
    products = prod(c.sizes[:3]) * c.filters * prod(c.results) * prod(c.window)
    return padded <= MOST_ELEMENTS and products >= LEAST


def _comes_from_half(node: UOp) -> bool:
    """Return whether a value is a half type's, in float32."""
    base = memory_base(node)
    return base.op is Ops.CAST and base.src[0].dtype.itemsize < 4 and base.src[0].dtype.kind == "float"


def direct_time(c: Convolution, target: Target) -> float:
    """Return cycles of one thread for a convolution as a product in tiles."""
    batch, groups, channels, *_ = c.sizes
    lanes = target.vector_bytes // 4
    cycles = STRIDED if target.multipliers == 1 and max(c.step) > 1 else DIRECT
    return batch * groups * prod(c.results) * c.filters * channels * prod(c.window) / lanes * cycles


def tiled_time(c: Convolution, target: Target) -> float:
    """Return cycles of one thread for a convolution by the direct routine, with storing and reading its results."""
    batch, groups, channels, height, width = c.sizes
    lanes = target.vector_bytes // 4
    above, below, left, right = c.padding
    copied = (height + above + below) * (width + left + right) if max(c.window) > 1 else prod(c.results)
    cycles, stored = (TILED_BY_ONE, STORED_BY_ONE) if target.multipliers == 1 else (TILED, STORED)
    products = prod(c.results) * round_up(c.filters, lanes) * channels * prod(c.window) / lanes * cycles
    packed = c.filters * channels * prod(c.window) * PACKED
    return groups * (batch * (products + copied * channels * COPIED + c.filters * prod(c.results) * stored) + packed)


def time_of(c: Convolution, target: Target, fast: bool) -> float:
    """Return cycles of one thread for a convolution by the routine, with storing and reading its results once more."""
    batch, groups, channels, *_ = c.sizes
    lanes = target.vector_bytes // (4 if fast else 8)
    elements = prod([n + TILE - 1 for n in c.window])
    tiles = batch * prod([-(-size // TILE) for size in c.results])
    vectors = -(-tiles // lanes)
    blocks = -(-tiles // BLOCK)
    step = 64 / target.vector_bytes * (0.5 if fast else 1.0)
    transformed = tiles * (READ * channels + WRITTEN * c.filters) + channels * c.filters * blocks * WEIGHED
    product = channels * c.filters * vectors * PRODUCT
    return groups * (elements * (product + transformed * step) + batch * c.filters * prod(c.results) * STORED)


def _routine(c: Convolution, name: str, done: dict[UOp, UOp], fast: bool, after: Epilogue | None) -> UOp:
    """Return the routine `name` of a convolution on what its operands became, in the shape of its node.

    With an epilogue `after` it, in the shape of that.
    """
    batch, groups, channels, *_ = c.sizes
    shape = (channels, c.filters) if c.turned else (c.filters, channels)
    x = in_memory(done[c.x], (1, *c.sizes))
    w = in_memory(done[c.w], (1, groups, *shape, *c.window))
    last = c.step if name in (DIRECTLY, DEPTHWISE) else (int(fast),)
    more = []
    if after is not None:
        of_kind = {
            StepOperand.CHANNEL: (1, groups, c.filters),
            StepOperand.ELEMENT: (1, batch, groups, c.filters, *c.results),
        }
        pairs = zip(after.steps, after.operands, strict=True)
        more = [in_memory(done[node], of_kind[step.kind]) for step, node in pairs if node is not None]
        last = (*last, *to_options(after.steps))
    found = UOp(Ops.ROUTINE, dtypes.float32, (x, w, *more), RoutineArg(name, 0, (*c.padding, int(c.turned), *last)))
    return UOp(Ops.RESHAPE, found.dtype, (found,), c.shape if after is None else after.last.shape)
