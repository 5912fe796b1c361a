"""The tests on the emulated Metal find what is broken on purpose in the plugin, each by the test that is about it."""

from __future__ import annotations

import pytest

import metal_emulator

KIT = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "METAL"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.slow]
DIALECT = "from dataclasses import replace; from tinygraft_metal import dialect as d; d.DIALECT = replace(d.DIALECT, "
GRAPH = "from tinygraft_metal import graph as g; "

# name: what is done to the plugin before its tests run, the tests by name, and the one of them that has to fail
MUTANTS: dict[str, tuple[str, str, str]] = {
    "no barrier": (DIALECT + "barrier=';')", "test_barrier", "test_barrier_in_a_loop"),
    "an index that is one too far": (DIALECT + "group='(block_index.{axis} + 1)')", "test_positions", "test_positions"),
    "an event that is over at once": (
        "from tinygraft_metal.queues import MetalEvent as E; E.wait = lambda *a: None",
        "test_event_waits", "test_event_waits",
    ),
    "flushing that is not declared": (
        "from tinygraft_metal import device as v; from dataclasses import replace; old = v.target_of\n"
        "v.target_of = lambda card: replace(old(card), subnormals=True)",
        "test_as_written", "test_as_written[sum-less-float32]",
    ),
    "replays without barriers": (
        GRAPH + "g.barriers_of = lambda steps, segments: [False] * len(steps)", "test_graph", "test_graph",
    ),
    "replays with the first buffers": (
        GRAPH + "g.MetalGraph.set_buffer = lambda *a: None", "test_graph", "test_graph_takes_other_buffers",
    ),
    "handles without offsets": (
        "from tinygraft_metal.allocator import MetalAllocator as A, MetalMemory as M\n"
        "A.view = lambda s, h, offset, n: M(h.buffer, h.offset, n, h.address + offset)",
        "view", "view",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(name: str) -> None:
    """The test of that name fails."""
    patch, which, failing = MUTANTS[name]
    options = ["-q", "-n0", "-p", "no:cacheprovider", *KIT, "-k", which]
    code = f"import sys, pytest\n{patch}\nsys.exit(pytest.main({options!r}))"
    done = metal_emulator.python(code, EMULATED_LATE="400")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert any(failing in line for line in failed), done.stdout[-3000:] + done.stderr[-1000:]
