"""Which convolutions a schedule leaves to a routine: by what they are, and by what both ways are expected to take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft import Context, Device, Tensor, Variable, dtypes
from tinygraft.schedule.convolutions import Convolution, convolutions, direct_time, time_of
from tinygraft.schedule.schedule import schedule
from tinygraft.target import DeclaredRoutine, Target
from tinygraft.uop.epilogues import EpilogueStep, StepOperand, to_options
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import RoutineCall
from tinygraft.uop.uop import postorder

TARGET = replace(
    Device["PYTHON"].target,
    vector_bytes=64,
    registers=32,
    routines=(
        DeclaredRoutine("convolution", (dtypes.float32,)),
        DeclaredRoutine("transposed_convolution", (dtypes.float32,)),
    ),
)
WITHOUT = replace(TARGET, routines=())
BOTH = replace(TARGET, routines=(*TARGET.routines, DeclaredRoutine("direct_convolution", (dtypes.float32,))))


@pytest.fixture(autouse=True)
def python() -> object:
    """All of this is scheduled for PYTHON's name, with another Target."""
    with Context(DEV="PYTHON"):
        yield


def memory(*shape: int, dtype: object = dtypes.float32) -> Tensor:
    """Return a tensor that is memory."""
    return Tensor.empty(*shape, dtype=dtype).realize()


def routines(*tensors: Tensor, target: Target = TARGET) -> list[tuple[int, ...]]:
    """Return the options of the routines that compute tensors."""
    calls = schedule([t.uop for t in tensors], lambda _: target).calls
    return [call.routine.options for call in calls if isinstance(call, RoutineCall)]


def test_a_large_one_is_a_routine() -> None:
    """With its padding: above, below, left, right; neither turned nor fast. No kernel is left."""
    x, w = memory(4, 96, 28, 30), memory(64, 96, 3, 3)
    found = x.conv2d(w, padding=(1, 2, 0, 3))
    (call,) = schedule([found.uop], lambda _: TARGET).calls
    assert isinstance(call, RoutineCall)
    assert call.routine.options == (0, 3, 1, 2, 0, 0)
    assert [shape for _, shape in call.routine.operands] == [(1, 4, 1, 96, 28, 30), (1, 1, 64, 96, 3, 3)]


def test_groups_and_five_taps() -> None:
    """Groups are an axis of both operands."""
    x, w = memory(4, 128, 20, 20), memory(96, 64, 5, 5)
    (call,) = schedule([x.conv2d(w, groups=2).uop], lambda _: TARGET).calls
    assert [shape for _, shape in call.routine.operands] == [(1, 4, 2, 64, 20, 20), (1, 2, 48, 64, 5, 5)]


@pytest.mark.parametrize("padding", [0, 1, 2])
def test_the_gradient_of_an_image_is_one_too(padding: int) -> None:
    """It has turned weights, and as much padding as is left of the window's; nothing is computed that is cut off."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    start = memory(4, 128, 26 + 2 * padding, 26 + 2 * padding)
    (slope,) = x.conv2d(w, padding=padding).gradient(x, gradient=start)
    assert routines(slope) == [(2 - padding,) * 4 + (1, 0)]


def test_more_padding_than_a_window_has_is_no_single_convolution() -> None:
    """Where padding is wider than windows, the gradient is a part of that of the padded image, which is one."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    (slope,) = x.conv2d(w, padding=4).gradient(x, gradient=memory(4, 128, 34, 34))
    assert routines(slope) == [(2, 2, 2, 2, 1, 0)]


