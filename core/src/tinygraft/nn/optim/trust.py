"""Ratios of norms, one for each parameter: how far LARS and LAMB trust a step.

In: the updates of a step and what each is compared with. Out: a factor for each, of memory that all of a group read.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tinygraft.nn.optim.update import Update
from tinygraft.tensor.tensor import Tensor

Ratio = Callable[[Update, Tensor, Tensor], Tensor]


def trust_ratios(updates: Sequence[Update], pulls: Sequence[Tensor], ratio: Ratio) -> list[Tensor]:
    """Return a scalar for each parameter: `ratio` of its norm and of that of its pull; 1 where one of them is 0.

    `ratio(update, sizes, pulls)` has both norms of all parameters of a group with one device and dtype, as vectors of
    which `update` is one. The ratios are stored as a vector: so parameters that read it are updated in few kernels, and
    all of these run after the norms.
    """
    alike: dict[object, list[int]] = {}
    for number, (each, pull) in enumerate(zip(updates, pulls, strict=True)):
        alike.setdefault((id(each.group), pull.device, pull.dtype), []).append(number)
    found: dict[int, Tensor] = {}
    for numbers in alike.values():
        size = _norms([updates[number].old for number in numbers])
        pull = _norms([pulls[number] for number in numbers])
        ratios = ((size > 0) & (pull > 0)).where(ratio(updates[numbers[0]], size, pull), 1.0).contiguous()
        found |= {number: ratios[place] for place, number in enumerate(numbers)}
    return [found[number] for number in range(len(updates))]


def _norms(tensors: Sequence[Tensor]) -> Tensor:
    """Return the Euclidean norm of each tensor, a vector."""
    return Tensor.stack(*[tensor.square().sum() for tensor in tensors]).sqrt()
