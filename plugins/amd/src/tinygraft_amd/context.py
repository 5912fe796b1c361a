"""The context of one card: HIP has one for each, which PyTorch and CuPy use too, and a thread has a current card."""

from __future__ import annotations

from typing import Any

from tinygraft.plugin.driver import DriverContext
from tinygraft_amd import functions as f


class AmdContext(DriverContext):
    """A card's only context, which HIP knows by the card's number."""

    def _retain(self) -> int:
        """Return what HIP knows the context by: the card's number."""
        return self.device.number

    def has_pool(self) -> bool:
        """Return whether the card allocates memory in the order of a stream."""
        return bool(self.device.card.has_pools)

    def enter(self) -> int | None:
        """Make the card current in this thread."""
        before = self.driver.number("hipGetDevice")
        if before == self.handle:
            return None
        self.driver.call("hipSetDevice", self.handle)
        return before

    def restore(self, before: int | None) -> None:
        """Make another card current again."""
        if before is not None:
            self.driver.function("hipSetDevice")(before)

    def stream_at(self, number: int) -> Any:
        """Return a stream of another library by its number: 0 and 1 are the default one."""
        return self.ffi.cast("void *", 0 if number == 1 else number)

    def copy_node(self, target: int, source: int, nbytes: int) -> tuple[Any, ...]:
        """Return what describes a copy within the card to the functions for nodes of a graph."""
        return target, source, nbytes, f.WITHIN
