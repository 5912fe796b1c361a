"""Ranges of NVTX, by which NVIDIA's profilers show what a program called for: launches and replays, by their names."""

from __future__ import annotations

from tinygraft.plugin import SettingError
from tinygraft.plugin.driver import NameRange
from tinygraft_cuda.spec import CUDA_NVTX

DOMAIN = "tinygraft"


def marks() -> NameRange | None:
    """Return what marks a block by a name; None where CUDA_NVTX does not ask for it. Raises SettingError."""
    if not CUDA_NVTX.value:
        return None
    try:
        import nvtx
    except ImportError as error:
        raise SettingError(f"CUDA_NVTX=1 needs the package nvtx ({error}); pip install nvtx, or leave it 0") from error
    return lambda name: nvtx.annotate(name, domain=DOMAIN)
