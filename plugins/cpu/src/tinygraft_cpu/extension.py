"""The native extension with the thread pool, where it was built; without it kernels run on one thread."""

from __future__ import annotations

import functools
import importlib
from typing import Any


@functools.cache
def _load() -> tuple[Any, str]:
    try:
        return importlib.import_module("tinygraft_cpu._native"), ""
    except ImportError as error:
        return None, f"the extension was not built or does not load: {error}"


def library() -> Any:
    """The functions of the extension; None where it is missing."""
    module = _load()[0]
    return None if module is None else module.lib


def why_missing() -> str:
    """Why the extension is missing; empty when it is there."""
    return _load()[1]
