"""Where the nodes of graphs come from: the user's line and module of each, while a recording (PROFILE=1, VIZ=1) is on.

In: each tensor as it is made (`note`), nodes that replace others (`pass_on`), gradients (`differentiate`), memory as it
is allocated. Out: for each call of a schedule the UserLines of what it computes, those of reductions first.

`events.origins` is the one Origins of the process, None while nothing is recorded: then this module is not imported.
"""

from __future__ import annotations

import atexit
import sys
import sysconfig
import threading
import time
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import CodeType, FrameType
from typing import Any
from weakref import WeakKeyDictionary

from tinygraft import events
from tinygraft.helpers import cell_or_file, line_in, short_path, user_line
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.uop import UOp

PACKAGE = __name__.partition(".")[0] + "."
LAYERS = PACKAGE + "nn."
CALLS = frozenset({"__call__", "forward", "step"})  # methods whose `self` is a module
HEAVY = frozenset({Ops.REDUCE_AXIS, Ops.SCAN, Ops.ROUTINE, Ops.SCATTER, Ops.GATHER, Ops.COPY})
KEEP_VALUE = frozenset({Ops.DETACH, Ops.CONTIGUOUS, Ops.CAST})
MOST_CHANGES = 1_000_000  # assumed: of memory, some 250 MB; a loop of hours makes more
INSTALLED = tuple(sysconfig.get_paths()[kind] for kind in ("stdlib", "platstdlib", "purelib", "platlib"))
OWN_REFERENCES = 3  # given: by CPython, to a frame's dict of locals here, where the user has none

OpPlace = tuple[Ops, int, int]  # of a node in its graph: its op, its number among those of that op, how many these are


@dataclass(frozen=True, slots=True, eq=False)
class UserLine:
    """A line of the user, and the module in whose call it was: `Net.layers.0`, empty outside any.

    `backward` says that what it names is the gradient of what that line computes.
    """

    file: str
    line: int
    module: str = ""
    backward: bool = False

    @property
    def where(self) -> str:
        """Return FILE:LINE, with a note where it is a gradient."""
        return f"{self.file}:{self.line}{' backward' * self.backward}"


@dataclass(frozen=True, slots=True)
class MemoryChange:
    """Memory was allocated (`nbytes` above 0) or freed on a device; `allocation` is the number of the allocation."""

    time: float
    device: str
    nbytes: int
    allocation: int
    origin: UserLine | None


class _Now(threading.local):
    origins: Sequence[UserLine] = ()


