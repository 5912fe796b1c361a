"""Replay: captured launches, prepared so that they can be run with other buffers and other values of variables.

Launches that follow each other on one backend are handed to its GraphExecutor; bytes between two devices are copied
here. With DEBUG=2 or an observer of launches, each launch runs by itself and is timed.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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
from tinygraft.engine.compile import routine_on
from tinygraft.engine.own_numbers import Compiled
from tinygraft.engine.run import Launch, copy, stored_before
from tinygraft.errors import GraphError
from tinygraft.jit.step_order import Access, steps_before
from tinygraft.schedule.memory import Life
from tinygraft.schedule.proof import BufferUse, check_offsets
from tinygraft.uop import index as ix
from tinygraft.uop.flat import flat, whole
from tinygraft.uop.index import size_of
from tinygraft.uop.sizes import sint
from tinygraft.uop.stages import Binary, Cost, Signature
from tinygraft.uop.uop import UOp

NAMED = 4  # assumed: launches of a replay that an error names
BufferType = tuple[str, int, DType]  # the device, size and dtype of a buffer


class HostExecutor(GraphExecutor):
    """Steps that the host runs by itself on a device with queues: a collective, which waits for all that is on them."""

    def run(self, first: int) -> int:
        """Run step `first`, and return the number of the next one."""
        step = self.steps[first]
        assert step.program is not None
        step.program.launch([self.handles[place] for place in step.buffers], (), (1, 1, 1))
        return first + 1


def _is_hosts(launch: Recorded) -> bool:
    """Return whether a launch is the host's, on a device whose other launches are not."""
    return launch.kernel is not None and launch.kernel.on_host and Device[launch.device].timeline is not None


