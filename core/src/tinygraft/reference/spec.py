"""The DeviceSpecs of core's own devices: PYTHON interprets any kernel, NULL accepts everything and runs nothing."""

from tinygraft.device.device_spec import ApiRange, DeviceSpec, Probe


def always() -> Probe:
    """Return a successful probe: these devices are part of core, and so always available."""
    return Probe(ok=True, detail="part of core", count=None)


PYTHON = DeviceSpec(
    name="PYTHON",
    summary="an interpreter of the linear form, the oracle of all tests",
    api=ApiRange(min=(0, 1), below=(0, 2)),
    kind="interpreter",
    priority=0,
    probe="tinygraft.reference.spec:always",
    backend="tinygraft.reference.python:PythonBackend",
)

NULL = DeviceSpec(
    name="NULL",
    summary="accepts everything, runs nothing: compile without a device",
    api=ApiRange(min=(0, 1), below=(0, 2)),
    kind="interpreter",
    priority=0,
    probe="tinygraft.reference.spec:always",
    backend="tinygraft.reference.null:NullBackend",
    computes=False,
)
