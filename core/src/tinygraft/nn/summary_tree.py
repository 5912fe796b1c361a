"""summary: a model as a tree of its layers, with the shapes of their tensors and how many parameters they have."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.nn.state import get_state_dict, objects_in
from tinygraft.tensor.tensor import Tensor


def summary(model: Any) -> str:
    """Return the layers of a model as a tree: name, class, how many parameters it has, its own tensors.

    Parameters are the tensors of floats that an optimizer would train, each counted once; the others are named
    at the end. Lists and dicts stand by their lengths.

    >>> from tinygraft import nn
    >>> print(nn.summary(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.BatchNorm(4))))
    Sequential      24
      0: Linear     16  weight (4, 3), bias (4,)
      1: ReLU        0
      2: BatchNorm   8  weight (4,), bias (4,), num_batches_tracked (), running_mean (4,), running_var (4,)
    24 parameters, 96 bytes; 3 other tensors of 9 numbers
    """
    rows = []
    for name, found in objects_in(model):
        own = {key: t for key, t in get_state_dict(found).items() if "." not in key}
        if isinstance(found, (list, tuple, dict)):
            own = {}
        depth = name.count(".") + 1 if name else 0
        label = f"{name.rpartition('.')[2]}: {_title(found)}" if name else _title(found)
        shapes = ", ".join(f"{key} {t.shape}" for key, t in own.items())
        rows.append(("  " * depth + label, shapes, f"{_count(_trained(found)):,}"))
    tensors = list({id(t): t for t in get_state_dict(model).values()}.values())
    trained = _trained(model)
    others = [t for t in tensors if not any(t is other for other in trained)]
    digits = max((len(count) for _, _, count in rows), default=0)
    wide, size = max((len(label) for label, _, _ in rows), default=0), sum(int(t.nbytes()) for t in trained)
    lines = [f"{label:<{wide}}  {count:>{digits}}  {shapes}".rstrip() for label, shapes, count in rows]
    total = f"{_count(trained):,} parameters, {size:,} bytes"
    rest = f"; {len(others)} other tensors of {_count(others):,} numbers" if others else ""
    return "\n".join([*lines, total + rest])


def _title(found: Any) -> str:
    """Return the name of an object's class; of a list, tuple or dict with its length."""
    return f"{type(found).__name__} of {len(found)}" if type(found) in (list, tuple, dict) else type(found).__name__


def _trained(found: Any) -> list[Tensor]:
    """Return the tensors that an optimizer would train, each once."""
    tensors = {id(t): t for t in get_state_dict(found).values()}.values()
    return [t for t in tensors if dtypes.is_float(t.dtype) and t.requires_grad is not False]


def _count(tensors: list[Tensor]) -> int:
    """Return how many elements tensors have together."""
    return sum(int(t.numel()) for t in tensors)
