"""Findings about caches, by their numbers: 2.6 (CC), 3.4, 3.7 and 3.8.

What a compiler gives, and what is kept of it on disk and in memory.
"""

from __future__ import annotations

import gc
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from new_process import ADD, cached_files, compiler, run
from tinygraft import Context, Device, GlobalCounters, Tensor, TinyJit, caches
from tinygraft.conformance.kernels import load, param, store
from tinygraft.device.pool import Pool, pool_of
from tinygraft.dtype import dtypes
from tinygraft.engine import compile, diskcache
from tinygraft.errors import CompileError, DeviceError
from tinygraft.jit import tinyjit
from tinygraft.reference.python import PythonBackend, PythonCompiler
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Binary, Kernel, Signature, Source
from tinygraft.uop.uop import UOp

WROTE_NOTHING = "the C compiler ended without an error and wrote nothing for kernel"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder for this process, of which nothing was reported yet."""
    monkeypatch.setattr(caches, "_reported", set())
    found = tmp_path / "cache"
    with Context(TINYGRAFT_CACHE=str(found), CACHELEVEL=1):
        yield found


# 2.6


def test_2_6_a_cc_with_a_quote_that_does_not_end(tmp_path: Path) -> None:
    """LLVM needs no C compiler, so the CPU works; where C is asked for the message says what is wrong with CC."""
    pytest.importorskip("llvmlite")
    run(ADD, tmp_path, CC="gcc 'oops", CPU_COMPILER="")
    done = run(ADD, tmp_path, check=False, CC="gcc 'oops", CPU_COMPILER="c")
    assert "CPU_COMPILER=c needs a C compiler, and CC=gcc 'oops cannot be read: No closing quotation; " in done.stderr


# 3.4


@pytest.mark.needs("cc")
@pytest.mark.parametrize(
    ("script", "message"),
    [
        ('cat > /dev/null; : > "$out"; echo a word >&2', WROTE_NOTHING),
        ("cat > /dev/null", WROTE_NOTHING),
        ('cat > /dev/null; echo nonsense > "$out"', "what the C compiler made of kernel"),
        ('cat > /dev/null; echo "int other;" | cc -shared -fPIC -x c -o "$out" -', "has no function of that name"),
    ],
    ids=["an empty file", "no file", "no library", "a library without the kernel"],
)  # fmt: skip
def test_3_4_what_a_compiler_did_not_make_is_not_kept(tmp_path: Path, script: str, message: str) -> None:
    """A compiler that ends well and gives nothing that runs is an error of ours, and nothing of it is on disk.

    The same compiler, mended, then works.
    """
    cc, cache = compiler(tmp_path / "cc", script), tmp_path / "cache"
    failed = run(ADD, cache, check=False, CC=cc, CPU_COMPILER="c", CPU_TILES="0")
    assert failed.returncode == 1
    assert message in failed.stderr
    assert ("a word" in failed.stderr) == ("a word" in script)
    error = next(line for line in failed.stderr.splitlines() if message in line)
    assert error.startswith(("tinygraft.errors.CompileError: ", "tinygraft.errors.DeviceError: "))
    assert cached_files(cache) == []
    compiler(tmp_path / "cc", 'exec cc "$@"')
    run(ADD, cache, CC=cc, CPU_COMPILER="c", CPU_TILES="0")
    assert len(cached_files(cache)) > 0


class Odd(PythonCompiler):
    """A compiler that can be told what to give."""

    key = "odd"
    data: bytes | None = None

    def compile(self, source: Source) -> Binary:
        """What it was told, else a good binary."""
        good = super().compile(source)
        return good if self.data is None else Binary(good.name, self.data, good.signature)


class OddBackend(PythonBackend):
    """A backend that does not load what begins with "bad"."""

    def __init__(self) -> None:
        super().__init__("PYTHON", 0)
        self.compiler: Odd = Odd()

    def load(self, binary: Binary) -> Any:
        """The program, or the error of a loader."""
        if binary.data.startswith(b"bad"):
            raise OSError("file too short")
        return super().load(binary)


def kernel(size: int, op: Ops = Ops.NEG) -> Kernel:
    """op of every element of a buffer of that size."""
    i = UOp.range(size, 0)
    value = load(param(1, dtypes.float32, size), i)
    return Kernel(UOp(Ops.SINK, src=(store(param(0, dtypes.float32, size), i, value.alu(op)),)))


def test_3_4_a_binary_of_no_bytes_is_an_error_on_every_device(folder: Path) -> None:
    """Core asks no plugin to look: what has no code is no binary."""
    backend = OddBackend()
    backend.compiler.data = b""
    with pytest.raises(
        CompileError, match="^the compiler of PYTHON ended without an error and returned no code for kernel E_3"
    ):
        compile.compiled([(kernel(3), backend)])
    assert cached_files(folder) == []


def test_3_4_a_binary_that_does_not_load_is_not_kept(folder: Path) -> None:
    """Compiled now: an error, and nothing is on disk. From the disk: removed there, and compiled anew."""
    backend = OddBackend()
    backend.compiler.data = b"bad code"
    with pytest.raises(OSError, match="file too short"):
        compile.compiled([(kernel(3), backend)])
    assert cached_files(folder) == []
    backend.compiler.data = None
    (made,) = compile.compiled([(kernel(3), backend)])
    for forget in (lambda: diskcache.put(made.digest, b"bad code"), lambda: diskcache.remove(made.digest)):
        compile.clear()
        forget()
        GlobalCounters.reset()
        (again,) = compile.compiled([(kernel(3), backend)])
        assert (again.digest, again.data, GlobalCounters.kernels_compiled) == (made.digest, made.data, 1)
        assert diskcache.get(made.digest) == made.data
    compile.clear()
    diskcache.put(made.digest, b"bad code")
    assert compile.compiled_before(backend, made.digest, made.name, made.signature, made.cost) is None  # as a pack asks
    assert diskcache.get(made.digest) is None


# 3.7


def test_3_7_compiled_kernels_are_bounded_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache has so many kernels and so many instructions; a program goes when nobody has it, and comes back."""
    monkeypatch.setattr(compile, "MOST", 20)
    with Context(CACHELEVEL=0, SPEC=0):
        compile.clear()
        backend = OddBackend()
        mine = compile.compiled([(kernel(1000), backend)])[0]
        for size in range(1, 61):
            compile.compiled([(kernel(size), backend)])
        gc.collect()
        assert len(compile._cache) == 20
        assert len(compile._loaded) == 21  # and the one that this test has
        GlobalCounters.reset()
        assert compile.compiled([(kernel(1000), backend)])[0] is mine  # lowered again, not compiled
        assert compile.compiled([(kernel(60), backend)])
        assert GlobalCounters.kernels_compiled == 0
        compile.compiled([(kernel(1), backend)])
        assert GlobalCounters.kernels_compiled == 1
        assert len({c.name for c in compile.compiled([(kernel(size), backend) for size in range(1, 61)])}) == 60
        monkeypatch.setattr(compile, "MOST_INSTRUCTIONS", 30)
        compile.compiled([(kernel(2), backend)])
        assert compile._instructions == sum(count for _, count in compile._cache.values()) <= 30
        assert len(compile._cache) >= 1
        compile.clear()
        assert compile._instructions == 0


