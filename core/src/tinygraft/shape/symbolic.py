"""Where older scripts import `Variable`, `sint` and `Node` from, the last for isinstance() of a size that varies."""

from typing import Any

from tinygraft.helpers import lazily

_find = lazily(__name__, {"Variable": "tinygraft", "sint": "tinygraft.uop.ops"})


def __getattr__(name: str) -> Any:
    """Return a name of a module in a higher layer; a `Node` is a node of the graph."""
    if name == "Node":
        from tinygraft.uop.uop import UOp

        return UOp
    return _find(name)
