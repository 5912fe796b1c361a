"""How graphs are made while a profile runs: the module of each line, what is computed row by row, and in float64.

In: each node that a tensor is made over, each node whose gradient is made, from engine/origins.py. Out: the modules of
a line, RowLoops, and the lines that compute in float64 with those that bring it in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary, ref

from tinygraft.dtype import dtypes
from tinygraft.engine.origins import UserLine
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.uop import UOp

OFTEN = 8  # assumed: times that a line computes between two requests, from which on it is in a loop over rows
MOST_NODES = 2000  # assumed: nodes of a graph that are looked at for the rows it is computed from

Site = tuple[CodeType, int]  # a code of the user and its instruction there


@dataclass(frozen=True, slots=True)
class RowLoop:
    """A loop that computes row by row: a module `name`, or what is in it, `times` times between two requests.

    `file` and `line` take the rows from a tensor of `shape`. `is_inside` says that the loop is in the module itself.
    """

    name: str
    file: str
    line: int
    shape: tuple[Any, ...]
    times: int
    is_inside: bool


@dataclass(slots=True)
class _Computed:
    """What one place in the code computed since request number `turn`: how often, and its first results."""

    turn: int
    count: int = 0
    nodes: list[ref[UOp]] = field(default_factory=list)
    rows: tuple[UserLine, tuple[Any, ...]] | None = None  # where rows were taken, from which shape


class Makings:
    """What is known of the making of graphs; `turn` returns how many requests there were."""

    def __init__(self, turn: Callable[[], int], nodes: WeakKeyDictionary[UOp, UserLine]) -> None:
        self.gradient_of: UserLine | None = None  # what the gradient that is made at this moment is of
        self.doubles: dict[tuple[str, int], UserLine] = {}  # lines that compute in float64
        self.brought: dict[tuple[str, int], int] = {}  # bytes of the first float64 memory of a line's tensors
        self._turn, self._nodes = turn, nodes
        self._modules: dict[tuple[str, int], Counter[str]] = {}
        self._of_functions: dict[tuple[str, str], set[str]] = {}
        self._runs: dict[tuple[Any, ...], _Computed] = {}
        self._loops: dict[tuple[str, int, str], RowLoop] = {}
        self._recurrent: set[str] = set()  # modules of which a call needs the result of the one before

    def note(self, node: UOp, known: UserLine, site: Site, frame: FrameType | None) -> None:
        """Note a node that a tensor was made over, at a line of the user; `frame` is one below it."""
        place = known.file, known.line
        self._modules.setdefault(place, Counter())[known.module] += 1
        if known.module:
            name = site[0].co_qualname.replace("<locals>.", "")
            self._of_functions.setdefault((known.file, name), set()).add(known.module)
        while node.op in MOVEMENT or node.op is Ops.CAST:
            node = node.src[0]
        if node.op is Ops.BUFFER and node.dtype is dtypes.float64:
            self.brought.setdefault(place, node.arg.size * node.dtype.itemsize)
        if node.op is not Ops.REDUCE_AXIS:
            return
        if node.dtype is dtypes.float64:
            self.doubles.setdefault(place, known)
        self._again(node, known, site, frame)

    def modules_at(self, file: str, line: int, function: str) -> dict[str, float]:
        """Return which part of what a line makes is of which module; that of its function where it makes nothing.

        Parts add up to 1; "" stands for no module. Empty where nothing is known.
        """
        if counts := self._modules.get((file, line)):
            return {name: count / counts.total() for name, count in counts.items()}
        names = self._of_functions.get((file, function), ())
        least = min((name.count(".") for name in names), default=0)
        outer = [name for name in names if name.count(".") == least]
        return {name: 1 / len(outer) for name in outer}

    def share_within(self, names: Collection[str], file: str, line: int) -> float:
        """Return which part of all tensors was made at a line, or in these modules and modules in them."""
        inside = whole = 0
        for place, counts in self._modules.items():
            for module, count in counts.items():
                whole += count
                if place == (file, line) or any(is_within(module, name) for name in names):
                    inside += count
        return inside / max(1, whole)

    def row_loops(self) -> list[RowLoop]:
        """Return the loops that compute row by row, those that do so most often first."""
        found = [loop for loop in self._loops.values() if not any(is_within(one, loop.name) for one in self._recurrent)]
        return sorted(found, key=lambda loop: -loop.times)

    def _again(self, node: UOp, known: UserLine, site: Site, frame: FrameType | None) -> None:
        """Count one more result of a place in the code: of all codes from the user's line to the tensor's."""
        inner = []
        while frame is not None and frame.f_code is not site[0]:
            inner.append((frame.f_code, frame.f_lasti))
            frame = frame.f_back
        key = (site, known.module, tuple(inner))
        turn = self._turn()
        run = self._runs.get(key)
        if run is None or run.turn != turn:
            run = self._runs[key] = _Computed(turn)
        run.count += 1
        if run.count <= OFTEN:
            run.nodes.append(ref(node))
        if run.count == OFTEN:
            run.rows = self._rows_of(run.nodes, known.module)
            run.nodes.clear()
        if run.rows is not None:
            self._found(run, known)

    def _found(self, run: _Computed, known: UserLine) -> None:
        """Note the loop of a run, whose rows are known."""
        assert run.rows is not None
        taken, shape = run.rows
        is_inside = taken.module == known.module
        name = known.module if is_inside else _part(known.module, taken.module)
        key = taken.file, taken.line, name
        before = self._loops.get(key)
        if before is None or before.times < run.count:
            self._loops[key] = RowLoop(name, taken.file, taken.line, shape, run.count, is_inside)

    def _rows_of(self, results: list[ref[UOp]], module: str) -> tuple[UserLine, tuple[Any, ...]] | None:
        """Return where the rows were taken that results are computed from, and the shape of what they are rows of.

        None where a result is computed from another, as the states of a recurrent layer are, or from no rows. The
        module that computes is noted as recurrent then.
        """
        nodes = [found for one in results if (found := one()) is not None]
        if len(nodes) < OFTEN:
            return None
        first, last = _rows_below(nodes[0], ()), _rows_below(nodes[-1], nodes[:-1])
        if first is None or last is None:
            self._recurrent.add(module)
            return None
        for row, whole in last.items():
            if row not in first and whole in first.values() and (taken := self._nodes.get(row)) is not None:
                return taken, whole.shape
        return None


def _rows_below(node: UOp, others: Any) -> dict[UOp, UOp] | None:
    """Return the rows that a node is computed from, each with what it is a row of.

    None where it is computed from one of `others`, or from too many nodes to look at.
    """
    found: dict[UOp, UOp] = {}
    waiting, seen = [*node.src], {*node.src}
    while waiting:
        one = waiting.pop()
        if one in others or len(seen) > MOST_NODES:
            return None
        if one.op is Ops.SHRINK and one.shape and one.shape[0] == 1 and _is_many(one.src[0].shape[0]):
            found[one] = one.src[0]
            continue  # what the whole is computed from is no matter of its rows
        new = [source for source in one.src if source not in seen]
        seen.update(new)
        waiting += new
    return found


def is_within(name: str, outer: str) -> bool:
    """Return whether a module is `outer` or in it; everything is in no module."""
    return not outer or name == outer or name.startswith(outer + ".")


def _is_many(length: Any) -> bool:
    """Return whether an axis has so many elements that a loop over them is slow."""
    return isinstance(length, int) and length >= OFTEN


def _part(name: str, outer: str) -> str:
    """Return the module in `outer` that `name` is or is in; `name` itself where it is not in it.

    >>> _part("Net.block.first", "Net"), _part("Net.block", ""), _part("Other.a", "Net")
    ('Net.block', 'Net', 'Other.a')
    """
    if outer and not name.startswith(outer + "."):
        return name
    rest = name.removeprefix(outer).removeprefix(".").partition(".")[0]
    return f"{outer}.{rest}".removeprefix(".")
