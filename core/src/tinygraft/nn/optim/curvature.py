"""What LBFGS knows of the curvature: the last changes of the parameters and of their gradient, and a direction from
them.

In: changes as vectors. Out: the gradient times minus the estimate of the inverse curvature. The vectors are the rows of
one matrix on the device, and the products of all rows with each other are numbers here: the two loops of the method are
over those numbers, so that a direction is two programs and not four launches for each change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.nn.optim.lbfgs_programs import Heading, Programs
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import UOp

LEAST = 1e-10  # given: the product below which a change is not used, as PyTorch has it, 2026-11-23
ROOM, GROWTH = 8, 4  # assumed: pairs of changes that there is room for at first, and how many times as many then


class Curvature:
    """The last `most` pairs of changes. Row 2*i of `rows` is a change of the parameters, the next one its gradient's.

    `like` is a vector as long as the parameters; dtype and device are its. `products` has the product of each two rows,
    `pairs` the first rows of the pairs that are used, the oldest first. There is room for one more, into which a pair
    is written before it is known whether it is used.
    Source: Nocedal & Wright, "Numerical optimization", 2006, algorithm 7.4; that its vectors may be coefficients of
    their basis: Chen et al., "Large-scale L-BFGS using MapReduce", 2014.
    """

    rows: Tensor
    products: Any
    slopes: Any
    shape: float
    most: int
    pairs: list[int]

    def __init__(self, like: Tensor, most: int, programs: Programs) -> None:
        import numpy as np  # here, as few programs use LBFGS

        self.most, self.pairs, self._programs = most, [], programs
        self.rows = Tensor.zeros(2 * min(ROOM, most + 1), like.numel(), dtype=like.dtype, device=like.device)
        self.rows = self.rows.contiguous().realize()
        self.products = np.zeros((2 * most + 2, 2 * most + 2))
        self.slopes = np.zeros(2 * most + 2)  # the product of each row with the present gradient
        self.shape = 1.0  # of the first estimate of the inverse curvature, a multiple of the identity

    def add(self, direction: Tensor, length: float, gradient: Tensor, last: Tensor) -> None:
        """Add the change of the parameters, length * direction, and that of the gradient, gradient - last.

        They are not used where their product is at most LEAST. Over `most` pairs the oldest is dropped. The slopes are
        those of `gradient` afterwards. Reads the products.
        """
        room = int(self.rows.shape[0])
        if 2 * len(self.pairs) == room:
            more = min((GROWTH - 1) * room, 2 * self.most + 2 - room)
            self.rows = self.rows.cat(self.rows[:1].zeros_like().expand(more, -1)).contiguous().realize()
            room += more
        at = next(row for row in range(0, room, 2) if row not in self.pairs)
        place = UOp.variable("lbfgs_row", 0, 2 * self.most).bind(at)
        found = self._programs.learn(self.rows, place, direction, length, gradient, last)
        self.slopes[:room] = found[:, 2]
        if not found[at + 1, 0] > LEAST:
            return
        self.products[:room, at : at + 2] = found[:, :2]
        self.products[at : at + 2, :room] = found[:, :2].T
        self.shape = float(found[at + 1, 0]) / float(found[at + 1, 1])
        self.pairs.append(at)
        if len(self.pairs) > self.most:
            del self.pairs[0]

    def heading(self, params: Sequence[Tensor], gradient: Tensor) -> Heading:
        """Return the direction of the next move, whose slopes are known. Without changes it is minus the gradient."""
        import numpy as np

        used = [row for at in self.pairs for row in (at, at + 1)]
        products, slopes = self.products[np.ix_(used, used)], self.slopes[used]
        shares, own = np.zeros(len(used)), -1.0  # of each row, and of the gradient, in the vector of the two loops
        steps: dict[int, float] = {}
        for at in reversed(range(0, len(used), 2)):
            steps[at] = (products[at] @ shares + own * slopes[at]) / products[at, at + 1]
            shares[at + 1] -= steps[at]
        shares, own = shares * self.shape, own * self.shape
        for at in range(0, len(used), 2):
            shares[at] += steps[at] - (products[at + 1] @ shares + own * slopes[at + 1]) / products[at, at + 1]
        weights = np.zeros(int(self.rows.shape[0]) + 1)
        weights[used], weights[-1] = shares, own
        return self._programs.turn(params, self.rows, weights.tolist(), gradient)
