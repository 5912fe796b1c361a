"""The child process that loads a spec and runs its probe: run as a file, with a job and the answer as JSON.

It imports nothing of the kit, so that the modules which the spec imports can be listed.
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
    """Load the spec of the job in argv[1], run its probe where the job says so, and print the answer as JSON."""
    job = json.loads(sys.argv[1])
    sys.path[:] = job["path"]
    answer = json.dumps(look(job))
    sys.stdout.flush()
    print(f"\n{answer}")  # on a line of its own: the plugin may have printed without a newline


def look(job: dict[str, Any]) -> dict[str, Any]:
    """Load the spec of a job. Returns the modules that it imports, its API range, and the answer of `_probe`."""
    from importlib import import_module

    if job["api"]:  # before the spec reads it
        setattr(import_module(SEAM), CONSTANT, tuple(job["api"]))
    import_module("tinygraft.plugin")
    before = set(sys.modules)
    spec: Any = EntryPoint(job["name"], job["value"], "tinygraft.devices").load()
    if callable(spec):
        spec = spec()
    found = {"modules": sorted(set(sys.modules) - before), "range": [list(spec.api.min), list(spec.api.below)]}
    return found | (_probe(spec.probe) if job["probe"] else {})


def _probe(path: str) -> dict[str, Any]:
    """Import and call the probe. Returns the seconds of both, what it left, and the type of its result.

    Left are threads and open files that did not exist before, and changed environment variables.
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
    """Return how many threads this process has, including those that a library started without Python."""
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:  # a system without it
        return threading.active_count()


def _files() -> set[str]:
    """Return the files of the open file descriptors of this process; none on a system without /proc."""
    try:
        numbers = os.listdir("/proc/self/fd")
    except OSError:
        return set()
    return {os.readlink(path) for number in numbers if os.path.islink(path := f"/proc/self/fd/{number}")}


if __name__ == "__main__":
    main()
