"""CollectiveSpec: what a package declares about its engine of collectives, without importing anything heavy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

# given: the version of what engines implement (Transport, Transfer, CollectiveSpec), raised when it changes
COLLECTIVE_API = (0, 3)


@dataclass(frozen=True, slots=True)
class CollectiveProbe:
    """Whether an engine can be used here (`ok`), what was found (`detail`), and what to do about it (`hint`)."""

    ok: bool
    detail: str
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectiveSpec:
    """An engine of collectives as its package declares it. Each "module:name" is imported when it is needed.

    `api` is the version of COLLECTIVE_API that it was written for, as numbers. `started` is a function that returns,
    from the environment alone, whether this process was started as a rank of this engine; `probe` one that returns a
    CollectiveProbe without starting the engine; `transport` one that starts it and returns the Transport of this
    process; `launcher` one from (count, environment) to the command in front of a program that starts it as `count`
    ranks, each with these variables of the environment. It is called where a user runs `python -m tinygraft launch`;
    `ended` is one that removes what killed ranks leave on this machine, and is called when they have ended.
    """

    name: str
    summary: str
    api: tuple[int, int]
    started: str
    probe: str
    transport: str
    launcher: str
    ended: str = ""
    install_hint: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
