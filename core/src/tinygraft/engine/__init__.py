"""From what is asked for to bytes: realisation as a transaction, the tape, plans, and what looks on.

Program to bytes (`engine/`, `device/`). `engine/realize.py` makes a transaction of what is wanted.
`collect.py` lists the tensors concerned and changes nothing: those asked for, others that need an old value
and are computed along or read copies (`protect.py`), and what is made on the way and a live tensor needs:
random numbers, which are drawn once, and memory that it asked for with `contiguous()`. `transaction.py`
plans, takes all memory (where a value is written over, that of every call, before the first one), copies,
runs, and puts the results into all live graphs that contain them.

What fails before the first store over a value leaves everything as it was, but that the pending writes of
tensors that were asked for are dropped, so that no failed graph stays bound to a parameter. After that store
`left.py` runs what needs nothing of the launch that failed, and then looks at each tensor: it has its new
value, or its old one, or, where its graph reads memory that was written over, a PLACEHOLDER that raises a
sentence whenever it is used. An error that comes late (DeviceLostError) loses all that lives on its device.

`engine/plan.py` keeps what graphs of one form launch, in memory and as a pack on disk (`engine/pack.py`), so
that a repeated graph, also one of an earlier process, goes from its key to compiled kernels and is neither
scheduled nor lowered. `engine/compile.py` compiles each kernel once, several at a time (`engine/crew.py`).
`engine/run.py` launches, counts, and tells a `TinyJit` that captures. The handlers of all signals wait
(`interrupt.py`) from the first store over a value to the end of the schedule, and through a replay that
writes over one; a second Ctrl-C does not, and what it leaves half written is lost.

The tape (`engine/tape.py`, `tape_entry.py`, `unfold.py`, `tensor/state/paths.py`). A read never changes a
gradient. Each version of memory whose value was computed, assigned or partly written has a TapeEntry: the
graph that it was computed from, with the entry of each memory that this graph reads.

Where a tensor with requires_grad=True is behind a value, the entry holds the graph, and the memory that a
derivative may need; where nothing asked, it holds rows with weak references, so that results read in a loop
keep no inputs alive, and the entry of a small value is made only when it is asked for. `unfold` puts entries
in the place of memory; what it gives for a program is the same graph, node by node, with and without reads.

Memory that a tape reads may be overwritten: unless a backward has gone through it, the old value is copied
first, up to 16 MiB; else a node without a value stands for it, and a gradient that needs it raises.

`paths` finds a tensor by what it is: its present node, those it had before it was realised, assigned to,
saved, or moved to a copy because another tensor of that memory was written. What a method with nothing to do
gives of a leaf is a RESHAPE to the same shape: no leaf.

What is written into a leaf with requires_grad=True is detached, so a hand-written `w -= lr * w.grad` leaves a
leaf; `.grad` is detached too. What is written in `no_grad` to any other tensor with one behind it is a
FUNCTION that passes the gradient on to the old value. (Before, only tensors with requires_grad=True kept a
history, by memory and not by version of it; a leaf was found by its present node, so a loss from before a
step lost its gradient, and an assigned value had none.)

Variables with several values (`engine/bindings.py`). A schedule has one value for each variable, by its name.
Where what is asked for has two, `collect` takes it apart before anything is planned: writes (to memory or
into an expression) and results that have one value are realised first, as many as agree, and then the rest.
Another live tensor is computed along only where its values agree. In one expression that reads under two
values each further value gets a variable of its own (`told_apart`), and what a TinyJit captures meanwhile is
not replayed.

Searching (`engine/search.py`). With BEAM the list is the fastest that was found. A child process (`trial.py`)
is asked to try lists: all offers, then what differs in one step from the best (`variants.py`). It holds each
to what the kernel computes as plain loops (`sample.py`), then runs the good ones in turns. One that crashes
or hangs costs a child and nothing else. `database.py` keeps the result by kernel, Target and compiler;
`python -m tinygraft tune` fills it.

Validating (`engine/validate.py`). With `VALIDATE=1` `realize` evaluates each graph before its schedule runs:
`evaluate.py` walks it with NumPy, node by node, and shares no code with the compiler (`arithmetic.py` has the
numbers). Beside the values it computes noisy ones, in which each operation that rounds is off by a random
unit (`noise.py`); how far they lie apart bounds how far compiled code may be. `compare` reads what was
written. A replay of a TinyJit is held to its launches one by one and undone (`rehearse.py`), then the
function runs and is validated like any other.

Looking (`events.py`). Each stage tells its result to whoever observes, at the cost of one test of a boolean
when nobody does: there is one for each kind of event. `engine/record.py` turns what it is told into text and
drawings at once and keeps no node, so a program frees its memory as if nobody looked; `explain` prints the
record and `VIZ=1` writes it as one HTML page. `engine/applied.py` counts the rules that were applied. Who asks for
StageEvents sees every stage made anew, past the plans; the other kinds are told as things happen.
"""
