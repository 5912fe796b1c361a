"""Layers that are one matrix product or a table: Linear, Embedding, LSTMCell.

A layer is a plain object: its tensors are attributes, which nn.state finds, and calling it builds the graph.
"""

from __future__ import annotations

import math

from tinygraft.dtype import dtypes
from tinygraft.errors import DTypeError, ShapeError
from tinygraft.nn.parameter import uniform
from tinygraft.tensor.tensor import Tensor


class Linear:
    """x (..., in_features) -> x @ weight.T + bias (..., out_features).

    weight (out_features, in_features) and bias (out_features,) start uniform in +-1/sqrt(in_features).
    Raises ShapeError when the last axis of x is not in_features.

    >>> from tinygraft import Tensor, nn
    >>> nn.Linear(3, 5)(Tensor.rand(2, 3)).shape
    (2, 5)
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(in_features)
        self.weight = uniform(bound, (out_features, in_features))
        self.bias = uniform(bound, (out_features,)) if bias else None

    def __call__(self, x: Tensor) -> Tensor:
        """The product of x and weight."""
        if not x.ndim or x.shape[-1] != self.weight.shape[1]:
            raise ShapeError(
                f"Linear with weight {self.weight.shape} needs {self.weight.shape[1]} features on the last "
                f"axis, got shape {x.shape}\n  made at {x._where()}"
            )
        return x.linear(self.weight.transpose(), self.bias)


class Embedding:
    """index (...) of integers -> the rows of weight (vocab_size, embed_size): (..., embed_size).

    An index outside the table reads zeros. weight starts as glorot_uniform, as in tinygrad; PyTorch's is normal.
    Raises DTypeError for an index of floats.

    >>> from tinygraft import Tensor, nn
    >>> nn.Embedding(10, 4)(Tensor([[1, 2, 9]])).shape
    (1, 3, 4)
    """

    def __init__(self, vocab_size: int, embed_size: int) -> None:
        self.vocab_sz, self.embed_sz = vocab_size, embed_size
        self.weight = Tensor.glorot_uniform(vocab_size, embed_size)

    def __call__(self, index: Tensor) -> Tensor:
        """The rows of weight at index."""
        if not dtypes.is_int(index.dtype):
            raise DTypeError(
                f"Embedding looks up integers, got {index.dtype} of shape {index.shape}\n"
                f"  made at {index._where()}\n  hint: index.cast('int')"
            )
        return self.weight[index]


class LSTMCell:
    """One step of a long short-term memory: x (N, input_size) and (h, c) -> the new (h, c), each (N, hidden).

    The gates are input, forget, cell and output, in this order along the first axis of weight_ih (4*hidden,
    input_size) and weight_hh (4*hidden, hidden), as in PyTorch; all start uniform in +-1/sqrt(hidden_size).
    Without a state it is zero. Raises ShapeError when x or the state does not fit.

    Source: Hochreiter & Schmidhuber, "Long short-term memory", 1997, with the forget gate of Gers et al.,
    2000.
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True) -> None:
        bound = 1 / math.sqrt(hidden_size)
        self.weight_ih = uniform(bound, (hidden_size * 4, input_size))
        self.weight_hh = uniform(bound, (hidden_size * 4, hidden_size))
        self.bias_ih = uniform(bound, (hidden_size * 4,)) if bias else None
        self.bias_hh = uniform(bound, (hidden_size * 4,)) if bias else None

    def __call__(self, x: Tensor, hc: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next state."""
        hidden = self.weight_hh.shape[1]
        if x.ndim != 2 or x.shape[1] != self.weight_ih.shape[1]:
            raise ShapeError(
                f"LSTMCell with weight_ih {self.weight_ih.shape} needs x (N, {self.weight_ih.shape[1]}), got "
                f"shape {x.shape}\n  made at {x._where()}"
            )
        if hc is None:
            zeros = Tensor.zeros(x.shape[0], hidden, dtype=x.dtype, device=x.device)
            hc = zeros, zeros
        h, c = hc
        for name, state in (("h", h), ("c", c)):
            if state.shape != (x.shape[0], hidden):
                raise ShapeError(
                    f"LSTMCell needs {name} {(x.shape[0], hidden)} beside x {x.shape}, got shape "
                    f"{state.shape}\n  made at {state._where()}"
                )
        # all four gates in one product each, which is why their weights are stacked
        gates = x.linear(self.weight_ih.transpose(), self.bias_ih) + h.linear(self.weight_hh.transpose(), self.bias_hh)
        i, f, g, o = gates.chunk(4, dim=1)
        new_c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * new_c.tanh(), new_c
