"""Rotary positions: a query or a key is turned by an angle that grows with its position, pair by pair of its numbers.

Source: Su et al., "RoFormer: enhanced transformer with rotary position embedding", arXiv:2104.09864; the pairs are
those of Llama in Hugging Face's transformers, number i with number i + width / 2.
"""

from __future__ import annotations

from typing import Any

from tinygraft.errors import DTypeError, ShapeError
from tinygraft.tensor.tensor import Tensor


def rotary(x: Tensor, start: Any = 0, theta: float = 10000.0) -> Tensor:
    """Return x (..., L, width), whose positions are start to start + L - 1, with pair i turned by position / theta **
    (2 i / width).

    start is an int or a bound Variable. Angles are of float32, or of x's dtype where that is wider; the result has the
    shape and dtype of x. Pairs are numbers i and i + width / 2, as in files of Hugging Face; those of llama.cpp's GGUF
    files have the two numbers of a pair side by side. Raises ShapeError for fewer than two axes or an odd width,
    DTypeError for x that is not of floats, ValueError for a theta that is not above 0.

    >>> from tinygraft import Tensor
    >>> [round(v, 4) for v in rotary(Tensor([[1.0, 0.0], [1.0, 0.0]]), start=1)[0].tolist()]
    [0.5403, 0.8415]
    """
    if x.ndim < 2 or x.shape[-1] % 2:
        raise ShapeError(
            f"rotary positions need x (..., L, width) with an even width, got shape {x.shape}\n  made at {x._where()}"
        )
    if x.dtype.kind != "float":
        raise DTypeError(f"rotary positions turn floats, got {x.dtype}\n  made at {x._where()}")
    if not theta > 0:
        raise ValueError(f"rotary positions need a theta above 0, got {theta}")
    length, half = x.shape[-2], x.shape[-1] // 2
    wide = x.float() if x.dtype.itemsize < 4 else x
    places = (Tensor.arange(length, device=x.device) + start).cast(wide.dtype).reshape(-1, 1)
    powers = Tensor.arange(half, device=x.device).cast(wide.dtype) * (-1 / half)
    angles = (places * (powers * Tensor(theta, dtype=wide.dtype, device=x.device).log()).exp()).contiguous()
    cos, sin = angles.cos(), angles.sin()
    first, second = wide[..., :half], wide[..., half:]
    turned: Tensor = (first * cos - second * sin).cat(second * cos + first * sin, dim=-1)
    return turned.cast(x.dtype)
