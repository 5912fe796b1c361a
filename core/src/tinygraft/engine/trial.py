"""The process that tries versions of a kernel for the search, which a version that crashes or hangs ends alone.

It reads requests from its standard input, a line of JSON each, and answers each by a line:

    {"do": "begin", "device", "compiler", "target", "kernel"}   makes data and computes samples; {"ready": true}
    {"do": "try", "actions"}                                    {"seconds"}, or {"error"} where it is wrong in any way
    {"do": "race", "actions": [...], "seconds"}                 {"seconds": {actions: least seconds of a run}}

The versions of a race run alternately, so that other work of the machine slows all of them alike. When a kernel's data
is larger than the caches there are several copies of it, used alternately, so that none is in the caches.
"""

from __future__ import annotations

import json
import math
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tinygraft.codegen.action import parse
from tinygraft.codegen.lower import to_linear
from tinygraft.codegen.options import Options
from tinygraft.device.interfaces import Backend, Handle, Program
from tinygraft.device.registry import Device
from tinygraft.engine.sample import Sample, fill, sampled
from tinygraft.errors import DeviceMemoryError
from tinygraft.hooks.manager import here as hooks
from tinygraft.uop.flat import whole
from tinygraft.uop.index import size_of
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Kernel, Linear, Param
from tinygraft.uop.uop import postorder

# assumed: twice the 32 MiB of the last cache of the machine in benchmarks/NOTES.md (2026-11-20)
CIRCLE = 64 << 20  # bytes of all copies of data larger than the caches; what was used so long ago is not in them
# assumed: tried on a machine with a load of 5 to 16 (NOTES.md, 2026-11-20), none measured by itself
COPIES = 8  # of the data, at most
LARGEST = 2 << 30  # bytes of a kernel's data
SHORT = 50e-6  # seconds: a shorter kernel is launched several times for one measurement
GLANCE, LOOKS = 3e-3, 5  # seconds and runs after which a version's time is known well enough to decide if it races
ROUNDS = 4  # after every so many rounds of a race the slowest versions leave it
SLOWER, UNSURE = 1.1, 2.0  # a version leaves that is slower than the fastest by the factor SLOWER + UNSURE / rounds


@dataclass(slots=True)
class KernelVersion:
    """A kernel compiled with some transforms, and the least seconds of its runs so far."""

    program: Program
    grid: tuple[int, int, int]
    values: list[int]  # of its variables, in the order of its arguments
    seconds: float = math.inf


