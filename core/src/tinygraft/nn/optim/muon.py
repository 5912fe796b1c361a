"""Muon: momentum whose step for each matrix is made orthogonal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Unpack

from tinygraft.nn.optim.group_option import GroupOption
from tinygraft.nn.optim.optimizer import Optimizer
from tinygraft.nn.optim.step_options import StepOptions
from tinygraft.tensor.tensor import Tensor
from tinygraft.uop.uop import Place

# measured: 3 to 34 matrices of 64x10 to 64x256, 2 threads of an EPYC, 2026-11-28: up to 1e6 a step takes as long as
# with each shape alone, in two thirds of the kernels; from 1e7 on that of the 34 takes 7% longer
EXTRA = 1 << 20  # operations of an iteration on zeros that are worth three kernels less


class Muon(Optimizer):
    """Momentum whose step for each matrix is made orthogonal: all its directions are learned equally fast.

    The gradient enters a momentum (looking one step ahead with nesterov); that, as a matrix (first axis, all others),
    is brought near U @ V.T of its singular value decomposition by ns_steps of a Newton-Schulz iteration. weight_decay
    shrinks p by lr * weight_decay. Meant for matrices; put vectors into an AdamW, both into an OptimizerGroup.

    Source: Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024.
    """

    nesterov: bool
    ns_steps: int
    ns_coefficients: tuple[float, float, float]

    STATE: ClassVar[dict[str, str]] = {"b": "momentum_buffer"}
    momentum: GroupOption = GroupOption()
    weight_decay: GroupOption = GroupOption()

    def __init__(
        self, params: Iterable[Any], lr: float | Tensor = 0.001, momentum: float = 0.95, weight_decay: float = 0.1,
        ns_steps: int = 5, ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        nesterov: bool = True, device: Place = None, **how: Unpack[StepOptions],
    ) -> None:  # fmt: skip
        self._check_option("ns_steps", ns_steps)
        options = {"momentum": momentum, "weight_decay": weight_decay}
        fixed = {"nesterov": nesterov, "ns_steps": ns_steps}
        super().__init__(params, lr, device, options=options, fixed=fixed, how=how)
        self.nesterov, self.ns_steps, self.ns_coefficients = nesterov, ns_steps, ns_coefficients
        self.b: list[Tensor] = self._filled()
        self._realize_state(*self.b)

    def _step(self, grads: list[Tensor]) -> None:
        """Assign each parameter and its momentum; a parameter is a matrix of its first axis by all others."""
        updates, wanted = list(self._updates(grads)), []
        for each in updates:
            momentum = each.state(self.b) * each["momentum"] + each.g
            each.store(self.b, momentum)
            step = each.g + momentum * each["momentum"] if self.nesterov else momentum
            wanted.append(step.reshape(each.p.shape[0] if each.p.ndim else 1, -1))
        for each, step in zip(updates, self._orthogonal_steps(wanted), strict=True):
            new = each.old * (1 - each.rate * each["weight_decay"]) - step.reshape(each.p.shape) * each.rate
            each.apply(new)

    def _orthogonal_steps(self, matrices: list[Tensor]) -> list[Tensor]:
        """Return each matrix with its singular values brought near 1; those that `_batches` has together as one stack.

        They are padded with zeros to the largest rows and columns among them, which change no product and no norm.
        """
        wide = [x.transpose() if x.shape[0] > x.shape[1] else x for x in matrices]
        alike: dict[object, list[int]] = {}
        for number, x in enumerate(wide):
            # those of several devices are cut by their own axes, which a stack would have to agree on
            alike.setdefault((x.device, x.dtype) if isinstance(x.device, str) else number, []).append(number)
        found: dict[int, Tensor] = {}
        for numbers in (batch for same in alike.values() for batch in _batches(same, wide)):
            rows, columns = (max(wide[number].shape[axis] for number in numbers) for axis in (0, 1))
            padded = [wide[number].pad_to(rows, columns) for number in numbers]
            made = self._orthogonal(Tensor.stack(*padded)) if len(numbers) > 1 else self._orthogonal(padded[0])[None]
            for place, number in enumerate(numbers):
                r, c = wide[number].shape
                found[number] = made[place, :r, :c]
        return [
            found[number].transpose() if x.shape[0] > x.shape[1] else found[number] for number, x in enumerate(matrices)
        ]

    def _orthogonal(self, x: Tensor) -> Tensor:
        """Return `x`, a wide matrix or a stack of them, after ns_steps of Newton-Schulz: singular values near 1."""
        a, b, c = self.ns_coefficients
        x = x / (x.square().sum((-2, -1), keepdim=True).sqrt() + 1e-7)
        for _ in range(self.ns_steps):
            square = (x @ x.transpose(-2, -1)).contiguous()
            x = (a * x + (b * square + c * (square @ square)) @ x).contiguous()
        return x


def _batches(numbers: Sequence[int], wide: Sequence[Tensor]) -> list[list[int]]:
    """Return `numbers`, those of matrices, in lists that are computed together.

    Matrices of one shape always are; those of others where zeros around them cost less than EXTRA.
    """
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for number in sorted(numbers, key=lambda number: wide[number].shape):
        by_shape.setdefault(wide[number].shape, []).append(number)
    found: list[tuple[tuple[int, ...], list[int]]] = []
    for shape, members in by_shape.items():
        if found:
            before, others = found[-1]
            both = tuple(map(max, shape, before))
            apart = _operations(len(others), *before) + _operations(len(members), *shape)
            if _operations(len(others) + len(members), *both) - apart <= EXTRA:
                found[-1] = both, others + members
                continue
        found.append((shape, members))
    return [members for _, members in found]


def _operations(count: int, rows: int, columns: int) -> int:
    """Return the multiplications and additions of one iteration for `count` wide matrices."""
    return 2 * count * rows * rows * (2 * columns + rows)
