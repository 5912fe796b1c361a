"""Collectives of tensors: the words of a Communicator (tinygraft.collectives), computed when they are called.

    total = all_reduce(tensor)      # the sum over all ranks, on each of them

`nn.parallel` has them for programs. What layers need of them with a gradient is `summed_over_ranks`.
"""

from __future__ import annotations

from tinygraft.collectives import Communicator, world
from tinygraft.collectives.rank_sums import RANK_OPS, check_op
from tinygraft.device.registry import Device
from tinygraft.engine.rank_program import run_collective, takes_device
from tinygraft.errors import CollectiveError, ShapeError, TrainingError
from tinygraft.functions import Function
from tinygraft.helpers import prod
from tinygraft.tensor.complex.complex_tensor import joined
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.ops import Ops, RoutineArg
from tinygraft.uop.routines import results_of
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp


def all_reduce(t: Tensor, op: str = "sum") -> Tensor:
    """Return the elementwise sum (or mean, max, min, prod) of the tensors of all ranks, computed now; without gradient.

    Its shape and dtype are those of `t`, which all ranks have alike. Every rank has the same bits. Raises TypeError for
    what is no tensor, ValueError for another op, DTypeError for an op that the dtype lacks, TrainingError for a tensor
    that requires a gradient, CollectiveError where ranks differ, and for a tensor of several devices or a symbolic
    size.

    >>> from tinygraft import Tensor, nn
    >>> nn.parallel.all_reduce(Tensor([1.0, 2.0])).tolist()    # of one rank
    [1.0, 2.0]
    """
    check_op(op, tensor_of(t).dtype)
    if _adds_there(t):
        return _combined_there(t, op)
    return _collective("all_reduce", t, RANK_OPS.index(op)).reshape(t.shape)


def all_gather(t: Tensor) -> Tensor:
    """Return the tensors of all ranks along axis 0, one after another, computed now; without gradient.

    Their shapes are alike: (n, ...) becomes (n * ranks, ...). Raises as `all_reduce`, ShapeError for a tensor without
    axes.
    """
    rows = rows_of(t, "all_gather")
    return _collective("all_gather", t).reshape(rows * world().size, *t.shape[1:])


