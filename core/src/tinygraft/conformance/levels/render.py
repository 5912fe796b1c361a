"""Level 1: rendering and compiling. Kernels of every kind have the same text each time, and compile.

The kernels are those of tensor expressions, lowered by scheduler and codegen for the device's Target, and those of
conformance.linears, which are built by hand.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest

from tinygraft.codegen.lower import to_linear
from tinygraft.conformance.gate import PROFILE, needs
from tinygraft.conformance.kernels import programs
from tinygraft.conformance.linears import KERNELS
from tinygraft.conformance.opened import Opened, Writing
from tinygraft.device.device_spec import DeviceSpec
from tinygraft.device.interfaces import Backend
from tinygraft.dtype import dtypes
from tinygraft.errors import CompileError
from tinygraft.installed.records import resolve
from tinygraft.reference.spec import PYTHON
from tinygraft.render.renderer import Renderer
from tinygraft.schedule.schedule import schedule
from tinygraft.target import BASIC_OPS, CHECKED_OPS, Target
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.stages import KernelCall, Linear, Source

PATIENCE = 300.0  # seconds after which a child process is taken to hang
CHILD = (
    "import json, sys; job = json.loads(sys.argv[1]); sys.path[:] = job['path']; "
    "from tinygraft.conformance.levels.render import digests_of; print(); print(json.dumps(digests_of(*job['how'])))"
)


def empty(*shape: int) -> Tensor:
    """Return a float tensor without values: only its shape is used. It is on PYTHON, so that no device is opened."""
    return Tensor.empty(*shape, device=PYTHON.name)


# What is lowered for the Target under test. All of it is of the core profile.
EXPRESSIONS: dict[str, Callable[[], Tensor]] = {
    "elementwise": lambda: (empty(37) * 2 + 1).sin().exp2().sqrt(),
    "integers": lambda: (empty(40).cast(dtypes.int32) // 7) % 5 << 2,
    "choice": lambda: (empty(5, 7) > 0).where(empty(5, 7), empty(7) * 0.5),
    "movement": lambda: empty(4, 6).permute(1, 0).flip(0).pad(((1, 0), (0, 2))).contiguous(),
    "sum": lambda: empty(33, 65).sum(),
    "row_maximum": lambda: empty(33, 65).max(1),
    "softmax": lambda: empty(9, 64).softmax(),
    "matmul": lambda: empty(37, 41) @ empty(41, 43),
    "convolution": lambda: empty(2, 3, 9, 9).conv2d(empty(4, 3, 3, 3)).relu(),
    "gather": lambda: empty(8, 5)[empty(6).cast(dtypes.int32)],
    "running_sum": lambda: empty(5, 70).cumsum(1),
    "largest_place": lambda: empty(11, 17).argmax(1),
}

# What a kernel that was built by hand needs of the device.
NEEDED = {
    "elementwise": needs(vector_bytes=16), "row_sums": needs(vector_bytes=16), "gather": needs(vector_bytes=16),
    "matmul": needs(vector_bytes=16, chunks=2), "strided": needs(vector_bytes=16), "scratch": needs(local_memory=1024),
    "streamed": needs(vector_bytes=16, stream_bytes=1),
}  # fmt: skip
BY_HAND = [pytest.param(name, marks=[NEEDED[name]] if name in NEEDED else [], id=name) for name in KERNELS]


class RenderLevel:
    """Tests of the Target, the renderer and the compiler."""

    def test_the_core_profile_is_declared(self, writing: Writing) -> None:
        """float32, int32 and bool are stored and computed with, and every basic op is declared as native."""
        target, _ = writing
        lacking = [dtype.name for dtype in PROFILE if dtype not in target.dtypes & target.compute_dtypes]
        assert not lacking, f"the Target lacks {', '.join(lacking)}, which every device has"
        lacking = sorted(op.name for op in BASIC_OPS - CHECKED_OPS - target.native_ops)
        assert not lacking, f"native_ops lacks {', '.join(lacking)}, which every renderer can write"

    def test_the_sizes_are_possible(self, writing: Writing) -> None:
        """The sizes of the Target allow some kernel; that each is in its range is seen to by Target itself."""
        target = writing[0]
        assert target.block_threads == 1 or target.grid_dims, "threads of a block need a grid"

    @pytest.mark.parametrize("name", EXPRESSIONS)
    def test_a_kernel_compiles(self, writing: Writing, opened: Opened, name: str) -> None:
        """Each kernel of an expression has the same text twice; where the device is open, it compiles and loads."""
        check(linears_of(name, writing[0]), writing[1], opened.backend)

    @pytest.mark.parametrize("name", BY_HAND)
    def test_a_kernel_by_hand_compiles(self, backend: Backend, name: str) -> None:
        """A kernel that was built by hand has the same text twice, compiles and loads."""
        check([replace(KERNELS[name](), target=backend.target)], backend.renderer, backend)

    def test_the_text_is_the_same_in_every_process(self, writing: Writing, opened: Opened, spec: DeviceSpec) -> None:
        """Each kernel has the same text where sets and addresses are in another order, since caches use it as key."""
        here = opened.backend
        how = (spec.offline, "", 0) if here is None else (spec.backend, here.name, here.ordinal)
        job = json.dumps({"path": sys.path, "how": how})
        done = subprocess.run(
            [sys.executable, "-c", CHILD, job], capture_output=True, text=True, timeout=PATIENCE, check=False,
            env={**os.environ, "PYTHONHASHSEED": "4711"},
        )  # fmt: skip
        assert done.returncode == 0, f"rendering in a child process failed:\n{done.stderr[-2000:]}"
        theirs, ours = json.loads(done.stdout.rstrip().rpartition("\n")[2]), digests(*writing)
        assert theirs.keys() == ours.keys()
        different = [name for name, digest in ours.items() if theirs[name] != digest]
        assert not different, f"other texts in another process: {', '.join(different)}"

    @needs("computes")
    def test_what_is_no_program_is_refused(self, backend: Backend) -> None:
        """Text that is a program in no language raises CompileError, at the latest when it is loaded.

        The error has the compiler's output: two mistakes in two lines have two messages.
        """
        source = backend.renderer.render(linears_of("sum", backend.target)[0])
        messages = [refusal(backend, replace(source, text=text)) for text in (
            f"{source.text}\n) this is {{ no program (\n", f"[ and this ] 1 is none\n\n{source.text}"
        )]  # fmt: skip
        assert all(messages), "the error has no text"
        assert messages[0] != messages[1], (
            f"two texts that are no programs, for other reasons, have one message:\n  {messages[0]}\nThe words of the "
            "compiler are lost: they belong into the message of CompileError, or into its log"
        )


def refusal(backend: Backend, source: Source) -> str:
    """Return the message of a compiler for a source that is no program. Raises AssertionError where it has none."""
    binary = None
    try:
        binary = backend.compiler.compile(source)
        backend.load(binary)
    except CompileError as error:
        return f"{error}\n{error.log}".strip()
    except Exception as error:
        made = "compile()" if binary is None else f"compile() returned a binary of {len(binary.data)} bytes, and load()"
        raise AssertionError(
            f"of text that is no program {made} raised {type(error).__name__}: {error}\nA compiler that refuses its "
            "source raises CompileError with what it says, which is what a user of the device gets to see"
        ) from error
    raise AssertionError("text that is no program was compiled and loaded without an error")


def linears_of(name: str, target: Target) -> list[Linear]:
    """Return the kernels of an expression, lowered for a Target."""
    calls = schedule([EXPRESSIONS[name]().lazydata], lambda _: target).calls
    return [to_linear(call.kernel, target) for call in calls if isinstance(call, KernelCall)]


def check(linears: list[Linear], renderer: Renderer, backend: Backend | None) -> None:
    """Render each kernel twice, and compile and load it where there is a backend. Raises AssertionError."""
    for linear in linears:
        source = renderer.render(linear)
        assert isinstance(source, Source)
        assert source.text.strip(), "the renderer returned no text"
        assert renderer.render(linear) == source, "the same kernel has another text the second time"
    if backend is not None:
        programs(backend, linears)


def digests(target: Target, renderer: Renderer) -> dict[str, str]:
    """Return by the name of each expression a digest of the texts of its kernels."""
    found = {}
    for name in EXPRESSIONS:
        texts = [renderer.render(linear).text for linear in linears_of(name, target)]
        found[name] = hashlib.sha256("\0".join(texts).encode()).hexdigest()
    return found


def digests_of(path: str, name: str, ordinal: int) -> dict[str, str]:
    """Return the digests of a device, in a child process.

    `path` is the Backend class, which is opened by `name` and `ordinal`; where `name` is empty, it is the function
    `offline` of a spec.
    """
    if not name:
        return digests(*resolve(path)())
    opened: Backend = resolve(path)(name, ordinal)
    try:
        return digests(opened.target, opened.renderer)
    finally:
        opened.close()
