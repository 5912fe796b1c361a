"""Operators of ONNX: boxes chosen by their scores, of those that overlap the best."""

from __future__ import annotations

from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.onnx.op_indexing import places_of
from tinygraft.onnx.operator_table import number, operator, unrolled
from tinygraft.tensor.tensor import Tensor


def _overlaps(boxes: Tensor, center_point_box: int) -> Tensor:
    """Return (batch, boxes, boxes): the area that each two boxes (batch, boxes, 4) share, over that of both together.

    A box is two opposite corners (y, x, y, x), or with center_point_box (x, y, width, height) of its centre. It is 0
    where both have no area.
    """
    if center_point_box:
        x, y, wide, high = (boxes[..., i] for i in range(4))
        y1, x1, y2, x2 = y - high / 2, x - wide / 2, y + high / 2, x + wide / 2
    else:
        a, b, c, d = (boxes[..., i] for i in range(4))
        y1, x1, y2, x2 = a.minimum(c), b.minimum(d), a.maximum(c), b.maximum(d)
    area = (y2 - y1) * (x2 - x1)

    def shared(low: Tensor, high: Tensor) -> Tensor:
        least = high.unsqueeze(1).minimum(high.unsqueeze(2))
        return (least - low.unsqueeze(1).maximum(low.unsqueeze(2))).maximum(0)

    both = shared(y1, y2) * shared(x1, x2)
    union = area.unsqueeze(1) + area.unsqueeze(2) - both
    return (union > 0).where(both / union, 0)


@operator("NonMaxSuppression", steers="max_output_boxes_per_class iou_threshold score_threshold")
def non_max_suppression(
    boxes: Tensor, scores: Tensor, max_output_boxes_per_class: Any = None, iou_threshold: Any = None,
    score_threshold: Any = None, *, center_point_box: int = 0,
) -> Tensor:  # fmt: skip
    """(batch, class, box) of the boxes that are kept: the best first, then the best that overlaps none of them much.

    All batches and classes take a step together; how many boxes there are is read on the host at the end.
    """
    batch, classes, count = (int(length) for length in scores.shape)
    most = min(number(max_output_boxes_per_class, 0), count)
    if most <= 0:
        return Tensor.zeros(0, 3, dtype=dtypes.int64, device=boxes.device)
    near = _overlaps(boxes.cast(dtypes.float32), center_point_box) > number(iou_threshold, 0.0)
    near = near.unsqueeze(1).expand(batch, classes, count, count)
    threshold = number(score_threshold, float("-inf"))
    left = (scores > threshold).where(scores, float("-inf"))
    places = Tensor.arange(count, dtype=dtypes.int64, device=boxes.device)
    chosen, valid = [], []
    for _ in range(unrolled(most, "a choice of NonMaxSuppression")):
        best = left.argmax(-1, keepdim=True)
        valid.append(left.gather(-1, best) > float("-inf"))
        chosen.append(best.cast(dtypes.int64))
        gone = near.gather(2, best.unsqueeze(-1).expand(batch, classes, 1, count)).squeeze(2) | (places == best)
        left = gone.where(float("-inf"), left)
    found, kept = chosen[0].cat(*chosen[1:], dim=-1), valid[0].cat(*valid[1:], dim=-1)
    rows: Tensor = places_of(kept).cast(dtypes.int64)  # (kept, 3): batch, class, step
    return rows[:, :2].cat(found[rows[:, 0], rows[:, 1], rows[:, 2]].unsqueeze(1), dim=1)
