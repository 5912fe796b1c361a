"""A compiler that a driver's maker has in a library: from source to machine code, in this process, by cffi.

Such libraries have the same functions, whose names begin with a prefix of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DECLARATIONS = """
typedef struct _program *Program;
int {prefix}Version(int *major, int *minor);
const char *{prefix}GetErrorString(int result);
int {prefix}CreateProgram(Program *program, const char *text, const char *name, int count, const char *const *headers,
                          const char *const *names);
int {prefix}DestroyProgram(Program *program);
int {prefix}CompileProgram(Program program, int count, const char *const *options);
int {prefix}GetProgramLogSize(Program program, size_t *size);
int {prefix}GetProgramLog(Program program, char *log);
int {prefix}Get{code}Size(Program program, size_t *size);
int {prefix}Get{code}(Program program, char *code);
"""


class SourceRefused(Exception):
    """A source that the compiler refused: its result in words, and what it wrote about it."""

    def __init__(self, result: str, log: str) -> None:
        super().__init__(f"{result}\n{log}".strip())
        self.log = log


@dataclass(frozen=True, slots=True)
class RuntimeCompiler:
    """A loaded compiler: the prefix of its functions, and what it calls machine code."""

    ffi: Any
    lib: Any
    prefix: str
    code: str

    @staticmethod
    def load(path: str, prefix: str, code: str, more: str = "") -> RuntimeCompiler:
        """Return the compiler in a file, or by a name that the loader knows. `more` declares more of its functions.

        Raises OSError where there is none.
        """
        import cffi

        ffi = cffi.FFI()
        ffi.cdef(DECLARATIONS.format(prefix=prefix, code=code) + more)
        return RuntimeCompiler(ffi, ffi.dlopen(path), prefix, code)

    def version(self) -> tuple[int, int]:
        """Return its version. Raises OSError where it does not tell it."""
        major, minor = self.ffi.new("int *"), self.ffi.new("int *")
        try:
            result = self._function("Version")(major, minor)
        except AttributeError as error:
            raise OSError(f"the library has no such functions: {error}") from error
        if result:
            raise OSError("it does not tell its version")
        return major[0], minor[0]

    def compile(self, text: str, name: str, options: Sequence[str]) -> bytes:
        """Return the machine code of a source; `name` is that of its file in messages. Raises SourceRefused."""
        ffi, call = self.ffi, self._function
        holder = ffi.new("Program *")
        self._must(call("CreateProgram")(holder, text.encode(), name.encode(), 0, ffi.NULL, ffi.NULL), "")
        try:
            words = [ffi.new("char[]", option.encode()) for option in options]
            result = call("CompileProgram")(holder[0], len(words), ffi.new("char *[]", words))
            self._must(result, self._log(holder[0]))
            size = ffi.new("size_t *")
            self._must(call(f"Get{self.code}Size")(holder[0], size), "")
            data = ffi.new("char[]", size[0])
            self._must(call(f"Get{self.code}")(holder[0], data), "")
            return bytes(ffi.buffer(data, size[0]))
        finally:
            call("DestroyProgram")(holder)

    def _function(self, name: str) -> Any:
        """Return a function of the library by its name without the prefix.

        Raises AttributeError where there is none.
        """
        return getattr(self.lib, self.prefix + name)

    def _log(self, program: Any) -> str:
        """Return what the compiler wrote about a program; "" for nothing."""
        size = self.ffi.new("size_t *")
        if self._function("GetProgramLogSize")(program, size) or size[0] < 2:
            return ""
        log = self.ffi.new("char[]", size[0])
        self._function("GetProgramLog")(program, log)
        return str(self.ffi.string(log).decode(errors="replace")).strip()

    def _must(self, result: int, log: str) -> None:
        """Raise SourceRefused, with the compiler's `log`, for a result that is not 0."""
        if result:
            raise SourceRefused(self.ffi.string(self._function("GetErrorString")(result)).decode(), log)


def build_of(path: str) -> str:
    """Return what distinguishes builds of a library that report the same version, for the key of what it compiles.

    It is the size of the file; `path` itself where that is a name which the loader resolves.
    """
    try:
        return str(Path(path).stat().st_size)
    except OSError:
        return path
