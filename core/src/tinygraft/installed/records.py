"""Record: all that is known of one entry point of one distribution, and its status.

    declared --load--> loaded --check--> compatible --probe--> available --open--> open
       | disabled        | broken           | incompatible       | unavailable      | failed
       | ambiguous       | invalid

Each step is done only when it is needed, and records its reason, hint, traceback and milliseconds here. A device can
get to "open"; a hook plugin ends at "loaded".
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from tinygraft.config import TINYGRAFT_TRACE_PLUGINS
from tinygraft.errors import SettingError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

CHANGE_SETTING = "change that setting, or unset it"
_CORE = __name__.partition(".")[0]


class Status(Enum):
    """How far a plugin has got, or where it stopped."""

    DECLARED = "declared"  # its metadata was read, nothing was imported
    LOADED = "loaded"  # its spec, or its hooks, were imported
    COMPATIBLE = "compatible"  # its spec fits this plugin API
    AVAILABLE = "available"  # its probe found a device
    OPEN = "open"
    DISABLED = "disabled"  # by TINYGRAFT_PLUGINS or TINYGRAFT_DISABLE_PLUGINS
    AMBIGUOUS = "ambiguous"  # two distributions provide the name
    BROKEN = "broken"  # its code raised an exception before it could be opened
    INVALID = "invalid"  # its entry point, spec, probe or backend is not what it should be
    INCOMPATIBLE = "incompatible"  # made for another plugin API
    UNAVAILABLE = "unavailable"  # its probe found no device here
    FAILED = "failed"  # it could not be opened

    @property
    def is_problem(self) -> bool:
        """Return whether something is wrong with the installation, rather than merely absent or switched off."""
        return self in (Status.AMBIGUOUS, Status.BROKEN, Status.INVALID, Status.INCOMPATIBLE, Status.FAILED)


@dataclass(slots=True)
class Record:
    """One entry point of one distribution. `name` is that of a device in capitals, or that of a hook plugin.

    `shadowed` are other entry points of that name, which are not used. `milliseconds` has the time of each step.
    `tried` says that a child process did the steps, and nothing was imported here. `from_index` is what
    `is_from_index` says in the parent of such a process, where the entry point has no distribution.
    """

    kind: ClassVar[str] = "plugin"

    name: str
    distribution: str
    version: str
    entry: EntryPoint
    status: Status = Status.DECLARED
    detail: str = ""
    hint: str = ""
    traceback: str = ""
    milliseconds: dict[str, float] = field(default_factory=dict)
    shadowed: tuple[str, ...] = ()
    tried: bool = False
    from_index: bool | None = None

    @property
    def provided_by(self) -> str:
        """Return distribution and version, such as tinygraft 0.1.0."""
        return f"{self.distribution} {self.version}".strip()

    def move(self, status: Status, detail: str = "", hint: str = "", error: BaseException | None = None) -> None:
        """Enter a status, with its reason; with TINYGRAFT_TRACE_PLUGINS=1 print it."""
        self.status, self.detail, self.hint = status, detail, hint
        self.traceback = ""
        if error is not None:
            from traceback import format_exception

            self.traceback = "".join(format_exception(error))
        if TINYGRAFT_TRACE_PLUGINS.value:
            text = f"tinygraft: {self.kind} {self.name} ({self.provided_by}): {status.value}"
            print(text + (f": {detail}" if detail else ""), file=sys.stderr)


def describe(error: BaseException) -> str:
    """Return an exception as one line: its type and its text."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def is_from_index(record: Record) -> bool:
    """Return whether pip took a distribution from an index, and not from a folder, a file or a repository.

    What was installed from a folder may be on no index, or a stranger's package there: pip must not be sent for it.
    """
    if record.from_index is not None:
        return record.from_index
    try:
        return record.entry.dist is None or record.entry.dist.read_text("direct_url.json") is None
    except OSError:
        return False


