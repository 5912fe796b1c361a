"""Every exception that tinygraft raises on purpose.

    TinygraftError
    ├── ShapeError (ValueError)          shapes, axes or sizes that do not fit together
    │   └── AxisError                    an axis that a shape does not have, or without elements (also an IndexError)
    ├── DTypeError (TypeError)           a dtype that an operation cannot take
    │   └── DTypeChoiceError             a dtype that was requested and is not possible (also a ValueError)
    ├── DeviceError (RuntimeError)       operands on different devices, or a device that cannot be used
    │   ├── DeviceUnavailable            a device that does not exist here, with the reason on record
    │   ├── DeviceMemoryError            the device has no room left (also a MemoryError)
    │   └── DeviceLostError              the device stopped answering
    ├── IndexOutOfRange (IndexError)     an index known to be outside its axis
    ├── NumberOutOfRange (OverflowError) a Python number that a dtype of integers does not have
    ├── GraphError (ValueError)          a graph that its spec forbids
    ├── ActionError (ValueError)         a transform that cannot be parsed, or that its kernel does not allow
    ├── CompileError (RuntimeError)      a kernel that its compiler refused, with the compiler's messages
    ├── HookError (RuntimeError)         a hook plugin that raised, or returned a wrong type
    ├── UnsupportedError (NotImplementedError)  something that a device declares it cannot do
    ├── FileFormatError (ValueError)     a file that is corrupt, truncated or lies about its content
    ├── FetchError (OSError)             a download that failed or brought something else
    ├── ValidationError (ArithmeticError)  a wrong number, which VALIDATE=1 has found
    ├── TrainingError (RuntimeError)     an optimizer that cannot take its step
    ├── CollectiveError (RuntimeError)   ranks that do different things, or one that does not come
    └── SettingError (ValueError)        a setting with an unknown name or a value that cannot be read

and two warnings: DeviceFallbackWarning (UserWarning), the automatic choice of a device passed one over, and
SettingWarning (UserWarning), a variable of the environment is probably meant for tinygraft, and does nothing.

Each one also is the builtin exception that a Python user would expect to catch. A message says what was
requested, what was found, where, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def closest(name: str, known: Iterable[str]) -> str:
    """Return which of `known` was probably meant by `name`, whatever its case; empty where none is like it.

    >>> closest("sofmax", ["softmax", "max", "argmax"]), closest("linear", ["Linear"]), closest("zzz", ["a"])
    ('softmax', 'Linear', '')
    """
    from difflib import get_close_matches

    by_case = {one.lower(): one for one in known}
    # assumed: 0.75 lets through one wrong letter in four, and two in eight; of three letters one may be too many
    found = get_close_matches(name.lower(), by_case, 1, 0.75 if len(name) > 3 else 0.8)
    return by_case[found[0]] if found else ""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a line to add to the error about an unknown name; empty where nothing is like it.

    >>> did_you_mean("axes", ["axis", "keepdim"])
    "\\n  hint: did you mean 'axis'?"
    """
    found = closest(name, known)
    return f"\n  hint: did you mean {found!r}?" if found else ""


def in_place_of(name: str, known: Iterable[str], instead: Mapping[str, str]) -> str:
    """Return a line to add to the error about an unknown name: what `instead` says of it or of the one that was meant.

    A name is first looked for in other case, then among those that are like it. Empty where there is none.

    >>> in_place_of("Savee", ["safe_save"], {"save": "safe_save(state, path)"}).strip()
    'hint: safe_save(state, path)'
    """
    names = (*instead, *known)
    meant = name if name in instead else {one.lower(): one for one in names}.get(name.lower()) or closest(name, names)
    said = instead.get(meant) or (f"did you mean {meant!r}?" if meant else "")
    return f"\n  hint: {said}" if said else ""


def no_such_name(module: str, name: str, hint: str = "") -> AttributeError | ImportError:
    """Return the error about a name that a module lacks, for its `__getattr__` to raise, with `hint` at its end.

    Where `from module import name` asks it is an ImportError: of an AttributeError Python would leave out the hint.
    """
    import sys
    from opcode import opmap

    asking = sys._getframe(2)
    if asking.f_lasti >= 0 and asking.f_code.co_code[asking.f_lasti] == opmap["IMPORT_FROM"]:
        return ImportError(f"cannot import name {name!r} from {module!r}{hint}", name=module)
    return AttributeError(f"module {module!r} has no attribute {name!r}{hint}")


