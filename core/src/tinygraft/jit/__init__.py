"""TinyJit: a function's launches, captured and replayed.

A function under `TinyJit` is run until two runs launched the same kernels on the same memory; from then on
its launches are replayed. `arguments.py` takes a call apart into its kind (the key) and what may differ:
BUFFERs and values of variables. While the function runs, `engine/capture.py` notes each launch by the numbers
of its BUFFERs, and keeps no memory that a run without it would give back. `trace.py` gives each number a
role: argument, made by the call, or memory from outside. Equal roles and kernels make a record: its result is
kept as rows (`results.py`) to be built again over new memory, and its launches become a `Replay`.

`Replay` gives the temporaries of the whole call places in one arena and hands runs of launches on one backend
to `Backend.graph(steps)`: a `GraphExecutor`, told only what changes, the buffers of some places and the
values of variables. Core's default launches step by step; the cpu plugin walks a prepared list in C
(`replay.c`), one native call for all of it, which comes back to Python every 100 ms for Ctrl-C; it waits for
the end of a replay that writes over values. A launch that fails in such a replay is tried once more. With
DEBUG=2 or an observer each launch runs by itself and is timed.

A function that changes containers of its arguments, leaves work undone or hides tensors of its result in
objects (`tensor/nested.py`) is run in every call. A value that the function leaves outside its result is
written anew by each replay (where it is the argument, a copy is read; it is lost where a replay fails before
it is written), and a grad that was dropped since comes back (`filled.py`); a tensor that was there before the
call, an expression over memory that a replay overwrites, and a pending assignment keep or get the value they
should have. A result is not taped: backward through it is refused.

A pickle of a TinyJit has records: machine code, forms of buffers, and the data of memory from outside.
"""

from tinygraft.jit.tinyjit import TinyJit as TinyJit
