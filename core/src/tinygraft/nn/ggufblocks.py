"""Blocks of quantised numbers, as GGUF files have them: what their bytes mean.

(blocks, bytes) of uint8 in, (blocks, elements) of float32 out, by operations of Tensor. Each function computes in the
order of ggml's own, so that every bit is the same. `BLOCKS` has the types by their numbers.

Source: https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c, and ggml-common.h for the layout of each block.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tinygraft.dtype import dtypes
from tinygraft.nn import ggufgrids
from tinygraft.nn.ggufgrids import bits, cut, half
from tinygraft.tensor.tensor import Tensor

_FOUR = (0, 4)  # shifts of numbers of 4 bits in a byte, and of 2
_TWO = (0, 2, 4, 6)
_E2M1 = (0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12)  # twice the values of OCP's e2m1
_IQ4 = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


@dataclass(frozen=True)
class BlockType:
    """A type of blocks: its name, how many elements and bytes each has, and what they mean."""

    name: str
    length: int
    nbytes: int
    values: Callable[[Tensor], Tensor]


def dequantised(blocks: Tensor, kind: int) -> Tensor:
    """Return the elements, (blocks, elements) of float32, of uint8 blocks (blocks, bytes) of the type `kind`.

    `kind` is a key of BLOCKS. The IQ1, IQ2 and IQ3 types raise UnsupportedError without the package gguf.
    """
    return BLOCKS[kind].values(blocks)


def _float(x: Tensor) -> Tensor:
    """Return `x` as float32."""
    return x.cast(dtypes.float32)


def _signed(x: Tensor, less: int = 0) -> Tensor:
    """Return small unsigned integers minus `less` as float32."""
    return _float(x.cast(dtypes.int32) - less)


def _spread(data: Tensor, width: int, shifts: Sequence[int], mask: int) -> Tensor:
    """Return unsigned numbers of a few bits, (blocks, n): those of `width` bytes at the first shift, then at the next.

    `data` is (blocks, bytes), of which each `width` bytes are a group; `mask` has the bits of one number.
    """
    return bits(data.reshape(data.shape[0], -1, 1, width), shifts, mask, -2).flatten(1)


def _looked_up(values: Sequence[int], places: Tensor) -> Tensor:
    """Return float32 numbers of the table `values` at indices, of their shape."""
    return Tensor(list(values), dtype=dtypes.float32, device=places.device)[places.cast(dtypes.int32)]


def _q4_0(blocks: Tensor) -> Tensor:
    """Return 32 numbers of 4 bits less 8, times a float16."""
    d, qs = cut(blocks, 2, 16)
    return half(d) * _signed(_spread(qs, 16, _FOUR, 15), 8)


def _q4_1(blocks: Tensor) -> Tensor:
    """Return 32 numbers of 4 bits times a float16, plus another."""
    d, m, qs = cut(blocks, 2, 2, 16)
    return half(d) * _float(_spread(qs, 16, _FOUR, 15)) + half(m)


def _fifth(qh: Tensor) -> Tensor:
    """Return the fifth bit of each of 32 numbers, (blocks, 32) of 0 or 16, from (blocks, 4) bytes."""
    return bits(qh.reshape(qh.shape[0], 4, 1), range(8), 1, -1).flatten(1) << 4


def _q5_0(blocks: Tensor) -> Tensor:
    """Return 32 numbers of 5 bits less 16, times a float16."""
    d, qh, qs = cut(blocks, 2, 4, 16)
    return half(d) * _signed(_spread(qs, 16, _FOUR, 15) | _fifth(qh), 16)


def _q5_1(blocks: Tensor) -> Tensor:
    """Return 32 numbers of 5 bits times a float16, plus another."""
    d, m, qh, qs = cut(blocks, 2, 2, 4, 16)
    return half(d) * _float(_spread(qs, 16, _FOUR, 15) | _fifth(qh)) + half(m)


def _q8_0(blocks: Tensor) -> Tensor:
    """Return 32 numbers of int8 times a float16."""
    d, qs = cut(blocks, 2, 32)
    return _float(qs.bitcast(dtypes.int8)) * half(d)


def _q2_k(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 2 bits in groups of 16, each with a scale and an offset of 4 bits."""
    scales, qs, d, least = cut(blocks, 16, 64, 2, 2)
    factor = (half(d) * _float(scales & 15)).unsqueeze(-1)
    offset = (half(least) * _float(scales >> 4)).unsqueeze(-1)
    q = _float(_spread(qs, 32, _TWO, 3)).reshape(-1, 16, 16)
    return (factor * q - offset).flatten(1)


