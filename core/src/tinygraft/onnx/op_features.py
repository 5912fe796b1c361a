"""Operators of ONNX's domain ai.onnx.ml, and n-grams: numbers as features. What needs text is not done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.onnx.operator_table import ML, operator, text
from tinygraft.onnx.weights import Weight
from tinygraft.tensor.tensor import Tensor


@operator("Binarizer", domain=ML)
def binarizer(x: Tensor, *, threshold: float = 0.0) -> Tensor:
    """1 where x is above a threshold, 0 elsewhere."""
    return (x > threshold).cast(x.dtype)


@operator("Scaler", domain=ML)
def scaler(x: Tensor, *, offset: Sequence[float], scale: Sequence[float]) -> Tensor:
    """(x - offset) * scale."""
    moved, factor = (Tensor(list(each), dtype=dtypes.float32, device=x.device) for each in (offset, scale))
    return (x.cast(dtypes.float32) - moved) * factor


@operator("Normalizer", domain=ML)
def normalizer(x: Tensor, *, norm: bytes = b"MAX") -> Tensor:
    """Return rows over their largest magnitude, the sum of magnitudes, or the root of the sum of squares, in float32.

    A row whose size is 0 stays. Raises FileFormatError for a norm other than MAX, L1 and L2.
    """
    wide = x.cast(dtypes.float32)
    name = text(norm)
    if name not in ("MAX", "L1", "L2"):
        raise FileFormatError(f"Normalizer has the norms MAX, L1 and L2, not {name!r}")
    size = {"MAX": wide.abs().max(-1, keepdim=True), "L1": wide.abs().sum(-1, keepdim=True),
            "L2": wide.square().sum(-1, keepdim=True).sqrt()}[name]  # fmt: skip
    return (size == 0).where(wide, wide / size)


@operator("FeatureVectorizer", domain=ML)
def feature_vectorizer(*parts: Tensor, inputdimensions: Sequence[int] | None = None) -> Tensor:
    """Return the columns of several inputs beside each other, in float32; the declared sizes are not looked at."""
    wide = [part.cast(dtypes.float32) for part in parts]
    return wide[0].cat(*wide[1:], dim=-1)


@operator("LabelEncoder", domain=ML)
def label_encoder(
    x: Tensor, *, default_float: float = -0.0, default_int64: int = -1, default_string: bytes = b"",
    default_tensor: Weight | None = None, keys_floats: Any = None, keys_int64s: Any = None, keys_strings: Any = None,
    keys_tensor: Weight | None = None, values_floats: Any = None, values_int64s: Any = None,
    values_strings: Any = None, values_tensor: Weight | None = None, classes_strings: Any = None,
) -> Tensor:  # fmt: skip
    """Return, for each element of x, the value whose key it is, or a default. NaN is equal to NaN.

    Raises UnsupportedError for text.
    """
    if keys_strings or values_strings or classes_strings:
        raise UnsupportedError("LabelEncoder with text is not done: no tensor holds text")
    keys = keys_tensor.tensor() if keys_tensor else Tensor(list(keys_floats or keys_int64s or ()), dtype=x.dtype)
    if values_tensor is not None:
        values = values_tensor.tensor()
        default = default_tensor.tensor().reshape(()) if default_tensor else values[0] * 0 - 1
    elif values_floats is not None:
        values, default = Tensor(list(values_floats), dtype=dtypes.float32), Tensor(default_float)
    else:
        values = Tensor(list(values_int64s or ()), dtype=dtypes.int64)
        default = Tensor(default_int64, dtype=dtypes.int64)
    same = (x.unsqueeze(-1) == keys) | (x.unsqueeze(-1) != x.unsqueeze(-1)) & (keys != keys)
    return same.any(-1).where(values[same.argmax(-1)], default)


@operator("TfIdfVectorizer")
def tf_idf_vectorizer(
    x: Tensor, *, max_gram_length: int, max_skip_count: int, min_gram_length: int, mode: bytes,
    ngram_counts: Sequence[int], ngram_indexes: Sequence[int], pool_int64s: Sequence[int] | None = None,
    pool_strings: Any = None, weights: Sequence[float] | None = None,
) -> Tensor:  # fmt: skip
    """Return how often each n-gram of a pool is in the rows of x (rows, length), as float32 (rows, n-grams).

    Gaps of up to max_skip_count between its elements count too; `mode` TF is the counts, IDF the weights of those that
    occur, TFIDF both. Raises UnsupportedError for text.
    """
    if pool_strings or pool_int64s is None:
        raise UnsupportedError("TfIdfVectorizer of text is not done: no tensor holds text")
    rows = x.reshape(1, -1) if x.ndim == 1 else x
    counts = Tensor.zeros(int(rows.shape[0]), len(ngram_indexes), device=x.device)
    grams = _grams(pool_int64s, ngram_counts)
    places = dict(enumerate(ngram_indexes))
    for number, gram in enumerate(grams):
        if not min_gram_length <= len(gram) <= max_gram_length:
            continue
        found = _occurrences(rows, gram, 0 if len(gram) == 1 else max_skip_count)
        one = Tensor.arange(len(ngram_indexes), device=x.device) == places[number]
        counts = counts + found.unsqueeze(1) * one.cast(dtypes.float32)
    if text(mode) != "TF":
        factor: Any = 1.0
        if weights is not None:
            order = sorted(range(len(grams)), key=lambda i: ngram_indexes[i])
            factor = Tensor([weights[i] for i in order], dtype=dtypes.float32, device=x.device)
        counts = ((counts > 0).cast(dtypes.float32) if text(mode) == "IDF" else counts) * factor
    return counts.reshape(-1) if x.ndim == 1 else counts


def _grams(pool: Sequence[int], starts: Sequence[int]) -> list[list[int]]:
    """The n-grams of a pool, of which starts has where those of each length begin."""
    found = []
    for length, start in enumerate(starts, 1):
        end = starts[length] if length < len(starts) else len(pool)
        found += [list(pool[i : i + length]) for i in range(start, end, length)]
    return found


def _occurrences(rows: Tensor, gram: Sequence[int], skips: int) -> Tensor:
    """Return how often a gram is in each row, float32 (rows,).

    Between any two of its elements are 0 to `skips` others, the same number throughout a gram.
    """
    total = Tensor.zeros(int(rows.shape[0]), device=rows.device)
    for skip in range(skips + 1):
        count = int(rows.shape[1]) - (len(gram) - 1) * (skip + 1)
        if count <= 0:
            break
        same = None
        for place, value in enumerate(gram):
            start = place * (skip + 1)
            here = rows[:, start : start + count] == value
            same = here if same is None else same & here
        if same is not None:
            total = total + same.cast(dtypes.float32).sum(1)
    return total
