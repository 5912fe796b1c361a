"""Arguments of methods that are numbers or tensors: an error in the method's words where they are anything else.

Python would say what fails first deep inside of a method, which names neither the method nor its argument.
"""

from __future__ import annotations

from typing import Any

from tinygraft.errors import DTypeError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.uop.uop import UOp


def as_number(value: Any, what: str, name: str) -> Any:
    """An argument that is a number, as it is: Python's, NumPy's, a tensor or a symbolic integer.

    `what` is the method and `name` the argument. Raises DTypeError for anything else.
    """
    if isinstance(value, (int, float, UOp, TensorBase)) or (
        hasattr(value, "__float__") and not hasattr(value, "shape")
    ):
        return value
    if getattr(value, "ndim", None) == 0 and hasattr(value, "__float__"):
        return value
    raise DTypeError(f"{what} needs a number as {name}, got {value!r}")


def as_tensor(value: Any, what: str, name: str) -> Any:
    """An argument that is a tensor, as it is. `what` and `name` as in `as_number`.

    Raises DTypeError, with how to make one, for anything else.
    """
    if isinstance(value, TensorBase):
        return value
    found, hint = shown(value)
    hint = hint or ("\n  hint: Tensor(x) makes one" if isinstance(value, (int, float, list, tuple)) else "")
    raise DTypeError(f"{what} needs a tensor as {name}, got {found}{hint}")


_LIBRARIES = {"torch": "PyTorch", "numpy": "NumPy", "jaxlib": "JAX", "jax": "JAX", "tensorflow": "TensorFlow"}


def shown(value: Any) -> tuple[str, str]:
    """(Words for a value in a message, a line with a hint): an array of another library is named, and not printed.

    The hint says how it becomes a tensor, and is "" for any other value, which is shown as Python does.
    """
    shape = getattr(value, "shape", None)
    if isinstance(value, TensorBase) or not isinstance(shape, tuple) or not hasattr(value, "__array__"):
        return repr(value), ""
    module = type(value).__module__.partition(".")[0]
    found = f"{type(value).__name__} of {_LIBRARIES.get(module, module)}, of shape {tuple(shape)}"
    return found, "\n  hint: Tensor(x) copies it, Tensor.from_dlpack(x) shares its memory"
