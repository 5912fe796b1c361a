"""Data to try a kernel on, samples of its results, and whether another version computed the same.

All versions are compared with the kernel as plain loops. Where that would take too long, these loops compute only some
of the results (`sampled`). The other elements keep the pattern that they had before, and are not compared.
"""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass

from tinygraft.codegen.collapse import apply
from tinygraft.dtype import FORMATS, DType, bits_of, coerce, values_of
from tinygraft.uop import index as ix
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Param
from tinygraft.uop.uop import UOp, postorder

# assumed: unless a line says otherwise
MOST_ITERATIONS = 1 << 24  # of the plain loops that compute the results to compare with
COMPARED = 1 << 16  # elements of each result that are compared, at most
STRETCH, STRETCHES = 4096, 256  # elements that are searched for changes together, and how many such stretches
# given: the greatest prime below 2**14
PERIOD = 16381  # elements after which data repeats; a prime, so that no two rows are equal
# measured: with these all kernels of a step of MNIST and of a transformer are within 1e-4 (NOTES.md, 2026-11-20)
FLOATS = (0.25, 1.0)  # of one sign, and not near 0: no sum of them cancels, so that its relative error stays small
# assumed: never measured
LARGEST = 100  # an integer in the data: small enough to be an index of most things
# given: any byte that is rare in correct results
PATTERN = 0xA5  # every byte of an output before a run
# measured: as FLOATS (2026-11-20)
TOLERANCE = 1e-4  # of sums that are added in another order, relative to the values around


