"""The processes that are compared: how each is started, and the requests to it.

A peer is named by its library, or by library=PYTHON where that is installed for another Python. PyTorch runs twice, as
it is installed and with jemalloc in place of the C library's malloc, which returns large memory after each use. Under
torch.compile it is a peer of its own, torch+compile, since compiling networks takes longer than all the rest.
"""

from __future__ import annotations

import ctypes.util
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.libraries import LIBRARIES

ROOT = Path(__file__).parents[1]
START = 120.0  # seconds a library may take to be imported
OURS = "tinygraft"
COMPILED = "torch+compile"
CLANGS = ("clang-19", "clang-20", "clang-18", "clang-17", "clang-16", "clang-15", "clang-14", "clang")
CACHING = "oversize_threshold:1,background_thread:true,dirty_decay_ms:-1,muzzy_decay_ms:-1"  # jemalloc frees nothing


class PeerError(Exception):
    """A process does not answer any more, or its answer was an error."""


class PeerLate(PeerError):
    """No answer came in the time that there was: the machine is busy, or the item long. Nothing is said of values."""


@dataclass(frozen=True)
class Peer:
    """A library in a Python, under an environment. `missing` says what is not installed, and how to install it."""

    name: str
    library: str
    python: str = sys.executable
    environment: dict[str, str] = field(default_factory=dict)
    missing: str = ""


def named(words: str) -> list[Peer]:
    """The peers of a comma-separated list; "none" or nothing is no peer. Raises ValueError for an unknown library."""
    found: list[Peer] = []
    for word in filter(None, words.replace("none", "").split(",")):
        library, _, python = word.partition("=")
        if library not in names():
            raise ValueError(f"there is no peer {library!r}; the peers are {', '.join(names())}")
        python = python or sys.executable
        if library == "tinygrad":
            found.append(_tinygrad(python))
        elif library == COMPILED:
            found.append(Peer(COMPILED, "torch", python, {"BENCHMARK_COMPILE": "1"}))
        else:
            found.append(Peer(library, library, python, LIBRARIES[library].environment))
        if library == "torch":
            found.append(_with_jemalloc(python))
    return found


def names() -> list[str]:
    """Return the names that a peer may have."""
    return [name for name in LIBRARIES if name != OURS] + [COMPILED]


def ours() -> Peer:
    """tinygraft in this Python, on the CPU."""
    return Peer(OURS, OURS, environment=LIBRARIES[OURS].environment)


def _tinygrad(python: str) -> Peer:
    clang = next(filter(shutil.which, CLANGS), "")
    missing = "" if clang else "no clang is on the PATH (apt-get install clang-19)"
    return Peer("tinygrad", "tinygrad", python, LIBRARIES["tinygrad"].environment | {"CC": clang}, missing)


def _with_jemalloc(python: str) -> Peer:
    name = ctypes.util.find_library("jemalloc") or ""
    folders = [*Path("/usr/lib").glob("*-linux-gnu"), Path("/usr/lib64"), Path("/usr/local/lib")]
    path = next((folder / name for folder in folders if name and (folder / name).exists()), None)
    missing = "" if path else "libjemalloc was not found (apt-get install libjemalloc2)"
    return Peer("torch+jemalloc", "torch", python, {"LD_PRELOAD": str(path or ""), "MALLOC_CONF": CACHING}, missing)


def environment(peer: Peer, threads: int, cache: str) -> dict[str, str]:
    """Return the environment of a peer's process: its number of threads, its cache folders, no settings of ours."""
    # without bytecode on disk, a checkout would compile at each import what an installed library does not
    removed = ("DEBUG", "VIZ", "SPEC", "NOOPT", "BEAM", "PYTHONDONTWRITEBYTECODE")
    inherited = {name: value for name, value in os.environ.items() if name not in removed}
    count = str(threads)
    limits = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NPROC", "CPU_THREADS", "BENCHMARK_THREADS")
    caches = {"TINYGRAFT_CACHE": cache, "CACHEDB": f"{cache}/cache.db", "JAX_COMPILATION_CACHE_DIR": f"{cache}/jax"}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")]))
    return inherited | dict.fromkeys(limits, count) | caches | {"PYTHONPATH": path} | peer.environment


class Process:
    """A worker of a peer. absent says why there is none; facts are what it runs with."""

    def __init__(self, peer: Peer, threads: int) -> None:
        self.peer, self.threads = peer, threads
        self.folder = tempfile.TemporaryDirectory(prefix="benchmark-")
        self.facts: dict[str, Any] = {}
        self.absent = peer.missing
        self.child: subprocess.Popen[str] | None = None
        try:
            self.start()
        except PeerError as error:
            self.absent = str(error)
            self.stop()

    def start(self) -> None:
        """Start the worker, unless it runs."""
        if self.child is not None or self.absent:
            return
        command = [self.peer.python, "-m", "benchmarks.worker", self.peer.library]
        seen = environment(self.peer, self.threads, self.folder.name)
        self.log = open(f"{self.folder.name}/log", "w+")  # noqa: SIM115
        try:
            self.child = subprocess.Popen(
                command, env=seen, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True
            )
        except OSError as error:
            self.absent = f"{self.peer.python} does not start: {error.strerror}"
            return
        self.answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, args=(self.child, self.answers), daemon=True).start()
        hello = self._next(START)
        if "absent" in hello:
            self.absent = f"{hello['absent']} ({LIBRARIES[self.peer.library].install})"
            self.stop()
        else:
            self.facts = self.ask({"do": "facts"}, START)

    @staticmethod
    def _listen(child: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
        assert child.stdout is not None
        for line in child.stdout:
            answers.put(line)
        answers.put("")

    def _next(self, patience: float) -> dict[str, Any]:
        try:
            line = self.answers.get(timeout=patience)
        except queue.Empty:
            self.stop()
            raise PeerLate(f"no answer in {patience:.0f} s") from None
        if not line:
            self.stop()
            self.log.seek(0)
            last = self.log.read().strip().splitlines()[-1:] or ["nothing was printed"]
            raise PeerError(f"the process ended: {last[0]}")
        return dict(json.loads(line))

    def ask(self, command: dict[str, Any], patience: float) -> dict[str, Any]:
        """The answer to a command. Raises PeerError for an error, for silence and for a process that ended."""
        self.start()
        if self.child is None or self.child.stdin is None:
            raise PeerError(self.absent or "the process does not run")
        try:
            self.child.stdin.write(json.dumps(command) + "\n")
            self.child.stdin.flush()
        except BrokenPipeError:
            pass  # the answer says that it ended
        answer = self._next(patience)
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def stop(self) -> None:
        """End the worker; start makes a new one."""
        if self.child is not None:
            self.child.kill()
            self.child.wait()
            self.child = None

    def close(self) -> None:
        """End the worker for good."""
        self.stop()
        self.folder.cleanup()
