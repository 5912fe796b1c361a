"""What goes wrong, each with a sentence that says what was found and what to do: on the emulated HIP."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import hip_emulator
from tinygraft_amd import probe

OPEN = """
from tinygraft import Device, Tensor
try:
    print(Tensor([1.0, 2.0], device="AMD{ordinal}").realize().tolist(), Device["AMD{ordinal}"].device)
except Exception as error:
    print(type(error).__name__, error)
"""
pytestmark = pytest.mark.needs("cc")


def said(code: str = "", ordinal: str = "", **settings: str) -> str:
    """What a program prints on the emulated HIP; by default one that opens AMD."""
    done = hip_emulator.python(code or OPEN.format(ordinal=ordinal), **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_no_rocm_says_what_to_install() -> None:
    """Where there is no HIP the error names the library that is missing."""
    if not probe.hip()[1]:
        pytest.skip("this machine has ROCm")
    code = OPEN.format(ordinal="")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "AMD is installed" in done.stdout
    assert "libamdhip64.so cannot be loaded" in done.stdout
    assert "fix: install AMD's ROCm, 6.2 or newer" in done.stdout


def test_a_hip_that_is_too_old() -> None:
    """Its compiler does not round the square root."""
    found = said(EMULATED_DRIVER="60032830")
    assert "this is HIP 6.0, and 6.2 is the oldest that works" in found
    assert "update ROCm to 6.2 or newer" in found


@pytest.mark.parametrize(
    ("name", "version"),
    [("libamdhip64.so.6.2.60204", 60_200_000), ("libamdhip64.so.7.0.70002", 70_000_000), ("libamdhip64.so.6", 0)],
)
def test_the_version_is_in_the_name_of_the_file(tmp_path: Path, name: str, version: int) -> None:
    """HIP is not asked for it where only a probe is wanted: asked, it starts."""
    (tmp_path / name).touch()
    (tmp_path / "libamdhip64.so").symlink_to(tmp_path / name)
    assert probe.version_of(str(tmp_path / "libamdhip64.so")) == version


def test_probing_starts_nothing() -> None:
    """Devices are listed, and a child that is forked then uses the card."""
    found = said("""
import os, sys
from tinygraft import Device, Tensor
from tinygraft_amd import driver, probe
print(probe.probe())
assert driver.start.cache_info().currsize == 0
sys.stdout.flush()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    print((Tensor([1.0], device="AMD") + 1).tolist())
    sys.stdout.flush()
    os._exit(0)
""")
    assert "ok=True, detail='HIP in libamdhip64.so.6, called by cffi'" in found
    assert found.endswith("[2.0]\n")


def test_an_architecture_that_the_compiler_does_not_know() -> None:
    """The compiler's own words, with the architecture."""
    code = OPEN.format(ordinal="").replace("print(Tensor", "print((1 + Tensor").replace(").realize", ")).realize")
    found = said(code, EMULATED_ARCH="gfx803")
    assert "hipRTC 6.4 in" in found
    assert "for gfx803: " in found
    assert "invalid target ID" in found


def test_no_card_is_left() -> None:
    """HIP_VISIBLE_DEVICES hides all of them, or there is none."""
    found = said(HIP_VISIBLE_DEVICES="-1")
    assert "HIP_VISIBLE_DEVICES='-1' hides all cards" in found
    assert "fix: unset HIP_VISIBLE_DEVICES, or name cards that rocminfo shows" in found
    assert "CUDA_VISIBLE_DEVICES='-1' hides all cards" in said(HIP_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="-1")
    assert "CUDA_VISIBLE_DEVICES='7' leaves none" in said(CUDA_VISIBLE_DEVICES="7")
    found = said(HIP_VISIBLE_DEVICES="7")
    assert "HIP 6.4 has no card for this process; HIP_VISIBLE_DEVICES='7' leaves none" in found
    assert "the groups render and video" in said(EMULATED_DEVICES="0")


def test_cards_are_chosen_by_number_uuid_and_name() -> None:
    """By HIP's variable, and by AMD_DEVICE."""
    second = "GPU-2021222324252627"
    assert said(HIP_VISIBLE_DEVICES="1").strip().endswith(f"Emulated GPU 1 ({second})")
    assert said(HIP_VISIBLE_DEVICES="", CUDA_VISIBLE_DEVICES="1").strip().endswith(f"Emulated GPU 1 ({second})")
    assert said(HIP_VISIBLE_DEVICES="", AMD_DEVICE="1").strip().endswith(f"({second})")
    assert said(AMD_DEVICE="GPU-2021, 0").strip().endswith(f"({second})")
    assert said(ordinal=":1").strip().endswith(f"({second})")
    assert "no card is called AMD_DEVICE='MI300'; there are: 0: Emulated GPU 0 (GPU-1011" in said(AMD_DEVICE="MI300")
    assert "there is no card 7; these are all: 0: Emulated GPU 0 (GPU-1011" in said(ordinal=":7")


