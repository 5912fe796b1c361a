"""Renderer: from the linear form of a kernel to the text that a compiler takes."""

from __future__ import annotations

from abc import ABC, abstractmethod

from tinygraft.uop.stages import Linear, Source


class Renderer(ABC):
    """Writes a Linear down in one language."""

    language: str

    @abstractmethod
    def render(self, linear: Linear) -> Source:
        """The kernel as text: readable, with named buffers and a header line of its name and actions."""
