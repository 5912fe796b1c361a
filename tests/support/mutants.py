"""Devices with one fault each, made from devices that have none.

MUTANTS says by name what each does wrong, which tests of the conformance kit catch it, and some that it passes. Every
one is a device like any other: its entry point is "mutants:NAME".
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from faults import VALUES as FAULTS
from faults import Change, Faulty
from host_groups import DIALECT
from late_queues import LateBackend, LateEvent, LateQueue
from sound import SOUND, Flushes, Grid, Host, Kept, Queued, Shares, Sorts
from tinygraft.device.device_spec import ApiRange, DeviceSpec, Probe
from tinygraft.device.interfaces import Compiler, GraphExecutor, Handle, Program, Step
from tinygraft.device.queues import Event
from tinygraft.dtype import dtypes
from tinygraft.errors import CompileError
from tinygraft.reference.python import PythonBackend, PythonProgram
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES
from tinygraft.uop.stages import Binary, Routine, Source

# Faults of a runtime


class ReadsEarly(Queued):
    """copy_out does not wait for kernels."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.allocator.reads_early = True  # type: ignore[attr-defined]


class WritesEarly(Queued):
    """copy_in does not wait for kernels that read what it overwrites."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.allocator.writes_early = True  # type: ignore[attr-defined]


class NeverWaits(Queued):
    """synchronize() returns at once."""

    def synchronize(self) -> None:
        """Do nothing."""


class LastFirst(Queued):
    """Of the launches that wait the last one runs first."""

    def line(self) -> queue.Queue[Callable[[], None] | None]:
        """A pile."""
        return queue.LifoQueue()


class ClosesAll(Queued):
    """What one backend closes, all have closed."""

    closed = False

    def close(self) -> None:
        """Close the device for all backends."""
        super().close()
        ClosesAll.closed = True

    def load(self, binary: Binary) -> Program:
        """Load a program, as long as no backend has closed the device."""
        assert not self.closed, "the device is closed"
        return super().load(binary)


class CopiesLate(LateBackend):
    """The event of a copy from the host passes before its bytes are read."""

    class queue_class(LateQueue):
        """Its queues."""

        def copy_in(self, target: Handle, source: memoryview) -> LateEvent:
            """An event before the copy."""
            event = super().copy_in(target, source)
            return LateEvent(self, event.number - 1)


class PassedEvent(LateEvent):
    """One that says that it has passed."""

    def done(self) -> bool:
        """Always."""
        return True


class ReusesEarly(LateBackend):
    """Events say at once that they are done, so memory in use is reused."""

    class queue_class(LateQueue):
        """Its queues."""

        def later(self, work: Callable[..., object], *arguments: Any) -> LateEvent:
            """Append work to the queue."""
            return PassedEvent(self, super().later(work, *arguments).number)

        def record(self) -> LateEvent:
            """An event that says it has passed."""
            return PassedEvent(self, self.given)


class EventsWaitForNothing(LateBackend):
    """Who waits for a recorded event goes on at once."""

    class queue_class(LateQueue):
        """Its queues."""

        def record(self) -> LateEvent:
            """Return an event before all work."""
            return LateEvent(self, 0)


class QueuesWaitForNothing(LateBackend):
    """A queue runs on where it should wait for an event."""

    class queue_class(LateQueue):
        """Its queues."""

        def wait(self, event: Event) -> None:
            """Do nothing."""


class TimesLaunches(Queued):
    """timed_launch looks at the clock before the kernel has run."""

    def timed_launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> float:
        """How long it took to get in line."""
        start = time.perf_counter()
        program.launch(buffers, variables, grid)
        return time.perf_counter() - start


class TimesNothing(PythonBackend):
    """timed_launch only looks at the clock."""

    def timed_launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> float:
        """No time at all."""
        return 0.0


class ByName(PythonBackend):
    """Two kernels of one name are taken for one."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.programs: dict[str, Program] = {}

    def load(self, binary: Binary) -> Program:
        """The program of that name."""
        if binary.name not in self.programs:
            self.programs[binary.name] = super().load(binary)
        return self.programs[binary.name]