def _q3_k(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 3 bits less 4 in groups of 16, each with a scale of 6 bits less 32."""
    mask, qs, scales, d = cut(blocks, 32, 64, 12, 2)
    low, high = cut(scales, 8, 4)
    scale = _spread(low, 8, _FOUR, 15) | (_spread(high, 4, _TWO, 3) << 4)
    factor = (half(d) * _signed(scale, 32)).unsqueeze(-1)
    q = _spread(qs, 32, _TWO, 3).cast(dtypes.int32)
    more = (_spread(mask, 32, range(8), 1) ^ 1).cast(dtypes.int32) << 2  # 4 is subtracted where the bit is 0
    return (factor * _float(q - more).reshape(-1, 16, 16)).flatten(1)


def _scales_and_least(packed: Tensor) -> tuple[Tensor, Tensor]:
    """Return eight scales and eight offsets of 6 bits, each (blocks, 8) of float32, from 12 bytes."""
    d, m, both = cut(packed, 4, 4, 4)
    scale = (d & 63).cat((both & 15) | ((d >> 2) & 48), dim=-1)
    return _float(scale), _float((m & 63).cat((both >> 4) | ((m >> 2) & 48), dim=-1))


def _of_eight(d: Tensor, least: Tensor, packed: Tensor, q: Tensor) -> Tensor:
    """Return (blocks, 256) numbers in eight groups, each with a scale and an offset: d * scale * q - least * offset.

    `d` and `least` are float16 in two bytes, `packed` the 12 bytes of the scales, `q` (blocks, 256).
    """
    scale, offset = _scales_and_least(packed)
    factor, less = (half(d) * scale).unsqueeze(-1), (half(least) * offset).unsqueeze(-1)
    return (factor * _float(q).reshape(-1, 8, 32) - less).flatten(1)


def _q4_k(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 4 bits in groups of 32, as `_of_eight`."""
    d, least, packed, qs = cut(blocks, 2, 2, 12, 128)
    return _of_eight(d, least, packed, _spread(qs, 32, _FOUR, 15))


def _q5_k(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 5 bits in groups of 32, as `_of_eight`."""
    d, least, packed, qh, qs = cut(blocks, 2, 2, 12, 32, 128)
    return _of_eight(d, least, packed, _spread(qs, 32, _FOUR, 15) | (_spread(qh, 32, range(8), 1) << 4))


def _q6_k(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 6 bits less 32 in groups of 16, each with a scale of int8."""
    ql, qh, scales, d = cut(blocks, 128, 64, 16, 2)
    factor = (half(d) * _float(scales.bitcast(dtypes.int8))).unsqueeze(-1)
    q = _spread(ql, 64, _FOUR, 15) | (_spread(qh, 32, _TWO, 3) << 4)
    return (factor * _signed(q, 32).reshape(-1, 16, 16)).flatten(1)


def _thirds(data: Tensor, width: int, count: int) -> Tensor:
    """Return digits of base 3, `count` to a byte, as int32 0, 1 and 2: (blocks, n).

    The first digits of `width` bytes come first, then their second ones.
    """
    powers = Tensor([3**i for i in range(count)], dtype=dtypes.uint8, device=data.device).reshape(1, 1, count, 1)
    moved = data.reshape(data.shape[0], -1, 1, width) * powers
    return ((moved.cast(dtypes.int32) * 3) >> 8).flatten(1)


def _tq1_0(blocks: Tensor) -> Tensor:
    """Return 256 of -1, 0 and 1, five to a byte, times a float16."""
    first, second, last, d = cut(blocks, 32, 16, 4, 2)
    q = _thirds(first, 32, 5).cat(_thirds(second, 16, 5), _thirds(last, 4, 4), dim=1)
    return half(d) * _float(q - 1)


def _tq2_0(blocks: Tensor) -> Tensor:
    """Return 256 numbers of 2 bits less 1, times a float16."""
    qs, d = cut(blocks, 64, 2)
    return half(d) * _signed(_spread(qs, 32, _TWO, 3), 1)


def _mxfp4(blocks: Tensor) -> Tensor:
    """Return 32 numbers of e2m1 times a power of two, whose exponent is a byte."""
    e, qs = cut(blocks, 1, 16)
    exponent = e.cast(dtypes.uint32)
    small = exponent.cast(dtypes.int32) < 2
    d = small.where(exponent.full_like(0x200000) << exponent, (exponent - 1) << 23).bitcast(dtypes.float32)
    return d * _looked_up(_E2M1, _spread(qs, 16, _FOUR, 15))


def _nvfp4(blocks: Tensor) -> Tensor:
    """Return 64 numbers of e2m1 in groups of 16, each with a scale of 8 bits (ue4m3)."""
    scales, qs = cut(blocks, 4, 32)
    exponent, mantissa = ((scales >> 3) & 15).cast(dtypes.int32), _float(scales & 7)
    power = ((exponent + 120) << 23).bitcast(dtypes.float32)  # 2 ** (exponent - 7)
    raw = (exponent == 0).where(mantissa * 2**-9, (mantissa / 8 + 1) * power) * 0.5
    d = ((scales == 0) | (scales == 0x7F)).where(0.0, raw).unsqueeze(-1)
    q = qs.reshape(-1, 4, 8)
    return (d * _looked_up(_E2M1, (q & 15).cat(q >> 4, dim=-1))).flatten(1)


def _iq4_nl(blocks: Tensor) -> Tensor:
    """Return 32 numbers of a table of 16, times a float16."""
    d, qs = cut(blocks, 2, 16)
    return half(d) * _looked_up(_IQ4, _spread(qs, 16, _FOUR, 15))


def _iq4_xs(blocks: Tensor) -> Tensor:
    """Return 256 numbers of a table of 16 in groups of 32, each with a scale of 6 bits less 32."""
    d, high, low, qs = cut(blocks, 2, 2, 4, 128)
    fours = bits(low.unsqueeze(-1), _FOUR, 15, -1).flatten(1)
    twos = bits(high.unsqueeze(-1), _TWO, 3, -1).flatten(1)
    factor = (half(d) * _signed(fours | (twos << 4), 32)).unsqueeze(-1)
    return (factor * _looked_up(_IQ4, _spread(qs, 16, _FOUR, 15)).reshape(-1, 8, 32)).flatten(1)


BLOCKS: dict[int, BlockType] = {  # the types by their numbers in ggml.h
    2: BlockType("Q4_0", 32, 18, _q4_0),
    3: BlockType("Q4_1", 32, 20, _q4_1),
    6: BlockType("Q5_0", 32, 22, _q5_0),
    7: BlockType("Q5_1", 32, 24, _q5_1),
    8: BlockType("Q8_0", 32, 34, _q8_0),
    10: BlockType("Q2_K", 256, 84, _q2_k),
    11: BlockType("Q3_K", 256, 110, _q3_k),
    12: BlockType("Q4_K", 256, 144, _q4_k),
    13: BlockType("Q5_K", 256, 176, _q5_k),
    14: BlockType("Q6_K", 256, 210, _q6_k),
    16: BlockType("IQ2_XXS", 256, 66, ggufgrids.iq2_xxs),
    17: BlockType("IQ2_XS", 256, 74, ggufgrids.iq2_xs),
    18: BlockType("IQ3_XXS", 256, 98, ggufgrids.iq3_xxs),
    19: BlockType("IQ1_S", 256, 50, ggufgrids.iq1_s),
    20: BlockType("IQ4_NL", 32, 18, _iq4_nl),
    21: BlockType("IQ3_S", 256, 110, ggufgrids.iq3_s),
    22: BlockType("IQ2_S", 256, 82, ggufgrids.iq2_s),
    23: BlockType("IQ4_XS", 256, 136, _iq4_xs),
    29: BlockType("IQ1_M", 256, 56, ggufgrids.iq1_m),
    34: BlockType("TQ1_0", 256, 54, _tq1_0),
    35: BlockType("TQ2_0", 256, 66, _tq2_0),
    39: BlockType("MXFP4", 32, 17, _mxfp4),
    40: BlockType("NVFP4", 64, 36, _nvfp4),
}
