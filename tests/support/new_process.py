"""Programs in a process of their own, with a cache folder and a C compiler of a test's choice."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ADD = "from tinygraft import Tensor; assert (Tensor([1.0, 2.0]) + 1).tolist() == [2.0, 3.0]"


def run(
    code: str, cache: Path, *, check: bool = True, timeout: float = 120, **settings: str
) -> subprocess.CompletedProcess[str]:
    """A new process with its caches in a folder."""
    environment = os.environ | {"TINYGRAFT_CACHE": str(cache), "CACHELEVEL": "1", "SPEC": "0", "DEV": "CPU"} | settings
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout, check=check)


def compiler(path: Path, text: str) -> str:
    """A C compiler that is a shell script; "$out" is where its output should be."""
    found = 'for word; do [ "$before" = -o ] && out=$word; before=$word; done\n'
    path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo fake 1.0 && exit\n{found}{text}\n')
    path.chmod(0o755)
    return str(path)


def cached_files(cache: Path) -> list[Path]:
    """The files of the disk cache of kernels."""
    return [path for path in (cache / "kernels").rglob("*") if path.is_file()]