def reduce_scatter(t: Tensor, op: str = "sum") -> Tensor:
    """Return this rank's part, along axis 0, of `all_reduce(t, op)`: of (n, ...) it is (n / ranks, ...).

    Raises as `all_reduce`, ShapeError where the ranks do not divide axis 0.
    """
    check_op(op, tensor_of(t).dtype)
    rows = _divided(t, "reduce_scatter")
    if _adds_there(t):
        found = _rows_combined(t.detach().reshape(world().size, -1), op)
        return found.contiguous().realize().reshape(rows // world().size, *t.shape[1:])
    return _collective("reduce_scatter", t, RANK_OPS.index(op)).reshape(rows // world().size, *t.shape[1:])


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
    return _collective("broadcast", tensor_of(t), root).reshape(t.shape)


class _SumOverRanks(Function):
    """The sum over ranks, computed when it is called; its gradient is that sum of the gradients of all ranks.

    Of a function of all inputs, the sum of what the ranks compute, it is the derivative by this rank's input.
    """

    def forward(self, part: Tensor) -> Tensor:
        """Return the sum of the parts of all ranks."""
        return all_reduce(part)

    def backward(self, gradient: Tensor) -> Tensor:
        """Return the sum of the gradients of all ranks; every rank computes one."""
        return summed_over_ranks(gradient)


def summed_over_ranks(part: Tensor) -> Tensor:
    """Return the elementwise sum of the tensors of all ranks, now, with a gradient, which is summed over ranks too.

    So a backward pass calls a collective: every rank does it, with the same graph. Raises as `all_reduce`.
    """
    found: Tensor = _SumOverRanks.apply(part)
    return found


def _collective(kind: str, t: Tensor, option: int = 0) -> Tensor:
    """Return the flat result of a collective of `t`, realised, on its device. Raises as `all_reduce` says.

    Of complex numbers it is one of the real and one of the imaginary parts. `kind` names the routine; `option` is the
    index of an op in RANK_OPS, or the root of a broadcast.
    """
    comm = world()
    if t.requires_grad:
        raise TrainingError(f"{kind} has no gradient, and this tensor requires one; give it tensor.detach()")
    if t.dtype.kind == "complex":
        return joined(*[_collective(kind, part.detach(), option) for part in (t.real, t.imag)])
    if isinstance(t.device, tuple) or not is_concrete(t.shape):
        what = "is on several devices" if isinstance(t.device, tuple) else "has a symbolic shape"
        raise CollectiveError(f"{kind} takes a tensor of one device and known sizes; this one {what}")
    if not comm.transport.holds_tensors:
        raise CollectiveError("ranks that are threads pass arrays and no tensors, whose graphs have one lock")
    if comm.size > 1 and 0 in t.shape:
        _without_elements(comm, kind, t, option)
    if comm.size == 1 or 0 in t.shape:
        return t.detach().contiguous().realize().reshape(-1)
    row = t.detach().reshape(1, prod(t.shape)).contiguous().realize()
    options = (comm.size, option, *t.shape)
    dtype, _ = results_of(kind, [(row.uop.dtype, row.uop.shape)], options)[0]
    found = row._wrap(UOp(Ops.ROUTINE, dtype, (row.uop,), RoutineArg(kind, 0, options)))
    found._set_flag(False)
    return found.realize().reshape(-1)


def _adds_there(t: Tensor) -> bool:
    """Return whether a sum over ranks is computed by the device of `t`, as the engine takes its memory itself."""
    comm = world()
    if comm.size == 1 or not comm.transport.device_memory or t.requires_grad or t.dtype.kind == "complex":
        return False
    known = isinstance(t.device, str) and is_concrete(t.shape) and 0 not in t.shape
    return known and takes_device(comm, Device[t.device])


def _combined_there(t: Tensor, op: str) -> Tensor:
    """Return an all_reduce whose parts are combined by the device: an all_to_all of parts, a sum, an all_gather.

    In the order of the ranks, as on the host: all ranks have the same bits.
    """
    size, count = world().size, prod(t.shape)
    flat = t.detach().reshape(-1)
    padded = flat.pad((0, -count % size)) if count % size else flat
    mine = _rows_combined(padded.reshape(size, -1), op).contiguous().realize()
    return all_gather(mine)[:count].contiguous().realize().reshape(t.shape)


def _rows_combined(rows: Tensor, op: str) -> Tensor:
    """Return this rank's row of all ranks, combined in their order; lazy. Half types are combined in float32."""
    every = all_to_all(rows.contiguous())
    wide = every.float() if every.dtype.kind == "float" and every.dtype.itemsize < 4 else every
    total = wide[0]
    for number in range(1, len(rows)):
        row = wide[number]
        if op in ("sum", "mean"):
            total = total + row
        elif op == "prod":
            total = total * row
        else:
            total = total.maximum(row) if op == "max" else total.minimum(row)
    return (total / len(rows) if op == "mean" else total).cast(rows.dtype)


def _without_elements(comm: Communicator, kind: str, t: Tensor, option: int) -> None:
    """Let the ranks compare a collective of no elements: where another rank has some, what follows would be shifted.

    Raises CollectiveError there.
    """
    import numpy as np

    nothing = np.empty((1, 0), f"u{t.dtype.itemsize}")
    run_collective(comm, kind, option, t.dtype, nothing, nothing.copy(), t.shape)


def tensor_of(t: Tensor) -> Tensor:
    """Return a tensor. Raises TypeError for anything else."""
    if not isinstance(t, Tensor):
        raise TypeError(f"a tensor is needed, got {type(t).__name__}; collectives.world() has those of arrays")
    return t


def rows_of(t: Tensor, kind: str) -> int:
    """Return the size of axis 0.

    Raises TypeError for what is no tensor, ShapeError without axes; `kind` is the collective.
    """
    tensor_of(t)
    if not t.shape:
        raise ShapeError(f"{kind} takes a tensor with an axis 0, and this one has no axes; reshape(1) gives it one")
    return int(t.shape[0])


def _divided(t: Tensor, kind: str) -> int:
    """Return the size of axis 0, as `_rows`; raises ShapeError also where the ranks do not divide it."""
    rows, size = rows_of(t, kind), world().size
    if rows % size:
        raise ShapeError(f"{kind} cuts axis 0 into parts for {size} ranks, which do not divide its {rows} rows")
    return rows