class Origins:
    """The UserLine of each node, weakly, and the changes of all memory that was allocated since the recording began."""

    def __init__(self) -> None:
        self.nodes: WeakKeyDictionary[UOp, UserLine] = WeakKeyDictionary()
        self.memory: list[MemoryChange] = []
        self.unnoted: int = 0  # changes of memory past MOST_CHANGES
        self.allocations: int = 0
        self.makings: Any = None  # of a profile: it gets each node that is noted (engine/profiling/makings.py)
        # the number of each live allocation and its index in `memory`, by device and id(handle)
        self._live: dict[tuple[str, int], tuple[int, int]] = {}
        self._lines: dict[tuple[CodeType, int], tuple[str, int]] = {}
        self._now = _Now()

    def note(self, node: UOp, made: tuple[CodeType, int, CodeType, CodeType]) -> None:
        """Note the line that made a tensor over `node`, if the node is new; `made` is that of tensor/state/made_at.

        What the node moves gets that line too, down to memory or a node that has one.
        """
        if node.op is Ops.BUFFER or node in self.nodes:
            return
        code, instruction = key = made[:2]
        if (line := self._lines.get(key)) is None:
            line = self._lines[key] = cell_or_file(code.co_filename), line_in(code, instruction)
        try:
            module = module_path(sys._getframe(2))
        except Exception:  # of a user's object that raises where it is looked at: that must not end the program
            module = ""
        known = UserLine(*line, module)
        self._known(node, known)
        if self.makings is not None:
            self.makings.note(node, known, key, sys._getframe(1))

    def note_late(self, node: UOp, file: str, line: int) -> None:
        """Note the line of a tensor that was made before the recording began; in which module it was is not known."""
        if node.op is not Ops.BUFFER and node not in self.nodes:
            self._known(node, UserLine(cell_or_file(file), line))

    def _known(self, node: UOp, known: UserLine) -> None:
        """Give a node its line, and what it moves, down to memory or a node that has one."""
        self.nodes[node] = known
        while node.op in MOVEMENT:  # a method may move last, as a sum drops its axes; a call may compute only that
            node = node.src[0]
            if node.op is Ops.BUFFER or self.nodes.setdefault(node, known) is not known:
                break

    def pass_on(self, done: Mapping[UOp, UOp]) -> None:
        """Give nodes that replace others (old -> new) the origins of these.

        A new node that has an origin keeps it.
        """
        for old, new in done.items():
            if new is not old and new not in self.nodes and (known := self.nodes.get(old)) is not None:
                self.nodes[new] = known

    def differentiate(self, node: UOp, gradient: UOp, since: int) -> None:
        """Note that `gradient`, and the nodes below it that were made after node number `since`, are of `node`.

        They get its line, marked as backward, unless they have one; nothing happens where `node` has none.
        """
        known = self.nodes.get(node)
        if known is None:
            return
        backward = known if known.backward else replace(known, backward=True)
        if self.makings is not None:
            self.makings.gradient_of = backward
        waiting = [gradient]
        while waiting:
            new = waiting.pop()
            if new.serial > since and new not in self.nodes:
                self.nodes[new] = backward
                waiting += new.src

    def of_nodes(self, roots: Iterable[UOp], ends: Collection[UOp]) -> tuple[UserLine, ...]:
        """Return the origins of `roots` and of what they are computed from up to `ends`, each line once.

        The largest reduction comes first, then smaller ones, then the others from the results on. A node without an
        origin, inside of a method of Tensor, has that of its user.
        """
        heavy: list[tuple[int, UserLine]] = []
        light: list[UserLine] = []
        waiting: deque[tuple[UOp, UserLine | None]] = deque((root, None) for root in roots)
        seen = {root for root, _ in waiting}
        while waiting:
            node, user = waiting.popleft()
            known = self.nodes.get(node, user)
            if known is not None and node.op in HEAVY:
                heavy.append((-_size(node.src[0]), known))
            elif known is not None and node in self.nodes:
                light.append(known)
            for source in node.src:
                if source not in seen and source not in ends:
                    seen.add(source)
                    waiting.append((source, known))
        heavy.sort(key=lambda pair: pair[0])
        first: dict[tuple[object, ...], UserLine] = {}
        for one in (*[origin for _, origin in heavy], *light):
            first.setdefault((one.file, one.line, one.module, one.backward), one)
        return tuple(first.values())

    def numbered(self, order: Sequence[UOp], origins: Iterable[Sequence[UserLine]]) -> tuple[tuple[OpPlace, ...], ...]:
        """Return origins as places of nodes in `order` that have them, so that a graph of that form finds its own.

        A line that no node of `order` has is left out.
        """
        places = {id(known): place for node, place in _places(order) if (known := self.nodes.get(node)) is not None}
        return tuple([tuple([places[id(one)] for one in some if id(one) in places]) for some in origins])

    def found(self, order: Sequence[UOp], numbers: Iterable[Sequence[OpPlace]]) -> list[tuple[UserLine, ...]]:
        """Return the origins that `numbered` has made places of, in a graph of that form.

        A place that this graph does not have, or whose node has no origin, is left out.
        """
        nodes = {place: node for node, place in _places(order)}
        return [
            tuple([known for one in some if one in nodes and (known := self.nodes.get(nodes[one])) is not None])
            for some in numbers
        ]

    def computing(self, origins: Sequence[UserLine]) -> None:
        """Note what this thread computes from now on, for memory that is allocated meanwhile; nothing: no request."""
        self._now.origins = origins

    def belongs(self, device: str, handle: object, node: UOp, since: int) -> None:
        """Note that the memory of `handle` has the value of `node`: it is of that line, if the node has one.

        `changed` knows only what is computed, where one kernel may write several results. Memory that was allocated
        before allocation number `since` keeps its line.
        """
        number, index = self._live.get((device, id(handle)), (-1, 0))
        if number >= since and (known := self._line_of_value(node)) is not None:
            self.memory[index] = replace(self.memory[index], origin=known)

    def _line_of_value(self, node: UOp) -> UserLine | None:
        """Return the line of a node; of a write without one that of its memory, else that of what is written."""
        while (known := self.nodes.get(node)) is None:
            if node.op is Ops.ASSIGN:
                known = self._line_of_value(node.src[0])
                if known is not None:
                    break
                node = node.src[1]
            elif node.op in MOVEMENT or node.op in KEEP_VALUE:
                node = node.src[0]
            else:
                break
        return known

    def changed(self, device: str, nbytes: int, handle: object) -> None:
        """Note that `nbytes` were allocated, or with a minus freed, whose handle is `handle`.

        Memory that is allocated is of the line that `computing` noted first, else of the line that the user is at. Past
        MOST_CHANGES a change is only counted. That memory was freed whose allocation is not noted does not count: it
        would make the sum less than what is in use.
        """
        key = device, id(handle)
        if nbytes <= 0 and key not in self._live:
            return
        if len(self.memory) >= MOST_CHANGES:
            self.unnoted += 1
            return
        if nbytes > 0:
            now = self._now.origins
            file, line = user_line()
            origin = now[0] if now else UserLine(cell_or_file(file), line)
            number = self.allocations
            self._live[key] = number, len(self.memory)
            self.allocations += 1
        else:
            origin, (number, _) = None, self._live.pop(key)
        self.memory.append(MemoryChange(time.perf_counter(), device, nbytes, number, origin))


