"""Realising tensors: their graphs are scheduled and run, and their nodes become the memory of the results.

shortcut.py        tensors whose graph was launched before: all of the following in one short walk
write_again.py     the same for a write into memory that one tensor has
collect.py         which tensors are computed, and which others are affected: a RealizeRequest; changes nothing
bindings.py        which of them are computed first, where a variable has two values
protect.py         live tensors that need an old value: co-realised, or given copies
transaction.py     plan, memory, launches; then commit, or restore
after_failure.py   which values are old, new or lost where a launch failed in the middle
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft import events
from tinygraft.config import PROFILE, VIZ, is_recorded
from tinygraft.device.queues import begun
from tinygraft.engine import shortcut
from tinygraft.engine.assigns import HasNode, LiveTensors, NoTensors, With
from tinygraft.engine.capture import note_realisation, uncaptured
from tinygraft.engine.collect import ConflictingBindings, DrawFirst, collect, to_drop
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.launching import conclude
from tinygraft.engine.transaction import drop, run_request
from tinygraft.engine.write_again import write_again
from tinygraft.helpers import disable_gc, lazily
from tinygraft.hooks.manager import here as hooks
from tinygraft.interrupt import Guard, guarded
from tinygraft.uop.held import HELD, memory_base
from tinygraft.uop.ops import Ops


def realize_tensors(tensors: Sequence[HasNode], live: LiveTensors | None = None) -> None:
    """Compute `tensors`, whose nodes become the memory of their results. `live` are the tensors that can be reached.

    One thread at a time: a graph is shared, and so is the memory that it assigns to. Where it fails or is interrupted,
    tensors whose kernels have all run are realised; a pending write that did not happen is dropped, so that its tensor
    has its old value again; all others are as they were. A value that can no longer be computed raises when it is used.
    Where a variable has two values (bindings.py), the tensors with one of them are realised before the others. Raises
    what planning (GraphError), compiling, allocating and launching raise, KeyboardInterrupt, and with VALIDATE=1
    ValidationError.
    """
    with exclusive:
        note_realisation()
        if is_recorded():
            _start_recordings(tensors, live or NoTensors())
        if not hooks.loaded:
            hooks.load()
        if events.on_span:
            with events.span("realize"):
                _realize(tensors, live)
        elif live is None or not shortcut.is_possible():
            _realize(tensors, live)
        else:
            _realize_again(tensors, live)


def _realize_again(tensors: Sequence[HasNode], live: LiveTensors) -> None:
    """Realise tensors by a shortcut, or where their graph has none yet in the general way, which may note one."""
    roots = [root for tensor in tensors if (root := memory_base(tensor.uop)).op not in HELD]
    if len(roots) < len(tensors):
        tensors = [tensor for tensor in tensors if memory_base(tensor.uop).op not in HELD]
        if not tensors:
            return
    walked = shortcut.walk(*roots)
    if walked.key is None:
        _realize(tensors, live)
        return
    try:
        if roots[0].op is Ops.ASSIGN:
            done = write_again(tensors[0], roots[0], walked, live)
        else:
            done = shortcut.realise_again(tensors, roots, walked, live)
    except BaseException:
        if begun:
            conclude(failed=True)
        raise
    if not done:
        _realize(tensors, live, walked)
    elif begun:
        conclude()


def _start_recordings(tensors: Sequence[HasNode], live: LiveTensors) -> None:
    """Start the viewer of VIZ=1 and the profile of PROFILE=1, if that has not been done.

    Where a plugin contributes a profiler, PROFILE=1 is for that one. A recording that begins here, as one of
    Context(VIZ=1), has the lines of the tensors that are there, which were made before it.
    """
    late = events.origins is None
    _install_recordings()
    if late and events.origins is not None:
        for tensor in (*tensors, *live.near(())):
            events.origins.note_late(tensor.uop, *tensor.made_at)


def _install_recordings() -> None:
    """Install what `_start_recordings` starts."""
    if VIZ:
        from tinygraft.engine.viewer import served  # imported only when it is used

        served.install()
    if PROFILE:
        if not hooks.loaded:
            hooks.load()
        if hooks.has_profiler():
            return
        from tinygraft.engine.profiling import profile_end

        profile_end.install()


def _realize(tensors: Sequence[HasNode], live: LiveTensors | None, walked: shortcut.Walked | None = None) -> None:
    """Do what `realize_tensors` does, under its lock.

    Realises first what has to be, as random numbers from before a capture. Reports the launches at the end. `walked` is
    the graph of the tensors, where a shortcut may be noted for it.
    """
    try:
        request = collect(tensors, live or NoTensors())
    except DrawFirst as first:
        with uncaptured():
            realize_tensors(first.tensors, live)
        realize_tensors(tensors, live)
        return
    except ConflictingBindings as split:
        everything = With(live or NoTensors(), tensors)
        try:
            realize_tensors(split.first, everything)
        except BaseException:  # none of the requested tensors may keep a write that failed
            drop(to_drop(tensors, live or NoTensors()))
            raise
        realize_tensors(split.remaining, everything)
        return
    if request is None:
        return
    request.walked = walked
    try:
        with disable_gc():  # what it makes is no cycle, and of a long graph it would be walked over again and again
            if not request.assigns:  # nothing is overwritten, so all of it can be repeated: signals need not wait
                run_request(request, Guard())
            else:
                with guarded() as guard:
                    run_request(request, guard)
    except BaseException:
        if begun:
            conclude(failed=True)
        raise
    if begun:
        conclude()


# What scripts of tinygrad import from here
__getattr__ = lazily(
    __name__,
    {},
    dict.fromkeys(
        (
            *("CompiledRunner", "ExecItem", "compile_linear", "create_schedule", "get_kernel", "lower_schedule"),
            *("lower_schedule_item", "method_cache", "run_linear", "run_schedule"),
        ),
        "t.schedule() has the calls that compute a tensor, and t.realize() runs them",
    ),
)
