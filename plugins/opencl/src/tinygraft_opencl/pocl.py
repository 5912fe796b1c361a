"""PoCL, OpenCL on the processor, and what its builds need before they can be used.

- It runs an external `ld` for every kernel, and ends the process where there is none.
- It compiles a kernel anew for each size of a group unless told not to, so that a binary would not spare that.
- Its LLVM knows the processors of its own time. It calls any other one "generic", which its own compiler then refuses
  ("unknown target CPU 'generic'", pocl issue 1049). The name is kept in its description of the device, and is
  replaced there by one that its LLVM knows and that has no instruction which the processor lacks.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

NAME = "Portable Computing Language"
LINKER = "ld"
GET_LINKER = "install binutils (apt-get install binutils), or choose another platform with OPENCL_PLATFORM"
UNKNOWN = b"generic\0"
REFUSAL = "unknown target CPU"  # what PoCL's compiler says of a processor that it does not know
GET_OTHER = (
    "this PoCL does not know the processor; install a newer one, or Intel's runtime (pip install intel-opencl-rt "
    "intel-cmplr-lib-rt)"
)
SIZE = 4096  # bytes of a description that are searched

# Names no longer than the one they replace, the most able first, each with what a processor of that name has.
PROCESSORS = (
    ("skx", {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl", "avx2", "fma", "bmi1", "bmi2", "f16c"}),
    ("haswell", {"avx2", "fma", "bmi1", "bmi2", "f16c", "movbe"}),
    ("x86-64", {"sse2"}),
)


def is_pocl(platform: str) -> bool:
    """Whether a platform of that name is PoCL."""
    return platform == NAME


def why_unusable() -> str:
    """Why PoCL cannot compile kernels here; empty when it can."""
    if shutil.which(LINKER):
        return ""
    return f"PoCL needs the linker {LINKER} for every kernel, and none is on the PATH"


def prepare() -> None:
    """Settle how PoCL compiles, before it is loaded: once for all sizes of a group. What the user has set holds."""
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")


def name_processor(device: Any) -> str:
    """Give a device whose processor PoCL does not know a name that it does; that name, empty where there is none.

    device is pyopencl's. It is looked at through the system's own door to this process, where a wrong address is an
    error and no crash; nothing is written unless exactly one place holds the name that is replaced. Where it fails, the
    compiler refuses, or does not: newer ones of PoCL know what to do.
    """
    if not device.version.endswith("-generic"):
        return ""
    has = features()
    name = next((name for name, needed in PROCESSORS if needed <= has), "")
    if not name:
        return ""
    with suppress(OSError, OverflowError):
        memory = os.open("/proc/self/mem", os.O_RDWR)
        try:
            for text in (UNKNOWN, new := name.encode() + b"\0"):  # the second where it was replaced before
                if len(places := _places(memory, device.int_ptr, text)) == 1:
                    os.pwrite(memory, new, places.pop())
                    return name
        finally:
            os.close(memory)
    return ""


def features() -> set[str]:
    """What the processor can do, in the words of Linux."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return set()


def _places(memory: int, description: int, text: bytes) -> set[int]:
    """The addresses, among those that a description holds, of a text."""
    words = os.pread(memory, SIZE, description)
    found = set()
    for start in range(0, len(words) - 7, 8):
        address = int.from_bytes(words[start : start + 8], "little")
        with suppress(OSError, OverflowError):
            if SIZE < address < 1 << 47 and os.pread(memory, len(text), address) == text:
                found.add(address)
    return found