def test_no_room() -> None:
    """The message has what is free and what shows who uses it; the card goes on."""
    found = said("""
from tinygraft import Tensor
try:
    z = Tensor.zeros(80 << 18, device="AMD").contiguous().realize()
except MemoryError as error:
    while error is not None:
        print(type(error).__name__, error)
        error = error.__cause__
print((Tensor([1.0], device="AMD") + 1).tolist())
""", EMULATED_MEMORY="64")  # fmt: skip
    assert "of the 67108864 bytes of Emulated GPU 0 (GPU-1011" in found
    assert "are free; rocm-smi --showpids shows which programs use it" in found
    assert found.splitlines()[-1] == "[2.0]"


FAULT = """
from dataclasses import replace
from tinygraft import Device, Tensor
from tinygraft.conformance.levels.optional_launches import spinning
from tinygraft.plugin import Binary, Signature
backend = Device["AMD"]
for data in (b"no code at all" + bytes(100), b"\\x7fELF" + bytes(14) + bytes([224]) + bytes(100)):
    try:
        backend.load(Binary("k", data, Signature(())))
    except Exception as error:
        print(type(error).__name__, error)
x, other = (Tensor([1.0, 2.0], device=d).realize() for d in ("AMD", "AMD:1"))
x.tolist()
source = backend.renderer.render(spinning(10))
bad = replace(source, text=source.text.replace("data0[0] =", "data0[1ll << 40] ="))
assert bad.text != source.text
program = backend.load(backend.compiler.compile(bad))
handle = backend.allocator.alloc(4)
program.launch([handle, handle], [], (1, 1, 1))
for what in (lambda: (x + 1).tolist(), lambda: x.tolist(), lambda: (other * 2 + 1).tolist()):
    try:
        print(what())
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_code_that_is_refused_and_a_kernel_that_faults() -> None:
    """Code for another machine is refused by name; a fault loses its card alone."""
    found = said(FAULT)
    assert found.count("HIP 6.4 does not take the machine code of kernel k for Emulated GPU 0") == 2
    assert "hipErrorInvalidImage" in found
    assert "hipErrorNoBinaryForGpu" in found
    assert "hipErrorIllegalAddress (an illegal memory access was encountered)" in found
    assert "LAUNCH_BLOCKING=1 names it, and AMD_LOG_LEVEL=3" in found
    assert "AMD stopped answering, and the values in its memory are lost: " in found
    assert found.endswith("[3.0, 5.0]\n")


def test_a_fork_after_the_start() -> None:
    """The child is told; the parent goes on."""
    found = said("""
import os, sys
from tinygraft import Tensor
x = Tensor([1.0, 2.0], device="AMD").realize()
sys.stdout.flush()
child = os.fork()
if child:
    os.waitpid(child, 0)
try:
    print("parent" if child else "child", (x + 1).tolist())
except Exception as error:
    print("parent" if child else "child", type(error).__name__, error)
sys.stdout.flush()
if not child:
    os._exit(0)
""")
    assert "HIP was started before this process was forked, and does not work in the child" in found
    assert "parent [2.0, 3.0]" in found


def test_close_destroys_what_was_made() -> None:
    """HIP has no stream, event, module or graph of a closed device."""
    found = said("""
import ctypes, gc
from tinygraft import Device, Tensor, TinyJit
f = TinyJit(lambda x: ((x * 2).contiguous().realize() + 1).realize())
x = Tensor([1.0, 2.0], device="AMD").realize()
for i in range(4):
    y = f(x)
driver = ctypes.CDLL("libamdhip64.so.6")
driver.emulated_living.restype = ctypes.c_long
living = lambda: [driver.emulated_living(kind) for kind in (b"stream", b"event", b"module", b"graph", b"executable")]
before = living()
Device.close()
gc.collect()
print(all(before), living(), (Tensor([1.0], device="AMD") + 1).tolist())
""")
    assert found == "True [0, 0, 0, 0, 0] [2.0]\n"
