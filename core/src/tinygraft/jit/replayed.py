"""A call under TinyJit done again with other arguments: its launches, its result, and what it leaves behind."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from tinygraft.device.buffer import bind, buffer_of
from tinygraft.device.queues import begun
from tinygraft.engine import tape
from tinygraft.engine.after_failure import ended_by, forget_torn
from tinygraft.engine.assigns import Nodes
from tinygraft.engine.capture import CapturedMemory, uncaptured
from tinygraft.engine.exclusive import exclusive
from tinygraft.engine.launching import conclude
from tinygraft.engine.protect import before_replay, copied
from tinygraft.interrupt import Guard, guarded
from tinygraft.jit.arguments import Arguments
from tinygraft.jit.filled import Gradients, LostGrad, is_made_of
from tinygraft.jit.rehearse import rehearse
from tinygraft.jit.replay import At, BufferType, Replay
from tinygraft.jit.results import Held, aliases_in, home_of, lender_of
from tinygraft.jit.trace import Met, Trace
from tinygraft.tensor.nested import mapped, tensors_in
from tinygraft.tensor.primitives import parts
from tinygraft.tensor.primitives.base import TensorBase, here
from tinygraft.tensor.state.live import LIVE, live_holders, live_tensors
from tinygraft.tensor.state.storage import not_following
from tinygraft.uop.held import HELD, buffers_of, memory_base
from tinygraft.uop.uop import UOp


class ReplayedTrace:
    """A trace that is replayed: launches on the buffers of a call, and the result with its tensors taken out."""

    def __init__(self, trace: Trace, met: Met, arguments: Arguments, result: Any, taken: Sequence[parts.Claim],
                 filled: Sequence[TensorBase], was_there: Callable[[object], bool]) -> None:  # fmt: skip
        """met is what the compared calls launched, taken is what a replay has to check about symbolic sizes,
        filled tensors that the call gave a grad.

        was_there tells which tensors there were before the call.
        """
        self.met, self.names, self.values, self.parts = met, trace.names(), trace.values, list(taken)
        roles, written = trace.roles, {uid for launch in trace.launches for uid in launch.written()}
        self.outside = frozenset(uid for uid, (role, _) in roles.items() if role == "keep")
        self.assigned = [roles[uid][1] for uid in written if roles[uid][0] == "in"]
        results = dict.fromkeys(node for t in tensors_in(result) for node in buffers_of(t.uop.base))
        made = [node for node in results if roles.get(node.arg.uid, ("", 0))[0] == "made"]
        changing = [*arguments.buffers, *made]
        self.made: list[BufferType] = [_form(trace.memory[node.arg.uid]) for node in made]
        self.taped = _taped(tensors_in(result), written)
        self.reads = [trace.nodes[uid] for uid in sorted(self.outside) if uid in trace.nodes]
        self.kept = [node for node in results if node not in changing]
        numbers = {node: number for number, node in enumerate([*changing, *self.kept])}
        homes = {id(t): home_of(t, arguments.tensors, was_there) for t in tensors_in(result)}
        lenders = {id(t): lender_of(t, arguments.tensors, was_there) for t in tensors_in(result)}
        given = {id(t): Held(t, numbers, homes[id(t)], lenders[id(t)]) for t in tensors_in(result)}
        self.result = mapped(result, TensorBase, lambda tensor: given[id(tensor)])
        self.views = aliases_in(tensors_in(result), homes)
        uids = [node.arg.uid for node in changing]
        fixed = {uid: buffer for uid, (role, _) in roles.items() if uid not in uids
                 and (buffer := _fixed(trace, uid, role)) is not None}  # fmt: skip
        held = {uid for uid in fixed if roles[uid][0] == "made" and trace.memory[uid].data is None}
        self.written = [trace.nodes[uid] for uid in sorted({*(written & self.outside), *held}) if uid in trace.nodes]
        forms = {uid: _form(memory) for uid, memory in trace.memory.items()}
        self.launches = Replay(trace.launches, forms, fixed, held, uids)
        self.filled = frozenset(fixed[uid] for uid in held)
        self.known = WeakIds()  # the tensors over memory that is written, which have what a replay writes
        overwritten = {node for ref in self.written if (node := ref()) is not None}
        values = {number for number, home in homes.items() if home is None}  # of the result: they stay what they are
        for tensor in live_tensors() if overwritten else ():
            if id(tensor) not in values and not overwritten.isdisjoint(_plain_memory(tensor.uop)):
                self.known.add(tensor)
        self.given = _taped(arguments.tensors, written)
        over = [t for t in live_tensors() if not overwritten.isdisjoint(buffers_of(t.uop.base))] if overwritten else []
        memory = {over[i].uop.base: asks for i, asks in _taped(over, written)}
        self.left = [(weakref.ref(node), asks) for node, asks in memory.items()]
        self.clean: Nodes = weakref.WeakSet()  # nodes of lazy tensors that read nothing that a replay writes
        self.grads = Gradients([t for t in filled if t.grad is not None and is_made_of(t.grad, held)])

    def reaches(self, arguments: Arguments) -> bool:
        """Whether an argument is memory that the function also reaches by itself, or assigns to and reads or gives back
        as that."""
        if self.outside and not self.outside.isdisjoint([node.arg.uid for node in arguments.buffers]):
            return True
        if not self.assigned:
            return False
        assigned = [arguments.buffers[number] for number in self.assigned]
        return any(node in self.kept or buffer_of(node) in self.filled for node in assigned)

    def replay(self, arguments: Arguments) -> Any:
        """Launch everything with other arguments; the result of the call, in memory of its own.

        Where values are written over, signals wait until all of the state is that after the call.
        """
        values = self.values | arguments.values if arguments.values else self.values
        if self.parts:
            for part in self.parts:
                part.check(values)
            parts.note(self.parts)
        overwritten = {node for ref in self.written if (node := ref()) is not None} if self.written else set[UOp]()
        if self.assigned:
            overwritten |= {arguments.buffers[number] for number in self.assigned}
        lost = self.grads.lost()
        with exclusive:
            try:
                if not overwritten and not lost:
                    result = self._replay(arguments, values, overwritten, lost, Guard())
                else:
                    with guarded(whole=True) as guard:
                        result = self._replay(arguments, values, overwritten, lost, guard)
            except BaseException:
                if begun:
                    conclude(failed=True)
                raise
            if begun:
                conclude()
            return result

    def _replay(self, arguments: Arguments, values: dict[str, int], overwritten: set[UOp], lost: Sequence[LostGrad],
                guard: Guard) -> Any:  # fmt: skip
        """Launch everything, and give tensors their grads and the tape its notes; the result of the call."""
        # what an earlier call has left is written while the argument is still read
        given = arguments.buffers
        if self.filled:
            given = [copied(node) if buffer_of(node) in self.filled else node for node in given]
        buffers = [*given, *[UOp.buffer(*form) for form in self.made]]
        if overwritten:
            if self.assigned or lost:  # other memory than in the call before
                self.clean.clear()
            dropped = self.grads.still_held(lost) if lost else set[UOp]()
            self._run_over(buffers, values, overwritten, dropped, self._follows(arguments), guard)
        else:
            self.launches.run(buffers, values, At())
        if lost:
            again = self.grads.give(lost, self.launches.fixed, values)
            self.written = [ref for ref in self.written if ref() is not None] + [weakref.ref(node) for node in again]
            for grad in lost:
                if (tensor := grad.tensor()) is not None and tensor.grad is not None:
                    self.known.add(tensor.grad)
            self.clean.clear()
        result, tensors = self._remade(arguments, [*buffers, *self.kept], values)
        for aliases in self.views:
            aliases.link(tensors)
        if self.taped or self.given or self.left:
            self._note_taped(arguments, tensors)
        return result

    def _remade(
        self, arguments: Arguments, memory: Sequence[UOp], values: dict[str, int]
    ) -> tuple[Any, list[TensorBase]]:
        """Return the result over `memory`, and its tensors in order; a tensor returned twice is one object.

        `memory` has BUFFERs by their numbers in `Held`: of the arguments, made by the call, from outside. What was
        memory of an argument joins that of the same one in `arguments`. `here` counts stack frames, so this has to
        be called at the same depth everywhere.
        """
        made = here(above=4)  # TinyJit's two methods called those that called this
        if type(self.result) is Held:
            tensor = self.result.alias(arguments.tensors, memory, values, made)
            return tensor, [tensor]
        new: dict[int, TensorBase] = {}

        def remade(held: Held) -> TensorBase:
            if id(held) not in new:
                new[id(held)] = held.alias(arguments.tensors, memory, values, made)
            return new[id(held)]

        result = mapped(self.result, Held, remade)
        return result, tensors_in(result)

    def _note_taped(self, arguments: Arguments, tensors: Sequence[TensorBase]) -> None:
        """Tell the tape which memory has a new value without a graph: where a call of the function makes one.

        tensors are those of the result.
        """
        found = [(tensors[i].uop.base, asks) for i, asks in self.taped]
        if self.given:
            found += [(arguments.tensors[i].uop.base, asks) for i, asks in self.given]
        if self.left:
            found += [(node, asks) for ref, asks in self.left if (node := ref()) is not None]
        tape.note_replayed(found, [*self.reads, *[weakref.ref(node) for node in arguments.buffers]])

    def _follows(self, arguments: Arguments) -> Callable[[TensorBase], bool]:
        """Whether a tensor over memory that is overwritten is what the function assigns to: given, or known."""
        given = {id(tensor) for tensor in arguments.tensors}
        return lambda tensor: id(tensor) in given or tensor in self.known

    def _run_over(self, nodes: Sequence[UOp], values: dict[str, int], overwritten: set[UOp], dropped: set[UOp],
                  follows: Callable[[TensorBase], bool], guard: Guard) -> None:  # fmt: skip
        """Launch everything, where values are written over.

        A launch that fails is tried once more, and what comes behind it, so that all of the state is that after the
        call. Where it fails again, what is wholly written is new, what is not is old, and the rest says it is lost.
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
            begun = torn.lost or any(node.arg.uid in torn.new for node in overwritten)
            if begun and isinstance(error, Exception) and torn.lost <= self.launches.held:
                try:
                    self.launches.run(nodes, values, at)
                except BaseException as other:
                    torn, again = self.launches.torn(nodes, at, other), other
                else:
                    raise
            guard.sealed = True
            forget_torn(torn, live_holders(), f"a replay was {ended_by(again)}")
            raise error from None
        finally:
            guard.sealed = True  # what has run becomes what its tensors are

    def rehearse(self, arguments: Arguments, name: str) -> None:
        """Replay for these arguments, hold that to the launches one by one, and leave all memory as it was.

        Signals wait until it is. Raises ValidationError where the two differ; name is that of the function.
        """
        with exclusive, guarded(whole=True), uncaptured():
            given = [copied(node) if buffer_of(node) in self.filled else node for node in arguments.buffers]
            made = [UOp.buffer(*form) for form in self.made]
            rehearse(self.launches, [*given, *made], self.values | arguments.values, name)

    # Pickling

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs; memory from outside travels as data."""
        fixed = self.launches.fixed
        written = {node.arg.uid for ref in self.written if (node := ref()) is not None}
        kept = [(node.arg.uid, (node.device, node.arg.size, node.dtype), node.arg.uid in written,
                 b"" if node.arg.uid in fixed else _bytes(node)) for node in self.kept]  # fmt: skip
        names = ("names", "values", "parts", "assigned", "made", "taped", "given", "views", "result", "launches")
        return {"kept": kept} | {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        kept, self.grads, self.filled = state.pop("kept"), Gradients(), frozenset()
        self.met = Met([], [], {}, frozenset())  # there is no function to call and compare
        self.clean, self.reads, self.known, self.left = weakref.WeakSet(), [], WeakIds(), []
        for name, value in state.items():
            setattr(self, name, value)
        self.kept = [UOp.buffer(*form) for _, form, _, _ in kept]
        outside = set()
        self.written = []
        for node, (uid, _, written, data) in zip(self.kept, kept, strict=True):
            if uid in self.launches.fixed:
                bind(node, self.launches.fixed[uid])
                outside.add(node.arg.uid)
            else:
                buffer_of(node).copy_in(memoryview(data))
            if written:
                self.written.append(weakref.ref(node))
        self.outside = frozenset(outside)


class WeakIds:
    """Tensors by identity, weakly: == of tensors is a tensor."""

    def __init__(self) -> None:
        self._refs: dict[int, weakref.ref[TensorBase]] = {}

    def add(self, tensor: TensorBase) -> None:
        """Add a tensor."""
        self._refs[id(tensor)] = weakref.ref(tensor)

    def __contains__(self, tensor: TensorBase) -> bool:
        ref = self._refs.get(id(tensor))
        return ref is not None and ref() is tensor


def _plain_memory(node: UOp) -> tuple[UOp, ...]:
    """The BUFFERs of a tensor that is the whole of its memory."""
    base = memory_base(node)
    return buffers_of(base) if base.op in HELD else ()


def _taped(tensors: Sequence[TensorBase], written: AbstractSet[int]) -> list[tuple[int, bool]]:
    """The tensors whose memory has a value that the tape has a graph of, of those over BUFFERs that a call has written:
    the number of each, and whether something behind it has requires_grad=True."""
    found = []
    for number, tensor in enumerate(tensors):
        memory = tensor.uop.base
        if not written.isdisjoint([node.arg.uid for node in buffers_of(memory)]) and (entry := tape.entry_of(memory)):
            found.append((number, entry.tracked))
    return found


def _bytes(node: UOp) -> bytes:
    """The value of a BUFFER."""
    buffer = buffer_of(node)
    return buffer.copy_out(memoryview(bytearray(buffer.nbytes))).tobytes()


def _form(memory: CapturedMemory) -> BufferType:
    return memory.device, memory.size, memory.dtype


def _fixed(trace: Trace, uid: int, role: str) -> Any:
    """The buffer that a number always stands for: memory from outside, Python's data, a value that somebody holds."""
    memory = trace.memory[uid]
    node: weakref.ref[UOp] | None = trace.nodes.get(uid)
    if role == "keep" or memory.data is not None or (node is not None and node() is not None):
        return memory.data or memory.buffer()
    return None
