"""What LBFGS knows of the curvature: the last changes of the parameters and of their gradient, and a direction from
them.

In: changes as vectors. Out: the gradient times minus the estimate of the inverse curvature. The vectors are the rows of
one matrix on the device, and the products of all rows with each other are numbers here: the two loops of the method are
over those numbers, so that a direction is three launches and not four for each change.
"""

from __future__ import annotations

from tinygraft.tensor.tensor import Tensor

LEAST = 1e-10  # given: the product below which a change is not used, as PyTorch has it, 2026-11-23
ROOM = 8  # assumed: pairs of changes that there is room for at first; it is doubled up to the limit


class Curvature:
    """The last `most` pairs of changes. Row 2*i of `rows` is a change of the parameters, the next one its gradient's.

    `like` is a vector as long as the parameters; dtype and device are its. `products` has the product of each two rows.
    Source: Nocedal & Wright, "Numerical optimization", 2006, algorithm 7.4; that its vectors may be coefficients of
    their basis: Chen et al., "Large-scale L-BFGS using MapReduce", 2014.
    """

    rows: Tensor
    shape: float
    most: int
    count: int

    def __init__(self, like: Tensor, most: int) -> None:
        self.most, self.count = most, 0  # count: of all pairs that were added
        self.rows = Tensor.zeros(2 * min(ROOM, most), like.numel(), dtype=like.dtype, device=like.device)
        self.rows = self.rows.contiguous().realize()
        self.products: list[list[float]] = [[0.0] * (2 * most) for _ in range(2 * most)]
        self.shape = 1.0  # of the first estimate of the inverse curvature, a multiple of the identity

    def add(self, move: Tensor, bend: Tensor) -> None:
        """Add a change of the parameters and that of the gradient, unless their product is at most LEAST.

        Both are vectors. Over `most` pairs the oldest is replaced. Reads the products.
        """
        product, size = (bend.unsqueeze(0) * move.stack(bend)).sum(1).tolist()
        if not product > LEAST:
            return
        room = self.rows.shape[0]
        if self.count < self.most and 2 * self.count == room:
            more = min(room, 2 * self.most - int(room))
            self.rows = self.rows.cat(self.rows[:1].zeros_like().expand(more, -1)).contiguous().realize()
        at, self.count = 2 * (self.count % self.most), self.count + 1
        numbers = Tensor.arange(int(self.rows.shape[0]), device=self.rows.device).reshape(-1, 1)
        place = Tensor([at], device=self.rows.device)  # a tensor: a number would be part of a kernel
        kept = (numbers == place + 1).where(bend, self.rows)
        self.rows = (numbers == place).where(move, kept).contiguous().realize()
        found = (self.rows.unsqueeze(1) * move.stack(bend)).sum(-1).tolist()
        for row, (with_move, with_bend) in enumerate(found):
            self.products[row][at] = self.products[at][row] = with_move
            self.products[row][at + 1] = self.products[at + 1][row] = with_bend
        self.shape = product / size

    def direction(self, gradient: Tensor) -> Tensor:
        """Return the direction of the next move, a realised vector. Without changes it is minus the gradient."""
        if not self.count:
            return (-gradient).realize()
        slopes = (self.rows * gradient).sum(1).tolist()
        shares = [0.0] * len(slopes)  # of each row, and `own` of the gradient, in the vector of the two loops
        own, newest = -1.0, [2 * (n % self.most) for n in range(max(0, self.count - self.most), self.count)]
        steps: dict[int, float] = {}

        def along(row: int) -> float:
            found = sum(a * b for a, b in zip(self.products[row], shares, strict=False))  # rows beyond those are zeros
            return float(found + own * slopes[row])

        for at in reversed(newest):
            steps[at] = along(at) / self.products[at][at + 1]
            shares[at + 1] -= steps[at]
        shares, own = [share * self.shape for share in shares], own * self.shape
        for at in newest:
            shares[at] += steps[at] - along(at + 1) / self.products[at][at + 1]
        weights = Tensor([*shares, own], dtype=gradient.dtype, device=gradient.device).reshape(-1, 1)
        return ((self.rows * weights[:-1]).sum(0) + weights[-1] * gradient).realize()
