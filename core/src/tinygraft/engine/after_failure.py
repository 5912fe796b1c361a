"""After a launch has failed: which values are old, which are new, and which are lost.

    finish(...)            runs the later calls that do not depend on the launch that failed
    Aftermath(...)         decides on every tensor, before any gets its result
    aftermath.rebind(...)  gives those without a result their nodes

A requested tensor whose pending write has not happened has its old value again: the write is dropped, and graphs that
compute with what it would have written compute that in memory of its own. A tensor whose graph reads memory that has
been written over can no longer be computed; its node raises a DeviceError with the reason whenever it is used. So no
value is ever computed from a half-written state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tinygraft.device.buffer import buffer_of
from tinygraft.engine.assigns import HasNode, assigned_to, writes_memory
from tinygraft.engine.collect import RealizeRequest
from tinygraft.engine.run import Prepared, Progress, has_value, note_launch, stored_before, writes
from tinygraft.uop.held import HELD, PLAIN, buffers_of, memories
from tinygraft.uop.ops import Ops, PlaceholderArg
from tinygraft.uop.uop import UOp, rebuild, toposort


def finish(request: RealizeRequest, prepared: Prepared, progress: Progress, values: Mapping[str, int]) -> None:
    """Run, of the calls after the one that failed, those that need nothing of it and overwrite nothing.

    `values` are those of variables by name. `progress` is updated, and captures record what ran. Where some of the
    writes to a value have happened, to shards or one after another, the calls that do the others are run too, and the
    one that failed once more: the value would be lost. Errors are dropped; an interrupt ends it early. `request` and
    `prepared` are those of the failed run.
    """
    assert progress.failed is not None
    parts = _of_several_writes(request, prepared)
    unwritten: set[UOp] = set()  # BUFFERs that will not get their values
    for i in range(progress.failed, len(prepared.calls)):
        call, new = prepared.calls[i], touched(prepared, progress)
        begun = {buffer for buffer, value in parts.items() if value & new}
        completes = not begun.isdisjoint(writes(call))
        again = i == progress.failed and any(not begun.isdisjoint(writes(later)) for later in prepared.calls[i:])
        plain = i > progress.failed and not prepared.overwrites[i]
        if i not in progress.doubtful and (plain or completes or again) and unwritten.isdisjoint(call.buffers):
            try:
                prepared.launches[i].run(values)
            except BaseException as error:  # dropped: the caller raises the first error
                if stored_before(error):
                    progress.doubtful.add(i)
                if not isinstance(error, Exception):
                    return
            else:
                progress.done[i] = True
                note_launch(prepared, i, values)
                continue
        unwritten.update(writes(call))


def _of_several_writes(request: RealizeRequest, prepared: Prepared) -> dict[UOp, set[UOp]]:
    """Return the overwritten BUFFERs of values that several calls write, each with all BUFFERs of its value."""
    counts = Counter(buffer for call in prepared.calls for buffer in set(writes(call)) & prepared.over)
    found = {buffer: {buffer} for buffer, count in counts.items() if count > 1}
    for node in request.order:
        if node.op is Ops.MULTI:
            found |= {buffer: set(buffers_of(node)) for buffer in buffers_of(node) if buffer in prepared.over}
    return found


def touched(prepared: Prepared, progress: Progress) -> set[UOp]:
    """Return the BUFFERs that had a value and have, or may have, been written over."""
    begun = [call for i, call in enumerate(prepared.calls) if progress.done[i] or i in progress.doubtful]
    return {b for call in begun for b in writes(call)} & prepared.over


def why(prepared: Prepared, progress: Progress, error: BaseException) -> str:
    """Return which launch `error` ended, by number, name and device, as the begin of a sentence.

    Where none has failed, that `error` came between launches. `prepared` has the launches, `progress` which one has
    failed.
    """
    if progress.failed is None:
        return f"{type(error).__name__} came between launches"
    call = prepared.calls[progress.failed]
    name = "a copy" if call.kernel is None else call.kernel.name
    where = f"launch {progress.failed + 1} of {len(prepared.calls)} ({name} on {call.device})"
    return f"{where} was {ended_by(error)}"


def ended_by(error: BaseException) -> str:
    """Return what ended a run, for a sentence: the name of the error, and its first line where it has one."""
    text = str(error).partition("\n")[0]
    return f"ended by {type(error).__name__}{': ' * bool(text)}{text}"


# The ids of BUFFERs whose values are lost: a TinyJit that has captured one captures anew. A failure adds a few.
lost_memory: set[int] = set()


def lost(tensor: HasNode, because: str) -> UOp:
    """Return the node of a tensor whose value is lost: a PLACEHOLDER, which raises DeviceError where it is computed.

    `because` is the text of `why`. The memory that the tensor was, or would have been written to, is added to
    `lost_memory`.
    """
    node = tensor.uop
    memory = buffers_of(assigned_to(node)) if node.op is Ops.ASSIGN else memories(node)
    lost_memory.update([buffer.arg.uid for buffer in memory])
    file, line = tensor.made_at
    sentence = (
        f"the value of a tensor of shape {node.shape} and {node.dtype} is lost: {because}, when memory that the value "
        f"is in, or is computed from, had been written over\n  made at {file}:{line}\n"
        "  hint: make the tensor again; tensors that do not say so have their old or their new values"
    )
    arg = PlaceholderArg(UOp.next_buffer(), node.shape, "a run that failed", sentence)
    return UOp(Ops.PLACEHOLDER, node.dtype, () if node.device is None else (UOp.on(node.device),), arg)


@dataclass(frozen=True, slots=True)
class Torn:
    """The state of the values that a failed run overwrites, as ids of its BUFFERs.

    `lost` have unknown contents, `new` are wholly written, `old` are not written yet; `between` are written, and would
    have been written again: what is in them is lost unless the run is continued. `repeatable` says that the launch that
    failed, and those after it, may be run again: what it may have written already, no earlier launch has written.
    """

    lost: frozenset[int]
    new: frozenset[int]
    old: frozenset[int]
    between: frozenset[int]
    repeatable: bool


def forget_torn(torn: Torn, live: Sequence[HasNode], known: Iterable[int], because: str) -> None:
    """After a failed replay, give those of `live` that read memory that is neither old nor new the node of `lost`.

    Those over shards of which some are new and some are old are lost too. `known` are the ids of memory that later
    calls may read though no tensor has it, as that of a TinyJit from a pickle; what of it is lost is added to
    `lost_memory`. `because` is the begin of the error's sentence, as of `why`.
    """
    gone = torn.lost | torn.between
    lost_memory.update(gone.intersection(known))
    for tensor in live:
        mine = {buffer.arg.uid for node in toposort(tensor.uop) if node.op in HELD for buffer in buffers_of(node)}
        sharded = [{b.arg.uid for b in buffers_of(node)} for node in toposort(tensor.uop) if node.op is Ops.MULTI]
        mixed = any(shards & torn.new and shards & torn.old for shards in sharded)
        if mixed or not gone.isdisjoint(mine):
            tensor.uop = lost(tensor, because)


class Aftermath:
    """What becomes of the tensors of a RealizeRequest that have no result.

    `dropped` are those whose pending write is dropped, `rewritten` those whose graphs contain a dropped write, `lost`
    those that can no longer be computed. `homes` are the nodes whose memory is wholly written. `prepared` is None where
    nothing has run and no memory was allocated.
    """

    def __init__(self, request: RealizeRequest, prepared: Prepared | None, progress: Progress,
                 homes: Mapping[UOp, UOp]) -> None:  # fmt: skip
        self.order: Sequence[UOp] = request.order
        self.done: set[UOp] = set(homes)
        self.touched: set[UOp] = set()
        self.doubtful: set[UOp] = set()
        self.unwritten: set[UOp] = set()
        if prepared is not None:
            self.touched = touched(prepared, progress)
            self.doubtful = {b for i in progress.doubtful for b in writes(prepared.calls[i])}
            undone = [call for call, ran in zip(prepared.calls, progress.done, strict=True) if not ran]
            self.unwritten = {b for call in undone for b in writes(call)}
        self.over: set[UOp] | None = None if prepared is None else prepared.over
        self.assigned: dict[UOp, UOp] = self._assigned()
        self.done.update(self.assigned)
        self.dropped: list[tuple[HasNode, UOp]] = []
        self.writes: set[UOp] = set()  # the ASSIGNs of those
        self.rewritten: list[tuple[HasNode, UOp]] = []
        self.lost: list[HasNode] = []
        for tensor in request.requested:
            self._decide_requested(tensor)
        decided = {id(tensor) for tensor, _ in self.dropped} | {id(tensor) for tensor in self.lost}
        for tensor in (*request.computed, *request.others, *request.pinned):
            if id(tensor) not in decided:
                self._decide(tensor)

    def rebind(self, because: str, results: Mapping[UOp, UOp]) -> None:
        """Set the nodes of the tensors in `rewritten`, `lost` and `dropped`, as was decided.

        `because` is the text of `why`. `results` maps each node whose memory is wholly written to what reads it.
        """
        done = dict(results)
        for node in self.order if self.rewritten else ():
            if node in self.writes:
                done = rebuild(node.src, done)
                done[node] = _as_value(node, [done[source] for source in node.src])
        for tensor, node in self.rewritten:
            tensor.uop = rebuild((node,), done)[node]
        for tensor in self.lost:
            tensor.uop = lost(tensor, because)
        for tensor, node in self.dropped:
            tensor.uop = node

    def _assigned(self) -> dict[UOp, UOp]:
        """Return the ASSIGNs that are wholly written and were not requested by themselves, each with what reads it.

        Only those to memory that nothing else in the run assigns to independently.
        """
        if not self.touched:
            return {}
        last: dict[UOp, list[UOp]] = {}
        for node in self.order:
            if node.op is Ops.ASSIGN and writes_memory(node):
                root = assigned_to(node)
                following = last.setdefault(root, [])
                following[:] = [n for n in following if n is not _replaced(node)] + [node]
        return {
            nodes[0]: _old(nodes[0])
            for root, nodes in last.items()
            if len(nodes) == 1 and nodes[0] not in self.done and self.unwritten.isdisjoint(buffers_of(root))
            and self.touched.issuperset(buffers_of(root))
        }  # fmt: skip

    def _decide_requested(self, tensor: HasNode) -> None:
        """Drop the pending write of a requested tensor that has not happened, if its memory had a value before."""
        node = tensor.uop
        if node.op is not Ops.ASSIGN or node in self.done or not self._has_old(node):
            return
        self._drop(tensor)

    def _drop(self, tensor: HasNode) -> None:
        """Drop the pending write of a tensor, which has its old value again, or is lost where that is overwritten.

        It is added to `dropped` or to `lost`, and its ASSIGNs to `writes`; no node changes before `rebind`.
        """
        buffers = buffers_of(assigned_to(tensor.uop))
        mixed = not self.touched.isdisjoint(buffers) and not self.unwritten.isdisjoint(buffers)
        if mixed or not self.doubtful.isdisjoint(buffers):
            self.lost.append(tensor)
        else:
            self.dropped.append((tensor, _old(tensor.uop)))
        node = tensor.uop
        while node.op is Ops.ASSIGN or node.op in PLAIN:
            if node.op is Ops.ASSIGN:
                self.writes.add(node)
            node = node.src[0]

    def _decide(self, tensor: HasNode) -> None:
        """Decide what becomes of a tensor that is not requested, from what its graph still has to read.

        The walk ends at values that are wholly written; of a dropped write of a whole value only the new value is
        needed. Where it comes to memory that was written over, the tensor is lost, or, where it is itself a pending
        write, that is dropped. Where it comes to dropped writes only, `rebind` rebuilds the graph without them.
        """
        node = tensor.uop
        seen, stack, changes, gone = {node}, [node], False, False
        while stack:
            now = stack.pop()
            if now in self.done:
                continue
            gone |= now in self.touched
            sources = now.src
            if now in self.writes:
                changes = True
                sources = now.src[1:2] if len(now.src) == 2 else now.src
            fresh = [source for source in sources if source not in seen]
            seen.update(fresh)
            stack += fresh
        if gone and node.op is Ops.ASSIGN and node not in self.writes and self._has_old(node):
            self._drop(tensor)
        elif gone:
            self.lost.append(tensor)
        elif changes:
            self.rewritten.append((tensor, node))

    def _has_old(self, node: UOp) -> bool:
        """Return whether the memory that an assignment is to had a value before."""
        buffers = buffers_of(assigned_to(node))
        if self.over is None:
            return any(has_value(buffer_of(buffer)) for buffer in buffers)
        return any(buffer in self.over for buffer in buffers)


def _replaced(node: UOp) -> UOp:
    """Return what an ASSIGN replaces the value of, past plain reshapes."""
    node = node.src[0]
    while node.op in PLAIN:
        node = node.src[0]
    return node


def _old(node: UOp) -> UOp:
    """Return `node` without the ASSIGNs at its end: the first one's old value, under the PLAIN ops of `node`.

    What is upstream of any other op stays. Whether the memory still has that value is for the caller to know.
    """
    path = []
    while node.op is Ops.ASSIGN or node.op in PLAIN:
        if node.op is not Ops.ASSIGN:
            path.append(node)
        node = node.src[0]
    for step in reversed(path):
        node = UOp(step.op, step.dtype, (node, *step.src[1:]), step.arg, step.tag)
    return node


def _as_value(node: UOp, src: Sequence[UOp]) -> UOp:
    """Return the value of the ASSIGN `node` as a graph that writes only memory of its own.

    `src` are its sources, rebuilt. A write to all elements gives the new value; one to a view (three sources) copies
    all of the old value, `src[0]`, and assigns into that view of the copy.
    """
    if len(src) == 2:
        return UOp(Ops.CONTIGUOUS, node.dtype, (src[1],))
    own = UOp(Ops.CONTIGUOUS, node.dtype, (src[0],))
    return UOp(Ops.ASSIGN, node.dtype, (own, src[1], rebuild((src[2],), {src[0]: own})[src[2]]))
