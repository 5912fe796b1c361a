"""Which compiler runs, what its errors say, and which of its output is cached."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tinygraft import Tensor, events
from tinygraft.config import Context
from tinygraft.conformance.linears import plain
from tinygraft.errors import CompileError, DeviceUnavailable, SettingError
from tinygraft.uop.stages import Signature, Source
from tinygraft_cpu import machine
from tinygraft_cpu.compile_c import options
from tinygraft_cpu.compile_llvm import machine as machine_of_llvm
from tinygraft_cpu.device import CpuBackend
from tinygraft_cpu.dialect import c_renderer
from tinygraft_cpu.probe import probe

needs_cc = pytest.mark.needs("cc")


def test_llvm_is_the_default_where_it_is_installed() -> None:
    """With nothing set the in-process compiler is used."""
    with Context(CPU_COMPILER=""):
        assert CpuBackend("CPU", 0).compiler_name == "llvm"


def test_no_builder_of_passes_runs_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """llvmlite leaves calls into a finished run's stack in it: a second run ended the process now and then."""
    llvm = pytest.importorskip("llvmlite.binding")
    used: list[Any] = []
    run = llvm.newpassmanagers.ModulePassManager.run

    def seen(self: Any, module: Any, builder: Any) -> Any:
        used.append(builder)
        return run(self, module, builder)

    monkeypatch.setattr(llvm.newpassmanagers.ModulePassManager, "run", seen)
    for value in range(3):
        machine_of_llvm().compiled(f"define i32 @f() {{\n  ret i32 {value}\n}}", assembly=False)
    assert len(used) == len({id(builder) for builder in used}) == 3


FAR_APART = """
import ctypes, mmap
from tinygraft import Tensor
from tinygraft_cpu.compile_llvm import machine
assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]
libc, page, gap = ctypes.CDLL(None), mmap.PAGESIZE, 6 << 30
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
PRIVATE, UNRESERVED = 0x22, 0x4000
taken = libc.mmap(None, gap, 0, PRIVATE | UNRESERVED, -1, 0)
while (above := libc.mmap(None, page, 0, PRIVATE, -1, 0)) > taken:
    pass
for hole in range(5):  # an odd number of single pages, then nothing for 6 GB
    libc.munmap(taken + gap - page * (2 + 3 * hole), page)
for size in range(3, 12):
    numbers = [float(n) for n in range(size)]
    assert Tensor(numbers).sin().sum().realize().shape == ()
print("linked", machine().loaded)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="takes addresses by mmap")
def test_a_kernel_is_linked_wherever_its_memory_lies() -> None:
    """Code and constants more than 2 GB apart: the process was ended by LLVM (one training test in a run of 13,519)."""
    found = subprocess.run([sys.executable, "-c", FAR_APART], capture_output=True, text=True, timeout=300)
    assert re.match(r"linked [1-9]\d+\n", found.stdout), found.stderr


@needs_cc
def test_c_is_the_default_where_llvm_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without llvmlite the system's compiler is used, and llvmlite is not needed for it."""
    monkeypatch.setattr(machine, "has_llvm", lambda: False)
    with Context(CPU_COMPILER=""):
        assert CpuBackend("CPU", 0).compiler_name == "c"


def test_an_unknown_compiler_is_refused() -> None:
    """CPU_COMPILER has two values."""
    with Context(CPU_COMPILER="gcc"), pytest.raises(SettingError, match="CPU_COMPILER must be llvm or c, got 'gcc'"):
        CpuBackend("CPU", 0)


CLANG = next(filter(None, map(shutil.which, ("clang", *(f"clang-{n}" for n in range(21, 13, -1))))), None)


@pytest.mark.skipif(not CLANG or not machine.is_x86(), reason="needs clang and an x86 processor")
def test_clang_has_the_lanes_of_a_vector_written_out() -> None:
    """A loop over lanes stays a loop there: e**x took five times as long, one lane after another."""
    x = Tensor(np.ones(4099 * 64, np.float32)).realize()  # a size of its own: the kernel is compiled here
    seen: list[Any] = []
    stop = events.observe(seen.append)
    (x * 3).exp().realize()
    stop()
    (linear,) = [event.subject for event in seen if event.name == "linear"]
    if not linear.target.fused_sums:
        pytest.skip("the processor has no FMA instruction")
    text = c_renderer(linear.target, "clang version 19.1.7").render(linear).text
    done = subprocess.run(
        [str(CLANG), *options(), "-S", "-o", "-", "-"], input=text, text=True, capture_output=True, check=True
    ).stdout
    assert re.search(r"vfn?m(add|sub)\d+ps", done)
    assert not re.search(r"vfn?m(add|sub)\d+ss", done)


