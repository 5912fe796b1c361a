"""What a device plugin implements: Backend, Allocator, Compiler, Program and GraphExecutor, with defaults.

A Backend is one opened ordinal of a device. Required of a plugin: a Target, a renderer, three allocator methods,
`Backend.load` and `Program.launch`; all else has a default. What holds for all of them:

**Order.** The work of one queue (launches, copies, replays) has the effect of running one after another, in the order
in which it was called for, whichever threads called. Core does not wait in between. It launches a kernel on the result
of one that may still run, and memory that a tensor no longer needs is given to the next one at once, while kernels that
were launched before may still use it: what is launched or copied later comes after them. A backend has one queue, and
one that works in order is enough; where it makes more (device/queues.py), and between two backends, core orders what
uses the same memory by events.

**Asynchronous devices.** A device may return from `launch`, `run`, `copy` and `copy_in` before the work is done. One
that does has a Queue class of its own, or at least its own `synchronize`. Core waits where it needs a value: for an
event, in `copy_out`, and by `synchronize` before it reads or writes memory through `as_host`. Such a device guarantees:

- What a kernel needs of its Program exists until it has run: core may drop the Program as soon as `launch` has
  returned, and the caller may change the sequences that it passed.
- `Allocator.copy_in` has read the bytes when it returns: the caller may change the source.
- Without queues of its own, memory that is freed goes back to the system only when what was launched before has run.
  With them core frees nothing that may still be used.
- What fails late is raised by the next call that waits, as a DeviceLostError, since what was computed is not known.

A realisation or replay that used memory from `at_address` returns when its work on that memory has ended, since the
owner may read it then; core retains the owner until then.

**Errors.** A DeviceLostError ends the backend for this process: every later use of its memory raises it again. After
any other error the backend goes on. What `launch` says of errors holds for copies and replays too.

**Threads.** Any thread may make any call, so a driver with a current context sets it in each. Which calls may overlap:

- The constructor and `close` of a Backend: one at a time, under the lock of the registry.
- `render` and `load`: one at a time, save that unpickling a TinyJit loads whatever else happens.
- `compile`: up to `Compiler.threads` at the same time, on behalf of a thread that waits for them. As that thread holds
  the locks of the runtime, no tensor may be realised in `compile`, `render` or `load`.
- `launch`, `timed_launch`, `copy`, `copy_from`, and all of a GraphExecutor: one thread at a time, not always the same.
- Methods of a Queue and an Event but `launch`: at any time, beside all others. `make_queue`: one at a time.
- `graph`, `copy_in`, `copy_out`, `synchronize`, `as_host`, `at_address`, `view`: at any time, beside all others.
- `alloc` and `free`: one at a time for the backend's pool, beside all others; VALIDATE=1 calls them beside the pool.
  `free` is called where Python collects garbage, so perhaps in the middle of another call in the same thread: it waits
  for no lock that one of those holds.

**Signals.** Ctrl-C may raise KeyboardInterrupt in whatever Python code of a plugin the main thread runs: what has to be
undone is undone in `finally`.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tinygraft.errors import UnsupportedError
from tinygraft.render.renderer import Renderer
from tinygraft.target import Target
from tinygraft.uop.index import size_of
from tinygraft.uop.sizes import sint
from tinygraft.uop.stages import Binary, Routine, Source

if TYPE_CHECKING:
    from tinygraft.device.queues import Queue
    from tinygraft.device.timeline import Timeline

Handle = Any  # a buffer as its allocator knows it; opaque to core


class Allocator(ABC):
    """Memory of one backend. An allocator only allocates and frees: core caches freed buffers (device/pool.py).

    A handle is any object that the allocator chooses: an address, memory itself, or a buffer with an offset. Core
    refers to it as long as the memory is used, passes it on to programs and queues, and never looks inside. A buffer
    of no elements has no memory: it is None among the buffers of a launch, and is not copied.
    """

    @abstractmethod
    def alloc(self, nbytes: int) -> Handle:
        """Allocate `nbytes` (at least 1) at a multiple of the Target's `alignment`, with any content. Returns a handle.

        Raises DeviceMemoryError when there is no room. Core then frees what it caches for reuse, and calls once more.
        """

    @abstractmethod
    def copy_in(self, target: Handle, source: memoryview) -> None:
        """Copy host bytes to the device, after what was launched before; `source` may be changed when this returns.

        `source` is contiguous, of any shape and format, and perhaps read-only; it is as large as the buffer.
        """

    @abstractmethod
    def copy_out(self, target: memoryview, source: Handle) -> None:
        """Copy device bytes to the host. When this returns the copy, and what was launched before it, is complete.

        `target` is contiguous and writable, of any shape and format, and as large as the buffer.
        """

    def copy(self, target: Handle, source: Handle, nbytes: int) -> None:
        """Copy the first `nbytes` of one buffer to another that does not overlap it, after what was launched before.

        Default: through the host, which requires that the caller has called `synchronize`, as core does.
        """
        view = self.as_host(source)
        if view is None:
            view = memoryview(bytearray(nbytes))
            self.copy_out(view, source)
        self.copy_in(target, view)

    def free(self, handle: Handle, nbytes: int) -> None:
        """Free memory. `handle` is what `alloc` returned for `nbytes`, never a view or borrowed memory.

        Kernels that were launched before may still use it, unless the backend has a Queue class of its own. It is
        called once for each `alloc`, unless the backend is closed or lost before; what is not freed then goes with the
        backend. Default: drop the reference.
        """

    def alloc_host(self, nbytes: int) -> memoryview:
        """Allocate `nbytes` of writable host memory that the device copies from and to fastest (pinned), as flat bytes.

        It is freed when nothing refers to it; core retains it until copies that use it have passed, and caches it for
        the next ones. Default: ordinary memory.
        """
        return memoryview(bytearray(nbytes))

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Return a handle of `nbytes` of a buffer, or of another view, from `offset` on.

        `offset` is in bytes, a multiple of the Target's `alignment`. A view is dropped and never freed, and keeps the
        buffer's memory alive until that is freed. With views the temporaries of a schedule share one block. Default:
        not supported, so core never sub-allocates.
        """
        raise UnsupportedError(f"{type(self).__name__} has no views into a buffer")

    def as_host(self, handle: Handle) -> memoryview | None:
        """Return the buffer's own bytes as the host sees them, writable; None where it cannot. Default: None.

        It does not wait. Core calls `synchronize` before it reads or writes through the result, and what is launched
        afterwards sees what was written.
        """
        return None

    def at_address(self, address: int, nbytes: int) -> Handle:
        """Return a handle of borrowed memory of this process, which is never freed here.

        `address` is a multiple of the element's size, and of the Target's `alignment` only where that streams stores
        and the buffer is larger than its `stream_bytes`. Raises UnsupportedError where the device cannot use it: then
        a copy is made, and `from_blob` raises. Where the host sees the device's memory it is memory of the host, else
        of the device. Default: not supported.
        """
        raise UnsupportedError(f"{type(self).__name__} cannot use memory that others made")

    def address(self, handle: Handle) -> int:
        """Where a buffer is, for other libraries on a device whose memory the host does not see: `at_address` undone.

        Memory whose address was asked for is reused only after `Backend.synchronize_all`. Default: not supported.
        """
        raise UnsupportedError(f"{type(self).__name__} has no addresses for others")


