"""The C family: a Linear as one readable kernel of C, in the dialect of a device.

In goes a Linear, out comes a Source. A value has a variable of its own where it is used more than once, loaded, a
vector or long; else it stands where it is used. Vectors are GCC's vector types (clang has them too), UNROLL copies
are variables named with their numbers.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import GraphError
from tinygraft.render.cstyle_expr import EXPR
from tinygraft.render.cstyle_words import DialectWords, bare
from tinygraft.render.dialect import Dialect
from tinygraft.render.renderer import Renderer
from tinygraft.render.text import LOOPS, ElementwiseStep, LinearWalk, VectorAccess, Writer, halves, memory
from tinygraft.uop.linear import Lane
from tinygraft.uop.ops import AxisKind, Ops, StoreHint
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.uop import UOp

ALIGNED = 16  # bytes; where a shared array begins in the pool of those that are not declared
LONGEST = 60  # characters up to which an expression is inlined
ATOM = re.compile(r"[\w.]+|-?[\d.]+\w*")


class CStyleRenderer(Renderer):
    """Renderer of one dialect of the C family."""

    dialect: Dialect

    def __init__(self, dialect: Dialect) -> None:
        self.dialect, self.language = dialect, dialect.language

    def render(self, linear: Linear) -> Source:
        """Return the kernel with its types and helpers. Raises GraphError for an op that the dialect cannot write."""
        kernel = CStyleKernel(linear, self.dialect)
        signature = replace(linear.signature, shared=kernel.pooled) if kernel.pooled else linear.signature
        return Source(linear.name, kernel.text(), self.language, signature)


class CStyleKernel(Writer):
    """The text of one kernel while it is written."""

    dialect: Dialect
    words: DialectWords
    places: dict[UOp, int]

    def __init__(self, linear: Linear, dialect: Dialect) -> None:
        super().__init__(linear, dialect.matrix)
        self.dialect, self.words = dialect, DialectWords(linear.name, dialect)
        self.head: list[str] = []  # declarations of memory at the kernel's first statement
        self.lines: list[str] = []
        self.depth: int = 1
        self.number: int = 0
        self.inline: set[UOp] = _used_once(self.walk)
        self.last_accum: dict[UOp, int] = {u.src[0]: i for i, u in enumerate(linear.uops) if u.op is Ops.ACCUM}
        self.number_of: dict[UOp, int] = {u: i for i, u in enumerate(linear.uops)}
        self.places, total = _places(linear)  # of shared arrays, in the pool
        self.pooled: int = total if dialect.declared and total > dialect.declared else 0  # bytes of the pool
        if self.pooled:
            self.head.append(f"    {dialect.pool}")

    def text(self) -> str:
        """Return the source: header comment, types and helpers, kernel."""
        units = self.units()
        for words in units:
            self.say_all(words.begin)
        self.write()
        for words in units:
            self.say_all(words.end)
        if self.dialect.fence and any(u.arg is StoreHint.STREAM for u in self.linear.uops):
            self.say(self.dialect.fence)
        head = f"/* {self.linear.name}: {', '.join(self.linear.actions) or 'no actions'} */"
        before = [text for text in dict.fromkeys((self.dialect.header, *(words.header for words in units))) if text]
        before += self.words.helpers.values()
        body = [*self._opening(), *self.head, *self.lines, "}", ""]
        return "\n".join([head, *before, *([""] if before else []), *body])

    def _opening(self) -> list[str]:
        """Return the lines from the signature to the kernel's first statement.

        Buffers are `data0` and so on by slot, variables `var_NAME`; a parallel loop runs from `part` of `parts`. A
        dialect names all of these as parameters, or the variables as one array, or has all packed in two arrays,
        scratch memory then last among the values.
        """
        signature, dialect = self.linear.signature, self.dialect
        buffers = []
        for i, param in enumerate(signature.params):
            const = "" if param.written else "const "
            buffers.append(f"{dialect.pointer}{const}{self._stored(param.dtype)} *{dialect.restrict} data{i}")
        long_ = self.words.type(dtypes.index)
        shares = ["part", "parts"] if signature.chunked and not dialect.part else []
        names = [f"var_{v}" for v in signature.variables] + shares
        scratch_slot = len(signature.variables) + 2  # after part and parts, which the caller always passes
        kernel = dialect.kernel.format(threads=signature.block_threads)
        if not dialect.packed:
            share = f"    const {long_} part = {dialect.part}, parts = {dialect.parts};"
            given = [dialect.values] if names and dialect.values else [f"{long_} {name}" for name in names]
            parameters = [*buffers, *given, *([dialect.positions] if dialect.positions else [])]
            unpacked = [f"    const {long_} {name} = variables[{i}];" for i, name in enumerate(names)]
            return [
                f"{kernel} {self.linear.name}({', '.join(parameters)}) {{",
                *(unpacked if dialect.values else []),
                *([share] if signature.chunked and dialect.part else []),
            ]
        return [
            f"{kernel} {self.linear.name}(void **buffers, const {long_} *variables) {{",
            *(f"    {buffer} = buffers[{i}];" for i, buffer in enumerate(buffers)),
            *(f"    const {long_} {name} = variables[{i}];" for i, name in enumerate(names)),
            *([f"    char *scratch = (char *)variables[{scratch_slot}];"] if self.scratch_bytes else []),
        ]

    def _stored(self, dtype: DType) -> str:
        """Return the type of an element in memory: a bool takes a byte."""
        return self.words.type(dtypes.uint8 if dtype is dtypes.bool else dtype)

    def say(self, line: str) -> None:
        """Write a line at the current depth."""
        self.lines.append("    " * self.depth + line)

    def say_all(self, lines: str) -> None:
        """Write lines at the current depth; none for an empty text."""
        for line in lines.splitlines():
            self.say(line)

    def declare(self, text: str, dtype: DType, width: int, hint: str) -> str:
        """Declare a variable for a value. Returns its name.

        `hint` is how that begins.
        """
        name = f"{hint}{self.number}"
        self.number += 1
        self.say(f"const {self.words.type(dtype, width)} {name} = {bare(text)};")
        return name

    # Values

    def value(self, u: UOp, step: ElementwiseStep, operands: list[str]) -> str:
        """Return an expression where it is used once and not in a deeper loop, else the name of a variable for it."""
        if u.dtype.kind == "index" and (short := _short_index(u.op, operands)) is not None:
            return short
        text = EXPR[step.op](self.words, step, *operands)
        is_index = u.dtype.kind == "index" and step.width == 1
        if ATOM.fullmatch(text) or ((is_index or u in self.inline) and len(text) <= LONGEST):
            return text
        return self.declare(text, step.dtype, step.width, "i" if u.dtype.kind == "index" else "v")

    def splat(self, value: str, dtype: DType, width: int) -> str:
        """Return the text of a scalar in every lane."""
        return self.words.splat(value, dtype, width)

    def const(self, u: UOp) -> None:
        """A literal."""
        self.names[u, ()] = self.words.literal(u.arg, u.dtype)

    def variable(self, u: UOp) -> None:
        """A parameter."""
        self.names[u, ()] = f"var_{u.arg.name}"

    # Loops

    def range_(self, u: UOp) -> None:
        """Name the lanes of a vector, copies, a grid or thread index, or write the head of a loop.

        Raises GraphError for a grid or thread index in a dialect without a word for it.
        """
        kind, name = u.arg.kind, f"r{u.arg.axis}"
        long_ = self.words.type(dtypes.index)
        if kind is AxisKind.VECTOR:
            size = int(u.src[0].arg)
            self.bases[u, ()] = "0"
            if u in self.walk.whole:
                lanes = ", ".join(map(str, range(size)))
                self.names[u, ()] = self.declare(f"{{{lanes}}}", dtypes.index, size, "lane")
        elif kind is AxisKind.UNROLL:
            self.names.update({(u, (k,)): str(k) for k in range(int(u.src[0].arg))})
        elif kind in (AxisKind.GRID, AxisKind.THREAD):
            word = self.dialect.group if kind is AxisKind.GRID else self.dialect.thread
            if not word:
                raise self.wrong_range(u)
            self.say(f"const {long_} {name} = {word.format(dim=u.arg.dim, axis='xyz'[u.arg.dim])};")
            self.names[u, ()] = name
        else:
            size_text, first, last = self.names[u.src[0], ()], "0", self.names[u.src[0], ()]
            if kind is AxisKind.PARALLEL and self.linear.signature.chunked:
                first, last = f"{size_text} * part / parts", f"{size_text} * (part + 1) / parts"
            self.say(f"for ({long_} {name} = {first}; {name} < {last}; {name}++) {{")
            self.depth += 1
            self.names[u, ()] = name

    def end(self, u: UOp) -> None:
        """The closing brace of a loop."""
        self.depth -= 1
        self.say("}")

    def barrier(self, u: UOp) -> None:
        """Write the dialect's barrier; a single thread needs none. Raises GraphError where several have none."""
        if self.dialect.barrier and self.dialect.shared:
            self.say(self.dialect.barrier)
        elif self.linear.signature.block_threads > 1:
            raise GraphError(
                f"kernel {self.linear.name}: {self.linear.signature.block_threads} threads share memory and wait at a "
                f"barrier; this dialect of {self.dialect.language} needs words for both, "
                "Dialect(shared=..., barrier=...)"
            )

    # Registers

    def reg(self, u: UOp) -> None:
        """A variable for each copy."""
        width = self.walk.width(u)
        for lane in self.walk.lanes(u):
            first = self.operand(u.src[0], lane, width)
            self.say(f"{self.words.type(u.dtype, width)} {self.register(u, lane)} = {bare(first)};")

    def accum(self, u: UOp) -> None:
        """An assignment for each copy."""
        for register, values, step in self.accumulated(u):
            if step.op is Ops.DOT:
                text = self.words_of(u.arg).multiply.format(c=register, a=values[0], b=values[1])
                self.say(f"{register} = ({self.words.type(step.dtype, step.width)}){text};")
                continue
            operands = (*values[:2], register) if step.op is Ops.FMA else (register, *values)
            new = EXPR[step.op](self.words, step, *operands)
            if len(values) == 3:
                new = EXPR[Ops.WHERE](self.words, step, values[2], new, register)
            self.say(f"{register} = {bare(new)};")

    def get(self, u: UOp) -> None:
        """Name the register itself, or a copy of it where a later ACCUM changes it."""
        reg = u.src[0]
        still = self.last_accum.get(reg, -1) > self.number_of[u]
        for lane in self.walk.lanes(reg):
            name = self.register(reg, lane)
            self.names[u, self.walk.copy(u, lane)] = (
                self.declare(name, reg.dtype, self.walk.width(reg), "v") if still else name
            )

    def fold(self, u: UOp) -> None:
        """Call a helper that folds halves of a vector onto each other down to one lane.

        As LLVM's renderer does it: both devices add the lanes in the same order, and so give the same bits.
        """
        vector, span = u.src
        size = halves(self.linear, span)
        type_ = self.words.type(u.dtype, size)
        step = ElementwiseStep(u.arg.op, u.dtype, u.dtype, 1)
        one = EXPR[step.op](self.words, step, "x[k]", "x[k + apart]")
        name = self.words.helper(
            f"fold_{u.arg.op.name.lower()}_{type_}", self.words.type(u.dtype), f"{type_} x",
            f"for (int apart = {size // 2}; apart; apart /= 2)\n"
            f"        for (int k = 0; k < apart; k++) x[k] = {bare(one)};\n    return x[0];",
        )  # fmt: skip
        for lane in self.walk.lanes(u):
            text = f"{name}({bare(self.operand(vector, lane, size))})"
            self.names[u, self.walk.copy(u, lane)] = self.declare(text, u.dtype, 1, "v")

    # Memory

    def local(self, u: UOp) -> None:
        """Declare an array; in the host's calling convention, a pointer into the thread's scratch memory.

        An array with an address space is declared at the kernel's start, the only scope where OpenCL C has __local.
        """
        if self.dialect.packed and not u.arg.shared:
            pointer, name = f"{self._stored(u.dtype)} *", f"local{u.arg.number}"
            self.say(f"{pointer}{self.dialect.restrict} {name} = ({pointer})(scratch + {self.scratch[u]});")
            return
        if u.arg.shared and self.pooled:
            pointer = f"{self._stored(u.dtype)} *"
            self.head.append(f"    {pointer}local{u.arg.number} = ({pointer})(shared_bytes + {self.places[u]});")
            return
        word = self.dialect.shared if u.arg.shared else self.dialect.own
        align = " __attribute__((aligned(64)))" if self.dialect.vectors else ""
        line = f"{word}{self._stored(u.dtype)} local{u.arg.number}[{max(u.arg.size, 1)}]{align};"
        if word:
            self.head.append(f"    {line}")
        else:
            self.say(line)

    def load(self, u: UOp) -> None:
        """Declare a variable for each copy; none where no user reads the value.

        It is 0 behind a closed gate, and for memory of no elements.
        """
        if u not in self.walk.whole:
            return
        access = self.walk.accesses[u]
        gate = u.src[2] if len(u.src) > 2 else None
        for lane in self.walk.lanes(u):
            if memory(u.src[0]).arg.size == 0:  # there is no memory: the gate is never open
                zero = self.words.literal(0, u.dtype)
                text = zero if access.width == 1 else self.splat(zero, u.dtype, access.width)
            elif access.width == 1:
                text = self._element(u, lane)
                if u.dtype is dtypes.bool:
                    text = f"({text} != 0)"
                if gate is not None:
                    text = f"({self.operand(gate, lane, 1)} ? {text} : {self.words.literal(0, u.dtype)})"
            else:
                text = self._load_vector(u, lane, access, gate)
            self.names[u, self.walk.copy(u, lane)] = self.declare(text, u.dtype, access.width, "x")

    def store(self, u: UOp) -> None:
        """Write an assignment for each copy, in an `if` where it has a gate; none to memory of no elements."""
        access, value = self.walk.accesses[u], u.src[2]
        gate = u.src[3] if len(u.src) > 3 else None
        if memory(u.src[0]).arg.size == 0:
            return
        for lane in self.walk.lanes(u):
            if access.width == 1:
                condition = "" if gate is None else f"if ({bare(self.operand(gate, lane, 1))}) "
                self.say(f"{condition}{self._element(u, lane)} = {bare(self.operand(value, lane, 1))};")
            else:
                self._store_vector(u, lane, access, gate)

    def pointer(self, place: UOp, index: UOp, lane: Lane) -> str:
        """Return the array plus an index."""
        at = bare(self.scalar(index, lane))
        return self._name_of(place) if at == "0" else f"{self._name_of(place)} + {at}"

    def _memory(self, u: UOp) -> str:
        return self._name_of(u.src[0])

    def _name_of(self, place: UOp) -> str:
        """Return the name in the source text of the memory that `place` is in."""
        mem = memory(place)
        return f"data{mem.arg.slot}" if mem.op is Ops.PARAM else f"local{mem.arg.number}"

    def _space(self, place: UOp) -> str:
        """Return the address space before the type of a pointer to memory."""
        mem = memory(place)
        if mem.op is Ops.PARAM or not self.dialect.spaces:
            return self.dialect.pointer
        return self.dialect.shared if mem.arg.shared else self.dialect.own

    def _helper_name(self, u: UOp, name: str) -> str:
        """Return the name of a helper that accesses memory: each address space needs a helper of its own."""
        space = self._space(u.src[0])
        return name if space == self.dialect.pointer else f"{name}_{space.strip().strip('_')}"

    def _element(self, u: UOp, lane: Lane) -> str:
        return f"{self._memory(u)}[{bare(self.scalar(u.src[1], lane))}]"

    def _address(self, u: UOp, lane: Lane) -> str:
        return self.pointer(u.src[0], u.src[1], lane)

    def _where_to(self, u: UOp, lane: Lane, access: VectorAccess) -> tuple[str, str, str, str]:
        """Return (kind, arguments, parameters, index) for the helper of a vector access, all of them C text.

        `kind` is a part of its name: "row" for contiguous lanes, "step" for a constant stride, "at" for an index
        for each. A call begins with `arguments`. `parameters`, with a comma before each, come after the helper's
        pointer p, and p[`index`] is the element of lane k. `lane` says which unrolled copy of `u` is written.
        """
        long_ = self.words.type(dtypes.index)
        if access.stride == 1:
            return "row", self._address(u, lane), "", "k"
        if access.stride is not None:
            return "step", f"{self._address(u, lane)}, {access.stride}", f", {long_} step", "k * step"
        index = self.operand(u.src[1], lane, access.width)
        return "at", f"{self._memory(u)}, {bare(index)}", f", {self.words.type(dtypes.index, access.width)} i", "i[k]"

    def _load_vector(self, u: UOp, lane: Lane, access: VectorAccess, gate: UOp | None) -> str:
        """Return the expression of a vector load: a dereferenced vector pointer for a row, else a helper, lane by lane.

        Bools are bytes in memory and 0 or -1 in lanes, so they need a helper too; a closed gate gives 0 without a read.
        `lane` says which unrolled copy of `u` is written, `gate` is its condition, if any.
        """
        w, width = self.words, access.width
        type_, stored = w.type(u.dtype, width), self._stored(u.dtype)
        kind, arguments, parameters, place = self._where_to(u, lane, access)
        if kind == "row" and gate is None and u.dtype is not dtypes.bool:
            return f"*({self._space(u.src[0])}const {self._unaligned(u.dtype, width)} *)({arguments})"
        one = f"p[{place}]" if u.dtype is not dtypes.bool else f"-(p[{place}] != 0)"
        name = self._helper_name(u, f"load_{type_}_{kind}")
        pointer = f"{self._space(u.src[0])}const {stored} *p{parameters}"
        if gate is None:
            return f"{w.each_lane(name, (u.dtype, width), pointer, one)}({arguments})"
        mask = w.type(dtypes.bool, width)
        before = f"{w.dialect.gated}\n    " if w.dialect.gated else ""
        name = w.each_lane(f"{name}_if", (u.dtype, width), f"{pointer}, {mask} c", f"c[k] ? {one} : 0", before)
        return f"{name}({arguments}, {bare(self.operand(gate, lane, width))})"

    def _store_vector(self, u: UOp, lane: Lane, access: VectorAccess, gate: UOp | None) -> None:
        """Write a vector store: of a row by a vector pointer or a streaming store, else by a helper.

        `lane` says which unrolled copy of `u` is written, `gate` is its condition, if any.
        """
        w, width, dtype = self.words, access.width, u.src[2].dtype
        type_, space = w.type(dtype, width), self._space(u.src[0])
        value = bare(self.operand(u.src[2], lane, width))
        kind, arguments, parameters, place = self._where_to(u, lane, access)
        if kind == "row" and gate is None and dtype is not dtypes.bool:
            size = width * dtype.itemsize
            if u.arg is StoreHint.STREAM and size in self.dialect.stream:
                type_ = f"bytesx{size}"
                w.helpers[type_] = f"typedef long long {type_} __attribute__((vector_size({size}), may_alias));"
                words = self.dialect.stream[size]
                self.say(words.format(pointer=f"({space}{type_} *)({arguments})", value=f"({type_})({value})"))
                return
            self.say(f"*({space}{self._unaligned(dtype, width)} *)({arguments}) = {value};")
            return
        one = f"p[{place}] = {'-x[k]' if dtype is dtypes.bool else 'x[k]'};"
        name = self._helper_name(u, f"store_{type_}_{kind}")
        pointer = f"{space}{self._stored(dtype)} *p{parameters}, {type_} x"
        loop = f"for (int k = 0; k < {width}; k++) "
        if gate is None:
            self.say(f"{w.helper(name, 'void', pointer, loop + one)}({arguments}, {value});")
            return
        mask = w.type(dtypes.bool, width)
        before = f"{w.dialect.gated}\n    " if w.dialect.gated else ""
        name = w.helper(f"{name}_if", "void", f"{pointer}, {mask} c", f"{before}{loop}if (c[k]) {one}")
        self.say(f"{name}({arguments}, {value}, {bare(self.operand(gate, lane, width))});")

    def _unaligned(self, dtype: DType, width: int) -> str:
        """Return the vector type for pointers: in memory only its elements are aligned.

        `may_alias`, since a buffer of scalars is accessed through it: C's strict aliasing would allow to reorder that.
        """
        type_ = self.words.type(dtype, width)
        name = f"{type_}_in_memory"
        self.words.helpers.setdefault(
            name, f"typedef {type_} {name} __attribute__((aligned({dtype.itemsize}), may_alias));"
        )
        return name


