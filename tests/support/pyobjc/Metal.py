"""A stand-in for PyObjC's module Metal, for machines that have none: devices, buffers, libraries, queues and replays.

The plugin is imported as it is, with this folder on its path. Calls have PyObjC's names and forms (emulated_calls.py).
Kernels are the MSL that the plugin writes, compiled for this processor (emulated_kernels.py). What Metal leaves open is
made as bad as it may be: command buffers run late, on a thread of their queue; launches of an indirect command buffer
that no barrier divides run in a shuffled order; memory begins as NaN, and ends at a page that cannot be touched.

EMULATED_GPUS      how many there are (2)
EMULATED_LATE      microseconds before a command buffer begins: of each queue by chance from none to four times that
EMULATED_SEED      of that chance (1): an order that nothing enforces is another one with another seed
EMULATED_MSL       the version of the language (320); before it MTLCompileOptions has no math mode
EMULATED_NO_ICB    1: no indirect command buffers for kernels
EMULATED_VIRTUAL   1: the name is that of a virtual machine's GPU
EMULATED_APPLE9    1: of the generation of the M3, which retains the pipelines of an indirect command buffer
EMULATED_NO_VECTORS, EMULATED_NO_ARCHIVES    1: the compiler takes no vectors; no binary archives
"""

from __future__ import annotations

import ctypes
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import emulated_kernels
from emulated_calls import NUMBERS, Called, EmulatedCallError, counts, refused
from Foundation import NSURL, NSError

globals().update(NUMBERS)
COMMITTED, COMPLETED, FAILED = 2, 4, 5
MOST_BUFFERS = 64  # command buffers of a queue that have not ended
LARGEST = 1 << 33
_changed = threading.Condition()
_random = random.Random(1)
__all__ = ["MTLCopyAllDevices", "MTLCreateSystemDefaultDevice", "counts", "refused"]


def setting(name: str) -> int:
    """A variable of the environment as a number."""
    return int(os.environ.get(name) or 0)


class MTLSize(NamedTuple):
    """Three numbers."""

    width: int
    height: int
    depth: int


class Described(Called, needs_metadata=False):
    """What is filled in before something is made of it."""

    def __init__(self) -> None:
        self.set: dict[str, Any] = {}

    @classmethod
    def alloc(cls) -> Any:
        """A new one."""
        return cls()

    def init(self) -> Any:
        """Itself."""
        return self


def settable(*names: str) -> dict[str, Callable[..., None]]:
    """Methods that set a property."""

    def one(name: str) -> Callable[..., None]:
        def setter(self: Any, value: Any) -> None:
            self.set[name] = value

        return setter

    return {f"set{name}_": one(name) for name in names}


def described(name: str, *names: str) -> Any:
    """A class of properties."""
    return type(name, (Described,), settable(*names), needs_metadata=False)


MSL = setting("EMULATED_MSL") or 320
MATH = ("MathMode", "MathFloatingPointFunctions") if MSL >= 320 else ()
MODES = ("safe", "relaxed", "fast")  # of MTLMathMode
LATENESS = (0.0, 0.0, 0.5, 1.0, 4.0)
MTLCompileOptions = described("MTLCompileOptions", "FastMathEnabled", *MATH)
MTLBinaryArchiveDescriptor = described("MTLBinaryArchiveDescriptor", "Url")
MTLComputePipelineDescriptor = described(
    "MTLComputePipelineDescriptor", "ComputeFunction", "BinaryArchives", "SupportIndirectCommandBuffers"
)
MTLIndirectCommandBufferDescriptor = described(
    "MTLIndirectCommandBufferDescriptor", "CommandTypes", "InheritBuffers", "InheritPipelineState",
    "MaxKernelBufferBindCount",
)  # fmt: skip


class Contents:
    """PyObjC's varlist: an array whose length it does not know."""

    def __init__(self, address: int, length: int) -> None:
        self._address, self._length = address, length

    def as_buffer(self, count: int) -> memoryview:
        """The first bytes, writable."""
        assert 0 <= count <= self._length
        return memoryview((ctypes.c_ubyte * count).from_address(self._address)).cast("B")


class Buffer(Called):
    """Memory."""

    def __init__(self, device: Device, nbytes: int, address: int) -> None:
        self._device, self._nbytes, self._address = device, nbytes, address
        device._allocated += nbytes

    def contents(self) -> Contents:
        """Where it is."""
        return Contents(self._address, self._nbytes)

    def length(self) -> int:
        """How large it is."""
        return self._nbytes

    def __del__(self) -> None:
        self._device._allocated -= self._nbytes
        emulated_kernels.scheduler().emulated_metal_free(self._address, self._nbytes)


