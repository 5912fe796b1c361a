"""LBFGS: steps by an estimate of the curvature, from the last changes of the parameters and of their gradient.

A step calls the loss several times and decides by its value: it reads numbers, and a function under TinyJit that has
such a step is run in every call. Vectors stay on the device (`lbfgs_programs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.curvature import Curvature
from tinygraft.nn.optim.lbfgs_programs import Heading, Programs, SeenGradient
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
        self.heading: Heading | None = None
        self.last_gradient: Tensor | None = None
        self._programs = Programs()
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
        loss, value, seen = self._evaluate(closure)
        used, self.evaluations = 1, self.evaluations + 1
        if seen.greatest <= self.tolerance_grad:
            return loss
        for number in range(1, self.max_iter + 1):
            self.iterations += 1
            heading = self._next_heading(seen)
            self.last_gradient, before, rate = seen.gradient, value, float(self.lr.item())
            self.length = min(1.0, 1.0 / seen.total) * rate if self.iterations == 1 else rate
            if heading.slope > -self.tolerance_change:
                break
            more = 0
            if self.line_search_fn is not None:
                value, seen, more = self._search(closure, heading, value, seen)
            else:
                self._programs.move(self.params, heading.start, heading.direction, self.length)
                if number != self.max_iter:
                    _, value, seen = self._evaluate(closure)
                    more = 1
            used += more
            self.evaluations += more
            done = seen.greatest <= self.tolerance_grad
            if self._is_over(number, used, done, heading, value, before):
                break
        return loss

    def _is_over(self, number: int, used: int, done: bool, heading: Heading, value: float, before: float) -> bool:
        """Return whether a limit ends the step after move `number` and `used` calls of the closure.

        `done` says that the gradient is small enough; `before` was the loss before the move, `value` is it now.
        """
        if number == self.max_iter or used >= self.max_eval or done:
            return True
        moved = heading.greatest * abs(self.length)
        return moved <= self.tolerance_change or abs(value - before) < self.tolerance_change

    def schedule_step(self) -> list[Tensor]:
        """Refused: a step of LBFGS reads numbers, and cannot be lazy."""
        raise TrainingError(
            "a step of LBFGS decides by values of the loss and cannot be scheduled; hint: step(closure)"
        )

    def _next_heading(self, seen: SeenGradient) -> Heading:
        """Return the direction of the next move, after adding the change of the last one to what is known."""
        if self.curvature is None:
            self.curvature = Curvature(seen.gradient, self.history_size, self._programs)
        if self.heading is not None and self.last_gradient is not None:
            self.curvature.add(self.heading.direction, self.length, seen.gradient, self.last_gradient)
        self.heading = self.curvature.heading(self.params, seen.gradient)
        return self.heading

    def _evaluate(self, closure: Closure) -> tuple[Tensor, float, SeenGradient]:
        """Call the closure; return the loss, realised, its value, and what is known of the gradient.

        That has its slope along the present direction; 0 before there is one.
        """
        loss = closure()
        gradients = self.gradients()
        loss.realize(*gradients)
        if self.heading is None:
            first = gradients[0].detach().flatten()[:1].zeros_like()
            direction = wide(first).expand(sum(int(p.numel()) for p in self.params)).contiguous().realize()
        else:
            direction = self.heading.direction
        return loss, float(loss.item()), self._programs.see(gradients, direction)

    def _search(
        self, closure: Closure, heading: Heading, value: float, seen: SeenGradient
    ) -> tuple[float, SeenGradient, int]:  # fmt: skip
        """Move by a line search; return the loss, what is known of the gradient there, and how often it was computed.

        It begins at the present parameters, whose loss and gradient are given.
        """

        latest = 0.0

        def at(length: float) -> LinePoint:
            nonlocal latest
            latest = length
            self._programs.move(self.params, heading.start, heading.direction, length)
            _, loss, found = self._evaluate(closure)
            return LinePoint(length, loss, found, found.slope)

        first = LinePoint(0.0, value, seen, heading.slope)
        # 25 evaluations at most, as in PyTorch
        best, calls = strong_wolfe(at, first, self.length, heading.greatest, self.tolerance_change, 25)
        self.length = best.length
        if latest != best.length:
            self._programs.move(self.params, heading.start, heading.direction, best.length)
        return best.value, best.seen, calls

    def state_dict(self) -> dict[str, Any]:
        """Refused: what LBFGS knows is of this run. Make another one, which begins with the gradient."""
        raise TrainingError("the state of LBFGS cannot be saved; hint: save the parameters, and make another LBFGS")

    def load_state_dict(self, state_dict: Any) -> None:
        """Refused as `state_dict`."""
        raise TrainingError("the state of LBFGS cannot be loaded; hint: load the parameters, and make another LBFGS")
