"""What this plugin declares: the EXAMPLE device. Nothing heavy is imported here."""

from tinygraft.plugin import ApiRange, DeviceSpec

SPEC = DeviceSpec(
    name="EXAMPLE",
    summary="kernels as shared libraries of the system's C compiler",
    api=ApiRange((0, 1), (0, 2)),
    kind="accelerator",
    priority=0,  # never chosen by itself; 50 lets it win over the host's processor wherever its probe succeeds
    probe="tinygraft_example.probe:probe",
    backend="tinygraft_example.device:ExampleBackend",
    install_hint="pip install tinygraft-example",
)
