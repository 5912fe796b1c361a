"""Mean and variance of the batch that all ranks have parts of, for a BatchNorm with sync=True."""

from __future__ import annotations

from tinygraft.collectives import world as world
from tinygraft.engine.capture import open_captures
from tinygraft.errors import ShapeError
from tinygraft.nn.rank_tensors import summed_over_ranks
from tinygraft.tensor.tensor import Tensor


def stats_of_ranks(x: Tensor, channels: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the mean and the variance of each channel, (1, channels, 1, ...), over the parts `x` of all ranks.

    And of how many values these are, a number of the dtype of `x`. Parts may have different numbers of rows, also none.
    `x` is realised, as it is read twice and again for the gradient. Every rank calls it, and backward of what it
    returns. Raises ShapeError for one value in each channel, on all ranks, unless TinyJit captures.

    The sums and gradients are those of one process, but for rounding: sum of (x - mean)**2, where the mean is that of
    all ranks; PyTorch's SyncBatchNorm combines variances of the ranks instead.
    """
    x = x.realize()
    axes, shape = (0, *range(2, x.ndim)), (1, channels, *(1,) * (x.ndim - 2))
    mine = Tensor([x.numel() // channels], dtype=x.dtype, device=x.device, requires_grad=False)
    total = summed_over_ranks(x.sum(axes).cat(mine))
    count = total[channels].detach()
    if not open_captures() and count.item() < 2:
        raise ShapeError(
            "BatchNorm in training needs more than one value for each channel, and all ranks have one together\n"
            f"  made at {x._where()}\n  hint: a larger batch, or leave training mode"
        )
    mean = (total[:channels] / count).reshape(shape)
    centered = x - mean
    var = summed_over_ranks((centered * centered).sum(axes)) / count
    return mean, var.reshape(shape), count
