"""PoCL, OpenCL on the processor, and what its builds need before they can be used.

- It runs an external `ld` for every kernel, and ends the process where there is none.
- It compiles a kernel anew for each work-group size, also from a binary, unless an environment variable forbids it.
- Its LLVM has the processors of its own time and names any newer one "generic". On x86-64 its own compiler then
  refuses that name ("unknown target CPU 'generic'", pocl issue 1049), so such a device cannot compile any kernel.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

NAME = "Portable Computing Language"
LINKER = "ld"
GET_LINKER = "install binutils (apt-get install binutils), or choose another platform with OPENCL_PLATFORM"
REFUSAL = "unknown target CPU"  # what PoCL's compiler writes about a processor that it does not know
INTEL = Path(sys.prefix, "lib", "libintelocl.so")  # where pip puts Intel's runtime; it registers the library nowhere
GET_OTHER = (
    "this PoCL does not know the processor; install a newer one, or Intel's runtime (pip install intel-opencl-rt "
    f"intel-cmplr-lib-rt, then set OCL_ICD_VENDORS={INTEL})"
)


def is_pocl(platform: str) -> bool:
    """Return whether a platform of that name is PoCL."""
    return platform == NAME


def missing_linker() -> str:
    """Return why PoCL cannot link kernels here; empty where it can."""
    return "" if shutil.which(LINKER) else f"PoCL needs the linker {LINKER} for every kernel, and none is on the PATH"


def unknown_processor(device: Any) -> str:
    """Return why PoCL cannot compile for the processor `device` (pyopencl's); empty where it can.

    On other systems than x86-64 its compiler accepts the name "generic".
    """
    described = device.version.strip()
    known = "x86_64" not in described or not described.endswith("-generic")
    return "" if known else f"PoCL cannot compile for {device.name.strip()} ({described})"


def why_unusable(device: Any) -> str:
    """Return why a device of pyopencl cannot run kernels here, and what to do; empty where it can, or is not PoCL's."""
    if not is_pocl(device.platform.name):
        return ""
    if missing := missing_linker():
        return f"{missing}; {GET_LINKER}"
    unknown = unknown_processor(device)
    return unknown and f"{unknown}; {GET_OTHER}"


def prepare() -> None:
    """Let PoCL compile a kernel once for all work-group sizes; called before it is loaded.

    Sets an environment variable, unless the user has set it.
    """
    os.environ.setdefault("POCL_WORK_GROUP_SPECIALIZATION", "0")


def features() -> set[str]:
    """Return the processor's instruction sets, as Linux names them; none on another system."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("flags"):
                return set(line.partition(":")[2].split())
    return set()
