"""A program in the making: what there is, what fits, and a step that is tried on the reference before it is kept."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bounded import Uncertain
from memory import NUMBERED, WRITES
from program import Function, Program, Step
from run_numpy import Reference

SHAPES = ((4,), (3,), (2, 3), (4, 4), (3, 4), (2, 3, 4), (1,), (4, 1), ())
FLOATS = ("float32",) * 8 + ("float64", "float16", "bfloat16")
INTS = ("int32",) * 4 + ("int64", "int8", "uint8", "int16")
MOST = 128  # elements of a tensor
# What a step raises that does not fit
ALIKE = (ValueError, IndexError, TypeError, RuntimeError, KeyError, OverflowError)
Action = Callable[["Draft"], Any]
Actions = Sequence[tuple[int, Action]]


def count(shape: Sequence[int]) -> int:
    """The number of elements of a shape."""
    return int(np.prod(shape, initial=1))


class Draft:
    """A program in the making, beside the reference that has run what there is of it."""

    def __init__(self, rng: random.Random, kind: str, leave_out: frozenset[str] = frozenset()) -> None:
        self.rng, self.kind, self.leave_out = rng, kind, leave_out
        self.steps: list[Step] = []
        self.functions: list[Function] = []
        self.body: list[Step] | None = None  # of the function that is being made
        self.names = 0
        self.fixed: set[str] = set()  # state and arguments of functions: never deleted
        self.state: list[str] = []  # what functions reach by themselves, and write
        self.real = "float32"  # the dtype of weights and data where gradients are asked for
        self.spread = False  # whether these lie on several devices
        self.number_of, self.most = "", 0  # what a function does with a bound Variable, and the values that has
        self.samples: list[str] = []  # arguments that the function was made with
        self.silent: set[str] = set()  # results of functions: read, but not computed with where gradients are asked for
        self.machine = self.new_machine()

    def new_machine(self) -> Any:
        """The reference, before the first step."""
        program = Program((), tuple(self.functions), self.kind)
        if self.kind == "training":
            from run_torch import Mirror

            return Mirror(program)
        return Reference(program)

    def again(self) -> None:
        """Run the reference anew, after it was led astray."""
        self.machine = self.new_machine()
        for step in self.steps:
            self.machine.do(step)

    def name(self) -> str:
        """A name that is not taken."""
        self.names += 1
        return f"t{self.names}"

    # What there is

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor."""
        return tuple(self.machine.values[name].shape)

    def dtype(self, name: str) -> str:
        """The dtype of a tensor."""
        dtype = str(self.machine.values[name].dtype)
        if self.kind == "training":
            return self.real if "float" in dtype else "bool" if "bool" in dtype else "int32"
        return dtype

    def spread_of(self, name: str) -> bool:
        """Whether a tensor is on several devices."""
        return bool(self.machine.values[name].spread)

    def tensors(self, *kinds: str, ndim: int = 0) -> list[str]:
        """The tensors of some kinds of dtype, the latest last."""
        found = []
        for name, value in self.machine.values.items():
            if isinstance(value, tuple) or name in self.silent:
                continue
            dtype = self.dtype(name).rstrip("0123456789").replace("uint", "int").replace("bfloat", "float")
            if (not kinds or dtype in kinds) and len(value.shape) >= ndim:
                found.append(name)
        return found

    def pick(self, *kinds: str, ndim: int = 0) -> str:
        """A tensor, rather a late one."""
        found = self.tensors(*kinds, ndim=ndim)
        if not found:
            raise Uncertain("none there")
        return found[max(self.rng.randrange(len(found)), self.rng.randrange(len(found)))]

    def like(self, name: str, same_shape: bool = False) -> str:
        """Another operand of the same dtype and place that broadcasts with a tensor."""
        shape = self.shape(name)
        found = [
            n for n in self.tensors()
            if self.dtype(n) == self.dtype(name) and self.spread_of(n) == self.spread_of(name)
            and (self.shape(n) == shape or (not same_shape and broadcasts(self.shape(n), shape)))
        ]  # fmt: skip
        return self.rng.choice(found)

    def writable(self) -> list[str]:
        """Tensors that a program writes to: views as well, but for those that have elements in common."""
        return [n for n in self.tensors() if self.dtype(n) != "bool" and not self.machine.values[n].repeats]

    def shared(self) -> list[str]:
        """Tensors whose memory another one has too."""
        views = {n: v for n, v in self.machine.values.items() if not isinstance(v, tuple)}
        return [n for n in self.tensors() if sum(views[n].shares(v) for v in views.values()) > 1]

    # What is added

    def add(self, op: str, ins: Sequence[str] = (), arg: Any = None, outs: int = 1) -> tuple[str, ...]:
        """Try a step on the reference and keep it. Raises Uncertain when it does not fit."""
        if op in self.leave_out:
            raise Uncertain("left out")
        if self.body is not None and self.number_of and op in NUMBERED:
            if (op.startswith("rows_") != (self.number_of == "rows")) or self.most not in (0, arg[1]):
                raise Uncertain("another Variable than that of the function")
            self.most = arg[1]
        step = Step(op, tuple(self.name() for _ in range(outs)), tuple(ins), arg)
        try:
            with np.errstate(all="ignore"):
                self.machine.do(step)
        except ALIKE as error:
            raise Uncertain(str(error)) from error
        if any(
            count(self.shape(n)) > MOST or 0 in self.shape(n)
            for n in step.out
            if n in self.machine.values and not isinstance(self.machine.values[n], tuple)
        ):
            for n in step.out:
                del self.machine.values[n]
            raise Uncertain("too many elements")
        to = self.steps if self.body is None else self.body
        to.append(step)
        if op in WRITES and "pending" in self.leave_out:
            to.append(Step("realize", (), (ins[0],)))
        return step.out

    def leaf(self, dtype: str, shape: Sequence[int], **more: Any) -> str:
        """A tensor of numbers that are exact in every dtype, mostly realised."""
        n, rng = count(shape), self.rng
        if dtype == "bool":
            data: list[Any] = [rng.random() < 0.5 for _ in range(n)]
        elif "int" in dtype:
            data = [rng.randint(0 if dtype == "uint8" else -5, 9) for _ in range(n)]
        elif self.kind == "training":
            data = [round(rng.uniform(-2, 2), 2) for _ in range(n)]
        else:
            data = [rng.randint(-8, 8) / rng.choice((1, 2, 4)) for _ in range(n)]
        arg = {"data": data, "shape": list(shape), "dtype": dtype, "realize": rng.random() < 0.8, **more}
        axis = {}
        if self.spread or (self.kind == "shards" and rng.random() < 0.6):
            axis = {"axis": rng.choice([None, *range(len(shape))])}
        return self.add("leaf", (), {**arg, **axis})[0]

    def any_leaf(self) -> str:
        """A tensor of some dtype and shape."""
        rng = self.rng
        if self.kind == "training":
            return self.leaf(self.real, rng.choice(SHAPES), grad=rng.choice((None, None, False)))
        dtype = rng.choice(FLOATS) if rng.random() < 0.7 else rng.choice((*INTS, "bool"))
        if self.kind in ("state", "views", "jit", "shards") and rng.random() < 0.7:
            dtype = "float32"
        return self.leaf(dtype, rng.choice(SHAPES))

    def some(self, actions: Sequence[tuple[int, Callable[[Draft], Any]]], times: int) -> None:
        """Carry out random actions; one that does not fit is left."""
        weights, functions = [w for w, _ in actions], [f for _, f in actions]
        for _ in range(times):
            for action in self.rng.choices(functions, weights, k=4):
                try:
                    action(self)
                    break
                except (Uncertain, *ALIKE):
                    continue

    def program(self) -> Program:
        """What there is."""
        return Program(tuple(self.steps), tuple(self.functions), self.kind)


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether two shapes broadcast to one that is not too large."""
    try:
        return count(np.broadcast_shapes(tuple(a), tuple(b))) <= MOST
    except ValueError:
        return False


def fits_in(a: Sequence[int], b: Sequence[int]) -> bool:
    """Whether one shape broadcasts to another."""
    try:
        return np.broadcast_shapes(tuple(a), tuple(b)) == tuple(b)
    except ValueError:
        return False
