"""Operators of ONNX: ensembles of decision trees. All rows descend all trees together, a level at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import FileFormatError, UnsupportedError
from tinygraft.onnx.operator_table import ML, operator
from tinygraft.onnx.weights import Weight
from tinygraft.tensor.tensor import Tensor

_MEMBER = 6


@operator("TreeEnsemble", domain=ML)
def tree_ensemble(
    x: Tensor, *, aggregate_function: int = 1, leaf_targetids: Sequence[int], leaf_weights: Weight,
    membership_values: Weight | None = None, n_targets: int, nodes_falseleafs: Sequence[int],
    nodes_falsenodeids: Sequence[int], nodes_featureids: Sequence[int], nodes_hitrates: Any = None,
    nodes_missing_value_tracks_true: Sequence[int] | None = None, nodes_modes: Weight, nodes_splits: Weight,
    nodes_trueleafs: Sequence[int], nodes_truenodeids: Sequence[int], post_transform: int = 0,
    tree_roots: Sequence[int],
) -> Tensor:  # fmt: skip
    """Return the weights of the leaves that each row (batch, features) reaches, (batch, n_targets).

    They are combined for each target by aggregate_function: 0 mean, 1 sum, 2 least, 3 largest. Raises UnsupportedError
    for a post_transform.
    """
    if post_transform:
        raise UnsupportedError(f"TreeEnsemble with the post_transform {post_transform} is not done; 0 (none) is")
    count = len(nodes_featureids)
    modes = nodes_modes.numbers()
    tables = {
        "feature": nodes_featureids, "true": nodes_truenodeids, "false": nodes_falsenodeids,
        "true_leaf": nodes_trueleafs, "false_leaf": nodes_falseleafs, "mode": modes,
        "missing": list(nodes_missing_value_tracks_true or [0] * count),
    }  # fmt: skip
    held = {name: Tensor(list(each), dtype=dtypes.int64, device=x.device) for name, each in tables.items()}
    members = _members(modes, membership_values)
    node = Tensor(list(tree_roots), dtype=dtypes.int64, device=x.device)
    node = node.expand(int(x.shape[0]), len(tree_roots))
    at_leaf = node < 0
    for _ in range(_depth(tables, tree_roots)):
        value = x.gather(1, held["feature"][node])
        holds = _holds(value, nodes_splits.tensor()[node], held["mode"][node])
        for number, allowed in members.items():
            inside = (value.unsqueeze(-1) == Tensor(allowed, dtype=x.dtype)).any(-1)
            holds = (node == number).where(inside, holds)
        holds = holds | (value != value) & (held["missing"][node] > 0)
        leaf = holds.where(held["true_leaf"][node], held["false_leaf"][node]) > 0
        after = holds.where(held["true"][node], held["false"][node])
        node = at_leaf.where(node, after)
        at_leaf = at_leaf | leaf
        node = at_leaf.where(node, node.clamp(0, count - 1))
    return _gathered(node, leaf_targetids, leaf_weights.tensor(), n_targets, aggregate_function, x)


def _members(modes: Sequence[int], values: Weight | None) -> dict[int, list[float]]:
    """The sets of nodes that ask for membership; NaN ends each."""
    if values is None:
        return {}
    sets: list[list[float]] = [[]]
    for value in values.numbers():
        if value != value:
            sets.append([])
        else:
            sets[-1].append(value)
    numbers = [number for number, mode in enumerate(modes) if mode == _MEMBER]
    return dict(zip(numbers, sets, strict=False))


def _depth(tables: dict[str, Any], roots: Sequence[int]) -> int:
    """Return how many levels of nodes the deepest tree has, leaves not counted; trees may share nodes.

    Raises FileFormatError where a node leads back to itself.
    """
    deep: dict[int, int] = {}
    opened: set[int] = set()
    waiting = [(root, False) for root in roots]
    while waiting:
        node, is_done = waiting.pop()
        below = [tables[side][node] for side in ("true", "false") if not tables[f"{side}_leaf"][node]]
        if is_done:
            deep[node] = 1 + max((deep[each] for each in below), default=0)
            opened.discard(node)
        elif node in opened:
            raise FileFormatError(f"TreeEnsemble has a node, {node}, that leads back to itself")
        elif node not in deep:
            opened.add(node)
            waiting += [(node, True), *((each, False) for each in below)]
    return max((deep[root] for root in roots), default=0)


def _holds(value: Tensor, split: Tensor, mode: Tensor) -> Tensor:
    """Return whether each comparison of a node holds, by its mode: 0 is <=, then <, >=, >, ==, !=."""
    found = value <= split
    for number, other in enumerate((value < split, value >= split, value > split, value == split, value != split), 1):
        found = (mode == number).where(other, found)
    return found


def _gathered(leaves: Tensor, targets: Sequence[int], weights: Tensor, count: int, how: int, x: Tensor) -> Tensor:
    """The weights of leaves (batch, trees) by target: their mean, sum, least or largest."""
    target = Tensor(list(targets), dtype=dtypes.int64, device=x.device)[leaves].unsqueeze(-1)
    value = weights[leaves].unsqueeze(-1)
    own = target == Tensor.arange(count, dtype=dtypes.int64, device=x.device)
    if how in (0, 1):
        total = own.where(value, 0).sum(1)
        return total / int(leaves.shape[1]) if how == 0 else total
    beyond = float("inf") if how == 2 else float("-inf")
    spread = own.where(value, beyond)
    found = spread.amin(1) if how == 2 else spread.amax(1)
    return own.any(1).where(found, 0)
