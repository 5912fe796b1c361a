"""Gradients of a tensor with respect to others: `backward` fills their .grad, `gradient` returns them.

A scalar tensor in (or one with the gradient to start from); lazy tensors out. Nothing is computed here: the walk of
`autograd/` adds nodes to the graph, so a gradient can be differentiated again.

Which tensors get a .grad: among the live tensors whose node is in the graph, those that have requires_grad=True; if
there are none, the float tensors whose flag is None. Of these only leaves count: a tensor that was computed from
another one of them is an intermediate result. Reads, realises and writes in between change nothing (paths.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from tinygraft.autograd.build import laid_like
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.helpers import disable_gc
from tinygraft.tensor.data.assigning import rebind
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.primitives.keyword_aliases import either_spelling
from tinygraft.tensor.state.gradient_cuts import made_integer
from tinygraft.tensor.state.paths import GradientPath, Leaves
from tinygraft.tensor.state.settled import unsettle
from tinygraft.uop.held import is_whole_buffer, memories
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


@either_spelling
def backward(self: Tensor, gradient: TensorBase | None = None, retain_graph: bool = False) -> Tensor:
    """Add the gradient of this tensor to .grad of the tensors that it depends on, and return this tensor.

    A .grad that is there stays the same tensor, and one in memory is written to: who has it, or a view, sees the sum.
    gradient is that of this tensor itself, needed unless it has one element. A graph is never used up:
    retain_graph is accepted and changes nothing. Raises ShapeError and DTypeError, and GraphError where no tensor would
    get a gradient, as behind an argmax or a comparison.

    >>> from tinygraft import Tensor
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> _ = (x * x).sum().backward()
    >>> x.grad.tolist()
    [2.0, 4.0]
    """
    seed = _seed(self, "backward", gradient)
    with disable_gc():  # of a long graph it would walk over all nodes again and again, and none is in a cycle
        built = Leaves(self).of_each(seed)
    for tensor, node in built:  # all gradients are built before the first .grad changes
        node, old = laid_like(node, tensor.uop), tensor.grad
        total = node if old is None else old.uop + node
        total = UOp(Ops.DETACH, total.dtype, (total,))  # .grad is a constant, as in PyTorch without create_graph
        if old is None or total.dtype is not old.dtype or total.shape != old.shape:
            tensor.grad = tensor._wrap(total)
            tensor.grad._set_flag(False)
        else:
            _add_into(cast("Tensor", old), total)
            unsettle(old)
            tensor.grad = old  # notes for TinyJit that it has another value
    return self


def gradient(self: Tensor, *targets: TensorBase, gradient: TensorBase | None = None) -> list[Tensor]:
    """The gradients of this tensor with respect to targets; zeros for one that it does not depend on.

    gradient is that of this tensor itself, needed unless it has one element. A computed target stands for its value: a
    path through another tensor with an equal graph, or through a view of all of it, counts too. Leaves of equal values
    are different targets. Raises ShapeError and DTypeError.

    >>> from tinygraft import Tensor
    >>> x = Tensor([3.0], requires_grad=True)
    >>> y = (x * x * x).sum()
    >>> first = y.gradient(x)[0]
    >>> first.tolist(), first.sum().gradient(x)[0].tolist()
    ([27.0], [18.0])
    """
    seed = _seed(self, "gradient", gradient)
    parts = [part for target in targets for part in target._parts()]
    for index, target in enumerate(targets):
        if target.dtype.kind not in ("float", "complex"):
            raise DTypeError(
                f"gradient needs targets of floats, target {index} of {len(targets)} is {target.dtype}\n"
                f"  made at {target._where()}\n"
                "  hint: cast it before it is used, as in f = t.float(), and ask for the gradient by f"
            )
    path = GradientPath(self.uop, untracked=True)  # a target needs no requires_grad=True
    path.unfolded.check_lost({buffer for part in parts for buffer in memories(part.uop)}, always=False)
    wanted = [path.nodes_of(part.uop) or [path.unfolded.of(part.uop)] for part in parts]
    with disable_gc():
        nodes = path.gradients(wanted, seed)
    path.note_used(self, [self.uop])
    found = iter([
        self._wrap(laid_like(part.uop.const_like(0) if node is None else node, part.uop), part)
        for part, node in zip(parts, nodes, strict=True)
    ])  # fmt: skip
    return [_of_parts(self, [next(found) for _ in target._parts()]) for target in targets]


def _of_parts(self: Tensor, parts: list[Tensor]) -> Tensor:
    """Return the tensor of one part, or the complex tensor of two."""
    return parts[0] if len(parts) == 1 else self._in_parts().joined(*parts)


def _seed(self: Tensor, what: str, gradient: Any) -> UOp:
    """Return the gradient of the result itself, as a node: 1, or `gradient` if given. `what` is the method's name.

    Raises DTypeError for a result of no floats, ShapeError for one of several elements without `gradient`, or with one
    of another shape.
    """
    if self.dtype.kind != "float":
        by = " and ".join(made_integer(self.uop)) if self.dtype.kind != "complex" else ""
        hint = f"\n  hint: {by} made it of floats, and passes no gradient" if by else ""
        raise DTypeError(f"{what} needs a tensor of floats, this one is {self.dtype}\n  made at {self._where()}{hint}")
    if gradient is None:
        if not size_math.same(size_math.product(self.shape), 1):
            raise ShapeError(
                f"{what} needs a tensor of one element, this one has shape {self.shape}\n"
                f"  made at {self._where()}\n"
                f"  hint: reduce it first, as in t.sum().{what}(...), or pass gradient= of the same shape"
            )
        return self.uop.const_like(1)
    start = gradient if isinstance(gradient, TensorBase) else self._const(gradient, self.dtype)
    if start.shape != self.shape:
        raise ShapeError(
            f"{what} of shape {self.shape} got a gradient of shape {start.shape}: they must be equal\n"
            f"  made at {self._where()}      gradient made at {start._where()}"
        )
    return start.uop.cast(self.dtype)


def _add_into(grad: Tensor, total: UOp) -> None:
    """Give a gradient its new value, which all that refer to it see: in memory where it is there or has views."""
    if grad._storage is not None:
        rebind(grad, total)
        return
    held = grad.uop.src[0] if grad.uop.op is Ops.DETACH else grad.uop
    if is_whole_buffer(held):
        grad.uop = held  # memory itself, which is written; no gradient passes the flag of a .grad
        rebind(grad, total)
    else:
        grad.uop = total
