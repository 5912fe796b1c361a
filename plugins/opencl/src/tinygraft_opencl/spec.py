"""What this plugin declares: the OpenCL device and its settings, which are read when a device is opened."""

from tinygraft.plugin import ApiRange, DeviceSpec, Setting

OPENCL_PLATFORM = Setting("OPENCL_PLATFORM", "", "which OpenCL platform: a part of its name, vendor or version, such "
                          "as pocl or nvidia; empty takes devices of all platforms, GPUs first")  # fmt: skip
OPENCL_DEVICE = Setting("OPENCL_DEVICE", "", "which OpenCL device: a part of its name; empty takes all")
OPENCL_GROUPS = Setting("OPENCL_GROUPS", "", "how kernels run in parallel: 1 in work-groups (thread blocks) with local "
                        "memory, 0 in loops, empty in work-groups where the device has separate local "
                        "memory")  # fmt: skip

SPEC = DeviceSpec(
    name="OPENCL",
    summary="any OpenCL device, through pyopencl",
    api=ApiRange((0, 1), (0, 2)),
    kind="gpu",
    priority=5,  # below the processor's own plugin, which is faster than OpenCL on the same processor
    probe="tinygraft_opencl.probe:probe",
    backend="tinygraft_opencl.device:OpenCLBackend",
    install_hint="pip install tinygraft-opencl, or for a machine with no OpenCL driver: pip install "
    "'tinygraft-opencl[pocl]'",
    offline="tinygraft_opencl.dialect:offline",
    settings={setting.name: setting.doc for setting in (OPENCL_PLATFORM, OPENCL_DEVICE, OPENCL_GROUPS)},
)
