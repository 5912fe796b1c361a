"""Steps that random functions under TinyJit are made of: reads, writes and draws over state of shape (4, 3)."""

from __future__ import annotations

from typing import Any

from tinygraft import Tensor

KINDS = 8


def take_step(kind: int, a: int, b: int, c: int, v: list[Any], state: list[Tensor]) -> None:
    """One step of a kind below KINDS on the values so far, which it may add to or change, and on two state tensors."""
    if kind == 0:
        v.append(v[a] + v[b] * c)
    elif kind == 1:
        state[a % 2].assign(v[-1])
    elif kind == 2:
        state[a % 2][c - 1 : c + 1] = v[b][:2]
    elif kind == 3:
        v.append(v[a].flip(0))
    elif kind == 4:
        v.append((Tensor.rand(4, 3) * 8).cast("int") + v[b])
    elif kind == 5:
        state[a % 2][[c - 1, 0]] = v[-1][1:3]
    elif kind == 6:
        v.append(v[a].sum(0, keepdim=True).expand(4, 3).contiguous())
    else:
        v[b] = state[a % 2] + c
