"""The same graph for many examples at once: each node that depends on an example gets an axis of examples in front.

    batched(roots, examples, count) -> the roots, with that axis

In: graphs over nodes that stand for one example each, and for each of those nodes all examples as one node. Out:
graphs over all examples. A node that depends on no example is left as it is, and repeated only where an op combines
it with one that does. There is one rule for each op of the tensor graph, as in `vjp.py`: it is given the node and its
new sources, and gives the new node, which has the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tinygraft.autograd.build import expand, flip, full, full_like, gather, iota, pad, permute, reshape, scatter, shrink
from tinygraft.autograd.vjp_select import read_back
from tinygraft.dtype import dtypes
from tinygraft.errors import GraphError
from tinygraft.uop.ops import ELEMENTWISE, FunctionArg, Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp, toposort


@dataclass(frozen=True, slots=True)
class BatchedSources:
    """The new sources of a node: nodes, whether each has the axis of examples, and how many examples there are."""

    nodes: tuple[UOp, ...]
    has_axis: tuple[bool, ...]
    count: int

    def lifted(self, index: int) -> UOp:
        """Return source `index` with the axis of examples: repeated for all of them where it had none."""
        return _repeated(self.nodes[index], self.has_axis[index], self.count)


def _repeated(node: UOp, has_axis: bool, count: int) -> UOp:
    """Return `node` with the axis of examples: repeated for all `count` of them where it has none."""
    return node if has_axis else expand(reshape(node, (1, *node.shape)), (count, *node.shape))


BatchRule = Callable[[UOp, BatchedSources], UOp]


def batched(roots: Sequence[UOp], examples: Mapping[UOp, UOp], count: int) -> list[tuple[UOp, bool]]:
    """Return (node, has axis) for each of `roots`: its value for all examples, and whether the first axis is theirs.

    A root that depends on no example has no such axis. `examples` maps each node that stands for one example to the
    node of all of them, of shape (count, *shape). Raises GraphError for an op that has no rule.
    """
    done: dict[UOp, UOp] = dict(examples)
    # sources first, so that the new sources of a node are made before it
    for node in toposort(*roots, enter=lambda n: n not in examples):
        if node in done or not any(s in done for s in node.src):
            continue
        rule = RULES.get(node.op)
        if rule is None:
            raise GraphError(f"{node.op.name} has no rule for many examples at once")
        has_axis = tuple(s in done for s in node.src)
        done[node] = rule(node, BatchedSources(tuple(done.get(s, s) for s in node.src), has_axis, count))
    return [(done.get(root, root), root in done) for root in roots]


def _front(x: UOp, axis: int) -> UOp:
    """Return `x` with `axis` moved to the front."""
    return permute(x, (axis, *(i for i in range(len(x.shape)) if i != axis)))


# Rules: n is the node of one example, s its sources for all of them.


def _elementwise(n: UOp, s: BatchedSources) -> UOp:
    return UOp(n.op, n.dtype, tuple(s.lifted(i) for i in range(len(s.nodes))), n.arg)


def _unary(n: UOp, s: BatchedSources) -> UOp:
    """Return the same op. Its arg has no axes, or counts them from the end, so a new first axis changes nothing."""
    return UOp(n.op, n.dtype, (s.nodes[0], *n.src[1:]), n.arg)


def _reshape(n: UOp, s: BatchedSources) -> UOp:
    return reshape(s.nodes[0], (s.count, *n.arg))


def _expand(n: UOp, s: BatchedSources) -> UOp:
    return expand(s.nodes[0], (s.count, *n.arg))


def _permute(n: UOp, s: BatchedSources) -> UOp:
    return permute(s.nodes[0], (0, *(axis + 1 for axis in n.arg)))


def _flip(n: UOp, s: BatchedSources) -> UOp:
    return flip(s.nodes[0], [axis + 1 for axis in n.arg])


def _pad(n: UOp, s: BatchedSources) -> UOp:
    return pad(s.nodes[0], ((0, 0), *n.arg))


def _shrink(n: UOp, s: BatchedSources) -> UOp:
    return shrink(s.nodes[0], ((0, s.count), *n.arg))


def _cat(n: UOp, s: BatchedSources) -> UOp:
    return UOp(Ops.CAT, n.dtype, tuple(s.lifted(i) for i in range(len(s.nodes))), n.arg + 1)


def _reduce(n: UOp, s: BatchedSources) -> UOp:
    return UOp(n.op, n.dtype, s.nodes, replace(n.arg, axes=tuple(axis + 1 for axis in n.arg.axes)))


def _scan(n: UOp, s: BatchedSources) -> UOp:
    return UOp(n.op, n.dtype, s.nodes, replace(n.arg, axis=n.arg.axis + 1))


def _gather(n: UOp, s: BatchedSources) -> UOp:
    """Gather from one table for all examples, from the same indices of each table, or from other indices of each."""
    (table, index), axis = s.nodes, n.arg
    if not s.has_axis[1]:
        return gather(table, index, axis + 1)
    if not s.has_axis[0]:
        return _front(gather(table, index, axis), axis)
    # GATHER indexes one axis of one table: the tables as one, and each example's indices offset into it
    rows = _rows(table, axis + 1)
    found = gather(rows, _row_indices(index, n.src[0].shape[axis], s.count), 0)  # (count, *index, *inner)
    return _inside(found, len(n.src[1].shape), axis)


def _scatter(n: UOp, s: BatchedSources) -> UOp:
    """Scatter to the same indices of each base; or to other indices of each, with all bases joined as in `_gather`."""
    axis, index = n.arg.axis, s.nodes[1]
    base, value = s.lifted(0), s.lifted(2)
    if not s.has_axis[1]:
        return scatter(base, index, value, axis + 1, n.arg.op)
    rank = len(n.src[1].shape)
    order = (0, *range(axis + 1, axis + 1 + rank), *range(1, axis + 1), *range(axis + 1 + rank, len(value.shape)))
    rows = _row_indices(index, n.src[0].shape[axis], s.count)
    found = scatter(_rows(base, axis + 1), rows, permute(value, order), 0, n.arg.op)
    outer = (s.count, n.src[0].shape[axis], *n.src[0].shape[:axis], *n.src[0].shape[axis + 1 :])
    return _inside(reshape(found, outer), 1, axis)


def _rows(x: UOp, axis: int) -> UOp:
    """Return `x` with its first axis and `axis` joined to one, the first of the result."""
    order = (0, axis, *(i for i in range(1, len(x.shape)) if i != axis))
    moved = permute(x, order)
    return reshape(moved, (moved.shape[0] * moved.shape[1], *moved.shape[2:]))


def _row_indices(index: UOp, length: sint, count: int) -> UOp:
    """Return the indices of each example as indices into all tables joined along one axis (`_rows`); -1 where outside.

    `length` is that of one table. Without the -1 an index outside of its own table would read the next example's.
    Raises GraphError for a symbolic length.
    """
    if not isinstance(length, int):
        raise GraphError("an axis whose size is a variable cannot be indexed by another index for each example")
    wide = index.cast(dtypes.int64)
    inside = (wide >= 0) & (wide < length)
    first = reshape(iota(count, index.device).cast(dtypes.int64) * length, (count,) + (1,) * (len(index.shape) - 1))
    return inside.where(wide + expand(first, index.shape), full_like(wide, -1))


def _inside(x: UOp, rank: int, axis: int) -> UOp:
    """Return `x`, of shape (count, *middle, *inner), with its `rank` middle axes after the first `axis` inner ones."""
    before = range(1 + rank, 1 + rank + axis)
    return permute(x, (0, *before, *range(1, 1 + rank), *range(1 + rank + axis, len(x.shape))))


def _routine(n: UOp, s: BatchedSources) -> UOp:
    """Run the routine once: what its examples are in one run are rows of the same axis for all of them."""
    lifted = [s.lifted(i) for i in range(len(s.nodes))]
    rows = tuple([reshape(x, (s.count * x.shape[1], *x.shape[2:])) for x in lifted])
    return reshape(UOp(Ops.ROUTINE, n.dtype, rows, n.arg), (s.count, *n.shape))


def _assign(n: UOp, s: BatchedSources) -> UOp:
    """Return an assigned value without writing memory: the new one where the view writes, else the old."""
    if len(s.nodes) == 2:
        return s.lifted(1)
    old, value, view = n.src
    written = full(value.shape, True, dtypes.bool, n.device)
    new = value
    while view is not old:
        written, new, view = read_back(view, written), read_back(view, new), view.src[0]
    whole = written.where(new, old)
    examples = {source: new for source, new, has in zip(n.src, s.nodes, s.has_axis, strict=True) if has}
    # the view is a destination, and no value of the new graph
    examples.pop(n.src[2], None)
    return batched([whole], examples, s.count)[0][0]


def _shard(n: UOp, s: BatchedSources) -> UOp:
    return UOp(Ops.SHARD, n.dtype, (s.nodes[0], n.src[1]), replace(n.arg, axis=n.arg.axis + 1))


def _function(n: UOp, s: BatchedSources) -> UOp:
    """Return a FUNCTION of all examples, whose rule batches the gradients that the rule of one example returns."""
    sources = tuple(s.lifted(i) for i in range(len(s.nodes)))
    unknown = tuple(UOp.placeholder(x.shape, x.dtype, x.device, "vmap") for x in n.src)
    seed = UOp.placeholder(n.shape, n.dtype, n.device, "vmap")
    one = UOp(Ops.FUNCTION, n.dtype, unknown, n.arg)

    def rule(node: UOp, gradient: UOp, numbers: tuple[int, ...]) -> list[UOp | None]:
        """Return the gradients of the batched FUNCTION `node`: those of one example, batched again.

        The user's rule is called on placeholders for one example, so it need not be written for batches; then `node`,
        its sources and `gradient` replace these. None stands for a source that gets none.
        """
        found = n.arg.rule(one, seed, numbers)
        examples = {**dict(zip(unknown, node.src, strict=True)), one: node, seed: gradient}
        whole = iter(batched([x for x in found if x is not None], examples, s.count))
        return [None if x is None else _repeated(*next(whole), s.count) for x in found]

    return UOp(Ops.FUNCTION, n.dtype, sources, FunctionArg(n.arg.name, rule))


def _after(n: UOp, s: BatchedSources) -> UOp:
    return UOp(Ops.AFTER, n.dtype, (s.lifted(0), s.nodes[1]), None)


RULES: dict[Ops, BatchRule] = {
    **dict.fromkeys(ELEMENTWISE, _elementwise),
    Ops.RESHAPE: _reshape,
    Ops.EXPAND: _expand,
    Ops.PERMUTE: _permute,
    Ops.PAD: _pad,
    Ops.SHRINK: _shrink,
    Ops.FLIP: _flip,
    Ops.CAT: _cat,
    **dict.fromkeys((Ops.WINDOW, Ops.FOLD), _unary),
    Ops.REDUCE_AXIS: _reduce,
    Ops.SCAN: _scan,
    Ops.GATHER: _gather,
    Ops.SCATTER: _scatter,
    Ops.ROUTINE: _routine,
    **dict.fromkeys((Ops.CONTIGUOUS, Ops.CONTIGUOUS_BACKWARD, Ops.DETACH, Ops.COPY), _unary),
    Ops.ASSIGN: _assign,
    Ops.AFTER: _after,
    Ops.SHARD: _shard,
    Ops.FUNCTION: _function,
}
