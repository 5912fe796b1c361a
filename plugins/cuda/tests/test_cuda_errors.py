"""What goes wrong, each with a sentence that says what was found and what to do: on the emulated driver."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import cuda_emulator
from tinygraft_cuda import probe

OPEN = """
from tinygraft import Device, Tensor
try:
    print(Tensor([1.0, 2.0], device="CUDA{ordinal}").realize().tolist(), Device["CUDA{ordinal}"].device)
except Exception as error:
    print(type(error).__name__, error)
"""
pytestmark = pytest.mark.needs("cc")


def said(code: str = "", ordinal: str = "", **settings: str) -> str:
    """What a program prints on the emulated driver; by default one that opens CUDA."""
    done = cuda_emulator.python(code or OPEN.format(ordinal=ordinal), **{"CUDA_BINDING": "cffi", **settings})
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


# The driver


def test_no_driver_says_what_to_install() -> None:
    """Where there is no driver the error names the library that is missing, and the probe took no time."""
    if not probe.driver_version()[1]:
        pytest.skip("this machine has a driver")
    code = OPEN.format(ordinal="")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert "CUDA is installed" in done.stdout
    assert "there is no NVIDIA driver: libcuda.so.1 cannot be loaded" in done.stdout
    assert "fix: install NVIDIA's driver, 580 or newer" in done.stdout


def test_a_driver_without_functions_is_too_old() -> None:
    """A driver for CUDA 11 lacks functions that are called."""
    found = said(EMULATED_DRIVER="11080")
    assert "the driver is for CUDA 11.8, and 12.0 is the oldest that works" in found
    assert "update NVIDIA's driver to 580 or newer" in found
    code = "import warnings; warnings.simplefilter('error')\n" + OPEN.format(ordinal="").replace(', device="CUDA"', "")
    found = said(code, EMULATED_DRIVER="11080")  # where another device is chosen, it says so
    assert "using CPU; passed over: CUDA is installed" in found
    assert "the driver is for CUDA 11.8, and 12.0 is the oldest that works" in found


def test_a_driver_older_than_the_toolkit() -> None:
    """A driver for CUDA 12 takes no code of NVRTC 13: the message has both ways out."""
    found = said(EMULATED_DRIVER="12040")
    assert "DeviceUnavailable" in found
    assert "the driver is for CUDA 12.4 and takes no code of a newer toolkit, and there is only NVRTC 13.0 in" in found
    assert "install a newer driver (580 or later for CUDA 13), or pip install 'nvidia-cuda-nvrtc-cu12'" in found


def test_the_toolkits_stub_is_no_driver() -> None:
    """libcuda.so.1 of the toolkit, for linking, has no version."""
    assert "libcuda.so.1 is a stub, which comes with the toolkit for linking, and no driver" in said(
        EMULATED_DRIVER="0"
    )


# The compiler


@pytest.mark.parametrize(
    ("capability", "way"),
    [
        (
            "61",
            "it is too old for this NVRTC, and CUDA 12's knows it: pip uninstall nvidia-cuda-nvrtc, then pip install",
        ),
        ("130", "install a newer NVRTC, and name its file in CUDA_NVRTC"),
    ],
)
def test_an_unknown_architecture(capability: str, way: str) -> None:
    """A card that this NVRTC does not know."""
    found = said(EMULATED_CAPABILITY=capability)
    assert f"this card is of architecture sm_{capability}, and NVRTC 13.0 makes code for sm_75, sm_80, " in found
    assert way in found


def test_a_wrong_name_of_nvrtc(tmp_path: Path) -> None:
    """CUDA_NVRTC that names no library."""
    found = said(CUDA_NVRTC=str(tmp_path / "libnvrtc.so"))
    assert "the NVRTC that CUDA_NVRTC names cannot be loaded" in found
    assert "name the file of libnvrtc, or unset it" in found


# Cards


def test_no_card_is_left() -> None:
    """CUDA_VISIBLE_DEVICES hides all of them."""
    found = said(CUDA_VISIBLE_DEVICES="")
    assert "CUDA_VISIBLE_DEVICES='' hides all cards" in found
    assert "fix: unset CUDA_VISIBLE_DEVICES, or name cards that nvidia-smi -L shows" in found
    assert "hides all cards" in said(CUDA_VISIBLE_DEVICES="-1,0")
    found = said(CUDA_VISIBLE_DEVICES="7")
    assert "the driver, for CUDA 13.0, has no card for this process; CUDA_VISIBLE_DEVICES='7' leaves none" in found
    assert "nvidia-smi -L shows which there are" in said(EMULATED_DEVICES="0")


def test_cards_are_chosen_by_number_uuid_and_name() -> None:
    """By the driver's variable, and by CUDA_DEVICE."""
    second = "GPU-20212223-2425-2627-2829-2a2b2c2d2e2f"
    assert said(CUDA_VISIBLE_DEVICES="1").strip().endswith(f"Emulated GPU 1 ({second})")
    assert said(CUDA_DEVICE="1").strip().endswith(f"({second})")
    assert said(CUDA_DEVICE="1,0").strip().endswith(f"({second})")
    assert said(CUDA_DEVICE="GPU-2021").strip().endswith(f"({second})")
    assert said(CUDA_DEVICE="gpu 1, gpu 0").strip().endswith(f"({second})")
    assert said(ordinal=":1").strip().endswith(f"({second})")
    found = said(CUDA_DEVICE="H100")
    assert "no card is called CUDA_DEVICE='H100'; there are: 0: Emulated GPU 0 (GPU-1011" in found
    found = said(ordinal=":7")
    assert "there is no card 7; these are all: 0: Emulated GPU 0 (GPU-1011" in found
    assert "there is no card 1; this is the only one: 0: Emulated GPU 1" in said(ordinal=":1", CUDA_DEVICE="1")
    assert "no card is called CUDA_DEVICE='5'; there are: 0: " in said(CUDA_DEVICE="5")
    assert "(CUDA_VISIBLE_DEVICES='1' may hide others)" in said(ordinal=":1", CUDA_VISIBLE_DEVICES="1")


