"""Pickles read as data: nothing that they name is called, and nothing changes but what they build.

Python's own reader calls whatever a pickle names and sets any attribute of any object (BUILD). This one has the
opcodes that make numbers, text, lists, tuples, dicts and sets; what a pickle names and what it calls is up to a
`PickleMeaning`. Memory and time are bounded by the length of the pickle: a text is as long as what the file has of it,
the memo is a dict, and a key of a dict is small, since hashing walks through all of it each time.

Source: the documentation of pickletools, Python's standard library.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Protocol

from tinygraft.errors import FileFormatError, TinygraftError

LONGEST_LINE = 1 << 16  # bytes of a number, a name or a text that ends with its line
_SCALARS = (str, float, bool, bytes, type(None))
_KEY_ITEMS, _KEY_BITS = 16, 1024  # the most that a tuple and a number have that are keys
_MARK = object()


class File(Protocol):
    """What a pickle is read from. read returns less than size at the end, readline no more than size."""

    def read(self, size: int, /) -> bytes:
        """Return the next `size` bytes, fewer only at the end."""
        ...

    def readline(self, size: int, /) -> bytes:
        """Return the next bytes up to and with the end of the line, at most `size`."""
        ...


class PickleMeaning(Protocol):
    """What names, calls and references of a pickle stand for. Each method raises an error of ours for nonsense."""

    def find(self, module: str, name: str) -> Any:
        """Return what a name stands for: an object that cannot be changed."""
        ...

    def call(self, function: Any, arguments: tuple[Any, ...]) -> Any:
        """Return what `function`, which find gave, called with `arguments` stands for."""
        ...

    def build(self, target: Any, state: Any) -> bool:
        """Return whether `target`, which call gave, has a state in a pickle, and it is this one; nothing is set."""
        ...

    def refer(self, reference: Any) -> Any:
        """Return what a persistent id stands for: something that is not in the pickle."""
        ...


def load(file: File, meaning: PickleMeaning) -> Any:
    """Return what the next pickle of a file describes, and leave the file behind it.

    Raises FileFormatError for what is none or has an opcode that is not read, and what `meaning` raises.
    """
    try:
        return _Reader(file, meaning).load()
    except TinygraftError:
        raise
    except (ValueError, ArithmeticError, RecursionError) as error:  # a number or a text that is none
        raise FileFormatError(f"this is no pickle of data: {error}") from error


def key(value: Any, depth: int = 2) -> Any:
    """Return a value that a dict or a set may have as a key. Raises FileFormatError for another.

    These are text, bytes, numbers, None and tuples of at most 16 of them; `depth` is how many tuples may be nested.
    """
    kind = type(value)
    if kind in _SCALARS or (kind is int and value.bit_length() <= _KEY_BITS):
        return value
    if kind is tuple and depth and len(value) <= _KEY_ITEMS:
        for item in value:
            key(item, depth - 1)
        return value
    raise FileFormatError(
        f"the pickle has a {kind.__name__} as the key of a dict that is none, or is too large for one"
    )


class _Reader:
    """The machine that a pickle is a program for: a stack, the marks on it, and a memo.

    It reads `file`; `meaning` says what names, calls and references stand for.
    """

    def __init__(self, file: File, meaning: PickleMeaning) -> None:
        self._file, self._meaning = file, meaning
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def load(self) -> Any:
        """Run the program to its end, and return the value on top of the stack.

        Raises FileFormatError for an unknown opcode.
        """
        step, read = _STEPS.get, self._file.read
        while True:
            code = read(1)
            if code == b".":
                return self._pop()
            do = step(code)
            if do is None:
                what = f"the opcode {code!r}" if code else "no end"
                raise FileFormatError(f"this is no pickle of data: it has {what}")
            do(self)

    # The stack

    def _push(self, value: Any) -> None:
        """Push a value."""
        self._stack.append(value)

    def _pop(self) -> Any:
        """Remove and return the top of the stack. Raises FileFormatError where there is a mark or nothing."""
        if not self._stack or self._stack[-1] is _MARK:
            raise FileFormatError("this is no pickle: it takes what it has not made")
        return self._stack.pop()

    def _pop_mark(self) -> list[Any]:
        """Remove the last mark, and return the items above it. Raises FileFormatError without a mark."""
        stack = self._stack
        for index in range(len(stack) - 1, -1, -1):
            if stack[index] is _MARK:
                found = stack[index + 1 :]
                del stack[index:]
                return found
        raise FileFormatError("this is no pickle: it takes what it has not made")

    def _top(self, *kinds: type) -> Any:
        """Return the last value of the stack. Raises FileFormatError unless it is exactly of one of these types."""
        if not self._stack or type(self._stack[-1]) not in kinds:
            found = type(self._stack[-1]).__name__ if self._stack else "nothing"
            raise FileFormatError(f"the pickle adds to {found}, not to a {kinds[0].__name__}")
        return self._stack[-1]

    def _again(self) -> None:
        """Push the top of the stack once more."""
        value = self._pop()
        self._stack += (value, value)

    # What is in the file

    def _take(self, size: int) -> bytes:
        """Read exactly `size` bytes. Raises FileFormatError where the file ends before."""
        data = self._file.read(size)
        if len(data) != size:
            raise FileFormatError(f"the pickle ends early: it needs {size} more bytes and has {len(data)}")
        return data

    def _number(self, form: str) -> Any:
        """Read a number by a format of struct."""
        return struct.unpack(form, self._take(struct.calcsize(form)))[0]

    def _text(self, size: int) -> str:
        """Read UTF-8 text of `size` bytes."""
        return self._take(size).decode("utf-8", "surrogatepass")

    def _line(self) -> bytes:
        """Read a line, without its end. Raises FileFormatError for one longer than LONGEST_LINE, or cut short."""
        line = self._file.readline(LONGEST_LINE)
        if not line.endswith(b"\n"):
            raise FileFormatError("the pickle has a line without an end")
        return line[:-1]

    def _int_line(self) -> int | bool:
        """Read an integer on a line of its own, as decimals; 00 and 01 are False and True."""
        line = self._line()
        return line == b"01" if line in (b"00", b"01") else int(line.rstrip(b"L"))

    # Containers

    def _append(self, items: list[Any]) -> None:
        """Append items to the list on top of the stack. Raises FileFormatError where there is none."""
        self._top(list).extend(items)

    def _set_items(self, items: list[Any]) -> None:
        """Put keys and values, which alternate in `items`, into the dict on top of the stack.

        Raises FileFormatError where there is none, and for what is no key.
        """
        if len(items) % 2:
            raise FileFormatError("the pickle has a key without a value")
        target = self._top(dict, OrderedDict)
        for index in range(0, len(items), 2):
            target[key(items[index])] = items[index + 1]

    def _new_dict(self) -> None:
        """Replace the keys and values above the last mark by a dict of them."""
        items = self._pop_mark()
        self._push({})
        self._set_items(items)

    def _add_items(self) -> None:
        """Add what is above the last mark to the set under it. Raises FileFormatError where there is none."""
        items = self._pop_mark()
        self._top(set).update(map(key, items))

    def _build(self) -> None:
        """BUILD: the attributes of an OrderedDict, as of a state_dict; those of others the meaning checks.

        Raises FileFormatError for anything else.
        """
        state = self._pop()
        if self._stack and self._meaning.build(self._stack[-1], state):
            return
        target = self._top(OrderedDict)
        if type(state) is not dict or not all(type(name) is str for name in state):
            raise FileFormatError("the pickle gives an OrderedDict a state that is no dict of attributes")
        for name, value in state.items():
            if hasattr(OrderedDict, name):
                raise FileFormatError(f"the pickle replaces {name!r} of an OrderedDict")
            target.__dict__[name] = value

    # Names, calls and the memo

    def _find(self, module: str, name: str) -> None:
        """Push the meaning of a name."""
        self._push(self._meaning.find(module, name))

    def _stack_global(self) -> None:
        """STACK_GLOBAL: push the meaning of a module and a name that are on the stack, neither of which is imported.

        Raises FileFormatError for what is no text.
        """
        name, module = self._pop(), self._pop()
        if type(name) is not str or type(module) is not str:
            raise FileFormatError("the pickle has a name that is no text")
        self._find(module, name)

    def _reduce(self) -> None:
        """REDUCE and NEWOBJ: push what a call of a name means here; nothing of that name is called.

        Raises FileFormatError without a tuple of arguments, and what `meaning` raises.
        """
        arguments, function = self._pop(), self._pop()
        if type(arguments) is not tuple:
            raise FileFormatError("the pickle calls something without a tuple of arguments")
        self._push(self._meaning.call(function, arguments))

    def _inst(self) -> None:
        """INST: push what a call of a name on two lines, with the arguments above the last mark, means here."""
        module, name = self._line().decode(), self._line().decode()
        arguments = tuple(self._pop_mark())
        self._push(self._meaning.call(self._meaning.find(module, name), arguments))

    def _remember(self, index: int) -> None:
        """Store the top of the stack in the memo under `index`, and leave it on the stack."""
        value = self._pop()
        self._memo[index] = value
        self._push(value)

    def _recall(self, index: int) -> None:
        """Push what the memo has at an index. Raises FileFormatError where it has nothing there."""
        if index not in self._memo:
            raise FileFormatError("this is no pickle: it takes what it has not made")
        self._push(self._memo[index])


def _tuple(count: int) -> Callable[[_Reader], None]:
    """Return what TUPLE1 to TUPLE3 do: make a tuple of the last `count` values of the stack."""

    def step(r: _Reader) -> None:
        items = [r._pop() for _ in range(count)]
        r._push(tuple(reversed(items)))

    return step


def _long(form: str) -> Callable[[_Reader], None]:
    """Return what LONG1 and LONG4 do: push an integer whose length in bytes is read by `form`."""
    return lambda r: r._push(int.from_bytes(r._take(max(r._number(form), 0)), "little", signed=True))


_STEPS: dict[bytes, Callable[[_Reader], Any]] = {
    b"\x80": lambda r: r._take(1),  # the protocol, and the length of a frame
    b"\x95": lambda r: r._take(8),
    b"(": lambda r: r._push(_MARK),
    b"0": lambda r: r._stack.pop() if r._stack else r._pop(),
    b"1": lambda r: r._pop_mark(),
    b"2": _Reader._again,
    # numbers
    b"N": lambda r: r._push(None),
    b"\x88": lambda r: r._push(True),
    b"\x89": lambda r: r._push(False),
    b"I": lambda r: r._push(r._int_line()),
    b"L": lambda r: r._push(r._int_line()),
    b"J": lambda r: r._push(r._number("<i")),
    b"K": lambda r: r._push(r._number("<B")),
    b"M": lambda r: r._push(r._number("<H")),
    b"\x8a": _long("<B"),
    b"\x8b": _long("<i"),
    b"F": lambda r: r._push(float(r._line())),
    b"G": lambda r: r._push(r._number(">d")),
    # text and bytes; what Python 2 called a string is text here
    b"T": lambda r: r._push(r._take(max(r._number("<i"), 0)).decode("latin-1")),
    b"U": lambda r: r._push(r._take(r._number("<B")).decode("latin-1")),
    b"V": lambda r: r._push(r._line().decode("raw-unicode-escape")),
    b"X": lambda r: r._push(r._text(r._number("<I"))),
    b"\x8c": lambda r: r._push(r._text(r._number("<B"))),
    b"\x8d": lambda r: r._push(r._text(r._number("<Q"))),
    b"B": lambda r: r._push(r._take(r._number("<I"))),
    b"C": lambda r: r._push(r._take(r._number("<B"))),
    b"\x8e": lambda r: r._push(r._take(r._number("<Q"))),
    b"\x96": lambda r: r._push(bytearray(r._take(r._number("<Q")))),
    # containers
    b"]": lambda r: r._push([]),
    b"a": lambda r: r._append([r._pop()]),
    b"e": lambda r: r._append(r._pop_mark()),
    b"l": lambda r: r._push(r._pop_mark()),
    b")": lambda r: r._push(()),
    b"t": lambda r: r._push(tuple(r._pop_mark())),
    b"\x85": _tuple(1),
    b"\x86": _tuple(2),
    b"\x87": _tuple(3),
    b"}": lambda r: r._push({}),
    b"d": _Reader._new_dict,
    b"s": lambda r: r._set_items([r._pop(), r._pop()][::-1]),
    b"u": lambda r: r._set_items(r._pop_mark()),
    b"\x8f": lambda r: r._push(set()),
    b"\x90": _Reader._add_items,
    b"\x91": lambda r: r._push(frozenset(map(key, r._pop_mark()))),
    # names, calls, references
    b"c": lambda r: r._find(r._line().decode(), r._line().decode()),
    b"\x93": _Reader._stack_global,
    b"R": _Reader._reduce,
    b"\x81": _Reader._reduce,  # a class that is called
    b"i": _Reader._inst,
    b"b": _Reader._build,
    b"Q": lambda r: r._push(r._meaning.refer(r._pop())),
    b"P": lambda r: r._push(r._meaning.refer(r._line().decode())),
    # the memo
    b"p": lambda r: r._remember(int(r._line())),
    b"q": lambda r: r._remember(r._number("<B")),
    b"r": lambda r: r._remember(r._number("<I")),
    b"\x94": lambda r: r._remember(len(r._memo)),
    b"g": lambda r: r._recall(int(r._line())),
    b"h": lambda r: r._recall(r._number("<B")),
    b"j": lambda r: r._recall(r._number("<I")),
}
