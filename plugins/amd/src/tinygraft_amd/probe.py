"""Whether there may be a card: ROCm's HIP can be loaded. Nothing of it is called, as each of its functions starts it.

A HIP that is started cannot be used after a fork, so how many cards there are is told when one is opened, and so is the
version where the name of the file does not have it. The library is looked for where the loader finds it, and in
ROCM_PATH or /opt/rocm.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from pathlib import Path

from tinygraft.plugin import UNCOUNTED, Probe

NAMES = ("libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so")
OLDEST = 60_200_000  # the HIP whose compiler (LLVM 18) is the first to round the square root of a float correctly
LOADED = Path("/sys/module/amdgpu")
NODES = Path("/dev/kfd")
MAPS = Path("/proc/self/maps")
GET_ROCM = (
    "install AMD's ROCm, 6.2 or newer (rocm.docs.amd.com; in a container start it with --device=/dev/kfd "
    "--device=/dev/dri), or set ROCM_PATH to its folder"
)
UPDATE_ROCM = "update ROCm to 6.2 or newer"
VISIBLE = "HIP_VISIBLE_DEVICES"  # HIP's own variable
ALSO_READ = "CUDA_VISIBLE_DEVICES"  # what HIP reads where its own is empty or not set


def probe() -> Probe:
    """Return whether HIP can be loaded, and its version where the name of its file has it."""
    path, why = hip()
    if why:
        return Probe(ok=False, detail=why, hint=GET_ROCM, warns=False)
    version = version_of(path)
    if version and version < OLDEST:
        return Probe(ok=False, detail=too_old(version), hint=UPDATE_ROCM, warns=NODES.exists())
    name, words = visible()
    if hides_all(words):
        hint = f"unset {name}, or name cards that rocminfo shows"
        return Probe(ok=False, detail=f"{name}={words!r} hides all cards", hint=hint)
    said = f"HIP {dotted(version)}" if version else "HIP"
    return Probe(ok=True, detail=f"{said} in {path}, called by cffi", count=UNCOUNTED)


def hip() -> tuple[str, str]:
    """Return the file of HIP, or its name, loaded; and why there is none: "" where there is one."""
    failed = ""
    for path in candidates():
        try:
            library = ctypes.CDLL(path)
        except OSError as error:
            if os.sep in path:
                failed = f"; {error}"
            continue
        if not hasattr(library, "hipRuntimeGetVersion"):
            return path, f"{path} is no HIP: it has no function hipRuntimeGetVersion"
        return path, ""
    there = "there is the kernel's amdgpu driver, and no HIP" if LOADED.exists() else "there is no ROCm"
    return "", f"{there}: {NAMES[-1]} cannot be loaded{failed}"


def version_of(path: str) -> int:
    """Return the version that the name of a loaded library's file has, such as 60200000; 0 where it has none."""
    file = Path(path)
    if not file.is_absolute() and MAPS.exists():
        used = (line.split()[-1] for line in MAPS.read_text().splitlines() if line.endswith(".so") or ".so." in line)
        file = next((Path(one) for one in used if Path(one).name.startswith("libamdhip64.so")), file)
    found = re.match(r"libamdhip64\.so\.(\d+)\.(\d+)", file.resolve().name)
    return int(found[1]) * 10_000_000 + int(found[2]) * 100_000 if found else 0


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


def visible() -> tuple[str, str]:
    """Return the variable by which HIP hides cards here, and its words; they are "" where it hides none.

    An empty one is the same as none for HIP, unlike for CUDA's driver.
    """
    found = ((name, os.environ.get(name, "")) for name in (VISIBLE, ALSO_READ))
    return next(((name, words) for name, words in found if words), (VISIBLE, ""))


def hides_all(words: str) -> bool:
    """Return whether the words of such a variable name no card: HIP ends at the first that is none.

    >>> hides_all("-1"), hides_all(",0"), hides_all("0,1"), hides_all("")
    (True, True, False, False)
    """
    return bool(words) and words.partition(",")[0].strip() in ("", "-1")


def too_old(version: int) -> str:
    """Return the sentence on a HIP that is too old."""
    return f"this is HIP {dotted(version)}, and {dotted(OLDEST)} is the oldest that works"


def dotted(version: int) -> str:
    """Return a version of HIP as people write it.

    >>> dotted(60241133), dotted(70051831)
    ('6.2', '7.0')
    """
    return f"{version // 10_000_000}.{version // 100_000 % 100}"
