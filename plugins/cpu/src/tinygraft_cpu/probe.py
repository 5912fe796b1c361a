"""Whether this machine can run kernels: a compiler of one route or the other is installed. Starts neither."""

from __future__ import annotations

from tinygraft.plugin import Probe
from tinygraft_cpu import extension
from tinygraft_cpu.machine import compilers, thread_limit


def probe() -> Probe:
    """Return a Probe: usable when llvmlite is installed or a C compiler is on the PATH, with what was found."""
    found = compilers()
    if not found:
        return Probe(
            ok=False,
            detail="no compiler: llvmlite is not installed and no C compiler (CC, cc, gcc, clang) is on the PATH",
            hint="pip install llvmlite, or install gcc or clang",
        )
    routes = ", ".join(f"{route} ({what})" for route, what in found.items())
    threads = thread_limit()
    pool = "native thread pool" if extension.library() is not None else f"no thread pool ({extension.why_missing()})"
    return Probe(ok=True, detail=f"compilers {routes}; {threads} threads; {pool}", count=None)
