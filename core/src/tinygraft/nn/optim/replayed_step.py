"""The step of an optimizer outside of a capture: gradients are computed, then a captured program is replayed.

An eager training step builds the graph of its loss and of its gradients anew in each step. The update is the same graph
each time, of a dozen nodes for each parameter: captured once, it costs no more Python than its launches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from tinygraft.engine.capture import open_captures, predates_capture
from tinygraft.engine.protect import beside
from tinygraft.jit import TinyJit
from tinygraft.tensor.state.live import LIVE
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, postorder

_PLAIN = (bool, int, float, tuple)  # the attributes of an optimizer by which its step may be another graph


class OwnProgram:
    """What an optimizer or an average computes in each step, captured once: `function(owner, *tensors, plain)`.

    A copy of the owner captures its own; no state_dict looks in here.
    """

    __slots__ = ("_function", "_run")

    def __init__(self, function: Callable[..., None]) -> None:
        self._function = function
        self._run: Any = TinyJit(function)

    def __reduce__(self) -> tuple[Any, ...]:
        return OwnProgram, (self._function,)

    def run(self, owner: object, *tensors: Sequence[Tensor]) -> None:
        """Compute it, now; `tensors` are realised. Numbers among the attributes of `owner` make it another program."""
        plain = {name: value for name, value in vars(owner).items() if type(value) in _PLAIN}
        self._run(owner, *tensors, plain)


def is_ours(owner: object) -> bool:
    """Return whether what `owner` computes in each step may be replayed here: its class is ours, no capture is open.

    A capture has it in one schedule with all else. A class that is not ours may do what no launch repeats.
    """
    return type(owner).__module__.startswith("tinygraft.") and not open_captures()


class Stepping(Protocol):
    """What is asked of an optimizer here."""

    params: list[Tensor]
    buffers: list[Tensor]
    _program: OwnProgram

    def gradients(self) -> list[Tensor]:
        """Return the gradient of each parameter."""

    def updated(self, grads: list[Tensor]) -> list[Tensor]:
        """Give each parameter its new value, lazily; return parameters and state."""


def update_of(optimizer: Stepping, grads: list[Tensor], plain: dict[str, Any]) -> None:
    """Do the update of `optimizer`, now. `plain` are its attributes that make it a call of another kind."""
    first, *others = optimizer.updated(grads)
    first.realize(*others)


def replay_steps(optimizers: Sequence[Stepping]) -> None:
    """Do a step of each, now: their gradients and buffers in one realisation, then each update by its program.

    Raises TrainingError as `Optimizer.schedule_step`; nothing has changed then.
    """
    grads = [optimizer.gradients() for optimizer in optimizers]
    params = [p for optimizer in optimizers for p in optimizer.params]
    wanted = [*(g for some in grads for g in some), *(b for optimizer in optimizers for b in optimizer.buffers)]
    beside_them = read_beside(wanted, params)
    for grad in (g for some in grads for g in some):
        _cut(grad)
    wanted[0].realize(*wanted[1:], *beside_them)
    for optimizer, mine in zip(optimizers, grads, strict=True):
        optimizer._program.run(optimizer, [grad.detach() for grad in mine])


def read_beside(wanted: Sequence[Tensor], params: Sequence[Tensor]) -> list[Tensor]:
    """Return live tensors that a step would compute from the start, such as the loss: before it overwrites `params`.

    They are nearly computed with the gradients, which `wanted` are, or are made of.
    """
    order = postorder(*[memory_base(t.uop) for t in wanted])
    memory = {node for p in params for node in buffers_of(p.uop)}
    known = {id(t) for t in (*wanted, *params, *[p.grad for p in params])}
    others = [t for t in LIVE.near(memory) if id(t) not in known and not predates_capture(t, t.uop)]
    return [t for t in beside(order, memory, others) if isinstance(t, Tensor)]


def _cut(grad: Tensor) -> None:
    """Let no backward go through a gradient that requires none: old values of all parameters would be copied for it.

    It reads parameters, which the step is about to overwrite.
    """
    if grad.requires_grad is False and grad._storage is None and memory_base(grad.uop).op not in HELD:
        grad.uop = UOp(Ops.DETACH, grad.dtype, (grad.uop,))
