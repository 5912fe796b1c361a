"""The items for JAX: jitted functions on the CPU, waited for with block_until_ready."""

from __future__ import annotations

import os
from typing import Any

import jax

from benchmarks.case import Builder
from benchmarks.with_jax import convnet, gpt2, ops, resnet

ITEMS: dict[str, Builder] = ops.ITEMS | convnet.ITEMS | resnet.ITEMS | gpt2.ITEMS


def facts() -> dict[str, Any]:
    """Version, device and threads."""
    return {"version": jax.__version__, "device": str(jax.devices()[0]), "threads": os.environ.get("NPROC", "")}
