"""What the environment says that nothing reads: misspelt settings, and devices that are requested and not there.

    check_environment(names, environment)    once in a process, before its first device is opened

`BEM=1` and `DEBG=2` would change nothing without a word: each is a SettingWarning at the user's line, or with
TINYGRAFT_STRICT=1 a SettingError. A variable counts as meant for tinygraft only where its name is one letter from that
of a setting or a device and its value could be one of it, or where it begins with TINYGRAFT_: most of an environment
is another program's.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping

from tinygraft.config import ELSEWHERE, SETTINGS, TINYGRAFT_STRICT, finders
from tinygraft.device.known import ALSO_CALLED, NAMES, how_to_install
from tinygraft.errors import SettingError, SettingWarning, closest
from tinygraft.helpers import warn_user

OURS = "TINYGRAFT_"
OF_TESTS = frozenset({"TINYGRAFT_REQUIRE"})  # which the test suite reads
OTHERS_HAVE = frozenset({"IMAGE", "PARALLEL"})  # of ELSEWHERE, names that other programs read
SHORT = 3  # assumed: letters of a name of which a wrong one makes another word, as VIM of VIZ


def check_environment(names: Iterable[str], environment: Mapping[str, str] = os.environ) -> None:
    """Warn of each variable that is probably meant for tinygraft and does nothing; `names` are the declared devices.

    Raises SettingError instead where TINYGRAFT_STRICT is 1.
    """
    for text in faults(frozenset(names), environment):
        if TINYGRAFT_STRICT.value:
            raise SettingError(f"TINYGRAFT_STRICT=1 does not allow this: {text}")
        warn_user(f"{text} (TINYGRAFT_STRICT=1 makes this an error)", SettingWarning)


def faults(names: frozenset[str], environment: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each variable of `environment` that is probably a mistake, by name.

    `names` are those of the declared devices. Plugins that are not loaded may be imported to look for a setting.
    """
    devices = names | NAMES | ALSO_CALLED.keys()
    for name in sorted(environment):
        value = environment[name]
        if name in SETTINGS or name in OF_TESTS or (name in names and value in ("0", "1", "")):
            continue
        text = _fault(name, value, names, devices)
        if text:
            for find in finders:  # a plugin that is not loaded yet may have a setting of this name
                find(name)
            if name not in SETTINGS:
                yield f"{name}={value} changes nothing: {text}"


def _fault(name: str, value: str, names: frozenset[str], devices: frozenset[str]) -> str:
    """Return what is wrong with a variable that is no setting; "" for one of another program.

    `names` are the declared devices, `devices` those and others that are known.
    """
    is_number = value.strip().lstrip("-").isascii() and value.strip().lstrip("-").isdigit()
    if name.startswith(OURS):
        plain = name.removeprefix(OURS)
        meant = plain if plain in SETTINGS else closest(name, [known for known in SETTINGS if known.startswith(OURS)])
        return f"there is no such setting, `python -m tinygraft settings` prints all{_meant(meant)}"
    if name in ELSEWHERE and name not in OTHERS_HAVE and is_number:
        return f"there is no such setting here; {ELSEWHERE[name]}"
    if value == "1" and name in devices:
        if name in ALSO_CALLED:
            return f"no plugin provides a device {name}; did you mean {ALSO_CALLED[name]}?"
        return f"{name} is not installed; {how_to_install(name)}"
    if name.isupper() and len(name) >= SHORT:
        for known in SETTINGS:
            if is_one_letter_off(name, known) and _could_be(value, known, names, is_number):
                return f"there is no such setting{_meant(known)}"
        meant = next((device for device in sorted(names | NAMES) if is_one_letter_off(name, device)), "")
        if meant and value == "1":
            return f"no plugin provides a device {name}{_meant(meant)}"
    return ""


def _meant(name: str) -> str:
    """Return the end of a sentence that says which name was meant; "" for none."""
    return f"; did you mean {name}?" if name else ""


def _could_be(value: str, setting: str, names: frozenset[str], is_number: bool) -> bool:
    """Return whether `value` could be one of a setting: a number, of DEV the name of a device."""
    if isinstance(SETTINGS[setting].value, str):
        return value.partition(",")[0].partition(":")[0].upper() in names
    return is_number


def is_one_letter_off(name: str, known: str) -> bool:
    """Return whether one letter that is missing, too much, wrong or swapped with the next makes `known` of `name`.

    Of a short name one that is missing or wrong does not count.

    >>> [is_one_letter_off(name, "DEBUG") for name in ("DEBG", "DEBUGG", "DEBUK", "DEBGU", "DEBUG", "DBG")]
    [True, True, True, True, False, False]
    """
    if name == known or abs(len(name) - len(known)) > 1:
        return False
    if len(known) <= SHORT and len(name) <= len(known) and sorted(name) != sorted(known):
        return False
    same = next((i for i, (a, b) in enumerate(zip(name, known, strict=False)) if a != b), min(len(name), len(known)))
    a, b = name[same:], known[same:]
    return a[1:] == b or a == b[1:] or a[1:] == b[1:] or (a[:2] == b[1::-1] and a[2:] == b[2:])