@dataclass(frozen=True, slots=True)
class _Segment:
    """`count` launches for one executor, the first of which is launch number `first` of the Replay.

    `changing` has (index among the buffers that change, number of the buffer in the executor). `uses`, of an
    asynchronous device, has buffers, or indices among those that change, each with whether it is written. `name` is
    the segment in the text of late errors.
    """

    executor: GraphExecutor
    first: int
    count: int
    changing: tuple[tuple[int, int], ...]
    timeline: Timeline | None
    uses: tuple[tuple[Buffer | int, bool], ...]
    name: str

    def run(self, buffers: Sequence[Buffer], handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Run the launches from `at.number` on. Ctrl-C raises between calls of the executor, unless a Guard delays it.

        `buffers` are those that change, `handles` theirs. What the plugin raises gets a note with the device.
        """
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
        """Run it on the queue of this thread, after what used its memory before.

        The parameters are those of `run`. The launches are counted in `timeline` also where an error ends them.
        """
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
            finally:  # also after an error: some launches may have begun
                timeline.ran(queue, self.name)

    def _run(self, handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Set the buffers and values that change, then run until all launches are done, beginning where `at` says.

        `at.number` is raised after each call of the executor, so that after an error the launches that ran are known.
        """
        executor, first, count = self.executor, self.first, self.count
        for index, number in self.changing:
            executor.set_buffer(number, handles[index])
        executor.set_values(values)
        done = max(at.number - first, 0)
        while done < count:
            done = executor.run(done)
            at.number = first + done

    def doubtful(self, at: int, error: BaseException) -> range:
        """Return the launches that may have run, or run partly, when one of this segment raised `error`.

        `at` is the first launch that is not known to have run. An executor that runs several in one call does not
        report at which of them it failed, so that all from `at` on are doubtful.
        """
        one = type(self.executor).run is GraphExecutor.run  # core's, which launches one after another
        if one and not stored_before(error):
            return range(0)
        return range(at, at + 1 if one else self.first + self.count)


@dataclass(frozen=True, slots=True)
class _Across:
    """A copy from one device to another, launch number `first` of the Replay; target and source are ids of BUFFERs."""

    target: int
    source: int
    first: int
    count: int = 1

    def doubtful(self, at: int, error: BaseException) -> range:
        """Return the launches that may have run partly: this one, unless `error` means that nothing was stored."""
        return range(at, at + stored_before(error))


@dataclass(slots=True)
class At:
    """How far a run has come: the number of the next launch."""

    number: int = 0


class Replay:
    """Launches on buffers by id: fixed ones, ones that are given for each run (`changing`), and temporaries.

    `forms` has the device, size and dtype of every buffer. A buffer that is neither fixed nor changing is a
    temporary: each run writes it before it reads it. So it does with `retained`, fixed buffers whose values tensors
    outside of the result have. Temporaries share memory where their lifetimes do not overlap, also that of `retained`
    before it is written: a run that is interrupted may leave any value in these, which `torn` reports. One thread at
    a time may run a Replay.
    """

    launches: Sequence[Recorded]
    forms: Mapping[int, BufferType]
    fixed: Mapping[int, Buffer]
    changing: tuple[int, ...]

    def __init__(self, launches: Sequence[Recorded], forms: Mapping[int, BufferType], fixed: Mapping[int, Buffer],
                 retained: Collection[int], changing: Sequence[int]) -> None:  # fmt: skip
        # a copy of nothing has no memory: its handle is None
        self.launches = [each for each in launches if each.kernel is not None or _nbytes(forms[each.uids[0]])]
        self.forms, self.fixed, self.changing = forms, fixed, tuple(changing)
        self.retained: frozenset[int] = frozenset(retained)
        self.aliases: dict[int, int] = {}  # ids of further BUFFERs over fixed memory, each with the id of that
        self._indices = {uid: index for index, uid in enumerate(self.changing)}
        lent = {uid: fixed[uid] for uid in retained if not fixed[uid].is_shared()}
        self._buffers = dict(fixed) | _temporaries(launches, forms, {*fixed, *changing}, lent)
        self._segments: list[_Segment | _Across] = []
        for run in self._runs():
            number = sum(segment.count for segment in self._segments)
            across = run[0].kernel is None and self._crosses_devices(run[0])
            self._segments.append(
                _Across(run[0].uids[0], run[0].uids[1], number) if across else self._segment(run, number)
            )
        segments = [segment for segment in self._segments if isinstance(segment, _Segment)]
        self._is_asynchronous = any(segment.timeline is not None for segment in segments)
        self._count = sum(segment.count for segment in segments)  # `copy` counts those across devices
        self._flops, self._bytes = self._costs()
        self._one_each = list({b.device: b for b in self._buffers.values()}.values())

    def run(self, nodes: Sequence[UOp], values: Mapping[str, int], at: At) -> None:
        """Run all launches from number `at.number` on.

        `nodes` are the BUFFERs that change, in the order of `changing`. All memory is allocated before anything is
        launched. Where values are overwritten, the caller has to delay Ctrl-C by a Guard. Raises DeviceLostError
        after a fork that the device does not survive. Captures of this thread record every launch.
        """
        buffers = [buffer_of(node) for node in nodes]
        for buffer in self._one_each:
            _ = buffer.handle  # raises where the device is lost
        handles = [buffer.handle for buffer in buffers]
        if DEBUG.value >= 2 or events.on_launch or (self._is_asynchronous and LAUNCH_BLOCKING.value):
            for number, (launch, on) in enumerate(self._now(nodes, buffers)):
                if number >= at.number:
                    Launch(launch.kernel, launch.device, on, launch.origins).run(values)
                    at.number = number + 1
        else:
            self._run(buffers, handles, values, at)
        if open_captures():
            for launch, on in self._now(nodes, buffers):
                note(launch, on, nodes, values)

    def _run(self, buffers: Sequence[Buffer], handles: Sequence[Handle], values: Mapping[str, int], at: At) -> None:
        """Run all segments and copies between devices from launch `at.number` on, and add them to the counters.

        `handles` are those of the changing `buffers`, `values` those of variables; `at` is moved on as launches are
        done.
        """
        for segment in self._segments:
            if segment.first + segment.count <= at.number:
                continue
            if isinstance(segment, _Segment):
                segment.run(buffers, handles, values, at)
            else:
                copy(self._buffer(segment.target, buffers), self._buffer(segment.source, buffers))
                at.number = segment.first + 1
        GlobalCounters.kernel_count += self._count
        GlobalCounters.global_ops += size_of(self._flops, values)
        GlobalCounters.global_mem += size_of(self._bytes, values)

    def note_aliases(self, aliases: Mapping[int, int]) -> None:
        """Note BUFFERs that were made over memory of this Replay: their ids, each with the id of the memory."""
        self.aliases |= aliases

    def torn(self, nodes: Sequence[UOp], at: At, error: BaseException) -> Torn:
        """Return the state of the BUFFERs that are written, temporaries too, after `run` raised `error`.

        `nodes` and `at` are those that `run` got: the BUFFERs that change, and how far it has come. Of `retained`,
        what is not wholly written is lost once a launch may have run, since temporaries share that memory. It may be
        run again from there where what a launch may have written already is `retained` that no earlier one has written:
        a launch that adds to a value would do so twice.
        """
        segment = next((s for s in self._segments if s.first <= at.number < s.first + s.count), None)
        doubtful = range(0) if segment is None else segment.doubtful(at.number, error)
        sets: tuple[set[int], set[int], set[int]] = set(), set(), set()
        lost, new, old = sets
        for number, (launch, _) in enumerate(self._now(nodes, [buffer_of(node) for node in nodes])):
            (lost if number in doubtful else new if number < at.number else old).update(launch.written())
        repeatable = lost <= self.retained and lost.isdisjoint(new)
        if at.number or doubtful:  # temporaries may have overwritten the memory of those not written yet
            lost |= {uid for uid in self.retained if uid not in new or uid in old}
        between = (new & old) - lost
        new, old = new - lost - between, old - lost - between
        for some in (lost, new, old, between):
            some.update([alias for alias, uid in self.aliases.items() if uid in some])
        return Torn(frozenset(lost), frozenset(new), frozenset(old), frozenset(between), repeatable)

    def _now(self, nodes: Sequence[UOp], buffers: Sequence[Buffer]) -> Iterator[tuple[Recorded, list[Buffer]]]:
        """Yield each launch with the ids and buffers that it has in a run on `nodes`."""
        for launch in self.launches:
            uids = tuple([nodes[self._indices[u]].arg.uid if u in self._indices else u for u in launch.uids])
            now = Recorded(launch.kernel, launch.device, uids, origins=launch.origins)
            yield now, [self._buffer(u, buffers) for u in launch.uids]

    def _buffer(self, uid: int, buffers: Sequence[Buffer]) -> Buffer:
        """Return the buffer of an id: one of `buffers` where it changes from run to run, else this Replay's own."""
        index = self._indices.get(uid)
        return self._buffers[uid] if index is None else buffers[index]

    # Pickling

    def __getstate__(self) -> dict[str, Any]:
        """Return what another process needs: machine code, launches, and the data of the fixed buffers.

        Waits for the kernels that write these buffers. Those of `retained` have no data here, and are temporaries
        in the other process, where no tensor has their values. That process has to have the same compiler and kind
        of processor: else `__setstate__` raises GraphError.
        """
        kernels = list({id(launch.kernel): launch.kernel for launch in self.launches if launch.kernel}.values())
        numbers = {id(kernel): number for number, kernel in enumerate(kernels)}
        devices = {id(launch.kernel): launch.device for launch in self.launches}
        return {
            "kernels": [_packed(kernel, devices[id(kernel)]) for kernel in kernels],
            "launches": [(numbers.get(id(launch.kernel)), launch.device, launch.uids) for launch in self.launches],
            "forms": dict(self.forms),
            "data": {uid: buffer.copy_out(memoryview(bytearray(buffer.nbytes))).tobytes()
                     for uid, buffer in self.fixed.items() if uid not in self.retained},
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

    def _crosses_devices(self, launch: Recorded) -> bool:
        """Return whether a copy is from another device."""
        return self.forms[launch.uids[1]][0] != launch.device

    def _runs(self) -> Iterator[list[Recorded]]:
        """Yield the launches in runs on one backend, each for one executor; a copy between devices by itself."""
        run: list[Recorded] = []
        for launch in self.launches:
            alone = self._crosses_devices(launch) if launch.kernel is None else _is_hosts(launch)
            if run and (alone or launch.device != run[0].device):
                yield run
                run = []
            if alone:
                yield [launch]
            else:
                run.append(launch)
        if run:
            yield run

    def _segment(self, run: Sequence[Recorded], first: int) -> _Segment:
        """Return launches for one executor as a segment, the first of them launch number `first` of the Replay.

        Each buffer has one number in the executor, in order of first use. Those that do not change are set here.
        """
        numbers: dict[object, int] = {}  # by index for what changes, else by buffer: two ids may have one
        changing: dict[int, int] = {}
        handles: list[tuple[int, Handle]] = []
        written: dict[Buffer | int, bool] = {}
        steps = []
        for launch in run:
            mine = []
            stores = launch.written()
            for uid in launch.uids:
                index = self._indices.get(uid)
                key = id(self._buffers[uid]) if index is None else ("changing", index)
                if (number := numbers.get(key)) is None:
                    number = numbers[key] = len(numbers)
                    if index is None:
                        handles.append((number, self._buffers[uid].handle))
                    else:
                        changing[index] = number
                what = self._buffers[uid] if index is None else index
                written[what] = written.get(what, False) or uid in stores
                mine.append(number)
            steps.append(self._step(launch, tuple(mine)))
        orders = steps_before(list(self._accesses(run)))
        steps = [replace(step, after=after) for step, after in zip(steps, orders, strict=True)]
        backend = Device[run[0].device]
        on_queue = backend.timeline is not None and not _is_hosts(run[0])
        executor = HostExecutor(backend, steps) if _is_hosts(run[0]) else backend.graph(steps)
        for number, handle in handles:
            executor.set_buffer(number, handle)
        uses = tuple(written.items()) if on_queue else ()
        name = f"a replay of {len(run)} launches ({', '.join([_name(launch) for launch in run[:NAMED]])})"
        timeline = backend.timeline if on_queue else None
        return _Segment(executor, first, len(steps), tuple(changing.items()), timeline, uses, name)

    def _accesses(self, run: Sequence[Recorded]) -> Iterator[list[Access]]:
        """Yield, for each launch, the bytes that it reads and writes.

        What changes between runs may be given twice, and may be memory of `fixed`: it counts as all of that, and as one
        memory. So does memory of other libraries.
        """
        written = {uid for launch in run for uid in launch.written()}
        used = {uid: self._buffers[uid].region() for launch in run for uid in launch.uids if uid in self.fixed}
        fixed: dict[tuple[Hashable, int, int], bool] = {}  # whether a launch writes there
        for uid, region in used.items():
            if region is not None:
                fixed[region] = uid in written or fixed.get(region, False)
        for launch in run:
            stores, found = set(launch.written()), []
            for uid in launch.uids:
                region = None if uid in self._indices else self._buffers[uid].region()
                if region is not None:
                    found.append(Access(*region, uid in stores))
                    continue
                found.append(Access("outside", 0, 1, uid in stores))
                found += [Access(*other, uid in stores) for other in fixed if uid in stores or fixed[other]]
            yield found

    def _step(self, launch: Recorded, numbers: tuple[int, ...]) -> Step:
        """Return a launch as an executor's Step, a copy as one without a program; `numbers` are of its buffers."""
        if launch.kernel is None:
            return Step(None, numbers, nbytes=_nbytes(self.forms[launch.uids[0]]))
        signature = launch.kernel.signature
        return Step(launch.kernel.program, numbers, signature.variables, signature.grid)

    def _costs(self) -> tuple[sint, sint]:
        """Return the operations and bytes of one run by the executors; `copy` counts copies across devices itself."""
        flops: sint = 0
        moved: sint = 0
        for launch in self.launches:
            if launch.kernel is not None:
                flops, moved = _sum(flops, launch.kernel.cost.flops), _sum(moved, launch.kernel.cost.bytes)
            elif not self._crosses_devices(launch):
                moved = _sum(moved, 2 * _nbytes(self.forms[launch.uids[0]]))
        return flops, moved


def _packed(kernel: Compiled, device: str) -> tuple[Any, ...]:
    """Return a kernel as a tuple that can be pickled."""
    key = Device[device].compiler.key
    return device, key, kernel.name, kernel.data, kernel.signature, kernel.cost, kernel.digest, flat(kernel.routine)


def _unpacked(device: str, key: str | None, name: str, data: bytes, signature: Signature, cost: Cost,
              digest: str, routine: Any) -> Compiled:  # fmt: skip
    """Load a kernel from a pickle. Raises GraphError where its machine code is for another compiler or processor."""
    backend = Device[device]
    if routine is not None:
        return routine_on(backend, whole(routine))
    if key != backend.compiler.key:
        raise GraphError(
            f"the pickled TinyJit has code of {key} for {device}, which is {backend.compiler.key} here\n"
            "  hint: machine code fits the kind of processor and the compiler it was made with; capture anew here"
        )
    program = backend.load(Binary(name, data, signature))
    return Compiled(name, program, signature, cost, digest, data, backend.timeline)


def _name(launch: Recorded) -> str:
    """Return the name of the kernel of a launch, "copy" for a copy."""
    return "copy" if launch.kernel is None else launch.kernel.name


def _sum(a: sint, b: sint) -> sint:
    """Return the sum of two sizes, of which each may be symbolic."""
    return a + b if isinstance(a, int) and isinstance(b, int) else ix.add(a, b)


def _nbytes(form: BufferType) -> int:
    """Return how many bytes a buffer of a form (device, size, dtype) has."""
    return form[1] * form[2].itemsize


def _temporaries(launches: Sequence[Recorded], forms: Mapping[int, BufferType], others: set[int],
                 retained: Mapping[int, Buffer]) -> dict[int, Buffer]:  # fmt: skip
    """Return a buffer for each id that is not among `others`; they share memory where their lifetimes do not overlap.

    `retained` are buffers among `others` whose first launch writes them: until then their memory is shared too.
    """
    lives: dict[int, Life] = {}
    for i, launch in enumerate(launches):
        for uid in launch.uids:
            lives[uid] = Life(_nbytes(forms[uid]), lives[uid].first if uid in lives else i, i)
    made = {uid: Buffer(*forms[uid]) for uid in lives if uid not in others}
    mine = [uid for uid in made if lives[uid].nbytes]
    lent = [uid for uid in retained if lives[uid].nbytes]
    where = share_memory([made[uid] for uid in mine], [lives[uid] for uid in mine],
                         [retained[uid] for uid in lent], [lives[uid] for uid in lent])  # fmt: skip
    names = {id(buffer): uid for uid, buffer in (*made.items(), *retained.items())}
    uses = [BufferUse(launch.uids, _written(launch)) for launch in launches]
    check_offsets(uses, {names[id(buffer)]: bytes_ for buffer, bytes_ in where}, lent)
    return made


def _written(launch: Recorded) -> list[int]:
    """Return the slots that a launch writes; a copy writes slot 0."""
    params = launch.kernel.signature.params if launch.kernel is not None else ()
    return [slot for slot, param in enumerate(params) if param.written] or [0]
