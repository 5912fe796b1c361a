"""Units for tiles: compiled for a processor that has them, interpreted, and tried in a child process before use."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.config import Context
from tinygraft.conformance.kernels import pack, run_linear, unpack
from tinygraft.conformance.product_cases import matmul, product, small
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.python import PythonBackend
from tinygraft.uop.stages import Kernel, Linear
from tinygraft_cpu import machine, tiles
from tinygraft_cpu.compile_c import options
from tinygraft_cpu.device import CpuBackend
from tinygraft_cpu.dialect import c_renderer, llvm_renderer

pytestmark = pytest.mark.slow

UNITS = {dtypes.bfloat16: tiles.BF16_TILE, dtypes.int8: tiles.INT8_TILE}
SIZES = [(37, 101, 53), (16, 64, 16), (33, 67, 33), pytest.param(129, 67, 33, marks=pytest.mark.long)]
on_each_dtype = pytest.mark.parametrize("dtype", UNITS, ids=lambda d: d.name)
WORDS = ("ldtilecfg", "tilezero", "tileloadd", "tilestored", "tilerelease")


def linear_of(m: int, k: int, n: int, dtype: DType) -> Linear:
    """A product for this machine if it had the units."""
    target = replace(CpuBackend("CPU", 0).target, matrix=tuple(UNITS.values()), vector_bytes=64, registers=32)
    linear = to_linear(Kernel(matmul(m, k, n, dtype, UNITS[dtype].result)), target, Options())
    assert linear.actions[0].startswith("matrix(")
    return linear


@on_each_dtype
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_the_instructions_for_a_processor_with_tiles_are_right(dtype: DType, m: int, k: int, n: int) -> None:
    """What is compiled for such a processor, run instruction by instruction by the interpreter."""
    linear = linear_of(m, k, n, dtype)
    backend = PythonBackend("PYTHON", 0, linear.target)
    a, b = small(m * k, 1, dtype), small(k * n, 2, dtype)
    done = run_linear(backend, linear, [bytes(4 * m * n), pack(a, dtype), pack(b, dtype)])
    assert unpack(done[0], UNITS[dtype].result) == product(a, b, m, k, n)


@on_each_dtype
@pytest.mark.parametrize(("m", "k", "n"), SIZES)
def test_both_operands_of_a_product_have_registers_of_their_own(dtype: DType, m: int, k: int, n: int) -> None:
    """One register for both is an invalid instruction; a product of one tile reads both operands at index 0."""
    name, number = UNITS[dtype].name, r"(?:i8 |)(\d+)"
    linear = linear_of(m, k, n, dtype)
    for renderer, call in ((llvm_renderer(linear.target), f"call void @llvm.x86.{name}"),
                           (c_renderer(linear.target, "gcc"), f"_tile_{name[1:]}")):  # fmt: skip
        text = renderer.render(linear).text
        products = re.findall(rf"{re.escape(call)}\({number}, {number}, {number}\)", text)
        assert products and all(len(set(three)) == 3 for three in products), products


@on_each_dtype
def test_llvm_writes_tile_instructions(dtype: DType) -> None:
    """LLVM's machine code for a processor with tiles opens, fills, multiplies, stores and closes them."""
    linear = linear_of(37, 101, 53, dtype)
    llvm = pytest.importorskip("llvmlite.binding")
    from tinygraft_cpu.compile_llvm import machine as compiler

    host = compiler()
    features = f"{host.features},+amx-tile,+amx-bf16,+amx-int8,+avx512f,+avx512bw,+avx512dq,+avx512vl"
    triple = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    target = triple.create_target_machine(cpu="sapphirerapids", features=features, opt=2, reloc="pic", jit=True)
    module = llvm.parse_assembly(llvm_renderer(linear.target).render(linear).text)
    module.verify()
    text = target.emit_assembly(module)
    found = {word: text.count(word) for word in (*WORDS, UNITS[dtype].name)}
    assert min(found.values()) > 0, found
    assert found["ldtilecfg"] == found["tilerelease"] == 1
    assert text.index("ldtilecfg") < text.index("tilezero") < text.index(UNITS[dtype].name) < text.index("tilerelease")


