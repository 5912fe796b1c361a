"""Record: all that is known of one entry point of one distribution, and its status.

    declared --load--> loaded --check--> compatible --probe--> available --open--> open
       | disabled        | broken           | incompatible       | unavailable      | failed
       | ambiguous       | invalid

Each step is done only when it is needed, and records its reason, hint, traceback and milliseconds here. A device can
get to "open"; a hook plugin ends at "loaded".
"""

from __future__ import annotations

import sys
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
    `tried` says that a child process did the steps, and nothing was imported here.
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


def blame(record: Record, error: BaseException, prefix: str = "", hint: str = "") -> None:
    """Move a record by an exception of its code: to INVALID, INCOMPATIBLE (with this version of core) or BROKEN.

    `prefix` is put before the detail, `hint` replaces the default one of a broken plugin.
    """
    if record.entry.pattern.match(record.entry.value) is None:
        detail = f"its metadata names {record.entry.value!r}, which is not module:name"
        record.move(Status.INVALID, detail, f"tell the authors of {record.provided_by}", error)
        return
    missing = (error.name or "") if isinstance(error, ImportError) else ""
    module = record.entry.module
    if _wants_another_core(error):
        detail = f"it wants something that this {_CORE} does not have: {describe(error)}"
        record.move(Status.INCOMPATIBLE, detail, f"pip install -U {_CORE} {record.distribution}", error)
    elif missing and (module == missing or module.startswith(missing + ".")):
        detail = f"its metadata names the module {module}, which does not exist"
        hint = f"reinstall it, or pip uninstall {record.distribution}"
        record.move(Status.BROKEN, prefix + detail, hint, error)
    elif isinstance(error, SettingError):  # the user's mistake, not the plugin's
        record.move(Status.BROKEN, prefix + str(error), CHANGE_SETTING, error)
    else:
        hint = hint or f"pip install --force-reinstall {record.distribution}"
        record.move(Status.BROKEN, prefix + describe(error), hint, error)


def _wants_another_core(error: BaseException) -> bool:
    """Return whether an exception is about something that core lacks, as with a plugin for another version of it."""
    text = str(error)
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] == _CORE
    if isinstance(error, AttributeError):
        return text.startswith((f"module '{_CORE}'", f"module '{_CORE}."))
    return isinstance(error, TypeError) and "DeviceSpec.__init__" in text


def resolve(path: str) -> Any:
    """Return the object that "module:name" names, whose module is imported.

    Raises what the import or getattr raises.
    """
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
