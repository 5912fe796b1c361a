"""A value with a custom derivative: the graph's side of `Function` and of custom gradients.

A computed tensor in, with the tensors it was computed from and a rule for their gradients; out the same values over a
FUNCTION node, whose gradients go to those tensors and nowhere else. The rule is called when a gradient is built, with
the nodes that the graph has then, so that its results can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.ops import FunctionArg, Ops
from tinygraft.uop.uop import UOp

T = TypeVar("T", bound=TensorBase)
Derive = Callable[[UOp, T, list[bool]], Sequence[T | None]]


def may_require_grad(tensor: TensorBase) -> bool:
    """Whether this tensor may need a gradient: it is of floats and requires_grad is not False."""
    return tensor.dtype.kind == "float" and tensor.requires_grad is not False


def with_derivative(name: str, value: T, inputs: Sequence[T], derive: Derive[T]) -> T:
    """value as a function of inputs, whose gradients derive returns.

    derive(node, gradient, wanted) gets the FUNCTION node, the gradient of its value, and which inputs need a gradient;
    it returns one for each input, or None. name is for errors and printed graphs. A value that is not of floats, or of
    inputs none of which may need a gradient, has none.
    """
    tracked = [tensor for tensor in inputs if may_require_grad(tensor)]
    if not tracked or value.dtype.kind != "float":
        new = value._wrap(value.uop)
        new._set_flag(False)
        return new

    zero = value._const(0)  # to make tensors of its class: the rule would keep `value` itself, and its memory, alive

    def rule(node: UOp, gradient: UOp, numbers: tuple[int, ...]) -> list[UOp | None]:
        """Return the gradients of the FUNCTION `node` to its sources `numbers`; source 0 is the value itself.

        Raises ValueError where `derive` gives a wrong number of gradients.
        """
        wanted = [index in numbers for index in range(1, len(node.src))]
        start = zero._wrap(gradient)
        start._set_flag(None)
        found = derive(node, start, wanted)
        if len(found) != len(wanted):
            raise ValueError(
                f"backward of {name} must give one gradient for each of its {len(wanted)} inputs, it gave {len(found)}"
            )
        return [_checked(name, found[index - 1], node.src[index], index) for index in numbers]

    node = UOp(Ops.FUNCTION, value.dtype, (value.uop, *[tensor.uop for tensor in inputs]), FunctionArg(name, rule))
    new = value._wrap(node)
    # None where all flags are None: backward decides, as for any other op
    new._set_flag(True if any(tensor.requires_grad for tensor in tracked) else None)
    return new


def _checked(name: str, gradient: TensorBase | None, source: UOp, index: int) -> UOp | None:
    """Return the node of a gradient for input `index` of `name`, counted from 1, in the dtype of its node `source`.

    None stays. Raises DTypeError for what is no tensor, ShapeError for another shape than that of the input.
    """
    if gradient is None:
        return None
    if not isinstance(gradient, TensorBase):
        raise DTypeError(f"backward of {name} must give tensors or None, input {index} got {type(gradient).__name__}")
    if gradient.shape != source.shape:
        raise ShapeError(
            f"backward of {name} gave input {index}, which has shape {source.shape}, a gradient of shape "
            f"{gradient.shape}\n  made at {gradient._where()}"
        )
    return gradient.uop.cast(source.dtype)