class Function(Called):
    """A kernel of a library."""

    def __init__(self, library: Library, name: str) -> None:
        self._library, self._name = library, name


class Library(Called):
    """A compiled source."""

    def __init__(self, text: str, code: bytes) -> None:
        self._text, self._code = text, code

    def newFunctionWithName_(self, name: str) -> Function | None:
        """A kernel, or nil."""
        return Function(self, name) if name in emulated_kernels.kernels_of(self._text) else None


class Pipeline(Called):
    """A kernel that can be launched."""

    def __init__(self, kernel: emulated_kernels.LoadedKernel, is_indirect: bool) -> None:
        self._kernel, self._is_indirect = kernel, is_indirect

    def maxTotalThreadsPerThreadgroup(self) -> int:
        """What its registers allow."""
        return setting("EMULATED_MOST_THREADS") or self._kernel.threads

    def staticThreadgroupMemoryLength(self) -> int:
        """What it declares."""
        return self._kernel.shared


class Archive(Called):
    """Machine code in a file: of one kernel, as the plugin uses it."""

    def __init__(self, key: bytes, image: bytes) -> None:
        self._key, self._image = key, image

    def addComputePipelineFunctionsWithDescriptor_error_(self, descriptor: Any) -> tuple[bool, NSError | None]:
        """Compile a pipeline into it."""
        function = descriptor.set["ComputeFunction"]
        self._key = key_of(function)
        self._image = emulated_kernels.linked(function._library._code)
        return True, None

    def serializeToURL_error_(self, url: NSURL) -> tuple[bool, NSError | None]:
        """Write the file."""
        with open(url.path(), "wb") as file:
            file.write(b"ARCH" + self._key + self._image)
        return True, None


def key_of(function: Function) -> bytes:
    """What an archive knows a kernel by."""
    import hashlib

    return hashlib.sha256(f"{function._name}\0{function._library._text}".encode()).digest()


class SharedEvent(Called):
    """A number that grows."""

    def __init__(self) -> None:
        self._value = 0

    def setSignaledValue_(self, value: int) -> None:
        """Set it from the host; it never falls."""
        with _changed:
            self._value = max(self._value, value)
            _changed.notify_all()


class IndirectCommand(Called):
    """A launch in an indirect command buffer."""

    def __init__(self, owner: IndirectBuffer) -> None:
        self._owner = owner
        self._clear()

    def _clear(self) -> None:
        self._state: Pipeline | None = None
        self._buffers: dict[int, tuple[Buffer, int]] = {}
        self._has_barrier = False
        self._sizes: Any = None

    def _touch(self) -> None:
        if self._owner._running:
            raise EmulatedCallError("an indirect command buffer is changed while it runs")

    def reset(self) -> None:
        """Empty it: nothing is launched."""
        self._touch()
        self._clear()

    def setBarrier(self) -> None:
        """Let it wait for those before it."""
        self._touch()
        self._has_barrier = True

    def setComputePipelineState_(self, state: Pipeline) -> None:
        """Which kernel."""
        self._touch()
        if not state._is_indirect:
            raise EmulatedCallError("the pipeline was not made for indirect command buffers")
        self._state = state

    def setKernelBuffer_offset_atIndex_(self, buffer: Buffer, offset: int, slot: int) -> None:
        """A buffer."""
        self._touch()
        if buffer is None or slot >= self._owner._bound:
            raise EmulatedCallError(f"buffer {buffer!r} in slot {slot} of {self._owner._bound}")
        if offset >= 1 << 32:
            raise EmulatedCallError(f"the offset {offset} is more than an indirect command has bits for")
        self._buffers[slot] = (buffer, offset)

    def concurrentDispatchThreadgroups_threadsPerThreadgroup_(self, grid: Any, threads: Any) -> None:
        """The sizes."""
        self._touch()
        self._sizes = (tuple(grid), tuple(threads))


class IndirectBuffer(Called):
    """Launches that are written once."""

    def __init__(self, count: int, bound: int) -> None:
        self._bound, self._running = bound, 0
        self._commands = [IndirectCommand(self) for _ in range(count)]

    def indirectComputeCommandAtIndex_(self, number: int) -> IndirectCommand:
        """One of them."""
        return self._commands[number]


class GpuFault(Exception):
    """What ends a command buffer."""


