"""Opening once, closing in reverse, forking and many threads."""

import os
import subprocess
import sys
import threading

import pytest

from tinygraft.device import buffer as buffers
from tinygraft.device.buffer import Buffer
from tinygraft.dtype import dtypes
from tinygraft.errors import DeviceLostError

COUNTS = """
import time
log = []
class Backend(NullBackend):
    survives_fork = {survives}
    def __init__(self, name, ordinal):
        super().__init__(name, ordinal)
        log.append("open " + name)
        time.sleep(0.02)
    def close(self):
        log.append("close " + self.name)
        if self.ordinal == 1:
            raise OSError("stuck")
        if self.ordinal == 3:
            raise SystemExit(3)
"""


def counting(fakes, survives=True):
    """A registry with a device that logs, and its log."""
    module = fakes.add("TOY", COUNTS.format(survives=survives), count=None)
    registry = fakes.registry()
    registry.probe("TOY")
    return registry, sys.modules[module].log


def test_eight_threads_open_a_device_once(fakes):
    """Threads that ask at once get one backend."""
    registry, log = counting(fakes)
    barrier, got = threading.Barrier(8), []

    def ask():
        barrier.wait()
        got.append(registry["toy"])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 8
    assert len(set(map(id, got))) == 1
    assert log == ["open TOY"]


def test_closing_in_reverse_order(fakes):
    """close() closes the last opened first; one that fails or exits is warned about and keeps no other open."""
    registry, log = counting(fakes)
    for name in ("TOY", "TOY:1", "TOY:2", "TOY:3"):
        registry[name]
    log.clear()
    with pytest.warns(RuntimeWarning) as said:
        registry.close()
    assert [str(w.message) for w in said] == [
        "TOY:3 could not be closed: SystemExit: 3",
        "TOY:1 could not be closed: OSError: stuck",
    ]
    assert log == ["close TOY:3", "close TOY:2", "close TOY:1", "close TOY"]
    assert registry.opened() == []


def test_devices_are_closed_at_exit():
    """The process-wide registry closes what is open when Python ends, the last opened first."""
    code = (
        "from tinygraft import Device\n"
        "from tinygraft.reference.null import NullBackend\n"
        "NullBackend.close = lambda self: print('close', self.name)\n"
        "Device['NULL'], Device['NULL:1']\n"
        "print('end')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n") == ["end", "close NULL:1", "close NULL", ""]


def test_a_closed_device_can_be_opened_again(fakes):
    """After close() a name opens a new backend."""
    registry, _ = counting(fakes)
    first = registry["TOY"]
    registry.close()
    assert registry["TOY"] is not first


def test_close_gives_kept_memory_back_first(fakes, monkeypatch):
    """Freed buffers that were kept for reuse go back to the allocator before the backend is closed."""
    registry, log = counting(fakes)
    monkeypatch.setattr(buffers, "Device", registry)
    registry["TOY"].allocator.free = lambda handle, nbytes: log.append(f"free {nbytes}")
    Buffer("TOY", 10, dtypes.float32).allocate().deallocate()
    log.clear()
    registry.close()
    assert log == ["free 40", "close TOY"]


def in_fork(work):
    """What work gives in a forked child, as text."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(write, text.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return text


needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@needs_fork
def test_a_backend_of_host_memory_survives_fork(fakes, monkeypatch):
    """In a forked child such a backend and its buffers are those of the parent."""
    registry, log = counting(fakes)
    monkeypatch.setattr(buffers, "Device", registry)
    backend, buffer = registry["TOY"], Buffer("TOY", 10, dtypes.float32).allocate()
    assert in_fork(lambda: (registry["TOY"] is backend, buffer.handle, log)) == "(True, 40, ['open TOY'])"


@needs_fork
def test_other_backends_are_opened_anew(fakes, monkeypatch):
    """A backend that does not survive is forgotten, not closed; its buffers say what became of them."""
    registry, _ = counting(fakes, survives=False)
    monkeypatch.setattr(buffers, "Device", registry)
    backend, buffer = registry["TOY"], Buffer("TOY", 10, dtypes.float32).allocate()
    answer = in_fork(lambda: (registry["TOY"] is backend, registry["TOY"].name, sys.modules["tinygraft_toy"].log))
    assert answer == "(False, 'TOY', ['open TOY', 'open TOY'])"
    message = in_fork(lambda: buffer.handle)
    assert message == (
        "DeviceLostError: TOY was opened before this process was forked, and the values in its memory are lost in the "
        "child; start worker processes with the spawn method, or open the device in the child only"
    )
    assert buffer.handle == 40  # the parent keeps its own


@needs_fork
def test_fork_while_another_thread_opens(fakes):
    """A lock that another thread held at the fork does not hang the child."""
    registry, log = counting(fakes)
    thread = threading.Thread(target=lambda: registry["TOY"])
    thread.start()
    while not log:
        pass
    answer = in_fork(lambda: registry["TOY:2"].name)
    thread.join()
    assert answer == "TOY:2"


def test_a_buffer_of_a_closed_device(fakes, monkeypatch):
    """A buffer that outlives its device is refused new memory there and is dropped without harm."""
    registry, _ = counting(fakes)
    monkeypatch.setattr(buffers, "Device", registry)
    buffer = Buffer("TOY", 10, dtypes.float32).allocate()
    registry.close()
    with pytest.raises(DeviceLostError, match="^TOY has been closed, and the values in its memory are gone"):
        buffer.handle  # noqa: B018
    del buffer
