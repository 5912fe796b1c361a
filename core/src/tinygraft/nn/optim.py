"""Optimizers: SGD, LARS, Adam, AdamW, LAMB, Muon, and the base class that they share.

An optimizer takes parameters (usually nn.state.get_parameters(model)) and, at each step, their gradients; it
gives each parameter a new value, in its own memory. All its state is memory from the start, so that the
second step is the same graph as the first and compiles nothing. An update is one elementwise expression for
each parameter, of a half type computed in float32: it is rounded where a parameter or state is stored.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import DTypeError, ShapeError, TrainingError
from tinygraft.interrupt import guarded
from tinygraft.nn.parameter import filled
from tinygraft.tensor.state.leaf_nodes import in_memory, own_memory
from tinygraft.tensor.state.strides import have_common
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import Place, UOp


class Optimizer:
    """What all optimizers do; a subclass gives `_step`.

    params keeps each tensor once, if it is of floats and requires_grad is not False, and sets requires_grad; of a
    complex tensor both parts, which are trained as two.
    The other tensors given (such as running statistics) are listed in buffers, and realised with each step. lr
    is a tensor of shape (1,), of float64 where a parameter is, else of float32: assign to it to change it, also between
    replays of a TinyJit. A tensor of one element given as lr is that tensor itself. State and parameters may be moved
    (`to_`): each stays where it is, and what a step needs of the state is copied to the parameter and back.

    A parameter may be a view: the memory of its base is trained. Raises TrainingError when there is nothing to train,
    for parameters that have memory in common and for a view of a tensor that requires a gradient itself; ShapeError for
    a tensor lr of more than one number. Every optimizer raises ValueError for an lr, a momentum, a weight decay or an
    eps below 0, and for a share (b1, b2) that is not from 0 to below 1.
    """

    def __init__(self, params: Iterable[Tensor], lr: float | Tensor, device: Place = None) -> None:
        if not isinstance(params, Iterable) or isinstance(params, Tensor):
            raise TypeError(
                f"an optimizer takes a list of tensors, got {type(params).__name__}\n"
                "  hint: nn.state.get_parameters(model) finds those of a model"
            )
        tensors = list(params)
        for item in tensors:
            if not isinstance(item, Tensor):
                raise TypeError(
                    f"an optimizer takes a list of tensors, got {type(item).__name__} in it\n  hint: parameters with "
                    "options of their own get an optimizer of their own, and nn.optim.OptimizerGroup steps them as one"
                )
        given = list({id(part): part for tensor in tensors for part in tensor._parts()}.values())
        self.params = [t for t in given if t.requires_grad is not False and dtypes.is_float(t.dtype)]
        self.buffers = [t for t in given if t.requires_grad is False or not dtypes.is_float(t.dtype)]
        if not self.params:
            raise TrainingError(
                f"the optimizer got {len(given)} tensors and none to train; it needs tensors of floats whose "
                "requires_grad is not False, such as nn.state.get_parameters(model)"
            )
        if not isinstance(lr, Tensor):
            self._check_numbers(lr=lr)
        _check_views(self.params)
        nodes: set[UOp] = set()
        for tensor in self.params:
            tensor.requires_grad_()
            tensor.uop = own_memory(tensor.uop) if tensor.uop in nodes else in_memory(tensor.uop)
            nodes.add(tensor.uop)
        self.device = device or self.params[0].device
        self.__dict__["lr"] = _as_rate(lr) if isinstance(lr, Tensor) else self._state([lr])
        self._made: list[Tensor] = [self.lr]
        self._numbers: dict[tuple[int, Any, DType], Tensor] = {}  # of this step, by the id of what they are made from

    @property
    def lr(self) -> Tensor:
        """Return the learning rate: a tensor of shape (1,), or the one that was given as `lr` itself.

        Setting it to a number, or to a tensor of one, writes that into this tensor, so that a captured step reads
        the new rate. It raises ValueError for a number below 0 or NaN, ShapeError for a tensor of several numbers,
        DTypeError for one that is not of floats.

        >>> from tinygraft import Tensor, nn
        >>> sgd = nn.optim.SGD([Tensor([1.0])], lr=0.5)
        >>> sgd.lr = 0.05
        >>> round(sgd.lr.item(), 4)
        0.05
        """
        found: Tensor = self.__dict__["lr"]  # by its name, which is that in a state_dict
        return found

    @lr.setter
    def lr(self, value: float | Tensor) -> None:
        """Write a rate into the memory of lr, on its device and in its dtype. Raises as at construction."""
        old = self.lr
        if isinstance(value, Tensor):
            value = _as_rate(value).detach().reshape(old.shape).cast(old.dtype).to(old.device)
        else:
            self._check_numbers(lr=value)
        old[...] = value

    def _check_numbers(self, shares: Sequence[float] = (), **numbers: float) -> None:
        """Raise ValueError for a number below 0 or NaN, and for a share that is not from 0 to below 1."""
        for name, value in numbers.items():
            if not value >= 0:
                raise ValueError(f"{type(self).__name__} needs {name} to be at least 0, got {value}")
        for number, value in enumerate(shares, 1):
            if not 0 <= value < 1:
                raise ValueError(f"{type(self).__name__} needs b{number} to be from 0 to below 1, got {value}")

    def _state(self, values: Sequence[float]) -> Tensor:
        """Numbers of the optimizer's state as a tensor on its device, float64 if a parameter is, else float32."""
        dtype = dtypes.float64 if any(t.dtype is dtypes.float64 for t in self.params) else dtypes.float32
        return Tensor(list(values), dtype=dtype, device=self.device, requires_grad=False)

    def _rate(self, p: Tensor) -> Tensor:
        """lr where p is, in the dtype that its update is computed in."""
        return self._number(p, self.lr)

    def _number(self, p: Tensor, x: Tensor) -> Tensor:
        """One number without axes for the update of p, which may have none: where p is, as wide; made once a step."""
        # one transfer and cast a step for all parameters of a device and dtype, and not one for each
        key = id(x), p.device, _wide_dtype(p)
        if key not in self._numbers:
            self._numbers[key] = x.detach().reshape(()).to(p.device).cast(key[-1])
        return self._numbers[key]

    def _zeros(self) -> list[Tensor]:
        """Return zeros for each parameter, of its shape and dtype."""
        zeros = [filled(t.shape, 0, dtype=t.dtype, device=t.device, requires_grad=False) for t in self.params]
        return [zero.shard_like(t) for zero, t in zip(zeros, self.params, strict=True)]

    def _realize_state(self, *state: Tensor) -> None:
        """Make memory of the parameters and all state: called once, at the end of a subclass's __init__."""
        self._made += state
        self.params[0].realize(*self.params[1:], *self.buffers, *self._made)

    def zero_grad(self) -> None:
        """Set the gradients to None, so that the next backward does not add to them."""
        for tensor in self.params:
            tensor.grad = None

    def step(self) -> None:
        """Give each parameter its new value, now. Raises TrainingError as schedule_step does."""
        first, *others = self.schedule_step()
        first.realize(*others)

    def schedule_step(self) -> list[Tensor]:
        """Give each parameter its new value, lazily; return all that one realize() call has to compute.

        That is parameters, state and buffers, and the gradients too, so that a .grad that other code refers to stays
        readable. Raises TrainingError outside training mode, and for a parameter without a gradient.
        """
        if not Tensor.training:
            raise TrainingError(
                "an optimizer steps in training mode only, in which dropout and batch norm behave as in training; "
                "hint: with Tensor.train(): ..."
            )
        grads = [self._grad_of(number, tensor) for number, tensor in enumerate(self.params)]
        self._numbers.clear()
        with guarded(whole=True):  # a signal finds all of them with a new value to come, or none
            self._step(grads)
        self._numbers.clear()
        return [*self.params, *self._made, *self.buffers, *grads]

    def _grad_of(self, number: int, tensor: Tensor) -> Tensor:
        """Return the gradient of `tensor`, parameter `number`. Raises TrainingError where it has none."""
        if tensor.grad is None:
            raise TrainingError(
                f"parameter {number} of {len(self.params)}, shape {tensor.shape}, has no gradient: the loss "
                f"does not depend on it, or backward() was not called since zero_grad()\n  made at {tensor._where()}\n"
                "  hint: set requires_grad=False on what is not to be trained, before the optimizer is made"
            )
        return tensor.grad

    def _step(self, grads: list[Tensor]) -> None:
        """Assign to params and state. grads are theirs, in order."""
        raise NotImplementedError(f"{type(self).__name__} does not say how it steps")


