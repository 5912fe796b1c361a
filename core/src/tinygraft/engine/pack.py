"""Plans as data: what the graphs of one form launch, and how that is stored for later processes.

    write(name, plan)          read(name, backends) -> Plan | None

A pack is one entry of the disk cache: JSON that names each kernel by the digest of its binary, with what is needed to
launch it. Its name is a digest of all that the plan depends on: the form of the graph, the source of this package and
of the plugins, Targets, compilers and options. A pack that cannot be parsed, or names a missing binary, counts as
absent.
"""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from tinygraft.codegen.options import Options
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import DType
from tinygraft.engine import database, diskcache
from tinygraft.engine.arena import Placement
from tinygraft.engine.compile import compiled_before, routine_on
from tinygraft.engine.own_numbers import Compiled, named, numbers_in, plain
from tinygraft.schedule import form
from tinygraft.uop.flat import flat, whole
from tinygraft.uop.stages import Signature

BufferNumber = int  # of a buffer in a plan: those that the graph names first, then the temporaries and results


@dataclass(frozen=True, slots=True)
class Planned:
    """A launch of a kernel, or a copy where `kernel` is None, on buffers by their numbers; `written` are slots."""

    kernel: Compiled | None
    device: str
    buffers: tuple[BufferNumber, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Plan:
    """How graphs of one form are realised.

    `steps` are in order. `memory` has the buffers of each output: one, or one for each device of a sharded one. `made`
    has the device, size and dtype of the buffers that the graph does not name. `numbers` are the values of variables
    that belong to a step, by name (own_numbers.py). `origins` has, for a plan made while a recording is on, the nodes
    of the graph that each step computes, as numbers (origins.py); it is not stored on disk.
    `placements` has where its temporaries lie, once that was found in this process.
    """

    steps: tuple[Planned, ...]
    memory: tuple[tuple[BufferNumber, ...], ...]
    made: tuple[tuple[str, int, DType], ...]
    numbers: dict[str, int]
    origins: tuple[tuple[int, ...], ...] | None = None
    placements: list[Placement] = field(default_factory=list, compare=False)


def name_of(key: form.FormKey, backends: Sequence[Backend], options: Options) -> str:
    """Return the name of the pack of a form on `backends`; empty where packs or binaries are not stored on disk.

    `key` is that of the form, `options` are those that its kernels are compiled with.
    """
    if not diskcache.is_enabled() or any(backend.compiler.key is None for backend in backends):
        return ""
    parts = ["pack", _source(__name__.partition(".")[0]), form.text(key), repr(options)]
    parts += [database.state()] if options.beam else []
    for backend in backends:
        package = type(backend).__module__.partition(".")[0]
        parts += [backend.name, backend.target.text(), backend.compiler.key or "", _source(package)]
    return diskcache.digest(*parts)


def write(name: str, plan: Plan) -> None:
    """Store a plan on disk as the pack `name`; nothing happens where that fails."""
    kernels = {step.kernel: step.device for step in plan.steps if step.kernel is not None}
    numbers = {kernel: number for number, kernel in enumerate(kernels)}
    content = {
        "kernels": [
            [device, k.digest, k.name, flat(k.signature), flat(k.cost), flat(k.routine)]
            for k, device in kernels.items()
        ],
        "steps": [
            [None if s.kernel is None else numbers[s.kernel], s.device, s.buffers, s.written] for s in plan.steps
        ],
        "memory": plan.memory,
        "made": flat(plan.made),
    }
    diskcache.put(name, json.dumps(content, separators=(",", ":")).encode())


def read(name: str, backends: Sequence[Backend]) -> Plan | None:
    """Return the plan of a pack with its kernels loaded; None where the pack or a binary is missing or damaged.

    `backends` are the devices that its kernels are on. Raises what making a routine raises, and DeviceLostError or
    MemoryError of loading: these say nothing about the pack.
    """
    data = diskcache.get(name)
    if data is None:
        return None
    on = {backend.name: backend for backend in backends}
    kernels: list[Compiled] = []
    with suppress(ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError):  # what is no pack
        content = json.loads(data)
        for device, digest, title, signature, cost, routine in content["kernels"]:
            called: Signature = whole(signature)
            kernel = (
                compiled_before(on[device], digest, title, plain(called), whole(cost)) if routine is None
                else routine_on(on[device], whole(routine))
            )  # fmt: skip
            if kernel is None:
                return None
            kernels.append(named(kernel, called.variables))
        steps = [
            Planned(None if number is None else kernels[number], device, tuple(buffers), tuple(written))
            for number, device, buffers, written in content["steps"]
        ]
        made = whole(content["made"])
        return Plan(tuple(steps), tuple(map(tuple, content["memory"])), made, numbers_in(kernels))
    return None


@functools.cache
def _source(package: str) -> str:
    """Return a digest of the Python files of an imported package, or module, by name: other code may make another plan.

    Cached by name, so that a file that is changed while the process runs makes no difference.
    """
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
