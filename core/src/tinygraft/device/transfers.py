"""Copies into, out of and between buffers: at once, or on a queue while the host goes on.

    write(target, source)        host bytes to a buffer; the source may be changed when it returns
    read(target, source)         a buffer to host bytes, which are complete when it returns
    transfer(target, source)     a buffer to another one, on the same device or another

On a device with queues only `read` waits, and `write` of more than MOST_STAGED bytes: the copies go on the queue of
this thread, and what they read is retained until they have passed. `Buffer` calls these where a backend has a timeline.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.device.interfaces import Backend, Handle
from tinygraft.device.queues import Queue
from tinygraft.device.timeline import Block, Timeline, turn

MOST_STAGED = 16 << 20  # assumed: bytes of a source from which on waiting costs less than a copy to pinned memory


@dataclass(slots=True)
class CopyOperand:
    """The memory of a buffer, for a copy."""

    backend: Backend
    handle: Handle
    block: Block
    nbytes: int


def write(target: CopyOperand, source: memoryview) -> None:
    """Copy host bytes to a buffer of that size, through pinned memory unless they are many."""
    here, timeline = target.backend, target.backend.timeline
    name = f"copy of {source.nbytes} bytes from the host"
    if timeline is None or not timeline.has_events:
        here.allocator.copy_in(target.handle, source)
        if timeline is not None:
            timeline.ran(here.queue, name)
    elif source.nbytes > MOST_STAGED:
        with turn():
            queue = _begin(timeline, target, True)
            event = queue.copy_in(target.handle, source)
            timeline.retain(event, source)  # Ctrl-C may end the wait, and the device still reads it
            timeline.ran(queue, name)
        timeline.wait(event)
    else:
        pinned = timeline.staging(source.nbytes)
        taken = pinned[: source.nbytes]
        taken[:] = source.cast("B")
        with turn():
            queue = _begin(timeline, target, True)
            timeline.staged(pinned, queue.copy_in(target.handle, taken))
            timeline.ran(queue, name)


def read(target: memoryview, source: CopyOperand) -> None:
    """Copy a buffer to host bytes of that size, after all that writes it. Waits for the copy."""
    here, timeline = source.backend, source.backend.timeline
    if timeline is None:
        here.allocator.copy_out(target, source.handle)
    elif not timeline.has_events:
        with timeline.naming_launches():
            here.allocator.copy_out(target, source.handle)
    else:
        with turn():
            queue = _begin(timeline, source, False)
            event = queue.copy_out(target, source.handle)
            timeline.retain(event, target)  # Ctrl-C may end the wait, and the device still writes it
            timeline.ran(queue, f"copy of {target.nbytes} bytes to the host")
        timeline.wait(event)
        timeline.poll()


def transfer(target: CopyOperand, source: CopyOperand) -> None:
    """Copy a buffer to another one of its size, on the same device or another."""
    here, there = target.backend, source.backend
    mine, theirs = here.timeline, there.timeline
    name = f"copy of {target.nbytes} bytes"
    if here is there:
        if mine is None or not mine.has_events:
            here.synchronize()  # the default copy goes through the host
            here.allocator.copy(target.handle, source.handle, target.nbytes)
            if mine is not None:
                mine.ran(here.queue, name)
        else:
            with turn():
                queue = _begin(mine, target, True)
                _begin(mine, source, False)
                queue.copy(target.handle, source.handle, target.nbytes)
                mine.ran(queue, name)
        return
    if mine is None or not mine.has_events:
        if theirs is not None and theirs.is_ordered:
            theirs.synchronize()  # `copy_from` of a plugin without queues is ordered with the peer's first queue only
        here.copy_from(target.handle, there, source.handle, target.nbytes)
    elif theirs is None or not theirs.has_events:
        there.synchronize()
        view = there.allocator.as_host(source.handle)
        if view is None:
            view = memoryview(bytearray(target.nbytes))
            there.allocator.copy_out(view, source.handle)
        write(target, view[: target.nbytes])
    else:
        mine.order()
        theirs.order()
        with turn():
            _between_queues(mine, target, theirs, source, f"{name} from {there.name}")


def _between_queues(mine: Timeline, target: CopyOperand, theirs: Timeline, source: CopyOperand, name: str) -> None:
    """Copy where both devices have queues: by one copy if the target's queue sees the source, else through the host.

    Through the host it is a copy on each of both queues, and pinned memory between them.
    """
    queue = _begin(mine, target, True)
    if queue.sees(source.backend):
        theirs.use(queue, source.block, False)
        queue.copy_from(target.handle, source.backend, source.handle, target.nbytes)
        mine.is_foreign |= source.block.is_foreign
    else:
        other = _begin(theirs, source, False)
        pinned = mine.staging(target.nbytes)
        bytes_between = pinned[: target.nbytes]
        copied = other.copy_out(bytes_between, source.handle)
        theirs.retain(copied, pinned)
        theirs.ran(other, f"{name} to the host")
        other.submit()
        queue.wait(copied)
        mine.staged(pinned, queue.copy_in(target.handle, bytes_between))
    mine.ran(queue, name)


def _begin(timeline: Timeline, operand: CopyOperand, is_written: bool) -> Queue:
    """Order a copy on the queue of this thread after the earlier uses of the operand's memory. Returns that queue."""
    queue = timeline.queue()
    if timeline.is_ordered:
        timeline.use(queue, operand.block, is_written)
    timeline.is_foreign |= operand.block.is_foreign
    return queue
