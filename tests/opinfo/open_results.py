"""What of a result is open, by PyTorch's own words, and so is not compared.

Signs of eigenvectors: what its tests compare is `output_process_fn_grad` of the results. Places of equal elements: of
topk, kthvalue and mode those are right where the values stand. Gradients in directions that no input may take, such as
those that leave Hermitian matrices: `gradcheck_wrapper` says how an input is made of what is free, and a gradient is
compared as far as that sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from torch_calls import parameters

SHOWN = ("linalg.eigh",)
TIED = {"topk": True, "kthvalue": False, "mode": False}  # whether values keep the axis of which they are


class _Held(Exception):
    """The arguments that a wrapper passes on."""


def shown(op: Any, sample: Any) -> Callable[[Any], Any]:
    """What of a result is compared."""
    process = sample.output_process_fn_grad if op.name in SHOWN else None
    return process or (lambda result: result)


def stand_there(op: Any, sample: Any, values: Any, places: Any) -> bool:
    """Whether the values of a sample's result stand at these places of its input."""
    if op.name not in TIED:
        return False
    given = [sample.input, *sample.args]
    named = {**dict(zip(parameters(op, given, sample.kwargs), given, strict=True)), **sample.kwargs}
    x, dim = sample.input.detach().numpy(), named.get("dim", -1)
    if not x.ndim:
        return bool((places == 0).all())
    kept = TIED[op.name] or named.get("keepdim", False)
    at = places if kept else np.expand_dims(places, dim)
    found = np.take_along_axis(x, at, dim)
    return np.array_equal(found if kept else found.squeeze(dim), values, equal_nan=x.dtype.kind in "fc")


def seen(op: Any, sample: Any, inputs: Sequence[torch.Tensor]) -> Callable[[Sequence[Any]], list[Any]]:
    """Gradients by inputs, as far as changes that PyTorch's gradcheck makes see them."""
    free = {id(t): t.detach().clone().requires_grad_() for t in inputs}

    def put(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(put(v) for v in value)
        return free.get(id(value), value)

    def hold(*args: Any, **_: Any) -> None:
        raise _Held(*args)

    held: tuple[Any, ...] = ()
    given = [sample.input, *sample.args]
    try:
        op.gradcheck_wrapper(hold, *(put(value) for value in given), **{k: put(v) for k, v in sample.kwargs.items()})
    except _Held as found:
        held = found.args
    made = {id(t): passed for t, passed in zip(given, held, strict=False) if isinstance(t, torch.Tensor)}

    def through(gradients: Sequence[Any]) -> list[Any]:
        found = []
        for t, gradient in zip(inputs, gradients, strict=True):
            passed, leaf = made.get(id(t)), free[id(t)]
            if passed is not None and passed is not leaf:
                (gradient,) = torch.autograd.grad(passed, leaf, torch.as_tensor(gradient), retain_graph=True)
            found.append(gradient)
        return found

    return through
