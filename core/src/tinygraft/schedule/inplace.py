"""Values that take the place of ones that nobody needs any more.

    in_place(calls, kept) -> calls          placed(calls, kept) -> calls, what took whose place

A kernel without a reduction that is the last to read a value, at just the place where it writes another one of equal
size and type, may write it over the old one: less memory is in use at once, and less is brought near. kept are the
BUFFERs that are there before or stay afterwards; they are left as they are.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, ParamArg
from tinygraft.uop.stages import Call, CopyCall, Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder

# assumed: never measured
LEAST = 1 << 16  # bytes from which it is worth another kernel than the one that equal work has elsewhere
SlotPair = tuple[int, int]  # the slot that is written, and the one that is read


def in_place(calls: Sequence[Call], kept: Set[UOp]) -> list[Call]:
    """calls with as few buffers as that takes."""
    return placed(calls, kept)[0]


def placed(calls: Sequence[Call], kept: Set[UOp]) -> tuple[list[Call], dict[UOp, UOp]]:
    """calls with as few buffers as that takes, and the BUFFERs that are gone with the ones whose memory they took."""
    last = {buffer: i for i, call in enumerate(calls) for buffer in call.buffers}
    seen: set[UOp] = set()
    home: dict[UOp, UOp] = {}  # buffer -> the one whose memory it has taken
    pairs: dict[Kernel, list[SlotPair]] = {}
    done: list[Call] = []
    for i, call in enumerate(calls):
        taken: list[SlotPair] = []
        if isinstance(call, KernelCall):
            if call.kernel not in pairs:
                pairs[call.kernel] = _pairs(call.kernel)
            for out, old in pairs[call.kernel]:
                new, before = call.buffers[out], call.buffers[old]
                free = last[before] == i and before not in kept and before in seen
                if free and new not in kept and new not in seen and not any(old == o or out == n for n, o in taken):
                    taken.append((out, old))
                    home[new] = home.get(before, before)
        seen.update(call.buffers)
        done.append(_moved(call, home, taken))
    return done, home


def _pairs(kernel: Kernel) -> list[SlotPair]:
    """The outputs of a kernel that could take the place of something it reads."""
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


def _moved(call: Call, home: dict[UOp, UOp], taken: Sequence[SlotPair]) -> Call:
    """A call on the memory that its buffers have now, with one slot for both of what takes the place of another."""
    buffers = tuple(home.get(buffer, buffer) for buffer in call.buffers)
    if isinstance(call, CopyCall):
        return CopyCall(*buffers)
    if not taken:
        return replace(call, buffers=buffers)
    becomes = dict(taken)
    left = [slot for slot in range(len(buffers)) if slot not in becomes]
    number = {slot: place for place, slot in enumerate(left)}
    swap = {
        n: n.replace(arg=ParamArg(number[becomes.get(n.arg.slot, n.arg.slot)], n.arg.size))
        for n in postorder(call.kernel.sink) if n.op is Ops.PARAM
    }  # fmt: skip
    sink = ix.rebuild_simplified((call.kernel.sink,), swap)[call.kernel.sink]
    written = tuple(sorted({store.src[0].arg.slot for store in sink.src}))
    return KernelCall(Kernel(sink), call.device, tuple(buffers[slot] for slot in left), written)
