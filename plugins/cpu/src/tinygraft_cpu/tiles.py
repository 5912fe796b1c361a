"""The processor's units for tiles (AMX): they are used once a child process has computed right results with them here.

The system has to permit them to a process, and a machine that says it has them may still not run them. So a child
process multiplies matrices of odd sizes on them first; its verdict is stored on disk for this machine, this compiler
and this source. CPU_TILES=0 does without them, CPU_TILES=1 uses them without that trial.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import json
import os
import platform
import signal
import subprocess
import sys
from pathlib import Path

from tinygraft.plugin import MatrixUnit, MatrixWords, cache_folder, dtypes, write_atomic
from tinygraft_cpu import machine
from tinygraft_cpu.spec import CPU_TILES

BF16_TILE = MatrixUnit("tdpbf16ps", 16, 16, 32, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, 2, 8)
INT8_TILE = MatrixUnit("tdpbssd", 16, 16, 64, dtypes.int8, dtypes.int8, dtypes.int32, 4, 8)
FEATURES = {BF16_TILE: "amx_bf16", INT8_TILE: "amx_int8"}
LIMIT = 60.0  # assumed: seconds that the child process may take
LONGEST = 1 << 16  # bytes of a file that can be a verdict
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # numbers of Linux on x86-64

_CHILD = """
import sys
from tinygraft import Device, Tensor, dtypes
names = {unit.name for unit in Device["CPU"].target.matrix}
for dtype, sums, wanted in ((dtypes.bfloat16, dtypes.float, "tdpbf16ps"), (dtypes.int8, dtypes.int, "tdpbssd")):
    for m, k, n in ((16, 64, 16), (37, 101, 53), (129, 67, 33)):
        if wanted not in sys.argv[1:]:
            continue
        a = [[(i * 7 + j * 3) % 15 - 7 for j in range(k)] for i in range(m)]
        b = [[(i * 5 + j * 11) % 13 - 6 for j in range(n)] for i in range(k)]
        found = Tensor(a).cast(dtype).realize().matmul(Tensor(b).cast(dtype).realize(), dtype=sums)
        columns = list(zip(*b))
        expected = [[sum(x * y for x, y in zip(row, column)) for column in columns] for row in a]
        assert found.tolist() == expected, f"{wanted} gives wrong results for {m} x {k} x {n}"
        assert wanted in names, f"{wanted} is not in the Target"
