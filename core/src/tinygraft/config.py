"""Every setting: its name, type, default and meaning.

A setting is read from the environment variable of its name once, at import, and can be changed for a block
with Context(NAME=value). The value belongs to the thread (and asyncio task) that set it, so that two threads
cannot disturb each other. `python -m tinygraft settings` prints this table.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ContextDecorator, suppress
from contextvars import ContextVar, Token
from importlib import import_module
from operator import itemgetter
from typing import Any, Generic, TypeVar

from tinygraft.errors import SettingError, SettingWarning, did_you_mean
from tinygraft.interrupt import come_again, guarded

T = TypeVar("T", int, str)

SETTINGS: dict[str, Setting[Any]] = {}
finders: list[Callable[[str], object]] = []  # called with a name that is no setting yet: a plugin may define it


class Setting(Generic[T]):
    """One setting. `.value` is its present value in this thread, which `if BEAM:` and `DEBUG >= 2` use.

    A number is between `least` and `most`, where they are given. Raises SettingError for an invalid value in the
    environment.
    """

    name: str
    doc: str
    least: int | None
    most: int | None

    __slots__ = ("_default", "_var", "_watchers", "doc", "least", "most", "name")

    def __init__(self, name: str, default: T, doc: str, least: int | None = None, most: int | None = None) -> None:
        self.name, self.doc, self.least, self.most = name, doc, least, most
        text = os.environ.get(name)
        is_set = text is not None and (text != "" or isinstance(default, str))  # empty counts as unset for a number
        self._default: T = self.parse(text, default) if is_set else default
        self._var: ContextVar[T] = ContextVar(name)
        self._watchers: list[Callable[[T], object]] = []
        SETTINGS[name] = self

    def parse(self, text: object, like: T) -> T:
        """Return `text` as the type of `like`, the default. Raises SettingError for an invalid value."""
        if isinstance(like, str):
            return str(getattr(text, "name", text))  # a dtype stands for its name
        try:
            number: T = int(text)  # type: ignore[call-overload]
        except (TypeError, ValueError):
            raise SettingError(f"{self.name} must be an integer, got {text!r}") from None
        if (self.least is not None and number < self.least) or (self.most is not None and number > self.most):
            allowed = f"{self.least} or more" if self.most is None else f"from {self.least} to {self.most}"
            raise SettingError(f"{self.name} must be {allowed}, got {number}: {self.doc}")
        return number

    @property
    def value(self) -> T:
        """Return the value of the setting in this thread."""
        return self._var.get(self._default)

    @property
    def in_context(self) -> T | None:
        """Return the value that a Context of this thread has set; None outside any."""
        return self._var.get(None)

    def set(self, value: object) -> Token[T]:
        """Change the setting in this thread. Returns a token for `reset`. Raises SettingError for an invalid value."""
        new = self.parse(value, self._default)
        for watcher in self._watchers:
            watcher(new)
        return self._var.set(new)

    def watch(self, watcher: Callable[[T], object]) -> None:
        """Call `watcher` with the present value now, and with each new value before it is set."""
        self._watchers.append(watcher)
        watcher(self.value)

    def reset(self, token: Token[T]) -> None:
        """Undo a `set`, whose token this is."""
        self._var.reset(token)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, Setting) else other))

    __hash__ = object.__hash__

    def __lt__(self, other: T) -> bool:
        return self.value < other

    def __le__(self, other: T) -> bool:
        return self.value <= other

    def __gt__(self, other: T) -> bool:
        return self.value > other

    def __ge__(self, other: T) -> bool:
        return self.value >= other

    def __repr__(self) -> str:
        return f"{self.name}={self.value!r}"


class Context(ContextDecorator):
    """Change settings for a block or a decorated function: `with Context(DEBUG=4, NOOPT=1): ...`, `@Context(BEAM=1)`.

    Raises SettingError for a name that is not in the table and that no installed plugin has, and for an invalid value;
    nothing is changed then.

    >>> with Context(NOOPT=1):
    ...     NOOPT.value
    1
    """

    def __init__(self, **values: object) -> None:
        for name in values:
            for find in finders if name not in SETTINGS else ():
                find(name)
            if name not in SETTINGS and name in ELSEWHERE:
                without_effect(name)
            elif name not in SETTINGS:
                raise SettingError(_no_setting(name))
        self.values = values
        self._key = object()  # identifies its open blocks, which must not refer to it: its __del__ ends them

    def _recreate_cm(self) -> Context:
        """Return a Context for one call of a decorated function, which may call itself or run in several threads."""
        return type(self)(**self.values)

    def __enter__(self) -> None:
        tokens: list[tuple[Setting[Any], Token[Any]]] = []
        _open.set((*_open.get(), (self._key, tokens)))
        try:
            with guarded(sealed=True):  # after a signal between a change and its token nothing would undo the change
                for name, value in self.values.items():
                    setting = SETTINGS[name] if name in SETTINGS else _absent[name]
                    tokens.append((setting, setting.set(value)))
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        inside = _open.get()
        index = len(inside) - 1
        while inside[index][0] is not self._key:
            index -= 1
        tokens = inside[index][1]
        try:
            for setting, token in reversed(tokens):
                setting.reset(token)
        except BaseException:  # a signal: undo the remaining ones, and the one at which it came if it was not undone
            for setting, token in reversed(tokens):
                with suppress(RuntimeError):
                    setting.reset(token)
            raise
        finally:
            _open.set((*inside[:index], *inside[index + 1 :]))

    def __del__(self) -> None:
        """End blocks that are still open: a signal before the first line of `__exit__` leaves one."""
        try:
            self._end_blocks()
        except KeyboardInterrupt:  # Python drops exceptions of finalisers: raise it later
            self._end_blocks()
            come_again()

    def _end_blocks(self) -> None:
        key = getattr(self, "_key", None)
        while key is not None and key in map(itemgetter(0), _open.get()):
            with suppress(RuntimeError):  # settings that were reset before a signal
                self.__exit__()


# Settings of tinygrad that have no counterpart, with what to do instead. Scripts may import and set them
ELSEWHERE = {
    "WINO": "leave it out: which algorithm computes a convolution is chosen for each device",
    "JIT": "leave TinyJit out to run without it",
    "IMAGE": "leave it out: values lie in plain memory",
    "FUSE_ARANGE": "leave it out: ranges are fused where that is faster",
    "FUSE_OPTIM": "leave it out: the updates of a step are a few kernels",
    "SPLIT_REDUCEOP": "leave it out: long reductions are cut by their shapes",
    "PARALLEL": "leave it out: kernels are compiled by as many threads as there are cores",
    "TC": "leave it out: matrix units are used where a kernel gains by them",
    "TC_SELECT": "leave it out: matrix units are chosen by the dtypes",
    "TC_OPT": "leave it out: shapes are padded where that gains",
    "USE_TC": "leave it out: matrix units are used where a kernel gains by them",
    "ALLOW_TF32": "leave it out: float32 is computed in float32",
    "NOLOCALS": "NOOPT=1 takes no optimising action",
    "TRANSCENDENTAL": "leave it out: functions are decomposed where a device lacks them",
    "LRU": "leave it out: freed memory is reused",
    "NO_MEMORY_PLANNER": "leave it out: temporaries share memory",
    "RING": "leave it out: how shards are combined is chosen by their sizes",
    "ALL2ALL": "leave it out: how shards are combined is chosen by their sizes",
    "JIT_BATCH_SIZE": "leave it out: a replay is one graph where the device has them",
    "CCACHE": "TINYGRAFT_CACHE chooses the folder of what was compiled",
    "CAPTURING": "leave it out",
    "TRACEMETA": "leave it out: tensors know the line that made them",
    "FLOAT16": "DEFAULT_FLOAT=float16, or nn.autocast",
    "IGNORE_OOB": "leave it out: every index is proved",
    **dict.fromkeys(
        (
            "ALLOW_DEVICE_USAGE",
            "BLOCK_REORDER",
            "CAPTURE_PROCESS_REPLAY",
            "DEBUG_RANGEIFY",
            "DEVECTORIZE",
            "DONT_GROUP_REDUCES",
            "DONT_REALIZE_EXPAND",
            "EMULATED_DTYPES",
            "GRAPH_ONE_KERNEL",
            "LAZYCACHE",
            "NULL_ALLOW_COPYOUT",
            "OPENPILOT_HACKS",
            "PCONTIG",
            "RANGEIFY",
            "REWRITE_STACK_LIMIT",
            "SCACHE",
            "TRACK_MATCH_STATS",
            "TUPLE_ORDER",
        ),
        "leave it out: it is of the inside of tinygrad's compiler",
    ),
    **dict.fromkeys(("FUSE_ATTENTION", "FUSE_CONV_BW", "MULTIOUTPUT"), "leave it out: what gains by one kernel is one"),
    "CHECK_OOB": "leave it out: every index is proved",
    **dict.fromkeys(("MAX_BUFFER_SIZE", "MAX_KERNEL_BUFFERS"), "leave it out: a device says what it can hold"),
    "ALLREDUCE_CAST": "leave it out: shards are added in the dtype of a sum",
    "DISABLE_FAST_IDIV": "leave it out: a division by a constant is exact either way",
    "DISALLOW_BROADCAST": "leave it out: shapes broadcast",
    "NO_COLOR": "leave it out",
    "USE_ATOMICS": "leave it out: gradients of an index are added without atomics",
    "THREEFRY": "leave it out: random numbers are those of Threefry on every device",
    "IGNORE_BEAM_CACHE": "leave it out; with another folder in TINYGRAFT_CACHE BEAM has found nothing yet",
}
_USUAL = {"JIT": 1, "LRU": 1, "RING": 1, "TC": 1, "USE_TC": 1, "SPLIT_REDUCEOP": 1, "CCACHE": 1, "JIT_BATCH_SIZE": 32,
          "TRANSCENDENTAL": 1, "CAPTURING": 1, "TRACEMETA": 1, "TC_SELECT": -1}  # fmt: skip


def without_effect(name: str) -> Setting[int]:
    """Return a setting of tinygrad that has no counterpart: scripts may read and set it, and it changes nothing.

    That is said once, as a SettingWarning at the user's line; with TINYGRAFT_STRICT=1 it is a SettingError.
    """
    text = f"{name} is a setting of tinygrad that changes nothing here; {ELSEWHERE[name]}"
    if TINYGRAFT_STRICT:
        raise SettingError(f"TINYGRAFT_STRICT=1 does not allow this: {text}")
    if name not in _absent:
        _absent[name] = Setting(
            name, _USUAL.get(name, 0), f"a setting of tinygrad that changes nothing; {ELSEWHERE[name]}"
        )
        del SETTINGS[name]
        import_module("tinygraft.helpers").warn_user(f"{text} (TINYGRAFT_STRICT=1 makes this an error)", SettingWarning)
    return _absent[name]


_absent: dict[str, Setting[int]] = {}  # those that the program has used


def _no_setting(name: str) -> str:
    """Return the text of the error for an unknown setting, with what to do instead."""
    return f"there is no setting {name}; the settings are {', '.join(sorted(SETTINGS))}{did_you_mean(name, SETTINGS)}"


# The blocks that this thread or task is in. One Context may be in several of them: in itself, and in other threads.
_open: ContextVar[tuple[tuple[object, list[tuple[Setting[Any], Token[Any]]]], ...]] = ContextVar("_open", default=())


# What is printed
DEBUG = Setting(
    "DEBUG",
    0,
    "how much to print: 1 devices and schedules, 2 a line per kernel with time, GFLOPS and GB/s, "
    "3 the actions taken, 4 source, 5 the kernel graph and the rules applied, 6 the linear form, 7 IR or assembly",
    0,
    7,
)
VIZ = Setting(
    "VIZ",
    0,
    "1 serves a page of every launch and stage while the program runs, and writes it as one file at the end",
    0,
    1,
)
PROGRESS = Setting(
    "PROGRESS", 1, "0 shows no line on the terminal where compiling, tuning or a download takes over 2 seconds", 0, 1
)
PROFILE = Setting(
    "PROFILE",
    0,
    "1 writes a Perfetto trace at the end and prints where the time went; if hook plugins contribute profilers, they "
    "get every event instead",
    0,
    1,
)
# How kernels are made
NOOPT = Setting("NOOPT", 0, "1 takes no optimising action: plain loops, the easiest code to read", 0, 1)
ROUTINES = Setting("ROUTINES", 1, "0 computes all by kernels, also what a device has a routine of its own for", 0, 1)
FAST = "fast"
PRECISION = Setting(
    "PRECISION",
    "",
    "fast: sums may be less exact than one of all products in their dtype, where that takes less time, and infinities "
    "become NaN; now in convolutions of 3x3 and 5x5 on devices that have the routine",
)


def _look_at_precision(value: str) -> None:
    """Raise SettingError for another precision than those that there are."""
    if value not in ("", FAST):
        raise SettingError(f"PRECISION must be {FAST!r} or empty, got {value!r}: {PRECISION.doc}")


PRECISION.watch(_look_at_precision)
BEAM = Setting(
    "BEAM",
    0,
    "above 0 times many versions of each kernel and keeps the fastest on disk; the number is how many of them are "
    "changed further",
    0,
)
BEAM_BUDGET = Setting(
    "BEAM_BUDGET", 10_000, "milliseconds that BEAM spends on one kernel; 0 takes what was found before", 0
)
BEAM_DATABASE = Setting("BEAM_DATABASE", "", "a further file of what BEAM or `tune --out` has found, to be read only")
SPEC = Setting("SPEC", 0, "1 checks the graph after each stage, 2 also checks every node as it is made", 0, 2)
DEFAULT_FLOAT = Setting("DEFAULT_FLOAT", "float32", "the dtype of a Python float that becomes a tensor")
DEFAULT_INT = Setting("DEFAULT_INT", "int32", "the dtype of a Python int as a tensor; of places too, if int64")
TINYGRAFT_STRICT = Setting(
    "TINYGRAFT_STRICT",
    0,
    "1 makes an error of a variable in the environment that is probably a typo of a setting",
    0,
    1,
)
# Which device
DEV = Setting(
    "DEV", "", "the device to use: NAME, NAME:ordinal, or a chain of them, of which the first that opens is taken"
)
TINYGRAFT_DEVICE = Setting("TINYGRAFT_DEVICE", "", "the long name of DEV; it wins over DEV in the environment")
TINYGRAFT_PLUGINS = Setting(
    "TINYGRAFT_PLUGINS",
    "*",
    "the plugins that may load, by device, hook or distribution name; * is all, empty is none but those of core",
)
TINYGRAFT_DISABLE_PLUGINS = Setting("TINYGRAFT_DISABLE_PLUGINS", "", "plugins that must not load")
TINYGRAFT_PROVIDER = Setting("TINYGRAFT_PROVIDER", "", "NAME=distribution, when two distributions provide one device")
TINYGRAFT_STRICT_PLUGINS = Setting(
    "TINYGRAFT_STRICT_PLUGINS", 0, "1 makes a broken plugin or a fallback an error", 0, 1
)
TINYGRAFT_TRACE_PLUGINS = Setting(
    "TINYGRAFT_TRACE_PLUGINS", 0, "1 prints every change of a plugin's state, and every hook that is called", 0, 1
)
# Memory
KEEP_MB = Setting(
    "KEEP_MB", 4096, "freed memory that is kept for reuse, in MiB for each device at most; 0 keeps none", 0
)
# Checks
CHECK_INDEX = Setting(
    "CHECK_INDEX",
    0,
    "1 reads every index tensor when it is used and raises where it leaves its axis; TinyJit replays "
    "no function that uses one",
    0,
    1,
)
VALIDATE = Setting(
    "VALIDATE",
    0,
    "1 also evaluates each schedule with NumPy, compares all that it writes and raises ValidationError where that "
    "differs; TinyJit runs its function in every call. Counts are printed at the end; it is slow",
    0,
    1,
)
LAUNCH_BLOCKING = Setting(
    "LAUNCH_BLOCKING",
    0,
    "1 waits after each launch and copy, so that an error that would come late names the kernel it comes from",
    0,
    1,
)
# Training
TRAINING = Setting(
    "TRAINING", 0, "1 is training mode: dropout drops, batch norm measures; Tensor.train() sets it", 0, 1
)
AUTOCAST = Setting(
    "AUTOCAST",
    "",
    "bfloat16 or float16: products of floats are computed in it, sums, losses and the like in float32; "
    "nn.autocast sets it",
)
# Ranks
COLLECTIVES = Setting(
    "COLLECTIVES", "", "the engine of collectives by its name; empty is the one that started this rank"
)
COLLECTIVE_LIMIT = Setting(
    "COLLECTIVE_LIMIT",
    600,
    "seconds that a rank waits for the others in a collective before it raises; 0 is no limit",
    0,
)
COLLECTIVE_CHECK = Setting(
    "COLLECTIVE_CHECK", 1, "0 exchanges no headers before a collective, which find ranks that do different things", 0, 1
)
# Files
CACHEDIR = Setting("TINYGRAFT_CACHE", "", "the folder of the disk caches; empty is the user's cache folder")
CACHELEVEL = Setting("CACHELEVEL", 1, "0 keeps nothing on disk", 0)

# Settings that a captured graph depends on, which are part of its key
CHANGE_CODE = (
    NOOPT, ROUTINES, PRECISION, BEAM, TRAINING, AUTOCAST, CHECK_INDEX, DEFAULT_FLOAT, DEFAULT_INT, DEV,
    TINYGRAFT_DEVICE,
)  # fmt: skip


def code_settings() -> list[Any]:
    """Return the values of CHANGE_CODE in this thread. Without `.value`, as every call of a TinyJit needs them."""
    return [setting._var.get(setting._default) for setting in CHANGE_CODE]


def is_recorded() -> bool:
    """Return whether this thread is to be recorded, by VIZ or PROFILE. Without `.value`, as `plain_launches`."""
    return bool(VIZ._var.get(VIZ._default) or PROFILE._var.get(PROFILE._default))


def plain_launches() -> bool:
    """Return whether no setting of this thread asks for kernels or launches of another kind than the usual one.

    Without `.value`, as each small operation asks.
    """
    return not (
        NOOPT._var.get(NOOPT._default) or BEAM._var.get(BEAM._default) or VALIDATE._var.get(VALIDATE._default)
        or DEBUG._var.get(DEBUG._default) >= 2 or PRECISION._var.get(PRECISION._default)
        or not ROUTINES._var.get(ROUTINES._default)
    )  # fmt: skip


def getenv(name: str, default: Any = 0) -> Any:
    """Return the environment variable `name` as the type of `default`; `default` when it is not set."""
    return type(default)(os.environ.get(name, default))
