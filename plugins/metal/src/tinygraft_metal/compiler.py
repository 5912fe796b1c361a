"""From MSL to a binary: the text, and a binary archive with the machine code that Metal made of it for this GPU.

Metal compiles in two steps, from text to a library and from a function of that to a pipeline. The second makes machine
code, takes longer, and is what an archive saves; where a GPU has none, or another macOS does not take it, Metal makes
the code anew. The GPU of a virtual machine is given none.
"""

from __future__ import annotations

import hashlib
import os
import platform
import struct
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tinygraft.plugin import Binary, CompileError, Compiler, DeviceError, Source
from tinygraft_metal.binding import binding, is_virtual, sentence

MARK = b"tinygraft-metal-1"
LENGTH = struct.Struct("<Q")
RECENT = 64  # assumed, 2026-11-24: libraries from compile() that load() may want next
MOST = 8  # kernels that are compiled at once


class MetalCompiler(Compiler):
    """Metal's compiler for one GPU: nothing is contracted, nothing is fast math, functions are the precise ones."""

    def __init__(self, device: Any) -> None:
        self.device, self.binding = device, binding()
        self.version = platform.mac_ver()[0] or platform.release()
        made = repr((str(device.name()), self.version, platform.machine(), MARK))
        self.key = f"metal-{hashlib.sha256(made.encode()).hexdigest()[:16]}"
        self.threads = min(MOST, os.cpu_count() or 1)
        self.has_archives = not is_virtual(device)
        self._recent: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def compile(self, source: Source) -> Binary:
        """Return the binary of a kernel. Raises CompileError with Metal's log."""
        text = source.text
        with self.binding.objc.autorelease_pool():
            library, error = self._library(text)
            function = None if library is None else library.newFunctionWithName_(source.name)
            if function is None:
                log = sentence(error) if library is None else f"it has no kernel {source.name}"
                raise CompileError(f"Metal refused kernel {source.name} for {self.device.name()}: {log}", text, log)
            self._keep(text, library)
            archive = self._archived(self._descriptor(function))
        return Binary(source.name, packed(text, archive), source.signature)

    def takes(self, text: str) -> bool:
        """Return whether Metal compiles a source."""
        with self.binding.objc.autorelease_pool():
            return self._library(text)[0] is not None

    def pipeline(self, name: str, data: bytes) -> Any:
        """Return the pipeline state of a binary. Raises DeviceError where Metal does not make it."""
        text, archive = unpacked(data)
        with self.binding.objc.autorelease_pool():
            library, error = self._kept(text), None
            if library is None:
                library, error = self._library(text)
            function = None if library is None else library.newFunctionWithName_(name)
            if function is None:
                raise DeviceError(f"Metal does not take the binary of kernel {name} any more: {sentence(error)}")
            descriptor = self._descriptor(function)
            with self._opened(archive) as found:
                if found is not None:
                    descriptor.setBinaryArchives_([found])
                state, error = self.device.newComputePipelineStateWithDescriptor_options_reflection_error_(
                    descriptor, self.binding.metal.MTLPipelineOptionNone, None, None
                )
        if state is None:
            raise DeviceError(f"Metal makes no pipeline of kernel {name} for {self.device.name()}: {sentence(error)}")
        return state

    def _library(self, text: str) -> tuple[Any, Any]:
        """Return the library of a source, or None, and what Metal says."""
        metal = self.binding.metal
        options = metal.MTLCompileOptions.alloc().init()
        options.setFastMathEnabled_(False)
        if hasattr(options, "setMathMode_"):  # since macOS 15, where the option above is an older word for both
            options.setMathMode_(metal.MTLMathModeSafe)
            options.setMathFloatingPointFunctions_(metal.MTLMathFloatingPointFunctionsPrecise)
        library, error = self.device.newLibraryWithSource_options_error_(text, options, None)
        return library, error

    def _descriptor(self, function: Any) -> Any:
        """Return what describes a pipeline of a function, which indirect command buffers can launch too."""
        descriptor = self.binding.metal.MTLComputePipelineDescriptor.alloc().init()
        descriptor.setComputeFunction_(function)
        descriptor.setSupportIndirectCommandBuffers_(True)
        return descriptor

    def _archived(self, descriptor: Any) -> bytes:
        """Return an archive of a pipeline's machine code as bytes; none where Metal makes none."""
        if not self.has_archives:
            return b""
        described = self.binding.metal.MTLBinaryArchiveDescriptor.alloc().init()
        archive, _ = self.device.newBinaryArchiveWithDescriptor_error_(described, None)
        if archive is None:
            return b""
        is_in, _ = archive.addComputePipelineFunctionsWithDescriptor_error_(descriptor, None)
        if not is_in:
            return b""
        with tempfile.TemporaryDirectory(prefix="tinygraft-metal-") as folder:
            file = Path(folder, "kernel.metallib")
            is_written, _ = archive.serializeToURL_error_(self._url(file), None)
            return file.read_bytes() if is_written else b""

    @contextmanager
    def _opened(self, archive: bytes) -> Iterator[Any]:
        """Yield Metal's archive of some bytes, whose file is there meanwhile; None where Metal does not take them."""
        if not archive or not self.has_archives:
            yield None
            return
        with tempfile.TemporaryDirectory(prefix="tinygraft-metal-") as folder:
            file = Path(folder, "kernel.metallib")
            file.write_bytes(archive)
            described = self.binding.metal.MTLBinaryArchiveDescriptor.alloc().init()
            described.setUrl_(self._url(file))
            yield self.device.newBinaryArchiveWithDescriptor_error_(described, None)[0]

    def _url(self, file: Path) -> Any:
        """Return a file as an NSURL."""
        return self.binding.foundation.NSURL.fileURLWithPath_(str(file))

    def _keep(self, text: str, library: Any) -> None:
        """Cache the library of a source, for the next `pipeline`; of more than RECENT the oldest is dropped."""
        with self._lock:
            self._recent[text] = library
            while len(self._recent) > RECENT:
                self._recent.popitem(last=False)

    def _kept(self, text: str) -> Any:
        """Return the library of a source that is cached, which is removed; None where it is not."""
        with self._lock:
            return self._recent.pop(text, None)


def packed(text: str, archive: bytes) -> bytes:
    """Return the bytes of a binary.

    >>> unpacked(packed("kernel void f() {}", b"code"))
    ('kernel void f() {}', b'code')
    """
    data = text.encode()
    return MARK + LENGTH.pack(len(data)) + data + archive


def unpacked(data: bytes) -> tuple[str, bytes]:
    """Return the text and the archive of a binary's bytes. Raises DeviceError for bytes of another kind."""
    begin = len(MARK) + LENGTH.size
    if not data.startswith(MARK) or len(data) < begin:
        raise DeviceError("these bytes are no kernel of this plugin; remove the cache, and it is compiled anew")
    (size,) = LENGTH.unpack_from(data, len(MARK))
    if len(data) < begin + size:
        raise DeviceError("the bytes of this kernel end too early; remove the cache, and it is compiled anew")
    return data[begin : begin + size].decode(), data[begin + size :]
