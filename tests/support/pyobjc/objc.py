"""A stand-in for PyObjC's module objc: what the Metal plugin uses of it."""

from __future__ import annotations

import threading
from typing import Any

_inside = threading.local()
registered: dict[str, dict[str, Any]] = {}  # what the plugin says of methods, by selector


def registerMetaDataForSelector(class_name: bytes, selector: bytes, metadata: dict[str, Any]) -> None:
    """Replace what is known of a method."""
    assert class_name == b"NSObject"
    registered[selector.decode()] = metadata


class autorelease_pool:
    """A pool of objects that go at its end; the emulated Metal makes none outside of one."""

    def __enter__(self) -> None:
        _inside.depth = depth() + 1

    def __exit__(self, *_: Any) -> None:
        _inside.depth -= 1


def depth() -> int:
    """How many pools this thread is in."""
    return int(getattr(_inside, "depth", 0))
