"""Hints for names of other libraries that a tensor does not have: what to use instead."""

from __future__ import annotations

from functools import lru_cache

from tinygraft.device.known import NAMES
from tinygraft.device.registry import Device
from tinygraft.errors import did_you_mean

_INSTEAD = {
    "zero_": "assign(0) writes zeros into this tensor",
    "fill_": "assign(value) writes a value into this tensor",
    "expand_dims": "unsqueeze(dim) inserts an axis",
    **dict.fromkeys(("from_torch", "from_array", "as_tensor"),
                    "Tensor(x) copies an array or a tensor of PyTorch, Tensor.from_dlpack(x) shares its memory"),
    **dict.fromkeys(("type", "astype"), "cast(dtype) gives another dtype, and dtype is this one"),
}  # fmt: skip


def hint(name: str, owner: type) -> str:
    """A line to add to the error about a name that owner does not have; empty where there is nothing to say."""
    if name.startswith("_"):
        return ""
    found = _INSTEAD.get(name, "")
    if not found and name.endswith("_") and name[:-1] in dir(owner):
        found = f"assign(t.{name[:-1]}(...)) writes the result into this tensor"
    if not found and (name.upper() in NAMES or any(record.name == name.upper() for record in Device.records())):
        found = "to(NAME) moves it; python -m tinygraft devices lists the names"
    if found:
        return f"\n  hint: {found}"
    return _closest(name, owner)


@lru_cache(256)  # a program may ask hasattr() of a name in a loop, and a search takes 1 ms
def _closest(name: str, owner: type) -> str:
    """Return the end of an error with the name of `owner` that was meant; "" where none is close."""
    return did_you_mean(name, [known for known in dir(owner) if not known.startswith("_")])
