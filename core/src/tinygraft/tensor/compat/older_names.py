"""Methods under the names that other versions of this interface have: what they mean here, in a line or two each.

Scripts that use them run; the method each one stands for is where its theme is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tinygraft.dtype import DTypeLike
from tinygraft.engine.plan import work_for
from tinygraft.errors import GraphError, ShapeError, UnsupportedError
from tinygraft.tensor.data.realizing import by_parts
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.uop.held import is_constant, is_stored, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Call
from tinygraft.uop.uop import UOp, postorder, rebuild, toposort

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Slot:
    """The tag of a placeholder: which argument of a call replaces it."""

    number: int


# Sizes and flags


def max_numel(self: Tensor) -> int:
    """How many elements there are, where symbolic sizes are at their greatest, as an int."""
    return size_math.as_int(size_math.product(self.max_shape), "max_numel")


def is_param(self: Tensor) -> bool:
    """Whether an optimizer trains this tensor: requires_grad is True."""
    return self.requires_grad is True


def is_param_(self: Tensor, is_param: bool = True) -> Tensor:
    """requires_grad_, by its newer name: say that optimizers train this tensor, or that they do not; return it.

    >>> from tinygraft import Tensor
    >>> Tensor([1.0]).is_param_().requires_grad
    True
    """
    return self.requires_grad_(is_param)


# Devices, dtypes and padding


def llvm_bf16_cast(self: Tensor, dtype: DTypeLike) -> Tensor:
    """cast; every device here has bfloat16."""
    return self.cast(dtype)


def pad2d(self: Tensor, padding: Sequence[int], value: float = 0.0) -> Tensor:
    """Pad the last two axes by `padding`, (left, right, top, bottom): pad, which takes any number of axes.

    >>> from tinygraft import Tensor
    >>> Tensor.ones(1, 1, 2, 2).pad2d((1, 0, 0, 1)).shape
    (1, 1, 3, 3)
    """
    return self.pad(tuple(padding), value=value)


def slice(self: Tensor, arg: Sequence[tuple[int, int] | None], value: float = 0.0) -> Tensor:
    """Return elements from start to stop along each axis, (start, stop) or None; what is outside is `value`.

    >>> from tinygraft import Tensor
    >>> Tensor([1, 2, 3]).slice([(-1, 2)]).tolist()
    [0, 1, 2]
    """
    ranges = [(0, size) if each is None else each for each, size in zip(arg, self.shape, strict=True)]
    around = tuple(
        [(max(0, -start), max(0, stop - size)) for (start, stop), size in zip(ranges, self.shape, strict=True)]
    )
    padded = self.pad(around, value=value) if any(any(pair) for pair in around) else self
    moved = [(start + before, stop + before) for (start, stop), (before, _) in zip(ranges, around, strict=True)]
    return padded.shrink(tuple(moved))


# Functions


def leakyrelu(self: Tensor, neg_slope: float = 0.01) -> Tensor:
    """leaky_relu, by its older name.

    >>> from tinygraft import Tensor
    >>> Tensor([-10.0, 1.0]).leakyrelu(0.5).tolist()
    [-5.0, 1.0]
    """
    return self.leaky_relu(neg_slope)


def logsoftmax(self: Tensor) -> Tensor:
    """log_softmax along the last axis, by its older name."""
    return self.log_softmax()


def xor(self: Tensor, x: Any, reverse: bool = False) -> Tensor:
    """bitwise_xor, by its older name."""
    return self.bitwise_xor(x, reverse)


# Schedules


def schedule_linear(self: Tensor, *lst: TensorBase) -> list[Call]:
    """schedule, by its newer name: the calls in order. Nothing runs."""
    return self.schedule(*lst)


def linear_with_vars(self: Tensor, *lst: TensorBase) -> tuple[list[Call], dict[str, int]]:
    """schedule_with_vars, by its newer name: the calls and the values of variables. Nothing runs."""
    return self.schedule_with_vars(*lst)


def callify(self: Tensor, *lst: TensorBase) -> Tensor:
    """Make the kernels that this tensor and others need, and run none of them: a later realize only launches.

    >>> from tinygraft import Tensor
    >>> t = (Tensor([1, 2]) + 1).callify()
    >>> t.uop.base.realized, t.tolist()
    (None, [2, 3])
    """
    todo = [t.uop for t in by_parts((self, *lst)) if not is_stored(t.uop) and not is_constant(t.uop)]
    if roots := list(dict.fromkeys(memory_base(node) for node in todo)):
        work_for(postorder(*roots), roots)
    return self


# Calls of a body with placeholders


def as_param(self: Tensor, slot: int) -> Tensor:
    """A placeholder of this shape, dtype and device for argument number `slot` of a `call`.

    It requires no gradient. Raises ShapeError for a symbolic shape.

    >>> from tinygraft import Tensor
    >>> a, b = Tensor([1, 2]), Tensor([3, 4])
    >>> body = a.as_param(0) * 10 + b.as_param(1)
    >>> a.call(b, fxn=body).tolist(), b.call(a, fxn=body).tolist()
    ([13, 24], [31, 42])
    """
    sizes = size_math.as_ints(self.shape, "a placeholder")
    memory = UOp.buffer(self.device, size_math.as_int(self.numel(), "a placeholder"), self.dtype)
    new = self._wrap(UOp(Ops.RESHAPE, self.dtype, (memory.replace(tag=Slot(slot)),), sizes))
    new._set_flag(False)
    return new


def call(self: Tensor, *lst: Tensor, fxn: Tensor | UOp, grad_fxn: Callable[..., Any] | None = None) -> Tensor:
    """The value of a body with this tensor and others in the place of its placeholders, by their slots.

    grad_fxn(gradient, *arguments) gives the gradient of each argument; without it the body is differentiated.
    Raises GraphError for a slot that no argument has, ShapeError for an argument that does not fit its placeholder.
    """
    arguments = (self, *lst)
    body = fxn if isinstance(fxn, UOp) else fxn.uop
    swap = {n: _argument(n, arguments) for n in toposort(body) if isinstance(n.tag, Slot)}
    value = self._wrap(rebuild((body,), swap)[body], *lst)
    if grad_fxn is None:
        return value

    def derive(node: UOp, gradient: Tensor, wanted: list[bool]) -> Any:
        found = grad_fxn(gradient, *[a._wrap(n) for a, n in zip(arguments, node.src[1:], strict=True)])
        return found if isinstance(found, (tuple, list)) else (found,)

    return with_derivative("call", value, arguments, derive)


# Other ways to the same values


def image_dot(self: Tensor, w: Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """dot; no device here keeps matrices as images."""
    return self.dot(w, dtype)


def image_conv2d(
    self: Tensor, weight: Tensor, bias: Tensor | None = None, groups: int = 1, stride: Any = 1, dilation: Any = 1,
    padding: Any = 0, dtype: DTypeLike | None = None,
) -> Tensor:  # fmt: skip
    """conv2d; no device here keeps planes as images."""
    return self.conv2d(weight, bias, groups, stride, dilation, padding, dtype)


def decode_hevc_frame(self: Tensor, frame_pos: Any, shape: Any, state: Any, ref_frames: Any = None) -> Tensor:
    """A frame of H.265 video from a decoder in hardware, which no device has: raises UnsupportedError."""
    raise UnsupportedError(
        f"{self.device} has no decoder of H.265 video, and no other device of tinygraft has\n"
        "  hint: decode the video with another library, and make tensors of its frames with Tensor(array)"
    )


def _argument(placeholder: UOp, arguments: tuple[TensorBase, ...]) -> UOp:
    """Return the argument for a placeholder, flat as that is. Raises where there is none, or one that does not fit."""
    number = placeholder.tag.number
    if not 0 <= number < len(arguments):
        raise GraphError(f"the body has a placeholder for argument {number}, and call got {len(arguments)} arguments")
    given = arguments[number]
    if given.numel() != placeholder.arg.size or given.dtype is not placeholder.dtype:
        raise ShapeError(
            f"argument {number} of call has shape {given.shape} and {given.dtype}, its placeholder "
            f"{placeholder.arg.size} elements of {placeholder.dtype}\n  made at {given._where()}"
        )
    return UOp(Ops.RESHAPE, placeholder.dtype, (given.uop,), (placeholder.arg.size,))
