"""The tests on the emulated HIP find what is broken on purpose in the plugin, each by the test that is about it."""

from __future__ import annotations

import pytest

import hip_emulator

CARDS = hip_emulator.ROOT / "tests" / "support" / "cards"
KIT = ["-p", "tinygraft.conformance.plugin", "--pyargs", "tinygraft.conformance", "--tinygraft-device", "AMD"]
pytestmark = [pytest.mark.needs("cc"), pytest.mark.slow]
DIALECT = "from dataclasses import replace; from tinygraft_amd import dialect as d; d.DIALECT = replace(d.DIALECT, "
CONTEXT = "from tinygraft_amd.context import AmdContext as C; "

# name: what is done to the plugin before its tests run, the tests, and the one of them that has to fail
MUTANTS: dict[str, tuple[str, list[str], str]] = {
    "no barrier": (DIALECT + "barrier=';')", [*KIT, "-k", "test_barrier"], "test_barrier_in_a_loop"),
    "an index that is one too far": (
        DIALECT + "group='(__builtin_amdgcn_workgroup_id_{axis}() + 1)')", [*KIT, "-k", "test_positions"],
        "test_positions",
    ),
    "contraction": (
        "from tinygraft_amd import compiler as c; c.OPTIONS = [o for o in c.OPTIONS if o not in c.NUMBERS]",
        [*KIT, "-k", "test_as_written and float32"], "test_as_written[product-plus-float32]",
    ),
    "a queue that does not wait": (
        CONTEXT + "C.wait_for = lambda *a: None", [*KIT, "-k", "waits_for_event"], "waits_for_event",
    ),
    "a card that stays current": (
        CONTEXT + "C.restore = lambda *a: None", [str(CARDS / "check_memory.py"), "-k", "current"],
        "test_the_card_that_was_current_is_so_again",
    ),
    "a card that is never current": (
        CONTEXT + "C.enter = lambda *a: None", [str(CARDS / "check_memory.py"), "-k", "own_card"],
        "test_memory_lies_on_its_own_card",
    ),
    "a graph whose copies go the other way": (
        CONTEXT + "old = C.copy_node\nC.copy_node = lambda s, to, source, n: old(s, source, to, n)",
        [str(CARDS / "check_graphs.py"), "-k", "copy"], "test_a_copy_within_the_card_is_a_node",
    ),
    "a first stream beside the default one": (
        CONTEXT + "old = C.new_stream\nC.new_stream = lambda s, b=True: old(s)",
        [str(CARDS / "check_interop.py"), "-k", "default_stream"],
        "test_the_default_stream_is_in_one_order_with_ours",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.long if place % 2 else []) for place, name in enumerate(MUTANTS)
])  # fmt: skip
def test_a_mutant_is_found(name: str) -> None:
    """The test of that name fails."""
    patch, tests, failing = MUTANTS[name]
    code = f"import sys, pytest\n{patch}\nsys.exit(pytest.main({['-q', '-n0', '-p', 'no:cacheprovider', *tests]!r}))"
    done = hip_emulator.python(code, EMULATED_LATE="400", CARD_DEVICE="AMD")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert any(failing in line for line in failed), done.stdout[-3000:] + done.stderr[-1000:]
