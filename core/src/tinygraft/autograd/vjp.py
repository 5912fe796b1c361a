"""The derivatives: one table, one row per op of the tensor graph.

A row has one rule per source. A rule takes the node and the gradient of some scalar with respect to the node's
value, and returns the gradient with respect to that source: a graph node of the source's shape and dtype. None
instead of a rule says that the source gets no gradient, None instead of a row that the op has no derivative at all;
a missing row would mean a forgotten op, and a test names it. Ops of any number of sources have one rule for all.

The rules only build graph, so a gradient can be differentiated again. Rows of more than a line are functions,
in `vjp_select.py`. In a row, `n` is the node, `g` its gradient, and a and b are its operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from tinygraft.autograd import vjp_select as select
from tinygraft.autograd.build import (
    add_up,
    add_up_from_end,
    expand,
    expanded_axes,
    flip,
    full_like,
    laid_like,
    number_of,
    pad,
    permute,
    reshape,
    shrink,
)
from tinygraft.helpers import argsort
from tinygraft.uop.ops import Ops
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp

DerivativeRule = Callable[[UOp, UOp], UOp]


@dataclass(frozen=True, slots=True)
class EachSource:
    """A row for an op of any number of sources, which are alike.

    `rule(node, gradient, numbers)` returns the gradients with respect to the sources of these numbers.
    """

    rule: Callable[[UOp, UOp, tuple[int, ...]], Sequence[UOp]]


@dataclass(frozen=True, slots=True)
class Together:
    """A row for an op whose gradients are computed by one call of the user's rule (FUNCTION).

    `rule(node, gradient, numbers)` returns the gradients with respect to the sources of these numbers, None for a
    source that gets none.
    """

    rule: Callable[[UOp, UOp, tuple[int, ...]], Sequence[UOp | None]]


DerivativeRow = tuple[DerivativeRule | None, ...] | EachSource | Together | None


def _same(n: UOp, g: UOp) -> UOp:
    return g


def _negated(n: UOp, g: UOp) -> UOp:
    return -g


def _mul_a(n: UOp, g: UOp) -> UOp:
    return g * n.src[1]


def _mul_b(n: UOp, g: UOp) -> UOp:
    return g * n.src[0]


def _fdiv_a(n: UOp, g: UOp) -> UOp:
    return g / n.src[1]


def _fdiv_b(n: UOp, g: UOp) -> UOp:
    """Return the gradient to b: d(a/b)/db = -(a/b)/b."""
    return -g * (n / n.src[1])


def _reciprocal(n: UOp, g: UOp) -> UOp:
    """Return the gradient to a: d(1/a)/da = -(1/a)**2."""
    return -g * n * n


# Rules use the result n instead of computing the function again: it is in memory, or fuses, anyway.


def _sqrt(n: UOp, g: UOp) -> UOp:
    return g / (n * 2.0)


def _exp2(n: UOp, g: UOp) -> UOp:
    return g * n * math.log(2.0)


def _log2(n: UOp, g: UOp) -> UOp:
    return g / (n.src[0] * math.log(2.0))


def _sin(n: UOp, g: UOp) -> UOp:
    return g * n.src[0].alu(Ops.COS)


def _cos(n: UOp, g: UOp) -> UOp:
    return -g * n.src[0].alu(Ops.SIN)


def _tan(n: UOp, g: UOp) -> UOp:
    return g * (n * n + 1.0)


def _asin(n: UOp, g: UOp) -> UOp:
    """Return g / sqrt((1 - a) * (1 + a)): near 1 and -1 neither factor is rounded."""
    a = n.src[0]
    return g / ((-a + 1.0) * (a + 1.0)).alu(Ops.SQRT)


def _acos(n: UOp, g: UOp) -> UOp:
    return -_asin(n, g)


def _atan(n: UOp, g: UOp) -> UOp:
    a = n.src[0]
    return g / (a * a + 1.0)


def _tanh(n: UOp, g: UOp) -> UOp:
    """Return g * (1 - n**2), as (1 - n) * (1 + n): near 1 and -1 neither factor is rounded."""
    return g * ((-n + 1.0) * (n + 1.0))


def _exp(n: UOp, g: UOp) -> UOp:
    return g * n


def _expm1(n: UOp, g: UOp) -> UOp:
    return g * n.src[0].alu(Ops.EXP)  # n + 1 has no digit left far below 0


def _log(n: UOp, g: UOp) -> UOp:
    return g / n.src[0]


def _log1p(n: UOp, g: UOp) -> UOp:
    return g / (n.src[0] + 1.0)


def _erf(n: UOp, g: UOp) -> UOp:
    a = n.src[0]
    return g * (-(a * a)).alu(Ops.EXP) * (2 / math.sqrt(math.pi))


def _erfc(n: UOp, g: UOp) -> UOp:
    return -_erf(n, g)


def _fmod_b(n: UOp, g: UOp) -> UOp:
    """Return -g times the whole quotient (a - a % b) / b, rounded to a whole number to remove its rounding error."""
    a, b = n.src
    quotient = (a - n) / b
    half = (quotient < 0.0).where(full_like(b, -0.5), 0.5)  # TRUNC rounds towards 0: adding it rounds to nearest
    return -g * (quotient + half).alu(Ops.TRUNC)


def _pow_a(n: UOp, g: UOp) -> UOp:
    """Return g * b * a**(b-1), and 0 where b is 0, so that a**0 is flat even at a = 0."""
    a, b = n.src
    power = number_of(b)
    if power is not None and abs(power) >= 2 and power == int(power):  # the schedule multiplies such powers out
        lower = a if power == 2 else a.alu(Ops.POW, power - 1)
        return g * lower * power
    # a**(b - 1) and not n / a, which is NaN at a = 0
    return b.eq(0.0).where(full_like(g, 0.0), g * b * a.alu(Ops.POW, b - 1.0))


def _pow_b(n: UOp, g: UOp) -> UOp:
    """Return g * a**b * ln(a), and 0 where a is 0 and b is not negative: there 0**b does not change with b."""
    a, b = n.src
    flat = a.eq(0.0) & (b >= 0.0)
    return flat.where(full_like(g, 0.0), g * n * (a.alu(Ops.LOG2) * math.log(2.0)))


def _expand(n: UOp, g: UOp) -> UOp:
    return add_up(g, expanded_axes(n.src[0].shape, n.shape))


def _reshape(n: UOp, g: UOp) -> UOp:
    return reshape(g, n.src[0].shape)


def _permute(n: UOp, g: UOp) -> UOp:
    return permute(g, argsort(n.arg))


def _flip(n: UOp, g: UOp) -> UOp:
    return flip(g, n.arg)


def _pad(n: UOp, g: UOp) -> UOp:
    before_and_size = zip(n.arg, n.src[0].shape, strict=True)
    return shrink(g, [(before, before + size) for (before, _), size in before_and_size])


def _shrink(n: UOp, g: UOp) -> UOp:
    """Return the gradient with zeros around it, in the shape of the source.

    With symbolic sizes PAD makes each size a sum that equals the source's; the RESHAPE makes it the same node.
    """
    whole = n.src[0].shape
    return reshape(pad(g, [(start, size - end) for (start, end), size in zip(n.arg, whole, strict=True)]), whole)


def _window(n: UOp, g: UOp) -> UOp:
    return UOp(Ops.FOLD, g.dtype, (g,), n.arg)


def _fold(n: UOp, g: UOp) -> UOp:
    return UOp(Ops.WINDOW, g.dtype, (g,), n.arg)


def _cat(n: UOp, g: UOp, numbers: tuple[int, ...]) -> Sequence[UOp]:
    """Return the slices of the gradient where the sources of these numbers are in the result."""
    ends = list(accumulate(part.shape[n.arg] for part in n.src))
    bounds: list[tuple[sint, sint]] = [(0, size) for size in n.shape]
    found = []
    for number in numbers:
        bounds[n.arg] = (ends[number - 1] if number else 0, ends[number])
        found.append(shrink(g, bounds))
    return found


def _copy(n: UOp, g: UOp) -> UOp:
    """Return the gradient on the devices of the source, sharded as it is; for COPY and SHARD."""
    return laid_like(g, n.src[0])


def _cast(n: UOp, g: UOp) -> UOp:
    return g.cast(n.src[0].dtype)


def _contiguous(n: UOp, g: UOp) -> UOp:
    return UOp(Ops.CONTIGUOUS, g.dtype, (g,))


def _function(n: UOp, g: UOp, numbers: tuple[int, ...]) -> Sequence[UOp | None]:
    """Return the gradients that the user's rule returns; source 0, the value itself, gets none."""
    return n.arg.rule(n, g, numbers)  # type: ignore[no-any-return]


