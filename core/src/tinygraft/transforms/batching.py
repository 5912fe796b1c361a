"""vmap: a function of one example as a function of many.

The function is called once, with tensors that stand for one example each and have no value; the graph of its results
gets an axis of examples (`autograd/batch.py`). So nothing runs in a loop, and values that all examples share are
computed once.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tinygraft.autograd.batch import batched
from tinygraft.autograd.build import expand, permute, reshape
from tinygraft.errors import GraphError, ShapeError
from tinygraft.tensor.nested import check_ends, mapped, tensors_in
from tinygraft.tensor.primitives import index_checks
from tinygraft.tensor.state.live import live_holders
from tinygraft.tensor.tensor import Tensor
from tinygraft.transforms.call import check_function
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, toposort


def vmap(function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """A function of one example made into one of many: it is called once, and its graph gets an axis of examples.

    in_axes says which axis of each positional argument counts the examples: one number for all, or one for each
    argument; for a nested argument one for all of it, or nested alike. None is for an argument that is the same for all
    examples. Tensors given by keyword have examples along their first axis. out_axes says in the same way where results
    have that axis; a Python number that is returned becomes a tensor with that number for each example. Random numbers
    that are drawn inside are the same for all examples. Values cannot be read inside: choose with where() instead of
    `if`. Raises ShapeError, and GraphError where item(), numpy() or `if` read a value, and where a value that depends
    on an example is assigned to a tensor from outside.

    >>> from tinygraft import Tensor, vmap
    >>> rows, vector = Tensor([[1.0, 2.0], [3.0, 4.0]]), Tensor([1.0, 10.0])
    >>> vmap(lambda a, b: (a * b).sum(), in_axes=(0, None))(rows, vector).tolist()
    [21.0, 43.0]
    """

    check_function("vmap", function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Call the function on placeholders for one example, and return its results for all examples.

        Index tensors that depend on an example are checked afterwards, when all examples have values.
        """
        # before the recursion of _paired, which a container that contains itself would never end
        check_ends((args, kwargs))
        examples: dict[UOp, UOp] = {}
        tensors: list[Tensor] = []

        def one(tensor: Tensor, axis: int | None) -> Tensor:
            """Return a placeholder for one example of `tensor` along `axis`; the tensor itself where that is None."""
            if axis is None:
                return tensor
            whole = _front("vmap", tensor, axis)
            example = UOp.placeholder(whole.shape[1:], tensor.dtype, tensor.uop.device, "vmap")
            examples[example] = whole
            tensors.append(tensor)
            return tensor._wrap(example)

        axes = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        given = _paired("in_axes", tuple(args), tuple(axes), one)
        named = _paired("in_axes", kwargs, 0, one)
        count = _count(tensors, list(examples.values()))
        before = [(holder, holder.uop) for holder in live_holders()]  # to see which of them the function assigns to
        with index_checks.waiting() as uses:
            result = function(*given, **named)
        _refuse_kept(before, examples)
        first, *others = tensors
        for index, use in uses:  # with CHECK_INDEX=1: inside the function they had no values
            whole, _ = batched([index.uop], examples, count)[0]
            index_checks.read(index._wrap(whole), use)
        result = mapped(result, (bool, int, float), lambda number: Tensor(number, device=first.device))
        made: list[Tensor] = tensors_in(result)  # type: ignore[assignment]
        found = dict(zip(map(id, made), batched([t.uop for t in made], examples, count), strict=True))

        def all_examples(tensor: Tensor, axis: int | None) -> Tensor:
            node, has_axis = found[id(tensor)]
            return first._wrap(_placed(tensor, node, has_axis, axis, count), *others, tensor)

        return _paired("out_axes", result, out_axes, all_examples)

    return wrapped


def _refuse_kept(before: Sequence[tuple[Any, UOp]], examples: Mapping[UOp, UOp]) -> None:
    """Raise GraphError where a tensor from outside was assigned a value that depends on one example.

    Each such tensor gets its old value back, since the new one is a graph over placeholders that nothing can compute.
    """

    def depends(node: UOp) -> bool:
        return not examples.keys().isdisjoint(toposort(node))

    changed = [(tensor, node) for tensor, node in before if tensor.uop is not node]
    kept = [(tensor, node) for tensor, node in changed if depends(tensor.uop) and not depends(node)]
    for tensor, node in kept:
        tensor.uop = node
    if kept:
        raise GraphError(
            f"a tensor of shape {kept[0][0].shape} from outside was assigned a value that depends on one "
            "example of vmap\n"
            f"  made at {kept[0][0]._where()}\n"
            "  hint: return that value from the function, and assign the whole outside"
        )


