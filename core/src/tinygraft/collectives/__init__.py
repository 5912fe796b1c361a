"""Collectives: what the ranks of a program do together. A rank is one process of several that run the same script.

    from tinygraft import collectives

    comm = collectives.world()
    total = comm.all_reduce(array)               # the sum over all ranks, on each of them
    started = comm.start_all_reduce(array)       # the same, in the background
    total = started.wait()

Collectives (`collectives/`). Core moves no bytes between processes and names no engine that does: a package registers
one by an entry point of the group `tinygraft.collectives`, a CollectiveSpec (`collective_spec`). An engine is a
Transport (`transport`): it moves bytes between ranks. What they mean is core's, the same on every engine
(`communicator`): dtypes, sums in the order of the ranks (`rank_sums`), and the numbers that collectives have in the
order of the program. Before each one the ranks exchange headers (`headers`): where one calls something else, or has
ended, all raise and name both lines. `engine_kit` is what every engine passes. `thread_ranks` has ranks that are
threads, for tests; `engines` finds and opens engines. A collective of a tensor is a ROUTINE, which engine/ runs as a
Program of the host (`nn.parallel`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.collectives.collective_spec import COLLECTIVE_API, CollectiveProbe, CollectiveSpec
from tinygraft.collectives.communicator import Communicator, Started
from tinygraft.collectives.engines import world
from tinygraft.collectives.other_names import MEANT
from tinygraft.collectives.thread_ranks import run_ranks
from tinygraft.collectives.transport import Alone, Transfer, Transport
from tinygraft.errors import in_place_of, no_such_name

__all__ = [
    "COLLECTIVE_API",
    "Alone",
    "CollectiveProbe",
    "CollectiveSpec",
    "Communicator",
    "Started",
    "Transfer",
    "Transport",
    "run_ranks",
    "world",
]  # fmt: skip

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Raise an error with what is used here in place of a name of another library."""
        if not name.startswith("_") and hasattr(Communicator, name):
            hint = f"\n  hint: collectives.world().{name}; tinygraft.nn.parallel has the collectives of tensors"
        else:
            hint = in_place_of(name, __all__, MEANT)
        raise no_such_name("tinygraft.collectives", name, hint)
