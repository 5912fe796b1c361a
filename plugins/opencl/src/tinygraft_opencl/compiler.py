"""The driver's compiler: from OpenCL C to the driver's own binary, which core caches on disk, and back to a program."""

from __future__ import annotations

import hashlib
import warnings
from typing import Any

from tinygraft.plugin import DEBUG, Binary, CompileError, Compiler, DeviceError, Source
from tinygraft_opencl import pocl
from tinygraft_opencl.platforms import binding

EXACT_DIVISION = "-cl-fp32-correctly-rounded-divide-sqrt"


class ClCompiler(Compiler):
    """Compiles OpenCL C to a binary for one device, without options that change the values of floats."""

    def __init__(self, context: Any, device: Any, exact_division: bool) -> None:
        self.context, self.device, self.cl = context, device, binding()
        warnings.filterwarnings("ignore", category=self.cl.CompilerWarning)  # some drivers say that all went well
        self.options: list[str] = ["-w", "-cl-std=CL1.2", *([EXACT_DIVISION] if exact_division else [])]
        platform = device.platform
        described = (
            platform.name, platform.version, device.name, device.version, device.driver_version, device.extensions,
            processor(device), self.cl.VERSION_TEXT, *self.options,
        )  # fmt: skip
        self.key = f"opencl-{hashlib.sha256(repr(described).encode()).hexdigest()[:16]}"

    def compile(self, source: Source) -> Binary:
        """Return the driver's binary of a kernel.

        With DEBUG from 7 on, `detail` is that binary where it is text, as the assembly of some drivers is. Raises
        CompileError with the driver's log.
        """
        if why := pocl.why_unusable(self.device):
            raise CompileError(f"kernel {source.name} cannot be compiled: {why}", source.text)
        program = self.cl.Program(self.context, source.text)
        try:
            program = program.build(self.options, devices=[self.device], cache_dir=False)
            data = program.get_info(self.cl.program_info.BINARIES)[0]
        except (self.cl.Error, RuntimeError) as error:
            log = str(error).strip()
            where = f"{self.device.name.strip()} ({self.device.platform.name.strip()})"
            why = f"{log}\n{pocl.GET_OTHER}" if pocl.REFUSAL in log else log
            raise CompileError(f"{where} refused kernel {source.name}:\n{why}", source.text, log) from error
        return Binary(source.name, data, source.signature, _text(data) if DEBUG.value >= 7 else "")


def load_program(context: Any, device: Any, binary: Binary) -> Any:
    """Return pyopencl's program of a binary. Raises DeviceError where the driver does not load it."""
    cl = binding()
    try:
        return cl.Program(context, [device], [binary.data]).build(cache_dir=False)
    except (cl.Error, RuntimeError) as error:
        raise DeviceError(
            f"{device.name.strip()} cannot load its own binary of kernel {binary.name}: {error}"
        ) from error


def processor(device: Any) -> str:
    """Return the instruction sets of a device that is a processor, which its binaries depend on; empty for others."""
    is_processor = bool(device.type & binding().device_type.CPU)
    return " ".join(sorted(pocl.features())) if is_processor else ""


def _text(data: bytes) -> str:
    """Return a binary that is ASCII text; empty for any other."""
    try:
        return data.rstrip(b"\0").decode("ascii")
    except UnicodeDecodeError:
        return ""
