"""From a Kernel to a loaded program on a device, once per kernel.

    compiled(kernel, backend) -> Compiled

Kernels are canonical, so the cache is keyed by the kernel itself, the backend and the options. `clear()` empties it.
"""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass

from tinygraft import events
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.config import DEBUG
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend, Program
from tinygraft.engine import diskcache
from tinygraft.engine.show import show_compiled
from tinygraft.events import CompileEvent
from tinygraft.uop.stages import Binary, Cost, Kernel, Signature, Source


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program with what is needed to launch it and to say how fast it was."""

    name: str
    program: Program
    signature: Signature
    cost: Cost


_cache: dict[tuple[Backend, Kernel, Options], Compiled] = {}
_lock = threading.RLock()


# no fork in the middle of a compilation: the child would find a compiler's lock held
if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def clear() -> None:
    """Forget all compiled kernels."""
    with _lock:
        _cache.clear()


def compiled(kernel: Kernel, backend: Backend) -> Compiled:
    """The program of a kernel on a backend; compiled when it is first asked for. Raises CompileError."""
    key = (backend, kernel, Options.here())
    found = _cache.get(key)
    if found is None:
        with _lock:
            found = _cache.get(key)
            if found is None:
                found = _cache[key] = _compile(kernel, backend, key[2])
    return found


def _compile(kernel: Kernel, backend: Backend, options: Options) -> Compiled:
    linear = to_linear(kernel, backend.target, options)
    source = backend.renderer.render(linear)
    if events.active:
        events.stage("kernel", kernel, linear.name)
        events.stage("source", source, linear.name)
    start = time.perf_counter()
    binary, fresh = _binary(source, backend)
    if events.active:
        seconds = time.perf_counter() - start
        events.stage("binary", binary, linear.name)
        event = CompileEvent(name=linear.name, device=backend.name, seconds=seconds, bytes=len(binary.data))
        events.stage("compile", event, linear.name)
    if DEBUG.value >= 3:
        show_compiled(kernel, linear, source, binary)
    GlobalCounters.kernels_compiled += fresh
    return Compiled(linear.name, backend.load(binary), linear.signature, linear.cost)


def _binary(source: Source, backend: Backend) -> tuple[Binary, bool]:
    """A kernel's binary, and whether it had to be compiled: the disk may have it from an earlier process."""
    key = backend.compiler.key
    if key is None or DEBUG.value >= 7:  # DEBUG=7 wants the assembly, which is not kept
        return backend.compiler.compile(source), True
    name = diskcache.digest(key, source.language, source.name, source.text)
    kept = diskcache.get(name)
    if kept is not None:
        return Binary(source.name, kept, source.signature), False
    binary = backend.compiler.compile(source)
    diskcache.put(name, binary.data)
    return binary, True
