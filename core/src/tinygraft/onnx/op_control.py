"""Operators of ONNX: subgraphs that are run by a condition, a number of times, or along an axis.

How often, and which, is read on the host: a subgraph is made once for each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tinygraft.dtype import dtypes
from tinygraft.errors import UnsupportedError
from tinygraft.onnx.host_values import Known
from tinygraft.onnx.operator_table import NodeCall, OnnxValue, number, operator, unrolled
from tinygraft.tensor.tensor import Tensor


@operator("If", steers="condition")
def branch(condition: Any, *, else_branch: Any, then_branch: Any, node: NodeCall) -> tuple[OnnxValue, ...]:
    """Return the outputs of one of two subgraphs; the condition is read."""
    return tuple(node.run(then_branch if bool(number(condition)) else else_branch, []))


@operator("Loop", steers="count condition")
def loop(count: Any, condition: Any, *carried: OnnxValue, body: Any, node: NodeCall) -> tuple[OnnxValue, ...]:
    """Return the values carried out of a subgraph, and what it yields each time, stacked along a new axis 0.

    It runs while a condition holds and at most `count` times; None for either is no limit. Raises UnsupportedError
    where it runs no time and would yield tensors.
    """
    values: list[OnnxValue] = list(carried)
    most = number(count)
    going = condition is None or bool(number(condition))
    yielded: list[list[Tensor]] = [[] for _ in body.outputs[1 + len(carried) :]]
    step = 0
    while going and (most is None or step < most):
        results = node.run(body, [Known((), (step,)), Tensor(True, dtype=dtypes.bool), *values])
        going = bool(number(results[0].tolist())) if condition is not None or most is None or step + 1 < most else going
        values = results[1 : 1 + len(carried)]
        for each, result in zip(yielded, results[1 + len(carried) :], strict=True):
            each.append(result)
        step += 1
    if any(not each for each in yielded):
        raise UnsupportedError("Loop ran no time and yields tensors, whose shape is not known then")
    return (*values, *(each[0].stack(*each[1:]) for each in yielded))


@operator("Scan")
def scan_8(
    sequence_lens: Tensor | None = None, *values: Tensor, body: Any, num_scan_inputs: int, directions: Any = None,
    node: NodeCall,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return what `scan` does along the second axis of each sample of a batch, stacked.

    Raises UnsupportedError for lengths of sequences.
    """
    if sequence_lens is not None:
        raise UnsupportedError("Scan of version 8 with lengths of sequences is not done; version 9 has none")
    samples = []
    for sample in range(unrolled(values[0].shape[0], "Scan")):
        own = [value[sample] for value in values]
        samples.append(
            scan(*own, body=body, num_scan_inputs=num_scan_inputs, scan_input_directions=directions, node=node)
        )
    return tuple(parts[0].stack(*parts[1:]) for parts in zip(*samples, strict=True))


@operator("Scan", since=9)
def scan(
    *values: Tensor, body: Any, num_scan_inputs: int, scan_input_axes: Sequence[int] | None = None,
    scan_input_directions: Sequence[int] | None = None, scan_output_axes: Sequence[int] | None = None,
    scan_output_directions: Sequence[int] | None = None, node: NodeCall,
) -> tuple[Tensor, ...]:  # fmt: skip
    """Return the last states, and what a subgraph yields along an axis of its inputs, stacked.

    The last num_scan_inputs of `values` are gone through, along scan_input_axes and backwards where a direction is 1;
    those before are the states. Raises UnsupportedError for very many steps.
    """
    split = len(values) - num_scan_inputs
    states: list[Any] = list(values[:split])
    axes = list(scan_input_axes or [0] * num_scan_inputs)
    inputs = [value.movedim(axis, 0) for value, axis in zip(values[split:], axes, strict=True)]
    back = list(scan_input_directions or [0] * num_scan_inputs)
    length = unrolled(inputs[0].shape[0], "Scan")
    yielded: list[list[Tensor]] = [[] for _ in body.outputs[split:]]
    for step in range(length):
        now = [each[length - 1 - step if back[i] else step] for i, each in enumerate(inputs)]
        results = node.run(body, [*states, *now])
        states = results[:split]
        for each, result in zip(yielded, results[split:], strict=True):
            each.append(result)
    out_axes = list(scan_output_axes or [0] * len(yielded))
    out_back = list(scan_output_directions or [0] * len(yielded))
    stacked = []
    for i, each in enumerate(yielded):
        each = each[::-1] if out_back[i] else each
        stacked.append(each[0].stack(*each[1:], dim=out_axes[i]))
    return (*states, *stacked)
