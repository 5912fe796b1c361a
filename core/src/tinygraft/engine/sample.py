"""Data to try a kernel on, what part of its results is looked at, and whether another version computed the same.

A kernel as plain loops is what all versions are held to. Where that would take too long it runs for some of its results
only: `sampled`. Everything else it writes keeps the pattern that was there before, and is not compared.
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
MOST_TURNS = 1 << 24  # of plain loops that the results to compare with may take
COMPARED = 1 << 16  # elements of each result that are compared, at most
CHUNK, CHUNKS = 4096, 256  # elements that are looked at together, and how many times
# given: the greatest prime below 2**14
PERIOD = 16381  # elements after which data repeats; a prime, so that no two rows are equal
# measured: with these all kernels of a step of MNIST and of a transformer are within 1e-4 (NOTES.md, 2026-11-20)
FLOATS = (0.25, 1.0)  # of one sign, and not near 0: no sum of them cancels, so that rounding stays small behind it
# assumed: never measured
LARGEST = 100  # an integer in the data: small enough to be an index of most things
# given: any byte that few right results are made of
PATTERN = 0xA5  # what outputs are full of before a run
# measured: as FLOATS (2026-11-20)
TOLERANCE = 1e-4  # of sums that are added in another order, relative to the values around


def fill(param: Param, read: bool, seed: int) -> bytearray:
    """Memory for an argument: random numbers where it is read, a pattern where it is only written."""
    size = param.size * param.dtype.itemsize
    if not read:
        return bytearray([PATTERN]) * size
    chance = random.Random(seed)
    block = _packed([_number(param.dtype, chance) for _ in range(min(PERIOD, max(param.size, 1)))], param.dtype)
    return bytearray((block * (size // len(block) + 1))[:size])


def _number(dtype: DType, chance: random.Random) -> float | int:
    if dtype.kind == "float":
        return chance.uniform(*FLOATS)
    return chance.randrange(2 if dtype.kind == "bool" else LARGEST)


_BITS = {1: "B", 2: "H"}


def _packed(numbers: list[float | int], dtype: DType) -> bytes:
    """Numbers as bytes of `dtype`, little-endian; by their bits where struct has no format (bfloat16, fp8)."""
    if dtype.fmt is not None:
        return struct.pack(f"<{len(numbers)}{dtype.fmt}", *numbers)
    bits = [bits_of(coerce(number, dtype), dtype) for number in numbers]
    return struct.pack(f"<{len(bits)}{_BITS[dtype.itemsize]}", *bits)


def _unpacked(data: bytes, dtype: DType) -> tuple[float | int, ...]:
    """The numbers in bytes that `_packed` wrote."""
    if dtype.fmt is not None:
        return struct.unpack(f"<{len(data) // dtype.itemsize}{dtype.fmt}", data)
    values = values_of(dtype)
    return tuple(values[bits] for bits in struct.unpack(f"<{len(data) // dtype.itemsize}{_BITS[dtype.itemsize]}", data))


def sampled(sink: UOp) -> UOp:
    """A kernel that computes some results of another, spread over all of them, the first and the last among them."""
    nodes = postorder(sink)
    sizes = {n.arg.axis: int(n.src[0].hi) for n in nodes if n.op is Ops.RANGE}
    iterations: float = max(math.prod(s for axis, s in sizes.items() if n.ranges >> axis & 1) for n in nodes)
    around = [n for n in nodes if n.op is Ops.RANGE and n.arg.kind is AxisKind.LOOP and n.src[0].op is Ops.CONST
              and any(s.ranges >> n.arg.axis & 1 for s in sink.src)]  # fmt: skip
    swap: dict[UOp, UOp] = {}
    for place, loop in enumerate(sorted(around, key=lambda r: sizes[r.arg.axis])):
        size = sizes[loop.arg.axis]
        share = (iterations / MOST_TURNS) ** (1 / (len(around) - place))  # of what is too much: loops are thinned alike
        kept = max(2, math.ceil(size / share))
        if kept < size:
            iterations = iterations * kept / size
            swap[loop] = ix.idiv(ix.mul(UOp.range(kept, loop.arg.axis), size - 1), kept - 1)
    return apply(sink, nodes, swap) if swap else sink


@dataclass(frozen=True, slots=True)
class Sample:
    """What a result should hold at some places; all of its bytes where every one was computed."""

    dtype: DType
    places: list[int]
    expected: tuple[float | int, ...]
    near: float
    content: bytearray

    @staticmethod
    def of(param: Param, content: bytearray, before: bytearray, whole: bool) -> Sample:
        """Places that a run has changed; with whole, any places: the run computed all, and perhaps what was there."""
        size, count = param.dtype.itemsize, param.size
        now, then = memoryview(content), memoryview(before)
        step = CHUNK * size
        chunks = [at for at in range(0, count * size, step) if whole or now[at : at + step] != then[at : at + step]]
        if len(chunks) > CHUNKS:
            chunks = [chunks[i * (len(chunks) - 1) // (CHUNKS - 1)] for i in range(CHUNKS)]
        most = COMPARED // max(len(chunks), 1)
        places: list[int] = []
        for at in chunks:
            inside = range(at // size, min(at // size + CHUNK, count))
            changed = [
                i for i in inside if whole or now[i * size : i * size + size] != then[i * size : i * size + size]
            ]
            kept = min(len(changed), most)
            places += [changed[i * (len(changed) - 1) // max(kept - 1, 1)] for i in range(kept)]
        expected = _at(places, now, param.dtype)
        finite = sorted(abs(v) for v in expected if math.isfinite(v))
        near = 8 * finite[len(finite) // 2] if finite else 0.0
        return Sample(param.dtype, places, expected, near, content)

    def difference(self, content: bytearray) -> str | None:
        """Where another run differs by more than sums in another order do; None where it does not."""
        if content == self.content:
            return None
        found = _at(self.places, memoryview(content), self.dtype)
        floats = self.dtype.kind == "float"
        loose = max(TOLERANCE, 2.0 ** (1 - FORMATS[self.dtype].mantissa)) if floats else 0.0
        for place, a, b in zip(self.places, found, self.expected, strict=True):
            if a != b and not (floats and _is_close(a, b, loose, self.near)):
                return f"element {place} is {a} and should be {b}"
        return None


def _at(places: list[int], content: memoryview, dtype: DType) -> tuple[float | int, ...]:
    """The elements at some places."""
    size = dtype.itemsize
    return _unpacked(b"".join(content[i * size : i * size + size] for i in places), dtype)


def _is_close(a: float, b: float, loose: float, near: float) -> bool:
    if not (math.isfinite(a) and math.isfinite(b)):
        return math.isnan(a) and math.isnan(b)
    return abs(a - b) <= loose * (abs(b) + near)
