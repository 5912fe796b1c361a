"""The boxes between the stages: what the scheduler gives, what codegen gives, what a renderer and compiler give.

    Tensor --tensor/--> UOp graph --schedule/--> [KernelCall] --codegen/--> Kernel -> Linear
           --render/--> Source --Compiler--> Binary --Backend.load--> Program --engine/--> bytes

Read this first. Inside a box everything is a UOp; a box never holds a live buffer.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.dtype import DType
from tinygraft.target import Target
from tinygraft.uop.sizes import sint
from tinygraft.uop.uop import UOp


@dataclass(frozen=True, slots=True)
class Kernel:
    """What one kernel computes, canonical: equal work gives an equal Kernel, whatever its buffers are.

    sink is a SINK over STOREs. Buffers are PARAMs numbered by slot, loop counters RANGEs numbered from 0.
    """

    sink: UOp


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One kernel on its buffers: BUFFER nodes by slot. written are the slots that the kernel stores to."""

    kernel: Kernel
    device: str
    buffers: tuple[UOp, ...]
    written: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CopyCall:
    """The bytes of one buffer to another buffer of the same size, on any device.

    buffers and written are those of a KernelCall: the target is slot 0.
    """

    target: UOp
    source: UOp

    @property
    def buffers(self) -> tuple[UOp, ...]:
        """The target and the source."""
        return self.target, self.source

    @property
    def written(self) -> tuple[int, ...]:
        """The target's slot."""
        return (0,)


Call = KernelCall | CopyCall


@dataclass(frozen=True, slots=True)
class Param:
    """An argument of a compiled kernel: element type, elements, whether the kernel writes it."""

    dtype: DType
    size: int
    written: bool


@dataclass(frozen=True, slots=True)
class Signature:
    """How a compiled kernel is called.

    params by slot, then variables by name, passed as int64. grid is how many groups run along each of three
    dimensions (a size may be symbolic), block_threads how many threads one thread block has. chunked says that the
    kernel takes two more int64, its share (part, parts) of every PARALLEL range. scratch is how many bytes of memory
    of its own each share needs while it runs; a renderer whose language has no such memory takes them from the caller.
    """

    params: tuple[Param, ...]
    variables: tuple[str, ...] = ()
    grid: tuple[sint, sint, sint] = (1, 1, 1)
    block_threads: int = 1
    chunked: bool = False
    scratch: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """What a kernel does at least: floating point operations and bytes moved. Sizes may be symbolic."""

    flops: sint = 0
    bytes: sint = 0


@dataclass(frozen=True, slots=True)
class Linear:
    """A kernel as a list of instructions, one after another, for a Target. uop/linear.py helps to read it."""

    name: str
    uops: tuple[UOp, ...]
    signature: Signature
    target: Target
    actions: tuple[str, ...] = ()
    cost: Cost = Cost()


@dataclass(frozen=True, slots=True)
class Source:
    """A rendered kernel. language names the grammar (c, llvm, python)."""

    name: str
    text: str
    language: str
    signature: Signature


@dataclass(frozen=True, slots=True)
class Binary:
    """A compiled kernel, ready to be loaded by its Backend. detail is IR or assembly for DEBUG=7, where known."""

    name: str
    data: bytes
    signature: Signature
    detail: str = ""
