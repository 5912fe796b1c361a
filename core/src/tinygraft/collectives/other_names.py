"""What torch.distributed, mpi4py, Horovod and JAX call collectives and ranks, and what a program uses here."""

from __future__ import annotations

from collections.abc import Iterable

from tinygraft.errors import did_you_mean

# given: without capitals too, which mpi4py has for arrays
MEANT = {
    "DistributedDataParallel": "data_parallel(optimizer)",
    "DataParallel": "data_parallel(optimizer)",
    "DistributedOptimizer": "data_parallel(optimizer)",
    "SyncBatchNorm": "nn.BatchNorm(channels, sync=True)",
    "DistributedSampler": "nn.data.DistributedSampler",
    "init_process_group": "collectives.world(), which needs no call before it",
    "init": "collectives.world(), which needs no call before it",
    "get_rank": "collectives.world().rank",
    "rank": "collectives.world().rank",
    "get_world_size": "collectives.world().size",
    "size": "collectives.world().size",
    "barrier": "collectives.world().barrier()",
    "broadcast_parameters": "data_parallel(optimizer), which gives all ranks those of rank 0",
    "broadcast_object_list": "collectives.world().broadcast_object(value, root), which returns it",
    "broadcast_object": "collectives.world().broadcast_object(value, root)",
    "all_gather_object": "collectives.world().all_gather_object(value), which returns a list; totals adds numbers",
    "gather": "all_gather(tensor), on all ranks",
    "scatter": "broadcast(tensor, root), and part of it; or all_to_all",
    "reduce": "all_reduce(tensor), on all ranks",
    "send": "collectives.world().send(array, rank)",
    "recv": "collectives.world().receive(array, rank)",
    "isend": "collectives.world().send(array, rank)",
    "irecv": "collectives.world().receive(array, rank)",
    "new_group": "collectives.world(); there are no groups of some ranks",
    "destroy_process_group": "nothing: ranks end with their programs",
    "is_initialized": "collectives.world().size > 1",
    "no_sync": "nothing: gradients are reduced by a step, however many backward come before it",
    "ReduceOp": 'all_reduce(tensor, "sum"), or "mean", "max", "min", "prod"',
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "alltoall": "all_to_all",
    "bcast": "broadcast; of an object broadcast_object",
    "all_to_all_single": "all_to_all",
    "all_gather_into_tensor": "all_gather",
    "reduce_scatter_tensor": "reduce_scatter",
    "get_size": "collectives.world().size",
    "world_size": "collectives.world().size",
    "get_local_rank": "collectives.world().local_rank",
    "pmean": 'all_reduce(t, "mean"), or t.mean() on a Mesh',
    "psum": "all_reduce(t), or t.sum() on a Mesh",
}


def in_place_of(name: str, known: Iterable[str]) -> str:
    """Return what to say of a name that there is not: what is used here, or which of the `known` ones was meant.

    >>> in_place_of("Get_rank", [])
    ': collectives.world().rank'
    """
    meant = MEANT.get(name) or MEANT.get(name.lower())
    return f": {meant}" if meant else did_you_mean(name, list(known))
