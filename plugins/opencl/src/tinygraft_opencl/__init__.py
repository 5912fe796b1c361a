"""The OpenCL device of tinygraft: any platform that pyopencl finds, GPUs and processors alike."""