print("right")
"""


def tiles(route: str) -> tuple[MatrixUnit, ...]:
    """Return the units that kernels of a route, llvm or c, may use. The first call on a machine starts a child."""
    found = tuple(unit for unit, feature in FEATURES.items() if feature in machine.features())
    if CPU_TILES.value == "0" or why_not(route):
        return ()
    return tuple(FEATURES) if CPU_TILES.value == "1" else found


def why_not(route: str) -> str:
    """Return why the units are not used; empty where they are."""
    if CPU_TILES.value == "0":
        return "CPU_TILES=0"
    names = [unit.name for unit, feature in FEATURES.items() if feature in machine.features()]
    if CPU_TILES.value != "1" and not names:
        return "this processor has none"
    if not permit():
        return "the system does not permit this process to use them"
    return "" if CPU_TILES.value == "1" else _verdict(route, tuple(names))


@functools.cache
def permit() -> bool:
    """Ask the system, once, to let all threads of this process use tile registers. Returns whether it does."""
    if not (sys.platform == "linux" and machine.is_x86()):
        return False
    call = ctypes.CDLL(None).syscall
    call.restype = ctypes.c_long
    return bool(call(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0)


@functools.cache
def _verdict(route: str, names: tuple[str, ...]) -> str:
    """Return the stored verdict, or that of a child process, which is then stored: empty, or what was wrong."""
    file = _file(route, names)
    try:
        if file is None:
            return try_in_child(route, names)
        if file.is_symlink() or not file.is_file() or file.stat().st_size > LONGEST:  # a pipe would wait for a writer
            raise OSError(f"{file} is no verdict")
        return str(json.loads(file.read_bytes())["why"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        why = try_in_child(route, names)
        if file is not None:
            write_atomic(file, json.dumps({"why": why}).encode())
        return why


def try_in_child(route: str, names: tuple[str, ...]) -> str:
    """Multiply matrices on units in a child process. Returns what went wrong; empty when the results are right."""
    environment = os.environ | {"CPU_TILES": "1", "CPU_COMPILER": route, "CACHELEVEL": "0", "DEV": "CPU"}
    try:
        done = subprocess.run(
            [sys.executable or "python", "-c", _CHILD, *names],
            env=environment | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)},
            capture_output=True, text=True, timeout=LIMIT, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"a trial in a child process took more than {LIMIT:g} s"
    except OSError as error:
        return f"no child process for a trial could be started: {error}"
    if done.returncode == 0 and done.stdout.strip() == "right":
        return ""
    if done.returncode < 0:
        return f"a trial in a child process ended by {signal.Signals(-done.returncode).name}"
    last = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
    return f"a trial in a child process failed: {last}"


def _file(route: str, names: tuple[str, ...]) -> Path | None:
    """Return the file of the verdict for this machine, compiler and source; None without a cache folder."""
    folder = cache_folder()
    if folder is None:
        return None
    source = b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    parts = (route, *names, machine.arch(), machine.model(), platform.release(), sys.version)
    digest = hashlib.sha256("\0".join(parts).encode() + source).hexdigest()[:16]
    return folder / f"tiles-{digest}.json"


# Palette 1, eight tiles of 16 rows of 64 bytes. It is loaded where a kernel starts and released where it ends: another
# library may have changed or released it in the same thread, and a tile register in use slows every context switch.
CONFIGURATION = (1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8)
_DECLARED = """declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tilezero(i8)
declare void @llvm.x86.tileloadd64(i8, ptr, i64)
declare void @llvm.x86.tilestored64(i8, ptr, i64)
"""


def llvm_words(unit: MatrixUnit) -> MatrixWords:
    """Return the instructions of a unit in LLVM IR, with the numbers of its registers as fields."""
    numbers = ", ".join(f"i8 {byte}" for byte in CONFIGURATION)
    load = "call void @llvm.x86.tileloadd64(i8 {t}, ptr {p}, i64 {stride})"
    return MatrixWords(
        header=f"@tiles = private constant [64 x i8] [{numbers}], align 64\n"
               f"{_DECLARED}declare void @llvm.x86.{unit.name}(i8, i8, i8)",
        begin="call void @llvm.x86.ldtilecfg(ptr @tiles)",
        end="call void @llvm.x86.tilerelease()",
        zero="call void @llvm.x86.tilezero(i8 {t})",
        first=load,
        second=load,
        multiply=f"call void @llvm.x86.{unit.name}(i8 {{c}}, i8 {{a}}, i8 {{b}})",
        store="call void @llvm.x86.tilestored64(i8 {t}, ptr {p}, i64 {stride})",
    )  # fmt: skip


def c_words(unit: MatrixUnit) -> MatrixWords:
    """Return the instructions of a unit in C, with the numbers of its registers as fields.

    An empty asm before a load and after a store orders them with other accesses of memory: gcc does not know that
    these intrinsics read and write it.
    """
    fence = '__asm__ volatile("" ::: "memory");'
    load = fence + "\n_tile_loadd({t}, ({p}), {stride});"
    numbers = ", ".join(map(str, CONFIGURATION))
    return MatrixWords(
        header="#include <immintrin.h>\n"
               f"static const unsigned char tiles[64] __attribute__((aligned(64))) = {{{numbers}}};",
        begin="_tile_loadconfig(tiles);",
        end="_tile_release();",
        zero="_tile_zero({t});",
        first=load,
        second=load,
        multiply=f"_tile_{unit.name.removeprefix('t')}({{c}}, {{a}}, {{b}});",
        store="_tile_stored({t}, ({p}), {stride});\n" + fence,
    )  # fmt: skip
