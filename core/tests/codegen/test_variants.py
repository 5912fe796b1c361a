"""What a search tries beside a list of actions: lists of the same kind, one step away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tinygraft.codegen.action import Action, show
from tinygraft.codegen.apply import apply_actions
from tinygraft.codegen.heuristics import kernel_candidates
from tinygraft.codegen.transforms import with_gaps
from tinygraft.codegen.variants import neighbours
from tinygraft.conformance.product_cases import BF16_DOT, BF16_TILE, INT8_DOT, matmul
from tinygraft.dtype import DType, dtypes
from tinygraft.reference.python import TARGET
from tinygraft.uop.units import MatrixUnit

WIDE = replace(TARGET, vector_bytes=64, registers=32, local_memory=64 << 10, fused_sums=True, chunks=2)
F, B, I8, I32 = dtypes.float32, dtypes.bfloat16, dtypes.int8, dtypes.int32


@pytest.mark.parametrize(
    ("units", "dtype", "result", "names"),
    [
        ((), F, F, ("pack",)),
        ((), F, F, ("stage",)),
        ((BF16_DOT,), B, F, ("dot", "stage")),
        ((INT8_DOT,), I8, I32, ("dot", "stage")),
        ((BF16_TILE,), B, F, ("matrix",)),
    ],
    ids=lambda x: "+".join(x) if isinstance(x, tuple) and x and isinstance(x[0], str) else None,
)
def test_beside_a_product_are_products_of_the_same_kind(
    units: tuple[MatrixUnit, ...], dtype: DType, result: DType, names: tuple[str, ...]
) -> None:
    """Tiles of words stay tiles of words, those of a unit stay on it, and each can be taken."""
    target, sink = replace(WIDE, matrix=units), matmul(37, 41, 61, dtype, result)
    actions = next(
        found for _, found in kernel_candidates(with_gaps(sink), target) if tuple(a.name for a in found) == names
    )
    beside = list(neighbours((*actions, Action("parallel")), sink, target))
    tiles = {"stage", "pack", "tile"}
    kinds = [{"tiles" if a.name in tiles else a.name for a in found} - {"parallel"} for found in beside]
    assert len(beside) > 3
    assert all(kind == {"tiles" if name in tiles else name for name in names} for kind in kinds)
    made = [apply_actions(with_gaps(sink), found, target) for found in beside[:12]]
    assert len(set(made)) == len(made), [show(found) for found in beside[:12]]
