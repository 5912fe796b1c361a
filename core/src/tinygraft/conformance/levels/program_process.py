"""Processes: binaries that another process loads, forks, and a backend that is closed and opened again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.compare import same
from tinygraft.conformance.gate import needs
from tinygraft.conformance.kernels import Run, launched, pack, unpack
from tinygraft.conformance.levels.optional_launches import INT, SIZE, mapped
from tinygraft.device.interfaces import Backend
from tinygraft.target import Target
from tinygraft.uop.stages import Binary, Kernel

TIMEOUT = 120  # seconds that a child may take
COMPUTES = """
import json, sys
from tinygraft import GlobalCounters, Tensor
x = Tensor(list(range(37)), device=sys.argv[1])
found = ((x * 3 + 1).contiguous().flip(0) - x).tolist()
print(json.dumps({"found": found, "compiled": GlobalCounters.kernels_compiled}))
"""
FORKS = """
import json, os, signal, sys
from tinygraft import Device, Tensor

def compute():
    try:
        found = (Tensor([1, 2, 3], device=sys.argv[1]) * 5 + 1).tolist()
        if Device[sys.argv[1]].target.chunks > 1:  # a kernel in parts, whose threads no child has
            rows = Tensor.ones(512, 1024, device=sys.argv[1]).contiguous().realize()
            found.append(int((rows * 2 + 1).sum(axis=1).sum().item()) - 3 * 512 * 1024)
        return found
    except BaseException as error:
        return type(error).__name__

def in_child():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(20)
        os.write(write, json.dumps(compute()).encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else "the child died or hung"

Device.probe(sys.argv[1])
found = {"after the probe": in_child(), "opened here": compute(), "opened before": in_child()}
found["afterwards"] = compute()
print(json.dumps(found))
"""
WANT = [3 * (36 - i) + 1 - i for i in range(37)]


def child(code: str, device: str, **settings: str) -> Any:
    """Run `code` in a fresh process, with `device` as its argument. Returns the JSON that it prints.

    `settings` are environment variables. Raises AssertionError, with its stderr, where the process fails.
    """
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **settings}
    done = subprocess.run([sys.executable, "-c", code, device], capture_output=True, text=True, timeout=TIMEOUT,
                          env=environment, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


class Processes:
    """What a device stores in binaries, shares with a forked child, and frees when it is closed."""

    def run(self, backend: Backend, binary: Binary, run: Run) -> list[int]:
        """Load and launch a binary. Returns the values of its first buffer."""
        return unpack(launched(backend, backend.load(binary), run)[0], INT)

    def test_binary_is_all_there_is(self, backend: Backend, target: Target) -> None:
        """The bytes of a binary are all that loading it needs: it loads twice, and from a new Binary of equal bytes."""
        linear = to_linear(Kernel(mapped(lambda x: x * 3 + 1)), target)
        run = Run(linear, [bytes(4 * SIZE), pack(range(SIZE), INT)])
        binary = backend.compiler.compile(backend.renderer.render(linear))
        copies = [binary, binary, Binary(binary.name, bytes(binary.data), linear.signature)]
        same([self.run(backend, one, run) for one in copies], [[3 * v + 1 for v in range(SIZE)]] * 3)

    @needs("keeps_binaries")
    def test_binaries_serve_another_process(self, device: str, tmp_path: Path) -> None:
        """A process loads what an earlier one has compiled from disk, and compiles nothing."""
        settings = {"TINYGRAFT_CACHE": str(tmp_path), "CACHELEVEL": "1"}
        first, second = (child(COMPUTES, device, **settings) for _ in range(2))
        assert first["found"] == second["found"] == WANT
        assert first["compiled"] > 0
        assert second["compiled"] == 0

    def test_close_and_open_again(self, backend: Backend, target: Target) -> None:
        """A second backend computes and is closed, three times; the first one still works afterwards."""
        linear = to_linear(Kernel(mapped(lambda x: x + 5)), target)
        run = Run(linear, [bytes(4 * SIZE), pack(range(SIZE), INT)])
        for _ in range(3):
            again = type(backend)(backend.name, backend.ordinal)
            binary = again.compiler.compile(again.renderer.render(linear))
            same(self.run(again, binary, run), list(range(5, 5 + SIZE)))
            again.synchronize()
            again.close()
        binary = backend.compiler.compile(backend.renderer.render(linear))
        same(self.run(backend, binary, run), list(range(5, 5 + SIZE)))

    if hasattr(os, "fork"):

        def test_forks(self, backend: Backend, device: str) -> None:
            """A child forked after the probe computes; one forked from an open device does, or raises; none hangs."""
            right, found = [6, 11, 16] + [0] * (backend.target.chunks > 1), child(FORKS, device)
            assert found["after the probe"] == right
            assert found["opened here"] == found["afterwards"] == right
            refused = () if backend.survives_fork else ("DeviceLostError", "DeviceUnavailable")
            assert found["opened before"] in (right, *refused)
