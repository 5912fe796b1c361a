"""MSL as code of this processor: ziglang's clang compiles a source with the stand-in metal_stdlib, and cc links it."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parents[1] / "emulator"
KERNEL = re.compile(r"(?:\[\[max_total_threads_per_threadgroup\((\d+)\)\]\] )?kernel void (\w+)\((.*?)\) \{")
SHARED = re.compile(r"^(\s*)threadgroup (?=[\w ]+\w+\[)", re.MULTILINE)  # declarations of threadgroup memory
ATTRIBUTE = re.compile(r"\[\[(\w+)\]\]")
PLACES = {
    "threadgroup_position_in_grid": "uint3{emulated_place->block.x, emulated_place->block.y, emulated_place->block.z}",
    "thread_index_in_threadgroup": "emulated_place->number",
    "thread_index_in_simdgroup": "emulated_place->number % emulated_place->warp",
    "threads_per_simdgroup": "emulated_place->warp",
}
PRAGMAS = {"contract(off)": ["contract(off)"], "math_mode(safe)": ["reassociate(off)", "reciprocal(off)"]}
MATH = {"safe": [], "relaxed": ["-ffast-math", "-fhonor-nans", "-fhonor-infinities"], "fast": ["-ffast-math"]}
FORBIDDEN = re.compile(r"\b(?:long long|long double|goto|new|delete|virtual|throw)\b")
PATIENCE = 120


class SourceError(Exception):
    """What the compiler says of a source."""


@dataclass(frozen=True)
class LoadedKernel:
    """A kernel in this process."""

    name: str
    threads: int
    waits: bool
    code: int
    begin: int
    shared: int
    image: bytes


def zig() -> str:
    """The program of ziglang: that of EMULATED_ZIG, else the installed one. Raises where there is none."""
    if program := os.environ.get("EMULATED_ZIG"):
        return program
    found = find_spec("ziglang")
    if found is None or not found.submodule_search_locations:
        raise SourceError("the emulated Metal needs ziglang (pip install ziglang)")
    return str(Path(found.submodule_search_locations[0]) / "zig")


@functools.cache
def flags() -> tuple[str, ...]:
    """What the processor has of instructions that a GPU has, a fused multiply-add above all."""
    try:
        has = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        has = set()
    return tuple(f"-m{word}" for word in ("fma", "f16c") if word in has)


def run(command: list[str]) -> None:
    """Run a compiler. Raises SourceError with what it says."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    if done.returncode:
        raise SourceError((done.stdout + done.stderr).strip())


def kernels_of(text: str) -> dict[str, tuple[int, list[str]]]:
    """The kernels of a source, with the most threads of each, and its parameters."""
    return {m[2]: (int(m[1] or 1024), [p.strip() for p in m[3].split(",")]) for m in KERNEL.finditer(text)}


def rewritten(text: str) -> str:
    """The source with its threadgroup memory declared, and Metal's pragmas written, as clang takes them.

    What Metal's compiler is told by the pragma of a math mode alone counts for less here than its options: clang has no
    word that takes back that there are no NaN and infinities.
    """
    for pragma, words in PRAGMAS.items():
        text = text.replace(f"#pragma METAL fp {pragma}", "\n".join(f"#pragma clang fp {word}" for word in words))
    return SHARED.sub(r"\1EMULATED_SHARED ", text)


def launcher(name: str, parameters: list[str]) -> str:
    """A function that calls a kernel with the pointers of an array, and with where the thread is."""
    given, slot = [], 0
    for parameter in parameters:
        place = ATTRIBUTE.search(parameter)
        if place is not None:
            given.append(PLACES[place[1]])
            continue
        found = re.fullmatch(r"(.*?)([*&]) *\w+", parameter)
        if found is None:
            raise SourceError(f"error: parameter {parameter!r} of {name} is neither a buffer nor a position")
        pointer = f"({found[1]}*)arguments[{slot}]"
        given.append(pointer if found[2] == "*" else f"*{pointer}")
        slot += 1
    return f'extern "C" void emulated_call_{name}(void **arguments) {{ {name}({", ".join(given)}); }}\n'


