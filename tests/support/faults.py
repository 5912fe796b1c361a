"""Faults of a renderer, as changes of the instructions that it renders: each a mistake that a real one might make.

A change takes an instruction and its sources, already changed, and returns what replaces it, or None.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tinygraft.dtype import dtypes
from tinygraft.render.renderer import Renderer
from tinygraft.uop.ops import ELEMENTWISE, AxisKind, Ops
from tinygraft.uop.stages import Linear, Source
from tinygraft.uop.uop import UOp, postorder

Sources = tuple[UOp, ...]
Change = Callable[[UOp, Sources], UOp | None]
TINY = 2.0**-126  # the least normal float32


class Faulty(Renderer):
    """A renderer that is given kernels with a fault in them."""

    def __init__(self, renderer: Renderer, change: Change) -> None:
        self.renderer, self.change, self.language = renderer, change, renderer.language

    def render(self, linear: Linear) -> Source:
        """The text of the changed kernel."""
        done: dict[UOp, UOp] = {}
        uops: dict[UOp, None] = {}
        for node in linear.uops:
            src = tuple(done[s] for s in node.src)
            made = self.change(node, src)
            done[node] = made if made is not None else UOp(node.op, node.dtype, src, node.arg, node.tag)
            uops.update(dict.fromkeys(postorder(done[node])))
        return self.renderer.render(replace(linear, uops=tuple(uops)))


def truncates(node: UOp, src: Sources) -> UOp | None:
    """Division of integers as in C: towards zero."""
    if node.op not in (Ops.IDIV, Ops.MOD) or node.dtype.kind != "int":
        return None
    a, b = src
    floored = a // b
    inexact = (floored * b).ne(a) & b.ne(0)
    quotient = (inexact & ((a < 0) ^ (b < 0))).where(floored + 1, floored)
    return quotient if node.op is Ops.IDIV else b.ne(0).where(a - quotient * b, a.const_like(0))


def clamps(node: UOp, src: Sources) -> UOp | None:
    """An integer that a narrower one cannot hold becomes the nearest it can, and does not wrap."""
    if node.op is not Ops.CAST or node.dtype is not dtypes.int8 or src[0].dtype.kind != "int":
        return None
    return src[0].maximum(-128).minimum(127).cast(node.dtype)


def wraps(node: UOp, src: Sources) -> UOp | None:
    """A float becomes an int32 through an int64, as an instruction of some processors does, and is not saturated."""
    if node.op is not Ops.CAST or node.dtype is not dtypes.int32 or src[0].dtype.kind != "float":
        return None
    return src[0].cast(dtypes.int64).cast(dtypes.int32)


def rounds_twice(node: UOp, src: Sources) -> UOp | None:
    """A float64 becomes a half through a float32."""
    if node.op is not Ops.CAST or node.dtype is not dtypes.float16 or src[0].dtype is not dtypes.float64:
        return None
    return src[0].cast(dtypes.float32).cast(dtypes.float16)


def drops_nan(node: UOp, src: Sources) -> UOp | None:
    """The greater is the one that is not less."""
    return (src[0] < src[1]).where(src[1], src[0]) if node.op is Ops.MAX and node.dtype.kind == "float" else None


def masks(node: UOp, src: Sources) -> UOp | None:
    """Only the lowest bits of a shift's amount count, as on many processors."""
    if node.op not in (Ops.SHL, Ops.SHR) or node.dtype is dtypes.index:
        return None
    return UOp(node.op, node.dtype, (src[0], src[1] & (node.dtype.bits - 1)))


def contracts(node: UOp, src: Sources) -> UOp | None:
    """A product and a sum are rounded once."""
    if node.op is not Ops.ADD or node.dtype.kind != "float" or src[0].op is not Ops.MUL:
        return None
    return UOp(Ops.FMA, node.dtype, (*src[0].src, src[1]))


