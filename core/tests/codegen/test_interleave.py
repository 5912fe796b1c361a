"""Copies that interleave: values at odd sizes, gates of rows and columns, and what is left to other candidates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.codegen.action import parse
from tinygraft.codegen.collapse import collapse
from tinygraft.codegen.cuts import cut
from tinygraft.codegen.interleave import interleaved_kernels
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.codegen.transforms import with_gaps
from tinygraft.conformance.kernels import run_linear
from tinygraft.errors import ActionError
from tinygraft.reference.python import TARGET, PythonBackend
from tinygraft.uop.stages import KernelCall

SMALL = replace(TARGET, vector_bytes=16, registers=16, local_memory=64 << 10, chunks=2, matrix=(), grid_dims=0)


def numbers(*shape: int) -> Tensor:
    """A tensor in memory; its values come with the launch."""
    return Tensor.empty(*shape, device="PYTHON")


def side_by_side(a: Tensor, b: Tensor) -> Tensor:
    """Elements of two tensors in turn, along the last axis."""
    return Tensor.stack(a, b, dim=-1).reshape(*a.shape[:-1], -1)


CASES: dict[str, Callable[[], Tensor]] = {
    "a part of them": lambda: side_by_side(numbers(67, 40), numbers(67, 40))[:, 3:-4].contiguous(),
    "rows too": lambda: numbers(3, 2, 2, 20, 21).permute(0, 3, 1, 4, 2).reshape(3, 40, 42).contiguous(),
    "three": lambda: numbers(9, 3, 160).permute(0, 2, 1).reshape(9, 480)[:, 1:].contiguous(),
    "with arithmetic": lambda: side_by_side(numbers(31, 80).relu(), numbers(31, 80)) + numbers(160),
}


@pytest.mark.parametrize("name", CASES)
def test_values(name: str) -> None:
    """Of the chosen candidate, and of the narrowest vectors; the interpreter refuses what is outside of memory."""
    calls = [c for c in CASES[name]().schedule() if isinstance(c, KernelCall)]
    (call,) = calls
    rng = np.random.default_rng(3)
    data = [rng.uniform(-1, 1, b.arg.size).astype(np.float32).tobytes() for b in call.buffers]

    def run(options: Options) -> np.ndarray[Any, Any]:
        backend = PythonBackend("PYTHON", 0, SMALL)
        return np.frombuffer(run_linear(backend, to_linear(call.kernel, SMALL, options), data)[0], np.float32)

    ((_, (one,)),) = interleaved_kernels(with_gaps(collapse(call.kernel.sink)), SMALL)
    loop, count = one.loops[0], one.amounts[0][0]
    expected = run(Options(noopt=True))
    for actions in (str(one), f"interleave({loop}, {count}, 2), parallel"):
        np.testing.assert_array_equal(run(Options(actions=parse(actions))), expected, err_msg=actions)
    for wrong, message in ((f"({loop}, {count}, 3)", "2, 4, 8, ... lanes"), (f"({loop + 9}, 2, 4)", "does not interl")):
        with pytest.raises(ActionError, match=message):
            run(Options(actions=parse(f"interleave{wrong}")))


@pytest.mark.parametrize(
    "build", [lambda: numbers(64, 80) + 1, lambda: numbers(80, 64).transpose().contiguous(), lambda: numbers(9, 9) + 1]
)
def test_other_copies_are_left_to_others(build: Callable[[], Tensor]) -> None:
    """Nothing is in turn there."""
    (call,) = [c for c in build().schedule() if isinstance(c, KernelCall)]
    assert list(interleaved_kernels(with_gaps(collapse(call.kernel.sink)), SMALL)) == []


def test_loops_of_phases_are_not_cut() -> None:
    """Where the first or the last phase is no whole pair: all of them are in vectors."""
    (call,) = [c for c in CASES["a part of them"]().schedule() if isinstance(c, KernelCall)]
    assert cut(collapse(call.kernel.sink), SMALL) is collapse(call.kernel.sink)
