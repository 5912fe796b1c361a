"""A captured list of launches as one graph of the driver: one launch for all of them, each time.

The graph is made at the first run. What changes between two runs, buffers, values of variables and the sizes of grids
that follow from them, is set in the nodes that it concerns. A node comes after those of the steps that its step has to
follow, so that the card may run the others beside it.

The driver may refuse to change a node, as where a copy is given memory of another kind: then the graph is made anew.
Where that is refused too, the steps are launched one by one from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any

from tinygraft.device.driver.driver_calls import BITS, DriverCalls
from tinygraft.device.driver.driver_context import DriverContext
from tinygraft.device.driver.driver_program import DriverProgram, words_of
from tinygraft.device.interfaces import GraphExecutor, Handle, Step
from tinygraft.errors import DeviceError, DeviceLostError
from tinygraft.uop.index import size_of

MOST_COPIED = 1 << 30  # given: bytes of a copy that a node takes where its width is one of a picture
FEWEST = 2  # steps: one by itself is launched as it is


class DriverGraph(GraphExecutor):
    """Launches and copies within a card (`steps`), launched as one.

    Where only some are to be run, they are launched singly.
    """

    is_one: bool
    backend: Any  # a DriverBackend, whose module imports this one

    def __init__(self, backend: Any, steps: Sequence[Step]) -> None:
        super().__init__(backend, steps)
        self.context: DriverContext = backend.context
        self.source: Any = None  # the driver's graph, whose nodes name those of the executable one: it lives as long
        self.made: Any = None  # the executable graph
        self.nodes: list[KernelStep | CopyStep] = []
        self.uses: dict[int | str, list[int]] = {}  # the steps that a place, or a variable, is in
        for number, step in enumerate(steps):
            keys: list[int | str] = [*step.buffers, *step.variables]
            for key in dict.fromkeys(keys):
                self.uses.setdefault(key, []).append(number)
        self.symbolic: list[int] = [i for i, s in enumerate(steps) if any(not isinstance(size, int) for size in s.grid)]
        self.changed: set[int] = set()  # steps whose nodes are not as they should be
        self.name: str = f"replay of {len(steps)} launches"
        self.is_one = len(steps) >= FEWEST and all(step.nbytes <= MOST_COPIED for step in steps)

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Let `handle` be the buffer of `place` in the next run."""
        old = self.handles.get(place)
        if old is None or handle is None or old.value != handle.value:
            self.changed.update(self.uses.get(place, ()))
        super().set_buffer(place, handle)

    def set_values(self, values: Mapping[str, int]) -> None:
        """Give variables their values, by name, for the next run."""
        for name, value in values.items():
            if self.values.get(name) != value:
                self.changed.update(self.uses.get(name, ()))
                self.changed.update(self.symbolic)  # whose grids may follow from it
        super().set_values(dict(values))

    def run(self, first: int) -> int:
        """Launch all steps at once, or one where others have run. Returns the number of the step that comes next."""
        if first or not self.is_one:
            return super().run(first)
        context, mark = self.context, self.context.mark
        try:
            with context.current(), nullcontext() if mark is None else mark(self.name):
                has_graph = self.made is not None
                self.is_one = (has_graph and self._took(self._change)) or self._took(self._make_anew)
                if self.is_one:
                    stream = context.raw(self.queue.stream)  # type: ignore[attr-defined]
                    context.with_room(context.driver.call, "graph_launch", self.made, stream)
        except DeviceError as error:
            raise type(error)(f"a graph of {len(self.steps)} launches could not be launched: {error}") from error
        return len(self.steps) if self.is_one else super().run(first)

    def _took(self, action: Callable[[], None]) -> bool:
        """Let the driver change or make the graph. Returns whether it did. Raises DeviceLostError."""
        try:
            action()
        except DeviceLostError:
            raise
        except DeviceError:
            return False
        self.changed.clear()
        return True

    def _change(self) -> None:
        """Set what has changed in the nodes."""
        for number in sorted(self.changed):
            self.nodes[number].change(self.made)

    def _make_anew(self) -> None:
        """Make the graph, with the buffers and values of the next run; an old one is dropped."""
        self._drop()
        self.context.collect()
        self.context.with_room(self._make)

    def _drop(self) -> None:
        """Let the graph be destroyed later: it may still run."""
        if self.made is not None:
            self.context.leave("graph_end", self.made)
            self.context.leave("graph_free", self.source)
        self.made = self.source = None
        self.nodes.clear()

    def _make(self) -> None:
        """Make the graph, each node behind those that its step has to follow."""
        driver, ffi = self.context.driver, self.context.ffi
        graph, made = ffi.new("void **"), ffi.new("void **")
        driver.call("graph_new", graph, 0)
        try:
            for step in self.steps:
                node: KernelStep | CopyStep = (CopyStep if step.program is None else KernelStep)(self, step)
                node.add(graph[0], ffi.new("void *[]", [self.nodes[number].handle[0] for number in step.after]))
                self.nodes.append(node)
            driver.call("graph_make", made, graph[0], 0)
            self.made = self.context.own("graph_end", made[0])
            for node in self.nodes:
                node.enable(self.made)
        except BaseException:
            if self.made is not None:
                self.context.destroy("graph_end", self.made)
            self.made = None
            self.nodes.clear()
            driver.function("graph_free")(graph[0])
            raise
        self.source = self.context.own("graph_free", graph[0])

    def __del__(self) -> None:
        if hasattr(self, "made"):
            self._drop()


