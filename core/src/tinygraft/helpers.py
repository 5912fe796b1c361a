"""Small functions that belong to no other module, and do not depend on tensors or graphs.

Scripts import `getenv`, `Context`, `fetch`, `Timing`, `Profiling`, `tqdm`, `trange` and functions on lists from here,
and, as in tinygrad, `GlobalCounters`, `ContextVar` and the settings by their names: `if DEBUG >= 2: ...`. `tqdm` and
`trange` are those of the library tqdm, which is imported when they are first used.
"""

from __future__ import annotations

import contextlib
import gc
import math
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from tinygraft.caches import cache_folder
from tinygraft.config import ELSEWHERE, SETTINGS, Context, Setting, getenv, without_effect
from tinygraft.errors import no_such_name
from tinygraft.files import write_atomic

if TYPE_CHECKING:
    from cProfile import Profile

    from tqdm import tqdm, trange

    from tinygraft.downloads import fetch

__all__ = [
    "Context", "ContextVar", "Profiling", "Timing", "all_int", "all_same", "argfix", "argsort", "cache_folder",
    "colored", "dedup", "disable_gc", "fetch", "flatten", "getenv", "lazily", "partition", "prod", "refuse_call",
    "round_up", "temp", "tqdm", "trange", "user_line", "write_atomic",
]  # fmt: skip

T = TypeVar("T")


def lazily(module: str, names: dict[str, str], hints: Mapping[str, str] | None = None) -> Callable[[str], Any]:
    """Return a `__getattr__` for `module`: names of other modules, {name: module}, imported when they are first used.

    `hints` are the names that tinygrad has there and this project does not, with what to do instead.

    Scripts look for some names where tinygrad has them; a module of a lower layer cannot import them when it is
    imported itself.
    """

    def find(name: str) -> Any:
        if name not in names:
            if name == "__path__":  # an import statement asks each module whether it is a package
                raise AttributeError(name)
            hint = (hints or {}).get(name)
            raise no_such_name(module, name, f"\n  hint: {hint}" if hint else "")
        return getattr(import_module(names[name]), name)

    return find


