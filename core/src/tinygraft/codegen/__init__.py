"""From a kernel to a list of instructions for a Target.

Kernel to Linear (`codegen/`). `PIPELINE` in `codegen/lower.py` is the list of passes, in order: collapse
loops, take actions, shorten sums, stream outputs, decompose. An `Action` is data: a name, loops and amounts,
with a text that DEBUG=3 prints and `parse` reads. `take` applies a list of them to a kernel graph, each a
function from graph to graph; `heuristics` chooses the list by the numbers of the Target, and never asks which
device that is: it takes the first that a list of functions, `OFFERS`, has for the kernel. `Options` can carry
a list instead. `stream` marks the stores of outputs too large for the caches. `decompose` writes the ops and
dtypes that the Target lacks in terms of those it has. `linearise` puts every value into the outermost block
that has the ranges it depends on. The spec of the stage is checked after each pass when SPEC is set.

Sums of products (`codegen/contraction.py`, `tiling.py`, `panels.py`). A matrix product, a convolution and the
gradients of both are one thing here: a REDUCE of products whose operands do not depend on all output loops.
Seen from one operand, loops that it lacks are rows, loops that only it has are columns. The operand is copied
into a panel in scratch memory, block of columns by block (with its gates, casts and cheap arithmetic, which
then happen once), and tiles of rows run over the panel with their results in registers; whatever follows the
sum is computed on those. Sizes are rounded up and what lies behind the end is not stored, so there is one
body for all sizes. A window that slides over columns is staged once and not once for each of its places; rows
whose operand lies badly are packed as well. `tiling` has all ways that registers and scratch memory have room
for and prices them in cycles.

Groups of threads (`codegen/grid.py`). A Target with a grid gets one of three ways, the cheapest by
`positions.py`: `block`, a tile of a sum of products whose operands go through shared memory while results
stay in registers; `team`, rows whose reductions all threads of a group share, combined in a fixed order, and
whose results they share; `local`, threads with results of their own. Neighbouring threads load and store
neighbours. Loops around a group lie in the grid, folded into as many dimensions as there are, in steps where
one is too short. The loops that a thread's gates leave out are those past the end of a size; barriers are
never under a gate.

Matrix units. `Target.matrix` lists instructions that multiply small matrices, as data (`uop/units.py`):
sizes, dtypes, how many terms of the second operand are packed into a word. A unit of one row works on
registers: `codegen/packed.py` rewrites the sum of products to go over words, and the panels and register
tiles that every product has do the rest, so that windows, batches and epilogues need nothing of their own. A
unit of several rows works on memory, which is what the tile instructions of processors and the cooperative
ones of graphics processors share: `codegen/matrix.py` stages both operands, 0 past the end, and reads the
results back from scratch memory. How a language says it is data too (`MatrixWords`). int8 is exact. For
bfloat16 products are exact and sums are float32: a sum of n products is within (n + 1) * 2**-24 of the sum of
their magnitudes, where no factor and no product lies below 2**-126, for a unit may take those for 0;
infinities and NaN go through. The cpu plugin uses tile units (AMX) only after a child process has computed
right results with them on this machine, once (`tiles.py`).
"""
