"""Bytes of any length, and objects of Python, from rank to rank; by the collectives of arrays.

An object is pickled, and to unpickle is to run what the pickle says: so objects are passed between ranks of one program
only, which run the same script and trust each other, and are never read from a file.
"""

from __future__ import annotations

from typing import Any, Protocol

from tinygraft.collectives.rank_arrays import raw
from tinygraft.collectives.rank_sums import RankArray


class PassesArrays(Protocol):
    """What these need of a Communicator, which has methods that call them."""

    rank: int

    def all_gather(self, array: RankArray) -> RankArray:
        """Return the arrays of all ranks along a new axis 0."""

    def broadcast(self, array: RankArray, root: int) -> RankArray:
        """Return the array of rank `root`."""


def bytes_of_all(comm: PassesArrays, data: bytes) -> list[bytes]:
    """Return the bytes of all ranks, each of any length, in the order of the ranks; every rank calls it.

    >>> from tinygraft import collectives
    >>> bytes_of_all(collectives.world(), b"mine")
    [b'mine']
    """
    import numpy as np

    sizes = comm.all_gather(np.array([len(data)]))[:, 0]
    every = comm.all_gather(np.pad(raw(data), (0, int(sizes.max()) - len(data))))
    return [row[:size].tobytes() for row, size in zip(every, sizes, strict=True)]


def bytes_of_root(comm: PassesArrays, data: bytes, root: int) -> bytes:
    """Return the bytes of rank `root`, of any length, on every rank; what others pass is not read."""
    import numpy as np

    size = int(comm.broadcast(np.array([len(data)]), root)[0])
    mine = raw(data) if comm.rank == root else np.empty(size, np.uint8)
    return bytes(comm.broadcast(mine, root).tobytes())


def texts_of_all(comm: PassesArrays, text: str) -> list[str]:
    """Return the texts of all ranks, in the order of the ranks; every rank calls it."""
    return [data.decode(errors="replace") for data in bytes_of_all(comm, text.encode(errors="replace"))]


def pickled(value: Any, called: str) -> bytes:
    """Return an object as bytes. Raises TypeError for one that cannot be pickled; `called` is what asks for it."""
    import pickle

    try:
        return pickle.dumps(value)
    except Exception as error:
        raise TypeError(
            f"{called} pickles what it passes, and cannot pickle {type(value).__name__}: {error}"
        ) from error


def unpickled(data: bytes) -> Any:
    """Return the object that `pickled` made bytes of, on a rank of the same program."""
    import pickle

    return pickle.loads(data)
