"""What goes wrong, each with a sentence that says what was found and what to do: on the emulated Metal, and without."""

from __future__ import annotations

import subprocess
import sys

import pytest

import metal_emulator
from tinygraft.errors import DeviceError
from tinygraft_metal.compiler import packed, unpacked

OPEN = """
from tinygraft import Device, Tensor
try:
    print((Tensor([1.0, 2.0], device="METAL{ordinal}") + 1).tolist(), Device["METAL{ordinal}"].card)
except Exception as error:
    print(type(error).__name__, error)
"""
pytestmark = pytest.mark.needs("cc")


def said(code: str = "", ordinal: str = "", **settings: str) -> str:
    """What a program prints on the emulated Metal; by default one that opens METAL."""
    done = metal_emulator.python(code or OPEN.format(ordinal=ordinal), **settings)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.skipif(sys.platform == "darwin", reason="this machine may have Metal")
def test_a_machine_that_is_no_mac_says_so() -> None:
    """The device is unavailable, with the reason and what to use."""
    done = subprocess.run([sys.executable, "-c", OPEN.format(ordinal="")], capture_output=True, text=True, timeout=60)
    assert "Metal is a part of macOS, and this is linux" in done.stdout, done.stderr
    assert "use a Mac, or another device" in done.stdout


def test_gpus_are_chosen_by_number_and_name() -> None:
    """By METAL_DEVICE; what there is not is named with what there is."""
    first, second = said(), said(METAL_DEVICE="1")
    assert first.startswith("[2.0, 3.0] ")
    assert second.startswith("[2.0, 3.0] ")
    assert first != second
    assert said(ordinal=":1") == second
    assert "METAL_DEVICE='M9'; there are: 0: " in said(METAL_DEVICE="M9")
    assert "Metal has no GPU for this process" in said(EMULATED_GPUS="0")


def test_settings_that_are_none() -> None:
    """METAL_ICB has three values, and needs the GPU's."""
    assert "SettingError METAL_ICB must be 0, 1 or empty, got 'yes'" in said(METAL_ICB="yes")
    assert "METAL_ICB=1 needs indirect command buffers for kernels, which" in said(METAL_ICB="1", EMULATED_NO_ICB="1")


def test_no_room() -> None:
    """The message has what is allocated; the GPU goes on."""
    found = said("""
from tinygraft import Tensor
try:
    Tensor.zeros(1 << 22, device="METAL").contiguous().realize()
except MemoryError as error:
    while error is not None:
        print(type(error).__name__, error)
        error = error.__cause__
print((Tensor([1.0], device="METAL") + 1).tolist())
""", EMULATED_ROOM=str(1 << 20))  # fmt: skip
    assert "could not allocate 16777216 bytes" in found
    assert "that Metal recommends are allocated" in found
    assert found.endswith("[2.0]\n")


FAULT = """
import time
from dataclasses import replace
from tinygraft import Device
from tinygraft.conformance.linears import group_sum
from tinygraft.uop.stages import Signature

backend = Device["METAL"]
program = backend.load(backend.compiler.compile(backend.renderer.render(replace(group_sum(), target=backend.target))))
x, y = backend.allocator.alloc(1024), backend.allocator.alloc(1024)
wrong = backend.allocator.view(x, 0, 8)
wrong.offset = 4096
first, second = backend.make_queue(), backend.make_queue()
first.launch(program, [wrong, y], (), (1, 1, 1))
second.wait(first.record())
second.launch(program, [x, y], (), (1, 1, 1))
begin, event = time.perf_counter(), second.record()
try:
    event.wait()
except Exception as error:
    print(type(error).__name__, error)
event.point.before.waitUntilCompleted()
print(time.perf_counter() - begin < 10)
"""


def test_a_queue_that_waits_for_work_that_failed() -> None:
    """Its host is told, and it goes on: what failed has signalled nothing."""
    found = said(FAULT, EMULATED_LATE="20000").splitlines()
    assert found[0].startswith("DeviceLostError METAL failed while it computed: Caused GPU Error: "), found
    assert found[1:] == ["True"]


def test_a_child_that_is_forked_says_what_to_do() -> None:
    """Metal does not work there."""
    found = said("""
import os, sys
from tinygraft import Tensor
print((Tensor([1.0], device="METAL") + 1).tolist())
sys.stdout.flush()
child = os.fork()
if child:
    os.waitpid(child, 0)
else:
    try:
        print((Tensor([1.0], device="METAL") + 1).tolist())
    except Exception as error:
        print(type(error).__name__, error)
    sys.stdout.flush()
    os._exit(0)
""")
    assert found.startswith("[2.0]\n")
    assert "spawn" in found


def test_metal_refuses_a_kernel_in_its_own_words() -> None:
    """The error has the log, the source and the GPU."""
    found = said("""
from tinygraft import Device
from tinygraft.uop.stages import Signature, Source
try:
    Device["METAL"].compiler.compile(Source("f", "kernel void f(device float *x) { x[0] = ; }", "metal", Signature(())))
except Exception as error:
    print(type(error).__name__, error, "expression" in error.log)
""")
    assert "CompileError Metal refused kernel f for Emulated" in found
    assert found.endswith("True\n")


def test_a_gpu_without_archives_or_vectors_computes() -> None:
    """What a GPU need not have is not needed."""
    assert said(EMULATED_NO_ARCHIVES="1", EMULATED_NO_VECTORS="1", CACHELEVEL="0").startswith("[2.0, 3.0] ")


def test_too_many_threads_for_the_registers() -> None:
    """The kernel and both numbers, and the setting that does without."""
    found = said("""
from tinygraft import Device
from tinygraft.conformance.linears import group_sum
backend = Device["METAL"]
try:
    backend.load(backend.compiler.compile(backend.renderer.render(group_sum())))
except Exception as error:
    print(type(error).__name__, error)
""", EMULATED_MOST_THREADS="1")  # fmt: skip
    assert "with its registers this GPU runs 1; NOOPT=1 writes it without" in found


def test_bytes_that_are_no_kernel() -> None:
    """Of another kind, and cut off."""
    with pytest.raises(DeviceError, match="these bytes are no kernel of this plugin; remove the cache"):
        unpacked(b"\x7fELF")
    with pytest.raises(DeviceError, match="the bytes of this kernel end too early; remove the cache"):
        unpacked(packed("kernel void f() {}", b"")[:-3])
