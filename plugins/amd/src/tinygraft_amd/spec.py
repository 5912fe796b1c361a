"""What this plugin declares: the AMD device and its settings, which are read when a device is opened."""

from tinygraft.plugin import ApiRange, DeviceSpec, Setting

AMD_DEVICE = Setting("AMD_DEVICE", "", "which cards: HIP's number, the beginning of a UUID (GPU-...) or a part of a "
                     "name, or several with commas; empty takes all that HIP_VISIBLE_DEVICES allows")  # fmt: skip
AMD_COMPILER = Setting("AMD_COMPILER", "", "what compiles kernels: hiprtc, clang or zig; empty takes the first of them "
                       "that is here")  # fmt: skip
AMD_HIPRTC = Setting("AMD_HIPRTC", "", "the file of the hipRTC library; empty looks for it")
AMD_CLANG = Setting("AMD_CLANG", "", "a clang that makes code for amdgcn, with lld beside it; empty takes ROCm's")

SPEC = DeviceSpec(
    name="AMD",
    summary="AMD GPUs, through HIP and hipRTC (experimental)",
    api=ApiRange((0, 1), (0, 2)),
    kind="gpu",
    priority=95,
    probe="tinygraft_amd.probe:probe",
    backend="tinygraft_amd.device:AmdBackend",
    install_hint="pip install tinygraft-amd; it needs AMD's ROCm",
    offline="tinygraft_amd.dialect:offline",
    settings={setting.name: setting.doc for setting in (AMD_DEVICE, AMD_COMPILER, AMD_HIPRTC, AMD_CLANG)},
)
