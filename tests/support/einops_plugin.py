"""A plugin of pytest that adds tinygraft's backend to those that einops' own test-suite goes through."""

from __future__ import annotations

from typing import Any

import einops.tests
from einops._backends import AbstractBackend

from tinygraft.interop.einops import EinopsBackend

_calls = 0


class Counted(EinopsBackend):
    """The backend, which counts how often something of it is asked for."""

    framework_name = "tinygraft counted"

    def __getattribute__(self, name: str) -> Any:
        global _calls
        _calls += hasattr(AbstractBackend, name)
        return super().__getattribute__(name)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how much the tests have used it."""
    terminalreporter.write_line(f"the backend of tinygraft: {_calls} calls")


_collect = einops.tests.collect_test_backends


def collect_test_backends(symbolic: bool = False, layers: bool = False) -> list[Any]:
    """What einops has here, and ours, for layers as for functions."""
    return _collect(symbolic, layers) + ([] if symbolic else [Counted()])


einops.tests.collect_test_backends = collect_test_backends
