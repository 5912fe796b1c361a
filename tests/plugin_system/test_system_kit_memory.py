"""Levels render and memory of the kit: devices with one fault each, and the test that catches it by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from kit_run import KitRun
from tinygraft import Tensor
from tinygraft.conformance.levels import memory
from tinygraft.conformance.levels.memory import SIZES, STEPS, MemoryLevel, holds
from tinygraft.conformance.levels.render import EXPRESSIONS, RenderLevel
from tinygraft.conformance.opened import open_device
from tinygraft.device.interfaces import Backend, Handle, Program
from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.reference.pytext import PythonRenderer
from tinygraft.reference.python import TARGET, HostAllocator, PythonBackend, PythonProgram
from tinygraft.target import Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Binary, Linear, Source

pytestmark = pytest.mark.slow

MEMORY, RENDER, PYTHONS = MemoryLevel(), RenderLevel(), PythonRenderer()
PARAMETERS: dict[str, Sequence[int]] = {
    "test_what_is_written_is_read": SIZES[:-1], "test_copies_within_the_device": (1, 17, 4097),
    "test_a_view_is_its_part_of_the_buffer": STEPS, "test_kernels_use_views_at_their_offset": STEPS,
}  # fmt: skip
NAMES = (
    *PARAMETERS, "test_buffers_do_not_overlap", "test_freed_memory_is_nobody_elses",
    "test_host_memory_of_every_kind_is_copied", "test_a_view_keeps_the_buffer_alive",
    "test_copies_within_the_device_between_views", "test_the_host_sees_the_memory_itself",
    "test_the_host_sees_a_view_at_its_offset", "test_memory_of_others_is_used_in_place",
    "test_too_much_memory_is_a_memory_error",
)  # fmt: skip


def backend_with(allocator: HostAllocator) -> Backend:
    """The interpreter with another allocator."""
    backend = PythonBackend("PYTHON", 0)
    backend.allocator = allocator
    return backend


def failing(backend: Backend) -> set[str]:
    """The tests of the allocator that a backend fails."""
    failed = set()
    for name in NAMES:
        for arguments in [(value,) for value in PARAMETERS.get(name, ())] or [()]:
            try:
                getattr(MEMORY, name)(backend, *arguments)
            except (AssertionError, pytest.fail.Exception):
                failed.add(name)
    return failed


class Overlapping(HostAllocator):
    """Memory that starts in the middle of what was given out before."""

    last: Handle = None

    def alloc(self, nbytes: int) -> Handle:
        """Half of it is somebody else's."""
        if self.last is not None and 2 < nbytes < self.last.nbytes // 2 + 1:
            return self.last[self.last.nbytes // 2 :][:nbytes]
        self.last = super().alloc(nbytes)
        return self.last


class GivesAwayTwice(HostAllocator):
    """What was freed is given to the next two who ask."""

    def __init__(self) -> None:
        self.freed: dict[int, list[Handle]] = {}

    def alloc(self, nbytes: int) -> Handle:
        """Of the freed, or new."""
        return self.freed[nbytes].pop() if self.freed.get(nbytes) else super().alloc(nbytes)

    def free(self, handle: Handle, nbytes: int) -> None:
        """Twice."""
        self.freed.setdefault(nbytes, []).extend([handle, handle])


class FreesTheNeighbour(HostAllocator):
    """free gives back what was allocated after the handle."""

    def __init__(self) -> None:
        self.given: list[Handle] = []
        self.freed: list[Handle] = []

    def alloc(self, nbytes: int) -> Handle:
        """Of the freed, or new."""
        for place, handle in enumerate(self.freed):
            if handle.nbytes >= nbytes:
                return self.freed.pop(place)[:nbytes]
        self.given.append(super().alloc(nbytes))
        return self.given[-1]

    def free(self, handle: Handle, nbytes: int) -> None:
        """The wrong one."""
        places = [place for place, other in enumerate(self.given[:-1]) if other is handle]
        self.freed += [self.given[place + 1] for place in places]


class DropsTheLastByte(HostAllocator):
    """copy_in of an odd number of bytes copies one too few."""

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """All but the last."""
        flat = source.cast("B")
        super().copy_in(target, flat[: len(flat) // 2 * 2])


class Wrapping(HostAllocator):
    """Large buffers are copied in pieces, of which the last one starts too early."""

    def copy_out(self, target: memoryview, source: Handle) -> None:
        """64 KiB right, the rest from the start."""
        super().copy_out(target, source)
        flat = target.cast("B")
        if len(flat) > 65536:
            flat[65536:] = source[: len(flat) - 65536]


class WantsBytes(HostAllocator):
    """Takes only memory of bytes in one dimension."""

    def copy_in(self, target: Handle, source: memoryview) -> None:
        """By number of elements."""
        target[: len(source)] = source.tobytes()[: len(source)]


class IgnoresOffset(HostAllocator):
    """A view starts where its buffer does."""

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """From 0 on."""
        return handle[:nbytes]


class CopiesViews(HostAllocator):
    """A view is a copy of its part."""

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """A snapshot."""
        return memoryview(bytearray(handle[offset : offset + nbytes]))


class CopiesToHost(HostAllocator):
    """The host's view is a copy."""

    def as_host(self, handle: Handle) -> memoryview | None:
        """A snapshot."""
        return memoryview(bytearray(handle))


class HasNoHostView(HostAllocator):
    """as_host is written and gives nothing."""

    def as_host(self, handle: Handle) -> memoryview | None:
        """None."""
        return None


class Shares(HostAllocator):
    """copy makes nothing of its own."""

    def copy(self, target: Handle, source: Handle, nbytes: int) -> None:
        """Forgets to."""


class CopiesOthers(HostAllocator):
    """at_address copies what lies there."""

    def at_address(self, address: int, nbytes: int) -> Handle:
        """A snapshot."""
        return memoryview(bytearray(super().at_address(address, nbytes)))


class PlainMemoryError(HostAllocator):
    """Another exception than was agreed."""

    def alloc(self, nbytes: int) -> Handle:
        """Python's own."""
        if nbytes > 1 << 40:
            raise AssertionError("CL_OUT_OF_RESOURCES")
        return super().alloc(nbytes)


class Promises(HostAllocator):
    """Takes any size, and hopes."""

    def alloc(self, nbytes: int) -> Handle:
        """Lazily."""
        return super().alloc(min(nbytes, 1 << 28))


class Dirty(HostAllocator):
    """Memory as it was left, which is allowed: nobody may count on zeros."""

    def alloc(self, nbytes: int) -> Handle:
        """Full of ones."""
        handle = super().alloc(nbytes)
        if nbytes < 1 << 30:
            handle[:] = b"\xff" * nbytes
        return handle


MUTANTS: list[tuple[Callable[[], HostAllocator], set[str]]] = [
    (HostAllocator, set()),
    (Dirty, set()),
    (Overlapping, {"test_buffers_do_not_overlap", "test_freed_memory_is_nobody_elses"}),
    (GivesAwayTwice, {"test_freed_memory_is_nobody_elses"}),
    (FreesTheNeighbour, {"test_freed_memory_is_nobody_elses"}),
    (DropsTheLastByte, {"test_what_is_written_is_read"}),
    (Wrapping, {"test_what_is_written_is_read"}),
    (WantsBytes, {"test_host_memory_of_every_kind_is_copied"}),
    (IgnoresOffset, {"test_a_view_is_its_part_of_the_buffer", "test_kernels_use_views_at_their_offset",
                     "test_copies_within_the_device_between_views", "test_the_host_sees_a_view_at_its_offset",
                     "test_a_view_keeps_the_buffer_alive"}),
    (CopiesViews, {"test_a_view_is_its_part_of_the_buffer", "test_kernels_use_views_at_their_offset",
                   "test_copies_within_the_device_between_views"}),
    (CopiesToHost, {"test_the_host_sees_the_memory_itself"}),
    (HasNoHostView, {"test_the_host_sees_the_memory_itself", "test_the_host_sees_a_view_at_its_offset"}),
    (Shares, {"test_copies_within_the_device", "test_copies_within_the_device_between_views"}),
    (CopiesOthers, {"test_memory_of_others_is_used_in_place"}),
    (PlainMemoryError, {"test_too_much_memory_is_a_memory_error"}),
    (Promises, {"test_too_much_memory_is_a_memory_error"}),
]  # fmt: skip


@pytest.mark.parametrize(("allocator", "names"), MUTANTS, ids=lambda one: getattr(one, "__name__", ""))
def test_a_fault_of_an_allocator_is_caught(allocator: Callable[[], HostAllocator], names: set[str]) -> None:
    """By the tests that are named after it; a right allocator, and one whose memory is dirty, fail none."""
    assert failing(backend_with(allocator())) >= names
    if not names:
        assert failing(backend_with(allocator())) == set()


def test_the_first_wrong_byte_of_many_is_named() -> None:
    """In a sentence, and at once: pytest's own comparison of so many bytes takes minutes where all of it is shown."""
    backend, nbytes = backend_with(HostAllocator()), 1 << 20
    handle = backend.allocator.alloc(nbytes)
    backend.allocator.copy_in(handle, memoryview(bytearray(nbytes)))
    holds(backend, handle, bytes(nbytes))
    wanted = bytearray(nbytes)
    wanted[70000::2] = b"\x07" * len(wanted[70000::2])
    with pytest.raises(AssertionError) as raised:
        holds(backend, handle, wanted, "the whole")
    sentence = "the whole: 489288 of 1048576 bytes differ, at byte 70000 0x00 and not 0x07"
    assert str(raised.value) == sentence


class IgnoresOffsetAtLaunch(PythonProgram):
    """A kernel is given the whole buffer in place of a view, as one that passes its base and forgets the offset."""

    def launch(self, buffers: Sequence[Handle], variables: Sequence[int], grid: tuple[int, int, int]) -> None:
        """From the start of the memory on."""
        whole = [memoryview(b.obj) if isinstance(b.obj, bytearray) else b for b in buffers]
        super().launch(whole, variables, grid)


class ForgetsViews(PythonBackend):
    """Allocates, copies and views well, and launches badly."""

    def load(self, binary: Binary) -> Program:
        """The bad program."""
        return IgnoresOffsetAtLaunch(binary.name, binary.data.decode(), binary.signature)


def test_an_offset_that_is_ignored_at_launch_is_caught() -> None:
    """Though copies through the view are right."""
    assert failing(ForgetsViews("PYTHON", 0)) == {"test_kernels_use_views_at_their_offset"}


class Moody(PythonRenderer):
    """Renders a kernel in other words each time."""

    times = 0

    def render(self, linear: Linear) -> Source:
        """With a number."""
        self.times += 1
        source: Source = super().render(linear)
        return replace(source, text=source.text + f"\n# {self.times}\n")


def test_a_renderer_that_changes_its_mind_is_caught() -> None:
    """Its text is the key of caches."""
    backend = PythonBackend("PYTHON", 0)
    backend.renderer = Moody()
    opened = replace(open_device("PYTHON"), backend=backend)
    with pytest.raises(AssertionError, match="the same kernel has another text the second time"):
        RENDER.test_a_kernel_compiles((backend.target, backend.renderer), opened, "elementwise")


@pytest.mark.parametrize(("change", "why"), [
    ({"dtypes": frozenset({dtypes.int32, dtypes.bool})}, "the Target lacks float, which every device has"),
    ({"compute_dtypes": frozenset({dtypes.float32, dtypes.bool})}, "the Target lacks int, which every device has"),
    ({"native_ops": TARGET.native_ops - {Ops.WHERE}}, "native_ops lacks WHERE, which every renderer can write"),
])  # fmt: skip
def test_a_profile_that_is_declared_away_is_caught(change: dict[str, Any], why: str) -> None:
    """What every device has."""
    RENDER.test_the_core_profile_is_declared((TARGET, PYTHONS))
    with pytest.raises(AssertionError, match=why):
        RENDER.test_the_core_profile_is_declared((replace(TARGET, **change), PYTHONS))


def test_threads_without_a_grid_are_caught() -> None:
    """Each size is in its range, which Target itself sees to (core/tests/test_target.py), and no kernel fits."""
    RENDER.test_the_sizes_are_possible((TARGET, PYTHONS))
    with pytest.raises(AssertionError, match="threads of a block need a grid"):
        RENDER.test_the_sizes_are_possible((replace(TARGET, block_threads=64), PYTHONS))


def test_a_compiler_that_takes_anything_is_caught() -> None:
    """Text that is no program must be refused."""

    class TakesAnything(PythonBackend):
        def load(self, binary: Binary) -> Program:
            return PythonProgram(binary.name, "parts, watched = 1, ()\ndef group(*_): pass\n", binary.signature)

    backend = TakesAnything("PYTHON", 0)
    backend.compiler = type(backend.compiler).__mro__[1]()
    with pytest.raises(AssertionError, match="text that is no program was compiled and loaded without an error"):
        RENDER.test_what_is_no_program_is_refused(backend)


def test_text_that_depends_on_the_process_is_caught(install: Any, kit: KitRun) -> None:
    """The order of a set of strings follows the hash seed."""
    order = """
        class Moody(type(self.renderer)):
            def render(self, linear):
                source = super().render(linear)
                return replace(source, text=source.text + "# " + " ".join({"a", "b", "c", "d", "e", "f", "g", "h"}))
        self.renderer = Moody()
    """
    install("MINI", init=order)
    done = kit("class TestMine(DeviceConformance):\n    device = 'MINI'\n", "-k", "every_process")
    assert done.code == 1
    assert "other texts in another process: elementwise" in done.text
    assert all(name in done.text for name in EXPRESSIONS)


def test_a_device_that_opens_only_once_is_caught(install: Any, kit: KitRun) -> None:
    """Rendering in a child process opens the device there; what it says is quoted."""
    init = "import os\nif os.environ.get('PYTHONHASHSEED') == '4711': raise RuntimeError('the card is taken')"
    install("MINI", init=init)
    done = kit("class TestMine(DeviceConformance):\n    device = 'MINI'\n", "-k", "every_process")
    assert "rendering in a child process failed" in done.text
    assert "RuntimeError: the card is taken" in done.text


COUNTS_ON_ZEROS = """
    class Lazy(type(self.load(__import__("tinygraft.uop.stages").uop.stages.Binary(
            "x", b"parts, watched = 1, ()\\ndef group(*_): pass", __import__("tinygraft").uop.stages.Signature(()))))):
        def launch(self, buffers, variables, grid):
            before = [bytes(buffer) for buffer in buffers]
            super().launch(buffers, variables, grid)
            for buffer, old in zip(buffers, before):
                if not any(buffer): buffer[:] = old
    self.load = lambda binary: Lazy(binary.name, binary.data.decode(), binary.signature)
"""


@pytest.mark.parametrize(("init", "test"), [
    (COUNTS_ON_ZEROS, "test_results_do_not_depend_on_what_memory_held"),
    ("self.allocator.alloc = lambda n, alloc=self.allocator.alloc: alloc(min(n, 1 << 20))",
     "test_a_tensor_that_does_not_fit_is_a_memory_error"),
    ("self.allocator.copy_out = lambda t, s: t.cast('B').__setitem__(slice(None), bytes(t.nbytes))",
     "test_buffers_move_to_another_device_and_back"),
])  # fmt: skip
def test_a_fault_under_the_pool_is_caught(install: Any, kit: KitRun, init: str, test: str) -> None:
    """Zeros that are not stored since new memory has them; sizes that are cut off; bytes that are lost."""
    install("MINI", init=init)
    done = kit("class TestMine(DeviceConformance):\n    device = 'MINI'\n    level = 'memory'\n", "-k", test)
    assert done.code == 1, done.text
    assert all(name.startswith(test) for name in done.device("MINI")["tests"]["failed"])


def test_memory_that_is_kept_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is counted as in use when all tensors are gone."""
    held: list[Tensor] = []

    def keep(*arguments: Any, **options: Any) -> Tensor:
        held.append(Tensor(*arguments, **options).realize())
        return held[-1]

    monkeypatch.setattr(memory, "Tensor", keep)
    with pytest.raises(AssertionError):
        MEMORY.test_memory_comes_back_when_tensors_go("PYTHON")


def test_numbers_for_what_is_not_declared_are_caught() -> None:
    """A dtype that is not declared and computes all the same; an ability; an ordinal past the last."""
    lacks: Target = replace(TARGET, dtypes=TARGET.dtypes - {dtypes.float64})
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        MEMORY.test_a_dtype_is_there_or_refused("PYTHON", lacks, "double")
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        MEMORY.test_an_ordinal_past_the_last_is_refused("PYTHON", replace_count(1))
    backend = backend_with(NoViews())
    with pytest.raises(UnsupportedError):
        MEMORY.test_an_ability_is_there_or_refused(backend, replace(open_device("PYTHON"), backend=backend), "views")


class NoViews(HostAllocator):
    """Writes the method and has nothing behind it."""

    def view(self, handle: Handle, offset: int, nbytes: int) -> Handle:
        """Refused."""
        raise UnsupportedError("no views after all")


def replace_count(count: int) -> Any:
    """PYTHON as if it had so many ordinals."""
    opened = open_device("PYTHON")
    assert opened.record is not None and opened.record.probe is not None
    record = replace(opened.record, probe=replace(opened.record.probe, count=count))
    return replace(opened, record=record)