def _paired(what: str, nested: Any, axes: Any, change: Callable[[Tensor, int | None], Any]) -> Any:
    """Nested lists, tuples and dicts with each tensor changed by its axis; axes are nested as far as they differ."""
    if isinstance(nested, Tensor):
        if axes is not None and not isinstance(axes, int):
            raise ShapeError(f"{what} of a tensor is a number or None, got {axes!r}")
        return mapped(nested, Tensor, lambda tensor: change(tensor, axes))
    if isinstance(nested, dict):
        if isinstance(axes, dict) and axes.keys() != nested.keys():
            raise ShapeError(f"{what} has the keys {sorted(axes)}, for a dict with the keys {sorted(nested)}")
        return {
            key: _paired(what, item, axes[key] if isinstance(axes, dict) else axes, change)
            for key, item in nested.items()
        }
    if isinstance(nested, (list, tuple)):
        if isinstance(axes, (list, tuple)) and len(axes) != len(nested):
            raise ShapeError(f"{what} {tuple(axes)} has {len(axes)} entries, for {len(nested)} values")
        each = axes if isinstance(axes, (list, tuple)) else [axes] * len(nested)
        items = [_paired(what, item, axis, change) for item, axis in zip(nested, each, strict=True)]
        return type(nested)(*items) if hasattr(nested, "_fields") else type(nested)(items)
    return nested


def _front(what: str, tensor: Tensor, axis: int) -> UOp:
    """Return a tensor's node with one axis moved to the front. Raises ShapeError for an axis that it does not have."""
    rank = len(tensor.shape)
    if not -rank <= axis < rank:
        raise ShapeError(
            f"{what} cannot go over axis {axis} of a tensor of shape {tensor.shape}\n  made at {tensor._where()}"
        )
    if axis % rank == 0:
        return tensor.uop  # memory stays memory, which a routine reads as it is
    return permute(tensor.uop, (axis % rank, *(i for i in range(rank) if i != axis % rank)))


def _count(tensors: Sequence[Tensor], wholes: Sequence[UOp]) -> int:
    """Return how many examples there are, the size of axis 0 of each of `wholes`.

    `tensors` are those of the arguments, for errors. Raises ShapeError where they disagree, or there are none.
    """
    if not tensors:
        raise ShapeError("vmap has nothing to go over: no tensor among the arguments has an axis of examples")
    count = wholes[0].shape[0]
    for tensor, whole in zip(tensors, wholes, strict=True):
        if not isinstance(count, int) or whole.shape[0] != count:
            raise ShapeError(
                f"vmap needs as many examples of each argument, got {count} of shape {tensors[0].shape} and "
                f"{whole.shape[0]} of shape {tensor.shape}\n"
                f"  made at {tensors[0]._where()} and {tensor._where()}"
            )
    return int(count)


def _placed(tensor: Tensor, node: UOp, has_axis: bool, axis: int | None, count: int) -> UOp:
    """Return a result with its axis of examples where `axis` of out_axes says; without one for None.

    `has_axis` says that `node` has that axis in front; else it is repeated `count` times. Raises ShapeError for an axis
    that there is not, and for None where examples differ.
    """
    if axis is None:
        if has_axis:
            raise ShapeError(
                f"out_axes is None for a result of shape {tensor.shape} that is another one for each example\n"
                f"  made at {tensor._where()}"
            )
        return node
    rank = len(tensor.shape) + 1
    if not -rank <= axis < rank:
        raise ShapeError(f"out_axes is {axis}, for a result of shape {tensor.shape} and one more axis")
    whole = node if has_axis else expand(reshape(node, (1, *node.shape)), (count, *node.shape))
    at = axis % rank
    if at == 0 and memory_base(whole).op is Ops.FUNCTION:  # a new value, which is its own memory
        return whole
    return permute(whole, (*range(1, at + 1), 0, *range(at + 1, rank)))
