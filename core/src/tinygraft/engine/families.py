"""Families: graphs that differ only in Python numbers, and the plans in which those that vary are arguments.

    member(numbers, where, order, outputs) -> FamilyMember

The first graph of a family is compiled as it is. For the second, with other numbers, `FamilyMember.lift` gives a graph
in which the numbers that differ are variables (schedule/slots.py). The plan of that one serves all members that agree
in the other numbers: it is launched with their numbers, and nothing is compiled. Starts of a slice become arguments
together; those that have kept their distance, as in t[i + 1] = t[i], are one argument, so that more can be proved of
them. Where sums of floats would be added in another order, or more numbers vary than kernels take, the family stays as
it is: each member is compiled.
"""

from __future__ import annotations

import threading
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygraft.engine.pack import Plan
from tinygraft.rules.typed_variables import carrier
from tinygraft.schedule.slots import (
    START,
    Numbers,
    NumberSlot,
    argument_of,
    constant_of,
    room,
    typed_variable,
    with_arguments,
)
from tinygraft.target import Target
from tinygraft.uop import index as ix
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# assumed: bounds that no usual program meets
MOST = 256  # families; the least recently used one is dropped first
MOST_NODES = 1_000_000  # of all their graphs together
VARIANTS, SEEN = 8, 8  # plans with arguments of a family, and members whose numbers tell which ones vary
MOST_ARGUMENTS = 1024  # of one plan; a kernel has at most as many as its Target says
MANY = 8  # numbers that vary, of which two are likely to have kept their distance in two members

Groups = tuple[tuple[tuple[int, int], ...], ...]  # for each argument its slots, each with its distance from the first


@dataclass(frozen=True, slots=True)
class Variant:
    """A plan that takes numbers as arguments: `names` and `groups` say which, `fixed` what the others have to be.

    `sums` has, for special numbers of members by slot (slots.py), whether kernels with them as constants sum floats in
    the same order.
    """

    plan: Plan
    names: tuple[str, ...]
    groups: Groups
    fixed: tuple[tuple[int, int], ...]
    sums: dict[tuple[tuple[int, int], ...], bool] = field(default_factory=dict)

    def arguments(self, values: tuple[int, ...]) -> dict[str, int] | None:
        """Return the arguments for the numbers of a member, by name; None where the plan is not for these.

        `values` are these numbers, by slot.
        """
        for slot, value in self.fixed:
            if values[slot] != value:
                return None
        found: dict[str, int] = {}
        for name, group in zip(self.names, self.groups, strict=True):
            found[name] = first = values[group[0][0]]
            for slot, distance in group:
                if values[slot] != first + distance:
                    return None
        return found


@dataclass(slots=True)
class Family:
    """Graphs that differ in numbers alone: the numbers of those that were compiled, and the plans with arguments.

    `varied` are the slots whose numbers are known to differ. `stays` says why the members are compiled one by one; it
    is empty where they need not be.
    """

    seen: list[tuple[int, ...]] = field(default_factory=list)
    variants: list[Variant] = field(default_factory=list)
    varied: set[int] = field(default_factory=set)
    stays: str = ""


@dataclass(slots=True)
class Lifted:
    """The graph of a member with arguments: its outputs, and the arguments with the slots that each is for."""

    outputs: list[UOp]
    names: tuple[str, ...]
    groups: Groups
    fixed: tuple[tuple[int, int], ...]


_families: OrderedDict[Any, Family] = OrderedDict()
_nodes = 0  # of the graphs of all families
_lock = threading.RLock()


def clear() -> None:
    """Forget all families."""
    global _nodes
    with _lock:
        _families.clear()
        _nodes = 0