def names_fields(kind: type[T]) -> type[T]:
    """Decorate a dataclass so that an unknown field is a TypeError with the one that was meant, or all.

    >>> from dataclasses import dataclass
    >>> Toy = names_fields(dataclass(type("Toy", (), {"__annotations__": {"size": int}})))
    >>> try: Toy(sise=3)
    ... except TypeError as error: print(error)
    Toy() got an unexpected keyword argument 'sise'
      hint: did you mean 'size'?
    """
    from dataclasses import fields
    from functools import wraps

    made = kind.__init__
    known = [field.name for field in fields(kind) if field.init]  # type: ignore[arg-type]

    @wraps(made)
    def __init__(self: object, *args: object, **values: object) -> None:
        for name in values:
            if name not in known:
                hint = did_you_mean(name, known) or f"\n  hint: it has {', '.join(known)}"
                raise TypeError(f"{kind.__name__}() got an unexpected keyword argument {name!r}{hint}")
        made(self, *args, **values)

    kind.__init__ = __init__  # type: ignore[method-assign]
    return kind


class TinygraftError(Exception):
    """Base of all errors that tinygraft raises on purpose."""


class ShapeError(TinygraftError, ValueError):
    """Shapes, axes or sizes that do not fit together."""


class AxisError(ShapeError, IndexError):
    """An axis that a shape does not have, or that has no elements to choose from; an IndexError too, as in PyTorch."""


class DTypeError(TinygraftError, TypeError):
    """A dtype that an operation cannot take."""


class DTypeChoiceError(DTypeError, ValueError):
    """A dtype that was requested by an argument, and that a function cannot return."""


class DeviceError(TinygraftError, RuntimeError):
    """Operands on different devices, or a device that cannot be used."""


class DeviceUnavailable(DeviceError):
    """A device that does not exist here; the message quotes the reason in its record."""


class DeviceMemoryError(DeviceError, MemoryError):
    """The device has no room for a buffer."""


class DeviceLostError(DeviceError):
    """The device stopped answering while work was in flight."""


class IndexOutOfRange(TinygraftError, IndexError):
    """An index that is known to be outside its axis."""


class NumberOutOfRange(TinygraftError, OverflowError):
    """A Python number that has no value in the dtype of integers that it would be converted to."""


class GraphError(TinygraftError, ValueError):
    """A graph that the spec of its stage forbids."""


class ActionError(TinygraftError, ValueError):
    """A transform of codegen that cannot be parsed, or that its kernel or its Target does not allow."""


class CompileError(TinygraftError, RuntimeError):
    """A kernel that its compiler refused.

    `source` is the text that was compiled, `log` what the compiler printed about it.
    """

    source: str
    log: str

    def __init__(self, message: str, source: str = "", log: str = "") -> None:
        super().__init__(message)
        self.source, self.log = source, log


class HookError(TinygraftError, RuntimeError):
    """A hook plugin that raised, returned a wrong type, or cannot be registered; the message names it."""


class UnsupportedError(TinygraftError, NotImplementedError):
    """Something that a device declares it cannot do."""


class FileFormatError(TinygraftError, ValueError):
    """A file that is corrupt, truncated or lies about its content."""


class FetchError(TinygraftError, OSError):
    """A download that failed or brought something else than what was expected."""


class ValidationError(TinygraftError, ArithmeticError):
    """Memory with other values than NumPy computes for its graph: a bug of the compiler, or of a device."""


class TrainingError(TinygraftError, RuntimeError):
    """An optimizer that cannot train what it got: nothing, views of each other, no gradient, no training mode."""


class WorkerError(TinygraftError, RuntimeError):
    """A worker process of a DataLoader that cannot be started, that ended, or whose error cannot be sent."""


class CollectiveError(TinygraftError, RuntimeError):
    """Ranks that call different collectives, one that does not come in time, or an engine that cannot be used."""


class SettingError(TinygraftError, ValueError):
    """A setting with an unknown name or a value that cannot be read."""


class DeviceFallbackWarning(UserWarning):
    """The automatic choice of a device passed over one that should have worked."""


class SettingWarning(UserWarning):
    """A variable of the environment that is probably meant for tinygraft, and does nothing."""
