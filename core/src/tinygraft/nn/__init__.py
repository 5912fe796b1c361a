"""Neural networks: layers, optimizers (nn.optim), weights by name (nn.state), data (nn.datasets, nn.data).

A model is any Python object; there is no base class.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tinygraft.engine.exclusive import import_late
from tinygraft.errors import in_place_of, no_such_name
from tinygraft.nn import datasets, optim, state
from tinygraft.nn.activations import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    Identity,
    LeakyReLU,
    LogSigmoid,
    LogSoftmax,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softmax,
    Softmin,
    Softplus,
    Softshrink,
    Softsign,
    Tanh,
    Tanhshrink,
    Threshold,
)
from tinygraft.nn.cells import GRUCell, LSTMCell, RNNCell
from tinygraft.nn.containers import Sequential
from tinygraft.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from tinygraft.nn.dense import Bilinear, Embedding, EmbeddingBag, Linear
from tinygraft.nn.multihead import GroupedQueryAttention, KVCache, MultiheadAttention
from tinygraft.nn.norm import (
    BatchNorm,
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm,
    LayerNorm,
    LayerNorm2d,
    RMSNorm,
)
from tinygraft.nn.precision import autocast
from tinygraft.nn.recurrent import GRU, LSTM, RNN
from tinygraft.nn.summary_tree import summary
from tinygraft.nn.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
)
from tinygraft.nn.weightless import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool1d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    AlphaDropout,
    AvgPool1d,
    AvgPool2d,
    AvgPool3d,
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
    FeatureAlphaDropout,
    Flatten,
    MaxPool1d,
    MaxPool2d,
    MaxPool3d,
    Unflatten,
)

if TYPE_CHECKING:
    from tinygraft.nn import data as data
    from tinygraft.nn import parallel as parallel

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "GRU",
    "LSTM",
    "RNN",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool1d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AlphaDropout",
    "AvgPool1d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "Conv3d",
    "ConvTranspose1d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "FeatureAlphaDropout",
    "Flatten",
    "GRUCell",
    "GroupNorm",
    "GroupedQueryAttention",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "Identity",
    "InstanceNorm",
    "KVCache",
    "LSTMCell",
    "LayerNorm",
    "LayerNorm2d",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MaxPool1d",
    "MaxPool2d",
    "MaxPool3d",
    "Mish",
    "MultiheadAttention",
    "PReLU",
    "RMSNorm",
    "RNNCell",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softmax",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "Unflatten",
    "autocast",
    "data",
    "datasets",
    "optim",
    "state",
    "summary",
]  # fmt: skip

_INSTEAD = {  # what other libraries have in their nn, and what is done here
    "Module": "a model is any object: give it __call__; nn.state.get_parameters(model) finds its tensors",
    "Parameter": "any tensor in a model is one; requires_grad=False leaves it out",
    "functional": "what it has are methods of Tensor: F.relu(x) is x.relu()",
    "ModuleList": "a list will do",
    **dict.fromkeys(("no_grad", "inference_mode", "enable_grad"), "Tensor.no_grad() is a block without gradients"),
    "utils": "nn.optim.clip_grad_norm and clip_grad_value change gradients; others are tensors in t.grad",
    "DataLoader": "it is tinygraft.nn.data.DataLoader",
    "DistributedSampler": "it is tinygraft.nn.data.DistributedSampler",
    "init": "weights are made by Tensor.kaiming_uniform, glorot_uniform, normal and the like",
    "ModuleDict": "a dict will do",
    "ParameterList": "a list will do",
    "ParameterDict": "a dict will do",
    "BCELoss": "it has no weights, and is Tensor.binary_crossentropy here",
    "BCEWithLogitsLoss": "it has no weights, and is Tensor.binary_crossentropy_logits here",
    "spectral_norm": "w / w.svd()[1][0] in __call__ is that weight",
    "weight_norm": "g * w / w.norm(dim=1, keepdim=True) in __call__ is that weight",
    "GradScaler": "it is nn.optim.LossScaler",
    "InstanceNorm": "nn.InstanceNorm(num_features, affine=False) is the same for any number of axes",
    "SyncBatchNorm": "nn.BatchNorm(num_features, sync=True) measures the batch of all ranks",
    "DataParallel": "nn.parallel.data_parallel(optimizer) is for ranks, Tensor.shard for devices of one process",
    "Transformer": "nn.TransformerEncoder and nn.TransformerDecoder are its two parts",
    "Upsample": "it has no weights, and is Tensor.interpolate here",
    "UpsamplingNearest": "it has no weights, and is Tensor.upsample_nearest here",
    "UpsamplingBilinear": "it has no weights, and is Tensor.upsample_bilinear here",
    "ZeroPad": "it has no weights, and is Tensor.pad here",
    "ConstantPad": "it has no weights, and is Tensor.pad(padding, value=value) here",
    "ReflectionPad": 'it has no weights, and is Tensor.pad(padding, mode="reflect") here',
    "ReplicationPad": 'it has no weights, and is Tensor.pad(padding, mode="replicate") here',
    "Unfold": "it has no weights, and is Tensor.functional_unfold here: Tensor.unfold is PyTorch's Tensor.unfold",
    "Fold": "it has no weights, and is Tensor.fold here",
    "Softmax2d": "it has no weights, and is Tensor.softmax(axis=1) here",
    "AdaptiveLogSoftmaxWithLoss": "nn.Linear and Tensor.cross_entropy compute the whole softmax",
    "CircularPad": 'it has no weights, and is Tensor.pad(padding, mode="circular") here',
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Import nn.data and nn.parallel when they are asked for; say where else a name that people look for is."""
        if name in ("data", "parallel"):
            return import_late(f"tinygraft.nn.{name}")
        raise no_such_name("tinygraft.nn", name, _elsewhere(name))


def _elsewhere(name: str) -> str:
    """Return a hint: the layer of this name in other case, what to use in place of one, or the name that was meant.

    A layer without weights is a method of Tensor.
    """
    from tinygraft.tensor.tensor import Tensor

    wanted, known = name.lower(), [*__all__, "onnx", "parallel"]
    plain = re.sub(r"[123]d$", "", wanted)  # ZeroPad2d, InstanceNorm1d
    here = {one.lower() for one in known}
    if wanted not in here and (said := {one.lower(): text for one, text in _INSTEAD.items()}.get(plain)):
        return f"\n  hint: {said}"
    methods = {method.replace("_", ""): method for method in dir(Tensor) if not method.startswith("_")}
    squeezed = wanted.replace("_", "")
    found = methods.get(squeezed) or methods.get(squeezed.removesuffix("loss"))
    if found and wanted not in here:
        return f"\n  hint: it has no weights, and is Tensor.{found} here"
    return in_place_of(name, known, _INSTEAD)