def test_a_slice_of_a_card_is_chosen_by_its_uuid() -> None:
    """The driver shows a MIG slice only where CUDA_VISIBLE_DEVICES names it: CUDA_DEVICE sees to that."""
    found = said(CUDA_DEVICE="MIG-20212223-2425-2627-2829-2a2b2c2d2e2f")
    assert "Emulated GPU 1 MIG 1g.5gb (MIG-20212223" in found


def test_a_card_that_another_process_has() -> None:
    """Set to serve one process alone, which is another one."""
    found = said(EMULATED_TAKEN="1")
    assert "is taken: it is set to serve one process alone, or none; end that process (nvidia-smi shows it)" in found
    assert "nvidia-smi -c DEFAULT" in found


def test_two_processes_share_a_card() -> None:
    """Two programs at the same time both get their values."""
    command = [sys.executable, "-c", OPEN.format(ordinal="")]
    both = [subprocess.Popen(command, env=cuda_emulator.environment(), stdout=subprocess.PIPE, text=True) for _ in "ab"]
    assert all(process.communicate(timeout=120)[0].startswith("[1.0, 2.0]") for process in both)


# Bindings


def test_a_binding_that_there_is_not() -> None:
    """A name that is none, and pycuda where it is not installed."""
    assert "CUDA_BINDING must be pycuda, cffi or empty, got 'ctypes'" in said(CUDA_BINDING="ctypes")
    hide = "import sys; sys.modules['pycuda'] = None\n"
    found = said(hide + OPEN.format(ordinal=""), CUDA_BINDING="pycuda")
    assert "CUDA_BINDING=pycuda: pycuda is not installed; python -m tinygraft_cuda.build_pycuda builds and" in found


# Memory, faults, forks


def test_no_room() -> None:
    """The message has what is free; what is kept for reuse goes first, and the card goes on."""
    found = said("""
from tinygraft import Device, Tensor, GlobalCounters
x = Tensor.zeros(20 << 18, device="CUDA").contiguous().realize()   # 20 MiB
del x
y = Tensor.zeros(48 << 18, device="CUDA").contiguous().realize()   # only if the 20 were given back
print(y[5].item())
try:
    z = Tensor.zeros(60 << 18, device="CUDA").contiguous().realize()
except MemoryError as error:
    cause = error
    while cause is not None:
        print(type(cause).__name__, cause)
        cause = cause.__cause__
print((Tensor([1.0], device="CUDA") + y[1]).tolist())
""", EMULATED_MEMORY="64")  # fmt: skip
    lines = found.splitlines()
    assert lines[0] == "0.0"
    assert "CUDA has no room for a buffer of 62914560 bytes" in found
    assert "of the 67108864 bytes of Emulated GPU 0 (GPU-1011" in found
    assert "are free; nvidia-smi shows which programs use it" in found
    assert lines[-1] == "[1.0]"


