"""RankHeader: what a rank is about to do, which all ranks exchange before they do it, so that a difference is an error.

Each has its number in the order of the program, and the line of the user's program that called it.
"""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass

from tinygraft.collectives.rank_sums import RANK_OPS
from tinygraft.dtype import BY_NAME, DType

# given: by HEADER_BYTES: number, kind, dtype, op, root, count, the length of the shape's text, which is next
_FORMAT = struct.Struct("<QBBBiQB")
_OWN = struct.Struct(
    "<IB"
)  # given: by what ranks need not have alike: columns of a piece, the length of the line's text
OF_ARRAY = (1 << 32) - 1  # given: a piece of what is passed as an array, and is not cut
HEADER_BYTES = 128  # assumed: room for a shape, the end of a file's name and its line, and no more to send than needed
_SHAPE_BYTES = 56  # assumed: of a shape of 8 axes; a longer text ends in its digest
KINDS = ("barrier", "all_reduce", "reduce_scatter", "all_gather", "broadcast", "all_to_all", "send", "end", "receive")
_OPS = ("", *RANK_OPS)
_DTYPES = ("", *sorted(BY_NAME))
_PACKAGE = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class RankHeader:
    """One collective as one rank calls it. `count` is in elements; `root` is -1 where none is given.

    `shape` is the text of what shape the values have; "" where it is not known, or there are none. `piece` is how many
    columns this rank wants to pass at once, 0 for all, OF_ARRAY for an array.

    >>> RankHeader(3, "barrier", None, "", -1, 0, "train.py:7").text()
    'calls barrier at train.py:7'
    """

    number: int
    kind: str
    dtype: DType | None
    op: str
    root: int
    count: int
    line: str
    shape: str = ""
    piece: int = 0

    def pack(self) -> bytes:
        """Return it as HEADER_BYTES bytes."""
        facts = self._facts()
        room = HEADER_BYTES - len(facts) - _OWN.size
        line = self.line.encode(errors="replace")[-room:]
        return facts + _OWN.pack(self.piece, len(line)) + line.ljust(room, b"\0")

    def _facts(self) -> bytes:
        """Return what has to be the same on all ranks, as bytes."""
        shape = self.shape.encode()
        if len(shape) > _SHAPE_BYTES:
            shape = shape[: _SHAPE_BYTES - 11] + b"...%08x" % zlib.crc32(shape)
        dtype = _DTYPES.index(self.dtype.name if self.dtype else "")
        ops = KINDS.index(self.kind), dtype, _OPS.index(self.op)
        return _FORMAT.pack(self.number, *ops, self.root, self.count, len(shape)) + shape

    @classmethod
    def unpack(cls, data: bytes) -> RankHeader:
        """Return the header that `pack` made bytes of."""
        number, kind, dtype, op, root, count, length = _FORMAT.unpack_from(data)
        end = _FORMAT.size + length
        (piece, length), begin = _OWN.unpack_from(data, end), end + _OWN.size
        shape, line = data[_FORMAT.size : end].decode(), data[begin : begin + length].decode(errors="replace")
        return cls(number, KINDS[kind], BY_NAME.get(_DTYPES[dtype]), _OPS[op], root, count, line, shape, piece)

    def same(self, other: RankHeader) -> bool:
        """Return whether two ranks call the same, from whatever line."""
        return self._facts() == other._facts()

    def text(self) -> str:
        """Return it in words, for errors."""
        if self.kind == "end":
            return f"ends{self._where()}"
        of = f" of {self.count} {self.dtype.name}" if self.dtype else ""
        of += f" in shape {self.shape}" if self.shape and self.shape != f"({self.count},)" else ""
        op = f" ({self.op})" if self.op else ""
        root = f" from rank {self.root}" if self.root >= 0 else ""
        return f"calls {self.kind}{op}{of}{root}{self._where()}"

    def _where(self) -> str:
        """Return " at" and the line of the call; "" where it is not known."""
        return f" at {self.line}" if self.line else ""


def pieces_of(data: bytes, own: RankHeader) -> list[int] | None:
    """Return the `piece` of each rank, from the packed headers of all; None where one calls another thing than `own`.

    Facts are compared as bytes, as they nearly always agree: no header is unpacked then.
    """
    facts = own._facts()
    found = []
    for at in range(0, len(data), HEADER_BYTES):
        if not data.startswith(facts, at):
            return None
        found.append(_OWN.unpack_from(data, at + len(facts))[0])
    return found


def difference(headers: Sequence[RankHeader]) -> str:
    """Return what two of the ranks do that is not the same, in words; empty where all do the same.

    >>> calls = [RankHeader(1, "barrier", None, "", -1, 0, "a.py:3"), RankHeader(1, "end", None, "", -1, 0, "")]
    >>> difference(calls)
    'rank 0 calls barrier at a.py:3, and rank 1 ends'
    """
    for rank, header in enumerate(headers):
        if not header.same(headers[0]):
            return f"rank 0 {headers[0].text()}, and rank {rank} {header.text()}"
    return ""


def calling_line() -> str:
    """Return file and line of the innermost caller outside this package and those of devices; "" where there is none.

    A device launches what a replay does, so a frame of its package, tinygraft_NAME, may be between.
    """
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name.partition(".")[0].partition("_")[0] != _PACKAGE:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        if frame.f_back is None:
            break
        frame = frame.f_back
    return ""
