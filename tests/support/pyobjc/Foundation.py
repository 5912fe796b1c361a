"""A stand-in for PyObjC's module Foundation: what the Metal plugin uses of it."""

from __future__ import annotations


class NSURL:
    """The address of a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    @classmethod
    def fileURLWithPath_(cls, path: str) -> NSURL:
        """That of a file in this machine."""
        assert isinstance(path, str)
        return cls(path)

    def path(self) -> str:
        """The file."""
        return self._path


class NSError:
    """What went wrong."""

    def __init__(self, text: str) -> None:
        self._text = text

    def localizedDescription(self) -> str:
        """As a sentence."""
        return self._text