FAULT = """
from dataclasses import replace
from tinygraft import Device, Tensor, Context
from tinygraft.conformance.levels.optional_launches import spinning
backend = Device["CUDA"]
x, other, host = (Tensor([1.0, 2.0], device=d).realize() for d in ("CUDA", "CUDA:1", "CPU"))
x.tolist()
source = backend.renderer.render(spinning(10))
bad = replace(source, text=source.text.replace("data0[0] =", "data0[1ll << 40] ="))
assert bad.text != source.text
program = backend.load(backend.compiler.compile(bad))
handle = backend.allocator.alloc(4)
program.launch([handle, handle], [], (1, 1, 1))
for what in (lambda: (x + 1).tolist(), lambda: x.tolist(), lambda: other.tolist(), lambda: (other * 2 + 1).tolist(),
             lambda: (host + 1).tolist()):
    try:
        print(what())
    except Exception as error:
        print(type(error).__name__, error)
"""


def test_a_faulting_kernel_loses_its_card_alone() -> None:
    """DeviceLostError, how to find the kernel, then that what lived there is lost; other devices go on."""
    first, *rest = said(FAULT).split("\nDeviceLostError ")
    assert first.startswith("DeviceLostError CUDA")
    assert "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)" in first
    assert "LAUNCH_BLOCKING=1 names it, and compute-sanitizer" in first
    assert rest[0].startswith("CUDA stopped answering, and the values in its memory are lost: ")
    assert rest[0].endswith("[1.0, 2.0]\n[3.0, 5.0]\n[2.0, 3.0]\n")


def test_launch_blocking_names_the_kernel() -> None:
    """A kernel of a tensor's that faults is named where each launch is waited for."""
    found = said("""
from tinygraft import Device, Tensor, Context
backend = Device["CUDA"]
render = backend.renderer.render
def bad(linear):
    from dataclasses import replace
    source = render(linear)
    return replace(source, text=source.text.replace("data0[", "data0[(1ll << 40) + "))
x = Tensor([1.0, 2.0], device="CUDA").realize()
backend.renderer.render = bad
with Context(LAUNCH_BLOCKING=1, CACHELEVEL=0):
    try:
        (x * 3 - 1).realize()
    except Exception as error:
        print(type(error).__name__, error)
""")
    assert found.startswith("DeviceLostError E_2")
    assert " on CUDA failed: " in found


def test_a_fork_after_the_start() -> None:
    """The child is told, about the device and about tensors of the parent; the parent goes on."""
    found = said("""
import os, sys
from tinygraft import Device, Tensor
x = Tensor([1.0, 2.0], device="CUDA").realize()
sys.stdout.flush()
child = os.fork()
if child:
    os.waitpid(child, 0)  # so that their lines do not mix
for what in (lambda: x.tolist(), lambda: Tensor([1.0], device="CUDA").realize()):
    try:
        print("parent" if child else "child", what())
    except Exception as error:
        print("parent" if child else "child", type(error).__name__, error)
sys.stdout.flush()
if not child:
    os._exit(0)
""")
    assert found.count("child DeviceUnavailable CUDA is installed") == 2
    assert "the CUDA driver was started before this process was forked, and does not work in the child" in found
    assert "start worker processes with the spawn method, or use CUDA in the child only" in found
    assert "parent [1.0, 2.0]" in found


def test_code_that_the_driver_does_not_take() -> None:
    """Machine code for another card, and what is none."""
    found = said("""
from tinygraft import Device
from tinygraft.plugin import Binary, Signature
backend = Device["CUDA"]
for data in (b"no code at all", b"\\x7fELF" + bytes(14) + bytes([190]) + bytes(100)):
    try:
        backend.load(Binary("k", data, Signature(())))
    except Exception as error:
        print(type(error).__name__, error)
""")
    assert found.count("does not take the machine code of kernel k for Emulated GPU 0") == 2
    assert "CUDA_ERROR_INVALID_IMAGE" in found
    assert "CUDA_ERROR_NO_BINARY_FOR_GPU" in found
    assert "update the driver, or let DEBUG=7 show what was made" in found
