"""LLVM IR: a Linear as one function of textual IR, for an LLVM of version 19 or newer.

In: a Linear. Out: a Source of language "llvm". The exported function takes the two arrays of the host's calling
convention, `void NAME(void **buffers, const long long *variables)`, and calls an inner function whose pointers are
`noalias`, which only parameters can be. Registers are stack slots, which LLVM's sroa pass promotes to values; vectors
have the widths of the Linear, so no auto-vectoriser is needed.
"""

from __future__ import annotations

from collections.abc import Mapping

from tinygraft.dtype import DType
from tinygraft.render.dialect import MatrixWords
from tinygraft.render.llvm_block import TYPES, literal, type_of
from tinygraft.render.llvm_expr import EXPR
from tinygraft.render.llvm_memory import MemoryWriter
from tinygraft.render.renderer import Renderer
from tinygraft.render.text import LOOPS, ElementwiseStep, halves
from tinygraft.uop.ops import AxisKind, Ops, StoreHint
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.uop import UOp


class LLVMRenderer(Renderer):
    """Renderer of LLVM IR for the host's calling convention.

    `attributes` are those of the functions, as LLVM writes them, such as '"prefer-vector-width"="512"'.
    `converts_half`: the machine converts between float16 and float32 by an instruction; LLVM would call a library
    otherwise. `fence` names the function, if any, that makes streamed stores visible to other threads. `matrix` has the
    spellings of the matrix units, by their names; `gathers` is that of the Target.
    """

    attributes: str
    converts_half: bool
    fence: str
    gathers: tuple[int, ...]

    language = "llvm"

    def __init__(
        self,
        attributes: str = "",
        converts_half: bool = True,
        fence: str = "",
        matrix: Mapping[str, MatrixWords] | None = None,
        gathers: tuple[int, ...] = (),
    ) -> None:
        self.attributes, self.converts_half, self.fence = attributes, converts_half, fence
        self.matrix: Mapping[str, MatrixWords] | dict[str, MatrixWords] = matrix or {}
        self.gathers = gathers

    def render(self, linear: Linear) -> Source:
        """Return the module of one kernel. Raises GraphError for an op that should have been decomposed."""
        text = LLVMKernel(linear, self.converts_half, self.matrix, self.gathers).text(self.attributes, self.fence)
        return Source(linear.name, text, self.language, linear.signature)


