"""The tensors of a model by name: collected, loaded, saved.

A model is any object. Its tensors are found through attributes, lists, tuples and dicts; a tensor's name is
the way to it, as in `layers.0.weight`, which is also the name that PyTorch gives.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from tinygraft.errors import FileFormatError
from tinygraft.nn.archives import TensorIO, tar_extract, zip_extract
from tinygraft.nn.gguf import gguf_load
from tinygraft.nn.safetensors import safe_load, safe_load_metadata, safe_save
from tinygraft.nn.torchfile import torch_load
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops

__all__ = [
    "TensorIO",
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load_state_dict",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "tar_extract",
    "torch_load",
    "zip_extract",
]


def get_state_dict(obj: Any, prefix: str = "", tensor_type: type[Any] = Tensor) -> dict[str, Any]:
    """Every tensor of obj by name, in the order of attributes and items.

    A tensor that is reached by two ways has two names. An object that contains itself is entered once on each
    way.

    >>> from tinygraft import Tensor
    >>> sorted(get_state_dict({"w": Tensor([1.0]), "layers": [Tensor([2.0]), (Tensor([3.0]),)]}))
    ['layers.0', 'layers.1.0', 'w']
    """
    found: dict[str, Any] = {}
    _collect(obj, prefix.strip("."), tensor_type, found, set())
    return found


def _collect(obj: Any, prefix: str, tensor_type: type[Any], found: dict[str, Any], inside: set[int]) -> None:
    """Add the tensors of obj to found. inside are the objects on the way here."""
    if isinstance(obj, tensor_type):
        found[prefix] = obj
        return
    items = _items(obj)
    if not items or id(obj) in inside:
        return
    inside.add(id(obj))
    for name, value in items.items():
        _collect(value, f"{prefix}.{name}" if prefix else str(name), tensor_type, found, inside)
    inside.remove(id(obj))


def _items(obj: Any) -> Mapping[Any, Any]:
    """Return what `obj` consists of, by name; nothing for what has no tensors in it."""
    if isinstance(obj, dict):
        return obj
    if hasattr(obj, "_asdict"):
        return obj._asdict()  # type: ignore[no-any-return]
    if isinstance(obj, (list, tuple)):
        return dict(enumerate(obj))
    if isinstance(obj, type) or callable(getattr(obj, "__func__", None)):
        return {}
    return getattr(obj, "__dict__", {})


def get_parameters(obj: Any) -> list[Tensor]:
    """Every tensor of obj, each once: what an optimizer takes.

    >>> from tinygraft import nn
    >>> [p.shape for p in get_parameters(nn.Linear(3, 2))]
    [(2, 3), (2,)]
    """
    return list({id(tensor): tensor for tensor in get_state_dict(obj).values()}.values())


def load_state_dict(
    model: Any,
    state_dict: Mapping[str, Tensor],
    strict: bool = True,
    verbose: bool = True,
    realize: bool = True,
) -> list[Tensor]:
    """Give the tensors of model the values that state_dict has under their names; returns what was loaded.

    Values are converted to each tensor's dtype and device; they may be arrays of NumPy or tensors of PyTorch. The
    tensors keep their memory, so that a captured
    TinyJit sees the new values. strict wants the same names on both sides; without it what is on one side
    only is left alone, and named on stderr if verbose. realize=False leaves the copies lazy.

    Raises FileFormatError when a name or a shape does not fit; nothing is loaded then.
    """
    own = get_state_dict(model)
    missing = [name for name in own if name not in state_dict]
    unused = [name for name in state_dict if name not in own]
    if strict and (missing or unused):
        raise FileFormatError(
            f"the names differ: the model also has {_listed(missing)}, the state also has {_listed(unused)}; "
            "strict=False loads what both have"
        )
    if verbose and (missing or unused):
        print(f"load_state_dict: not in the state: {_listed(missing)}; not in the model: {_listed(unused)}",
              file=sys.stderr)  # fmt: skip
    pairs = [(name, tensor, _tensor_of(name, state_dict[name])) for name, tensor in own.items() if name in state_dict]
    for name, tensor, value in pairs:
        if tensor.shape != value.shape:
            raise FileFormatError(f"{name!r} has shape {tensor.shape} in the model and {value.shape} in the state")
    loaded = []
    for _, tensor, value in pairs:
        value = value.detach().to(tensor.device).cast(tensor.dtype)
        in_memory = tensor._parts()[0].uop.base.op in (Ops.BUFFER, Ops.MULTI, Ops.ASSIGN)
        tensor.assign(value if in_memory else value.clone())  # never the memory of the state itself
        loaded.append(tensor)
    if realize and loaded:
        loaded[0].realize(*loaded[1:])
    return loaded


def _tensor_of(name: str, value: Any) -> Tensor:
    """Return a value of a state as a tensor. Raises FileFormatError for what none can be made of."""
    if isinstance(value, Tensor):
        return value
    try:
        return Tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise FileFormatError(f"{name!r} in the state is no tensor but {type(value).__name__}: {error}") from error


def _listed(names: list[str]) -> str:
    """Some of names for a message."""
    shown = ", ".join(repr(name) for name in names[:5])
    return "nothing" if not names else shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
