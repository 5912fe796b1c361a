"""Split a graph on several devices into graphs of single devices.

    split_by_device(order, outputs) -> {output: its parts}

The first pass of the schedule. One node becomes several, so this is a walk with a rule for each op and no
substitution. Each node on several devices becomes one node for each: its sources are brought to the layouts that its
op requires by uop/sharding.py (collectives.py moves and cuts them), and the op is applied on each device as on a
single one. No node of the result is on several devices. The parts of an output are separate memory, of which
`together` makes one MULTI.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygraft.schedule.collectives import Parts, allreduce, delivered, moved, relaid, whole
from tinygraft.schedule.over_ranks import RankExchange
from tinygraft.uop.held import LEAVES, memory_base
from tinygraft.uop.ops import Ops
from tinygraft.uop.sharding import ShardLayout, local_args, local_devices, local_shapes, op_sharding, own_rank
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp, substitute


class PerDeviceGraph:
    """What the nodes of a graph become on single devices: `add` is called for each, sources before users."""

    def __init__(self) -> None:
        self.alone: dict[UOp, UOp] = {}  # a node on one device, or on none -> what replaces it
        # a node on several devices -> the nodes that replace it, one for each device; of ranks this rank's own one
        self.parts: dict[UOp, Parts] = {}
        self.exchange: RankExchange = RankExchange()

    def add(self, node: UOp) -> None:
        """Add what `node` becomes: to `parts` for one on several devices, else to `alone`, over the split graph.

        Its sources have to be added before.
        """
        if isinstance(node.device, tuple):
            if node.op is not Ops.DEVICE:
                self.parts[node] = RULES.get(node.op, _by_parts)(self, node)
        elif node.op is Ops.COPY and node.src[0] in self.parts:
            source = node.src[0]
            self.alone[node] = self.whole(source, node.device)
        else:
            src = tuple([self.alone[s] for s in node.src])
            if node.op is Ops.ASSIGN and memory_base(node.src[0]).op is Ops.COPY:
                src = _into_copy(src)
            self.alone[node] = node if src == node.src else UOp(node.op, node.dtype, src, node.arg, node.tag)

    def written(self) -> set[UOp]:
        """Return the BUFFERs that the added nodes assign values to."""
        found: set[UOp] = set()
        for part in (*self.alone.values(), *(part for parts in self.parts.values() for part in parts)):
            if part.op is Ops.ASSIGN:
                while part.op is Ops.ASSIGN:
                    part = memory_base(part.src[0])
                found.add(part)
        return found

    def of(self, source: UOp, wanted: ShardLayout, devices: Sequence[str]) -> Parts:
        """Return the parts of `source` on `devices` in the layout `wanted`. Its own devices have to be these.

        A symbolic integer, which is on no device, counts as whole on each.
        """
        if source in self.parts:
            return self.relaid(self.parts[source], source.sharding, wanted, devices)
        return self.relaid(
            (self.alone[source],) * len(local_devices(tuple(devices))), None, wanted, devices
        )  # a symbolic integer

    def relaid(self, parts: Parts, layout: ShardLayout, wanted: ShardLayout, devices: Sequence[str]) -> Parts:
        """Return the parts of a value in the layout `wanted`, from those in `layout`, both on `devices`."""
        if (rank := own_rank(devices)) is not None:
            return (self.exchange.relaid(parts[0], layout, wanted, rank),)
        return relaid(parts, layout, wanted, devices)

    def whole(self, source: UOp, device: str) -> UOp:
        """Return all of the value of `source`, which is on several devices, on one of this process."""
        parts, layout, devices = self.parts[source], source.sharding, source.device
        if (rank := own_rank(devices)) is not None:
            return moved(self.exchange.whole(parts[0], layout, rank), device)
        return whole(parts, layout, devices, device)


def split_by_device(order: Sequence[UOp], outputs: Sequence[UOp]) -> tuple[dict[UOp, Parts], list[UOp]]:
    """Return the parts of each of `outputs`, one for each of its devices, and the collectives that have to run besides.

    `order` is the graph of `outputs`, sources before users. Parts are separate memory: those of an output that
    nothing writes are copied where they are memory already, or a part of another output. Plain reshapes at the end of
    a part are left out: what is returned is the node whose memory it is.
    """
    graph = PerDeviceGraph()
    for node in order:
        graph.add(node)
    found = {node: graph.parts.get(node) or (graph.alone[node],) for node in outputs}
    copied = {node for node in outputs if node in graph.parts or node.op is Ops.COPY}
    unchanged = {node for node in outputs if node not in copied or node.op is Ops.ASSIGN}
    used = {memory_base(part) for node in unchanged for part in found[node]}
    written = graph.written()
    for node in outputs:
        if node not in unchanged:
            found[node] = _own(found[node], used)
        elif node in graph.parts:  # an unchanged part may be memory that another value is assigned to
            found[node] = tuple([_copied(part) if memory_base(part) in written else part for part in found[node]])
    return {node: tuple([memory_base(part) for part in parts]) for node, parts in found.items()}, graph.exchange.made


def _own(parts: Parts, used: set[UOp]) -> Parts:
    """Return the node whose memory it is for each of `parts`, a copy of those that may not share it.

    Those are parts whose memory existed before, is assigned to, or is in `used`. Adds all that are returned to `used`.
    """
    done: list[UOp] = []
    for i, node in enumerate(parts):
        base = memory_base(node)
        if base.op in LEAVES or base.op is Ops.ASSIGN or base in used:
            base = _copied(node, i)
        used.add(base)
        done.append(base)
    return tuple(done)


def _copied(node: UOp, number: int = 0) -> UOp:
    """Return a copy of `node` in new memory. Two calls give different memory only where `number` differs."""
    return UOp(Ops.CONTIGUOUS, node.dtype, (node,), None, ("part", number))


def _into_copy(src: Parts) -> Parts:
    """Return the sources of an ASSIGN to a value copied from several devices, with that value in new memory.

    A copy from a device that has all of the value is that device's memory itself, which the assignment may not
    change.
    """
    old = src[0]
    if memory_base(old).op not in (Ops.BUFFER, Ops.ASSIGN):
        return src
    copy = _copied(old)
    return copy, src[1], *[substitute(view, {old: copy}) for view in src[2:]]


# The rules: what a node becomes on each device


def _by_parts(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return the op applied on each device to the parts of its sources, in the layouts that OP_SHARDING requires.

    A reduction over the sharded axis is combined by an allreduce; parts without elements along it are left out. `graph`
    has the parts of its sources.
    """
    devices, how = node.device, op_sharding(node.op, node.src, node.arg, node.shape)
    sources = [graph.of(s, wanted, devices) for s, wanted in zip(node.src, how.sources, strict=True)]
    shapes = local_shapes(node.shape, None if how.whole or how.combine else how.result, len(devices))
    args = local_args(node.op, node.arg, how.sources[0], shapes)
    rank = own_rank(devices)
    if rank is not None:
        args = args[rank : rank + 1]
    parts = tuple([UOp(node.op, node.dtype, tuple(src), arg, node.tag)
                   for *src, arg in zip(*sources, args, strict=True)])  # fmt: skip
    if how.combine is not None:
        if rank is not None:
            return (graph.exchange.combined(parts[0], how.combine, len(devices)),)
        layout = next(wanted for wanted in how.sources if wanted is not None)
        nonempty = [part for part, size in zip(parts, layout.sizes, strict=True) if size]
        return allreduce(tuple(nonempty) or parts[:1], how.combine, devices)
    return graph.relaid(parts, None, how.result, devices) if how.whole else parts


