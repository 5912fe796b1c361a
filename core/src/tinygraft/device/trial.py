"""The trial: a spec of a third party is loaded in a child process before the automatic choice imports it here.

A plugin that hangs or kills its process must not do so to a program that never asked for it. The verdict (how far the
spec got, its priority, what its probe found) is kept on disk under the distribution, its version and the hash of its
RECORD, so that one trial serves all later processes. An explicit request for a device needs no trial.
"""

from __future__ import annotations

import hashlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

from tinygraft.device.discover import GROUP
from tinygraft.device.load import probe
from tinygraft.device.records import PluginRecord, Status
from tinygraft.device.spec import PLUGIN_API, Probe
from tinygraft.helpers import cache_folder, write_atomic

LIMIT = 2.0  # seconds that a spec and its probe may take
START_LIMIT = 20.0  # seconds that a Python process may take to start on a busy machine
HANG_IS_FORGOTTEN = 600.0  # seconds after which a spec that took too long is tried again

_CHILD = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path[:] = job['path']; "
    "from tinygraft.device.trial import child; child(job)"
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How far a record got in a child process. when is the time of the trial, in seconds since 1970."""

    status: str
    detail: str
    hint: str
    traceback: str
    priority: int
    ordinals: int | None
    when: float

    def apply(self, record: PluginRecord) -> None:
        """Move a record that is not imported here to where the child got."""
        record.move(Status(self.status), self.detail, self.hint)
        record.traceback, record.priority, record.tried = self.traceback, self.priority, True
        if record.status in (Status.AVAILABLE, Status.UNAVAILABLE):
            ok = record.status is Status.AVAILABLE
            record.probe = Probe(ok=ok, detail=self.detail, hint=self.hint, count=self.ordinals)


def verdict_on(record: PluginRecord) -> Verdict:
    """The verdict on a declared record: from disk, or from a child process that loads and probes it."""
    file = _file_of(record)
    verdict = _read(file) if file is not None else None
    if verdict is None:
        start = time.perf_counter()
        verdict = _try_in_child(record)
        record.milliseconds["trial"] = (time.perf_counter() - start) * 1e3
        if file is not None:
            write_atomic(file, json.dumps(asdict(verdict)).encode())
    return verdict


def examine(record: PluginRecord) -> None:
    """Move a declared record to where its trial got; where no child process can be started, take the steps here."""
    try:
        verdict_on(record).apply(record)
    except OSError:
        probe(record)


def child(job: dict[str, Any]) -> None:
    """What the child process does: say ready, load and probe one entry, say how far it got."""
    with os.fdopen(os.dup(1), "w") as out:
        os.dup2(2, 1)  # what the plugin prints must not mix with the answer
        out.write("ready\n")
        out.flush()
        entry = EntryPoint(job["name"], job["value"], GROUP)
        record = PluginRecord(job["name"].upper(), job["distribution"], job["version"], entry)
        probe(record)
        ordinals = record.probe.count if record.probe is not None else 1
        reasons = (record.status.value, record.detail, record.hint, record.traceback)
        out.write(json.dumps(asdict(Verdict(*reasons, record.priority, ordinals, time.time()))) + "\n")


def _try_in_child(record: PluginRecord) -> Verdict:
    job = {"path": sys.path, "name": record.entry.name, "value": record.entry.value,
           "distribution": record.distribution, "version": record.version}  # fmt: skip
    process = subprocess.Popen(
        [sys.executable or "python", "-X", "faulthandler", "-c", _CHILD, json.dumps(job)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, text=True,
    )  # fmt: skip
    lines: queue.Queue[str | None] = queue.Queue()
    threading.Thread(target=_read_lines, args=(process, lines), daemon=True).start()
    try:
        if lines.get(timeout=START_LIMIT) is not None:
            answer = lines.get(timeout=LIMIT)
            if answer is not None:
                return Verdict(**json.loads(answer))
        return _broken(record, f"loading it in a child process {_ending(process.wait(timeout=LIMIT))}")
    except (queue.Empty, subprocess.TimeoutExpired):
        return _broken(record, f"loading it in a child process took more than {LIMIT:g} s")
    finally:
        _end(process)


def _read_lines(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    with process.stdout:
        for line in process.stdout:
            lines.put(line)
    lines.put(None)


def _broken(record: PluginRecord, detail: str) -> Verdict:
    hint = f"pip uninstall {record.distribution}, or set TINYGRAFT_DISABLE_PLUGINS={record.name}"
    return Verdict(Status.BROKEN.value, detail, hint, "", 0, 1, time.time())


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        try:
            return f"ended it by {signal.Signals(-code).name}"
        except ValueError:
            return f"ended it by signal {-code}"
    return f"ended it with exit code {code} and no answer"


def _end(process: subprocess.Popen[str]) -> None:
    """End a child and whatever it started."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):  # it ended just now
            if hasattr(os, "killpg"):
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        process.wait()


def _file_of(record: PluginRecord) -> Path | None:
    """Where the verdict is kept; None where it cannot be told when the plugin changed, as in an editable install."""
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
    parts = (sys.version, sys.executable, str(PLUGIN_API), record.entry.value, installed_files)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return folder / f"trial-{record.name}-{record.distribution}-{record.version}-{digest}.json"


def _read(file: Path) -> Verdict | None:
    """A kept verdict; None when there is none, when it cannot be read, or when it is a hang of some time ago."""
    try:
        verdict = Verdict(**json.loads(file.read_bytes()))
        Status(verdict.status)
        hang = verdict.status == Status.BROKEN.value and " took more than " in verdict.detail
        return None if hang and time.time() - verdict.when > HANG_IS_FORGOTTEN else verdict
    except (OSError, ValueError, TypeError):
        return None