def refuse_call(module: str, instead: str) -> None:
    """Let a call of `module`, which has the name of a function of another library, raise TypeError with `instead`."""

    class _NotCalled(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
            raise TypeError(f"the module {module} is not callable\n  hint: {instead}")

    sys.modules[module].__class__ = _NotCalled


_PORTED = (  # what only scripts of tinygrad ask for
    "ansilen ansipad ansistrip BASEDIR cdiv ceildiv CI cmod colorize_float data64 data64_le flat_mv flat_to_grouped "
    "floordiv floormod fromimport fully_flatten get_child get_shape get_single_element getbits hi32 i2u "
    "is_numpy_ndarray lo32 make_tuple merge_dicts next_power2 OSX pad_bytes perf_counter_us pluralize polyN round_down "
    "size_to_str stderr_log strip_parens time_to_str to_tuple unwrap WIN word_wrap"
)
_elsewhere = lazily(
    __name__,
    {
        "GlobalCounters": "tinygraft.device.counters",
        "dtypes": "tinygraft.dtype",
        "fetch": "tinygraft.downloads",
        "tqdm": "tqdm",
        "trange": "tqdm",
        **dict.fromkeys(_PORTED.split(), "tinygraft.ported_helpers"),
    },
)


def __getattr__(name: str) -> Any:
    """Return a setting, a name of a module in a higher layer, or the bars of the library tqdm."""
    if name in SETTINGS:
        return SETTINGS[name]
    return without_effect(name) if name in ELSEWHERE else _elsewhere(name)


def ContextVar(key: str, default_value: Any) -> Setting[Any]:
    """Return a setting of a script: read from the environment, an int or a str like its default, changed by Context.

    Where a setting of that name exists already, it is returned.

    >>> steps = ContextVar("DOCTEST_STEPS", 10)
    >>> with Context(DOCTEST_STEPS=20):
    ...     steps.value, steps >= 15
    (20, True)
    """
    return SETTINGS[key] if key in SETTINGS else Setting(key, default_value, "a setting of the script")


def prod(values: Iterable[int]) -> int:
    """Return the product of values; 1 when there are none."""
    return math.prod(values)


def argsort(order: Sequence[int]) -> tuple[int, ...]:
    """Return the permutation that undoes `order`.

    >>> argsort((2, 0, 1))
    (1, 2, 0)
    """
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def argfix(*args: T | Sequence[T]) -> tuple[T, ...]:
    """Return arguments that were passed either one by one or as a single sequence, as a tuple."""
    if len(args) == 1 and isinstance(args[0], (list, tuple)):
        return tuple(args[0])
    return args  # type: ignore[return-value]


def dedup(items: Iterable[T]) -> list[T]:
    """Return each item once, in the order of their first occurrences.

    >>> dedup([3, 1, 3, 2, 1])
    [3, 1, 2]
    """
    return list(dict.fromkeys(items))


def flatten(lists: Iterable[Iterable[T]]) -> list[T]:
    """Return the items of several lists as one.

    >>> flatten([[1, 2], [3]])
    [1, 2, 3]
    """
    return [item for items in lists for item in items]


def partition(items: Iterable[T], holds: Callable[[T], object]) -> tuple[list[T], list[T]]:
    """Return the items for which `holds` is true, and the others.

    >>> partition([1, 2, 3, 4], lambda n: n % 2)
    ([1, 3], [2, 4])
    """
    found: tuple[list[T], list[T]] = ([], [])
    for item in items:
        found[not holds(item)].append(item)
    return found


def all_same(items: Sequence[object]) -> bool:
    """Return whether all items are equal; True for none."""
    return all(item == items[0] for item in items)


def all_int(items: Iterable[object]) -> bool:
    """Return whether all items are ints: then a shape has no symbolic size."""
    return all(isinstance(item, int) for item in items)


def round_up(number: int, step: int) -> int:
    """Return the least multiple of `step` that is not less than `number`.

    >>> round_up(10, 4), round_up(8, 4)
    (12, 8)
    """
    return -(-number // step) * step


_COLORS = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")


def colored(text: object, color: str | None, background: bool = False) -> str:
    """Return `text` in a color for a terminal; bright where the name is in capitals, plain where `color` is None.

    >>> colored("ok", "green"), colored("ok", None)
    ('\\x1b[32mok\\x1b[0m', 'ok')
    """
    if color is None:
        return str(text)
    code = 10 * background + (90 if color.isupper() else 30) + _COLORS.index(color.lower())
    return f"\x1b[{code}m{text}\x1b[0m"


def temp(name: str) -> str:
    """Return the path of a file of that name in the system's temporary folder."""
    import os
    import tempfile

    return os.path.join(tempfile.gettempdir(), name)


class Timing(contextlib.ContextDecorator):
    """Print how long a block took, in milliseconds after `prefix`.

    `on_exit(nanoseconds)` returns text that is printed after it; `enabled=False` prints nothing. `et` is the time in
    nanoseconds.

    >>> with Timing("sum: ", enabled=False) as timing:
    ...     _ = sum(range(10))
    >>> timing.et > 0
    True
    """

    prefix: str
    enabled: bool

    et: int
    on_exit: Callable[[int], str] | None

    def __init__(self, prefix: str = "", on_exit: Callable[[int], str] | None = None, enabled: bool = True) -> None:
        self.prefix, self.on_exit, self.enabled = prefix, on_exit, enabled

    def __enter__(self) -> Timing:
        self._start = time.perf_counter_ns()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.et = time.perf_counter_ns() - self._start
        if self.enabled:
            print(f"{self.prefix}{self.et * 1e-6:6.2f} ms{self.on_exit(self.et) if self.on_exit else ''}")


class Profiling(contextlib.ContextDecorator):
    """Print where Python spent the time of a block: its functions, the slowest first.

    `sort` is a column of pstats (cumtime or tottime), `frac` the fraction of functions shown, `fn` a file for the raw
    profile.
    """

    enabled: bool
    sort: str
    frac: float
    fn: str | None

    def __init__(self, enabled: bool = True, sort: str = "cumtime", frac: float = 0.2, fn: str | None = None) -> None:
        self.enabled, self.sort, self.frac, self.fn = enabled, sort, frac, fn
        self._profile: Profile | None = None

    def __enter__(self) -> Profiling:
        if self.enabled:
            import cProfile

            self._profile = cProfile.Profile()
            self._profile.enable()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._profile is None:
            return
        import pstats

        self._profile.disable()
        if self.fn:
            self._profile.dump_stats(self.fn)
        pstats.Stats(self._profile, stream=sys.stdout).strip_dirs().sort_stats(self.sort).print_stats(self.frac)


@contextlib.contextmanager
def disable_gc() -> Iterator[None]:
    """Keep Python's garbage collector from running in a block."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


_PACKAGE = __name__.rpartition(".")[0]


def user_line() -> tuple[str, int]:
    """Return (file, line) of the nearest caller outside this package."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE + "."):
        frame = frame.f_back
    return ("<unknown>", 0) if frame is None else (frame.f_code.co_filename, frame.f_lineno)


def short_path(file: str) -> str:
    """Return a file relative to the working directory where it is below it, and the directory is still there."""
    if not os.path.isabs(file):
        return file
    try:
        relative = os.path.relpath(file)
    except (OSError, ValueError):  # the directory was removed, or is on another drive
        return file
    return file if relative.startswith("..") else relative


def cell_or_file(file: str) -> str:
    """Return `file`, or `In [2]` for code of a notebook's cell, which is in no file that a reader can open."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda file: None)(file)
    return file if name is None else str(name[1]).replace("In[", "In [")


def notebook_cell() -> int | None:
    """Return the number of the cell that a notebook runs, None where no notebook runs this program."""
    shell: Any = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return int(shell.execution_count) if hasattr(shell, "kernel") else None


def program_title() -> str:
    """Return the command line of this program, shortened; "notebook" in one, whose command line is its kernel's."""
    return "notebook" if notebook_cell() is not None else " ".join(sys.argv)[:120]


def line_in(code: CodeType, instruction: int) -> int:
    """Return the line of the bytecode at offset `instruction` of `code`; the function's first line if it has none."""
    for start, end, line in code.co_lines():
        if start <= instruction < end:
            return line or code.co_firstlineno
    return code.co_firstlineno


# what Python's warnings note of those that are shown once
_warned: dict[str | tuple[str, type[Warning], int], int] = {}


def warn_user(text: str, category: type[Warning], once: bool = False) -> None:
    """Warn at the line of the nearest caller outside this package, however deep in it this is.

    With `once` each line shows it once, unless a filter of Python's warnings says otherwise.
    """
    warnings.warn_explicit(text, category, *user_line(), registry=_warned if once else None)
