"""What this plugin declares: the METAL device and its settings, which are read when a device is opened."""

from tinygraft.plugin import ApiRange, DeviceSpec, Setting

METAL_DEVICE = Setting("METAL_DEVICE", "", "which GPUs: the number that Metal's list gives it, the beginning of its "
                       "registry ID (0x...) or a part of a name, or several with commas; empty takes all, the system's "
                       "default first")  # fmt: skip
METAL_ICB = Setting("METAL_ICB", "", "how a TinyJit is replayed: 1 by an indirect command buffer, 0 by encoding each "
                    "launch again; empty by an indirect one where the GPU has them, and has hardware")  # fmt: skip

SPEC = DeviceSpec(
    name="METAL",
    summary="Apple's GPUs, through Metal (experimental)",
    api=ApiRange((0, 1), (0, 2)),
    kind="gpu",
    priority=90,
    probe="tinygraft_metal.probe:probe",
    backend="tinygraft_metal.device:MetalBackend",
    install_hint="pip install tinygraft-metal; it needs macOS",
    offline="tinygraft_metal.dialect:offline",
    settings={setting.name: setting.doc for setting in (METAL_DEVICE, METAL_ICB)},
)
