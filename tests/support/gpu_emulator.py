"""Drivers of cards that are not there, built once by the system's C compiler, and child processes that run on them.

An Emulator is one of them: cuda_emulator.py and hip_emulator.py have theirs. The sources, in emulator/, are those of
CUDA's driver; HIP's functions are the same ones by other names, and some of its own. No process that tests share loads
them: there the device would become the default one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).parents[2]
SOURCES = Path(__file__).parent / "emulator"
SHARED = ("cards.c", "contexts.c", "streams.c", "graphs.c", "fibers.c")
FLAGS = ["-O2", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result"]
PATIENCE = 600  # seconds for a child


def compiler() -> str:
    """Return the command of the C compiler."""
    return os.environ.get("CC") or "cc"


def become(environment: dict[str, str], arguments: list[str]) -> NoReturn:
    """Go on as Python with some arguments; variables that tests hide from their children are the user's again."""
    os.execvpe(sys.executable, [sys.executable, *arguments], {**os.environ, **environment})


@dataclass(frozen=True)
class Emulator:
    """The file names of a driver and of its compiler of kernels, what is built besides, and settings.

    compiler_setting names the compiler to the plugin; hidden are variables that a child does not inherit.
    """

    driver: str
    kernels: str
    compiler_setting: str
    hidden: tuple[str, ...]
    more: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()

    def build(self, extra: str = "") -> Path:
        """Return the folder with both libraries, built where it is not there yet. extra is more C for the driver."""
        parts = [file.read_bytes() for file in sorted(SOURCES.iterdir()) if file.is_file()]
        how = repr((self, FLAGS, compiler(), str(SOURCES)))
        key = hashlib.sha256(b"\0".join([*parts, extra.encode(), how.encode()]))
        folder = Path(tempfile.gettempdir(), f"tinygraft-emulator-{os.getuid()}-{key.hexdigest()[:16]}")
        if folder.is_dir():
            return folder
        made = Path(tempfile.mkdtemp(prefix="tinygraft-emulator-"))
        (made / "extra.c").write_text(f"typedef int nothing;\n{extra}")
        driver = [*(str(SOURCES / name) for name in (*SHARED, *self.more)), str(made / "extra.c"), "-lpthread", "-ldl"]
        kernels = [f'-DHERE="{SOURCES}"', str(SOURCES / "compiler.c")]
        for name, files in ((self.driver, driver), (self.kernels, kernels)):
            command = [*compiler().split(), *FLAGS, *self.flags, f"-I{SOURCES}", f"-Wl,-soname,{name}", "-o",
                       str(made / name), *files]  # fmt: skip
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
        try:
            made.rename(folder)
        except OSError:  # another process was quicker
            shutil.rmtree(made)
        return folder

    def environment(self, extra: str = "", **settings: str) -> dict[str, str]:
        """Return the environment of a process on the emulated driver."""
        folder = str(self.build(extra))
        before = os.environ.get("LD_LIBRARY_PATH")
        mine = {
            "LD_LIBRARY_PATH": f"{folder}:{before}" if before else folder,
            self.compiler_setting: f"{folder}/{self.kernels}",
            "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
            "SPEC": "0",
        }
        inherited = {name: value for name, value in os.environ.items() if name not in (*self.hidden, "DEV")}
        return {**inherited, **mine, **settings}

    def python(self, code: str, extra: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        """Return what a program did there."""
        return self.run(["-c", code], extra, **settings)

    def run(self, arguments: list[str], extra: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
        """Return what Python with some arguments did there, in the folder of the checkout."""
        return subprocess.run(
            [sys.executable, *arguments], env=self.environment(extra, **settings), capture_output=True, text=True,
            timeout=PATIENCE, check=False, cwd=ROOT,
        )  # fmt: skip