@pytest.mark.needs("cc")
@pytest.mark.skipif(not machine.is_x86(), reason="the compiler of this machine writes no x86 code")
@on_each_dtype
def test_a_c_compiler_writes_tile_instructions(dtype: DType, tmp_path: Path) -> None:
    """gcc or clang accept the C of such a kernel and write the same instructions."""
    linear = linear_of(37, 101, 53, dtype)
    command = machine.find_cc() or []
    source = c_renderer(linear.target, "gcc").render(linear).text
    wanted = ["-mamx-tile", "-mamx-bf16", "-mamx-int8", "-mavx512f", "-mavx512bw", "-mavx512dq", "-mavx512vl"]
    result = tmp_path / "kernel.s"
    done = subprocess.run(
        [*command, *options(), *wanted, "-S", "-o", str(result), "-"],
        input=source, text=True, capture_output=True, check=False,
    )  # fmt: skip
    if "unrecognized" in done.stderr and "amx" in done.stderr:
        pytest.skip("the C compiler is too old to know tiles")
    assert done.returncode == 0, done.stderr
    text = result.read_text()
    assert [word for word in (*WORDS, UNITS[dtype].name) if word not in text] == []


@pytest.fixture
def said_to_have_tiles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A processor that says it has tiles, on a system that permits them; earlier verdicts are dropped."""
    monkeypatch.setattr(machine, "features", lambda: frozenset({"amx_tile", "amx_bf16", "amx_int8"}))
    monkeypatch.setattr(tiles, "permit", lambda: True)
    tiles._verdict.cache_clear()
    yield
    tiles._verdict.cache_clear()


@pytest.mark.usefixtures("said_to_have_tiles")
def test_a_trial_that_fails_is_kept_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The units stay out of the Target, for the reason that the child gave; the next process does not try again."""
    calls: list[str] = []

    def fails(route: str, names: tuple[str, ...]) -> str:
        calls.append(route)
        return "a trial in a child process ended by SIGILL"

    monkeypatch.setattr(tiles, "try_in_child", fails)
    with Context(CPU_TILES=""):
        assert tiles.tiles("llvm") == ()
        assert tiles.why_not("llvm") == "a trial in a child process ended by SIGILL"
        tiles._verdict.cache_clear()
        assert tiles.why_not("llvm") == "a trial in a child process ended by SIGILL"
    assert calls == ["llvm"]


@pytest.mark.usefixtures("said_to_have_tiles")
def test_a_trial_that_succeeds_puts_the_units_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both units, for both routes of compilation, each tried by itself."""
    monkeypatch.setattr(tiles, "try_in_child", lambda route, names: "" if route == "c" else "wrong")
    with Context(CPU_TILES=""):
        assert tiles.tiles("c") == (tiles.BF16_TILE, tiles.INT8_TILE)
        assert tiles.tiles("llvm") == ()


@pytest.mark.usefixtures("said_to_have_tiles")
def test_a_verdict_that_cannot_be_read_is_made_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken file in the cache folder is replaced."""
    monkeypatch.setattr(tiles, "try_in_child", lambda route, names: "wrong")
    file = tiles._file("llvm", ("tdpbf16ps", "tdpbssd"))
    assert file is not None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{")
    with Context(CPU_TILES=""):
        assert tiles.why_not("llvm") == "wrong"
    assert json.loads(file.read_text()) == {"why": "wrong"}


def test_the_setting_decides_before_anything_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU_TILES=0 does without; a processor that has none is not tried."""
    monkeypatch.setattr(tiles, "try_in_child", lambda route, names: pytest.fail("a child was started"))
    with Context(CPU_TILES="0"):
        assert tiles.tiles("llvm") == ()
        assert tiles.why_not("llvm") == "CPU_TILES=0"
    monkeypatch.setattr(machine, "features", lambda: frozenset())
    with Context(CPU_TILES=""):
        assert tiles.why_not("llvm") == "this processor has none"


@on_each_dtype
def test_the_child_multiplies_or_says_why_it_cannot(dtype: DType) -> None:
    """A real child process: right results where the processor has tiles, else a reason."""
    unit = UNITS[dtype]
    has = tiles.FEATURES[unit] in machine.features() and tiles.permit()
    why = tiles.try_in_child(CpuBackend("CPU", 0).compiler_name, (unit.name,))
    assert why == "" if has else why.endswith(f"AssertionError: {unit.name} is not in the Target"), why
