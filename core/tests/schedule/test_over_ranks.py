"""Graphs over ranks: every rank has the same collectives in the same order, whatever its part is."""

import pytest

from tinygraft import Tensor
from tinygraft.engine.plan import target_of
from tinygraft.errors import CollectiveError, DeviceError, GraphError
from tinygraft.schedule.schedule import schedule
from tinygraft.uop.ops import Ops, RankShards, ShardArg
from tinygraft.uop.stages import RoutineCall
from tinygraft.uop.uop import UOp

PROGRAMS = {
    "a sum": lambda x, y: [x.sum()],
    "a mean and its gradient": lambda x, y: [((x - x.mean(0)) ** 2).mean()],
    "another layout": lambda x, y: [x + y],
    "many": lambda x, y: [(x.sum() * x.max()).reshape(1).cat(y.prod().reshape(1)), x.flip(0), y.cumsum(0)],
    "a slice": lambda x, y: [x[:1] + 1, x[1:].sum()],
    "a product": lambda x, y: [x.T @ x],
}


def names(rank, count):
    """The devices of a Mesh of `count` ranks, on one of them."""
    return tuple("PYTHON" if other == rank else f"PYTHON@{other}" for other in range(count))


def collectives_of(program, rank, sizes):
    """The names, options and numbers of elements of the collectives that a rank calls, in their order."""
    mesh, rows = names(rank, len(sizes)), sum(sizes)
    x = Tensor.arange(rows * 4, device="PYTHON").reshape(rows, 4).float().shard(mesh, 0, sizes)
    y = Tensor.ones(rows, 4, device="PYTHON").contiguous().shard(mesh, 1)
    found = schedule([t.contiguous().uop for t in program(x, y)], target_of)
    routines = [call.routine for call in found.calls if isinstance(call, RoutineCall)]
    return [(one.name, one.options, one.operands) for one in routines]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("sizes", [(2, 2, 2), (3, 2, 1), (1, 0, 0), (0, 0, 3)])
def test_all_ranks_call_the_same_collectives(name, sizes):
    """Also where a rank has no elements, or all of them."""
    every = [collectives_of(PROGRAMS[name], rank, sizes) for rank in range(3)]
    assert every[0] and every[0] == every[1] == every[2]


def test_memory_of_ranks_is_the_own_shard():
    """A MULTI over ranks has this rank's shard, and the shape of the whole; any other node is refused."""
    mesh = names(1, 3)
    shard = UOp(Ops.RESHAPE, Tensor([1.0]).dtype, (UOp.buffer("PYTHON", 4, Tensor([1.0]).dtype),), (2, 2))
    arg = RankShards(mesh, ShardArg(0, (3, 2, 0)))
    node = UOp(Ops.MULTI, shard.dtype, (shard,), arg)
    assert (node.shape, node.device, node.sharding) == ((5, 2), mesh, arg.layout)
    for wrong in (RankShards(mesh, ShardArg(0, (2, 3, 0))), RankShards(("NULL", "PYTHON@1"), None), None):
        with pytest.raises(GraphError, match=r"MULTI takes 2 or more|this rank's shard"):
            UOp(Ops.MULTI, shard.dtype, (shard,), wrong)


def test_names_of_ranks_have_one_of_this_process():
    """A tuple of names of other ranks alone is refused, and so is the name of one by itself."""
    with pytest.raises(DeviceError, match="make them by nn.parallel.Mesh"):
        Tensor.ones(2, device=("PYTHON@0", "PYTHON@1"))
    with pytest.raises(DeviceError, match="'PYTHON@0' is not the name of a device"):
        Tensor.ones(2, device="PYTHON@0")


def test_a_symbolic_size_is_refused():
    """What ranks exchange has a known size."""
    size = UOp.variable("n", 1, 4).bind(2)
    x = Tensor.ones(4, 4, device="PYTHON").contiguous().shard(names(0, 2), 0)[:, :size]
    with pytest.raises(CollectiveError, match="ranks exchange values of known sizes"):
        schedule([x.sum(0).contiguous().uop], target_of)
