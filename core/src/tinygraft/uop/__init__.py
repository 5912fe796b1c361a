"""The graph: its nodes, what they mean, how they are built, checked, rewritten and shown.

What stores is proved safe (`uop/overlap.py`, `uop/hazards.py`, `schedule/proof.py`). Every value that a
kernel computes is of the state before its first store to the memory that it reads, in any order of iterations
and on any number of threads. `overlap` proves, from indices and gates alone, in which iterations a load and a
store of one buffer can meet. It is asked twice. `schedule/draft.py` asks it of each kernel in the making: an
assigned value whose old one may be read in another iteration gets memory of its own and is copied back last.

`hazards` asks it of each finished linear form, always, and knows nothing of how scheduler and codegen came to
it: wherever the two meet, both are in one iteration of every loop around both, in one thread and one group,
and the load is listed first; loops that threads share, and what stands outside of them, have no order. The
one exception is a load in an ORDERED loop on which nothing but stores to its own buffer depend, at the
store's index or that of the iteration before. `linearise` helps: stores inside of the same loops share them,
and what a later loop needs of memory that an earlier one changes is read before that ends.

Of a finished schedule `proof` follows what each buffer holds, call by call, through versions, copies and
values in the place of others; and, where `engine/arena.py` gives out places, whose bytes they are.

What is not proved raises GraphError with the kernel (or call), the buffer, the store and the load (or both
values); it is never run. Each check looks at a node, or at a buffer of a call, at most twice (`visits()`),
and each protection has a mutant in `tests/pipeline/test_pipeline_store_mutants.py`.
"""

from tinygraft.config import SPEC
from tinygraft.uop import bounds, shape, sharding
from tinygraft.uop.uop import UOp, derive_by


def _look_at_nodes(value: int) -> None:
    if value > 1:
        from tinygraft.uop import graph_spec as graph_spec  # it looks at every node from then on


def _show(node: UOp) -> str:
    from tinygraft.uop.show import show  # what prints graphs is loaded when something is printed

    return show(node)


derive_by(shape.SHAPE, bounds.bounds, sharding.sharding, _show)
SPEC.watch(_look_at_nodes)
