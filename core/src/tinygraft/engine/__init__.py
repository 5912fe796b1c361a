"""From requested tensors to bytes: realisation as a transaction, the tape, plans, and observers.

Realising (`engine/`, `device/`). `engine/realize.py` makes a transaction of the requested tensors.
`collect.py` lists the tensors concerned and changes nothing: the requested ones, others that need an old value
and are co-realised or read copies (`protect.py`), and intermediate values that a live tensor needs in memory:
random numbers, which are drawn once, and memory that it requested with `contiguous()`. `transaction.py`
plans, allocates all memory (where a value is overwritten, that of every call, before the first one), copies,
runs, and puts the results into all live graphs that contain them.

A failure before the first store over a value leaves everything as it was, except that the pending writes of
requested tensors are dropped, so that no failed graph stays bound to a parameter. After that store
`after_failure.py` runs the calls that need nothing of the launch that failed, and then decides on each tensor: it
has its new value, or its old one, or, where its graph reads memory that was overwritten, a PLACEHOLDER that raises
whenever it is used. A late error (DeviceLostError) loses all memory of its device.

`engine/plan.py` caches what graphs of one form launch, in memory and as a pack on disk (`engine/pack.py`), so
that a repeated graph, also one of an earlier process, goes from its key to compiled kernels and is neither
scheduled nor lowered. `engine/compile.py` compiles each kernel once, several at a time (`engine/crew.py`).
`engine/run.py` launches, counts, and notifies a `TinyJit` that captures. The handlers of all signals wait
(`interrupt.py`) from the first store over a value to the end of the schedule, and through a replay that
overwrites one; a second Ctrl-C does not wait, and values that it leaves half written are lost.

The tape (`engine/tape.py`, `tape_entry.py`, `unfold.py`, `tensor/state/paths.py`). A read never changes a
gradient. Each version of memory whose value was computed, assigned or partly written has a TapeEntry: the
graph that it was computed from, with the entry of each memory that this graph reads.

Where a tensor with requires_grad=True is upstream of a value, the value is tracked: its entry has the graph, and
retains the memory that a derivative may need. An untracked value has rows with weak references, so that results read
in a loop keep no inputs alive, and the entry of a small one is made only when it is needed. `unfold` replaces memory
by the graphs of its entries; its result for a program is the same graph, node by node, with and without reads.

Memory that a tape reads may be overwritten: unless a backward has gone through it, the old value is copied
first, up to 16 MiB; else a node without a value stands for it, and a gradient that needs it raises.

`paths` finds a tensor by its nodes: the present one, and those that it had before it was realised, assigned to,
saved, or moved to a copy because another tensor of that memory was written. A method that has nothing to do
returns, of a leaf, a RESHAPE to the same shape: that is no leaf.

What is written into a leaf with requires_grad=True is detached, so a hand-written `w -= lr * w.grad` leaves a
leaf; `.grad` is detached too. What is written in `no_grad` to any other tracked tensor is a FUNCTION that passes the
gradient on to the old value.

Variables with several values (`engine/bindings.py`). A schedule has one value for each variable, by its name.
Where the requested tensors have two, `collect` splits them before anything is planned: writes (to memory or
into an expression) and results that have one value are realised first, as many as agree, and then the remaining
ones. Another live tensor is co-realised only where its values agree. In one expression that reads under two
values each further value gets a variable of its own (`with_separate_names`), and what a TinyJit captures meanwhile is
not replayed.

Searching (`engine/search.py`). With BEAM a kernel gets the fastest transforms that were found. A child process
(`trial.py`) tries candidates: the initial ones, then those that differ in one step from the best (`variants.py`). It
compares each with what the kernel computes as plain loops (`sample.py`), then runs the good ones alternately. One that
crashes or hangs ends the child and nothing else. `database.py` stores the result by kernel, Target and compiler;
`python -m tinygraft tune` fills it.

Validating (`engine/validate.py`). With `VALIDATE=1` `realize` evaluates each graph before its schedule runs:
`evaluate.py` walks it with NumPy, node by node, and shares no code with the compiler (`arithmetic.py` has the
numbers). Beside the values it computes noisy ones, in which each operation that rounds is off by a random
unit (`noise.py`); how much they differ bounds how far compiled code may be off. `compare` reads what was
written. A replay of a TinyJit is compared with its launches one by one and undone (`rehearse.py`), then the
function runs and is validated like any other.

Observing (`events.py`). Each stage reports its result to the observers of its kind of event; without any, that costs
the test of one boolean. `engine/record.py` turns events into text and drawings at once and refers to no node, so a
program frees its memory as without it; `explain` prints the record. `engine/applied.py` counts the rules that were
applied. While StageEvents are observed every stage is made anew, without the plans, unless a viewer has set
`events.once`; the other kinds are reported as they happen.

`engine/origins.py` knows, while a recording is on, which line and module of the user made each node, and schedules pass
that to their calls. `engine/profiling/` (PROFILE=1) adds up where the time went and writes a trace; `engine/viewer/`
(VIZ=1) serves a page while the program runs, and writes it as one file at the end.
"""
