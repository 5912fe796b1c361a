"""What a device plugin imports: this module and nothing else of tinygraft."""

from tinygraft.config import DEBUG, Context, Setting
from tinygraft.device.interfaces import Allocator, Backend, Compiler, Handle, Program
from tinygraft.device.spec import PLUGIN_API, ApiRange, DeviceSpec, Probe
from tinygraft.dtype import DType, dtypes
from tinygraft.errors import (
    CompileError,
    DeviceError,
    DeviceLostError,
    DeviceMemoryError,
    DeviceUnavailable,
    SettingError,
    UnsupportedError,
)
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES, Dialect
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.render.renderer import Renderer
from tinygraft.target import BASIC_OPS, Target
from tinygraft.uop.ops import Ops
from tinygraft.uop.stages import Binary, Linear, Param, Signature, Source

__all__ = [
    "BASIC_OPS", "C_TYPES", "DEBUG", "PLUGIN_API", "Allocator", "ApiRange", "Backend", "Binary",
    "CStyleRenderer", "CompileError", "Compiler", "Context", "DType", "DeviceError", "DeviceLostError",
    "DeviceMemoryError", "DeviceSpec", "DeviceUnavailable", "Dialect", "Handle", "LLVMRenderer", "Linear",
    "Ops", "Param", "Probe", "Program", "Renderer", "Setting", "SettingError", "Signature", "Source",
    "Target", "UnsupportedError", "dtypes",
]  # fmt: skip
