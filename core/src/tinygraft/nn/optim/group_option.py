"""An option of all groups as an attribute of the optimizer."""

from __future__ import annotations

from typing import Any

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.param_group import ParamGroup


class GroupOption:
    """An option of the groups as an attribute of the optimizer.

    Reading it gives the value that all groups have, and raises TrainingError where they differ; setting it sets it in
    every group, where a captured step reads it. Rates of several groups are read to be compared; "lr" is the tensor of
    the first.
    """

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any | None, owner: type | None = None) -> Any:
        if instance is None:
            return self
        values = [group[self.name] for group in instance.param_groups]
        if len(set(values) if self.name != "lr" else {group.exact_rate() for group in _apart(instance)}) > 1:
            raise TrainingError(
                f"the {len(values)} groups of this optimizer have an own {self.name} each; "
                f"hint: param_groups[0][{self.name!r}]"
            )
        return values[0]

    def __set__(self, instance: Any, value: Any) -> None:
        for group in instance.param_groups:
            group[self.name] = value


def _apart(optimizer: Any) -> list[ParamGroup]:
    """Return the groups whose rates are to be read to know whether they are one: none where they are one tensor."""
    first = optimizer.param_groups[0].lr
    return [] if all(group.lr is first for group in optimizer.param_groups) else optimizer.param_groups
