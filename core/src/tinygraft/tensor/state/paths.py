"""The path from a result to the tensors that it is differentiated by: which nodes of its graph stand for each tensor.

A tensor need not have the node that the graph of the result has for it. It may have been realised, assigned to, or
moved to another buffer since the result was computed: `GradientPath.nodes_of` finds all nodes of the unfolded graph
(engine/unfold.py) that stand for one tensor, and `Leaves` the tensors that backward fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tinygraft.autograd.gradient_steps import gradient_again
from tinygraft.autograd.walk import nodes_on_path
from tinygraft.engine import gradient_reach, tape
from tinygraft.engine.assigns import assigned_to, is_detached_write, written_over
from tinygraft.engine.capture import note_backward
from tinygraft.engine.unfold import Unfolded, unfold
from tinygraft.errors import GraphError
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.gradient_cuts import cuts
from tinygraft.tensor.state.leaf_rule import is_detached_value
from tinygraft.tensor.state.live import LIVE, borrows, has_twin, live_tensors
from tinygraft.tensor.state.made_at import file_and_line
from tinygraft.uop.held import HELD, buffers_of, memories, memory_base
from tinygraft.uop.ops import Ops, Own
from tinygraft.uop.uop import UOp, rebuild, toposort


class GradientPath:
    """The graph of a result, unfolded: memory is replaced by what the tape says it was computed from.

    With `untracked`, values that depend on no tensor with requires_grad=True are unfolded as well.
    """

    def __init__(self, root: UOp, untracked: bool) -> None:
        self.unfolded: Unfolded = unfold(root, untracked)
        self.root: UOp = self.unfolded.inside.get(root, root)
        self.graph: set[UOp] = set(toposort(self.root))
        self._same: dict[UOp, list[UOp]] = {}  # a node over memory -> equal nodes over its saved or lost values
        self._marked: dict[Own, list[UOp]] = {}  # leaves that are views: a node for each version of memory
        for node in self.graph:
            if node.op is Ops.RESHAPE and isinstance(node.tag, Own):
                self._marked.setdefault(node.tag, []).append(node)
        self._versions: dict[UOp, list[UOp]] = {}  # memory of a leaf -> the writes into it, in graphs of that time
        origins = self.unfolded.origins(self.graph)
        for node in filter(is_detached_write, self.graph):
            root = assigned_to(node)
            self._versions.setdefault(rebuild((root,), origins)[root], []).append(node)
        if origins:
            for node, now in rebuild((self.root,), origins).items():
                if node is not now and node in self.graph:
                    self._same.setdefault(now, []).append(node)

    def nodes_of(self, node: UOp) -> list[UOp]:
        """Return the nodes of the graph that stand for the tensor whose node is `node` now, the newest first.

        A tensor that was assigned to had another node before. Both stand for a leaf, for what is written into a leaf
        is detached; any other tensor is the newest of its nodes in the graph.
        """
        if isinstance(node.tag, Own) and node.op is Ops.RESHAPE:
            return _newest(sorted(self._marked.get(node.tag, ()), key=lambda n: -n.serial))
        found: dict[UOp, None] = {}
        while True:
            memory = memory_base(node)
            inside, before = self.unfolded.inside.get(node), tape.lazy_nodes_of(memory)
            if inside is None:
                inside = self.unfolded.of(node) if self.unfolded.has(memory) else node
            old = self.unfolded.stand_in(memory)  # the tensor was moved to a copy when another one wrote to its memory
            moved = None if old is None else rebuild((node,), {memory: old})[node]
            versions = [v for root in (memory, *before) for v in self._versions.get(root, ())]
            whole = [*before, *versions] if _is_whole(node) else ()  # the base of a view is another tensor
            for known in (inside, moved, *self._same.get(node, ()), *whole):
                if known is not None and known.shape == node.shape and known in self.graph:
                    found[known] = None
            if node.op is not Ops.ASSIGN and not found and memory.op in HELD:  # the write has been realised meanwhile
                old_ones = [n for n in self.unfolded.values_of(memory) if n.shape == node.shape and n in self.graph]
                return old_ones[:1]
            if node.op is not Ops.ASSIGN or (found and not is_detached_write(node)):
                return _newest(list(found))
            node = written_over(node)

    def gradients(self, targets: Sequence[Sequence[UOp]], seed: UOp) -> list[UOp | None]:
        """Return the gradient with respect to each target, the sum over its nodes; None where no path leads to them.

        `seed` is the gradient of the result. Raises GraphError where one needs a value that was lost.
        """
        flat = list(dict.fromkeys(node for nodes in targets for node in nodes))
        each = dict(zip(flat, gradient_again(self.root, flat, seed), strict=True))
        sums: list[UOp | None] = []
        for nodes in targets:
            parts = [part for node in nodes if (part := each[node]) is not None]
            total = parts[0] if parts else None
            for part in parts[1:]:
                assert total is not None
                total = total + part
            sums.append(total)
        existing = [node for node in sums if node is not None]
        done = rebuild(existing, back) if (back := self.unfolded.comparable()) else {}
        found = [None if node is None else done.get(node, node) for node in sums]
        self.unfolded.check_known([node for node in found if node is not None], _lines)
        return found

    def note_used(self, result: TensorBase, passed: Iterable[UOp]) -> None:
        """Note on the tape that a backward went through `passed`, so that no other one is expected through it.

        Not for the node of the result where another tensor has the same node: backward may be called on that one too.
        """
        entries = self.unfolded.entries()
        note_backward(entries)
        if has_twin(result):
            base = memory_base(result.uop)
            own = tape.entry_of(base) if base.op in HELD else None
            passed = [node for node in passed if node is not result.uop]
            entries = [entry for entry in entries if entry is not own]
        tape.note_used(passed, entries)


def _is_leaf(node: UOp) -> bool:
    """Return whether a node is that of a leaf: memory, a value of its own, what was written into a leaf, a DETACH."""
    return (
        memory_base(node).op in HELD or isinstance(node.tag, Own) or is_detached_write(node) or is_detached_value(node)
    )


def _is_whole(node: UOp) -> bool:
    """Return whether `node` has the elements of memory in their order, or was assigned to."""
    while node.op is Ops.RESHAPE:
        node = node.src[0]
    return node.op in HELD or node.op is Ops.ASSIGN


def _newest(found: list[UOp]) -> list[UOp]:
    """Return `found` without nodes upstream of another one: a gradient reaches these through that, and counts once."""
    if len(found) < 2:
        return found
    upstream: set[UOp] = set().union(*map(gradient_reach.upstream, found))
    return [node for node in found if node not in upstream]


class Leaves(GradientPath):
    """The tensors that backward of a result fills, each with its nodes, in `found`.

    These are the tensors with requires_grad=True, or where there are none, all whose flag is None. Of these only
    leaves count: a tensor that was computed from another one of them is an intermediate result. Where no tensor is
    left, `of_each` raises GraphError.
    """

    def __init__(self, result: TensorBase) -> None:
        """Find them, and note on the tape that a backward went through values between them and `result`.

        Raises GraphError where such a value was lost.
        """
        super().__init__(result.uop, untracked=False)
        self.unfolded.check_lost((), always=True)
        live = [t for t in live_tensors() if t.dtype.kind == "float" and t.requires_grad is not False]
        found = self._known(t for t in live if t.requires_grad and (isinstance(t.uop.tag, Own) or not borrows(t)))
        if not found:  # unfold once more, beyond values of untracked tensors, for tensors whose flag is None
            super().__init__(result.uop, untracked=True)
            if self.unfolded.lost:
                self.unfolded.check_lost({b for t in live for b in memories(t.uop)}, always=False)
            found = self._known(live)
        onward = nodes_on_path(self.root, [nodes[0] for _, nodes in found])
        self.result = result
        self._below = {node for _, nodes in found for node in nodes if node is not self.root}
        # nothing goes on from a leaf; a tensor from which a gradient goes on to another one is an intermediate result
        self.found: list[tuple[TensorBase, list[UOp]]] = [
            (tensor, nodes) for tensor, nodes in found if onward.get(nodes[0]) == ()
        ]
        passed = [t.uop for t in live if onward.get(self.unfolded.inside.get(t.uop, t.uop))]
        self.note_used(result, passed)

    def of_each(self, seed: UOp) -> list[tuple[TensorBase, UOp]]:
        """Return (tensor, node of its gradient) for each tensor that gets one.

        Raises GraphError when there are none, as where the path to all of them is cut.
        """
        if words := self._cut_by():
            raise GraphError(self._nothing_found(words))
        if self._is_of_numbers():
            raise GraphError(self._nothing_found(()))
        nodes = self.gradients([nodes for _, nodes in self.found], seed)
        given = [(tensor, node) for (tensor, _), node in zip(self.found, nodes, strict=True) if node is not None]
        if not given:
            raise GraphError(self._nothing_found(cuts(self.root, self._below)))
        return given

    def _cut_by(self) -> list[str]:
        """Return what cuts each path from computed values to a tensor, in words; [] where one is left.

        Without this the result itself, or a value between, would get its gradient, as if it were a leaf.
        """
        words: dict[str, None] = {}
        for tensor, node in self._ends():
            found = self._cut(tensor, node)
            if not found:
                return []
            words |= dict.fromkeys(found)
        return list(words)

    def _ends(self) -> list[tuple[TensorBase, UOp]]:
        """Return what the gradient ends at, each with its newest node: the tensors found, else the result."""
        return [(tensor, nodes[0]) for tensor, nodes in self.found] or [(self.result, self.root)]

    def _cut(self, tensor: TensorBase, node: UOp) -> list[str]:
        """Return what is between a tensor at which the gradient ends and all others, in words; [] for a leaf."""
        below = self._below - {node}
        if memory_base(node).op in HELD:  # realised: what no gradient passes is taped as untracked
            if node is not self.root and tape.entry_of(memory_base(node)) is None:
                return []
            path = GradientPath(tensor.uop, untracked=True)
            requiring = [t for t in live_tensors() if t.dtype.kind == "float" and t.requires_grad]
            node = path.root
            below = {found for t in requiring for found in path.nodes_of(t.uop) if found is not node}
            if not below:
                return []
        return [] if _is_leaf(node) else cuts(node, below)

    def _is_of_numbers(self) -> bool:
        """Return whether the result is computed from numbers alone, as the gradient of a sum is, and is no leaf."""
        if any(node is not self.root for _, node in self._ends()) or _is_leaf(self.root):
            return False
        own = (*HELD, Ops.CONTIGUOUS)  # what is drawn at random is CONTIGUOUS
        return not any(n.dtype.kind == "float" and (n.op in own or isinstance(n.tag, Own)) for n in self.graph)

    def _nothing_found(self, between: Sequence[str]) -> str:
        """Return the message for a result that gives no gradient to any tensor; `between` is what cut it."""
        shape, made = self.result.shape, f"\n  made at {self.result._where()}\n"
        if between:
            return (
                f"backward found no tensor to give a gradient to: no gradient of the result of shape {shape} passes "
                f"{' and '.join(between)}{made}"
                "  hint: call backward on a value of floats that depends smoothly on what the gradient is for"
            )
        return (
            f"backward found no tensor to give a gradient to: the result of shape {shape} depends on none "
            f"that is live, is of floats and has requires_grad True or None{made}"
            "  hint: set requires_grad=True on what the gradient is for before it is used, and keep it"
        )

    def _known(self, tensors: Iterable[TensorBase]) -> list[tuple[TensorBase, list[UOp]]]:
        """Return the tensors that nodes of the graph stand for, with these nodes."""
        return [(tensor, nodes) for tensor in tensors if (nodes := self.nodes_of(tensor.uop))]


def _lines(buffer: UOp) -> str:
    """Return where a tensor over `buffer` was made and last written to, as a line of a message; "" if none is live."""
    for holder in LIVE.near([buffer]):
        if isinstance(holder, TensorBase) and buffer in buffers_of(holder.uop.base):
            wrote = holder._wrote if holder._storage is None else holder._storage._wrote
            return f"\n  made at {holder._where()}" + (f"      overwritten at {file_and_line(wrote)}" if wrote else "")
    return ""
