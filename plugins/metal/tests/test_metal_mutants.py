"""The tests on the emulated Metal find what is broken on purpose in the plugin, each by the test that is about it.

Every third one runs in `make test-slow`, the others in `make long`.
"""

from __future__ import annotations

import pytest

import metal_emulator

KIT = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "METAL"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.slow]
DIALECT = "from dataclasses import replace; from tinygraft_metal import dialect as d; d.DIALECT = replace(d.DIALECT, "
OPTIONS = "import Metal; O = Metal.MTLCompileOptions; "
QUEUES = "from contextlib import nullcontext; from tinygraft_metal.queues import MetalQueue as Q\n"
GRAPH = "from tinygraft_metal import graph as g; "

SEEDS = 8  # of the lateness of queues: how many are tried for an order that is by chance right in some of them

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
        "test_as_written and float32", "test_as_written[sum-less-float32]",
    ),
    "contraction": (
        DIALECT + "header='#include <metal_stdlib>\\nusing namespace metal;')",
        "test_as_written and float32", "test_as_written[product-plus-float32]",
    ),
    "contraction in the language before macOS 15": (
        DIALECT + "header=d.HEADER.replace('contract(off)', 'contract(fast)'))  # 310",
        "test_as_written and float32", "test_as_written[product-minus-float32]",
    ),
    "fast math by the mode": (
        OPTIONS + "O.setMathMode_ = lambda s, mode: s.set.update(MathMode=2)",
        "test_as_written and float32", "test_as_written[less-itself-float32]",
    ),
    "fast math by default, before macOS 15": (
        OPTIONS + "O.setFastMathEnabled_ = lambda s, value: None  # 310",
        "test_as_written and float32", "test_as_written[quotient-times-float32]",
    ),
    "a queue that does not wait for another": (
        QUEUES + "Q.wait = lambda s, event: None", "test_queue_waits or test_overwriting", "waits_for_event",
    ),
    "a queue for which the host waits alone": (
        QUEUES + "old = Q.wait\ndef wait(s, event):\n    s._begun = lambda: type('', (), {"
        "'encodeWaitForEvent_value_': lambda *a: None})\n    old(s, event)\n    del s._begun\nQ.wait = wait",
        "test_queue_waits or test_overwriting", "waits_for_event",
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


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.long if place % 3 else []) for place, name in enumerate(MUTANTS)
])  # fmt: skip
def test_a_mutant_is_found(name: str) -> None:
    """The test of that name fails."""
    patch, which, failing = MUTANTS[name]
    options = ["-q", "-n0", "-p", "no:cacheprovider", *KIT, "-k", which]
    code = f"import sys, pytest\n{patch}\nsys.exit(pytest.main({options!r}))"
    late = {"EMULATED_LATE": "2000" if "waits_for" in failing else "400", "EMULATED_MSL": "310" * patch.endswith("310")}
    for seed in range(1, SEEDS + 1 if "waits_for" in failing else 2):
        # without a cache: there a source has the machine code that other options made of it
        done = metal_emulator.python(code, CACHELEVEL="0", EMULATED_SEED=str(seed), **late)
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        if any(failing in line for line in failed):
            return
    pytest.fail(done.stdout[-3000:] + done.stderr[-1000:])
