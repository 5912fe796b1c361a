"""LBFGS: steps by an estimate of the curvature, from the last changes of the parameters and of their gradient.

A step calls the loss several times and decides by its value: it reads numbers, and a function under TinyJit that has
such a step is run in every call. Vectors stay on the device.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.curvature import Curvature
from tinygraft.nn.optim.line_search import LinePoint, strong_wolfe
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.update import wide
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

Closure = Callable[[], Tensor]


class LBFGS(Optimizer):
    """Limited-memory BFGS, as PyTorch's: `step(closure)`, where closure computes the loss and its gradients anew.

    A step makes up to max_iter moves with up to max_eval calls of the closure (None: 1.25 * max_iter), and ends when
    the greatest gradient is at most tolerance_grad, or a move or a change of the loss at most tolerance_change.
    history_size pairs of changes estimate the curvature. A move has the length lr (at first at most lr / sum |g|), or
    line_search_fn="strong_wolfe" looks for one. There is one group of parameters, on one device.

    Raises ValueError for another line search, for several groups and for a history_size below 1; TrainingError as
    other optimizers. Source: Nocedal & Wright, "Numerical optimization", 2006, algorithms 7.4 and 3.5.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([3.0, -2.0])
    >>> lbfgs = nn.optim.LBFGS([p], lr=1.0, line_search_fn="strong_wolfe")
    >>> def closure():
    ...     lbfgs.zero_grad()
    ...     return ((p - Tensor([1.0, 2.0])).square() * Tensor([1.0, 10.0])).sum().backward()
    >>> with Tensor.train():
    ...     _ = lbfgs.step(closure)
    >>> [round(value, 3) for value in p.tolist()]
    [1.0, 2.0]
    """

    length: float
    max_iter: int
    max_eval: int
    history_size: int
    tolerance_grad: float
    tolerance_change: float
    evaluations: int
    iterations: int

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 1.0, max_iter: int = 20, max_eval: int | None = None,
        tolerance_grad: float = 1e-7, tolerance_change: float = 1e-9, history_size: int = 100,
        line_search_fn: str | None = None, device: Place = None,
    ) -> None:  # fmt: skip
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS has the line_search_fn 'strong_wolfe', or None; got {line_search_fn!r}")
        if history_size < 1:
            raise ValueError(f"LBFGS needs a history_size of at least 1, got {history_size}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.max_iter, self.max_eval, self.history_size = max_iter, max_eval, history_size
        self.tolerance_grad, self.tolerance_change = tolerance_grad, tolerance_change
        self.line_search_fn = line_search_fn
        super().__init__(params, lr, device)
        if len(self.param_groups) > 1:
            raise ValueError(f"LBFGS has one group of parameters, got {len(self.param_groups)}")
        self.curvature: Curvature | None = None
        self.direction: Tensor | None = None
        self.last_gradient: Tensor | None = None
        self.length, self.evaluations, self.iterations = 0.0, 0, 0
        self._realize_state()

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Raise TrainingError: its estimate of the curvature is of all parameters together."""
        raise TrainingError("LBFGS has one group of parameters, from the start; hint: make another optimizer")

    def step(self, closure: Closure | None = None) -> Tensor:  # type: ignore[override]
        """Move until a limit is reached; return the loss at the start, realised. Raises TypeError without a closure.

        It calls the closure several times and reads numbers. Raises TrainingError outside training mode, and for a
        parameter without a gradient.
        """
        if closure is None:
            raise TypeError(
                "LBFGS calls the loss several times a step: step(closure), which computes it and its gradients"
            )
        loss = closure().realize()
        value, gradient = float(loss.item()), self._gradient()
        used, self.evaluations = 1, self.evaluations + 1
        if _greatest(gradient) <= self.tolerance_grad:
            return loss
        for number in range(1, self.max_iter + 1):
            self.iterations += 1
            direction = self._next_direction(gradient)
            self.last_gradient, before, rate = gradient, value, float(self.lr.item())
            self.length = min(1.0, 1.0 / float(gradient.abs().sum().item())) * rate if self.iterations == 1 else rate
            slope = _dot(gradient, direction)
            if slope > -self.tolerance_change:
                break
            more, done = 0, _greatest(gradient) <= self.tolerance_grad
            if self.line_search_fn is not None:
                value, gradient, more = self._search(closure, direction, value, gradient, slope, used)
                done = _greatest(gradient) <= self.tolerance_grad
            else:
                self._move(self._flat(), direction, self.length)
                if number != self.max_iter:
                    value, gradient, more = float(closure().item()), self._gradient(), 1
                    done = _greatest(gradient) <= self.tolerance_grad
            used += more
            self.evaluations += more
            if self._is_over(number, used, done, direction, value, before):
                break
        return loss

    def _is_over(self, number: int, used: int, done: bool, direction: Tensor, value: float, before: float) -> bool:
        """Return whether a limit ends the step after move `number` and `used` calls of the closure.

        `done` says that the gradient is small enough; `before` was the loss before the move, `value` is it now.
        """
        if number == self.max_iter or used >= self.max_eval or done:
            return True
        moved = _greatest(direction) * abs(self.length)
        return moved <= self.tolerance_change or abs(value - before) < self.tolerance_change

    def schedule_step(self) -> list[Tensor]:
        """Refused: a step of LBFGS reads numbers, and cannot be lazy."""
        raise TrainingError(
            "a step of LBFGS decides by values of the loss and cannot be scheduled; hint: step(closure)"
        )

    def _next_direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of the next move, after adding the change of the last one to what is known."""
        if self.curvature is None:
            self.curvature = Curvature(gradient, self.history_size)
        if self.direction is not None and self.last_gradient is not None:
            length = Tensor(self.length, dtype=gradient.dtype, device=gradient.device)
            move, bend = (self.direction * length).realize(), (gradient - self.last_gradient).realize()
            self.curvature.add(move, bend)
        self.direction = self.curvature.direction(gradient)
        return self.direction

    def _search(
        self, closure: Closure, direction: Tensor, value: float, gradient: Tensor, slope: float, used: int
    ) -> tuple[float, Tensor, int]:
        """Move by a line search; return the loss and the gradient there, and how often the closure was called.

        It begins at the present parameters, whose loss, gradient and slope along `direction` are given.
        """
        start = self._flat()

        def at(length: float) -> LinePoint:
            self._move(start, direction, length)
            loss = float(closure().item())
            found = self._gradient()
            return LinePoint(length, loss, found, _dot(found, direction))

        first = LinePoint(0.0, value, gradient, slope)
        # 25 evaluations at most, as in PyTorch
        best, calls = strong_wolfe(at, first, self.length, _greatest(direction), self.tolerance_change, 25)
        self.length = best.length
        self._move(start, direction, self.length)
        return best.value, best.gradient, calls

    def _gradient(self) -> Tensor:
        """Return all gradients as one vector, computed."""
        return _vector([wide(g) for g in self.gradients()])

    def _flat(self) -> Tensor:
        """Return all parameters as one vector, computed."""
        return _vector([wide(p) for p in self.params])

    def _move(self, start: Tensor, direction: Tensor, length: float) -> None:
        """Assign the parameters start + length * direction, two vectors of all of them, now."""
        new, at = _plus(start, direction, length), 0
        for p in self.params:
            count = p.numel()
            p.assign(new[at : at + count].reshape(p.shape).cast(p.dtype))
            at += count
        self.params[0].realize(*self.params[1:])

    def state_dict(self) -> dict[str, Any]:
        """Refused: what LBFGS knows is of this run. Make another one, which begins with the gradient."""
        raise TrainingError("the state of LBFGS cannot be saved; hint: save the parameters, and make another LBFGS")

    def load_state_dict(self, state_dict: Any) -> None:
        """Refused as `state_dict`."""
        raise TrainingError("the state of LBFGS cannot be loaded; hint: load the parameters, and make another LBFGS")


def _vector(tensors: list[Tensor]) -> Tensor:
    """Return the elements of tensors as one realised vector without a gradient."""
    first, *others = (t.detach().flatten() for t in tensors)
    return (first.cat(*others) if others else first.clone()).contiguous().realize()


def _dot(a: Tensor, b: Tensor) -> float:
    """Return the product of two vectors as a number, which is read."""
    return float((a * b).sum().item())


def _greatest(a: Tensor) -> float:
    """Return the greatest magnitude of a vector as a number; infinity where it has a NaN."""
    found = float(a.abs().max().item())
    return math.inf if math.isnan(found) else found


def _plus(a: Tensor, b: Tensor, share: float) -> Tensor:
    """Return a + share * b, realised. `share` enters as a tensor, or each new one would be a new kernel."""
    return (a + b * Tensor(share, dtype=a.dtype, device=a.device)).realize()