class LLVMKernel(MemoryWriter):
    """The text of one kernel while it is written."""

    def __init__(
        self, linear: Linear, converts_half: bool, matrix: Mapping[str, MatrixWords], gathers: tuple[int, ...]
    ) -> None:
        super().__init__(linear, converts_half, matrix, gathers)
        self.ends: dict[int, str] = {}  # the end of each open loop, by axis

    def text(self, attributes: str, fence: str) -> str:
        """Return the module: a comment, the inner function, the exported function, declarations.

        `attributes` are those of both functions; `fence` names what is called after streamed stores, if anything.
        """
        units = self.units()
        for words in units:
            self.say_all(words.begin)
        self.write()
        for words in units:
            self.say_all(words.end)
        streams = any(u.arg is StoreHint.STREAM for u in self.linear.uops)
        if streams and fence:
            self.call(fence, "void")
        name, params, variables = self.linear.name, self.linear.signature.params, self._variables()
        inner = [f"ptr noalias{'' if p.written else ' readonly'} %data{i}" for i, p in enumerate(params)]
        inner += [f"i64 %{variable}" for variable in variables]
        inner += ["ptr noalias %scratch"] if self.scratch_bytes else []
        outer, arguments = [], []
        for i in range(len(params)):
            outer += [f"  %at{i} = getelementptr ptr, ptr %buffers, i64 {i}", f"  %data{i} = load ptr, ptr %at{i}"]
            arguments.append(f"ptr %data{i}")
        for i, variable in enumerate(variables):
            outer += [f"  %where{i} = getelementptr i64, ptr %variables, i64 {i}",
                      f"  %{variable} = load i64, ptr %where{i}"]  # fmt: skip
            arguments.append(f"i64 %{variable}")
        if self.scratch_bytes:
            slot = len(self.linear.signature.variables) + 2  # after part and parts
            outer += [f"  %room = getelementptr ptr, ptr %variables, i64 {slot}", "  %scratch = load ptr, ptr %room"]
            arguments.append("ptr %scratch")
        lines = [
            f"; {name}: {', '.join(self.linear.actions) or 'no actions'}",
            f'define internal void @"{name}.body"({", ".join(inner)}) #0 {{',
            *("entry:", *self.slots, *self.body, "  ret void", "}", ""),
            f'define void @"{name}"(ptr %buffers, ptr %variables) #0 {{',
            *(*outer, f'  call void @"{name}.body"({", ".join(arguments)})', "  ret void", "}", ""),
            *(words.header for words in units),
            *(f"declare {declaration}" for declaration in self.declared.values()),
            f"attributes #0 = {{ {' '.join(('nounwind', attributes)).strip()} }}",
            *(["!0 = !{i32 1}"] if streams else []),
        ]
        return "\n".join(lines) + "\n"

    def say_all(self, lines: str) -> None:
        """Write instructions that have no result, one a line."""
        for line in lines.splitlines():
            self.do(line)

    def _variables(self) -> list[str]:
        """Return the names of the arguments that are variables, with those of the part of a chunked kernel last."""
        signature = self.linear.signature
        return [f"var.{v}" for v in signature.variables] + (["part", "parts"] if signature.chunked else [])

    # Values

    def value(self, u: UOp, step: ElementwiseStep, operands: list[str]) -> str:
        """Write an instruction, and return the name of its result; adding 0 to an index needs none."""
        if u.dtype.kind == "index" and u.op is Ops.ADD and "0" in operands:
            return operands[operands[0] == "0"]
        return EXPR[step.op](self, step, *operands)

    def splat(self, value: str, dtype: DType, width: int) -> str:
        """Broadcast a scalar to every lane. Returns the name of the vector."""
        return self.broadcast(value, TYPES[dtype], width)

    def const(self, u: UOp) -> None:
        """Name a literal."""
        self.names[u, ()] = literal(u.arg, u.dtype)

    def variable(self, u: UOp) -> None:
        """Name an argument of the inner function."""
        self.names[u, ()] = f"%var.{u.arg.name}"

    # Loops

    def range_(self, u: UOp) -> None:
        """Name the lanes of a vector, or copies, or write the head of a loop.

        Raises GraphError for any other kind, as those of a grid.
        """
        kind = u.arg.kind
        if kind is AxisKind.VECTOR:
            self.bases[u, ()] = "0"
            self.names[u, ()] = "<" + ", ".join(f"i64 {k}" for k in range(int(u.src[0].arg))) + ">"
        elif kind is AxisKind.UNROLL:
            self.names.update({(u, (k,)): str(k) for k in range(int(u.src[0].arg))})
        elif kind in LOOPS:
            self._loop(u, *self._span(u))
        else:
            raise self.wrong_range(u)

    def _span(self, u: UOp) -> tuple[str, str]:
        """Return the first value of a counter and its end; of a PARALLEL range those of this thread's chunk."""
        size = self.names[u.src[0], ()]
        if u.arg.kind is not AxisKind.PARALLEL or not self.linear.signature.chunked:
            return "0", size
        begin = self.let(f"mul nsw i64 {size}, %part", "begin")
        end = self.let(f"add nsw i64 {begin}, {size}", "end")
        return self.let(f"udiv i64 {begin}, %parts", "first"), self.let(f"udiv i64 {end}, %parts", "last")

    def _loop(self, u: UOp, first: str, last: str) -> None:
        """Write the head of a loop that is tested at its end, and before it where it may have no iterations."""
        axis = u.arg.axis
        if first == "0" and last.isdigit() and int(last) > 0:
            self.do(f"br label %loop{axis}")
        else:
            some = self.let(f"icmp slt i64 {first}, {last}", "some")
            self.do(f"br i1 {some}, label %loop{axis}, label %exit{axis}")
        before = self.block
        self.label(f"loop{axis}")
        self.do(f"%r{axis} = phi i64 [ {first}, %{before} ], [ %next{axis}, %latch{axis} ]")
        self.names[u, ()] = f"%r{axis}"
        self.ends[axis] = last
        self.splats.append({})

    def end(self, u: UOp) -> None:
        """Write the test of a loop and begin the block after it."""
        axis = u.src[0].arg.axis
        self.do(f"br label %latch{axis}")
        self.label(f"latch{axis}")
        self.do(f"%next{axis} = add nuw nsw i64 %r{axis}, 1")
        more = self.let(f"icmp slt i64 %next{axis}, {self.ends.pop(axis)}", "more")
        self.do(f"br i1 {more}, label %loop{axis}, label %exit{axis}")
        self.label(f"exit{axis}")
        self.splats.pop()

    def barrier(self, u: UOp) -> None:
        """Write nothing: a kernel for the host has one thread."""

    # Registers

    def reg(self, u: UOp) -> None:
        """Declare a stack slot for each copy."""
        width = self.walk.width(u)
        type_ = type_of(u.dtype, width)
        for lane in self.walk.lanes(u):
            name = self.register(u, lane)
            self.slots.append(f"  %{name} = alloca {type_}")
            self.do(f"store {type_} {self.operand(u.src[0], lane, width)}, ptr %{name}")

    def accum(self, u: UOp) -> None:
        """Write, for each copy of a register, that it is read, combined with the operands and stored."""
        for register, values, step in self.accumulated(u):
            type_ = type_of(step.dtype, step.width)
            old = self.let(f"load {type_}, ptr %{register}", "old")
            if step.op is Ops.DOT:
                new = self.let(self._dot(u, step, old, values), "dot")
                self.do(f"store {type_} {new}, ptr %{register}")
                continue
            operands = (*values[:2], old) if step.op is Ops.FMA else (old, *values)
            new = EXPR[step.op](self, step, *operands)
            if len(values) == 3:
                new = EXPR[Ops.WHERE](self, step, values[2], new, old)
            self.do(f"store {type_} {new}, ptr %{register}")

    def _dot(self, u: UOp, step: ElementwiseStep, old: str, values: list[str]) -> str:
        """Return the instruction that adds the products of two vectors of packed lanes to a vector."""
        words, given = self.words_of(u.arg), type_of(u.arg.word, step.width)
        if words.operand and words.operand != given:
            values = [self.let(f"bitcast {given} {value} to {words.operand}", "words") for value in values]
        return words.multiply.format(c=old, a=values[0], b=values[1])

    def get(self, u: UOp) -> None:
        """Read."""
        reg = u.src[0]
        type_ = type_of(reg.dtype, self.walk.width(reg))
        for lane in self.walk.lanes(reg):
            self.names[u, self.walk.copy(u, lane)] = self.let(f"load {type_}, ptr %{self.register(reg, lane)}", "get")

    def fold(self, u: UOp) -> None:
        """Fold halves of a vector onto each other down to one lane.

        The lanes are combined in the order in which the C family does it.
        """
        vector, span = u.src
        size = halves(self.linear, span)
        for lane in self.walk.lanes(u):
            value, width = self.operand(vector, lane, size), size
            while width > 1:
                type_, half = type_of(u.dtype, width), width // 2
                if half == 1:
                    low, high = self.lane(value, type_, 0), self.lane(value, type_, 1)
                else:
                    low, high = (
                        self.let(f"shufflevector {type_} {value}, {type_} poison, <{half} x i32> <{picked}>", "half")
                        for picked in (_numbers(0, half), _numbers(half, width))
                    )
                value, width = EXPR[u.arg.op](self, ElementwiseStep(u.arg.op, u.dtype, u.dtype, half), low, high), half
            self.names[u, self.walk.copy(u, lane)] = value


def _numbers(first: int, end: int) -> str:
    return ", ".join(f"i32 {k}" for k in range(first, end))