def fill(param: Param, read: bool, seed: int) -> bytearray:
    """Return the bytes of an argument: random numbers of `seed` where it is `read`, a pattern where it is not.

    The numbers repeat after PERIOD elements.
    """
    size = param.size * param.dtype.itemsize
    if not read:
        return bytearray([PATTERN]) * size
    chance = random.Random(seed)
    block = _packed([_number(param.dtype, chance) for _ in range(min(PERIOD, max(param.size, 1)))], param.dtype)
    return bytearray((block * (size // len(block) + 1))[:size])


def _number(dtype: DType, chance: random.Random) -> float | int:
    """Return a random number for data of `dtype`: in FLOATS, a bool as 0 or 1, or an integer below LARGEST."""
    if dtype.kind == "float":
        return chance.uniform(*FLOATS)
    return chance.randrange(2 if dtype.kind == "bool" else LARGEST)


_BITS = {1: "B", 2: "H"}


def _packed(numbers: list[float | int], dtype: DType) -> bytes:
    """Return numbers as bytes of `dtype`, little-endian; by their bits where struct has no format (bfloat16, fp8)."""
    if dtype.fmt is not None:
        return struct.pack(f"<{len(numbers)}{dtype.fmt}", *numbers)
    bits = [bits_of(coerce(number, dtype), dtype) for number in numbers]
    return struct.pack(f"<{len(bits)}{_BITS[dtype.itemsize]}", *bits)


def _unpacked(data: bytes, dtype: DType) -> tuple[float | int, ...]:
    """Return the numbers of `dtype` in bytes that `_packed` wrote."""
    if dtype.fmt is not None:
        return struct.unpack(f"<{len(data) // dtype.itemsize}{dtype.fmt}", data)
    values = values_of(dtype)
    return tuple(values[bits] for bits in struct.unpack(f"<{len(data) // dtype.itemsize}{_BITS[dtype.itemsize]}", data))


def sampled(sink: UOp) -> UOp:
    """Return a kernel that computes some results of the kernel `sink`, the first and the last among them.

    Its loops over results have fewer iterations, at about equal distances, so that about MOST_ITERATIONS are run in
    all; more where reductions alone have more, or where loops are symbolic. Returns `sink` itself where that has no
    more.
    """
    nodes = postorder(sink)
    sizes = {n.arg.axis: int(n.src[0].hi) for n in nodes if n.op is Ops.RANGE}
    iterations: float = max(math.prod(s for axis, s in sizes.items() if n.ranges >> axis & 1) for n in nodes)
    around = [n for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP and n.src[0].op is Ops.CONST
              and any(s.ranges >> n.arg.axis & 1 for s in sink.src)]  # fmt: skip
    swap: dict[UOp, UOp] = {}
    for number, loop in enumerate(sorted(around, key=lambda r: sizes[r.arg.axis])):
        size = sizes[loop.arg.axis]
        # the remaining loops are shortened by the same factor; a short one, which comes first, perhaps by less
        factor = (iterations / MOST_ITERATIONS) ** (1 / (len(around) - number))
        count = max(2, math.ceil(size / factor))
        if count < size:
            iterations = iterations * count / size
            swap[loop] = ix.idiv(ix.mul(UOp.range(count, loop.arg.axis), size - 1), count - 1)
    return apply(sink, nodes, swap) if swap else sink


@dataclass(frozen=True, slots=True)
class Sample:
    """The expected values of a result at some indices.

    `content` are the bytes of the whole result, `near` is a size of usual values, for the tolerance.
    """

    dtype: DType
    indices: list[int]
    expected: tuple[float | int, ...]
    near: float
    content: bytearray

    @staticmethod
    def of(param: Param, content: bytearray, before: bytearray, whole: bool) -> Sample:
        """Return a Sample of `content`, the result of a run, at indices where it differs from `before`.

        With `whole` it is at any indices: the run computed every element, and some may be as they were. At most about
        COMPARED indices, spread over the whole result. Both are the bytes of argument `param`.
        """
        size, count = param.dtype.itemsize, param.size
        now, then = memoryview(content), memoryview(before)
        step = STRETCH * size
        found = [at for at in range(0, count * size, step) if whole or now[at : at + step] != then[at : at + step]]
        if len(found) > STRETCHES:
            found = [found[i * (len(found) - 1) // (STRETCHES - 1)] for i in range(STRETCHES)]
        most = COMPARED // max(len(found), 1)
        indices: list[int] = []
        for at in found:
            inside = range(at // size, min(at // size + STRETCH, count))
            changed = [
                i for i in inside if whole or now[i * size : i * size + size] != then[i * size : i * size + size]
            ]
            chosen = min(len(changed), most)
            indices += [changed[i * (len(changed) - 1) // max(chosen - 1, 1)] for i in range(chosen)]
        expected = _at(indices, now, param.dtype)
        finite = sorted(abs(v) for v in expected if math.isfinite(v))
        near = 8 * finite[len(finite) // 2] if finite else 0.0
        return Sample(param.dtype, indices, expected, near, content)

    def difference(self, content: bytearray) -> str | None:
        """Return as text where `content`, of another run, differs by more than sums in another order do.

        None if nowhere, among the elements that were sampled. Integers and bools have to be equal.
        """
        if content == self.content:
            return None
        found = _at(self.indices, memoryview(content), self.dtype)
        floats = self.dtype.kind == "float"
        loose = max(TOLERANCE, 2.0 ** (1 - FORMATS[self.dtype].mantissa)) if floats else 0.0
        for index, a, b in zip(self.indices, found, self.expected, strict=True):
            if a != b and not (floats and _is_close(a, b, loose, self.near)):
                return f"element {index} is {a} and should be {b}"
        return None


def _at(indices: list[int], content: memoryview, dtype: DType) -> tuple[float | int, ...]:
    """Return the elements of `dtype` at some indices of `content`, its bytes, in the order of `indices`."""
    size = dtype.itemsize
    return _unpacked(b"".join(content[i * size : i * size + size] for i in indices), dtype)


def _is_close(a: float, b: float, loose: float, near: float) -> bool:
    """Return whether `a` is within `loose` times the size of `b` and `near` of `b`, or both are NaN."""
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= loose * (abs(b) + near)
