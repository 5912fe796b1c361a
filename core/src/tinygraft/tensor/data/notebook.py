"""What a notebook shows of a tensor: one piece of HTML with tabs, which loads nothing and needs no script.

In: a tensor. Out: its values as `repr` prints them, a picture where it is a matrix or an image, the graph that would be
computed, and the kernels with their sources. Nothing is computed; what is not known says why.
"""

from __future__ import annotations

import base64
import html
import itertools
import os
import struct
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tinygraft import events
from tinygraft.device.registry import Device
from tinygraft.engine.capture import open_captures
from tinygraft.engine.drawing import draw_graph
from tinygraft.engine.layout import CHAR, LINE, PADDING, lay_out
from tinygraft.tensor.data.shown_values import NotInMemory, array_text, text_of, values_at
from tinygraft.uop.held import is_constant, is_stored
from tinygraft.uop.sharding import local_devices
from tinygraft.uop.sizes import is_concrete
from tinygraft.uop.stages import KernelCall
from tinygraft.uop.uop import UOp, toposort

if TYPE_CHECKING:
    from numpy import ndarray

    from tinygraft.tensor.tensor import Tensor

# assumed: looked at, never timed
MOST_BOXES = 80  # of the graph
MOST_NODES = 400  # of a graph that is scheduled for its kernels, about 1 ms each
MOST_KERNELS = 8  # whose source is shown
SIDE = 128  # elements of a picture, across and down
LEAST_PIXELS = 160  # of the larger side on the page
COLOURS = {  # of the boxes, by kind: those of the page of VIZ=1
    "number": "#e8e8e8", "memory": "#cfe3ff", "movement": "#fff1c4", "math": "#d6f2d6", "reduce": "#ffd9c9",
    "range": "#e7dcff", "call": "#cfe3ff", "control": "#f2f2f2",
}  # fmt: skip

_numbers = itertools.count()


def page_of(tensor: Tensor) -> str:
    """Return the HTML of a tensor. Never raises: a part that cannot be made says why."""
    try:
        about = (
            f"<b>Tensor</b> {tensor.dtype.name} {html.escape(str(tensor.shape))} on {html.escape(str(tensor.device))}"
        )
        gradient = "" if tensor.grad is None else _pre(text_of(tensor.grad, with_grad=False))
        parts = [("values", _values(tensor)), ("gradient", gradient), ("graph", _made(_graph, tensor)),
                 ("kernels", _made(_kernels, tensor))]  # fmt: skip
        return _tabs(about, [(name, text) for name, text in parts if text])
    except Exception:  # half of a tensor: its text says what is wrong
        return _pre(text_of(tensor))


def _pre(text: str) -> str:
    """Return text as HTML of a fixed width, escaped."""
    return f'<pre style="margin:0;white-space:pre-wrap">{html.escape(text)}</pre>'


def _made(make: Any, tensor: Tensor) -> str:
    """Return a part of the page, or the error of making it."""
    try:
        return str(make(tensor))
    except Exception as error:
        return _pre(f"{type(error).__name__}: {error}")


def _tabs(about: str, parts: Iterable[tuple[str, str]]) -> str:
    """Return parts as tabs: buttons of a form of which one is chosen, and style that shows what follows it.

    Where a viewer removes styles all parts are shown, one after another.
    """
    one = f"tinygraft-{os.getpid()}-{next(_numbers)}"
    style = (
        f"#{one}>input{{display:none}}#{one}>div{{display:none;order:9;width:100%;overflow:auto;padding-top:6px}}"
        f"#{one}>input:checked+label{{border-bottom:2px solid #888}}#{one}>input:checked+label+div{{display:block}}"
        f"#{one}>label{{cursor:pointer;padding:0 8px;margin:0}}"
    )
    rows = []
    for number, (name, text) in enumerate(parts):
        at = f"{one}-{number}"
        rows.append(f'<input type="radio" name="{one}" id="{at}"{" checked" * (not number)}>'
                    f'<label for="{at}">{name}</label><div>{text}</div>')  # fmt: skip
    return (
        f"<style>{style}</style><div>{about}</div>"
        f'<div id="{one}" style="display:flex;flex-wrap:wrap">{"".join(rows)}</div>'
    )


