"""Replay: captured launches, prepared once and run again with other buffers and other values of variables.

Launches that follow each other on one backend are handed to its GraphExecutor; bytes between two devices are copied
here. Where somebody looks (DEBUG=2, an observer), each launch runs by itself and is timed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft import events
from tinygraft.config import DEBUG, LAUNCH_BLOCKING
from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.device.interfaces import GraphExecutor, Handle, Step
from tinygraft.device.pool import note_lost
from tinygraft.device.registry import Device, raise_noted
from tinygraft.device.timeline import Timeline, turn
from tinygraft.dtype import DType
from tinygraft.engine.after_failure import Torn
from tinygraft.engine.arena import share_memory
from tinygraft.engine.capture import Recorded, note, open_captures
from tinygraft.engine.compile import Compiled
from tinygraft.engine.run import Launch, copy, stored_before
from tinygraft.errors import GraphError
from tinygraft.schedule.memory import Life
from tinygraft.schedule.proof import BufferUse, check_places
from tinygraft.uop import index as ix
from tinygraft.uop.index import size_of
from tinygraft.uop.sizes import sint
from tinygraft.uop.stages import Binary, Cost, Signature
from tinygraft.uop.uop import UOp

NAMED = 4  # assumed: launches of a replay that an error names
BufferType = tuple[str, int, DType]  # the device, size and dtype of a buffer


@dataclass(frozen=True, slots=True)
class _Segment:
    """Launches for one executor, from number first of all on. changing has (number among the buffers that change, place
    in the executor). uses, for a device that does not wait: buffers, or numbers among those that change, and whether
    they are written; name is what an error that comes late calls it."""

    executor: GraphExecutor
    first: int
    count: int
    changing: tuple[tuple[int, int], ...]
    timeline: Timeline | None
    uses: tuple[tuple[Buffer | int, bool], ...]
    name: str

    def run(self, buffers: Sequence[Buffer], handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Run what has not run yet. Ctrl-C is heard in between, where nobody guards."""
        try:
            if self.timeline is None:
                self._run(handles, values, at)
            else:
                self._run_on_queue(self.timeline, buffers, handles, values, at)
        except (Exception, SystemExit) as error:
            note_lost(error, self.executor.backend)
            raise_noted(error, f"replaying {self.count} launches", self.executor.backend.name)

    def _run_on_queue(self, timeline: Timeline, buffers: Sequence[Buffer], handles: Sequence[Handle],
                      values: Mapping[str, int], at: At) -> None:  # fmt: skip
        """Run it on the queue of this thread, behind what used its memory before."""
        queue = self.executor.queue = timeline.queue()
        with turn():
            for what, is_written in self.uses:
                block = (buffers[what] if isinstance(what, int) else what).block
                if block is not None:
                    if timeline.is_ordered:
                        timeline.use(queue, block, is_written)
                    timeline.is_foreign |= block.is_foreign
            try:
                self._run(handles, values, at)
            finally:  # some of it may run
                timeline.ran(queue, self.name)

    def _run(self, handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Set the buffers and values that change, then run until all launches are done, beginning where `at` says.

        `at.number` is raised after each call of the executor, so that after an error the launches that ran are known.
        """
        executor, first, count = self.executor, self.first, self.count
        for number, place in self.changing:
            executor.set_buffer(place, handles[number])
        executor.set_values(values)
        done = max(at.number - first, 0)
        while done < count:
            done = executor.run(done)
            at.number = first + done

    def doubtful(self, at: int, error: BaseException) -> range:
        """The launches that may have run in part, or whole, when one of this part raised; at is the next as far as is
        known. An executor that runs several in one call does not say at which of them."""
        one = type(self.executor).run is GraphExecutor.run
        if one and not stored_before(error):
            return range(0)
        return range(at, at + 1 if one else self.first + self.count)


@dataclass(frozen=True, slots=True)
class _Across:
    """A copy from one device to another, as launch number first: numbers of BUFFERs."""

    target: int
    source: int
    first: int
    count: int = 1

    def doubtful(self, at: int, error: BaseException) -> range:
        """The launches that may have run in part."""
        return range(at, at + stored_before(error))


@dataclass(slots=True)
class At:
    """How far a run has come: the number of the launch that is next."""

    number: int = 0


class Replay:
    """Launches on numbered buffers: fixed ones, ones that are given for each run (changing), and temporary ones.

    forms says of every number what its buffer is like. What is neither fixed nor changing is temporary: written before
    it is read in each run, as are the fixed buffers of held. Temporary buffers share memory where their times do not
    overlap, that of held included: a run that is ended may leave anything in these, as `torn` says. One thread at a
    time may run a Replay.
    """

    def __init__(self, launches: Sequence[Recorded], forms: Mapping[int, BufferType], fixed: Mapping[int, Buffer],
                 held: Collection[int], changing: Sequence[int]) -> None:  # fmt: skip
        self.launches, self.forms, self.fixed, self.changing = launches, forms, fixed, tuple(changing)
        self.held = frozenset(held)
        self._numbers = {uid: number for number, uid in enumerate(self.changing)}
        lent = {uid: fixed[uid] for uid in held if not fixed[uid].is_shared()}
        self._buffers = dict(fixed) | _temporaries(launches, forms, {*fixed, *changing}, lent)
        self._parts: list[_Segment | _Across] = []
        for group in self._groups():
            number = sum(part.count for part in self._parts)
            across = group[0].kernel is None and self._leaves(group[0])
            self._parts.append(
                _Across(group[0].uids[0], group[0].uids[1], number) if across else self._part(group, number)
            )
        self._is_late = any(isinstance(part, _Segment) and part.timeline is not None for part in self._parts)
        self._count = sum(part.count for part in self._parts if isinstance(part, _Segment))
        self._flops, self._bytes = self._costs()
        self._one_each = list({b.device: b for b in self._buffers.values()}.values())

    def run(self, nodes: Sequence[UOp], values: Mapping[str, int], at: At) -> None:
        """Run everything from launch number at on, once. nodes are the BUFFERs that change, in their order.

        All memory is taken before anything is launched. Where values are written over, Ctrl-C is to be guarded by the
        caller. Raises DeviceLostError after a fork that the device does not survive. Captures of this thread record it
        all.
        """
        buffers = [buffer_of(node) for node in nodes]
        for buffer in self._one_each:
            _ = buffer.handle  # raises where the device is lost
        handles = [buffer.handle for buffer in buffers]
        if DEBUG.value >= 2 or events.on_launch or (self._is_late and LAUNCH_BLOCKING.value):
            for number, (launch, on) in enumerate(self._now(nodes, buffers)):
                if number >= at.number:
                    Launch(launch.kernel, launch.device, on).run(values)
                    at.number = number + 1
        else:
            self._run(buffers, handles, values, at)
        if open_captures():
            for launch, on in self._now(nodes, buffers):
                note(launch, on, nodes, values)

    def _run(self, buffers: Sequence[Buffer], handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Run all segments and copies between devices from launch `at.number` on, and add them to the counters."""
        for part in self._parts:
            if part.first + part.count <= at.number:
                continue
            if isinstance(part, _Segment):
                part.run(buffers, handles, values, at)
            else:
                copy(self._buffer(part.target, buffers), self._buffer(part.source, buffers))
                at.number = part.first + 1
        GlobalCounters.kernel_count += self._count
        GlobalCounters.global_ops += size_of(self._flops, values)
        GlobalCounters.global_mem += size_of(self._bytes, values)

    def torn(self, nodes: Sequence[UOp], at: At, error: BaseException) -> Torn:
        """What a run is known to have left that raised error when launch number at was next."""
        part = next((p for p in self._parts if p.first <= at.number < p.first + p.count), None)
        doubtful = range(0) if part is None else part.doubtful(at.number, error)
        sets: tuple[set[int], set[int], set[int]] = set(), set(), set()
        lost, new, old = sets
        for number, (launch, _) in enumerate(self._now(nodes, [buffer_of(node) for node in nodes])):
            (lost if number in doubtful else new if number < at.number else old).update(launch.written())
        if at.number or doubtful:  # others may have used their memory until now
            lost |= {uid for uid in self.held if uid not in new or uid in old}
        return Torn(frozenset(lost), frozenset(new - lost - old), frozenset(old - lost - new))

    def _now(self, nodes: Sequence[UOp], buffers: Sequence[Buffer]) -> Iterator[tuple[Recorded, list[Buffer]]]:
        """Each launch with the buffers and numbers that it has in a run."""
        for launch in self.launches:
            uids = tuple([nodes[self._numbers[u]].arg.uid if u in self._numbers else u for u in launch.uids])
            yield Recorded(launch.kernel, launch.device, uids), [self._buffer(u, buffers) for u in launch.uids]

    def _buffer(self, uid: int, buffers: Sequence[Buffer]) -> Buffer:
        number = self._numbers.get(uid)
        return self._buffers[uid] if number is None else buffers[number]

    # Pickling

    def __getstate__(self) -> dict[str, Any]:
        """What another process needs: machine code, and the data of fixed buffers that are not written first."""
        kernels = list({id(launch.kernel): launch.kernel for launch in self.launches if launch.kernel}.values())
        numbers = {id(kernel): number for number, kernel in enumerate(kernels)}
        devices = {id(launch.kernel): launch.device for launch in self.launches}
        return {
            "kernels": [_packed(kernel, devices[id(kernel)]) for kernel in kernels],
            "launches": [(numbers.get(id(launch.kernel)), launch.device, launch.uids) for launch in self.launches],
            "forms": dict(self.forms),
            "data": {uid: buffer.copy_out(memoryview(bytearray(buffer.nbytes))).tobytes()
                     for uid, buffer in self.fixed.items() if uid not in self.held},
            "changing": self.changing,
        }  # fmt: skip

    def __setstate__(self, state: dict[str, Any]) -> None:
        kernels = [_unpacked(*kernel) for kernel in state["kernels"]]
        launches = [Recorded(None if number is None else kernels[number], device, uids)
                    for number, device, uids in state["launches"]]  # fmt: skip
        forms, fixed = state["forms"], {}
        for uid, data in state["data"].items():
            fixed[uid] = Buffer(*forms[uid]).copy_in(memoryview(data))
        self.__init__(launches, forms, fixed, (), state["changing"])  # type: ignore[misc]

    # Preparing

    def _leaves(self, launch: Recorded) -> bool:
        """Whether a copy is one from another device."""
        return self.forms[launch.uids[1]][0] != launch.device

    def _groups(self) -> Iterator[list[Recorded]]:
        """The launches in runs that one executor can take, and copies between devices by themselves."""
        group: list[Recorded] = []
        for launch in self.launches:
            alone = launch.kernel is None and self._leaves(launch)
            if group and (alone or launch.device != group[0].device):
                yield group
                group = []
            if alone:
                yield [launch]
            else:
                group.append(launch)
        if group:
            yield group

    def _part(self, group: Sequence[Recorded], first: int) -> _Segment:
        """Return launches for one executor as a segment, the first of them launch number `first` of the Replay.

        Each buffer has one place in the executor, numbered in order of first use. Those that do not change are set
        here, once.
        """
        places: dict[object, int] = {}  # by number for what changes, else by buffer: temporaries share theirs
        changing: dict[int, int] = {}
        handles: list[tuple[int, Handle]] = []
        written: dict[Buffer | int, bool] = {}
        steps = []
        for launch in group:
            mine = []
            stores = launch.written()
            for uid in launch.uids:
                number = self._numbers.get(uid)
                key = id(self._buffers[uid]) if number is None else ("changing", number)
                if (place := places.get(key)) is None:
                    place = places[key] = len(places)
                    if number is None:
                        handles.append((place, self._buffers[uid].handle))
                    else:
                        changing[number] = place
                what = self._buffers[uid] if number is None else number
                written[what] = written.get(what, False) or uid in stores
                mine.append(place)
            steps.append(self._step(launch, tuple(mine)))
        backend = Device[group[0].device]
        executor = backend.graph(steps)
        for place, handle in handles:
            executor.set_buffer(place, handle)
        uses = () if backend.timeline is None else tuple(written.items())
        name = f"a replay of {len(group)} launches ({', '.join([_name(launch) for launch in group[:NAMED]])})"
        return _Segment(executor, first, len(steps), tuple(changing.items()), backend.timeline, uses, name)

    def _step(self, launch: Recorded, places: tuple[int, ...]) -> Step:
        """Return a launch as an executor's Step, a copy as one without a program; `places` has its buffers' places."""
        if launch.kernel is None:
            return Step(None, places, nbytes=_nbytes(self.forms[launch.uids[0]]))
        signature = launch.kernel.signature
        return Step(launch.kernel.program, places, signature.variables, signature.grid)

    def _costs(self) -> tuple[sint, sint]:
        """What the executors do in one run: operations and bytes."""
        flops: sint = 0
        moved: sint = 0
        for launch in self.launches:
            if launch.kernel is not None:
                flops, moved = _sum(flops, launch.kernel.cost.flops), _sum(moved, launch.kernel.cost.bytes)
            elif not self._leaves(launch):
                moved = _sum(moved, 2 * _nbytes(self.forms[launch.uids[0]]))
        return flops, moved


def _packed(kernel: Compiled, device: str) -> tuple[Any, ...]:
    """A kernel for a pickle."""
    return device, Device[device].compiler.key, kernel.name, kernel.data, kernel.signature, kernel.cost, kernel.digest


def _unpacked(device: str, key: str | None, name: str, data: bytes, signature: Signature, cost: Cost,
              digest: str) -> Compiled:  # fmt: skip
    """A kernel from a pickle. Raises GraphError where its machine code is for another compiler or processor."""
    backend = Device[device]
    if key != backend.compiler.key:
        raise GraphError(
            f"the pickled TinyJit has code of {key} for {device}, which is {backend.compiler.key} here\n"
            "  hint: machine code fits the kind of processor and the compiler it was made with; capture anew here"
        )
    program = backend.load(Binary(name, data, signature))
    return Compiled(name, program, signature, cost, digest, data, backend.timeline)


def _name(launch: Recorded) -> str:
    return "copy" if launch.kernel is None else launch.kernel.name


def _sum(a: sint, b: sint) -> sint:
    return a + b if isinstance(a, int) and isinstance(b, int) else ix.add(a, b)


def _nbytes(form: BufferType) -> int:
    return form[1] * form[2].itemsize


def _temporaries(launches: Sequence[Recorded], forms: Mapping[int, BufferType], others: set[int],
                 held: Mapping[int, Buffer]) -> dict[int, Buffer]:  # fmt: skip
    """A buffer for each number that is not among others; they share memory where their times do not overlap.

    held are buffers among others whose first launch writes them: until then theirs is shared too.
    """
    lives: dict[int, Life] = {}
    for i, launch in enumerate(launches):
        for uid in launch.uids:
            lives[uid] = Life(_nbytes(forms[uid]), lives[uid].first if uid in lives else i, i)
    made = {uid: Buffer(*forms[uid]) for uid in lives if uid not in others}
    mine = [uid for uid in made if lives[uid].nbytes]
    lent = [uid for uid in held if lives[uid].nbytes]
    where = share_memory([made[uid] for uid in mine], [lives[uid] for uid in mine],
                         [held[uid] for uid in lent], [lives[uid] for uid in lent])  # fmt: skip
    names = {id(buffer): uid for uid, buffer in (*made.items(), *held.items())}
    uses = [BufferUse(launch.uids, _written(launch)) for launch in launches]
    check_places(uses, {names[id(buffer)]: bytes_ for buffer, bytes_ in where}, lent)
    return made


def _written(launch: Recorded) -> list[int]:
    """The slots of a launch that it writes."""
    params = launch.kernel.signature.params if launch.kernel is not None else ()
    return [slot for slot, param in enumerate(params) if param.written] or [0]