class KernelStep:
    """A node that launches a kernel. The driver takes copies of its parameters."""

    is_enabled: bool
    is_wanted: bool
    graph: DriverGraph
    step: Step
    program: DriverProgram
    ffi: Any
    driver: DriverCalls
    handle: Any
    words: Any
    pointers: Any
    params: Any

    def __init__(self, graph: DriverGraph, step: Step) -> None:
        assert isinstance(step.program, DriverProgram)
        self.graph, self.step, self.program = graph, step, step.program
        self.ffi, self.driver = graph.context.ffi, graph.context.driver
        self.handle = self.ffi.new("void **")
        count = len(step.buffers) + len(step.variables)
        self.words = self.ffi.new("unsigned long long[]", max(count, 1))
        self.pointers = self.ffi.new("void *[]", [self.words + i for i in range(max(count, 1))])
        self.params = self.ffi.new("KernelNode *")
        self.params.function = graph.context.function_of(self.program.module)
        self.params.threads_x, self.params.threads_y, self.params.threads_z = self.program.threads, 1, 1
        self.params.shared, self.params.arguments = self.program.shared, self.pointers
        self.is_enabled = self.is_wanted = True

    def add(self, graph: Any, after: Any) -> None:
        """Put the node into a graph, behind other nodes."""
        self._fill()
        self.driver.call("graph_add_kernel", self.handle, graph, after, len(after), self.params)

    def change(self, made: Any) -> None:
        """Give the node of a graph that was made the buffers and values of the next run."""
        self._fill()
        self.driver.call("graph_set_kernel", made, self.handle[0], self.params)
        self.enable(made)

    def enable(self, made: Any) -> None:
        """Leave the node of a graph that was made out where its grid has no thread block."""
        if self.is_wanted != self.is_enabled:
            self.driver.call("graph_enable", made, self.handle[0], int(self.is_wanted))
            self.is_enabled = self.is_wanted

    def _fill(self) -> None:
        """Set the parameters, and whether there is anything to run; a node has one thread block at least."""
        graph, step = self.graph, self.step
        values = [graph.values[name] for name in step.variables]
        for i, word in enumerate(words_of([graph.handles[place] for place in step.buffers], values)):
            self.words[i] = word & BITS
        grid = [size_of(size, graph.values) for size in step.grid]
        self.params.x, self.params.y, self.params.z = (max(size, 1) for size in grid)
        self.is_wanted = 0 not in grid


class CopyStep:
    """A node that copies within the card."""

    graph: DriverGraph
    step: Step
    driver: DriverCalls
    handle: Any

    def __init__(self, graph: DriverGraph, step: Step) -> None:
        self.graph, self.step = graph, step
        self.driver, self.handle = graph.context.driver, graph.context.ffi.new("void **")

    def add(self, graph: Any, after: Any) -> None:
        """Put the node into a graph, behind other nodes."""
        self.driver.call("graph_add_copy", self.handle, graph, after, len(after), *self._what())

    def change(self, made: Any) -> None:
        """Give the node of a graph that was made the buffers of the next run."""
        self.driver.call("graph_set_copy", made, self.handle[0], *self._what())

    def enable(self, made: Any) -> None:
        """Do nothing: a copy is never left out."""

    def _what(self) -> tuple[Any, ...]:
        """Return what describes the copy to the driver: target, source and bytes."""
        target, source = (self.graph.handles[place] for place in self.step.buffers)
        return self.graph.context.copy_node(target.value, source.value, self.step.nbytes)
