"""The conformance kit: the tests that every device passes, shipped with core. It needs pytest.

A plugin's own test file is three lines:

    from tinygraft.conformance import DeviceConformance
    class TestMini(DeviceConformance):
        device = "MINI"

and pytest loads the kit by `-p tinygraft.conformance.plugin`. `needs` and `since` mark a plugin's own tests.

The kit (`conformance/`). `DeviceConformance` is one mixin per level over `Suite`, whose fixtures open the
device once a session, the first time a test needs it. Tests are enumerated from tables, so collecting opens
no device. `plugin.py` is loaded with `-p`: before each test it checks what the test needs (`gate.py`) against
the opened device (its Target, the methods that its plugin overrides). A test of what is not declared is counted
by what is missing, and other tests check that the device refuses it; a failed test that is newer than a plugin's
API is advice, no failure; a known defect is listed in `conformance.toml`, strictly. Counts travel in the reports
of tests, so that they are right in any process. Each test of the kit is itself tested by devices with one fault each.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import pytest  # noqa: F401
except ImportError as error:
    raise ImportError("the conformance kit needs pytest: pip install 'pytest>=8.2'") from error

if TYPE_CHECKING:
    from tinygraft.conformance.device import DeviceConformance as DeviceConformance
    from tinygraft.conformance.gate import needs as needs
    from tinygraft.conformance.gate import since as since

__all__ = ["DeviceConformance", "needs", "since"]

_MODULE_OF = {"DeviceConformance": "device", "needs": "gate", "since": "gate"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `-p` alone loads little."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'tinygraft.conformance' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"tinygraft.conformance.{_MODULE_OF[name]}"), name)
