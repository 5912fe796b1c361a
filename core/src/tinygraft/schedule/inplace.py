"""Kernels in place: a result is written over a value that the kernel is the last to read.

    reuse_buffers(calls, kept) -> calls, {BUFFER: the one whose memory it uses}

It is done for a kernel without a reduction that loads the old value at the very indices at which it stores the new
one, where both have the same size and dtype: less memory is in use at once, and fewer cache lines are touched.
`kept` are the BUFFERs that exist before the calls or are needed afterwards; neither is overwritten nor moved.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.stages import Call, CopyCall, Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
LEAST = 1 << 16  # bytes from which it is worth compiling another kernel: with one slot less it is no longer equal
SlotPair = tuple[int, int]  # the slot that is written, and the one that is read


def reuse_buffers(calls: Sequence[Call], kept: Set[UOp]) -> tuple[list[Call], dict[UOp, UOp]]:
    """Return `calls` with kernels in place where they can be, and what that does to their BUFFERs.

    The dict maps each BUFFER that is no longer used to the one whose memory has its value. A value is overwritten
    only by the last call that names it, and not one in `kept`; nor does one in `kept`, or one that an earlier call
    names, move.
    """
    last = {buffer: i for i, call in enumerate(calls) for buffer in call.buffers}
    seen: set[UOp] = set()
    home: dict[UOp, UOp] = {}  # buffer -> the one whose memory it uses
    pairs: dict[Kernel, list[SlotPair]] = {}
    done: list[Call] = []
    for i, call in enumerate(calls):
        overwrites: list[SlotPair] = []
        if isinstance(call, KernelCall):
            if call.kernel not in pairs:
                pairs[call.kernel] = _pairs(call.kernel)
            for out, old in pairs[call.kernel]:
                new, before = call.buffers[out], call.buffers[old]
                free = last[before] == i and before not in kept and before in seen
                paired = any(old == o or out == n for n, o in overwrites)
                if free and new not in kept and new not in seen and not paired:
                    overwrites.append((out, old))
                    home[new] = home.get(before, before)
        seen.update(call.buffers)
        done.append(_moved(call, home, overwrites))
    return done, home


def _pairs(kernel: Kernel) -> list[SlotPair]:
    """Return (output slot, input slot) for each output of a kernel that could be written over one of its inputs.

    The output has to be stored once, without a gate, never loaded, and have at least LEAST bytes; the input has to have
    its dtype and size, be never stored, and be loaded only at the index of that store. A kernel with a reduction has
    none: its iterations load more than they store.
    """
    nodes = postorder(kernel.sink)
    if any(n.op is Ops.REDUCE for n in nodes):
        return []
    stores: dict[UOp, list[UOp]] = {}
    loads: dict[UOp, list[UOp]] = {}
    for node in nodes:
        if node.op in (Ops.LOAD, Ops.STORE):
            found = loads if node.op is Ops.LOAD else stores
            found.setdefault(node.src[0], []).append(node)
    return [
        (new.arg.slot, old.arg.slot)
        for new, (store, *more) in stores.items()
        if not more and len(store.src) == 3 and new not in loads and new.arg.size * new.dtype.itemsize >= LEAST
        for old, reads in loads.items()
        if old not in stores and old.dtype is new.dtype and old.arg.size == new.arg.size
        and all(read.src[1] is store.src[1] for read in reads)
    ]  # fmt: skip


def _moved(call: Call, home: dict[UOp, UOp], overwrites: Sequence[SlotPair]) -> Call:
    """Return `call` on the buffers that `home` maps its own to; one that is not in `home` stays.

    `overwrites` are pairs (output slot, input slot) of a KernelCall: the kernel writes over the input, the output has
    no slot any more, and later slots move up. Other calls ignore them.
    """
    buffers = tuple(home.get(buffer, buffer) for buffer in call.buffers)
    if isinstance(call, CopyCall):
        return CopyCall(*buffers)
    if not overwrites or not isinstance(call, KernelCall):
        return replace(call, buffers=buffers)
    becomes = dict(overwrites)
    left = [slot for slot in range(len(buffers)) if slot not in becomes]
    number = {slot: new for new, slot in enumerate(left)}
    swap = {
        n: n.replace(arg=ParamArg(number[becomes.get(n.arg.slot, n.arg.slot)], n.arg.size))
        for n in postorder(call.kernel.sink) if n.op is Ops.PARAM
    }  # fmt: skip
    sink = ix.rebuild_simplified((call.kernel.sink,), swap)[call.kernel.sink]
    written = tuple(sorted({store.src[0].arg.slot for store in sink.src}))
    return KernelCall(Kernel(sink), call.device, tuple(buffers[slot] for slot in left), written)
