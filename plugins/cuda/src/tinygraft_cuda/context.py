"""The context of one card, by cffi: the card's primary context, which PyTorch, CuPy and the runtime library use too.

`pycuda_context` is the same by pycuda.
"""

from __future__ import annotations

from typing import Any

from tinygraft.plugin import DeviceUnavailable
from tinygraft.plugin.driver import DriverContext, NameRange
from tinygraft_cuda import functions as f
from tinygraft_cuda.ranges import marks


class CudaContext(DriverContext):
    """The primary context of a device."""

    def marks(self) -> NameRange | None:
        """Return what names launches for NVIDIA's profilers; None where CUDA_NVTX does not ask for it."""
        return marks()

    def _retain(self) -> Any:
        """Return the primary context, made unless another library made it.

        Raises DeviceUnavailable where the card serves another process alone or has no room, DeviceError for other
        failures.
        """
        holder = self.ffi.new("CUcontext *")
        result = self.driver.function("cuDevicePrimaryCtxRetain")(holder, self.device.number)
        if result == f.IN_USE:
            raise DeviceUnavailable(
                f"{self.device} is taken: it is set to serve one process alone, or none; end that process "
                "(nvidia-smi shows it), or let several share the card: nvidia-smi -c DEFAULT"
            )
        if result == f.OUT_OF_MEMORY:
            raise DeviceUnavailable(
                f"{self.device} has no room for one more program; nvidia-smi shows which processes use its memory"
            )
        if result:
            raise self.driver.error(result, f"opening {self.device}")
        return holder[0]

    def _release(self) -> None:
        """Release the primary context, which goes when no other library retains it."""
        self.driver.function("cuDevicePrimaryCtxRelease_v2")(self.device.number)

    def has_pool(self) -> bool:
        """Return whether the card allocates memory in the order of a stream."""
        return bool(self.driver.number("cuDeviceGetAttribute", f.POOLS, self.device.number))

    def enter(self) -> Any:
        """Make this context current in this thread."""
        driver, before = self.driver, self.ffi.new("CUcontext *")
        driver.call("cuCtxGetCurrent", before)
        is_pushed = before[0] not in (self.handle, self.ffi.NULL)
        if is_pushed:
            driver.call("cuCtxPushCurrent_v2", self.handle)
        elif before[0] == self.ffi.NULL:  # it stays, as the runtime library of CUDA has it
            driver.call("cuCtxSetCurrent", self.handle)
        return before if is_pushed else None

    def restore(self, before: Any) -> None:
        """Make another library's context current again."""
        if before is not None:
            self.driver.function("cuCtxPopCurrent_v2")(before)

    def is_elsewhere(self, address: int) -> bool:
        """Return whether memory was made in another context. That of a pool is of none: all of the card use it."""
        holder = self.ffi.new("CUcontext *")
        with self.current():
            result = self.driver.function("about_address")(holder, f.POINTER_CONTEXT, address)
        return not result and holder[0] not in (self.handle, self.ffi.NULL)

    def copy_node(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:
        """Return what describes a copy within the card to the functions for nodes of a graph."""
        node = self.ffi.new("CopyNode *")
        node.source_type = node.target_type = f.IS_DEVICE
        node.width, node.height, node.depth = nbytes, 1, 1
        node.source_pitch = node.target_pitch = nbytes
        node.source_height = node.target_height = 1
        node.target_device, node.source_device = target, source
        return node, self.handle
