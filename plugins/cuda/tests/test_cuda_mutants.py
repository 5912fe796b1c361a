"""The tests on the emulated driver find what is broken on purpose in the plugin, each by the test that is about it.

Every second one runs in `make long`, the others in `make test-slow`.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cuda_emulator

CARDS = cuda_emulator.ROOT / "tests" / "support" / "cards"
OWN = Path(__file__).parent / "cards"
KIT = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "CUDA"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.slow]

# name: what is done to the plugin before its tests run, the tests, and the one of them that has to fail
MUTANTS: dict[str, tuple[str, list[str], str]] = {
    "no barrier": (
        "from dataclasses import replace; from tinygraft_cuda import dialect as d; "
        "d.DIALECT = replace(d.DIALECT, barrier=';')",
        [*KIT, "-k", "test_barrier"], "test_barrier_in_a_loop",
    ),
    "shared memory that is not asked for": (
        "from tinygraft.plugin.driver import DriverProgram as P; old = P.__init__\n"
        "def new(self, *a): old(self, *a); self.shared = 0\nP.__init__ = new",
        [*KIT, "-k", "test_all_shared_memory"], "test_all_shared_memory",
    ),
    "contraction": (
        "from tinygraft_cuda import compiler as c; c.OPTIONS = [o for o in c.OPTIONS if o != '-fmad=false']",
        [*KIT, "-k", "test_as_written and float32"], "test_as_written[product-plus-float32]",
    ),
    "a queue that does not wait": (
        "from tinygraft_cuda.context import CudaContext as C; C.wait_for = lambda *a: None",
        [*KIT, "-k", "waits_for_event"], "test_queue_waits_for_event",
    ),
    "an event that says it is done": (
        "from tinygraft_cuda.context import CudaContext as C; C.wait = lambda *a: None",
        [*KIT, "-k", "test_event_waits"], "test_event_waits",
    ),
    "a graph that keeps old buffers": (
        "from tinygraft.plugin.driver import DriverGraph as G\n"
        "from tinygraft.plugin import GraphExecutor as E; G.set_buffer = E.set_buffer",
        [str(CARDS / "check_graphs.py")], "test_new_buffers_change_the_nodes_that_use_them",
    ),
    "a graph whose nodes are in no order": (
        "from tinygraft.plugin.driver import KernelStep as K; old = K.add\n"
        "K.add = lambda s, graph, after: old(s, graph, after[0:0])",
        [str(CARDS / "check_graphs.py")], "test_a_replay_is_one_launch",
    ),
    "a graph that keeps old values": (
        "from tinygraft.plugin.driver import DriverGraph as G\n"
        "from tinygraft.plugin import GraphExecutor as E; G.set_values = E.set_values",
        [str(CARDS / "check_graphs.py")], "test_a_symbolic_size_changes_the_grid",
    ),
    "streams of others that nobody waits for": (
        "from tinygraft_cuda.context import CudaContext as C; C.order = lambda *a: None",
        [str(CARDS / "check_interop.py")],
        "test_what_others_compute_is_waited_for or test_every_queue_waits_for_what_others_compute",  # by the clock
    ),
    "imports that only the first queue waits for": (
        "from tinygraft.device.timeline import Timeline as T; T.wrote = lambda *a: None",
        [str(CARDS / "check_interop.py")], "test_every_queue_waits_for_what_others_compute",
    ),
    "lent memory that is reused at once": (
        "from tinygraft.plugin.driver import DriverBackend as B; del B.synchronize_all",
        [str(CARDS / "check_interop.py")], "test_memory_that_was_lent_is_kept_until_their_kernels_have_run",
    ),
    "memory of any context": (
        "from tinygraft_cuda.context import CudaContext as C; C.is_elsewhere = lambda *a: False",
        [str(OWN / "check_contexts.py")], "test_memory_of_another_context_of_the_card_is_refused",
    ),
    "a card that is full": (
        "from tinygraft_cuda.context import CudaContext as C; C.make_room = lambda s: s.trim()",
        [str(CARDS / "check_refusals.py")], "test_where_there_is_no_room_what_is_cached_is_freed",
    ),
    "a graph that is changed in part": (
        "from tinygraft.plugin.driver import DriverGraph as G; old = G._took\n"
        "G._took = lambda s, action: old(s, action) or s.made is not None",
        [str(CARDS / "check_refusals.py")], "test_a_graph_whose_change_is_refused_is_made_anew",
    ),
    "a first stream beside the default one": (
        "from tinygraft_cuda.context import CudaContext as C; old = C.new_stream\n"
        "C.new_stream = lambda s, b=True: old(s)",
        [str(CARDS / "check_interop.py")], "test_the_default_stream_is_in_one_order_with_ours",
    ),
    "an index that is one too far": (
        "from dataclasses import replace; from tinygraft_cuda import dialect as d; "
        "d.DIALECT = replace(d.DIALECT, group='(blockIdx.{axis} + 1)')",
        [*KIT, "-k", "test_positions"], "test_positions",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.long if place % 2 else []) for place, name in enumerate(MUTANTS)
])  # fmt: skip
def test_a_mutant_is_found(name: str) -> None:
    """The test of that name fails, or one of two."""
    patch, tests, failing = MUTANTS[name]
    code = f"import sys, pytest\n{patch}\nsys.exit(pytest.main({['-q', '-p', 'no:cacheprovider', *tests]!r}))"
    done = subprocess.run(
        [sys.executable, "-c", code], env=cuda_emulator.environment(CUDA_BINDING="cffi", EMULATED_LATE="400"),
        capture_output=True, text=True, timeout=cuda_emulator.PATIENCE, check=False, cwd=cuda_emulator.ROOT,
    )  # fmt: skip
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    assert any(one in line for line in failed for one in failing.split(" or ")), (
        done.stdout[-3000:] + done.stderr[-1000:]
    )