class Numbered(Kept):
    """A binary is the number of a text that this process has."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler = NumberedCompiler()  # type: ignore[assignment]

    def load(self, binary: Binary) -> Program:
        """The program of that number."""
        return super().load(replace(binary, data=self.compiler.texts[int(binary.data)]))  # type: ignore[attr-defined]


class NumberedCompiler(Compiler):
    """Keeps texts and gives their numbers."""

    key = "kept"

    def __init__(self) -> None:
        self.texts: list[bytes] = []

    def compile(self, source: Source) -> Binary:
        """The number of the text."""
        self.texts.append(source.text.encode())
        return Binary(source.name, str(len(self.texts) - 1).encode(), source.signature)


class Refusing(Kept):
    """The compiler does not know the sine."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler = RefusingCompiler()  # type: ignore[assignment]


class RefusingCompiler(Compiler):
    """Raises for a text with a sine in it."""

    def compile(self, source: Source) -> Binary:
        """The text."""
        if "= f32(sin(" in source.text:
            raise CompileError(f"kernel {source.name}: what is a sine?", source.text)
        return super().compile(source)


class SwallowingCompiler(Compiler):
    """Gives an empty binary for what it cannot compile, and says nothing."""

    def compile(self, source: Source) -> Binary:
        """The text, or nothing."""
        try:
            compile(source.text, "kernel", "exec")
        except SyntaxError:
            return Binary(source.name, b"", source.signature)
        return super().compile(source)


class Swallows(Kept):
    """Errors of the compiler show as a file that cannot be loaded."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler = SwallowingCompiler()  # type: ignore[assignment]

    def load(self, binary: Binary) -> Program:
        """The program. Raises OSError for an empty binary."""
        if not binary.data:
            raise OSError("kernel.so: file too short")
        return super().load(binary)


class MuteCompiler(Compiler):
    """Refuses what is no Python without Python's message."""

    def compile(self, source: Source) -> Binary:
        """The text."""
        try:
            compile(source.text, "kernel", "exec")
        except SyntaxError:
            raise CompileError(f"kernel {source.name} cannot be compiled", source.text) from None
        return super().compile(source)


class Mute(Kept):
    """The compiler's message is lost."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.compiler = MuteCompiler()  # type: ignore[assignment]


class Reordered(Program):
    """A kernel whose arguments are changed before it is launched."""

    def __init__(self, program: Program, change: Callable[[Sequence[int], Grid], tuple[Sequence[int], Grid]]) -> None:
        self.program, self.change = program, change

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> None:
        """Launch with other variables or another grid."""
        self.program.launch(buffers, *self.change(variables, grid))


class VariablesBackwards(PythonBackend):
    """Variables arrive in the wrong order."""

    def load(self, binary: Binary) -> Program:
        """The program with its variables backwards."""
        return Reordered(super().load(binary), lambda variables, grid: (list(variables)[::-1], grid))


class TurnedGrid(Host):
    """The first two dimensions of the grid are mixed up."""

    def load(self, binary: Binary) -> Program:
        """The program with the dimensions of its grid exchanged."""
        return Reordered(super().load(binary), lambda variables, grid: (variables, (grid[1], grid[0], grid[2])))


class ShortIndices(Host):
    """Indices are numbers of 32 bits."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.renderer = CStyleRenderer(replace(DIALECT, types=C_TYPES | {dtypes.index: "int"}))


class Ones(Program):
    """A kernel whose bools have all bits set where they are True."""

    def __init__(self, program: PythonProgram) -> None:
        self.program = program

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: Grid) -> None:
        """Launch, then set all bits."""
        self.program.launch(buffers, variables, grid)
        for param, buffer in zip(self.program.signature.params, buffers, strict=True):
            if param.written and param.dtype is dtypes.bool:
                buffer[: param.size] = bytes(255 if byte else 0 for byte in buffer[: param.size])


class BoolsOfOnes(PythonBackend):
    """True is minus one."""

    def load(self, binary: Binary) -> Program:
        """The program with its bools changed."""
        program = super().load(binary)
        assert isinstance(program, PythonProgram)
        return Ones(program)


