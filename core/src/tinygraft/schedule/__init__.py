"""From a graph to kernels and copies in order: what becomes memory, what shares a kernel, what runs when.

Graph to calls (`schedule/`). `schedule(outputs, target_of)` takes the requested nodes and returns
`KernelCall`s and `CopyCall`s in order. `PASSES` in `schedule/schedule.py` is the list of passes, each a function
from one state to the next:

    split devices                         a graph of single devices
    remove marks, remove waits            of values alone: what stops or shapes gradients is left out, then AFTERs
    multiply out                          powers of whole numbers as multiplications
    reduce once                           what is equal along an axis is reduced at one element of it
    divide steps                          FOLDs without a common divisor of stride and dilation
    choose limits, choose routines        which convolutions and scans a routine of the device computes
    cut long loops                        long reductions, products and scans in steps, by shapes alone
    order nodes, bind variables           sources before users; the values of variables
    choose stored                         which nodes become memory
    assign buffers                        to which; repeated from here until no pass asks for more
    fuse                                  which stored nodes one kernel computes; may ask that more are stored
    list tasks, order tasks               what runs, and when; may ask that a value has memory of its own
    write kernels, reuse memory           calls, with few buffers
    share kernels                         one for kernels that differ in where they read
    prove                                 the calls read the right values

A pass asks by returning a request instead of a state; `passes.py` grants it and repeats. With SPEC each result is
checked, and `explain --passes` and VIZ show it.

`stored` decides from the outputs backwards which nodes become memory: those that must (outputs, copies, assigned
values, scatters, scans), and those that are cheaper to store than to compute again. `fusion` puts stored nodes
together whose loops fit, so that softmax, layer norm or the update of a parameter is one kernel with several
outputs; a product of matrices (a reduction that reads its operands many times over) shares its kernel with no
other reduction.

Costs are cached by what they depend on and kernels by the forms of their parts, so a model of twelve equal
layers takes about the decisions of two (`effort` counts them). `kernel_body` lowers a kernel by demand: the
value of a node at an index, movement turned into index arithmetic by `views`, a reduction into REDUCE over
new ranges, memory into LOAD.

A buffer that is assigned to has several values in sequence, and a call that reads one of them is ordered between
its write and the next; where no order allows that, the new value gets memory of its own. `order` runs first the
tasks that end lifetimes, and `inplace` lets a value overwrite one that no later call reads. A `Kernel` is canonical:
buffers are numbered by slot, ranges from 0, equal work is equal.

Several devices (`uop/sharding.py`, `schedule/shard.py`, `schedule/collectives.py`). A node may be on several
devices: its `device` is a tuple of names, its `sharding` an axis with the size of each shard, or None where
each device has all of it. Both follow from its sources when it is made: OP_SHARDING has a row for each op, with the
layout of the result and those that the op requires of its sources. So a graph on several devices is one graph
for gradients, assignments, plans and TinyJit. `schedule` splits it first: each node becomes one for each device,
sources are brought to the required layout by SHRINK, COPY and CAT, reductions over the sharded axis are combined
by an allreduce (all to all, or in a ring when large). Shards may have any size, so that cutting and padding along
the axis copies nothing. A realised value is a MULTI over one BUFFER for each device. Bytes between devices are
copied by the destination's `Backend.copy_from`.
"""
