"""Which binding calls the driver, and why: pycuda where it is installed and fits the driver, else cffi.

Both do the same. cffi needs nothing but the driver; pycuda is there for programs that use it beside tinygraft.
"""

from __future__ import annotations

from importlib.util import find_spec

from tinygraft.plugin import DeviceUnavailable, SettingError
from tinygraft.plugin.driver import DriverCard
from tinygraft_cuda.context import CudaContext
from tinygraft_cuda.driver import Driver
from tinygraft_cuda.spec import CUDA_BINDING

BUILD_PYCUDA = "python -m tinygraft_cuda.build_pycuda"


def opened(driver: Driver, device: DriverCard) -> CudaContext:
    """Return the context of a card by the binding that is asked for, or that works. Raises DeviceUnavailable."""
    wanted = CUDA_BINDING.value
    if wanted not in ("", "pycuda", "cffi"):
        raise SettingError(f"CUDA_BINDING must be pycuda, cffi or empty, got {wanted!r}")
    why = "" if wanted == "cffi" else missing_pycuda()
    if wanted == "cffi" or (why and not wanted):
        return CudaContext(driver, device)
    if why:
        raise DeviceUnavailable(f"CUDA_BINDING=pycuda: {why}")
    from tinygraft_cuda.pycuda_context import PycudaContext

    return PycudaContext(driver, device)


def missing_pycuda() -> str:
    """Return why pycuda cannot be used, and the command that mends it; empty where it can."""
    if find_spec("pycuda") is None:
        return f"pycuda is not installed; {BUILD_PYCUDA} builds and installs it"
    try:
        import pycuda.driver  # noqa: F401
    except ImportError as error:
        return f"pycuda is installed and cannot be imported ({error}); {BUILD_PYCUDA} builds it for this driver"
    return ""


def why(binding: str) -> str:
    """Return why a binding was chosen, and how to have the other."""
    if CUDA_BINDING.value:
        return f"CUDA_BINDING={CUDA_BINDING.value} asks for it; without it {BINDINGS[binding]}"
    if binding == "pycuda":
        return "it is installed and fits this driver; CUDA_BINDING=cffi takes the other, which needs nothing"
    return missing_pycuda()


BINDINGS = {"pycuda": "pycuda is used wherever it is installed", "cffi": f"pycuda is used, which {BUILD_PYCUDA} builds"}