def test_what_else_reads_the_whole_is_computed_from_the_whole() -> None:
    """A gradient of which one reader takes a part and another all is two convolutions, each right by itself."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    padded = x.pad(((0, 0), (0, 0), (1, 1), (1, 1)))
    (slope,) = padded.conv2d(w).gradient(padded, gradient=memory(4, 128, 28, 28))
    assert sorted(routines(slope, slope[:, :, 1:-1, 1:-1] * 2)) == [(1, 1, 1, 1, 1, 0), (2, 2, 2, 2, 1, 0)]


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda x, w: x.conv2d(w, stride=2), id="stride"),
        pytest.param(lambda x, w: x.conv2d(w, dilation=2), id="dilation"),
        pytest.param(lambda x, w: x.conv2d(w[:, :, :2, :2]), id="2x2"),
        pytest.param(lambda x, w: x.conv2d(w[:, :, :, :1]), id="3x1"),
        pytest.param(lambda x, w: x.conv2d(w[:, :1], groups=128), id="depthwise"),
        pytest.param(lambda x, w: x[:, :2].conv2d(w[:, :2]), id="few channels"),
        pytest.param(lambda x, w: x[:1, :, :4, :4].conv2d(w), id="few results"),
        pytest.param(lambda x, w: x.half().realize().conv2d(w.half().realize()), id="half"),
        pytest.param(lambda x, w: x.double().realize().conv2d(w.double().realize()), id="double"),
        pytest.param(lambda x, w: x.flatten(2).conv1d(w.flatten(2)[..., :3]), id="one axis"),
        pytest.param(lambda x, w: x[: Variable("n", 1, 4).bind(3)].conv2d(w), id="symbolic"),
    ],
)
def test_others_are_kernels(make: Callable[[Tensor, Tensor], Tensor]) -> None:
    """What the routine does not compute, or would not compute sooner."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    assert routines(x.conv2d(w))
    assert routines(make(x, w)) == []


@pytest.mark.parametrize(
    ("window", "step", "wanted"),
    [
        pytest.param((3, 3), 1, (1, 1, 1, 1, 0, 1, 1), id="3x3"),
        pytest.param((3, 3), 2, (1, 1, 1, 1, 0, 2, 2), id="in steps"),
        pytest.param((4, 7), (3, 2), (1, 1, 1, 1, 0, 3, 2), id="of any window"),
        pytest.param((5, 5), 1, (1, 1, 1, 1, 0, 0), id="5x5 by the other one"),
    ],
)
def test_all_products_in_tiles(window: tuple[int, int], step: int, wanted: tuple[int, ...]) -> None:
    """Of any windows and steps where a device has the direct routine, which float64 does not beat for 3 x 3."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, *window)
    assert routines(x.conv2d(w, stride=step, padding=1), target=BOTH) == [wanted]


def test_the_gradient_by_all_products() -> None:
    """In steps of 1 it is a direct convolution of turned weights, of any window."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 4, 2)
    (slope,) = x.conv2d(w, padding=(0, 0, 1, 1)).gradient(x, gradient=memory(4, 128, 27, 27))
    assert routines(slope, target=BOTH) == [(2, 2, 1, 1, 1, 1, 1)]


def test_fast_sums_of_3x3_are_transformed() -> None:
    """In float32 a quarter of the products is faster, but for one small image, whose weights are most of the work."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    with Context(PRECISION="fast"):
        assert routines(x.conv2d(w), target=BOTH) == [(0, 0, 0, 0, 0, 1)]
        assert routines(x.conv2d(w, stride=2), target=BOTH) == [(0, 0, 0, 0, 0, 2, 2)]


def test_few_products_are_kernels_too() -> None:
    """As 1x1, or one channel: copies of the image are most of the routine's work; and gaps in windows."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    for found in (x[:, :8].conv2d(w[:, :8, :1, :1]), x[:, :1].conv2d(w[:8, :1]), x.conv2d(w, dilation=2)):
        assert routines(found, target=BOTH) == []


def test_settings() -> None:
    """ROUTINES=0 and NOOPT=1 leave kernels, as a device without the routine does; PRECISION=fast is an option of it."""
    x, w = memory(4, 128, 28, 28), memory(128, 128, 3, 3)
    assert routines(x.conv2d(w), target=WITHOUT) == []
    for name in ("ROUTINES", "NOOPT"):
        with Context(**{name: int(name == "NOOPT")}):
            assert routines(x.conv2d(w)) == []
    with Context(PRECISION="fast"):
        assert routines(x.conv2d(w)) == [(0, 0, 0, 0, 0, 1)]


