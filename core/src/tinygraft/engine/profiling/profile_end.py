"""The end of a profile: its trace is written, and where the time went is printed.

PROFILE=1 begins a Profile at the first value that is requested, and ends it with the process.
"""

from __future__ import annotations

import atexit
import os
import sys
import tempfile
from pathlib import Path

from tinygraft.engine.profiling.perfetto import write_trace
from tinygraft.engine.profiling.profile_report import report_lines
from tinygraft.engine.profiling.profile_run import Profile
from tinygraft.interrupt import guarded

_whole: Profile | None = None  # that of PROFILE=1


def install() -> None:
    """Record from now on, and report when the process ends. A second call does nothing.

    The trace is a new file in the folder for temporary files.
    """
    global _whole
    if _whole is not None:
        return
    with guarded(sealed=True):
        profile = _whole = Profile().start()
    owner = os.getpid()

    def at_exit() -> None:
        """Report; do nothing in a forked child, which has recorded nothing."""
        if os.getpid() == owner:
            handle, name = tempfile.mkstemp(prefix="tinygraft-", suffix=".trace.json")
            os.close(handle)
            finish(profile, Path(name))

    atexit.register(at_exit)


def finish(profile: Profile, path: Path) -> None:
    """Stop a profile, write its trace to `path`, and print where the time went to the standard error.

    The reason is printed instead where the trace cannot be written.
    """
    profile.stop()
    try:
        write_trace(profile, path)
        last = f"trace: {path} (open it in https://ui.perfetto.dev)"
    except OSError as error:
        last = str(error)
    print(*report_lines(profile), "", last, sep="\n", file=sys.stderr)
