"""Which nodes of a tensor graph become memory; all others are computed where they are needed.

A value is stored when it must be (an output, a copy, an assigned value, a scatter or a scan, a routine and what it
reads), when an instruction reads it as packed lanes (rounded.py), or when storing it is cheaper than computing it
again. The cost of a node is counted in simple operations for each of its elements; `evals` is how often its elements
would be computed in all, were it not stored. Six rules decide, from the outputs backwards:

- a reduction, or what an elementwise chain made of one, is stored when more than one stored node needs it, or when
  it would be computed more often than it has elements: the last node that all of its users share is stored;
- a reduction that reads its operands many times over, such as a product of matrices, shares its kernel with no other
  reduction: another one that its result is combined with is stored;
- a reduction whose elements are compared with their own maximum or minimum is stored: a kernel that computed it in two
  loops might round it in two ways, and find that none of its elements is the greatest;
- reductions that are combined to FEW results, as the losses of a batch to their mean, are stored when they are SHARED
  work: threads divide results, so one thread would do all of it;
- a chain of cheap operations is stored when computing it again costs more than AGAIN for each element, or one with a
  logarithm or the like more than AGAIN_IN_ROWS where one kernel goes over its rows several times;
- a chain is cut when it has more operations or reads more buffers than a kernel may.

Once a reduction is memory, what was made of it is a cheap chain over memory. So the rules run again on the users of a
reduction that they have stored, until nothing changes: GELU after a product stores the product and its own result,
and none of the steps in between. What the rules cannot see, a reduction inside a loop that it does not depend on,
schedule/fusion.py finds on the lowered kernel and stores as well.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

from tinygraft.dtype import dtypes
from tinygraft.schedule.effort import spend
from tinygraft.schedule.kernel_body import LENGTH, numel
from tinygraft.schedule.regroup import FEW
from tinygraft.schedule.rounded import rounded_factors
from tinygraft.schedule.weighing import (
    AGAIN,
    AGAIN_FREE,
    COPIES,
    HEAVIEST,
    KERNEL,
    LONGEST,
    LONGEST_SHARED,
    MANY,
    NUMBERS,
    OWN_PARAMS,
    SPREAD,
    WEIGHT,
    Evaluations,
    Facts,
    costs_again,
    ends_a_reduction,
    flow,
    is_product,
    larger,
    trailing,
)
from tinygraft.target import Target
from tinygraft.uop.held import LEAVES, PLAIN, memory_base
from tinygraft.uop.ops import COMPARE, ELEMENTWISE, MOVEMENT, Ops
from tinygraft.uop.uop import UOp

# measured: the rules settle in three walks of GPT-2 (2026-11-20, benchmarks/NOTES.md); this is twice that
WALKS = 6  # times that the rules run at most
ALWAYS = frozenset({Ops.CONTIGUOUS, Ops.COPY, Ops.ASSIGN, Ops.SCATTER, Ops.SCAN, Ops.ROUTINE})
MADE = ELEMENTWISE | {Ops.CAT, Ops.FOLD}
SAME_LOOPS = ELEMENTWISE | PLAIN | {Ops.PERMUTE}  # ops that need each element of a source once, in their own loops
OTHER_LOOPS = frozenset(
    {Ops.REDUCE_AXIS, Ops.EXPAND, Ops.PAD, Ops.CAT, Ops.WINDOW, Ops.GATHER, Ops.SCATTER, Ops.SCAN, Ops.ROUTINE}
)  # ops that need their source in other loops than their own

# measured: 2026-11-28, two threads, cross entropy as replays; of 64 rows of 100 it is as fast either way
SHARED = 1 << 17  # operations of reductions from which on one thread should not do them all

T = TypeVar("T")


def decide(order: Sequence[UOp], outputs: set[UOp], target: Target) -> set[UOp]:
    """Return the nodes to store: `outputs`, those of ops in ALWAYS, and those that the rules choose.

    `order` is the graph, sources before users; `target` limits how much a chain may compute and read. What a COPY or a
    ROUTINE reads is stored too; leaves never are.
    """
    stored = {node for node in order if node in outputs or node.op in ALWAYS}
    stored |= {memory_base(node.src[0]) for node in order if node.op is Ops.COPY}
    stored |= {memory_base(source) for node in order if node.op is Ops.ROUTINE for source in node.src}
    stored |= rounded_factors(order, target)
    rules = _Rules(order)
    for _ in range(WALKS):
        anchors = rules.apply(stored)
        if not anchors and not rules.mixed(stored):
            break
        stored |= anchors
        rules.settled = not anchors
    stored |= rules.chosen
    _cut(order, rules.facts, stored, target)
    return {node for node in stored if node.op not in LEAVES}


class _Rules:
    """The rules on one graph. Costs are cached by what they depend on, so that a repeated layer looks them up.

    `stored`, in its methods, are the nodes that are known to become memory, `own` are the facts of the node.
    """

    def __init__(self, order: Sequence[UOp]) -> None:
        self.facts: dict[UOp, Facts] = {node: Facts(numel(node.shape)) for node in order}
        # symbolic sizes are computed as part of an index, and never stored
        self.order = [node for node in order if node.op not in LEAVES and node.dtype is not dtypes.index]
        for node in order:
            for source in dict.fromkeys(node.src):
                self.facts[source].users.append(node)
        self.comparisons = _comparisons(self.order, self.facts)
        self.known: dict[Hashable, object] = {}
        self.compared: set[UOp] = set()  # reductions that are compared with an extreme of themselves
        self.chosen: set[UOp] = set()  # what the rules store beyond what is stored already
        self.sure: set[UOp] = set()  # of these, nodes whose last operation alone makes it worthwhile
        self.settled = False  # whether all that is made of stored reductions is known to be no reduction itself

    def apply(self, stored: set[UOp]) -> set[UOp]:
        """Set `chosen`, what the rules store beyond `stored`, and return the `_anchors` among it.

        The anchors are chosen for good. The rules have to run again with them stored, as other choices may change.
        """
        for node in self.order:
            self._measure(node, stored)
        self.compared = {node for pair in self.comparisons for node in self._computed_twice(*pair, stored)}
        self.chosen, self.sure = set(), set()
        for node in reversed(self.order):
            self._decide(node, stored)
        return self._anchors(stored)

    def _computed_twice(self, extreme: UOp, other: UOp, stored: set[UOp]) -> set[UOp]:
        """Return the nodes to store so that comparing `other` with `extreme` computes each reduction in both once.

        They are the last nodes in the same loops that both are computed from. Empty where no reduction in both rounds,
        so that computing it twice gives equal values. `stored` nodes are memory, where the search ends.
        """
        if extreme in stored:
            return set()
        both = self._reductions(extreme.src[0], stored) & self._reductions(other, stored)
        if not any(_rounds(node) for node in both):
            return set()
        return {node for node in both if both.isdisjoint(u for u in self.facts[node].users if u.op in SAME_LOOPS)}

    def _reductions(self, node: UOp, stored: set[UOp]) -> set[UOp]:
        """Return the nearest reductions that `node` is computed from, and the nodes made of them in the same loops.

        `stored` nodes are memory, where the search ends.
        """
        found: set[UOp] = set()
        seen, stack = {node}, [node]
        while stack:
            current = stack.pop()
            if current in stored or current.op in LEAVES:
                continue
            if self.facts[current].heavy:
                found.add(current)
            if not _rounds(current):
                new = [source for source in current.src if source not in seen]
                seen.update(new)
                stack += new
        return found

    def mixed(self, stored: set[UOp]) -> bool:
        """Return whether a product of matrices is combined with another reduction, and `_disturbs` has not run yet."""
        return not self.settled and any(
            self.facts[n].product is not None and n.op in SAME_LOOPS
            and len({self.facts[s].product for s in n.src if self.facts[s].heavy and s not in stored}) > 1
            for n in self.order
        )  # fmt: skip

    def _once(self, key: Hashable, weigh: Callable[[], T]) -> T:
        """Return the result of `weigh`, which has to depend on `key` alone, from the cache where it is known."""
        found = self.known.get(key)
        if found is None:
            spend()
            found = self.known[key] = weigh()
        return found  # type: ignore[return-value]

    def _anchors(self, stored: set[UOp]) -> set[UOp]:
        """Return the chosen nodes that are chosen for good, where others may be chosen otherwise now; else nothing.

        Those others are made of a chosen node, and were weighed together with what it is computed from. That is memory
        now, so that they are cheaper than they were taken to be. `stored` are the nodes that are memory beside those
        chosen.
        """
        memory = stored | self.chosen
        heavy: set[UOp] = set()  # nodes that end a reduction although the chosen nodes are memory
        above: set[UOp] = set()  # nodes that were weighed together with a chosen node
        for node in self.order:
            computed = [s for s in node.src if s not in memory]
            if self.facts[node].heavy and (node.op not in SAME_LOOPS or not heavy.isdisjoint(computed)):
                heavy.add(node)
            elif not self.chosen.isdisjoint(node.src) or not above.isdisjoint(computed):
                above.add(node)
        certain = self.chosen - (above - self.sure)
        return certain if len(certain) < len(self.chosen) else set()

    # From sources to users: what a chain costs

    def _measure(self, node: UOp, stored: set[UOp]) -> None:
        """Set in the facts of `node` what its chain costs, from the facts of its sources, and clear its contexts.

        `weight` and `inputs` are the operations and reads since memory, where chains begin anew: `stored` nodes and
        BUFFERs; users of a step share its weight. `heavy` says that the node is a reduction, or is made of one that is
        not stored in the same loops. `product` is the largest reduction of its chain that is like a product of
        matrices, or None. `_decide` fills in the contexts on the way from users to sources.
        """
        own, op = self.facts[node], node.op
        own.contexts = {}
        weight, product = 0.0, None
        heavy = op is Ops.REDUCE_AXIS or (op is Ops.FOLD and node.arg.size != node.arg.stride)
        inputs: tuple[UOp, ...] = ()
        for source in node.src if len(node.src) < 2 else dict.fromkeys(node.src):
            before = self.facts[source]
            if source in stored or source.op is Ops.BUFFER:
                inputs = (*inputs, source)
                continue
            inputs = before.inputs if not inputs else (*inputs, *before.inputs)
            weight += before.weight / len(before.users)  # the users of a step in a chain share it
            if before.heavy and (op in SAME_LOOPS or op is Ops.FOLD):
                heavy = heavy or op in SAME_LOOPS
                product = larger(product, before.product)
        own.inputs = inputs if len(node.src) < 2 else tuple(dict.fromkeys(inputs))[:MANY]
        if op in ELEMENTWISE:
            weight += WEIGHT.get(op, 1)
        elif op is Ops.CAT:
            weight += 2.0 * len(node.src)  # for each source a comparison of the index, and a choice
        elif op in (Ops.FOLD, Ops.GATHER):
            weight += SPREAD
        elif op is Ops.EXPAND and self._trailing(node)[1] > 1:
            weight = 0.0  # linearise.py hoists it out of the loops over the axes that EXPAND adds
        elif op is Ops.REDUCE_AXIS:
            iterations = self.facts[node.src[0]].size
            weight *= iterations / max(own.size, 1)
            product = node if is_product(iterations, [self.facts[s].size for s in inputs]) else None
        own.weight, own.heavy, own.product = min(weight, HEAVIEST), heavy, product

    def _trailing(self, node: UOp) -> tuple[int, int]:
        """Return `trailing` of an EXPAND, cached by its shapes."""
        return self._once((Ops.EXPAND, node.src[0].shape, node.shape), lambda: trailing(node))

    # From users to sources: how often a node is needed, and whether it is stored

    def _decide(self, node: UOp, stored: set[UOp]) -> None:
        """Collect how often `node` is needed, and add it to `chosen` if a rule stores it.

        Its users have to be decided before. What is added is the node that it is a plain view of, or itself.
        """
        own = self.facts[node]
        for user in own.users:
            self._need(own, node, user, user in stored or user in self.chosen)
        if node not in stored and node not in self.chosen and self._is_stored(node, own):
            self.chosen.add(memory_base(node))

    def _disturbs(self, own: Facts, user: UOp) -> bool:
        """Return whether `user` combines the reduction of `own` with a larger product of matrices."""
        product = self.facts[user].product
        return user.op in SAME_LOOPS and product is not None and own.product is not product

    def _need(self, own: Facts, node: UOp, user: UOp, is_stored: bool) -> None:
        """Note in the contexts of `node` how often `user` needs it, for each stored node that `user` is computed for.

        A context is (stored node, the user whose loops it is in, number of the source). Where `node` has it, the larger
        of both needs is kept: in one context the value is shared.
        A user that is stored needs it once for each of its elements; another one as often as its own contexts say. A
        user in other loops makes a new context for each of its sources that `node` is. `own` are the facts of `node`;
        `is_stored` says that `user` is stored.
        """
        if is_stored:
            needed = {(user, user, 0): Evaluations(float(self.facts[user].size), 1, False)}
        else:
            needed = self.facts[user].contexts
        if user.op not in SAME_LOOPS and user.op not in (Ops.CONTIGUOUS, Ops.ASSIGN):
            numbers = [i for i, source in enumerate(user.src) if source is node]
            roots: dict[UOp, Evaluations] = {}
            for (root, _, _), need in needed.items():
                before = roots.get(root)
                roots[root] = need if before is None else Evaluations(
                    need.evals + before.evals, need.indices + before.indices, need.inside or before.inside
                )  # fmt: skip
            needed = {(r, user, i): self._flow(user, node, need) for r, need in roots.items() for i in numbers}
        for context, need in needed.items():
            own.contexts[context] = need.more(own.contexts.get(context))

    def _flow(self, user: UOp, source: UOp, need: Evaluations) -> Evaluations:
        """Return `flow` of these, cached by what it depends on."""
        values = user.src[2].shape if user.op is Ops.SCATTER and source is not user.src[0] else None
        key = (user.op, user.arg, user.shape, source.shape, values, need)
        return self._once(key, lambda: flow(user, source, need))

    def _is_stored(self, node: UOp, own: Facts) -> bool:
        """Return whether a rule stores `node`, whose users are all decided; the docstring of this file has the rules.

        `heavy` nodes, which end a reduction, are weighed by `ends_a_reduction`; chains of elementwise ops, CATs and
        FOLDs by `costs_again`; others are never stored by a rule. A node that its last operation alone makes worth
        storing is also added to `sure`: what is found for its sources cannot change that. `own` are its facts.
        """
        needs = own.contexts.values()
        again = sum([need.evals for need in needs]) / max(own.size, 1)
        if own.heavy:
            if node in self.compared:
                return True
            if own.size * own.weight >= SHARED and any(
                u.op is Ops.REDUCE_AXIS and self.facts[u].size < FEW for u in own.users
            ):
                return True
            if self.settled and any(self._disturbs(own, user) for user in own.users):
                return True
            if own.product is not None and any(user.op in OTHER_LOOPS for _, user, _ in own.contexts):
                return True
            # what `ends_a_reduction` reads of the users
            grown = tuple((u.op, u.shape) for u in own.users if u.op in (Ops.EXPAND, Ops.WINDOW))
            key: Hashable = (len(own.contexts), again, own.weight, node.shape, grown)
            return self._once(key, lambda: ends_a_reduction(node, own, again))
        if node.op not in MADE:
            return False
        indices: dict[UOp, int] = {}
        for (root, _, _), need in own.contexts.items():
            indices[root] = indices.get(root, 0) + need.indices
        copies = max(indices.values(), default=0)
        extra = own.weight * (again - 1.0) * own.size
        if extra < KERNEL and copies <= COPIES and all(self.facts[s].size <= NUMBERS for s in own.inputs):
            return False
        least = WEIGHT.get(node.op, 1) * (again - 1.0)
        if least > AGAIN * node.dtype.itemsize / 4 and own.inputs:
            self.sure.add(node)
            return True
        if again <= AGAIN_FREE and copies <= COPIES:  # as `costs_again` does, without its sums over inputs
            return False
        inputs = sum([min(self.facts[s].size / own.size, 1.0) for s in own.inputs]) if own.size else 0.0
        much = extra >= KERNEL
        key = (own.weight, again, copies, len(indices), inputs, bool(own.inputs), node.dtype.itemsize, much)
        return self._once(key, lambda: costs_again(node, own, again, copies, len(indices), inputs, much))


def _rounds(node: UOp) -> bool:
    """Return whether `node` is a reduction whose result depends on the order in which it is computed."""
    return node.op is Ops.REDUCE_AXIS and node.arg.op not in (Ops.MAX, Ops.MIN) and node.dtype.kind == "float"


def _comparisons(order: Sequence[UOp], facts: dict[UOp, Facts]) -> list[tuple[UOp, UOp]]:
    """Return (extreme, other) for each comparison of `other` with a maximum or minimum over axes.

    Also where the extreme is moved or cast before it is compared. `facts` has the users of nodes. `order` is the graph.
    """
    found: list[tuple[UOp, UOp]] = []
    for extreme in [n for n in order if n.op is Ops.REDUCE_AXIS and n.arg.op in (Ops.MAX, Ops.MIN)]:
        seen, stack = {extreme}, [extreme]
        while stack:
            node = stack.pop()
            for user in facts[node].users:
                if user.op in COMPARE:
                    found += [(extreme, source) for source in user.src if source is not node]
                elif (user.op in MOVEMENT or user.op is Ops.CAST) and user not in seen:
                    seen.add(user)
                    stack.append(user)
    return found


# a set of numbers: (a lower bound of all of them, a mask with bit i set for each number that is that bound + i)
Bits = tuple[int, int]
# given: the empty set
NONE: Bits = (0, 0)


def _cut(order: Sequence[UOp], facts: dict[UOp, Facts], stored: set[UOp], target: Target) -> None:
    """Add nodes to `stored` where chains compute or read more than a kernel of `target` may.

    `order` is the graph, sources before users. For each node the operations and inputs of its chain are sets of
    numbers, so that what two branches share counts once in a kernel, and counts in each of the kernels that compute it.
    An elementwise node with several users may have a chain half as long as others: in the backward of a long chain each
    step reads one of the forward, and the kernel then has room for the steps that are computed again. `facts` has the
    users of each node.
    """
    computed: dict[UOp, Bits] = {}
    read: dict[UOp, Bits] = {}
    left = {node: len(facts[node].users) for node in order}  # users that have not been reached
    numbered = inputs = 0  # operations, and inputs, that have a number
    for node in order:
        ops = ins = NONE
        if node.op not in LEAVES:
            length = 2 * len(node.src) if node.op is Ops.CAT else LENGTH.get(node.op, 1) * (node.op in ELEMENTWISE)
            ops, numbered = (numbered, (1 << length) - 1), numbered + length
            for source in dict.fromkeys(node.src):
                if source not in stored:
                    ops = _union(ops, computed[source])
                ins = _union(ins, read[source])
                left[source] -= 1
                if not left[source]:
                    del computed[source], read[source]
        is_shared = len(facts[node].users) > 1 and node.op in ELEMENTWISE
        most = target.max_ops / (LONGEST_SHARED if is_shared else LONGEST)
        if ops[1].bit_count() > most or ins[1].bit_count() > target.max_params - OWN_PARAMS:
            stored.add(node)
        if node in stored or node.op is Ops.BUFFER:
            ins, inputs = (inputs, 1), inputs + 1
        computed[node], read[node] = ops, ins


def _union(a: Bits, b: Bits) -> Bits:
    """Return the set of the numbers that are in `a`, in `b` or in both."""
    if not a[1] or not b[1]:
        return a if a[1] else b
    least = min(a[0], b[0])
    return least, a[1] << (a[0] - least) | b[1] << (b[0] - least)
