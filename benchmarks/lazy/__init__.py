"""The items for tinygraft, and for tinygrad: the same scripts, which differ in one import (`library.py`)."""

from __future__ import annotations

from benchmarks.case import Builder
from benchmarks.lazy import convnet, gpt2, ops, policy, resnet, varied
from benchmarks.lazy.facts import counts, facts

__all__ = ["ITEMS", "counts", "facts"]

ITEMS: dict[str, Builder] = ops.ITEMS | convnet.ITEMS | resnet.ITEMS | gpt2.ITEMS | policy.ITEMS | varied.ITEMS
