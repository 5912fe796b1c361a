"""What an optimizer is given to train: tensors, or groups of them, as lists; mistakes are named."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import TrainingError, did_you_mean
from tinygraft.nn.collected import listed_names
from tinygraft.nn.optim.param_group import how_many
from tinygraft.tensor.tensor import Tensor

OF_A_MODEL = "nn.state.get_parameters(model) finds those of a model"


def as_list(params: Iterable[Any], what: str) -> list[Any]:
    """Return what `what` is given as a list. Raises TypeError for what is none, also for a tensor, which has rows."""
    if not isinstance(params, Iterable) or isinstance(params, (Tensor, str, Mapping)):
        hint = OF_A_MODEL
        if isinstance(params, Mapping):
            hint = ("groups are in a list, also one alone: [{'params': [...], 'lr': ...}]" if "params" in params else
                    "nn.state.get_parameters(model), or the values of a dict: list(state.values())")  # fmt: skip
        raise TypeError(f"{what} takes a list of tensors, got {type(params).__name__}\n  hint: {hint}")
    return list(params)


def grouped(params: Iterable[Any]) -> list[tuple[list[Any], dict[str, Any]]]:
    """Return tensors, or groups of them, as (tensors, options) of each group. Raises TypeError for anything else."""
    items = as_list(params, "an optimizer")
    if not items or not all(isinstance(item, Mapping) and "params" in item for item in items):
        return [(_tensors(items), {})]
    groups = []
    for item in items:
        own = item["params"]
        tensors = _tensors([own] if isinstance(own, Tensor) else as_list(own, "a group of an optimizer"))
        groups.append((tensors, {name: value for name, value in item.items() if name != "params"}))
    return groups


def _tensors(items: list[Any]) -> list[Tensor]:
    """Return `items`. Raises TypeError for one that is no tensor."""
    for item in items:
        if not isinstance(item, Tensor):
            raise TypeError(
                f"an optimizer takes a list of tensors, got {type(item).__name__} in it\n  hint: {_meant(item)}"
            )
    return items


def _meant(item: Any) -> str:
    """Return what was meant by what is no tensor in a list of parameters."""
    if isinstance(item, Mapping):
        if "params" in item:
            return "parameters with options of their own are groups, all of them: [{'params': [...], 'lr': ...}, ...]"
        return f"a group has its tensors as 'params', and this one has {listed_names([str(key) for key in item])}"
    return "Tensor(array, requires_grad=True)" if hasattr(item, "__array__") else OF_A_MODEL


def unknown_option(owner: str, name: str, known: Sequence[str]) -> str:
    """Return the error of a group that gives the option `name`, which the optimizer `owner` lacks: it has `known`."""
    hint = did_you_mean(name, [*known, "betas"]) or f"\n  hint: it has {', '.join(known)}"
    return f"{owner} has no option {name!r}, which a group gives{hint}"


def nothing_to_train(tensors: Sequence[Tensor]) -> str:
    """Return the error of an optimizer that got these tensors, of which none is to be trained."""
    of_model = "nn.state.get_parameters(model)"
    if not tensors:
        return f"the optimizer got an empty list of parameters\n  hint: {of_model} finds those of a model"
    got = f"the optimizer got {how_many(len(tensors), 'tensor')} and none to train"
    if not any(dtypes.is_float(t.dtype) for t in tensors):
        kinds = ", ".join(dict.fromkeys(t.dtype.name for t in tensors))
        return f"{got}: of {kinds}, and only floats are trained\n  hint: t.float() makes floats of them"
    return f"{got}; it needs tensors of floats whose requires_grad is not False, such as {of_model}"


def is_trained(t: Tensor) -> bool:
    """Return whether a tensor is of floats and its requires_grad is not False."""
    return t.requires_grad is not False and dtypes.is_float(t.dtype)


def needs_momentum(optimizer: Any, momentum: float, state: list[Tensor] | None) -> None:
    """Raise TrainingError for a momentum above 0 where there is no state for it. None: state is yet to be made."""
    if momentum and state is not None and not state:
        raise TrainingError(
            f"{type(optimizer).__name__} was made without momentum and has no state for it; hint: make it with a "
            "momentum above 0, which may be set to 0"
        )
