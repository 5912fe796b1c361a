"""What a step knows of each parameter: `Update`; and the numbers that updates share: `StepValues`.

A step is one elementwise expression for each parameter. What it reads beside the parameter, its gradient and its state
are numbers of a group (the rate, b1, the number of the step), which are made once for all parameters of a place and
dtype. Of a half type it is computed in float32 (`wide`), and rounded where a parameter or state is stored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.nn.optim.param_group import ParamGroup
from tinygraft.tensor.tensor import Tensor


def _wide_dtype(t: Tensor) -> DType:
    """Return the dtype that an update is computed in."""
    return dtypes.float32 if t.dtype.itemsize < 4 else t.dtype


def wide(t: Tensor) -> Tensor:
    """Return the values of `t`, without a gradient, in the dtype that an update is computed in."""
    plain = t if t.requires_grad is False else t.detach()
    return plain.cast(_wide_dtype(t)) if t.dtype.itemsize < 4 else plain


class StepValues:
    """What a step of an optimizer computes with: numbers where parameters are, and counts of steps; what it writes.

    Numbers are kept for one step: the next one reads memory that has changed.
    """

    params: list[Tensor]
    param_groups: list[ParamGroup]
    _groups: list[ParamGroup]  # of each parameter

    def _begin_steps(self) -> None:
        """Start without numbers of a step."""
        self._next: dict[int, Tensor] = {}  # the step counts after this step, by the id of a count
        self._numbers: dict[tuple[int, Any, DType], Tensor] = {}  # of this step, by the id of what they are made from
        self._shared: dict[tuple[int, str, Any, DType], Tensor] = {}  # of this step, by the id of a group and a name
        self._skip: Tensor | None = None  # a bool: whether this step leaves all as it is (LossScaler)

    def _updates(self, grads: Sequence[Tensor]) -> Iterator[Update]:
        """Yield an Update for each parameter of a step, in order."""
        for number, (p, group, g) in enumerate(zip(self.params, self._groups, grads, strict=True)):
            yield Update(self, number, p, group, wide(p), -wide(g) if group["maximize"] else wide(g))

    def _number(self, p: Tensor, x: Tensor) -> Tensor:
        """Return the one number of `x` without axes for the update of p: where p is, as wide; made once a step."""
        return self._numbers_at(p, x).reshape(())

    def _numbers_at(self, p: Tensor, x: Tensor) -> Tensor:
        """Return the numbers of `x` where p is, in the dtype of its update; made once a step."""
        # one transfer and cast a step for all parameters of a device and dtype, and not one for each
        key = id(x), p.device, _wide_dtype(p)
        if key not in self._numbers:
            self._numbers[key] = x.detach().to(p.device).cast(key[-1])
        return self._numbers[key]

    def _forget_numbers(self) -> None:
        """Drop what parameters share within one step: the next one reads memory that has changed."""
        self._numbers.clear()
        self._shared.clear()
        self._next.clear()

    def _next_count(self, group: ParamGroup) -> Tensor:
        """Return the number of this step, from 1 on, for the parameters of a group: shape (1,)."""
        assert group.t is not None
        return self._next.setdefault(id(group.t), group.t + 1)

    def _write_counts(self) -> None:
        """Assign all step counts: the last thing that a step of such an optimizer does."""
        for group in {id(group.t): group for group in self.param_groups}.values():
            if group.t is not None:
                self._write(group.t, self._next_count(group))

    def _write(self, t: Tensor, new: Tensor) -> None:
        """Assign to a parameter or to state, unless the step is to be skipped: that is decided on the device."""
        t.assign(new if self._skip is None else self._skip.to(t.device).where(t.detach(), new))


@dataclass(frozen=True)
class Update:
    """What a step knows of one parameter: p itself, its number, and old and g, its value and its gradient as wide
    as the update is computed. `rate` is its learning rate, `self["b1"]` a number of its group.
    """

    optimizer: StepValues
    number: int
    p: Tensor
    group: ParamGroup
    old: Tensor
    g: Tensor

    @property
    def rate(self) -> Tensor:
        """The learning rate, a scalar where p is, in the dtype that its update is computed in."""
        return self.shared("lr", lambda: self.optimizer._number(self.p, self.group.lr))

    @property
    def t(self) -> Tensor:
        """The number of this step, from 1 on: a scalar where p is, in the dtype that its update is computed in."""
        return self.shared("t", lambda: self.optimizer._number(self.p, self.optimizer._next_count(self.group)))

    def __getitem__(self, name: str) -> Tensor:
        """Return a number of the group by its name in `_derived`, a scalar where p is, as wide as the update."""
        return self.shared(name, lambda: self._number_named(name))

    def _number_named(self, name: str) -> Tensor:
        """Return that number of the group; `__getitem__` shares it among parameters."""
        assert self.group.numbers is not None
        return self.optimizer._numbers_at(self.p, self.group.numbers)[self.group.number_at(name)]

    def shared(self, name: str, make: Callable[[], Tensor]) -> Tensor:
        """Return what all parameters of the group with p's device and dtype share: made once a step, for the first.

        `name` is its name within the group, `make` makes it. The graph is the same as if each made its own, since equal
        nodes are one; making them took a third of a step.
        """
        key = id(self.group), name, self.p.device, _wide_dtype(self.p)
        found = self.optimizer._shared.get(key)
        if found is None:
            found = self.optimizer._shared[key] = make()
        return found

    def state(self, tensors: Sequence[Tensor]) -> Tensor:
        """Return the state of p among those of all parameters, on p's device, as wide as the update."""
        return wide(tensors[self.number]).to(self.p.device)

    def store(self, tensors: Sequence[Tensor], new: Tensor) -> None:
        """Assign p's state among `tensors` a new value, on its own device and in its own dtype."""
        state = tensors[self.number]
        self.optimizer._write(state, new.cast(state.dtype).to(state.device))

    def stored(self, tensors: Sequence[Tensor], new: Tensor) -> Tensor:
        """Return what `store` has assigned, from the memory it is in where that is not rounded; else `new` itself."""
        state = tensors[self.number]
        return self.state(tensors) if state.dtype is new.dtype and state.device == self.p.device else new

    def decayed(self) -> Tensor:
        """Return the gradient with weight_decay's share of p, if there is to be one: 0 times an infinite p is NaN."""
        if not self.group.needs("weight_decay"):
            return self.g
        return self.g + self["weight_decay"] * self.old

    def apply(self, new: Tensor) -> None:
        """Assign p a new value, in its dtype."""
        self.optimizer._write(self.p, new.cast(self.p.dtype))
