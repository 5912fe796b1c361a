"""Data parallel training on many processes: collectives of tensors, and an optimizer that reduces gradients.

    from tinygraft import nn

    optimizer = nn.optim.AdamW(nn.state.get_parameters(model))
    nn.parallel.data_parallel(optimizer)       # the one line: same weights everywhere, gradients averaged in each step

Every process (a rank, tinygraft.collectives) runs the same script on its part of the batch. A collective of a tensor
realises it, and is done when it is called: no read of a value, on one rank or on all, makes ranks wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tinygraft.collectives import Communicator, world
from tinygraft.collectives.rank_sums import check_op
from tinygraft.device.known import INTERPRETER
from tinygraft.device.registry import Device
from tinygraft.dtype import DType
from tinygraft.engine.capture import open_captures
from tinygraft.engine.rank_program import OPS
from tinygraft.errors import CollectiveError, DTypeError, ShapeError, TrainingError
from tinygraft.helpers import prod
from tinygraft.nn.mesh import Mesh as Mesh
from tinygraft.nn.optim.lbfgs import LBFGS
from tinygraft.nn.optim.reduced import is_reduced, mark_reduced, note_parallel
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.routines import results_of
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.nn.optim.optimizer import Optimizer

BUCKET_MB = 25  # given: PyTorch's; assumed: large enough for bandwidth, small enough to be many


def all_reduce(t: Tensor, op: str = "sum") -> Tensor:
    """Return the elementwise sum (or mean, max, min, prod) of the tensors of all ranks, computed now; without gradient.

    Its shape and dtype are those of `t`, which all ranks have alike. Every rank has the same bits. Raises TypeError for
    what is no tensor, ValueError for another op, DTypeError for an op that the dtype lacks and for complex numbers,
    TrainingError for a tensor that requires a gradient, CollectiveError where ranks differ, and for a tensor of several
    devices or a symbolic size.

    >>> from tinygraft import Tensor, nn
    >>> nn.parallel.all_reduce(Tensor([1.0, 2.0])).tolist()    # of one rank
    [1.0, 2.0]
    """
    check_op(op, _tensor(t).dtype)
    return _collective("all_reduce", t, OPS.index(op)).reshape(t.shape)


def all_gather(t: Tensor) -> Tensor:
    """Return the tensors of all ranks along axis 0, one after another, computed now; without gradient.

    Their shapes are alike: (n, ...) becomes (n * ranks, ...). Raises as `all_reduce`, ShapeError for a tensor without
    axes.
    """
    rows = _rows(t, "all_gather")
    return _collective("all_gather", t).reshape(rows * world().size, *t.shape[1:])


def reduce_scatter(t: Tensor, op: str = "sum") -> Tensor:
    """Return this rank's part, along axis 0, of `all_reduce(t, op)`: of (n, ...) it is (n / ranks, ...).

    Raises as `all_reduce`, ShapeError where the ranks do not divide axis 0.
    """
    check_op(op, _tensor(t).dtype)
    rows = _divided(t, "reduce_scatter")
    return _collective("reduce_scatter", t, OPS.index(op)).reshape(rows // world().size, *t.shape[1:])


def all_to_all(t: Tensor) -> Tensor:
    """Cut axis 0 into a part for each rank, and return those that the ranks have for this one, in order; shape of `t`.

    Raises as `reduce_scatter`.
    """
    _divided(t, "all_to_all")
    return _collective("all_to_all", t).reshape(t.shape)


def broadcast(t: Tensor, root: int = 0) -> Tensor:
    """Return the tensor of rank `root` on every rank, computed now; the others give shape and dtype. No gradient.

    Raises as `all_reduce`, ValueError for a rank that there is not.
    """
    if not 0 <= root < world().size:
        raise ValueError(f"there is no rank {root}: the {world().size} ranks are 0 to {world().size - 1}")
    return _collective("broadcast", _tensor(t), root).reshape(t.shape)


def part(t: Tensor) -> Tensor:
    """Return this rank's part of a batch that all ranks have, along axis 0; parts differ by one row where they have to.

    A part may have no rows. Raises TypeError for what is no tensor, ShapeError for one without axes.

    >>> from tinygraft import Tensor, nn
    >>> nn.parallel.part(Tensor([[1], [2], [3]])).tolist()    # of one rank: all
    [[1], [2], [3]]
    """
    comm, rows = world(), _rows(t, "part")
    return t[rows * comm.rank // comm.size : rows * (comm.rank + 1) // comm.size]


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


def data_parallel(*optimizers: Optimizer, bucket_mb: float = BUCKET_MB) -> Communicator:
    """Train the parameters of these optimizers on all ranks: weights of rank 0 for all, gradients averaged in steps.

    Parameters, the state of the optimizers and their buffers become those of rank 0, now. From then on `step` replaces
    each `.grad` by its mean over the ranks, before anything else, in buckets of `bucket_mb` MiB. So several `backward`
    before one step cost one reduction. `clip_grad_norm` and `clip_grad_value` reduce first, too, so every rank calls
    them; what was reduced and clipped is not reduced again. Running statistics of BatchNorm stay each rank's own.

    Call it once, on every rank, with optimizers whose parameters are in the same order. Returns the Communicator.
    Raises TypeError for what is no optimizer, TrainingError for one that is data parallel already and for LBFGS,
    CollectiveError where the ranks differ.
    """
    comm = world()
    each = [one for optimizer in optimizers for one in getattr(optimizer, "optimizers", (optimizer,))]
    for optimizer in each:
        if not hasattr(optimizer, "reduction"):
            raise TypeError(f"data_parallel takes optimizers, got {type(optimizer).__name__}")
    for optimizer in each:
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
            flat[0].realize(*flat[1:])
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
    """Return the elements of tensors as one flat tensor, lazy, that will have memory of its own and no gradient."""
    flat = [grad.detach().reshape(-1) for grad in grads]
    return (flat[0].cat(*flat[1:]) if len(flat) > 1 else flat[0]).contiguous()


def _collective(kind: str, t: Tensor, option: int = 0) -> Tensor:
    """Return the flat result of a collective of `t`, realised, on its device. Raises as `all_reduce` says.

    `kind` names the routine; `option` is the index of an op in OPS, or the root of a broadcast.
    """
    comm = world()
    if t.requires_grad:
        raise TrainingError(f"{kind} has no gradient, and this tensor requires one; give it tensor.detach()")
    if t.dtype.kind == "complex":
        raise DTypeError(f"{kind} takes no {t.dtype.name}; pass its real and its imaginary part")
    if isinstance(t.device, tuple) or not is_concrete(t.shape):
        what = "is on several devices" if isinstance(t.device, tuple) else "has a symbolic shape"
        raise CollectiveError(f"{kind} takes a tensor of one device and known sizes; this one {what}")
    if not comm.transport.holds_tensors:
        raise CollectiveError("ranks that are threads pass arrays and no tensors, whose graphs have one lock")
    if comm.size > 1 and 0 in t.shape:
        _without_elements(comm, kind, t.dtype, option)
    if comm.size == 1 or 0 in t.shape:
        return t.detach().contiguous().realize().reshape(-1)
    home = t.device
    # launches of a device with queues are not the host's: such a tensor is copied to memory of the host and back
    staged = t.detach() if Device[home].timeline is None else t.detach().to(INTERPRETER)
    row = staged.reshape(1, prod(t.shape)).contiguous().realize()
    options = (comm.size, option)
    dtype, _ = results_of(kind, [(row.uop.dtype, row.uop.shape)], options)[0]
    found = row._wrap(UOp(Ops.ROUTINE, dtype, (row.uop,), RoutineArg(kind, 0, options)))
    found._set_flag(False)
    return found.realize().to(home).reshape(-1)


def _without_elements(comm: Communicator, kind: str, dtype: DType, option: int) -> None:
    """Let the ranks compare a collective of no elements: where another rank has some, what follows would be shifted.

    Raises CollectiveError there.
    """
    import numpy as np

    flat = np.empty(0, f"u{dtype.itemsize}")
    rows = flat.reshape(comm.size, 0)
    if kind == "all_reduce":
        comm.all_reduce(flat, OPS[option], dtype)
    elif kind == "broadcast":
        comm.broadcast(flat, option, dtype)
    elif kind == "all_gather":
        comm.all_gather(flat, dtype)
    elif kind == "reduce_scatter":
        comm.reduce_scatter(rows, OPS[option], dtype)
    else:
        comm.all_to_all(rows, dtype)


def _tensor(t: Tensor) -> Tensor:
    """Return a tensor. Raises TypeError for anything else."""
    if not isinstance(t, Tensor):
        raise TypeError(f"a tensor is needed, got {type(t).__name__}; collectives.world() has those of arrays")
    return t


def _rows(t: Tensor, kind: str) -> int:
    """Return the size of axis 0.

    Raises TypeError for what is no tensor, ShapeError without axes; `kind` is the collective.
    """
    _tensor(t)
    if not t.shape:
        raise ShapeError(f"{kind} takes a tensor with an axis 0, and this one has no axes; reshape(1) gives it one")
    return int(t.shape[0])


def _divided(t: Tensor, kind: str) -> int:
    """Return the size of axis 0, as `_rows`; raises ShapeError also where the ranks do not divide it."""
    rows, size = _rows(t, kind), world().size
    if rows % size:
        raise ShapeError(f"{kind} cuts axis 0 into parts for {size} ranks, which do not divide its {rows} rows")
    return rows