@dataclass(slots=True)
class FamilyMember:
    """A graph with its numbers, as one of its family.

    `originals` has, where picks are nodes of their own (own_picks.py), the node of the user's graph for each of them.
    """

    family: Family
    numbers: Numbers
    order: Sequence[UOp]
    outputs: Sequence[UOp]
    originals: Mapping[UOp, UOp] = field(default_factory=dict)

    def known(self, sums_as_before: Callable[[Lifted], bool]) -> tuple[Variant, dict[str, int]] | None:
        """Return a plan of the family that takes these numbers as arguments, and the arguments; None if none does.

        `sums_as_before` returns whether a graph with arguments adds floats as this one does. It is asked once for each
        of the numbers that a rule may remove.
        """
        for variant in self.family.variants:
            if (found := variant.arguments(self.numbers.values)) is None:
                continue
            special = self.special(variant.groups)
            if special and special not in variant.sums:
                variant.sums[special] = sums_as_before(self.lifted_as(variant.names, variant.groups))
            if not special or variant.sums[special]:
                return variant, found
        return None

    def special(self, groups: Groups) -> tuple[tuple[int, int], ...]:
        """Return the special numbers of this graph, by slot, that are arguments of a plan with these `groups`."""
        if not (special := self.numbers.special):
            return ()
        varied = {slot for group in groups for slot, _ in group}
        return tuple([(slot, self.numbers.values[slot]) for slot in special if slot in varied])

    def slots_of(self, variant: Variant) -> dict[str, list[tuple[NumberSlot, int]]]:
        """Return the slots of this graph that each argument of a plan is for, with their distances, by its name."""
        slots, originals = self.numbers.slots, self.originals
        return {
            name: [((originals.get(slots[s][0], slots[s][0]), slots[s][1]), distance) for s, distance in group]
            for name, group in zip(variant.names, variant.groups, strict=True)
        }

    def merges(self, variant: Variant) -> bool:
        """Return whether numbers of the user's graph are one argument of a plan each.

        Else picks that are equal by chance have an argument each: few other graphs have the same ones.
        """
        taken: dict[NumberSlot, str] = {}
        return all(
            taken.setdefault(slot, name) == name for name, slots in self.slots_of(variant).items() for slot, _ in slots
        )

    def varied(self) -> list[int]:
        """Return the slots whose numbers differ among the members so far, with all starts of the same slices.

        Of MANY slices of one form those along each axis vary together, and none along an axis where all stay: which
        of them differ between two members is chance.
        """
        values, differ = self.numbers.values, self.family.varied
        differ |= {i for i, value in enumerate(values) if any(other[i] != value for other in self.family.seen)}
        slots = self.numbers.slots
        slices = Counter([_form_of(node) for node in {node for node, place in slots if place >= START}])
        many = {form for form, count in slices.items() if count > MANY}
        varied: set[Any] = set()
        for node, place in [slots[i] for i in differ if slots[i][1] >= START]:
            varied.add((form, place) if (form := _form_of(node)) in many else node)
        return [
            i for i, (node, place) in enumerate(slots)
            if i in differ or (place >= START and (node in varied or (_form_of(node), place) in varied))
        ]  # fmt: skip

    def lift(self, target_of: Callable[[str], Target]) -> Lifted | None:
        """Return this graph with the numbers that vary as arguments; None where it is the first of its family.

        None too where no kernel can take them: `family.stays` says why. `target_of` returns the Target of a device by
        name.
        """
        if not self.family.seen or self.family.stays:
            return None
        varied = self.varied()
        slots = self.numbers.slots
        groups = self._groups(varied)
        if len(groups) > MOST_ARGUMENTS:
            self.family.stays = f"{len(groups)} numbers vary, and a plan takes {MOST_ARGUMENTS} at most"
            return None
        for device in {node.arg for node in self.order if node.op is Ops.DEVICE}:
            known = target_of(device)
            for slot in varied:
                if slots[slot][1] >= START:
                    continue
                dtype = constant_of(slots[slot]).dtype
                if carrier(dtype) not in known.dtypes & known.compute_dtypes:
                    self.family.stays = f"a number of {dtype!r} is no argument of kernels on {device}"
                    return None
        return self.lifted_as(self._names(len(groups)), groups)

    def lifted_as(self, names: tuple[str, ...], groups: Groups) -> Lifted:
        """Return this graph with arguments of these names, which are for the slots of `groups`."""
        chosen: dict[NumberSlot, UOp] = {}
        for name, group in zip(names, groups, strict=True):
            chosen |= self._bound(name, group)
        varied = {slot for group in groups for slot, _ in group}
        fixed = tuple([(i, value) for i, value in enumerate(self.numbers.values) if i not in varied])
        return Lifted(with_arguments(self.order, self.outputs, chosen), names, groups, fixed)

    def _groups(self, varied: Sequence[int]) -> Groups:
        """Return the slots of each argument: constants that were equal, or starts at one distance, in all members.

        `varied` are the slots whose numbers vary. Each slot stands with its distance from the first of its argument. Of
        MANY that have an earlier plan, some have kept their distance by chance, so only starts that were equal are one.
        """
        by_chance = len(varied) > MANY and bool(self.family.variants)
        members = [self.numbers.values, *self.family.seen]
        found: dict[Any, list[int]] = {}
        for slot in varied:
            _, place = self.numbers.slots[slot]
            if place < START:
                dtype = constant_of(self.numbers.slots[slot]).dtype
                key: Any = (dtype, tuple([values[slot] for values in members]))
            else:
                first = members[0][slot]
                moves = tuple([values[slot] - first for values in members])
                key = (place, moves, first if by_chance else 0) if any(moves) else slot
            found.setdefault(key, []).append(slot)
        return tuple([tuple([(s, members[0][s] - members[0][group[0]]) for s in group]) for group in found.values()])

    def _names(self, count: int) -> tuple[str, ...]:
        """Return names of arguments that no variable of the graph has."""
        used = {node.arg.name for node in self.order if node.op is Ops.VARIABLE}
        prefix = "number"
        while any(name.startswith(prefix) for name in used):
            prefix += "_"
        return tuple([f"{prefix}{k}" for k in range(count)])

    def _bound(self, name: str, group: tuple[tuple[int, int], ...]) -> dict[NumberSlot, UOp]:
        """Return what stands for each slot of an argument: a BIND, for starts at a distance from it a sum with it.

        `name` is that of the argument, `group` has its slots with their distances.
        """
        slots = [(self.numbers.slots[slot], distance) for slot, distance in group]
        value = self.numbers.values[group[0][0]]
        first = slots[0][0]
        if first[1] < START:
            constant = constant_of(first)
            src = (typed_variable(constant, name), *constant.src)  # on the device of the constant
            bound = UOp(Ops.BIND, constant.dtype, src, argument_of(constant))
            return {slot: bound for slot, _ in slots}
        low = max(room(slot)[0] - distance for slot, distance in slots)
        high = min(room(slot)[1] - distance for slot, distance in slots)
        start = UOp.variable(name, low, high).bind(value)
        return {slot: ix.add(start, distance) for slot, distance in slots}

    def compiled(self) -> None:
        """Note that a plan with these numbers as constants was made.

        The family keeps the numbers of its first member and of the latest SEEN.
        """
        seen = self.family.seen
        if self.numbers.values not in seen:
            seen.append(self.numbers.values)
            del seen[1:-SEEN]

    def add(self, lifted: Lifted, plan: Plan) -> None:
        """Add a plan with arguments to the family.

        It is the first that is tried; the family keeps the latest VARIANTS. `lifted` is what the plan was made from.
        """
        self.compiled()
        self.family.variants.insert(0, Variant(plan, lifted.names, lifted.groups, lifted.fixed))
        del self.family.variants[VARIANTS:]


def _form_of(node: UOp) -> tuple[Any, ...]:
    """Return the shapes of a slice and of what it is cut from."""
    return node.src[0].shape, node.shape


def member(numbers: Numbers, where: Any, order: Sequence[UOp], outputs: Sequence[UOp],
           originals: Mapping[UOp, UOp] | None = None) -> FamilyMember:  # fmt: skip
    """Return a graph as a member of its family, the first one of a new one. `where` are its backends and options.

    The families least recently used are dropped beyond MOST, or MOST_NODES of all together. `numbers` are those of the
    graph of `outputs`, whose postorder is `order`; `originals` are as in a FamilyMember.
    """
    global _nodes
    key = (numbers.key, where)
    with _lock:
        family = _families.get(key)
        if family is None:
            family = _families[key] = Family()
            _nodes += len(numbers.key)
            while len(_families) > MOST or (_nodes > MOST_NODES and len(_families) > 1):
                (dropped, _), _ = _families.popitem(last=False)
                _nodes -= len(dropped)
        else:
            _families.move_to_end(key)
    return FamilyMember(family, numbers, order, outputs, originals or {})
