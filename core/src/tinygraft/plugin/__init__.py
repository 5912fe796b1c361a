"""What a device plugin imports: this module and nothing else of tinygraft.

To declare: DeviceSpec, ApiRange, Probe, Setting. To implement: Backend, Allocator, Program, Compiler, GraphExecutor,
and a renderer, most easily CStyleRenderer over a Dialect, or LLVMRenderer. What they are given: Target, Linear, Source,
Binary, Signature, Param, Step. To read the linear form: Ops, UOp, AxisKind and the functions of uop.linear. To start
from: PythonBackend, core's interpreter, which is imported when it is first asked for. What changes here changes
PLUGIN_API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.config import DEBUG, Context, Setting
from tinygraft.device.interfaces import Allocator, Backend, Compiler, GraphExecutor, Handle, Program, Step
from tinygraft.device.spec import PLUGIN_API, ApiRange, DeviceSpec, Probe
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    DeviceMemoryError,
    DeviceUnavailable,
    GraphError,
    SettingError,
    TinygraftError,
    UnsupportedError,
)
from tinygraft.files import cache_folder, write_atomic
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES, Dialect, MatrixWords
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.render.renderer import Renderer
from tinygraft.target import BASIC_OPS, CHECKED_OPS, Target
from tinygraft.uop.index import size_of
from tinygraft.uop.linear import Lane, copies, lane_stride, ranges_of
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Binary, Cost, Linear, Param, Signature, Source
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp

if TYPE_CHECKING:
    from tinygraft.reference.python import PythonBackend

__all__ = [
    "BASIC_OPS", "CHECKED_OPS", "C_TYPES", "DEBUG", "PLUGIN_API", "Allocator", "ApiRange", "AxisKind", "Backend",
    "Binary", "CStyleRenderer", "CompileError", "Compiler", "Context", "Cost", "DType", "DeviceError",
    "DeviceLostError", "DeviceMemoryError", "DeviceSpec", "DeviceUnavailable", "Dialect", "GraphError",
    "GraphExecutor", "Handle", "LLVMRenderer", "Lane", "Linear", "MatrixUnit",
    "MatrixWords", "Ops", "Param", "Probe", "Program", "PythonBackend", "Renderer",
    "Setting", "SettingError", "Signature", "Source", "Step", "Target", "TinygraftError", "UOp", "UnsupportedError",
    "cache_folder", "copies", "dtypes", "lane_stride", "ranges_of", "size_of", "write_atomic",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name != "PythonBackend":
        raise AttributeError(f"module 'tinygraft.plugin' has no attribute {name!r}")
    from tinygraft.reference.python import PythonBackend

    return PythonBackend