def test_3_7_a_search_sees_every_kernel_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recorded for `tune` is not bounded by the cache."""
    monkeypatch.setattr(compile, "MOST", 5)
    backend = OddBackend()
    with Context(CACHELEVEL=0, SPEC=0), compile.recorded() as recorded:
        for size in [*range(1, 11), 3]:
            compile.compiled([(kernel(size), backend)])
    compile.compiled([(kernel(99), backend)])
    assert list(recorded) == [(kernel(size), backend) for size in range(1, 11)]


def test_3_7_captures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A TinyJit that is called with ever new shapes lets go of the oldest captures, and makes them anew when asked."""
    monkeypatch.setattr(tinyjit, "MOST", 3)

    @TinyJit
    def double(t: Tensor) -> Tensor:
        return (t * 2).realize()

    for size in [*range(1, 7), 1]:
        for _ in range(3):
            assert double(Tensor.ones(size, device="PYTHON").contiguous()).tolist() == [2.0] * size
    assert (double.captured, [names for (names,) in double.kernels]) == (3, ["E_5", "E_6", "E_1"])


def test_3_7_linkers_of_llvm_go_with_their_objects() -> None:
    """LLVM keeps the name of every library that was ever loaded, so a linker has a few and is freed with the last."""
    pytest.importorskip("llvmlite")
    import weakref

    from tinygraft_cpu import compile_llvm
    from tinygraft_cpu.compile_llvm import LoadedObject

    source = Source("f", "define void @f() {\n  ret void\n}\n", "llvm", Signature(()))
    binary = compile_llvm.LLVMCompiler().compile(source)
    linkers: weakref.WeakSet[Any] = weakref.WeakSet()
    first = loaded = LoadedObject(binary)
    changes = 0
    for _ in range(4 * 64):
        before, loaded = loaded.linker, LoadedObject(binary)
        changes += loaded.linker is not before
        linkers.add(loaded.linker)
    del loaded, before
    gc.collect()
    assert changes == 4
    assert len(linkers) <= 2  # the one in use, and that of the first object
    assert first.address
    with pytest.raises(DeviceError, match="^LLVM cannot load the object file of kernel f: "):
        LoadedObject(Binary("f", b"nonsense", binary.signature))