def _values(tensor: Tensor) -> str:
    """Return the values, with a picture beside them; the node of a lazy tensor."""
    try:
        text = array_text(tensor)
    except NotInMemory:
        return _pre(text_of(tensor, with_grad=False))
    return f'<div style="display:flex;gap:16px;align-items:flex-start">{_picture(tensor)}<div>{_pre(text)}</div></div>'


# The picture


def _picture(tensor: Tensor) -> str:
    """Return a small picture of a matrix, or of an image with its channels first or last; empty for others."""
    import numpy as np

    shape = tensor.shape
    channels = _channel_axis(shape)
    if (
        tensor.dtype.kind == "complex"
        or 0 in shape
        or not ((len(shape) == 2 and min(shape) > 1) or channels is not None)
    ):
        return ""
    picked = [np.arange(n) if axis == channels else np.linspace(0, n - 1, min(n, SIDE)).astype(int)
              for axis, n in enumerate(shape)]  # fmt: skip
    try:
        pixels = values_at(tensor, picked)
    except NotInMemory:
        return ""
    scaled, low, high = _scaled(pixels, channels is not None)
    if channels == 0:
        scaled = np.moveaxis(scaled, 0, 2)
    height, width = scaled.shape[:2]
    scale = max(1, LEAST_PIXELS // max(height, width))
    said = f"black is {low:g}, white is {high:g}"
    return (
        f'<img alt="{said}" title="{said}" width="{width * scale}" height="{height * scale}" '
        f'style="image-rendering:pixelated" src="data:image/png;base64,{base64.b64encode(_png(scaled)).decode()}">'
    )


def _channel_axis(shape: Any) -> int | None:
    """Return the axis with the channels of an image, which has 1, 3 or 4 of them; None of what is none."""
    if len(shape) != 3 or not is_concrete(shape) or min(shape[:2]) < 1:
        return None
    last, first = shape[2] in (1, 3, 4), shape[0] in (1, 3, 4)
    sides = shape[:2] if last else shape[1:]
    return (2 if last else 0) if (last or first) and min(sides) > 4 else None


def _scaled(pixels: ndarray[Any, Any], is_image: bool) -> tuple[ndarray[Any, Any], float, float]:
    """Return numbers as bytes, and which numbers became 0 and 255.

    Bytes and images within 0 to 1 keep their meaning; anything else is stretched from its least number to its greatest.
    NaN is black.
    """
    import numpy as np

    if pixels.dtype == np.uint8 and is_image:
        return pixels, 0.0, 255.0
    numbers = pixels.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    if pixels.dtype == bool or (is_image and low >= 0 and 0 < high <= 1):
        low, high = 0.0, 1.0
    span = high / 2 - low / 2 or 0.5  # halved, as the difference of large numbers is infinite
    with np.errstate(all="ignore"):
        shares = np.nan_to_num((numbers / 2 - low / 2) / span, nan=0.0, posinf=1.0, neginf=0.0)
    return (np.clip(shares, 0, 1) * 255).round().astype(np.uint8), low, high


def _png(pixels: ndarray[Any, Any]) -> bytes:
    """Return bytes of shape (height, width) or (height, width, 1, 3 or 4) as a PNG file (ISO 15948)."""
    import numpy as np

    height, width = pixels.shape[:2]
    kind = {1: 0, 3: 2, 4: 6}[pixels.shape[2] if pixels.ndim == 3 else 1]
    rows = np.ascontiguousarray(pixels).reshape(height, -1)
    data = b"".join(b"\0" + row.tobytes() for row in rows)

    def chunk(name: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))

    header = struct.pack(">IIBBBBB", width, height, 8, kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(data)) + chunk(b"IEND", b"")


# The graph and its kernels


def _nodes(tensor: Tensor) -> list[UOp]:
    """Return the nodes of the tensor, of a complex one those of both parts, that would be computed."""
    return [part.uop for part in tensor._parts() if not is_stored(part.uop)]


