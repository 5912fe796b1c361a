"""Whether there may be a card: ROCm's HIP can be loaded. It is asked for its version, which opens no card.

The library is looked for where the loader finds it, and in ROCM_PATH or /opt/rocm. How many cards there are is told
when one is opened.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

from tinygraft.plugin import UNCOUNTED, Probe

NAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so")
OLDEST = 60_200_000  # the HIP whose compiler (LLVM 18) is the first to round the square root of a float correctly
LOADED = Path("/sys/module/amdgpu")
NODES = Path("/dev/kfd")
GET_ROCM = (
    "install AMD's ROCm, 6.2 or newer (rocm.docs.amd.com; in a container start it with --device=/dev/kfd "
    "--device=/dev/dri), or set ROCM_PATH to its folder"
)
UPDATE_ROCM = "update ROCm to 6.2 or newer"
VISIBLE = "HIP_VISIBLE_DEVICES"  # HIP's own variable


def probe() -> Probe:
    """Return whether HIP can be loaded, and its version."""
    _, version, why = hip()
    if why:
        return Probe(ok=False, detail=why, hint=GET_ROCM, warns=False)
    if version < OLDEST:
        return Probe(ok=False, detail=too_old(version), hint=UPDATE_ROCM, warns=NODES.exists())
    if hidden := hides_all(os.environ.get(VISIBLE)):
        return Probe(ok=False, detail=hidden, hint=f"unset {VISIBLE}, or name cards that rocminfo shows")
    return Probe(ok=True, detail=f"HIP {dotted(version)}, called by cffi", count=UNCOUNTED)


def hip() -> tuple[str, int, str]:
    """Return the file of HIP or its name, its version such as 60241133, and why it cannot be told: "" where it can."""
    failed = ""
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            if os.sep in path:
                failed = f"; {error}"
            continue
        version = ctypes.c_int()
        try:
            result = library.hipRuntimeGetVersion(ctypes.byref(version))
        except AttributeError as error:
            return path, 0, f"{path} is no HIP: {error}"
        if result or not version.value:
            return path, 0, f"{path} does not tell its version (result {result})"
        return path, version.value, ""
    there = "there is the kernel's amdgpu driver, and no HIP" if LOADED.exists() else "there is no ROCm"
    return "", 0, f"{there}: {NAMES[-1]} cannot be loaded{failed}"


def candidates() -> Iterator[str]:
    """Yield the files and names under which HIP may be."""
    yield from NAMES
    for folder in rocm_folders():
        for name in reversed(NAMES):
            if (folder / "lib" / name).exists():
                yield str(folder / "lib" / name)


def rocm_folders() -> list[Path]:
    """Return the folders in which ROCm may be."""
    return [Path(folder) for folder in (os.environ.get("ROCM_PATH"), "/opt/rocm") if folder]


def hides_all(visible: str | None) -> str:
    """Return the sentence on a HIP_VISIBLE_DEVICES that is set to hide all cards; "" where it is not.

    >>> hides_all("-1"), hides_all("0,1"), hides_all(None)
    ("HIP_VISIBLE_DEVICES='-1' hides all cards", '', '')
    """
    if visible is None or visible.partition(",")[0].strip() not in ("", "-1"):
        return ""
    return f"{VISIBLE}={visible!r} hides all cards"


def too_old(version: int) -> str:
    """Return the sentence on a HIP that is too old."""
    return f"this is HIP {dotted(version)}, and {dotted(OLDEST)} is the oldest that works"


def dotted(version: int) -> str:
    """Return a version of HIP as people write it.

    >>> dotted(60241133), dotted(70051831)
    ('6.2', '7.0')
    """
    return f"{version // 10_000_000}.{version // 100_000 % 100}"
