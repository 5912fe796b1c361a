"""NULL: every stage up to the launch runs for real, and reading gives zeros."""

import pytest

from tinygraft import Context, Device, GlobalCounters, Tensor
from tinygraft.reference.null import NullAllocator


def test_reading_gives_zeros():
    """A program on NULL runs to the end; its numbers are zeros of the right shape and dtype."""
    with Context(DEV="NULL"):
        x = Tensor([[1.0, 2.0], [3.0, 4.0]])
        assert (x @ x).relu().tolist() == [[0.0, 0.0], [0.0, 0.0]]
        assert (x > 0).tolist() == [[False, False], [False, False]]


def test_kernels_are_compiled_and_counted():
    """Scheduling, code generation and rendering happen: kernels are compiled once and every launch is counted."""
    x = Tensor.full((37, 11), 2.0, device="NULL").contiguous().realize()
    GlobalCounters.reset()
    for expected in (1, 0):
        before = GlobalCounters.kernels_compiled
        (x * 1.2345 + 6.789).sum(axis=1).realize()
        assert GlobalCounters.kernels_compiled - before == expected
    assert GlobalCounters.kernel_count == 2
    assert GlobalCounters.global_mem > 0


def test_source_is_c(capsys):
    """DEBUG=4 on NULL prints readable C."""
    with Context(DEBUG=4):
        (Tensor.full((23,), 3.0, device="NULL").contiguous() * 1.5).realize()
    assert "void " in capsys.readouterr().out


def test_backward_runs():
    """Gradients are built and launched as on any device."""
    x = Tensor.full((5, 7), 1.0, device="NULL", requires_grad=True)
    (x.exp() * x).sum().backward()
    assert x.grad is not None
    assert x.grad.shape == (5, 7)
    assert x.grad.device == "NULL"


def test_memory_is_counted_and_not_there():
    """A buffer of a terabyte costs nothing but its count."""
    before = GlobalCounters.mem_used
    x = Tensor.empty(1 << 38, dtype="float32", device="NULL").realize()
    assert GlobalCounters.mem_used - before in (0, 1 << 40)
    del x
    assert GlobalCounters.mem_used == before


def test_ordinals():
    """NULL:1 is another device; nothing on it meets what is on NULL."""
    assert Device["NULL:1"] is not Device["NULL"]
    with pytest.raises(RuntimeError, match="NULL"):
        Tensor([1.0], device="NULL") + Tensor([1.0], device="NULL:1")


def test_a_part_of_a_block_is_its_size():
    """The allocator's handles are sizes."""
    allocator = NullAllocator()
    assert allocator.view(allocator.alloc(100), 10, 20) == 20
