"""UOp: the one node class of every graph, immutable and interned.

Two nodes built from the same op, dtype, sources, arg and tag are one object, so equality is identity. Shape, device,
bounds and open ranges follow from the sources, and are computed when a node is made. Nothing here simplifies: a graph
stays as it was written. What is done with nodes is in functions elsewhere.
"""

from __future__ import annotations

import itertools
import operator
import os
import struct
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tinygraft import events
from tinygraft.dtype import DType, DTypeLike, coerce, dtypes, to_dtype
from tinygraft.errors import DTypeError
from tinygraft.interrupt import come_again
from tinygraft.uop import ops as _ops
from tinygraft.uop.ops import (
    BINARY,
    COMPARE,
    FACTS,
    MOVEMENT,
    AxisKind,
    BufferArg,
    Ops,
    PlaceholderArg,
    RangeArg,
    RankShards,
    ShardArg,
    VariableArg,
)
from tinygraft.uop.sizes import Shape, sint

NodeKey = tuple[Any, ...]
Place = Any  # the name of a device, the names of several as a tuple, or None


class _InternedNode(weakref.ref["UOp"]):
    """A weak reference to a node, with the key under which that is interned."""

    __slots__ = ("key",)
    key: NodeKey


_table: dict[NodeKey, _InternedNode] = {}
_lock = threading.RLock()
_serials = itertools.count(1)
_buffer_ids = itertools.count(1)
check_node: Callable[[UOp], None] | None = None  # set by uop.graph_spec: the check of each new node with SPEC=2
memory_of: Callable[[UOp], Any] | None = None  # set by device.buffer: the Buffer of a BUFFER node that has memory
forget_memory: Callable[[int], None] | None = None  # set by device.buffer: called when the BUFFER of this id is freed


# Removes a freed node from the table of interned nodes: its weak reference calls this. By then an equal node may
# have been interned under the same key, which stays. A BUFFER's memory is freed with its node.
# No docstring: a signal is lost that comes before the try, and tests/support/signal_lines.py expects that on line 2.
def _forget(entry: _InternedNode) -> None:
    try:
        with _lock:
            known = _table.pop(entry.key, entry)
            if known is not entry:
                _table[entry.key] = known
                return
        if entry.key[0] is Ops.BUFFER and forget_memory is not None:
            forget_memory(entry.key[3].uid)
    except KeyboardInterrupt:  # Python drops exceptions of a callback: do all of it again, then send the signal again
        _forget(entry)
        come_again()


# What follows for a node from its sources: rules about nodes, in modules that import this one.
_shape_rules: Sequence[Callable[[Ops, tuple[UOp, ...], Any], Shape]]
_bounds: Callable[[Ops, DType, tuple[UOp, ...], Any], tuple[Any, Any]]
_sharding: Callable[[Ops, tuple[UOp, ...], Any, Shape], ShardArg | None]
_show: Callable[[UOp], str]


def derive_by(
    shape: Sequence[Callable[[Ops, tuple[UOp, ...], Any], Shape]],
    bounds: Callable[[Ops, DType, tuple[UOp, ...], Any], tuple[Any, Any]],
    sharding: Callable[[Ops, tuple[UOp, ...], Any, Shape], ShardArg | None],
    show: Callable[[UOp], str],
) -> None:
    """Set how a node's shape (a rule for each op), bounds and sharding follow from its sources, and how it prints.

    Before that no node can be made: `tinygraft.uop` calls this when it is imported, so before any of its modules is
    used.
    """
    global _shape_rules, _bounds, _sharding, _show
    _shape_rules, _bounds, _sharding, _show = shape, bounds, sharding, show


def _renew_lock() -> None:
    """Make a new lock in a forked child: another thread of the parent may have owned the old one."""
    global _lock
    _lock = threading.RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_lock)


def live_nodes() -> int:
    """Return how many nodes exist now."""
    return len(_table)


def nodes_made() -> int:
    """Return how many nodes were made since the process started, interning hits not counted."""
    return _last_serial


_last_serial = 0


