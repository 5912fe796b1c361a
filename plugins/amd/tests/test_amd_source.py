"""Generated HIP C: golden source, code objects for five architectures by ziglang's clang, and what is in them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import hip_emulator
from card_kernels import KINDS
from tinygraft import dtypes
from tinygraft.codegen.lower import to_linear
from tinygraft.conformance import shared
from tinygraft.conformance.linears import KERNELS, group_sum
from tinygraft.errors import CompileError, DeviceUnavailable, SettingError
from tinygraft.plugin import Binary, Context
from tinygraft.uop.stages import Linear, Signature, Source
from tinygraft_amd import compiler
from tinygraft_amd.dialect import AmdCard, amd_renderer, offline, target_of

ARCHS = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
TARGET, RENDERER = offline()
NO_SPILL = re.compile(r"\.(?:private_segment_fixed_size|vgpr_spill_count|sgpr_spill_count): +(\d+)")
FUSED = re.compile(r"\bv_(?:pk_)?(?:fma|fmac|mad|mac|fmamk|fmaak)_(?:mix\w*_)?(?:f16|f32|f64)\w*")
MACHINE = 224  # given: of ELF files for these processors


@cache
def clang(arch: str) -> compiler.AmdCompiler:
    """Return ziglang's clang for an architecture; skips where there is none."""
    found = compiler.zig(arch)
    if isinstance(found, str):
        pytest.skip(f"{found} (pip install ziglang)")
    return found


def linear_of(name: str) -> Linear:
    """A kernel of KINDS, or one that is written by hand."""
    return to_linear(KINDS[name](), TARGET, name=name) if name in KINDS else KERNELS[name]()


@cache
def listing(name: str, arch: str) -> str:
    """The instructions of a kernel, with what the code object says of its registers."""
    source = RENDERER.render(linear_of(name))
    return clang(arch).listing(source, b"")


