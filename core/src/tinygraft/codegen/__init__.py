"""From a kernel to a list of instructions for a Target.

Kernel to Linear (`codegen/`). `PIPELINE` in `codegen/lower.py` is the list of passes, in order: collapse
loops, cut loops, apply transforms, shorten sums, stream outputs, decompose. An `Action` is a transform as data: a name,
loops and amounts, with a text that DEBUG=3 prints and `parse` reads. `apply` applies a list of them to a kernel
graph, each a function from graph to graph; `heuristics` chooses the list from the fields of the Target, and does
not depend on which device that is: the first candidate that a function of the list `CANDIDATES` yields is
applied. `Options` can carry a list instead. `stream` marks the stores of outputs too large for the caches.
`decompose` writes the ops and dtypes that the Target lacks in terms of those it has. `linearise` puts every value
into the outermost block that has the ranges it depends on. The spec of the stage is checked after each pass when
SPEC is set.

Sums of products (`codegen/contraction.py`, `tiling.py`, `panels.py`). A matrix product, a convolution and the
gradients of both are one thing here: a REDUCE of products whose operands do not depend on all output loops.
Seen from one operand, loops that it does not depend on are rows, loops that only it depends on are columns. The
operand is packed into a panel of scratch memory, one block of columns at a time (its gates, casts and cheap
arithmetic are then evaluated once per element), and tiles of rows run over the panel with their results in
registers; the epilogue is computed on those registers. Sizes are rounded up and results past the end are not
stored, so there is one body for all sizes. A panel has each element of a sliding window once, and not once for
each output that reads it; the operand of the rows is packed as well where its strides make reading it in place
slow. `tiling` lists the candidates that registers and scratch memory have room for, with their costs in cycles.

Thread blocks (`codegen/grid.py`). For a Target with a grid there are three kinds of candidates, and the one with
the lowest cost (`grid_ranges.py`) is applied: `block`, a tile of a sum of products whose operands are staged in
shared memory while results stay in registers; `team`, a block reduction, where the threads of a block divide the
terms of each row, combine them in a fixed order, and divide the row's results; `local`, one thread for each
result. Neighbouring threads load and store neighbouring elements. Loops around a thread block are mapped to the
grid, flattened into as many dimensions as it has, in steps where a dimension is too short. A gate excludes the
iterations past the end of a size; barriers are never under a gate.

Matrix units. `Target.matrix` lists instructions that multiply small matrices, as data (`uop/units.py`): sizes,
dtypes, how many terms of the second operand are packed lanes of one integer. A unit of one row works on
registers: `codegen/packed.py` rewrites the sum of products to one over packed lanes, and the panels and register
tiles that every product has apply to it unchanged, with windows, batches and epilogues. A unit of several rows
works on memory, which the tile instructions of processors and the cooperative ones of graphics processors have
in common: `codegen/matrix.py` stages both operands, 0 past the end, and reads the results back from scratch
memory. The spelling in a language is data too (`MatrixWords`). int8 is exact. For
bfloat16 products are exact and sums are float32: a sum of n products is within (n + 1) * 2**-24 of the sum of
their magnitudes, where no factor and no product lies below 2**-126, for a unit may take those for 0;
infinities and NaN go through. The cpu plugin uses tile units (AMX) only after a child process has computed
right results with them on this machine, once (`tiles.py`).
"""
