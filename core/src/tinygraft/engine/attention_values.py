"""What the routines attention and attention_backward mean, with NumPy in float64, for routine_values.py.

The scores are stored, and differentiated by the formula of a softmax: nothing here is done in blocks.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from tinygraft.engine.arithmetic import Array, threefry
from tinygraft.uop.routines import RoutineOptions


def attention(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the values, and of each query the greatest score and the sum of powers relative to it.

    `operands` and `options` are those of uop/routines.py: q, k, v, and a mask and seeds where there are any. Results
    have the dtype of q.
    """
    q, k, v = _in_axes(operands)
    scores, keep = _scores(q, k, operands, options), _keep(operands, options)
    weights, greatest, sums = _softmax(scores)
    dtype = operands[0].dtype
    return [((weights * keep) @ v).astype(dtype), greatest.astype(dtype), sums.astype(dtype)]


def attention_backward(operands: Sequence[Array], options: RoutineOptions) -> list[Array]:
    """Return the gradients of q, k and v, for the gradient of the values. What forward gave is used as it is given.

    `operands` are those of attention, its three results, and that gradient.
    """
    q, k, v = _in_axes(operands)
    values, greatest, sums, start = [x.astype(np.float64) for x in operands[-4:]]
    weights = _weights(_scores(q, k, operands, options), greatest[..., None], sums[..., None])
    keep = _keep(operands, options)
    of_weights = (start @ _turned(v)) * keep
    slopes = weights * (of_weights - (start * values).sum(-1, keepdims=True)) * _number(options[1])
    found = [slopes @ k, (_turned(slopes) @ q).sum(3), (_turned(weights * keep) @ start).sum(3)]
    return [x.astype(operand.dtype) for x, operand in zip(found, operands, strict=False)]


def _number(bits: int) -> float:
    """Return the float64 with the bits of an integer: options are integers."""
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def _turned(x: Array) -> Array:
    """Return `x` with its last two axes exchanged."""
    return np.swapaxes(x, -1, -2)


def _in_axes(operands: Sequence[Array]) -> tuple[Array, Array, Array]:
    """Return q, k and v in float64, all with an axis of groups, number 3."""
    q, k, v = [x.astype(np.float64) for x in operands[:3]]
    return q, np.expand_dims(k, 3), np.expand_dims(v, 3)


def _scores(q: Array, k: Array, operands: Sequence[Array], options: RoutineOptions) -> Array:
    """Return the scores of queries with keys in float64, scaled and masked: -inf where a query does not see a key.

    `q` and `k` are from `_in_axes`. Options are whether it is causal (query i sees keys up to i), the bits of the
    scale, and whether operand 3 is a mask: of bools, True where a key is seen, else numbers that are added to the
    scores, which are rounded to the dtype of the queries then.
    """
    scores = q @ _turned(k) * _number(options[1])
    if options[0]:
        queries, keys = np.ogrid[: scores.shape[-2], : scores.shape[-1]]
        scores = np.where(keys <= queries, scores, -np.inf)
    if options[2]:
        mask = operands[3]
        if mask.dtype == np.bool_:
            scores = np.where(mask, scores, -np.inf)
        else:  # rounded: beside -1e9 nothing of a score is left in a float32, and all keys have the same weight
            scores = (scores + mask).astype(operands[0].dtype).astype(np.float64)
    return np.asarray(scores)


def _softmax(scores: Array) -> tuple[Array, Array, Array]:
    """Return the weights of `scores`, and of each query the greatest score and the sum of powers relative to it.

    They are 0, -inf and 0 where a query sees no key.
    """
    greatest = scores.max(-1, keepdims=True)
    sums = _weights(scores, greatest, np.ones(())).sum(-1, keepdims=True)
    return _weights(scores, greatest, sums), greatest[..., 0], sums[..., 0]


def _weights(scores: Array, greatest: Array, sums: Array) -> Array:
    """Return e to the scores less `greatest`, over `sums`; 0 where a query sees no key."""
    powers = np.exp(scores - np.where(greatest == -np.inf, 0, greatest))
    return np.asarray(powers / np.where(sums == 0, 1, sums))


def _keep(operands: Sequence[Array], options: RoutineOptions) -> Array:
    """Return what weights are multiplied by for dropout: 0, or 1 / (1 - p); 1 without dropout.

    Of all examples they are the elements that rand draws for one key, a seed for each.
    """
    if not options[3]:
        return np.ones(())
    p, seeds = _number(options[3]), operands[3 + options[2]]
    q, k = operands[:2]
    shape = (*q.shape[1:-1], k.shape[-2])
    count = int(np.prod(shape))
    half = np.uint64((count + 1) // 2)
    index = np.arange(half, dtype=np.uint64)
    found = []
    for seed in seeds.astype(np.uint64):
        pairs = threefry(index | (index + half) << np.uint64(32), seed)
        words = np.concatenate([pairs & np.uint64(0xFFFFFFFF), pairs >> np.uint64(32)])[:count]
        found.append(((words >> np.uint64(9)) / 2.0**23 >= np.float32(p)).reshape(shape))
    return np.asarray(np.stack(found) / (1 - p))