def _graph(tensor: Tensor) -> str:
    """Return the graph as drawings; of a tensor in memory one sentence."""
    nodes = _nodes(tensor)
    return "".join(_svg(node) for node in nodes) or _pre("in memory: there is nothing left to compute")


def _svg(node: UOp) -> str:
    """Return the graph of a node as a drawing."""
    drawing = draw_graph(node, MOST_BOXES)
    placed = lay_out(drawing)
    parts = []
    for _, _, points in placed.lines:
        path = " ".join(f"{x:.0f},{y:.0f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="#888"/>')
    for (x, y, width, height), box in zip(placed.boxes, drawing.boxes, strict=True):
        parts.append(f'<rect x="{x:.0f}" y="{y:.0f}" width="{width:.0f}" height="{height:.0f}" rx="4" '
                     f'fill="{COLOURS[box.kind]}" stroke="#888"/>')  # fmt: skip
        for number, line in enumerate([box.title, *box.lines]):
            bold = ' font-weight="bold"' if not number else ""
            parts.append(
                f'<text x="{x + PADDING:.0f}" y="{y + (number + 1) * LINE:.0f}"{bold}>{html.escape(line)}</text>'
            )
    note = _pre(f"{drawing.omitted} more nodes are not shown") if drawing.omitted else ""
    width, height = placed.width + 2, placed.height + 2
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="-1 -1 {width:.0f} {height:.0f}" font-family="monospace" font-size="{CHAR / 0.6:.1f}" fill="#222">'
        f"{''.join(parts)}</svg>{note}"
    )


def _kernels(tensor: Tensor) -> str:
    """Return the calls that would compute the tensor, each kernel with its source; or why they are not shown."""
    nodes = [node for node in _nodes(tensor) if not is_constant(node)]
    if not nodes:
        return _pre("nothing would be launched")
    if reason := _why_not_scheduled(nodes):
        return _pre(reason)
    from tinygraft.codegen.lower import kernel_name, to_linear
    from tinygraft.codegen.options import Options
    from tinygraft.engine.record import call_text
    from tinygraft.schedule.schedule import schedule

    parts = []
    for number, call in enumerate(schedule(_plain(nodes), lambda name: Device[name].target).calls):
        if not isinstance(call, KernelCall) or number >= MOST_KERNELS:
            parts.append(_pre(call_text(call)))
            continue
        backend = Device[call.device]
        source = backend.renderer.render(to_linear(call.kernel, backend.target, Options.here([backend.target])))
        parts.append(f"<details><summary><code>{html.escape(kernel_name(call.kernel))}</code> "
                     f"{html.escape(call_text(call))}</summary>{_pre(source.text)}</details>")  # fmt: skip
    return "".join(parts)


def _plain(nodes: list[UOp]) -> list[UOp]:
    """Return nodes as a schedule gets them: what has memory to be, without functions of users."""
    from tinygraft.engine.bindings import with_separate_names
    from tinygraft.engine.plan import without_functions
    from tinygraft.uop.held import memory_base

    wanted = list(dict.fromkeys(memory_base(node) for node in nodes))
    return list(with_separate_names(list(without_functions(wanted).values())).values())


def _why_not_scheduled(nodes: list[UOp]) -> str:
    """Return why the kernels of a graph are not shown; empty where they can be."""
    if open_captures():
        return "not shown while TinyJit records"
    if events.active:  # an observer would take them for what the program does
        return "not shown while VIZ=1, explain or a hook observes: they have them"
    order = toposort(*nodes)
    if len(order) > MOST_NODES:
        return f"not shown for graphs of more than {MOST_NODES} nodes, this one has {len(order)}: see schedule()"
    names = {name for node in order if isinstance(place := node.device, (str, tuple))
             for name in ([place] if isinstance(place, str) else local_devices(place))}  # fmt: skip
    if closed := sorted(names - set(Device.opened())):
        return f"not shown before {', '.join(closed)} is opened, by the first realize"
    return ""
