"""What scripts of tinygrad import: every name is there and does what it does there."""

# ruff: noqa: E501 - names are read best in lines

from __future__ import annotations

import re
import subprocess
import sys
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from tinygraft import Context, Tensor, config, helpers
from tinygraft.errors import DeviceError, SettingError, SettingWarning

NAMES = {
    "tinygraft": "Tensor TinyJit nn GlobalCounters Device dtypes Variable Context fetch function getenv UOp",
    "tinygraft.tensor": "Tensor Function Device dtypes Variable UOp fetch getenv",
    "tinygraft.helpers": "getenv colored trange tqdm Timing Profiling fetch DEBUG BEAM WINO JIT CI GlobalCounters Context "
    "ContextVar prod flatten partition dedup all_same all_int round_up ceildiv argfix make_tuple flat_mv OSX WIN dtypes "
    "ansilen ansistrip merge_dicts get_child fully_flatten strip_parens unwrap pluralize time_to_str size_to_str polyN "
    "cdiv cmod floordiv TRAINING NOOPT IMAGE TRANSCENDENTAL SPLIT_REDUCEOP FLOAT16 LRU RING TC TRACEMETA temp",
    "tinygraft.nn": "Linear Conv1d Conv2d ConvTranspose2d BatchNorm BatchNorm2d BatchNorm3d LayerNorm LayerNorm2d GroupNorm "
    "InstanceNorm RMSNorm Embedding LSTMCell optim state datasets",
    "tinygraft.nn.optim": "SGD Adam AdamW OptimizerGroup LAMB LARS Muon Optimizer",
    "tinygraft.nn.state": "safe_load safe_save load_state_dict get_parameters get_state_dict torch_load gguf_load "
    "tar_extract zip_extract TensorIO safe_load_metadata",
    "tinygraft.nn.datasets": "mnist cifar",
    "tinygraft.nn.onnx": "OnnxRunner",
    "tinygraft.frontend.onnx": "OnnxRunner",
    "tinygraft.function": "function Sum Max Sigmoid Function",
    "tinygraft.engine.jit": "TinyJit",
    "tinygraft.jit": "TinyJit",
    "tinygraft.ops": "Device GlobalCounters",
    "tinygraft.shape.symbolic": "Variable Node sint",
    "tinygraft.device": "Device Buffer",
    "tinygraft.dtype": "dtypes DType DTypeLike to_dtype least_upper_dtype least_upper_float sum_acc_dtype",
    "tinygraft.uop": "Ops UOp",
    "tinygraft.uop.ops": "Ops UOp PatternMatcher UPat graph_rewrite sint Variable",
}  # fmt: skip


@pytest.mark.parametrize("module", NAMES)
@pytest.mark.filterwarnings("ignore::tinygraft.errors.SettingWarning")
def test_the_names_are_there(module: str) -> None:
    """By attribute, which is what an import line asks for."""
    found = import_module(module)
    assert [name for name in NAMES[module].split() if not hasattr(found, name)] == []


