"""The context of one card by pycuda: memory, streams, events, modules and launches are pycuda's own objects.

It is the card's primary context, retained by pycuda, so a program that uses pycuda beside tinygraft shares memory with
it. What pycuda lacks is called by cffi on the same driver and context: graphs, peers, streams of other libraries.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from tinygraft.plugin import DeviceError, DeviceLostError, DeviceMemoryError
from tinygraft.plugin.driver import (
    BITS,
    KEPT_EVENTS,
    DriverCalls,
    DriverCard,
    DriverEvent,
    DriverModule,
    refused,
)
from tinygraft_cuda import functions as f
from tinygraft_cuda.context import CudaContext


class PycudaContext(CudaContext):
    """The primary context of a device, by pycuda."""

    binding = "pycuda"

    def __init__(self, driver: DriverCalls, device: DriverCard) -> None:
        import pycuda.driver

        self.drv = pycuda.driver
        self.drv.init()
        self._taken: dict[int, Any] = {}  # what pycuda calls memory, by address
        super().__init__(driver, device)

    def _retain(self) -> Any:
        """Return the driver's handle of the primary context, which pycuda retains.

        Raises DeviceError and DeviceUnavailable.
        """
        try:
            self.primary = self.drv.Device(self.device.number).retain_primary_context()
        except self.drv.Error:
            handle = super()._retain()  # raises, with our sentence
            self.driver.function("cuDevicePrimaryCtxRelease_v2")(self.device.number)
            raise DeviceError(f"pycuda cannot open {self.device}, which the driver gives as {handle}") from None
        return self.ffi.cast("CUcontext", self.primary.handle)

    def _pool(self) -> None:
        """pycuda has no memory of streams."""

    @contextmanager
    def current(self) -> Iterator[None]:
        """Have this context current, for pycuda too; pycuda's errors are ours."""
        try:
            self.primary.push()
            try:
                yield
            finally:
                self.drv.Context.pop()
        except DeviceLostError:  # of a call by cffi
            self.is_lost = True
            raise
        except self.drv.Error as error:
            ours = self.translated(error)
            self.is_lost |= isinstance(ours, DeviceLostError)
            raise ours from error

    def translated(self, error: Exception) -> DeviceError:
        """Return our error for one of pycuda's, which has the function and the driver's sentence in its text."""
        if isinstance(error, self.drv.MemoryError):
            return DeviceMemoryError(f"the card has no room: {error}")
        for result in f.FAULTS:
            words = self.driver.words(result)
            if str(error).endswith(words.partition(" (")[2][:-1] or words):
                return self.driver.error(result, str(error).partition(" failed")[0])
        return DeviceError(str(error))

    def _clear(self) -> None:
        """Destroy what cffi made, and let go of memory; what else pycuda made goes when nothing refers to it."""
        super()._clear()
        with suppress(DeviceError), self.current():
            self._taken.clear()

    def _release(self) -> None:
        """Let go of memory, events and the context, in this order."""
        self._taken.clear()
        self._events.clear()
        self._leaving.clear()
        self.memory = None
        self.primary.detach()

    # Memory

    def alloc(self, nbytes: int) -> int:
        """Return the address of new memory. Raises DeviceMemoryError."""
        with self.current():
            taken = self.drv.mem_alloc(nbytes)
        self._taken[int(taken)] = taken
        return int(taken)

    def free(self, address: int) -> None:
        """Give memory back that nothing uses any more."""
        taken = self._taken.pop(address, None)
        if taken is not None:
            with self.current():
                taken.free()

    def _alloc_host(self, nbytes: int) -> memoryview:
        """Return pinned memory, which pycuda frees when nothing refers to it."""
        import numpy as np

        with self.current():
            array = self.drv.pagelocked_empty(nbytes, np.uint8, mem_flags=self.drv.host_alloc_flags.PORTABLE)
        return memoryview(array)

    # Streams and events

    def _new_stream(self, flags: int) -> Any:
        """Return pycuda's stream with the driver's `flags`."""
        with self.current():
            return self.drv.Stream(flags)

    def raw(self, stream: Any) -> Any:
        """Return the driver's handle of a stream."""
        return self.ffi.cast("CUstream", stream.handle) if isinstance(stream, self.drv.Stream) else stream

    def finish(self, stream: Any) -> None:
        """Wait for a stream."""
        with self.current():
            stream.synchronize()

    def record(self, stream: Any) -> DriverEvent:
        """Return an event behind all that a stream was given."""
        event = DriverEvent(self, self._event())
        with self.current():
            event.handle.record(stream)
        return event

    def _new_event(self) -> Any:
        """Return pycuda's event."""
        with self.current():
            return self.drv.Event()

    def give_event(self, handle: Any) -> None:
        """Keep an event for the next record; pycuda frees it where there are many."""
        if len(self._events) < KEPT_EVENTS:
            self._events.append(handle)

    def wait_for(self, stream: Any, event: DriverEvent) -> None:
        """Let what a stream is given later run after an event."""
        if event.context.binding != self.binding:
            event.context.wait(event)
            return
        with self.current():
            stream.wait_for_event(event.handle)

    def has_passed(self, event: DriverEvent) -> bool:
        """Return whether an event has passed, or its work has failed. Other errors say nothing of the work."""
        if not self.is_usable:
            return True
        try:
            with self.current():
                return bool(event.handle.query())
        except DeviceError as error:
            return isinstance(error, DeviceLostError)

    def wait(self, event: DriverEvent) -> None:
        """Let the host wait for an event."""
        with self.current():
            event.handle.synchronize()

    def seconds(self, start: DriverEvent, end: DriverEvent) -> float:
        """Return the time between two events that have passed, by the card's clock."""
        with self.current():
            return float(end.handle.time_since(start.handle)) * 1e-3

    # Copies

    def copy_in(self, target: int, source: memoryview, stream: Any) -> None:
        """Copy from host memory, which stays as it is until the stream has done so."""
        with self.current():
            self.drv.memcpy_htod_async(target, source, stream)

    def copy_out(self, target: memoryview, source: int, stream: Any) -> None:
        """Copy from an address to host memory on a stream; it is complete when the stream has done so."""
        with self.current():
            self.drv.memcpy_dtoh_async(target, source, stream)

    def copy(self, target: int, source: int, nbytes: int, stream: Any) -> None:
        """Copy `nbytes` from one address to another of the card, on a stream."""
        with self.current():
            self.drv.memcpy_dtod_async(target, source, nbytes, stream)

    # Kernels

    def load(self, name: str, image: bytes, shared: int) -> Any:
        """Return a kernel of an image. Raises DeviceError."""
        self.collect()
        return self.with_room(PycudaModule, self, name, image, shared)

    def function_of(self, module: Any) -> Any:
        """Return the driver's function of a kernel, for a graph: pycuda does not tell its own."""
        if module.twin is None:
            module.twin = self.with_room(DriverModule, self, module.name, module.image, module.shared)
        return module.twin.function

    def launch(
        self, module: Any, grid: tuple[int, int, int], threads: int, shared: int, stream: Any, words: Sequence[int]
    ) -> None:
        """Run a kernel whose arguments are words of 64 bits."""
        data = struct.pack(f"={len(words)}Q", *(word & BITS for word in words))
        self.with_room(self._launch, module, grid, threads, shared, stream, data)

    def _launch(
        self, module: Any, grid: tuple[int, int, int], threads: int, shared: int, stream: Any, data: bytes
    ) -> None:
        """Put a launch on a stream by pycuda, whose arguments are the bytes `data`."""
        with self.current():
            module.function._launch_kernel(grid, (threads, 1, 1), data, shared, stream)


class PycudaModule:
    """A loaded kernel, by pycuda, and by cffi where a graph needs it."""

    context: PycudaContext
    name: str
    image: bytes
    shared: int

    def __init__(self, context: PycudaContext, name: str, image: bytes, shared: int) -> None:
        self.context, self.name, self.image, self.shared = context, name, image, shared
        self.twin: DriverModule | None = None
        self.loaded: Any = None
        drv = context.drv
        with context.current():
            try:
                self.loaded = drv.module_from_buffer(image)
            except drv.Error as error:
                for result in f.REFUSED_IMAGES:
                    words = context.driver.words(result).partition(" (")[2][:-1]  # none where the driver has none
                    if words and words in str(error):
                        raise refused(context.driver, result, name, context.device) from error
                raise
            self.function = self.loaded.get_function(name)
            if shared:
                self.function.set_attribute(drv.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES, shared)

    def __del__(self) -> None:
        if self.loaded is not None:
            self.context.leave("", (self.loaded, getattr(self, "function", None)))
