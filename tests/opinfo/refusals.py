"""Which errors count as refusals: those that tinygraft raises on purpose, of a type that fits the one of PyTorch.

An error in, what is missing for a refusal out. On purpose is what a `raise` of tinygraft raised; a TypeError of Python
itself counts too where arguments do not fit a method, if PyTorch raises a TypeError. What an accident inside raises (an
attribute that is not there, a number that cannot be unpacked) is no refusal.
"""

from __future__ import annotations

import dis
from types import TracebackType

# What PyTorch raises, and what fits it. RuntimeError is what its C++ raises for every cause.
FITTING: dict[type[BaseException], tuple[type[BaseException], ...]] = {
    TypeError: (TypeError,), ValueError: (ValueError,), IndexError: (IndexError,),
    RuntimeError: (RuntimeError, TypeError, ValueError, IndexError, OverflowError),
    NotImplementedError: (NotImplementedError, TypeError, ValueError),
}  # fmt: skip


ANSWER = "unknown_keyword"  # which raises the error of a call again, with what was meant


def missing(error: Exception, wanted: type[BaseException] | tuple[type[BaseException], ...]) -> str | None:
    """What is missing for an error to be a refusal, where PyTorch raises wanted; None where it is one."""
    name = type(error).__name__
    several = wanted if isinstance(wanted, tuple) else (wanted,)
    fitting = tuple(kind for each in several for kind in FITTING.get(each, (each,)))
    if not isinstance(error, fitting):
        return f"raised {name}, not {' or '.join(each.__name__ for each in several)}: {str(error)[:100]}"
    if not (_on_purpose(error) or (TypeError in several and _by_arguments(error))):
        return f"raised by accident, {name}: {str(error)[:100]}"
    return None


def _last(error: Exception) -> TracebackType | None:
    """The frame in which an error was raised."""
    found = error.__traceback__
    while found is not None and found.tb_next is not None:
        found = found.tb_next
    return found


def _on_purpose(error: Exception) -> bool:
    """Whether a raise statement of tinygraft raised it."""
    last = _last(error)
    if last is None or not last.tb_frame.f_globals.get("__name__", "").startswith("tinygraft"):
        return False
    if last.tb_frame.f_code.co_name == ANSWER:
        return False
    at = next((i for i in dis.get_instructions(last.tb_frame.f_code) if i.offset == last.tb_lasti), None)
    return at is not None and at.opname in ("RAISE_VARARGS", "RERAISE")


def _by_arguments(error: Exception) -> bool:
    """Whether the call itself failed, because a method does not take these arguments, or a wrapper around it."""
    last = _last(error)
    if last is None:
        return False
    code, module = last.tb_frame.f_code, last.tb_frame.f_globals.get("__name__", "")
    return code.co_name in ("either", ANSWER) or not module.startswith("tinygraft")
