"""Factors of products that are rounded to a small dtype: stored where an instruction reads them as packed lanes.

A sum of products on packed lanes (codegen/packed.py) reads one factor in each row of its tiles: neighbouring terms are
one load where they are in memory, and a conversion of each otherwise, again for each column of tiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tinygraft.schedule.kernel_body import numel
from tinygraft.schedule.weighing import LARGE, REUSED
from tinygraft.target import Target
from tinygraft.uop.ops import MOVEMENT, Ops
from tinygraft.uop.uop import UOp


def rounded_factors(order: Sequence[UOp], target: Target) -> set[UOp]:
    """Return the casts to the dtype of such an instruction of `target` that large products read many times over.

    Measured: 512 x 512 float32, both cast to bfloat16, two threads of a Zen 5: 1.91 ms computed again, 0.69 stored.
    """
    small = {unit.second for unit in target.matrix if unit.rows == 1}
    if not small:
        return set()
    products = [n.src[0] for n in order if n.op is Ops.REDUCE_AXIS and n.arg.op is Ops.ADD and n.src[0].op is Ops.MUL]
    return {
        factor
        for product in products
        for factor in _narrowing(product)
        if factor.dtype in small and (work := numel(product.shape)) >= LARGE and work >= REUSED * numel(factor.shape)
    }


def _narrowing(product: UOp) -> Iterator[UOp]:
    """Yield the nearest cast to a smaller dtype that each factor of a product is, moved and cast to a larger one."""
    for node in product.src:
        while node.op in MOVEMENT or (node.op is Ops.CAST and node.dtype.itemsize >= node.src[0].dtype.itemsize):
            node = node.src[0]
        if node.op is Ops.CAST:
            yield node
