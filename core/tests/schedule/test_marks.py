"""DETACH and CONTIGUOUS_BACKWARD, which matter to gradients alone: kernels are those of the graph without them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tensor_nodes import BACKEND, filled, memory, total
from tinygraft import Tensor
from tinygraft.schedule.fusion import Book
from tinygraft.schedule.passes import ScheduleState
from tinygraft.schedule.schedule import remove_marks, schedule
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import UOp, postorder, toposort


def marked(node: UOp, op: Ops = Ops.DETACH) -> UOp:
    """A node below a mark."""
    return UOp(op, node.dtype, (node,))


def state_of(*outputs: UOp) -> ScheduleState:
    """What the pass is given."""
    parts = {node: (place,) for place, node in enumerate(outputs)}
    return ScheduleState(outputs, lambda _: Target(), set(), outputs, parts, postorder(*outputs), Book())


def numbers(*shape: int, seed: int = 3) -> Tensor:
    """Floats between -1 and 1 that require a gradient."""
    values = np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)
    return Tensor(values, requires_grad=True).realize()


IMAGES, SQUARES, ROWS = (2, 8, 12, 12), (8, 8, 3, 3), (6, 40)
METHODS: dict[str, tuple[Callable[..., Tensor], tuple[tuple[int, ...], ...]]] = {
    "conv_transpose2d": (lambda x, w: x.conv_transpose2d(w, stride=2, padding=1), (IMAGES, SQUARES)),
    "conv2d and relu": (lambda x, w: x.conv2d(w, padding=1).relu(), (IMAGES, SQUARES)),
    "conv2d in groups": (lambda x, w: x.conv2d(w[:, :1], groups=8, stride=2), (IMAGES, SQUARES)),
    "max_pool2d": (lambda x: x.max_pool2d(2), (IMAGES,)),
    "interpolate": (lambda x: x.interpolate((20, 20)), (IMAGES,)),
    "product": (lambda x: (x @ x.T + 1).gelu(), (ROWS,)),
    "softmax": (lambda x: x.softmax(), (ROWS,)),
    "layernorm": (lambda x: x.layernorm(), (ROWS,)),
    "attention": (lambda x: x.scaled_dot_product_attention(x, x, is_causal=True), ((2, 3, 9, 8),)),
    "cumsum": (lambda x: x.cumsum(1), (ROWS,)),
    "logcumsumexp": (lambda x: x.logcumsumexp(1), (ROWS,)),
    "sort": (lambda x: x.sort(1)[0], (ROWS,)),
    "norm": (lambda x: (x * x).sum(1).sqrt(), (ROWS,)),
    "checkpointed": (lambda x: (x.exp().contiguous_backward() + 1).log(), (ROWS,)),
    "power": (lambda x: x.abs() ** 3, (ROWS,)),
}  # fmt: skip


def described(tensor: Tensor) -> list[tuple[str, str]]:
    """What each call of a tensor's schedule is: the kernel's graph, or the kind of call."""
    found = []
    for call in tensor.schedule():
        kernel = call.kernel if isinstance(call, KernelCall) else None
        found.append((type(call).__name__, str(kernel)))
    return found


@pytest.mark.parametrize("method", METHODS)
def test_a_block_without_gradients_has_the_same_kernels(method: str) -> None:
    """no_grad detaches each step of a method; its schedule and its bits are those of outside."""
    function, shapes = METHODS[method]
    given = [numbers(*shape, seed=number) for number, shape in enumerate(shapes)]
    plain = function(*given)
    with Tensor.no_grad():
        quiet = function(*given)
    assert any(node.op is Ops.DETACH for node in toposort(quiet.uop))
    assert described(quiet) == described(plain)
    assert np.array_equal(quiet.numpy(), plain.numpy())


@pytest.mark.parametrize("op", [Ops.DETACH, Ops.CONTIGUOUS_BACKWARD])
def test_marks_within_a_graph_are_removed(op: Ops) -> None:
    """The values below stay, in their order."""
    a, b = filled([1.0, 2.0]), filled([3.0, 4.0])
    with_marks = marked(marked(a + b, op) * marked(a, op), op) + 1.0
    without = (a + b) * a + 1.0
    assert remove_marks(state_of(with_marks)).outputs == (without,)


def test_a_mark_that_is_an_output_has_memory_of_its_own() -> None:
    """A value and its mark, both wanted, are written separately, and a mark of memory is not that memory."""
    a = memory(8)
    value = a + 1.0
    both = schedule((value, marked(value), marked(a)), lambda _: BACKEND.target)
    homes = [both.memory[node] for node in (value, marked(value), marked(a))]
    assert len({*homes, a}) == 4


def test_outputs_that_differ_by_a_mark_have_memory_of_their_own() -> None:
    """x.detach() + y and x + y: a gradient goes through one of them alone (through both it was 2 too much)."""
    x, y = numbers(3), numbers(3, seed=4)
    for order in (0, 1):
        constant, tracked = x.detach() + y, x + y
        Tensor.realize(*((constant, tracked) if order else (tracked, constant)))
        (slope,) = (constant * x + tracked * 2).sum().gradient(x)
        assert np.array_equal(slope.numpy(), constant.numpy() + 2)
        tracked[0] = 9.0
        assert constant[0].item() != 9.0 and np.array_equal(constant.numpy(), x.numpy() + y.numpy())


def test_outputs_that_a_later_pass_makes_equal_have_memory_of_their_own() -> None:
    """A square is multiplied out: x.detach() ** 2 was x * x, and had a gradient."""
    x = numbers(3)
    constant, tracked = x.detach() ** 2, x * x
    Tensor.realize(constant, tracked)
    (slope,) = (constant * x + tracked).sum().gradient(x)
    assert np.array_equal(slope.numpy(), constant.numpy() + 2 * x.numpy())


def test_three_outputs_that_are_one_value() -> None:
    """Also where one of them is within another's graph, and where a mark is around the whole."""
    a, b = filled([1.0, 2.0]), filled([3.0, 4.0])
    outputs = (marked(a) + b, a + b, a + marked(b), marked(a + b))
    done = remove_marks(state_of(*outputs)).outputs
    assert len({*done}) == 4
    assert [node.op for node in done] == [Ops.ADD, Ops.CONTIGUOUS, Ops.CONTIGUOUS, Ops.DETACH]
    made = schedule(outputs, lambda _: BACKEND.target)
    assert len({made.memory[node] for node in outputs}) == 4


def test_a_write_below_a_mark_is_the_same_write() -> None:
    """A slice of a detached leaf is assigned: the view and its target lose their marks alike."""
    w = numbers(6, 4)
    before = w.numpy().copy()
    with Tensor.no_grad():
        w[1:3] = w[1:3] * 2 + 1
    before[1:3] = before[1:3] * 2 + 1
    assert np.array_equal(w.numpy(), before)


def test_a_graph_without_marks_is_left_as_it_is() -> None:
    """The state itself is returned, which is not checked again."""
    state = state_of(total(memory(4, 4), 1))
    assert remove_marks(state) is state
