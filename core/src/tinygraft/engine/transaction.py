"""A realisation as a transaction: planned, given its memory, run, and then committed or restored.

    run_request(request, guard)

Nothing changes before all kernels are compiled and all memory is allocated, that of copies of old values included. A
failure before the first store over a value leaves all memory as it was, and drops the pending write of a requested
tensor. From that store on Ctrl-C is delayed until all calls have run; where a launch fails, values that are wholly
written are committed, and after_failure.py decides which of the others still have a value.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tinygraft import events
from tinygraft.config import VALIDATE
from tinygraft.device.buffer import buffer_of
from tinygraft.device.pool import Allocation
from tinygraft.engine.after_failure import Aftermath, finish, touched, why
from tinygraft.engine.arena import free_temporaries
from tinygraft.engine.assigns import HasNode, LiveTensors, replaced_by
from tinygraft.engine.capture import note_pinned, open_captures
from tinygraft.engine.collect import RealizeRequest, collect
from tinygraft.engine.plan import BoundPlan, work_for
from tinygraft.engine.protect import Saved
from tinygraft.engine.rebind import read_of, rebind
from tinygraft.engine.record_results import record_results
from tinygraft.engine.run import Launch, Prepared, Progress, prepare, run_prepared, stored_before, writes
from tinygraft.engine.shortcut import note
from tinygraft.engine.tape import nodes_requiring_grad, record_deferred
from tinygraft.interrupt import Guard
from tinygraft.uop.held import HELD, buffers_of, in_shape, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.engine.validate import Checking


def run_request(request: RealizeRequest, guard: Guard) -> None:
    """Run a RealizeRequest: give its tensors their results as nodes, and put these into the graphs of other live ones.

    What backward needs is taped. `guard` is that of the realisation, and is set: with ASSIGNs in the request it delays
    signals from the first store over a value on, and stays sealed; without them it need not be entered. Raises what
    compiling, allocating and launching raise, and with VALIDATE=1 ValidationError, after the commit. After an error
    before the first store all memory is as it was, and a pending write of a requested tensor is dropped.
    """
    known = events.origins
    if known is None:
        _run_request(request, guard)
        return
    since = known.allocations
    try:
        work = _run_request(request, guard)
    finally:
        known.computing(())
    for node, home in request.homes.items():
        for buffer in map(buffer_of, buffers_of(work.memory[home])):
            if isinstance(buffer.block, Allocation):
                known.belongs(buffer.device, buffer.block.whole, node, since)


def _run_request(request: RealizeRequest, guard: Guard) -> BoundPlan:
    """Do what `run_request` says, and return the plan that has run."""
    outputs = list(request.homes.values())
    if not request.assigns and not open_captures():
        work = work_for(request.order, outputs)
        if request.walked is not None and work.plan is not None:
            note(request.walked, outputs, work.plan, work.devices, work.arguments)
        if len(work.calls) == 1 and not VALIDATE:  # no temporaries, and nothing to be restored after a failure
            call = work.calls[0]
            Launch(call.kernel, call.device, [buffer_of(node) for node in call.buffers], call.origins).run(work.values)
            if not _commit_alone(request, work):
                _commit(request, work, request.homes, {}, request.overwritten, None)
            return work
    else:
        try:
            work = work_for(request.order, outputs)
        except BaseException:
            guard.sealed = True  # a signal must not end the drop half-way
            drop(request)
            raise
        if (
            request.walked is not None
            and work.plan is not None
            and list(request.homes) == outputs == [request.order[-1]]
        ):
            note(request.walked, outputs, work.plan, work.devices, work.arguments)
        if request.pinned:
            here = set(request.order)
            note_pinned([tensor for tensor in request.pinned if tensor.uop in here])
    _run_work(request, work, guard)
    return work


def _run_work(request: RealizeRequest, work: BoundPlan, guard: Guard) -> None:
    """Allocate memory, copy old values, run and commit; after an error commit what is complete, restore the others.

    The error is raised then. Temporaries are freed in either case. With VALIDATE=1 raises ValidationError, after the
    commit, where a result is wrong. `work` is the plan of the request.
    """
    progress = Progress([False] * len(work.calls))
    prepared: Prepared | None = None
    saved: Saved | None = None
    try:
        guard.whole = True  # for a moment, in which the nodes of readers change
        results = {*work.existing, *(b for home in request.homes.values() for b in buffers_of(work.memory[home]))}
        prepared = prepare(work.calls, results, work.existing, work.placements)
        if request.overwritten:
            saved = Saved(request.readers, request.overwritten, request.taped, replaced_by(request.assigns))
            saved.make(request.homes)
        checking = _checking(request) if VALIDATE else None
        guard.whole = False
        guard.point()
        run_prepared(prepared, work.values, guard, progress)
        guard.sealed = True
    except BaseException as error:
        guard.sealed = True  # a signal must not end the following half-way
        if prepared is None:
            drop(request)
        else:
            _settle(request, work, prepared, progress, saved, error)
        raise
    finally:
        if prepared is not None:
            prepared.release()
    alone = saved is None and not request.assigns and not request.pinned and not open_captures()
    if not alone or not _commit_alone(request, work):
        _commit(request, work, request.homes, {}, request.overwritten, saved)
    if checking is not None:
        checking.compare(work)


def _checking(request: RealizeRequest) -> Checking | None:
    """Return what VALIDATE=1 compares the results with, computed from memory as it is now; None where that fails."""
    from tinygraft.engine.validate import prepare_check  # imports NumPy, which is needed only here

    return prepare_check(request.order, request.homes, request.computed)


def _commit_alone(request: RealizeRequest, work: BoundPlan) -> bool:
    """Commit one value that one tensor has and no other graph; return False, and do nothing, if it is more.

    Most small operations are like that, and `_commit` would have this result, in more time.
    """
    if len(request.requested) != 1 or request.co_realised or len(request.homes) != 1:
        return False
    tensor = request.requested[0]
    (node,) = request.homes
    shape = tensor.uop
    if tensor.requires_grad is False or (
        node is not shape and not (shape.op is Ops.RESHAPE and shape.src == (node,))  # as a sum without keepdim is
    ):
        return False
    for other in request.others:
        if other.uop.serial >= node.serial:
            return False
    memory = work.memory[node]
    if memory.op is not Ops.BUFFER:
        return False
    new = in_shape(memory, node.shape)
    if node.dtype.kind == "float":
        requiring = nodes_requiring_grad(request.others)
        if requiring and (node in requiring or shape in requiring):
            return False
        if tensor.requires_grad:
            requiring.add(node)
        if not record_deferred(node, memory, request.order, requiring):
            return False
        tensor.uop = new if node is shape else UOp(Ops.RESHAPE, node.dtype, (new,), shape.shape, shape.tag)
    else:
        tensor.uop = in_shape(memory, shape.shape)
    return True


def _commit(request: RealizeRequest, work: BoundPlan, homes: dict[UOp, UOp], more: dict[UOp, UOp],
            written: Collection[UOp], saved: Saved | None) -> dict[UOp, UOp]:  # fmt: skip
    """Put the results of `homes` into the graphs of all live tensors, and tape them.

    `more` are further nodes that are written, with what reads their memory. `written` are the BUFFERs that had a value
    before and were overwritten, `saved` has copies of their old values. Returns, for each node, what reads its memory.
    `work` is the plan that has run.
    """
    results = {node: read_of(node, work.memory[home]) for node, home in homes.items()}
    if more:
        results |= more
    first = min([node.serial for node in results], default=0)  # no graph whose root is older has one of them
    lazy = [t for t in request.others if t.uop.serial >= first and memory_base(t.uop).op not in HELD]
    others = [*request.others, *request.pinned] if request.pinned else request.others
    copies = {} if saved is None else saved.copies
    record_results(request.computed, lazy, others, request.live, results, request.order, written, copies)
    rebind(results, [*request.computed, *lazy])
    return results


def drop(request: RealizeRequest) -> None:
    """Drop the pending writes of requested tensors that have an old value; called where nothing has run."""
    if request.assigns:
        Aftermath(request, None, Progress([]), {}).rebind("", {})


def _settle(request: RealizeRequest, work: BoundPlan, prepared: Prepared, progress: Progress, saved: Saved | None,
            error: BaseException) -> None:  # fmt: skip
    """After a failed run commit what was wholly written, and give other tensors their old value or one that is lost.

    Runs those later calls that can still be run first. `error` is what ended the run; the caller raises it again.
    `work` is its plan, `progress` says how far it came, `saved` has the copies of old values, if any were made.
    """
    if progress.begun and isinstance(error, Exception):
        finish(request, prepared, progress, work.values)
    unwritten = {b for call, ran in zip(work.calls, progress.done, strict=True) if not ran for b in writes(call)}
    homes = {n: home for n, home in request.homes.items() if unwritten.isdisjoint(buffers_of(work.memory[home]))}
    if saved is not None:
        saved.read(homes) if touched(prepared, progress) else saved.undo()
    after = Aftermath(request, prepared, progress, homes if any(progress.done) else {})
    results = _commit(request, work, homes, after.assigned, after.touched, saved) if any(progress.done) else {}
    if request.assigns:
        after.rebind(why(prepared, progress, error), results)
        fresh = {id(buffer) for buffer in prepared.fresh}
        free_temporaries([buffer for b in unwritten if id(buffer := buffer_of(b)) in fresh])


def settle_alone(tensor: HasNode, live: LiveTensors, error: BaseException) -> None:
    """After a failed launch of the one call of a write give `tensor` its old value, or one that is lost.

    The write was a shortcut (write_again.py): its request and plan are made now. `error` is what ended the launch.
    """
    request = collect([tensor], live)
    assert request is not None, "a tensor with a pending write is to be realised"
    work = work_for(request.order, list(request.homes.values()))
    prepared = prepare(work.calls, set(work.existing), work.existing)
    progress = Progress([False], True, 0, {0} if stored_before(error) else set())
    _settle(request, work, prepared, progress, Saved([], ()), error)