def test_a_setting_that_is_not_here_is_read_and_set_and_said_once() -> None:
    """`from tinygraft.helpers import WINO`, `Context(WINO=1)`: a warning at the first use, and nothing changes."""
    code = (
        "from tinygraft.helpers import Context, WINO, JIT\n"
        "assert not WINO and JIT\n"
        "with Context(WINO=2, JIT=0):\n    assert WINO == 2 and not JIT\n"
        "assert not WINO and JIT\nfrom tinygraft.helpers import WINO\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    said = [line for line in done.stderr.splitlines() if "SettingWarning" in line]
    assert len(said) == 2
    assert "WINO is a setting of tinygrad that changes nothing here; leave it out: which algorithm computes" in said[0]
    assert said[0].startswith("<string>:1:") and "JIT is a setting" in said[1]


def test_strict_refuses_it() -> None:
    """TINYGRAFT_STRICT=1 wants scripts without such settings; the table of settings has none of them."""
    with Context(TINYGRAFT_STRICT=1), pytest.raises(SettingError, match="does not allow this: NOLOCALS is a setting"):
        Context(NOLOCALS=1)
    with pytest.warns(SettingWarning, match="NOLOCALS is a setting of tinygrad that changes nothing here; NOOPT=1"):
        assert not helpers.NOLOCALS
    assert not set(config.SETTINGS) & set(config.ELSEWHERE)


def test_settings_of_the_inside_of_tinygrad_are_accepted() -> None:
    """All that its release 0.14 and the two years before it have, beside those that have a meaning here."""
    names = (
        "SCACHE RANGEIFY CHECK_OOB DEVECTORIZE THREEFRY FUSE_ATTENTION USE_ATOMICS DISABLE_FAST_IDIV "
        "CAPTURE_PROCESS_REPLAY TRACK_MATCH_STATS DONT_REALIZE_EXPAND MAX_KERNEL_BUFFERS NO_COLOR PCONTIG"
    )
    with pytest.warns(SettingWarning) as said, Context(**dict.fromkeys(names.split(), 1)):
        assert helpers.RANGEIFY == 1 and helpers.SCACHE
    assert len(said) == len(names.split()) and not helpers.RANGEIFY
    assert "every index is proved" in next(str(one.message) for one in said if "CHECK_OOB" in str(one.message))


def test_the_module_function_is_called_as_the_function_is() -> None:
    """Importing the module gives the package its name: `from tinygraft.function import function`, `as F`."""
    code = (
        "import tinygraft\n"
        "from tinygraft.function import function\n"
        "import tinygraft.function as F\n"
        "from tinygraft import Tensor\n"
        "double = tinygraft.function(lambda x: x * 2)\n"
        "triple = F(grad_fxn=lambda gradient, x: gradient * 3)(lambda x: x * 3)\n"
        "x = Tensor([1.0], requires_grad=True)\n"
        "print(double(x).tolist(), triple(x).gradient(x)[0].tolist(), F.function is function, F.Neg.apply(x).tolist())\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[2.0] [3.0] True [-1.0]\n"


@pytest.mark.parametrize(("line", "said"), [
    ("from tinygraft.uop.ops import KernelInfo", "Tensor.custom_kernel"),
    ("from tinygraft.engine.realize import run_schedule", "t.realize() runs them"),
    ("from tinygraft.tensor import LazyBuffer", "t.uop is the node"),
    ("from tinygraft.function import Clip", "cannot import name 'Clip' from 'tinygraft.function'"),
])  # fmt: skip
def test_what_only_tinygrad_has_is_said_where_it_is_imported(line: str, said: str) -> None:
    """The inside of its compiler has no counterpart by name."""
    with pytest.raises(ImportError, match=re.escape(said)):
        exec(line)


def test_the_device_of_a_file_says_how_files_are_read_and_written() -> None:
    """`t.to("disk:/path")` is a write of a file in tinygrad."""
    with pytest.raises(DeviceError, match=re.escape("Tensor(Path('/tmp/f16')) reads it")):
        Tensor([1.0]).to("disk:/tmp/f16")
    with pytest.raises(DeviceError, match="not the name of a device; write NAME or NAME:ordinal, such as NULL:1$"):
        Tensor([1.0]).to("disks:/tmp/f16")


CASES: list[tuple[Any, Any]] = [
    (lambda h: [h.ceildiv(a, 3) for a in (-4, 0, 4, 6)], [-1, 0, 2, 2]),
    (lambda h: [h.cdiv(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (-7, -2), (1, 0))], [3, -3, -3, 3, 0]),
    (lambda h: [h.cmod(a, b) for a, b in ((7, 2), (-7, 2), (7, -2), (5, 0))], [1, -1, 1, 5]),
    (lambda h: [h.floordiv(-7, 2), h.floordiv(1, 0), h.floormod(-7, 2), h.floormod(5, 0)], [-4, 0, 1, 5]),
    (lambda h: h.fully_flatten([[1, [2]], np.array([[3, 4]]), np.array(5), "ab", []]), [1, 2, 3, 4, 5, "ab"]),
    (lambda h: h.get_shape([[[1], [2]]]), (1, 2, 1)),
    (lambda h: [h.strip_parens(t) for t in ("((a))", "(a)+(b)", "a", "()", "(a")], ["(a)", "(a)+(b)", "a", "", "(a"]),
    (lambda h: [h.time_to_str(t) for t in (12, 0.5, 5e-3)], ["   12.00s ", "  500.00ms", " 5000.00us"]),
    (lambda h: [h.size_to_str(n) for n in (3 << 30, 1 << 20, 10)], ["3.00 GB", "1.00 MB", "10 B"]),
    (lambda h: h.polyN(2.0, [1.0, 2.0, 3.0]), 11.0),
    (lambda h: (h.ansilen(h.colored("four", "RED")), h.ansipad("ab", 4)), (4, "ab  ")),
    (lambda h: h.word_wrap("aaaa" + h.colored("bb", "red"), 5).count("\n"), 1),
    (lambda h: bytes(h.flat_mv(memoryview(np.arange(2, dtype=np.int16)))), b"\0\0\1\0"),
    (lambda h: (h.data64(1 << 32 | 7), h.getbits(0xF0, 4, 6), h.i2u(16, -2)), ((1, 7), 7, 65534)),
    (lambda h: (h.next_power2(9), h.round_down(9, 4), h.pad_bytes(b"abcd", 4)), (16, 8, b"abcd")),
    (lambda h: (h.to_tuple(1), h.to_tuple((1,)), h.make_tuple((1, 2), 2)), ((1,), (1,), (1, 2))),
    (lambda h: h.get_child(h.fromimport("tinygraft", "nn"), "optim.Adam").__name__, "Adam"),
    (lambda h: (h.is_numpy_ndarray(np.ones(1)), h.is_numpy_ndarray([1])), (True, False)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
def test_they_do_what_they_do_there(case: int) -> None:
    """Values at the edges: signs, zeros, nothing, colors."""
    call, wanted = CASES[case]
    assert call(helpers) == wanted


def test_what_they_refuse() -> None:
    """Two values for a key, no rectangle, not one item, nothing."""
    with pytest.raises(RuntimeError, match="'a' has two values to merge: 1 and 2"):
        helpers.merge_dicts([{"a": 1}, {"a": 2}])
    with pytest.raises(ValueError, match="items of one shape"):
        helpers.get_shape([[1], [2, 3]])
    with pytest.raises(AssertionError, match="there has to be one item"):
        helpers.get_single_element([1, 2])
    with pytest.raises(AssertionError, match="unwrap got None"):
        helpers.unwrap(None)


def test_the_older_way_to_leave_gradients_out_is_accepted() -> None:
    """`Tensor.no_grad = True` is said to change nothing, and the block by that name works after it."""
    with pytest.warns(SettingWarning, match="Tensor.no_grad = True changes nothing here"):
        Tensor.no_grad = True
    with Tensor.no_grad():
        assert (Tensor([1.0], requires_grad=True) * 2).requires_grad is False
