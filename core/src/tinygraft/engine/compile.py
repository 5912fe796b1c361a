"""From kernels to loaded programs on a device, each made once.

    compiled(kernels) -> [Compiled]    of (kernel, backend) pairs: lowered in this thread, compiled by several

Kernels are canonical, so the cache is keyed by the kernel itself, the backend and the options. Two kernels with the
same source are one Compiled; its digest is the name under which the disk stores its binary. The cache is bounded: a
program is freed when neither the cache nor a plan nor a TinyJit refers to it. `clear()` empties it.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from tinygraft import events
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.config import DEBUG, Context
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import Backend, Program
from tinygraft.device.pool import note_lost
from tinygraft.device.registry import Device, raise_noted
from tinygraft.engine import diskcache, own_numbers
from tinygraft.engine.applied import counted_rules, rules_text
from tinygraft.engine.crew import Crew
from tinygraft.engine.debug_print import show_compiled
from tinygraft.engine.exclusive import lock_over_forks
from tinygraft.engine.own_numbers import Compiled
from tinygraft.errors import CompileError, DeviceError, DeviceLostError
from tinygraft.events import CompileEvent, RenderEvent, SpanEvent
from tinygraft.helpers import prod
from tinygraft.uop.stages import (
    Binary,
    Call,
    CopyCall,
    Cost,
    Kernel,
    KernelCall,
    Linear,
    Param,
    Routine,
    Signature,
    Source,
)
from tinygraft.uop.uop import UOp

T = TypeVar("T")
# assumed: bounds on memory that no usual program meets; the 40 MB have no record
MOST = 256  # kernels in the cache; the least recently requested one is dropped first
MOST_INSTRUCTIONS = 100_000  # of all of them together: some 40 MB of graphs


@dataclass(slots=True)
class Ready:
    """A call that can be launched: a compiled kernel, or a copy where `kernel` is None, on its BUFFERs by slot.

    `origins` are the lines of the user that it computes, while a recording is on (origins.py).
    """

    kernel: Compiled | None
    device: str
    buffers: tuple[UOp, ...]
    written: tuple[int, ...]
    origins: tuple[Any, ...] = ()


@dataclass(slots=True)
class _Compilation:
    """A kernel that is being compiled: it was lowered, and needs a compiler unless its equal is loaded or on disk.

    `loaded` is that equal, `binary` what the disk had or the compiler returned. `fresh` says that it has to be, or was,
    compiled. `rules` has the names of the rules that were applied, with DEBUG=5.
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
    start: float = 0.0
    thread: int = 0

    def run(self) -> None:
        """Compile `source`, set `binary` and `seconds`, and store the binary on disk if it has a `digest`.

        Raises what the compiler raises, with a note, CompileError above all; DeviceError where it returns no Binary.
        """
        self.start, self.thread = time.perf_counter(), threading.get_ident()
        try:
            with Context(DEBUG=7) if events.once else nullcontext():  # compilers keep the assembly then
                given = self.backend.compiler.compile(self.source)
            self.binary = _proper(given, Binary, f"the compiler of {self.backend.name}")
            if not self.binary.data:
                raise CompileError(
                    f"the compiler of {self.backend.name} ended without an error and returned no code for kernel "
                    f"{self.source.name}; nothing of it is stored",
                    self.source.text,
                )
        except (Exception, SystemExit) as error:
            raise_noted(error, f"compiling {self.source.name}", self.backend.name)
        self.seconds = time.perf_counter() - self.start
        if self.digest and DEBUG.value < 7:
            diskcache.put(self.digest, self.binary.data)


_CompileKey = tuple[Backend, Kernel, Options]
_cache: OrderedDict[_CompileKey, tuple[Compiled, int]] = OrderedDict()  # with the number of instructions of each
_instructions = 0  # of all kernels in the cache
_loaded: WeakValueDictionary[tuple[Backend, str], Compiled] = WeakValueDictionary()
_routines: WeakValueDictionary[tuple[Backend, Routine], Compiled] = WeakValueDictionary()
_recorded: list[dict[tuple[Kernel, Backend], None]] = []
_lock = threading.RLock()


