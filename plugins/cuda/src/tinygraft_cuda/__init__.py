"""The CUDA device of tinygraft: NVIDIA GPUs, through the driver's own functions and the compiler NVRTC."""
