"""Index arithmetic that simplifies as it is built, and graphs rebuilt with it.

In: nodes of dtypes.index (any operand may be an int) and nodes of dtypes.bool. Out: a node with the same
value for every value of its RANGEs and VARIABLEs, usually smaller. Indices, gates and sizes are built with
these constructors from the schedule on, so that no pass has to simplify a whole graph afterwards. terms.py has the
form of sums, integer.py the arithmetic, logic.py the conditions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.uop.integer import add, dot, idiv, maximum, minimum, mod, mul, sub
from tinygraft.uop.logic import and_, clauses, eq, ge, lt, not_, or_, truth, valid, where
from tinygraft.uop.ops import FACTS, Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.terms import Operand, const, node, terms_of
from tinygraft.uop.uop import UOp, toposort

__all__ = [
    "Operand", "add", "and_", "bounds_of", "build", "clauses", "const", "dot", "eq", "ge", "idiv", "lt", "maximum",
    "minimum", "mod", "mul", "node", "not_", "or_", "rebuild_simplified", "settled", "simplify", "size_of", "sub",
    "terms_of", "truth", "valid", "value_of", "where",
]  # fmt: skip


def build(u: UOp, src: tuple[UOp, ...]) -> UOp:
    """Return `u` with other sources, by the constructors above where they apply.

    A gate that is always true is dropped, a LOAD whose gate never opens is 0, a choice with a known condition is
    made. A REDUCE whose ranges became expressions runs over the RANGEs in them.
    """
    op = u.op
    if u.dtype is dtypes.index and op in _INDEX:
        return _INDEX[op](*src)
    if u.dtype is dtypes.bool and op in _BOOL and (op not in _COMPARE or src[0].dtype is dtypes.index):
        return _BOOL[op](*src)
    if op is Ops.WHERE:
        return where(*src)
    if (op is Ops.LOAD and len(src) == 3) or (op is Ops.STORE and len(src) == 4):
        if src[-1].lo:
            src = src[:-1]
        elif op is Ops.LOAD and not src[-1].hi:
            return UOp.const(u.dtype, 0)
    elif op is Ops.REDUCE:
        src = (src[0], *_ranges_in(src[1:]))
        if len(src) == 1:
            return src[0]
    return UOp(op, u.dtype, src, u.arg, u.tag)


def _ranges_in(nodes: Iterable[UOp]) -> Iterable[UOp]:
    """Return the RANGEs that nodes depend on, each once, outermost first within a node."""
    found: dict[UOp, None] = {}
    for x in nodes:
        if x.op is Ops.RANGE:
            found[x] = None
        elif x.ranges:
            inside = [r for r in toposort(x, enter=lambda n: n.op is not Ops.RANGE) if r.op is Ops.RANGE]
            found.update(dict.fromkeys(sorted(inside, key=lambda r: int(r.arg.axis))))
    return found


_INDEX: dict[Ops, Callable[..., UOp]] = {
    Ops.ADD: add, Ops.SUB: sub, Ops.MUL: mul, Ops.IDIV: idiv, Ops.MOD: mod, Ops.MIN: minimum, Ops.MAX: maximum,
    Ops.NEG: lambda a: mul(a, -1),
}  # fmt: skip
_BOOL: dict[Ops, Callable[..., UOp]] = {
    Ops.AND: and_, Ops.OR: or_, Ops.NOT: not_, Ops.CMPLT: lt, Ops.CMPEQ: eq, Ops.CMPNE: lambda a, b: not_(eq(a, b)),
}  # fmt: skip
_COMPARE = frozenset({Ops.CMPLT, Ops.CMPEQ, Ops.CMPNE})


def rebuild_simplified(roots: Iterable[UOp], swap: dict[UOp, UOp]) -> dict[UOp, UOp]:
    """Replace the nodes of `swap` in the graphs of `roots`, simplifying what changes as `build` does.

    Returns old node -> new node: all of `swap`, and the nodes reached without passing through one of these. A REDUCE
    none of whose new ranges contains a RANGE becomes its operand: one term, not the sum.

    >>> i, outer, inner = UOp.range(12, 0), UOp.range(3, 0), UOp.range(4, 1)
    >>> x = idiv(i, 4)
    >>> rebuild_simplified((x,), {i: add(mul(outer, 4), inner)})[x] is outer
    True
    """
    done = dict(swap)
    for x in toposort(*roots, enter=lambda n: n not in swap):
        if x not in done:
            src = tuple(done[s] for s in x.src)
            done[x] = x if src == x.src else build(x, src)
    return done


def simplify(x: UOp) -> UOp:
    """Return `x`, which was written with plain operators, as the constructors would have built it."""
    done: dict[UOp, UOp] = {}
    for u in toposort(x):
        done[u] = build(u, tuple(done[s] for s in u.src)) if u.src else u
    return done[x]


def settled(arg: Any) -> Any:
    """Return a size, or a tuple of them to any depth, with symbolic ones simplified; an int where it is constant.

    What is neither a UOp nor a tuple, such as an int or None, is returned as it is.

    >>> n, m = UOp.variable("n", 1, 9), UOp.variable("m", 1, 9)
    >>> settled((n + (8 - n), (m * 2 + n))) == (8, settled(n + m + m))
    True
    """
    if isinstance(arg, tuple):
        return tuple([settled(item) for item in arg])
    if not isinstance(arg, UOp):
        return arg
    size = simplify(arg)
    return int(size.lo) if size.lo == size.hi else size


def value_of(size: sint, values: Mapping[str, int]) -> int | None:
    """Return a size with `values` for its variables, or else those that they are bound to; None if one has neither."""
    if isinstance(size, int):
        return size
    binds = [node for node in toposort(size) if node.op is Ops.BIND]
    bound = {node: const(int(values.get(node.src[0].arg.name, node.arg))) for node in binds}
    found = rebuild_simplified((size,), bound)[size]
    return int(found.arg) if found.op is Ops.CONST else None


def bounds_of(sizes: Iterable[sint]) -> str:
    """Return the variables of some sizes and their bounds, as a part of a message.

    >>> bounds_of((3, UOp.variable("n", 1, 9) + UOp.variable("m", 0, 4)))
    'n is from 1 to 9, m is from 0 to 4'
    """
    variables = [n for n in toposort(*[size for size in sizes if isinstance(size, UOp)]) if n.op is Ops.VARIABLE]
    return ", ".join([f"{node.arg.name} is from {node.arg.low} to {node.arg.high}" for node in variables])


def with_values(sizes: Iterable[sint], values: Mapping[str, int]) -> str:
    """Return the variables of some sizes and the values that `value_of` uses for them, as a part of a message.

    >>> n, m = UOp.variable("n", 1, 9), UOp.variable("m", 1, 9)
    >>> with_values((3, n.bind(4) + m.bind(2)), {"m": 5})
    'with n = 4, m = 5'
    """
    found: dict[str, int] = {}
    for each in toposort(*[size for size in sizes if isinstance(size, UOp)]):
        if each.op is Ops.BIND:
            name = each.src[0].arg.name
            found[name] = int(values.get(name, each.arg))
    return "with " + ", ".join([f"{name} = {value}" for name, value in found.items()])


def size_of(size: sint, values: Mapping[str, int]) -> int:
    """Return a size as an int, with `values` for its variables, which are not bound, by name.

    Raises KeyError for a variable that `values` lacks.

    >>> size_of(add(mul(UOp.variable("n", 1, 9), 2), 1), {"n": 4}), size_of(7, {})
    (9, 7)
    """
    if isinstance(size, int):
        return size
    done: dict[UOp, int] = {}
    for u in toposort(size):
        if u.op is Ops.VARIABLE:
            done[u] = values[u.arg.name]
        elif u.op is Ops.CONST:
            done[u] = u.arg
        else:
            function = FACTS[u.op].python
            assert function is not None, f"{u.op} is not arithmetic on sizes"
            done[u] = function(*[done[s] for s in u.src])
    return int(done[size])