def test_the_expected_times() -> None:
    """Fewer channels gain less, one image of few tiles nothing, and float32 takes less time than float64."""

    def part(channels: int, size: int, batch: int, fast: bool) -> float:
        """Return the expected time over that of kernels."""
        found = memory(batch, channels, size, size).conv2d(memory(channels, channels, 3, 3), padding=1)
        ((_, c),) = convolutions(postorder(found.uop), [found.uop]).items()
        assert isinstance(c, Convolution)
        return time_of(c, TARGET, fast) / direct_time(c, TARGET)

    assert part(256, 28, 8, False) < part(64, 28, 8, False) < 0.9 < part(16, 28, 8, False)
    assert part(256, 4, 1, False) > 1
    assert part(64, 28, 8, True) < 0.7 * part(64, 28, 8, False)


def test_what_slides_back_in_steps_is_a_routine() -> None:
    """With its steps, what is cut off, and its results; and so is the gradient of a strided one."""
    x, w = memory(4, 64, 28, 30), memory(64, 96, 4, 3)
    (call,) = schedule([x.conv_transpose2d(w, stride=(2, 3), padding=(1, 0)).uop], lambda _: TARGET).calls
    assert isinstance(call, RoutineCall)
    assert call.routine.name == "transposed_convolution"
    assert call.routine.options == (2, 3, 1, 0, 56, 90)
    assert [shape for _, shape in call.routine.operands] == [(1, 4, 1, 64, 28, 30), (1, 1, 64, 96, 4, 3)]
    images = memory(4, 96, 57, 60)
    strided = images.conv2d(w[:, :, :3], stride=2, padding=1)
    (slope,) = strided.gradient(images, gradient=memory(*strided.shape))
    assert routines(slope) == [(2, 2, 1, 1, 57, 60)]


def test_what_slides_back_to_more_than_products_reach_is_padded() -> None:
    """An output_padding beyond the padding: the routine, and a kernel for zeros."""
    x, w = memory(4, 64, 28, 28), memory(64, 64, 3, 3)
    assert routines(x.conv_transpose2d(w, stride=2, output_padding=1)) == [(2, 2, 0, 0, 57, 57)]


@pytest.mark.parametrize("what", ["half", "dilated", "one channel", "short rows", "symbolic"])
def test_what_slides_back_by_kernels(what: str) -> None:
    """Half types, gaps in windows, few products of a result, rows that tiles compute much in vain for."""
    dtype = dtypes.bfloat16 if what == "half" else dtypes.float32
    channels, size = 1 if what == "one channel" else 64, 28
    size = 7 if what == "short rows" else size
    x, w = memory(8, channels, size, size, dtype=dtype), memory(channels, 64, 4, 4, dtype=dtype)
    if what == "symbolic":
        x = x[: Variable("n", 1, 8).bind(3)]
    gaps = 2 if what == "dilated" else 1
    assert routines(x.conv_transpose2d(w, stride=2, padding=1, dilation=gaps)) == []


def test_the_gradient_of_what_slides_back_is_a_convolution() -> None:
    """In steps: channels are before places there."""
    x, w = memory(4, 64, 28, 30), memory(64, 96, 4, 3)
    slid = x.conv_transpose2d(w, stride=(2, 3), padding=(1, 0))
    (slope,) = slid.gradient(x, gradient=memory(*slid.shape))
    (call,) = schedule([slope.uop], lambda _: BOTH).calls
    assert isinstance(call, RoutineCall)
    assert call.routine.name == "direct_convolution"
    assert call.routine.options == (1, 1, 0, 0, 0, 2, 3)
    assert [shape for _, shape in call.routine.operands] == [(1, 4, 1, 96, 56, 90), (1, 1, 64, 96, 4, 3)]


