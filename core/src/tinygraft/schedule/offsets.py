"""Kernels that differ in where they read alone become one kernel: the steps of a loop that Python has unrolled.

    share_kernels(calls) -> calls

Step i of a recurrent network reads row i of what its products have made for all steps, so that each step would be a
kernel of its own. The constant in the index of a load becomes an argument here, and each call has its number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

from tinygraft.dtype import dtypes
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, VariableArg
from tinygraft.uop.stages import Call, Kernel, KernelCall
from tinygraft.uop.uop import UOp, postorder

# assumed: fewer are compiled in no more time than a person waits for, and constants may simplify more than arguments
LEAST = 4  # different kernels of one form that become one
BESIDE = frozenset({Ops.CONST, Ops.ADD})  # what an offset that is 0 in one of the kernels leaves out

LoadOffsets = tuple[int, ...]
ArgumentValues = tuple[tuple[str, int], ...]


def share_kernels(calls: Sequence[Call]) -> Sequence[Call]:
    """Return `calls`, those of LEAST or more kernels that differ in offsets of loads on one kernel with arguments.

    `numbers` of such a call has the values of its arguments. The calls themselves are returned where there are none.
    """
    alike: dict[tuple[str, tuple[Ops, ...]], dict[Kernel, None]] = {}
    distinct = dict.fromkeys((call.device, call.kernel) for call in calls if isinstance(call, KernelCall))
    for device, kernel in distinct if len(distinct) >= LEAST else ():
        ops = tuple([node.op for node in postorder(kernel.sink) if node.op not in BESIDE])
        alike.setdefault((device, ops), {})[kernel] = None
    shared: dict[tuple[str, Kernel], tuple[Kernel, ArgumentValues]] = {}
    for (device, _), kernels in alike.items():
        if len(kernels) >= LEAST:
            shared |= {(device, old): new for old, new in _shared(list(kernels)).items()}
    return [_on(call, shared) for call in calls] if shared else calls


def _on(call: Call, shared: dict[tuple[str, Kernel], tuple[Kernel, ArgumentValues]]) -> Call:
    """Return `call` on the kernel that it shares with others, if there is one."""
    if not isinstance(call, KernelCall) or (found := shared.get((call.device, call.kernel))) is None:
        return call
    return replace(call, kernel=found[0], numbers=found[1])


def _shared(kernels: Sequence[Kernel]) -> dict[Kernel, tuple[Kernel, ArgumentValues]]:
    """Return, for each of `kernels` of which LEAST have one form, the kernel that these share, and its numbers."""
    forms: dict[UOp, dict[Kernel, LoadOffsets]] = {}
    for kernel in kernels:
        form, offsets = _form(kernel)
        forms.setdefault(form, {})[kernel] = offsets
    found: dict[Kernel, tuple[Kernel, ArgumentValues]] = {}
    for members in forms.values():
        if len(members) >= LEAST:
            found |= _with_arguments(members)
    return found


def _loads(kernel: Kernel) -> list[UOp]:
    """Return the loads whose offset may be an argument: of memory that the kernel does not write, at no loaded index.

    What a kernel reads and writes has a proof that nothing is overwritten too early, which is about constants.
    """
    nodes = postorder(kernel.sink)
    written = {store.src[0] for store in kernel.sink.src}
    after: set[UOp] = set()  # nodes that have a load among their sources, at any depth
    for node in nodes:
        if node.op is Ops.LOAD or not after.isdisjoint(node.src):
            after.add(node)
    return [n for n in nodes if n.op is Ops.LOAD and n.src[0] not in written and after.isdisjoint(n.src)]


def _parts(index: UOp) -> tuple[UOp, int]:
    """Return an index as what depends on loops, and its constant."""
    if index.op is Ops.CONST:
        return ix.const(0), index.arg
    if index.op is Ops.ADD and index.src[1].op is Ops.CONST:
        return index.src[0], index.src[1].arg
    return index, 0


def _moved(load: UOp, offset: UOp | int) -> UOp:
    """Return a load with `offset` in place of the constant in its index."""
    src = (load.src[0], ix.add(_parts(load.src[1])[0], offset), *load.src[2:])
    return UOp(Ops.LOAD, load.dtype, src, load.arg, load.tag)


def _form(kernel: Kernel) -> tuple[UOp, LoadOffsets]:
    """Return the graph of a kernel with variables in place of its offsets, and these, in the order of the loads."""
    loads = _loads(kernel)
    # bounded by what no sum of offsets leaves; the tag tells them from variables of the program
    argument = VariableArg("offset", 0, 1 << 40)
    slots = [UOp(Ops.VARIABLE, dtypes.index, (), argument, ("offset", number)) for number in range(len(loads))]
    swap = {load: _moved(load, slot) for load, slot in zip(loads, slots, strict=True)}
    form = ix.rebuild_simplified((kernel.sink,), swap)[kernel.sink]
    return form, tuple([_parts(load.src[1])[1] for load in loads])


def _with_arguments(members: dict[Kernel, LoadOffsets]) -> dict[Kernel, tuple[Kernel, ArgumentValues]]:
    """Return, for each of `members`, the kernel that all of them share, and its numbers.

    Offsets that keep their distance in all members are one argument, which counts in the greatest steps that serve.
    """
    first, *_ = members
    start, prefix = members[first], _prefix(first)
    swap: dict[UOp, UOp] = {}
    arguments: dict[
        LoadOffsets, tuple[UOp, int, int]
    ] = {}  # how far each member is from the first: variable, least, step
    for slot, load in enumerate(_loads(first)):
        moves = tuple([offsets[slot] - start[slot] for offsets in members.values()])
        if not any(moves):
            continue
        if moves not in arguments:
            least = min(moves)
            step = gcd(*[move - least for move in moves])
            variable = UOp.variable(f"{prefix}{len(arguments)}", 0, (max(moves) - least) // step)
            arguments[moves] = variable, least, step
        variable, least, step = arguments[moves]
        swap[load] = _moved(load, ix.add(ix.mul(variable, step), start[slot] + least))
    kernel = Kernel(ix.rebuild_simplified((first.sink,), swap)[first.sink])
    return {
        member: (kernel, tuple([(v.arg.name, (moves[number] - least) // step)
                                for moves, (v, least, step) in arguments.items()]))
        for number, member in enumerate(members)
    }  # fmt: skip


def _prefix(kernel: Kernel) -> str:
    """Return how the names of arguments begin, as that of no variable of the kernel does."""
    used = [node.arg.name for node in postorder(kernel.sink) if node.op is Ops.VARIABLE]
    prefix = "offset"
    while any(name.startswith(prefix) for name in used):
        prefix += "_"
    return prefix
