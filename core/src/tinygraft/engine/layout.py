"""The coordinates of the boxes of a drawing: layers from the sources at the top to the result at the bottom.

In: a Drawing. Out: the corner of every box and the points of every line, in pixels. The method is that of
Sugiyama, Tagawa and Toda, "Methods for visual understanding of hierarchical system structures", 1981: layers
by longest path, order within a layer by the mean rank of the neighbours, then x by least squares.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from tinygraft.engine.drawing import Box, Drawing

# assumed: looked at in a browser, never measured; the font is that of page.html
CHAR, LINE, PADDING = 7.0, 16.0, 10.0  # of the page's font, in pixels
GAP_X, GAP_Y = 22.0, 34.0  # pixels between boxes
SWEEPS = 6  # over all layers
MOST_BENDS = 4000  # with more bends than this, further long lines are drawn straight

Point = tuple[float, float]


@dataclass(slots=True)
class PlacedDrawing:
    """A drawing with coordinates: boxes as (left, top, width, height), lines as (from, to, points)."""

    boxes: list[tuple[float, float, float, float]]
    lines: list[tuple[int, int, list[Point]]]
    width: float
    height: float


def box_size(box: Box) -> tuple[float, float]:
    """Return width and height, in pixels, of a box that fits its text."""
    longest = max(len(box.title) + 1, *(len(line) for line in box.lines), 4)
    return longest * CHAR + 2 * PADDING, (1 + len(box.lines)) * LINE + PADDING


def lay_out(drawing: Drawing) -> PlacedDrawing:
    """Return `drawing` with the coordinates of its boxes and lines, in pixels from the upper left corner.

    >>> two = Drawing([Box("A", [], "math"), Box("B", [], "math", [0])])
    >>> [corner[1] for corner in lay_out(two).boxes]
    [0.0, 60.0]
    """
    boxes = drawing.boxes
    sizes = [box_size(box) for box in boxes]
    depth = _depths(boxes)
    deepest = max(depth, default=0)
    layers: list[list[int]] = [[] for _ in range(deepest + 1)]
    for number in range(len(boxes)):
        layers[deepest - depth[number]].append(number)
    widths = [width for width, _ in sizes]
    above: list[list[int]] = [[] for _ in boxes]  # neighbours one layer up, bends of long lines included
    paths = _bend(boxes, depth, deepest, layers, widths, above)
    below: list[list[int]] = [[] for _ in above]
    for number, sources in enumerate(above):
        for source in sources:
            below[source].append(number)
    _order(layers, above, below)
    x = _columns(layers, widths, above, below)
    tops, heights, y = [], [], 0.0
    for layer in layers:
        tallest = max((sizes[n][1] for n in layer if n < len(boxes)), default=LINE)
        tops.append(y)
        heights.append(tallest)
        y += tallest + GAP_Y
    level = [0] * len(above)
    for number, layer in enumerate(layers):
        for n in layer:
            level[n] = number
    corners = [(x[n] - sizes[n][0] / 2, tops[level[n]] + (heights[level[n]] - sizes[n][1]) / 2, *sizes[n])
               for n in range(len(boxes))]  # fmt: skip
    lines: list[tuple[int, int, list[Point]]] = []
    for source, user, bends, slot, count in paths:
        points = [(x[source], corners[source][1] + sizes[source][1])]
        for n in bends:
            points += [(x[n], tops[level[n]]), (x[n], tops[level[n]] + heights[level[n]])]
        points.append((corners[user][0] + sizes[user][0] * (slot + 1) / (count + 1), corners[user][1]))
        lines.append((source, user, points))
    left = min((corner[0] for corner in corners), default=0.0)
    left = min([left, *(p[0] for *_, points in lines for p in points)])
    corners = [(round(a - left, 1), round(b, 1), w, h) for a, b, w, h in corners]
    lines = [(s, u, [(round(a - left, 1), round(b, 1)) for a, b in points]) for s, u, points in lines]
    right = max((a + w for a, _, w, _ in corners), default=0.0)
    right = max([right, *(p[0] for *_, points in lines for p in points)])
    return PlacedDrawing(corners, lines, right, max(0.0, y - GAP_Y))


def _depths(boxes: Sequence[Box]) -> list[int]:
    """Return how many layers each box is above the last result: a source stands right above its first user."""
    depth = [0] * len(boxes)
    for number in range(len(boxes) - 1, -1, -1):
        for source in boxes[number].sources:
            depth[source] = max(depth[source], depth[number] + 1)
    return depth


EdgePath = tuple[int, int, list[int], int, int]  # source, user, the bends between, operand number, operand count


def _bend(boxes: Sequence[Box], depth: list[int], deepest: int, layers: list[list[int]], widths: list[float],
          above: list[list[int]]) -> list[EdgePath]:  # fmt: skip
    """Return the lines. One that passes layers gets a bend in each: a narrow box, which reserves space for it.

    Bends are appended to `layers` and `widths`, and to `above`, which gets the neighbours one layer up of every box.
    `depth` has how many layers each of `boxes` is above the last result, `deepest` is the most of these: a box is in
    layer `deepest - depth` of `layers`. Lines after the first MOST_BENDS bends have none, and pass straight through.
    """
    paths: list[EdgePath] = []
    for user, box in enumerate(boxes):
        for slot, source in enumerate(box.sources):
            bends: list[int] = []
            if depth[source] - depth[user] > 1 and len(widths) < len(boxes) + MOST_BENDS:
                for passed in range(depth[source] - 1, depth[user], -1):
                    bends.append(len(widths))
                    layers[deepest - passed].append(len(widths))
                    widths.append(2.0)
                    above.append([])
            chain = [source, *bends, user]
            for upper, lower in itertools.pairwise(chain):
                above[lower].append(upper)
            paths.append((source, user, bends, slot, len(box.sources)))
    return paths


def _order(layers: list[list[int]], above: list[list[int]], below: list[list[int]]) -> None:
    """Sort each layer in place by the mean rank of its neighbours: downwards, then upwards, SWEEPS times in all.

    `above` and `below` have the neighbours of each box in the next layers.
    """
    rank = [0.0] * len(above)
    for layer in layers:
        for index, n in enumerate(layer):
            rank[n] = float(index)
    for sweep in range(SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            keys = {n: _mean([rank[m] for m in neighbours[n]], rank[n]) for n in layer}
            layer.sort(key=keys.__getitem__)
            for index, n in enumerate(layer):
                rank[n] = float(index)


def _columns(layers: list[list[int]], widths: list[float], above: list[list[int]],
             below: list[list[int]]) -> list[float]:  # fmt: skip
    """Return the x of the middle of every box: as near to its neighbours as the order allows.

    `layers` has the boxes of each, from left to right; `above` and `below` have their neighbours, `widths` is in
    pixels.
    """
    x = [0.0] * len(above)
    for layer in layers:
        _settle(layer, [0.0] * len(layer), widths, x)
    for sweep in range(SWEEPS + 1):
        neighbours = above if sweep % 2 == 0 else below
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            _settle(layer, [_mean([x[m] for m in neighbours[n]], x[n]) for n in layer], widths, x)
    return x


def _mean(values: list[float], otherwise: float) -> float:
    """Return the mean of `values`; `otherwise` where there are none."""
    return sum(values) / len(values) if values else otherwise


def _settle(layer: list[int], wish: list[float], widths: list[float], x: list[float]) -> None:
    """Set the `x` of the boxes of a layer as near to `wish` in least squares as their order and their widths allow.

    With the distances of neighbours subtracted, the x must only ascend: pool adjacent violators does that in one pass.
    `layer` has the boxes from left to right, `widths` those of all boxes.
    """
    offset, offsets = 0.0, []
    for index, n in enumerate(layer):
        if index:
            offset += (widths[layer[index - 1]] + widths[n]) / 2 + GAP_X
        offsets.append(offset)
    pools: list[tuple[float, int]] = []  # mean, count
    for index in range(len(layer)):
        mean, count = wish[index] - offsets[index], 1
        while pools and pools[-1][0] > mean:
            last, number = pools.pop()
            mean, count = (mean * count + last * number) / (count + number), count + number
        pools.append((mean, count))
    index = 0
    for mean, count in pools:
        for _ in range(count):
            x[layer[index]] = mean + offsets[index]
            index += 1