class LeavesAShare(Shares):
    """The last chunk is not run."""

    def load(self, binary: Binary) -> Program:
        """The program with one chunk less."""
        program = super().load(binary)
        assert isinstance(program, PythonProgram)
        program.group = partial(all_but_the_last, program.group)
        return program


class IgnoresParts(Shares):
    """Every kernel is run as one chunk, as if it had no parallel loop."""

    def load(self, binary: Binary) -> Program:
        """The program with one chunk."""
        program = super().load(binary)
        assert isinstance(program, PythonProgram)
        program.parts = 1
        return program


class WholeParts(Shares):
    """Each chunk runs the whole kernel: it gets the numbers of an only one."""

    def load(self, binary: Binary) -> Program:
        """The program, whose chunks do not get their numbers."""
        program = super().load(binary)
        assert isinstance(program, PythonProgram)
        program.group = partial(as_only_part, program.group)
        return program


def as_only_part(group: Callable[..., None], *arguments: Any) -> None:
    """Run all of a kernel."""
    *others, _, _, x, y, z = arguments
    group(*others, 0, 1, x, y, z)


def all_but_the_last(group: Callable[..., None], *arguments: Any) -> None:
    """Run a chunk of a kernel, unless it is the last of several."""
    *_, part, parts, _, _, _ = arguments
    if parts == 1 or part < parts - 1:
        group(*arguments)


class NoBarrier(Host):
    """A barrier is no instruction at all."""

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.renderer = CStyleRenderer(replace(DIALECT, barrier=";"))


# Faults of a graph of launches


class OldValues(GraphExecutor):
    """Variables keep the values that were set first."""

    def set_values(self, values: Mapping[str, int]) -> None:
        """Only once."""
        self.values = self.values or values


class OldBuffers(GraphExecutor):
    """Places keep the buffers that were set first."""

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Only once."""
        self.handles.setdefault(place, handle)


class NoCopies(GraphExecutor):
    """Only kernels run."""

    def run(self, first: int) -> int:
        """Pass over copies."""
        return first + 1 if self.steps[first].program is None else super().run(first)


class Graphs(PythonBackend):
    """The interpreter with a graph of its own."""

    executor = GraphExecutor

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """A captured list of launches."""
        return self.executor(self, steps)


def with_graph(executor: type[GraphExecutor]) -> type[PythonBackend]:
    """A backend with that kind of graphs."""
    return type(executor.__name__, (Graphs,), {"executor": executor})


class TurnsTies(Sorts):
    """Of equal elements the last one comes first."""

    def change(self, routine: Routine, found: list[Any]) -> list[Any]:
        """Turn the indices of equal neighbours round."""
        if routine.name != "sort":
            return found
        values, indices = found
        turned = indices.copy()
        same = values[:, 1:] == values[:, :-1]
        for row, column in zip(*np.nonzero(same), strict=True):
            turned[row, column], turned[row, column + 1] = turned[row, column + 1], turned[row, column]
        return [values, turned]


class NanFirst(Sorts):
    """NaN comes before all numbers, as if it were the least."""

    def change(self, routine: Routine, found: list[Any]) -> list[Any]:
        """Move what is NaN from the end of sorted rows to their front."""
        if routine.name == "unique":
            return found
        count = np.isnan(found[0]).sum(axis=1)
        return [np.stack([np.roll(row, n) for row, n in zip(result, count, strict=True)]) for result in found]


class OneNan(Sorts):
    """All NaN are one of the distinct elements."""

    def change(self, routine: Routine, found: list[Any]) -> list[Any]:
        """Count one of them."""
        if routine.name != "unique":
            return found
        values, count, *others = found
        fewer = np.maximum(np.isnan(values).sum(axis=1, keepdims=True) - 1, 0)
        return [values, (count - fewer).astype(np.int32), *others]


class FlushesUnsaid(Flushes):
    """Subnormal results are 0, and the Target says that they are kept."""

    declared = True


def with_fault(base: type[PythonBackend], change: Change) -> type[PythonBackend]:
    """A backend whose renderer gets kernels with a fault in them."""

    def start(self: PythonBackend, name: str, ordinal: int) -> None:
        base.__init__(self, name, ordinal)
        self.renderer = Faulty(self.renderer, change)  # type: ignore[assignment]

    return type(change.__name__, (base,), {"__init__": start})


@dataclass(frozen=True, slots=True)
class Mutant:
    """A device with a fault: its backend, the tests that catch it, and some that it passes."""

    backend: type[PythonBackend]
    caught: tuple[str, ...]
    spared: tuple[str, ...] = ()


GRAPHS = ("test_graph_runs_in_order", "test_graph_takes_other_values", "test_graph_takes_other_buffers")
WAITS = ("test_dependent_kernels", "test_reading_waits", "test_writing_waits", "test_synchronize_waits")
BARRIERS = ("test_barrier[float32]", "test_barrier_in_a_loop")


def rest(tests: tuple[str, ...], *caught: str) -> tuple[str, ...]:
    """The tests that are not caught."""
    return tuple(test for test in tests if test not in caught)


class OnThreads(Program):
    """A program whose kernels in parts run in a thread of a pool, which a forked child has not."""

    def __init__(self, program: Program, pool: ThreadPoolExecutor) -> None:
        self.program, self.pool = program, pool

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Launch it there, and wait."""
        self.pool.submit(self.program.launch, buffers, variables, grid).result()


