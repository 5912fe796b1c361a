"""What a tensor is in the references: an array of indices into one flat memory, which its views share.

A computed tensor has a memory of its own. A view is the same memory under other indices: the method is applied to the
array of indices, in NumPy, so that nothing depends on what a library's own views do (NumPy's reshape copies sometimes,
PyTorch has no negative steps). A write puts elements at the indices of its target, and so shows wherever these are.
`VIEWS` is what programs have of tinygraft's table of view methods; `WRITES` says what each write puts where.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bounded import Uncertain
from program import Program, Step

Array = np.ndarray[Any, Any]
QUIET = frozenset(("realize", "print"))  # change nothing
NUMBERED = frozenset(("rows_sum", "rows_product", "rows_scaled_max", "row_write", "row_view"))  # read a bound Variable


def index_of(arg: Any) -> Any:
    """A NumPy index from plain JSON: numbers, null for a whole axis, {"slice": [...]} and {"list": [...]}."""

    def one(item: Any) -> Any:
        if item is None:
            return slice(None)
        if isinstance(item, dict):
            return slice(*item["slice"]) if "slice" in item else np.array(item["list"])
        return item

    return tuple(one(item) for item in arg)


def _unfolded(x: Array, axis: int, size: int, step: int) -> Array:
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return windows[(slice(None),) * axis + (slice(None, None, step),)]


def _chunks(x: Array, count: int, axis: int) -> tuple[Array, ...]:
    size = -(-x.shape[axis] // count)
    return tuple(np.split(x, range(size, x.shape[axis], size), axis))


VIEWS: dict[str, Callable[[Array, Any], Any]] = {
    "reshape": lambda x, arg: x.reshape(arg),
    "permute": lambda x, arg: x.transpose(arg),
    "transpose": lambda x, arg: x.swapaxes(*arg),
    "flip": lambda x, arg: np.flip(x, tuple(arg)),
    "expand": lambda x, arg: np.broadcast_to(x, arg),
    "index": lambda x, arg: x[index_of(arg)],
    "narrow": lambda x, arg: x.take(range(arg[1], arg[1] + arg[2]), arg[0]),
    "shrink": lambda x, arg: x[tuple(slice(None) if ends is None else slice(*ends) for ends in arg)],
    "chunk": lambda x, arg: _chunks(x, *arg),
    "diagonal": lambda x, arg: np.diagonal(x),
    "unfold": lambda x, arg: _unfolded(x, *arg),
    "flatten": lambda x, arg: x.reshape(-1),
    "unsqueeze": lambda x, arg: np.expand_dims(x, arg),
    "squeeze": lambda x, arg: np.squeeze(x),
    "row_view": lambda x, arg: x[arg[0] : arg[0] + 1],  # the row that a bound Variable says
    "detach": lambda x, arg: x,
}
# Of each write, by its constants: the part of the first operand that it goes to, the operator that makes the new value
# of the old one (None for a value that replaces it), and the number that stands for a second operand.
WRITES: dict[str, Callable[[Any], tuple[Any, str | None, float | None]]] = {
    "assign": lambda arg: (None, None, None),
    "setitem": lambda arg: (arg, None, None),
    "setitem_number": lambda arg: (arg[0], None, arg[1]),
    "part_assign": lambda arg: (arg, None, None),
    "row_write": lambda arg: ([{"slice": [arg[0], arg[0] + 1]}], None, None),
    "inplace": lambda arg: (None, arg, None),
    "inplace_number": lambda arg: (None, arg[0], arg[1]),
    "part_inplace": lambda arg: (arg[0], arg[1], None),
    "part_inplace_number": lambda arg: (arg[0], arg[1], arg[2]),
}


def moved_indices(step: Step, index: Array) -> list[tuple[str, Array]]:
    """The names that a view method makes, each with its part of an array of indices."""
    made = VIEWS[step.op](index, step.arg)
    return [
        (name, np.array(part))
        for name, part in list(zip(step.out, made if isinstance(made, tuple) else (made,), strict=True))
    ]


@dataclass(frozen=True, eq=False)
class View:
    """A tensor: the elements of a memory at these indices. `spread` says that it is on several devices.

    `detached` says that no gradient goes through it, since detach() is on the way from its memory.
    """

    memory: Any
    index: Array
    spread: bool = False
    detached: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Its shape."""
        return tuple(self.index.shape)

    @property
    def dtype(self) -> str:
        """The dtype of its memory."""
        return str(self.memory.dtype)

    @property
    def repeats(self) -> bool:
        """Whether two of its places are one element: such a tensor cannot be written."""
        return len(np.unique(self.index)) < self.index.size

    def shares(self, other: View) -> bool:
        """Whether it is of the same memory as another."""
        return self.memory is other.memory