# no fork in the middle of a compilation: the child would find a compiler's lock locked
lock_over_forks(_lock)


def clear() -> None:
    """Drop all compiled kernels from the cache.

    Programs that a plan or a TinyJit refers to stay loaded.
    """
    global _instructions
    with _lock:
        _cache.clear()
        _loaded.clear()
        _routines.clear()
        _instructions = 0


def ready(calls: Sequence[Call], origins: Sequence[tuple[object, ...]] = ()) -> list[Ready]:
    """Return the calls of a schedule, in their order, with their kernels compiled. Opens devices.

    `origins` are those of each call, while a recording is on. Raises as `compiled` does. UnsupportedError too, where a
    device lacks a routine.
    """
    made = iter(compiled([(c.kernel, Device[c.device]) for c in calls if isinstance(c, KernelCall)]))
    found = []
    for call, known in zip(calls, origins or [()] * len(calls), strict=True):
        if isinstance(call, CopyCall):
            found.append(Ready(None, call.target.device or "", call.buffers, call.written, known))
        else:
            if isinstance(call, KernelCall):
                kernel = own_numbers.given(next(made), call.numbers)
            else:
                kernel = routine_on(Device[call.device], call.routine)
            found.append(Ready(kernel, call.device, call.buffers, call.written, known))
    return found


def routine_on(backend: Backend, routine: Routine) -> Compiled:
    """Return a routine of a device as what is launched like a kernel. Raises UnsupportedError where it has none."""
    with _lock:
        found = _routines.get((backend, routine))
        if found is None:
            found = _routines[backend, routine] = _made_routine(backend, routine)
        return found


def _made_routine(backend: Backend, routine: Routine) -> Compiled:
    """Return the Program of a routine from its Backend, with its buffers as params.

    Raises what the plugin raises, with a note, UnsupportedError above all; DeviceError where it returns no Program.
    """
    from tinygraft.uop.routines import COLLECTIVES, flops_of, results_of  # few programs use a routine

    results = results_of(routine.name, routine.operands, routine.options)
    every = [*[(results[number], True) for number in routine.results], *[(o, False) for o in routine.operands]]
    params = tuple([Param(dtype, prod(shape), written) for (dtype, shape), written in every])
    name = f"routine_{routine.name}_{'_'.join(map(str, routine.operands[0][1]))}"
    try:
        if routine.name in COLLECTIVES:
            from tinygraft.engine.rank_program import RankProgram

            program: Program = RankProgram(backend, routine)
        else:
            program = _proper(backend.routine(routine), Program, f"routine of the backend of {backend.name}")
    except (Exception, SystemExit) as error:
        note_lost(error, backend)
        raise_noted(error, f"making the routine {routine.name}", backend.name)
    if DEBUG.value >= 3:
        print(f"{name}\n[a routine of {backend.name} itself: {routine}]")
    moved = sum(param.size * param.dtype.itemsize for param in params)
    cost = Cost(flops_of(routine.name, routine.operands, routine.options), moved)
    timeline = None if routine.name in COLLECTIVES else backend.timeline  # the host runs it, and waits
    return Compiled(name, program, Signature(params), cost, "", b"", timeline, routine)


def compiled(kernels: Sequence[tuple[Kernel, Backend]]) -> list[Compiled]:
    """Return the programs of `kernels`, each on its backend, in their order; those not in the cache are compiled.

    They are compiled with the settings of this thread. Raises CompileError, and what a backend raises in loading.
    """
    options = {backend: Options.here([backend.target]) for backend in {backend for _, backend in kernels}}
    keys = [(backend, kernel, options[backend]) for kernel, backend in kernels]
    with _lock:
        missing = [key for key in dict.fromkeys(keys) if key not in _cache]
        if missing and events.on_span:
            with events.span("compile", f"{len(missing)} kernels"):
                _compile(missing)
        elif missing:
            _compile(missing)
        found = [_cache[key][0] for key in keys]
        for key in keys:
            _cache.move_to_end(key)
        _shrink()
        return found


def _shrink() -> None:
    """Drop the least recently requested kernels from the cache until it is within its bounds."""
    global _instructions
    while len(_cache) > MOST or (_instructions > MOST_INSTRUCTIONS and len(_cache) > 1):
        _, (_, instructions) = _cache.popitem(last=False)
        _instructions -= instructions