def place_of_error(error: BaseException, paths: Iterable[str], is_certain: bool = False) -> str:
    """Return "FILE, line N" of the innermost frame of an exception in the packages of some paths; "" for none.

    `paths` are those of a plugin, "module:name". An exception without such a frame, as of a name that a module lacks,
    is about the first of them whose module was imported: its file, and the line of its class; not with `is_certain`.
    """
    if isinstance(error, SyntaxError) and error.filename and error.__traceback__ is not None:
        return f"{error.filename}, line {error.lineno}"
    modules = [path.partition(":")[0] for path in paths]
    packages = {module.partition(".")[0] for module in modules} - {_CORE}
    found, step = "", error.__traceback__
    while step is not None:
        if str(step.tb_frame.f_globals.get("__name__", "")).partition(".")[0] in packages:
            found = f"{step.tb_frame.f_code.co_filename}, line {step.tb_lineno}"
        step = step.tb_next
    for path in () if found or is_certain else paths:
        module, _, name = path.partition(":")
        file = getattr(sys.modules.get(module), "__file__", None)
        if file and module.partition(".")[0] in packages:
            return f"{file}{_line_of(getattr(sys.modules[module], name, None))}"
    return found


def _line_of(what: object) -> str:
    """Return ", line N" of a class or function; "" where its source cannot be read."""
    from inspect import getsourcelines

    try:
        return f", line {getsourcelines(what)[1]}"  # type: ignore[arg-type]
    except (OSError, TypeError):
        return ""


def how_to_mend(record: Record, error: BaseException, *paths: str) -> str:
    """Return what to do about a plugin that is installed and raised, with the place in its own files where it did.

    `paths` are what was imported or called, "module:name"; the entry point's module comes after them.
    """
    place = place_of_error(error, (*paths, record.entry.value)) or "its files"
    if not is_from_index(record):
        return f"mend {place}"
    if isinstance(error, ImportError):  # what it needs may be missing
        return f"pip install --force-reinstall {record.distribution}, or tell its authors of {place}"
    return f"tell the authors of {record.provided_by}: {place}"


def how_to_end_crash(record: Record) -> str:
    """Return what to do about a plugin that ended its process, or that hangs."""
    without = f"TINYGRAFT_DISABLE_PLUGINS={record.name}"
    if is_from_index(record):
        return f"pip uninstall {record.distribution}, or set {without}"
    if record.kind == "device":
        return f"python -m tinygraft conformance --device {record.name} names the kernel; {without} switches it off"
    return f"mend it; {without} switches it off"


def blame(record: Record, error: BaseException, prefix: str = "", *paths: str) -> None:
    """Move a record by an exception of its code: to INVALID, INCOMPATIBLE (with this version of core) or BROKEN.

    `prefix` is put before the detail. `paths` are what was imported or called, "module:name", for the hint.
    """
    if record.entry.pattern.match(record.entry.value) is None:
        detail = f"its metadata names {record.entry.value!r}, which is not module:name"
        record.move(Status.INVALID, detail, f"tell the authors of {record.provided_by}", error)
        return
    missing = (error.name or "") if isinstance(error, ImportError) else ""
    module = record.entry.module
    if _wants_another_core(error):
        detail = f"it wants something that this {_CORE} does not have: {describe(error)}"
        update = f"pip install -U {_CORE} {record.distribution}"
        hint = update if is_from_index(record) else how_to_mend(record, error, *paths)
        record.move(Status.INCOMPATIBLE, detail, hint, error)
    elif missing and (module == missing or module.startswith(missing + ".")):
        detail = f"its metadata names the module {module}, which does not exist"
        hint = f"reinstall it, or pip uninstall {record.distribution}"
        record.move(Status.BROKEN, prefix + detail, hint, error)
    elif isinstance(error, SettingError):  # the user's mistake, not the plugin's
        record.move(Status.BROKEN, prefix + str(error), CHANGE_SETTING, error)
    else:
        record.move(Status.BROKEN, prefix + describe(error), how_to_mend(record, error, *paths), error)


def _wants_another_core(error: BaseException) -> bool:
    """Return whether an exception is about something that core lacks, as with a plugin for another version of it."""
    text = str(error)
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] == _CORE
    if isinstance(error, AttributeError):
        return text.startswith((f"module '{_CORE}'", f"module '{_CORE}."))
    return isinstance(error, TypeError) and text.startswith("DeviceSpec() got an unexpected")


def resolve(path: str) -> Any:
    """Return the object that "module:name" names, whose module is imported.

    Raises what the import or getattr raises.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
