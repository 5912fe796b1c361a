"""A value with a custom derivative: the graph's side of `Function` and of custom gradients.

A computed tensor in, with the tensors it was computed from and a rule for their gradients; out the same values over a
FUNCTION node, whose gradients go to those tensors and nowhere else. The rule is called when a gradient is built, with
the nodes that the graph has then, so that its results can be differentiated again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from types import FunctionType
from typing import TypeVar

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state import no_grad
from tinygraft.uop.ops import FunctionArg, Ops
from tinygraft.uop.uop import UOp

T = TypeVar("T", bound=TensorBase)
Derive = Callable[[UOp, T, list[bool]], Sequence[T | None]]
MOST = 1024  # derivatives that are shared; assumed: programs use few operators with a derivative of their own
_PACKAGE = __name__.partition(".")[0]
_shared: dict[Hashable, FunctionArg] = {}  # by the name, the class of tensors and the parts of what derives


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

    node = UOp(Ops.FUNCTION, value.dtype, (value.uop, *[t.uop for t in inputs]), _derivative(name, type(value), derive))
    new = value._wrap(node)
    # None where all flags are None: backward decides, as for any other op
    new._set_flag(True if any(tensor.requires_grad for tensor in tracked) else None)
    return new


def _derivative(name: str, kind: type[T], derive: Derive[T]) -> FunctionArg:
    """Return the derivative of a FUNCTION: the same for the same `derive`, where that is known by what it refers to."""
    parts = _parts_of(derive)
    if parts is None:
        return FunctionArg(name, _rule(name, kind, derive))
    key = (name, kind, parts)
    found = _shared.get(key)
    if found is None:
        found = FunctionArg(name, _rule(name, kind, derive), is_shared=len(_shared) < MOST)
        if found.is_shared:
            _shared[key] = found
    return found


def _parts_of(value: object) -> Hashable:
    """Return what a plain value, or a function of this package that refers to such values, is known by; else None.

    Another function with these parts does the same. A user's one may also count its calls, or keep what it was given.
    """
    kind = type(value)
    if value is None or kind in (bool, int, str):
        return kind, value
    if kind is float:
        return kind, repr(value)  # 0.0 and -0.0 differ, and NaN is one
    if isinstance(value, tuple):
        found = tuple([_parts_of(part) for part in value])
        return None if None in found else (kind, found)
    if isinstance(value, FunctionType) and value.__module__.partition(".")[0] == _PACKAGE and not value.__kwdefaults__:
        cells = [] if value.__closure__ is None else [cell.cell_contents for cell in value.__closure__]
        refers = _parts_of((*cells, *(value.__defaults__ or ())))
        return None if refers is None else (value.__module__, value.__code__, refers)
    return None


def _rule(name: str, kind: type[T], derive: Derive[T]) -> Callable[[UOp, UOp, tuple[int, ...]], list[UOp | None]]:
    """Return the rule of a FUNCTION that `derive` gives the gradients for, as tensors of the class `kind`."""

    def rule(node: UOp, gradient: UOp, numbers: tuple[int, ...]) -> list[UOp | None]:
        """Return the gradients of the FUNCTION `node` to its sources `numbers`; source 0 is the value itself.

        Raises ValueError where `derive` gives a wrong number of gradients.
        """
        wanted = [index in numbers for index in range(1, len(node.src))]
        start = object.__new__(kind)
        start._set(no_grad.cut(gradient) if no_grad.here.blocks and no_grad.is_quiet() else gradient, None)
        found = derive(node, start, wanted)
        if len(found) != len(wanted):
            raise ValueError(
                f"backward of {name} must give one gradient for each of its {len(wanted)} inputs, it gave {len(found)}"
            )
        return [_checked(name, found[index - 1], node.src[index], index) for index in numbers]

    return rule


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
