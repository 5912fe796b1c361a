"""From kernels to loaded programs on a device, each made once.

    compiled(kernels) -> [Compiled]    of (kernel, backend) pairs: lowered here, compiled side by side

Kernels are canonical, so the cache is keyed by the kernel itself, the backend and the options. Two kernels with the
same source are one Compiled; its digest is the name under which the disk has its binary. The cache is bounded: a
program goes when neither the cache nor a plan nor a TinyJit has it. `clear()` forgets all.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tinygraft import events
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.config import DEBUG
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend, Program
from tinygraft.device.registry import Device, raise_noted
from tinygraft.device.timeline import Timeline
from tinygraft.engine import diskcache
from tinygraft.engine.applied import counted_rules, rules_text
from tinygraft.engine.crew import Crew
from tinygraft.engine.debug_print import show_compiled
from tinygraft.engine.exclusive import hold_over_forks
from tinygraft.errors import CompileError, DeviceError, DeviceLostError
from tinygraft.events import CompileEvent, RenderEvent
from tinygraft.uop.stages import Binary, Call, CopyCall, Cost, Kernel, Linear, Signature, Source
from tinygraft.uop.uop import UOp

T = TypeVar("T")
# assumed: bounds on memory that no usual program meets; the 40 MB have no record
MOST = 256  # kernels that the cache has; the one asked for longest ago goes first
MOST_INSTRUCTIONS = 100_000  # of all of them together: some 40 MB of graphs


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Compiled:
    """A program with what is needed to launch it and to say how fast it was; equal only to itself.

    digest is empty where nothing is kept on disk. data is what the compiler gave. timeline is that of the backend, None
    where launches wait.
    """

    name: str
    program: Program
    signature: Signature
    cost: Cost
    digest: str
    data: bytes
    timeline: Timeline | None


@dataclass(slots=True)
class Ready:
    """A call that can be launched: a compiled kernel, or a copy when there is none, on its BUFFERs by slot."""

    kernel: Compiled | None
    device: str
    buffers: tuple[UOp, ...]
    written: tuple[int, ...]


@dataclass(slots=True)
class _Compilation:
    """A kernel on its way: lowered, then compiled, unless its equal is loaded or the disk has it.

    rules has the names of the rules that were applied, with DEBUG=5.
    """

    kernel: Kernel
    backend: Backend
    linear: Linear
    source: Source
    digest: str = ""
    loaded: Compiled | None = None
    binary: Binary | None = None
    fresh: bool = True
    seconds: float = 0.0
    rules: str = ""

    def run(self) -> None:
        """Compile, and keep the binary on disk. Raises CompileError."""
        start = time.perf_counter()
        try:
            given = self.backend.compiler.compile(self.source)
            self.binary = _proper(given, Binary, f"the compiler of {self.backend.name}")
            if not self.binary.data:
                raise CompileError(
                    f"the compiler of {self.backend.name} ended without an error and gave no code for kernel "
                    f"{self.source.name}; nothing is kept of it",
                    self.source.text,
                )
        except (Exception, SystemExit) as error:
            raise_noted(error, f"compiling {self.source.name}", self.backend.name)
        self.seconds = time.perf_counter() - start
        if self.digest and DEBUG.value < 7:
            diskcache.put(self.digest, self.binary.data)


_CompileKey = tuple[Backend, Kernel, Options]
_cache: OrderedDict[_CompileKey, tuple[Compiled, int]] = OrderedDict()  # with the instructions of each
_instructions = 0  # of all that the cache has
_loaded: WeakValueDictionary[tuple[Backend, str], Compiled] = WeakValueDictionary()
_recorded: list[dict[tuple[Kernel, Backend], None]] = []
_lock = threading.RLock()


# no fork in the middle of a compilation: the child would find a compiler's lock held
hold_over_forks(_lock)


def clear() -> None:
    """Forget all compiled kernels."""
    global _instructions
    with _lock:
        _cache.clear()
        _loaded.clear()
        _instructions = 0


def ready(calls: Sequence[Call]) -> list[Ready]:
    """The calls of a schedule with their kernels compiled. Raises CompileError."""
    kernels = [(c.kernel, Device[c.device]) for c in calls if not isinstance(c, CopyCall)]
    made = iter(compiled(kernels))
    return [
        Ready(None, c.target.device or "", c.buffers, c.written) if isinstance(c, CopyCall)
        else Ready(next(made), c.device, c.buffers, c.written) for c in calls
    ]  # fmt: skip


def compiled(kernels: Sequence[tuple[Kernel, Backend]]) -> list[Compiled]:
    """The programs of kernels, each on its backend; compiled when they are first asked for. Raises CompileError."""
    options = {backend: Options.here([backend.target]) for backend in {backend for _, backend in kernels}}
    keys = [(backend, kernel, options[backend]) for kernel, backend in kernels]
    with _lock:
        missing = [key for key in dict.fromkeys(keys) if key not in _cache]
        if missing:
            _compile(missing)
        found = [_cache[key][0] for key in keys]
        for key in keys:
            _cache.move_to_end(key)
        _shrink()
        return found


def _shrink() -> None:
    """Let go of the kernels that were asked for longest ago, beyond what the cache may have."""
    global _instructions
    while len(_cache) > MOST or (_instructions > MOST_INSTRUCTIONS and len(_cache) > 1):
        _, (_, instructions) = _cache.popitem(last=False)
        _instructions -= instructions


@contextmanager
def recorded() -> Iterator[dict[tuple[Kernel, Backend], None]]:
    """The kernels that are compiled from their graphs within the block, each once, in order."""
    found: dict[tuple[Kernel, Backend], None] = {}
    _recorded.append(found)
    try:
        yield found
    finally:
        _recorded.remove(found)


def kept(backend: Backend, digest: str, name: str, signature: Signature, cost: Cost) -> Compiled | None:
    """A kernel that this or an earlier process has compiled, by its digest; None when it is gone."""
    with _lock:
        found = _loaded.get((backend, digest))
        if found is None and (data := diskcache.get(digest)) is not None:
            if events.on_compile:
                _tell(name, backend, 0.0, len(data), cached=True)
            program = _loadable(backend, Binary(name, data, signature), digest)
            if program is None:
                return None
            found = _loaded[backend, digest] = Compiled(name, program, signature, cost, digest, data, backend.timeline)
        return found


def _compile(keys: Sequence[tuple[Backend, Kernel, Options]]) -> None:
    """Put kernels into the cache. While this thread lowers, others compile; one after another where somebody looks."""
    watched = events.active or DEBUG.value >= 3
    jobs = []
    tuned = _tuned(keys)
    with Crew() as crew:
        for backend, kernel, options in keys:
            jobs.append(job := _lowered(kernel, backend, tuned.get((kernel, backend), options), watched))
            if job.fresh:
                crew.do(job.run, len(job.source.text), 1 if watched else backend.compiler.threads)
            if watched:
                _finish(job, (backend, kernel, options))
        crew.wait()
    if not watched:
        for job, key in zip(jobs, keys, strict=True):
            _finish(job, key)


def _tuned(keys: Sequence[tuple[Backend, Kernel, Options]]) -> dict[tuple[Kernel, Backend], Options]:
    """The options of kernels for which BEAM has found actions. Kernels that plugins change are not searched: the child
    that times them has not these plugins."""
    beam = max(0 if options.passes else options.beam for _, _, options in keys)
    if not beam:
        return {}
    from tinygraft.engine.search import tuned  # nobody pays for it without BEAM

    found = tuned([(kernel, backend) for backend, kernel, _ in keys], beam)
    return {asked: Options(actions=actions) for asked, actions in found.items()}


def _lowered(kernel: Kernel, backend: Backend, options: Options, watched: bool) -> _Compilation:
    """A kernel's source, and its binary if an earlier process has kept it."""
    with counted_rules() as applied:
        linear = to_linear(kernel, backend.target, options)
    start = time.perf_counter()
    try:
        source = _proper(backend.renderer.render(linear), Source, f"the renderer of {backend.name}")
    except (Exception, SystemExit) as error:
        raise_noted(error, f"rendering {linear.name}", backend.name)
    if events.on_render:
        taken = time.perf_counter() - start
        name, language, text = source.name, source.language, source.text
        event = RenderEvent(name=name, device=backend.name, language=language, text=text, seconds=taken)
        events.tell(event)
    if events.active:
        events.stage("kernel", kernel, linear.name)
        events.stage("source", source, linear.name)
    job = _Compilation(kernel, backend, linear, source, rules=rules_text(applied))
    if (compiler := backend.compiler.key) is not None:
        called = f"{source.signature!r} {linear.cost!r}"
        job.digest = diskcache.digest(compiler, source.language, source.name, called, source.text)
        if not watched and (found := _loaded.get((backend, job.digest))) is not None:
            job.loaded, job.fresh = found, False
        elif DEBUG.value < 7 and (data := diskcache.get(job.digest)) is not None:  # assembly is not kept
            job.binary, job.fresh = Binary(source.name, data, source.signature), False
    return job