def _check_views(params: Sequence[Tensor]) -> None:
    """Raise TrainingError for parameters that have memory in common, and for a slice of a tensor with a gradient."""
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


def _as_rate(lr: Tensor) -> Tensor:
    """Return a tensor that was given as lr, with its node in memory.

    Raises ShapeError unless it is one number, DTypeError unless that is a float.
    """
    if lr.shape not in ((), (1,)):
        raise ShapeError(
            f"lr is a number or a tensor of one, of shape () or (1,); got shape {lr.shape}\n  made at {lr._where()}\n"
            "  hint: give each rate to an optimizer of its own, and these to nn.optim.OptimizerGroup"
        )
    if lr.dtype.kind != "float":
        raise DTypeError(f"lr is a number or a tensor of floats, got {lr.dtype}\n  made at {lr._where()}")
    lr.uop = in_memory(lr.uop)  # a captured step reads it there
    return lr


def _wide_dtype(t: Tensor) -> DType:
    """Return the dtype that an update is computed in."""
    return dtypes.float32 if t.dtype.itemsize < 4 else t.dtype


def _at(p: Tensor, state: Tensor) -> Tensor:
    """Return the values of state on the device of `p`, for its update: either may have been moved to another one."""
    return _wide(state).to(p.device)


def _kept(new: Tensor, state: Tensor) -> Tensor:
    """Return a new value of state on the device and in the dtype of the old one."""
    return new.cast(state.dtype).to(state.device)


