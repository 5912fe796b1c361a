"""Lanes at computed addresses: one instruction where the machine has it, of every size of element, with and without
a gate, and as many lanes as are left at the end of a loop.
"""

from __future__ import annotations

import numpy as np
import pytest

from tinygraft import Tensor
from tinygraft.conformance.linears import gather
from tinygraft.plugin import LLVMRenderer
from tinygraft_cpu import machine
from tinygraft_cpu.device import CpuBackend

LENGTHS = (1, 4, 16, 37, 333)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", [
    np.bool_, np.int8, np.uint16, np.float16, np.int32, np.float32, np.int64, np.float64
])  # fmt: skip
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_elements_of_every_size(dtype: type, index: type, length: int) -> None:
    """From the end, from outside of it (0), and from the front; `+ 0` is to be computed, so that it is not checked."""
    rng = np.random.default_rng(length)
    table = rng.integers(0, 100, 50).astype(dtype)
    at = rng.integers(-60, 60, (3, length)).astype(index)
    inside = (at >= -50) & (at < 50)
    expected = np.where(inside, table[np.where(inside, at, 0)], np.zeros((), dtype))
    found = Tensor(table)[Tensor(at) + 0]
    np.testing.assert_array_equal(found.numpy(), expected)
    np.testing.assert_array_equal((Tensor(table)[Tensor(at) + 0] == Tensor(expected)).numpy(), True)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("length", LENGTHS)
def test_along_an_axis(length: int, axis: int) -> None:
    """Rows of an odd length, of which some indices are outside; `+ 0` is to be computed, so that it is not checked."""
    rng = np.random.default_rng(length)
    table = rng.standard_normal((length, length)).astype(np.float32)
    at = rng.integers(-length, length, (length, length))
    np.testing.assert_array_equal(Tensor(table).gather(axis, Tensor(at)).numpy(), np.take_along_axis(table, at, axis))
    past = np.where(at % 3 == 0, at + 3 * length, at)
    expected = np.where(at % 3 == 0, 0, np.take_along_axis(table, at, axis))
    np.testing.assert_array_equal(Tensor(table).gather(axis, Tensor(past) + 0).numpy(), expected)


def test_sums_over_gathered_terms() -> None:
    """Lanes of a reduction."""
    rng = np.random.default_rng(5)
    table, at = rng.standard_normal(1000).astype(np.float32), rng.integers(0, 1000, (37, 111))
    np.testing.assert_allclose(Tensor(table)[Tensor(at)].sum(1).numpy(), table[at].sum(1), rtol=1e-4, atol=1e-5)


def test_kernels_through_llvm_have_the_instruction(backend: CpuBackend) -> None:
    """It is in the Target and in the text where the machine has it; without it lanes are loaded one by one."""
    text = backend.renderer.render(gather()).text
    has = backend.compiler_name == "llvm" and bool(machine.gathers())
    assert (backend.target.gathers == (4, 8)) == has
    assert ("llvm.masked.gather.v4f32" in text) == has
    assert "gather" not in LLVMRenderer().render(gather()).text.replace('@"gather', "").replace("; gather", "")