def test_one_multiplier() -> None:
    """A core that multiplies one vector in a cycle gains in steps, and by Winograd's algorithm in steps of 1."""
    target, w = replace(BOTH, multipliers=1), memory(64, 64, 3, 3)
    for x, window, padding, stride, name in (
        (memory(8, 64, 56, 56), memory(128, 64, 3, 3), 1, 2, "direct_convolution"),
        (memory(8, 64, 56, 56), w, 1, 1, "convolution"),
        (memory(8, 3, 112, 112), memory(64, 3, 7, 7), 3, 2, "direct_convolution"),
        (memory(8, 64, 56, 56), memory(128, 64, 1, 1), 0, 2, ""),
        (memory(8, 64, 56, 56), memory(64, 64, 1, 1), 0, 1, ""),
    ):
        calls = schedule([x.conv2d(window, padding=padding, stride=stride).uop], lambda _: target).calls
        assert [call.routine.name for call in calls if isinstance(call, RoutineCall)] == [name] * bool(name)


def test_two_multipliers_of_half_the_width() -> None:
    """Windows that vectors of 32 bytes slide over are the routine's, in steps too; 5x5 are Winograd's, 1x1 products."""
    target = replace(BOTH, vector_bytes=32, registers=16, multipliers=2)
    for x, window, padding, stride, name in (
        (memory(8, 64, 56, 56), memory(128, 64, 3, 3), 1, 2, "direct_convolution"),
        (memory(8, 64, 56, 56), memory(64, 64, 3, 3), 1, 1, "direct_convolution"),
        (memory(8, 64, 56, 56), memory(64, 64, 5, 5), 2, 1, "convolution"),
        (memory(8, 64, 56, 56), memory(64, 64, 1, 1), 0, 1, ""),
    ):
        calls = schedule([x.conv2d(window, padding=padding, stride=stride).uop], lambda _: target).calls
        assert [call.routine.name for call in calls if isinstance(call, RoutineCall)] == [name] * bool(name)


def test_one_spatial_axis() -> None:
    """Rows are images of one row for the routines, with bias and relu; with vectors of 32 bytes, else kernels."""
    ops = (Ops.ADD, Ops.MAX)
    both = [
        DeclaredRoutine(name, (dtypes.float32,), epilogue=ops)
        for name in ("direct_convolution", "depthwise_convolution")
    ]
    target = replace(TARGET, vector_bytes=32, registers=16, multipliers=2, routines=tuple(both))
    steps = [EpilogueStep(Ops.ADD, StepOperand.CHANNEL), EpilogueStep(Ops.MAX, StepOperand.NUMBER)]
    x = memory(8, 64, 3000)
    for weights, groups in ((memory(64, 64, 3), 1), (memory(64, 1, 3), 64), (memory(128, 32, 9), 2)):
        found = x.conv1d(weights, memory(weights.shape[0]), groups=groups, stride=2, padding=1).relu()
        assert routines(found, target=target) == [(0, 0, 1, 1, 0, 1, 2, *to_options(steps))]
        assert routines(found, target=replace(target, vector_bytes=64)) == []
        gaps = x.conv1d(weights, groups=groups, dilation=2)
        assert routines(gaps, target=target) == []
    assert routines(x[:1, :, :200].conv1d(memory(64, 1, 3), groups=64), target=target) == []
    assert routines(x.double().conv1d(memory(64, 64, 3).double()), target=target) == []


DEPTHWISE = replace(TARGET, routines=(*TARGET.routines, DeclaredRoutine("depthwise_convolution", (dtypes.float32,))))


