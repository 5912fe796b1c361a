"""The pytest plugin of the kit, loaded with `-p tinygraft.conformance.plugin`: options, fixtures, gate and report.

Nothing here touches a device before the first test is run. A device is opened once for a session.
"""

from __future__ import annotations

import pytest

from tinygraft.conformance.opened import Opened, open_device
from tinygraft.device.interfaces import Backend
from tinygraft.target import Target

_opened = pytest.StashKey[dict[str, Opened]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, all with long names, since two plugins with one name would end pytest."""
    group = parser.getgroup("tinygraft", "conformance of a device of tinygraft")
    group.addoption("--tinygraft-device", metavar="NAME", default="", help="the device to test, NAME or NAME:ordinal")


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marks."""
    config.stash[_opened] = {}
    config.addinivalue_line("markers", "tinygraft_needs(*abilities, **least): see tinygraft.conformance.gate")
    config.addinivalue_line("markers", "tinygraft_since(major, minor): see tinygraft.conformance.gate")


def opened_of(config: pytest.Config, name: str) -> Opened:
    """A device, opened when it is first asked for."""
    table = config.stash[_opened]
    if name not in table:
        table[name] = open_device(name)
    return table[name]


@pytest.fixture(scope="class")
def device(request: pytest.FixtureRequest) -> str:
    """The name of the device under test, for Tensor(..., device=device)."""
    return str(request.cls.device or request.config.getoption("--tinygraft-device"))


@pytest.fixture(scope="class")
def backend(request: pytest.FixtureRequest, device: str) -> Backend:
    """The opened device under test, the same object in every test of a session."""
    opened = opened_of(request.config, device)
    if opened.backend is None:
        pytest.fail(opened.reason, pytrace=False)
    return opened.backend


@pytest.fixture(scope="class")
def target(backend: Backend) -> Target:
    """What the device under test declares."""
    return backend.target
