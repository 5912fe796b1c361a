"""The introduction notebook, run in page order in one interpreter: what it prints is what the document shows.

introduction.txt holds its cells. Not compared: pids, times, rates, kernel names, enum numbers and the text of
the kernels, which must hold the folded constant and be valid C. A CONST stands on its DEVICE node. The cells
on the GPU run where it opens.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import read_page

HERE = Path(__file__).parent
Cell = dict[str, Any]
Find = Callable[..., Cell]
THREES = np.full((10, 10), 3, np.float32)
LINE = re.compile(
    r"^\*\*\* (?P<device>\S+) +(?P<number>\d+) (?P<name>.+?) +arg +(?P<args>\d+) mem +\d+\.\d\d GB "
    r"tm +[\d.]+[um]s/ +[\d.]+ms \( *[\d.]+ GFLOPS +[\d.]+\|[\d.]+ +GB/s\)$"
)


@pytest.fixture(scope="module")
def cell(tmp_path_factory: pytest.TempPathFactory) -> Find:
    """The first cell whose code contains some words, with its result; the page runs once, on its own."""
    folder = tmp_path_factory.mktemp("introduction")
    path = folder / "result.json"
    left_out = ("DEBUG", "CPU", "DEV", "TINYGRAFT_DEVICE", "SPEC", "NOOPT", "VIZ")
    env = {k: v for k, v in os.environ.items() if k not in left_out}
    command = [sys.executable, read_page.__file__, str(HERE / "introduction.txt"), str(path)]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    cells: list[Cell] = json.loads(path.read_text())

    def find(words: str, note: str = "") -> Cell:
        found = [one for one in cells if words in one["code"] and one["note"].startswith(note)]
        assert found, f"no cell contains {words!r}"
        if found[0]["left_out"]:
            pytest.skip(found[0]["left_out"].splitlines()[0])
        assert not found[0]["error"], found[0]["error"]
        return found[0]

    return find


def same_text(text: str) -> str:
    """Text without what is not compared: indentation and the numbers of an enum."""
    return "\n".join(re.sub(r": \d+>", ": N>", line.strip()) for line in text.strip().splitlines())


def launches(printed: str) -> list[dict[str, str]]:
    """The DEBUG=2 lines of what was printed, each in the document's format."""
    lines = [line for line in printed.splitlines() if line.startswith("***")]
    matches = [LINE.match(line) for line in lines]
    assert all(matches), f"not in the document's format: {lines}"
    return [match.groupdict() for match in matches if match]


def c_source(printed: str) -> str:
    """The kernels that DEBUG=4 printed, as one C file."""
    lines = printed.splitlines()
    starts = [n for n, line in enumerate(lines) if re.match(r"//|/\*|#include|typedef|static|void|int", line)]
    ends = [n for n, line in enumerate(lines) if line.startswith("}")]
    assert starts, printed
    assert ends, printed
    return "\n".join(lines[starts[0] : ends[-1] + 1]) + "\n"


def test_a_lazy_tensor_prints_its_last_op(cell: Find) -> None:
    """b = ones + 2 prints as a tensor of an ADD on CPU, not computed."""
    found = cell("b = a + 2\nb")
    assert same_text(found["value"]) == same_text(found["shows"])
    assert found["printed"] == ""


def test_the_graph_prints_unfolded_with_its_shared_node_named(cell: Find) -> None:
    """b.lazydata prints both constants as they were written, and the DEVICE they share as x3."""
    found = cell("b.lazydata")
    assert same_text(found["value"]) == same_text(found["shows"])


def test_realize_opens_the_device_and_launches_one_kernel(cell: Find) -> None:
    """realize tells which device it opened, and prints one line for one kernel with one argument."""
    printed = cell("b_realized = b.contiguous().realize()")["printed"]
    assert re.search(r"^opened device CPU from pid:\d+$", printed, re.M), printed
    (line,) = launches(printed)
    assert (line["device"], line["number"], line["args"]) == ("CPU", "1", "1")


