"""What a plugin imports: this module and nothing else of tinygraft.

To declare: DeviceSpec, ApiRange, Probe, Setting. To implement: Backend, Allocator, Program, Compiler, GraphExecutor,
and a renderer, most easily CStyleRenderer over a Dialect, or LLVMRenderer; Queue and Event where launches do not wait.
Their arguments: Target, DeclaredRoutine, Linear, Source, Binary, Signature, Param, Routine, Step. To read the linear
form: Ops, UOp, AxisKind and the functions of uop.linear. To start from: PythonBackend, core's interpreter, which is
imported when it is first used.

For hooks: hookimpl, which imports pluggy when it is first used, the events and requests that are the arguments of
hooks, and for codegen passes UPat, PatternMatcher, rule and graph_rewrite. What changes here changes PLUGIN_API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tinygraft.caches import cache_folder
from tinygraft.config import DEBUG, Context, Setting
from tinygraft.device.device_spec import PLUGIN_API, UNCOUNTED, ApiRange, DeviceSpec, Probe
from tinygraft.device.interfaces import Allocator, Backend, Compiler, GraphExecutor, Handle, Program, Step
from tinygraft.device.queues import Event, Queue, an_event
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
from tinygraft.files import write_atomic
from tinygraft.hooks import (
    Candidate,
    CodegenPass,
    Command,
    CommandRegistry,
    CompileEvent,
    DefaultRequest,
    DeviceEvent,
    DoctorCheck,
    LaunchEvent,
    MemoryEvent,
    PassRequest,
    ProfileSession,
    ProfileSink,
    RenderEvent,
    ScheduleEvent,
)
from tinygraft.render.cstyle import CStyleRenderer
from tinygraft.render.dialect import C_TYPES, Dialect, MatrixWords
from tinygraft.render.llvm import LLVMRenderer
from tinygraft.render.renderer import Renderer
from tinygraft.target import BASIC_OPS, CHECKED_OPS, DeclaredRoutine, Target
from tinygraft.uop.index import size_of
from tinygraft.uop.linear import Lane, copies, lane_stride, ranges_of
from tinygraft.uop.ops import AxisKind, Ops
from tinygraft.uop.stages import Binary, Cost, Linear, Param, Routine, Signature, Source
from tinygraft.uop.units import MatrixUnit
from tinygraft.uop.uop import UOp
from tinygraft.uop.upat import PatternMatcher, UPat, graph_rewrite, rule

if TYPE_CHECKING:
    from tinygraft.hooks import hookimpl
    from tinygraft.reference.python import PythonBackend

__all__ = [
    "BASIC_OPS", "CHECKED_OPS", "C_TYPES", "DEBUG", "PLUGIN_API", "UNCOUNTED", "Allocator", "ApiRange", "AxisKind",
    "Backend", "Binary", "CStyleRenderer", "Candidate", "CodegenPass", "Command", "CommandRegistry", "CompileError",
    "CompileEvent", "Compiler", "Context", "Cost", "DType", "DeclaredRoutine", "DefaultRequest", "DeviceError",
    "DeviceEvent", "DeviceLostError", "DeviceMemoryError", "DeviceSpec", "DeviceUnavailable", "Dialect",
    "DoctorCheck", "Event", "GraphError", "GraphExecutor", "Handle", "LLVMRenderer", "Lane", "LaunchEvent", "Linear",
    "MatrixUnit", "MatrixWords", "MemoryEvent", "Ops", "Param", "PassRequest", "PatternMatcher", "Probe",
    "ProfileSession", "ProfileSink", "Program", "PythonBackend", "Queue", "RenderEvent", "Renderer", "Routine",
    "ScheduleEvent", "Setting", "SettingError", "Signature", "Source", "Step", "Target",
    "TinygraftError", "UOp", "UPat", "UnsupportedError", "an_event", "cache_folder", "copies", "dtypes",
    "graph_rewrite", "hookimpl", "lane_stride", "ranges_of", "rule", "size_of", "write_atomic",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "PythonBackend":
        from tinygraft.reference.python import PythonBackend

        return PythonBackend
    if name == "hookimpl":
        from tinygraft.hooks import hookimpl

        return hookimpl
    raise AttributeError(f"module 'tinygraft.plugin' has no attribute {name!r}")
