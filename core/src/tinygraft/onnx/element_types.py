"""The element types of ONNX, and the dtypes that hold them.

Types of 2 and 4 bits, and powers of two in 8 bits, have no dtype here. Their values are held, exactly, in the smallest
dtype that has them: int4 in int8, float4e2m1 in float32. What they are is known from the graph, where it matters.

Source: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto (TensorProto.DataType).
"""

from __future__ import annotations

from tinygraft.dtype import DType, dtypes
from tinygraft.errors import UnsupportedError

FLOAT, UINT8, INT8, INT64, STRING, BOOL = 1, 2, 3, 7, 8, 9
E4M3, E4M3FNUZ, E5M2, E5M2FNUZ = 17, 18, 19, 20
UINT4, INT4, FLOAT4, E8M0, UINT2, INT2 = 21, 22, 23, 24, 25, 26

HELD_IN: dict[int, DType] = {
    FLOAT: dtypes.float32, UINT8: dtypes.uint8, INT8: dtypes.int8, 4: dtypes.uint16, 5: dtypes.int16, 6: dtypes.int32,
    INT64: dtypes.int64, BOOL: dtypes.bool, 10: dtypes.float16, 11: dtypes.float64, 12: dtypes.uint32,
    13: dtypes.uint64, 14: dtypes.complex64, 15: dtypes.complex128, 16: dtypes.bfloat16,
    E4M3: dtypes.fp8e4m3, E4M3FNUZ: dtypes.fp8e4m3fnuz, E5M2: dtypes.fp8e5m2, E5M2FNUZ: dtypes.fp8e5m2fnuz,
    UINT4: dtypes.uint8, INT4: dtypes.int8, FLOAT4: dtypes.float32, E8M0: dtypes.float32,
    UINT2: dtypes.uint8, INT2: dtypes.int8,
}  # fmt: skip
NARROW = {UINT4: (4, False), INT4: (4, True), UINT2: (2, False), INT2: (2, True)}  # type -> (bits, signed)
_NAMES = {STRING: "string", UINT4: "uint4", INT4: "int4", FLOAT4: "float4e2m1", E8M0: "float8e8m0", UINT2: "uint2",
          INT2: "int2"}  # fmt: skip


def held_in(element: int, what: str) -> DType:
    """The dtype that holds an element type of ONNX. Raises UnsupportedError, about `what`, where none does."""
    if element not in HELD_IN:
        raise UnsupportedError(f"{what} has elements of {type_name(element)}, which no tensor holds")
    return HELD_IN[element]


def type_name(element: int) -> str:
    """Return the name of an element type of ONNX, a number, for a message."""
    return _NAMES.get(element) or (repr(HELD_IN[element]) if element in HELD_IN else f"the unknown type {element}")


def element_of(dtype: DType) -> int:
    """Return the element type of ONNX, a number, that a dtype is. Raises UnsupportedError where there is none."""
    for element, found in HELD_IN.items():
        if found is dtype and element not in _NAMES:
            return element
    raise UnsupportedError(f"ONNX has no element type for {dtype}")
