"""Who says which epoch is next: the loader, or a script that calls `set_epoch` of a sampler, as those of PyTorch do.

The last one to say so is right. What the loader says is a ToldEpoch, an int that is known again: a sampler that has
another one was told by the script, even where that is the same number.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


class ToldEpoch(int):
    """The number of an epoch, said by a loader."""


class EpochTeller:
    """Tells samplers and data sets which epoch begins, and notices where another one was chosen for them.

    Those of `listeners` without `set_epoch`, None too, are left out.
    """

    def __init__(self, listeners: Iterable[Any]) -> None:
        self._listeners = [one for one in listeners if hasattr(one, "set_epoch")]
        first = (getattr(one, "epoch", 0) for one in self._listeners)  # one below 0 says that there was none yet
        self._seen: list[Any] = [epoch if isinstance(epoch, int) and epoch < 0 else 0 for epoch in first]

    def chosen(self) -> int | None:
        """Return the epoch that the script has chosen since `tell`; None where it has not."""
        for one, seen in zip(self._listeners, self._seen, strict=True):
            now = getattr(one, "epoch", None)
            if isinstance(now, int) and (now != seen or (type(seen) is ToldEpoch and now is not seen)):
                return int(now)
        return None

    def tell(self, epoch: int) -> None:
        """Call `set_epoch` of all listeners, and note what their `epoch` is after that."""
        for place, one in enumerate(self._listeners):
            one.set_epoch(ToldEpoch(epoch))
            self._seen[place] = getattr(one, "epoch", None)