def dispatch(state: Pipeline | None, buffers: dict[int, tuple[Any, int]], grid: Any, threads: Any) -> None:
    """Run a kernel now."""
    if state is None:
        raise GpuFault("a launch without a pipeline")
    count = max(buffers, default=-1) + 1
    addresses = []
    for slot in range(count):
        buffer, offset = buffers.get(slot, (None, 0))
        if isinstance(buffer, Buffer) and offset >= buffer._nbytes:
            raise GpuFault(f"the offset {offset} is beyond a buffer of {buffer._nbytes} bytes")
        addresses.append(0 if buffer is None else addressed(buffer) + offset)
    counts["launch"] += 1
    if emulated_kernels.launch(state._kernel, addresses, grid, threads):
        raise GpuFault(f"page fault or undefined behaviour in {state._kernel.name}")


def addressed(buffer: Any) -> int:
    """Where memory is: a buffer's, or that of bytes that were set."""
    return buffer._address if isinstance(buffer, Buffer) else ctypes.addressof(buffer)


class Encoder(Called):
    """Writes commands into a command buffer."""

    def __init__(self, owner: CommandBuffer) -> None:
        self._owner, self._is_open = owner, True
        self._state: Pipeline | None = None
        self._buffers: dict[int, tuple[Any, int]] = {}
        self._resources: set[int] = set()
        self._named: set[int] = set()  # pipelines

    def _put(self, work: Callable[[], None]) -> None:
        if not self._is_open:
            raise EmulatedCallError("an encoder is used after its end")
        self._owner._work.append(work)

    def endEncoding(self) -> None:
        """End it."""
        assert self._is_open
        self._is_open, self._owner._encoder = False, None


class ComputeEncoder(Encoder):
    """Of launches, one after another."""

    def setComputePipelineState_(self, state: Pipeline) -> None:
        """Which kernel."""
        assert isinstance(state, Pipeline)
        self._state = state

    def setBuffer_offset_atIndex_(self, buffer: Buffer | None, offset: int, slot: int) -> None:
        """A buffer, or none."""
        assert slot < 31
        self._buffers[slot] = (buffer, offset)

    def setBytes_length_atIndex_(self, data: bytes, length: int, slot: int) -> None:
        """Bytes, copied."""
        assert slot < 31
        assert length == len(data) <= 4096
        self._buffers[slot] = ((ctypes.c_ubyte * length).from_buffer_copy(data), 0)

    def dispatchThreadgroups_threadsPerThreadgroup_(self, grid: Any, threads: Any) -> None:
        """Launch."""
        state, buffers = self._state, dict(self._buffers)
        self._named.add(id(state))
        if not any((*grid, *threads)):
            return
        if 0 in tuple(grid):
            raise EmulatedCallError("a launch without thread blocks")
        self._put(lambda: dispatch(state, buffers, tuple(grid), tuple(threads)))

    def useResource_usage_(self, buffer: Buffer, usage: int) -> None:
        """Say that an indirect launch uses it."""
        assert usage == 3
        self._resources.add(id(buffer))

    def executeCommandsInBuffer_withRange_(self, buffer: IndirectBuffer, which: tuple[int, int]) -> None:
        """Launch what an indirect command buffer has."""
        commands, resources = buffer._commands[which[0] : which[0] + which[1]], set(self._resources)
        if not setting("EMULATED_APPLE9") and any(
            one._state is not None and id(one._state) not in self._named for one in commands
        ):
            raise EmulatedCallError("a GPU before the M3 may have lost a pipeline that no encoder has named")
        buffer._running += 1
        self._owner._indirect.append(buffer)
        counts["indirect"] += 1
        self._put(lambda: run_indirect(commands, resources))


def run_indirect(commands: Sequence[IndirectCommand], resources: set[int]) -> None:
    """Run launches: those between two barriers in any order. A command that launches nothing is no barrier."""
    groups: list[list[IndirectCommand]] = [[]]
    for command in commands:
        if command._has_barrier and command._sizes is not None:
            groups.append([])
        groups[-1].append(command)
    for group in groups:
        _random.shuffle(group)
        for command in group:
            if command._sizes is None:
                continue
            if any(id(buffer) not in resources for buffer, _ in command._buffers.values()):
                raise GpuFault("an indirect launch uses a buffer that is not resident")
            dispatch(command._state, dict(command._buffers), *command._sizes)


class BlitEncoder(Encoder):
    """Of copies."""

    def copyFromBuffer_sourceOffset_toBuffer_destinationOffset_size_(
        self, source: Buffer, begin: int, target: Buffer, at: int, nbytes: int
    ) -> None:
        """Copy whole words."""
        if begin % 4 or at % 4 or nbytes % 4 or not nbytes:
            raise EmulatedCallError(f"a blit copies words, got {begin}, {at}, {nbytes}")
        if begin + nbytes > source._nbytes or at + nbytes > target._nbytes:
            raise EmulatedCallError("a blit beyond the end of a buffer")
        counts["blit"] += 1
        self._put(lambda: ctypes.memmove(target._address + at, source._address + begin, nbytes) and None)


