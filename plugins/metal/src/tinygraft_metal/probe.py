"""Whether there may be a Metal device: PyObjC's modules are here, as on macOS alone. Nothing is imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from tinygraft.plugin import UNCOUNTED, Probe

MODULES = ("Metal", "objc", "Foundation")
GET_BINDING = "pip install pyobjc-framework-Metal"
GET_OTHER = "use a Mac, or another device: python -m tinygraft devices"


def probe() -> Probe:
    """Return whether PyObjC's modules are here; how many GPUs there are is known when one is opened."""
    missing = [name for name in MODULES if find_spec(name) is None]
    if not missing:
        return Probe(ok=True, detail="pyobjc-framework-Metal is installed", count=UNCOUNTED)
    if sys.platform != "darwin":
        what = f"Metal is a part of macOS, and this is {sys.platform}"
        return Probe(ok=False, detail=what, hint=GET_OTHER, warns=False)
    return Probe(ok=False, detail=f"PyObjC has no module {missing[0]} here", hint=GET_BINDING)
