"""What this plugin declares: the CPU device and its settings, which are read when the device is opened."""

from tinygraft.plugin import ApiRange, DeviceSpec, Setting

CPU_COMPILER = Setting("CPU_COMPILER", "", "llvm (in this process) or c (the system's compiler): how kernels become "
                       "machine code; empty is llvm where llvmlite is installed")  # fmt: skip
CPU_THREADS = Setting("CPU_THREADS", 0, "how many threads a kernel may use; 0 is as many as this process may run on")

CPU_TILES = Setting("CPU_TILES", "", "the processor's units for tiles (AMX): 0 does without, 1 uses them untried, "
                    "empty uses them after a trial in a child process")  # fmt: skip

SPEC = DeviceSpec(
    name="CPU",
    summary="the host's processor, through LLVM or a C compiler",
    api=ApiRange((0, 1), (0, 2)),
    kind="cpu",
    priority=10,
    probe="tinygraft_cpu.probe:probe",
    backend="tinygraft_cpu.device:CpuBackend",
    install_hint="pip install tinygraft-cpu",
    settings={setting.name: setting.doc for setting in (CPU_COMPILER, CPU_THREADS, CPU_TILES)},
)