def test_llvm_that_is_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """An explicit choice never falls back; the message says what to install."""
    monkeypatch.setattr(machine, "has_llvm", lambda: False)
    message = "CPU_COMPILER=llvm needs llvmlite, which is not installed; pip install llvmlite"
    with Context(CPU_COMPILER="llvm"), pytest.raises(DeviceUnavailable, match=message):
        CpuBackend("CPU", 0)


def test_a_c_compiler_that_is_asked_for_must_be_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """CC naming nothing that exists is not replaced by another compiler."""
    monkeypatch.setenv("CC", "/nowhere/cc")
    message = "CPU_COMPILER=c needs a C compiler, and CC=/nowhere/cc is not found"
    with Context(CPU_COMPILER="c"), pytest.raises(DeviceUnavailable, match=message):
        CpuBackend("CPU", 0)


def test_without_any_compiler_the_device_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither route: the probe is negative and opening fails, both with a hint."""
    monkeypatch.setattr(machine, "has_llvm", lambda: False)
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with (
        Context(CPU_COMPILER=""),
        pytest.raises(DeviceUnavailable, match="pip install llvmlite, or install gcc or clang"),
    ):
        CpuBackend("CPU", 0)
    found = probe()
    assert not found.ok
    assert found.hint == "pip install llvmlite, or install gcc or clang"


def test_the_probe_says_what_is_there_and_imports_no_compiler() -> None:
    """Probing names the routes and leaves llvmlite alone."""
    code = "import sys, tinygraft_cpu.probe as p; r = p.probe(); print(r.ok, 'llvmlite' in sys.modules, r.detail)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert answer.startswith("True False compilers llvm")


def broken(backend: CpuBackend) -> Source:
    """A kernel that its compiler does not understand."""
    if backend.compiler_name == "llvm":
        return Source("bad", "define void @bad() {\n  ret nonsense\n}\n", "llvm", Signature(()))
    text = "/* bad */\nvoid bad(void **buffers, const long long *variables) {\n    nonsense here;\n}\n"
    return Source("bad", text, "c", Signature(()))


def test_a_refused_kernel_is_quoted(backend: CpuBackend) -> None:
    """CompileError names the kernel and has the compiler's output and the source."""
    with pytest.raises(CompileError, match=r"refused kernel bad: (?s:.)*nonsense") as error:
        backend.compiler.compile(broken(backend))
    assert "nonsense" in error.value.source
    assert error.value.log
    if backend.compiler_name == "c":
        assert "line 3 of the source: nonsense here;" in str(error.value)
        assert "-ffp-contract=off" in str(error.value)