class CommandBuffer(Called):
    """Commands that run one after another."""

    def __init__(self, queue: CommandQueue) -> None:
        self._queue, self._state = queue, 0
        self._work: list[Callable[[], None]] = []
        self._indirect: list[IndirectBuffer] = []
        self._signals: list[tuple[SharedEvent, int]] = []
        self._encoder: Encoder | None = None
        self._error: NSError | None = None
        self._times = (0.0, 0.0)

    def _begin(self, encoder: Encoder) -> Encoder:
        if self._encoder is not None or self._state:
            raise EmulatedCallError("an encoder is begun before the end of another, or in a committed buffer")
        self._encoder = encoder
        return encoder

    def computeCommandEncoder(self) -> Encoder:
        """One for launches."""
        return self._begin(ComputeEncoder(self))

    def blitCommandEncoder(self) -> Encoder:
        """One for copies."""
        return self._begin(BlitEncoder(self))

    def encodeSignalEvent_value_(self, event: SharedEvent, value: int) -> None:
        """Set a number when all before has run."""
        assert self._encoder is None
        self._signals.append((event, value))

    def encodeWaitForEvent_value_(self, event: SharedEvent, value: int) -> None:
        """Wait for a number."""
        assert self._encoder is None

        def wait() -> None:
            with _changed:
                if not _changed.wait_for(lambda: event._value >= value, 60):
                    raise GpuFault("an event was never signalled")

        self._work.append(wait)

    def commit(self) -> None:
        """Hand it to the GPU."""
        if self._encoder is not None or self._state:
            raise EmulatedCallError("committed with an open encoder, or twice")
        self._state = COMMITTED
        self._queue._given.append(self)
        self._queue._there.release()

    def waitUntilCompleted(self) -> None:
        """Wait for its end."""
        if not self._state:
            raise EmulatedCallError("a command buffer is waited for that was not committed")
        with _changed:
            _changed.wait_for(lambda: self._state >= COMPLETED)

    def status(self) -> int:
        """How far it is."""
        return self._state

    def error(self) -> NSError | None:
        """Why it failed."""
        return self._error

    def GPUStartTime(self) -> float:
        """When it began, in seconds."""
        return self._times[0]

    def GPUEndTime(self) -> float:
        """When it ended."""
        return self._times[1]

    def _run(self) -> None:
        time.sleep(self._queue._chance.choice(LATENESS) * setting("EMULATED_LATE") / 1e6)
        begin, state = time.perf_counter(), COMPLETED
        try:
            for work in self._work:
                work()
        except GpuFault as error:
            self._error, state = NSError(f"Caused GPU Error: {error}"), FAILED
        self._times = (begin, time.perf_counter())
        for buffer in self._indirect:
            buffer._running -= 1
        self._work.clear()
        with _changed:
            for event, value in self._signals if state == COMPLETED else ():
                event._value = max(event._value, value)
            self._state = state
            _changed.notify_all()


class CommandQueue(Called):
    """A thread that runs command buffers in order, each late by chance: two queues keep no order that was not asked."""

    def __init__(self, number: int) -> None:
        self._chance = random.Random(f"{setting('EMULATED_SEED') or 1} {number}")
        self._given: deque[CommandBuffer] = deque()
        self._there = threading.Semaphore(0)
        self._room = threading.BoundedSemaphore(MOST_BUFFERS)
        threading.Thread(target=self._serve, daemon=True).start()

    def commandBuffer(self) -> CommandBuffer:
        """A new one, once there are fewer than 64."""
        if not self._room.acquire(timeout=60):
            raise EmulatedCallError("64 command buffers of a queue were made, and not committed")
        return CommandBuffer(self)

    def _serve(self) -> None:
        while True:
            self._there.acquire()
            self._given.popleft()._run()
            self._room.release()


