"""What a driver may refuse at any time: no room for what is no buffer, changes of a graph, calls in a capture."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from card import DEVICE, LIBRARY, named
from tinygraft import Context, Device, Tensor, TinyJit, dtypes
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, Graph, spinning
from tinygraft.errors import DeviceError, DeviceLostError, DeviceMemoryError
from tinygraft.plugin.driver import DriverBackend, DriverGraph

NO_ROOM, INVALID = 2, 1
UPDATES = ("graph_set_kernel", "graph_set_copy")


def graph_of(backend: DriverBackend) -> tuple[Graph, BackendMemory]:
    """Return a graph of a kernel, a copy and a kernel, which can be run."""
    memory = BackendMemory(backend)
    graph = Graph(backend, memory)
    graph.executor.queue = backend.queue
    graph.executor.set_values({"a": 5, "n": 30})
    return graph, memory


def rerun(graph: Graph, memory: BackendMemory, start: int) -> None:
    """Run a graph on new buffers; its result is right."""
    x, y, z, w = (memory.make([start + i if first else 0 for i in range(37)]) for first in (1, 0, 0, 0))
    graph.give({0: x, 1: y, 2: z, 3: w})
    done = 0
    while done < 3:
        done = graph.executor.run(done)
    assert memory.read(w)[:30] == [(start + i + 1) * 30 + 5 for i in range(30)]


def launch(backend: DriverBackend) -> None:
    """Launch a kernel."""
    memory = BackendMemory(backend)
    (program,) = programs(backend, [spinning(10)])
    backend.queue.launch(program, [memory.make([0]), memory.make([1])], [], (1, 1, 1))


def record(backend: DriverBackend) -> None:
    """Record an event, where none is there to be used again."""
    kept = list(backend.context._events)
    backend.context._events.clear()
    backend.queue.record().wait()
    backend.context._events.extend(kept)


CALLS: dict[str, Callable[[DriverBackend], object]] = {
    "module_load": lambda backend: programs(backend, [spinning(11)]),
    "graph_make": lambda backend: rerun(*graph_of(backend), 7),
    "stream_new": lambda backend: backend.make_queue(),
    "event_new": record,
    "alloc_host": lambda backend: backend.allocator.alloc_host(12345),
    "launch": launch,
    "graph_launch": lambda backend: rerun(*graph_of(backend), 8),
}


@pytest.mark.parametrize("function", CALLS)
def test_where_there_is_no_room_what_is_cached_is_freed(
    backend: DriverBackend, emulated: Any, done: Callable[..., Any], function: str
) -> None:
    """What core and the driver's pool keep is given back, and the card is asked once more."""
    x = Tensor.zeros(1 << 20, device=DEVICE).contiguous().realize()
    x.tolist()
    del x
    assert Device.memory(DEVICE).kept >= 4 << 20
    with done() as counts, emulated.refused(function, NO_ROOM):
        CALLS[function](backend)
    assert Device.memory(DEVICE).kept < 1 << 20
    assert counts("trim") == (backend.context.pool is not None)


@pytest.mark.parametrize("function", [name for name in CALLS if name != "graph_make"])
def test_where_there_is_still_no_room_it_is_said(backend: DriverBackend, emulated: Any, function: str) -> None:
    """Refused twice it is a DeviceMemoryError; the card goes on."""
    with emulated.refused(function, NO_ROOM, count=2), pytest.raises(DeviceMemoryError):
        CALLS[function](backend)
    assert (Tensor([1.0], device=DEVICE) + 1).tolist() == [2]


@pytest.mark.parametrize("function", ["module_load", "event_new", "alloc_host", "launch"])
def test_a_tensor_is_computed_though_there_was_no_room(backend: DriverBackend, emulated: Any, function: str) -> None:
    """In the middle of a realisation, where the runtime has its locks."""
    queue, size = backend.new_queue(), 50_000 + len(function)
    with emulated.refused(function, NO_ROOM):
        backend.context._events.clear()
        x = Tensor(np.arange(size, dtype=np.int32), device=DEVICE).realize()
        with queue:
            y = (x * 2 + 1).realize()
        assert backend.timeline is not None
        backend.timeline._host.clear()
        z = (y.to(DEVICE) + Tensor(np.arange(size, dtype=np.int32), device=DEVICE)).numpy()
    np.testing.assert_array_equal(z, np.arange(size) * 3 + 1)


@pytest.mark.parametrize(("function", "before"), [(UPDATES[0], 0), (UPDATES[0], 1), (UPDATES[1], 0)])
def test_a_graph_whose_change_is_refused_is_made_anew(
    backend: DriverBackend, emulated: Any, done: Callable[..., Any], function: str, before: int
) -> None:
    """One more graph is made, with the new buffers, and later runs change that one; the first or a later change."""
    graph, memory = graph_of(backend)
    assert isinstance(graph.executor, DriverGraph)
    rerun(graph, memory, 0)
    with done() as counts, emulated.refused(function, INVALID, before=before):
        rerun(graph, memory, 100)
    assert (counts("graph"), counts("graph launch"), counts("launch")) == (1, 1, 0)
    with done() as counts:
        rerun(graph, memory, 200)
    assert (counts("graph"), counts("graph launch"), counts("launch")) == (0, 1, 0)


