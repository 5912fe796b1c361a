"""Generated MSL: golden source, which clang takes with a GPU's address spaces, and refuses with pointers mixed up."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import metal_emulator
from card_kernels import KINDS
from tinygraft import dtypes
from tinygraft.codegen.lower import to_linear
from tinygraft.conformance import shared
from tinygraft.conformance.linears import KERNELS, group_sum
from tinygraft.device.interfaces import Step
from tinygraft.errors import UnsupportedError
from tinygraft.uop.stages import Linear
from tinygraft.uop.uop import UOp
from tinygraft_metal.dialect import COPY_BYTES, TRY_VECTORS, MetalCard, offline, target_of
from tinygraft_metal.graph import LaunchSegment, barriers_of

TARGET, RENDERER = offline()
SOURCES = Path(metal_emulator.__file__).parent / "emulator"
NAMES = [name for name in KINDS if name != "doubles"]


def linear_of(name: str) -> Linear:
    """A kernel of KINDS, or one that is written by hand."""
    return to_linear(KINDS[name](), TARGET, name=name) if name in KINDS else replace(KERNELS[name](), target=TARGET)


def refusal(text: str, folder: Path) -> str:
    """What clang says against a source, where device, constant and threadgroup memory have address spaces."""
    zig = metal_emulator.programs().get("EMULATED_ZIG")
    if zig is None:
        pytest.skip("ziglang is not installed (pip install ziglang)")
    file = folder / "kernel.cpp"
    file.write_text(text.replace("    threadgroup ", "    EMULATED_SHARED "))
    command = [
        zig,
        "clang",
        "-x",
        "c++",
        "-std=c++17",
        "-w",
        "-fsyntax-only",
        f"-I{SOURCES / 'metal_check'}",
        str(file),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode != 0) == ("error:" in done.stderr), done.stderr
    return done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_source_is_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    """Products, halves, quotients, contraction and conversions."""
    golden(f"{name}.metal", RENDERER.render(linear_of(name)).text)


def test_shared_memory_is_declared(golden: Callable[[str, str], None]) -> None:
    """All of it, as threadgroup memory of the kernel: nothing is asked for at a launch."""
    source = RENDERER.render(group_sum())
    assert source.signature.shared == 0
    golden("group_sum.metal", source.text)


@pytest.mark.parametrize("file", sorted((Path(__file__).parent / "golden").glob("*.metal")), ids=lambda file: file.stem)
def test_clang_takes_golden_kernels(file: Path, tmp_path: Path) -> None:
    """Every pointer has the address space of what it points to."""
    assert refusal(file.read_text(), tmp_path) == ""


def test_clang_takes_kernels_by_hand(tmp_path: Path) -> None:
    """Grids of three dimensions, barriers, the copy of bytes, and the trial of vectors."""
    linears = [shared.grid_indices((3, 5, 2), 4), shared.exchange(2, 256, 4000, dtypes.int32)]
    texts = [RENDERER.render(replace(linear, target=TARGET)).text for linear in linears]
    for text in (*texts, COPY_BYTES, TRY_VECTORS):
        assert refusal(text, tmp_path) == "", text


@pytest.mark.parametrize(("wrong", "right"), [
    ("threadgroup float *p = data0;", "device float *p = data0;"),
    ("device float *p = part;", "EMULATED_SHARED float q; threadgroup float *p = part;"),
    ("device const long *p = variables;", "constant long *p = variables;"),
    ("variables[0] = 1;", "data0[0] = variables[0];"),
    ("double x = data0[0];", "float x = data0[0];"),
])  # fmt: skip
def test_pointers_that_are_mixed_up_are_refused(wrong: str, right: str, tmp_path: Path) -> None:
    """The stand-in sees what Apple's compiler would refuse; beside each the line that is right."""
    text = (
        "#include <metal_stdlib>\nusing namespace metal;\nkernel void f(device float *data0, constant long *variables) "
        "{{\n    threadgroup float part[4];\n    {}\n}}\n"
    )
    assert refusal(text.format(right), tmp_path) == ""
    assert "error:" in refusal(text.format(wrong), tmp_path)


def test_doubles_are_moved_and_not_computed() -> None:
    """A copy of float64 has the bits of it; a sum says what is missing."""
    with pytest.raises(UnsupportedError, match=r"double|float64"):
        to_linear(KINDS["doubles"](), TARGET, name="doubles")


def test_a_target_has_the_limits_of_the_gpu() -> None:
    """Whole simdgroups, threads that are counted in 32 bits, slots for buffers, and no vectors where none compile."""
    target = target_of(MetalCard("Apple M1", threads=500, shared=16 << 10, vectors=False))
    assert (target.block_threads, target.shared_memory, target.vector_bytes) == (256, 16 << 10, 0)
    assert target_of(MetalCard(threads=100)).block_threads == 96
    assert all(blocks * 1024 < 1 << 42 for blocks in target.max_grid)
    assert target.max_grid[0] * target.block_threads < 1 << 32
    assert target.max_params == 30, "of 31 slots the last has the variables"
    assert dtypes.float64 not in target.compute_dtypes
    assert not target.subnormals


def test_a_launch_that_may_be_empty_is_no_barrier_for_others() -> None:
    """In a replay a step that follows one before it waits itself, where the barrier between them may not be there."""
    first, last = Step(None, (0,)), Step(None, (0, 2), after=(0,))
    for grid, own in (((4, 1, 1), False), ((UOp.variable("n", 0, 4), 1, 1), True), ((0, 1, 1), True)):
        steps = [first, Step(None, (0, 1), grid=grid, after=(0,)), last]
        assert barriers_of(steps, [LaunchSegment(0, 3, False)]) == [False, True, own]


def test_importing_and_listing_loads_no_module() -> None:
    """The spec and the probe import nothing of PyObjC."""
    code = (
        "import sys; from tinygraft_metal import spec, probe; probe.probe(); "
        "print([m for m in ('Metal', 'objc', 'numpy') if m in sys.modules])"
    )
    done = metal_emulator.python(code)
    assert done.stdout.strip() == "[]", done.stderr
    assert "Metal" not in sys.modules
