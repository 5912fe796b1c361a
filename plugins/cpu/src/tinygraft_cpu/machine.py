"""This machine: its processor's features, caches, usable threads and compilers.

Every function returns a value on any system: what cannot be read has a modest default.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import platform
import re
import shlex
import shutil
from pathlib import Path

CC_NAMES = ("cc", "gcc", "clang")
X86_FEATURES = frozenset({
    "sse4_1", "sse4_2", "avx", "avx2", "fma", "f16c", "avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_bf16",
    "avx512_vnni", "avx512_fp16", "amx_tile", "amx_bf16", "amx_int8",
})  # fmt: skip


@functools.cache
def features() -> frozenset[str]:
    """Return the instruction set extensions by the names of /proc/cpuinfo; empty where that cannot be read."""
    match = re.search(r"^(?:flags|Features)\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return frozenset(match.group(1).split()) if match else frozenset()


def model() -> str:
    """Return the name of the processor; empty where that cannot be read."""
    match = re.search(r"^model name\s*:(.*)$", _read("/proc/cpuinfo"), re.MULTILINE)
    return match.group(1).strip() if match else ""


def arch() -> str:
    """Return the processor as one line: everything that code generation depends on."""
    return f"{platform.machine()} {' '.join(sorted(features() & X86_FEATURES))}".strip()


def is_x86() -> bool:
    """Return whether this is a 64-bit x86 processor."""
    return platform.machine().lower() in ("x86_64", "amd64")


def vector_bytes() -> int:
    """Return the width of the vector registers that kernels should use, in bytes."""
    if not is_x86():
        return 16
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= features():
        return 64
    return 32 if "avx2" in features() else 16


def registers() -> int:
    """Return how many vector registers the processor has."""
    return 32 if vector_bytes() == 64 or not is_x86() else 16


def multipliers() -> int:
    """Return how many vectors of vector_bytes() a core is known to multiply in a cycle; 0 where that is not known.

    Of 64 bytes 2 on Intel's servers, else 1; of 32 bytes 2, but 1 where the processor makes two halves of each.
    """
    width = vector_bytes()
    if width == 64:
        return 2 if _is_intel() else 1
    if width == 32 and has_fma():
        return 1 if _has_halves() else 2
    return 0


def _is_intel() -> bool:
    """Return whether this is Intel's processor."""
    return re.search(r"^vendor_id\s*:\s*GenuineIntel$", _read("/proc/cpuinfo"), re.MULTILINE) is not None


def _has_halves() -> bool:
    """Return whether vectors of 32 bytes are two of 16: AMD's before Zen 2 (family 23, model 48), Hygon's."""
    found = re.search(
        r"^vendor_id\s*:\s*(AuthenticAMD|HygonGenuine)\ncpu family\s*:\s*(\d+)\nmodel\s*:\s*(\d+)$",
        _read("/proc/cpuinfo"),
        re.MULTILINE,
    )
    return found is not None and (found[1] == "HygonGenuine" or (int(found[2]), int(found[3])) < (23, 48))


def has_fma() -> bool:
    """Return whether a multiply-add is one instruction."""
    return not is_x86() or "fma" in features()


def has_half_conversion() -> bool:
    """Return whether float16 and float32 convert in hardware."""
    return not is_x86() or "f16c" in features()


def gathers() -> tuple[int, ...]:
    """Return the sizes of the elements that one instruction loads from an address for each lane."""
    return (4, 8) if is_x86() and "avx2" in features() else ()


@functools.cache
def cache_bytes(level: int) -> int:
    """Return the bytes of one data cache of a level, as a whole where threads share it; a default where unknown."""
    for entry in range(8):
        folder = f"/sys/devices/system/cpu/cpu0/cache/index{entry}"
        if _read(f"{folder}/level").strip() == str(level) and _read(f"{folder}/type").strip() != "Instruction":
            size = re.fullmatch(r"(\d+)([KM]?)", _read(f"{folder}/size").strip())
            if size:
                return int(size[1]) << {"": 0, "K": 10, "M": 20}[size[2]]
    return {1: 32 << 10, 2: 1 << 20}.get(level, 8 << 20)


def thread_limit() -> int:
    """Return how many threads this process may run at once, by its affinity and the quotas of its control groups."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, min(count, _quota()))


def _quota() -> int:
    """Return how many processors the control groups allow, rounded up; a large number where there is no limit.

    The lines of /proc/self/cgroup without controllers are those of version 2; the quota of every folder above counts.
    """
    limit = math.inf
    for line in _read("/proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            for folder in _upwards(Path("/sys/fs/cgroup") / path.lstrip("/"), Path("/sys/fs/cgroup")):
                limit = min(limit, _ratio(*(_read(folder / "cpu.max").split() or ["max", "1"])[:2]))
        elif "cpu" in controllers.split(","):
            for root in ("/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"):
                for folder in _upwards(Path(root) / path.lstrip("/"), Path(root)):
                    quota, period = _read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us")
                    limit = min(limit, _ratio(quota.strip(), period.strip()))
    return 1 << 20 if limit == math.inf else max(1, math.ceil(limit))


def _upwards(folder: Path, root: Path) -> list[Path]:
    """Return a folder and those around it, up to `root`."""
    return [p for p in (folder, *folder.parents) if p == root or root in p.parents]


def _ratio(quota: str, period: str) -> float:
    """Return how many processors a quota of time allows; infinity where there is no limit."""
    if not quota.isdigit() or not period.isdigit() or int(period) == 0:
        return math.inf
    return int(quota) / int(period)


def has_llvm() -> bool:
    """Return whether llvmlite is installed; does not import it."""
    return importlib.util.find_spec("llvmlite") is not None


def compilers() -> dict[str, str]:
    """Return the usable routes from a kernel to machine code, the preferred one first, each with what it uses."""
    found = {}
    if has_llvm():
        found["llvm"] = "llvmlite"
    if (cc := find_cc()) is not None:
        found["c"] = cc[0]
    return found


def find_cc() -> list[str] | None:
    """Return the C compiler's command: CC with its options, else the first of cc, gcc and clang on the PATH.

    None where CC names no program, or where CC is unset and none of them is on the PATH.
    """
    try:
        words = shlex.split(os.environ.get("CC", ""))
    except ValueError:  # an unbalanced quote: CC names no compiler, and LLVM needs none
        return None
    if words:
        return words if shutil.which(words[0]) else None
    return next(([name] for name in CC_NAMES if shutil.which(name)), None)


def why_no_cc() -> str:
    """Return why find_cc finds nothing."""
    named = os.environ.get("CC", "")
    if not named.strip():
        return "none of cc, gcc and clang is on the PATH"
    try:
        shlex.split(named)
    except ValueError as error:
        return f"CC={named} cannot be read: {error}"
    return f"CC={named} is not found"


def _read(path: str | Path) -> str:
    """Return the text of a file; "" where it cannot be read."""
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError):
        return ""
