"""Hints for names of other libraries that a tensor does not have: what to use instead."""

from __future__ import annotations

import inspect
from functools import lru_cache

from tinygraft.device.known import NAMES
from tinygraft.device.registry import Device
from tinygraft.errors import did_you_mean
from tinygraft.tensor.tensor import Tensor

_INSTEAD = {
    "zero_": "assign(0) writes zeros into this tensor",
    "fill_": "assign(value) writes a value into this tensor",
    "expand_dims": "unsqueeze(dim) inserts an axis",
    **dict.fromkeys(("from_torch", "from_array", "as_tensor"),
                    "Tensor(x) copies an array or a tensor of PyTorch, Tensor.from_dlpack(x) shares its memory"),
    **dict.fromkeys(("type", "astype"), "cast(dtype) gives another dtype, and dtype is this one"),
    "type_as": "cast(other.dtype) gives this one the dtype of another",
    **dict.fromkeys(("apply_", "map_", "apply", "map"), "methods work on all elements: t.exp(), (t > 0).where(t, 0)"),
    **dict.fromkeys(("pin_memory", "share_memory_"), "transfers use pinned memory by themselves where there is some"),
    **dict.fromkeys(("stride", "strides"), "a tensor has a shape and no strides; those of t.numpy() are NumPy's"),
    **dict.fromkeys(("storage", "untyped_storage"), "data() gives a memoryview of its values"),
    "bernoulli": "Tensor.rand(*p.shape) < p draws True with probability p",
    "tensor": "Tensor(data) makes a tensor",
    **dict.fromkeys(("from_numpy", "asarray"), "Tensor(array) copies an array"),
    **dict.fromkeys(("concat", "concatenate"), "cat(*tensors, dim=0) puts tensors one after another"),
    "get_device": "device is the name of where it is",
    "copy": "clone() copies it",
    "data_ptr": "data() gives a memoryview of its values, from_dlpack shares memory with other libraries",
    "ndimension": "ndim is how many axes there are",
    "register_hook": "a gradient is in grad after backward(); gradient() returns those of named tensors",
    "at": "t[i] = value writes into it; clone() first keeps what it was",
    "zero_grad": "optimizer.zero_grad() is for all its parameters; t.grad = None is for one",
    "values": "max(axis), min(axis) and median give values alone; argmax(axis) gives indices, sort() and topk() both",
    "indices": "argmax(axis) and argmin(axis) give indices; sort() and topk() give a pair of values and indices",
    "nelement": "numel() is how many elements there are",
    **{
        name: f"nn.parallel.{name}(t) is over the ranks of a program; on a Mesh t.sum() is over all of them"
        for name in ("all_reduce", "all_gather", "reduce_scatter")
    },
    **{name: f"cast({name!r}) gives this dtype" for name in
       ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")},
    **dict.fromkeys(("grad_fn", "is_leaf", "retain_grad", "retains_grad"),
                    "loss.gradient(t) gives the gradient of any tensor; requires_grad=True makes one a leaf"),
    "new_tensor": "Tensor(data, dtype=t.dtype, device=t.device) makes one like it",
    "detach_": "detach() gives a tensor without a gradient, requires_grad_(False) leaves out this one",
}  # fmt: skip


def hint(name: str, owner: type) -> str:
    """A line to add to the error about a name that owner does not have; empty where there is nothing to say."""
    if name.startswith("_"):
        return ""
    found = _INSTEAD.get(name, "") or (_in_place(name[:-1], owner) if name.endswith("_") else "")
    if not found and name.startswith("is_") and name[3:].upper() in NAMES:
        found = _INSTEAD["get_device"]
    if found:
        return f"\n  hint: {found}"
    return _closest(name, owner)


def is_device(name: str) -> bool:
    """Return whether a name, in lower case, is that of a device that is known or installed."""
    return name.islower() and (name.upper() in NAMES or any(record.name == name.upper() for record in Device.records()))


def _in_place(name: str, owner: type) -> str:
    """Return how to write the result of a method into a tensor, or its name where it returns none; "" if it is none."""
    if name not in dir(owner):
        return ""
    method = getattr(owner, name)
    if getattr(method, "__annotations__", {}).get("return") not in ("Tensor", Tensor):
        return f"did you mean {name!r}?"
    call = f"Tensor.{name}(*t.shape, ...)" if inspect.ismethod(method) else f"t.{name}(...)"
    return f"assign({call}) writes the result into this tensor"


@lru_cache(256)  # a program may ask hasattr() of a name in a loop, and a search takes 1 ms
def _closest(name: str, owner: type) -> str:
    """Return the end of an error with the name of `owner` that was meant; "" where none is close."""
    return did_you_mean(name, [known for known in dir(owner) if not known.startswith("_")])
