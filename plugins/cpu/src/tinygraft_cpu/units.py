"""The matrix units of this processor, and their instructions in LLVM IR and in C."""

from __future__ import annotations

from collections.abc import Mapping

from tinygraft.plugin import MatrixUnit, MatrixWords, dtypes
from tinygraft_cpu import machine
from tinygraft_cpu.tiles import FEATURES, c_words, llvm_words, tiles

BF16_DOT = MatrixUnit("vdpbf16ps", 1, 16, 2, dtypes.bfloat16, dtypes.bfloat16, dtypes.float32, 2)
INT8_DOT = MatrixUnit("vpdpbusd", 1, 16, 4, dtypes.uint8, dtypes.int8, dtypes.int32, 4)


def units(route: str) -> tuple[MatrixUnit, ...]:
    """Return the units of this machine that kernels of a route, llvm or c, may use; the fastest first."""
    return (*tiles(route), *_dots())


def _dots() -> tuple[MatrixUnit, ...]:
    """Return the dot-product instructions of this processor, which need vectors of 64 bytes."""
    if machine.vector_bytes() != 64:
        return ()
    features = {BF16_DOT: "avx512_bf16", INT8_DOT: "avx512_vnni"}
    return tuple(unit for unit, feature in features.items() if feature in machine.features())


LLVM: Mapping[str, MatrixWords] = {
    **{unit.name: llvm_words(unit) for unit in FEATURES},
    BF16_DOT.name: MatrixWords(
        header="declare <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512(<16 x float>, <32 x bfloat>, <32 x bfloat>)",
        operand="<32 x bfloat>",
        multiply="call <16 x float> @llvm.x86.avx512bf16.dpbf16ps.512("
                 "<16 x float> {c}, <32 x bfloat> {a}, <32 x bfloat> {b})",
    ),
    INT8_DOT.name: MatrixWords(
        header="declare <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32>, <64 x i8>, <64 x i8>)",
        operand="<64 x i8>",
        multiply="call <16 x i32> @llvm.x86.avx512.vpdpbusd.512(<16 x i32> {c}, <64 x i8> {a}, <64 x i8> {b})",
    ),
}  # fmt: skip
INTRINSICS = "#include <immintrin.h>"
C: Mapping[str, MatrixWords] = {
    **{unit.name: c_words(unit) for unit in FEATURES},
    BF16_DOT.name: MatrixWords(
        header=INTRINSICS, multiply="_mm512_dpbf16_ps((__m512){c}, (__m512bh){a}, (__m512bh){b})"
    ),
    INT8_DOT.name: MatrixWords(
        header=INTRINSICS, multiply="_mm512_dpbusd_epi32((__m512i){c}, (__m512i){a}, (__m512i){b})"
    ),
}
