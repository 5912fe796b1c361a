"""RankProgram: a collective of tensors, run on the host as a Program of the device that they are on.

So a collective is a call of a schedule and a step of a replay like any other: launches before it are over when it
begins, and what it writes is there for those after it. Devices whose memory the host sees pass that memory itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.collectives.pieces import RECEIVERS, SENDERS, ArrayMemory
from tinygraft.collectives.transport import DeviceBytes
from tinygraft.device.interfaces import Backend, Handle, Program
from tinygraft.engine.rank_memory import StagedMemory, has_views
from tinygraft.errors import CollectiveError
from tinygraft.helpers import prod
from tinygraft.uop.routines import results_of
from tinygraft.uop.stages import Routine

if TYPE_CHECKING:
    from tinygraft.collectives.communicator import Communicator
    from tinygraft.dtype import DType


SUMS = frozenset(
    {"all_reduce", "reduce_scatter"}
)  # given: what the host adds; nn.parallel adds on cards (rank_tensors)


class RankProgram(Program):
    """One collective of operands of some shape, with the communicator of this process."""

    backend: Backend
    routine: Routine

    def __init__(self, backend: Backend, routine: Routine) -> None:
        self.backend, self.routine = backend, routine
        self.source = routine.operands[0]
        self.target = results_of(routine.name, routine.operands, routine.options)[0]

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """Wait for the device, then run the collective on the host with all other ranks; returns when it is over.

        `buffers` are the result's and the operand's; `variables` and `grid` have no use here. Raises CollectiveError
        where there are other ranks than it was made for. What fails later is raised, and the result is lost then.
        """
        from tinygraft.collectives.engines import world

        comm = world()
        if comm.size != self.routine.options[0]:
            raise CollectiveError(f"this was made for {self.routine.options[0]} ranks, and there are {comm.size}")
        timeline = self.backend.timeline
        self.backend.synchronize() if timeline is None else timeline.synchronize()
        name, (size, option, *shape) = self.routine.name, self.routine.options
        try:
            if takes_device(comm, self.backend) and not SUMS.intersection([name]):
                self._pass_device(comm, buffers, option, tuple(shape))
                return
            if (memory := self._staged(buffers, size)) is not None:
                comm.pass_memory(name, self.source[0], option, memory, tuple(shape))
                return
            target, is_copy = self._memory(buffers[0], self.target, filled=False)
            source, _ = self._memory(buffers[1], self.source, filled=True)
            run_collective(comm, name, option, self.source[0], source, target, tuple(shape))
            if is_copy:
                self.backend.allocator.copy_in(buffers[0], memoryview(target.view("u1").data))
        except BaseException as error:
            error.stored = True  # type: ignore[attr-defined]
            raise

    def _pass_device(self, comm: Communicator, buffers: Sequence[Handle], option: int, shape: tuple[int, ...]) -> None:
        """Let the engine of collectives read and write the memory of the card itself. Raises what that raises."""
        backend, name = self.backend, self.routine.name
        (dtype, of), (_, result) = self.source, self.target
        source, target = [
            DeviceBytes(backend.allocator.address(handle), prod(sizes) * dtype.itemsize)
            for handle, sizes in zip((buffers[1], buffers[0]), (of, result), strict=True)
        ]
        if name == "broadcast" and comm.rank == option:
            backend.queue.copy(buffers[0], buffers[1], source.size).wait()
        comm.pass_device(name, dtype, option, source, target, shape)

    def _staged(self, buffers: Sequence[Handle], size: int) -> StagedMemory | None:
        """Return the memory of the result and the operand, in `buffers`, for pieces; None where the host sees it.

        And where it cannot be copied in parts, and of several examples of what is not elementwise. `size` is the number
        of ranks.
        """
        import numpy as np

        (dtype, (examples, count)), name = self.source, self.routine.name
        rows = size if name in SENDERS else 1, size if name in RECEIVERS else 1
        if max(rows) > 1 and examples > 1:
            return None
        allocator = self.backend.allocator
        if any(allocator.as_host(handle) is not None or not has_views(self.backend, handle) for handle in buffers):
            return None
        bits = np.dtype(dtype.fmt or f"u{dtype.itemsize}")
        return StagedMemory(self.backend, buffers[1], buffers[0], rows, examples * count // rows[0], bits)

    def _memory(self, handle: Handle, of: tuple[Any, tuple[int, ...]], filled: bool) -> tuple[Any, bool]:
        """Return a buffer as an array: its own memory where the host sees it, else a copy, and whether it is one.

        `of` is its (dtype, shape). A copy has the bytes of the buffer where `filled`, else any bytes.
        """
        import numpy as np

        dtype, shape = of
        bits = np.dtype(dtype.fmt or f"u{dtype.itemsize}")  # what NumPy lacks is passed as its bits
        size = prod(shape) * dtype.itemsize
        view = self.backend.allocator.as_host(handle) if size else memoryview(bytearray())
        if view is not None:
            return np.frombuffer(view[:size], bits).reshape(shape), False
        data = np.empty(size, np.uint8)
        if filled:
            self.backend.allocator.copy_out(memoryview(data.data), handle)
        return data.view(bits).reshape(shape), True


def takes_device(comm: Communicator, backend: Backend) -> bool:
    """Return whether collectives that only move bytes pass the memory of a device itself, without the host."""
    return bool(backend.array_interface) and comm.transport.device_memory == backend.array_interface


def run_collective(
    comm: Communicator, kind: str, option: int, dtype: DType, source: Any, target: Any, shape: tuple[int, ...]
) -> None:
    """Call a collective on `source`, an array with examples along axis 0, and write its result to the array `target`.

    `kind` is the name of its routine; `option` is the index of an op in RANK_OPS, or the root of a broadcast. Examples
    are passed together. `shape` is what the ranks compare, that of a tensor. Raises what the engine of collectives
    raises.
    """
    import numpy as np

    rows = comm.size if kind in SENDERS else 1, comm.size if kind in RECEIVERS else 1
    examples = len(source)
    if max(rows) == 1:
        memory = ArrayMemory(source.reshape(1, -1), target.reshape(1, -1))
    elif examples == 1:
        memory = ArrayMemory(source.reshape(rows[0], -1), target.reshape(rows[1], -1))
    else:  # the ranks before the examples, and back
        aside = source.reshape(examples, rows[0], -1).swapaxes(0, 1).reshape(rows[0], -1)
        memory = ArrayMemory(aside, np.empty((rows[1], aside.shape[1]), target.dtype))
    comm.pass_memory(kind, dtype, option, memory, shape)
    if max(rows) > 1 and examples > 1:
        found = memory.target.reshape(rows[1], examples, -1).swapaxes(0, 1)
        target[...] = found.reshape(target.shape)
