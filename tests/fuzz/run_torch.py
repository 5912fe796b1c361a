"""Programs carried out by PyTorch, for gradients: in float64 what should come out, in float32 how much rounding does.

A tensor is indices into a memory, as memory.py says; the memory is a tensor of PyTorch, which a write replaces by
another one. So nothing that was computed before a write changes, gradients flow through what is read at the indices,
and PyTorch's own views, which are fewer, are not needed. A memory that was computed keeps its tape through writes, but
for the elements that are replaced; what is written through detach() is a constant. A leaf with requires_grad stays a
leaf, whatever is written into it: it gets a new version, and its gradient is the sum of those of its versions, since
what was computed from an older one still flows to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F

from bounded import Uncertain, Value
from memory import Array, Machine, View, moved_indices
from program import Program, Step

T = torch.Tensor
SCALE = 64.0  # values of a program stay below; its bounds grow with them
LEFT_OUT = os.environ.get("FUZZ_LEAVE_OUT", "")
NARROW = 2e-3  # a bound wider than this part of the values tells nothing: such a program is not used


def _clear(x: T, what: str = "a kink") -> T:
    """An operand that is not near the point where a derivative jumps."""
    if bool((x.detach().abs() < 1e-3).any()):
        raise Uncertain(f"near {what}")
    return x


def _within(x: T, low: float, high: float) -> T:
    if bool((x.detach() < low).any()) or bool((x.detach() > high).any()):
        raise Uncertain("outside of where the function is tried")
    return x


def _unique(x: T, axes: Any, keep: bool, largest: bool) -> T:
    """An extreme that one element alone has: ties share the gradient in more than one way."""
    which = tuple(range(x.ndim)) if axes is None else tuple(axes)
    best = x.amax(which, keepdim=True) if largest else x.amin(which, keepdim=True)
    if bool((((best - x).detach().abs() < 1e-3).sum(which) > 1).any()):
        raise Uncertain("ties")
    return x.amax(which, keepdim=keep) if largest else x.amin(which, keepdim=keep)


def _extreme(a: T, b: T, pick: Callable[[T, T], T]) -> T:
    _clear(a - b)
    return pick(a, b)


def _sum(a: T, axes: Any, keep: bool) -> T:
    return a.sum(tuple(range(a.ndim)) if axes is None else tuple(axes), keepdim=keep)


def _mean(a: T, axes: Any, keep: bool) -> T:
    return a.mean(tuple(range(a.ndim)) if axes is None else tuple(axes), keepdim=keep)


def _number(f: Callable[..., T]) -> Callable[..., T]:
    return lambda a, arg: f(a, torch.tensor(float(arg), dtype=a.dtype))


def _far(b: T) -> T:
    _within(b.abs(), 0.25, 99)
    return b


def _scatter(a: T, index: T, src: T, axis: int) -> T:
    """The last of those that land on one place stays, and has the gradient: PyTorch would give it to all of them."""
    last: dict[tuple[int, ...], tuple[int, ...]] = {}
    for place in np.ndindex(*index.shape):
        last[(*place[:axis], int(index[place]), *place[axis + 1 :])] = place
    stays = torch.zeros(index.shape, dtype=torch.bool)
    for place in last.values():
        stays[place] = True
    return a.scatter(axis, index, torch.where(stays, src, src.detach()))


BINARY: dict[str, Callable[..., T]] = {
    "add": torch.add, "sub": torch.sub, "mul": torch.mul,
    "div": lambda a, b: a / _far(b),
    "maximum": lambda a, b: _extreme(a, b, torch.maximum), "minimum": lambda a, b: _extreme(a, b, torch.minimum),
}  # fmt: skip


OPERATIONS: dict[str, Callable[..., Any]] = {
    **{name: lambda a, b, arg, f=f: f(a, b) for name, f in BINARY.items()},
    **{f"{name}_number": _number(f) for name, f in BINARY.items()},
    "exp": lambda a, arg: _within(a, -4, 3).exp(), "sin": lambda a, arg: a.sin(), "tanh": lambda a, arg: a.tanh(),
    "log": lambda a, arg: _within(a, 0.25, 99).log(), "sqrt": lambda a, arg: _within(a, 0.25, 99).sqrt(),
    "sigmoid": lambda a, arg: a.sigmoid(), "relu": lambda a, arg: _clear(a).relu(),
    "abs": lambda a, arg: _clear(a).abs(),
    "neg": lambda a, arg: -a, "square": lambda a, arg: a * a,
    "contiguous": lambda a, arg: a.clone(),  # of memory it is that; a target that is a value of its own is on no tape
    "copy": lambda a, arg: a.clone(),
    "sum": lambda a, arg: _sum(a, *arg), "mean": lambda a, arg: _mean(a, *arg),
    "max": lambda a, arg: _unique(a, *arg, True), "min": lambda a, arg: _unique(a, *arg, False),
    "cumsum": lambda a, arg: a.cumsum(arg), "softmax": lambda a, arg: a.softmax(arg),
    "pad": lambda a, arg: F.pad(a, [n for pair in reversed(arg[0]) for n in pair], value=float(arg[1])),
    "roll": lambda a, arg: a.roll(arg[0], arg[1]), "repeat": lambda a, arg: a.repeat(tuple(arg)),
    "triu": lambda a, arg: a.tril() if arg else a.triu(), "cat": lambda *v: torch.cat(v[:-1], v[-1]),
    "matmul": lambda a, b, arg: a @ b,
    "conv2d": lambda x, w, arg: F.conv2d(x, w, stride=arg[0], padding=arg[1]),
    "pool": lambda x, arg: _pool(x, *arg),
    "where": lambda c, a, b, arg: torch.where(c, a, b),
    "gather": lambda a, i, arg: a.gather(arg, i), "take": lambda a, i, arg: a.index_select(arg, i),
    "scatter": lambda a, i, s, arg: a.scatter_add(arg[0], i, s) if arg[1] else _scatter(a, i, s, arg[0]),
    "rows_sum": lambda a, arg: a[: arg[0]].sum(0), "rows_product": lambda a, b, arg: (a[: arg[0]] * b[: arg[0]]).sum(0),
}  # fmt: skip


def _pool(x: T, size: int, most: bool) -> T:
    if not most:
        return F.avg_pool2d(x, size)
    cut = x.unfold(2, size, size).unfold(3, size, size)
    return _unique(cut, (4, 5), False, True)


class Taped:
    """A memory of the reference: its elements with their tape, and whose leaf it is (empty for what is none)."""

    def __init__(self, whole: T, leaf: str = "") -> None:
        self.whole, self.leaf, self.writes = whole, leaf, 0
        self.read: dict[View, T] = {}  # the elements of views since the last write, so that each is one of the tape

    @property
    def dtype(self) -> str:
        """As PyTorch writes it."""
        return str(self.whole.dtype)


class Mirror(Machine):
    """The tensors of a program while it runs in one dtype; `reads` are what its reads gave."""

    def __init__(self, program: Program, dtype: torch.dtype = torch.float64) -> None:
        super().__init__(program)
        self.dtype, self.scale = dtype, 1.0
        self.versions: dict[str, list[T]] = {}  # of each leaf that requires a gradient
        self.passed: set[Any] = set()  # steps that a backward went through
        self.grads: dict[str, T | None] = {}
        self.deleted: list[T] = []  # values of tensors that are gone, which graphs may still have
        self.written = False  # whether any memory was written to
        self.replaced = False  # whether a memory with a tape has got another value as a whole

    def fresh(self, value: T, spread: bool, leaf: str = "") -> View:
        """A tensor with a memory of its own."""
        view = View(Taped(value, leaf), np.arange(value.numel()).reshape(tuple(value.shape)), spread)
        view.memory.read[view] = value
        return view

    def value(self, view: View) -> T:
        """The elements of a tensor, on the tape."""
        memory = view.memory
        if view not in memory.read:
            memory.read[view] = _at(memory.whole, view.index, view.detached)
        return cast(T, memory.read[view])

    def put(self, target: View, value: T) -> None:
        """Write elements: another tensor for the memory, and another version of a leaf."""
        memory = target.memory
        stays = bool(memory.leaf)
        if "written_leaf" in LEFT_OUT and stays:
            raise Uncertain("left out: a write to a leaf that is not an optimizer's")
        if "written_tape" in LEFT_OUT and (value.requires_grad or memory.whole.requires_grad) and not stays:
            raise Uncertain("left out: a written tensor that keeps its tape")
        old = memory.whole.detach() if stays else memory.whole
        value = value.expand(target.shape).reshape(-1)
        value = value.detach() if stays or target.detached else value
        places = torch.from_numpy(target.index.reshape(-1))
        new = old.reshape(-1).index_put((places,), value).reshape(old.shape)
        if target.index.size == old.numel() and old.requires_grad:
            self.replaced = True
            if not np.array_equal(target.index.reshape(-1), np.arange(old.numel())):
                raise Uncertain("whether nothing of a tape is left, or zeros, where all is written in another order")
            new = value.reshape(old.shape)
        if stays:
            new = new.clone().requires_grad_()
            self.versions[memory.leaf].append(new)
        memory.whole, memory.writes, self.written = new, memory.writes + 1, True
        memory.read.clear()

    def compute(self, op: str, values: list[T], arg: Any) -> T:
        """An operation of the table."""
        result: T = OPERATIONS[op](*values, arg)
        if result.is_floating_point() and not any(value.is_floating_point() for value in values):
            raise Uncertain("floats of integers have the default dtype, whatever that of the weights is")
        size = float(result.detach().abs().max()) if result.numel() and result.is_floating_point() else 0.0
        if not size <= SCALE:
            raise Uncertain("too large")
        self.scale = max(self.scale, size)
        return result

    def number(self, like: T, number: float) -> T:
        """A Python number."""
        return torch.tensor(number, dtype=like.dtype)

    def _view(self, step: Step) -> None:
        """On the tape a view comes from what it is a view of, and so through that to the memory."""
        super()._view(step)
        source = self.values[step.ins[0]]
        for name, places in moved_indices(step, np.arange(source.index.size).reshape(source.shape)):
            made = self.values[name]
            made.memory.read[made] = _at(self.value(source), places, made.detached)

    def reaches(self, loss: str) -> bool:
        """Whether a value depends on a leaf that requires a gradient."""
        flat = [v for versions in self.versions.values() for v in versions]
        total = self.value(self.values[loss])
        if not flat or not total.requires_grad:
            return False
        return any(g is not None for g in torch.autograd.grad(total.sum(), flat, retain_graph=True, allow_unused=True))

    def _do_leaf(self, step: Step) -> None:
        arg, name = step.arg, step.out[0]
        if not arg["dtype"].startswith("float"):
            dtype = torch.bool if arg["dtype"] == "bool" else torch.int64
            value = torch.tensor(arg["data"], dtype=dtype).reshape(arg["shape"])
            self.values[name] = self.fresh(value, "axis" in arg)
            return
        value = torch.tensor(arg["data"], dtype=self.dtype).reshape(arg["shape"])
        if arg.get("grad") is not False:
            value.requires_grad_()
        if arg.get("grad"):
            self.versions[name], self.grads[name] = [value], None
        self.values[name] = self.fresh(value, "axis" in arg, name if arg.get("grad") else "")

    def _do_read(self, step: Step) -> None:
        self.reads.append(self.value(self.values[step.ins[0]]).detach().clone())

    def _do_read_grad(self, step: Step) -> None:
        grad = self.grads[step.ins[0]]
        if grad is None and self.replaced:
            grad = torch.zeros_like(self.versions[step.ins[0]][0])
        self.reads.append(None if grad is None else grad.detach().clone())

    def _do_backward(self, step: Step) -> None:
        if not self.reaches(step.ins[0]):
            raise Uncertain("no leaf")
        names = [(name, v) for name, versions in self.versions.items() for v in versions]
        total = self.value(self.values[step.ins[0]])
        found = torch.autograd.grad(total, [v for _, v in names], retain_graph=True, allow_unused=True)
        graph = _graph(total)
        if self.written and not graph.isdisjoint(self.passed):
            raise Uncertain("a graph that a backward went through, over memory that may have been written since")
        self.passed |= graph
        for (name, version), grad in zip(names, found, strict=True):
            if grad is not None:
                if version is not self.versions[name][-1] and "old_version" in LEFT_OUT:
                    raise Uncertain("left out: a leaf that was written since")
                old = self.grads[name]
                self.grads[name] = grad.detach() if old is None else old + grad.detach()
                self.scale = max(self.scale, float(grad.abs().max()))
        if self.scale > SCALE:
            raise Uncertain("a gradient is too large")

    def _do_gradient(self, step: Step) -> None:
        loss, *views = [self.values[name] for name in step.ins]
        if any(view.memory.writes for view in views):
            raise Uncertain("a target that was written is another node since")
        total = self.value(loss)
        graph = _graph(total)
        if self.written and not self.passed.isdisjoint(graph):
            raise Uncertain("a graph that a backward went through, over memory that may have been written since")
        self.passed |= graph
        targets = [self.value(view) for view in views]
        found = torch.autograd.grad(total, targets, retain_graph=True, allow_unused=True)
        if any(grad is None for grad in found) or any(self._has_equal(view) for view in views):
            raise Uncertain("a target that another tensor may be computed like: here both are one node")
        for name, grad in zip(step.out, found, strict=True):
            self.values[name] = replace(self.fresh(grad.detach(), loss.spread), detached=True)
            self.scale = max(self.scale, float(grad.abs().max()))

    def _do_delete(self, step: Step) -> None:
        self.deleted += [self.value(view) for name in step.ins if isinstance(view := self.values[name], View)]
        super()._do_delete(step)

    def _has_equal(self, target: View) -> bool:
        """Whether another value is as a target is, so that both may be one expression: views of all of it are."""
        mine = self.value(target)
        others = [
            self.value(other) for other in self.values.values() if isinstance(other, View) and other is not target
        ] + self.deleted
        alike = [o for o in others if o.shape == mine.shape and o.dtype == mine.dtype]
        return any(torch.equal(other, mine) for other in alike)

    def _do_zero_grad(self, step: Step) -> None:
        for name in step.ins:
            self.grads[name] = None

    def _do_grad_of(self, step: Step) -> None:
        grad = self.grads[step.ins[0]]
        if grad is None:
            raise Uncertain("no gradient")
        self.values[step.out[0]] = self.fresh(grad.clone(), self.values[step.ins[0]].spread)

    def _do_sgd(self, step: Step) -> None:
        slots = [self._parameter(name) for name in step.ins]
        self.values[step.out[0]] = (step.ins, slots, torch.optim.SGD(slots, **step.arg))

    def _do_adam(self, step: Step) -> None:
        slots = [self._parameter(name) for name in step.ins]
        options = {"lr": step.arg["lr"], "weight_decay": step.arg.get("weight_decay", 0.0), "eps": step.arg["eps"]}
        self.values[step.out[0]] = (step.ins, slots, torch.optim.Adam(slots, **options))

    def _do_step(self, step: Step) -> None:
        names, slots, optimizer = self.values[step.ins[0]]
        if any(self.grads[name] is None for name in names):
            raise Uncertain("no gradient")
        for name, slot in zip(names, slots, strict=True):
            slot.data, slot.grad = self._parameter(name).data, self.grads[name]
        optimizer.step()
        for name, slot in zip(names, slots, strict=True):
            self.put(self.values[name], slot.data.clone())

    def _parameter(self, name: str) -> torch.nn.Parameter:
        return torch.nn.Parameter(self.value(self.values[name]).detach().clone())


def _at(source: T, index: Array, detached: bool) -> T:
    """The elements of a tensor at indices into it as if it were flat."""
    if not detached and index.size == source.numel() and np.array_equal(index.reshape(-1), np.arange(index.size)):
        return source.reshape(index.shape)
    found = source.reshape(-1)[torch.from_numpy(index.reshape(-1))].reshape(index.shape)
    return found.detach() if detached else found


def _graph(total: T) -> set[Any]:
    """The steps of a result, but for leaves. PyTorch frees what they hold after one backward, and raises at a second
    one: tinygraft keeps old values for the first one only, too.
    """
    found, stack = set(), [total.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node not in found and node.next_functions:
            found.add(node)
            stack += [before for before, _ in node.next_functions]
    return found


def references(program: Program) -> list[Value | None]:
    """What the reads should give: the values of float64, with bounds from what float32 does to them."""
    exact, single = Mirror(program), Mirror(program, torch.float32)
    double = any(step.op == "leaf" and step.arg["dtype"] == "float64" for step in program.steps)
    unit = 2.0**-29 if double else 1.0  # of float64, in units of float32
    # powers of Adam's decay are kept in the dtype of its weights: 1 - 0.999 has four digits less than they
    found: list[Value | None] = []
    powers = 2e-5 if "adam" in program.features else 0.0
    for wanted, rough in zip(exact.run(), single.run(), strict=True):
        if (wanted is None) != (rough is None):
            raise Uncertain("rounding decides whether there is a gradient")
        if wanted is None:
            found.append(None)
            continue
        if not wanted.is_floating_point():
            found.append(Value("int32", wanted.numpy()))
            continue
        size = float(wanted.abs().max()) if wanted.numel() else 0.0
        noise = float((wanted - rough.double()).abs().max()) if wanted.numel() else 0.0
        bound = unit * (16 * noise + 2e-6 * size + 5e-7 * exact.scale + powers * max(size, 1.0))
        if not bound <= NARROW * max(size, 0.05):
            raise Uncertain("rounding decides too much")
        dtype, data = "float64" if double else "float32", wanted.numpy().astype(np.float64)
        found.append(Value(dtype, data, np.full(wanted.shape, bound), exact.replaced and not size))
    return found
