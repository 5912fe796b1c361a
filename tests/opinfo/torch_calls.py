"""Calls of PyTorch as calls of tinygraft: which function a name means, and which argument is which.

An OpInfo and one of its samples in, a call of ours out. There is no table of operators: a function is found by its
name, arguments by theirs, and where the two libraries spell one thing differently the tables below say so once for
all operators.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from tinygraft import Tensor, dtypes

# A parameter of PyTorch, and what it may be called here.
SPELLINGS: dict[str, tuple[str, ...]] = {
    "axes": ("dims",), "condition": ("self",), "dim": ("axis", "dims"), "dimension": ("dim", "axis"),
    "dims": ("axis", "dim", "order"), "end": ("stop",), "equation": ("formula",), "exponent": ("x",),
    "fill_value": ("value",), "idx": ("self",), "indices": ("index",), "input": ("self",), "input_list": ("args",),
    "k": ("diagonal",),
    "mask": ("attn_mask",), "mat2": ("x", "w", "other"), "max": ("max_",), "min": ("min_",),
    "negative_slope": ("neg_slope",), "normalized_shape": ("shape",), "ord": ("p",), "other": ("x",),
    "pad": ("padding",), "reps": ("repeats",), "size": ("shape",), "sorted": ("sorted_",),
    "source": ("src",), "split_size": ("sizes",), "split_size_or_sections": ("sizes",), "split_sizes": ("sizes",),
    "src": ("source",), "target": ("Y",), "tensor": ("x", "w", "other"), "tensors": ("args", "operands"),
    "value": ("fill_value", "src"), "vec": ("x", "w", "other"), "vec2": ("x", "w", "other"),
}  # fmt: skip
# Arguments that say nothing about the values: where memory lies, which engine draws, in what parts work is done.
IGNORED = {
    "layout", "device", "pin_memory", "memory_format", "generator", "non_blocking", "inplace", "sparse_grad",
    "requires_grad", "options",
}  # fmt: skip
# Parts of a name that only say where PyTorch keeps it.
HOMES = ("nn.functional.", "special.", "linalg.", "fft.", "signal.windows.")


_PLAIN = {op.name for op in op_db if "." not in op.name}


class Left(Exception):
    """A sample that cannot be asked here: it needs a dtype or a kind of tensor that tinygraft does not have."""


def names_of(name: str) -> list[str]:
    """What an operator may be called under Tensor, the most telling name first.

    A function of nn.functional whose name another operator has too needs its whole name.

    >>> names_of("linalg.norm"), names_of("nn.functional.relu"), names_of("nn.functional.unfold")
    (['linalg_norm', 'norm'], ['relu'], ['functional_unfold'])
    """
    home = next((home for home in HOMES if name.startswith(home)), "")
    short = name.removeprefix(home)
    found = [short.replace(".", "_")]
    if home == "nn.functional." and short in _PLAIN:
        return [f"functional_{short}"]
    if home not in ("", "nn.functional."):
        found.insert(0, name.replace("signal.windows", "window").replace(".", "_"))
    return found


def find(op: Any) -> tuple[str, Any] | None:
    """(name, attribute of Tensor) that an OpInfo means; None where there is none."""
    for name in (*names_of(op.name), *(alias for a in op.aliases for alias in names_of(a.name))):
        if hasattr(Tensor, name):  # that imports its theme
            return name, inspect.getattr_static(Tensor, name)
    return None


# Values


def convert(value: Any, seen: dict[int, Tensor], grads: bool) -> Any:
    """A value of a sample as one of ours; one tensor stays one tensor. Raises Left for what does not exist here."""
    if isinstance(value, torch.Tensor):
        if id(value) not in seen:
            seen[id(value)] = _tensor(value, grads)
        return seen[id(value)]
    if isinstance(value, torch.dtype):
        return to_dtype(value)
    if isinstance(value, (tuple, list)):
        several = [convert(v, seen, grads) for v in value]
        return several if isinstance(value, list) else tuple(several)
    if isinstance(value, dict):
        return {key: convert(v, seen, grads) for key, v in value.items()}
    if callable(value):
        raise Left("a function of PyTorch's tensors")
    return value


def _tensor(value: torch.Tensor, grads: bool) -> Tensor:
    if value.layout is not torch.strided or value.is_quantized:
        raise Left(f"a tensor with layout {value.layout}")
    dtype, plain = to_dtype(value.dtype), value.detach().resolve_conj().resolve_neg()
    if plain.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        plain = plain.float()
    if plain.ndim > 64:
        raise Left(f"{plain.ndim} axes, more than numpy has")
    return Tensor(plain.numpy(), dtype=dtype, requires_grad=grads and value.requires_grad)


def to_dtype(dtype: torch.dtype) -> Any:
    """The dtype of ours with that name. Raises Left if there is none."""
    found = getattr(dtypes, str(dtype).removeprefix("torch."), None)
    if found is None:
        raise Left(f"{dtype}")
    return found


# Arguments


@functools.cache
def _schemas(name: str) -> list[Any]:
    return list(torch._C._jit_get_schemas_for_operator(f"aten::{name}"))


def _suits(kind: str, value: Any) -> bool:
    """Whether a value may be given where a schema has this type."""
    if value is None:
        return "Optional" in kind
    plain = kind.removeprefix("Optional[").removesuffix("]")
    if isinstance(value, torch.Tensor):
        return "Tensor" in kind and not plain.startswith("List")
    if isinstance(value, bool):
        return plain in ("bool", "number", "Scalar")
    if isinstance(value, int):
        return plain in ("int", "number", "float", "SymInt", "Scalar") or plain.startswith("List[int")
    if isinstance(value, float):
        return plain in ("float", "number", "Scalar")
    if isinstance(value, complex):
        return plain in ("complex", "number", "Scalar")
    if isinstance(value, (list, tuple)):
        return plain.startswith("List")
    return plain == "str" if isinstance(value, str) else True


def parameters(op: Any, values: list[Any], keywords: dict[str, Any]) -> list[str | None]:
    """What PyTorch calls the positional arguments of a call; None for each that has no name."""
    try:
        given = list(inspect.signature(op.op).parameters.values())
    except (TypeError, ValueError):
        given = []
    if given and not any(p.kind in (p.VAR_POSITIONAL,) for p in given):
        names: list[str | None] = [p.name for p in given if p.kind is not p.KEYWORD_ONLY]
        return (names + [None] * len(values))[: len(values)]
    for name in dict.fromkeys((getattr(op.op, "__name__", ""), op.name.rpartition(".")[2], op.name.replace(".", "_"))):
        for schema in _schemas(name):
            place = [a for a in schema.arguments if not a.kwarg_only]
            every = {a.name for a in schema.arguments}
            spoken = {a.name for a in place[: len(values)]}
            if len(place) < len(values) or not set(keywords) <= (every - spoken) | IGNORED:
                continue
            if all(_suits(str(a.type), v) for a, v in zip(place, values, strict=False)):
                return [a.name for a in place[: len(values)]]
    return [None] * len(values)


def arranged(op: Any, target: Any, values: list[Any], keywords: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of PyTorch's call as those of ours. target is the attribute of Tensor."""
    names = parameters(op, values, keywords)
    function = target.__func__ if isinstance(target, (classmethod, staticmethod)) else target
    ours = list(inspect.signature(function).parameters.values())
    bound = ours[1:] if isinstance(target, classmethod) else ours
    method = not isinstance(target, (classmethod, staticmethod))
    taken: dict[str, Any] = {}
    left: list[tuple[int, Any]] = []
    open_ = {p.name for p in bound if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    asked = "condition" in (*names, *keywords) and method  # torch.where(condition, x, y) asks the condition
    asked |= bool(names) and names[0] in [p.name for p in bound[1:]]  # a table before the numbers of its rows
    names = ["x" if asked and name == "self" else name for name in names]
    if method and values and not asked:
        taken[bound[0].name] = values[0]

    def claim(name: str | None, value: Any) -> bool:
        for spelling in (name, *SPELLINGS.get(name or "", ())):
            if spelling in open_ and spelling not in taken:
                taken[spelling] = value
                return True
        return False

    for place, (name, value) in enumerate(zip(names, values, strict=True)):
        if not (method and place == 0 and not asked) and not claim(name, value):
            left.append((place, value))
    extra = {}
    if keywords.get("layout", torch.strided) is not torch.strided:
        raise Left(f"a tensor with layout {keywords['layout']}")
    for name, value in keywords.items():
        if not claim(name, value) and name not in IGNORED:
            extra[name] = value
    several = next((p for p in bound if p.kind is p.VAR_POSITIONAL), None)
    rest = []
    for place, value in left:
        param = bound[place] if place < len(bound) else None
        if param is not None and param.name in open_ and param.name not in taken:
            taken[param.name] = value
        elif several is not None:
            rest.append(value)
        else:
            raise TypeError(f"no parameter for argument {place}, which PyTorch calls {names[place]}")
    if several is not None:  # a keyword that PyTorch spells as one sequence
        for spelling in [n for n in extra if several.name in (n, *SPELLINGS.get(n, ()))]:
            rest.append(extra.pop(spelling))
    return _in_order(bound, several, taken, rest, extra)


def _in_order(
    bound: list[inspect.Parameter], several: Any, taken: dict[str, Any], rest: list[Any], extra: dict[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Positional ones as long as there is no hole, keywords after."""
    args: list[Any] = []
    whole = True
    for p in bound:
        if p.kind is p.VAR_POSITIONAL:
            args += rest
            whole = False
        elif p.name in taken and whole and p.kind is not p.KEYWORD_ONLY:
            args.append(taken.pop(p.name))
        else:
            whole = False
    if several is not None and rest and len(args) == len(rest) and bound[0] is not several and bound[0].name in taken:
        args.insert(0, taken.pop(bound[0].name))
    return args, {**taken, **extra}


def call(op: Any, sample: Any, seen: dict[int, Tensor], grads: bool = False) -> Any:
    """Our result for a sample. seen gets our tensor of each of PyTorch's, by id."""
    found = find(op)
    assert found is not None
    name, target = found
    values, keywords = [sample.input, *sample.args], dict(sample.kwargs)
    if keywords.pop("out", None) is not None:
        raise Left("out=: a result has memory of its own")
    args, named = arranged(op, target, values, keywords) if not isinstance(target, property) else (values[:1], {})
    args, named = convert(args, seen, grads), convert(named, seen, grads)
    if isinstance(target, property):
        return getattr(args[0], name)
    method = not isinstance(target, (classmethod, staticmethod)) and args and isinstance(args[0], Tensor)
    function: Callable[..., Any] = getattr(type(args[0]) if method else Tensor, name)
    return function(*args, **named)
