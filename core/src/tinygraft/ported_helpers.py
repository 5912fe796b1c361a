"""Further small functions that scripts of tinygrad import from `helpers`, by the names that they have there.

`helpers` finds them here when they are first asked for; nothing of tinygraft uses them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from tinygraft.helpers import colored

T = TypeVar("T")
K = TypeVar("K")

OSX, WIN = sys.platform == "darwin", sys.platform == "win32"
CI = os.environ.get("CI", "") != ""
BASEDIR = Path(__file__).parent
_COLOR = re.compile("\x1b\\[(?:K|.*?m)")


# Numbers


def ceildiv(number: Any, step: Any) -> Any:
    """Return number / step rounded up; an int for a float.

    >>> ceildiv(7, 2), ceildiv(-7, 2), ceildiv(7.0, 2)
    (4, -3, 4)
    """
    found = -(number // -step)
    return int(found) if isinstance(found, float) else found


def round_down(number: int, step: int) -> int:
    """Return the greatest multiple of `step` that is not above `number`.

    >>> round_down(10, 4), round_down(-1, 4)
    (8, -4)
    """
    return number // step * step


def next_power2(number: int) -> int:
    """Return the least power of two that is not below `number`.

    >>> [next_power2(n) for n in (0, 1, 5, 8)]
    [1, 1, 8, 8]
    """
    return 1 if number == 0 else 1 << (number - 1).bit_length()


def cdiv(a: int, b: int) -> int:
    """Return a / b rounded towards zero, as in C; 0 where b is 0.

    >>> cdiv(-7, 2), cdiv(7, 0)
    (-3, 0)
    """
    if b == 0:
        return 0
    found = abs(a) // abs(b)
    return -found if (a < 0) != (b < 0) else found


def cmod(a: int, b: int) -> int:
    """Return the remainder of `cdiv`, which has the sign of a.

    >>> cmod(-7, 2)
    -1
    """
    return a - cdiv(a, b) * b


def floordiv(a: int, b: int) -> int:
    """Return a // b; 0 where b is 0."""
    return a // b if b else 0


def floormod(a: int, b: int) -> int:
    """Return the remainder of `floordiv`: a where b is 0."""
    return a - floordiv(a, b) * b


def lo32(number: Any) -> Any:
    """Return the low 32 bits."""
    return number & 0xFFFFFFFF


def hi32(number: Any) -> Any:
    """Return the bits above the low 32."""
    return number >> 32


def data64(number: Any) -> tuple[Any, Any]:
    """Return the high and the low 32 bits.

    >>> data64(0x1_0000_0002), data64_le(0x1_0000_0002)
    ((1, 2), (2, 1))
    """
    return hi32(number), lo32(number)


def data64_le(number: Any) -> tuple[Any, Any]:
    """Return the low and the high 32 bits."""
    return lo32(number), hi32(number)


def getbits(number: int, start: int, end: int) -> int:
    """Return the bits from `start` to `end`, both included.

    >>> getbits(0b101100, 2, 3)
    3
    """
    return (number >> start) & ((1 << (end - start + 1)) - 1)


def i2u(bits: int, number: int) -> int:
    """Return the bits of a signed number as an unsigned one of that width.

    >>> i2u(8, -1)
    255
    """
    return number if number >= 0 else (1 << bits) + number


def polyN(x: Any, coefficients: Sequence[Any]) -> Any:
    """Return the polynomial whose coefficients begin with that of the highest power.

    >>> polyN(2, [1, 0, 3])
    7
    """
    total: Any = 0.0
    for coefficient in coefficients:
        total = total * x + coefficient
    return int(total) if isinstance(x, int) and float(total).is_integer() else total


# Sequences and objects


def make_tuple(value: int | Sequence[int], count: int) -> tuple[int, ...]:
    """Return one number `count` times, or a sequence as a tuple.

    >>> make_tuple(3, 2), make_tuple([1, 2], 2)
    ((3, 3), (1, 2))
    """
    return (value,) * count if isinstance(value, int) else tuple(value)


def to_tuple(value: T | tuple[T, ...]) -> tuple[T, ...]:
    """Return a tuple as it is, anything else as a tuple of one."""
    return value if isinstance(value, tuple) else (value,)


def fully_flatten(nested: Any) -> list[Any]:
    """Return the items of nested sequences in order; text is an item.

    >>> fully_flatten([1, [2, (3, "ab")]])
    [1, 2, 3, 'ab']
    """
    found, stack = [], [nested]
    while stack:
        item = stack.pop()
        is_sequence = hasattr(item, "__len__") and hasattr(item, "__getitem__") and not isinstance(item, str)
        if is_sequence and getattr(item, "shape", None) != ():
            stack.extend(item[number] for number in reversed(range(len(item))))
        else:
            found.append(item[()] if is_sequence else item)
    return found


def flat_to_grouped(padding: Sequence[T]) -> tuple[tuple[T, T], ...]:
    """Return (before, after) of each axis from a flat padding that begins with the last axis.

    >>> flat_to_grouped((1, 2, 3, 4))
    ((3, 4), (1, 2))
    """
    return tuple(zip(padding[-2::-2], padding[::-2], strict=True))


def get_shape(nested: Any) -> tuple[int, ...]:
    """Return the shape of nested sequences. Raises ValueError where they are no rectangle.

    >>> get_shape([[1, 2, 3], [4, 5, 6]])
    (2, 3)
    """
    if not hasattr(nested, "__len__") or isinstance(nested, str) or getattr(nested, "shape", None) == ():
        return ()
    inner = {get_shape(item) for item in nested}
    if len(inner) > 1:
        raise ValueError(f"nested sequences need items of one shape, got {sorted(inner)} in {nested!r}")
    return (len(nested), *(inner.pop() if inner else ()))


