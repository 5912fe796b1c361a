"""Machine code as text, by a program of a card's maker, for those who look (DEBUG=7) and for tests."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

PATIENCE = 60  # assumed, 2026-11-24: seconds for one kernel


def disassembled(data: bytes, tool: str, command: Sequence[str], hint: str) -> str:
    """Return the instructions of machine code; a sentence, as a comment of the text, where they cannot be shown.

    `command` is that of the program `tool`, to which the file of the code is added; empty where the program is not
    installed, and then `hint` says how it comes.

    >>> disassembled(b"", "nvdisasm", [], "pip install nvidia-cuda-nvdisasm")
    '// the machine code cannot be shown: there is no nvdisasm; pip install nvidia-cuda-nvdisasm'
    >>> disassembled(b"add r0", "cat", ["cat"], "")
    'add r0'
    """
    if not command:
        return f"// the machine code cannot be shown: there is no {tool}; {hint}"
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "kernel.bin")
        file.write_bytes(data)
        try:
            done = subprocess.run([*command, str(file)], capture_output=True, text=True, timeout=PATIENCE, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"// {tool} failed: {error}"
    return done.stdout if done.returncode == 0 else f"// {tool} failed: {done.stderr.strip()}"
