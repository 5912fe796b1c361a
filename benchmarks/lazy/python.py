"""InPython: a case whose time is what Python takes, without the kernels. For tinygraft only."""

from __future__ import annotations

from benchmarks.case import Case


class InPython(Case):
    """Each kernel is waited for and timed, and the sum is taken off."""

    def run(self) -> float:
        """Compute once; seconds without those of the kernels."""
        from tinygraft import events

        launched = 0.0

        def told(event: events.StageEvent) -> None:
            nonlocal launched
            if isinstance(event.subject, events.LaunchEvent):
                launched += event.subject.seconds

        stop = events.observe(told)
        try:
            return super().run() - launched
        finally:
            stop()
