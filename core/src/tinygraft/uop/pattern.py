"""UPat: a pattern that a node may match, written as a node is written or as algebra.

    (UPat.var("x") * UPat.cvar("c")) // UPat.cvar("d")

In: what is required of op, dtype, sources and arg. Out: a value that matching.py compares with nodes. A name binds the
node that matched; a name that is in a pattern twice requires the same node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tinygraft.dtype import DType
from tinygraft.uop.ops import COMMUTATIVE, Ops
from tinygraft.uop.uop import UOp

OpLike = Ops | Iterable[Ops] | None
DTypes = DType | tuple[DType, ...] | None
SourcePatterns = "tuple[UPat, ...] | list[UPat] | UPat | None"


class UPat:
    """A pattern of one node. A parameter that is None matches anything.

    `op` is one op or several, `dtype` one or several. `src` is a tuple (these sources in this order), a list (in any
    order) or one pattern that every source matches; `allow_any_len` lets more sources follow a tuple. `arg` is
    compared by value, numbers as CONST does: 0 and -0.0 are two, NaN is one. `name` binds the node. `when` is a
    function that has to return True for the node.

    >>> UPat(Ops.ADD, src=(UPat.cvar("x"), UPat.cvar("x")))
    UPat(ADD, src=(UPat(CONST, name='x'), UPat(CONST, name='x')))
    """

    src: tuple[UPat, ...] | list[UPat] | UPat | None
    name: str | None
    allow_any_len: bool
    arg: Any
    when: Callable[[UOp], bool] | None

    __slots__ = ("allow_any_len", "alternatives", "arg", "dtypes", "name", "ops", "src", "when")

    def __init__(
        self,
        op: OpLike = None,
        dtype: DTypes = None,
        src: tuple[UPat, ...] | list[UPat] | UPat | None = None,
        arg: Any = None,
        name: str | None = None,
        allow_any_len: bool = False,
        when: Callable[[UOp], bool] | None = None,
    ) -> None:
        self.ops: tuple[Ops, ...] | None = None if op is None else (op,) if isinstance(op, Ops) else tuple(op)
        self.dtypes: tuple[DType, ...] | None = (
            None if dtype is None else (dtype,) if isinstance(dtype, DType) else tuple(dtype)
        )
        if allow_any_len and not isinstance(src, tuple):
            raise ValueError("allow_any_len needs src as a tuple: these sources first, then any")
        if name is not None and (not name.isidentifier() or name == "ctx"):
            raise ValueError(f"a name in a pattern must be an identifier other than ctx, got {name!r}")
        self.src, self.arg, self.name, self.allow_any_len, self.when = src, arg, name, allow_any_len, when
        self.alternatives: tuple[UPat, ...] = ()

    @staticmethod
    def var(name: str | None = None, dtype: DTypes = None) -> UPat:
        """Return a pattern of any node."""
        return UPat(dtype=dtype, name=name)

    @staticmethod
    def cvar(name: str | None = None, dtype: DTypes = None) -> UPat:
        """Return a pattern of any CONST."""
        return UPat(Ops.CONST, dtype, name=name)

    @staticmethod
    def const(dtype: DTypes, value: Any) -> UPat:
        """Return a pattern of the CONST `value`, of any dtype where that is None."""
        return UPat(Ops.CONST, dtype, arg=value)

    @staticmethod
    def any(*patterns: UPat) -> UPat:
        """Return a pattern of a node that one of `patterns` matches; they are tried in order.

        Raises ValueError without patterns.
        """
        if not patterns:
            raise ValueError("UPat.any needs at least one pattern")
        found = UPat()
        found.alternatives = patterns
        return found

    def or_any(self, *others: UPat) -> UPat:
        """Return a pattern of a node that this pattern or one of `others` matches."""
        return UPat.any(self, *others)

    def named(self, name: str) -> UPat:
        """Return this pattern with a name."""
        found = UPat(self.ops, self.dtypes, self.src, self.arg, name, self.allow_any_len, self.when)
        found.alternatives = self.alternatives
        return found

    def sources(self) -> tuple[UPat, ...]:
        """Return the patterns of sources; one that stands for all of them is listed once."""
        return () if self.src is None else (self.src,) if isinstance(self.src, UPat) else tuple(self.src)

    def names(self) -> set[str]:
        """Return the names that are bound in every match."""
        found = {self.name} if self.name is not None else set()
        for source in self.sources():
            found |= source.names()
        if self.alternatives:
            found |= set.intersection(*(a.names() for a in self.alternatives))
        return found

    # Algebra; where the op commutes, either order matches

    def alu(self, op: Ops, *others: UPat | float | int | bool) -> UPat:
        """Return a pattern of `op` of this and others; a number is the CONST of that value, of any dtype."""
        src = (self, *(other if isinstance(other, UPat) else UPat.const(None, other) for other in others))
        return UPat(op, src=list(src) if op in COMMUTATIVE else src)

    def cast(self, dtype: DTypes = None) -> UPat:
        """Return a pattern of a CAST of this to `dtype`."""
        return UPat(Ops.CAST, dtype, (self,))

    def where(self, a: UPat | float, b: UPat | float) -> UPat:
        """Return a pattern of WHERE with this as its condition."""
        return self.alu(Ops.WHERE, a, b)

    def eq(self, other: UPat | float) -> UPat:
        """CMPEQ."""
        return self.alu(Ops.CMPEQ, other)

    def ne(self, other: UPat | float) -> UPat:
        """CMPNE."""
        return self.alu(Ops.CMPNE, other)

    def maximum(self, other: UPat | float) -> UPat:
        """MAX."""
        return self.alu(Ops.MAX, other)

    def minimum(self, other: UPat | float) -> UPat:
        """MIN."""
        return self.alu(Ops.MIN, other)

    def __add__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.ADD, other)

    def __radd__(self, other: float) -> UPat:
        return UPat.const(None, other) + self

    def __sub__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.SUB, other)

    def __rsub__(self, other: float) -> UPat:
        return UPat.const(None, other) - self

    def __mul__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.MUL, other)

    def __rmul__(self, other: float) -> UPat:
        return UPat.const(None, other) * self

    def __truediv__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.FDIV, other)

    def __floordiv__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.IDIV, other)

    def __mod__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.MOD, other)

    def __and__(self, other: UPat | int) -> UPat:
        return self.alu(Ops.AND, other)

    def __or__(self, other: UPat | int) -> UPat:
        return self.alu(Ops.OR, other)

    def __xor__(self, other: UPat | int) -> UPat:
        return self.alu(Ops.XOR, other)

    def __lshift__(self, other: UPat | int) -> UPat:
        return self.alu(Ops.SHL, other)

    def __rshift__(self, other: UPat | int) -> UPat:
        return self.alu(Ops.SHR, other)

    def __neg__(self) -> UPat:
        return self.alu(Ops.NEG)

    def __invert__(self) -> UPat:
        return self.alu(Ops.NOT)

    def __lt__(self, other: UPat | float) -> UPat:
        return self.alu(Ops.CMPLT, other)

    def __gt__(self, other: UPat | float) -> UPat:
        return (other if isinstance(other, UPat) else UPat.const(None, other)) < self

    def __ge__(self, other: UPat | float) -> UPat:
        return ~(self < other)

    def __le__(self, other: UPat | float) -> UPat:
        return ~(self > other)

    def __repr__(self) -> str:
        if self.alternatives:
            return f"UPat.any({', '.join(map(repr, self.alternatives))})"
        parts = [] if self.ops is None else ["|".join(op.name for op in self.ops)]
        if self.dtypes is not None:
            parts.append("|".join(map(repr, self.dtypes)))
        parts += [
            f"{key}={value!r}"
            for key, value in (("src", self.src), ("arg", self.arg), ("name", self.name), ("when", self.when))
            if value is not None
        ]
        if self.allow_any_len:
            parts.append("allow_any_len=True")
        return f"UPat({', '.join(parts)})"