@pytest.mark.parametrize("result", [INVALID, NO_ROOM])
def test_a_graph_that_cannot_be_made_anew_is_launched_step_by_step(
    backend: DriverBackend, emulated: Any, done: Callable[..., Any], result: int
) -> None:
    """From then on, with the right values, as one that could not be made the first time."""
    graph, memory = graph_of(backend)
    rerun(graph, memory, 0)
    with (
        done() as counts,
        emulated.refused(UPDATES[0], INVALID),
        emulated.refused("graph_make", result, count=1 + (result == NO_ROOM)),
    ):
        rerun(graph, memory, 100)
    assert (counts("graph launch"), counts("launch")) == (0, 2)
    with done() as counts:
        rerun(graph, memory, 200)
    assert (counts("graph launch"), counts("launch")) == (0, 2)
    other, memory = graph_of(backend)
    with emulated.refused("graph_make", INVALID):
        rerun(other, memory, 300)


def test_a_lost_card_is_no_refusal(backend: DriverBackend, emulated: Any) -> None:
    """A fault that an update finds is raised, and nothing is made anew."""
    graph, memory = graph_of(backend)
    rerun(graph, memory, 0)
    x, y, z, w = (memory.make([0] * 37) for _ in range(4))
    graph.give({0: x, 1: y, 2: z, 3: w})
    with emulated.refused(UPDATES[0], 700), pytest.raises(DeviceLostError, match="a graph of 3 launches could not be"):
        graph.executor.run(0)
    assert backend.context.is_lost
    backend.context.is_lost = False  # the emulated card goes on


def test_a_replay_takes_memory_of_another_kind(backend: DriverBackend, done: Callable[..., Any]) -> None:
    """A copy in a graph of memory of the driver's pool is given memory that another library allocated beside it.

    Under pycuda all memory is of one kind.
    """
    graph, memory = graph_of(backend)
    rerun(graph, memory, 0)
    driver, address = ctypes.CDLL(LIBRARY), ctypes.c_ulonglong()
    with backend.context.current():
        assert driver[named("alloc")](ctypes.byref(address), ctypes.c_size_t(4 * 37)) == 0
    x, z, w = (memory.make([i if first else 0 for i in range(37)]) for first in (1, 0, 0))
    graph.give({0: x, 1: backend.allocator.at_address(address.value, 4 * 37), 2: z, 3: w})
    with done() as counts:
        assert graph.executor.run(0) == 3
    assert memory.read(w)[:30] == [(i + 1) * 30 + 5 for i in range(30)]
    assert counts("graph launch") in (1, None)
    with backend.context.current():
        assert driver[named("free")](address) == 0


def test_a_capture_by_another_library_is_an_error_and_no_loss(backend: DriverBackend, emulated: Any) -> None:
    """While it lasts the driver refuses what it calls unsafe; values are there afterwards."""
    x = (Tensor.arange(10, device=DEVICE) + 1).realize()
    assert x.tolist()[9] == 10
    other, nothing = backend.make_queue(), ctypes.c_void_p()
    stream = ctypes.c_void_p(backend.context.number_of(other.stream))
    assert emulated.driver[named("capture")](stream, 0) == 0
    try:
        with pytest.raises(DeviceError, match="operation not permitted when stream is capturing") as caught:
            backend.allocator.alloc_host(54321)
        assert not isinstance(caught.value, DeviceLostError)
        event = backend.queue.record()
        assert not event.done()  # nobody knows, and nobody waits for ever
    finally:
        emulated.driver[named("capture_end")](stream, ctypes.byref(nothing))
    assert not backend.context.is_lost
    event.wait()
    assert event.done()
    assert (x * 2).tolist()[9] == 20


def test_a_jit_goes_on_where_changes_are_refused(
    backend: DriverBackend, emulated: Any, done: Callable[..., Any]
) -> None:
    """A replay with a new input each time, whose nodes cannot be changed, has its values, by one graph each."""
    with Context(DEV=DEVICE):
        f = TinyJit(lambda x: ((x * 2).contiguous().realize() + 1).contiguous().realize())
        for i in range(4):
            assert f(Tensor([i], dtype=dtypes.int32).realize()).tolist() == [2 * i + 1]
        with done() as counts, emulated.refused(UPDATES[0], INVALID, count=3):
            for i in range(3):
                assert f(Tensor([i], dtype=dtypes.int32).realize()).tolist() == [2 * i + 1]
    assert (counts("graph"), counts("graph launch")) == (3, 3)
