"""Which rules were applied, by name, and how often: DEBUG=5 prints it, a Recorder stores it for explain and VIZ.

In: RuleEvents, which are made only while an observer of them is registered. Out: a Counter of names, and its text.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.events import RuleEvent


@contextmanager
def counted_rules() -> Iterator[Counter[str]]:
    """Yield a Counter of the rules that this thread applies within the block, by name; below DEBUG=5 it stays empty.

    >>> from tinygraft.config import Context
    >>> from tinygraft.dtype import dtypes
    >>> from tinygraft.rules.fold import fold
    >>> from tinygraft.uop.ops import Ops
    >>> from tinygraft.uop.uop import UOp
    >>> with Context(DEBUG=5), counted_rules() as applied:
    ...     one = fold(Ops.MUL, dtypes.int, (UOp.const(dtypes.int, 3), UOp.const(dtypes.int, 1)))
    >>> rules_text(applied)
    'mul_one'
    """
    found: Counter[str] = Counter()
    if DEBUG.value < 5:
        yield found
        return
    thread = threading.get_ident()  # observers are notified of the rules of all threads

    def count(event: RuleEvent) -> None:
        """Count a rule of this thread."""
        if threading.get_ident() == thread:
            found[event.name] += 1

    stop = events.observe(count, RuleEvent)
    try:
        yield found
    finally:
        stop()


def rules_text(applied: Counter[str]) -> str:
    """Return which rules were applied and how often as text, the most frequent first.

    >>> rules_text(Counter(["mul_one", "distribute", "distribute"]))
    'distribute 2, mul_one'
    """
    return ", ".join([f"{name} {count}" if count > 1 else name for name, count in applied.most_common()])
