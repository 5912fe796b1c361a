"""Renderer: from the linear form of a kernel to the text that a compiler takes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tinygraft.uop.stages import Linear, Source


class Renderer(ABC):
    """Writes a Linear as source of one language."""

    language: str

    @abstractmethod
    def render(self, linear: Linear) -> Source:
        """Return the kernel as readable text: named buffers, and a header line with its name and actions."""