def _load(backend: Backend, binary: Binary) -> Program:
    """Load a binary on `backend`. An error, SystemExit too, is raised again with a note on what and where."""
    try:
        return _proper(backend.load(binary), Program, f"load of the backend of {backend.name}")
    except (Exception, SystemExit) as error:
        raise_noted(error, f"loading {binary.name}", backend.name)


def _loadable(backend: Backend, binary: Binary, digest: str) -> Program | None:
    """The program of a binary of the disk; None where it does not load, and then the disk has it no more."""
    try:
        return _load(backend, binary)
    except (DeviceLostError, MemoryError):  # nothing is wrong with the binary
        raise
    except Exception:
        diskcache.remove(digest)
        return None


def _proper(given: T, kind: type[Any], what: str) -> T:
    """What a part of a plugin gave. Raises DeviceError for another type than it should be."""
    if not isinstance(given, kind):
        raise DeviceError(f"{what} gave a {type(given).__name__}, not a {kind.__name__}")
    return given


def _tell(name: str, backend: Backend, seconds: float, size: int, cached: bool) -> None:
    events.tell(CompileEvent(name=name, device=backend.name, seconds=seconds, bytes=size, cached=cached))


def _finish(job: _Compilation, key: _CompileKey) -> None:
    """Load what was compiled, unless its equal is loaded, and report it."""
    global _instructions
    for found in _recorded:
        found[job.kernel, job.backend] = None
    loaded = job.loaded or _loaded.get((job.backend, job.digest))
    program = None
    if loaded is None and not job.fresh:
        assert job.binary is not None
        program = _loadable(job.backend, job.binary, job.digest)
        if program is None:  # the binary of the disk is no good
            job.fresh = True
            job.run()
    _report(job)
    GlobalCounters.kernels_compiled += job.fresh
    if loaded is None:
        assert job.binary is not None
        program = program or _load_fresh(job)
        linear = job.linear
        data, timeline = job.binary.data, job.backend.timeline
        loaded = Compiled(linear.name, program, linear.signature, linear.cost, job.digest, data, timeline)
        if job.digest:
            _loaded[job.backend, job.digest] = loaded
    _cache[key] = loaded, len(job.linear.uops)
    _instructions += len(job.linear.uops)


def _load_fresh(job: _Compilation) -> Program:
    """The program of what was compiled now. Where it does not load, the disk does not keep it."""
    assert job.binary is not None
    try:
        return _load(job.backend, job.binary)
    except BaseException:
        if job.digest:
            diskcache.remove(job.digest)
        raise


def _report(job: _Compilation) -> None:
    """Notify observers of a binary, print it with DEBUG=3; nothing where a loaded program was reused."""
    name, binary = job.linear.name, job.binary
    if binary is None:
        return
    if events.active:
        events.stage("binary", binary, name)
    if events.on_compile:
        _tell(name, job.backend, job.seconds, len(binary.data), cached=not job.fresh)
    if DEBUG.value >= 3:
        show_compiled(job.kernel, job.rules, job.linear, job.source, binary)
