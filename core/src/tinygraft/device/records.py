"""PluginRecord: all that is known of one device that one distribution declares, and how far it has got.

    declared --load--> loaded --check--> compatible --probe--> available --open--> open
       | disabled        | broken           | incompatible       | unavailable      | failed
       | ambiguous       | invalid

Each step is taken only when it is needed, and leaves its reason, hint, traceback and milliseconds here.
"""

from __future__ import annotations

import sys
import traceback as tracebacks
from dataclasses import dataclass, field
from enum import Enum
from importlib.metadata import EntryPoint

from tinygraft.config import TINYGRAFT_TRACE_PLUGINS
from tinygraft.device.spec import DeviceSpec, Probe


class Status(Enum):
    """How far a device has got, or where it stopped."""

    DECLARED = "declared"  # its metadata was read, nothing was imported
    LOADED = "loaded"  # its spec was imported
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
class PluginRecord:
    """One device of one distribution. name is in capitals; shadowed are other entries of it that lost; priority is
    0 until the spec has been seen.

    milliseconds says what each step cost. tried: a child process took the steps, nothing was imported here.
    """

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
    priority: int = 0
    tried: bool = False
    spec: DeviceSpec | None = None
    probe: Probe | None = None

    @property
    def provided_by(self) -> str:
        """Distribution and version, such as tinygraft 0.1.0."""
        return f"{self.distribution} {self.version}".strip()

    def move(self, status: Status, detail: str = "", hint: str = "", error: BaseException | None = None) -> None:
        """Enter a state, with its reason."""
        self.status, self.detail, self.hint = status, detail, hint
        self.traceback = "" if error is None else "".join(tracebacks.format_exception(error))
        if TINYGRAFT_TRACE_PLUGINS.value:
            text = f"tinygraft: device {self.name} ({self.provided_by}): {status.value}"
            print(text + (f": {detail}" if detail else ""), file=sys.stderr)


def describe(error: BaseException) -> str:
    """An exception in one line: its type and what it says."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
