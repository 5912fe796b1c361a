"""Patterns turned into code: one decision function for all rules that may apply to a node of one op.

In: an op and a list of (pattern, how to call the rule). Out: `decide(u, ctx)`, which returns (new node, number of
the rule) for the first rule that matches and gives another node, None when there is none. The text is made once
and kept by its content, so equal matchers share their code. It looks like this, for (x * c) // d:

    def decide(u, ctx):
        a0, a1, = u.src
        o0, o1 = a0.op, a1.op
        # 0
        if o0 is K0 and o1 is K1:
            if (a0.src[0].op is K1 or a0.src[1].op is K1):
                for a2, a3 in (a0.src, a0.src[::-1]) if a0.src[0] is not a0.src[1] else (a0.src,):
                    if a3.op is K1:
                        r = F2(d=a1, x=a2, c=a3)
                        if r is not None and r is not u: return r, 0
        return None
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.pattern import UPat
from tinygraft.uop.uop import UOp

Decide = Callable[[UOp, Any], "tuple[UOp, int] | None"]
MatchWork = list[tuple[UPat, str]]

_codes: dict[str, CodeType] = {}
LOOPS = 18  # Python allows 20 loops inside each other


def same_number(a: Any, b: Any) -> bool:
    """Whether two constants are one value: 0 is not -0.0, NaN is NaN."""
    if a != b:
        return bool(a != a and b != b)
    return bool(a != 0) or math.copysign(1.0, a) == math.copysign(1.0, b)


def decision(op: Ops, rules: Sequence[tuple[int, UPat, RuleCall]]) -> tuple[Decide, str]:
    """The decision function of the rules, given as (number, pattern, call), and its text."""
    writer = _DecisionWriter()
    text = writer.decision(op, rules)
    if text not in _codes:
        _codes[text] = compile(text, f"<rules for {op.name}>", "exec")
    space: dict[str, Any] = {}
    exec(_codes[text], {"permutations": itertools.permutations, "same_number": same_number}, space)
    decide: Decide = space["make"](*writer.constants.values())
    return decide, text


class RuleCall:
    """How a rule's function is called: the names that it takes (None: any) and whether it takes ctx."""

    __slots__ = ("accepts", "ctx", "function")

    def __init__(self, function: Callable[..., Any], accepts: frozenset[str] | None, ctx: bool) -> None:
        self.function, self.accepts, self.ctx = function, accepts, ctx


class _ImpossiblePattern(Exception):
    """What is asked for cannot be: an op with fixed sources asked for another number of them, or another op."""


