"""Record: all that is known of one entry of one distribution, and how far it has got.

    declared --load--> loaded --check--> compatible --probe--> available --open--> open
       | disabled        | broken           | incompatible       | unavailable      | failed
       | ambiguous       | invalid

Each step is taken only when it is needed, and leaves its reason, hint, traceback and milliseconds here. A device goes
all the way; a hook plugin ends at loaded.
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
        """Whether something is wrong with the installation, rather than merely absent or switched off."""
        return self in (Status.AMBIGUOUS, Status.BROKEN, Status.INVALID, Status.INCOMPATIBLE, Status.FAILED)


@dataclass(slots=True)
class Record:
    """One entry of one distribution. name is a device's in capitals, or that of a hook plugin.

    shadowed are other entries of it that lost. milliseconds says what each step cost. tried: a child process took the
    steps, nothing was imported here.
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
        """Distribution and version, such as tinygraft 0.1.0."""
        return f"{self.distribution} {self.version}".strip()

    def move(self, status: Status, detail: str = "", hint: str = "", error: BaseException | None = None) -> None:
        """Enter a state, with its reason."""
        self.status, self.detail, self.hint = status, detail, hint
        self.traceback = ""
        if error is not None:
            from traceback import format_exception

            self.traceback = "".join(format_exception(error))
        if TINYGRAFT_TRACE_PLUGINS.value:
            text = f"tinygraft: {self.kind} {self.name} ({self.provided_by}): {status.value}"
            print(text + (f": {detail}" if detail else ""), file=sys.stderr)


def describe(error: BaseException) -> str:
    """An exception in one line: its type and what it says."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def blame(record: Record, error: BaseException, prefix: str = "", hint: str = "") -> None:
    """Move a record by an exception of its code. What looks like another version of core is called that."""
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
        detail = f"its metadata names the module {module}, which is not there"
        hint = f"reinstall it, or pip uninstall {record.distribution}"
        record.move(Status.BROKEN, prefix + detail, hint, error)
    elif isinstance(error, SettingError):  # the user's mistake, not the plugin's
        record.move(Status.BROKEN, prefix + str(error), CHANGE_SETTING, error)
    else:
        hint = hint or f"pip install --force-reinstall {record.distribution}"
        record.move(Status.BROKEN, prefix + describe(error), hint, error)


def _wants_another_core(error: BaseException) -> bool:
    """Whether an exception is about something of core's that is not there, which is how skew looks."""
    text = str(error)
    if isinstance(error, ImportError):
        return (error.name or "").partition(".")[0] == _CORE
    if isinstance(error, AttributeError):
        return text.startswith((f"module '{_CORE}'", f"module '{_CORE}."))
    return isinstance(error, TypeError) and "DeviceSpec.__init__" in text


def resolve(path: str) -> Any:
    """The object that "module:name" names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
