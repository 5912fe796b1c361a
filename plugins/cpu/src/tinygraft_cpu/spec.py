"""What this plugin declares: the CPU device. Imports nothing heavy."""

from tinygraft.plugin import ApiRange, DeviceSpec

SPEC = DeviceSpec(
    name="CPU",
    summary="the host's processor, through LLVM or a C compiler",
    api=ApiRange((0, 1), (0, 2)),
    kind="cpu",
    priority=10,
    probe="tinygraft_cpu.probe:probe",
    backend="tinygraft_cpu.device:CpuBackend",
    install_hint="pip install tinygraft-cpu",
    settings={
        "CPU_COMPILER": "llvm (in process, needs llvmlite) or c (the system's compiler); empty picks llvm where it is",
        "CPU_THREADS": "how many threads a kernel may use; 0 is as many as this process may run on",
    },
)
