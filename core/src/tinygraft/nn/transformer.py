"""Transformers: TransformerEncoderLayer, TransformerEncoder, TransformerDecoderLayer, TransformerDecoder.

Layers have the names, defaults and first weights of PyTorch's. Sequences are (L, N, d_model), or (N, L, d_model) with
batch_first, or without N. Source: Vaswani et al., "Attention is all you need", arXiv:1706.03762; norm_first: Xiong et
al., "On layer normalization in the transformer architecture", arXiv:2002.04745.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import TypeVar, Union

from tinygraft.nn.dense import Linear
from tinygraft.nn.described import Described
from tinygraft.nn.multihead import MultiheadAttention
from tinygraft.nn.norm import LayerNorm
from tinygraft.tensor.tensor import Tensor

T = TypeVar("T")
Activation = Union[str, Callable[[Tensor], Tensor]]  # noqa: UP007 - made when the module is imported


def _activation(given: Activation) -> Callable[[Tensor], Tensor]:
    """Return the function that a name stands for. Raises ValueError for another name."""
    if callable(given):
        return given
    if given not in ("relu", "gelu"):
        raise ValueError(f"a transformer has the activation 'relu', 'gelu' or a function, got {given!r}")
    return Tensor.relu if given == "relu" else exact_gelu


def exact_gelu(x: Tensor) -> Tensor:
    """Return gelu of x without an approximation."""
    return x.gelu("none")


class _TransformerLayer(Described):
    """The feed-forward part, dropout and `norms` norms of both kinds of layers.

    Raises ValueError for a dropout outside [0, 1] and another activation.
    """

    linear1: Linear
    linear2: Linear
    dropout: float
    norm_first: bool
    activation: Callable[[Tensor], Tensor]

    def __init__(
        self, norms: int, d_model: int, dim_feedforward: int, dropout: float, activation: Activation,
        layer_norm_eps: float, norm_first: bool, bias: bool,
    ) -> None:  # fmt: skip
        if not 0 <= dropout <= 1:
            raise ValueError(f"{type(self).__name__} needs a dropout from 0 to 1, got {dropout}")
        self.linear1, self.linear2 = Linear(d_model, dim_feedforward, bias), Linear(dim_feedforward, d_model, bias)
        for number in range(1, norms + 1):
            norm = LayerNorm(d_model, layer_norm_eps)
            if not bias:
                norm.bias = None
            setattr(self, f"norm{number}", norm)
        self.dropout, self.norm_first, self.activation = dropout, norm_first, _activation(activation)

    def _feed(self, x: Tensor) -> Tensor:
        """Return the feed-forward part of x, of its shape: linear, activation, dropout, linear, dropout."""
        return self.linear2(self.activation(self.linear1(x)).dropout(self.dropout)).dropout(self.dropout)

    def _added(self, x: Tensor, part: Callable[[Tensor], Tensor], number: int) -> Tensor:
        """Return x plus `part` of it, normalised by norm`number` after, or with norm_first inside of `part` before."""
        norm: LayerNorm = getattr(self, f"norm{number}")
        return x + part(norm(x)) if self.norm_first else norm(x + part(x))


class TransformerEncoderLayer(_TransformerLayer):
    """Self-attention and two linear layers, each added to its input and normalised: layer(src) of the shape of src.

    src_mask and src_key_padding_mask are the masks of MultiheadAttention: they leave out where they are True, or are
    added; is_causal without a src_mask leaves out later positions. activation is "relu", "gelu" or a function.
    Raises what MultiheadAttention raises, and ValueError for another activation or a dropout outside [0, 1].

    >>> from tinygraft import Tensor, nn
    >>> nn.TransformerEncoderLayer(8, 2, dim_feedforward=16, batch_first=True)(Tensor.rand(3, 5, 8)).shape
    (3, 5, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True,
    ) -> None:  # fmt: skip
        self.self_attn: MultiheadAttention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        super().__init__(2, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias)

    def __call__(
        self, src: Tensor, src_mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the output of the layer, of the shape of `src`."""

        def attend(x: Tensor) -> Tensor:
            out, _ = self.self_attn(
                x, x, x, src_key_padding_mask, need_weights=False, attn_mask=src_mask, is_causal=is_causal
            )
            return out.dropout(self.dropout)

        return self._added(self._added(src, attend, 1), self._feed, 2)


class TransformerDecoderLayer(_TransformerLayer):
    """Self-attention, attention to `memory` (what an encoder gave) and two linear layers: layer(tgt, memory).

    Masks and options are those of TransformerEncoderLayer, for both attentions.

    >>> from tinygraft import Tensor, nn
    >>> layer = nn.TransformerDecoderLayer(8, 2, dim_feedforward=16, batch_first=True)
    >>> layer(Tensor.rand(3, 5, 8), Tensor.rand(3, 7, 8), tgt_is_causal=True).shape
    (3, 5, 8)
    """

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = "relu", layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True,
    ) -> None:  # fmt: skip
        self.self_attn: MultiheadAttention = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first)
        self.multihead_attn: MultiheadAttention = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first
        )
        super().__init__(3, d_model, dim_feedforward, dropout, activation, layer_norm_eps, norm_first, bias)

    def __call__(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the output of the layer, of the shape of `tgt`."""

        def attend(x: Tensor) -> Tensor:
            out, _ = self.self_attn(x, x, x, tgt_key_padding_mask, False, tgt_mask, is_causal=tgt_is_causal)
            return out.dropout(self.dropout)

        def look(x: Tensor) -> Tensor:
            out, _ = self.multihead_attn(
                x, memory, memory, memory_key_padding_mask, False, memory_mask, is_causal=memory_is_causal
            )
            return out.dropout(self.dropout)

        return self._added(self._added(self._added(tgt, attend, 1), look, 2), self._feed, 3)


class TransformerEncoder(Described):
    """num_layers copies of a TransformerEncoderLayer one after the other, and a norm at the end if one is given.

    The copies begin with the weights of encoder_layer, as in PyTorch. Raises ValueError for num_layers below 1.

    >>> from tinygraft import Tensor, nn
    >>> encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 3, nn.LayerNorm(8))
    >>> encoder(Tensor.rand(5, 2, 8), is_causal=True).shape
    (5, 2, 8)
    """

    def __init__(
        self, encoder_layer: TransformerEncoderLayer, num_layers: int, norm: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.layers: list[TransformerEncoderLayer] = _copies(encoder_layer, num_layers)
        self.norm = norm

    def __call__(
        self, src: Tensor, mask: Tensor | None = None, src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the output of the last layer, of the shape of `src`. The masks are those of the layer."""
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask, is_causal)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Described):
    """num_layers copies of a TransformerDecoderLayer one after the other, and a norm at the end if one is given.

    The copies begin with the weights of decoder_layer. Raises ValueError for num_layers below 1.

    >>> from tinygraft import Tensor, nn
    >>> decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2)
    >>> decoder(Tensor.rand(5, 2, 8), Tensor.rand(4, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(
        self, decoder_layer: TransformerDecoderLayer, num_layers: int, norm: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        self.layers: list[TransformerDecoderLayer] = _copies(decoder_layer, num_layers)
        self.norm = norm

    def __call__(
        self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None, memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None, memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False, memory_is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Return the output of the last layer, of the shape of `tgt`. The masks are those of the layer."""
        for layer in self.layers:
            tgt = layer(
                tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask, tgt_is_causal,
                memory_is_causal,
            )  # fmt: skip
        return tgt if self.norm is None else self.norm(tgt)


def _copies(layer: T, count: int) -> list[T]:
    """Return copies with memory of their own. Raises ValueError for a number below 1."""
    if count < 1:
        raise ValueError(f"a transformer needs a layer at least, got {count}")
    return [deepcopy(layer) for _ in range(count)]