class Trial:
    """A kernel with data of its own, on one backend.

    Making one allocates the data and computes samples of the expected results. Raises DeviceMemoryError where the data
    is larger than LARGEST.
    """

    current: int
    backend: Backend
    kernel: Kernel

    def __init__(self, backend: Backend, kernel: Kernel) -> None:
        self.backend, self.kernel = backend, kernel
        linear = to_linear(kernel, backend.target, Options(noopt=True))
        self.params: tuple[Param, ...] = linear.signature.params
        names = {n.arg.name: n.arg.high for n in postorder(kernel.sink) if n.op is Ops.VARIABLE}
        self.values: dict[str, int] = names
        size = sum(p.size * p.dtype.itemsize for p in self.params)
        if size > LARGEST:
            raise DeviceMemoryError(f"{size} bytes of data are more than a trial allows ({LARGEST})")
        read = {n.src[0].arg.slot for n in postorder(kernel.sink) if n.op is Ops.LOAD and n.src[0].op is Ops.PARAM}
        self.first: list[bytearray] = [fill(p, slot in read, slot) for slot, p in enumerate(self.params)]
        self.changed: list[int] = [slot for slot, p in enumerate(self.params) if p.written]
        self.restored: list[int] = [slot for slot in self.changed if slot in read]
        self.cold: bool = size > backend.target.l2_bytes
        copies = max(1, min(COPIES, CIRCLE // max(size, 1))) if self.cold else 1
        self.memory: list[list[Handle]] = [[self._memory(data) for data in self.first] for _ in range(copies)]
        self.current = 0  # index in `memory` of the copy that the next launch uses
        self.versions: dict[str, KernelVersion] = {}
        self.texts: dict[str, str] = {}
        self._reference()

    @property
    def handles(self) -> list[Handle]:
        """Return the copy of the data that the next launch uses: the memory of each argument, by slot."""
        return self.memory[self.current]

    def _memory(self, data: bytearray) -> Handle:
        """Return new memory of the device with `data` in it."""
        handle = self.backend.allocator.alloc(max(len(data), 1))
        self.backend.allocator.copy_in(handle, memoryview(data))
        return handle

    def _reference(self) -> None:
        """Compute samples of the results with the kernel as plain loops; of a large one with fewer iterations.

        Sets `samples`, one for each argument that the kernel writes.
        """
        plain = Kernel(sampled(self.kernel.sink))
        version = self._load(to_linear(plain, self.backend.target, Options(noopt=True)))
        self._run(version, self.changed)
        whole = plain.sink is self.kernel.sink
        self.samples: list[Sample] = [Sample.of(self.params[slot], self._content(slot), self.first[slot],
                                  whole and slot in self.restored) for slot in self.changed]  # fmt: skip

    def _content(self, slot: int) -> bytearray:
        """Return the bytes of argument `slot` in the copy of the data that was used last."""
        data = bytearray(len(self.first[slot]))
        self.backend.allocator.copy_out(memoryview(data), self.handles[slot])
        return data

    def _load(self, linear: Linear) -> KernelVersion:
        """Return `linear` compiled and loaded, with its variables at their greatest. Raises what the plugin raises."""
        binary = self.backend.compiler.compile(self.backend.renderer.render(linear))
        x, y, z = (size_of(size, self.values) for size in linear.signature.grid)
        values = [self.values[name] for name in linear.signature.variables]  # a pass may have made some needless
        return KernelVersion(self.backend.load(binary), (x, y, z), values)

    def _run(self, version: KernelVersion, slots: Sequence[int]) -> float:
        """Return the seconds of one run on the next copy of the data, with the arguments in `slots` restored before."""
        self.current = (self.current + 1) % len(self.memory)
        for slot in slots:
            self.backend.allocator.copy_in(self.handles[slot], memoryview(self.first[slot]))
        return self._timed(version, 1)

    def _timed(self, version: KernelVersion, times: int) -> float:
        """Return seconds per run: of one as the backend measures it, of `times` launches in a row by the clock.

        The data is used as it is: an argument that is read and written is not restored in between.
        """
        program, grid, values = version.program, version.grid, version.values
        if times == 1:
            return self.backend.timed_launch(program, self.handles, values, grid)
        start = time.perf_counter()
        for _ in range(times):
            program.launch(self.handles, values, grid)
        self.backend.synchronize()
        return (time.perf_counter() - start) / times

    def attempt(self, text: str) -> dict[str, Any]:
        """Compile the version with the transforms in `text`, compare its results, and measure it.

        Returns {"seconds": ...}, or {"error": ...} where it is wrong, or has the same source as an earlier version.
        Raises ActionError where the kernel forbids them, and what compiling and launching raise.
        """
        linear = to_linear(self.kernel, self.backend.target, Options(actions=parse(text)))
        source = self.backend.renderer.render(linear).text.partition("\n")[2]  # the first line names its transforms
        if (same := self.texts.setdefault(source, text)) != text:
            return {"error": f"the same code as {same}"}
        version = self._load(linear)
        version.seconds = self._run(version, self.changed)
        for slot, sample in zip(self.changed, self.samples, strict=True):
            if (difference := sample.difference(self._content(slot))) is not None:
                return {"error": f"wrong: {difference}"}
        self.versions[text] = version
        start, runs = time.perf_counter(), 1
        while runs < LOOKS and (runs < 2 or time.perf_counter() - start < GLANCE):
            version.seconds, runs = min(version.seconds, self._run(version, self.restored)), runs + 1
        return {"seconds": version.seconds}

    def race(self, texts: list[str], limit: float) -> dict[str, float]:
        """Return the least seconds of each version, run alternately for `limit` seconds; the slowest leave before.

        A version that was not tried yet is tried first; wrong ones are omitted. Every version runs at least once, also
        past the limit. Raises as `attempt` does.
        """
        for text in texts:
            if text not in self.versions:
                self.attempt(text)
        running = [text for text in texts if text in self.versions]
        fastest = min((self.versions[text].seconds for text in running), default=0.0)
        times = 1 if self.cold or self.restored else max(1, min(1000, round(SHORT / max(fastest, 1e-7))))
        least = dict.fromkeys(running, math.inf)
        end, rounds = time.perf_counter() + limit, 0
        while running and (time.perf_counter() < end or rounds < 1):
            start = rounds % len(running)  # no version always runs after the same one
            for text in running[start:] + running[:start]:
                version = self.versions[text]
                if not self.restored:  # wakes the threads of parallel loops: in a program the kernel before does
                    self._timed(version, 1)
                seconds = self._timed(version, times) if times > 1 else self._run(version, self.restored)
                least[text] = min(least[text], seconds)
            rounds += 1
            if rounds % ROUNDS == 0:
                slowest = (SLOWER + UNSURE / rounds) * min(least.values())
                running = [text for text in running if least[text] <= slowest]
        return least


def answer(request: dict[str, Any], trial: Trial | None) -> tuple[dict[str, Any], Trial | None]:
    """Return the answer to a request, and the Trial for the next ones; `trial` is that of the last "begin".

    The docstring of this file has requests and answers. A "begin" for another compiler or Target than this process has
    is answered by {"error"}, and there is no Trial then. Raises what the Trial raises, which `main` answers.
    """
    if request["do"] == "begin":
        backend = Device[request["device"]]
        here = [backend.compiler.key or "", backend.target.text()]
        if here != [request["compiler"], request["target"]]:
            return {"error": "the device of this process differs from that of the process that searches"}, None
        return {"ready": True}, Trial(backend, Kernel(whole(request["kernel"])))
    assert trial is not None
    if request["do"] == "try":
        return trial.attempt(request["actions"]), trial
    return {"seconds": trial.race(request["actions"], request["seconds"])}, trial


def main() -> None:
    """Answer requests until the end of the input; what one raises is its answer, as {"error"}."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what compilers print must not come between the answers
    hooks.load_none()  # plugins observe the user's program, and not its search
    trial: Trial | None = None
    for line in sys.stdin:
        try:
            reply, trial = answer(json.loads(line), trial)
        except Exception as error:
            reply = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(reply) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
