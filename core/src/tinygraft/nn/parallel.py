"""Data parallel training on many processes: collectives of tensors, and an optimizer that reduces gradients.

    from tinygraft import nn

    optimizer = nn.optim.AdamW(nn.state.get_parameters(model))
    nn.parallel.data_parallel(optimizer)       # the one line: same weights everywhere, gradients averaged in each step

Every process (a rank, tinygraft.collectives) runs the same script on its part of the batch. A collective of a tensor
realises it, and is done when it is called: no read of a value, on one rank or on all, makes ranks wait for each other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.collectives import Communicator, world
from tinygraft.collectives.other_names import MEANT
from tinygraft.dtype import DType
from tinygraft.engine.capture import open_captures
from tinygraft.errors import CollectiveError, ShapeError, TrainingError, in_place_of, no_such_name
from tinygraft.helpers import prod
from tinygraft.nn.mesh import Mesh as Mesh
from tinygraft.nn.optim.lbfgs import LBFGS
from tinygraft.nn.optim.reduced import is_reduced, mark_reduced, note_parallel
from tinygraft.nn.optim.replayed_step import read_beside
from tinygraft.nn.rank_checkpoints import load_checkpoint as load_checkpoint
from tinygraft.nn.rank_checkpoints import save_checkpoint as save_checkpoint
from tinygraft.nn.rank_tensors import all_gather as all_gather
from tinygraft.nn.rank_tensors import all_reduce as all_reduce
from tinygraft.nn.rank_tensors import all_to_all as all_to_all
from tinygraft.nn.rank_tensors import broadcast as broadcast
from tinygraft.nn.rank_tensors import reduce_scatter as reduce_scatter
from tinygraft.nn.rank_tensors import rows_of
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.sharding import even, own_rank

if TYPE_CHECKING:
    from tinygraft.nn.optim.optimizer import Optimizer

BUCKET_MB = 25  # given: PyTorch's; assumed: large enough for bandwidth, small enough to be many


def part(t: Tensor) -> Tensor:
    """Return this rank's part of a batch that all ranks have, along axis 0; parts differ by one row where they have to.

    It has the rows that `Mesh.shard` gives to this rank: the first ranks have one more, the last ones perhaps none.
    Raises TypeError for what is no tensor, ShapeError for one without axes.

    >>> from tinygraft import Tensor, nn
    >>> nn.parallel.part(Tensor([[1], [2], [3]])).tolist()    # of one rank: all
    [[1], [2], [3]]
    """
    comm, rows = world(), rows_of(t, "part")
    sizes = even(rows, comm.size)
    first = sum(sizes[: comm.rank])
    return t[first : first + sizes[comm.rank]]


def weighted(loss: Tensor, rows: int) -> Tensor:
    """Return the mean loss of a rank's `rows` rows, scaled so that the ranks' gradients average to that of all rows.

    It is for batches whose parts differ in size; with equal parts it changes nothing. Every rank calls it, one with no
    rows too, with a loss of 0. Raises ShapeError where no rank has a row, and TrainingError under TinyJit, as it reads
    the number of rows of all ranks.
    """
    import numpy as np

    if open_captures():
        raise TrainingError("weighted reads how many rows all ranks have, which a captured step would not do again")
    comm = world()
    total = int(comm.all_reduce(np.array([rows]))[0])
    if not total:
        raise ShapeError("no rank has a row in this batch")
    return loss * (rows * comm.size / total)


def totals(**counts: float | Tensor) -> dict[str, float]:
    """Return the sums over all ranks of numbers by name, such as a loss and how many rows it is of, on each.

    Every rank calls it. Integers stay integers, and are added exactly; others are added as float64. A tensor of one
    element is read. Raises CollectiveError where ranks have other names or kinds, TypeError for what is no number,
    TrainingError under TinyJit.

    >>> from tinygraft import nn
    >>> nn.parallel.totals(loss=2.5, right=3)    # of one rank
    {'loss': 2.5, 'right': 3}
    """
    import numpy as np

    if open_captures():
        raise TrainingError("totals reads numbers of all ranks, which a captured step would not do again")
    values = {name: value.item() if isinstance(value, Tensor) else value for name, value in counts.items()}
    for name, value in values.items():
        if not isinstance(value, (int, float, np.integer, np.floating)):
            raise TypeError(f"totals adds numbers, and {name!r} is {type(value).__name__}")
    comm = world()
    whole = {name: isinstance(value, (int, np.integer)) for name, value in values.items()}
    text = "\n".join(f"{name} {is_int}" for name, is_int in whole.items()).encode()
    digest = np.frombuffer(hashlib.blake2b(text, digest_size=8).digest(), np.uint8)
    every = comm.all_gather(digest)
    if (every != every[0]).any():
        raise CollectiveError(f"ranks add other names, or integers and floats of one name; here are {list(values)}")
    ints = comm.all_reduce(np.array([int(v) for n, v in values.items() if whole[n]], np.int64))
    floats = comm.all_reduce(np.array([float(v) for n, v in values.items() if not whole[n]], np.float64))
    found = {True: iter(ints.tolist()), False: iter(floats.tolist())}
    return {name: next(found[is_int]) for name, is_int in whole.items()}


def data_parallel(*optimizers: Optimizer, bucket_mb: float = BUCKET_MB) -> Communicator:
    """Train the parameters of these optimizers on all ranks: weights of rank 0 for all, gradients averaged in steps.

    Parameters, the state of the optimizers and their buffers become those of rank 0, now. From then on `step` replaces
    each `.grad` by its mean over the ranks, before anything else, in buckets of `bucket_mb` MiB. So several `backward`
    before one step cost one reduction. `clip_grad_norm` and `clip_grad_value` reduce first, too, so every rank calls
    them; what was reduced and clipped is not reduced again. Running statistics of a
    BatchNorm stay each rank's own, unless it has sync=True.

    Call it once, on every rank, with optimizers whose parameters are in the same order. Returns the Communicator.
    Raises TypeError for what is no optimizer, TrainingError for one that is data parallel already, for parameters
    on a Mesh and for LBFGS, CollectiveError where the ranks differ.
    """
    comm = world()
    each = [one for optimizer in optimizers for one in getattr(optimizer, "optimizers", (optimizer,))]
    for optimizer in each:
        if not hasattr(optimizer, "reduction"):
            raise TypeError(f"data_parallel takes optimizers, got {type(optimizer).__name__}")
    for optimizer in each:
        if any(own_rank(p.device) is not None for p in optimizer.params):
            raise TrainingError(
                "parameters on a Mesh need no data_parallel: their gradients are those of the global batch already; "
                "leave it out, or keep the parameters on one device"
            )
        if isinstance(optimizer, LBFGS):
            raise TrainingError(
                "LBFGS cannot be data parallel: it chooses each move by a loss that ranks do not have alike"
            )
        if optimizer.reduction is not None:
            raise TrainingError("data_parallel was called for this optimizer before; its gradients are reduced once")
    state: dict[int, Tensor] = {}
    for optimizer in each:
        state |= {id(t): t for t in (*optimizer.params, *optimizer.buffers, *optimizer._made.tensors)}
    if comm.size > 1:
        for t in state.values():
            t.assign(broadcast(t.detach())).realize()
    reduction = BucketReduction(int(bucket_mb * 2**20))
    for optimizer in each:
        optimizer.reduction = reduction
        note_parallel(optimizer)
    return comm


def reduce_gradients(*optimizers: Optimizer) -> None:
    """Replace each `.grad` by its mean over the ranks, now: before it is read. Clipping and `step` do it otherwise.

    It is for optimizers of `data_parallel`; every rank calls it.
    """
    for optimizer in optimizers:
        for one in getattr(optimizer, "optimizers", (optimizer,)):
            one.gradients()


class BucketReduction:
    """The mean of gradients over the ranks, in buckets: flat tensors of one dtype and device, of up to `most` bytes."""

    def __init__(self, most: int) -> None:
        self.most = most

    def __call__(self, params: Sequence[Tensor]) -> list[Tensor]:
        """Replace the gradients that have not been reduced by their means, and return the gradients of all `params`.

        All buckets are computed in one realisation, so that nothing of the backward pass is computed twice. A parameter
        without a gradient is left out. Raises as `all_reduce`.
        """
        wanted = [p for p in params if p.grad is not None and not is_reduced(p.grad)]
        if world().size > 1 and wanted:
            buckets = self._buckets(wanted)
            flat = [_joined([p.grad for p in bucket if p.grad is not None]) for bucket in buckets]
            flat[0].realize(*flat[1:], *read_beside(flat, params))
            for bucket, values in zip(buckets, flat, strict=True):
                mean, first = all_reduce(values, "mean"), 0
                for p in bucket:
                    count = prod(p.shape)
                    p.grad = mark_reduced(mean[first : first + count].reshape(p.shape))
                    first += count
        return [p.grad for p in params if p.grad is not None]

    def _buckets(self, params: Sequence[Tensor]) -> list[list[Tensor]]:
        """Return the parameters in lists of one dtype and device whose gradients have at most `most` bytes, or one."""
        found: list[list[Tensor]] = []
        filling: dict[tuple[Any, DType], tuple[list[Tensor], int]] = {}
        for p in params:
            assert p.grad is not None
            key, nbytes = (p.grad.device, p.grad.dtype), prod(p.shape) * p.grad.dtype.itemsize
            bucket, size = filling.get(key, ([], 0))
            if not bucket or size + nbytes > self.most:
                bucket, size = [], 0
                found.append(bucket)
            bucket.append(p)
            filling[key] = bucket, size + nbytes
        return found


def _joined(grads: Sequence[Tensor]) -> Tensor:
    """Return the elements of tensors as one flat tensor, lazy, in memory of its own and without gradient.

    Each is written to its slice: measured on 2026-11-24, a CAT of 6 of 7 MB took 33 ms, which chooses for each element
    where it is from, and writes 1 ms.
    """
    flat = [grad.detach().reshape(-1) for grad in grads]
    if len(flat) == 1:
        return flat[0].contiguous()
    first, like = 0, flat[0]
    joined = Tensor.empty(sum(prod(one.shape) for one in flat), dtype=like.dtype, device=like.device)
    for one in flat:
        end = first + prod(one.shape)
        joined[first:end] = one
        first = end
    return joined


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise AttributeError with what is used here in place of a name of another library."""
        meant = in_place_of(name, [n for n in globals() if n[0] != "_"], MEANT)
        raise no_such_name("tinygraft.nn.parallel", name, meant)
