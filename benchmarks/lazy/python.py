"""InPython: a case whose time is what Python takes, without the kernels. For tinygraft only."""

from __future__ import annotations

import contextlib
import io

from benchmarks.case import Case


class InPython(Case):
    """Each kernel is waited for and timed, as DEBUG=2 does it, and the sum is taken off."""

    def run(self) -> float:
        """Compute once; seconds without those of the kernels."""
        from tinygraft import Context, GlobalCounters

        GlobalCounters.reset()
        with Context(DEBUG=2), contextlib.redirect_stdout(io.StringIO()):
            seconds = super().run()
        return seconds - GlobalCounters.time_sum_s
