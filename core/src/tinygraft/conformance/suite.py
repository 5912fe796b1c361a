"""Suite: a class of tests of one device, which the kit opens, gates and counts; with the fixtures of these tests.

The fixtures are the class's own, so that fixtures of the same names in a plugin's conftest.py do not hide them.
"""

from __future__ import annotations

from typing import Protocol

import pytest

from tinygraft.conformance.opened import Opened, Writing
from tinygraft.device.device_spec import DeviceSpec
from tinygraft.device.interfaces import Backend
from tinygraft.device.plugin_records import PluginRecord
from tinygraft.target import Target


class OpensDevices(Protocol):
    """The part of the run of the kit (session.Kit) that a Suite uses."""

    def device_of(self, suite: type[Suite]) -> str:
        """Return the name of the device that a class of tests is about."""

    def opened(self, device: str) -> Opened:
        """Return a device, opened by the first call."""


OPENS: pytest.StashKey[OpensDevices] = pytest.StashKey()


class Suite:
    """A class of tests of one device.

    `device` is its name, by default that of the option --tinygraft-device. `level` restricts the run to some levels, as
    the option --tinygraft-level does: "render", "0-1", "0,memory".
    """

    device: str = ""
    level: str = ""

    @pytest.fixture(scope="class", name="opened")
    @classmethod
    def _opened(cls, request: pytest.FixtureRequest) -> Opened:
        """Return the device under test, with its backend or the reason why it has none."""
        kit = request.config.stash.get(OPENS, None)
        if kit is None:
            pytest.fail("the conformance kit is not loaded: pytest -p tinygraft.conformance.plugin", pytrace=False)
        return kit.opened(kit.device_of(request.cls))

    @pytest.fixture(scope="class", name="record")
    @classmethod
    def _record(cls, opened: Opened) -> PluginRecord:
        """Return the record of the device under test, also where it is absent."""
        if opened.record is None:
            pytest.fail(opened.reason, pytrace=False)
        return opened.record

    @pytest.fixture(scope="class", name="spec")
    @classmethod
    def _spec(cls, record: PluginRecord) -> DeviceSpec:
        """Return the DeviceSpec of the device under test."""
        if record.spec is None:
            pytest.fail(f"{record.name} {record.status.value}: {record.detail}", pytrace=False)
        return record.spec

    @pytest.fixture(scope="class", name="backend")
    @classmethod
    def _backend(cls, opened: Opened) -> Backend:
        """Return the opened device under test, the same object in every test of a session."""
        assert opened.backend is not None, opened.reason
        return opened.backend

    @pytest.fixture(scope="class", name="writing")
    @classmethod
    def _writing(cls, opened: Opened) -> Writing:
        """Return the Target and the renderer of the device under test; of an absent one those of `offline`."""
        writing = opened.writing()
        assert writing is not None, opened.reason
        return writing

    @pytest.fixture(scope="class", name="device")
    @classmethod
    def _device(cls, backend: Backend) -> str:
        """Return the name of the device under test, for Tensor(..., device=device)."""
        return backend.name

    @pytest.fixture(name="target")
    def _target(self, backend: Backend) -> Target:
        """Return the Target of the device under test."""
        return backend.target
