"""The plugin probe: load a third party's plugin in a child process before a program that did not name it imports it.

A plugin that hangs or kills its process must not do so to that program. The verdict is stored on disk under the
distribution, its version and the hash of its RECORD, so that one probe serves all later processes. A negative one
expires after ten minutes: a library may be installed by then, a card plugged in, a machine less busy.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tinygraft.caches import LONGEST_JSON, cache_folder, parsed, read_cached
from tinygraft.files import write_atomic
from tinygraft.installed.child import Child, ChildEnded
from tinygraft.installed.records import CHANGE_SETTING, Record, Status, how_to_end_crash, is_from_index

LIMIT = 2.0  # seconds that loading a plugin may take
EXPIRES = 600.0  # seconds after which a plugin that did not work is probed again
GOOD = (Status.AVAILABLE.value, Status.LOADED.value)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a record got in a child process.

    `facts` are further results of the function in the child; `when` is in seconds since 1970.
    """

    status: str
    detail: str
    hint: str
    traceback: str
    when: float
    facts: dict[str, Any] = field(default_factory=dict)

    def apply(self, record: Record) -> None:
        """Move a record, whose plugin is not imported here, to the status that it got in the child.

        It counts as tried.
        """
        record.move(Status(self.status), self.detail, self.hint)
        record.traceback, record.tried = self.traceback, True


def message_of(record: Record, facts: dict[str, Any]) -> dict[str, Any]:
    """Return the verdict on a record as the message of a child. One that is due to a setting's value is not stored."""
    reasons = record.status.value, record.detail, record.hint, record.traceback
    return asdict(Verdict(*reasons, time.time(), facts | {"by_setting": record.hint == CHANGE_SETTING}))


def job_of(record: Record) -> dict[str, Any]:
    """Return what a child needs of a record to load its plugin, as JSON."""
    return {"group": record.entry.group, "name": record.entry.name, "value": record.entry.value,
            "distribution": record.distribution, "version": record.version,
            "from_index": is_from_index(record)}  # fmt: skip


def verdict_on(record: Record, function: str, key: str, limit: float | None = None,
               on_wait: Callable[[float], object] | None = None) -> Verdict:  # fmt: skip
    """Return the verdict on a declared record: from disk, or from a child process, which calls `function` to make it.

    `key` is what else the verdict depends on. With a `limit` in seconds the plugin is probed whatever is on disk.
    `on_wait` is that of Child. The time is added to the record. Raises OSError where no child process can be started.
    """
    file = _file_of(record, key)
    verdict = _read(file) if file is not None and limit is None else None
    if verdict is None:
        start = time.perf_counter()
        verdict = _try_in_child(record, function, LIMIT if limit is None else limit, on_wait)
        record.milliseconds["trial"] = (time.perf_counter() - start) * 1e3
        if file is not None and not verdict.facts.get("by_setting"):
            write_atomic(file, json.dumps(asdict(verdict)).encode())
    return verdict


def _try_in_child(record: Record, function: str, limit: float, on_wait: Callable[[float], object] | None) -> Verdict:
    """Return the verdict of a child process: its message, or BROKEN with its output where it ended without one."""
    with Child(function, job_of(record), "loading it", on_wait) as child:
        try:
            answer = child.message(limit)
            return Verdict(**(answer or {}))
        except ChildEnded as end:
            return Verdict(Status.BROKEN.value, str(end), how_to_end_crash(record), end.printed, time.time())


def _file_of(record: Record, key: str) -> Path | None:
    """Return the file of the verdict; None where a change of the plugin could not be noticed (editable installs)."""
    folder, distribution = cache_folder(), record.entry.dist
    if folder is None or distribution is None:
        return None
    try:
        installed_files = distribution.read_text("RECORD")
        origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    except (OSError, ValueError):
        return None
    if not installed_files or origin.get("dir_info", {}).get("editable"):
        return None
    parts = (sys.version, sys.executable, key, record.entry.value, installed_files)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return folder / f"trial-{record.name}-{record.distribution}-{record.version}-{digest}.json"


def _read(file: Path) -> Verdict | None:
    """Return a stored verdict; None when there is none, when it cannot be read, or when it is negative and expired."""
    try:
        verdict = Verdict(**parsed(read_cached(file, LONGEST_JSON)))
        Status(verdict.status)
        return verdict if verdict.status in GOOD or time.time() - verdict.when < EXPIRES else None
    except (OSError, ValueError, TypeError):
        return None
