"""What a function of PyTorch says that is given a tensor of tinygraft: its own error is "must be Tensor, not Tensor".

PyTorch calls `__torch_function__` of what it does not know. Operators (`array + t`) take the TypeError as "not mine",
so that Python asks our side; nothing else is computed here, since arguments of the two libraries differ.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinygraft.errors import DTypeError
from tinygraft.tensor.tensor import Tensor

_OTHERWISE = {"linear": "x.linear(weight.T, bias)"}  # methods whose arguments lie in another way


def refused(function: Callable[..., Any]) -> DTypeError:
    """The error for a function of PyTorch that was called with a tensor of ours.

    >>> print(refused(print))
    print of PyTorch was called with a Tensor of tinygraft
      hint: torch.from_dlpack(t) is a tensor of PyTorch in the same memory
    """
    name = getattr(function, "__name__", str(function))
    share = "torch.from_dlpack(t) is a tensor of PyTorch in the same memory"
    is_method = not name.startswith("_") and hasattr(Tensor, name)
    call = _OTHERWISE.get(name, f"Tensor.{name}")
    hint = f"{call} does this here, and {share}" if is_method else share
    return DTypeError(f"{name} of PyTorch was called with a Tensor of tinygraft\n  hint: {hint}")
