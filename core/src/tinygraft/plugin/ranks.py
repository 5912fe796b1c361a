"""What a package imports, beside `tinygraft.plugin`, that brings an engine of collectives.

To declare: CollectiveSpec, CollectiveProbe. To implement: Transport, and Transfer for what it starts. CollectiveError
is what both raise. Ranks of threads, and `run_ranks`, try an engine's callers. What changes here changes
COLLECTIVE_API.
"""

from tinygraft.collectives.collective_spec import COLLECTIVE_API, CollectiveProbe, CollectiveSpec
from tinygraft.collectives.communicator import Communicator
from tinygraft.collectives.engines import is_kept
from tinygraft.collectives.thread_ranks import ThreadTransport, ThreadWorld, run_ranks
from tinygraft.collectives.transport import CHANNELS, Bytes, DeviceBytes, Done, Transfer, Transport
from tinygraft.config import COLLECTIVE_LIMIT
from tinygraft.errors import CollectiveError

__all__ = [
    "CHANNELS",
    "COLLECTIVE_API", "COLLECTIVE_LIMIT",
    "Bytes",
    "CollectiveError",
    "CollectiveProbe",
    "CollectiveSpec",
    "Communicator",
    "DeviceBytes",
    "Done",
    "ThreadTransport",
    "ThreadWorld",
    "Transfer",
    "Transport",
    "is_kept",
    "run_ranks",
]  # fmt: skip
