"""The Python numbers of a graph that its kernels may take as arguments: numbers beside values in memory, and starts.

    numbers_of(order, outputs) -> Numbers | None      with_arguments(order, outputs, chosen) -> [UOp]

`Numbers.key` is the form of the graph (form.py) with each such number left out: graphs with equal keys differ in their
buffers, the values of their variables and these numbers alone. A number has a slot only where a kernel that takes it as
an argument computes the same bits:

- a constant that is an operand, beside a value in memory, of an op that every device rounds alike (EXACT), or that is
  assigned. Functions, powers, divisions of integers and shifts are specialised for it, so there it stays; so do sizes,
  paddings, masks that are made of positions alone, bools and NaN.
- 0, 1 and -1 only in a graph without reductions of floats: rules remove them (rules/fold.py), and another expression
  may be summed in another order.
- the start of a slice of known length. The length is part of the key.

The values of the graph `with_arguments` are those of the original, node by node: a slot becomes a BIND of a variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.dtype import bits_of
from tinygraft.schedule.form import LARGEST, FormKey, note_value, with_numbers
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, Own, VariableArg
from tinygraft.uop.sizes import is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp, constant_bits

EXACT = frozenset({
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR,
    Ops.XOR,
})  # fmt: skip
_BROADCAST = frozenset({Ops.RESHAPE, Ops.EXPAND})  # a constant stays one number
_COMBINING = frozenset({Ops.REDUCE_AXIS, Ops.SCAN, Ops.FOLD, Ops.SCATTER})  # in an order that may decide the last bits
NUMBER = -1  # the axis of the slot of a constant

Slot = tuple[UOp, int]  # a CONST and NUMBER, or a SHRINK and the axis that it begins at


@dataclass(slots=True)
class Numbers:
    """The numbers of one graph: `values` by slot are the bits of constants and starts of slices.

    `combines` says that the graph has a reduction of floats. `buffers`, `devices` and the values of `bound` variables
    are as in a Form.
    """

    key: FormKey
    slots: list[Slot]
    values: tuple[int, ...]
    combines: bool
    buffers: list[UOp]
    devices: list[str]
    bound: dict[str, int]


class _Reader:
    """Reads the numbers of a graph, node by node; sources come first."""

    def __init__(self) -> None:
        self.numbers: dict[UOp, int] = {}
        self.key: list[Any] = []
        self.slots: list[Slot] = []
        self.values: list[int] = []
        self.constants: list[UOp] = []
        self.broadcast: dict[UOp, UOp] = {}  # a CONST, and what has its one value -> the CONST
        self.held: set[UOp] = set()  # what is computed from memory
        self.stays: set[UOp] = set()  # the CONSTs that have no slot
        self.combines = False
        self.buffers: list[UOp] = []
        self.devices: list[str] = []
        self.bound: dict[str, int] = {}

    def read(self, node: UOp) -> None:
        """Add the entry of a node to the key, with its starts left out, and decide what its constants are."""
        op, src, arg, tag = node.op, node.src, node.arg, node.tag
        if tag is not None and isinstance(tag, Own):
            tag = None  # as in form_of
        if op is Ops.CONST:
            self.constants.append(node)
            self.broadcast[node] = node
            arg = None
            # a compiler may give the NaN of a constant expression another sign than the processor gives
            if node.dtype.kind == "bool" or tag is not None or node.arg != node.arg:
                self.stays.add(node)
        elif op is Ops.BUFFER:
            self.held.add(node)
            self.buffers.append(node)
            arg = arg.size
        elif op is Ops.DEVICE:
            self.devices.append(arg)
        elif op is Ops.BIND:
            note_value(node, self.bound)
            arg = None
        else:
            self._use(node)
            if op is Ops.SHRINK and src[0] in self.held:
                arg = self._starts(node)
            if len(src) > 1 and type(arg) is tuple:
                arg = with_numbers(arg, self.numbers)
        self.key.append((op, node.dtype, arg, tag, *map(self.numbers.__getitem__, src)))
        self.numbers[node] = len(self.numbers)

    def _use(self, node: UOp) -> None:
        """Note what a node is computed from, and the constants that it does not let be arguments."""
        op, src, broadcast = node.op, node.src, self.broadcast
        if op in _BROADCAST and src[0] in broadcast and len(src) == 1:
            broadcast[node] = broadcast[src[0]]
            return
        held, constants = False, None
        for place, source in enumerate(src):
            if source in self.held:
                held = True
            elif source in broadcast and not (op is Ops.ASSIGN and place == 1):
                constants = [*(constants or ()), broadcast[source]]
        if held:
            self.held.add(node)
            if op in _COMBINING and node.dtype.kind == "float":
                self.combines = True
        if constants and not (held and op in EXACT):
            self.stays.update(constants)

    def _starts(self, node: UOp) -> tuple[Any, ...]:
        """Return the arg of a SHRINK with a slot for each start that may be another one."""
        found: list[Any] = []
        for axis, (bounds, size) in enumerate(zip(node.arg, node.src[0].shape, strict=True)):
            start, end = bounds
            if is_concrete((start, end, size)) and 0 < end - start < size:
                self.slots.append((node, axis))
                self.values.append(start)
                bounds = ("start", end - start)
            found.append(bounds)
        return tuple(found)

    def finish(self, outputs: Sequence[UOp]) -> Numbers:
        """Return the numbers of the graph that was read."""
        self.stays.update([self.broadcast[node] for node in outputs if node in self.broadcast])
        for node in self.constants:
            if node in self.stays or (self.combines and node.arg in (0, 1, -1)):
                self.key.append((self.numbers[node], constant_bits(node.arg)))
            else:
                self.slots.append((node, NUMBER))
                self.values.append(argument_of(node))
        self.key.append(tuple([self.numbers[node] for node in outputs]))
        key, values = tuple(self.key), tuple(self.values)
        return Numbers(key, self.slots, values, self.combines, self.buffers, self.devices, self.bound)


def numbers_of(order: Sequence[UOp], outputs: Sequence[UOp]) -> Numbers | None:
    """Return the numbers of the graph of `outputs`, whose postorder is `order`; None where it has none.

    A graph on several devices has none: what is sharded is cut by starts and sizes.
    """
    if len(order) > LARGEST:
        return None
    reader = _Reader()
    for node in order:
        if type(node.device) is tuple:
            return None
        reader.read(node)
    return reader.finish(outputs) if reader.constants or reader.slots else None


def argument_of(constant: UOp) -> int:
    """Return the argument of a kernel that stands for a CONST: its bits, as an integer that fits an int64.

    >>> argument_of(UOp.const(dtypes.float32, -2.0)) == 0xC0000000, argument_of(UOp.const(dtypes.int64, -3))
    (True, -3)
    """
    bits = bits_of(constant.arg, constant.dtype)
    return bits - (1 << 64) if bits >> 63 else bits


def typed_variable(constant: UOp, name: str) -> UOp:
    """Return a VARIABLE of the dtype of a CONST, whose argument has the bits of the value (rules/arguments.py)."""
    bits = constant.dtype.bits
    low, high = (-(1 << 63), (1 << 63) - 1) if bits == 64 else (0, (1 << bits) - 1)
    return UOp(Ops.VARIABLE, constant.dtype, (), VariableArg(name, low, high))


def room(slot: Slot) -> tuple[int, int]:
    """Return the least and the greatest start that a slice of this length may have."""
    node, axis = slot
    start, end = node.arg[axis]
    return 0, node.src[0].shape[axis] - (end - start)


def with_arguments(order: Sequence[UOp], outputs: Sequence[UOp], chosen: Mapping[Slot, UOp]) -> list[UOp]:
    """Return the outputs rebuilt with `chosen` in place of the numbers of these slots: BINDs, or sums with one."""
    done: dict[UOp, UOp] = {}
    sliced = {node for node, axis in chosen if axis != NUMBER}
    for node in order:
        src = tuple([done[source] for source in node.src])
        if (node, NUMBER) in chosen:
            done[node] = chosen[node, NUMBER]
        elif node in sliced:
            bounds = tuple(
                [
                    (at, ix.add(at, end - start)) if (at := chosen.get((node, axis))) is not None else (start, end)
                    for axis, (start, end) in enumerate(node.arg)
                ]
            )
            sizes = symbolic_sizes([size for pair in bounds for size in pair])
            done[node] = UOp(Ops.SHRINK, node.dtype, (src[0], *sizes), bounds, node.tag)
        else:
            done[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
    return [done[node] for node in outputs]