def _reduce(n: UOp, g: UOp) -> UOp:
    """Return the gradient of a reduction's operand from `g`, that of its result, by the rule of its op."""
    if n.arg.op is Ops.ADD:
        return expand(g, n.src[0].shape)
    return select.reduce_mul(n, g) if n.arg.op is Ops.MUL else select.reduce_extreme(n, g)


def _scan(n: UOp, g: UOp) -> UOp:
    """Return the gradient of a scan's operand from `g`, that of its result, by the rule of its op."""
    if n.arg.op is Ops.ADD:
        return add_up_from_end(g, n.arg.axis)
    return select.scan_mul(n, g) if n.arg.op is Ops.MUL else select.scan_extreme(n, g)


VJP: dict[Ops, DerivativeRow] = {
    # elementwise
    Ops.ADD: (_same, _same),
    Ops.SUB: (_same, _negated),
    Ops.MUL: (_mul_a, _mul_b),
    Ops.FDIV: (_fdiv_a, _fdiv_b),
    Ops.POW: (_pow_a, _pow_b),
    Ops.MAX: (select.extreme_a, select.extreme_b),
    Ops.MIN: (select.extreme_a, select.extreme_b),
    Ops.FMA: (_mul_a, _mul_b, _same),
    Ops.WHERE: (None, select.where_true, select.where_false),
    Ops.NEG: (_negated,),
    Ops.RECIPROCAL: (_reciprocal,),
    Ops.SQRT: (_sqrt,),
    Ops.EXP2: (_exp2,),
    Ops.LOG2: (_log2,),
    Ops.SIN: (_sin,),
    Ops.EXP: (_exp,),
    Ops.EXPM1: (_expm1,),
    Ops.LOG: (_log,),
    Ops.LOG1P: (_log1p,),
    Ops.COS: (_cos,),
    Ops.TAN: (_tan,),
    Ops.ASIN: (_asin,),
    Ops.ACOS: (_acos,),
    Ops.ATAN: (_atan,),
    Ops.TANH: (_tanh,),
    Ops.ERF: (_erf,),
    Ops.ERFC: (_erfc,),
    Ops.FMOD: (_same, _fmod_b),
    Ops.CAST: (_cast,),
    # movement
    Ops.RESHAPE: (_reshape,),
    Ops.EXPAND: (_expand,),
    Ops.PERMUTE: (_permute,),
    Ops.FLIP: (_flip,),
    Ops.PAD: (_pad,),
    Ops.SHRINK: (_shrink,),
    Ops.WINDOW: (_window,),
    Ops.FOLD: (_fold,),
    Ops.CAT: EachSource(_cat),
    # values from other indices
    Ops.REDUCE_AXIS: (_reduce,),
    Ops.SCAN: (_scan,),
    Ops.GATHER: (select.gather_table, None),
    Ops.SCATTER: (select.scatter_base, None, select.scatter_value),
    # of the values of sort and topk; tensor/ops attaches those of all other routines as a FUNCTION
    Ops.ROUTINE: (select.routine_operand,),
    # memory and order
    Ops.CONTIGUOUS: (_same,),
    Ops.AFTER: (_same, None),
    Ops.CONTIGUOUS_BACKWARD: (_contiguous,),
    Ops.COPY: (_copy, None),
    Ops.SHARD: (_copy, None),
    Ops.ASSIGN: (select.assign_old, select.assign_value, None),
    Ops.FUNCTION: Together(_function),
    Ops.DETACH: None,
    # steps: flat wherever they have a derivative
    Ops.TRUNC: None,
    Ops.CMPLT: None,
    Ops.CMPEQ: None,
    Ops.CMPNE: None,
    # its derivative, digamma, is no graph of a few ops: Tensor.lgamma attaches it as a FUNCTION
    Ops.LGAMMA: None,
    # integers, bits and leaves
    Ops.BITCAST: None,
    Ops.NOT: None,
    Ops.IDIV: None,
    Ops.MOD: None,
    Ops.AND: None,
    Ops.OR: None,
    Ops.XOR: None,
    Ops.SHL: None,
    Ops.SHR: None,
    Ops.THREEFRY: None,
    Ops.CONST: None,
    Ops.DEVICE: None,
    Ops.BUFFER: None,
    Ops.MULTI: None,
    Ops.VARIABLE: None,
    Ops.BIND: None,
    Ops.IOTA: None,
    Ops.PLACEHOLDER: None,
}


