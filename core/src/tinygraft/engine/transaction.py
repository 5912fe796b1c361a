"""A realisation as a transaction: planned, given its memory, run, and then committed or rolled back.

    run_request(request, guard)

Nothing changes before all kernels are compiled and all memory is taken, that of copies of old values included. What
fails before the first store over a value leaves everything as it was. From that store on Ctrl-C waits until all has
run; where a launch fails, what is wholly written is committed, and left.py finds out what of the rest is still there.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from tinygraft.config import VALIDATE
from tinygraft.device.buffer import buffer_of
from tinygraft.engine.arena import give_back
from tinygraft.engine.assigns import HasNode, replaced_by
from tinygraft.engine.capture import open_captures
from tinygraft.engine.collect import RealizeRequest
from tinygraft.engine.left import Left, finish, touched, why
from tinygraft.engine.plan import BoundPlan, work_for
from tinygraft.engine.protect import Saved
from tinygraft.engine.remember import remember
from tinygraft.engine.run import Launch, Prepared, Progress, prepare, run_prepared, writes
from tinygraft.engine.tape import note_rebuilt, record_later
from tinygraft.interrupt import Guard
from tinygraft.uop.held import HELD, buffers_of, in_shape, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild

if TYPE_CHECKING:
    from tinygraft.engine.validate import Checking


def run_request(request: RealizeRequest, guard: Guard) -> None:
    """Compute what a RealizeRequest is about, and give its tensors their results. Raises what any part of it raises."""
    outputs = list(request.homes.values())
    if not request.assigns and not open_captures():
        work = work_for(request.order, outputs)
        if len(work.calls) == 1 and not VALIDATE:  # nothing in between, and nothing that could not be done again
            call = work.calls[0]
            Launch(call.kernel, call.device, [buffer_of(node) for node in call.buffers]).run(work.values)
            if not _commit_alone(request, work):
                _commit(request, work, request.homes, {}, request.overwritten, None)
            return
    else:
        try:
            work = work_for(request.order, outputs)
        except BaseException:
            guard.sealed = True
            drop(request)
            raise
    _run_work(request, work, guard)


def _run_work(request: RealizeRequest, work: BoundPlan, guard: Guard) -> None:
    """Take memory, copy old values, run and commit; or roll back."""
    progress = Progress([False] * len(work.calls))
    prepared: Prepared | None = None
    saved: Saved | None = None
    try:
        guard.whole = True  # readers change: a moment
        kept = {*work.existing, *(b for home in request.homes.values() for b in buffers_of(work.memory[home]))}
        prepared = prepare(work.calls, kept)
        if request.overwritten:
            saved = Saved(request.readers, request.overwritten, request.taped, replaced_by(request.order))
            saved.make(request.homes)
        checking = _checking(request) if VALIDATE else None
        guard.whole = False
        guard.point()
        run_prepared(prepared, work.values, guard, progress)
        guard.sealed = True
    except BaseException as error:
        guard.sealed = True  # what has run becomes what its tensors are
        if prepared is None:
            drop(request)
        else:
            _settle(request, work, prepared, progress, saved, error)
        raise
    finally:
        if prepared is not None:
            prepared.release()
    _commit(request, work, request.homes, {}, request.overwritten, saved)
    if checking is not None:
        checking.compare(work)


def _checking(request: RealizeRequest) -> Checking | None:
    """What VALIDATE=1 compares the results with, from memory as it is now."""
    from tinygraft.engine.validate import before  # NumPy is loaded only here

    return before(request.order, request.homes, request.computed)


def _commit_alone(request: RealizeRequest, work: BoundPlan) -> bool:
    """Commit one value that one tensor has and no other graph, where nobody asks for a gradient; False if it is more.

    Most small operations are that: what `_commit` does comes down to this.
    """
    if len(request.asked) != 1 or request.along or len(request.homes) != 1:
        return False
    tensor = request.asked[0]
    node = tensor.uop
    if node not in request.homes or tensor.requires_grad is not None:
        return False
    for other in request.others:
        if other.requires_grad or other.uop.serial >= node.serial:
            return False
    memory = work.memory[node]
    if memory.op is not Ops.BUFFER or (node.dtype.kind == "float" and not record_later(node, memory, request.order)):
        return False
    tensor.uop = in_shape(memory, node.shape)
    return True


def _commit(request: RealizeRequest, work: BoundPlan, homes: dict[UOp, UOp], more: dict[UOp, UOp],
            written: Collection[UOp], saved: Saved | None) -> dict[UOp, UOp]:  # fmt: skip
    """Let all live tensors have the results of homes, and more; for each node what reads its memory.

    written are the BUFFERs that had a value before.
    """
    held = {node: _held(node, work.memory[home]) for node, home in homes.items()}
    if more:
        held |= more
    first = min([node.serial for node in held], default=0)  # no graph whose root is older has one of them
    lazy = [t for t in request.others if t.uop.serial >= first and memory_base(t.uop).op not in HELD]
    others = [*request.others, *request.pinned] if request.pinned else request.others
    copies = {} if saved is None else saved.copies
    remember(request.computed, lazy, others, request.live, held, request.order, written, copies)
    _rebind(held, [*request.computed, *lazy])
    return held


def drop(request: RealizeRequest) -> None:
    """Nothing has run: the pending writes of tensors that were asked for are dropped where there is an old value."""
    if request.assigns:
        Left(request, None, Progress([]), {}).rebind("", {})


def _settle(request: RealizeRequest, work: BoundPlan, prepared: Prepared, progress: Progress, saved: Saved | None,
            error: BaseException) -> None:  # fmt: skip
    """Commit what was wholly written, and give each other tensor its old value, or a node that says that it is lost."""
    if progress.begun and isinstance(error, Exception):
        finish(request, prepared, progress, work.values)
    unwritten = {b for call, ran in zip(work.calls, progress.done, strict=True) if not ran for b in writes(call)}
    homes = {n: home for n, home in request.homes.items() if unwritten.isdisjoint(buffers_of(work.memory[home]))}
    if saved is not None:
        saved.read(homes) if touched(prepared, progress) else saved.undo()
    left = Left(request, prepared, progress, homes if any(progress.done) else {})
    held = _commit(request, work, homes, left.there, left.touched, saved) if any(progress.done) else {}
    if request.assigns:
        left.rebind(why(prepared, progress, error), held)
        fresh = {id(buffer) for buffer in prepared.fresh}
        give_back([buffer for b in unwritten if id(buffer := buffer_of(b)) in fresh])


def _held(node: UOp, memory: UOp) -> UOp:
    """The node that reads a result from its memory."""
    return in_shape(memory, node.shape) if memory.op is Ops.BUFFER else memory


def _rebind(swap: dict[UOp, UOp], tensors: Sequence[HasNode]) -> None:
    """Put results in the place of the nodes they are the values of, in the graphs of tensors.

    Shapes on the way to memory are left out, but not where a gradient may be asked for at one of them.
    """
    nodes = [tensor.uop for tensor in tensors]
    done = swap
    if not all(map(swap.__contains__, nodes)):
        done = rebuild(nodes, swap)
        note_rebuilt(done)
    for tensor in tensors:
        new = base = done[tensor.uop]
        while base.op is Ops.RESHAPE:  # a DETACH stays: what is made of this tensor later has no gradient beyond it
            base = base.src[0]
        asked = tensor.requires_grad is not False and new.dtype.kind == "float"
        tensor.uop = new if new is base or base.op is not Ops.BUFFER or asked else _held(new, base)