class Device(Called):
    """A GPU."""

    def __init__(self, number: int) -> None:
        self._number, self._allocated, self._queues = number, 0, 0

    def name(self) -> str:
        """What it is called."""
        return f"Emulated {'virtual ' if setting('EMULATED_VIRTUAL') else ''}GPU {self._number}"

    def registryID(self) -> int:
        """Its number in the system."""
        return 0x1000 + self._number

    def supportsFamily_(self, family: int) -> bool:
        """What it can do."""
        if family == NUMBERS["MTLGPUFamilyApple9"]:
            return bool(setting("EMULATED_APPLE9"))
        return not setting("EMULATED_NO_ICB") and family in (NUMBERS["MTLGPUFamilyApple3"], NUMBERS["MTLGPUFamilyMac2"])

    def maxBufferLength(self) -> int:
        """The largest buffer."""
        return LARGEST

    def maxThreadgroupMemoryLength(self) -> int:
        """Of a thread block."""
        return 32 << 10

    def maxThreadsPerThreadgroup(self) -> MTLSize:
        """Of a thread block."""
        return MTLSize(1024, 1024, 1024)

    def recommendedMaxWorkingSetSize(self) -> int:
        """What should be allocated at most."""
        return LARGEST

    def currentAllocatedSize(self) -> int:
        """What is allocated."""
        return self._allocated

    def newCommandQueue(self) -> CommandQueue:
        """A queue."""
        self._queues += 1
        return CommandQueue(self._number << 16 | self._queues)

    def newSharedEvent(self) -> SharedEvent:
        """An event."""
        return SharedEvent()

    def newBufferWithLength_options_(self, nbytes: int, options: int) -> Buffer | None:
        """Memory that the host has too; nil where there is no room."""
        if not 0 < nbytes <= LARGEST or options:
            raise EmulatedCallError(f"a buffer of {nbytes} bytes with options {options}")
        room = setting("EMULATED_ROOM")
        if room and self._allocated + nbytes > room:
            return None
        address = emulated_kernels.scheduler().emulated_metal_alloc(nbytes)
        return Buffer(self, nbytes, address) if address else None

    def newLibraryWithSource_options_error_(self, text: str, options: Any) -> tuple[Library | None, NSError | None]:
        """A compiled source."""
        if setting("EMULATED_NO_VECTORS") and "vector_size" in text:
            return None, NSError("program_source:3:1: error: no vectors here")
        try:
            return Library(text, emulated_kernels.compiled(text, math_of(options), MSL)), None
        except emulated_kernels.SourceError as error:
            return None, NSError(f"program_source: {error}")

    def newBinaryArchiveWithDescriptor_error_(self, descriptor: Any) -> tuple[Archive | None, NSError | None]:
        """An archive: of a file, or an empty one."""
        if setting("EMULATED_VIRTUAL"):
            raise EmulatedCallError("Metal ends the process: target device architecture is nil")
        if setting("EMULATED_NO_ARCHIVES"):
            return None, NSError("no archives here")
        url = descriptor.set.get("Url")
        if url is None:
            return Archive(b"", b""), None
        with open(url.path(), "rb") as file:
            data = file.read()
        if not data.startswith(b"ARCH"):
            return None, NSError("this is no archive")
        return Archive(data[4:36], data[36:]), None

    def newComputePipelineStateWithDescriptor_options_reflection_error_(
        self, descriptor: Any, options: int, reflection: None
    ) -> tuple[Pipeline | None, NSError | None]:
        """A kernel that can be launched: from an archive that has it, else compiled."""
        function = descriptor.set["ComputeFunction"]
        images = [a._image for a in descriptor.set.get("BinaryArchives", ()) if a._key == key_of(function)]
        counts["from archive" if images else "compiled"] += 1
        image = images[0] if images else emulated_kernels.linked(function._library._code)
        kernel = emulated_kernels.loaded(function._name, function._library._text, image)
        return Pipeline(kernel, descriptor.set.get("SupportIndirectCommandBuffers") is True), None

    def newIndirectCommandBufferWithDescriptor_maxCommandCount_options_(
        self, descriptor: Any, count: int, options: int
    ) -> IndirectBuffer | None:
        """Launches that are written once."""
        wanted = descriptor.set
        assert wanted["CommandTypes"] == NUMBERS["MTLIndirectCommandTypeConcurrentDispatch"]
        assert wanted["InheritBuffers"] is False
        assert wanted["InheritPipelineState"] is False
        assert 0 < count <= 16384
        assert 0 < wanted["MaxKernelBufferBindCount"] <= 31
        return IndirectBuffer(count, wanted["MaxKernelBufferBindCount"])


def math_of(options: Any) -> str:
    """How freely a source may be compiled: by the mode, else by the older word for it. Metal's default is "fast"."""
    is_fast = options.set.get("FastMathEnabled", True)
    return MODES[options.set.get("MathMode", MODES.index("fast" if is_fast else "safe"))]


_devices = [Device(number) for number in range(int(os.environ.get("EMULATED_GPUS") or 2))]


def MTLCopyAllDevices() -> list[Device]:
    """All GPUs."""
    return _devices


def MTLCreateSystemDefaultDevice() -> Device | None:
    """The system's default."""
    return _devices[0] if _devices else None