def cancels(node: UOp, src: Sources) -> UOp | None:
    """x - x is 0, whatever x is."""
    return src[0].const_like(0.0) if node.op is Ops.SUB and src[0] is src[1] and node.dtype.kind == "float" else None


def forgets_the_sign(node: UOp, src: Sources) -> UOp | None:
    """-x is 0 - x."""
    return src[0].const_like(0.0) - src[0] if node.op is Ops.NEG and node.dtype.kind == "float" else None


def flushes(node: UOp, src: Sources) -> UOp | None:
    """What is too small for a normal float32 is 0."""
    if node.op not in ELEMENTWISE - {Ops.CAST, Ops.WHERE, Ops.BITCAST} or node.dtype is not dtypes.float32:
        return None
    made = UOp(node.op, node.dtype, src, node.arg)
    return ((made < TINY) & (made > -TINY)).where(made.const_like(0.0), made)


def approximates(node: UOp, src: Sources) -> UOp | None:
    """2**x has 20 right bits."""
    return UOp(Ops.EXP2, node.dtype, src) * (1 + 2.0**-20) if node.op is Ops.EXP2 else None


def multiplies(node: UOp, src: Sources) -> UOp | None:
    """A quotient is a product with the reciprocal."""
    return src[0] * src[1].reciprocal() if node.op is Ops.FDIV else None


def is_signed(node: UOp, src: Sources) -> UOp | None:
    """Numbers without a sign are compared as if they had one."""
    if node.op is not Ops.CMPLT or src[0].dtype is not dtypes.uint64:
        return None
    return src[0].bitcast(dtypes.int64) < src[1].bitcast(dtypes.int64)


def stops_early(node: UOp, src: Sources) -> UOp | None:
    """A loop leaves out its last turn."""
    if node.op is not Ops.RANGE or node.arg.kind is not AxisKind.LOOP or src[0].op is not Ops.CONST or src[0].arg < 2:
        return None
    return UOp(Ops.RANGE, node.dtype, (src[0].const_like(src[0].arg - 1),), node.arg)


def goes_too_far(node: UOp, src: Sources) -> UOp | None:
    """A thread past the last one writes too."""
    if node.op is not Ops.CMPLT or src[0].dtype is not dtypes.index or src[1].op is not Ops.CONST:
        return None
    return src[0] < src[1].const_like(src[1].arg + 1)


def counts_on_zeros(node: UOp, src: Sources) -> UOp | None:
    """A result is added to the value in memory, which is right as long as that is 0."""
    if node.op is not Ops.STORE or node.src[0].op is not Ops.PARAM or src[2].dtype.kind not in ("int", "float"):
        return None
    before = UOp(Ops.LOAD, src[2].dtype, (src[0], src[1], *src[3:]))
    return UOp(Ops.STORE, node.dtype, (src[0], src[1], src[2] + before, *src[3:]), node.arg)


def reads_anyway(node: UOp, src: Sources) -> UOp | None:
    """A load with a closed gate gives the first element, and not 0."""
    if node.op is not Ops.LOAD or len(src) != 3:
        return None
    return UOp(Ops.LOAD, node.dtype, (src[0], src[2].where(src[1], src[1].const_like(0))))


def overtakes(node: UOp, src: Sources) -> UOp | None:
    """Nobody waits at the end of a loop before shared memory is filled anew."""
    is_second = node.op is Ops.BARRIER and all(s.op is Ops.BARRIER for s in node.src)
    return src[0] if is_second else None


def mixes_up(node: UOp, src: Sources) -> UOp | None:
    """A matrix unit is given its operands in the wrong order."""
    if node.op is not Ops.PRODUCT:
        return None
    tile, first, at, second, by = src
    arg = replace(node.arg, first=node.arg.second, second=node.arg.first)
    return UOp(Ops.PRODUCT, node.dtype, (tile, second, by, first, at), arg)