def _leaf(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return a CONST or IOTA made on each device, which is cheaper than to copy it."""
    others = tuple([graph.alone[s] for s in node.src[1:]])
    return tuple([UOp(node.op, node.dtype, (UOp.on(device), *others), node.arg, node.tag)
                  for device in local_devices(node.device)])  # fmt: skip


def _multi(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return the parts that a MULTI is made of."""
    return tuple([graph.alone[s] for s in node.src])


def _copy(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return a value copied to several devices: all of it on each, or a shard of it, as the layout of `node` says.

    `graph` has the parts of its sources.
    """
    source, layout = node.src[0], node.sharding
    parts = graph.parts.get(source)
    if source.device == node.device and parts is not None:
        return graph.relaid(parts, source.sharding, layout, node.device)
    if own_rank(node.device) is not None or own_rank(source.device) is not None:
        return _copy_of_ranks(graph, node)
    sources = parts or (graph.alone[source],)
    devices = source.device if parts is not None else (source.device,)
    return delivered(sources, source.sharding, devices, layout, node.device)


def _copy_of_ranks(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return a value copied to the devices of ranks, from a device of this process or several, or from those of ranks.

    From this process it is this rank's part of a value that all ranks have alike. `graph` has the parts of its source.
    """
    source, layout, devices = node.src[0], node.sharding, local_devices(node.device)
    here = graph.whole(source, devices[0]) if source in graph.parts else graph.alone[source]
    if own_rank(node.device) is None:
        return delivered((here,), None, devices[:1], layout, devices)
    return graph.relaid((moved(here, devices[0]),), None, layout, node.device)


def _assign(graph: PerDeviceGraph, node: UOp) -> Parts:
    """Return the ASSIGN on each device, to the part that it has.

    To a view it is assigned locally where the view's parts are views of the old value's parts (`_is_local`). Otherwise
    each device assigns to a copy of the whole old value, and keeps its own part of the result. `graph` has the parts of
    its sources.
    """
    old, devices = node.src[0], node.device
    olds = graph.parts[old]
    if memory_base(old).op not in (Ops.MULTI, Ops.ASSIGN):  # parts may be memory of another value
        olds = tuple([_copied(part, number) if memory_base(part).op in (Ops.BUFFER, Ops.ASSIGN) else part
                      for number, part in enumerate(olds)])  # fmt: skip
    if len(node.src) == 2:
        values = graph.of(node.src[1], old.sharding, devices)
        return tuple([UOp(Ops.ASSIGN, node.dtype, pair) for pair in zip(olds, values, strict=True)])
    value, view = _without_reshapes(graph, node.src[1], node.src[2], old)
    if _is_local(view, old):
        values = graph.of(value, view.sharding, devices)
        views = [substitute(w, {o: mine}) for w, o, mine in zip(graph.parts[view], graph.parts[old], olds, strict=True)]
        return tuple([UOp(Ops.ASSIGN, node.dtype, (o, v, w)) if 0 not in w.shape else o
                      for o, v, w in zip(olds, values, views, strict=True)])  # fmt: skip
    wholes, values = graph.of(old, None, devices), graph.of(value, None, devices)
    news = []
    for number, (all_of_it, new) in enumerate(zip(wholes, values, strict=True)):
        copy = UOp(Ops.CONTIGUOUS, node.dtype, (all_of_it,))  # it may be the very memory that is assigned to
        done = UOp(Ops.ASSIGN, node.dtype, (copy, new, substitute(view, {old: copy})))
        news.append(graph.relaid((done,) * len(wholes), None, old.sharding, devices)[number])
    return tuple([UOp(Ops.ASSIGN, node.dtype, pair) for pair in zip(olds, news, strict=True)])


def _chain(view: UOp, old: UOp) -> list[UOp]:
    """Return the movements that make `view` from `old`, the last one first."""
    found = []
    while view is not old:
        found.append(view)
        view = view.src[0]
    return found


def _without_reshapes(graph: PerDeviceGraph, value: UOp, view: UOp, old: UOp) -> tuple[UOp, UOp]:
    """Return `value` and the `view` of `old` that it is assigned to, without the last RESHAPEs of the view.

    `value` gets their inverse instead, and is added to `graph`: a RESHAPE may not be local where all else is.
    """
    while view is not old and view.op is Ops.RESHAPE and is_concrete(view.src[0].shape):
        view = view.src[0]
        value = UOp(Ops.RESHAPE, value.dtype, (value,), view.shape)
        if value not in graph.parts:
            graph.add(value)
    return value, view


def _is_local(view: UOp, old: UOp) -> bool:
    """Return whether each part of `view` is a view of the part of `old` on the same device."""
    for node in _chain(view, old):
        how = op_sharding(node.op, node.src, node.arg, node.shape)
        if how.whole or how.sources[0] != node.src[0].sharding:
            return False
    return True


PerDeviceRule = Callable[[PerDeviceGraph, UOp], Parts]
RULES: dict[Ops, PerDeviceRule] = {
    Ops.CONST: _leaf,
    Ops.IOTA: _leaf,
    Ops.MULTI: _multi,
    Ops.COPY: _copy,
    Ops.SHARD: _copy,
    Ops.ASSIGN: _assign,
}