def compiled(text: str, math: str, version: int) -> bytes:
    """The object file of a source, in a math mode. Raises SourceError.

    A product and a sum become one operation wherever the text does not forbid it, as in Metal, which has no option
    for that. -ffp-contract=fast would do so in spite of the text.
    """
    if wrong := FORBIDDEN.search(re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)):
        raise SourceError(f"error: MSL has no {wrong[0]!r}")
    kernels = kernels_of(text)
    if folder := os.environ.get("EMULATED_SAVE"):
        Path(folder, f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.metal").write_text(text)
    with tempfile.TemporaryDirectory(prefix="emulated-metal-") as folder:
        source, made = Path(folder, "kernel.cpp"), Path(folder, "kernel.o")
        source.write_text(rewritten(text) + "".join(launcher(name, row[1]) for name, row in kernels.items()))
        run([zig(), "clang", "-x", "c++", "-std=c++17", "-O1", "-w", "-fPIC", "-fno-exceptions", *MATH[math],
             "-ffp-contract=fast-honor-pragmas", f"-D__METAL_VERSION__={version}", *flags(),
             f"-I{SOURCES / 'metal'}", "-c", "-o", str(made), str(source)])  # fmt: skip
        return made.read_bytes()


def linked(code: bytes) -> bytes:
    """The shared library of an object file."""
    with tempfile.TemporaryDirectory(prefix="emulated-metal-") as folder:
        source, made = Path(folder, "kernel.o"), Path(folder, "kernel.so")
        source.write_bytes(code)
        cc = os.environ.get("CC") or "cc"
        run([*cc.split(), "-shared", "-o", str(made), str(source), "-lm"])
        return made.read_bytes()


def loaded(name: str, text: str, image: bytes) -> LoadedKernel:
    """A kernel of a shared library, in this process."""
    with tempfile.NamedTemporaryFile(prefix="emulated-metal-", suffix=".so") as file:
        file.write(image)
        file.flush()
        library: Any = ctypes.CDLL(file.name)
    first, last, place = ctypes.c_void_p(), ctypes.c_void_p(), (ctypes.c_ubyte * 256)()
    library.emulated_begin(place, ctypes.byref(first), ctypes.byref(last))
    code = ctypes.cast(getattr(library, f"emulated_call_{name}"), ctypes.c_void_p).value
    begin = ctypes.cast(library.emulated_begin, ctypes.c_void_p).value
    assert code is not None
    assert begin is not None
    waits = "barrier" in text or "simd_" in text
    return LoadedKernel(
        name, kernels_of(text)[name][0], waits, code, begin, (last.value or 0) - (first.value or 0), image
    )


@functools.cache
def scheduler() -> Any:
    """The library that runs thread blocks, and has the memory (emulator/metal.c)."""
    found: Any = ctypes.CDLL(os.environ["EMULATED_METAL"])
    found.emulated_metal_alloc.restype = ctypes.c_void_p
    found.emulated_metal_alloc.argtypes = [ctypes.c_size_t]
    found.emulated_metal_free.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    found.emulated_metal_run.argtypes = [ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int,
                                         ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]  # fmt: skip
    return found


def launch(kernel: LoadedKernel, arguments: list[int], grid: tuple[int, ...], threads: tuple[int, ...]) -> int:
    """Run a kernel; 0 where it ended as it should."""
    pointers = (ctypes.c_void_p * max(len(arguments), 1))(*arguments)
    sizes = [(ctypes.c_uint * 3)(*size) for size in (grid, threads)]
    return int(scheduler().emulated_metal_run(kernel.name.encode(), kernel.code, kernel.begin, int(kernel.waits),
                                              pointers, *sizes))  # fmt: skip
