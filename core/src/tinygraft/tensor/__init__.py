"""Tensor and its methods, one file per theme.

`from tinygraft.tensor import Tensor` finds it, as in tinygrad; the files here import each other without it.

Tensor to UOp graph (`tensor/`). A method checks shapes, dtypes and devices, then adds nodes; an error names
the lines that made both operands, which live on the tensor because an interned node cannot hold them. Four
hooks of `tensor/primitives/base.py` build everything: `_op`, `_move`, `_reduce`, `_cast`. Nothing simplifies, so
a graph prints as it was written.

A method is a plain function, `def relu(self: Tensor) -> Tensor`, in the file of its theme; `tensor/methods.py` is the
table that binds them to the class, and imports a theme when one of its methods is first asked for. Type checkers and
editors read `tensor.pyi`, which is written from the same table. `primitives/` is what methods are written with;
`ops/` has the themes, which import primitives and their own folder and reach each other through methods; `state/`
is what a tensor is besides its node, `data/` values in and out, `complex/` complex numbers, `compat/` the names of
older versions.

A tensor's value is what its expression had when it was written: `assign` and `t[i] = v` rebind the tensor to
an ASSIGN or SCATTER over the old value and leave what was computed before as it was; views follow (below).

Views (`tensor/state/storage.py`). The graph is immutable, and a view is its base's memory all the same:

    t = zeros(4)     v = t[1:3]     v.assign(5)            Storage: ASSIGN(zeros, 5, SHRINK(zeros))
                                                           t = that node     v = SHRINK of that node

A tensor and its views share a `SharedStorage`, made with the first view: the node of the whole, and weak
references to the tensors, each of which has its steps from the whole. A write makes one new node for the
storage, and each tensor over it becomes its steps over that node, so the cost of a write grows with the tensors
of that storage only. Realising treats a storage as a tensor, so that its node becomes the realised one. Tensors
that share a node or a BUFFER without a storage are no aliases.

The methods that give views are those of the table `VIEWS`; they give one only where the user called them. A hook
sees the op and not the method that the user called, so it looks at the outermost function of this package on the
stack, which `here` walks over anyway to find the user's line: a declaration in each public method would cost as
much again, and calls of one method by another would have to be distinguished from the user's. A view that is
realised while a write to its memory is pending carries out that write, and caches its own elements when they are
first read.

A value may have another tensor's memory without being its view: the result of `contiguous()` or a cast that has
nothing to do. `_lender` is the tensor whose node it was given; while the lender is live and has that memory, a
write to the value goes to memory of its own, and the value is no leaf. A tensor that was a computed value when it
was first written to is never a leaf again (`_computed`), also when all its sources are overwritten.

Which tensors a computation concerns (`tensor/state/live.py`). A tensor that only reads memory, with all of its
storage, rests: it is listed under its BUFFERs. Expressions, tensors with `requires_grad=True` and tensors whose node
or flag was set are awake; for that `uop` and `requires_grad` are properties, read in C. `LIVE.near(memory)` is all
that `collect` looks at: the tensors that are awake and those that rest on overwritten memory. So a realisation
costs the same beside four and beside four thousand tensors. When only one view of a storage is left, it is awake
again, and may then free the elements of the storage that it does not read.

Symbolic sizes (`uop/index.py`, `tensor/primitives/size_math.py`, `tensor/primitives/size_checks.py`). The operators of
a node build it as it is written; a size that reaches a shape is `settled`: one form for all ways to write it, and a
number where the variables cancel. A slice or a pad is checked by the bounds of the variables where they decide it.
Otherwise the condition (a slice stays inside its axis, a reshape keeps the number of elements, no size is negative)
is a `Claim`: checked with the values bound now, and, while a TinyJit captures, recorded for a check before each
replay, since a kernel for all values cannot check it.

Complex numbers (`tensor/complex/complex_tensor.py`). A `ComplexTensor` is no node but two real tensors, the real and
the imaginary parts, so nothing below `tensor/` has complex numbers. It overrides the hooks: an op of the graph is a
rule for pairs (`complex_arithmetic.py`), a movement is done to both parts, and a method that is written with hooks
works by that. For `uop`, for a float or for an order it raises with the name of the method, so that a method that was
not adapted is an error and not a wrong number. Where tensors are gathered (realize, gradients, a TinyJit,
the transforms, an optimizer) it counts as its two `_parts()`. `Tensor(...)` makes one where its data or dtype
are complex (`tensor/mode.py`).
"""

from tinygraft.helpers import lazily, refuse_call

refuse_call(__name__, "Tensor(data) makes a tensor")
__getattr__ = lazily(
    __name__,
    {
        "Tensor": "tinygraft.tensor.tensor",
        "Device": "tinygraft.device.registry",
        "Function": "tinygraft.functions",
        "dtypes": "tinygraft.dtype",
        **dict.fromkeys(("Variable", "UOp", "fetch", "getenv"), "tinygraft"),
    },
    {"LazyBuffer": "t.uop is the node of a tensor", "MultiLazyBuffer": "t.uop is the node of a tensor"},
)
