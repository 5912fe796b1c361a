"""Random networks: a few layers drawn from a table, with weights, for PyTorch and for tinygraft.

`draw(seed)` gives a Network, the same for a seed; `losses_and_gradients` of run_networks.py computes it in both
libraries. Each layer is written once for each library, in LAYERS; both get the weights in PyTorch's layouts.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tinygraft import Tensor

ACTIVATIONS = ("relu", "gelu", "silu", "tanh", "sigmoid", "leaky_relu", "elu", "hardswish", "softplus", "mish")
LARGEST = 300_000  # elements of a value, so that a network takes about a second


@dataclass(frozen=True)
class Layer:
    """A layer by its name in LAYERS, the numbers of its weights, its options, and layers within it."""

    kind: str
    weights: tuple[int, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)
    inner: tuple[tuple[Layer, ...], ...] = ()

    def __str__(self) -> str:
        parts = [f"{name}={value}" for name, value in self.options.items()]
        parts += [f"w{number}" for number in self.weights]
        parts += ["[" + " ".join(map(str, layers)) + "]" for layers in self.inner]
        return f"{self.kind}({', '.join(parts)})"


@dataclass(frozen=True)
class Network:
    """Layers, the weights that they name, the input (floats, or integers for an embedding) and a class for each row."""

    seed: int
    layers: tuple[Layer, ...]
    weights: tuple[np.ndarray[Any, Any], ...]
    x: np.ndarray[Any, Any]
    labels: np.ndarray[Any, Any]

    def __str__(self) -> str:
        return f"network {self.seed} of {self.x.shape}: {' '.join(map(str, self.layers))}"


# What each layer is: (x, weights, options, run), where `run` computes inner layers. First PyTorch, then tinygraft.


def _torch_norm(x: Any, w: Any, o: Any, run: Any) -> Any:
    # not F.batch_norm: of one image PyTorch 2.13 reads an expanded, transposed gradient by wrong strides
    axes = (0, *range(2, x.ndim))
    mean, variance = x.mean(axes, keepdim=True), x.var(axes, correction=0, keepdim=True)
    shape = mean.shape
    return (x - mean) * (variance + 1e-3).rsqrt() * w[0].reshape(shape) + w[1].reshape(shape)


def _norm(x: Any, w: Any, o: Any, run: Any) -> Any:
    axes = (0, *range(2, x.ndim))
    mean = x.mean(axes)
    shape = (1, -1, *[1] * (x.ndim - 2))
    variance = (x - mean.reshape(shape)).square().mean(axes)
    return x.batchnorm(w[0], w[1], mean, (variance + 1e-3).rsqrt())


def _torch_scale(x: Any, w: Any, o: Any, run: Any) -> Any:
    gate = F.linear(F.relu(F.linear(x.mean((2, 3)), w[0], w[1])), w[2], w[3]).sigmoid()
    return x * gate[:, :, None, None]


def _scale(x: Any, w: Any, o: Any, run: Any) -> Any:
    gate = x.mean((2, 3)).linear(w[0].T, w[1]).relu().linear(w[2].T, w[3]).sigmoid()
    return x * gate.reshape(*gate.shape, 1, 1)


def _torch_attention(x: Any, w: Any, o: Any, run: Any) -> Any:
    n, t, d = x.shape
    q, k, v = F.linear(x, w[0]).view(n, t, 3, o["heads"], -1).permute(2, 0, 3, 1, 4)
    y = F.scaled_dot_product_attention(q, k, v, is_causal=o["causal"])
    return x + F.linear(y.transpose(1, 2).reshape(n, t, d), w[1])


def _attention(x: Any, w: Any, o: Any, run: Any) -> Any:
    n, t, d = x.shape
    q, k, v = x.linear(w[0].T).reshape(n, t, 3, o["heads"], -1).permute(2, 0, 3, 1, 4)
    y = q.scaled_dot_product_attention(k, v, is_causal=o["causal"])
    return x + y.transpose(1, 2).reshape(n, t, d).linear(w[1].T)


def _recurrent(lin: Any, sigmoid: Any, tanh: Any, stack: Any) -> Callable[..., Any]:
    """Return a loop over time, written once: an Elman network, a GRU or an LSTM by hand."""

    def run_cell(x: Any, w: Any, o: Any, run: Any) -> Any:
        size, outs = w[1].shape[1], []
        h = c = x[:, 0, :1] * 0 + w[1][0] * 0  # zeros of (batch, size) that depend on the input
        inputs = lin(x, w[0], w[2]) if o["at_once"] else None
        for t in range(x.shape[1]):
            p, q = inputs[:, t] if inputs is not None else lin(x[:, t], w[0], w[2]), lin(h, w[1], None)
            if o["cell"] == "rnn":
                h = tanh(p + q)
            elif o["cell"] == "gru":
                r, z = sigmoid(p[:, :size] + q[:, :size]), sigmoid((p + q)[:, size : 2 * size])
                h = (1 - z) * tanh(p[:, 2 * size :] + r * q[:, 2 * size :]) + z * h
            else:
                i, f, g, u = ((p + q)[:, k * size : (k + 1) * size] for k in range(4))
                c = sigmoid(f) * c + sigmoid(i) * tanh(g)
                h = sigmoid(u) * tanh(c)
            outs.append(h)
        return stack(outs)

    return run_cell


def _linear(x: Tensor, w: Tensor, b: Tensor | None) -> Tensor:
    return x.linear(w.T) if b is None else x.linear(w.T, b)


LAYERS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "conv": (
        lambda x, w, o, run: F.conv2d(x, w[0], w[1] if len(w) > 1 else None, **o),
        lambda x, w, o, run: x.conv2d(w[0], w[1] if len(w) > 1 else None, **o),
    ),
    "transposed": (
        lambda x, w, o, run: F.conv_transpose2d(x, w[0], w[1], **o),
        lambda x, w, o, run: x.conv_transpose2d(w[0], w[1], **o),
    ),
    "batch_norm": (_torch_norm, _norm),
    "group_norm": (
        lambda x, w, o, run: F.group_norm(x, o["groups"], w[0], w[1], eps=1e-3),
        lambda x, w, o, run: x.group_norm(o["groups"], w[0], w[1], eps=1e-3),
    ),
    "layer_norm": (
        lambda x, w, o, run: F.layer_norm(x, x.shape[-1:], w[0], w[1], eps=1e-3),
        lambda x, w, o, run: x.layernorm(eps=1e-3) * w[0] + w[1],
    ),
    "activation": (
        lambda x, w, o, run: getattr(F, o["name"])(x),
        lambda x, w, o, run: x.gelu(approximate="none") if o["name"] == "gelu" else getattr(x, o["name"])(),
    ),
    "max_pool": (
        lambda x, w, o, run: F.max_pool2d(x, **o),
        lambda x, w, o, run: x.max_pool2d(**o),
    ),
    "avg_pool": (
        lambda x, w, o, run: F.avg_pool2d(x, **o),
        lambda x, w, o, run: x.avg_pool2d(**o),
    ),
    "upsample": (
        lambda x, w, o, run: F.interpolate(x, scale_factor=2, mode="nearest"),
        lambda x, w, o, run: x.interpolate((x.shape[2] * 2, x.shape[3] * 2), mode="nearest"),
    ),
    "scale_channels": (_torch_scale, _scale),
    "residual": (lambda x, w, o, run: run(o["inner"][0], x) + run(o["inner"][1], x),) * 2,
    "branches": (
        lambda x, w, o, run: torch.cat([run(layers, x) for layers in o["inner"]], 1),
        lambda x, w, o, run: Tensor.cat(*[run(layers, x) for layers in o["inner"]], dim=1),
    ),
    "to_sequence": (
        lambda x, w, o, run: x.flatten(2).transpose(1, 2),
        lambda x, w, o, run: x.flatten(2).transpose(1, 2),
    ),
    "embedding": (
        lambda x, w, o, run: F.embedding(x, w[0]),
        lambda x, w, o, run: w[0][x],
    ),
    "attention": (_torch_attention, _attention),
    "recurrent": (
        _recurrent(F.linear, torch.sigmoid, torch.tanh, lambda outs: torch.stack(outs, 1)),
        _recurrent(_linear, Tensor.sigmoid, Tensor.tanh, lambda outs: Tensor.stack(*outs, dim=1)),
    ),
    "linear": (
        lambda x, w, o, run: F.linear(x, w[0], w[1]),
        lambda x, w, o, run: x.linear(w[0].T, w[1]),
    ),
    "mean": (lambda x, w, o, run: x.mean(tuple(o["axes"])),) * 2,
    "flatten": (lambda x, w, o, run: x.flatten(1),) * 2,
}  # fmt: skip


class _Drawing:
    """Draws a network: each method adds a layer and returns it with the shape after it."""

    def __init__(self, seed: int) -> None:
        self.rng, self.random = random.Random(seed), np.random.default_rng(seed)
        self.weights: list[np.ndarray[Any, Any]] = []

    def weight(self, *shape: int, scale: float | None = None, mean: float = 0.0) -> int:
        """Return the number of a weight: a new one, or now and then one of that shape that is there already."""
        alike = [i for i, w in enumerate(self.weights) if w.shape == shape] if len(shape) > 1 else []
        if alike and self.rng.random() < 0.3:
            return self.rng.choice(alike)
        scale = scale if scale is not None else 1 / np.sqrt(np.prod(shape[1:]))
        self.weights.append(self.random.standard_normal(shape) * scale + mean)
        return len(self.weights) - 1

    def affine(self, size: int) -> tuple[int, int]:
        """Return a scale and a shift of channels."""
        return self.weight(size, scale=0.2, mean=1.0), self.weight(size, scale=0.2)

    def conv(self, s: Sequence[int], **given: int) -> tuple[Layer, tuple[int, ...]]:
        """Return a convolution of a size, stride, dilation, padding and grouping that fit, but for what is given."""
        n, c, h, w = s
        k = given.get("kernel") or self.rng.choice([1, 1, 3, 3, 3, 5, 7 if min(h, w) > 6 else 3])
        stride, dilation = given.get("stride") or self.rng.choice([1, 1, 1, 2]), self.rng.choice([1, 1, 1, 2])
        padding = given.get("padding", self.rng.choice([k // 2, k // 2, 0, 1]))
        groups = given.get("groups") or self.rng.choice([1, 1, c, *[g for g in (2, 4) if c % g == 0]])
        out = given.get("out") or groups * self.rng.choice([1, 2, 3] if groups > 1 else [4, 8, 12, 16, 32])
        if min(h, w) + 2 * padding - dilation * (k - 1) < 1 or "kernel" in given:
            dilation = 1
        if min(h, w) + 2 * padding - dilation * (k - 1) < 1:
            k, padding = 1, 0
        sizes = [(size + 2 * padding - dilation * (k - 1) - 1) // stride + 1 for size in (h, w)]
        weights = [self.weight(out, c // groups, k, k)]
        if self.rng.random() < 0.5 and "kernel" not in given:
            weights.append(self.weight(out, scale=0.1))
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return Layer("conv", tuple(weights), options), (n, out, *sizes)

    def residual(self, s: Sequence[int]) -> tuple[Layer, tuple[int, ...]]:
        """Return one to three layers, and around them a convolution of 1x1 (strided where they are) or nothing."""
        body, t = [], tuple(s)
        for _ in range(self.rng.choice([1, 2, 3])):
            layer, t = self.image_layer(t, inner=True)
            body.append(layer)
        if t == tuple(s):
            return Layer("residual", inner=(tuple(body), ())), t
        stride = s[2] // t[2] if t[2] else 1
        _, _, h, w = s
        if stride < 1 or ((h - 1) // stride + 1, (w - 1) // stride + 1) != (t[2], t[3]):
            return Layer("residual", inner=((), (Layer("activation", options={"name": "relu"}),))), tuple(s)
        shortcut, _ = self.conv(s, kernel=1, stride=stride, padding=0, groups=1, out=t[1])
        around = [shortcut]
        if t[0] * t[2] * t[3] > 1 and self.rng.random() < 0.5:
            around.append(Layer("batch_norm", self.affine(t[1])))
        return Layer("residual", inner=(tuple(body), tuple(around))), t

    def image_layer(self, s: Sequence[int], inner: bool = False) -> tuple[Layer, tuple[int, ...]]:
        """Return a layer of images (N, C, H, W)."""
        n, c, h, w = s
        kind = self.rng.choices(
            ["conv", "batch_norm", "group_norm", "activation", "pool", "transposed", "upsample", "scale_channels",
             "residual", "branches"],
            [6, 3, 1, 3, 2, 1, 1, 1, 0 if inner else 4, 0 if inner else 2],
        )[0]  # fmt: skip
        if kind == "batch_norm" and n * h * w > 1:
            return Layer(kind, self.affine(c)), tuple(s)
        if kind == "group_norm":
            groups = self.rng.choice([g for g in (1, 2, 4, c) if c % g == 0 and c // g * h * w > 1] or [0])
            if groups:
                return Layer(kind, self.affine(c), {"groups": groups}), tuple(s)
        if kind == "pool" and min(h, w) >= 4:
            k = self.rng.choice([2, 3])
            o = {"kernel_size": k, "stride": self.rng.choice([1, 2, k]), "padding": self.rng.choice([0, k // 2])}
            sizes = [(size + 2 * o["padding"] - k) // o["stride"] + 1 for size in (h, w)]
            return Layer(self.rng.choice(["max_pool", "avg_pool"]), options=o), (n, c, *sizes)
        if kind == "transposed" and h * w < 200:
            k, stride, out = self.rng.choice([2, 3, 4]), self.rng.choice([1, 2]), self.rng.choice([4, 8, 16])
            o = {
                "stride": stride,
                "padding": self.rng.choice([0, 1]),
                "output_padding": self.rng.choice([0, stride - 1]),
            }
            sizes = [(size - 1) * stride - 2 * o["padding"] + k + o["output_padding"] for size in (h, w)]
            if min(sizes) > 0:
                return Layer(kind, (self.weight(c, out, k, k), self.weight(out, scale=0.1)), o), (n, out, *sizes)
        if kind == "upsample" and h * w < 200:
            return Layer(kind), (n, c, 2 * h, 2 * w)
        if kind == "scale_channels":
            m = max(1, c // 2)
            gate = (self.weight(m, c), self.weight(m, scale=0.1), self.weight(c, m), self.weight(c, scale=0.1))
            return Layer(kind, gate), tuple(s)
        if kind == "residual":
            return self.residual(s)
        if kind == "branches":
            k, other = self.rng.choice([3, 5]), self.rng.choice([4, 8])
            one, shape = self.conv(s, kernel=1, stride=1, padding=0, groups=1)
            two, _ = self.conv(s, kernel=k, stride=1, padding=k // 2, groups=1, out=other)
            return Layer(kind, inner=((one,), (two,))), (n, shape[1] + other, h, w)
        if kind == "conv":
            return self.conv(s)
        return Layer("activation", options={"name": self.rng.choice(ACTIVATIONS)}), tuple(s)

    def sequence_layer(self, s: Sequence[int]) -> tuple[Layer, tuple[int, ...]]:
        """Return a layer of sequences (N, T, D)."""
        n, t, d = s
        kind = self.rng.choice(["attention", "recurrent", "linear", "layer_norm", "activation"])
        if kind == "attention":
            heads = self.rng.choice([heads for heads in (1, 2, 4) if d % heads == 0])
            o = {"heads": heads, "causal": self.rng.random() < 0.5}
            return Layer(kind, (self.weight(3 * d, d), self.weight(d, d)), o), tuple(s)
        if kind == "recurrent" and t <= 20:
            cell, size = self.rng.choice(["rnn", "gru", "lstm"]), self.rng.choice([1, 4, 7, 16, 32, d])
            gates = {"rnn": 1, "gru": 3, "lstm": 4}[cell] * size
            how: dict[str, Any] = {"cell": cell, "at_once": self.rng.random() < 0.5}
            weights = (self.weight(gates, d), self.weight(gates, size), self.weight(gates, scale=0.1))
            return Layer(kind, weights, how), (n, t, size)
        if kind == "linear":
            out = self.rng.choice([d, d, 8, 24, 33])
            return Layer(kind, (self.weight(out, d), self.weight(out, scale=0.1))), (n, t, out)
        if kind == "layer_norm" and d > 1:
            return Layer(kind, self.affine(d)), tuple(s)
        return Layer("activation", options={"name": self.rng.choice(ACTIVATIONS)}), tuple(s)


def draw(seed: int) -> Network:
    """Return the network of a seed: images, sequences or tokens go through two to seven layers to a loss of classes."""
    d = _Drawing(seed)
    n, layers = d.rng.choice([1, 2, 3, 8, 16, 32]), []
    start = d.rng.choice(["images", "images", "images", "sequence", "tokens"])
    s: tuple[int, ...]
    x: np.ndarray[Any, Any]
    if start == "images":
        c, h = d.rng.choice([1, 3, 4, 8, 16, 17, 32]), d.rng.choice([5, 8, 9, 14, 16, 28])
        s = (n, c, h, h if d.rng.random() < 0.7 else d.rng.choice([5, 8, 11, 16]))
        x = d.random.standard_normal(s)
    else:
        s = (n, d.rng.choice([1, 2, 3, 5, 8, 12, 20]), d.rng.choice([1, 4, 8, 16, 33, 64]))
        x = d.random.standard_normal(s)
        if start == "tokens":
            x = d.random.integers(0, 11, s[:2])
            layers.append(Layer("embedding", (d.weight(11, s[2], scale=1.0),)))
    for _ in range(d.rng.choice([2, 3, 4, 5, 7])):
        before = len(d.weights)
        layer, t = d.image_layer(s) if len(s) == 4 else d.sequence_layer(s)
        if np.prod(t) > LARGEST:
            del d.weights[before:]
            continue
        layers.append(layer)
        s = t
        if len(s) == 4 and s[2] * s[3] <= 100 and d.rng.random() < 0.1:
            layers.append(Layer("to_sequence"))
            s = (s[0], s[2] * s[3], s[1])
    whole = int(np.prod(s[1:]))
    if whole < 5000 and d.rng.random() < 0.4:
        layers.append(Layer("flatten"))
    else:
        layers.append(Layer("mean", options={"axes": (2, 3) if len(s) == 4 else (1,)}))
        whole = s[1] if len(s) == 4 else s[2]
    classes = d.rng.choice([2, 10, 33])
    layers.append(Layer("linear", (d.weight(classes, whole), d.weight(classes, scale=0.1))))
    return Network(seed, tuple(layers), tuple(d.weights), x, d.random.integers(0, classes, n))
