"""Devices: the interfaces that plugins implement, the registry that finds and opens them, and their memory.

`Buffer` and `Device` can be imported from here, where scripts look for them; both load when they are first used.

Names to devices (`device/registry.py`). The metadata of installed distributions gives records without
importing anything. A record moves from declared to loaded, compatible, available and open, or to the reason
why not. An error about a device quotes its record, and the setting that requested the device. A spec of a
third party is loaded once in a child process before the automatic choice imports it here
(`installed/plugin_probe.py` stores the verdict). A device that was requested by name is never replaced by
another one. `cli/devices.py` and `cli/doctor.py` run plugins in child processes only (`installed/child.py`):
`cli/checkup.py` is what the child of a doctor does. A name that is in no table of settings belongs to the
device that it begins with, whose spec is imported then (`Registry.find_setting`).

Memory (`device/pool.py`, `device/buffer.py`, `schedule/memory.py`, `engine/arena.py`). A `Buffer` takes an
`Allocation` from the pool of its backend when something first needs it; the block goes back when nothing
refers to it. The pool caches freed blocks for the next request, and frees them on the device before it would
grow past the most that was ever in use. The temporaries of a schedule have no allocations of their own:
`schedule/memory.py` computes their offsets from their lifetimes alone, in one block (the arena) that is taken
for the run, or in results that are not written yet. Memory that is lent (`Buffer.share`; DLPack, `data()`)
retains its block; borrowed memory (`Buffer.borrow`; `from_blob`, DLPack) is freed by its owner. A `Buffer`
over a file (`tensor/data/ondisk.py`) reads it when it gets its memory; slices of what has not been read are
such buffers of their own. Borrowed memory may be aligned to its element only, unless it is larger than the
Target's `stream_bytes`.

Asynchronous work (`device/queues.py`, `device/timeline.py`, `device/transfers.py`). A device that returns before its
work is done has queues and events. The timeline of its backend orders the uses of the same memory on two queues, and
retains what work still needs until its event has passed. All other devices have no timeline.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinygraft.device.buffer import Buffer as Buffer
    from tinygraft.device.registry import Device as Device


def __getattr__(name: str) -> Any:
    if name == "Buffer":
        from tinygraft.device.buffer import Buffer

        return Buffer
    if name == "Device":
        from tinygraft.device.registry import Device

        return Device
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
