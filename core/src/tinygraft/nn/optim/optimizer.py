"""What all optimizers share: parameters in groups, options that can be set, state that can be saved, the step.

An optimizer takes parameters (usually nn.state.get_parameters(model)) and, at each step, their gradients; it
gives each parameter a new value, in its own memory. All its state is memory from the start, so that the
second step is the same graph as the first and compiles nothing. `update` has what a step computes with,
`given_params` and `step_options` read arguments, `group_option` and `param_group` are the options,
`optimizer_state` is what is saved.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import NoneType
from typing import Any, ClassVar

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, TrainingError, closest
from tinygraft.interrupt import guarded
from tinygraft.nn.described import answered
from tinygraft.nn.optim.given_params import grouped, is_trained, nothing_to_train, unknown_option
from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.optimizer_state import checked, load_into, saved_state
from tinygraft.nn.optim.param_group import FixedList, ParamGroup, as_rate, how_many, pair
from tinygraft.nn.optim.replayed_step import OwnProgram, is_ours, replay_steps, update_of
from tinygraft.nn.optim.shared_memory import check_views, give_own_memory
from tinygraft.nn.optim.step_options import OTHERWISE, maximizes
from tinygraft.nn.optim.update import StepValues
from tinygraft.nn.parameter import filled
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

_UNSHOWN = ("params", "lr")


class MadeTensors:
    """The tensors that an optimizer has made: rates, numbers of groups, state. They have other names in a
    state_dict."""

    __slots__ = ("rate", "tensors")

    def __init__(self, tensors: list[Tensor], rate: float | Tensor) -> None:
        self.tensors: list[Tensor] = tensors
        self.rate: float | Tensor = rate  # of a group that gives none


class Optimizer(StepValues):
    """What all optimizers do; a subclass gives `_step`.

    params are tensors, or groups of them with options of their own: [{"params": [...], "lr": 0.1}, ...]. An optimizer
    keeps each tensor once, if it is of floats and requires_grad is not False, and sets requires_grad; of a
    complex tensor both parts, which are trained as two.
    The other tensors given (such as running statistics) are listed in buffers, and realised with each step. lr
    is a tensor of shape (1,), of float64 where a parameter is, else of float32: assign to it to change it, also between
    replays of a TinyJit. A tensor of one element given as lr is that tensor itself. Other numbers (momentum, b1,
    weight_decay, ...) can be set as well, here for all groups, or in param_groups for one. State and parameters may be
    moved (`to_`): each stays where it is, and what a step needs of the state is copied to the parameter and back.

    A parameter may be a view: the memory of its base is trained. Raises TrainingError when there is nothing to train,
    for parameters that have memory in common and for a view of a tensor that requires a gradient itself; ShapeError for
    a tensor lr of more than one number. Every optimizer raises ValueError for an lr, a momentum, a weight decay or an
    eps below 0, and for a share (b1, b2) that is not from 0 to below 1.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("tinygraft.") and "__init__" in vars(cls):
            cls.__init__ = answered(cls.__init__)  # type: ignore[method-assign]

    lr: GroupOption = GroupOption()
    SHARES: ClassVar[tuple[str, ...]] = ()  # the options that are from 0 to below 1
    IMPLIED_STEP: ClassVar[bool] = False  # whether a state of PyTorch has no "step", and is one of at least one step
    STATE: ClassVar[dict[str, str]] = {}  # lists of state, one for each parameter, by their names in a state_dict

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute. Raises AttributeError for one that is not there and is like an option: nothing reads it.

        Raises TrainingError for what decides the form of a step (nesterov, amsgrad), which a step does not read again.
        """
        if name in vars(self) and name in vars(self).get("_fixed", ()):
            raise TrainingError(f"{name!r} is fixed when an optimizer is made; hint: make another optimizer")
        if not hasattr(type(self), name) and name not in vars(self) and type(self).__module__.startswith("tinygraft."):
            options = [
                option for option, what in inspect.getmembers_static(type(self)) if isinstance(what, GroupOption)
            ]
            if meant := OTHERWISE.get(name, "") or closest(name, options):
                raise AttributeError(
                    f"{type(self).__name__} has no {name!r} that could be set\n  hint: did you mean {meant!r}?",
                    name=name, obj=self,
                )  # fmt: skip
        object.__setattr__(self, name, value)

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor, device: Place = None, *,
        options: Mapping[str, float] | None = None, fixed: Mapping[str, Any] | None = None,
        how: Mapping[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """`options` are the numbers of a subclass that can be set later, `fixed` what decides the form of its step.

        `how` are StepOptions.
        """
        options, fixed = options or {}, {**(fixed or {}), "maximize": maximizes(type(self), how or {})}
        self.maximize: bool = fixed["maximize"]
        self._options, self._fixed = options, fixed
        given = grouped(params)
        seen: dict[int, Tensor] = {}
        members = [self._members(tensors, seen, len(given) == 1) for tensors, _ in given]
        self.buffers: list[Tensor] = [t for group in members for t in group if not is_trained(t)]
        trained = [[t for t in group if is_trained(t)] for group in members]
        self.params: list[Tensor] = [t for group in trained for t in group]
        if not self.params:
            raise TrainingError(nothing_to_train(self.buffers))
        for _, own in given:
            self._check_group({"lr": lr, **options, **own}, {"lr", "initial_lr", "betas", *options, *fixed}, fixed)
        check_views(self.params)
        give_own_memory(self.params, [])
        self.device: Place = device or self.params[0].device
        shared = as_rate(lr) if isinstance(lr, Tensor) else lr
        self.param_groups: list[ParamGroup] = FixedList(
            [self._group(group, own, shared, options, fixed) for group, (_, own) in zip(trained, given, strict=True)],
            "its groups",
        )
        self._groups = [group for group in self.param_groups for _ in group["params"]]
        rates = [group.lr for group in self.param_groups]
        self.__dict__["lr"] = rates[0] if len(rates) == 1 else rates  # its name in a state_dict
        self._made = MadeTensors([*rates, *(g.numbers for g in self.param_groups if g.numbers is not None)], shared)
        self._begin_steps()
        self._program = OwnProgram(update_of)
        self.reduction: Callable[[Sequence[Tensor]], list[Tensor]] | None = None  # of ranks: nn.parallel sets it

    # the step

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Set the gradients to None, so that the next backward does not add to them; else to zeros, those there are."""
        for tensor in self.params:
            tensor.grad = None if set_to_none or tensor.grad is None else tensor.grad.zeros_like()

    def step(self, closure: None = None) -> None:
        """Give each parameter its new value, now. Raises TrainingError as schedule_step does, TypeError for a closure.

        Only LBFGS computes the loss anew in a step. Outside of a capture the update is replayed (replayed_step.py).
        """
        if closure is not None:
            raise TypeError(
                f"{type(self).__name__}.step takes no closure, got {type(closure).__name__}\n"
                "  hint: compute the loss and call backward before step(); only LBFGS calls a closure"
            )
        each = self.apart()
        if all(is_ours(one) and one._skip is None for one in each):
            replay_steps(each)
        else:
            first, *others = self.schedule_step()
            first.realize(*others)

    def apart(self) -> Sequence[Optimizer]:
        """Return the optimizers that this one is: itself."""
        return (self,)

    def schedule_step(self) -> list[Tensor]:
        """Give each parameter its new value, lazily; return all that one realize() call has to compute.

        That is parameters, state and buffers, and the gradients too, so that a .grad that other code refers to stays
        readable. Raises TrainingError outside training mode, and for a parameter without a gradient.
        """
        grads = self.gradients()
        return [*self.updated(grads), *self.buffers, *grads]

    def updated(self, grads: list[Tensor]) -> list[Tensor]:
        """Give each parameter its new value by `grads`, lazily; return parameters and state, to be computed."""
        self._forget_numbers()
        with guarded(whole=True):  # a signal finds all of them with a new value to come, or none
            self._step(grads)
        self._forget_numbers()
        return [*self.params, *self._made.tensors]

    def gradients(self) -> list[Tensor]:
        """Return the gradient of each parameter. Raises TrainingError as `schedule_step` does."""
        if not Tensor.training:
            raise TrainingError(
                "an optimizer steps in training mode only, in which dropout and batch norm behave as in training; "
                "hint: with Tensor.train(): ..."
            )
        found = [self._grad_of(number, tensor) for number, tensor in enumerate(self.params)]
        return found if self.reduction is None else self.reduction(self.params)

    def _grad_of(self, number: int, tensor: Tensor) -> Tensor:
        """Return the gradient of `tensor`, parameter `number`. Raises TrainingError where it has none."""
        if tensor.grad is None:
            raise TrainingError(
                f"parameter {number} of {len(self.params)}, shape {tensor.shape}, has no gradient: the loss "
                f"does not depend on it, or was computed before the optimizer was made, or backward() was not called "
                f"since zero_grad()\n  made at {tensor._where()}\n"
                "  hint: set requires_grad=False on what is not to be trained, before the optimizer is made"
            )
        return tensor.grad

    def _step(self, grads: list[Tensor]) -> None:
        """Assign parameters and state their new values, lazily. `grads` are those of `params`, in order."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it steps")

    # state, saved and loaded

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options: {"state": {number: {name: tensor}}, "param_groups": [...]}.

        Parameters are numbers, in order, and names are those of PyTorch. The tensors are the optimizer's own, and
        change with the next step; options are plain values, for which lr is read.

        >>> from tinygraft import Tensor, nn
        >>> saved = nn.optim.SGD([Tensor([1.0])], lr=0.5, momentum=0.75).state_dict()
        >>> saved["state"][0]["momentum_buffer"].tolist(), saved["param_groups"][0]["momentum"]
        ([0.0], 0.75)
        """
        return saved_state(self)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over what `state_dict` returned, here or in PyTorch, into the memory of this optimizer's state.

        A captured step goes on with it. Values are converted to dtype and device of the state here. Raises
        FileFormatError where groups, names or shapes do not fit, and for options of PyTorch that this optimizer
        lacks; nothing is loaded then.
        """
        load_into(self, state_dict)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Raise what `load_state_dict` would raise, and change nothing."""
        checked(self, state_dict)

    # groups

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Train further parameters, as a group with options of its own: {"params": [...], "lr": 0.1}.

        Their state starts as that of the others did. A step that a TinyJit has captured is captured anew. Raises as the
        constructor does, and TrainingError where there is nothing to train, for parameters that are trained already,
        and for an optimizer that is data parallel; nothing has changed then.

        >>> from tinygraft import Tensor, nn
        >>> adam = nn.optim.Adam([Tensor([1.0])], lr=0.5)
        >>> adam.add_param_group({"params": [Tensor([2.0])], "lr": 0.25})
        >>> [group["lr"].item() for group in adam.param_groups]
        [0.5, 0.25]
        """
        if not isinstance(param_group, Mapping) or "params" not in param_group:
            raise TypeError(
                f'a group is a dict with the tensors as "params", got {type(param_group).__name__}\n'
                "  hint: optimizer.add_param_group({'params': [...], 'lr': ...})"
            )
        if self.reduction is not None:
            raise TrainingError("an optimizer that is data parallel has its groups from the start; hint: add it before")
        tensors, own = grouped([param_group])[0]
        members = self._members(tensors, {id(t): t for t in (*self.params, *self.buffers)}, False)
        new = [t for t in members if is_trained(t)]
        if not new:
            raise TrainingError(f"the group has {how_many(len(tensors), 'tensor')} and none to train")
        first = self.param_groups[0]
        allowed = {"lr", "initial_lr", "betas", *self._options, *self._fixed}
        self._check_group({"lr": self._made.rate, **self._options, **own}, allowed, self._fixed)
        check_views([*self.params, *new])
        group = self._group(new, own, self._made.rate, self._options, self._fixed)
        give_own_memory(new, self.params)
        self.params += new
        self.buffers += [t for t in members if not is_trained(t)]
        list.append(self.param_groups, group)
        self._groups += [group] * len(new)
        self.__dict__["lr"] = [each.lr for each in self.param_groups]
        made = [group.lr, *([group.numbers] if group.numbers is not None else [])]
        if first.t is not None:
            group.t = self._state([0.0])
            self.__dict__.setdefault("added_t", []).append(group.t)  # its name in a state_dict
            made.append(group.t)
        for name in self.STATE:
            state = getattr(self, name)
            if state:
                more = self._first_state(name, new, group)
                state += more
                made += {id(t): t for t in more}.values()
        first.lr.replace(first.lr.detach().clone().realize())  # other memory: a captured step is captured anew
        self._realize_state(*{id(t): t for t in made}.values())

    def _members(self, tensors: list[Tensor], seen: dict[int, Tensor], alone: bool) -> list[Tensor]:
        """Return the tensors of a group, each once; complex ones as their two parts.

        `seen` has those of earlier groups, and gets these. Raises TrainingError for one in another group, unless this
        group is `alone`.
        """
        parts = {id(part): part for tensor in tensors for part in tensor._parts()}
        if not alone and not seen.keys().isdisjoint(parts):
            raise TrainingError("a parameter is in two groups of the optimizer; give it to one of them")
        seen.update(parts)
        return list(parts.values())

    def _check_group(self, given: Mapping[str, Any], known: set[str], fixed: Mapping[str, Any]) -> None:
        """Raise ValueError for a wrong number among the options of a group, and for one that no step would read.

        Shares are checked last, as in the order of arguments.
        """
        for name in sorted((name for name in given if name not in fixed), key=self.SHARES.__contains__):
            if name not in known and isinstance(given[name], (int, float)):
                raise ValueError(unknown_option(type(self).__name__, name, ["lr", *self._options, *fixed]))
            if name != "lr" or not isinstance(given[name], Tensor):
                self._check_option(name, given[name])

    def _group(
        self, params: list[Tensor], own: Mapping[str, Any], lr: Any, options: Mapping[str, float],
        fixed: Mapping[str, Any],
    ) -> ParamGroup:  # fmt: skip
        """Make a group of `params`, with its own options over those of all (`options`, and `fixed` ones).

        `lr` is the rate of all; a tensor is used itself.
        """
        given = own.get("lr", lr)
        rate = as_rate(given) if isinstance(given, Tensor) else self._state([given])
        group = ParamGroup(params, rate, options, fixed, self._check_option, self._derived, self._state)
        group.note_given(given)
        group.update({name: value for name, value in own.items() if name != "lr"})
        return group

    def _check_option(self, name: str, value: Any) -> None:
        """Raise TypeError for no number, ValueError below 0 or for NaN, and a share not from 0 to below 1."""
        if (name == "lr" or name in vars(self).get("_options", ())) and isinstance(value, (str, list, tuple, NoneType)):
            what = "a number, or a tensor of one" if name == "lr" else "a number"
            raise TypeError(f"{type(self).__name__} needs {name} to be {what}, got {value!r}")
        if name == "betas":
            for number, share in enumerate(pair(value, type(self).__name__), 1):
                self._check_option(f"b{number}", share)
        elif name in self.SHARES:
            if not 0 <= value < 1:
                raise ValueError(f"{type(self).__name__} needs {name} to be from 0 to below 1, got {value}")
        elif isinstance(value, (int, float)) and not value >= 0:
            raise ValueError(f"{type(self).__name__} needs {name} to be at least 0, got {value}")

    def _derived(self, options: Mapping[str, Any]) -> dict[str, float]:
        """Return the numbers that a step reads, by name, from the options of a group."""
        return dict(options)

    # what a subclass makes its state with

    def _state(self, values: Sequence[float]) -> Tensor:
        """Numbers of the optimizer's state as a tensor on its device, float64 if a parameter is, else float32."""
        dtype = dtypes.float64 if any(t.dtype is dtypes.float64 for t in self.params) else dtypes.float32
        return Tensor(list(values), dtype=dtype, device=self.device, requires_grad=False)

    def _filled(self, value: float = 0, params: Sequence[Tensor] | None = None) -> list[Tensor]:
        """Return a state tensor for each of `params`, of its shape, dtype, device and shards, filled with `value`.

        They are all parameters where none are given.
        """
        params = self.params if params is None else params
        values = [filled(t.shape, value, dtype=t.dtype, device=t.device, requires_grad=False) for t in params]
        return [state.shard_like(t) for state, t in zip(values, params, strict=True)]

    def _first_state(self, name: str, params: Sequence[Tensor], group: ParamGroup) -> list[Tensor]:
        """Return the state `name`, of STATE, that new parameters of a group start with."""
        return self._filled(0, params)

    def _count_steps(self) -> Tensor:
        """Make the count of steps, which all groups share: shape (1,). A group that is added has its own."""
        t = self._state([0.0])
        for group in self.param_groups:
            group.t = t
        return t

    def _realize_state(self, *state: Tensor) -> None:
        """Make memory of the parameters and all state: called once, at the end of a subclass's __init__."""
        self._made.tensors += state
        self.params[0].realize(*self.params[1:], *self.buffers, *self._made.tensors)

    def __repr__(self) -> str:
        """Say which parameters there are; nothing is computed. A rate that is in no memory yet prints as a tensor."""
        shown = ", ".join(f"{name}={value!r}" for name, value in self.param_groups[0].items() if name not in _UNSHOWN)
        many = f" in {len(self.param_groups)} groups, the first with" if len(self.param_groups) > 1 else ","
        rate = self.param_groups[0].shown_rate()
        return f"<{type(self).__name__} of {how_many(len(self.params), 'parameter')}{many} {rate}, {shown}>".replace(
            ", >", ">"
        )


