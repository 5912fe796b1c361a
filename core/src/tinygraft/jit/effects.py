"""Effects of a call that its launches do not repeat: with one of them the function is run in every call.

    before = BeforeCall(args, kwargs, arguments)
    result, sample = function(*args, **kwargs), [object()]
    before.obstacle(trace, capture, touched, result, sample)   # a reason, or ""

References to arguments and results are counted (references.py): a result that is also an attribute has more of them.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any

from tinygraft.engine.capture import Capture
from tinygraft.jit.arguments import Arguments
from tinygraft.jit.filled import GradsBefore
from tinygraft.jit.references import References, are_values, is_elsewhere
from tinygraft.jit.trace import Trace
from tinygraft.tensor.nested import items_in, same_items, tensors_in
from tinygraft.tensor.primitives.base import TensorBase
from tinygraft.tensor.state.live import TouchedTensors, alive, live_tensors
from tinygraft.uop.held import HELD, buffers_of
from tinygraft.uop.uop import postorder


class BeforeCall:
    """What arguments, grads and containers were before a call. `grads` are those of all live tensors."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], arguments: Arguments) -> None:
        self._nested, self._arguments = (args, kwargs), arguments
        self._items, self._references = items_in(self._nested), References(self._nested)
        self._states = [_state_of(tensor) for tensor in arguments.tensors]
        self._versions = _versions(arguments)
        self.grads: GradsBefore = GradsBefore(live_tensors())
        self.left_containers: bool = False  # whether the call has left a list or dict of its arguments elsewhere

    def written_views(self) -> set[int]:
        """Return the numbers of the tensors, views among the arguments, whose storages were written since."""
        now = _versions(self._arguments)
        return {
            i
            for i, version in enumerate(self._versions)
            if None not in (version, now[i]) and now[i] != version  # a storage that nothing shares any more is gone
        }

    def obstacle(self, trace: Trace, capture: Capture, touched: TouchedTensors, result: Any, sample: list[Any]) -> str:
        """Return why launching the call's `trace` again would not do what the call did; "" where it would.

        `result` is what the caller got. `sample` is a new list to which the caller refers as it does to that.
        """
        tensors = self._arguments.tensors
        if why := trace.why_not(result):
            return why
        if not are_values(result):
            return "its result has an object that may change, which all replays would return"
        if not same_items(self._items, items_in(self._nested)):
            return "it changes a list, dict or dataclass of its arguments"
        if self._states != [_state_of(tensor) for tensor in tensors]:
            return "it gives an argument other memory, or another flag"
        if not self.grads.keeps_grads(tensors):
            return "it gives an argument a grad, or drops that"
        if why := self._left(trace, capture, touched, result, sample):
            gc.collect(1)  # what refers to it may be a cycle that the call has left
            why = self._left(trace, capture, touched, result, sample)
        return why

    def _left(self, trace: Trace, capture: Capture, touched: TouchedTensors, result: Any, sample: list[Any]) -> str:
        """Return what the call has left elsewhere, as a reason; "" for nothing. The parameters are those above."""
        if _leaves_work(capture):
            return "it leaves a lazy tensor outside its result"
        if _leaves_values(trace, capture, tensors_in(result), self._arguments.tensors, alive(touched.written)):
            return "it leaves a tensor elsewhere that has memory of its result or of an argument, or no memory"
        if grown := self._references.grown(result, sample):
            self.left_containers |= any(isinstance(item, (list, dict, deque)) for item in grown)
            return "it leaves an argument elsewhere: something else refers to it afterwards"
        if is_elsewhere(result, sample, capture.existed, self.grads.now()):
            return "it leaves its result elsewhere, too: something else refers to it"
        if self.grads.are_kept(tensors_in(result)):
            return "it leaves a grad elsewhere, too: something else than its tensor refers to it"
        return ""


def _state_of(tensor: TensorBase) -> tuple[Any, ...]:
    """Return what a replay leaves as it is of an argument, beside its grad: its memory, and whether it requires one."""
    return [node.arg.uid for node in buffers_of(tensor.uop.base)], tensor.requires_grad


def _versions(arguments: Arguments) -> list[int | None]:
    """Return how often the storage of each tensor among the arguments was written; None for one without views."""
    return [None if tensor._storage is None else tensor._storage.version for tensor in arguments.tensors]


def _leaves_work(capture: Capture) -> bool:
    """Return whether a call has left a new lazy tensor outside its result: a replay would launch nothing for it."""
    return any(
        tensor.uop.base.op not in HELD
        and not capture.existed(tensor)
        and any(node.op in HELD for node in postorder(tensor.uop))
        for tensor in live_tensors()
    )


def _leaves_values(trace: Trace, capture: Capture, results: Sequence[TensorBase], arguments: Sequence[TensorBase],
                  written: Iterable[TensorBase]) -> bool:  # fmt: skip
    """Return whether tensors outside of the result have values that a replay would not give them.

    That is memory of the result, or of an argument; and, for a tensor of `written`, to which the call assigned, memory
    that no launch writes. `arguments` are the tensors among the arguments.
    """
    mine, given = ({id(tensor) for tensor in tensors} for tensors in (results, arguments))
    made = {
        b.arg.uid for t in results for b in buffers_of(t.uop.base) if trace.roles.get(b.arg.uid, ("",))[0] == "made"
    }
    inside = {uid for uid, (role, _) in trace.roles.items() if role == "in"} | {*trace.arguments}
    stored = {uid for launch in trace.launches for uid in launch.written()}
    for tensor in live_tensors():
        if id(tensor) in mine or id(tensor) in given:
            continue
        memory = {buffer.arg.uid for buffer in buffers_of(tensor.uop.base)}
        if not memory.isdisjoint(made) or (not capture.existed(tensor) and not memory.isdisjoint(inside)):
            return True
    for tensor in written:
        whole = tensor.uop if tensor._storage is None else tensor._storage.uop  # elements of a view may be cached
        memory = {buffer.arg.uid for buffer in buffers_of(whole.base) if buffer.arg.size}
        known = memory and memory <= stored
        if id(tensor) not in given and capture.existed(tensor) and not known and 0 not in whole.shape:
            return True
    return False
