"""Says once where the same operations are compiled again and again, and why.

DEBUG=1, profiles and TinyJit do so for all; a program that asks for nothing is warned where numbers are no arguments.

note(order, outputs, captured, stays)       called for graphs that have no plan yet
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tinygraft import events
from tinygraft.config import DEBUG
from tinygraft.helpers import short_path, user_line, warn_user
from tinygraft.uop.ops import Ops
from tinygraft.uop.show import show_arg
from tinygraft.uop.uop import UOp

# assumed: what is compiled so often will be compiled for every further value
TOLD = 8
# assumed: a bound on memory that no usual program meets
MOST = 256  # graphs that are counted; the least recently compiled one is forgotten first


@dataclass(slots=True)
class Repetition:
    """How often a graph of these operations was compiled, for which shapes, and with which args the last time."""

    count: int = 0
    shapes: dict[Any, None] = field(default_factory=dict)
    args: list[Any] = field(default_factory=list)


_counted: OrderedDict[Any, Repetition] = OrderedDict()


def note(order: Sequence[UOp], outputs: Sequence[UOp], captured: bool, stays: str) -> None:
    """Count a graph that is compiled; when its operations are for the TOLDth time, report why they are so often.

    DEBUG=1 prints it, and observers are notified of it. Where a TinyJit captures it, that is a RuntimeWarning: who
    wrote `@TinyJit` expects that it is captured once. So it is where numbers stay constants, as each call is slow then.
    `captured`: a TinyJit records it. `stays` says why its numbers are no arguments of kernels, or nothing.
    """
    numbers = {node: number for number, node in enumerate(order)}
    key = tuple([(node.op, node.dtype, *[numbers[s] for s in node.src]) for node in order])
    found = _counted.setdefault(key, Repetition())
    _counted.move_to_end(key)
    while len(_counted) > MOST:
        _counted.popitem(last=False)
    args = [node.arg.size if node.op is Ops.BUFFER else None if node.op is Ops.BIND else node.arg for node in order]
    found.count += 1
    found.shapes[tuple([node.shape for node in (*order, *outputs)])] = None
    if found.count == TOLD:
        file, line = user_line()
        where = f"{short_path(file)}:{line}"
        why = _why(order, outputs, found, args, captured, stays)
        text = f"the same operations were compiled {TOLD} times, {why}"
        if DEBUG.value >= 1:
            print(f"{where}: {text}")
        elif captured:
            warn_user(f"{text}\n  a TinyJit that captures each call anew is slower than none", RuntimeWarning)
        elif stays and len(found.shapes) == 1:
            warn_user(text, RuntimeWarning)
        if events.on_repeat:
            events.notify(events.RepeatEvent(why=why))
    found.args = args


def _why(order: Sequence[UOp], outputs: Sequence[UOp], found: Repetition, args: Sequence[Any], captured: bool,
         stays: str) -> str:  # fmt: skip
    """Return what differed, and what to do about it, as the end of a sentence.

    `found` is what is known of the earlier compilations, `args` are the args of the nodes of `order` now. Shapes are
    named first, then a capture, then `stays`, then the first arg that differs. `captured` says that a TinyJit records
    the graph.
    """
    if len(found.shapes) > 1:
        result = len(order)  # where the shapes of the outputs begin
        ends = dict.fromkeys([shapes[result] for shapes in found.shapes])
        text = f", at last for a result of {show_arg(outputs[0].shape)}" if len(ends) > 1 else ""
        return (
            f"for {len(found.shapes)} shapes or more{text}\n"
            "  hint: keep one shape (pad what is shorter), or give the size that changes as a Variable"
        )
    if captured:
        return (
            "because Python numbers in a function under TinyJit are part of what it captures, also those that it reads "
            "with item() or numpy()\n"
            "  hint: give what changes as an argument that is a Tensor or a bound Variable, and read nothing in it"
        )
    if stays:
        return f"once for each Python number: {stays}\n  hint: put the numbers that change into a Tensor"
    at = next((i for i, (old, new) in enumerate(zip(found.args, args, strict=True)) if old != new), None)
    if at is None:
        return "on devices or with settings that differ"
    node = order[at]
    what, user = f"the arg of {node.op.name}", node
    if node.op is Ops.CONST:
        moved = {node}
        for user in order[at + 1 :]:
            if not moved.isdisjoint(user.src):
                if user.op not in (Ops.RESHAPE, Ops.EXPAND):
                    break
                moved.add(user)
        what = f"a number of {user.op.name}"
    return (
        f"as {what} differs, which kernels are specialised for: {show_arg(found.args[at])}, now {show_arg(args[at])}\n"
        "  hint: put what changes into a Tensor"
    )
