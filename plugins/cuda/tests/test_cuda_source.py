"""Generated CUDA C: golden source, machine code for five architectures by the real NVRTC, and what is in it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import cuda_emulator
from card_kernels import KINDS
from tinygraft import dtypes
from tinygraft.codegen.lower import to_linear
from tinygraft.conformance import shared
from tinygraft.conformance.linears import KERNELS, group_sum
from tinygraft.errors import CompileError
from tinygraft.uop.stages import Linear, Signature, Source
from tinygraft_cuda import disassembly, nvrtc
from tinygraft_cuda.compiler import NvrtcCompiler
from tinygraft_cuda.dialect import Card, architecture, cuda_renderer, offline, target_of

ARCHS = ("sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a")
TARGET, RENDERER = offline()


@cache
def compiler(arch: str) -> NvrtcCompiler:
    """Return the real NVRTC for an architecture; skips where there is none."""
    for path in nvrtc.candidates():
        try:
            return NvrtcCompiler(nvrtc.load(path), arch)
        except OSError:
            continue
    pytest.skip("NVRTC (nvidia-cuda-nvrtc) is not installed")


def linear_of(name: str) -> Linear:
    """A kernel of KINDS, or one that is written by hand."""
    return to_linear(KINDS[name](), TARGET, name=name) if name in KINDS else KERNELS[name]()


def whole_shared_memory() -> Linear:
    """A kernel whose thread blocks need more shared memory than it may declare."""
    return replace(shared.exchange(2, 256, 20_000, dtypes.int32), target=TARGET)


@pytest.mark.parametrize("name", KINDS)
def test_source_is_as_the_golden_file_says(name: str, golden: Callable[[str, str], None]) -> None:
    """Products, halves, quotients, contraction, doubles and conversions."""
    golden(f"{name}.cu", RENDERER.render(linear_of(name)).text)


def test_shared_memory_beyond_what_may_be_declared(golden: Callable[[str, str], None]) -> None:
    """It is asked for at the launch: the kernel has one array of bytes, and the Signature says how many."""
    source = RENDERER.render(whole_shared_memory())
    assert source.signature.shared == 80_000
    golden("pooled.cu", source.text)


@pytest.mark.parametrize("arch", ARCHS)
def test_nvrtc_compiles_every_kind_of_kernel(arch: str) -> None:
    """Machine code for each architecture, of the golden sources and of the kernels of the kit that need no vectors."""
    chosen = compiler(arch)
    linears = [linear_of(name) for name in KINDS] + [whole_shared_memory(), group_sum()]
    linears += [k for n in KERNELS if "vector" not in " ".join(map(str, (k := KERNELS[n]()).uops)).lower()]
    linears += [shared.grid_indices((3, 5, 2), 4), shared.relay(23, 64)]
    for linear in linears:
        made = chosen.compile(cuda_renderer().render(replace(linear, target=TARGET)))
        assert made.data[:4] == b"\x7fELF"
        assert made.data[18] == 190, "an ELF file for CUDA"


def sass(name: str, arch: str) -> str:
    """The instructions of a kernel; skips where there is no nvdisasm."""
    if not disassembly.program():
        pytest.skip(f"there is no nvdisasm ({disassembly.GET})")
    return disassembly.sass(compiler(arch).compile(RENDERER.render(linear_of(name))).data)


@pytest.mark.parametrize("arch", ARCHS)
def test_multiply_add_is_fused_only_where_the_kernel_says(arch: str) -> None:
    """FFMA and DFMA stand where the Linear has FMA, and nowhere else; nothing flushes subnormals."""
    product = sass("matmul", arch)
    assert "FFMA" in product
    assert not re.search(r"\bF(ADD|MUL)\b", product)
    for name in ("multiply_add", "doubles"):
        text = sass(name, arch)
        assert not re.search(r"\b[FDH]FMA\b|\.FTZ", text), text
        assert re.search(r"\b[FD]MUL\b", text)
        assert re.search(r"\b[FD]ADD\b", text)


def test_division_and_root_are_rounded() -> None:
    """Neither is the approximation of one instruction alone: the code has the steps that round it."""
    text = sass("quotients", "sm_80")
    assert "MUFU.RCP" in text
    assert "FCHK" in text
    assert len(re.findall(r"\bFFMA\b", text)) > 6


def test_a_target_says_which_code_it_takes() -> None:
    """From Hopper on the code is for one architecture with all that it has."""
    found = [architecture(capability) for capability in ((7, 5), (8, 6), (9, 0), (10, 0), (12, 0))]
    assert found == ["sm_75", "sm_86", "sm_90a", "sm_100a", "sm_120a"]
    target = target_of(Card((9, 0), shared=227 << 10, l2=50 << 20))
    assert (target.arch, target.shared_memory, target.l3_bytes) == ("sm_90a", 227 << 10, 50 << 20)


def test_what_is_no_cuda_is_refused_in_the_compilers_words() -> None:
    """The error has the log and the source."""
    source = Source("broken", 'extern "C" __global__ void broken() { int x = ; }', "cuda", Signature(()))
    with pytest.raises(
        CompileError, match=r"NVRTC 13.0 refused kernel broken for sm_80: [^*]*expected an expression"
    ) as e:
        compiler("sm_80").compile(source)
    assert "broken.cu(1)" in e.value.log


def test_missing_headers_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel of one's own that includes a header of CUDA's where none are."""
    text = '#include <cuda_fp16.h>\nextern "C" __global__ void k(half *x) { x[0] = __float2half(1.0f); }'
    monkeypatch.setattr(nvrtc, "header_folders", list)
    with pytest.raises(CompileError) as error:
        compiler("sm_80").compile(Source("k", text, "cuda", Signature(())))
    assert (
        "CUDA's header cuda_fp16.h is not here; pip install 'tinygraft-cuda[headers]', or set CUDA_PATH to a toolkit"
        in str(error.value)
    )
    monkeypatch.undo()
    if nvrtc.header_folders():
        assert compiler("sm_80").compile(Source("k", text, "cuda", Signature(()))).data


