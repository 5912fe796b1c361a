"""VALIDATE=1 and TinyJit: compare a replay with its own launches, run one by one, and undo both.

A replay shares memory among temporaries and hands runs of launches to executors of the device; the launches by
themselves, each value in memory of its own, do neither. Both have to leave the same bytes in all memory but that of
temporaries. That the launches compute what they should is checked where the function runs, by its schedules
(validate.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tinygraft.device.buffer import Buffer, buffer_of
from tinygraft.device.counters import GlobalCounters
from tinygraft.engine.run import Launch
from tinygraft.errors import ValidationError
from tinygraft.jit.replay import At, Replay
from tinygraft.uop.uop import UOp


def rehearse(replay: Replay, nodes: Sequence[UOp], values: Mapping[str, int], name: str) -> None:
    """Run a replay, then its launches one by one, and restore all memory and the counters.

    `nodes` and `values` are the parameters of Replay.run, `name` is that of the function. Raises ValidationError where
    the two leave different bytes.
    """
    counted = GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem
    own = dict(zip(replay.changing, map(buffer_of, nodes), strict=True))
    seen = {**replay.fixed, **own}
    before = {uid: _bytes(buffer) for uid, buffer in seen.items()}
    try:
        replay.run(nodes, values, At())
        replayed = {uid: _bytes(buffer) for uid, buffer in seen.items()}
        _restore(seen, before)
        alone = dict(seen)  # here each temporary has memory of its own
        for launch in replay.launches:
            for uid in launch.uids:
                if uid not in alone:
                    alone[uid] = Buffer(*replay.forms[uid])
            Launch(launch.kernel, launch.device, [alone[uid] for uid in launch.uids]).run(values)
        launched = {uid: _bytes(buffer) for uid, buffer in seen.items()}
    finally:
        _restore(seen, before)
        GlobalCounters.kernel_count, GlobalCounters.global_ops, GlobalCounters.global_mem = counted
    for uid, buffer in seen.items():
        if replayed[uid] != launched[uid]:
            pairs = enumerate(zip(replayed[uid], launched[uid], strict=True))
            byte = next(i for i, (a, b) in pairs if a != b)
            names = [x.kernel.name if x.kernel else "a copy" for x in replay.launches if uid in x.written()]
            raise ValidationError(
                f"VALIDATE=1: a replay of {name} leaves other bytes than the same launches one by one, each value in "
                f"memory of its own: element {byte // buffer.dtype.itemsize} of {buffer.size} of {buffer.dtype.name} "
                f"on {buffer.device}, written by {', '.join(dict.fromkeys(names)) or 'no kernel'}\n"
                "  hint: DEBUG=2 replays launch by launch; where that is right the executor of the device is at fault"
            )


def _bytes(buffer: Buffer) -> bytes:
    """Return a copy of the bytes of a buffer."""
    return buffer.copy_out(memoryview(bytearray(buffer.nbytes))).tobytes()


def _restore(buffers: Mapping[int, Buffer], data: Mapping[int, bytes]) -> None:
    """Write back the bytes of buffers, by their ids."""
    for uid, buffer in buffers.items():
        buffer.copy_in(memoryview(data[uid]))
