"""Checkpoints: models, optimizers, schedulers, scalers, the random numbers and the step, in one file and one call.

Objects by name in, one safetensors file out, and back into the same objects. The tensors are those of the file; what
else a state has (numbers, text, lists, dicts) is JSON in its metadata. Nothing is pickled, so that reading a file
executes nothing. An object that has state_dict and load_state_dict says itself what its state is; of any other one it
is the tensors that nn.state.get_state_dict finds.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

from tinygraft.errors import DTypeError, FileFormatError
from tinygraft.files import text_of_path
from tinygraft.nn.collected import assign_state, collect_state, differences
from tinygraft.nn.safetensors import FilePath, safe_load, safe_load_metadata, safe_save
from tinygraft.tensor.ops.random import rng_state, set_rng_state
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

_KEY = "tinygraft.checkpoint"
_VERSION = 1
NO_PARTS = ("device", "strict")  # given: arguments of load_checkpoint
_MARK = "$"  # the key of a JSON object that stands for what JSON does not have


def save_checkpoint(path: FilePath, *, step: Any = None, rng: bool = True, **parts: Any) -> None:
    """Write objects by name to a checkpoint, whole or not at all: a process that is killed leaves the old file.

    parts are models (lists and dicts of layers or tensors among them), optimizers, or anything with state_dict and
    load_state_dict; also dicts with numbers and text, which keep their form. step is a number, or such a dict.
    rng=False leaves out the state of Tensor's random numbers. A tensor that several parts have is written once. Raises
    DTypeError for a part whose state has anything else, or nothing, and as safe_save does.

    >>> import tempfile, os
    >>> from tinygraft import Tensor, nn
    >>> path, model = os.path.join(tempfile.mkdtemp(), "last.ckpt"), nn.Linear(3, 2)
    >>> save_checkpoint(path, model=model, step=7)
    >>> load_checkpoint(path, model=nn.Linear(3, 2))["step"]
    7
    """
    if reserved := [name for name in parts if name in NO_PARTS]:
        raise DTypeError(
            f"a checkpoint has no part {reserved[0]!r}, which is an argument of load_checkpoint: give it another name"
        )
    tensors: dict[str, Tensor] = {}
    places: dict[int, str] = {}
    tree = {name: encoded(state_of(part, name), name, tensors, places) for name, part in parts.items()}
    content = {"version": _VERSION, "parts": tree, "step": encoded(step, "step", tensors, places)}
    if rng:
        content["rng"] = rng_state()
    safe_save(tensors, path, {_KEY: json.dumps(content, separators=(",", ":"))})


def load_checkpoint(
    path: FilePath, *, rng: bool = True, strict: bool = True, device: Place = None, **parts: Any
) -> dict[str, Any]:
    """Read a checkpoint into objects, by the names that they were saved under; returns the step and the other parts.

    Objects keep the memory of their tensors, so that a captured TinyJit goes on with what is read. The result has
    "step" where one was saved, and the state of each part of the file that was not asked for, lazily. rng=False leaves
    the random numbers as they are. strict=False leaves alone what a model or the file do not have. Raises
    FileFormatError for a file that is no checkpoint, without a part that is asked for, or whose names or shapes do not
    fit a part, and what a part raises. Nothing is changed then: every part is checked first, by its check_state_dict
    where it has one; a part with a load_state_dict alone is copied before, and gets its old state again.
    """
    return load_parts(text_of_path(path), _content(path), safe_load(path, device), rng, strict, parts)


def load_parts(
    label: str, content: Mapping[str, Any], tensors: Mapping[str, Tensor], rng: bool, strict: bool,
    parts: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """Load the state of `content` with these `tensors` into objects, as `load_checkpoint`, which says what raises.

    `label` is what errors call it. Returns the step and the other parts.
    """
    found = {name: _decoded(tree, tensors, label) for name, tree in content["parts"].items()}
    missing = [name for name in parts if name not in found]
    if missing:
        raise FileFormatError(f"{label} has the parts {list(found)}, not {missing}")
    plain = {name: part for name, part in parts.items() if not hasattr(part, "load_state_dict")}
    for name, part in plain.items():
        wrong = differences(collect_state(part), _flat(found[name], label, name), strict)
        if wrong:
            raise FileFormatError(f"{label}: the part {name!r} does not fit: {wrong}")
    for name, part in parts.items():
        if name not in plain and hasattr(part, "check_state_dict"):
            try:
                part.check_state_dict(found[name])
            except FileFormatError as error:
                raise FileFormatError(f"{label}: the part {name!r} does not fit: {error}") from error
    step = _decoded(content.get("step"), tensors, label)
    states = {name: found.pop(name) for name in parts}
    states |= {name: _flat(states[name], label, name) for name in plain}
    _load_all(parts, states, content.get("rng") if rng else None)
    return found if step is None else {"step": step, **found}


def _load_all(parts: Mapping[str, Any], states: Mapping[str, Any], rng: Any) -> None:
    """Load the state of each part, and of the random numbers unless `rng` is None; all are as before where one raises.

    `states` has the checked state of each of `parts`. Those that have no check_state_dict come first: they may still
    refuse.
    """
    own = [name for name, part in parts.items() if hasattr(part, "load_state_dict")]
    unsure = [name for name in own if not hasattr(parts[name], "check_state_dict")]
    copies: dict[str, Any] = {}
    before = rng_state() if rng is not None else None
    try:
        if rng is not None:
            set_rng_state(rng)
        for name in [*unsure, *(name for name in own if name not in unsure)]:
            if name in unsure:
                copies[name] = copy.deepcopy(parts[name].state_dict())
            parts[name].load_state_dict(states[name])
        for name in parts:
            if name not in own:
                assign_state(collect_state(parts[name]), states[name])
    except BaseException:
        for name, state in copies.items():
            parts[name].load_state_dict(state)
        if before is not None:
            set_rng_state(before)
        raise


def state_of(part: Any, name: str) -> Any:
    """Return what is saved of an object: its state_dict, itself (a tensor, a dict with numbers), else its tensors.

    Raises DTypeError where that would be nothing.
    """
    if not isinstance(part, type) and hasattr(part, "state_dict") and hasattr(part, "load_state_dict"):
        return part.state_dict()
    if isinstance(part, Tensor) or _has_plain(part) or (isinstance(part, (Mapping, list, tuple)) and not part):
        return part
    found = collect_state(part)
    if not found:
        raise DTypeError(
            f"a checkpoint has nothing to save of {name!r}, which is {type(part).__name__}: it has no tensors, and no "
            "state_dict with load_state_dict"
        )
    return found


def _has_plain(part: Any) -> bool:
    """Whether a part is a number or text, or a list or dict with any: such a one is kept as it is, with its form."""
    if isinstance(part, (Mapping, list, tuple)):
        return any(_has_plain(item) for item in (part.values() if isinstance(part, Mapping) else part))
    return part is None or isinstance(part, (bool, int, float, str)) or _is_numpy_number(part)


def _is_numpy_number(value: Any) -> bool:
    """Whether a value is one of NumPy's numbers: a checkpoint has it as Python's."""
    return type(value).__module__ == "numpy" and getattr(value, "shape", None) == () and hasattr(value, "item")


def encoded(value: Any, name: str, tensors: dict[str, Tensor], places: dict[int, str]) -> Any:
    """Return a value as JSON; a tensor becomes the name under which it is added to `tensors`.

    `name` says where the value is, and is the tensor's name unless another one has it. `places` has the names of the
    tensors so far by id. Raises DTypeError for what is no tensor, number, text, list or dict.
    """
    if isinstance(value, Tensor):
        if id(value) not in places:
            while name in tensors:  # "a.b" may be one key, or two
                name += "'"
            places[id(value)] = name
            tensors[name] = value
        return {_MARK: "tensor", "name": places[id(value)]}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if _is_numpy_number(value):
        return encoded(value.item(), name, tensors, places)
    if isinstance(value, (list, tuple)):
        items = [encoded(item, f"{name}.{place}", tensors, places) for place, item in enumerate(value)]
        return items if isinstance(value, list) else {_MARK: "tuple", "items": items}
    if isinstance(value, Mapping):
        pairs = [(key, encoded(item, f"{name}.{key}", tensors, places)) for key, item in value.items()]
        if all(isinstance(key, str) for key, _ in pairs) and _MARK not in value:
            return dict(pairs)
        if all(key is None or isinstance(key, (bool, int, float, str)) for key, _ in pairs):
            return {_MARK: "dict", "items": [list(pair) for pair in pairs]}
    raise DTypeError(
        f"a checkpoint has tensors, numbers, text, lists and dicts, {name!r} is {type(value).__name__}\n"
        "  hint: give the object state_dict and load_state_dict, or save what it is made of"
    )


def _decoded(value: Any, tensors: Mapping[str, Tensor], label: str) -> Any:
    """Return the value that `encoded` was given.

    Raises FileFormatError, with the file's `label`, for anything else.
    """
    if isinstance(value, list):
        return [_decoded(item, tensors, label) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value.get(_MARK)
    if kind is None:
        return {key: _decoded(item, tensors, label) for key, item in value.items()}
    items = value.get("items")
    if kind == "tensor" and value.get("name") in tensors:
        return tensors[value["name"]]
    if kind == "tuple" and isinstance(items, list):
        return tuple(_decoded(item, tensors, label) for item in items)
    if kind == "dict" and isinstance(items, list) and all(isinstance(pair, list) and len(pair) == 2 for pair in items):
        return {_decoded(key, {}, label): _decoded(item, tensors, label) for key, item in items}
    raise FileFormatError(f"{label} is damaged: its state has {str(value)[:80]}")


def _flat(state: Any, label: str, name: str) -> dict[str, Any]:
    """Return `state` as a dict of tensors. Raises FileFormatError for any other; `name` is the part's."""
    if isinstance(state, Tensor):
        return {"": state}  # its name in nn.state.get_state_dict
    if not isinstance(state, dict) or not all(isinstance(value, Tensor) for value in state.values()):
        raise FileFormatError(
            f"{label}: the part {name!r} is no dict of tensors, and the object has no load_state_dict"
        )
    return state


def _content(path: FilePath) -> dict[str, Any]:
    """Return the JSON of a checkpoint.

    Raises FileFormatError where the file is no safetensors file with a checkpoint's metadata, or of another version.
    """
    label, found = text_of_path(path), None
    text = safe_load_metadata(path).get(_KEY)
    try:
        found = json.loads(text) if text is not None else None
    except (ValueError, RecursionError):
        pass
    if not isinstance(found, dict) or not isinstance(found.get("parts"), dict):
        raise FileFormatError(
            f"{label} is no checkpoint: it is a safetensors file without one's state (safe_load reads it)"
        )
    if found.get("version") != _VERSION:
        raise FileFormatError(
            f"{label} is a checkpoint of version {found.get('version')!r}; version {_VERSION} is read"
        )
    return found
