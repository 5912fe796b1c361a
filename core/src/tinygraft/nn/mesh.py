"""Mesh: the devices of all ranks as one place, on which a tensor's shape is the global one.

    mesh = nn.parallel.Mesh(data=4)              # of 4 ranks
    x = mesh.from_local(part)                    # each rank's own rows, together one tensor
    y = mesh.shard(whole)                        # rows of a tensor that all ranks have alike
    mesh.replicate_(*nn.state.get_parameters(model))

A Mesh is a tuple of names, and goes wherever several devices may be named: t.shard(mesh, axis=0), Tensor.ones(3,
device=mesh). The rest of a script is that of one process. The schedule of each rank has its own part of each value, and
the collectives that the layouts ask for (schedule/over_ranks.py).
"""

from __future__ import annotations

import hashlib
from typing import Any

from tinygraft.collectives import Communicator, world
from tinygraft.device.registry import Device
from tinygraft.errors import CollectiveError, ShapeError, TrainingError
from tinygraft.helpers import prod
from tinygraft.nn.rank_tensors import broadcast
from tinygraft.tensor.data.reading import bytes_of
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.held import memory_base
from tinygraft.uop.ops import Ops, RankShards, ShardArg
from tinygraft.uop.sharding import OF_RANK, local_shapes, own_rank
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.uop import UOp

NAME_BYTES = 64  # given: the longest name of a device that ranks tell each other