@dataclass(frozen=True, slots=True)
class Fault:
    """A change of kernels, the tests that catch it, some that it passes, and what kind of device it is a fault of."""

    change: Change
    caught: tuple[str, ...]
    spared: tuple[str, ...] = ()
    base: str = "PYTHON"


VALUES: dict[str, Fault] = {
    "TRUNCATES": Fault(truncates, ("test_elementwise[IDIV-int32]", "test_elementwise[MOD-int64]",
                                   "test_constants[IDIV-int8]", "test_sum[floor-division]"),
                       ("test_elementwise[IDIV-uint32]", "test_elementwise[ADD-int32]")),
    "CLAMPS": Fault(clamps, ("test_cast[int32-int8]", "test_cast[int64-int8]"), ("test_cast[int32-int16]",)),
    "WRAPS": Fault(wraps, ("test_cast[float32-int32]", "test_cast[float64-int32]"), ("test_cast[float32-int16]",)),
    "ROUNDSTWICE": Fault(rounds_twice, ("test_cast[float64-float16]",), ("test_cast[float32-float16]",)),
    "DROPSNAN": Fault(drops_nan, ("test_elementwise[MAX-float32]", "test_constants[MAX-float64]"),
                      ("test_elementwise[MIN-float32]", "test_elementwise[MAX-int32]")),
    "MASKS": Fault(masks, ("test_elementwise[SHL-int32]", "test_elementwise[SHR-uint8]", "test_constants[SHL-int64]"),
                   ("test_elementwise[AND-int32]",)),
    "CONTRACTS": Fault(contracts, ("test_as_written[product-plus-float32]", "test_as_written[product-plus-float64]"),
                       ("test_elementwise[FMA-float32]", "test_elementwise[ADD-float32]")),
    "CANCELS": Fault(cancels, ("test_as_written[less-itself-float32]",), ("test_elementwise[SUB-float32]",)),
    "FORGETSTHESIGN": Fault(forgets_the_sign, ("test_elementwise[NEG-float32]", "test_constants[NEG-float64]"),
                            ("test_elementwise[NEG-int32]",)),
    "FLUSHES": Fault(flushes, ("test_elementwise[MUL-float32]", "test_elementwise[ADD-float32]"),
                     ("test_elementwise[MUL-float64]",)),
    "APPROXIMATES": Fault(approximates, ("test_accuracy[EXP2-float32]", "test_elementwise[EXP2-float32]"),
                          ("test_accuracy[LOG2-float32]",)),
    "MULTIPLIES": Fault(multiplies, ("test_elementwise[FDIV-float32]", "test_as_written[quotient-times-float64]"),
                        ("test_elementwise[RECIPROCAL-float32]",)),
    "ISSIGNED": Fault(is_signed, ("test_elementwise[CMPLT-uint64]",), ("test_elementwise[CMPLT-uint32]",)),
    "STOPSEARLY": Fault(stops_early, ("test_size[float32-7]", "test_size[uint8-67]", "test_reduce[ADD-int32]"),
                        ("test_size[float32-1]",)),
    "COUNTSONZEROS": Fault(counts_on_zeros, ("test_size[float32-7]", "test_reduce[ADD-int32]"),
                           ("test_size[uint8-67]",)),
    "READSANYWAY": Fault(reads_anyway, ("test_movement[pad]", "test_movement[all-of-it]"), ("test_movement[flip]",)),
    "GOESTOOFAR": Fault(goes_too_far, ("test_size[float32-33]", "test_size[float32-257]"), ("test_size[float32-64]",),
                        "HOST"),
    "OVERTAKES": Fault(overtakes, ("test_barrier_in_a_loop",), ("test_barrier[float32]",), "HOST"),
    "MIXESUP": Fault(mixes_up, ("test_matrix_units", "test_action[matmul-matrix]"), ("test_action[matmul-block]",),
                     "GPU"),
}  # fmt: skip