def whole_lds() -> Linear:
    """A kernel whose thread blocks have all the memory that they may share."""
    return replace(shared.exchange(2, 256, 16_000 // 2, dtypes.int32), target=TARGET)


@pytest.mark.parametrize("name", KINDS)
def test_source_is_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    """Products, halves, quotients, contraction, doubles and conversions."""
    golden(f"{name}.hip", RENDERER.render(linear_of(name)).text)


def test_shared_memory_is_declared(golden: Callable[[str, str], None]) -> None:
    """All of it, as local memory of the block: nothing is asked for at a launch."""
    source = RENDERER.render(group_sum())
    assert source.signature.shared == 0
    golden("group_sum.hip", source.text)


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS)
def test_code_objects_of_every_kind_of_kernel(arch: str) -> None:
    """Of golden sources, LDS and barriers, vectors, grids of three dimensions: for that processor, by ROCm's ABI."""
    chosen = clang(arch)
    linears = [linear_of("matmul"), linear_of("halves"), whole_lds(), group_sum(), shared.grid_indices((3, 5, 2), 4)]

    def made(linear: Linear) -> Binary:
        return chosen.compile(amd_renderer().render(replace(linear, target=TARGET)))

    with ThreadPoolExecutor(2) as threads:
        for binary in threads.map(made, linears):
            assert binary.data[:4] == b"\x7fELF"
            assert binary.data[18] == MACHINE
            assert binary.data[7:9] == b"\x40\x03", "ROCm's ABI, code object 5"
            assert arch.encode() in binary.data


@pytest.mark.parametrize("arch", ARCHS)
def test_nothing_is_spilt_and_multiply_add_is_fused_only_where_the_kernel_says(arch: str) -> None:
    """Scratch memory and spilt registers are none; FMA stands where the Linear has it; waves are those of the card."""
    for name in ("matmul", "multiply_add", "doubles", "quotients"):
        text = listing(name, arch)
        spilt = NO_SPILL.findall(text)
        assert spilt
        assert set(spilt) == {"0"}, (name, text)
        assert not re.search(r"\b(?:scratch_(?:load|store)|buffer_(?:load|store)_\w+ .* offen)", text), name
        assert bool(re.search(r"\.wavefront_size: +64", text)) == arch.startswith("gfx9")
    product = listing("matmul", arch)
    assert FUSED.search(product)
    assert not re.search(r"\bv_(?:pk_)?(?:add|mul)_f32", product)
    for name in ("multiply_add", "doubles"):
        text = listing(name, arch)
        assert not FUSED.search(text), text
        assert re.search(r"\bv_(?:dual_)?mul_f(?:32|64)", text)
        assert re.search(r"\bv_(?:dual_)?add_f(?:32|64)", text)


@pytest.mark.parametrize("arch", ARCHS)
def test_division_and_root_are_rounded_and_subnormals_kept(arch: str) -> None:
    """Neither is one approximate instruction: division has its scaling and fix-up, the root its correction."""
    text = listing("quotients", arch)
    assert "v_div_scale_f32" in text
    assert "v_div_fixup_f32" in text
    assert "v_sqrt_f32" in text
    assert len(FUSED.findall(text)) >= 6
    assert re.search(r"\.amdhsa_float_denorm_mode_32 3", text)
    assert re.search(r"\.amdhsa_float_denorm_mode_16_64 3", text)


@pytest.mark.parametrize("arch", ARCHS)
def test_halves_are_converted_by_instructions(arch: str) -> None:
    """float16 is _Float16: a conversion is one instruction, and each operation is rounded once."""
    text = listing("halves", arch)
    assert "v_cvt_f32_f16" in text
    assert not FUSED.search(text)


def test_a_target_says_which_code_it_takes() -> None:
    """The name without the features that a card may have on or off; threads of a grid are counted in 32 bits."""
    target = target_of(AmdCard("gfx1100", wave=32, shared=64 << 10, l2=6 << 20, threads=1024))
    assert (target.arch, target.shared_memory, target.l3_bytes) == ("gfx1100", 64 << 10, 6 << 20)
    assert target.block_threads % 64 == 0
    assert all(blocks * 1024 < 1 << 32 for blocks in target.max_grid)


def test_what_is_no_hip_is_refused_in_the_compilers_words() -> None:
    """The error has the log and the source."""
    source = Source("broken", 'extern "C" __attribute__((global)) void broken() { int x = ; }', "hip", Signature(()))
    with pytest.raises(CompileError, match=r"refused kernel broken for gfx942: [^*]*expected expression") as e:
        clang("gfx942").compile(source)
    assert "broken.hip:1" in e.value.log


def test_debug_7_shows_instructions() -> None:
    """The listing is in the binary."""
    with Context(DEBUG=7):
        made = clang("gfx942").compile(RENDERER.render(linear_of("multiply_add")))
    assert "v_mul_f32" in made.detail


def test_the_key_of_a_binary_tells_architectures_and_options_apart() -> None:
    """A binary on disk is for one architecture, one compiler and one set of options."""
    keys = {clang(arch).key for arch in ARCHS}
    assert len(keys) == len(ARCHS)
    assert all(key and key.startswith("amd-gfx") for key in keys)
    assert {"-ffp-contract=off", "-fno-fast-math"} <= set(compiler.OPTIONS)


def test_a_compiler_that_there_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names that are none, files that are none, and a machine that has none."""
    names = "must be hiprtc, clang, zig or empty, got 'gcc'"
    with Context(AMD_COMPILER="gcc"), pytest.raises(SettingError, match=names):
        compiler.choose("gfx942")
    no_file = str(tmp_path / "clang")
    with Context(AMD_CLANG=no_file), pytest.raises(DeviceUnavailable, match="clang is no file; name a"):
        compiler.rocm_clang("gfx942")
    with Context(AMD_HIPRTC=no_file), pytest.raises(DeviceUnavailable, match="name the file of libhiprtc"):
        compiler.hiprtc("gfx942")
    monkeypatch.setattr(compiler, "WAYS", {"zig": lambda arch: "ziglang is not installed"})
    with pytest.raises(DeviceUnavailable, match=r"no compiler of kernels is here: ziglang is .*tinygraft-amd\[zig\]"):
        compiler.choose("gfx942")


def test_importing_and_listing_loads_no_library() -> None:
    """The spec and the probe import no cffi, and start nothing."""
    code = (
        "import sys, time; from tinygraft_amd import spec, probe; t = time.perf_counter(); probe.probe(); "
        "assert time.perf_counter() - t < 0.2; print([m for m in ('cffi', 'numpy', 'ziglang') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.needs("cc")
def test_clang_compiles_kernels_of_the_kit(tmp_path: Path) -> None:
    """What the kit's operations and programs are rendered as, each for one of the architectures in turn."""
    compilers = [clang(arch) for arch in ARCHS]
    command = ["-m", "tinygraft", "conformance", "--device", "AMD", "--level", "program"]
    done = hip_emulator.run(command, EMULATED_SAVE=str(tmp_path), CACHELEVEL="0")
    assert done.returncode == 0, done.stdout[-4000:]
    files = sorted(tmp_path.glob("*"))
    assert len(files) > 20
    files = files[:60]

    def refusal(number: int) -> str:
        text = files[number].read_text()
        try:
            compilers[number % len(ARCHS)].compile(Source(files[number].stem, text, "hip", Signature(())))
        except CompileError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        assert [said for said in threads.map(refusal, range(len(files))) if said] == []
