"""checkpoint: the intermediate values of a function are not kept for its gradient but computed again.

The value is that of the function, over a FUNCTION node whose derivative is that of a second copy of the function's
graph, over nodes of its own that come AFTER the gradient of the value. The nodes that the gradient reads are then not
those of the value, so none of these has to stay in memory in between. It costs one more run of the function. The
idea is that of Chen et al., "Training deep nets with sublinear memory cost", 2016.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from tinygraft.autograd.walk import gradient
from tinygraft.engine.assigns import assigned_to
from tinygraft.tensor.nested import mapped
from tinygraft.tensor.primitives.custom import with_derivative
from tinygraft.tensor.tensor import Tensor
from tinygraft.transforms.call import TransformCall, check_function, stand_in
from tinygraft.uop.ops import Ops
from tinygraft.uop.uop import UOp, rebuild, toposort


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the same value and gradient whose gradient computes the intermediate values that it needs again.

    Gradients flow to the tensors among the arguments and to all others that function reads, such as weights. Random
    numbers that function draws are the same both times. Writes of function, such as to a cache, happen once, when it is
    called.

    >>> from tinygraft import Tensor, checkpoint
    >>> x = Tensor([1.0, 2.0], requires_grad=True)
    >>> y = checkpoint(lambda x: (x.exp() * x).sum())(x)
    >>> [round(g, 3) for g in y.gradient(x)[0].tolist()]
    [5.437, 22.167]
    """

    check_function("checkpoint", function)

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        """Call the function, give its results a gradient that computes them again, and carry out its writes once."""
        call = TransformCall("checkpoint", function, args, kwargs, None)
        result = mapped(call.result, Tensor, lambda result: _forgetful(call, result))
        # the function wrote to stand-ins: assign their values to the arguments
        written = [i for i, node in enumerate(call.inside) if call.tensors[i].uop is not node]
        for i, value in zip(written, call.known([call.tensors[i].uop for i in written]), strict=True):
            call.given[i].assign(call.given[i]._wrap(value))
        return result

    return wrapped


def _forgetful(call: TransformCall, result: Tensor) -> Tensor:
    """Return a result of a call as a value whose gradient is that of a second copy of its graph.

    What is no float has no gradient, and is returned as it is.
    """
    value = call.tensor(result.uop)
    if value.dtype.kind != "float":
        return value
    read = _read(result.uop, call.inside)
    inputs = [*call.given, *(value._wrap(node) for node in read)]
    unknown = [UOp.placeholder(node.shape, node.dtype, node.device, call.what) for node in (*call.inside, *read)]
    graph = rebuild([result.uop], dict(zip((*call.inside, *read), unknown, strict=True)))[result.uop]
    written = {assigned_to(node) for node in toposort(graph) if node.op is Ops.ASSIGN}

    def derive(node: UOp, start: Tensor, wanted: list[bool]) -> Sequence[Tensor | None]:
        """Return the gradients of the second copy of the graph, over inputs that come AFTER the gradient `start`.

        So its intermediate values are other nodes than those of the first run, and none of these is kept in memory.
        """
        known = [UOp(Ops.AFTER, source.dtype, (stand_in(source), start.uop)) for source in node.src[1:]]
        known = [
            UOp(Ops.CONTIGUOUS, again.dtype, (again,)) if one in written else again
            for one, again in zip(unknown, known, strict=True)
        ]  # the first run has written to the memory already: the writes of the second one go to a copy
        found = gradient(graph, unknown, start.uop)
        asked = [part for part, want in zip(found, wanted, strict=True) if part is not None and want]
        again = rebuild(asked, dict(zip(unknown, known, strict=True)))
        return [
            None if part is None or not want else start._wrap(again[part])
            for part, want in zip(found, wanted, strict=True)
        ]

    return with_derivative(call.name, value, inputs, derive)


def _read(root: UOp, inside: Sequence[UOp]) -> list[UOp]:
    """The values from memory that a graph reads besides the nodes inside: such as weights, masks and indices.

    Of any dtype: a dropout mask is of bools and comes from a counter of random numbers, which the next draw advances;
    an index may be overwritten before the second run.
    """
    stand_ins = set(inside)
    depends, from_memory = set(stand_ins), set[UOp]()
    order = toposort(root)
    for node in order:
        if node.op is Ops.BUFFER or any(source in from_memory for source in node.src):
            from_memory.add(node)
        if any(source in depends for source in node.src):
            depends.add(node)
    users = [node for node in order if node in depends and node not in stand_ins]
    used = [source for node in users for source in node.src] if root in depends else [root]
    return [node for node in dict.fromkeys(used) if node not in depends and node in from_memory]