class ForksItsThreads(Shares):
    """It says that it survives a fork, and its threads do not."""

    survives_fork = True

    def __init__(self, name: str, ordinal: int) -> None:
        super().__init__(name, ordinal)
        self.pool = ThreadPoolExecutor(1)

    def load(self, binary: Binary) -> Program:
        """The program, on the pool where it is run in parts."""
        program = super().load(binary)
        return OnThreads(program, self.pool) if binary.signature.chunked else program


MUTANTS: dict[str, Mutant] = {
    **{name: Mutant(with_fault(SOUND[f"SOUND{fault.base}"], fault.change), fault.caught, fault.spared)
       for name, fault in FAULTS.items()},
    "READSEARLY": Mutant(ReadsEarly, ("test_reading_waits",), ("test_synchronize_waits",)),
    "WRITESEARLY": Mutant(WritesEarly, ("test_writing_waits",), ("test_synchronize_waits", "test_dependent_kernels")),
    "NEVERWAITS": Mutant(NeverWaits, ("test_synchronize_waits",), rest(WAITS, "test_synchronize_waits")),
    "LASTFIRST": Mutant(LastFirst, ("test_dependent_kernels",), ("test_synchronize_waits", "test_reading_waits")),
    "COPIESLATE": Mutant(CopiesLate, ("test_copy_in_event",), ("test_event_waits", "test_queue_waits_for_event")),
    "REUSESEARLY": Mutant(ReusesEarly, ("test_done_event", "test_uploads_behind_work"),
                          ("test_copy_in_event", "test_queue_waits_for_event")),
    "EVENTSWAITFORNOTHING": Mutant(EventsWaitForNothing, ("test_event_waits", "test_queue_waits_for_event"),
                                   ("test_finish_waits",)),
    "QUEUESWAITFORNOTHING": Mutant(QueuesWaitForNothing, (
        "test_queue_waits_for_event", "test_overwriting_waits_for_event", "test_copy_event", "test_tensors_on_queues",
    ), ("test_event_waits",)),
    "TURNSTIES": Mutant(TurnsTies, ("test_routine[sort-0]", "test_routine_or_kernels[sort-0]"),
                        ("test_routine[topk-5-1]", "test_routine[unique]")),
    "NANFIRST": Mutant(NanFirst, ("test_routine[sort-0]", "test_routine[topk-5-1]", "test_routine_or_kernels[sort-0]"),
                       ("test_routine[unique]",)),
    "ONENAN": Mutant(OneNan, ("test_routine[unique]", "test_routine_or_kernels[unique]"), ("test_routine[sort-1]",)),
    "FLUSHESUNSAID": Mutant(FlushesUnsaid, (
        "test_elementwise[ADD-float32]", "test_constants[MAX-float32]", "test_accuracy[EXP2-float32]",
    ), ("test_elementwise[CMPLT-float32]", "test_elementwise[ADD-int32]", "test_cast[int32-float32]")),
    "FORKSITSTHREADS": Mutant(ForksItsThreads, ("test_forks",), ("test_close_and_open_again",)),
    "CLOSESALL": Mutant(ClosesAll, ("test_close_and_open_again",), ("test_graph_runs_in_order",)),
    "TIMESNOTHING": Mutant(TimesNothing, ("test_time",), GRAPHS),
    "TIMESLAUNCHES": Mutant(TimesLaunches, ("test_time",), ("test_graph_of_many_steps",)),
    "SHORTINDICES": Mutant(ShortIndices, ("test_indices_have_64_bits",), ("test_size[float32-33]",)),
    "BOOLSOFONES": Mutant(BoolsOfOnes, ("test_elementwise[CMPLT-int32]", "test_cast[int32-bool]"),
                          ("test_elementwise[WHERE-int32]",)),
    "LEAVESASHARE": Mutant(LeavesAShare, ("test_action[matmul-parallel]", "test_action[transposed-parallel]",
                                          "test_parts[67]", "test_each_part_once"), ("test_size[int8-67]",)),
    "IGNORESPARTS": Mutant(IgnoresParts, ("test_parts[2]", "test_parts[67]"),
                           ("test_parts[1]", "test_each_part_once", "test_action[matmul-parallel]")),
    "WHOLEPARTS": Mutant(WholeParts, ("test_parts[67]", "test_each_part_once"), ("test_action[matmul-parallel]",)),
    "SWALLOWS": Mutant(Swallows, ("test_what_is_no_program_is_refused",), ("test_elementwise[IDIV-int32]",)),
    "MUTE": Mutant(Mute, ("test_what_is_no_program_is_refused",), ("test_elementwise[IDIV-int32]",)),
    "BYNAME": Mutant(ByName, ("test_elementwise[WHERE-float32]", "test_as_written[product-plus-float32]"),
                     ("test_elementwise[ADD-float32]", "test_elementwise[IDIV-int32]")),
    "REFUSING": Mutant(Refusing, ("test_elementwise[SIN-float32]", "test_constants[SIN-float32]"),
                       ("test_elementwise[SQRT-float32]", "test_constants[EXP2-float32]")),
    "NUMBERED": Mutant(Numbered, ("test_binaries_serve_another_process",), ("test_elementwise[IDIV-int32]",)),
    "VARIABLESBACKWARDS": Mutant(VariablesBackwards, ("test_variable[37]",), ("test_symbolic[sum]",)),
    "TURNEDGRID": Mutant(TurnedGrid, ("test_positions[2]", "test_barrier[float32]"), ("test_by_hand[plain]",)),
    "NOBARRIER": Mutant(NoBarrier, BARRIERS, ("test_positions[2]",)),
    "OLDVALUES": Mutant(with_graph(OldValues), ("test_graph_takes_other_values", "test_graph_takes_other_buffers"),
                        ("test_graph_runs_in_order",)),
    "OLDBUFFERS": Mutant(with_graph(OldBuffers), ("test_graph_takes_other_values", "test_graph_takes_other_buffers"),
                         ("test_graph_runs_in_order",)),
    "NOCOPIES": Mutant(with_graph(NoCopies), GRAPHS, ("test_graph_of_many_steps",)),
}  # fmt: skip
BACKENDS = SOUND | {name: mutant.backend for name, mutant in MUTANTS.items()}


def probe() -> Probe:
    """There in every test."""
    return Probe(ok=True, detail="made for a test")


def __getattr__(name: str) -> object:
    """The spec of a device, or its backend: BACKEND_ and its name."""
    if name.startswith("BACKEND_") and name.removeprefix("BACKEND_") in BACKENDS:
        return BACKENDS[name.removeprefix("BACKEND_")]
    if name in BACKENDS:
        api = ApiRange(min=(0, 1), below=(0, 2))
        return DeviceSpec(name=name, summary="a device with a fault", api=api, kind="interpreter", priority=0,
                          probe="mutants:probe", backend=f"mutants:BACKEND_{name}")  # fmt: skip
    raise AttributeError(name)
