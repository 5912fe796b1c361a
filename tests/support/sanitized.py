"""The CPU plugin under a compiler's sanitizers: its extension and C kernels built with them, processes that run so.

    sanitizer = Sanitizer("address,undefined", folder)
    sanitizer.build()                       a copy of the plugin in folder, its extension built from source
    sanitizer.run("-m", "pytest", ...)      a Python process that has it, with the sanitizer's runtime loaded first
    sanitizer.findings()                    what all processes so far were told off for, one text each

Python itself is not built so: what it does is not looked at, but for memory that it frees or that runs out.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "plugins" / "cpu"
RUNTIMES = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}
CHECKED = "-g -O1 -fno-omit-frame-pointer -fno-sanitize-recover=all"
SECONDS = 1500
# The loader frees what a thread had of a library when another one is given its stack: in order, by locks of its own
SUPPRESSED = "race:_dl_deallocate_tls\n"
REPORT = re.compile("runtime error: |ERROR: AddressSanitizer|WARNING: ThreadSanitizer|FATAL: ThreadSanitizer")


def compiler() -> list[str]:
    """The C compiler, as the plugin finds it."""
    words = shlex.split(os.environ.get("CC", ""))
    return words or [next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), "cc")]


def runtime(kind: str) -> Path | None:
    """The shared library of a sanitizer, None where the compiler has none."""
    asked = [*compiler(), f"-print-file-name={RUNTIMES[kind]}"]
    try:
        found = Path(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    except OSError:
        return None
    return found.resolve() if found.is_absolute() and found.exists() else None


class Sanitizer:
    """Some sanitizers, a copy of the plugin that is built with them, and what they found."""

    def __init__(self, kinds: str, folder: Path) -> None:
        self.kinds, self.folder = kinds, folder
        self.flags = f"-fsanitize={kinds}"
        self.plugin, self.reports = folder / "cpu", folder / "reports"
        self.said: list[str] = []  # by processes: UBSan writes to no file where ASan is there

    def missing(self) -> str:
        """Why this cannot be done here; empty where it can."""
        if not sys.platform.startswith("linux"):
            return "sanitizers are loaded first by LD_PRELOAD, which only Linux has"
        lacking = [kind for kind in self.kinds.split(",") if runtime(kind) is None]
        return f"{compiler()[0]} has no shared library of the sanitizers of {', '.join(lacking)}" if lacking else ""

    def build(self, old: str = "", new: str = "") -> None:
        """Copy the plugin and build its extension, with one text of its C sources in the place of another."""
        shutil.copytree(
            PLUGIN, self.plugin, ignore=shutil.ignore_patterns("*.so", "build", "__pycache__", "*.egg-info")
        )
        sources = list((self.plugin / "src" / "tinygraft_cpu").glob("*.c"))
        changed = [source for source in sources if old and old in source.read_text()]
        assert len(changed) == (1 if old else 0), f"{old!r} is in {len(changed)} sources"
        for source in changed:
            source.write_text(source.read_text().replace(old, new))
        flags = {"CFLAGS": f"{CHECKED} {self.flags}", "LDFLAGS": self.flags}
        command = [sys.executable, "setup.py", "-q", "build_ext", "--inplace"]
        done = subprocess.run(command, cwd=self.plugin, env={**os.environ, **flags}, capture_output=True, text=True)
        built = list((self.plugin / "src" / "tinygraft_cpu").glob("_native*.so"))
        assert done.returncode == 0 and built, done.stdout + done.stderr

    def run(self, *arguments: str | Path, cwd: Path | None = None, **settings: str) -> subprocess.CompletedProcess[str]:
        """A Python process with the extension and the runtimes of the sanitizers; settings are of its environment."""
        self.reports.mkdir(exist_ok=True)
        here = [str(self.plugin / "src"), str(ROOT / "core" / "src"), str(ROOT / "tests" / "support"), *sys.path]
        libraries = [str(found) for kind in self.kinds.split(",") if (found := runtime(kind)) is not None]
        log = f"log_path={self.reports / 'report'}"
        (suppressed := self.folder / "suppressed.txt").write_text(SUPPRESSED)
        environment = {
            **os.environ, "PYTHONPATH": os.pathsep.join(here), "LD_PRELOAD": " ".join([*libraries, *_cxx()]),
            "ASAN_OPTIONS": f"{log}:detect_leaks=0", "UBSAN_OPTIONS": f"{log}:print_stacktrace=1",
            "TSAN_OPTIONS": f"{log}:die_after_fork=0:report_signal_unsafe=0:suppressions={suppressed}", **settings,
        }  # fmt: skip
        command = [*_without_random_addresses(), sys.executable, *map(str, arguments)]
        done = subprocess.run(
            command, cwd=cwd or self.folder, env=environment, capture_output=True, text=True, timeout=SECONDS
        )
        self.said += [done.stdout, done.stderr]
        return done

    def findings(self) -> list[str]:
        """What was found so far."""
        found = [report.read_text() for report in sorted(self.reports.glob("report.*"))]
        return found + [text[place.start() :][:4000] for text in self.said for place in REPORT.finditer(text)]


def _cxx() -> Sequence[str]:
    """The C++ library, which has to be there before a sanitizer can catch exceptions of llvmlite's."""
    asked = [*compiler(), "-print-file-name=libstdc++.so.6"]
    found = Path(subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip())
    return [str(found.resolve())] if found.is_absolute() else []


def _without_random_addresses() -> list[str]:
    """What starts a process whose addresses are those that a thread sanitizer of any age expects."""
    return ["setarch", "-R"] if shutil.which("setarch") else []