def place(origin: UserLine) -> str:
    """Return FILE:LINE of an origin; the file is relative where it is below the working directory."""
    return origin.where.replace(origin.file, short_path(origin.file), 1)


def _places(order: Sequence[UOp]) -> Iterator[tuple[UOp, OpPlace]]:
    """Yield each node with its place: its op, its number among those of this op, and how many these are.

    The graph whose Python numbers are arguments has other nodes than the one with constants; those of an op of which
    both have as many are the same ones.
    """
    counts = Counter(node.op for node in order)
    seen: Counter[Ops] = Counter()
    for node in order:
        seen[node.op] += 1
        yield node, (node.op, seen[node.op], counts[node.op])


def _size(node: UOp) -> int:
    """Return how many elements a node has at most."""
    size = 1
    for length in node.shape:
        size *= length if isinstance(length, int) else int(length.hi)
    return size


def module_path(frame: FrameType | None) -> str:
    """Return the path of the modules in whose calls a frame is: the class of the outermost, then attributes.

    A module is any object in whose `__call__` or `forward` the frame is, or an optimizer in its `step`. Empty where it
    is in none. An object of an installed package begins the path only where it has tensors or layers of this package.
    """
    chain: list[Any] = []
    names: list[str] = []
    for owner, is_installed in _owners(frame):
        if not chain:
            if not is_installed or _has_ours(owner):
                chain.append(owner)
        elif chain[-1] is not owner:
            name = _name_in(owner, chain[-1])
            if name or not is_installed:  # a notebook or a test runner is no part of the model
                names.append(name or type(chain[-1]).__name__)
                chain.append(owner)
    return ".".join([type(chain[-1]).__name__, *reversed(names)]) if chain else ""


def _owners(frame: FrameType | None) -> Iterator[tuple[Any, bool]]:
    """Yield the `self` of each call of a module that a frame is in, the innermost first.

    With it whether its code is of an installed package, or of Python, and not of tinygraft.nn.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name in CALLS and code.co_argcount and code.co_varnames[0] == "self":
            module = frame.f_globals.get("__name__", "")
            ours = module.startswith(PACKAGE)
            if module.startswith(LAYERS) if ours else code.co_name != "step":
                yield _self_of(frame), not ours and code.co_filename.startswith(INSTALLED)
        frame = frame.f_back


def _self_of(frame: FrameType) -> Any:
    """Return the `self` of a frame, and leave no reference to its other locals behind: they may be tensors.

    Up to Python 3.12 the dict of locals is retained by the frame; a tensor that is dropped meanwhile would be live.
    It is cleared, unless the user has called locals() there.
    """
    found = frame.f_locals
    owner = found.get("self")
    if sys.version_info < (3, 13) and sys.getrefcount(found) <= OWN_REFERENCES:
        found.clear()
    return owner


def _has_ours(owner: Any) -> bool:
    """Return whether an object of an installed package has tensors or layers, as models of others have."""
    return any(type(value).__module__.startswith(PACKAGE) for value in getattr(owner, "__dict__", {}).values())


def _name_in(outer: Any, inner: Any) -> str:
    """Return by which attribute one module has another, as `conv` or `layers.3`; empty where by none."""
    for name, value in getattr(outer, "__dict__", {}).items():
        if value is inner:
            return str(name)
        pairs = enumerate(value) if isinstance(value, list | tuple) else value.items() if type(value) is dict else ()
        for key, item in pairs:
            if item is inner:
                return f"{name}.{key}"
    return ""


def start() -> Origins:
    """Begin to note origins, if that has not begun. Plans and kernels that were made before are dropped.

    Returns the Origins of the process, whose recording ends with it.
    """
    if events.origins is None:
        from tinygraft.engine import compile as compiling
        from tinygraft.engine import plan

        events.origins = Origins()
        atexit.register(_stop)  # memory is freed after that, while the interpreter takes modules apart
        plan.clear()
        compiling.clear()
    return events.origins  # type: ignore[no-any-return]


def _stop() -> None:
    """End the recording of origins."""
    events.origins = None