def _places(linear: Linear) -> tuple[dict[UOp, int], int]:
    """Return where each shared array of a kernel begins, in bytes, and how many there are of them together."""
    places, total = {}, 0
    for u in linear.uops:
        if u.op is Ops.LOCAL and u.arg.shared:
            places[u] = total
            total += -(-max(u.arg.size, 1) * u.dtype.itemsize // ALIGNED) * ALIGNED
    return places, total


def _used_once(walk: LinearWalk) -> set[UOp]:
    """Return the nodes with one user, in the same loop and with as many unrolled copies: they may be inlined."""
    uses = Counter(source for u in walk.linear.uops for source in u.src)
    copied = sum(1 << axis for axis in walk.unrolled)
    found: set[UOp] = set()
    here: set[UOp] = set()  # nodes of the current loop so far
    for u in walk.linear.uops:
        found.update(s for s in u.src if s in here and uses[s] == 1 and not (u.ranges & ~s.ranges & copied))
        if u.op is Ops.END or (u.op is Ops.RANGE and u.arg.kind in LOOPS):
            here = set()
        here.add(u)
    return found


def _short_index(op: Ops, operands: list[str]) -> str | None:
    """Return index arithmetic that needs no operator, with 0 or 1 or of two numbers; None for any other.

    `codegen` cannot fold it: unrolled copies become numbers only in the text.
    """
    if len(operands) != 2:
        return None
    x, y = operands
    if x.isdigit() and y.isdigit() and op in (Ops.ADD, Ops.MUL):
        return str(int(x) + int(y) if op is Ops.ADD else int(x) * int(y))
    if op is Ops.ADD and "0" in operands:
        return y if x == "0" else x
    if op is Ops.MUL and "1" in operands:
        return y if x == "1" else x
    return None
