"""The types between the stages: results of the scheduler, of codegen, of renderers and of compilers.

    Tensor --tensor/--> UOp graph --schedule/--> [KernelCall] --codegen/--> Kernel -> Linear
           --render/--> Source --Compiler--> Binary --Backend.load--> Program --engine/--> bytes

A RoutineCall goes from --schedule/--> by Backend.routine to its Program.

Read this first. Within a stage everything is a UOp; none of these types refers to a live buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.dtype import DType
from tinygraft.target import Target
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one kernel computes, in canonical form: the same computation is an equal Kernel, whatever its buffers are.

    `sink` is a SINK over STOREs. Buffers are PARAMs numbered by slot, loop counters RANGEs numbered from 0.
    """

    sink: UOp


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel on its buffers: BUFFER nodes by slot. `written` are the slots that the kernel stores to.

    `numbers` has the values of variables of the kernel that are this call's own, by name (schedule/offsets.py).
    """

    kernel: Kernel
    device: str
    buffers: tuple[UOp, ...]
    written: tuple[int, ...]
    numbers: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class CopyCall:
    """A copy of the bytes of `source` to `target`, a buffer of the same size, on any device.

    `buffers` and `written` are like those of a KernelCall: the target is slot 0.
    """

    target: UOp
    source: UOp

    @property
    def buffers(self) -> tuple[UOp, ...]:
        """Return the target and the source."""
        return self.target, self.source

    @property
    def written(self) -> tuple[int, ...]:
        """Return the target's slot."""
        return (0,)


RoutineOperand = tuple[DType, tuple[int, ...]]  # the dtype and the shape of an operand or a result of a routine


@dataclass(frozen=True, slots=True)
class Routine:
    """What a device's own routine is to compute: which one (uop/routines.py), of what, and which of its results.

    Operands and results are contiguous, with examples that do not concern each other along axis 0. `results` are the
    numbers of those that are wanted, ascending.
    """

    name: str
    options: tuple[int, ...]
    operands: tuple[RoutineOperand, ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RoutineCall:
    """A routine of the device on BUFFERs: its wanted results, then its operands."""

    routine: Routine
    device: str
    buffers: tuple[UOp, ...]

    @property
    def written(self) -> tuple[int, ...]:
        """Return the slots of the results."""
        return tuple(range(len(self.routine.results)))


Call = KernelCall | CopyCall | RoutineCall


@dataclass(frozen=True, slots=True)
class Param:
    """An argument of a compiled kernel: element type, elements, whether the kernel writes it."""

    dtype: DType
    size: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """How a compiled kernel is called.

    The arguments are `params` by slot, then `variables` by name, as int64. `grid` is the number of thread blocks along
    each of three dimensions (a size may be symbolic), `block_threads` how many threads one thread block has. `chunked`
    says that the kernel has two more int64 arguments, which chunk of every PARALLEL range it runs and how many there
    are. `scratch` is how many bytes of scratch memory each chunk needs while it runs; where the language has no such
    memory, the caller provides it. `shared` is how many bytes of shared memory for each thread
    block the launch has to ask for; a renderer sets it where its kernel does not declare them.
    """

    params: tuple[Param, ...]
    variables: tuple[str, ...] = ()
    grid: tuple[sint, sint, sint] = (1, 1, 1)
    block_threads: int = 1
    chunked: bool = False
    scratch: int = 0
    shared: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """The least work of a kernel: floating point operations and bytes moved. Sizes may be symbolic."""

    flops: sint = 0
    bytes: sint = 0


@dataclass(frozen=True, slots=True)
class Linear:
    """A kernel as a list of instructions for a Target. `actions` are its transforms. uop/linear.py helps to read it."""

    name: str
    uops: tuple[UOp, ...]
    signature: Signature
    target: Target
    actions: tuple[str, ...] = ()
    cost: Cost = Cost()


@dataclass(frozen=True, slots=True)
class Source:
    """A rendered kernel. `language` names the grammar (c, llvm, python)."""

    name: str
    text: str
    language: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel, to be loaded by its Backend. `detail` is IR or assembly for DEBUG=7, where known."""

    name: str
    data: bytes
    signature: Signature
    detail: str = ""