class Mesh(tuple[str, ...]):
    """The devices of all ranks, one each, by the name of one axis: Mesh(data=4). Without an axis it is data=all.

    `device` is this rank's, the default one where it is None; ranks may have different ones. Every rank makes it, as
    they tell each other the names. `axes` is {"data": 4}, `rank` the number of this rank. Raises CollectiveError where
    the number is not that of the ranks, for several axes, and for ranks that are threads, TypeError for a number
    without a name.

    >>> from tinygraft import Tensor, nn
    >>> mesh = nn.parallel.Mesh(data=1)    # of one rank
    >>> mesh.shard(Tensor([[1.0], [2.0]], device=mesh[0])).shape, mesh.axes
    ((2, 1), {'data': 1})
    """

    axes: dict[str, int]
    rank: int

    def __new__(cls, *unnamed: Any, device: str | None = None, **axes: int) -> Mesh:
        """Return the Mesh of all ranks; the class says what raises."""
        comm = world()
        if unnamed:
            raise TypeError(f"a Mesh takes the name of its axis, as in Mesh(data={comm.size}), got {unnamed[0]!r}")
        axes = axes or {"data": comm.size}
        if len(axes) > 1:
            raise CollectiveError(f"a Mesh has one axis, got {axes}: tensors are cut or copied over all ranks")
        (name, count), = axes.items()  # fmt: skip
        if count != comm.size:
            raise CollectiveError(
                f"Mesh({name}={count}) has a place for each of {count} ranks, and there are {comm.size}"
            )
        if not comm.transport.holds_tensors:
            raise CollectiveError("ranks that are threads pass arrays and no tensors, whose graphs have one lock")
        own = Device.canonicalize(device)
        names = _names_of_all(comm, own)
        found = super().__new__(cls, [n if r == comm.rank else f"{n}{OF_RANK}{r}" for r, n in enumerate(names)])
        found.axes, found.rank = dict(axes), comm.rank
        return found

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={count}' for name, count in self.axes.items())}, rank={self.rank})"

    def shard(self, whole: Tensor, axis: int = 0) -> Tensor:
        """Return a tensor that all ranks have alike, cut along `axis`: each rank keeps its part. Every rank calls it.

        It is computed and compared over the ranks. A tensor that requires a gradient is left as it is, as part of the
        graph: its gradient is the whole one. Raises CollectiveError where ranks have different values, ShapeError for
        an axis that cannot be cut.
        """
        _tensor(whole)
        self._compare(whole)
        return whole.shard(self, axis)

    def from_local(self, part: Tensor, axis: int = 0) -> Tensor:
        """Return the tensor whose part on each rank is that rank's `part`, one after another along `axis`.

        Parts may differ in their size along `axis`, which may be 0. Every rank calls it; `part` is copied. Raises
        CollectiveError where ranks differ in another size or in the dtype, TrainingError for a part that requires a
        gradient, ShapeError for an axis that there is not.
        """
        import numpy as np

        _tensor(part)
        if part.requires_grad:
            raise TrainingError("the tensor of a Mesh has no gradient for a rank's part; give it part.detach()")
        if part.dtype.kind == "complex":
            raise CollectiveError("a Mesh has the real and the imaginary part of complex numbers, each by itself")
        if not part.ndim or not is_concrete(part.shape):
            raise ShapeError(f"from_local takes a part with an axis and known sizes, got shape {part.shape}")
        comm, at = world(), part._axis(axis)
        if len(self) == 1:
            return part.to(self[0]).clone()
        facts = [at, *part.shape, *part.dtype.name.encode().ljust(16)[:16]]
        every = comm.all_gather(np.array(facts, np.int64))
        others = np.delete(every, 1 + at, axis=1)
        if (others != others[0]).any():
            texts = [
                f"rank {rank} has {tuple(row[1:-16].tolist())} of {bytes(row[-16:].tolist()).decode().strip()} "
                f"along axis {row[0]}"
                for rank, row in enumerate(every)
            ]
            other = next(rank for rank, row in enumerate(others) if (row != others[0]).any())
            raise CollectiveError(
                "ranks have parts that differ in more than their size along the axis, or another axis: "
                f"{texts[0]}, and {texts[other]}"
            )
        sizes = tuple(int(size) for size in every[:, 1 + at])
        mine = part.to(self[self.rank]).detach().clone().contiguous().realize()
        held = memory_base(mine.uop)
        if held.op is not Ops.BUFFER:
            raise CollectiveError(f"a part has to be in memory, and this one is {held.op.name}")
        shard = held if held.shape == part.shape else UOp(Ops.RESHAPE, part.dtype, (held,), part.shape)
        node = UOp(Ops.MULTI, part.dtype, (shard,), RankShards(tuple(self), ShardArg(at, sizes)))
        found: Tensor = part._wrap(node)
        found._set_flag(False)
        return found

    def local(self, t: Tensor) -> Tensor:
        """Return a copy of this rank's part of a tensor of this Mesh, on its device; all of it where it is not cut.

        A tensor that has been realised is read without waiting for another rank; one that has not is computed, which
        every rank has to do. Raises CollectiveError for a tensor elsewhere.
        """
        if len(self) > 1 and _tensor(t).device != tuple(self):
            raise CollectiveError(f"local takes a tensor of this Mesh, and this one is on {t.device}")
        return local_part(_tensor(t)).detach().clone()

    def replicate_(self, *tensors: Tensor) -> None:
        """Put tensors, such as parameters, on this Mesh, where every rank has all of them: the values of rank 0.

        In place, with their gradients dropped. Every rank calls it with the same tensors. Raises as `all_reduce`.
        """
        for t in tensors:
            _tensor(t)
            if len(self) > 1:
                t.assign(broadcast(t.detach())).realize()
            t.grad = None
            t.shard_(self)

    def _compare(self, whole: Tensor) -> None:
        """Raise CollectiveError where the values of a tensor of this process differ between the ranks."""
        import numpy as np

        if len(self) == 1 or whole.device == tuple(self):
            return
        bits = whole.detach().contiguous().realize()
        text = f"{bits.dtype.name} {bits.shape}".encode()
        values = bytes_of(bits) if prod(bits.shape) else b""
        digest = hashlib.blake2b(text + bytes(values), digest_size=8).digest()
        every = world().all_gather(np.frombuffer(digest, np.uint8))
        if wrong := [rank for rank, one in enumerate(every) if (one != every[0]).any()]:
            raise CollectiveError(
                f"shard takes a tensor that all ranks have alike, and rank {wrong[0]} has another one than rank 0: "
                "mesh.from_local takes the part of each rank"
            )


def local_part(t: Tensor) -> Tensor:
    """Return this rank's part of a tensor of a Mesh, over its memory; any other tensor as it is.

    One that has not been realised is computed, by all ranks.
    """
    if (rank := own_rank(t.device)) is None:
        return t
    held = memory_base(t.realize().uop)
    if held.op is not Ops.MULTI:
        held = memory_base(t.detach().clone().realize().uop)
    shape = local_shapes(t.shape, t.uop.sharding, len(t.device))[rank]
    found: Tensor = t._wrap(UOp(Ops.RESHAPE, t.dtype, (held.src[0],), shape))
    found._set_flag(False)
    return found


def _names_of_all(comm: Communicator, own: str) -> list[str]:
    """Return the name of each rank's device, in the order of the ranks."""
    import numpy as np

    name = own.encode()
    if len(name) > NAME_BYTES:
        raise CollectiveError(f"the name of a device is at most {NAME_BYTES} bytes long, got {own!r}")
    every = comm.all_gather(np.frombuffer(name.ljust(NAME_BYTES), np.uint8))
    return [bytes(row).decode().strip() for row in every]


def _tensor(t: Tensor) -> Tensor:
    """Return a tensor. Raises TypeError for anything else."""
    if not isinstance(t, Tensor):
        raise TypeError(f"a Mesh takes tensors, got {type(t).__name__}")
    return t
