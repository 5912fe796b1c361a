"""The graph: its nodes, what they mean, how they are built, checked, rewritten and shown.

What stores is proved safe (`uop/overlap.py`, `uop/hazards.py`, `schedule/proof.py`). Every value that a
kernel computes is of the state before its first store to the memory that it reads, in any order of iterations
and on any number of threads. `overlap` proves, from indices and gates alone, in which iterations a load and a
store of one buffer can conflict: reach the same element. It is used twice. `schedule/draft.py` checks each kernel while
it is written: an assigned value whose old one may be read in another iteration gets memory of its own and is copied
back last.

`hazards` checks each finished linear form, always, and independently of how scheduler and codegen made it: wherever
the two conflict, both are in one iteration of every loop around both, in one thread and one thread block, and the load
is listed first; parallel loops, and what is outside of them, have no order. The one exception is a load in an ORDERED
loop on which nothing but stores to its own buffer depend, at the store's index or that of the iteration before.
`linearise` helps: stores inside of the same loops share them, and what a later loop needs of memory that an earlier
one changes is read before that ends.

Of a finished schedule `proof` follows the value of each buffer, call by call, through versions, copies and
values in place of others; and, where `engine/arena.py` places buffers in one block, which buffer each byte belongs to.

What is not proved raises GraphError with the kernel (or call), the buffer, the store and the load (or both
values); it is never run. Each check looks at a node, or at a buffer of a call, at most twice (`visits()`),
and each protection has a mutant in `tests/pipeline/test_pipeline_store_mutants.py`.
"""

from tinygraft.config import SPEC
from tinygraft.uop import bounds, shape, sharding
from tinygraft.uop.ops import Ops as Ops
from tinygraft.uop.uop import UOp, derive_by


def _look_at_nodes(value: int) -> None:
    """Install the check of every new node where SPEC, whose value is `value`, is above 1."""
    if value > 1:
        from tinygraft.uop import graph_spec as graph_spec  # its import installs the check of every new node


def _show(node: UOp) -> str:
    from tinygraft.uop.show import show  # imported when a graph is printed, which few programs do

    return show(node)


derive_by(shape.SHAPE, bounds.bounds, sharding.sharding, _show)
SPEC.watch(_look_at_nodes)
