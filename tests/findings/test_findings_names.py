"""Finding 2.5: names where scripts of tinygrad look for them. 15 of 33 of its examples failed on their imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

import tinygraft
from tinygraft import Context, Tensor, config, dtypes
from tinygraft.errors import SettingError

IMPORTS = """
from tinygraft import Tensor, TinyJit, Device, GlobalCounters, Context, Variable, UOp, dtypes, nn, fetch, getenv
from tinygraft.tensor import Tensor as T
from tinygraft.engine.jit import TinyJit as J
from tinygraft.device import Device as D
from tinygraft.dtype import dtypes as d, DType
from tinygraft.helpers import GlobalCounters as G, DEBUG, BEAM, NOOPT, ContextVar, Context as C, getenv, fetch
from tinygraft.helpers import Timing, Profiling, colored, trange, tqdm, prod, argfix, flatten, partition, dedup
from tinygraft.nn.state import safe_load, safe_save, torch_load, get_state_dict, get_parameters, load_state_dict
from tinygraft.nn.optim import Optimizer, OptimizerGroup, SGD, Adam, AdamW, LAMB
from tinygraft.nn.datasets import mnist, cifar
assert (T, J, D, d, G, C) == (Tensor, TinyJit, Device, dtypes, GlobalCounters, Context)
"""


def test_2_5_imports_of_scripts() -> None:
    """In a fresh process, where nothing has been imported by another way."""
    done = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_2_5_each_name_first() -> None:
    """Each home is complete when it is what is imported first; the package is light as before."""
    for home, name in (("tensor", "Tensor"), ("engine.jit", "TinyJit"), ("helpers", "GlobalCounters")):
        code = f"from tinygraft.{home} import {name}; print({name}.__module__)"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.startswith("tinygraft.")
    code = (
        "import sys, tinygraft.helpers, tinygraft.tensor; print({'numpy', 'tinygraft.tensor.tensor'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_2_5_names_that_are_nowhere() -> None:
    """Python's own sentence."""
    for module, name in ((tinygraft.tensor, "Tensors"), (tinygraft.helpers, "nowhere")):
        with pytest.raises(AttributeError, match=f"^module '{module.__name__}' has no attribute '{name}'$"):
            getattr(module, name)
    with pytest.raises(SettingError, match="there is no setting NOWHERE; the settings are .*AUTOCAST, BEAM, "):
        Context(NOWHERE=1)


def test_2_5_the_default_dtype_is_a_value() -> None:
    """Read, assigned to, given to Context; the setting is the same thing."""
    assert (dtypes.default_float, dtypes.default_int) == (dtypes.float32, dtypes.int32)
    with Context(DEFAULT_FLOAT=dtypes.half):
        assert (dtypes.default_float, Tensor([1.0]).dtype) == (dtypes.half, dtypes.half)
    with Context(DEFAULT_FLOAT="float32", DEFAULT_INT="int32"):
        dtypes.default_float, dtypes.default_int = dtypes.float64, "int64"
        assert (Tensor([1.0]).dtype, Tensor([1]).dtype) == (dtypes.float64, dtypes.int64)
        assert dtypes.default_complex is dtypes.complex128
    assert dtypes.default_float is dtypes.float32
    with pytest.raises(SettingError, match="^DEFAULT_FLOAT must be one of half, bfloat16, float, double, got 'int'$"):
        dtypes.default_float = dtypes.int32


def test_2_5_settings_are_compared() -> None:
    """As numbers, where they hold."""
    with Context(DEBUG=2):
        assert config.DEBUG >= 2
        assert config.DEBUG == 2
        assert config.DEBUG != 1
        assert 1 < config.DEBUG < 3
        assert config.DEBUG <= 2
        assert int(config.DEBUG) == 2
    assert not config.DEBUG > 1


def test_2_5_settings_of_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    """ContextVar reads the environment and is changed by Context; one that exists is that one."""
    from tinygraft.helpers import ContextVar

    assert ContextVar("DEBUG", 0) is config.DEBUG
    monkeypatch.setenv("STEPS_OF_A_SCRIPT", "7")
    steps = ContextVar("STEPS_OF_A_SCRIPT", 10)
    try:
        assert steps.value == 7
        with Context(STEPS_OF_A_SCRIPT=20):
            assert steps == 20
        with pytest.raises(SettingError, match="^STEPS_OF_A_SCRIPT must be an integer, got 'many'$"):
            Context(STEPS_OF_A_SCRIPT="many").__enter__()
    finally:
        del config.SETTINGS["STEPS_OF_A_SCRIPT"]
