"""From a graph to kernels and copies in order: what becomes memory, what goes together, what runs when.

Graph to calls (`schedule/`). `schedule(outputs, target_of)` takes the nodes that are wanted and gives
`KernelCall`s and `CopyCall`s in order. `PASSES` in `schedule/schedule.py` is the list of passes, each a function
from one state to the next:

    take devices apart, take waits out    a graph of single devices, of values alone
    choose limits, cut long loops         long reductions, products and scans in steps, by shapes alone
    order nodes, bind variables           sources before users; the values of variables
    choose stored                         which nodes become memory
    assign buffers                        where; repeated from here until no pass asks for more
    fuse                                  which stored nodes one kernel computes; may ask that more are stored
    list tasks, order tasks               what runs, and when; may ask that a value has memory of its own
    write kernels, reuse memory, prove    calls, with few buffers, that read what they mean to

What is asked for is a value that a pass gives instead of a state; `passes.py` grants it and repeats. With SPEC each
result is checked, and `explain --passes` and VIZ show it.

`stored` decides from the outputs backwards which nodes become memory: what must (outputs, copies, assigned
values, scatters, scans), and what is cheaper to store than to compute again. `fusion` puts stored nodes
together whose loops fit, so that softmax, layer norm or the update of a parameter is one kernel with several
outputs; a product of matrices (a reduction that reads its operands many times over) shares its kernel with no
other reduction.

Costs are kept by what they depend on and kernels by the forms of their parts, so a model of twelve equal
layers takes about the decisions of two (`effort` counts them). `kernel_body` writes a kernel by demand: the
value of a node at an index, movement turned into index arithmetic by `views`, a reduction into REDUCE over
new ranges, memory into LOAD.

A buffer that is assigned to holds several values one after another, and whoever reads one of them is ordered
between its write and the next; where that cannot be, the new value gets memory of its own. `order` puts first
what ends the life of memory, and `inplace` lets a value take the place of one that nobody reads any more. A
`Kernel` is canonical: buffers are numbered by slot, ranges from 0, equal work is equal.

Several devices (`uop/sharding.py`, `schedule/shard.py`, `schedule/collectives.py`). A node may lie on several
devices: its `device` is a tuple of names, its `sharding` an axis with the size of each part, or None where
each device has all of it. Both follow from its sources when it is made: WAYS has a row for each op, which
says how the result lies and how the sources have to. So a graph on several devices is one graph for
gradients, assignments, plans and TinyJit. `schedule` takes it apart first: each node becomes one for each
device, sources brought to the layout that is asked for by SHRINK, COPY and CAT, reductions over the cut axis
combined by an allreduce (all to all, or in a ring when large). Parts may have any size, so that cutting and
padding along the axis copies nothing. What is realised is a MULTI over one BUFFER for each device. Bytes
between devices are taken by the target's `Backend.copy_from`.
"""
