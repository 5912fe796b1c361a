"""Compiling: each kernel once, several at a time, and an error of one of them reaches whoever asked."""

from __future__ import annotations

import threading

import pytest

from tinygraft import Context, GlobalCounters
from tinygraft.conformance.kernels import load, param, store
from tinygraft.dtype import dtypes
from tinygraft.engine import compile
from tinygraft.errors import CompileError
from tinygraft.reference.python import PythonBackend, PythonCompiler
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Binary, Kernel, Source
from tinygraft.uop.uop import UOp


class Meeting(PythonCompiler):
    """Compiles two kernels at once, or waits in vain; refuses kernels whose name has a word in it."""

    threads = 2

    def __init__(self, refused: str = "nothing", key: str | None = None) -> None:
        self.refused, self.key, self.done = refused, key, 0
        self.meeting = threading.Barrier(2, timeout=20)

    def compile(self, source: Source) -> Binary:
        """Wait for the other kernel, then compile."""
        self.meeting.wait()
        self.done += 1
        if self.refused in source.name:
            raise CompileError(f"refused kernel {source.name}", source.text)
        return super().compile(source)


@pytest.fixture(autouse=True)
def nothing_kept():
    """Each test starts without compiled kernels."""
    compile.clear()
    with Context(CACHELEVEL=0):
        yield
    compile.clear()


def backend(**settings: str) -> PythonBackend:
    """A backend that compiles two kernels at once."""
    made = PythonBackend("PYTHON", 0)
    made.compiler = Meeting(**settings)
    return made


def kernel(size: int, op: Ops = Ops.NEG) -> Kernel:
    """op of every element of a buffer of that size."""
    i = UOp.range(size, 0)
    value = load(param(1, dtypes.float32, size), i)
    return Kernel(UOp(Ops.SINK, src=(store(param(0, dtypes.float32, size), i, value.alu(op)),)))


def test_kernels_of_one_call_are_compiled_side_by_side() -> None:
    """Four kernels, two at once, in the order that was asked for; a second time there is nothing to do."""
    here, wanted = backend(), [kernel(size) for size in (3, 4, 5, 6)]
    GlobalCounters.reset()
    made = compile.compiled([(k, here) for k in wanted])
    assert [m.name for m in made] == ["E_3", "E_4", "E_5", "E_6"]
    assert compile.compiled([(wanted[2], here), (wanted[0], here)]) == [made[2], made[0]]
    assert (GlobalCounters.kernels_compiled, here.compiler.done) == (4, 4)


def test_an_error_of_one_kernel_is_raised_and_the_others_can_be_asked_for_again() -> None:
    """The compiler's own words, from whichever thread."""
    here = backend(refused="E_4")
    with pytest.raises(CompileError, match="refused kernel E_4"):
        compile.compiled([(kernel(size), here) for size in (3, 4)])
    here.compiler = Meeting()
    assert [m.name for m in compile.compiled([(kernel(size), here) for size in (3, 4)])] == ["E_3", "E_4"]


def test_a_kernel_that_is_asked_for_twice_is_compiled_once() -> None:
    """In one call, and by its digest where another way led to it."""
    here = backend(key="a")
    one, two, again = compile.compiled([(kernel(3), here), (kernel(4), here), (kernel(3), here)])
    assert one is again
    assert one is not two
    assert compile.compiled_before(here, one.digest, one.name, one.signature, one.cost) is one
    assert compile.compiled_before(here, "0" * 48, one.name, one.signature, one.cost) is None