def test_3_7_the_disk_is_bounded_in_a_process_that_does_not_end(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However much one process writes, the folder stays within its limit and a sixteenth."""
    monkeypatch.setattr(diskcache, "LIMIT", 64_000)
    rng = random.Random(0)
    most = 0
    for number in range(400):
        diskcache.put(diskcache.digest(str(number)), rng.randbytes(1000))
        most = max(most, sum(path.stat().st_size for path in cached_files(folder))) if number % 20 == 0 else most
    assert 60_000 < most < 64_000 * 17 // 16 + 3000
    assert diskcache.get(diskcache.digest("399")) is not None
    assert diskcache.get(diskcache.digest("0")) is None


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize("what", ["(t * 2 + 1)", "t.softmax()", "(t @ t)"])
def test_3_7_five_thousand_shapes_take_forty_megabytes(what: str, tmp_path: Path) -> None:
    """The memory of a process after 5,000 further shapes."""
    code = f"""
import gc, re
from tinygraft import Tensor
def memory():
    gc.collect()
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024
def run(start, end):
    for n in range(start, end):
        t = Tensor.ones(n).contiguous().realize()
        {what}.realize()
run(1, 300)
before = memory()
run(300, 5300)
print(memory() - before)
"""
    assert float(run(code, tmp_path, timeout=3600, CACHELEVEL="0").stdout) < 40


# 3.8


def test_3_8_memory_is_never_more_than_was_once_in_use() -> None:
    """docs/memory.md: what is in use and what is kept, of the sizes of a program that never needs 16 MB at once."""
    pool = pool_of(Device["PYTHON"])
    Device["PYTHON"].synchronize()
    gc.collect()
    pool.empty()
    fresh = Pool(Device["PYTHON"])
    rng = random.Random(0)
    held: list[Any] = []
    for _ in range(3000):
        held.append(fresh.take(rng.randrange(1, 2 << 20)))
        while sum(block.size for block in held) > 15 << 20:
            held.pop(rng.randrange(len(held)))
        assert fresh.used + fresh.kept <= fresh.peak <= 17 << 20
    held.clear()
    assert fresh.kept <= fresh.peak


SANITIZED = """
#include <stdio.h>
#include "pool.h"
int main(void) {
    int places[2] = {0, 0}, names[1] = {0};
    uintptr_t memory[1] = {0}, buffers[2];
    long long values[1] = {0}, variables[1];
    tg_step step = {.code = 0, .buffers = 2, .bytes = 0};
    tg_graph graph = {.steps = &step, .memory = memory, .places = places, .buffers = buffers, .values = values,
                      .names = names, .variables = variables, .count = 1, .all_places = 2, .all_names = 0};
    return tg_replay(&graph, 0, 1000000) == 1 ? 0 : 1;
}
"""


@pytest.mark.needs("cc")
def test_3_8_a_copy_of_no_bytes_calls_nothing(tmp_path: Path) -> None:
    """memcpy(NULL, NULL, 0) is undefined: a replay of an empty copy is clean under UBSan."""
    import tinygraft_cpu

    sources = Path(tinygraft_cpu.__file__).parent
    (tmp_path / "main.c").write_text(SANITIZED)
    command = ["cc", "-std=gnu11", "-pthread", "-fsanitize=undefined", "-fno-sanitize-recover=all", f"-I{sources}",
               "main.c", str(sources / "pool.c"), str(sources / "replay.c"), "-o", "main"]  # fmt: skip
    built = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    if built.returncode and "ubsan" in built.stderr:
        pytest.skip("this C compiler has no UBSan")
    assert built.returncode == 0, built.stderr
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