def depthwise(size: int, window: int, step: int, channels: int = 48) -> tuple[Tensor, Tensor]:
    """Return a depthwise convolution and the gradient for its images."""
    x, w = memory(4, channels, size, size), memory(channels, 1, window, window)
    found = x.conv2d(w, groups=channels, padding=window // 2, stride=step)
    return found, found.gradient(x, gradient=memory(*found.shape))[0]


def test_depthwise_convolutions() -> None:
    """In steps, of 3x3, and where rows are short; and what slides back in steps, or to rows that are not short."""
    for size, window, step, forward, back in (
        (56, 3, 1, [(1, 1, 1, 1, 0, 1, 1)], [(1, 1, 1, 1, 1, 1, 1)]),
        (14, 3, 1, [], []),
        (7, 7, 1, [(3, 3, 3, 3, 0, 1, 1)], [(3, 3, 3, 3, 1, 1, 1)]),
        (56, 5, 1, [(2, 2, 2, 2, 0, 1, 1)], [(2, 2, 2, 2, 1, 1, 1)]),
        (56, 3, 2, [(1, 1, 1, 1, 0, 2, 2)], [(2, 2, 1, 1, 56, 56)]),
    ):
        found, slope = depthwise(size, window, step)
        assert routines(found, target=DEPTHWISE) == forward
        assert routines(slope, target=DEPTHWISE) == back
        assert routines(found) == []
    slid = memory(4, 48, 14, 14).conv_transpose2d(memory(48, 1, 4, 4), groups=48, stride=2, padding=1)
    assert routines(slid) == [(2, 2, 1, 1, 28, 28)]


def test_what_one_operation_reads_is_its_kernel() -> None:
    """Where the routine would gain less than it takes to read its results; with two that read them they are memory."""
    found, _ = depthwise(56, 3, 2)
    assert routines(found.relu(), target=DEPTHWISE) == []
    assert routines(found.relu() + found.mean((0, 2, 3), keepdim=True), target=DEPTHWISE) == [(1, 1, 1, 1, 0, 2, 2)]
    found, _ = depthwise(7, 7, 1)
    assert routines(found.relu(), target=DEPTHWISE) == [(3, 3, 3, 3, 0, 1, 1)]


def test_what_an_epilogue_does_is_no_kernel() -> None:
    """Where the routine does the one operation that reads its results they are memory; with one more it is a kernel."""
    own = DeclaredRoutine("depthwise_convolution", (dtypes.float32,), epilogue=(Ops.ADD, Ops.MAX))
    target = replace(TARGET, routines=(*TARGET.routines, own))
    found, _ = depthwise(56, 3, 2)
    steps = [EpilogueStep(Ops.ADD, StepOperand.CHANNEL), EpilogueStep(Ops.MAX, StepOperand.NUMBER)]
    with_bias = found + memory(48, 1, 1)
    assert routines(with_bias.relu(), target=target) == [(1, 1, 1, 1, 0, 2, 2, *to_options(steps))]
    assert routines(with_bias.relu().exp(), target=target) == []


def test_gradients_of_weights() -> None:
    """With padding, steps and gaps, of one axis too; and of what slides back, where channels are before places."""
    target = replace(TARGET, routines=(DeclaredRoutine("convolution_weights", (dtypes.float32,)),))

    def slope(found: Tensor, w: Tensor) -> Tensor:
        """Return the gradient of weights."""
        return found.gradient(w, gradient=memory(*found.shape))[0]

    x, w = memory(4, 48, 28, 30), memory(64, 24, 3, 5)
    found = slope(x.conv2d(w, groups=2, stride=(1, 2), padding=(1, 0), dilation=(2, 1)), w)
    (call,) = schedule([found.uop], lambda _: target).calls
    assert isinstance(call, RoutineCall)
    assert call.routine.options == (1, 0, 1, 2, 2, 1, 3, 5)
    assert [shape for _, shape in call.routine.operands] == [(1, 4, 2, 24, 28, 30), (1, 4, 2, 32, 26, 13)]
    row, flat = memory(4, 48, 400), memory(64, 48, 3)
    assert routines(slope(row.conv2d(flat, padding=4, dilation=4), flat), target=target) == [(0, 4, 1, 1, 1, 4, 1, 3)]
    back = memory(48, 32, 4, 4)
    assert routines(slope(x.conv_transpose2d(back, stride=2, padding=1), back), target=target) == [
        (1, 1, 2, 2, 1, 1, 4, 4)
    ]
    one = memory(1, 48, 28, 30)
    assert len(routines(slope(one.conv2d(w, groups=2), w), target=target)) == 1
    for size, window, step, wanted in ((56, 3, 1, 0), (56, 3, 2, 1), (56, 5, 1, 1), (7, 3, 1, 1), (14, 3, 1, 0)):
        images, each = memory(4, 48, size, size), memory(48, 1, window, window)
        own = slope(images.conv2d(each, groups=48, padding=window // 2, stride=step), each)
        assert len(routines(own, target=target)) == wanted
    few = memory(20, 48, 3, 3)
    assert routines(slope(x.conv2d(few), few), target=target) == []
