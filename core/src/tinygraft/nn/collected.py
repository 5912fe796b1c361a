"""The tensors of an object by name, and new values for them: compared first, and then assigned.

nn.state and nn.checkpoints share this. A value may be a tensor of this library, of PyTorch, or an array.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops


def collect_state(obj: Any, prefix: str = "", tensor_type: type[Any] = Tensor) -> dict[str, Any]:
    """Return every tensor of `obj` by name, in the order of attributes and items: nn.state.get_state_dict.

    Names are attributes, keys and indices with dots between, after `prefix`. `tensor_type` is the class that is looked
    for. An object that contains itself is gone through once. Raises FileFormatError where two tensors would have one
    name.
    """
    found: dict[str, Any] = {}
    _collect(obj, prefix.strip("."), tensor_type, found, set())
    return found


def _collect(obj: Any, prefix: str, tensor_type: type[Any], found: dict[str, Any], inside: set[int]) -> None:
    """Add the tensors of `obj` to `found`, named from `prefix`. `inside` has the ids of the objects that contain it.

    Raises FileFormatError where another tensor has the name, TypeError for a set with tensors in it.
    """
    if isinstance(obj, tensor_type):
        if found.setdefault(prefix, obj) is not obj:
            raise FileFormatError(f"two tensors of a model have the name {prefix!r}; rename a key or an attribute")
        return
    if isinstance(obj, (set, frozenset)) and any(collect_state(item, "", tensor_type) for item in obj):
        raise TypeError(
            f"{prefix or 'the model'} is a {type(obj).__name__}, whose tensors have no order to be named by\n"
            "  hint: keep them in a list or a dict"
        )
    items = items_of(obj)
    if not items or id(obj) in inside:
        return
    inside.add(id(obj))
    for name, value in items.items():
        _collect(value, f"{prefix}.{name}" if prefix else str(name), tensor_type, found, inside)
    inside.remove(id(obj))


def items_of(obj: Any) -> Mapping[Any, Any]:
    """Return what `obj` consists of, by name; nothing for what has no tensors in it."""
    if isinstance(obj, dict):
        return obj
    if hasattr(obj, "_asdict"):
        return obj._asdict()  # type: ignore[no-any-return]
    if isinstance(obj, (list, tuple, deque)):
        return dict(enumerate(obj))
    if isinstance(obj, type) or callable(getattr(obj, "__func__", None)):
        return {}
    attributes: dict[str, Any] = getattr(obj, "__dict__", {})
    if slots := _slots_of(type(obj)):
        return {name: getattr(obj, name) for name in slots if hasattr(obj, name)} | attributes
    return attributes


def _slots_of(kind: type) -> tuple[str, ...]:
    """Return the attributes for which a class and those that it is made of have slots, as dataclass(slots=True) makes.

    None of tinygraft's own classes: those with slots hold no weights, and nodes of graphs would be gone through.
    """
    if kind.__module__.split(".")[0] == __name__.split(".")[0]:
        return ()
    found: list[str] = []
    for base in reversed(kind.__mro__):
        names = vars(base).get("__slots__", ())
        for name in (names,) if isinstance(names, str) else names:
            private = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if private else name)
    return tuple(name for name in dict.fromkeys(found) if name not in ("__dict__", "__weakref__"))


def differences(own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool) -> str:
    """Return what keeps a state from being loaded into the tensors `own`, in words; "" where it fits.

    With `strict` these are names that are missing or unexpected; in any case shapes that differ, of names that both
    have. Raises DTypeError for a value that is neither a tensor nor an array.
    """
    missing = [name for name in own if name not in state]
    unexpected = [name for name in state if name not in own]
    found = []
    if strict and (missing or unexpected):
        sides = (("the model", missing), ("the state", unexpected))
        more = ", ".join(f"{side} also has {listed_names(names)}" for side, names in sides if names)
        found.append(f"the names differ: {more}; strict=False loads what both have")
    found += [
        f"{name!r} has shape {tensor.shape} in the model and {shape} in the state"
        for name, tensor in own.items()
        if name in state and (shape := _shape_of(name, state[name])) != tensor.shape
    ]
    return "; ".join(found)


def assign_state(own: Mapping[str, Tensor], state: Mapping[str, Any], realize: bool = True) -> list[Tensor]:
    """Give the tensors `own` the values of a state, in the memory that they have; return those that got one.

    Values are converted to each tensor's dtype and device; a tensor never gets the memory of the state itself. Names
    that only one side has are left out; shapes are not checked here (`differences`). Without `realize` the assigns stay
    pending.
    """
    loaded = []
    for name, tensor in own.items():
        if name not in state:
            continue
        value = as_tensor(name, state[name]).detach().to(tensor.device).cast(tensor.dtype)
        in_memory = tensor._parts()[0].uop.base.op in (Ops.BUFFER, Ops.MULTI, Ops.ASSIGN)
        tensor.assign(value if in_memory else value.clone())
        loaded.append(tensor)
    if realize and loaded:
        loaded[0].realize(*loaded[1:])
    return loaded


def as_tensor(name: str, value: Any) -> Tensor:
    """Return a value of a state as a Tensor: one itself, a copy of one of PyTorch or of an array.

    Raises DTypeError, with `name`, for anything without a dtype and a shape.
    """
    if isinstance(value, Tensor):
        return value
    _shape_of(name, value)
    if hasattr(value, "detach"):  # PyTorch's, which lends no memory of what has a gradient
        value = value.detach()
    return Tensor.from_dlpack(value, copy=True) if hasattr(value, "is_contiguous") else Tensor(value)


def _shape_of(name: str, value: Any) -> tuple[Any, ...]:
    """The shape of a value of a state. Raises DTypeError where it has none."""
    if not hasattr(value, "dtype") or not hasattr(value, "shape"):
        raise DTypeError(f"a state has tensors or arrays, {name!r} is {type(value).__name__}; hint: Tensor(value)")
    return tuple(value.shape)


def listed_names(names: list[str]) -> str:
    """Return the first five names in quotes and how many more there are, for a message; "nothing" for none."""
    shown = ", ".join(repr(name) for name in names[:5])
    return "nothing" if not names else shown + (f" and {len(names) - 5} more" if len(names) > 5 else "")