@contextmanager
def recorded() -> Iterator[dict[tuple[Kernel, Backend], None]]:
    """Yield a dict whose keys will be the kernels that are compiled from their graphs within the block, in order.

    Those of all threads that were not in the cache, also where a binary was on disk; not those of plans from packs.
    """
    found: dict[tuple[Kernel, Backend], None] = {}
    _recorded.append(found)
    try:
        yield found
    finally:
        _recorded.remove(found)


def compiled_before(backend: Backend, digest: str, name: str, signature: Signature, cost: Cost) -> Compiled | None:
    """Return a kernel that this or an earlier process has compiled, by its `digest`.

    None where it is neither loaded nor on disk, or the binary of the disk does not load, which is removed then. The
    other parameters become those of the Compiled where it is loaded from the disk. Raises DeviceLostError and
    MemoryError, where loading fails with these.
    """
    with _lock:
        found = _loaded.get((backend, digest))
        if found is None and (data := diskcache.get(digest)) is not None:
            if events.on_compile:
                size = len(data)
                events.notify(CompileEvent(name=name, device=backend.name, seconds=0.0, bytes=size, cached=True))
            program = _loadable(backend, Binary(name, data, signature), digest)
            if program is None:
                return None
            found = _loaded[backend, digest] = Compiled(name, program, signature, cost, digest, data, backend.timeline)
        return found


def _compile(keys: Sequence[tuple[Backend, Kernel, Options]]) -> None:
    """Lower, compile and load kernels, each a (backend, kernel, options), and put their programs into the cache.

    What BEAM found for a kernel replaces its options. While this thread lowers, others compile what is not on disk; the
    first error of a compilation is raised at the end, and then none of them is in the cache.
    Where stages are observed or printed each kernel is finished before the next, so that its stages stand together.
    """
    from tinygraft.progress import making  # here, as most programs find their kernels on disk

    watched = events.active or DEBUG.value >= 3
    jobs = []
    tuned = _tuned(keys)
    with making.work("compiling", len(keys)) as step, Crew() as crew:

        def run(job: _Compilation) -> None:
            job.run()
            step(1)

        for backend, kernel, options in keys:
            jobs.append(job := _lowered(kernel, backend, tuned.get((kernel, backend), options), watched))
            if job.fresh:
                crew.do(partial(run, job), len(job.source.text), 1 if watched else backend.compiler.threads)
            else:
                step(1)
            if watched:
                _finish(job, (backend, kernel, options))
        crew.wait()
    if not watched:
        for job, key in zip(jobs, keys, strict=True):
            _finish(job, key)


def _tuned(keys: Sequence[tuple[Backend, Kernel, Options]]) -> dict[tuple[Kernel, Backend], Options]:
    """Return the options of those kernels for which BEAM has found transforms; empty without BEAM. It may search now.

    Kernels that plugins change are not searched: the child process that times them does not load plugins.
    """
    plain = [(kernel, backend) for backend, kernel, options in keys if not options.passes]
    beam = max((options.beam for _, _, options in keys if not options.passes), default=0)
    if not beam:
        return {}
    from tinygraft.engine.search import tuned  # imported only with BEAM, for the time that it takes

    found = tuned(plain, beam)
    return {searched: Options(actions=actions) for searched, actions in found.items()}


