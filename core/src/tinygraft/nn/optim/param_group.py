"""One group of parameters and its options: what an optimizer has in `param_groups`.

In: the tensors, and numbers by name. Out: the numbers as tensors, which a step reads. A number that is set later is
written into that memory: it holds from the next step on, also in a captured one, and compiles nothing; but for a
weight_decay that was 0, which a step has no part for: it is captured anew.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from typing import Any

from tinygraft.errors import DTypeError, ShapeError, TrainingError, did_you_mean
from tinygraft.tensor.data.shown_values import array_text
from tinygraft.tensor.state.leaf_nodes import in_memory
from tinygraft.tensor.tensor import Tensor

REMOVABLE = (
    "weight_decay",
    "dampening",
)  # options whose part of a step is left out as long as they are 0, as in PyTorch
KEPT = ("initial_lr", "max_lr", "min_lr", "max_momentum", "base_momentum")  # numbers that schedulers put in
DeriveNumbers = Callable[[Mapping[str, Any]], dict[str, float]]


def how_many(count: int, what: str) -> str:
    """Return a number of things in words.

    >>> how_many(1, "tensor"), how_many(2, "tensor")
    ('1 tensor', '2 tensors')
    """
    return f"{count} {what}{'s' * (count != 1)}"


def pair(betas: Any, owner: str) -> tuple[Any, Any]:
    """Return the two numbers of `betas`. Raises TypeError, which names the optimizer `owner`, for anything else."""
    try:
        first, second = betas
    except (TypeError, ValueError):
        raise TypeError(f"{owner} needs betas to be two numbers, as (0.9, 0.999), got {betas!r}") from None
    return first, second


class FixedList(list[Any]):
    """A list that refuses to change, since no step would see it. `what` is what it has."""

    def __init__(self, items: Iterable[Any], what: str) -> None:
        super().__init__(items)
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (list(self), self.what)

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        """Raise TrainingError."""
        raise TrainingError(
            f"an optimizer has {self.what} from the start, and no step would see a change of this list\n"
            "  hint: optimizer.add_param_group({'params': [...]}); nn.optim.OptimizerGroup(a, b) steps several as one"
        )

    append = extend = insert = remove = pop = clear = sort = reverse = _refuse
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse


class ParamGroup(MutableMapping[str, Any]):
    """A mapping of options: "params", "lr", those of the optimizer, and any others that were put in.

    "lr" is a tensor of one float. Setting it, or another number of the optimizer, writes memory. "params" and what
    decides the form of a step (`nesterov` and the like) are fixed; "betas" stands for "b1" and "b2".

    Raises ValueError for a number that the optimizer does not allow, TrainingError for what is fixed, ShapeError
    for a tensor of several numbers as "lr", DTypeError for one that is not of floats.

    >>> from tinygraft import Tensor, nn
    >>> a, b = Tensor([1.0]), Tensor([2.0])
    >>> adam = nn.optim.Adam([{"params": [a]}, {"params": [b], "lr": 0.5, "b1": 0.8}], lr=0.25)
    >>> [(group["lr"].item(), group["b1"]) for group in adam.param_groups]
    [(0.25, 0.9), (0.5, 0.8)]
    >>> adam.param_groups[0]["lr"] *= 2
    >>> adam.param_groups[0]["lr"].item()
    0.5
    """

    # no __dict__: a state_dict of the optimizer by nn.state goes past, since the options of a group are no tensors
    __slots__ = ("_check", "_derive", "_extra", "_fixed", "_given", "_index", "_options", "_params",
                 "_scheduled", "_unneeded", "lr", "numbers", "t")  # fmt: skip

    def __init__(
        self, params: list[Tensor], lr: Tensor, options: Mapping[str, Any], fixed: Mapping[str, Any],
        check: Callable[[str, Any], None], derive: DeriveNumbers, make: Callable[[list[float]], Tensor],
    ) -> None:  # fmt: skip
        """`options` are numbers, `fixed` what may not change. `check(name, value)` raises for a wrong number,
        `derive` gives the numbers that a step reads by their names there, `make` a tensor of numbers.
        """
        self.lr: Tensor = lr
        self.t: Tensor | None = None  # the count of its steps, of optimizers that count
        self._given: float | None = None  # the rate as it was given as a number, before a dtype rounded it
        self._scheduled: float | None = None  # the rate that a scheduler wrote last
        self._params, self._options, self._fixed = params, dict(options), dict(fixed)
        self._extra: dict[str, Any] = {}
        self._check, self._derive = check, derive
        self._unneeded = {name for name in REMOVABLE if self._options.get(name) == 0}
        numbers = derive(self._options)
        self._index = {name: index for index, name in enumerate(numbers)}
        self.numbers: Tensor | None = make(list(numbers.values())) if numbers else None

    def __getitem__(self, name: str) -> Any:
        """Return an option; "betas" is (b1, b2). Raises KeyError for one that the group does not have."""
        if name == "params":
            return FixedList(self._params, "its parameters")
        if name == "lr":
            return self.lr
        if name == "betas" and "b1" in self._options:
            return self._options["b1"], self._options["b2"]
        for options in (self._options, self._fixed, self._extra):
            if name in options:
                return options[name]
        raise KeyError(name)

    def __setitem__(self, name: str, value: Any) -> None:
        """Write an option. Raises as the class says; nothing has changed then."""
        if name == "lr":
            write_rate(self.lr, value, self._check)
            self._given = None if isinstance(value, Tensor) else float(value)
        elif name == "betas" and "b1" in self._options:
            first, second = pair(value, "an optimizer")
            self._write({"b1": first, "b2": second})
        elif name in self._options:
            self._write({name: value})
        elif name == "params" or name in self._fixed:
            if name == "params" or value != self._fixed[name]:
                raise TrainingError(f"{name!r} is fixed when an optimizer is made; hint: make another optimizer")
        elif isinstance(value, (int, float)) and value and name not in KEPT:  # PyTorch has some that are False
            known = ["lr", *self._options, *self._fixed]
            hint = did_you_mean(name, known) or f"\n  hint: it has {', '.join(known)}"
            raise ValueError(f"this optimizer has no option {name!r}, and no step would read it{hint}")
        else:
            self._extra[name] = value

    def _write(self, values: Mapping[str, Any]) -> None:
        """Check and write options that are numbers, and what a step reads of them.

        Nothing has changed where one of them is wrong: ValueError.
        """
        for name, value in values.items():
            self._check(name, value)
        self._options.update({name: float(value) for name, value in values.items()})
        if self.numbers is None:
            return
        numbers = list(self._derive(self._options).values())
        # from a tensor: a number would be part of a kernel, and each new one a new kernel
        new = Tensor(numbers, dtype=self.numbers.dtype, device=self.numbers.device, requires_grad=False)
        if needed := {name for name in self._unneeded if self._options[name]}:
            self._unneeded -= needed
            # other memory, so that a captured step is run and captured anew; of lr too, which every step reads
            self.numbers.replace(new.realize())
            self.lr.replace(self.lr.detach().clone().realize())
        else:
            self.numbers.assign(new).realize()

    def needs(self, name: str) -> bool:
        """Return whether a step reads an option: not one of REMOVABLE that has always been 0."""
        return name not in self._unneeded

    def __delitem__(self, name: str) -> None:
        """Remove an option that was put in.

        Raises TrainingError for one of the optimizer, KeyError for one that is not there.
        """
        if name not in self._extra:
            if name in self:
                raise TrainingError(f"{name!r} is an option of the optimizer, and stays in its group")
            raise KeyError(name)
        del self._extra[name]

    def __iter__(self) -> Iterator[str]:
        yield from ("params", "lr", *self._options, *self._fixed, *self._extra)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        shown = {name: value for name, value in self.items() if name not in ("params", "lr")}
        return f"<group of {how_many(len(self._params), 'parameter')}, {self.shown_rate()}, {shown}>"

    def shown_rate(self) -> str:
        """Return the rate as it is printed, read where it is in memory; nothing is computed, and nothing raises."""
        try:
            return f"lr={array_text(self.lr).strip('[]')}"
        except Exception:  # a print must not fail, as where the device is lost
            return "lr in a tensor"

    def exact_rate(self) -> float:
        """Read the rate. Where it was given as a number it is that number, as exact as Python has it."""
        read = float(self.lr.item())
        return self._given if self._given is not None and math.isclose(self._given, read, rel_tol=1e-6) else read

    def note_scheduled(self, rate: float) -> None:
        """Note that a scheduler has written the present rate."""
        self._scheduled = rate

    def is_scheduled(self) -> bool:
        """Return whether the present rate is that of a scheduler, or where none has written one, "initial_lr"."""
        last = self._extra.get("initial_lr") if self._scheduled is None else self._scheduled
        return last is None or math.isclose(self.exact_rate(), last, rel_tol=1e-6)

    def note_given(self, lr: Any) -> None:
        """Note the number that the rate was made from."""
        self._given = None if isinstance(lr, Tensor) else float(lr)

    def saved(self, first: int) -> dict[str, Any]:
        """Return the options as plain values; "params" are numbers from `first` on."""
        found = {name: value for name, value in self.items() if name not in ("params", "lr")}
        return {**found, "lr": self.exact_rate(), "params": list(range(first, first + len(self._params)))}

    def number_at(self, name: str) -> int:
        """Return the index in `numbers` of what `derive` called `name`."""
        return self._index[name]


def as_rate(lr: Tensor) -> Tensor:
    """Return a tensor that was given as lr, with its node in memory.

    Raises ShapeError unless it is one number, DTypeError unless that is a float.
    """
    if lr.shape not in ((), (1,)):
        raise ShapeError(
            f"lr is a number or a tensor of one, of shape () or (1,); got shape {lr.shape}\n  made at {lr._where()}\n"
            "  hint: give each rate to a group of its own: [{'params': [...], 'lr': ...}, ...]"
        )
    if lr.dtype.kind != "float":
        raise DTypeError(f"lr is a number or a tensor of floats, got {lr.dtype}\n  made at {lr._where()}")
    lr.uop = in_memory(lr.uop)  # a captured step reads it there
    return lr


def write_rate(old: Tensor, value: Any, check: Callable[[str, Any], None]) -> None:
    """Write a rate, a number or a tensor of one, into the memory of `old`. Raises as `as_rate` and `check` do."""
    if value is old:
        return  # `group["lr"] *= 0.5` has written it
    if isinstance(value, Tensor):
        old.assign(as_rate(value).detach().reshape(old.shape).cast(old.dtype).to(old.device)).realize()
        return
    check("lr", value)
    # from a tensor: a number would be part of a kernel, and each new one a new kernel; at once, so that the next step
    # is the graph that it always is
    old.assign(Tensor([float(value)], dtype=old.dtype, device=old.device).reshape(old.shape)).realize()
