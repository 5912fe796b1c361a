"""How ranks ended: which of them, or the launcher that ended them, says the exit code."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tinygraft.collectives.kept_ranks import Kept, KeptRanks


def code_of(ends: dict[int, int | None], first: int | None, launcher: int) -> tuple[int, str]:
    """Return the exit code and what is said, for how each rank ended (None: its keeper did not tell), and mpiexec."""
    ranks = KeptRanks(["mpiexec"], len(ends), ["python"], {})
    said: list[str] = []
    ranks._say = said.append  # type: ignore[method-assign]
    for number, code in ends.items():
        kept: Any = Kept(None)  # type: ignore[arg-type]
        kept.number, kept.process, kept.code = number, 100 + number, code
        ranks.kept.append(kept)
        if number == first:
            ranks.failed = kept
    ranks.process = SimpleNamespace(returncode=launcher)  # type: ignore[assignment]
    return ranks._code(), " ".join(said)


@pytest.mark.parametrize(("ends", "first", "launcher", "code", "said"), [
    ({0: None, 1: None}, None, 7, 7, "ranks 0, 1 ended with mpiexec, which ended with exit code 7"),
    ({0: -9, 1: None}, 0, 7, 7, "rank 1 ended with mpiexec, which ended with exit code 7"),  # the keeper was faster
    ({0: -9, 1: 143}, 0, 137, 137, "rank 0 was ended by signal 9 (SIGKILL), and the other ranks were ended"),
    ({0: -9, 1: None}, 0, -9, 137, "rank 0 was ended by signal 9 (SIGKILL), and the other ranks were ended"),
    ({0: 3, 1: None}, 0, 3, 3, "rank 0 ended with exit code 3, and the other ranks were ended"),
    ({0: 0, 1: 0}, None, 0, 0, ""),
])  # fmt: skip
def test_the_exit_code_is_that_of_what_failed_first(
    ends: dict[int, int | None], first: int | None, launcher: int, code: int, said: str
) -> None:
    """MPI_Abort(7) lets mpiexec kill all: a rank that this killed did not fail."""
    assert code_of(ends, first, launcher) == (code, said)
