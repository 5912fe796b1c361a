"""Core names no device: identifiers and strings are searched by whole words."""

import ast
import re
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "src" / "tinygraft"
CLOSED_TABLE = CORE / "device" / "known.py"
DEVICES = {
    "cpu", "cuda", "opencl", "metal", "amd", "hip", "rocm", "nvidia", "nvrtc", "ptx", "msl", "vulkan", "webgpu",
    "pocl", "hexagon", "qcom", "tpu", "clang", "gcc", "llvmlite",
}  # fmt: skip
EXCEPTED = {"cpu_count", "process_cpu_count"}


def words(text: str) -> set[str]:
    """The words of a text, split at everything but letters and at changes of case."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", text)}


def docstrings(tree: ast.AST) -> set[int]:
    """The ids of the constants that are docstrings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found


def texts(tree: ast.AST):
    """Every identifier and string literal that is no docstring, with its line."""
    skipped = docstrings(tree)
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in skipped:
            yield line, node.value if isinstance(node.value, str) else node.value.decode("latin-1")
        for field in ("id", "attr", "name", "arg", "module", "asname"):
            if isinstance(value := getattr(node, field, None), str) and value not in EXCEPTED:
                yield line, value


def found_in(source: str) -> list[str]:
    """The device names of a source text, with their lines."""
    return [f"line {line}: {text!r}" for line, text in texts(ast.parse(source)) if words(text) & DEVICES]


@pytest.mark.parametrize("file", sorted(CORE.rglob("*.py")), ids=lambda f: str(f.relative_to(CORE)))
def test_no_device_is_named(file):
    """No identifier and no string of core names a device; the closed table of install hints is the only place."""
    found = found_in(file.read_text())
    if file == CLOSED_TABLE:
        assert found, "the closed table names devices"
    else:
        assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "source",
    ["use_cuda = 1", "x.CudaGraph", "f('CPU:1')", "def to_metal(): pass", "import opencl", "f(amd=1)", "f'{x}CPU'"],
)
def test_the_search_sees(source):
    """The search finds a name in every kind of place."""
    assert found_in(source)


@pytest.mark.parametrize(
    "source", ["'''runs on CUDA'''", "os.cpu_count()", "'scpus'", "metallic = ship = 1  # CUDA", "def f():\n    'CPU'"]
)
def test_the_search_is_by_whole_words(source):
    """Docstrings, comments, os.cpu_count and words that merely contain a name are no names."""
    assert not found_in(source)
