"""The Python numbers of a graph that its kernels may take as arguments: numbers beside values in memory, and starts.

    numbers_of(order, outputs) -> Numbers | None      with_arguments(order, outputs, chosen) -> [UOp]

`Numbers.key` is the form of the graph (form.py) with each such number left out: graphs with equal keys differ in their
buffers, the values of their variables and these numbers alone. A number has a slot only where a kernel that takes it as
an argument computes the same bits:

- a constant that is an operand, beside a value in memory or positions, of an op that every device rounds alike, or that
  is stored, scattered or assigned. Functions of constants stay, and so do sizes, paddings, bools and NaN.
- 0, 1 and -1 beside a reduction of floats only where that is found to be summed in the same order: rules remove them
  (rules/fold.py).
- the start of a slice of known length, and where a padding begins, as in the gradient of one. Lengths are in the key.

The values of the graph `with_arguments` are those of the original, node by node: a slot becomes a BIND of a variable.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft import events
from tinygraft.dtype import bits_of
from tinygraft.schedule.form import LARGEST, FormKey, note_value, with_numbers
from tinygraft.schedule.multiplied import by_argument, exponent_kind
from tinygraft.schedule.own_picks import OwnPick
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops, Own, VariableArg
from tinygraft.uop.sizes import is_concrete, symbolic_sizes
from tinygraft.uop.uop import UOp, constant_bits

# Ops that every device rounds alike: with an argument in place of a constant they give the same bits.
_EXACT = frozenset({
    Ops.ADD, Ops.SUB, Ops.MUL, Ops.FDIV, Ops.MAX, Ops.MIN, Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.WHERE, Ops.AND, Ops.OR,
    Ops.XOR, Ops.SHL, Ops.SHR, Ops.IDIV, Ops.MOD, Ops.FMOD, Ops.FMA, Ops.CAST, Ops.BITCAST, Ops.NEG, Ops.NOT, Ops.TRUNC,
    Ops.SQRT, Ops.RECIPROCAL,
})  # fmt: skip
_TAKES = _EXACT | {Ops.POW}  # a function, but no device has one of its own
_MOVES = frozenset({Ops.RESHAPE, Ops.EXPAND, Ops.PERMUTE, Ops.FLIP, Ops.PAD, Ops.SHRINK, Ops.DETACH})
_KEEPS = _EXACT | _MOVES  # of constants alone they are as good as one
_MADE = frozenset({Ops.IOTA, Ops.CONTIGUOUS, Ops.CAT, Ops.SCATTER, Ops.GATHER})  # these are values of their own
# given: the order of sources of these ops, of which one may be any value
_VALUE_AT = {Ops.ASSIGN: 1, Ops.SCATTER: 2, Ops.GATHER: 1, Ops.CONTIGUOUS: 0, Ops.PAD: 0}
_BROADCAST = frozenset({Ops.RESHAPE, Ops.EXPAND})  # a constant stays one number
_COMBINING = frozenset({Ops.REDUCE_AXIS, Ops.SCAN, Ops.FOLD, Ops.SCATTER})  # in an order that may decide the last bits

# An operand that is a constant: the node that it is an operand of, and at which place. Or a SHRINK or PAD, and an axis
# that it cuts or pads, counted from START on.
NumberSlot = tuple[UOp, int]
# given: more than any op has operands
START = 1000


@dataclass(slots=True)
class Numbers:
    """The numbers of one graph: `values` by slot are the bits of constants and starts of slices.

    `combines` says that the graph has a reduction of floats; `special` are the slots then whose numbers a rule may
    remove, so that another expression is summed. `buffers`, `devices` and the values of `bound` variables are as in a
    Form.
    """

    key: FormKey
    slots: list[NumberSlot]
    values: tuple[int, ...]
    combines: bool
    special: tuple[int, ...]
    buffers: list[UOp]
    devices: list[str]
    bound: dict[str, int]


class _NumberReader:
    """Reads the numbers of a graph, node by node; sources come first.

    A constant has no entry in the key: it is in that of each node that it is an operand of. So two numbers that happen
    to be equal, and then are one node, are two slots as ever.
    """

    def __init__(self) -> None:
        self.numbers: dict[UOp, int] = {}
        self.key: list[Any] = []
        self.slots: list[NumberSlot] = []
        self.values: list[int] = []
        self.broadcast: dict[UOp, UOp] = {}  # a CONST, and what has its one value -> the CONST
        self.held: set[UOp] = set()  # what is computed from memory or positions
        self.pure: set[UOp] = set()  # what is computed by exact ops from constants alone, as in the seed of a gradient
        self.stays: list[UOp] = []  # of these, what has a use that treats constants in a way of its own
        self.combines = False
        self.buffers: list[UOp] = []
        self.devices: list[str] = []
        self.bound: dict[str, int] = {}

    def read(self, node: UOp) -> None:
        """Add the entry of a node to the key, with its numbers left out; a CONST, also broadcast, has no entry.

        Raises GraphError where a variable is bound to another value than before.
        """
        op, src, arg, tag = node.op, node.src, node.arg, node.tag
        if op is Ops.CONST:
            self.broadcast[node] = node
            return
        if op in _BROADCAST and src[0] in self.broadcast and len(src) == 1:
            self.broadcast[node] = self.broadcast[src[0]]
            return
        if tag is not None and isinstance(tag, Own):
            tag = None  # as in form_of
        if op is Ops.BUFFER:
            self.held.add(node)
            self.buffers.append(node)
            arg = arg.size
        elif op is Ops.DEVICE:
            self.devices.append(arg)
        elif op is Ops.BIND:
            note_value(node, self.bound)
            arg = None
        operands = self._operands(node)
        if op is Ops.SHRINK and (node in self.held or node in self.pure):
            arg = self._starts(node)
        elif op is Ops.PAD:
            arg = self._paddings(node)
        elif op is Ops.WINDOW:
            self._keep_padding(src[0])
        if len(src) > 1 and type(arg) is tuple:
            arg = with_numbers(arg, self.numbers)
        self.numbers[node] = len(self.key)
        self.key.append((op, node.dtype, arg, tag, *operands))

    def _operands(self, node: UOp) -> list[Any]:
        """Return the sources of a node as the key has them, and note what is computed from memory or positions.

        A constant that has a slot is there as (dtype, shape, device, kind of exponent), and any other as `constant`
        gives it.
        """
        op, src = node.op, node.src
        if not self.held.isdisjoint(src):
            self.held.add(node)
            if op in _COMBINING and node.dtype.kind == "float":
                self.combines = True
        elif op in _MADE or _is_placed(node):
            self.held.add(node)
        elif op in _KEEPS and all(source in self.broadcast or source in self.pure for source in src):
            self.pure.add(node)
        lets = (op in _TAKES and node in self.held) or (op in _EXACT and node in self.pure)
        if self.pure and not lets:
            self._use_pure(node)
        if self.broadcast.keys().isdisjoint(src):
            return [self.numbers[source] for source in src]
        found: list[Any] = []
        for place, source in enumerate(src):
            if source not in self.broadcast:
                found.append(self.numbers[source])
            elif (lets or _is_value(op, place)) and _may_vary(constant := self.broadcast[source]):
                self.slots.append((node, place))
                self.values.append(argument_of(constant))
                found.append((constant.dtype, source.shape, constant.device, exponent_kind(op, place, constant)))
            else:
                found.append(self.constant(source))
        return found

    def _use_pure(self, node: UOp) -> None:
        """Note the use of what is computed from constants by a node that needs it as a constant."""
        if node in self.pure:  # which moves it
            return
        self.stays += [s for place, s in enumerate(node.src) if s in self.pure and not _is_value(node.op, place)]

    def constant(self, node: UOp) -> tuple[Any, ...]:
        """Return what stands in the key for a constant that has no slot."""
        of = self.broadcast[node]
        return of.dtype, node.shape, of.device, constant_bits(of.arg)

    def _starts(self, node: UOp) -> tuple[Any, ...]:
        """Return the arg of a SHRINK with a slot for each start that may be another one.

        Those are the starts along axes that are cut, with bounds and a size that are not symbolic; in the key stands
        ("start", length) for them.
        """
        found: list[Any] = []
        for axis, (bounds, size) in enumerate(zip(node.arg, node.src[0].shape, strict=True)):
            start, end = bounds
            if is_concrete((start, end, size)) and 0 < end - start < size:
                self.slots.append((node, START + axis))
                self.values.append(start)
                bounds = ("start", end - start)
            found.append(bounds)
        return tuple(found)

    def _paddings(self, node: UOp) -> tuple[Any, ...]:
        """Return the arg of a PAD with a slot for each axis that it pads; in the key stands ("padding", both sides)."""
        found: list[Any] = []
        for axis, (before, after) in enumerate(node.arg):
            bounds: tuple[Any, Any] = before, after
            if is_concrete(bounds) and before + after > 0:
                self.slots.append((node, START + axis))
                self.values.append(before)
                bounds = "padding", before + after
            found.append(bounds)
        return tuple(found)

    def _keep_padding(self, node: UOp) -> None:
        """Note that the padding of what windows slide over stays: routines of convolutions are chosen by it."""
        while node.op in _MOVES:
            if node.op is Ops.PAD:
                self.stays.append(node)
            node = node.src[0]

    def finish(self, outputs: Sequence[UOp]) -> Numbers:
        """Return the numbers of the graph of `outputs`, whose nodes were all read. Call it once: it ends the key.

        Numbers of values that are made of constants alone and have to stay constant have no slot there, and their
        values are in the key.
        """
        slots, values = self.slots, self.values
        self.key.append(tuple([self.constant(n) if n in self.broadcast else self.numbers[n] for n in outputs]))
        if self.stays or not self.pure.isdisjoint(outputs):
            fixed = {*self.stays, *self.pure.intersection(outputs)}
            for node in sorted(self.pure, key=lambda n: n.serial, reverse=True):
                if node in fixed:
                    fixed.update(node.src)
            stay = [i for i, slot in enumerate(slots) if slot[0] in fixed]
            self.key += [(i, values[i]) for i in stay]
            kept = sorted({*range(len(slots))} - {*stay})
            slots, values = [slots[i] for i in kept], [values[i] for i in kept]
        special = tuple([i for i, slot in enumerate(slots) if self.combines and _is_special(slot)])
        return Numbers(
            tuple(self.key), slots, tuple(values), self.combines, special, self.buffers, self.devices, self.bound
        )


def _is_placed(node: UOp) -> bool:
    """Return whether a node is a PAD: where its source is depends on positions, so it is more than a constant."""
    return node.op is Ops.PAD and any(is_concrete(pair) and sum(pair) > 0 for pair in node.arg)


def _is_value(op: Ops, place: int) -> bool:
    """Return whether an op that is not elementwise takes any value at `place`, and treats none in a way of its own."""
    return op is Ops.CAT or _VALUE_AT.get(op) == place


def _is_special(slot: NumberSlot) -> bool:
    """Return whether a rule may remove the number of a slot. A part of memory that it is written to reads it back."""
    node, place = slot
    return place < START and not (node.op is Ops.ASSIGN and len(node.src) == 3) and constant_of(slot).arg in (0, 1, -1)


def _may_vary(constant: UOp) -> bool:
    """Return whether a CONST may be an argument: a compiler may give a NaN it computes itself another sign."""
    return constant.dtype.kind != "bool" and constant.arg == constant.arg


def numbers_of(order: Sequence[UOp], outputs: Sequence[UOp]) -> Numbers | None:
    """Return the numbers of the graph of `outputs`, whose postorder is `order`; None where it has none.

    A graph on several devices has none, as what is sharded is cut by starts and sizes, and so has one of more nodes
    than LARGEST. Raises GraphError where a variable is bound to two values.
    """
    if len(order) > LARGEST:
        return None
    reader = _NumberReader()
    for node in order:
        if type(node.device) is tuple:
            return None
        reader.read(node)
    return reader.finish(outputs) if reader.slots else None


def argument_of(constant: UOp) -> int:
    """Return the argument of a kernel that stands for a CONST: its bits, as an integer that fits an int64.

    >>> from tinygraft.dtype import dtypes
    >>> argument_of(UOp.const(dtypes.float32, -2.0)) == 0xC0000000, argument_of(UOp.const(dtypes.int64, -3))
    (True, -3)
    """
    bits = bits_of(constant.arg, constant.dtype)
    return bits - (1 << 64) if bits >> 63 else bits


def typed_variable(constant: UOp, name: str) -> UOp:
    """Return a VARIABLE of the dtype of a CONST, whose argument has its bits (rules/typed_variables.py)."""
    bits = constant.dtype.bits
    low, high = (-(1 << 63), (1 << 63) - 1) if bits == 64 else (0, (1 << bits) - 1)
    return UOp(Ops.VARIABLE, constant.dtype, (), VariableArg(name, low, high))


def constant_of(slot: NumberSlot) -> UOp:
    """Return the CONST of a slot that is no start."""
    node, place = slot
    constant = node.src[place]
    while constant.op is not Ops.CONST:
        constant = constant.src[0]
    return constant


def room(slot: NumberSlot) -> tuple[int, int]:
    """Return the least and the greatest start that a slice of this length, or a padding of this sum, may have.

    The slot is that of a start.
    """
    node, place = slot
    start, end = node.arg[place - START]
    if node.op is Ops.PAD:
        return 0, start + end
    return 0, node.src[0].shape[place - START] - (end - start)


def with_arguments(order: Sequence[UOp], outputs: Sequence[UOp], chosen: Mapping[NumberSlot, UOp]) -> list[UOp]:
    """Return the outputs rebuilt with `chosen` in place of the numbers of these slots.

    `order` is the graph of `outputs`, sources before users. For a constant `chosen` has a BIND, which is broadcast as
    the constant was; for a start the new start, whose slice keeps its length. Origins are passed on.
    """
    done: dict[UOp, UOp] = {}
    places: dict[UOp, list[int]] = {}
    for node, place in chosen:
        places.setdefault(node, []).append(place)
    for node in order:
        src, arg = [done[source] for source in node.src], node.arg
        for place in places.get(node, ()):
            if place < START:
                src[place] = _broadcast_as(node.src[place], chosen[node, place])
        if max(places.get(node, (0,))) >= START:
            bounds = []
            for axis, (start, end) in enumerate(arg):
                at = chosen.get((node, START + axis), start)
                if node.op is Ops.PAD:
                    bounds.append((at, end if at is start else ix.sub(start + end, at)))
                else:
                    bounds.append((at, end if at is start else ix.add(at, end - start)))
            arg = tuple(bounds)
            src += symbolic_sizes([size for pair in arg for size in pair if size not in src])
        if (node, 1) in chosen and (kind := exponent_kind(node.op, 1, constant_of((node, 1)))):
            done[node] = by_argument(src[0], src[1], kind)
            continue
        tag = None if isinstance(node.tag, OwnPick) else node.tag
        same = arg is node.arg and tag is node.tag and all(new is old for new, old in zip(src, node.src, strict=True))
        done[node] = node if same else UOp(node.op, node.dtype, tuple(src), arg, tag)
    if events.origins is not None:
        events.origins.pass_on(done)
    return [done[node] for node in outputs]


def _broadcast_as(constant: UOp, number: UOp) -> UOp:
    """Return `number` moved as `constant`, which is a CONST that is reshaped and expanded."""
    moves = []
    while constant.op is not Ops.CONST:
        moves.append(constant)
        constant = constant.src[0]
    for move in reversed(moves):
        number = UOp(move.op, move.dtype, (number,), move.arg, move.tag)
    return number
