"""Plans as data: what the graphs of one form launch, and how that is written down for the next process.

    write(name, plan)          read(name, backends) -> Plan | None

A pack is one entry of the disk cache: JSON that names each kernel by the digest of its binary, with what is needed to
call it. Its name is a digest of all that the plan follows from: the form of the graph, the source of this package and
of the plugins, Targets, compilers and options. What cannot be read, or names a binary that is gone, is as good as none.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from tinygraft.codegen.options import Options
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import BY_NAME, DType
from tinygraft.engine import diskcache
from tinygraft.engine.compile import Compiled, kept
from tinygraft.schedule import form
from tinygraft.target import Target
from tinygraft.uop.ops import Ops, VariableArg
from tinygraft.uop.stages import Cost, Param, Signature
from tinygraft.uop.uop import UOp, postorder

Place = int  # number of a buffer: those that the graph names first, then those that the plan makes
BOXES: dict[str, type[Any]] = {box.__name__: box for box in (Signature, Param, Cost, VariableArg)}


@dataclass(frozen=True, slots=True)
class Planned:
    """A launch of a kernel, or a copy when there is none, on numbered buffers. written are slots."""

    kernel: Compiled | None
    device: str
    places: tuple[Place, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps in order, the place of each output, and the device, size and dtype of the buffers that are made."""

    steps: tuple[Planned, ...]
    memory: tuple[Place, ...]
    made: tuple[tuple[str, int, DType], ...]


def name_of(key: form.Key, backends: Sequence[Backend], options: Options) -> str:
    """The name of the pack of a form on backends; empty where nothing is kept on disk."""
    if not diskcache.is_kept() or any(backend.compiler.key is None for backend in backends):
        return ""
    parts = ["pack", _source(__name__.partition(".")[0]), form.text(key), repr(options)]
    for backend in backends:
        package = type(backend).__module__.partition(".")[0]
        parts += [backend.name, _text(backend.target), backend.compiler.key or "", _source(package)]
    return diskcache.digest(*parts)


def write(name: str, plan: Plan) -> None:
    """Keep a plan on disk, where that is possible."""
    kernels = {step.kernel: step.device for step in plan.steps if step.kernel is not None}
    numbers = {kernel: number for number, kernel in enumerate(kernels)}
    content = {
        "kernels": [[device, k.digest, k.name, _flat(k.signature), _flat(k.cost)] for k, device in kernels.items()],
        "steps": [[None if s.kernel is None else numbers[s.kernel], s.device, s.places, s.written] for s in plan.steps],
        "memory": plan.memory,
        "made": _flat(plan.made),
    }
    diskcache.put(name, json.dumps(content, separators=(",", ":")).encode())


def read(name: str, backends: Sequence[Backend]) -> Plan | None:
    """The plan of a pack with its kernels loaded; None when the disk does not have all of it."""
    data = diskcache.get(name)
    if data is None:
        return None
    on = {backend.name: backend for backend in backends}
    kernels: list[Compiled] = []
    with suppress(ValueError, KeyError, TypeError, IndexError):  # what is no pack
        content = json.loads(data)
        for device, digest, title, signature, cost in content["kernels"]:
            kernel = kept(on[device], digest, title, _whole(signature), _whole(cost))
            if kernel is None:
                return None
            kernels.append(kernel)
        steps = [
            Planned(None if number is None else kernels[number], device, tuple(places), tuple(written))
            for number, device, places, written in content["steps"]
        ]
        return Plan(tuple(steps), tuple(content["memory"]), _whole(content["made"]))
    return None


def _flat(value: Any) -> Any:
    """A box, or what is in one, as JSON has it."""
    if isinstance(value, tuple):
        return [_flat(item) for item in value]
    if isinstance(value, DType):
        return {"DType": value.name}
    if isinstance(value, UOp):
        return {"UOp": _flat_graph(value)}
    if type(value).__name__ in BOXES:
        return {type(value).__name__: [_flat(getattr(value, field.name)) for field in fields(value)]}
    return value


def _flat_graph(root: UOp) -> list[Any]:
    """The nodes of a symbolic size, sources as numbers."""
    order = postorder(root)
    numbers = {node: number for number, node in enumerate(order)}
    return [[n.op.name, n.dtype.name, [numbers[s] for s in n.src], _flat(n.arg)] for n in order]


def _whole(data: Any) -> Any:
    """What _flat was given."""
    if isinstance(data, list):
        return tuple([_whole(item) for item in data])
    if not isinstance(data, dict):
        return data
    (kind, content), = data.items()  # fmt: skip
    if kind == "DType":
        return BY_NAME[content]
    if kind == "UOp":
        nodes: list[UOp] = []
        for op, dtype, sources, arg in content:
            nodes.append(UOp(Ops[op], BY_NAME[dtype], tuple(nodes[s] for s in sources), _whole(arg)))
        return nodes[-1]
    return BOXES[kind](*_whole(content))


def _text(target: Target) -> str:
    """A Target written down: equal for equal ones, in every process."""
    found = []
    for field in fields(target):
        value = getattr(target, field.name)
        named = sorted(item.name for item in value) if isinstance(value, frozenset) else value
        found.append(f"{field.name}={named!r}")
    return " ".join(found)


@functools.cache
def _source(package: str) -> str:
    """A digest of the Python files of a package, or of a module."""
    module = sys.modules[package]
    found = []
    for folder in getattr(module, "__path__", ()):
        for base, _, names in sorted(os.walk(folder)):
            found += [os.path.join(base, name) for name in sorted(names) if name.endswith(".py")]
    parts = []
    for path in found or [getattr(module, "__file__", None) or ""]:
        with suppress(OSError), open(path, encoding="utf-8") as file:
            parts += [os.path.basename(path), file.read()]
    return diskcache.digest(package, *parts)