def _wide(t: Tensor) -> Tensor:
    """Return the values of `t`, without a gradient, in the dtype that an update is computed in."""
    plain = t if t.requires_grad is False else t.detach()
    return plain.cast(_wide_dtype(t)) if t.dtype.itemsize < 4 else plain


class OptimizerGroup(Optimizer):
    """Several optimizers that step as one, such as one with weight decay and one without."""

    def __init__(self, *optimizers: Optimizer) -> None:
        self.optimizers = optimizers
        self.params = [tensor for optimizer in optimizers for tensor in optimizer.params]
        self.buffers = [tensor for optimizer in optimizers for tensor in optimizer.buffers]
        _check_views(list({id(tensor): tensor for tensor in self.params}.values()))

    def schedule_step(self) -> list[Tensor]:
        """schedule_step of each, in one list."""
        return [tensor for optimizer in self.optimizers for tensor in optimizer.schedule_step()]


class LARS(Optimizer):
    """Gradient descent with momentum, where each parameter's rate follows its norm.

    The gradient g + weight_decay*p is scaled by tcoef*|p| / (|g| + weight_decay*|p|) (by 1 if a norm is 0 or
    tcoef is 0), and enters a momentum. With classic the rate enters the momentum too, as in the paper;
    without, it multiplies the result, as in PyTorch's SGD. nesterov looks one step ahead.

    Source: You, Gitman & Ginsburg, "Large batch training of convolutional networks", arXiv:1708.03888.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, momentum: float = 0.9, weight_decay: float = 1e-4,
        nesterov: bool = False, classic: bool = True, tcoef: float = 0.001, device: Place = None,
    ) -> None:  # fmt: skip
        self._check_numbers(momentum=momentum, weight_decay=weight_decay, tcoef=tcoef)
        super().__init__(params, lr, device)
        self.momentum, self.weight_decay, self.tcoef = momentum, weight_decay, tcoef
        self.nesterov, self.classic = nesterov, classic
        self.b = self._zeros() if momentum else []
        self._realize_state(*self.b)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter its new value, and its momentum. SGD is this without trust ratios."""
        for number, (p, gradient) in enumerate(zip(self.params, grads, strict=True)):
            rate, old, g = self._rate(p), _wide(p), _wide(gradient)
            trust = self._trust(old, g)
            if self.weight_decay:
                g = g + self.weight_decay * old
            if trust is not None:
                g = g * trust
            if self.classic:
                g = g * rate
            if self.momentum:
                b = self.b[number]
                new = _at(p, b) * self.momentum + g
                b.assign(_kept(new, b))
                g = g + new * self.momentum if self.nesterov else new
            p.assign((old - (g if self.classic else g * rate)).cast(p.dtype))

    def _trust(self, p: Tensor, g: Tensor) -> Tensor | None:
        """Return the factor of this parameter's learning rate; None for 1."""
        if not self.tcoef:
            return None
        size, pull = p.square().sum().sqrt(), g.square().sum().sqrt()
        ratio = self.tcoef * size / (pull + self.weight_decay * size)
        return ((size > 0) & (pull > 0)).where(ratio, 1.0)


