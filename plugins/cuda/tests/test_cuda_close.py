"""What a closed device leaves behind in a context that another library keeps alive: nothing but memory in use."""

from __future__ import annotations

import json

import pytest

import cuda_emulator

pytestmark = pytest.mark.needs("cc")

CODE = """
import ctypes, gc, json, warnings
warnings.simplefilter("error")
driver = ctypes.CDLL("libcuda.so.1")
driver.emulated_living.restype = driver.emulated_counted.restype = ctypes.c_long
context, stream, event, pool, kept = (ctypes.c_void_p() for _ in range(5))
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0  # as PyTorch does
assert driver.cuCtxSetCurrent(context) == 0 and driver.cuStreamCreate(ctypes.byref(stream), 1) == 0
assert driver.cuEventCreate(ctypes.byref(event), 0) == 0
assert driver.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
assert driver.cuMemPoolSetAttribute(pool, 4, ctypes.byref(ctypes.c_ulonglong(12345))) == 0

def living():
    kinds = ("stream", "event", "module", "graph", "executable")
    return {kind: driver.emulated_living(kind.encode()) for kind in kinds}

before = living()
import numpy as np
from tinygraft import Device, Tensor, TinyJit
f = TinyJit(lambda x: ((x * 2).contiguous().realize() + 1).realize())
x = Tensor(np.arange(1000, dtype=np.float32), device="CUDA").realize()
for i in range(4):
    y = f(x)
with Device["CUDA"].new_queue():
    z = (y + x).realize()
there = (z.to("CUDA:1") * 2).realize()   # its card uses memory of this one
back = (there.to("CUDA") + 1).realize()
event_kept = Device["CUDA"].queue.record()
capsule = x.__dlpack__()
del z, there
open_now, trims = living(), driver.emulated_counted(b"trim")
Device.close()
gc.collect()
closed = living()
assert driver.cuMemPoolGetAttribute(pool, 4, ctypes.byref(kept)) == 0
again = (Tensor([1.0], device="CUDA") + 1).tolist()
assert event_kept.done()
del f, x, y, back, capsule, event_kept
gc.collect()
print(json.dumps([before, open_now, closed, driver.emulated_counted(b"trim") - trims, kept.value, again,
                  driver.cuStreamSynchronize(stream), driver.cuEventRecord(event, stream)]))
"""


def test_close_destroys_what_was_made() -> None:
    """The driver has as many streams, events, modules and graphs as before, and its pool keeps what it kept."""
    done = cuda_emulator.python(CODE, CUDA_BINDING="cffi")
    assert done.returncode == 0, done.stderr[-3000:]
    before, opened, closed, trims, kept, again, *theirs = json.loads(done.stdout)
    assert before == {"stream": 1, "event": 1, "module": 0, "graph": 0, "executable": 0}
    assert opened["executable"] == 1
    assert all(opened[kind] > count for kind, count in before.items())
    assert closed == before
    assert trims >= 1
    assert kept == 12345
    assert again == [2]
    assert theirs == [0, 0]
