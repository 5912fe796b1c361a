"""The tensors of a model by name: collected, loaded, saved.

A model is any object. Its tensors are found through attributes, lists, tuples and dicts; a tensor's name is
the way to it, as in `layers.0.weight`, which is also the name that PyTorch gives.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, overload

from tinygraft.errors import FileFormatError, in_place_of, no_such_name
from tinygraft.nn.archives import TensorIO, tar_extract, zip_extract
from tinygraft.nn.checkpoints import load_checkpoint, save_checkpoint
from tinygraft.nn.collected import assign_state, collect_state, differences, items_of, listed_names
from tinygraft.nn.gguf import gguf_load
from tinygraft.nn.npz import npz_load, npz_save
from tinygraft.nn.safetensors import safe_load, safe_load_metadata, safe_save
from tinygraft.nn.sharded import load_sharded, save_sharded
from tinygraft.nn.torchfile import torch_load
from tinygraft.tensor.tensor import Tensor

__all__ = [
    "TensorIO",
    "get_parameters",
    "get_state_dict",
    "gguf_load",
    "load_checkpoint",
    "load_sharded",
    "load_state_dict",
    "npz_load",
    "npz_save",
    "safe_load",
    "safe_load_metadata",
    "safe_save",
    "save_checkpoint",
    "save_sharded",
    "tar_extract",
    "torch_load",
    "zip_extract",
]

_SAVE = "safe_save(get_state_dict(model), path); save_checkpoint(path, model=model, optimizer=optimizer) has more"
_LOAD = "load_state_dict(model, safe_load(path)); torch_load, gguf_load, npz_load and load_checkpoint read other files"
_INSTEAD = {  # what other libraries call these functions
    "state_dict": "get_state_dict(model) has the tensors by name",
    "named_parameters": "get_state_dict(model) has the tensors by name",
    "parameters": "get_parameters(model) lists the tensors",
    **dict.fromkeys(("save", "save_file", "torch_save"), _SAVE),
    **dict.fromkeys(("load", "load_file"), _LOAD),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise an error with the name that was meant, or what has another name here."""
        raise no_such_name("tinygraft.nn.state", name, in_place_of(name, __all__, _INSTEAD))


@overload
def get_state_dict(obj: Any, prefix: str = "") -> dict[str, Tensor]: ...
@overload
def get_state_dict(obj: Any, prefix: str = "", tensor_type: type[Any] = Tensor) -> dict[str, Any]: ...
def get_state_dict(obj: Any, prefix: str = "", tensor_type: type[Any] = Tensor) -> dict[str, Any]:
    """Return every tensor of `obj` by name, in the order of attributes and items.

    A name is the way to it, with `prefix` before. `tensor_type` is the class that is looked for. A tensor that is
    reached by two ways has two names. An object that contains itself is entered once on each way. Raises
    FileFormatError where two tensors would have one name, as {"a.b": x, "a": {"b": y}} has, TypeError for a set with
    tensors in it, which has no names for them.

    >>> from tinygraft import Tensor
    >>> sorted(get_state_dict({"w": Tensor([1.0]), "layers": [Tensor([2.0]), (Tensor([3.0]),)]}))
    ['layers.0', 'layers.1.0', 'w']
    """
    return collect_state(obj, prefix, tensor_type)


def objects_in(obj: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Go through obj and all objects in it that are no tensors, by name: what get_state_dict goes through.

    One that contains itself is entered once on each way; plain values, and what has no attributes, are left out.

    >>> from tinygraft import nn
    >>> [(name, type(found).__name__) for name, found in objects_in([nn.Linear(1, 1), {"last": nn.LayerNorm(1)}])]
    [('', 'list'), ('0', 'Linear'), ('1', 'dict'), ('1.last', 'LayerNorm')]
    """
    yield from _objects(obj, prefix.strip("."), set())


def _objects(obj: Any, prefix: str, inside: set[int]) -> Iterator[tuple[str, Any]]:
    """Yield name and object as `objects_in` says; `inside` has the ids of the objects that contain `obj`."""
    if isinstance(obj, Tensor) or id(obj) in inside:
        return
    items = items_of(obj)
    if isinstance(obj, (tuple, list, dict)):
        if not any(isinstance(item, Tensor) or items_of(item) for item in items.values()):
            return  # plain values
    elif not (items or hasattr(obj, "__dict__")) or isinstance(obj, (type, FunctionType, MethodType)):
        return
    yield prefix, obj
    inside.add(id(obj))
    for name, value in items.items():
        yield from _objects(value, f"{prefix}.{name}" if prefix else str(name), inside)
    inside.remove(id(obj))


def get_parameters(obj: Any) -> list[Tensor]:
    """Return every tensor of `obj`, each once, in the order of get_state_dict: what an optimizer takes.

    >>> from tinygraft import nn
    >>> [p.shape for p in get_parameters(nn.Linear(3, 2))]
    [(2, 3), (2,)]
    """
    return list({id(tensor): tensor for tensor in get_state_dict(obj).values()}.values())


def load_state_dict(
    model: Any,
    state_dict: Mapping[str, Any],
    strict: bool = True,
    verbose: bool = True,
    realize: bool = True,
) -> list[Tensor]:
    """Give the tensors of model the values that state_dict has under their names; returns what was loaded.

    Values are tensors, PyTorch's among them, or arrays; they are converted to each tensor's dtype and device. The
    tensors keep their memory, so that a captured TinyJit sees the new values. strict wants the same names on both
    sides; without it what is on one side only is left alone, and named on stderr if verbose. realize=False leaves the
    copies lazy.

    Raises FileFormatError when names or shapes do not fit, and names all of them; nothing is loaded then. Raises
    DTypeError for a value that is no tensor, TypeError for a state that is no mapping.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(
            f"load_state_dict takes a mapping of names to tensors, got {type(state_dict).__name__}\n"
            "  hint: safe_load(path), torch_load(path) and gguf_load(path) read one from a file"
        )
    own = get_state_dict(model)
    wrong = differences(own, state_dict, strict)
    if wrong:
        raise FileFormatError(wrong)
    missing = [name for name in own if name not in state_dict]
    unused = [name for name in state_dict if name not in own]
    if verbose and (missing or unused):
        print(f"load_state_dict: not in the state: {listed_names(missing)}; not in the model: {listed_names(unused)}",
              file=sys.stderr)  # fmt: skip
    return assign_state(own, state_dict, realize)
