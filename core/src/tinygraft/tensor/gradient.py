"""Gradients of a tensor with respect to others: `backward` fills their .grad, `gradient` returns them.

A scalar tensor in (or one with the gradient to start from); lazy tensors out. Nothing is computed here: the walk of
`autograd/` adds nodes to the graph, so a gradient can be differentiated again.

Which tensors get a .grad: among the live tensors whose node is in the graph, those that have requires_grad=True; if
there are none, the float tensors whose flag is None. Of these only leaves count: a tensor that was computed from
another one of them is an intermediate result. A tensor that was assigned to since is found by the node it had.
"""

from __future__ import annotations

from typing import Any, Self

from tinygraft.autograd.build import laid_like
from tinygraft.autograd.walk import gradient as gradient_nodes
from tinygraft.autograd.walk import nodes_on_path
from tinygraft.engine.history import unfold
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor import lengths
from tinygraft.tensor.base import TensorBase
from tinygraft.tensor.live import live_tensors
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort


class Gradient(TensorBase):
    """Methods that differentiate."""

    __slots__ = ()

    def backward(self, gradient: TensorBase | None = None, retain_graph: bool = False) -> Self:
        """Add the gradient of this tensor to .grad of the tensors that it depends on, and return this tensor.

        gradient is that of this tensor itself, needed unless it has one element. A graph is never used up:
        retain_graph is accepted and changes nothing. Raises ShapeError and DTypeError.

        >>> from tinygraft import Tensor
        >>> x = Tensor([1.0, 2.0], requires_grad=True)
        >>> _ = (x * x).sum().backward()
        >>> x.grad.tolist()
        [2.0, 4.0]
        """
        seed = self._seed("backward", gradient)
        root, inside, back = self._unfolded()
        leaves = _leaves(root, inside)
        nodes = _folded(gradient_nodes(root, [node for _, node in leaves], seed), back)
        for (tensor, _), node in zip(leaves, nodes, strict=True):
            if node is None:
                continue
            node = laid_like(node, tensor.uop)
            total = node if tensor.grad is None else tensor.grad.uop + node
            tensor.grad = tensor._wrap(total)
            tensor.grad.requires_grad = False
        return self

    def gradient(self, *targets: TensorBase, gradient: TensorBase | None = None) -> list[Self]:
        """The gradients of this tensor with respect to targets; zeros for one that it does not depend on.

        gradient is that of this tensor itself, needed unless it has one element. Raises ShapeError and DTypeError.

        >>> from tinygraft import Tensor
        >>> x = Tensor([3.0], requires_grad=True)
        >>> y = (x * x * x).sum()
        >>> first = y.gradient(x)[0]
        >>> first.tolist(), first.sum().gradient(x)[0].tolist()
        ([27.0], [18.0])
        """
        seed = self._seed("gradient", gradient)
        root, inside, back = self._unfolded()
        graph = set(toposort(root))
        parts = [part for target in targets for part in target._parts()]
        for place, target in enumerate(targets):
            if target.dtype.kind not in ("float", "complex"):
                raise DTypeError(
                    f"gradient needs targets of floats, target {place} of {len(targets)} is {target.dtype}\n"
                    f"  made at {target._where()}\n"
                    "  hint: cast it before it is used, as in f = t.float(), and ask for the gradient by f"
                )
        known = [_node_in(part, graph, inside) for part in parts]
        wanted = [part.uop if node is None else node for part, node in zip(parts, known, strict=True)]
        nodes = _folded(gradient_nodes(root, wanted, seed), back)
        found = iter([
            self._wrap(laid_like(part.uop.const_like(0) if node is None else node, part.uop), part)
            for part, node in zip(parts, nodes, strict=True)
        ])  # fmt: skip
        return [self._of_parts([next(found) for _ in target._parts()]) for target in targets]

    def _of_parts(self, parts: list[Self]) -> Self:
        """A tensor of its one part, or the complex one of two."""
        return parts[0] if len(parts) == 1 else self._in_parts().joined(*parts)

    def _seed(self, what: str, gradient: Any) -> UOp:
        """The gradient to start from: 1, or what was given."""
        if self.dtype.kind != "float":
            raise DTypeError(f"{what} needs a tensor of floats, this one is {self.dtype}\n  made at {self._where()}")
        if gradient is None:
            if not lengths.same(lengths.product(self.shape), 1):
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

    def _unfolded(self) -> tuple[UOp, dict[UOp, UOp], dict[UOp, UOp]]:
        """This tensor's node with the history of realised tensors, what nodes became by that, and how to get back."""
        inside, back = unfold(self.uop)
        return inside.get(self.uop, self.uop), inside, back


def _leaves(root: UOp, inside: dict[UOp, UOp]) -> list[tuple[TensorBase, UOp]]:
    """The tensors that backward fills, each with its node in the graph."""
    graph = set(toposort(root))
    found = [
        (tensor, node)
        for tensor in live_tensors()
        if tensor.dtype.kind == "float"
        and tensor.requires_grad is not False
        and (node := _node_in(tensor, graph, inside)) is not None
    ]
    asked = [pair for pair in found if pair[0].requires_grad] or found
    onward = nodes_on_path(root, (node for _, node in asked))
    return [(tensor, node) for tensor, node in asked if onward.get(node) == ()]


def _folded(nodes: list[UOp | None], back: dict[UOp, UOp]) -> list[UOp | None]:
    """Gradients that read realised values from memory."""
    if not back:
        return nodes
    done = rebuild([n for n in nodes if n is not None], back)
    return [None if n is None else done[n] for n in nodes]


def _node_in(tensor: TensorBase, graph: set[UOp], inside: dict[UOp, UOp]) -> UOp | None:
    """The node by which a graph knows a tensor: the one it has, or had before it was assigned to."""
    node = inside.get(tensor.uop, tensor.uop)
    while node not in graph:
        if node.op is not Ops.ASSIGN:
            return None
        node = node.src[0]
    return node