class Machine:
    """The tensors of a program while it runs; `reads` are what its reads gave.

    A library's subclass has its memory: `fresh` makes one of a value, `value` reads a view, `put` writes to one,
    `compute` carries out an operation, `number` makes a value of a Python number. A name is that of a View, or of
    something else that a subclass keeps there.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[str, Any] = {}
        self.reads: list[Any] = []

    def run(self) -> list[Any]:
        """All steps; the values of the reads."""
        for step in self.program.steps:
            self.do(step)
        return self.reads

    def do(self, step: Step, number: int | None = None) -> None:
        """One step. Raises Uncertain, or an error of the library for a step that fits nowhere; then it did nothing."""
        if number is not None and step.op in NUMBERED:
            step = replace(step, arg=[number, *step.arg[1:]])
        handler = getattr(self, f"_do_{step.op}", None)
        if handler is not None:
            handler(step)
        elif step.op in VIEWS:
            self._view(step)
        elif step.op not in QUIET:
            views = [self.values[name] for name in step.ins]
            if len({view.spread for view in views}) > 1:
                raise Uncertain("on different devices")
            if step.op in WRITES:
                self._write(views, *WRITES[step.op](step.arg))
                return
            made = self.compute(step.op, [self.value(view) for view in views], step.arg)
            spread = bool(views) and views[0].spread
            for name, value in zip(step.out, made if isinstance(made, tuple) else (made,), strict=True):
                self.values[name] = self.fresh(value, spread)

    def _view(self, step: Step) -> None:
        source = self.values[step.ins[0]]
        detached = source.detached or step.op == "detach"
        for name, index in moved_indices(step, source.index):
            self.values[name] = replace(source, index=index, detached=detached)

    def _write(self, views: list[View], part: Any, operator: str | None, number: float | None) -> None:
        """Put a value where a view is, or a part of it: the old elements are read before any is written."""
        target = views[0]
        if part is not None:
            target = replace(target, index=np.array(target.index[index_of(part)]))
        if target.repeats:
            raise Uncertain("a write to elements in common")
        old = self.value(target)
        value = self.number(old, number) if number is not None else self.value(views[1])
        if operator is not None:
            value = self.compute(operator, [old, value], None)
        if str(value.dtype) != str(old.dtype) or (operator is not None and value.shape != old.shape):
            raise ValueError(f"a write changes {old.dtype} {old.shape} to {value.dtype} {value.shape}")
        self.put(target, value)

    def _do_refused(self, step: Step) -> None:
        """A write that raises, because it would go to elements in common."""
        target, value = (self.values[name] for name in step.ins)
        if not target.repeats or np.broadcast_shapes(target.shape, value.shape) != target.shape:
            raise Uncertain("a write that is not refused, or for another reason")
        if target.shares(value) and np.array_equal(target.index, np.broadcast_to(value.index, target.shape)):
            raise Uncertain("a tensor that is assigned to itself, which does nothing")

    def _do_delete(self, step: Step) -> None:
        for name in step.ins:
            del self.values[name]

    def _do_unshard(self, step: Step) -> None:
        """To one device: a tensor that is there already is itself."""
        source = self.values[step.ins[0]]
        self.values[step.out[0]] = self.fresh(self.value(source), False) if source.spread else source

    def _do_shard(self, step: Step) -> None:
        source = self.values[step.ins[0]]
        if source.spread:
            raise Uncertain("is on several devices already")
        self.values[step.out[0]] = self.fresh(self.value(source), True)

    def _do_call(self, step: Step) -> None:
        """A function's steps. A parameter is the tensor that is given: a write to it shows outside."""
        function = self.program.functions[step.arg["function"]]
        given = dict(zip(function.params, step.ins, strict=True))
        for each in function.steps:
            self.do(replace(each, ins=tuple(given.get(n, n) for n in each.ins)), step.arg.get("number"))
        results = [self.values[given.get(name, name)] for name in function.results]
        for name in {out for each in function.steps for out in each.out}:
            self.values.pop(name, None)
        self.values.update(zip(step.out, results, strict=True))

    # What a library has to do

    def fresh(self, value: Any, spread: bool) -> View:
        """A tensor with a memory of its own."""
        raise NotImplementedError

    def value(self, view: View) -> Any:
        """The elements of a tensor."""
        raise NotImplementedError

    def put(self, target: View, value: Any) -> None:
        """Write a value, which broadcasts, to the elements of a tensor."""
        raise NotImplementedError

    def compute(self, op: str, values: list[Any], arg: Any) -> Any:
        """An operation on values."""
        raise NotImplementedError

    def number(self, like: Any, number: float) -> Any:
        """A Python number as a value of the dtype of another."""
        raise NotImplementedError