def _lowered(kernel: Kernel, backend: Backend, options: Options, watched: bool) -> _Compilation:
    """Lower and render `kernel`. Returns its source, with the binary where it is loaded or on disk.

    `watched` says that its stages are observed or printed; a loaded equal is not used then. Notifies observers. Raises
    ActionError for an action of `options` that the kernel forbids, and what the renderer raises, with a note.
    """
    begun = time.perf_counter()
    with counted_rules() as applied:
        linear = to_linear(kernel, backend.target, options)
    start = time.perf_counter()
    try:
        source = _proper(backend.renderer.render(linear), Source, f"the renderer of {backend.name}")
    except (Exception, SystemExit) as error:
        raise_noted(error, f"rendering {linear.name}", backend.name)
    if events.on_render:
        seconds = time.perf_counter() - start
        name, language, text = source.name, source.language, source.text
        event = RenderEvent(name=name, device=backend.name, language=language, text=text, seconds=seconds)
        events.notify(event)
    if events.on_span:
        seconds = time.perf_counter() - begun
        events.notify(SpanEvent(name="lower", start=begun, seconds=seconds, detail=linear.name))
    if events.active:
        events.stage("kernel", kernel, linear.name)
        events.stage("source", source, linear.name)
    job = _Compilation(kernel, backend, linear, source, rules=rules_text(applied))
    if (compiler := backend.compiler.key) is not None:
        launched = f"{source.signature!r} {linear.cost!r}"  # a pack stores these with the digest, and no source
        job.digest = diskcache.digest(compiler, source.language, source.name, launched, source.text)
        if not watched and (found := _loaded.get((backend, job.digest))) is not None:
            job.loaded, job.fresh = found, False
        elif (
            DEBUG.value < 7 and not events.once and (data := diskcache.get(job.digest)) is not None
        ):  # without assembly
            job.binary, job.fresh = Binary(source.name, data, source.signature), False
    return job


def _load(backend: Backend, binary: Binary) -> Program:
    """Return the program of `binary`, loaded on `backend`. Raises the plugin's error with a note on what and where."""
    try:
        return _proper(backend.load(binary), Program, f"load of the backend of {backend.name}")
    except (Exception, SystemExit) as error:
        note_lost(error, backend)
        raise_noted(error, f"loading {binary.name}", backend.name)


def _loadable(backend: Backend, binary: Binary, digest: str) -> Program | None:
    """Return the program of a binary from the disk; None where it does not load, and then it is removed there.

    Raises DeviceLostError and MemoryError, which say nothing about the binary.
    """
    try:
        return _load(backend, binary)
    except (DeviceLostError, MemoryError):  # nothing is wrong with the binary
        raise
    except Exception:
        diskcache.remove(digest)
        return None


def _proper(given: T, kind: type[Any], what: str) -> T:
    """Return `given`, which `what` of a plugin has returned. Raises DeviceError where it is no `kind`."""
    if not isinstance(given, kind):
        raise DeviceError(f"{what} returned a {type(given).__name__}, not a {kind.__name__}")
    return given


def _finish(job: _Compilation, key: _CompileKey) -> None:
    """Load what was compiled, unless its equal is loaded, put it into the cache under `key`, and notify observers.

    A binary from the disk that does not load is compiled after all. Counts compilations in `GlobalCounters`. Raises
    what the compiler or loading raises.
    """
    global _instructions
    for found in _recorded:
        found[job.kernel, job.backend] = None
    loaded = job.loaded or _loaded.get((job.backend, job.digest))
    program = None
    if loaded is None and not job.fresh:
        assert job.binary is not None
        program = _loadable(job.backend, job.binary, job.digest)
        if program is None:  # the binary from the disk is unusable: compile after all
            job.fresh = True
            job.run()
    _report(job)
    GlobalCounters.kernels_compiled += job.fresh
    if loaded is None:
        assert job.binary is not None
        program = program or _load_fresh(job)
        linear = job.linear
        data, timeline = job.binary.data, job.backend.timeline
        serial = job.kernel.sink.serial
        loaded = Compiled(linear.name, program, job.source.signature, linear.cost, job.digest, data, timeline,
                          serial=serial)  # fmt: skip
        if job.digest:
            _loaded[job.backend, job.digest] = loaded
    _cache[key] = loaded, len(job.linear.uops)
    _instructions += len(job.linear.uops)


def _load_fresh(job: _Compilation) -> Program:
    """Return the program of a binary that was compiled now. Where it does not load it is removed from the disk.

    Raises the error then, as `_load` does.
    """
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
        event = CompileEvent(
            name=name, device=job.backend.name, seconds=job.seconds, bytes=len(binary.data), cached=not job.fresh,
            start=job.start, thread=job.thread,
        )  # fmt: skip
        events.notify(event)
    if DEBUG.value >= 3:
        show_compiled(job.kernel, job.rules, job.linear, job.source, binary)