class OptimizerGroup(Optimizer):
    """Several optimizers that step as one, such as one with weight decay and one without.

    Its param_groups are those of all of them; lr is set in all.
    """

    def __init__(self, *optimizers: Optimizer) -> None:
        # those of a group one by one, so that each is there once, whatever is made of them
        self.optimizers: tuple[Optimizer, ...] = tuple(
            one for each in optimizers for one in (each.optimizers if isinstance(each, OptimizerGroup) else (each,))
        )
        self.params: list[Tensor] = [tensor for optimizer in optimizers for tensor in optimizer.params]
        self.buffers: list[Tensor] = [tensor for optimizer in optimizers for tensor in optimizer.buffers]
        self.param_groups: list[ParamGroup] = FixedList(
            (group for optimizer in optimizers for group in optimizer.param_groups), "its groups"
        )
        check_views(list({id(tensor): tensor for tensor in self.params}.values()))

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Raise TrainingError: which of the optimizers would train it is not known."""
        raise TrainingError("an OptimizerGroup has several optimizers; hint: group.optimizers[0].add_param_group(...)")

    def apart(self) -> Sequence[Optimizer]:
        """Return the optimizers of the group."""
        return self.optimizers

    def schedule_step(self) -> list[Tensor]:
        """Return what schedule_step of each returns, in one list. Raises TrainingError as these."""
        return [tensor for optimizer in self.optimizers for tensor in optimizer.schedule_step()]

    def state_dict(self) -> dict[str, Any]:
        """Return the state_dict of each optimizer, in a list: {"optimizers": [...]}."""
        return {"optimizers": [optimizer.state_dict() for optimizer in self.optimizers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """load_state_dict of each. Raises FileFormatError where their number differs, or one does not fit: all stay."""
        self.check_state_dict(state_dict)
        for optimizer, each in zip(self.optimizers, state_dict["optimizers"], strict=True):
            optimizer.load_state_dict(each)

    def check_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Raise what `load_state_dict` would raise, and change nothing."""
        saved = state_dict.get("optimizers", ()) if isinstance(state_dict, Mapping) else ()
        if len(saved) != len(self.optimizers):
            raise FileFormatError(f"the group has {len(self.optimizers)} optimizers, the state has {len(saved)}")
        for optimizer, each in zip(self.optimizers, saved, strict=True):
            optimizer.check_state_dict(each)
