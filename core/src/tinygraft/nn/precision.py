"""autocast: a block in which products are computed in bfloat16 or float16, and what needs more in float32."""

from __future__ import annotations

from tinygraft.config import Context
from tinygraft.dtype import DTypeLike
from tinygraft.tensor.autocast import half_type


def autocast(dtype: DTypeLike = "bfloat16", enabled: bool = True) -> Context:
    """A block, or a decorator, for mixed precision: parameters stay float32, products of them are of `dtype`.

    matmul, linear, convolutions, einsum and attention cast their float32 tensors to `dtype`; losses, softmax, layer
    norms, sums, exp, log and the like cast half types to float32; all else takes what it gets. Gradients have the dtype
    of their tensors. In float16 they may be too small for it: see nn.optim.LossScaler. Float64, and a method that is
    given a dtype, stay as they are. enabled=False ends it for a block within. It is the setting AUTOCAST, which a
    captured function depends on: one under TinyJit is captured anew where it changes.

    Raises SettingError for a dtype other than bfloat16 and float16.
    Source: Micikevicius et al., "Mixed precision training", arXiv:1710.03740; the tables are PyTorch's.

    >>> from tinygraft import Tensor, nn
    >>> x, layer = Tensor.ones(2, 3), nn.Linear(3, 4)
    >>> with nn.autocast("float16"):
    ...     y = layer(x)
    ...     loss = y.softmax().sum()
    >>> y.dtype, loss.dtype, layer.weight.dtype
    (dtypes.half, dtypes.float, dtypes.float)
    """
    return Context(AUTOCAST=half_type(dtype).name if enabled else "")
