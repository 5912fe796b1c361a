"""The database on disk of the transforms that a search found best: a line of JSON for each kernel, Target and compiler.

    add(SearchResult(...))          read() -> {key: SearchResult}

It is a file in the cache folder; BEAM_DATABASE names a further file, such as one that comes with a program, which is
only read. A line is added in one write, so any number of processes can share a file. Of several lines with one key the
last counts, and the own file takes precedence over the further one. Lines that cannot be parsed are skipped; no failure
of the disk reaches the user, but a warning that the further file has no result does. A file that is no plain file
counts as empty, and so does the own one where another user can have written it (caches.py).
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from tinygraft.caches import cache_folder, read_cached, read_plain
from tinygraft.codegen.action import parse
from tinygraft.config import BEAM_DATABASE
from tinygraft.device.interfaces import Backend
from tinygraft.engine.diskcache import digest
from tinygraft.errors import ActionError, SettingWarning
from tinygraft.helpers import warn_user
from tinygraft.uop.flat import flat
from tinygraft.uop.stages import Kernel

DatabaseKey = tuple[str, str, str]
# assumed: a bound on what is read, far above what a search writes
LONGEST = 256 << 20  # bytes of a file


@dataclass(frozen=True, slots=True)
class SearchResult:
    """The best transforms for a kernel, with its seconds `before` (as the heuristics chose) and `after`.

    `kernel` and `target` are digests, `compiler` is the key of the compiler; `name` is that of the kernel in outputs.
    """

    kernel: str
    target: str
    compiler: str
    name: str
    actions: str
    before: float
    after: float

    @property
    def key(self) -> DatabaseKey:
        """Return what it was found for: (kernel, target, compiler)."""
        return self.kernel, self.target, self.compiler


def key_of(kernel: Kernel, backend: Backend) -> DatabaseKey:
    """Return the key of a kernel on `backend`: all that the best transforms depend on.

    It is (digest of the kernel's graph, digest of the Target, key of the compiler or "").
    """
    graph = json.dumps(flat(kernel.sink), separators=(",", ":"))
    return digest("kernel", graph), digest("target", backend.target.text()), backend.compiler.key or ""


def own_file() -> Path | None:
    """Return the file that a search writes to; None where nothing is stored on disk."""
    folder = cache_folder()
    return None if folder is None else folder / "tuned.jsonl"


def add(found: SearchResult, path: Path | None) -> None:
    """Append `found` to the file at `path`; nothing happens where that is None or fails."""
    if path is None:
        return
    line = json.dumps(asdict(found), separators=(",", ":"))
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        # not blocking: opening a pipe without a reader would wait for one
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NONBLOCK", 0)
        descriptor = os.open(path, flags, 0o644)
        try:  # the line break in front ends a line that a killed process may have begun
            os.write(descriptor, f"\n{line}\n".encode())
        finally:
            os.close(descriptor)


def read() -> dict[DatabaseKey, SearchResult]:
    """Return the results of all files, by key; those of the own file take precedence over the further one's."""
    known: dict[DatabaseKey, SearchResult] = {}
    for path in _files():
        found = read_file(path)
        if not found and path != own_file():
            warn_user(
                f"BEAM_DATABASE={path} has no result that can be read; it does nothing", SettingWarning, once=True
            )
        known |= found
    return known


def read_file(path: Path) -> dict[DatabaseKey, SearchResult]:
    """Return the results in a file, by key; empty where it does not exist, cannot be read or is beyond LONGEST."""
    known: dict[DatabaseKey, SearchResult] = {}
    data = read_cached(path, LONGEST) if path == own_file() else read_plain(path, LONGEST)
    for line in (data or b"").splitlines():
        with suppress(ValueError, TypeError, ActionError, RecursionError):
            found = SearchResult(**json.loads(line))
            texts = (found.kernel, found.target, found.compiler, found.name, found.actions)
            if all(isinstance(text, str) for text in texts) and found.before > 0 and found.after > 0:
                parse(found.actions)
                known[found.key] = found
    return known


def state() -> str:
    """Return a text that changes with the contents of the files: their sizes and times. Names of packs include it."""
    parts = []
    for path in _files():
        with suppress(OSError):
            stat = os.stat(path)
            parts.append(f"{path} {stat.st_size} {stat.st_mtime_ns}")
    return " ".join(parts)


def _files() -> list[Path]:
    """Return the files to read, the one that takes precedence last."""
    further = [Path(BEAM_DATABASE.value)] if BEAM_DATABASE.value else []
    own = own_file()
    return further if own is None else [*further, own]