class SGD(LARS):
    """Gradient descent: p -= lr * g, with momentum b = momentum*b + g in place of g, as PyTorch's SGD.

    weight_decay adds that share of p to its gradient.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> sgd = nn.optim.SGD([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = p.sum().backward()
    ...     sgd.step()
    >>> p.tolist()
    [0.5, 1.5]
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, momentum: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, classic: bool = False, device: Place = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, momentum, weight_decay, nesterov, classic, 0.0, device)


class LAMB(Optimizer):
    """Adam's update, scaled for each parameter by |p| / |update| (by 1 if a norm is 0, or with adam=True).

    m and v are the running means of the gradient and its square, with weights b1 and b2. They start at zero, which the
    number t of the step undoes: m' = m / (1 - b1**t), v' = v / (1 - b2**t). The update is
    m' / (sqrt(v') + eps) + weight_decay * p.

    Source: You et al., "Large batch optimization for deep learning", arXiv:1904.00962.
    """

    decoupled = True  # whether weight decay is part of the update; else it is added to the gradient

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-6, weight_decay: float = 0.0, adam: bool = False, device: Place = None,
    ) -> None:  # fmt: skip
        self._check_numbers((b1, b2), eps=eps, weight_decay=weight_decay)
        super().__init__(params, lr, device)
        self.b1, self.b2, self.eps, self.weight_decay, self.adam = b1, b2, eps, weight_decay, adam
        self.t = self._state([0.0])
        self.m, self.v = self._zeros(), self._zeros()
        self._realize_state(self.t, *self.m, *self.v)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter, its two moments and the step count their new values.

        Adam is this without trust ratios (`adam`); weight decay is added to the gradient, or to the update where
        `decoupled`.
        """
        t = self.t + 1
        left1, left2 = _one_minus_power(self.b1, t), _one_minus_power(self.b2, t)
        for p, gradient, m, v in zip(self.params, grads, self.m, self.v, strict=True):
            old, g = _wide(p), _wide(gradient)
            if self.weight_decay and not self.decoupled:
                g = g + self.weight_decay * old
            new_m = _at(p, m) * self.b1 + g * (1 - self.b1)
            new_v = _at(p, v) * self.b2 + g * g * (1 - self.b2)
            m.assign(_kept(new_m, m))
            v.assign(_kept(new_v, v))
            mean = new_m / self._number(p, left1)
            spread = (new_v / self._number(p, left2)).sqrt()
            update = mean / (spread + self.eps)
            if self.weight_decay and self.decoupled:
                update = update + self.weight_decay * old
            if not self.adam:
                update = update * self._trust(old, update)
            p.assign((old - update * self._rate(p)).cast(p.dtype))
        self.t.assign(t)

    @staticmethod
    def _trust(p: Tensor, update: Tensor) -> Tensor:
        size, pull = p.square().sum().sqrt(), update.square().sum().sqrt()
        return ((size > 0) & (pull > 0)).where(size / pull, 1.0)


