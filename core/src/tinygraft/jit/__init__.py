"""TinyJit: a function's launches, captured and replayed.

A function under `TinyJit` is run until two runs launched the same kernels on the same memory; from then on
its launches are replayed. `arguments.py` unpacks a call into its kind (the key) and what may differ:
BUFFERs and values of variables. While the function runs, `engine/capture.py` records each launch by the ids
of its BUFFERs, and retains no memory that a run without it would free. `trace.py` gives each id a
role: argument, made by the call, or memory from outside. Equal roles and kernels make a record: its result is
stored as rows (`results.py`) to be built again over new memory, and its launches become a `Replay`, without those
that compute again what an earlier realisation of the same call has computed (`repeats.py`).

`Replay` places the temporaries of the whole call in one arena and hands runs of launches on one backend
to `Backend.graph(steps)`: a `GraphExecutor`, which is given only what changes, some buffers and the
values of variables. Core's default launches step by step; the cpu plugin walks a prepared list in C
(`replay.c`), one native call for all of it, which returns to Python every 100 ms for Ctrl-C; Ctrl-C waits for
the end of a replay that overwrites values. A launch that fails in such a replay is tried a second time. With
DEBUG=2 or an observer each launch runs by itself and is timed.

A function that changes containers of its arguments, leaves work undone, hides tensors of its result in
objects (`tensor/nested.py`), or has another effect that launches do not repeat (`effects.py`) is run in every
call. A tensor from outside that has moved since (`outside.py`) has it captured anew. A value that the function
leaves outside its result is written anew by each replay (where it is the argument, a copy is read; it is lost
where a replay fails before it is written), and a grad that was dropped since is restored (`filled.py`); a call that
finds grads to add to is of another kind than one that finds none (`grad_kinds.py`); a tensor that existed before
the call, an expression over memory that a replay overwrites, and a pending
assignment keep or get the value they should have. A result is not taped: backward through it raises.

A pickle of a TinyJit has records: machine code, types of buffers, and the data of memory from outside.
"""

from tinygraft.helpers import refuse_call
from tinygraft.jit.tinyjit import TinyJit as TinyJit

refuse_call(__name__, "TinyJit(function), or @TinyJit above it")  # users of JAX write jit(function)
