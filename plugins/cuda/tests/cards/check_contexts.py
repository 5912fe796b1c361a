"""What only CUDA's driver and its libraries have: contexts of others, pycuda, ranges of NVTX."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

from card import Array
from tinygraft import Context, Device, Tensor
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.levels.optional_launches import BackendMemory, spinning
from tinygraft.errors import SettingError, UnsupportedError
from tinygraft_cuda.device import CudaBackend

needs_pycuda = pytest.mark.skipif(find_spec("pycuda") is None, reason="pycuda is not installed")
SHAPE = (3, 4)


def test_launches_have_names_for_profilers(backend: CudaBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """With CUDA_NVTX=1 a launch is a range of its kernel's name, in a domain of its own."""
    names: list[tuple[str, str]] = []

    @contextmanager
    def annotate(name: str, domain: str) -> Iterator[None]:
        names.append((domain, name))
        yield

    monkeypatch.setitem(sys.modules, "nvtx", SimpleNamespace(annotate=annotate))
    with Context(CUDA_NVTX=1):
        marked = CudaBackend("CUDA", 0)
    memory = BackendMemory(marked)
    (slow,) = programs(marked, [spinning(10)])
    marked.queue.launch(slow, [memory.make([0]), memory.make([1])], [], (1, 1, 1))
    marked.synchronize()
    assert names == [("tinygraft", "spinning")]
    assert backend.context.mark is None
    marked.close()
    monkeypatch.setitem(sys.modules, "nvtx", None)
    with (
        Context(CUDA_NVTX=1),
        pytest.raises(SettingError, match="CUDA_NVTX=1 needs the package nvtx .* pip install nvtx"),
    ):
        CudaBackend("CUDA", 0)


def test_memory_of_another_context_of_the_card_is_refused(backend: CudaBackend) -> None:
    """Made in a context that is not the primary one, as pycuda.autoinit makes one: each way in says what to do."""
    driver, other, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_ulonglong()
    assert driver.cuCtxCreate_v2(ctypes.byref(other), 0, backend.device.number) == 0
    try:
        assert driver.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64)) == 0
        refused = (
            "was made in another context of this card.*: .*import pycuda.autoprimaryctx instead of pycuda.autoinit"
        )
        with pytest.raises(UnsupportedError, match=refused):
            backend.allocator.at_address(address.value, 64)
        with pytest.raises(BufferError, match=refused):
            Tensor.from_dlpack(Array(address.value, (4,), stream=None), device="CUDA")
        with pytest.raises(ValueError, match=refused):
            Tensor.from_blob(address.value, (4,), device="CUDA")
        assert driver.cuMemFree_v2(address) == 0
    finally:
        assert driver.cuCtxDestroy_v2(other) == 0


def test_a_context_that_another_library_made_is_used(backend: CudaBackend) -> None:
    """It is the primary context of the card, and stays current for the thread that had another one."""
    holder = backend.context.ffi.new("CUcontext *")
    driver = backend.context.driver
    driver.call("cuDevicePrimaryCtxRetain", holder, backend.device.number)
    assert holder[0] == backend.context.handle
    driver.call("cuDevicePrimaryCtxRelease_v2", backend.device.number)
    try:
        other = Device["CUDA:1"]
    except RuntimeError:
        pytest.skip("one card")
    assert isinstance(other, CudaBackend)
    driver.call("cuCtxSetCurrent", other.context.handle)
    assert (Tensor([1.0], device="CUDA") + 1).tolist() == [2.0]
    driver.call("cuCtxGetCurrent", holder)
    assert holder[0] == other.context.handle
    driver.call("cuCtxSetCurrent", backend.context.handle)


@needs_pycuda
def test_pycuda_copies_from_a_buffer(backend: CudaBackend) -> None:
    """The cells of the introduction: memcpy_dtoh from the address of a realised tensor."""
    import pycuda.autoprimaryctx  # noqa: F401
    import pycuda.driver as cuda

    with Context(DEV="CUDA"):
        b = (Tensor.ones((10, 10)) + 2).contiguous().realize()
    assert repr(b.lazydata.base.realized) == "<buf real:True device:CUDA size:100 dtype:dtypes.float offset:0>"
    assert repr(b.lazydata.base.realized._buf).startswith("c_ulong(")
    array = np.empty((10, 10), dtype=np.float32)
    cuda.memcpy_dtoh(array, b.lazydata.base.realized._buf.value)
    assert (array == 3).all()


@needs_pycuda
def test_a_gpuarray_and_a_tensor_are_one_memory(backend: CudaBackend) -> None:
    """Both ways, without a copy: pycuda's array as a tensor, a tensor's memory as pycuda's array."""
    import pycuda.autoprimaryctx  # noqa: F401
    from pycuda import gpuarray

    theirs = gpuarray.to_gpu(np.arange(12, dtype=np.float32).reshape(SHAPE))
    x = Tensor.from_dlpack(theirs, device="CUDA")
    x.assign(x * 2).realize()
    np.testing.assert_array_equal(theirs.get(), np.arange(12, dtype=np.float32).reshape(SHAPE) * 2)
    y = (Tensor.arange(12, device="CUDA").reshape(SHAPE).float() + 1).realize()
    facts = y.__cuda_array_interface__
    mine = gpuarray.GPUArray(facts["shape"], np.float32, gpudata=facts["data"][0], base=y)
    np.testing.assert_array_equal(mine.get(), y.numpy())