def test_the_key_of_a_binary_tells_architectures_and_options_apart() -> None:
    """A binary on disk is for one architecture, one NVRTC and one set of options."""
    keys = {compiler(arch).key for arch in ARCHS}
    assert len(keys) == len(ARCHS)
    assert all(key and key.startswith("cuda-sm_") for key in keys)
    assert {"-fmad=false", "-prec-div=true", "-prec-sqrt=true", "-ftz=false"} <= set(compiler("sm_80").options)


def test_importing_and_listing_loads_no_library() -> None:
    """The spec and the probe import no cffi, and start nothing."""
    code = (
        "import sys, time; from tinygraft_cuda import spec, probe; t = time.perf_counter(); probe.probe(); "
        "assert time.perf_counter() - t < 0.2; print([m for m in ('cffi', 'numpy', 'pycuda') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.slow
@pytest.mark.needs("cc")
@pytest.mark.long
@pytest.mark.parametrize("every", [12, 1])
def test_all_of_the_kit_passes_and_nvrtc_compiles_its_kernels(tmp_path: Path, every: int) -> None:
    """On the emulated driver, with all operations on their edge values; NVRTC compiles for one architecture in turn.

    Every twelfth kernel here: it takes a fifth of a second for one.
    """
    found = tmp_path / "counts.json"
    settings = {"EMULATED_SAVE": str(tmp_path), "CUDA_BINDING": "cffi", "CACHELEVEL": "0"}
    command = [sys.executable, "-m", "tinygraft", "conformance", "--device", "CUDA", "--level", "0-5"]
    done = subprocess.run(
        [*command, "--json", str(found)], env=cuda_emulator.environment(**settings), capture_output=True, text=True,
        timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    (of_cuda,) = json.loads(found.read_text())["devices"]
    counts = sum((Counter(level) for level in of_cuda["levels"].values()), Counter())
    assert counts["passed"] > 1300
    assert set(counts) <= {"passed", "n/a"}
    compilers = [compiler(arch) for arch in ARCHS]
    refused = "this is { no program"  # of the kit's test that a compiler refuses
    files = [file for file in sorted(tmp_path.glob("*.cu")) if refused not in file.read_text()]
    assert len(files) > 500
    files = files[::every]

    def refusal(number: int) -> str:
        text = files[number].read_text()
        try:
            compilers[number % len(ARCHS)].compile(Source(files[number].stem, text, "cuda", Signature(())))
        except CompileError as error:
            return str(error)
        return ""

    with ThreadPoolExecutor(os.cpu_count()) as threads:
        assert [said for said in threads.map(refusal, range(len(files))) if said] == []
