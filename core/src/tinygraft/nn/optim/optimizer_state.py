"""The state of an optimizer as a dict, in PyTorch's form, and from one into its memory.

In: an optimizer, or {"state": {number: {name: tensor}}, "param_groups": [...]}, where parameters are numbers. Out: that
dict, or new values in the tensors of the optimizer. All is checked before anything is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tinygraft.errors import FileFormatError
from tinygraft.tensor.tensor import Tensor

# options of PyTorch that say how a step is computed and not what, and what its schedulers keep in the groups for
# themselves: nothing here depends on them
_HOW = {"foreach", "capturable", "differentiable", "fused", "initial_lr", "decoupled_weight_decay", "max_lr", "min_lr",
        "base_momentum", "max_momentum"}  # fmt: skip

DECOUPLED = "decoupled_weight_decay"  # given: what PyTorch's Adam and AdamW have in their groups
OTHER_KIND = "\n  hint: make the optimizer whose state it is, or go on without that state"


def _own_state(optimizer: Any) -> list[dict[str, Tensor]]:
    """Return the state of each parameter by the names of PyTorch; "step" is one tensor for all of a group."""
    lists = {name: getattr(optimizer, attribute) for attribute, name in optimizer.STATE.items()}
    found = []
    for number, group in enumerate(optimizer._groups):
        t = group.t
        state = {name: tensors[number] for name, tensors in lists.items() if tensors}
        found.append({**({"step": t} if t is not None else {}), **state})
    return found


def saved_state(optimizer: Any) -> dict[str, Any]:
    """Return what `Optimizer.state_dict` says."""
    groups, first = [], 0
    # of Adam and its relatives, which have the same state otherwise
    kind = {DECOUPLED: optimizer.decoupled} if hasattr(optimizer, "decoupled") else {}
    for group in optimizer.param_groups:
        groups.append({**kind, **group.saved(first)})
        first += len(group["params"])
    return {"state": {n: state for n, state in enumerate(_own_state(optimizer)) if state}, "param_groups": groups}


def checked(optimizer: Any, saved: Mapping[str, Any]) -> tuple[list[Mapping[str, Any]], list[tuple[Tensor, Tensor]]]:
    """Return the groups of a state, and each tensor of the optimizer with its new value.

    Raises FileFormatError where groups, names, shapes or step counts differ, ValueError for a number that is not
    allowed.
    """
    if not isinstance(saved, Mapping):
        raise FileFormatError(f"the state of an optimizer is a dict, got {type(saved).__name__}")
    groups = _checked_groups(optimizer, saved)
    numbers = [number for group in groups for number in group["params"]]
    pairs: list[tuple[Tensor, Tensor]] = []
    for place, (number, own) in enumerate(zip(numbers, _own_state(optimizer), strict=True)):
        given = saved.get("state", {}).get(number, {})
        if "step" in own and optimizer.IMPLIED_STEP and given.get("momentum_buffer") is not None:
            given = {"step": 1.0, **given}
        pairs += _checked_state(place, own, given)
    for count in {id(group.t): group.t for group in optimizer.param_groups if group.t is not None}.values():
        steps = {value.item() for tensor, value in pairs if tensor is count}
        if len(steps) > 1:
            raise FileFormatError(f"one step count holds for all parameters here, the state has {sorted(steps)}")
    return groups, pairs


def load_into(optimizer: Any, saved: Mapping[str, Any]) -> None:
    """Give an optimizer the state `saved`, in its memory, as `Optimizer.load_state_dict` says; raises as `checked`."""
    groups, pairs = checked(optimizer, saved)
    for group, values in zip(optimizer.param_groups, groups, strict=True):
        for name, value in values.items():
            if name != "params" and (name in group or name not in _HOW):
                group[name] = value
    done: set[int] = set()
    for tensor, value in pairs:
        if id(tensor) not in done:
            done.add(id(tensor))
            value = value.reshape(tensor.shape).cast(tensor.dtype).to(tensor.device)
            tensor.assign(value.clone().shard_like(tensor))
    optimizer.params[0].realize(*optimizer._made.tensors)


def _checked_groups(optimizer: Any, saved: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the groups of a state.

    Raises FileFormatError unless they are those of `optimizer`, ValueError for a number that it does not allow.
    """
    groups = list(saved.get("param_groups", ()))
    wanted, found = ([len(group["params"]) for group in each] for each in (optimizer.param_groups, groups))
    if wanted != found:
        raise FileFormatError(f"the optimizer has groups of {wanted} parameters, the state has {found}{OTHER_KIND}")
    ways = "shrinks the weights", "is added to the gradient"
    for own, group in zip(optimizer.param_groups, groups, strict=True):
        for name, value in group.items():
            if name not in own and name not in _HOW and value not in (None, False):
                raise FileFormatError(
                    f"the state has the option {name}={value!r}, which {type(optimizer).__name__} lacks{OTHER_KIND}"
                )
            if name == "lr" or name in own._options:
                own._check(name, value)
            if name in own._fixed and value != own._fixed[name]:
                raise FileFormatError(f"the state has {name}={value!r}, and this optimizer {name}={own._fixed[name]!r}")
        decoupled, decay = group.get(DECOUPLED), group.get("weight_decay")
        if decoupled is not None and decay and bool(decoupled) != getattr(optimizer, "decoupled", bool(decoupled)):
            theirs, own_way = ways if decoupled else ways[::-1]
            raise FileFormatError(
                f"the state has a weight_decay={decay!r} that {theirs}, and that of {type(optimizer).__name__} "
                f"{own_way}\n  hint: {'AdamW' if decoupled else 'Adam'} goes on with it as it was"
            )
    return groups


def _checked_state(place: int, own: Mapping[str, Tensor], given: Mapping[str, Any]) -> list[tuple[Tensor, Tensor]]:
    """Pair the state of parameter `place` with what it is to become; zeros where nothing is given.

    Raises FileFormatError where names or shapes differ.
    """
    found = {name: value if isinstance(value, Tensor) else Tensor(value) for name, value in given.items()
             if value is not None}  # fmt: skip
    if not found:  # PyTorch has none before the first step
        return [(tensor, tensor.zeros_like()) for tensor in own.values()]
    if set(found) - {"step"} != set(own) - {"step"} or ("step" in own and "step" not in found):
        raise FileFormatError(
            f"parameter {place} has the state {sorted(own)} here, and {sorted(found)} in the state_dict"
        )
    pairs = []
    for name, tensor in own.items():
        if found[name].numel() != tensor.numel() or (name != "step" and found[name].shape != tensor.shape):
            raise FileFormatError(
                f"{name} of parameter {place} has shape {tensor.shape} here and {found[name].shape} in the state_dict"
            )
        pairs.append((tensor, found[name].detach()))
    return pairs