class UOp:
    """A node: what it does (`op`), the type of its value (`dtype`), its sources (`src`), further parameters (`arg`).

    `tag` distinguishes nodes that are equal otherwise. Also set at construction: `shape`, `device` (a tuple of names
    where it is on several, None in a kernel graph), `sharding` (how it is cut over these; None where each has all of
    it), `lo` and `hi` (inclusive bounds, None for floats), `ranges` (a mask of the open ranges by their axis) and
    `serial` (that of a source is less than those of its users).

    >>> a = UOp.variable("a", 1, 10)
    >>> a + 1 is a + 1
    True
    """

    __slots__ = (
        "__weakref__",
        "arg",
        "device",
        "dtype",
        "hi",
        "lo",
        "op",
        "ranges",
        "serial",
        "shape",
        "sharding",
        "src",
        "tag",
    )
    op: Ops
    dtype: DType
    src: tuple[UOp, ...]
    arg: Any
    tag: Any
    shape: Shape
    device: Place
    sharding: ShardArg | None
    lo: Any
    hi: Any
    ranges: int
    serial: int

    def __new__(cls, op: Ops, dtype: DType = dtypes.void, src: tuple[UOp, ...] = (), arg: Any = None,  # noqa: D102
                tag: Any = None) -> UOp:  # fmt: skip
        key = (op, dtype, src, constant_bits(arg) if op is Ops.CONST else arg, tag)
        entry = _table.get(key)
        if entry is not None and (found := entry()) is not None:
            return found
        return _make(key, op, dtype, src, arg, tag)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a UOp is immutable; make a new one with replace({name}=...)")

    def __reduce__(self) -> tuple[Any, ...]:
        return UOp, (self.op, self.dtype, self.src, self.arg, self.tag)

    def __deepcopy__(self, memo: object) -> UOp:
        return self

    def __bool__(self) -> bool:
        if self.lo is not None and self.lo == self.hi:
            return bool(self.lo)
        raise TypeError("the truth of a graph node is not known; compare with `is`, or use where()")

    def __repr__(self) -> str:
        return _show(self)

    def replace(self, **changes: Any) -> UOp:
        """Return this node with some of op, dtype, src, arg, tag changed."""
        fields = {
            "op": self.op,
            "dtype": self.dtype,
            "src": self.src,
            "arg": self.arg,
            "tag": self.tag,
        } | changes
        return UOp(**fields)

    @property
    def base(self) -> UOp:
        """Return the node whose values this one only moves: of a realised tensor a BUFFER, or a MULTI over several."""
        node = self
        while node.op in MOVEMENT or node.op is Ops.DETACH:
            node = node.src[0]
        return node

    @property
    def realized(self) -> Any:
        """Return the Buffer of this BUFFER node when it has memory, else None; a tuple of them on several devices."""
        if self.op is Ops.MULTI:
            found = tuple([shard.base.realized for shard in self.src])
            return None if None in found else found
        return memory_of(self) if memory_of is not None and self.op is Ops.BUFFER else None

    # Constructors

    @staticmethod
    def const(dtype: DType, value: Any, device: Place = None) -> UOp:
        """Return a CONST with `value` converted to `dtype`. One of the tensor graph has its device as source."""
        src = () if device is None else (UOp.on(device),)
        return UOp(Ops.CONST, dtype, src, coerce(value, dtype))

    @staticmethod
    def on(device: Place) -> UOp:
        """Return the DEVICE node of a name, or of several; they are never freed, as there are few."""
        if (found := _devices.get(device)) is None:
            found = _devices[device] = UOp(Ops.DEVICE, dtypes.void, (), device)
        return found

    @staticmethod
    def buffer(device: str, size: int, dtype: DType) -> UOp:
        """Return a new BUFFER of `size` elements; no two calls return the same node."""
        if (place := _devices.get(device)) is None:
            place = UOp.on(device)
        # without the function that a NamedTuple has as __new__
        return _make_buffer(dtype, (place,), tuple.__new__(BufferArg, (next(_buffer_ids), size)))

    @staticmethod
    def placeholder(shape: Shape, dtype: DType, device: Any, what: str) -> UOp:
        """Return a PLACEHOLDER, for which `what` substitutes a value later; no two calls return the same node."""
        src = () if device is None else (UOp.on(device),)
        return UOp(Ops.PLACEHOLDER, dtype, src, PlaceholderArg(next(_buffer_ids), shape, what))

    @staticmethod
    def stand_in(node: UOp, what: str) -> UOp:
        """Return a PLACEHOLDER with the facts of `node`, on one device: its bounds too."""
        shown = UOp.placeholder(node.shape, node.dtype, node.device, what)
        for name in ("lo", "hi"):
            object.__setattr__(shown, name, getattr(node, name))
        return shown

    @staticmethod
    def next_buffer() -> int:
        """Return a number above the id of every buffer made so far and below that of every one made later."""
        return next(_buffer_ids)

    @staticmethod
    def variable(name: str, min_val: int, max_val: int, dtype: DTypeLike | None = None) -> UOp:
        """Return a VARIABLE: an integer that is known only when a kernel is launched, with inclusive bounds.

        `dtype` is the integer dtype of its value as a tensor, as in Tensor(n); by default that is the default integer,
        or one of 64 bits where its bounds need them. Raises ValueError for a name that cannot be that of an argument in
        generated code and for bounds that are no integers, DTypeError for a dtype that has not all of its values.

        >>> UOp.variable("n", 1, 9, dtype="int8").arg
        VariableArg(name='n', low=1, high=9, dtype=dtypes.char)
        """
        low, high = _whole(min_val), _whole(max_val)
        to = None if dtype is None or to_dtype(dtype) is dtypes.index else to_dtype(dtype)
        if to is not None and (to.kind not in ("int", "uint") or low < dtypes.min(to) or high > dtypes.max(to)):
            raise DTypeError(
                f"variable {name!r} is an integer in [{low}, {high}], so its dtype has to be one of integers that "
                f"holds these, got {to}"
            )
        return UOp(Ops.VARIABLE, dtypes.index, (), VariableArg(name, low, high, to))

    @staticmethod
    def range(size: sint, axis: int, kind: AxisKind = AxisKind.LOOP, dim: int = 0) -> UOp:
        """Return a RANGE: a counter from 0 to below `size`, with the number `axis` in its kernel."""
        bound = UOp.const(dtypes.index, size) if isinstance(size, int) else size
        return UOp(Ops.RANGE, dtypes.index, (bound,), RangeArg(axis, kind, dim))

    def bind(self, value: int) -> UOp:
        """Return this variable bound to a value.

        Raises ValueError for a value outside its bounds or that is no integer; True and False are none.
        """
        if self.op is not Ops.VARIABLE:
            raise ValueError(f"only a variable can be bound, this is {self.op}")
        number = _whole(value)
        if type(number) is not int or not self.lo <= number <= self.hi:
            raise ValueError(f"{self.arg.name} must be in [{self.lo}, {self.hi}], got {value!r}")
        return UOp(Ops.BIND, self.dtype, (self,), number)

    def unbind(self) -> tuple[UOp, int]:
        """Return the variable and the value of a result of `bind`. Raises ValueError for any other node.

        >>> UOp.variable("n", 1, 9).bind(3).unbind()[1]
        3
        """
        if self.op is not Ops.BIND:
            raise ValueError(f"only a bound variable can be unbound, this is {self.op}")
        return self.src[0], self.arg

    @property
    def val(self) -> int:
        """The value of a bound variable, as older scripts ask for it; AttributeError for any other node."""
        if self.op is not Ops.BIND:
            raise AttributeError(f"only a bound variable has a val, this is {self.op}")
        return int(self.arg)

    def const_like(self, value: Any) -> UOp:
        """Return a number with this node's dtype, device and shape. Raises DTypeError for a fraction with an index."""
        if self.dtype is dtypes.index and isinstance(value, float) and not value.is_integer():
            raise DTypeError(
                f"a symbolic integer is combined with integers, got {value}\n"
                "  hint: as a float it is another value: n.cast(dtypes.float), or Tensor(n)"
            )
        node = UOp.const(self.dtype, value, self.device)
        if self.shape == ():
            return node
        return UOp(Ops.EXPAND, self.dtype,
                   (UOp(Ops.RESHAPE, self.dtype, (node,), (1,) * len(self.shape)),), self.shape)  # fmt: skip

    def alu(self, op: Ops, *others: UOp | float | int | bool) -> UOp:
        """Return `op` of this node and others; numbers get this node's dtype, a comparison is a bool.

        The dtype is that of the last operand, which for WHERE is the chosen value.
        """
        src = (self, *(other if isinstance(other, UOp) else self.const_like(other) for other in others))
        return UOp(op, dtypes.bool if op in COMPARE else src[-1].dtype if op is Ops.WHERE else self.dtype, src)

    def cast(self, dtype: DType) -> UOp:
        """Return the value converted to another dtype; this node itself when that is its dtype."""
        return self if dtype is self.dtype else UOp(Ops.CAST, dtype, (self,))

    def bitcast(self, dtype: DType) -> UOp:
        """Return the bits as another dtype of the same width."""
        return self if dtype is self.dtype else UOp(Ops.BITCAST, dtype, (self,))

    def where(self, a: UOp, b: UOp | float | int | bool) -> UOp:
        """Return `a` where this is true, `b` elsewhere."""
        return UOp(Ops.WHERE, a.dtype, (self, a, b if isinstance(b, UOp) else a.const_like(b)))

    # Operators build nodes and never simplify; == stays identity, use eq. An operand that has a node, as a tensor,
    # defines the result itself: NotImplemented makes Python call its operator.

    def _with(self, op: Ops, other: Any) -> UOp:
        mine = isinstance(other, UOp) or not hasattr(other, "uop")
        found: UOp = self.alu(op, other) if mine else NotImplemented
        return found

    def __add__(self, other: Any) -> UOp:
        return self._with(Ops.ADD, other)

    def __radd__(self, other: Any) -> UOp:
        return self.const_like(other).alu(Ops.ADD, self)

    def __sub__(self, other: Any) -> UOp:
        return self._with(Ops.SUB, other)

    def __rsub__(self, other: Any) -> UOp:
        return self.const_like(other).alu(Ops.SUB, self)

    def __mul__(self, other: Any) -> UOp:
        return self._with(Ops.MUL, other)

    def __rmul__(self, other: Any) -> UOp:
        return self.const_like(other).alu(Ops.MUL, self)

    def __truediv__(self, other: Any) -> UOp:
        return self._no_fraction(other)._with(Ops.FDIV, other)

    def __rtruediv__(self, other: Any) -> UOp:
        return self._no_fraction(other).const_like(other).alu(Ops.FDIV, self)

    def _no_fraction(self, other: Any) -> UOp:
        """Return this node. Raises DTypeError for a symbolic integer, unless `other` is a tensor, which can divide."""
        if self.dtype is dtypes.index and (isinstance(other, UOp) or not hasattr(other, "uop")):
            raise DTypeError(
                "a symbolic integer is divided by //, which gives one; / would give a fraction\n"
                "  hint: as a float it is another value: n.cast(dtypes.float), or Tensor(n)"
            )
        return self

    def __floordiv__(self, other: Any) -> UOp:
        return self._with(Ops.IDIV, other)

    def __rfloordiv__(self, other: Any) -> UOp:
        return self.const_like(other).alu(Ops.IDIV, self)

    def __mod__(self, other: Any) -> UOp:
        return self._with(Ops.MOD, other)

    def __rmod__(self, other: Any) -> UOp:
        return self.const_like(other).alu(Ops.MOD, self)

    def __and__(self, other: Any) -> UOp:
        return self._with(Ops.AND, other)

    def __or__(self, other: Any) -> UOp:
        return self._with(Ops.OR, other)

    def __xor__(self, other: Any) -> UOp:
        return self._with(Ops.XOR, other)

    def __lshift__(self, other: Any) -> UOp:
        return self._with(Ops.SHL, other)

    def __rshift__(self, other: Any) -> UOp:
        return self._with(Ops.SHR, other)

    def __neg__(self) -> UOp:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UOp:
        return self.alu(Ops.NOT)

    def __lt__(self, other: Any) -> UOp:
        return self._with(Ops.CMPLT, other)

    def __gt__(self, other: Any) -> UOp:
        if hasattr(other, "uop"):
            return NotImplemented
        return (other if isinstance(other, UOp) else self.const_like(other)).alu(Ops.CMPLT, self)

    def __ge__(self, other: Any) -> UOp:
        return NotImplemented if hasattr(other, "uop") else self.__lt__(other).alu(Ops.NOT)

    def __le__(self, other: Any) -> UOp:
        return NotImplemented if hasattr(other, "uop") else self.__gt__(other).alu(Ops.NOT)

    def eq(self, other: Any) -> UOp:
        """Return whether both are equal, as a node."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: Any) -> UOp:
        """Return whether both differ, as a node."""
        return self.alu(Ops.CMPNE, other)

    def maximum(self, other: Any) -> UOp:
        """Return the greater of both; NaN where either is."""
        return self.alu(Ops.MAX, other)

    def minimum(self, other: Any) -> UOp:
        """Return the less of both; NaN where either is."""
        return self.alu(Ops.MIN, other)


def _whole(value: Any) -> Any:
    """Return an integer of any type as an int; anything else, and a bool, unchanged, for an error to show."""
    if isinstance(value, bool):
        return value
    try:
        return int(operator.index(value))
    except TypeError:
        return value


_devices: dict[Place, UOp] = {}
_memory_bounds: dict[DType, tuple[Any, Any]] = {}  # of values in memory, of which nothing else is known


class _MutableUOp(UOp):
    """A node that is being made: its fields can still be set, three times as fast as by object.__setattr__ on a UOp."""

    __slots__ = ()
    __setattr__ = object.__setattr__  # type: ignore[assignment]


def constant_bits(value: Any) -> Any:
    """Return the key of a constant: those of 1, True and 1.0 differ, so do those of 0.0 and -0.0; a NaN has one."""
    return struct.pack("d", value) if isinstance(value, float) else (type(value), value)


def _make(key: NodeKey, op: Ops, dtype: DType, src: tuple[UOp, ...], arg: Any, tag: Any) -> UOp:
    """Make a node and intern it under `key`; return an equal one that another thread has interned meanwhile.

    Raises what the rule of its shape raises, ShapeError above all, and GraphError with SPEC=2 for a node that is none.
    """
    node: UOp = object.__new__(_MutableUOp)
    node.op, node.dtype, node.src, node.arg, node.tag = op, dtype, src, arg, tag
    if check_node is not None:
        check_node(node)
    node.shape = _shape_rules[op](op, src, arg)
    node.lo, node.hi = _bounds(op, dtype, src, arg)
    device: Place = None
    ranges = 0
    for source in src:
        device = device or source.device
        ranges |= source.ranges
    if op in _OWN_DEVICE:
        device = arg if op is Ops.DEVICE else _devices_of(src, arg) if op is Ops.MULTI else src[1].device
    node.sharding = _sharding(op, src, arg, node.shape) if type(device) is tuple else None
    node.device, node.ranges = device, _ranges(op, src, arg) if op in _OWN_RANGES else ranges
    return _interned(node, key)


def _interned(node: UOp, key: NodeKey) -> UOp:
    """Intern a node that was just made, under `key`; return an equal one that another thread has interned meanwhile."""
    global _last_serial
    entry = _InternedNode(node, _forget)
    entry.key = key
    with _lock:
        _last_serial = node.serial = next(_serials)
        node.__class__ = UOp
        known = _table.setdefault(key, entry)
        if known is not entry:
            if (found := known()) is not None:
                return found
            _table[key] = entry
    return node


def _make_buffer(dtype: DType, src: tuple[UOp], arg: BufferArg) -> UOp:
    """Make a BUFFER, as `_make` would: no other node is equal, and what follows for it is known without a rule."""
    global _last_serial
    node: UOp = object.__new__(_MutableUOp)
    node.op, node.dtype, node.src, node.arg, node.tag = Ops.BUFFER, dtype, src, arg, None
    if check_node is not None:
        check_node(node)
    node.shape, node.device, node.sharding, node.ranges = (arg.size,), src[0].arg, None, 0
    if (limits := _memory_bounds.get(dtype)) is None:
        limits = _memory_bounds[dtype] = _bounds(Ops.BUFFER, dtype, src, arg)
    node.lo, node.hi = limits
    entry = _InternedNode(node, _forget)
    entry.key = key = (Ops.BUFFER, dtype, src, arg, None)
    with _lock:
        _last_serial = node.serial = next(_serials)
        node.__class__ = UOp
        _table[key] = entry
    return node


class NodeStep(NamedTuple):
    """A node as a step of a recorded graph: its parts, `places` of its sources, and what follows from these.

    Only for nodes on one device, without a tag and open ranges.
    """

    op: Ops
    dtype: DType
    arg: Any
    places: tuple[int, ...]
    shape: Shape
    device: Place
    lo: Any
    hi: Any


def steps_to(made: Iterable[UOp], places: dict[UOp, int]) -> tuple[list[UOp], list[NodeStep]]:
    """Return the steps that make the nodes `made`, sources first, and the constants that they refer to beside operands.

    `places` has the operands, and gets the constants and `made`, in this order, as the list of `make_again` does.
    """
    above = {*places, *made}
    constants = list(dict.fromkeys(source for node in made for source in node.src if source not in above))
    for node in (*constants, *made):
        places[node] = len(places)
    return constants, [
        NodeStep(node.op, node.dtype, node.arg, tuple([places[source] for source in node.src]), node.shape, node.device,
                 node.lo, node.hi)
        for node in made
    ]  # fmt: skip


def make_again(steps: Sequence[NodeStep], nodes: list[UOp]) -> None:
    """Append the node of each step to `nodes`, which has the sources of the first ones: as by UOp, without the rules.

    The caller knows that sources have the shapes, devices and bounds of those that the steps were recorded of; with
    SPEC=2 each node is made by the rules and compared.
    """
    if check_node is not None:
        _make_and_compare(steps, nodes)
        return
    for op, dtype, arg, places, shape, device, lo, hi in steps:
        src = tuple(map(nodes.__getitem__, places))
        key = (op, dtype, src, constant_bits(arg) if op is Ops.CONST else arg, None)
        known = _table.get(key)
        if known is not None and (found := known()) is not None:
            nodes.append(found)
            continue
        node: UOp = object.__new__(_MutableUOp)
        node.op, node.dtype, node.src, node.arg, node.tag = op, dtype, src, arg, None
        node.shape, node.device, node.lo, node.hi, node.sharding, node.ranges = shape, device, lo, hi, None, 0
        nodes.append(_interned(node, key))


def _make_and_compare(steps: Sequence[NodeStep], nodes: list[UOp]) -> None:
    """Do what `make_again` does, by the rules. Raises AssertionError where they give something else."""
    for op, dtype, arg, places, *facts in steps:
        node = UOp(op, dtype, tuple([nodes[place] for place in places]), arg)
        assert [node.shape, node.device, node.lo, node.hi] == facts, f"recorded {facts}, by the rules {node}"
        assert node.sharding is None and not node.ranges, f"{node} is on several devices, or in a kernel"
        nodes.append(node)


def _devices_of(src: tuple[UOp, ...], arg: Any) -> tuple[str, ...]:
    """Return the devices of a MULTI: those of its shards, or those that `arg` names."""
    return arg.devices if isinstance(arg, RankShards) else tuple([shard.device for shard in src])


_OWN_DEVICE = frozenset({Ops.DEVICE, Ops.COPY, Ops.SHARD, Ops.MULTI})
_OWN_RANGES = frozenset({Ops.RANGE, Ops.REDUCE, Ops.LANES, Ops.AFTER, Ops.MATRIX})


def _ranges(op: Ops, src: tuple[UOp, ...], arg: Any) -> int:
    """Return the open ranges of a node that opens or closes some, as a mask.

    A RANGE opens its own; a REDUCE, LANES or MATRIX closes those that it goes over, an AFTER those among its sources.
    """
    if op is Ops.RANGE:
        own: int = 1 << arg.axis
        return src[0].ranges | own
    open_ = 6 if op is Ops.MATRIX else 1
    over, closing = list(src[:open_]), list(src[open_:])
    if op is Ops.AFTER:
        over, closing = [s for s in src if s.op is not Ops.RANGE], [s for s in src if s.op is Ops.RANGE]
    mask = closed = 0
    for source in over:
        mask |= source.ranges
    for source in closing:
        closed |= 1 << source.arg.axis
    return mask & ~closed


def toposort(*roots: UOp, enter: Callable[[UOp], bool] | None = None) -> list[UOp]:
    """Return the nodes of the graphs of `roots`, sources before users, by age.

    The sources of a node for which `enter` returns False are reached only by other nodes.
    """
    seen: set[UOp] = set(roots)
    stack = list(seen)
    found: list[UOp] = []
    while stack:
        node = stack.pop()
        found.append(node)
        if enter is None or enter(node):
            for source in node.src:
                if source not in seen:
                    seen.add(source)
                    stack.append(source)
    found.sort(key=_serial)
    return found


_serial = operator.attrgetter("serial")


def postorder(*roots: UOp) -> list[UOp]:
    """Return the nodes of the graphs of `roots`, sources before users, in an order that is independent of their age."""
    seen: set[UOp] = set()
    found: list[UOp] = []
    stack: list[tuple[UOp, Iterator[UOp]]] = []  # the users of `node` on the way from its root
    for root in roots:
        if root in seen:
            continue
        seen.add(root)
        node, remaining = root, iter(root.src)
        while True:
            for source in remaining:
                if source not in seen:
                    seen.add(source)
                    if source.src:
                        stack.append((node, remaining))
                        node, remaining = source, iter(source.src)
                        break
                    found.append(source)
            else:
                found.append(node)
                if not stack:
                    break
                node, remaining = stack.pop()
    return found


def rebuild(
    roots: Iterable[UOp], swap: dict[UOp, UOp], rule: Callable[[UOp, UOp], UOp] | None = None
) -> dict[UOp, UOp]:
    """Replace the nodes of `swap` in the graphs of `roots`, by a walk from sources to users. Returns old -> new node.

    `rule(node, new)` returns what each other node becomes, `new` being `node` with its new sources. It is called for
    each node of the old graph, and not for its own results; graph_rewrite applies rules until none matches.

    The view that an ASSIGN writes to says where, and is no value: it becomes the same view of the new target, also
    where `swap` replaces a tensor that reads this view.
    """
    done = dict(swap)
    for node in toposort(*roots, enter=(lambda n: n not in swap) if swap else None):
        if node not in done:
            src = tuple([done[s] for s in node.src])
            if node.op is Ops.ASSIGN and len(src) == 3:
                src = (*src[:2], _same_view(node.src[2], node.src[0], done))
            new = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)
            done[node] = new if rule is None else rule(node, new)
    if events.origins is not None:
        events.origins.pass_on(done)
    return done


def _same_view(view: UOp, old: UOp, done: dict[UOp, UOp]) -> UOp:
    """Return the movements from `old` to `view`, a view of it, applied to what `old` becomes in `done`.

    Symbolic sizes of these movements that `done` lacks are added to it.
    """
    chain = []
    while view is not old:
        chain.append(view)
        view = view.src[0]
    new = done[old]
    for node in reversed(chain):
        sizes = node.src[1:]
        if sizes and not done.keys() >= set(sizes):  # the walk did not reach them where the view itself is replaced
            done.update(rebuild(sizes, done))
        new = UOp(node.op, node.dtype, (new, *(done[s] for s in sizes)), node.arg, node.tag)
    return new


def substitute(root: UOp, swap: dict[UOp, UOp]) -> UOp:
    """Return `root` with the nodes of `swap` (old -> new) replaced; nodes of these new graphs are not."""
    return rebuild((root,), swap)[root]


def result_dtype(op: Ops, *operands: DType) -> DType:
    """Return the dtype of an elementwise op, other than CAST and BITCAST, from those of its operands."""
    return dtypes.bool if op in COMPARE else operands[-1] if op is Ops.WHERE else operands[0]


vars(_ops)["UOp"] = UOp  # programs import both from there
__all__ = ["BINARY", "FACTS", "UOp", "postorder", "rebuild", "substitute", "toposort"]
