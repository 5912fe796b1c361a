"""Memory of a card: handles that are addresses, parts of them, and memory that other libraries made there."""

from __future__ import annotations

from typing import Any

from tinygraft.device.driver.driver_context import DriverContext
from tinygraft.device.driver.driver_queue import DriverQueue
from tinygraft.device.interfaces import Allocator
from tinygraft.errors import DeviceMemoryError, UnsupportedError


class DriverMemory:
    """`nbytes` of a card's memory at an address, `value`.

    `whole` is what it is a part of; `owner` may keep it alive.
    """

    value: int
    nbytes: int
    whole: DriverMemory | None

    __slots__ = ("__weakref__", "nbytes", "value", "whole")

    def __init__(self, value: int, nbytes: int, whole: DriverMemory | None = None) -> None:
        self.value, self.nbytes, self.whole = value, nbytes, whole

    def __int__(self) -> int:
        return self.value

    def __index__(self) -> int:
        return self.value

    def __repr__(self) -> str:
        return f"c_ulong({self.value})"  # as ctypes shows an address


class DriverAllocator(Allocator):
    """Memory of one context. `primary` is the end of the sentence on memory of another one."""

    name: str
    context: DriverContext
    queue: DriverQueue

    primary = ""

    def __init__(self, name: str, context: DriverContext, queue: DriverQueue) -> None:
        self.name, self.context, self.queue = name, context, queue

    def alloc(self, nbytes: int) -> DriverMemory:
        """Return `nbytes` of memory. Raises DeviceMemoryError where there is no room, even in the driver's pool."""
        try:
            return DriverMemory(self.context.alloc(nbytes), nbytes)
        except DeviceMemoryError:
            self.context.trim()
        try:
            return DriverMemory(self.context.alloc(nbytes), nbytes)
        except DeviceMemoryError as error:
            free, total = self.context.room()
            raise DeviceMemoryError(
                f"{free} of the {total} bytes of {self.context.device} are free; {self.context.driver.facts.shows_use}"
            ) from error

    def free(self, handle: DriverMemory, nbytes: int) -> None:
        """Give memory back; core has waited for what used it."""
        if self.context.is_usable:
            self.context.free(handle.value)

    def alloc_host(self, nbytes: int) -> memoryview:
        """Return pinned memory, which the card copies from and to by itself. Raises DeviceMemoryError."""
        try:
            return self.context.alloc_host(nbytes)
        except DeviceMemoryError as error:
            raise DeviceMemoryError(
                f"{self.name} could not pin {nbytes} bytes of host memory: {error}; use smaller batches, or raise the "
                "limit of locked memory"
            ) from error

    def copy_in(self, target: DriverMemory, source: memoryview) -> None:
        """Copy host bytes into a buffer, behind what was launched before."""
        if source.nbytes:
            self.queue.copy_in(target, source).wait()

    def copy_out(self, target: memoryview, source: DriverMemory) -> None:
        """Copy a buffer to host bytes, once what was launched before has finished."""
        if target.nbytes:
            self.queue.copy_out(target, source).wait()

    def copy(self, target: DriverMemory, source: DriverMemory, nbytes: int) -> None:
        """Copy from one buffer to another, behind what was launched before."""
        self.queue.copy(target, source, nbytes)

    def view(self, handle: DriverMemory, offset: int, nbytes: int) -> DriverMemory:
        """Return a part of a buffer, which keeps the whole alive."""
        return DriverMemory(handle.value + offset, nbytes, handle)

    def at_address(self, address: int, nbytes: int) -> DriverMemory:
        """Return memory of this card that another library made. Raises UnsupportedError for any other memory."""
        owner: Any = self.context.owner_of(address)
        if owner != self.context.device.number:
            where = "no memory of a card" if owner is None else f"memory of card {owner}"
            raise UnsupportedError(
                f"{self.name} uses memory of its own card only, and what lies at {address:#x} is {where}"
            )
        if self.context.is_elsewhere(address):
            raise UnsupportedError(
                f"{self.name} uses the card's primary context, and what lies at {address:#x} was made in another "
                f"context of this card: make it in the primary one{self.primary}"
            )
        return DriverMemory(address, nbytes)

    def address(self, handle: DriverMemory) -> int:
        """Return where a buffer is, as all libraries of a process see it."""
        return handle.value