def _one_minus_power(weight: float, t: Tensor) -> Tensor:
    """1 - weight**t, whose last places a subtraction in float32 would lose: at t = 1 and 0.999 the last 10 bits."""
    return -(t * (math.log(weight) if weight else -math.inf)).expm1()


class AdamW(LAMB):
    """Adam whose weight decay does not pass through the running means: p -= lr * (update + weight_decay * p).

    Source: Loshchilov & Hutter, "Decoupled weight decay regularization", arXiv:1711.05101.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.01, device: Place = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, b1, b2, eps, weight_decay, True, device)


class Adam(LAMB):
    """Adaptive moments: p -= lr * m' / (sqrt(v') + eps), with m' and v' as LAMB describes them.

    weight_decay adds that share of p to its gradient, as PyTorch's Adam does; AdamW's is not part of the means.

    Source: Kingma & Ba, "Adam: a method for stochastic optimization", arXiv:1412.6980, algorithm 1.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([1.0, 2.0])
    >>> adam = nn.optim.Adam([p], lr=0.5)
    >>> with Tensor.train():
    ...     _ = (p * p).sum().backward()
    ...     adam.step()
    >>> [round(value, 4) for value in p.tolist()]
    [0.5, 1.5]
    """

    decoupled = False

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, b1: float = 0.9, b2: float = 0.999,
        eps: float = 1e-8, weight_decay: float = 0.0, device: Place = None,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, b1, b2, eps, weight_decay, True, device)


class Muon(Optimizer):
    """Momentum whose step for each matrix is made orthogonal: all its directions are learned equally fast.

    The gradient enters a momentum (looking one step ahead with nesterov); that, as a matrix (first axis, all others),
    is brought near U @ V.T of its singular value decomposition by ns_steps of a Newton-Schulz iteration. weight_decay
    shrinks p by lr * weight_decay. Meant for matrices; put vectors into an AdamW, both into an OptimizerGroup.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
    """

    def __init__(
        self, params: Iterable[Tensor], lr: float | Tensor = 0.001, momentum: float = 0.95, weight_decay: float = 0.1,
        ns_steps: int = 5, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        nesterov: bool = True, device: Place = None,
    ) -> None:  # fmt: skip
        self._check_numbers(momentum=momentum, weight_decay=weight_decay, ns_steps=ns_steps)
        super().__init__(params, lr, device)
        self.momentum, self.weight_decay, self.nesterov = momentum, weight_decay, nesterov
        self.ns_steps, self.ns_coefficients = ns_steps, ns_coefficients
        self.b = self._zeros()
        self._realize_state(*self.b)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its momentum; a parameter is a matrix of its first axis by all others."""
        for p, gradient, b in zip(self.params, grads, self.b, strict=True):
            rate, g = self._rate(p), _wide(gradient)
            momentum = _at(p, b) * self.momentum + g
            b.assign(_kept(momentum, b))
            wanted = g + momentum * self.momentum if self.nesterov else momentum
            step = self._orthogonal(wanted.reshape(p.shape[0] if p.ndim else 1, -1)).reshape(p.shape)
            p.assign((_wide(p) * (1 - rate * self.weight_decay) - step * rate).cast(p.dtype))

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Return the matrix `x` with its singular values brought near 1."""
        a, b, c = self.ns_coefficients
        tall = x.shape[0] > x.shape[1]
        x = x.transpose() if tall else x
        x = x / (x.square().sum().sqrt() + 1e-7)
        for _ in range(self.ns_steps):
            square = (x @ x.transpose()).contiguous()
            x = (a * x + (b * square + c * (square @ square)) @ x).contiguous()
        return x.transpose() if tall else x