class Program(ABC):
    """A loaded kernel. It has no state that one launch leaves for another."""

    @abstractmethod
    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Run the kernel on buffers by slot; may return before it has finished.

        `buffers` are handles (None where there are no elements), as large as the Signature's params say or larger;
        `variables` are the values of the Signature's names, in its order, and fit an int64; `grid` is the number of
        thread blocks along each dimension. Where one of those is 0 nothing is to be run.

        What it raises it raises before the kernel has stored anything. Where that is not so, the error is a
        DeviceLostError, after which nothing on the device is read any more, or has an attribute `stored`: what this
        kernel stores to is lost then. The same holds for copies.
        """


@dataclass(frozen=True, slots=True)
class Step:
    """One launch of a captured list: of `program`, or a copy of `nbytes` within the device's memory where that is None.

    `buffers` are places, which are numbers that stand for buffers: `GraphExecutor.set_buffer` says later which buffer a
    place is. A copy has its target and its source. `variables` are names in the order in which the program takes them.
    A size of the grid may be symbolic.

    `after` has the numbers of the earlier steps that this one has to follow, because they use the same memory and one
    of the two writes it. Steps of which neither follows the other, also through others, may run at the same time.
    """

    program: Program | None
    buffers: tuple[int, ...]
    variables: tuple[str, ...] = ()
    grid: tuple[sint, sint, sint] = (1, 1, 1)
    nbytes: int = 0
    after: tuple[int, ...] = ()


class GraphExecutor:
    """A captured list of launches on one backend, to be run again with other buffers and values.

    This one launches step by step from Python; a device that can do better overrides it. It is used by one thread at a
    time, and other launches on the backend may come between two calls. Before the first run each place has been given
    its buffer; buffers and values stay until they are changed. Between runs their memory may be freed or reused, so a
    list accesses it in `run` only. `is_native` says that no Python code runs in `run`, so that Ctrl-C cannot end it in
    the middle of a step.
    """

    backend: Backend
    steps: Sequence[Step]

    is_native: bool = False

    def __init__(self, backend: Backend, steps: Sequence[Step]) -> None:
        self.backend, self.steps = backend, steps
        self.queue: Queue = backend.queue  # where `run` puts the steps; core sets it before each run
        self._copies_in_order = backend.has_queues
        self.handles: dict[int, Handle] = {}
        self.values: Mapping[str, int] = {}

    def set_buffer(self, place: int, handle: Handle) -> None:
        """Let `handle` be the buffer of `place`, a number in `Step.buffers`; None where it has no elements."""
        self.handles[place] = handle

    def set_values(self, values: Mapping[str, int]) -> None:
        """Set the values of variables by name: of all that the steps name, and perhaps of others, which are ignored.

        Core calls it before each run, with all values, also with equal ones and where no step names a variable.
        `values` may be retained: core does not change it.
        """
        self.values = values

    def run(self, first: int) -> int:
        """Run at least one step on `queue`, from number `first` on. Returns the number of the next step.

        That is the number of steps when all were run. The steps have the effect of running one after another,
        after what was launched before; they may still run when this returns. Returns after a tenth of a second at
        the latest (or one step that takes longer), since Python handles Ctrl-C only in between. Default: one step.

        Where this raises, core supposes that all steps from `first` on may have run in part; where it is the
        default, only that step, and not where its Program raised before it stored anything (`Program.launch`).
        """
        step = self.steps[first]
        handles = [self.handles[place] for place in step.buffers]
        if step.program is None:
            if not self._copies_in_order:
                self.backend.synchronize()  # the default copy goes through the host
            self.queue.copy(handles[0], handles[1], step.nbytes)
        else:
            x, y, z = (size_of(size, self.values) for size in step.grid)
            self.queue.launch(step.program, handles, [self.values[name] for name in step.variables], (x, y, z))
        return first + 1


class Compiler:
    """From source to binary. The default passes the text on as UTF-8.

    `key` differs between compilers, options and processors whose binaries differ, is the same in every process, and
    does not change; None means that binaries are not cached on disk. `threads` is how many kernels are best compiled at
    once; above 1 compile() is called from that many threads, at the same time.
    """

    key: str | None = None
    threads: int = 1

    def compile(self, source: Source) -> Binary:
        """Return the binary of a source: bytes that are all that `Backend.load` needs, perhaps in another process.

        Raises CompileError with the compiler's output. Empty bytes are an error too.
        """
        return Binary(source.name, source.text.encode(), source.signature)


class Backend(ABC):
    """One opened ordinal of a device, such as CPU:0.

    It is made when the ordinal is first requested, and there is one of it in a process, until `close`; then it may be
    made anew. `survives_fork` says that memory and programs still work in a forked child, as host memory does. Threads
    do not: a device that has started some says False, or starts them anew where os.getpid() is another. Where it is
    False (a driver's context never survives) core drops the backend in the child without closing it, and uses nothing
    of it; but its objects may be collected there, so a finaliser that calls the driver checks os.getpid() first. No
    fork happens while kernels are compiled.
    """

    ordinal: int

    survives_fork: bool = False
    dlpack_device: tuple[int, int] | None = None  # what DLPack calls its memory, where the host does not see it
    core_pool: Any = None  # core's pool of its memory (device/pool.py), once there is one
    on_full: Callable[[], object] | None = None  # `Pool.make_room`, once there is a pool
    array_interface: str = ""  # the attribute by which arrays in such memory are known, like __array_interface__
    name: str
    target: Target
    renderer: Renderer
    allocator: Allocator
    compiler: Compiler

    def __init__(self, name: str, ordinal: int) -> None:
        self.name, self.ordinal = name, ordinal
        self.compiler = Compiler()

    @abstractmethod
    def load(self, binary: Binary) -> Program:
        """Load a binary, which may come from the disk, and from an earlier process. Returns the Program.

        Raises an error where it does not load: core then removes it from the disk and compiles it anew.
        """

    def routine(self, routine: Routine) -> Program:
        """Return a Program for a routine that the Target declares: for these operands, and the results that are wanted.

        It is launched on the wanted results, ascending, and then the operands, without variables, as a kernel is. What
        it computes is the meaning in uop/routines.py, for all values. It may be asked for again, also in the same
        process. Raises an error where it cannot. Default: none is offered.
        """
        raise UnsupportedError(f"{self.name} has no routine {routine.name}")

    def graph(self, steps: Sequence[Step]) -> GraphExecutor:
        """Return an executor of a captured list of launches. Default: one that launches step by step from Python.

        The programs of `steps` are this backend's; they are retained as long as the result.
        """
        return GraphExecutor(self, steps)

    @cached_property
    def queue(self) -> Queue:
        """The first queue, where a thread's work goes unless it entered another one. Default: one whose launches wait.

        A plugin sets it to a Queue of its own class in the constructor.
        """
        from tinygraft.device.queues import Queue

        return Queue(self)

    @property
    def has_queues(self) -> bool:
        """Return whether the plugin has a Queue class of its own."""
        from tinygraft.device.queues import Queue

        return type(self.queue) is not Queue

    def make_queue(self) -> Queue:
        """Return a new queue, which works beside the others. Default: the first, so that all is in one order."""
        return self.queue

    def new_queue(self) -> Queue:
        """Return a queue whose work runs beside that of others, where the device can do that, after what it has now.

        What this thread computes inside `with queue:` goes there; core orders what uses the same memory. There are 16
        of a backend at most; later calls return one of those again.

        >>> from tinygraft import Device, Tensor
        >>> with Device["PYTHON"].new_queue() as queue:
        ...     x = (Tensor([1, 2], device="PYTHON") * 2).realize()
        >>> queue.record().done(), x.tolist()
        (True, [2, 4])

        Raises DeviceLostError where the device has been closed.
        """
        return self.make_queue() if self.timeline is None else self.timeline.new_queue()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {getattr(self, 'name', '')}>"

    @cached_property
    def timeline(self) -> Timeline | None:
        """Core's record of what may still run (device/timeline.py); None where launches wait."""
        if not self.has_queues and type(self).synchronize is Backend.synchronize:
            return None
        from tinygraft.device.timeline import Timeline  # few devices need it

        return Timeline(self)

    def synchronize(self) -> None:
        """Wait until everything that was launched, by any thread, has finished. Default: `finish` of each queue.

        Raises DeviceLostError where some of it failed.
        """
        if self.timeline is not None:
            self.timeline.finish()

    def synchronize_all(self) -> None:
        """Wait until all work on the device's memory has finished, also what other libraries launched on their streams.

        Core calls it before it reuses memory that was lent (`Allocator.address`), since a consumer says that it does
        not need the memory any more before its work has run. Raises DeviceLostError. Default: `synchronize`.
        """
        self.synchronize()

    def make_room(self) -> None:
        """Free what core caches on the device, for a plugin whose driver has no room for what is no buffer.

        The plugin then asks its driver once more. Nothing is freed while a thread takes memory, since that may be this
        one, nor before the backend is open.
        """
        if self.on_full is not None:
            self.on_full()

    def copy_from(self, target: Handle, peer: Backend, source: Handle, nbytes: int) -> None:
        """Copy from a buffer of another backend (`peer`) to one of this, waiting for the kernels that write the source.

        The bytes are written after what was launched here before, and read before what is launched on `peer` later.
        Default: through the host. A plugin whose devices see each other's memory overrides it, checks the class of
        `peer`, and calls this default for all others. Where this backend has a Queue class of its own,
        `Queue.copy_from` is called instead.
        """
        peer.synchronize()
        view = peer.allocator.as_host(source)
        if view is None:
            view = memoryview(bytearray(nbytes))
            peer.allocator.copy_out(view, source)
        self.allocator.copy_in(target, view)

    # With other libraries that work on the device's memory, on streams of their own, which have numbers there.

    def stream_number(self) -> int | None:
        """The number of the first queue among the streams of the device; None where it has none. Default: none."""
        return None

    def lend(self, stream: int) -> None:
        """Let what another library puts on its stream come after what was launched here. Default: the host waits."""
        self.synchronize()

    def follow(self, stream: int) -> None:
        """Let what is launched here come after what another library has put on its stream. Default: not supported."""
        raise UnsupportedError(f"{self.name} cannot wait for stream {stream} of another library")

    def about(self) -> str:
        """What `doctor` says of an open backend beside its Target, in a line. Default: nothing."""
        return ""

    def close(self) -> None:
        """Wait for what runs, and free everything.

        Called once, in the reverse order of opening, also at exit; before it core frees what it caches for reuse. Core
        does not free memory that is in use then: a later use of it raises an error.
        """

    def timed_launch(self, program: Program, buffers: Sequence[Handle], variables: Sequence[int],
                     grid: tuple[int, int, int]) -> float:  # fmt: skip
        """Launch a kernel with nothing else running, and wait for it. Returns the seconds that it took.

        Called by BEAM; without queues of its own also in place of `launch` with DEBUG=2 and where launches are
        observed. Default: by events of the first queue, or the host's clock where it has none.
        """
        self.synchronize()
        if self.has_queues:
            start = self.queue.record()
            program.launch(buffers, variables, grid)
            return self.queue.record().elapsed(start)
        begun = time.perf_counter()
        program.launch(buffers, variables, grid)
        self.synchronize()
        return time.perf_counter() - begun
