"""Draws that the host counts: outside of a capture, where it sees the memory of the state.

    draw_now(state, words) -> the 16 bytes of the state before, or None

The numbers of such a draw are a function of 16 bytes of their own, and write nothing. Their graph is like any other,
where a graph that counts concerns all that was drawn before: an eager draw of a few numbers took over a millisecond.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tinygraft.device.buffer import buffer_of
from tinygraft.engine import tape
from tinygraft.engine.capture import open_captures
from tinygraft.engine.protect import readers_of
from tinygraft.tensor.state.live import LIVE
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp

# States whose memory a graph may read: that of a draw which counted in its graph, and is not computed
_in_graphs: weakref.WeakSet[UOp] = weakref.WeakSet()
_only_in_graphs: ContextVar[bool] = ContextVar("_only_in_graphs", default=False)


@contextmanager
def counted_in_graphs() -> Iterator[None]:
    """Let the graphs count in the block, whose writes are undone: nothing is drawn then."""
    token = _only_in_graphs.set(True)
    try:
        yield
    finally:
        _only_in_graphs.reset(token)


def note_graph(state: Any) -> None:
    """Note that a draw has counted in a graph, which reads the memory of `state`."""
    node = state.uop
    while node.op is not Ops.BUFFER:
        node = node.src[0]
    _in_graphs.add(node)


def draw_now(state: Any, words: int) -> bytes | None:
    """Count `words` as drawn, in the memory of `state`; return its bytes before that.

    None, and nothing is counted, where a capture is open, whose replays have to count, in `counted_in_graphs`, and
    where the state is no memory that the host sees at once, or a graph still reads it.
    """
    if open_captures() or _only_in_graphs.get() or state.uop.op is not Ops.BUFFER:
        return None
    node = state.uop
    buffer = buffer_of(node)
    if buffer.backend.timeline is not None or (node in _in_graphs and _is_read(state, node)):
        return None
    view = buffer.as_memoryview()
    if view is None or view.readonly:
        return None
    before = bytes(view)
    view[:8] = ((int.from_bytes(before[:8], "little") + words) % (1 << 64)).to_bytes(8, "little")
    return before


def _is_read(state: Any, node: UOp) -> bool:
    """Return whether a live tensor, or a value that a backward may go through, reads the memory of `state`."""
    others = [tensor for tensor in LIVE.near({node}) if tensor is not state]
    if readers_of(others, {node}) or tape.to_save({node}, {node}):
        return True
    _in_graphs.discard(node)
    return False
