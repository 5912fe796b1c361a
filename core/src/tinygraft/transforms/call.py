"""One call of a function whose graph is rewritten afterwards: the stand-ins for its arguments, and its results.

The function is called with stand-ins, other tensors of the same values, instead of its arguments. So a derivative by an
argument is one by that argument alone, also where the function reads the same tensor in another way; one tensor that is
given twice has one stand-in.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Sequence
from typing import Any

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.helpers import prod
from tinygraft.tensor.nested import mapped, tensors_in
from tinygraft.tensor.state.leaf_rule import is_leaf
from tinygraft.tensor.state.live import live_tensors
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, rebuild, toposort

_numbers = itertools.count(1)


def stand_in(node: UOp) -> UOp:
    """Return the same value as a node of its own: no two calls return the same one."""
    # a negative number: leaf_nodes.py numbers its own tags from 1 up, and equal tags would make equal nodes
    return UOp(Ops.RESHAPE, node.dtype, (node,), node.shape, Own(-next(_numbers)))


def check_function(what: str, function: object) -> None:
    """Raise TypeError, which names the transform `what`, for what cannot be called."""
    if not callable(function):
        hint = "\n  hint: t.backward() fills grad of what t was computed from" if isinstance(function, Tensor) else ""
        raise TypeError(f"{what} takes a function, got {type(function).__name__}{hint}")


class TransformCall:
    """A call of function for the transformation what, which has stand-ins for the arguments at places; all for None.

    given are the tensors in those arguments, tensors their stand-ins in the call, and inside the nodes of the
    stand-ins. A write to an argument goes to its stand-in, and before are tensors of the values before the call, by
    which derivatives are taken. result is the value that the function returned, and results are the tensors in it.
    """

    what: str
    name: Any | str

    def __init__(
        self, what: str, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any],
        places: Collection[int] | None,
    ) -> None:  # fmt: skip
        self.what, self.name = what, getattr(function, "__name__", "the function")
        looked_at = (tuple(args), kwargs) if places is None else [args[place] for place in places]
        self.given: list[Tensor] = list(dict.fromkeys(tensors_in(looked_at)))  # type: ignore[arg-type]
        self.tensors: list[Tensor] = [tensor._wrap(stand_in(tensor.uop)) for tensor in self.given]
        self.inside: list[UOp] = [tensor.uop for tensor in self.tensors]
        self.before: list[Tensor] = [tensor._wrap(tensor.uop) for tensor in self.tensors]
        put = dict(zip(self.given, self.tensors, strict=True))

        def inner(nested: Any) -> Any:
            return mapped(nested, Tensor, put.__getitem__)

        chosen = range(len(args)) if places is None else places
        inputs = [inner(arg) if place in chosen else arg for place, arg in enumerate(args)]
        for given, tensor in zip(self.given, self.tensors, strict=True):
            if tensor.dtype.kind == "float":  # so that realising a value inside the function does not cut the graph
                tensor._computed = given.requires_grad is not True or not is_leaf(given)  # else writes are constants
                tensor._set_flag(True)
        for tensor, before in zip(self.tensors, self.before, strict=True):
            before.requires_grad, before._computed = tensor.requires_grad, tensor._computed
        self.result: Any = function(*inputs, **(inner(kwargs) if places is None else kwargs))
        self.results: list[Tensor] = tensors_in(self.result)  # type: ignore[assignment]
        self.flag: bool | None = self._flag()

    def _flag(self) -> bool | None:
        """requires_grad of the results: True where an argument, or a tensor that the function read, requires grad."""
        flags = {tensor.requires_grad for tensor in self.given}
        if True in flags:
            return True
        graph = set(toposort(*(tensor.uop for tensor in self.results)))
        inside = set(self.inside)
        for tensor in live_tensors():
            if tensor.requires_grad and tensor.uop in graph and inside.isdisjoint(toposort(tensor.uop)):
                return True
        return None

    def known(self, nodes: Sequence[UOp]) -> list[UOp]:
        """Return nodes with the arguments themselves instead of their stand-ins."""
        done = rebuild(nodes, dict(zip(self.inside, (tensor.uop for tensor in self.given), strict=True)))
        return [done[node] for node in nodes]

    def tensor(self, node: UOp) -> Tensor:
        """Return a tensor over a node that was computed from the stand-ins, which the arguments replace."""
        new = (self.given or self.results)[0]._wrap(self.known([node])[0])
        new._set_flag(self.flag if new.dtype.kind == "float" else None)
        return new

    def put_back(self, nodes: Sequence[UOp]) -> Any:
        """Return the function's result, nested as it is, with `nodes` in order as the values of its tensors."""
        values = dict(zip(map(id, self.results), nodes, strict=True))
        return mapped(self.result, Tensor, lambda tensor: self.tensor(values[id(tensor)]))

    def value(self) -> Any:
        """Return the function's result, computed from the arguments themselves."""
        return self.put_back([tensor.uop for tensor in self.results])

    def scalar(self, result: Any) -> Tensor:
        """Return `result`. Raises ShapeError unless it is a tensor of one float, of which there is a gradient."""
        if not isinstance(result, Tensor) or result.dtype.kind != "float" or prod(result.shape) != 1:
            found = f"shape {result.shape} and {result.dtype}" if isinstance(result, Tensor) else type(result).__name__
            hint = f"reduce it first, as in .sum(); the derivative of several values is jacobian({self.name})"
            if isinstance(result, Tensor) and result.dtype.kind != "float" and prod(result.shape) == 1:
                hint = "give it floats, such as Tensor([1.0, 2.0])"
            raise ShapeError(
                f"{self.what} needs a function that gives a tensor of one float, {self.name} gave {found}\n"
                f"  hint: {hint}"
            )
        return result

    def only_floats(self) -> None:
        """Raise DTypeError unless every argument and result is a float."""
        for kind, tensors in (("an argument", self.given), ("a result", self.results)):
            for tensor in tensors:
                if tensor.dtype.kind != "float":
                    raise DTypeError(
                        f"{self.what} differentiates floats, {kind} of {self.name} is {tensor.dtype}\n"
                        f"  made at {tensor._where()}"
                    )