def test_a_module_that_is_refused_does_no_harm() -> None:
    """What stops a compilation half way, bad code or Ctrl-C, leaves nothing that ends the process later."""
    script = """
import gc
from tinygraft_cpu.compile_llvm import Machine

machine = Machine()
text = "define void @f() { %y = add i32 %x, 1 \\n %x = add i32 1, 2 \\n ret void }"
good = "define void @g() { ret void }"

def stop(*_):
    raise KeyboardInterrupt

for _ in range(3):
    try:
        machine.compiled(text, False)
    except RuntimeError as error:
        print("dominate" in str(error))
    gc.collect()
emit, machine.emit = machine.emit, stop
try:
    machine.compiled(good, False)
except KeyboardInterrupt:
    print("stopped")
machine.emit = emit
gc.collect()
print(len(machine.compiled(good, False)[0]) > 0)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout.split()) == (0, ["True"] * 3 + ["stopped", "True"]), ran.stderr


@needs_cc
def test_a_compiler_that_fails_is_quoted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A C compiler that cannot run says so in a CompileError, with its path."""
    fake = tmp_path / "cc"
    fake.write_text("#!/bin/sh\necho out of licences >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("CC", f"{fake} -m64")
    with Context(CPU_COMPILER="c"):
        backend = CpuBackend("CPU", 0)
    with pytest.raises(CompileError, match=r"refused kernel plain: .*/cc -m64 (?s:.)*out of licences"):
        backend.compiler.compile(backend.renderer.render(plain()))


def test_assembly_is_made_when_it_is_asked_for(backend: CpuBackend) -> None:
    """DEBUG=7 has the assembly in detail; below that it is not made."""
    source = backend.renderer.render(plain())
    assert backend.compiler.compile(source).detail == ""
    with Context(DEBUG=7):
        detail = backend.compiler.compile(source).detail
    assert "plain:" in detail
    assert "ret" in detail


def test_a_binary_is_bytes_that_can_be_loaded_again(backend: CpuBackend) -> None:
    """A binary can be cached: loaded twice, it runs twice."""
    binary = backend.compiler.compile(backend.renderer.render(plain()))
    assert isinstance(binary.data, bytes)
    assert backend.compiler.key is not None
    assert backend.compiler.key.startswith(backend.compiler_name)
    for _ in range(2):
        program = backend.load(binary)
        x, out = (backend.allocator.alloc(20) for _ in range(2))
        backend.allocator.copy_in(x, memoryview(np.arange(5, dtype=np.float32)))
        program.launch([out, x], [], (1, 1, 1))
        assert out.view.cast("f").tolist() == [3, 4, 5, 6, 7]


def test_loaded_code_is_given_back(backend: CpuBackend) -> None:
    """A thousand programs loaded and dropped do not stay mapped."""
    if not Path("/proc/self/maps").exists():
        pytest.skip("no /proc/self/maps to count mappings in")
    binary = backend.compiler.compile(backend.renderer.render(plain()))

    def mapped() -> int:
        return len(Path("/proc/self/maps").read_text().splitlines())

    for _ in range(20):
        backend.load(binary)
    before = mapped()
    for _ in range(200):
        backend.load(binary)
    assert mapped() < before + 100


def test_compiling_from_several_threads(backend: CpuBackend, run_threads: Callable[..., list[Any]]) -> None:
    """Eight threads that compile and run at once each get their own kernel."""

    def job(k: int) -> list[float]:
        linear = plain(k + 1)
        program = backend.load(backend.compiler.compile(backend.renderer.render(linear)))
        x, out = (backend.allocator.alloc(4 * (k + 1)) for _ in range(2))
        backend.allocator.copy_in(x, memoryview(np.full(k + 1, k, np.float32)))
        program.launch([out, x], [], (1, 1, 1))
        return list(out.view.cast("f"))

    assert run_threads(job, 8) == [[k + 3.0] * (k + 1) for k in range(8)]


GUARDED = """
import ctypes, mmap
import numpy as np
from tinygraft import Tensor
system = ctypes.CDLL(None)
system.mmap.restype, system.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3,
                                                              ctypes.c_long]
system.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
page = mmap.PAGESIZE
base = system.mmap(None, 3 * page, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0)
for other in (base, base + 2 * page):
    assert system.mprotect(other, page, 0) == 0
for n in (4, 8, 16):
    for at, padding, start in ((base + page, (1, 0), 0), (base + 2 * page - 4 * n, (0, 1), 1)):
        a = np.frombuffer((ctypes.c_float * n).from_address(at), np.float32)
        a[:] = np.arange(n)
        x, lanes = Tensor.from_blob(at, (n,), dtype="float32", device="CPU"), Tensor.arange(n)
        moved = x.pad(padding)[start : start + n]
        Tensor.where(lanes < 3 if start else lanes >= 3, moved, x.flip(0)).tolist()
        (moved * 2).tolist()
    print(n)
"""


@pytest.mark.needs("cc")
@pytest.mark.skipif(sys.platform != "linux", reason="pages are protected by mprotect of Linux")
@pytest.mark.parametrize("route", ["c", "llvm"])
def test_no_lane_is_read_that_a_mask_leaves_out(route: str) -> None:
    """Memory that ends at a page that cannot be read: GCC 12 read there where it knew the mask."""
    done = subprocess.run(
        [sys.executable, "-c", GUARDED], env={**os.environ, "CPU_COMPILER": route, "CACHELEVEL": "0"},
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.split()) == (0, ["4", "8", "16"]), done.stderr[-2000:]