def merge_dicts(dicts: Iterable[Mapping[K, T]]) -> dict[K, T]:
    """Return several dicts as one. Raises RuntimeError where a key has two values.

    >>> merge_dicts([{"a": 1}, {"b": 2}, {"a": 1}])
    {'a': 1, 'b': 2}
    """
    merged: dict[K, T] = {}
    for each in dicts:
        for key, value in each.items():
            if key in merged and merged[key] != value:
                raise RuntimeError(f"{key!r} has two values to merge: {merged[key]!r} and {value!r}")
            merged[key] = value
    return merged


def unwrap(value: T | None) -> T:
    """Return a value that is not None. Raises AssertionError for None."""
    if value is None:
        raise AssertionError("unwrap got None")
    return value


def get_single_element(items: Sequence[T]) -> T:
    """Return the only item. Raises AssertionError where there are more, or none."""
    if len(items) != 1:
        raise AssertionError(f"there has to be one item, got {items}")
    return items[0]


def get_child(obj: Any, key: str) -> Any:
    """Return what a path of attributes, keys and numbers leads to.

    >>> get_child({"layers": [{"bias": 5}]}, "layers.0.bias")
    5
    """
    for part in key.split("."):
        if part.isnumeric():
            obj = obj[int(part)]
        else:
            obj = obj[part] if isinstance(obj, dict) else getattr(obj, part)
    return obj


def fromimport(module: str, name: str) -> Any:
    """Return what `from module import name` binds."""
    return getattr(import_module(module), name)


def is_numpy_ndarray(value: object) -> bool:
    """Return whether a value is an array of NumPy, which is not imported for that."""
    return str(type(value)) == "<class 'numpy.ndarray'>"


# Bytes


def flat_mv(view: memoryview) -> memoryview:
    """Return a view of the same memory as bytes."""
    return view.cast("B", shape=(view.nbytes,)) if view.nbytes else view


def pad_bytes(data: bytes, align: int) -> bytes:
    """Return bytes with zeros behind them, so that their number is a multiple of `align`.

    >>> pad_bytes(b"abc", 4)
    b'abc\\x00'
    """
    return data + bytes(-len(data) % align)


# Text


def ansistrip(text: str) -> str:
    """Return text without its colors.

    >>> ansistrip(colored("ok", "green"))
    'ok'
    """
    return _COLOR.sub("", text)


def ansilen(text: str) -> int:
    """Return how many characters of a text are seen."""
    return len(ansistrip(text))


def ansipad(text: str, width: int) -> str:
    """Return text with spaces behind it, as wide as `width` on a terminal."""
    return text + " " * max(width - ansilen(text), 0)


def strip_parens(text: str) -> str:
    """Return text without the parentheses around all of it.

    >>> strip_parens("(a+b)"), strip_parens("(a)+(b)")
    ('a+b', '(a)+(b)')
    """
    if not (text.startswith("(") and text.endswith(")")):
        return text
    depth = 0
    for character in text[1:-1]:
        depth += (character == "(") - (character == ")")
        if depth < 0:
            return text
    return text[1:-1] if depth == 0 else text


def time_to_str(seconds: float, w: int = 8) -> str:
    """Return a time in seconds above 10 s, in milliseconds above 10 ms, else in microseconds.

    >>> time_to_str(0.5), time_to_str(3e-6)
    ('  500.00ms', '    3.00us')
    """
    if seconds > 10:
        return f"{seconds:{w}.2f}s "
    return f"{seconds * 1e3:{w}.2f}ms" if seconds > 10e-3 else f"{seconds * 1e6:{w}.2f}us"


def size_to_str(size: int) -> str:
    """Return a number of bytes in GB, MB, KB or B, where 1 KB is 1024 B.

    >>> size_to_str(1536), size_to_str(7)
    ('1.50 KB', '7 B')
    """
    for power, unit in ((30, "GB"), (20, "MB"), (10, "KB")):
        if size >= 1 << power:
            return f"{size / (1 << power):.2f} {unit}"
    return f"{size} B"


def pluralize(word: str, count: int) -> str:
    """Return a count with its noun.

    >>> pluralize("kernel", 1), pluralize("kernel", 3)
    ('1 kernel', '3 kernels')
    """
    return f"{count} {word}" + ("" if count == 1 else "s")


def colorize_float(ratio: float) -> str:
    """Return a ratio as text: green below 0.75, red above 1.15, else yellow."""
    return colored(f"{ratio:7.2f}x", "green" if ratio < 0.75 else "red" if ratio > 1.15 else "yellow")


def word_wrap(text: str, wrap: int = 80) -> str:
    """Return text in lines of at most `wrap` characters that are seen; colors count for nothing.

    >>> word_wrap("abcdef", 4).splitlines()
    ['abcd', 'ef']
    """
    return "\n".join(part for line in text.splitlines() for part in _wrapped(line, wrap))


def _wrapped(line: str, wrap: int) -> list[str]:
    """Return one line as several."""
    parts, at, seen, start = [], 0, 0, 0
    while at < len(line):
        color = _COLOR.match(line, at)
        if color is None and seen == wrap:
            parts.append(line[start:at])
            start, seen = at, 0
        seen += color is None
        at = at + 1 if color is None else color.end()
    return [*parts, line[start:]]


def stderr_log(text: str) -> int:
    """Write text to the standard error at once; returns how many characters."""
    print(text, end="", file=sys.stderr, flush=True)
    return len(text)


def perf_counter_us() -> float:
    """Return the time of a clock in microseconds."""
    return time.perf_counter_ns() / 1e3
