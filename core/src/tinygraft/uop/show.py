"""How graphs print: repr of a node, a kernel as short lines of algebra, a linear form as a listing.

In: a node, a kernel's sink, or the uops of a Linear. Out: text whose length is proportional to the number of
nodes, however often they are used and however deep they are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from typing import Any

from tinygraft.dtype import DType
from tinygraft.uop.ops import AxisKind, Ops, Own
from tinygraft.uop.uop import UOp, postorder

DEPTH = 50  # nodes deeper than this are printed before their users


# The node as it could be written in Python


def show(root: UOp) -> str:
    """Return `root` as nested constructor calls.

    A node that is used again is named where it is printed first, `x3:=UOp(...)`, and `x3` after that; the number
    counts nodes in the order of the text, without the root. From depth 50 on, a node is printed before its users, on
    a line of its own.

    >>> n = UOp.variable("n", 1, 9)
    >>> print(show(n * n))
    UOp(Ops.MUL, dtypes.index, arg=None, src=(
      x0:=UOp(Ops.VARIABLE, dtypes.index, arg=VariableArg(name='n', low=1, high=9), src=()),
      x0,))
    """
    numbers, uses = _numbered(root)
    order = postorder(root)
    ahead = _ahead(root, order)
    named = {u for u, count in uses.items() if count > 1} | ahead
    lines: list[str] = []
    done: set[UOp] = set()
    for start in (*(u for u in order if u in ahead), root):
        lines.append(_nested(start, numbers, named, done))
    return "\n".join(lines)


def _numbered(root: UOp) -> tuple[dict[UOp, int], dict[UOp, int]]:
    """Return the number of each node in the order of the text, and how often it is a source."""
    numbers = {root: -1}
    uses: dict[UOp, int] = {}
    stack = list(reversed(root.src))
    while stack:
        u = stack.pop()
        uses[u] = uses.get(u, 0) + 1
        if u not in numbers:
            numbers[u] = len(numbers) - 1
            stack += reversed(u.src)
    return numbers, uses


def _ahead(root: UOp, order: Sequence[UOp]) -> set[UOp]:
    """Return the nodes to print before their users: those in a deeper band of DEPTH levels than one of these."""
    depth = {root: 0}
    found: set[UOp] = set()
    for u in reversed(order):
        below = depth[u] + 1
        for source in u.src:
            depth[source] = max(depth.get(source, 0), below)
    for u, level in depth.items():
        found.update(s for s in u.src if depth[s] // DEPTH > level // DEPTH)
    return found


def _nested(start: UOp, numbers: dict[UOp, int], named: set[UOp], done: set[UOp]) -> str:
    """Return one node with its sources as text, those that are in `done` by their names only.

    `named` are the nodes that get a name, by their number in `numbers`.
    """
    texts: list[str] = []
    stack: list[tuple[UOp | str, int]] = [(start, 0)]
    while stack:
        item, indent = stack.pop()
        if isinstance(item, str):
            texts.append(item)
            continue
        if item in done:
            texts.append(f"x{numbers[item]}")
            continue
        if item in named:
            done.add(item)
            texts.append(f"x{numbers[item]}:=")
        texts.append(_head(item))
        if not item.src:
            texts.append("()" + _tail(item))
            continue
        texts.append("(")
        stack.append((")" + _tail(item), 0))
        for source in reversed(item.src):
            stack += ((",", 0), (source, indent + 1), ("\n" + "  " * (indent + 1), 0))
    return "".join(texts)


def _head(u: UOp) -> str:
    return f"UOp({_op(u.op)}, {u.dtype!r}, arg={show_arg(u.arg)}, src="


def _tail(u: UOp) -> str:
    return ")" if u.tag is None or isinstance(u.tag, Own) else f", tag={show_arg(u.tag)})"


def _op(op: Ops) -> str:
    return f"Ops.{op.name}"


def show_arg(arg: Any) -> str:
    """Return an arg as plain text: ops and kinds by name, index nodes as algebra.

    >>> from tinygraft.uop.ops import ReduceArg
    >>> show_arg(ReduceArg(Ops.ADD, (0,))), show_arg((UOp.variable("n", 1, 9) + 1, 3))
    ('ReduceArg(op=Ops.ADD, axes=(0,))', '(n + 1, 3)')
    """
    if isinstance(arg, UOp):
        return algebra(arg)
    if isinstance(arg, Enum):
        return f"{type(arg).__name__}.{arg.name}"
    if type(arg) is tuple:
        inner = ", ".join(show_arg(item) for item in arg)
        return f"({inner},)" if len(arg) == 1 else f"({inner})"
    if dataclasses.is_dataclass(arg) and not isinstance(arg, (type, DType)):
        shown = [f.name for f in dataclasses.fields(arg) if f.default is not None or getattr(arg, f.name) is not None]
        fields = ", ".join(f"{name}={show_arg(getattr(arg, name))}" for name in shown)
        return f"{type(arg).__name__}({fields})"
    return repr(arg)


def brief(u: UOp) -> str:
    """Return one line about a node, for an error: its fields, and of its sources op, dtype and arg.

    >>> brief(UOp.variable("n", 1, 9) * 2)
    'UOp(Ops.MUL, dtypes.index, arg=None, src=(VARIABLE index n, CONST index 2))'
    """
    sources = []
    for source in u.src:
        arg = "" if source.arg is None else f" {_short(source)}"
        sources.append(f"{source.op.name} {source.dtype.name}{arg}")
    return f"{_head(u)}({', '.join(sources)}){_tail(u)}"


def _short(u: UOp) -> str:
    return str(u.arg.name) if u.op is Ops.VARIABLE else show_arg(u.arg)


# Algebra

_INFIX: dict[Ops, tuple[str, int]] = {
    Ops.OR: ("|", 1), Ops.XOR: ("^", 2), Ops.AND: ("&", 3), Ops.CMPLT: ("<", 4), Ops.CMPEQ: ("==", 4),
    Ops.CMPNE: ("!=", 4), Ops.SHL: ("<<", 5), Ops.SHR: (">>", 5), Ops.ADD: ("+", 6), Ops.SUB: ("-", 6),
    Ops.MUL: ("*", 7), Ops.FDIV: ("/", 7), Ops.IDIV: ("//", 7), Ops.MOD: ("%", 7), Ops.POW: ("**", 9),
}  # fmt: skip
_PREFIX = {Ops.NEG: "-", Ops.NOT: "~"}
_CHOICE, _UNARY, _ATOM = 0, 8, 10
ExpressionText = tuple[str, int]  # an expression and its precedence

_LEAVES = frozenset({Ops.CONST, Ops.PARAM, Ops.LOCAL, Ops.RANGE, Ops.VARIABLE, Ops.DEVICE, Ops.BUFFER})
_LONG = 100  # an expression longer than this gets a name and a line of its own
_FEW = 20  # an index that is used twice is written twice when it is not longer than this


def _wrapped(text: ExpressionText, least: int) -> str:
    """Return a text, in parentheses where it binds less than `least`."""
    return text[0] if text[1] >= least else f"({text[0]})"


def _leaf(u: UOp) -> str:
    """Return the name of a leaf."""
    match u.op:
        case Ops.PARAM:
            return f"p{u.arg.slot}"
        case Ops.LOCAL:
            return f"l{u.arg.number}"
        case Ops.RANGE:
            return f"r{u.arg.axis}"
        case Ops.VARIABLE:
            return str(u.arg.name)
        case Ops.BUFFER:
            return f"b{u.arg.uid}"
    return repr(u.arg)


def _expression(u: UOp, src: Sequence[ExpressionText]) -> ExpressionText:
    """Return a node as algebra, from the texts of its sources."""
    op = u.op
    if op in _LEAVES:
        text = _leaf(u)
        return text, _UNARY if text.startswith("-") else _ATOM
    if op in _INFIX:
        sign, rank = _INFIX[op]
        if op in (Ops.AND, Ops.OR) and u.dtype.kind == "bool":
            sign = "and" if op is Ops.AND else "or"
        right = rank if op in (Ops.ADD, Ops.AND, Ops.OR) else rank + 1
        left = rank + 1 if rank == 4 or op is Ops.POW else rank
        return f"{_wrapped(src[0], left)} {sign} {_wrapped(src[1], right)}", rank
    if op in _PREFIX:
        sign = "not " if op is Ops.NOT and u.dtype.kind == "bool" else _PREFIX[op]
        return f"{sign}{_wrapped(src[0], _UNARY)}", _UNARY
    texts = [text for text, _ in src]
    match op:
        case Ops.WHERE:
            return f"{_wrapped(src[1], 1)} if {_wrapped(src[0], 1)} else {_wrapped(src[2], 0)}", _CHOICE
        case Ops.CAST:
            return f"{u.dtype.name}({texts[0]})", _ATOM
        case Ops.BITCAST:
            return f"bits_as_{u.dtype.name}({texts[0]})", _ATOM
        case Ops.LOAD:
            element = f"{_wrapped(src[0], _ATOM)}[{texts[1]}]"
            return (element, _ATOM) if len(src) == 2 else (f"{element} if {_wrapped(src[2], 1)} else 0", _CHOICE)
        case Ops.AFTER | Ops.GET:
            return src[0]
        case Ops.REDUCE | Ops.LANES:
            return f"{_combine(u.arg.op)} over {', '.join(texts[1:])} of {_wrapped(src[0], 1)}", _CHOICE
        case Ops.BIND:
            return f"{texts[0]}:{u.arg}", _ATOM
    shown = [] if u.arg is None else [show_arg(u.arg)]
    return f"{op.name.lower()}({', '.join(texts + shown)})", _ATOM


def _combine(op: Ops) -> str:
    return {Ops.ADD: "sum", Ops.MUL: "product"}.get(op, op.name.lower())


def algebra(root: UOp) -> str:
    """Return one node as an expression; parts that would make it longer than a few lines are `...`.

    >>> algebra((UOp.range(4, 0) * 3 + 1) % 5 < 2)
    '(r0 * 3 + 1) % 5 < 2'
    """
    texts: dict[UOp, ExpressionText] = {}
    for u in postorder(root):
        text, rank = _expression(u, [texts[s] for s in u.src])
        texts[u] = (text, rank) if len(text) < 4 * _LONG else ("...", _ATOM)
    return texts[root][0]


# The kernel


class _Names:
    """The names and texts of the nodes of a kernel."""

    def __init__(self, roots: Sequence[UOp]) -> None:
        self.nodes = postorder(*roots)
        self.uses: dict[UOp, int] = {}
        for u in self.nodes:
            for source in u.src:
                self.uses[source] = self.uses.get(source, 0) + 1
        self.texts: dict[UOp, ExpressionText] = {}
        self.count = 0

    def name(self) -> str:
        """Return a new name."""
        self.count += 1
        return f"x{self.count - 1}"

    def worth_a_name(self, u: UOp, text: str) -> bool:
        """Return whether `u`, whose text is `text`, gets a name and a line of its own."""
        if u.op in _LEAVES or u.op in (Ops.AFTER, Ops.BARRIER, Ops.SINK) or u.dtype.kind == "void":
            return False
        if u.op is Ops.REDUCE or len(text) > _LONG:
            return True
        return self.uses.get(u, 0) > 1 and not (len(text) <= _FEW and u.dtype.kind in ("index", "bool"))


def show_kernel(sink: UOp) -> str:
    """Return a kernel graph as lines of algebra: its arguments and ranges, then a line for each store and reduction.

    A value that is used more than once is named. r0 is a counter, p0 an argument, l0 scratch memory.

    >>> from tinygraft.dtype import dtypes
    >>> from tinygraft.uop.ops import ParamArg, ReduceArg
    >>> p0, p1 = (UOp(Ops.PARAM, dtypes.float, (), ParamArg(slot, 12)) for slot in (0, 1))
    >>> i, j = UOp.range(3, 0), UOp.range(4, 1)
    >>> total = UOp(Ops.REDUCE, dtypes.float, (UOp(Ops.LOAD, dtypes.float, (p1, i * 4 + j)), j), ReduceArg(Ops.ADD))
    >>> print(show_kernel(UOp(Ops.SINK, src=(UOp(Ops.STORE, src=(p0, i, total * 0.25)),))))
    p0: float[12] written
    p1: float[12]
    r0: loop of 3
    r1: loop of 4
    x0 = sum over r1 of p1[r0 * 4 + r1]
    p0[r0] = x0 * 0.25
    """
    names = _Names((sink,))
    lines: list[str] = []
    for u in names.nodes:
        src = [names.texts[s] for s in u.src]
        if u.op is Ops.STORE:
            lines.append(_store(u, src))
            names.texts[u] = "", _ATOM
            continue
        if u.op is Ops.MATRIX:
            tiles = [f"{memory}[{index}]" for (memory, _), (index, _) in zip(src[:6:2], src[1:6:2], strict=True)]
            over = f" over {', '.join(text for text, _ in src[6:])}" if len(src) > 6 else ""
            lines.append(f"{tiles[0]} = tiles of {tiles[1]} @ {tiles[2]}{over} by {u.arg.unit.name}")
            names.texts[u] = "", _ATOM
            continue
        if u.op is Ops.BARRIER:
            lines.append("barrier")
            names.texts[u] = "", _ATOM
            continue
        text, rank = _expression(u, src)
        if names.worth_a_name(u, text):
            name = names.name()
            lines.append(f"{name} = {text}")
            text, rank = name, _ATOM
        names.texts[u] = text, rank
    return "\n".join(_declarations(names.nodes, names.texts) + lines)


def _store(u: UOp, src: Sequence[ExpressionText]) -> str:
    """Return a STORE as "memory[index] = value if gate", with its hint as a comment."""
    gate = f" if {src[3][0]}" if len(src) == 4 else ""
    value = src[2][0] if not gate else _wrapped(src[2], 1)
    hint = f"  # {u.arg.value}" if u.arg is not None else ""
    return f"{src[0][0]}[{src[1][0]}] = {value}{gate}{hint}"


def _declarations(nodes: Sequence[UOp], texts: dict[UOp, ExpressionText]) -> list[str]:
    """Return a line for each argument, variable, scratch memory and range of a kernel."""
    written = {_memory(u.src[0]) for u in nodes if u.op is Ops.STORE}
    lines = []
    for u in sorted((u for u in nodes if u.op is Ops.PARAM), key=lambda u: int(u.arg.slot)):
        lines.append(f"{_leaf(u)}: {u.dtype.name}[{u.arg.size}]{' written' if u in written else ''}")
    for u in sorted((u for u in nodes if u.op is Ops.VARIABLE), key=lambda u: str(u.arg.name)):
        lines.append(f"{_leaf(u)}: {u.arg.low} to {u.arg.high}")
    for u in sorted((u for u in nodes if u.op is Ops.LOCAL), key=lambda u: int(u.arg.number)):
        lines.append(f"{_leaf(u)}: {u.dtype.name}[{u.arg.size}] {'shared' if u.arg.shared else 'of one thread'}")
    for u in sorted((u for u in nodes if u.op is Ops.RANGE), key=lambda u: int(u.arg.axis)):
        lines.append(f"{_leaf(u)}: {u.arg.kind.value} of {texts[u.src[0]][0]}{_dim(u)}")
    return lines


def _dim(u: UOp) -> str:
    return f" along {'xyz'[u.arg.dim]}" if u.arg.kind in (AxisKind.GRID, AxisKind.THREAD) else ""


def _memory(u: UOp) -> UOp:
    """Return the PARAM or LOCAL of a memory operand, which may be inside of AFTERs."""
    while u.op is Ops.AFTER:
        u = u.src[0]
    return u


# The linear form


def show_linear(uops: Sequence[UOp]) -> str:
    """Return the instructions of a Linear, one line each, indented by loops; constants are written where they are used.

    >>> from tinygraft.dtype import dtypes
    >>> from tinygraft.uop.ops import ParamArg
    >>> p0, i = UOp(Ops.PARAM, dtypes.int, (), ParamArg(0, 8)), UOp.range(8, 0)
    >>> value = i.cast(dtypes.int)
    >>> store = UOp(Ops.STORE, src=(p0, i, value))
    >>> print(show_linear((p0, i.src[0], i, value, store, UOp(Ops.END, src=(i,)))))
    p0: int[8]
    for r0 in range(8):
      v0: int = int(r0)
      p0[r0] = v0
    end r0
    """
    texts: dict[UOp, ExpressionText] = {}
    lines: list[str] = []
    indent = count = 0
    for u in uops:
        src = [texts.get(s, ("?", _ATOM)) for s in u.src]
        text, rank = _expression(u, src) if u.op not in _STATEMENTS else ("", _ATOM)
        if u.op is Ops.CONST or u.op is Ops.AFTER:
            texts[u] = text, rank
            continue
        if u.op is Ops.END:
            indent -= 1
        if u.op in _STATEMENTS or u.op in _LEAVES:
            texts[u] = _name(u), _ATOM
            line = _statement(u, src)
        else:
            texts[u] = f"v{count}", _ATOM
            count += 1
            line = f"{texts[u][0]}: {u.dtype.name} = {text}"
        lines.append("  " * max(indent, 0) + line)
        if u.op is Ops.RANGE and line.endswith(":"):
            indent += 1
    return "\n".join(lines)


_STATEMENTS = frozenset({
    Ops.STORE, Ops.REG, Ops.ACCUM, Ops.TILE, Ops.PRODUCT, Ops.PUT, Ops.END, Ops.BARRIER, Ops.SINK,
})  # fmt: skip


def _name(u: UOp) -> str:
    """Return the name by which a node is printed that has one of its own, else an empty text."""
    if u.op is Ops.TILE:
        return f"tile{u.arg.number}"
    return f"reg{u.arg.number}" if u.op is Ops.REG else _leaf(u) if u.op in _LEAVES else ""


def _statement(u: UOp, src: Sequence[ExpressionText]) -> str:
    """Return an instruction that is no expression as text."""
    texts = [text for text, _ in src]
    match u.op:
        case Ops.STORE:
            return _store(u, src)
        case Ops.PARAM:
            return f"{_leaf(u)}: {u.dtype.name}[{u.arg.size}]"
        case Ops.LOCAL:
            return f"{_leaf(u)}: {u.dtype.name}[{u.arg.size}] {'shared' if u.arg.shared else 'of one thread'}"
        case Ops.VARIABLE:
            return f"{_leaf(u)}: {u.arg.low} to {u.arg.high}"
        case Ops.RANGE:
            return _range(u, texts[0])
        case Ops.END:
            return f"end {texts[0]}"
        case Ops.REG:
            copies = f" for each {', '.join(texts[1:])}" if len(texts) > 1 else ""
            return f"reg{u.arg.number}: {u.dtype.name} = {texts[0]}{copies}"
        case Ops.ACCUM:
            if u.arg in _INFIX:
                return f"{texts[0]} {_INFIX[u.arg][0]}= {texts[1]}"
            operands = (*texts[1:3], texts[0]) if u.arg is Ops.FMA else texts
            gate = f" if {texts[3]}" if len(texts) > 3 else ""
            return f"{texts[0]} = {u.arg.name.lower()}({', '.join(operands)}){gate}"
        case Ops.TILE:
            copies = f" for each {', '.join(texts)}" if texts else ""
            return f"tile{u.arg.number}: {u.dtype.name} {u.arg.unit.rows}x{u.arg.unit.columns} = 0{copies}"
        case Ops.PRODUCT:
            return f"{texts[0]} += {texts[1]}[{texts[2]}] @ {texts[3]}[{texts[4]}] by {u.arg.unit.name}"
        case Ops.PUT:
            return f"{texts[0]}[{texts[1]}] = {texts[2]}"
        case Ops.BARRIER:
            return "barrier"
    return u.op.name.lower()


def _range(u: UOp, size: str) -> str:
    """Return a RANGE that is a loop as the line that begins it, else what it counts; `size` is its trip count."""
    match u.arg.kind:
        case AxisKind.PARALLEL:
            return f"for {_leaf(u)} in this share of range({size}):"
        case AxisKind.GRID:
            return f"{_leaf(u)} = group{_dim(u)} of {size}"
        case AxisKind.THREAD:
            return f"{_leaf(u)} = thread{_dim(u)} of {size}"
        case AxisKind.VECTOR:
            return f"{_leaf(u)} = vector of {size}"
        case AxisKind.UNROLL:
            return f"{_leaf(u)} = each below {size}, repeated"
    return f"for {_leaf(u)} in range({size}):"
