"""The emulated CUDA driver and NVRTC, built once by the system's C compiler, and child processes that run on them.

    environment(**settings)      the variables of a process whose libcuda.so.1 and NVRTC are the emulated ones
    python(code, **settings)     what a program prints there

The sources are in plugins/cuda/tests/emulator. No process that tests share loads them: there CUDA would become the
default device.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "plugins" / "cuda" / "tests" / "emulator"
DRIVER = ("libcuda.c", "contexts.c", "streams.c", "graphs.c", "fibers.c")
FLAGS = ["-O2", "-g", "-fPIC", "-shared", "-Wall", "-Wextra", "-Werror", "-Wno-unused-result"]
PATIENCE = 600  # seconds for a child


def compiler() -> str:
    """Return the command of the C compiler."""
    return os.environ.get("CC") or "cc"


def build(extra: str = "") -> Path:
    """Return the folder with libcuda.so.1 and libnvrtc.so.13, built where it is not there yet.

    extra is more C for the driver: functions of it that others than the plugin look for.
    """
    parts = [file.read_bytes() for file in sorted(SOURCES.iterdir()) if file.is_file()]
    key = hashlib.sha256(b"\0".join([*parts, extra.encode(), repr((FLAGS, compiler(), str(SOURCES))).encode()]))
    folder = Path(tempfile.gettempdir(), f"tinygraft-emulator-{os.getuid()}-{key.hexdigest()[:16]}")
    if folder.is_dir():
        return folder
    made = Path(tempfile.mkdtemp(prefix="tinygraft-emulator-"))
    (made / "extra.c").write_text(f"typedef int nothing;\n{extra}")
    here = f'-DHERE="{SOURCES}"'
    driver = [*(str(SOURCES / name) for name in DRIVER), str(made / "extra.c"), "-lpthread", "-ldl"]
    for name, files in (("libcuda.so.1", driver), ("libnvrtc.so.13", [here, str(SOURCES / "libnvrtc.c")])):
        command = [*compiler().split(), *FLAGS, f"-Wl,-soname,{name}", "-o", str(made / name), *files]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stderr}"
    try:
        made.rename(folder)
    except OSError:  # another process was quicker
        shutil.rmtree(made)
    return folder


def stubs_for(extension: Path) -> str:
    """Return C of all functions of the driver that an extension module needs and the emulator does not have.

    They say that they are not supported.
    """

    def symbols(file: Path, kind: str) -> set[str]:
        done = subprocess.run(["nm", "-D", str(file)], capture_output=True, text=True, check=True)
        return set(re.findall(rf" {kind} (cu[A-Z]\w+)", done.stdout))

    missing = symbols(extension, "U") - symbols(build() / "libcuda.so.1", "T")
    return "\n".join(f"int {name}(void) {{ return 801; }}" for name in sorted(missing))


def environment(extra: str = "", **settings: str) -> dict[str, str]:
    """Return the environment of a process on the emulated driver."""
    folder = str(build(extra))
    before = os.environ.get("LD_LIBRARY_PATH")
    mine = {
        "LD_LIBRARY_PATH": f"{folder}:{before}" if before else folder,
        "CUDA_NVRTC": f"{folder}/libnvrtc.so.13",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "SPEC": "0",
    }
    inherited = {name: value for name, value in os.environ.items() if name not in ("CUDA_VISIBLE_DEVICES", "DEV")}
    return {**inherited, **mine, **settings}


def python(code: str, extra: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Return what a program did there."""
    return subprocess.run(
        [sys.executable, "-c", code], env=environment(extra, **settings), capture_output=True, text=True,
        timeout=PATIENCE, check=False,
    )  # fmt: skip
