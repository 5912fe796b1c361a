"""Blocks whose numbers are rows of a table, with signs and scales beside them: the types IQ1, IQ2 and IQ3.

(blocks, bytes) of uint8 in, (blocks, 256) of float32 out. The tables, which are thousands of numbers found by search,
are those of the package gguf: they are read from it, and nothing else of it is used. What all blocks share is here,
too: how their bytes are cut, and their bits.

Source: https://github.com/ggml-org/ggml/blob/master/src/ggml-quants.c (dequantize_row_iq*).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.tensor.tensor import Tensor

_FOUR = (0, 4)
_DELTA = 0.125  # given: IQ1S_DELTA of ggml-common.h


def cut(blocks: Tensor, *widths: int) -> tuple[Tensor, ...]:
    """The bytes of blocks (blocks, bytes) in consecutive fields of `widths` bytes, (blocks, width) each."""
    return blocks.split(list(widths), dim=-1)


def half(field: Tensor) -> Tensor:
    """Return two bytes of a block, little endian, as a float16 in float32: (blocks, 1)."""
    return words(field, 2).bitcast(dtypes.float16).cast(dtypes.float32)


def words(field: Tensor, width: int) -> Tensor:
    """Bytes (..., n) as unsigned integers of `width` bytes, 2 or 4, little endian: (..., n // width)."""
    dtype = {2: dtypes.uint16, 4: dtypes.uint32}[width]
    parts = field.reshape(*field.shape[:-1], -1, width)
    found = parts[..., 0].cast(dtype)
    for place in range(1, width):
        found = found | (parts[..., place].cast(dtype) << 8 * place)
    return found


def bits(data: Tensor, shifts: Sequence[int], mask: int, axis: int) -> Tensor:
    """Return `data` moved to the right by each shift along `axis`, which has size 1, and masked: of its dtype."""
    shape = [1] * data.ndim
    shape[axis] = len(shifts)
    return (data >> Tensor(list(shifts), dtype=data.dtype, device=data.device).reshape(shape)) & mask


@cache
def _table(name: str) -> tuple[tuple[float, ...], ...]:
    """Return the rows of the table `name` of the package gguf. Raises UnsupportedError where it is not installed."""
    try:
        from gguf import quants
    except ImportError as error:
        raise UnsupportedError(
            f"blocks of the type {name} are read with a table of the package gguf, which cannot be imported: {error}\n"
            "  hint: pip install tinygraft[gguf]"
        ) from error
    owner = getattr(quants, name)
    owner.init_grid()
    return tuple(tuple(float(value) for value in row) for row in owner.grid.reshape(owner.grid_shape))


def _rows(name: str, places: Tensor) -> Tensor:
    """Return the rows of the table `name` at integers `places`, float32 with one more axis at the end."""
    table = Tensor([list(row) for row in _table(name)], dtype=dtypes.float32, device=places.device)
    return table[places.cast(dtypes.int32)]


def _signs(eight: Tensor) -> Tensor:
    """Return 1 or -1, where the bit is set, for each bit of bytes, the lowest first: one more axis of 8."""
    return (bits(eight.unsqueeze(-1), range(8), 1, -1) == 0).where(1.0, -1.0)


def _seven(index: Tensor) -> Tensor:
    """Return the signs of eight numbers in 7 bits, one more axis of 8.

    The last makes the number of minus signs even.
    """
    found, parity = index, index
    for shift in (4, 2, 1):
        parity = parity ^ (parity >> shift)
    return _signs(found | ((parity & 1) << 7))


def _scale(d: Tensor, scales: Tensor, factor: float) -> Tensor:
    """Return d * (0.5 + scale) * factor, float32 of the shape of `scales`; `d` is a float16 in two bytes."""
    return half(d) * (scales.cast(dtypes.float32) + 0.5) * factor


def _nibbles(scales: Tensor) -> Tensor:
    """Return the 4-bit numbers of bytes (blocks, n), the lower one of each first: (blocks, 2 * n)."""
    return bits(scales.unsqueeze(-1), _FOUR, 15, -1).flatten(1)


def iq2_xxs(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of eight of a table, four to a word of 32 bits with their signs and a scale."""
    d, qs = cut(blocks, 2, 64)
    parts = qs.reshape(-1, 8, 8)
    rest = words(parts[..., 4:], 4).squeeze(-1)
    db = _scale(d, rest >> 28, 0.25)[..., None, None]
    signs = _seven(bits(rest.unsqueeze(-1), (0, 7, 14, 21), 127, -1))
    return (db * _rows("IQ2_XXS", parts[..., :4]) * signs).flatten(1)


def iq2_xs(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of eight of a table, each with its signs in a word of 16 bits; a scale for sixteen."""
    d, qs, scales = cut(blocks, 2, 64, 8)
    index = words(qs, 2)
    db = _scale(d, _nibbles(scales), 0.25)[..., None, None]
    grid, signs = _rows("IQ2_XS", index & 511), _seven(index >> 9)
    return (db * grid.reshape(-1, 16, 2, 8) * signs.reshape(-1, 16, 2, 8)).flatten(1)


def iq2_s(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of eight of a table of 1024, with a bit for each sign; a scale for sixteen."""
    d, qs, signs, qh, scales = cut(blocks, 2, 32, 32, 8, 8)
    high = bits(qh.unsqueeze(-1), (0, 2, 4, 6), 3, -1).flatten(1).cast(dtypes.int32) << 8
    db = _scale(d, _nibbles(scales), 0.25)[..., None, None]
    grid = _rows("IQ2_S", qs.cast(dtypes.int32) | high)
    return (db * grid.reshape(-1, 16, 2, 8) * _signs(signs).reshape(-1, 16, 2, 8)).flatten(1)


def iq3_xxs(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of four of a table, eight to a word of 32 bits with their signs and a scale."""
    d, qs, scales = cut(blocks, 2, 64, 32)
    rest = words(scales, 4)
    db = _scale(d, rest >> 28, 0.5)[..., None, None]
    signs = _seven(bits(rest.unsqueeze(-1), (0, 7, 14, 21), 127, -1))
    return (db * _rows("IQ3_XXS", qs).reshape(-1, 8, 4, 8) * signs).flatten(1)


def iq3_s(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of four of a table of 512, with a bit for each sign; a scale for 32."""
    d, qs, qh, signs, scales = cut(blocks, 2, 64, 8, 32, 4)
    high = bits(qh.unsqueeze(-1), range(8), 1, -1).flatten(1).cast(dtypes.int32) << 8
    db = (half(d) * (_nibbles(scales).cast(dtypes.int32) * 2 + 1).cast(dtypes.float32))[..., None, None]
    grid = _rows("IQ3_S", qs.cast(dtypes.int32) | high)
    return (db * grid.reshape(-1, 8, 4, 8) * _signs(signs).reshape(-1, 8, 4, 8)).flatten(1)


def _delta(bit: Tensor) -> Tensor:
    """Return +0.125 where `bit` is 0, and -0.125 elsewhere."""
    return (bit == 0).where(_DELTA, -_DELTA)


def iq1_s(blocks: Tensor) -> Tensor:
    """Return 256 numbers: rows of eight of -1, 0 and 1, moved by an eighth up or down; a scale for 32."""
    d, qs, qh = cut(blocks, 2, 32, 16)
    word = words(qh, 2).cast(dtypes.int32)
    scale = (half(d) * (((word >> 12) & 7) * 2 + 1).cast(dtypes.float32))[..., None, None]
    high = bits(word.unsqueeze(-1), (0, 3, 6, 9), 7, -1).flatten(1) << 8
    grid = _rows("IQ1_S", qs.cast(dtypes.int32) | high).reshape(-1, 8, 4, 8)
    return (scale * (grid + _delta(word & 0x8000)[..., None, None])).flatten(1)


def iq1_m(blocks: Tensor) -> Tensor:
    """As IQ1_S, with a scale for sixteen numbers; the scale of the block is in the upper bits of those."""
    qs, qh, scales = cut(blocks, 32, 16, 8)
    word = words(scales, 2)
    top = word & 0xF000
    d = (top[..., 0] >> 12) | (top[..., 1] >> 8) | (top[..., 2] >> 4) | top[..., 3]
    factor = bits(word.unsqueeze(-1), (0, 3, 6, 9), 7, -1).flatten(1).cast(dtypes.int32) * 2 + 1
    whole = d.bitcast(dtypes.float16).cast(dtypes.float32).unsqueeze(-1)
    scale = (whole * factor.cast(dtypes.float32)).reshape(-1, 16, 1, 1)
    nibble = bits(qh.unsqueeze(-1), _FOUR, 15, -1).flatten(1).cast(dtypes.int32)
    grid = _rows("IQ1_M", qs.cast(dtypes.int32) | ((nibble & 7) << 8)).reshape(-1, 16, 2, 8)
    return (scale * (grid + _delta(nibble & 8).reshape(-1, 16, 2, 1))).flatten(1)
