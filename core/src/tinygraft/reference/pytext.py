"""Python text: a Linear of any Target as a Python module, the executable meaning of the linear form.

In goes a Linear, out comes a Source of language "python". Loops stay loops; a node that depends on VECTOR or UNROLL
ranges becomes one statement per lane and copy. The module defines

    thread(data0, ..., touched, variables, part, parts, g0, g1, g2, lane, shared memory)   one thread of one group
    group(data0, ..., touched, variables, part, parts, g0, g1, g2)                         all threads of one group
    watched                                        the buffers of which `touched` knows who reads and writes them

A kernel with barriers has a `thread` that yields at each of them, and `group` runs its threads in lockstep (group.py).
Names that are not defined in the text are those of numbers.namespace.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.renderer import Renderer
from tinygraft.uop.linear import Lane, copies
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

SYMBOLS = {
    Ops.ADD: "+", Ops.SUB: "-", Ops.MUL: "*", Ops.CMPLT: "<", Ops.CMPEQ: "==", Ops.CMPNE: "!=", Ops.AND: "&",
    Ops.OR: "|", Ops.XOR: "^", Ops.SHR: ">>",
}  # fmt: skip
# Ops whose result, on values of a dtype, is a value of that dtype without rounding or wrapping.
EXACT = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE, Ops.AND, Ops.OR, Ops.XOR, Ops.WHERE, Ops.MAX, Ops.MIN, Ops.TRUNC})
COPIED = (AxisKind.VECTOR, AxisKind.UNROLL)


class PythonRenderer(Renderer):
    """Renderer of Python modules."""

    language = "python"

    def render(self, linear: Linear) -> Source:
        """Return the module of one kernel as a Source. Raises GraphError for what has no text."""
        return Source(linear.name, _PythonText(linear).module(), self.language, linear.signature)


def literal(value: bool | int | float) -> str:
    """Return a constant as Python text, safe beside any operator."""
    text = "-nan" if value != value and math.copysign(1.0, value) < 0 else repr(value)
    return text if text.isalnum() or not text.startswith("-") else f"({text})"


def fitted(text: str, dtype: DType) -> str:
    """Return an expression rounded or wrapped to `dtype`, of which its operands were values."""
    if dtype in (dtypes.index, dtypes.float64):
        return text
    if dtype is dtypes.float32:
        return f"f32({text}).value"
    if dtype.kind == "float":
        return f"round_half({text})" if dtype is dtypes.float16 else f"to_bfloat16({text})"
    if dtype.kind == "bool":
        return f"({text}) != 0"
    mask = (1 << dtype.bits) - 1
    if dtype.kind == "uint":
        return f"({text}) & {mask}"
    return f"(({text}) + {mask // 2 + 1} & {mask}) - {mask // 2 + 1}"


def cast(a: str, source: DType, target: DType) -> str:
    """Return an expression of `source` as one of `target`."""
    if source is target:
        return a
    if target.kind == "bool":
        return f"{a} != 0"
    if source.kind == "float":
        if target.kind != "float":
            return f"to_{target.name}({a})"
        return a if target.itemsize > source.itemsize else fitted(a, target)
    if target.kind == "float":
        return f"to_{target.name}({a})"
    holds = dtypes.min(target) <= dtypes.min(source) and dtypes.max(source) <= dtypes.max(target)
    if target is dtypes.index or holds:
        return f"int({a})" if source.kind == "bool" else a
    return fitted(a, target)


def expression(op: Ops, dtype: DType, sources: Sequence[DType], names: Sequence[str]) -> str:
    """An elementwise op on operands given by names or literals, as a Python expression of dtype."""
    a, b = names[0], names[-1]
    if op is Ops.CAST:
        return cast(a, sources[0], dtype)
    if op is Ops.BITCAST:
        return f"from_bits_{dtype.name}(bits_{sources[0].name}({a}))"
    if op is Ops.WHERE:
        return f"{names[1]} if {a} else {b}"
    if op in (Ops.MAX, Ops.MIN):
        order = f"{a} {'>=' if op is Ops.MAX else '<='} {b}"
        return f"{a} if {f'{a} != {a} or ' if dtype.kind == 'float' else ''}{order} else {b}"
    if op is Ops.NOT:
        return (
            f"not {a}"
            if dtype.kind == "bool"
            else f"{a} ^ {(1 << dtype.bits) - 1}"
            if dtype.kind == "uint"
            else f"~{a}"
        )
    if op is Ops.NEG:
        return f"-{a}" if dtype.kind == "float" else fitted(f"-{a}", dtype)
    if op is Ops.FMA:
        return (
            f"fma_{dtype.name}({', '.join(names)})"
            if dtype.kind == "float"
            else fitted(f"{a} * {names[1]} + {b}", dtype)
        )
    if op is Ops.FDIV:
        return fitted(f"{a} / {b} if {b} else fdiv({a}, {b})", dtype)
    if op is Ops.SQRT:
        return fitted(f"math_sqrt({a}) if {a} >= 0 else nan", dtype)
    plain = op in SYMBOLS and op is not Ops.SHR
    text = f"{a} {SYMBOLS[op]} {b}" if plain else f"{op.name.lower()}({', '.join(names)})"
    return text if op in EXACT else fitted(text, dtype)


class _PythonText:
    """The text of one Linear, as it is written."""

    def __init__(self, linear: Linear) -> None:
        self.linear = linear
        self.copied = {u.arg.axis: u for u in linear.uops if u.op is Ops.RANGE and u.arg.kind in COPIED}
        self.number = {u: i for i, u in enumerate(linear.uops)}
        self.shared = [u for u in linear.uops if u.op is Ops.LOCAL and u.arg.shared]
        self.watched = _watched(linear)
        self.lines: list[str] = []
        self.depth = 1

    # Names

    def lanes(self, mask: int) -> Iterator[Lane]:
        """Return every lane and copy of a node with this mask of ranges."""
        return copies(mask, self.copied)

    def name(self, node: UOp, lane: Lane) -> str:
        """Return what a node is called in one of its lanes and copies."""
        op = node.op
        if op is Ops.CONST:
            return literal(node.arg)
        if op is Ops.AFTER:
            return self.name(node.src[0], lane)
        if op is Ops.PARAM:
            return f"data{node.arg.slot}"
        if op is Ops.LOCAL:
            return f"local{node.arg.number}"
        if op is Ops.VARIABLE:
            return f"var{self.linear.signature.variables.index(node.arg.name)}"
        if op is Ops.RANGE and node.arg.axis in self.copied:
            return str(lane[node.arg.axis])
        stem = (
            f"r{node.arg.axis}"
            if op is Ops.RANGE
            else f"reg{node.arg.number}"
            if op is Ops.REG
            else f"tile{node.arg.number}"
            if op is Ops.TILE
            else f"x{self.number[node]}"
        )
        return stem + "".join(f"_{lane[axis]}" for axis in sorted(self.copied) if node.ranges >> axis & 1)

    # Text

    def put(self, line: str) -> None:
        """Append a line of text, indented."""
        self.lines.append("    " * self.depth + line)

    def module(self) -> str:
        """Return the whole module as text."""
        signature = self.linear.signature
        data = [f"data{slot}" for slot in range(len(signature.params))]
        variables = [f"var{i}" for i in range(len(signature.variables))]
        touched = [f"touched{slot}" for slot in self.watched]
        place = [*data, *touched, *variables, "part", "parts", "g0", "g1", "g2"]
        shared = [f"local{u.arg.number}" for u in self.shared]
        if self.watched:
            self.put("who = part, g0, g1, g2, lane")
        for node in self.linear.uops:
            self.instruction(node)
        threads = f"(thread({', '.join([*place, 'lane', *shared])}) for lane in range({signature.block_threads}))"
        waits = any(u.op is Ops.BARRIER for u in self.linear.uops)
        actions = ", ".join(self.linear.actions)
        head = [f"# {self.linear.name}" + (f": {actions}" if actions else "")]
        head += [f"# var{i} is {name}" for i, name in enumerate(signature.variables)]
        head += [f"parts = {self.linear.target.chunks if signature.chunked else 1}"]
        head += [f"watched = {[f'data{slot}' for slot in self.watched]}", ""]
        group = [f"local{u.arg.number} = Shared('local{u.arg.number}', {u.arg.size})" for u in self.shared]
        group += [f"lockstep({threads}, [{', '.join(shared)}])"] if waits else [f"for _ in {threads}:", "    pass"]
        return "\n".join([
            *head, f"def thread({', '.join([*place, 'lane', *shared])}):", *self.lines, "    return", "",
            f"def group({', '.join(place)}):", *("    " + line for line in group), "",
        ])  # fmt: skip

    def instruction(self, node: UOp) -> None:
        """Append the statements of one instruction. Raises GraphError for an op that has none."""
        op = node.op
        if op is Ops.RANGE:
            self.range(node)
        elif op is Ops.END:
            if self.lines[-1].endswith(":"):
                self.put("pass")
            self.depth -= 1
        elif op is Ops.LOCAL:
            if not node.arg.shared:
                junk = {"float": "nan", "bool": "True"}.get(node.dtype.kind, "-1")
                self.put(f"local{node.arg.number} = [{junk}] * {node.arg.size}")
        elif op is Ops.BARRIER:
            self.put("yield")
        elif op is Ops.STORE:
            self.store(node)
        elif op is Ops.LOAD:
            for lane in self.lanes(node.ranges):
                self.put(f"{self.name(node, lane)} = {self.load(node, lane)}")
        elif op in (Ops.REG, Ops.GET):
            for lane in self.lanes(node.ranges):
                self.put(f"{self.name(node, lane)} = {self.name(node.src[0], lane)}")
        elif op is Ops.ACCUM:
            self.accumulate(node)
        elif op is Ops.LANES:
            self.fold_lanes(node)
        elif op in (Ops.TILE, Ops.PRODUCT, Ops.PUT):
            self.tiles(node)
        elif op in ELEMENTWISE:
            for lane in self.lanes(node.ranges):
                names = [self.name(s, lane) for s in node.src]
                text = expression(op, node.dtype, [s.dtype for s in node.src], names)
                self.put(f"{self.name(node, lane)} = {text}")
        elif op not in (Ops.CONST, Ops.PARAM, Ops.VARIABLE, Ops.AFTER, Ops.SINK):
            raise GraphError(f"kernel {self.linear.name}: {op.name} is not an instruction of the linear form")

    def range(self, node: UOp) -> None:
        """Write the head of a loop, or the assignment of a grid or thread index. Raises GraphError.

        A parallel loop is cut into `parts`, of which a call runs one. Too short a THREAD range would let threads pass
        its end.
        """
        kind, size, name = node.arg.kind, self.name(node.src[0], {}), self.name(node, _ANY)
        if kind in (AxisKind.LOOP, AxisKind.ORDERED):
            self.put(f"for {name} in range({size}):")
            self.depth += 1
        elif kind is AxisKind.PARALLEL:
            self.put(f"for {name} in range({size} * part // parts, {size} * (part + 1) // parts):")
            self.depth += 1
        elif kind is AxisKind.GRID:
            self.put(f"{name} = g{node.arg.dim}")
        elif kind is AxisKind.THREAD:
            self.put(f"{name} = lane")
            if node.src[0].hi < self.linear.signature.block_threads:
                raise GraphError(f"kernel {self.linear.name}: a THREAD range counts to {node.src[0].hi} in groups of "
                                 f"{self.linear.signature.block_threads} threads")  # fmt: skip

    def load(self, node: UOp, lane: Lane) -> str:
        """One element of memory as an expression; a closed gate reads nothing and gives 0."""
        text = self.element(_memory(node.src[0]), self.name(node.src[1], lane))
        if len(node.src) == 2:
            return text
        zero = False if node.dtype.kind == "bool" else 0.0 if node.dtype.kind == "float" else 0
        return f"({text}) if {self.name(node.src[2], lane)} else {zero}"

    def element(self, memory: UOp, index: str) -> str:
        """Return what is in memory at an index, as an expression."""
        name = self.name(memory, _ANY)
        if memory in self.shared:
            return f"{name}.read({index}, lane)"
        if memory.op is Ops.LOCAL:
            return f"peek({name}, {name!r}, {index})"
        watched = memory.arg.slot in self.watched
        element = f"{name}[touched{memory.arg.slot}.read({index}, who)]" if watched else f"{name}[{index}]"
        if memory.dtype in (dtypes.float16, dtypes.bfloat16):
            element = f"table_{memory.dtype.name}[{element}]"
        return f"{element} if 0 <= {index} < {memory.arg.size} else outside({name!r}, {index}, {memory.arg.size})"

    def tiles(self, node: UOp) -> None:
        """TILE, PRODUCT and PUT, which the threads of a group do together: here the first of them for all."""
        unit = node.arg.unit
        if self.linear.signature.block_threads > 1:
            self.put("if lane == 0:")
        self.depth += self.linear.signature.block_threads > 1
        for lane in self.lanes(node.ranges):
            if node.op is Ops.TILE:
                zero = "0.0" if unit.result.kind == "float" else "0"
                self.put(f"{self.name(node, lane)} = [{zero}] * {unit.rows * unit.columns}")
            elif node.op is Ops.PRODUCT:
                tile, a, at, b, bt = node.src
                self.put(f"multiply_{unit.first.name}_{unit.second.name}_{unit.result.name}({self.name(tile, lane)}, "
                         f"lambda i: {self.element(_memory(a), 'i')}, {self.name(at, lane)}, {node.arg.first}, "
                         f"lambda i: {self.element(_memory(b), 'i')}, {self.name(bt, lane)}, {node.arg.second}, "
                         f"{unit.columns}, {unit.terms}, {unit.packed})")  # fmt: skip
            else:
                memory, at, tile = _memory(node.src[0]), node.src[1], node.src[2]
                name = self.name(memory, lane)
                place = f"{self.name(at, lane)} + i // {unit.columns} * {node.arg.result} + i % {unit.columns}"
                self.put(f"for i, x in enumerate({self.name(tile, lane)}):")
                if memory in self.shared:
                    self.put(f"    {name}.write({place}, x, lane)")
                else:
                    self.put(f"    if not 0 <= {place} < {memory.arg.size}: "
                             f"outside({name!r}, {place}, {memory.arg.size})")  # fmt: skip
                    self.put(f"    {name}[{place}] = x")
        self.depth -= self.linear.signature.block_threads > 1

    def store(self, node: UOp) -> None:
        """Write a STORE copy by copy, under its gate, with checks of the index and of other threads' accesses."""
        memory = _memory(node.src[0])
        for lane in self.lanes(node.ranges):
            name, index, value = self.name(memory, lane), self.name(node.src[1], lane), self.name(node.src[2], lane)
            if memory.op is Ops.PARAM and memory.dtype in (dtypes.float16, dtypes.bfloat16):
                value = f"bits_{memory.dtype.name}({value})"
            gated = len(node.src) == 4
            if gated:
                self.put(f"if {self.name(node.src[3], lane)}:")
            self.depth += gated
            if memory in self.shared:
                self.put(f"{name}.write({index}, {value}, lane)")
            else:
                self.put(f"if not 0 <= {index} < {memory.arg.size}: outside({name!r}, {index}, {memory.arg.size})")
                if memory.op is Ops.PARAM and memory.arg.slot in self.watched:
                    self.put(f"touched{memory.arg.slot}.write({index}, who)")
                self.put(f"{name}[{index}] = {value}")
            self.depth -= gated

    def accumulate(self, node: UOp) -> None:
        """Write an ACCUM copy by copy: register = op(register, value), or FMA(value, value, register).

        Raises GraphError for lanes of a vector into one register, whose order nothing would say.
        """
        register, *values = node.src
        extra = node.ranges & ~register.ranges
        for axis, vector in self.copied.items():
            if extra >> axis & 1 and vector.arg.kind is AxisKind.VECTOR:
                raise GraphError(f"kernel {self.linear.name}: a vector over axis {axis} is accumulated into register "
                                 f"{register.arg.number}, which has no lanes; use LANES")  # fmt: skip
        for lane in self.lanes(node.ranges):
            name = self.name(register, lane)
            names = [self.name(value, lane) for value in values]
            if isinstance(node.arg, MatrixUnit):
                self.put(f"{name} = dot_{node.arg.first.name}_{node.arg.second.name}_{node.dtype.name}("
                         f"{name}, {', '.join(names)}, {node.arg.packed})")  # fmt: skip
                continue
            gate = f" if {names.pop()} else {name}" if len(values) == 3 else ""
            names = [*names, name] if node.arg is Ops.FMA else [name, *names]
            text = expression(node.arg, register.dtype, [register.dtype] * len(names), names) + gate
            self.put(f"{name} = {text}")

    def fold_lanes(self, node: UOp) -> None:
        """Halves folded onto each other until one lane is left; of an odd number the middle one waits."""
        vector, axis = node.src[0], node.src[1].arg.axis
        for lane in self.lanes(node.ranges):
            result = self.name(node, lane)
            names = [self.name(vector, lane | {axis: i}) for i in range(int(node.src[1].src[0].arg))]
            while len(names) > 1:
                half = (len(names) + 1) // 2
                for i in range(len(names) - half):
                    text = expression(node.arg.op, node.dtype, (node.dtype,) * 2, (names[i], names[i + half]))
                    names[i] = f"{result}l{i}"
                    self.put(f"{names[i]} = {text}")
                del names[half:]
            self.put(f"{result} = {names[0]}")


class _AnyLane(dict[int, int]):
    def __missing__(self, axis: int) -> int:
        return 0


_ANY: Lane = _AnyLane()


def _watched(linear: Linear) -> list[int]:
    """The buffers that a kernel writes, where it has several threads that could write them."""
    signature = linear.signature
    kinds = {u.arg.kind for u in linear.uops if u.op is Ops.RANGE}
    several = signature.block_threads > 1 or AxisKind.GRID in kinds or (signature.chunked and linear.target.chunks > 1)
    return [slot for slot, param in enumerate(signature.params) if param.written and several]


def _memory(node: UOp) -> UOp:
    """Return the PARAM or LOCAL upstream of the AFTERs."""
    while node.op is Ops.AFTER:
        node = node.src[0]
    return node
