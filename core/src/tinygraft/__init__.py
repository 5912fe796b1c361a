"""tinygraft: lazy tensors, autograd and a compiler whose devices are plugins.

The public names are imported when they are first used: `import tinygraft` loads no numpy, no plugin, no device.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tinygraft import hooks as hooks
    from tinygraft import nn as nn
    from tinygraft import onnx as onnx
    from tinygraft.config import Context as Context
    from tinygraft.config import getenv as getenv
    from tinygraft.device.counters import GlobalCounters as GlobalCounters
    from tinygraft.device.registry import Device as Device
    from tinygraft.dtype import dtypes as dtypes
    from tinygraft.functions import Function as Function
    from tinygraft.functions import function as function
    from tinygraft.helpers import fetch as fetch
    from tinygraft.jit import TinyJit as TinyJit
    from tinygraft.tensor.tensor import Tensor as Tensor
    from tinygraft.transforms import checkpoint as checkpoint
    from tinygraft.transforms import grad as grad
    from tinygraft.transforms import hessian as hessian
    from tinygraft.transforms import jacobian as jacobian
    from tinygraft.transforms import jvp as jvp
    from tinygraft.transforms import value_and_grad as value_and_grad
    from tinygraft.transforms import vjp as vjp
    from tinygraft.transforms import vmap as vmap
    from tinygraft.uop.uop import UOp as UOp
    from tinygraft.uop.variable import Variable as Variable

__version__ = "0.1.0"

_MODULES = {  # public name -> its module and its name there
    "Context": ("tinygraft.device.registry", "Context"),
    "Device": ("tinygraft.device.registry", "Device"),
    "GlobalCounters": ("tinygraft.device.counters", "GlobalCounters"),
    "Tensor": ("tinygraft.tensor.tensor", "Tensor"),
    "TinyJit": ("tinygraft.jit", "TinyJit"),
    "UOp": ("tinygraft.uop.uop", "UOp"),
    "Variable": ("tinygraft.uop.variable", "Variable"),
    "dtypes": ("tinygraft.dtype", "dtypes"),
    "Function": ("tinygraft.functions", "Function"),
    "fetch": ("tinygraft.helpers", "fetch"),
    "function": ("tinygraft.functions", "function"),
    "getenv": ("tinygraft.config", "getenv"),
    "hooks": ("tinygraft.hooks", ""),
    "array_api": ("tinygraft.array_api", ""),
    "nn": ("tinygraft.nn", ""),
    "onnx": ("tinygraft.onnx", ""),
    **{
        name: ("tinygraft.transforms", name)
        for name in ("checkpoint", "grad", "hessian", "jacobian", "jvp", "value_and_grad", "vjp", "vmap")
    },
}

__all__ = [
    "Context",
    "Device",
    "Function",
    "GlobalCounters",
    "Tensor",
    "TinyJit",
    "UOp",
    "Variable",
    "array_api",
    "checkpoint",
    "dtypes",
    "fetch",
    "function",
    "getenv",
    "grad",
    "hessian",
    "hooks",
    "jacobian",
    "jvp",
    "nn",
    "value_and_grad",
    "vjp",
    "vmap",
]


_INSTEAD = {  # what other libraries have at their top, and what is used here
    "save": "nn.state.safe_save(nn.state.get_state_dict(model), path), or nn.state.save_checkpoint(path, model=model)",
    "load": "nn.state.safe_load(path), nn.state.torch_load(path) or nn.state.load_checkpoint(path, model=model)",
    "data": "it is nn.data here",
    "optim": "it is nn.optim here",
    "Module": "a model is any object: give it __call__; nn.state.get_parameters(model) finds its tensors",
    "inference_mode": "it is Tensor.no_grad here",
    "set_default_dtype": 'with Context(DEFAULT_FLOAT="float16"): ..., or DEFAULT_FLOAT=float16 in the environment',
    **dict.fromkeys(("get_default_device", "set_default_device"), "Device.DEFAULT is its name, and can be set"),
    "utils": "nn.data has the DataLoader, nn.optim clip_grad_norm",
    "functional": "what it has are methods of Tensor: F.relu(x) is x.relu()",
    "compile": "TinyJit(function), or @TinyJit above it",
    "jit": "TinyJit(function), or @TinyJit above it",
    "from_numpy": "Tensor(array)",
    "array": "Tensor(data)",
    "distributed": "nn.parallel, with the ranks of tinygraft.collectives",
    "init_process_group": "collectives.world(), which needs no call before it",
    **dict.fromkeys(
        ("Mesh", "pmap", "shard_map"),
        "nn.parallel.Mesh(data=4) for ranks, Tensor.shard(devices, axis) for devices of one process",
    ),
}

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            from tinygraft.errors import no_such_name

            raise no_such_name("tinygraft", name, _elsewhere(name))
        from importlib import import_module

        module, path = _MODULES[name]
        found = import_module(module)
        value = attrgetter(path)(found) if path else found
        globals()[name] = value
        return value


def _elsewhere(name: str) -> str:
    """Return a hint where a name of NumPy or PyTorch is defined here, or one like it; empty where there is none."""
    from importlib.util import find_spec

    if name in _INSTEAD:
        return f"\n  hint: {_INSTEAD[name]}"
    if name.startswith("_") or find_spec(f"{__name__}.{name}"):  # Python looks for a submodule here before importing it
        return ""
    from tinygraft import array_api, nn
    from tinygraft.device.known import NAMES
    from tinygraft.dtype import dtypes
    from tinygraft.errors import closest, in_place_of
    from tinygraft.tensor.tensor import Tensor

    owners = {"Tensor": Tensor, "dtypes": dtypes, "array_api": array_api}
    found = [f"{owner}.{name}" for owner, where in owners.items() if hasattr(where, name)]
    if (device := name.upper()) in NAMES:
        return f'\n  hint: Tensor(data, device="{device}"), or DEV={device} in the environment'
    modules = {"nn": nn, "nn.optim": nn.optim, "nn.state": nn.state}
    found += [f"{owner}.{name}" for owner, module in modules.items() if name in module.__all__]
    if found:
        return f"\n  hint: it is {' or '.join(found)} here"
    if hint := in_place_of(name, __all__, _INSTEAD):
        return hint
    method = closest(name, [known for known in dir(Tensor) if not known.startswith("_")])
    return f"\n  hint: did you mean 'Tensor.{method}'?" if method else ""


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
