"""Memory of parameters: each has its own, and those that have some in common are not trained together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from tinygraft.errors import TrainingError
from tinygraft.tensor.state.leaf_nodes import in_memory, own_memory
from tinygraft.tensor.state.strides import have_common
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp


def check_views(params: Sequence[Tensor]) -> None:
    """Raise TrainingError for parameters that have memory in common, and for a slice of a tensor with a gradient.

    That slice gets the gradient of the tensor it is a part of.
    """
    names = [f"parameter {number} of {len(params)}, shape {tensor.shape}," for number, tensor in enumerate(params)]
    of: dict[int, list[int]] = {}
    for number, tensor in enumerate(params):
        if tensor._storage is not None:
            of.setdefault(id(tensor._storage), []).append(number)
    for numbers in of.values():
        for one, two in combinations(numbers, 2):
            if have_common(params[one], params[two]):
                raise TrainingError(
                    f"{names[two]} has memory in common with parameter {one}, shape {params[one].shape}: each step "
                    f"would write both of them there\n  made at {params[two]._where()}      the other one made at "
                    f"{params[one]._where()}\n  hint: give the optimizer one of them; a model takes the view where "
                    "it is used, as in x @ self.weight.T, and does not keep it"
                )
    for name, tensor in zip(names, params, strict=True):
        storage, steps = tensor._storage, tensor._chain if tensor._storage is not None else ()
        if storage and steps and storage.requires_grad is True and all(op is not Ops.DETACH for op, *_ in steps):
            raise TrainingError(
                f"{name} is a view of a tensor of shape {storage.uop.shape} that requires a gradient itself, and gets "
                f"the gradient\n  made at {tensor._where()}\n  hint: give the optimizer that tensor"
            )


def give_own_memory(params: Sequence[Tensor], others: Sequence[Tensor]) -> None:
    """Make each of `params` a leaf that requires a gradient, with memory that none of the `others` has."""
    nodes: set[UOp] = {tensor.uop for tensor in others}
    for tensor in params:
        tensor.requires_grad_()
        tensor.uop = own_memory(tensor.uop) if tensor.uop in nodes else in_memory(tensor.uop)
        nodes.add(tensor.uop)
