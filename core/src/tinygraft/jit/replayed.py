"""A captured call under TinyJit, replayed with other arguments: its launches, its result, its effects on tensors."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tinygraft.device.buffer import Buffer, bind, buffer_of
from tinygraft.device.queues import begun
from tinygraft.engine import tape
from tinygraft.engine.after_failure import ended_by, forget_torn, lost_memory
from tinygraft.engine.assigns import Nodes
from tinygraft.engine.capture import Capture, CapturedMemory, open_captures, uncaptured
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.launching import conclude
from tinygraft.engine.protect import before_replay, copied
from tinygraft.interrupt import Guard, guarded
from tinygraft.jit.arguments import Arguments
from tinygraft.jit.filled import Gradients, GradsBefore, GradStates, LostGrad, is_over
from tinygraft.jit.outside import OutsideTensors
from tinygraft.jit.references import finds
from tinygraft.jit.rehearse import rehearse
from tinygraft.jit.repeats import without_repeats
from tinygraft.jit.replay import At, BufferType, Replay
from tinygraft.jit.results import Aliases, CapturedTensor, aliases_in, base_of, itself, lender_of
from tinygraft.jit.trace import RecordedCalls, Trace
from tinygraft.tensor.nested import mapped, tensors_in
from tinygraft.tensor.primitives import size_checks
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import LIVE, TouchedTensors, live_holders, live_tensors
from tinygraft.tensor.state.made_at import here
from tinygraft.tensor.state.settled import unsettle
from tinygraft.tensor.state.storage import not_following
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.uop import UOp


class ReplayedTrace:
    """A trace that is replayed: launches on the buffers of a call, and the result with its tensors as rows."""

    outside_tensors: OutsideTensors
    calls: RecordedCalls
    unchanging: list[UOp]
    outside: frozenset[int]
    names: list[str]
    values: dict[str, int]
    grads: Gradients
    filled: frozenset[Buffer]
    followers: WeakIds
    grad_states: GradStates
    added: list[weakref.ref[TensorBase]]
    written_outside: frozenset[int]
    claims: list[size_checks.Claim]
    reads: list[weakref.ref[UOp]]
    written: list[weakref.ref[UOp]]
    result: Any
    views: list[Aliases]
    taped_outside: list[tuple[weakref.ref[UOp], bool]]
    returned_grads: list[tuple[weakref.ref[TensorBase], int]]

    def __init__(self, trace: Trace, calls: RecordedCalls, arguments: Arguments, result: Any,
                 claims: Sequence[size_checks.Claim], before: GradsBefore, touched: TouchedTensors,
                 capture: Capture) -> None:  # fmt: skip
        """Prepare the replay of the call of `trace`, with its `arguments` and `result`.

        `calls` is what the compared calls launched, `claims` are conditions on symbolic sizes that each replay checks,
        `before` has the grads before the call, and `touched` the tensors to which it gave grads or flags. `capture`
        says which tensors existed before.
        """
        existed = capture.existed
        self.calls, self.values, self.claims = calls, trace.values, list(claims)
        roles, written = trace.roles, {uid for launch in trace.launches for uid in launch.written()}
        self.outside = frozenset(uid for uid, (role, _) in roles.items() if role == "keep")
        self.assigned: list[int] = [roles[uid][1] for uid in written if roles[uid][0] == "in"]
        results = dict.fromkeys(node for t in tensors_in(result) for node in buffers_of(t.uop.base))
        made = [node for node in results if roles.get(node.arg.uid, ("", 0))[0] == "made"]
        changing = [*arguments.buffers, *made]
        self.made: list[BufferType] = [_form(trace.memory[node.arg.uid]) for node in made]
        self.taped_results: list[tuple[int, bool]] = _taped(tensors_in(result), written)
        self.reads = [trace.nodes[uid] for uid in sorted(self.outside) if uid in trace.nodes]
        self.unchanging = [node for node in results if node not in changing]  # memory from outside in the result
        outside = trace.outside(result)
        nodes = [tensor.uop for tensor in tensors_in(result)]
        self.outside_tensors = OutsideTensors.of(capture, outside, nodes, touched.flags)
        self.grad_states = before.states(touched.grads, outside)
        self.added = self.grad_states.written(written)
        indices = {node: index for index, node in enumerate([*changing, *self.unchanging])}
        bases = {id(t): base_of(t, arguments.tensors, existed) for t in tensors_in(result)}
        lenders = {id(t): lender_of(t, arguments.tensors, existed) for t in tensors_in(result)}
        same = {id(t): itself(t, arguments.tensors, existed) for t in tensors_in(result)}
        captured = {key: CapturedTensor(t, indices, bases[key], lenders[key], same[key])
                    for t in tensors_in(result) for key in (id(t),)}  # fmt: skip
        self.result = mapped(result, TensorBase, lambda tensor: captured[id(tensor)])
        self.views = aliases_in(tensors_in(result), bases)
        uids = [node.arg.uid for node in changing]
        fixed = {uid: buffer for uid, (role, _) in roles.items() if uid not in uids
                 and (buffer := _fixed(trace, uid, role)) is not None}  # fmt: skip
        retained = {uid for uid in fixed if roles[uid][0] == "made" and trace.memory[uid].data is None}
        self.written_outside = frozenset(written & self.outside)
        over = sorted({*self.written_outside, *retained})
        self.written = [trace.nodes[uid] for uid in over if uid in trace.nodes]
        forms = {uid: _form(memory) for uid, memory in trace.memory.items()}
        own = {uid for uid, (role, _) in roles.items() if role == "made" and trace.memory[uid].data is None}
        sizes = {uid: size * dtype.itemsize for uid, (_, size, dtype) in forms.items()}
        free = own - {*uids, *fixed}
        needed = without_repeats(trace.launches, trace.realised, sizes, own, free, own.intersection(uids))
        self.names = ["copy" if launch.kernel is None else launch.kernel.name for launch in needed]
        self.launches: Replay = Replay(needed, forms, fixed, retained, uids)
        self.filled = frozenset(fixed[uid] for uid in retained)
        self.followers = WeakIds()  # tensors over memory that is written, which get the values that a replay writes
        overwritten = {node for ref in self.written if (node := ref()) is not None}
        values = {
            number for number, base in bases.items() if base is None
        }  # of the result: a replay must not change them
        for tensor in live_tensors() if overwritten else ():
            whole = tensor.uop if tensor._storage is None else tensor._storage.uop  # its base may be gone
            if id(tensor) not in values and not overwritten.isdisjoint(_plain_memory(whole)):
                self.followers.add(tensor)
        self.taped_arguments: list[tuple[int, bool]] = _taped(arguments.tensors, written)
        live = live_tensors() if overwritten else []
        over_it = [t for t in live if not overwritten.isdisjoint(buffers_of(t.uop.base))]
        memory = {over_it[i].uop.base: tracked for i, tracked in _taped(over_it, written)}
        self.taped_outside = [(weakref.ref(node), tracked) for node, tracked in memory.items()]
        self.clean: Nodes = weakref.WeakSet()  # nodes of lazy tensors that read nothing that a replay writes
        filled = [t for t in before.filled() if t.grad is not None and is_over(t.grad, retained)]
        self.grads = Gradients(filled)
        numbers = {id(t): number for number, t in enumerate(tensors_in(result))}
        self.returned_grads = [(weakref.ref(t), numbers[id(t.grad)]) for t in before.filled() if id(t.grad) in numbers]

    @property
    def is_lost(self) -> bool:
        """Return whether a value from outside, or one left there, was lost in a failure: its tensor is elsewhere."""
        return bool(lost_memory) and not all(
            lost_memory.isdisjoint(mine) for mine in (self.outside, self.launches.retained, self.launches.aliases)
        )

    def is_ambiguous(self, function: Any) -> bool:
        """Return whether `function` can reach by itself what was the same in all calls: memory, values of variables."""
        return finds(function, {self.calls.memory[index] for index in self.calls.stays}, self.calls.same)

    def reaches(self, arguments: Arguments) -> bool:
        """Return whether an argument is memory that the function also reaches by itself.

        A replay would be wrong for these: its launches tell arguments from memory from outside. So it is with an
        argument that the function assigns to, where its memory is also in the result from outside or has a value that
        an earlier call left outside its result.
        """
        if self.outside and not self.outside.isdisjoint([node.arg.uid for node in arguments.buffers]):
            return True
        if arguments.wholes and not self.written_outside.isdisjoint(arguments.wholes):
            return True  # a view of what is written, by a copy of its elements
        if not self.assigned:
            return False
        assigned = [arguments.buffers[number] for number in self.assigned]
        return any(node in self.unchanging or buffer_of(node) in self.filled for node in assigned)

    def replay(self, arguments: Arguments) -> Any:
        """Launch everything with `arguments`. Returns the result of the call, in memory of its own.

        But views of arguments, and what the function returns of memory from outside, are over that memory again.
        Tensors that the function assigns to, and grads that it sets, get their new values; other live tensors keep
        theirs.

        Raises ShapeError or NumberOutOfRange, before any launch, where a claim about symbolic sizes does not hold,
        and what a launch raises. Where values are overwritten, signals wait until all of the state is that after
        the call, and launches that fail may be tried again; values that stay half written are lost (`_run_over`).
        """
        values = self.values | arguments.values if arguments.values else self.values
        if self.claims:
            for claim in self.claims:
                claim.check(values)
            size_checks.note(self.claims)
        overwritten = {node for ref in self.written if (node := ref()) is not None} if self.written else set[UOp]()
        if self.assigned:
            overwritten |= {arguments.buffers[number] for number in self.assigned}
        lost, kept = self.grads.lost()
        with exclusive:
            try:
                if not overwritten and not lost:
                    result = self._replay(arguments, values, overwritten, lost, kept, Guard())
                else:
                    with guarded(whole=True) as guard:
                        result = self._replay(arguments, values, overwritten, lost, kept, guard)
            except BaseException:
                if begun:
                    conclude(failed=True)
                raise
            if begun:
                conclude()
            return result

    def _replay(self, arguments: Arguments, values: dict[str, int], overwritten: set[UOp], lost: Sequence[LostGrad],
                kept: Sequence[LostGrad], guard: Guard) -> Any:  # fmt: skip
        """Launch everything, set the grads in `lost` and `kept`, and update the tape. Returns the result of the call.

        `values` are those of variables, `overwritten` the BUFFERs whose values the launches overwrite.
        """
        buffers = arguments.buffers
        if self.filled:  # an argument that an earlier call left outside is read while its memory is written
            buffers = [copied(node) if buffer_of(node) in self.filled else node for node in buffers]
        buffers = [*buffers, *[UOp.buffer(*form) for form in self.made]]
        if overwritten:
            if self.assigned or lost:  # the overwritten memory is not that of the call before
                self.clean.clear()
            dropped = self.grads.still_live(lost) if lost else set[UOp]()
            self._run_over(buffers, values, overwritten, dropped, self._follows(arguments), guard)
        else:
            self.launches.run(buffers, values, At())
        if lost:
            again = self.grads.restore(lost, self.launches.fixed, values)
            self.written = [ref for ref in self.written if ref() is not None] + [weakref.ref(node) for node in again]
            self.launches.note_aliases({node.arg.uid: uid for node, uid in again.items()})
            for grad in lost:
                if (tensor := grad.tensor()) is not None and tensor.grad is not None:
                    self.followers.add(tensor.grad)
            self.clean.clear()
        for ref in self.added:
            if (added := ref()) is not None:
                unsettle(added)
        for grad in kept:
            if (tensor := grad.tensor()) is not None:
                tensor.grad = grad.grad
        if self.grad_states.dropped:
            self.grad_states.drop()
        if open_captures():
            self.outside_tensors.note()
            self.grad_states.note()
        result, tensors = self._remade(arguments, [*buffers, *self.unchanging], values)
        for aliases in self.views:
            aliases.link(tensors)
        for ref, number in self.returned_grads:
            if (tensor := ref()) is not None:
                tensor.grad = tensors[number]
        if self.taped_results or self.taped_arguments or self.taped_outside:
            self._note_taped(arguments, tensors)
        return result

    def _remade(
        self, arguments: Arguments, memory: Sequence[UOp], values: dict[str, int]
    ) -> tuple[Any, list[TensorBase]]:
        """Return the result over `memory`, and its tensors in order; a tensor that is in it twice is one object.

        `memory` has BUFFERs by their indices in a CapturedTensor: of the arguments, made by the call, from outside. A
        view of an argument becomes one of the same one in `arguments`. `here` counts stack frames, so this has to be
        called at the same depth everywhere.
        """
        made = here(above=4)  # two methods of TinyJit and two of this class are between this and the user's line
        if type(self.result) is CapturedTensor:
            tensor = self.result.alias(arguments.tensors, memory, values, made)
            return tensor, [tensor]
        new: dict[int, TensorBase] = {}

        def remade(captured: CapturedTensor) -> TensorBase:
            if id(captured) not in new:
                new[id(captured)] = captured.alias(arguments.tensors, memory, values, made)
            return new[id(captured)]

        result = mapped(self.result, CapturedTensor, remade)
        return result, tensors_in(result)

    def _note_taped(self, arguments: Arguments, tensors: Sequence[TensorBase]) -> None:
        """Record on the tape which memory has a new value without a graph; `tensors` are those of the result.

        That is the memory whose values were taped in the captured call.
        """
        found = [(tensors[i].uop.base, tracked) for i, tracked in self.taped_results]
        if self.taped_arguments:
            found += [(arguments.tensors[i].uop.base, tracked) for i, tracked in self.taped_arguments]
        if self.taped_outside:
            found += [(node, tracked) for ref, tracked in self.taped_outside if (node := ref()) is not None]
        tape.note_replayed(found, [*self.reads, *[weakref.ref(node) for node in arguments.buffers]])

    def _follows(self, arguments: Arguments) -> Callable[[TensorBase], bool]:
        """Return a predicate: whether a tensor over overwritten memory is one that the function assigns to.

        Such a tensor is an argument or one of `followers`, and gets the new value.
        """
        mine, refs = {id(tensor) for tensor in arguments.tensors}, self.followers.refs

        def follows(tensor: TensorBase) -> bool:  # each replay asks it of all that is written
            key = id(tensor)
            return ((ref := refs.get(key)) is not None and ref() is tensor) or key in mine

        return follows

    def _run_over(self, nodes: Sequence[UOp], values: dict[str, int], overwritten: set[UOp], dropped: set[UOp],
                  follows: Callable[[TensorBase], bool], guard: Guard) -> None:  # fmt: skip
        """Launch everything on `nodes`, where values are overwritten.

        `dropped` are the BUFFERs of lost grads that other tensors still have, `follows` says which tensors get the new
        values. A launch that fails, and those after it, are tried a second time, so that all of the state is that after
        the call; the error is raised all the same. Where it fails again, values that are wholly written are new, those
        not begun are old, and all others are lost.
        """
        for node in nodes[len(nodes) - len(self.made) :]:
            buffer_of(node).allocate()
        others = not_following(LIVE.near(overwritten | dropped), overwritten - dropped, follows)
        before_replay(overwritten, dropped, others, self.clean)
        at = At()
        try:
            self.launches.run(nodes, values, at)
        except BaseException as error:
            torn, again = self.launches.torn(nodes, at, error), error
            begun = torn.lost or any(node.arg.uid in torn.new | torn.between for node in overwritten)
            if begun and isinstance(error, Exception) and torn.repeatable:
                try:
                    self.launches.run(nodes, values, at)
                except BaseException as other:
                    torn, again = self.launches.torn(nodes, at, other), other
                else:
                    raise
            guard.sealed = True
            known = self.launches.aliases.keys()
            forget_torn(torn, live_holders(), known, f"a replay was {ended_by(again)}")
            raise error from None
        finally:
            guard.sealed = True  # a signal must not come between the launches and the tensors that get their results

    def rehearse(self, arguments: Arguments, name: str) -> None:
        """Replay for these arguments, compare that with the launches one by one, and restore all memory.

        Signals wait until that is done. Raises ValidationError where the two differ; `name` is that of the function.
        """
        with exclusive, guarded(whole=True), uncaptured():
            buffers = [copied(node) if buffer_of(node) in self.filled else node for node in arguments.buffers]
            made = [UOp.buffer(*form) for form in self.made]
            rehearse(self.launches, [*buffers, *made], self.values | arguments.values, name)

    # Pickling

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs; memory from outside is included as data."""
        fixed = self.launches.fixed
        written = {node.arg.uid for ref in self.written if (node := ref()) is not None}
        unchanging = [(node.arg.uid, (node.device, node.arg.size, node.dtype), node.arg.uid in written,
                       b"" if node.arg.uid in fixed else _bytes(node)) for node in self.unchanging]  # fmt: skip
        names = ("names", "values", "claims", "assigned", "made", "taped_results", "taped_arguments", "views", "result",
                 "launches")  # fmt: skip
        return {"unchanging": unchanging} | {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        unchanging, self.grads, self.filled = state.pop("unchanging"), Gradients(), frozenset()
        self.clean, self.reads, self.followers, self.taped_outside = weakref.WeakSet(), [], WeakIds(), []
        self.outside_tensors = OutsideTensors()
        self.calls = RecordedCalls([], [], {}, frozenset())  # there is no function to call and compare
        self.grad_states, self.written_outside, self.returned_grads = GradStates(), frozenset(), []
        self.added = []
        for name, value in state.items():
            setattr(self, name, value)
        self.unchanging = [UOp.buffer(*form) for _, form, _, _ in unchanging]
        outside = set()
        self.written = []
        for node, (uid, _, written, data) in zip(self.unchanging, unchanging, strict=True):
            if uid in self.launches.fixed:
                bind(node, self.launches.fixed[uid])
                outside.add(node.arg.uid)
                self.launches.note_aliases({node.arg.uid: uid})
            else:
                buffer_of(node).copy_in(memoryview(data))
            if written:
                self.written.append(weakref.ref(node))
        self.outside = frozenset(outside)


class WeakIds:
    """Tensors by identity, weakly: == of tensors is a tensor."""

    def __init__(self) -> None:
        self.refs: dict[int, weakref.ref[TensorBase]] = {}

    def add(self, tensor: TensorBase) -> None:
        """Add a tensor."""
        self.refs[id(tensor)] = weakref.ref(tensor)

    def __contains__(self, tensor: TensorBase) -> bool:
        ref = self.refs.get(id(tensor))
        return ref is not None and ref() is tensor


def _plain_memory(node: UOp) -> tuple[UOp, ...]:
    """Return the BUFFERs of a tensor that is the whole of its memory; none for any other."""
    base = memory_base(node)
    return buffers_of(base) if base.op in HELD else ()


def _taped(tensors: Sequence[TensorBase], written: AbstractSet[int]) -> list[tuple[int, bool]]:
    """Return which of `tensors`, over BUFFERs of `written`, have a value with an entry on the tape.

    Each has its number among `tensors`, and whether its value is tracked.
    """
    found = []
    for number, tensor in enumerate(tensors):
        memory = tensor.uop.base
        if not written.isdisjoint([node.arg.uid for node in buffers_of(memory)]) and (entry := tape.entry_of(memory)):
            found.append((number, entry.tracked))
    return found


def _bytes(node: UOp) -> bytes:
    """Return a copy of the bytes of a BUFFER."""
    buffer = buffer_of(node)
    return buffer.copy_out(memoryview(bytearray(buffer.nbytes))).tobytes()


def _form(memory: CapturedMemory) -> BufferType:
    """Return the form of captured memory, as `Replay.forms` has it."""
    return memory.device, memory.size, memory.dtype


def _fixed(trace: Trace, uid: int, role: str) -> Any:
    """Return the buffer that an id stands for in every replay; None for one that changes or is temporary.

    It is memory from outside, has data from Python, or a value that a live tensor outside of the result has.
    """
    memory = trace.memory[uid]
    node: weakref.ref[UOp] | None = trace.nodes.get(uid)
    if role == "keep" or memory.data is not None or (node is not None and node() is not None):
        return memory.data or memory.buffer()
    return None
