"""Realising tensors: their graphs are scheduled and run, and they become what they were computed to.

collect.py       what is asked for, and whom it concerns: a RealizeRequest, and nothing has changed
bindings.py      which of it is to be computed before the rest, where a variable has two values
protect.py       the others that need an old value: computed along, or given copies
transaction.py   plan, memory, launches; then commit, or back to what was
left.py          what is left where a launch failed in the middle
"""

from __future__ import annotations

from collections.abc import Sequence

from tinygraft.config import VIZ
from tinygraft.device.queues import begun
from tinygraft.engine.assigns import HasNode, LiveTensors, Nobody, With
from tinygraft.engine.capture import uncaptured
from tinygraft.engine.collect import ConflictingBindings, DrawFirst, collect, to_drop
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.launching import conclude
from tinygraft.engine.transaction import drop, run_request
from tinygraft.hooks.manager import here as hooks
from tinygraft.interrupt import Guard, guarded


def realize_tensors(tensors: Sequence[HasNode], live: LiveTensors | None = None) -> None:
    """Compute tensors and make each one its result. live are the tensors that somebody may still read.

    One thread at a time: a graph is shared, and so is the memory that it assigns to. Where it fails or is interrupted,
    tensors whose kernels have all run are realised; a pending write that did not happen is dropped, so that its tensor
    has its old value again; all others are as they were. A value that can no longer be computed says so when used.
    Where a variable has two values (bindings.py), what has the one is realised before what has the other.
    """
    with exclusive:
        if VIZ:
            from tinygraft.engine import viz

            viz.install()
        if not hooks.loaded:
            hooks.load()
        try:
            request = collect(tensors, live or Nobody())
        except DrawFirst as first:
            with uncaptured():
                realize_tensors(first.tensors, live)
            realize_tensors(tensors, live)
            return
        except ConflictingBindings as apart:
            everybody = With(live or Nobody(), tensors)
            try:
                realize_tensors(apart.first, everybody)
            except BaseException:
                drop(to_drop(tensors, live or Nobody()))
                raise
            realize_tensors(apart.rest, everybody)
            return
        if request is None:
            return
        try:
            if not request.assigns:  # nothing is written over: any of it can be done again
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
