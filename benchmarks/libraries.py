"""The libraries that can be measured: their modules here, and how each is installed and configured."""

from __future__ import annotations

import importlib
import os
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Library:
    """module has ITEMS and facts(); names imports what a script needs; install says how one gets the library."""

    module: str
    names: str
    install: str
    environment: dict[str, str] = field(default_factory=dict)


JAX = {  # its cache on disk stores everything, as ours does
    "JAX_PLATFORMS": "cpu",
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}

LIBRARIES = {
    "tinygraft": Library(
        "lazy", "from tinygraft import Tensor, TinyJit, nn", "pip install ./core ./plugins/cpu", {"DEV": "CPU"}
    ),
    "numpy": Library("with_numpy", "import numpy", "pip install numpy"),
    "torch": Library(
        "with_torch", "import torch", "pip install torch --extra-index-url https://download.pytorch.org/whl/cpu"
    ),
    "jax": Library("with_jax", "import jax.numpy", "pip install jax", JAX),
    "tinygrad": Library(
        "lazy", "from tinygrad import Tensor, TinyJit, nn", "pip install tinygrad, and clang", {"DEV": "CPU"}
    ),
    "onnxruntime": Library("with_onnxruntime", "import onnxruntime", "pip install onnxruntime onnx"),
}


def use(name: str) -> Any:
    """The module of a library, imported. Raises ImportError where the library is not installed."""
    os.environ["BENCHMARK"] = name
    return importlib.import_module(f"benchmarks.{LIBRARIES[name].module}")
