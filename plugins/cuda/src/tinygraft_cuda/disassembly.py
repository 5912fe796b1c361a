"""Machine code as text, for DEBUG=7 and for tests: by nvdisasm, where that program is installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tinygraft.plugin.driver import disassembled
from tinygraft_cuda.nvrtc import folders_of, toolkits

GET = "pip install nvidia-cuda-nvdisasm"


def program() -> list[str]:
    """Return the command of nvdisasm: of the toolkit, or of the wheel. Empty where there is none."""
    places = [folder / "bin" for folder in (*folders_of("nvidia.cu13"), *toolkits())]
    found = shutil.which("nvdisasm", path=os.pathsep.join([os.environ.get("PATH", ""), *map(str, places)]))
    if found:
        return [found]
    loader = Path("/lib64/ld-linux-x86-64.so.2")  # the wheel's file may not be marked as a program
    unmarked = [str(place / "nvdisasm") for place in places if (place / "nvdisasm").is_file()]
    return [str(loader), unmarked[0]] if unmarked and loader.exists() else []


def sass(data: bytes) -> str:
    """Return the instructions of a cubin; a sentence where they cannot be shown."""
    command = program()
    return disassembled(data, "nvdisasm", [*command, "-c"] if command else [], GET)
