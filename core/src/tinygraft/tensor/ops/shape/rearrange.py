"""Rearranging axes by a formula, in the notation of einops (Rogozhnikov, "Einops", ICLR 2022).

A formula such as "b (h p) w -> b h (p w)" and the sizes it leaves open in, a view out: one reshape that splits axes,
one permute, one reshape that merges them.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from tinygraft.errors import ShapeError
from tinygraft.tensor.primitives import size_math
from tinygraft.tensor.primitives.movement import reshaped
from tinygraft.uop.sizes import sint

if TYPE_CHECKING:
    from tinygraft.tensor.tensor import Tensor


_TOKEN = re.compile(r"\.\.\.|[()]|\w+|\S")
AxisGroups = list[list[str]]


def rearrange(self: Tensor, formula: str, **sizes: int) -> Tensor:
    """Axes split, reordered and merged. A name is an axis, names in parentheses are one axis, ... (or …) any axes.

    1 and () are axes of size 1. sizes gives what cannot be computed: all but one of the names in each group that is
    split. Raises ShapeError for a formula that does not fit this tensor or does not have each name once on both sides,
    for a size of a name that it does not have, and where sizes do not divide an axis.

    >>> from tinygraft import Tensor
    >>> Tensor.arange(6).rearrange("(a b) -> b a", a=2).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    left, right = _sides(self, formula)
    names, found = [name for group in left for name in group], [name for group in right for name in group]
    # einops, too, refuses repeated and missing names: no diagonal and no sum is meant
    if len(set(names)) != len(names) or sorted(names) != sorted(found):
        raise ShapeError(f"each axis must be once on both sides of the formula {formula!r}")
    if strange := sorted(set(sizes) - set(names)):
        raise ShapeError(f"the formula {formula!r} has no axis {strange[0]}")
    known: dict[str, sint] = dict(sizes)
    for axis, group in enumerate(left):
        _split(self, axis, group, known, formula)
    split = reshaped(self, tuple(known[name] for name in names))
    moved = split.permute([names.index(name) for name in found])
    return reshaped(moved, tuple(size_math.product(known[name] for name in group) for group in right))


def _sides(self: Tensor, formula: str) -> tuple[AxisGroups, AxisGroups]:
    """The groups of axes on both sides, with the ellipsis written out.

    Raises ShapeError for no formula for this tensor.
    """
    formula = formula.replace("…", "...")
    sides = formula.split("->")
    if len(sides) != 2:
        raise ShapeError(f"a formula is two lists of axes with -> between them, got {formula!r}")
    given = _groups(sides[0], formula, 0)  # first with ... as one group, to count the axes that it stands for
    extra = self.ndim - len(given) + (["..."] in given)
    if (["..."] in given and extra < 0) or (["..."] not in given and extra):
        least = "at least " if ["..."] in given else ""
        named = f"{least}{len(given) - (['...'] in given)}"
        raise ShapeError(f"the left side of {formula!r} is for {named} axes, and shape {self.shape} has {self.ndim}")
    return _groups(sides[0], formula, extra, True), _groups(sides[1], formula, extra, True)


def _split(self: Tensor, axis: int, group: list[str], known: dict[str, sint], formula: str) -> None:
    """Add the sizes of the names in `group`, which are axis `axis`, to `known`.

    Raises ShapeError where it does not divide.
    """
    size = self.shape[axis]
    unknown = [name for name in group if name not in known]
    given = size_math.product(known[name] for name in group if name in known)
    if len(unknown) > 1:
        raise ShapeError(f"the sizes of {' and '.join(unknown)} in {formula!r} are not known: give all but one")
    fits = (
        isinstance(size, int)
        and isinstance(given, int)
        and (given > 0 and size % given == 0 if unknown else size == given)
    )
    if not fits and isinstance(size, int):
        raise ShapeError(
            f"axis {axis} of {self.shape} has {size} elements, which {formula!r} does not split by {given}"
        )
    if unknown:
        known[unknown[0]] = size_math.div(size, given)


def _groups(side: str, formula: str, extra: int, expanded: bool = False) -> AxisGroups:
    """One list of names per axis of one side of a formula; 1 and () are axes without a name.

    expanded writes ... as `extra` names. Raises ShapeError for what is no list of axes.
    """
    groups: AxisGroups = []
    inside: list[str] | None = None
    for token in _TOKEN.findall(side):
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(inside)
            inside = None
        elif token == "..." or token.isidentifier() or token == "1":
            names = (
                [f"...{i}" for i in range(extra)] if token == "..." and expanded else [token] if token != "1" else []
            )
            if inside is not None:
                inside += names
            elif token == "..." and expanded:
                groups += [[name] for name in names]
            else:
                groups.append(names)
        else:
            raise ShapeError(f"{token!r} has no meaning in the formula {formula!r}")
    if inside is not None:
        raise ShapeError(f"a parenthesis is not closed in the formula {formula!r}")
    return groups
