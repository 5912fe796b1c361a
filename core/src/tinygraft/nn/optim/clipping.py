"""Gradients made smaller before a step: by the norm of all of them, or number by number.

In: parameters whose gradients backward() has left in .grad. Out: smaller gradients there, lazily: what limits them is
part of the kernels of the step, also of a captured one, and nothing is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import reduce

from tinygraft.errors import TrainingError
from tinygraft.nn.optim.reduced import as_reduced, reduce_first
from tinygraft.nn.optim.update import wide
from tinygraft.tensor.primitives.argument_checks import as_number
from tinygraft.tensor.tensor import Tensor


def clip_grad_norm(
    params: Iterable[Tensor] | Tensor,
    max_norm: float | Tensor,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> Tensor:
    """Scale all gradients by min(1, max_norm / (norm + 1e-6)); return that norm, of all of them as one vector: shape
    ().

    norm_type is its order, math.inf the greatest magnitude. Tensors without a gradient are left out. Half types are
    measured in float32. max_norm may be a tensor of one number, which can be assigned to. error_if_nonfinite reads
    the norm, and raises TrainingError if it is no finite number, before any gradient has changed. Gradients of an
    optimizer that is data parallel are reduced first: the norm is that of their means over the ranks.

    Raises ValueError for a max_norm below 0 or a norm_type that is not above 0. As PyTorch's clip_grad_norm_.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([3.0, 4.0])
    >>> _ = (p * p / 2).sum().backward()
    >>> nn.optim.clip_grad_norm([p], 1.0).item(), [round(g, 4) for g in p.grad.tolist()]
    (5.0, [0.6, 0.8])
    """
    max_norm, norm_type = (
        as_number(max_norm, "clip_grad_norm", "max_norm"),
        as_number(norm_type, "clip_grad_norm", "norm_type"),
    )
    if not isinstance(max_norm, Tensor) and not max_norm >= 0:
        raise ValueError(f"clip_grad_norm needs a max_norm of at least 0, got {max_norm}")
    if not norm_type > 0:
        raise ValueError(f"clip_grad_norm needs a norm_type above 0, got {norm_type}")
    tensors = _with_gradient(params)
    if not tensors:
        return Tensor(0.0)
    reduce_first(tensors)
    norm = grad_norm([t.grad for t in tensors if t.grad is not None], norm_type)
    if error_if_nonfinite and not math.isfinite(norm.item()):
        raise TrainingError(f"the norm of order {norm_type} of the gradients is {norm.item()}, which clips nothing")
    limit = max_norm.detach().reshape(()).to(norm.device) if isinstance(max_norm, Tensor) else max_norm
    share = (limit / (norm + 1e-6)).minimum(1.0)
    for t in tensors:
        assert t.grad is not None
        new = wide(t.grad) * share.to(t.grad.device).cast(wide(t.grad).dtype)
        t.grad = as_reduced(t.grad, new.cast(t.grad.dtype))
    return norm


def grad_norm(grads: list[Tensor], norm_type: float) -> Tensor:
    """Return the norm of order `norm_type` of all gradients as one vector, shape (), on the device of the first one.

    It is of float32 at least. The order is above 0; math.inf is the greatest magnitude.
    """
    place = grads[0].device
    sizes = [wide(g).abs() for g in grads]
    if norm_type == math.inf:
        return reduce(Tensor.maximum, (size.max().to(place) for size in sizes))
    powers = (size * size if norm_type == 2 else size if norm_type == 1 else size.pow(norm_type) for size in sizes)
    total = reduce(Tensor.add, (power.sum().to(place) for power in powers))
    return total.sqrt() if norm_type == 2 else total if norm_type == 1 else total.pow(1 / norm_type)


def clip_grad_value(params: Iterable[Tensor] | Tensor, clip_value: float) -> None:
    """Limit every number of the gradients to [-clip_value, clip_value]. ValueError for a clip_value below 0.

    Tensors without a gradient are left out; those of a data parallel optimizer are reduced first. Raises TypeError for
    what is no list of tensors. As PyTorch's clip_grad_value_.

    >>> from tinygraft import Tensor, nn
    >>> p = Tensor([3.0, -0.5])
    >>> _ = (p * p / 2).sum().backward()
    >>> nn.optim.clip_grad_value([p], 1.0)
    >>> p.grad.tolist()
    [1.0, -0.5]
    """
    if not as_number(clip_value, "clip_grad_value", "clip_value") >= 0:
        raise ValueError(f"clip_grad_value needs a clip_value of at least 0, got {clip_value}")
    tensors = _with_gradient(params)
    reduce_first(tensors)
    for t in tensors:
        assert t.grad is not None
        t.grad = as_reduced(t.grad, t.grad.clamp(-clip_value, clip_value))


def _with_gradient(params: Iterable[Tensor] | Tensor) -> list[Tensor]:
    """Return the tensors that have a gradient, each once. Raises TypeError for what is no list of tensors."""
    if not isinstance(params, Iterable):
        raise TypeError(f"gradients are clipped of a list of tensors, got {type(params).__name__}")
    tensors = [params] if isinstance(params, Tensor) else list(params)
    for t in tensors:
        if not isinstance(t, Tensor):
            raise TypeError(
                f"gradients are clipped of a list of tensors, got {type(t).__name__} in it\n"
                "  hint: nn.state.get_parameters(model) finds those of a model"
            )
    return [t for t in {id(part): part for t in tensors for part in t._parts()}.values() if t.grad is not None]