def has_rule(node: UOp, number: int) -> bool:
    """Return whether `node` passes a gradient to its source `number`: both are floats and the row has a rule for it."""
    if node.dtype.kind != "float" or node.src[number].dtype.kind != "float":
        return False
    row = VJP.get(node.op)
    if isinstance(row, Together):
        return number > 0  # source 0 of a FUNCTION is its value; gradients go to the sources after it, the inputs
    if row is None or isinstance(row, EachSource):
        return row is not None
    if node.op is Ops.ASSIGN and len(node.src) == 2 and number == 0:
        return False  # all of the old value is replaced
    return number < len(row) and row[number] is not None


def gradient_of_source(node: UOp, gradient: UOp, number: int) -> UOp:
    """Return the gradient with respect to source `number` of `node`, from the `gradient` with respect to `node`.

    Raises ValueError where the row has no rule for that source alone; `has_rule` has to hold for it.
    """
    row = VJP[node.op]
    if isinstance(row, Together):
        raise ValueError(f"{node.op.name} gives the gradients of its sources together: use gradients_of_sources")
    if isinstance(row, EachSource):
        return row.rule(node, gradient, (number,))[0]
    rule = row[number] if row is not None else None
    if rule is None:
        raise ValueError(f"{node.op.name} has no derivative with respect to source {number}")
    return rule(node, gradient)


def gradients_of_sources(node: UOp, gradient: UOp, numbers: tuple[int, ...]) -> Sequence[UOp | None]:
    """Return the gradients with respect to the sources of `node` of these numbers, for which `has_rule` has to hold.

    `gradient` is that with respect to `node`. None stands for a source that gets no gradient.
    """
    row = VJP[node.op]
    if isinstance(row, (Together, EachSource)):
        return row.rule(node, gradient, numbers)
    return [gradient_of_source(node, gradient, number) for number in numbers]
