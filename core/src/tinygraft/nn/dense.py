"""Layers that are one product or a table: Linear, Bilinear, Embedding, EmbeddingBag.

A layer is a plain object: its tensors are attributes, which nn.state finds, and calling it builds the graph.
"""

from __future__ import annotations

import math
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.described import Described
from tinygraft.nn.parameter import uniform
from tinygraft.tensor.primitives import index_checks
from tinygraft.tensor.primitives.size_math import as_integer
from tinygraft.tensor.tensor import Tensor


class Linear(Described):
    """x (..., in_features) -> x @ weight.T + bias (..., out_features).

    weight (out_features, in_features) and bias (out_features,) start uniform in +-1/sqrt(in_features).
    Raises ShapeError for features that are not at least 1, and when the last axis of x is not in_features.

    >>> from tinygraft import Tensor, nn
    >>> nn.Linear(3, 5)(Tensor.rand(2, 3)).shape
    (2, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        in_features = as_integer(in_features, "Linear", "in_features")
        out_features = as_integer(out_features, "Linear", "out_features")
        if in_features < 1 or out_features < 0:
            raise ShapeError(f"Linear needs at least one feature of its input, got {(in_features, out_features)}")
        bound = 1 / math.sqrt(in_features)
        self.weight: Tensor = uniform(bound, (out_features, in_features))
        self.bias: Tensor | None = uniform(bound, (out_features,)) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """Return x @ weight.T + bias, (..., out_features)."""
        if not x.ndim or x.shape[-1] != self.weight.shape[1]:
            raise ShapeError(
                f"Linear with weight {self.weight.shape} needs {self.weight.shape[1]} features on the last "
                f"axis, got shape {x.shape}\n  made at {x._where()}"
            )
        return x.linear(self.weight.transpose(), self.bias)


class Embedding(Described):
    """index (...) of integers -> the rows of weight (vocab_size, embed_size): (..., embed_size).

    An index that is no row, or below 0, raises IndexOutOfRange where it is in memory of the host, as Tensor.embedding
    says; else one outside reads zeros, and -1 the last row. weight starts as glorot_uniform, as in tinygrad; PyTorch's
    is normal. Its row padding_idx starts as zeros, and gets no gradient. Raises DTypeError for an index of floats,
    ValueError for a padding_idx that is no row.

    >>> from tinygraft import Tensor, nn
    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 9]])).shape
    (1, 3, 4)
    """

    vocab_sz: int
    embed_sz: int
    padding_idx: int | None

    def __init__(self, vocab_size: int, embed_size: int, padding_idx: int | None = None) -> None:
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.padding_idx = _row("Embedding", padding_idx, vocab_size)
        self.weight: Tensor = _padded(Tensor.glorot_uniform(vocab_size, embed_size), self.padding_idx)

    def __call__(self, index: Tensor) -> Tensor:
        """Return the rows of weight at `index`: its shape with embed_size behind."""
        if not dtypes.is_int(index.dtype):
            raise DTypeError(
                f"Embedding looks up integers, got {index.dtype} of shape {index.shape}\n"
                f"  made at {index._where()}\n  hint: index.cast('int')"
            )
        index_checks.check(self.weight, index, 0, from_end=False)
        rows = self.weight[index]
        if self.padding_idx is None:
            return rows
        return (index == self.padding_idx).unsqueeze(-1).where(rows.detach(), rows)


def _row(layer: str, padding_idx: int | None, rows: int) -> int | None:
    """Return padding_idx counted from the front. Raises ValueError where it is no row, DTypeError for no integer."""
    if padding_idx is None:
        return None
    row = as_integer(padding_idx, layer, "padding_idx")
    if not -rows <= row < rows:
        raise ValueError(f"{layer} needs a padding_idx of its {rows} rows, got {padding_idx}")
    return int(row % rows)


def _padded(weight: Tensor, row: int | None) -> Tensor:
    """Return a table of which one row is zeros; all as it is for None."""
    return weight if row is None else (Tensor.arange(len(weight)).reshape(-1, 1) == row).where(0.0, weight)


class EmbeddingBag(Described):
    """index (bags, n) of integers, or (n,) and offsets, -> the mean, sum or max (mode) of the rows of each bag.

    The result is (bags, embedding_dim). weight (num_embeddings, embedding_dim) starts normal with deviation 1, and its
    row padding_idx, which does not count, as zeros. max_norm, norm_type, scale_grad_by_freq and include_last_offset are
    those of Tensor.embedding_bag, which says what raises. Raises ValueError for another mode, and a padding_idx that is
    no row.

    >>> from tinygraft import Tensor, nn
    >>> nn.EmbeddingBag(10, 4)(Tensor([1, 2, 9]), Tensor([0, 2])).shape
    (2, 4)
    """

    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    include_last_offset: bool

    def __init__(
        self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
        scale_grad_by_freq: bool = False, mode: str = "mean", include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> None:  # fmt: skip
        if mode not in ("sum", "mean", "max"):
            raise ValueError(f"EmbeddingBag puts rows together by sum, mean or max, got {mode!r}")
        self.max_norm, self.norm_type, self.scale_grad_by_freq = max_norm, norm_type, scale_grad_by_freq
        self.mode, self.include_last_offset = mode, include_last_offset
        self.padding_idx: int | None = _row("EmbeddingBag", padding_idx, num_embeddings)
        self.weight: Tensor = _padded(Tensor.randn(num_embeddings, embedding_dim), self.padding_idx)

    def __call__(self, index: Tensor, offsets: Any = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return one row for each bag, (bags, embedding_dim).

        `offsets` (bags,) are where the bags of an index of one axis begin; `per_sample_weights` scale each row of a
        sum.
        """
        return index.embedding_bag(
            self.weight, offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq, self.mode,
            per_sample_weights=per_sample_weights, include_last_offset=self.include_last_offset,
            padding_idx=self.padding_idx,
        )  # fmt: skip


class Bilinear(Described):
    """a (..., in1_features) and b (..., in2_features) -> a @ weight[o] @ b + bias[o] for each o: (..., out_features).

    weight (out, in1, in2) and bias (out,) start uniform in +-1/sqrt(in1_features). Raises ShapeError where a and b
    do not fit.

    >>> from tinygraft import Tensor, nn
    >>> nn.Bilinear(3, 4, 5)(Tensor.rand(2, 3), Tensor.rand(2, 4)).shape
    (2, 5)
    """

    def __init__(self, in1_features: int, in2_features: int, out_features: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(in1_features)
        self.weight: Tensor = uniform(bound, (out_features, in1_features, in2_features))
        self.bias: Tensor | None = uniform(bound, (out_features,)) if bias else None

    def __call__(self, a: Tensor, b: Tensor) -> Tensor:
        """Return (..., out_features) of a (..., in1_features) and b (..., in2_features)."""
        return a.bilinear(b, self.weight, self.bias)