class _DecisionWriter:
    """Writes the text of one decision function. constants are the values that the text names, in order."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.constants: dict[str, Any] = {}
        self.names: dict[Any, str] = {}
        self.counter = 0
        self.first: tuple[str, ...] = ()  # the sources of u, taken out at the start, and their ops
        self.opcodes: dict[str, str] = {}

    def constant(self, kind: str, key: Any, value: Any) -> str:
        """A name for value in the text; the same for the same key."""
        name = self.names.get((kind, key))
        if name is None:
            name = self.names[kind, key] = f"{kind}{len(self.constants)}"
            self.constants[name] = value
        return name

    def variables(self, count: int) -> tuple[str, ...]:
        """New variables."""
        self.counter += count
        return tuple(f"a{n}" for n in range(self.counter - count, self.counter))

    def write(self, indent: int, text: str) -> None:
        """A line."""
        self.lines.append("    " * indent + text)

    def decision(self, op: Ops, rules: Sequence[tuple[int, UPat, RuleCall]]) -> str:
        """The whole text."""
        arity = FACTS[op].arity
        if arity:
            self.first = self.variables(arity)
            self.write(2, f"{', '.join(self.first)}, = u.src")
            self.opcodes = {name: f"o{name[1:]}" for name in self.first}
            self.write(2, f"{', '.join(self.opcodes.values())} = {', '.join(f'{name}.op' for name in self.first)}")
        for number, pattern, call in rules:
            self.write(2, f"# {number}")
            _Matcher(self, number, call).match([(pattern, "u")], [], {}, {"u": op}, 2, 0)
        self.write(2, "return None")
        body = "\n".join(self.lines)
        return f"def make({', '.join(self.constants)}):\n    def decide(u, ctx):\n{body}\n    return decide\n"


class _Matcher:
    """Writes the tests of one rule and the call of its function."""

    def __init__(self, writer: _DecisionWriter, number: int, call: RuleCall) -> None:
        self.writer, self.number, self.call = writer, number, call

    def match(
        self, asked: MatchWork, opened: MatchWork, bound: dict[str, str], ops: dict[str, Ops], indent: int, loops: int
    ) -> None:
        """Write the tests of the patterns asked, then those below opened, breadth first, then the call.

        bound are the variables of names, ops those whose op is known, loops how many loops are open.
        """
        bound, ops, asked, opened = dict(bound), dict(ops), list(asked), list(opened)
        write = self.writer.write
        try:
            while asked or opened:
                if tests := self.tests(asked, bound, ops):
                    write(indent, f"if {' and '.join(tests)}:")
                    indent += 1
                opened += [(pattern, var) for pattern, var in asked if pattern.src is not None or pattern.alternatives]
                asked = []
                if not opened:
                    break
                opened.sort(key=_width)
                pattern, var = opened.pop(0)
                if pattern.alternatives:
                    for other in pattern.alternatives:
                        self.match([(other, var)], opened, bound, ops, indent, loops)
                    return
                asked, line = self.children(pattern, var, ops)
                for text in line:
                    write(indent, text)
                    if text.endswith(":"):
                        indent += 1
                loops += any(text.startswith("for ") for text in line)
                if loops > LOOPS:
                    raise ValueError(f"a pattern has more than {LOOPS} nodes with sources in any order")
        except _ImpossiblePattern:
            write(indent, "pass")
            return
        self.finish(bound, indent)

    def tests(self, asked: MatchWork, bound: dict[str, str], ops: dict[str, Ops]) -> list[str]:
        """What must be true of the nodes themselves, cheapest first; binds their names."""
        constant = self.writer.constant
        found: list[tuple[int, str]] = []
        for pattern, var in asked:
            if pattern.ops is not None:
                if var in ops:
                    if ops[var] not in pattern.ops:
                        raise _ImpossiblePattern
                else:
                    opcode = self.writer.opcodes.get(var, f"{var}.op")
                    if len(pattern.ops) == 1:
                        ops[var] = pattern.ops[0]
                    found.append((0, self.is_one(opcode, pattern.ops)))
            if pattern.name is not None and bound.setdefault(pattern.name, var) != var:
                found.append((1, f"{var} is {bound[pattern.name]}"))
            if pattern.dtypes is not None:
                if len(pattern.dtypes) == 1:
                    found.append((2, f"{var}.dtype is {constant('D', pattern.dtypes[0], pattern.dtypes[0])}"))
                else:
                    found.append((2, f"{var}.dtype in {constant('D', pattern.dtypes, pattern.dtypes)}"))
            if pattern.arg is not None:
                value = constant("A", id(pattern.arg), pattern.arg)
                delicate = isinstance(pattern.arg, float) or pattern.arg == 0  # NaN and both zeros
                found.append((3, f"same_number({var}.arg, {value})" if delicate else f"{var}.arg == {value}"))
            if pattern.when is not None:
                found.append((4, f"{constant('W', id(pattern.when), pattern.when)}({var})"))
        return [text for _, text in sorted(found, key=lambda test: test[0])]

    def children(self, pattern: UPat, var: str, ops: dict[str, Ops]) -> tuple[MatchWork, list[str]]:
        """The patterns of var's sources with their variables, and the lines that fill these."""
        src, op = pattern.src, ops.get(var)
        arity = FACTS[op].arity if op is not None else None
        if isinstance(src, UPat):
            if arity is None:
                return [], [f"if all({self.predicate(src)}(s, ctx) for s in {var}.src):"]
            src = (src,) * arity
        assert src is not None
        count = len(src)
        if arity is not None and (arity < count if pattern.allow_any_len else arity != count):
            raise _ImpossiblePattern
        lines = []
        if arity is None:
            lines.append(f"if len({var}.src) {'>=' if pattern.allow_any_len else '=='} {count}:")
        if var == "u" and self.writer.first:
            names = self.writer.first[:count]
        else:
            names = self.writer.variables(count)
            if count and not isinstance(src, list):
                lines.append(f"{', '.join(names)}, = {var}.src" + (f"[:{count}]" if pattern.allow_any_len else ""))
        if isinstance(src, list) and count > 1:
            if names == self.writer.first:  # they must keep their order for the other rules
                names = self.writer.variables(count)
            lines += self.rejections(src, var)
            lines.append(f"for {', '.join(names)} in {_orders(var, count)}:")
        elif isinstance(src, list) and count:
            lines.append(f"{names[0]}, = {var}.src")
        return list(zip(src, names, strict=True)), lines

    def rejections(self, src: list[UPat], var: str) -> list[str]:
        """A test that two sources in any order can only pass together: each op asked for is there."""
        if len(src) != 2:
            return []
        sides = self.writer.first if var == "u" and self.writer.first else (f"{var}.src[0]", f"{var}.src[1]")
        left, right = (self.writer.opcodes.get(side, f"{side}.op") for side in sides)
        asked = {p.ops for p in src if p.ops is not None}
        tests = [f"({self.is_one(left, ops)} or {self.is_one(right, ops)})" for ops in sorted(asked)]
        return [f"if {' and '.join(tests)}:"] if tests else []

    def is_one(self, opcode: str, ops: tuple[Ops, ...]) -> str:
        """A test that an op is one of ops."""
        if len(ops) == 1:
            return f"{opcode} is {self.writer.constant('K', ops[0], ops[0])}"
        several = frozenset(ops)
        return f"{opcode} in {self.writer.constant('S', several, several)}"

    def predicate(self, pattern: UPat) -> str:
        """A name for the function that says whether a node matches pattern, which has no names."""
        if pattern.names() or any(a.names() for a in pattern.alternatives):
            raise ValueError(
                f"{pattern} stands for all sources of a node that may have any number of them; it cannot name nodes"
            )
        matches = _Predicate(pattern)
        return self.writer.constant("P", id(pattern), matches)

    def finish(self, bound: dict[str, str], indent: int) -> None:
        """What follows a match: call the rule, return what it gives."""
        call, writer = self.call, self.writer
        arguments = [f"{name}={var}" for name, var in bound.items() if call.accepts is None or name in call.accepts]
        if call.ctx:
            arguments.append("ctx=ctx")
        function = writer.constant("F", self.number, call.function)
        writer.write(indent, f"r = {function}({', '.join(arguments)})")
        writer.write(indent, f"if r is not None and r is not u: return r, {self.number}")


class _Predicate:
    """Whether a node matches a pattern without names; made into code for each op when it is first seen."""

    def __init__(self, pattern: UPat) -> None:
        self.call = RuleCall(lambda: True, frozenset(), False)
        self.pattern = pattern
        self.decisions: dict[Ops, Decide] = {}

    def __call__(self, u: UOp, ctx: Any) -> bool:
        decide = self.decisions.get(u.op)
        if decide is None:
            decide = self.decisions[u.op] = decision(u.op, [(0, self.pattern, self.call)])[0]
        return decide(u, ctx) is not None


def _width(item: tuple[UPat, str]) -> int:
    """Sources in one order first, then alternatives, then any order: what multiplies the work comes last."""
    pattern, _ = item
    return 1 if pattern.alternatives else 2 if isinstance(pattern.src, list) else 0


def _orders(var: str, count: int) -> str:
    """The orders of a node's sources, as an expression; equal sources are not swapped."""
    if count == 2:
        return f"({var}.src, {var}.src[::-1]) if {var}.src[0] is not {var}.src[1] else ({var}.src,)"
    return f"permutations({var}.src)"
