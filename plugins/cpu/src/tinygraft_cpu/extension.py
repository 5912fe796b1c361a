"""The native runtime (thread pool and replay), where it was built; without it kernels run on one thread.

Captured lists are then launched step by step from Python.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

ABI = 12  # of pool.h: increased there and here when a function, a structure or what a routine is given changes


@functools.cache
def _load() -> tuple[Any, str]:
    """Import the extension. Returns it with an empty text, or None with the reason why it cannot be used."""
    try:
        found = importlib.import_module("tinygraft_cpu._native")
    except ImportError as error:
        return None, f"the extension was not built or does not load: {error}"
    if not hasattr(found.lib, "tg_abi") or found.lib.tg_abi() != ABI:
        return None, "the extension was built from older sources; install the package again"
    return found, ""


def module() -> Any:
    """Return the extension: `lib` has its functions, `ffi` makes their arguments. None where it is missing."""
    return _load()[0]


def library() -> Any:
    """Return the functions of the extension; None where it is missing."""
    found = module()
    return None if found is None else found.lib


def why_missing() -> str:
    """Return why the extension is missing; empty when it is loaded."""
    return _load()[1]
