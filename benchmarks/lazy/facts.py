"""What runs the items: device, compiler, extension, threads; and what one run takes in kernels."""

from __future__ import annotations

import importlib.metadata
import os
from typing import Any

from benchmarks.case import Case
from benchmarks.lazy.library import Device

NAME = os.environ.get("BENCHMARK", "tinygraft")


def facts() -> dict[str, Any]:
    """Version, device and compiler; for tinygraft also whether the extension is there, and the number of threads."""
    found: dict[str, Any] = {"version": importlib.metadata.version(NAME), "device": Device.DEFAULT}
    backend = Device[Device.DEFAULT]
    if NAME == "tinygrad":
        return found | {"compiler": os.environ.get("CC", "clang"), "renderer": type(backend.renderer).__name__}
    from tinygraft_cpu import extension

    compiler = getattr(backend, "compiler_name", type(backend.compiler).__name__)
    return found | {"compiler": compiler, "extension": extension.why_missing() or "present",
                    "threads": getattr(backend, "threads", 1)}  # fmt: skip


def counts(case: Case) -> dict[str, int]:
    """How many kernels one run launches, and how many it compiles; nothing for tinygrad."""
    if NAME == "tinygrad":
        return {}
    from tinygraft import GlobalCounters

    GlobalCounters.reset()
    case.run()
    return {"kernels": GlobalCounters.kernel_count, "compiled": GlobalCounters.kernels_compiled}