def test_the_printed_source_holds_the_folded_constant(cell: Find) -> None:
    """1 + 2 is 3 in the kernel that DEBUG=4 prints, and nothing is added there."""
    source = c_source(cell("b_realized = b.contiguous().realize()")["printed"])
    assert re.search(r"\b3\.0f?\b", source), source
    assert not re.search(r"\b[12]\.0f?\b", source), source


@pytest.mark.needs("cc")
def test_the_printed_source_is_c(cell: Find, tmp_path: Path) -> None:
    """The source that DEBUG=4 prints compiles as it stands."""
    path = tmp_path / "kernel.c"
    path.write_text(c_source(cell("b_realized = b.contiguous().realize()")["printed"]))
    command = [os.environ.get("CC") or "cc", "-x", "c", "-std=gnu11", "-c", str(path), "-o", str(tmp_path / "kernel.o")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + path.read_text()


def test_the_realized_buffer_prints_itself(cell: Find) -> None:
    """.base.realized is a Buffer that prints device, size, dtype and offset."""
    found = cell("print(type(b_realized.lazydata.base.realized))")
    assert found["printed"] + found["value"] == found["shows"]


def test_the_buffer_is_memory_that_can_be_read(cell: Find) -> None:
    """_buf of a buffer on the CPU is readable as bytes: the first four are 3.0 as float32."""
    assert cell("view[:4].hex()")["value"] == "'00004040'"


def test_the_buffer_becomes_an_array(cell: Find) -> None:
    """numpy.frombuffer over that memory, reshaped, shows ten rows of threes."""
    assert cell("np.frombuffer(view")["value"] == repr(THREES)


@pytest.mark.parametrize(("call", "number"), [("b.numpy()", "2"), ("b.tolist()", "3")])
def test_reading_an_expression_of_constants_computes_it_again(cell: Find, call: str, number: str) -> None:
    """numpy() and tolist() of b launch a kernel each, the second and third of the page, compiled before."""
    found = cell(call)
    (line,) = launches(found["printed"])
    assert (line["device"], line["number"], line["args"]) == ("CPU", number, "1")
    assert "{" not in found["printed"], "the kernel was made once and is printed once"
    assert found["value"] == repr(THREES if call == "b.numpy()" else THREES.tolist())


@pytest.mark.parametrize("words", ['a = Tensor(1, device="CUDA"', 'a.to(device="CPU")'])
def test_graphs_of_a_gpu_print_without_one(cell: Find, words: str) -> None:
    """A tensor on CUDA and its copy to CPU print as in the document, whether or not a GPU is there."""
    found = cell(words)
    assert same_text(found["value"]) == same_text(found["shows"])
    assert found["printed"] == ""


def test_a_gpu_computes_and_its_result_is_copied(cell: Find) -> None:
    """ones + 2 on CUDA: one kernel there, one copy of 400 bytes to the CPU, the same threes."""
    found = cell('a = Tensor.ones((10, 10), device="CUDA")')
    assert re.search(r"^opened device CUDA from pid:\d+$", found["printed"], re.M)
    kernel, copy = launches(found["printed"])
    assert (kernel["device"], kernel["number"]) == ("CUDA", "4")
    assert (copy["device"], copy["number"], copy["args"]) == ("CPU", "5", "2")
    assert re.fullmatch(r"copy +400, +CPU <- CUDA", copy["name"])
    assert found["value"] == repr(THREES)


def test_a_gpu_keeps_what_is_realized(cell: Find) -> None:
    """realize() on CUDA launches one kernel, and the buffer says where it is."""
    (line,) = launches(cell("b_realized = b.contiguous().realize()", "needs CUDA")["printed"])
    assert (line["device"], line["number"]) == ("CUDA", "6")
    printed = cell("print(b_realized.lazydata.base.realized._buf)", "needs CUDA")["printed"].splitlines()
    assert printed[0] == "<buf real:True device:CUDA size:100 dtype:dtypes.float offset:0>"
    assert re.fullmatch(r"c_ulong\(\d+\)", printed[1])


def test_a_gpu_buffer_is_an_address(cell: Find) -> None:
    """memcpy_dtoh of PyCUDA from _buf.value gives the threes."""
    assert cell("cuda.memcpy_dtoh", "needs CUDA")["value"] == repr(THREES)
