"""A watcher of a run of the kit: a process that says which test and which kernel ended it, where no report comes.

A device that crashes ends the process of its tests, by a signal or an exit. What runs is noted in a file that another
process has too; it waits for the end of a pipe, and is silent where the run said that it is over.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from tinygraft.device.interfaces import Backend

ROOM = 1024  # bytes of each note
OVER = b"over\n"
# in a bare interpreter: it starts in a moment, and has nothing of a plugin
_CODE = """
import os, select, sys
file, pipe, room, parent = open(sys.argv[1], "rb"), int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
os.unlink(sys.argv[1])
said = b""
while not said.endswith(b"over\\n"):
    if select.select([pipe], [], [], 0.5)[0]:
        if not (more := os.read(pipe, 4096)):
            break
        said += more
    elif os.getppid() != parent:  # a child of a fork may hold the pipe open
        break
if not said.endswith(b"over\\n"):
    notes = file.read()
    test, kernel, passed = (notes[k * room : (k + 1) * room].rstrip(b"\\0").decode(errors="replace") for k in range(3))
    faults = {b"Segmentation fault": "SIGSEGV", b"Aborted": "SIGABRT", b"Bus error": "SIGBUS",
              b"Floating": "SIGFPE", b"Illegal instruction": "SIGILL"}
    how = next((f"by {name}" for words, name in faults.items() if b"error: " + words in said), "without a report")
    sys.stderr.write(said.decode(errors="replace"))
    kernel = f", {kernel}" if kernel else ""
    where = f"in {test}{kernel}" if test else "before its first test"
    sys.stderr.write(f"\\nconformance: ended {how} {where}; {passed or 0} passed before\\n")
    if test:
        function = test.partition("[")[0]
        sys.stderr.write(f"  hint: -k {function} runs that test again; DEBUG=4 prints the sources of its kernels\\n")
"""  # fmt: skip


class Watcher:
    """Notes what a run of the kit does, for the process that waits for its end."""

    def __init__(self) -> None:
        """Start the process. Raises OSError where that is not possible."""
        handle, self._path = tempfile.mkstemp(prefix="tinygraft-kit-")
        os.truncate(handle, 3 * ROOM)
        self._notes = mmap.mmap(handle, 3 * ROOM)
        os.close(handle)
        self._passed = 0
        read, self._pipe = os.pipe()
        try:
            command = [sys.executable, "-I", "-S", "-c", _CODE, self._path, str(read), str(ROOM), str(os.getpid())]
            self._process = subprocess.Popen(
                command, pass_fds=(read,), stdin=subprocess.DEVNULL, start_new_session=True
            )
        finally:
            os.close(read)
        self._undo: list[Callable[[], object]] = []
        self._seen: set[object] = set()
        faulthandler.enable(self._pipe)  # in place of pytest's: the watcher prints it, before its own line

    def _note(self, place: int, text: str) -> None:
        self._notes[place * ROOM : (place + 1) * ROOM] = text.encode()[:ROOM].ljust(ROOM, b"\0")

    def test(self, name: str) -> None:
        """Note that a test begins."""
        self._note(0, name)
        self._note(1, "")

    def passed(self) -> None:
        """Count a test that passed."""
        self._passed += 1
        self._note(2, str(self._passed))

    def watch(self, backend: Backend) -> None:
        """Note the kernels that a backend loads, and the launches of its programs."""
        if backend in self._seen:
            return
        self._seen.add(backend)
        load, names = backend.load, dict[int, str]()

        def noted(binary: Any) -> Any:
            self._note(1, f"loading kernel {binary.name}")
            program = load(binary)
            self._watch_class(type(program), names)
            names[id(program)] = binary.name
            self._note(1, f"kernel {binary.name}, which was loaded")
            return program

        with suppress(AttributeError):  # of a class with slots
            backend.load = noted  # type: ignore[method-assign]
            self._undo.append(lambda: delattr(backend, "load"))

    def _watch_class(self, kind: type, names: dict[int, str]) -> None:
        """Note each launch of the programs of a class, by their names."""
        owner: Any = next((one for one in kind.__mro__ if "launch" in vars(one)), None)
        if owner is None or owner in self._seen:
            return
        self._seen.add(owner)
        launch = owner.launch

        @wraps(launch)
        def noted(program: Any, *arguments: Any) -> Any:
            if (name := names.get(id(program))) is not None:
                self._note(1, f"kernel {name}")
            return launch(program, *arguments)

        with suppress(TypeError):  # a class in C
            owner.launch = noted
            self._undo.append(lambda: setattr(owner, "launch", launch))

    def close(self) -> None:
        """Say that the run is over, and undo what notes kernels."""
        for undo in self._undo:
            undo()
        faulthandler.enable(2)
        os.write(self._pipe, OVER)
        os.close(self._pipe)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(2.0)
        self._notes.close()
