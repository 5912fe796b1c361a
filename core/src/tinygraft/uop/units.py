"""MatrixUnit: an instruction that multiplies small matrices, as data; and the args of the nodes that use one.

results[rows][columns] += first[rows][terms] @ second[terms][columns]. Products are exact, and for integers so are the
sums, modulo the width of the result. Floats are added one product after another, each sum rounded to the result's
dtype; a device may add the terms of one step in any order, and may treat numbers below the least normal one as 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import names_fields

WORDS = {1: dtypes.uint8, 2: dtypes.uint16, 4: dtypes.uint32, 8: dtypes.uint64}


@names_fields
@dataclass(frozen=True, slots=True)
class MatrixUnit:
    """An instruction by its sizes and dtypes. `docs/device-fields.md` shows this list as a table.

    A unit of one row works on registers: its first operand is one word for all columns (Ops.DOT). A unit of several
    rows works on memory and has results and operands in tile registers of its own (Ops.MATRIX).

    - `name`: what the renderer's words for it are found by.
    - `rows`: of the first operand and the result; 1 for a unit that works on registers.
    - `columns`: of the second operand and the result.
    - `terms`: how many products one step adds to each result.
    - `first`: the dtype of the first operand.
    - `second`: the dtype of the second operand.
    - `result`: the dtype of the result.
    - `packed`: how many terms of one column are packed lanes of one word in the second operand, the first term in
      its lowest bits.
    - `tiles`: how many tile registers there are, for a unit of several rows.
    """

    name: str
    rows: int
    columns: int
    terms: int
    first: DType
    second: DType
    result: DType
    packed: int = 1
    tiles: int = 4

    @property
    def word(self) -> DType:
        """The dtype of the second operand in memory: that of packed terms as one integer.

        >>> MatrixUnit("dot", 1, 16, 2, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, 2).word
        dtypes.uint
        """
        return self.second if self.packed == 1 else WORDS[self.packed * self.second.itemsize]


@dataclass(frozen=True, slots=True)
class MatrixArg:
    """A unit and the strides of the rows of its operands and its result: in elements, of the second in words."""

    unit: MatrixUnit
    first: int
    second: int
    result: int


@dataclass(frozen=True, slots=True)
class TileArg:
    """A tile register of a unit and its number."""

    number: int
    unit: MatrixUnit
