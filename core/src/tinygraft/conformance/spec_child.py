"""What a child process finds out about a spec and its probe: run as a file, with a job and the answer as JSON.

It imports nothing of the kit, so that what the spec imports can be told from what was there.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from importlib.metadata import EntryPoint
from typing import Any

SEAM, CONSTANT = "tinygraft.device.device_spec", "PLUGIN_API"


def main() -> None:
    """Load the spec of the job, run its probe if asked, print what came of it."""
    job = json.loads(sys.argv[1])
    sys.path[:] = job["path"]
    answer = json.dumps(look(job))
    sys.stdout.flush()
    print(f"\n{answer}")


def look(job: dict[str, Any]) -> dict[str, Any]:
    """The modules that the spec imports, its API range, and what its probe gave and left behind."""
    from importlib import import_module

    if job["api"]:  # before anybody reads it
        setattr(import_module(SEAM), CONSTANT, tuple(job["api"]))
    import_module("tinygraft.plugin")
    before = set(sys.modules)
    spec: Any = EntryPoint(job["name"], job["value"], "tinygraft.devices").load()
    if callable(spec):
        spec = spec()
    found = {"modules": sorted(set(sys.modules) - before), "range": [list(spec.api.min), list(spec.api.below)]}
    return found | (_probe(spec.probe) if job["probe"] else {})


def _probe(path: str) -> dict[str, Any]:
    """Call the probe and return the seconds with its import, what it has left behind, and what it gave.

    Left behind are threads, open files and environment variables that were not there before.
    """
    from importlib import import_module

    from tinygraft.device.device_spec import Probe

    module, _, name = path.partition(":")
    threads, files, environment = _threads(), _files(), dict(os.environ)
    start = time.perf_counter()
    probe = getattr(import_module(module), name)()
    seconds = time.perf_counter() - start
    left = [f"{_threads() - threads} threads"] if _threads() > threads else []
    left += [f"the open file {file}" for file in sorted(_files() - files)]
    left += [f"the variable {key}" for key in sorted({*os.environ} | {*environment})
             if os.environ.get(key) != environment.get(key)]  # fmt: skip
    return {"seconds": seconds, "left": left, "gave": type(probe).__name__, "is_probe": isinstance(probe, Probe)}


def _threads() -> int:
    """How many threads this process has, those that a library started without Python's knowledge too."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # a system without it
        return threading.active_count()


def _files() -> set[str]:
    """What the open file descriptors of this process point to; nothing on a system without /proc."""
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return set()
    return {os.readlink(path) for number in numbers if os.path.islink(path := f"/proc/self/fd/{number}")}


if __name__ == "__main__":
    main()
