"""What this plugin declares: the CUDA device and its settings, which are read when a device is opened."""

from tinygraft.plugin import ApiRange, DeviceSpec, Setting

CUDA_DEVICE = Setting("CUDA_DEVICE", "", "which cards: the driver's number, the beginning of a UUID (GPU-... or "
                      "MIG-...) or a part of a name, or several with commas; empty takes all that "
                      "CUDA_VISIBLE_DEVICES allows")  # fmt: skip
CUDA_BINDING = Setting("CUDA_BINDING", "", "how the driver is called: pycuda or cffi; empty takes pycuda where it can "
                       "be imported")  # fmt: skip
CUDA_NVRTC = Setting("CUDA_NVRTC", "", "the file of the NVRTC library; empty looks for it")
CUDA_NVTX = Setting("CUDA_NVTX", 0, "1 names launches and replays for NVIDIA's profilers, by the package nvtx", 0, 1)

SPEC = DeviceSpec(
    name="CUDA",
    summary="NVIDIA GPUs, through the driver and NVRTC",
    api=ApiRange((0, 1), (0, 2)),
    kind="gpu",
    priority=100,
    probe="tinygraft_cuda.probe:probe",
    backend="tinygraft_cuda.device:CudaBackend",
    install_hint="pip install tinygraft-cuda; it needs NVIDIA's driver",
    offline="tinygraft_cuda.dialect:offline",
    settings={setting.name: setting.doc for setting in (CUDA_DEVICE, CUDA_BINDING, CUDA_NVRTC, CUDA_NVTX)},
)
